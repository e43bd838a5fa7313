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
forces S ≥ 0 are split off in closed form, and atoms so low that one forces S ≤ 0 are left out: they are what makes long
bit vectors heavy-tailed. Sums of few terms are enumerated.

The atoms are taken as exact. Each is a cancelling :func:`difference` of likelihoods, rounded towards the end that is
used: upwards in a certificate, where the weights are rounded down to remain below every distribution, and downwards in
an attack, where :func:`attained_mean` allows for the errors of the weights.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.errors import check_whole, reject
from hubbub.numeric import portable

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
ENUMERATED = 2**13  # largest number of outcomes that are enumerated
TERM = 16 * UNIT  # above the relative error of one likelihood: a power, an exponential and a product


@dataclass(frozen=True, slots=True)
class Bracket:
    """Lower and upper bound on the logarithm of a value."""

    lower: float
    upper: float


def difference(first: ArrayLike, second: ArrayLike, size: float, *, side: int = 1, relative: float = TERM) -> Floats:
    """Return e^first − e^second; errs upwards, or downwards for ``side`` = −1.

    ``size`` bounds the terms of which the exponents were added up, and ``relative`` the further relative error of the
    result. Next to 0 the difference is as precise as the exponents.

    >>> float(difference(0.5, 0.5, 0.5)) > 0, float(difference(0.5, 0.5, 0.5, side=-1)) < 0
    (True, True)
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    error = 8 * UNIT * size
    gap = (a - b) + side * error
    value = portable.exp(np.maximum(a, b)) * np.where(
        gap > 0, -portable.expm1(-np.abs(gap)), portable.expm1(-np.abs(gap))
    )
    return np.asarray(value + side * (relative + 2 * error) * np.abs(value))


def _merge(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return sorted atoms with positive weight, none at zero, equal ones merged."""
    keep = (weights > 0) & (values != 0)
    merged, group = np.unique(values[keep], return_inverse=True)
    return merged, np.bincount(group, weights[keep], len(merged)).astype(np.float64)


class Integral:
    """The tilted integrand of one sum: atoms, the mass at 0, number of terms, and the weights of one extra term."""

    def __init__(self, values: Floats, weights: Floats, n: int, zero: float, extra: Floats | None = None) -> None:
        self.values, self.weights, self.n, self.zero, self.extra = values, weights, n, zero, extra
        self.lost = 1.0 - zero - float(weights.sum())
        self.scale = math.sqrt(n * float(portable.dot(weights, values**2))) or 1.0
        self.most = min(2**21, max(2**12, WORK // len(values)))

    def log_mgf(self, t: Floats) -> Floats:
        """Return ln E e^{tS} at real points."""
        powers = np.outer(t, self.values)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            change = portable.expm1(powers)
            near = portable.dot(change, self.weights) - self.lost
            direct = self.zero + portable.dot(portable.exp(powers), self.weights)
            result = self.n * np.where(np.abs(near) < 0.5, portable.log1p(np.maximum(near, -0.5)), portable.log(direct))
            if self.extra is not None:
                result += portable.log1p(portable.dot(change, self.extra))
        return np.asarray(result)

    def tilt(self, order: int) -> float:
        """Return about the t that minimizes M(t)ⁿ·t^−order; every t is valid, a good one makes the integrand smooth."""
        top = float(self.values[-1])
        low, high = math.log(1e-3 / self.scale), math.log(500.0 / top)
        low = min(low, high - 10.0)
        for _ in range(3):
            grid = np.linspace(low, high, 48)
            best = int(np.nanargmin(self.log_mgf(portable.exp(grid)) - order * grid))
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
        of a unit for each atom added up, all relative to M(t), and of a few units in the logarithm.
        """
        tilted = self.weights * portable.exp(t * self.values)
        count = len(tilted) + 2.0
        terms = float((tilted * (count + (t + reach) * np.abs(self.values))).sum())
        mass = self.zero + float(tilted.sum())
        missing = count * (1.0 + float(self.weights.sum()))  # the mass at 0 is a difference
        return 8 * UNIT * (self.n * ((terms + missing) / mass + 4.0) + 200.0)

    def images(self, t: float, period: float, smoothing: float, order: int, reference: float) -> float:
        """Return a bound on the images of the trapezoid rule, relative to e^reference."""
        points = t * np.array([1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 8.0])
        points = points[points * self.values[-1] < 600.0]
        above = math.inf
        if len(points):
            log_value = self.log_mgf(points) + (smoothing * points) ** 2 / 2 - (points - t) * period
            if order == 2:
                log_value -= 1 + portable.log(points)  # E(S − y)⁺ ≤ M(t')e^{−t'y}/(e·t')
            log_value -= portable.log(-portable.expm1((t - points) * period))  # the images are a geometric series
            above = float(portable.exp(np.minimum(log_value - reference, 700.0)).min())
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
        fine = portable.exp(1j * np.outer(rates, np.arange(BLOCK)))
        factors = [(own.weights, own.zero, own.n)]
        if own.extra is not None:
            factors.append((own.extra, 1.0 - float(own.extra.sum()), 1))
        # Products of few rows stay on one thread of the linear algebra library; several would stall on a busy machine.
        chunk = max(1, SMALL // (BLOCK * len(rates)))
        for start in range(0, self.count, PIECE):
            stop = min(start + PIECE, self.count)
            coarse = portable.exp(1j * np.outer(np.arange(start, stop, BLOCK), rates))
            z = np.asarray(self.t + 1j * self.step * np.arange(start, stop), dtype=np.complex128)
            exponent = self.smoothing**2 * portable.times(z, z) / 2
            for weights, zero, terms in factors:
                tilted = weights * portable.exp(self.t * own.values)
                mass = float(tilted.sum())
                scaled = coarse * tilted
                table = np.concatenate(
                    [portable.dot(scaled[i : i + chunk], fine) for i in range(0, len(scaled), chunk)]
                )
                exponent += terms * portable.log1p((table.ravel()[: stop - start] - mass) / (zero + mass))
            values = np.asarray(portable.exp(exponent) * (self.step / math.pi), dtype=np.complex128)
            if start == 0:
                values[0] /= 2
            yield z, values

    def total(self, *factors: Callable[[Complexes], Complexes]) -> list[tuple[float, float]]:
        """Return the real part and its rounding error of the integral of the smoothed integrand times each factor.

        The errors are relative to the *sizes* of the nodes, which do not cancel.
        """
        sums, sizes = [0.0] * len(factors), [0.0] * len(factors)
        for z, values in self.pieces():
            for index, factor in enumerate(factors):
                terms = portable.times(values, factor(z))
                sums[index] += float(terms.real.sum())
                sizes[index] += float(portable.modulus(terms).sum())
        rounding = self.integral.rounding(self.t, self.reach)
        return [(value, size * rounding) for value, size in zip(sums, sizes, strict=True)]


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

    >>> round(float(portable.exp(positive_mean([1.0, -1.0], [0.5, 0.5], 4).upper)), 3)  # E|S|/2n = 1.5/8
    0.188
    """
    g, w, n = validated(values, weights, n)
    g, w = _merge(g, w)
    if len(g) == 0 or g[-1] <= 0:
        return Bracket(-math.inf, -math.inf)
    unit = 2.0 ** math.frexp(float(np.abs(g).max()))[1]  # so that squares of large likelihood ratios stay finite
    g = g / unit
    total = float(w.sum())
    zero = max(1.0 - total, 0.0)
    few = _enumerated(g, w, zero, n, tolerance)
    found = few or _split(g, w, zero, n, tolerance)
    if few and few.upper - few.lower > tolerance and n > 1:
        found = _split(g, w, zero, n, tolerance)
        found = Bracket(max(few.lower, found.lower), min(few.upper, found.upper))
    simple = math.log(
        float(portable.dot(w, np.maximum(g, 0.0))) + 1e-300
    )  # S⁺ is at most the sum of the positive terms
    excess = n * max(total - 1.0, 0.0)
    lower, upper = found.lower + math.log(unit) - excess, min(found.upper, simple) + math.log(unit)
    rounding = 64 * UNIT
    return Bracket(
        lower - rounding * (1.0 + abs(lower)) if lower > -math.inf else lower,
        upper + rounding * (1.0 + abs(upper)) if upper > -math.inf else upper,
    )


def attained_mean(
    values: ArrayLike, weights: ArrayLike, n: int, *, relative: float = TERM, tolerance: float = 5e-4
) -> float:
    """Return a lower bound on ln((1/n)·E[S⁺]) for atoms whose true weights sum to 1.

    The weights have relative errors of at most ``relative``, so every outcome has one of at most n times that. Mass
    that is missing by rounding is moved to the mean of the atoms, which only lowers E[S⁺] (Jensen).

    >>> round(math.exp(attained_mean([1.0, -1.0], [0.5, 0.5], 4)), 6)
    0.1875
    """
    g, w, n = validated(values, weights, n)
    missing = max(1.0 - float(w.sum()), 0.0)
    mean = float(portable.dot(w, g)) - (len(g) * UNIT + relative + missing) * 4 * float(portable.dot(w, np.abs(g)))
    bracket = positive_mean(np.append(g, mean), np.append(w, missing), n, tolerance=tolerance)
    return bracket.lower - 2.01 * n * (relative + missing + len(g) * UNIT)


@lru_cache(maxsize=64)
def _counts(most: int, kinds: int) -> tuple[Floats, Floats]:
    """Return all lists of ``kinds`` counts that sum to at most ``most``, and Σ ln count! of each."""
    bars = np.array(list(itertools.combinations(range(most + kinds), kinds)), dtype=np.float64)
    counts = np.diff(np.pad(bars, ((0, 0), (1, 0)), constant_values=-1.0), axis=1) - 1
    logs = np.array([math.lgamma(i + 1.0) for i in range(most + 1)])
    return counts, logs[counts.astype(np.intp)].sum(axis=1)


def _enumerated(values: Floats, weights: Floats, zero: float, n: int, tolerance: float) -> Bracket | None:
    """Bracket ln((1/n)·E[S⁺]) by adding up all outcomes in which few terms differ from the most likely one.

    More than J terms differ with probability at most λ^(J+1)/(J+1)!, λ the mean number, and of those J other terms with
    probability at most λ^J/J!. None if that takes more than ``ENUMERATED`` outcomes.
    """
    doubt = (len(values) + 4) * UNIT  # the mass at 0 is a difference
    g, w = np.append(values, 0.0), np.append(weights, zero)
    base = int(w.argmax())
    own, rest = float(g[base]), np.arange(len(g)) != base
    at_zero = base == len(g) - 1
    rare = float(w[rest].sum()) if at_zero else max(1.0 - float(w[base]), 0.0)
    mean = n * (rare + doubt * (not at_zero))
    most, tail = n, 0.0
    if mean < 32.0:
        tails = mean - np.array([math.lgamma(j + 1.0) for j in range(128)]) + np.arange(128) * math.log(mean)
        enough = np.flatnonzero(tails < math.log(tolerance / 16))
        if len(enough) and int(enough[0]) < n:
            most = max(int(enough[0]), 1)
            tail = math.exp(float(tails[most]) - mean)
    kinds = len(g) - 1
    if kinds * most > ENUMERATED or math.comb(most + kinds, kinds) > ENUMERATED:
        return None
    counts, factorials = _counts(most, kinds)
    differing = counts.sum(axis=1)
    falling = np.append(0.0, np.cumsum(portable.log(n - np.arange(most))))[differing.astype(np.intp)]
    others = (n - differing) * math.log1p(-rare)
    sums = portable.dot(counts, g[rest]) + (n - differing) * own
    error = (len(g) + 4) * UNIT * (portable.dot(counts, np.abs(g[rest])) + (n - differing) * abs(own))
    drift = 4 * n * rare / (1.0 - rare) * doubt

    def total(side: int) -> float:
        shares = w[rest]
        if not at_zero:
            shares[-1] = max(zero + side * doubt, 0.0)
        parts = counts * portable.log(np.maximum(shares, 1e-300))
        relative = 8 * UNIT * (64.0 + falling + factorials + np.abs(parts).sum(axis=1) - others) + drift
        chances = portable.exp(falling - factorials + parts.sum(axis=1) + others + side * relative)
        return float((chances * np.maximum(sums + side * error, 0.0)).sum()) / n

    beyond = tail * (float(portable.dot(w[rest], np.maximum(g[rest], 0.0))) + max(own, 0.0)) * (1.0 + 1e-9)
    lower, upper = total(-1), total(1) + beyond
    return Bracket(math.log(lower) - 1e-13 if lower > 0 else -math.inf, math.log(upper + 1e-300) + 1e-13)


def _split(g: Floats, w: Floats, zero: float, n: int, tolerance: float) -> Bracket:
    """Bracket ln((1/n)·E[S⁺]) after splitting off all atoms that alone decide the sign of S.

    If an atom is so large that S ≥ 0 whatever the others are, then S⁺ = S. If it is so low that S ≤ 0, then S⁺ = 0.
    Without the atoms of one kind, further ones of the other kind may decide.
    """
    settled = error = lost = 0.0
    while len(g) and g[-1] > 0:
        low = g <= -(n - 1) * g[-1] * (1.0 + 4 * UNIT)
        if low.any():
            lost += float(w[low].sum())
            g, w = g[~low], w[~low]
        big = g >= (n - 1) * -min(float(g[0]), 0.0)
        if big.any():
            if lost >= 1.0:
                break
            kept = math.exp((n - 1) * math.log1p(-lost))  # no other term is one that was split off before
            mass = float(w[big].sum())
            share = min(mass / (1.0 - lost), 1.0)
            some = -math.expm1((n - 1) * math.log1p(-share)) if share < 1 else 1.0
            gain, rest = float(portable.dot(w[big], g[big])), float(portable.dot(w[~big], g[~big]))
            settled += max(gain + rest * some, 0.0) * kept
            relative = (32 + len(g) + 4 * n * lost / (1.0 - lost)) * UNIT
            error += relative * (gain + float(portable.dot(w[~big], np.abs(g[~big]))) * some) * kept
            lost += mass
            g, w = g[~big], w[~big]
        if not (low.any() or big.any()):
            break
    low_end = math.log(settled - error) if settled > error else -math.inf
    high_end = math.log(settled + error) if settled + error > 0 else -math.inf
    if len(g) == 0 or g[-1] <= 0:
        return Bracket(low_end, high_end)
    part = _bromwich(Integral(g, w, n, zero), tolerance)
    size = math.log(n)
    return Bracket(float(np.logaddexp(low_end, part.lower - size)), float(np.logaddexp(high_end, part.upper - size)))


def _bromwich(integral: Integral, tolerance: float) -> Bracket:
    """Bracket ln E[S⁺]."""
    t = integral.tilt(2)
    log_mass = float(integral.log_mgf(np.array([t]))[0])
    slack = integral.rounding(t, 0.0)  # of the mass factored out of the integrand
    chernoff = log_mass - 1.0 - math.log(t) + slack
    if chernoff - math.log(integral.n) < FLOOR:
        return Bracket(-math.inf, chernoff)
    smoothing = math.sqrt(tolerance / 2) / t
    period = 24.0 / t
    best = Bracket(-math.inf, chernoff)
    for _ in range(40):
        line = integral.line(t, smoothing, period)
        cut = line.cut / line.reach**2
        (value, noise), (at_zero, noise_at_zero) = line.total(lambda z: z**-2, np.ones_like)
        upper = value + cut + noise
        if upper <= 0.0:  # only rounding noise left
            break
        raised_by = smoothing**2 * (max(at_zero, 0.0) + noise_at_zero + line.cut)
        images = integral.images(t, period, smoothing, 2, math.log(upper) + log_mass)
        lower = upper * (1.0 - min(images, 1.0)) - 2 * (cut + noise) - raised_by
        log_lower = math.log(lower) - slack if lower > 0 else -math.inf
        best = Bracket(max(best.lower, log_mass + log_lower), min(best.upper, log_mass + math.log(upper) + slack))
        wide_smoothing, wide_images = raised_by > 0.7 * tolerance * upper, images > 0.2 * tolerance
        if line.count == integral.most or not (wide_smoothing or wide_images):
            break
        if wide_smoothing:
            smoothing /= min(max(math.sqrt(raised_by / (0.5 * tolerance * upper)), 1.2), 8.0)
        if wide_images:
            period *= 1.5
    return best
