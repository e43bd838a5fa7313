"""Rigorous brackets for (1/n)·E[(G_1 + … + G_n)⁺] with independent G of finitely many values.

If the message distributions of all others are at least the sub-density w (the "privacy blanket"), then for messages s
drawn with density w, G = (μ_x(s) − e^ε μ_x'(s))/w(s), and G = 0 with the mass that w lacks,

    δ(ε) ≤ (1/n)·E[(G_1 + … + G_n)⁺]         [Balle, Bell, Gascón, Nissim 2019, Lemma 5.3]

whatever the others hold, with equality if w is the exact distribution of all their messages. The bracket comes from a
tilted Bromwich integral, E[S⁺] ≤ E[(S + ηZ)⁺] = (1/2π)·∫ M(z)ⁿ e^{η²z²/2} z⁻² dw, z = t + iw, Z standard normal:

1. *Smoothing* raises the value (Jensen), by at most η²·p_η(0), where p_η is the density of S + ηZ: its derivative in η
   is η·p_η(0), and s·p_s(0) ≤ η·p_η(0) for s ≤ η. The same nodes give p_η(0).
2. *The trapezoid rule* with period Y adds e^{tlY}·E[(S + ηZ − lY)⁺] ≥ 0 (Poisson summation), bounded by Chernoff.
3. *Cutting off* the frequencies above Ω costs at most a Gaussian tail.

All three only raise the upper end, and all three are subtracted from the lower end. Atoms so large that a single one
forces S ≥ 0 are split off in closed form: they are what makes long bit vectors heavy-tailed.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.errors import check_whole, reject

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

UNIT = 2.0**-53
CUT = 4.0  # Ω·η
WORK = 2**26
"""Largest number of nodes × atoms of one quadrature; with less than it needs, the bracket is valid but wider."""
BLOCK = 256
PIECE = 2**14
SMALL = 2**18  # multiplications of one matrix product
FLOOR = -80.0  # below e^−80 the Chernoff bound is good enough


@dataclass(frozen=True, slots=True)
class Bracket:
    """Lower and upper bound on the logarithm of a value."""

    lower: float
    upper: float


def _merge(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return sorted atoms with positive weight, none at zero, equal ones merged into the larger."""
    keep = (weights > 0) & (values != 0)
    order = np.argsort(values[keep])
    values, weights = values[keep][order], weights[keep][order]
    if len(values) == 0:
        return values, weights
    last = np.append(np.diff(values) > 1e-13 * np.abs(values[1:]), True)
    group = np.concatenate([[0], np.cumsum(last[:-1])])
    return values[last], np.bincount(group, weights).astype(np.float64)


class Integral:
    """The tilted integrand of one sum: atoms, number of terms, and the weights of one extra term."""

    def __init__(self, values: Floats, weights: Floats, n: int, lost: float, extra: Floats | None = None) -> None:
        self.values, self.weights, self.n, self.lost, self.extra = values, weights, n, lost, extra
        self.scale = math.sqrt(n * float(weights @ values**2)) or 1.0
        self.most = min(2**21, max(2**12, WORK // len(values)))

    def log_mgf(self, t: Floats) -> Floats:
        """Return ln E e^{tS} at real points."""
        power = np.expm1(np.outer(t, self.values))
        with np.errstate(divide="ignore", invalid="ignore"):
            result = self.n * np.log1p((power * self.weights).sum(axis=1) - self.lost)
            if self.extra is not None:
                result += np.log1p((power * self.extra).sum(axis=1))
        return np.asarray(result)

    def tilt(self, order: int) -> float:
        """Return about the t that minimizes M(t)ⁿ·t^−order; every t is valid, a good one makes the integrand smooth."""
        top = float(self.values[-1])
        low, high = math.log(1e-3 / self.scale), math.log(500.0 / top)
        low = min(low, high - 10.0)
        for _ in range(3):
            grid = np.linspace(low, high, 48)
            best = int(np.nanargmin(self.log_mgf(np.exp(grid)) - order * grid))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, 47)]
        return math.exp(grid[best])

    def line(self, t: float, smoothing: float, period: float) -> "_Line":
        """Return the nodes of the trapezoid rule with this period, up to where the smoothing leaves nothing."""
        step = 2 * math.pi / period
        count = min(math.ceil(CUT / smoothing / step) + 1, self.most)
        reach = step * (count - 1)
        decay = math.exp(-(smoothing**2) * (reach**2 - t**2) / 2)
        return _Line(self, t, smoothing, step, count, reach, decay / math.pi * (step + 1 / (smoothing**2 * reach)))

    def rounding(self, t: float, reach: float) -> float:
        """Return a bound on the rounding error of nodes up to the frequency ``reach``, relative to their sizes.

        Each of the n·ln M has errors of a few units in the powers e^{zg}, whose phases are off by a unit of reach·g,
        and of a unit for each atom added up.
        """
        tilted = self.weights * np.exp(t * self.values)
        terms = float((tilted * (len(tilted) + 2.0 + reach * np.abs(self.values))).sum())
        return 8 * UNIT * (self.n * terms + 200.0)

    def images(self, t: float, period: float, smoothing: float, order: int, reference: float) -> float:
        """Return a bound on the images of the trapezoid rule, relative to e^reference."""
        points = t * np.array([1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 8.0])
        points = points[points * self.values[-1] < 600.0]
        above = math.inf
        if len(points):
            log_value = self.log_mgf(points) + (smoothing * points) ** 2 / 2 - (points - t) * period
            if order == 2:
                log_value -= 1 + np.log(points)  # E(S − y)⁺ ≤ M(t')e^{−t'y}/(e·t')
            log_value -= np.log(-np.expm1((t - points) * period))  # the images are a geometric series
            above = float(np.exp(np.minimum(log_value - reference, 700.0)).min())
        below = math.exp(min(-t * period - reference, 700.0)) * (period if order == 2 else 1.0)
        below += math.exp(-t * period) if order == 2 else 0.0
        return above + 2.0 * below  # with period ≥ 24/t, those further below shrink by far more than one half


@dataclass(frozen=True, slots=True)
class _Line:
    """The nodes z = t + i·step·j of one quadrature, the last frequency, and a bound on what lies beyond it."""

    integral: Integral
    t: float
    smoothing: float
    step: float
    count: int
    reach: float
    cut: float

    def pieces(self) -> Iterator[tuple[Complexes, Complexes]]:
        """Yield z and M(z)ⁿ e^{η²z²/2}/M(t)ⁿ times the step over π, in pieces that fit into the processor's cache.

        The powers e^{zg} come from two small tables and one matrix product for each piece.
        """
        own = self.integral
        rates = self.step * own.values
        fine = np.exp(1j * np.outer(rates, np.arange(BLOCK)))
        factors = [(own.weights, own.lost, own.n)] + ([] if own.extra is None else [(own.extra, 0.0, 1)])
        # Products of few rows stay on one thread of the linear algebra library; several would stall on a busy machine.
        chunk = max(1, SMALL // (BLOCK * len(rates)))
        for start in range(0, self.count, PIECE):
            stop = min(start + PIECE, self.count)
            coarse = np.exp(1j * np.outer(np.arange(start, stop, BLOCK), rates))
            z = np.asarray(self.t + 1j * self.step * np.arange(start, stop), dtype=np.complex128)
            exponent = self.smoothing**2 * z**2 / 2
            for weights, lost, terms in factors:
                tilted = weights * np.exp(self.t * own.values)
                mass = float(tilted.sum())
                scaled = coarse * tilted
                table = np.concatenate([scaled[i : i + chunk] @ fine for i in range(0, len(scaled), chunk)])
                centre = 1.0 + mass - float(weights.sum()) - lost
                exponent += terms * np.log1p((table.ravel()[: stop - start] - mass) / centre)
            values = np.asarray(np.exp(exponent) * (self.step / math.pi), dtype=np.complex128)
            if start == 0:
                values[0] /= 2
            yield z, values

    def total(self, *factors: Callable[[Complexes], Complexes]) -> list[float]:
        """Return the real parts of the integrals of the smoothed integrand times each factor, and their rounding error.

        The error is relative to the *sizes* of the nodes, which do not cancel.
        """
        sums, sizes = [0.0] * len(factors), 0.0
        for z, values in self.pieces():
            for index, factor in enumerate(factors):
                terms = values * factor(z)
                sums[index] += float(terms.real.sum())
                if index == 0:
                    sizes += float(np.abs(terms).sum())
        return [*sums, sizes * self.integral.rounding(self.t, self.reach)]


def validated(values: ArrayLike, weights: ArrayLike, n: int) -> tuple[Floats, Floats, int]:
    g = np.asarray(values, dtype=np.float64).ravel()
    w = np.asarray(weights, dtype=np.float64).ravel()
    if g.shape != w.shape or not (np.isfinite(g).all() and np.isfinite(w).all()) or (w < 0).any():
        reject("values and weights", "be finite lists of the same length, with weights of at least 0")
    if w.sum() > 1 + 1e-9:
        reject("the sum of the weights", "be at most 1", float(w.sum()))
    return g, w, check_whole("n", n, 1)


def positive_mean(values: ArrayLike, weights: ArrayLike, n: int, *, tolerance: float = 5e-4) -> Bracket:
    """Bracket ln((1/n)·E[(G_1 + … + G_n)⁺]) for independent G with the given atoms; missing weight is an atom at 0.

    Both ends are rigorous and include a bound on rounding errors; ``tolerance`` is their relative distance, reached
    unless that would take more than ``WORK``.

    >>> round(float(np.exp(positive_mean([1.0, -1.0], [0.5, 0.5], 4).upper)), 3)  # E|S|/2n = 1.5/8
    0.188
    """
    g, w, n = validated(values, weights, n)
    g, w = _merge(g, w)
    if len(g) == 0 or g[-1] <= 0:
        return Bracket(-math.inf, -math.inf)
    bottom = min(float(g[0]), 0.0)
    big = g >= -(n - 1) * bottom
    settled = error = 0.0  # (1/n)·E[S; some atom is big], where S⁺ = S, and the rounding error of that difference
    lost = float(w[big].sum())
    if big.any():
        rest = float(w[~big] @ g[~big])
        some = -math.expm1((n - 1) * math.log1p(-min(lost, 1.0))) if lost < 1 else 1.0
        gain = float(w[big] @ g[big])
        settled = max(gain + rest * some, 0.0)
        error = (32 + len(g)) * UNIT * (gain + float(w[~big] @ np.abs(g[~big])) * some)
        g, w = g[~big], w[~big]
    low = math.log(settled - error) if settled > error else -math.inf
    high = math.log(settled + error) if settled + error > 0 else -math.inf
    if len(g) == 0 or g[-1] <= 0 or lost >= 1:
        return Bracket(low, high)
    unit = float(np.abs(g).max())  # so that squares of large likelihood ratios stay finite
    part = _bromwich(Integral(g / unit, w, n, lost), tolerance)
    size = math.log(n) - math.log(unit)
    return Bracket(float(np.logaddexp(low, part.lower - size)), float(np.logaddexp(high, part.upper - size)))


def _bromwich(integral: Integral, tolerance: float) -> Bracket:
    """Bracket ln E[S⁺]."""
    t = integral.tilt(2)
    log_mass = float(integral.log_mgf(np.array([t]))[0])
    chernoff = log_mass - 1.0 - math.log(t)
    if chernoff - math.log(integral.n) < FLOOR:
        return Bracket(-math.inf, chernoff)
    smoothing = math.sqrt(tolerance / 2) / t
    period = 24.0 / t
    best = Bracket(-math.inf, chernoff)
    for _ in range(40):
        line = integral.line(t, smoothing, period)
        cut = line.cut / line.reach**2
        value, at_zero, noise = line.total(lambda z: z**-2, np.ones_like)
        upper = value + cut + noise
        if upper <= 0.0:  # only rounding noise left
            break
        raised = smoothing**2 * (max(at_zero, 0.0) + line.cut)
        images = integral.images(t, period, smoothing, 2, math.log(upper) + log_mass)
        lower = upper * (1.0 - min(images, 1.0)) - 2 * (cut + noise) - raised
        slack = integral.rounding(t, 0.0)  # of the mass factored out of the integrand
        log_lower = math.log(lower) - slack if lower > 0 else -math.inf
        best = Bracket(max(best.lower, log_mass + log_lower), min(best.upper, log_mass + math.log(upper) + slack))
        wide_smoothing, wide_images = raised > 0.7 * tolerance * upper, images > 0.2 * tolerance
        if line.count == integral.most or not (wide_smoothing or wide_images):
            break
        if wide_smoothing:
            smoothing /= min(max(math.sqrt(raised / (0.5 * tolerance * upper)), 1.2), 8.0)
        if wide_images:
            period *= 1.5
    return best
