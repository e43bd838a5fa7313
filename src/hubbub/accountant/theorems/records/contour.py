"""Quadrature from above along a vertical line, for sums of independent scores over all crowds at once.

All bounds of slot exchange have the form

    γ² ∫₀¹ s ds (1/π) ∫₀^∞ e^{η²(t²−w²)/2}/(t²+w²) Σ_a c_a Π_i m_i dw,    s = 1 − ζ,

with a sum and a product over all messages but the victim's, where every m_i and c_i m_i is a non-negative function that
depends on the sender's kind. :class:`Contour` holds the nodes in w, :class:`Labels` the nodes in s. On every interval
between nodes a factor is replaced by a chord above it that falls in w and rises in ζ; products of such chords are
convex, so that they lie below *their* chord, and only values at the corners remain. For a crowd of n senders with the
composition π, any C₀ > 0 and any further senders,

    Σ_a c_a Π_i m_i ≤ (C₀/e) exp( n Σ_y π_y (c_y/C₀ + ln m_y) + further ),

which is convex in π: the sum over all nodes is largest at a crowd of a single kind (5').

:class:`Crowd` says who sends messages besides the victim: n others of any kinds, and optionally M companions of one
fixed kind, M ≥ 0 fixed or random and independent of everything else. Then further = ln E e^{M(c_f/C₀ + ln m_f)}.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.theorems.records.kinds import Family, Kind
from hubbub.numeric import portable

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

STEP = 0.2  # of the first block of nodes, in standard deviations of the integrand
BLOCK = 32  # nodes of one step, after which it doubles
SMOOTH = 0.1  # η t
REACH = 4.2  # the last node, in units of 1/η
BLOCKS = 20  # at most
FLOOR = 60.0  # products of n factors are not resolved below e^−60 of the largest


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """All senders but the victim: ``n`` of any kinds, and companions of one kind with ln E e^{Mx} = ``log_pgf(x)``.

    Fixed fakes have ``log_pgf = lambda x: m * x``, a Poisson number ``lambda x: rate * portable.expm1(x)``; it must not
    decrease in x, and may return ∞.
    """

    n: int
    companion: Kind | None = None
    log_pgf: Callable[[Floats], Floats] | None = None

    def further(self, exponents: Floats) -> Floats:
        """Return the companions' part of the exponent, from the exponents of one of them."""
        return np.zeros_like(exponents) if self.log_pgf is None else self.log_pgf(exponents)

    @property
    def mean(self) -> float:
        """The expected number of companions, about."""
        return float(self.further(np.array([1e-9]))[0]) * 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """Nodes in w on the line t + iw, and the weights of the values at both ends of every interval."""

    t: float
    w: Floats
    left: Floats
    right: Floats
    beyond: float
    """The integral of the kernel beyond the last node."""
    block: int
    """Number of nodes of one step, after which it doubles."""

    @property
    def whole(self) -> float:
        """The integral of the kernel over the whole line."""
        return float(self.left.sum() + self.right.sum()) + self.beyond


def contour(t: float, variance: float, coarse: int = 1) -> Contour:
    """Return nodes for an integrand that decays like e^{−w²·variance/2}, with steps that are ``coarse`` times as long.

    The kernel k falls in w. With φ = ln k, −k'' ≤ −φ'' k ≤ (η² + 2/t²) k, so k lies below its chord plus step²/8 times
    that at the left end; the integral of a product of two chords is exact.
    """
    eta = SMOOTH / t
    starts = [np.zeros(1)]
    width, block = coarse * STEP / max(math.sqrt(variance), 1 / t), BLOCK // coarse
    while starts[-1][-1] < REACH / eta and len(starts) <= BLOCKS:
        starts.append(starts[-1][-1] + width * np.arange(1, block + 1))
        width *= 2
    w = np.concatenate(starts)
    w = w[: int(np.searchsorted(w, REACH / eta)) + 1]
    steps = np.diff(w)
    kernel = portable.exp(eta**2 * (t**2 - w**2) / 2) / (t**2 + w**2) / math.pi
    bump = steps**2 / 8 * (eta**2 + 2 / t**2) * kernel[:-1]
    # At large steps the kernel at the left end is the smaller bound of the right end.
    first = kernel[:-1] + np.minimum(bump, kernel[:-1] / 2)
    last = np.where(bump < kernel[:-1] / 2, kernel[1:] + bump, kernel[:-1])
    left, right = steps * (2 * first + last) / 6, steps * (first + 2 * last) / 6
    reach = float(w[-1])
    tail = math.exp(eta**2 * (t**2 - reach**2) / 2) / math.pi * min(1 / reach, math.pi / (2 * t))
    return Contour(t, w, left * (1 + 1e-12), right * (1 + 1e-12), tail * (1 + 1e-12), block)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Nodes in s = 1 − ζ from 0 to 1, and the weights of the values there."""

    s: Floats
    weight: Floats


def labels(decay: float, coarse: int = 1) -> Labels:
    """Return nodes for an integrand that decays like e^{−s·decay}; the factor s is integrated exactly.

    Places are in units of 1/decay, where the steps end at 4 without rounding: a rounding must not move all later nodes.
    """
    scale = 1 / min(max(decay, 1.0), 1e18)
    places, step = [0.0], 0.25 * coarse
    while places[-1] * scale < 1.0:
        places.append(places[-1] + step)
        at = places[-1]
        step *= 1.0 if at <= 4 else 1.25 if at < 10 else 1.4 if at < 80 else 3.0
    nodes = np.minimum(np.array(places) * scale, 1.0)
    a, b = nodes[:-1], nodes[1:]
    weight = np.zeros(len(nodes))
    weight[:-1] += (b - a) * (2 * a + b) / 6
    weight[1:] += (b - a) * (a + 2 * b) / 6
    return Labels(nodes, weight * (1 + 1e-12))


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Transforms of several distributions of one score along a contour."""

    transform: Complexes
    """(distributions, nodes): E e^{zG} − 1."""
    curve: Floats
    """Per distribution, a bound on −d²|E e^{zG}|/dw²."""


def _turns(score: Floats, line: Contour) -> Complexes:
    """Return e^{iwG} − 1 for every node and atom.

    Sines are taken for the first block only. In the next one all steps are doubled, e^{2ix} − 1 = y(2 + y) with y =
    e^{ix} − 1, and added to the last node: every product adds some units relative to |wG|.
    """
    half = np.outer(line.w[1 : line.block + 1] / 2, score)
    sine = portable.sin(half)
    step = 2j * sine * np.cos(half) - 2 * sine * sine
    turns = np.empty((len(line.w), len(score)), np.complex128)
    turns[0] = 0.0
    for low in range(1, len(line.w), line.block):
        start = turns[low - 1]
        if low > 1:
            step = portable.times(step, 2.0 + step)
        count = min(line.block, len(line.w) - low)
        turns[low : low + count] = start + portable.times(step[:count], 1.0 + start)
    return turns


def along(score: Floats, chances: Floats, line: Contour) -> Line:
    """Return the transforms of a score under every row of ``chances`` (non-negative, not necessarily probabilities).

    E e^{zG} − 1 = E (e^{tG} − 1) + E e^{tG}(e^{iwG} − 1), both without cancellation. A shift of G changes
    the modulus by a constant factor only, hence −d²|E e^{zG}|/dw² ≤ E (G − c)² e^{tG} for every c.
    """
    rise = portable.expm1(line.t * score)
    tilted = chances * (rise + 1.0)
    turn = portable.dot(_turns(score, line), tilted.T.astype(np.complex128))
    transform = (portable.dot(chances, rise))[:, None] + turn.T
    mass = np.maximum(tilted.sum(axis=1), 1e-300)
    centre = portable.dot(tilted, score) / mass
    curve = np.array([portable.dot(row, (score - c) ** 2) for row, c in zip(tilted, centre, strict=True)])
    return Line(transform, curve * (1 + 1e-9))


def size(x: Complexes, one: float = 1.0) -> Floats:
    """Return ``|one + x| − one`` without cancellation."""
    return np.asarray((2 * one * x.real + x.real**2 + x.imag**2) / (portable.modulus(one + x) + one))


def floor(top: Floats, n: int) -> Floats:
    """Return the least m − 1 that is resolved, from the largest m − 1 of all kinds at every node in s.

    Raising a factor is always allowed, and keeps c = (factor of the special message)/m from becoming large.
    """
    return np.asarray(top + (1.0 + top) * math.expm1(-min(FLOOR / n, 2.0)), np.float64)


def falling(values: Floats, bend: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return both ends of falling chords above a function with these values at the nodes, along the last axis.

    ``bend`` is the most by which the function exceeds its chord on each interval, ``most`` a bound on all of it.
    """
    right = values[..., 1:] + bend
    left = np.maximum(values[..., :-1], values[..., 1:]) + bend
    flat = right >= most
    return np.where(flat, most, left), np.where(flat, most, right)


Ends = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """The factors of kinds at all nodes: arrays over (kinds, nodes in s, intervals in w), at their left and right ends.

    ``log`` holds ln m, ``weight`` holds c = (factor of the special message)/m.
    """

    log: Ends
    weight: Ends
    log_top: Floats
    """ln m for all w, over (kinds, nodes in s)."""
    weight_top: Floats


def integral(
    line: Contour, grid: Labels, scale: Floats, n: int, factors: Factors, further: tuple[Ends, Floats] | None
) -> Floats:
    """Return the logarithm of the double integral for a crowd of every kind, without γ².

    ``scale`` is C₀ at every node in s; ``further`` holds the exponents of companions at the ends of the intervals, and
    for all w.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        top = n * (factors.weight_top / scale + factors.log_top)
        if further is not None:
            top = top + further[1]
        reference = float(top.max())
        values = line.beyond * portable.exp(top - reference)
        for end, weights in enumerate((line.left, line.right)):
            exponent = n * (factors.weight[end] / scale[:, None] + factors.log[end])
            if further is not None:
                exponent = exponent + further[0][end]
            values = values + portable.dot(portable.exp(exponent - reference), weights)
        area = portable.dot(values, (grid.weight * scale / math.e))
        result = reference + portable.log(np.maximum(area, 1e-300)) + 1e-15 * abs(reference)
    return np.where(np.isnan(result), np.inf, result)


def integral_without_phases(
    line: Contour, grid: Labels, scale: Floats, n: int, log: Floats, weight: Floats, further: Floats | None
) -> Floats:
    """Return the same with every factor replaced by its value at w = 0, arrays over (kinds, nodes in s)."""
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = n * (weight / scale + log)
        if further is not None:
            exponent = exponent + further
        top = exponent.max(axis=1)
        area = portable.dot(portable.exp(exponent - top[:, None]), (grid.weight * scale / math.e))
        kernel = min(line.whole, math.exp(SMOOTH**2 / 2) / (2 * line.t) * (1 + 1e-12))
        result = top + portable.log(np.maximum(area * kernel, 1e-300)) + 1e-15 * np.abs(top)
    return np.where(np.isnan(result), np.inf, result)


def best_scale(crowd: Crowd, log: Floats, weight: Floats, companion: tuple[Floats, Floats] | None) -> Floats:
    """Return C₀ for every node in s: about the least max_y of ln C₀ + n (c_y/C₀ + ln m_y) + further at w = 0.

    ``log`` and ``weight`` are arrays over (kinds, nodes in s), ``companion`` holds the same for one companion. A
    choice: every positive value gives a bound.
    """
    low, high = crowd.n * np.maximum(weight.min(axis=0), 1e-9 * weight.max(axis=0)), crowd.n * weight.max(axis=0)
    if companion is not None:
        low, high = low + crowd.mean * companion[1], high + crowd.mean * companion[1]
    share = np.linspace(0.0, 1.0, 33)[:, None]
    trial = portable.exp(portable.log(low) * (1 - share) + portable.log(high) * share)
    with np.errstate(over="ignore", invalid="ignore"):
        value = (crowd.n * (weight[None] / trial[:, None] + log[None])).max(axis=1) + portable.log(trial)
        if companion is not None:
            value = value + crowd.further(companion[1] / trial + companion[0])
    picked = trial[np.nan_to_num(value, nan=np.inf).argmin(axis=0), np.arange(trial.shape[1])]
    return np.asarray(picked, np.float64)


def least_tilt(
    worst: Callable[[Floats], Floats], n: int, family: Family, epsilon: float, cut: float
) -> tuple[float, float]:
    """Return about the t that minimizes the exponent ``worst(t)`` − 2 ln t, and the exponent there.

    A choice: every positive t gives a bound, as long as t times the largest score is at most 690.
    """
    limit = 680.0 / max(min(family.largest(epsilon), cut), 1e-290)
    deviation = max(math.sqrt(n * min(family.second_moment(epsilon), cut * cut)), 1e-290)
    high = math.log(min(200.0 / deviation, limit))
    low = min(math.log(0.05 / deviation), high - 3.0)
    for points in (9, 7, 7, 7, 7, 7, 7):
        grid = np.linspace(low, high, points)
        with np.errstate(all="ignore"):
            values = np.nan_to_num(worst(portable.exp(grid)) - 2 * grid, nan=np.inf)
        at = int(values.argmin())
        low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, points - 1)])
    return math.exp(float(grid[at])), float(values[at])
