"""Privacy loss distributions that err upwards through every operation.

A :class:`Loss` is a non-negative measure μ on the grid {step·i} and on +∞. Write x = e^ε and

    μ[x] = Σ_l μ(l)·(1 − x·e^(−l))⁺ + μ(∞),        H_x(P‖Q) = Σ_o (P(o) − x·Q(o))⁺.

μ *covers* the pair (P, Q) if μ[x] ≥ H_x(P‖Q) for every x ≥ 0; at x = 0 that says that its mass is at least 1.

- **Enlarging** a mass, or **moving** it to a higher loss or to +∞, raises μ[x]: a cover stays a cover. Hence every
  entry may be an upper bound, and rounding errors are added to it; μ need not be a probability distribution.
- **Composition** [Koskela, Jälkö, Honkela 2020; Zhu, Dong, Wang 2022]. (p₁p₂ − x·q₁q₂)⁺ = p₂·(p₁ − x·(q₂/p₂)·q₁)⁺, so
  H_x(P₁×P₂‖Q₁×Q₂) is the mean of H_y(P₁‖Q₁) at y = x·e^(−l₂) over the loss l₂ of the second pair. Replace H(P₁‖Q₁) by
  μ₁[·] ≥ H, exchange the two sums, and replace H(P₂‖Q₂) by μ₂[·]: the convolution μ₁∗μ₂ covers the product. An
  adaptive choice of the second pair is covered if μ₂ covers all of them.
- **Connecting the dots** [Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022]. H is convex and falls in x, H_0 = 1. Let
  u_i ≥ H at x_i = e^(step·i). On any subset of these nodes, the chord between two neighbours of (0, 1), (x_i, u_i), …
  lies above the chord of H, hence above H; after the last node u stays above the falling H. So the broken line through
  any subset is a bound, the lower convex hull is the smallest of them, and a convex broken line that ends level is μ[·]
  of exactly one measure: its kinks. Bounds that are not quite convex therefore need no repair: their hull is sound.
  One atom of loss l between the nodes a ≤ l ≤ b becomes the share (1 − e^(a−l)) / (1 − e^(a−b)) at b, the rest at a.

Composing k copies on a long grid moves at most k·``TAIL`` = k·10⁻²⁰ to +∞, so δ is meaningful down to 10⁻¹⁶ for
k = 1000. Up to ``SHORT`` points nothing is cut off, and every tail keeps its relative accuracy.
Against the exact Gaussian curve, δ = 10⁻¹² is met to 0.1 % with 100 points per standard deviation.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.errors import (
    NON_NEGATIVE,
    Infeasible,
    Interval,
    check_delta,
    check_epsilon,
    check_memory,
    check_real,
    check_whole,
    reject,
)
from hubbub.model.curves import PrivacyCurve, grid_step, hull
from hubbub.numeric import portable
from hubbub.numeric.inversion import least_real
from hubbub.numeric.rounding import up

Floats = NDArray[np.float64]

# Sums of products are written out below: a long `@` uses BLAS threads, which stall for seconds on a busy machine.

UNIT = 2.0**-53
WIDEN = 1e-12  # largest relative error of given probabilities, and of exponentials of up to 700
SHORT = 2**12  # points up to which a composition is kept whole
TAIL = 1e-20  # mass that a longer composition may move to +∞ to keep the grid short
HEAD = 1e-13  # mass at the lowest losses that may be moved up to one node; it is far from every ε ≥ 0
REACH = 600.0  # losses beyond this count as infinite, so that exponentials stay finite
POINTS = 2**15  # points beyond which a composition doubles its step: a thousand per standard deviation of a Gaussian
FINE = 48  # steps per standard deviation of one collection
DIRECT = 2**24  # products up to which a convolution is summed term by term, which keeps every entry's relative accuracy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Loss:
    """A measure on {step·first, step·(first+1), …} and +∞ that covers a pair of distributions (see the module's text).

    ``delta`` and ``epsilon`` err upwards: they are never below those of the covered pair.

    >>> coin = Loss.from_distributions([0.75, 0.25], [0.25, 0.75], step=0.01)
    >>> round(coin.delta(0.5), 4), round(coin.power(2).delta(0.5), 4)         # exactly 0.3378 and 0.4595
    (0.3378, 0.4595)
    """

    step: float
    first: int
    masses: Floats
    infinite: float

    def __post_init__(self) -> None:
        masses = np.array(self.masses, dtype=np.float64)
        if masses.ndim != 1 or masses.size == 0 or not (masses >= 0).all() or not np.isfinite(masses).all():
            reject("masses", "be a non-empty list of finite numbers of at least 0")
        masses.setflags(write=False)
        object.__setattr__(self, "step", _step(self.step))
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "infinite", check_real("infinite", self.infinite, NON_NEGATIVE))

    def __repr__(self) -> str:
        return f"Loss(step={self.step:g}, points={self.masses.size}, infinite={self.infinite:.3g})"

    @classmethod
    def from_curve(cls, deltas: ArrayLike, step: float, first: int = 0) -> Self:
        """Return the smallest measure on the grid above ``deltas[i]`` ≥ δ(step·(first+i)), by connecting the dots.

        δ(ε) = H_{e^ε}(P‖Q) of one pair, or any bound on it that is convex in e^ε; ε may be negative. The mass at the
        vertex v of the hull with neighbours a, b is (u_a − u_v)/(1 − e^(a−v)) − (u_v − u_b)/(e^(b−v) − 1).

        >>> Loss.from_curve([0.5, 0.25, 0.0], step=1.0).delta(2.0) < 1e-300
        True
        """
        step, first = _step(step), check_whole("first", first, -(2**53), 2**53)
        values = np.array(deltas, dtype=np.float64)
        if values.ndim != 1 or values.size == 0 or not (values >= 0).all():
            reject("deltas", "be a non-empty list of numbers of at least 0")
        u = np.minimum.accumulate(np.minimum(values, 1.0)).tolist()
        nodes, kinks = hull(u, lambda v, b: step * (b - v))
        masses = np.zeros(len(u))
        masses[nodes] = kinks
        return cls(step=step, first=first, masses=masses, infinite=u[-1])

    @classmethod
    def from_envelope(cls, deltas: ArrayLike, step: float) -> Self:
        """Return a cover of both orders of every pair with δ(step·i) ≤ ``deltas[i]``, i = 0, 1, …, in both orders.

        H_{1/x}(P‖Q) = 1 − 1/x + H_x(Q‖P)/x gives the negative half: δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε).

        >>> Loss.from_envelope([0.5, 0.25, 0.0], step=1.0).masses.size
        5
        """
        half = np.array(deltas, dtype=np.float64)
        if half.ndim != 1 or half.size == 0:
            reject("deltas", "be a non-empty list of numbers of at least 0")
        fall = -_step(step) * np.arange(half.size - 1, 0, -1)
        mirror = (portable.exp(fall) * half[:0:-1] - portable.expm1(fall)) * (1 + 8 * UNIT)
        return cls.from_curve(np.concatenate([mirror, half]), step, 1 - half.size)

    @classmethod
    def from_distributions(cls, p: ArrayLike, q: ArrayLike, step: float) -> Self:
        """Return the cover of a pair of discrete distributions (p, q) over the same outcomes, with the dots connected.

        Each outcome is an atom of mass p at the loss ln(p/q). The entries may be wrong by a relative 10⁻¹². If p sums
        to less than 1, for instance because its tails were cut off, the rest counts as an infinite loss.

        >>> Loss.from_distributions([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], step=0.1).delta(3.0)
        0.5000000000...
        """
        step = _step(step)
        one, two = np.array(p, dtype=np.float64), np.array(q, dtype=np.float64)
        if one.shape != two.shape or one.ndim != 1 or not ((one >= 0).all() and (two >= 0).all()):
            reject("p and q", "be lists of the same length of numbers of at least 0")
        one = one * (1 + WIDEN)
        lacking = max(0.0, 1.0 - math.fsum(one))
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = portable.log(one) - portable.log(two)
        mass = one > 0
        losses, one = losses[mass] + 2 * WIDEN, one[mass]
        finite = losses <= REACH
        first, masses = _split(np.maximum(losses[finite], -REACH), one[finite], step)
        infinite = lacking + math.fsum(one[~finite])
        return cls(step=step, first=first, masses=masses, infinite=infinite)

    @classmethod
    def from_points(cls, curve: PrivacyCurve) -> Self:
        """Return the cover of both orders of a collection with these certified points, on a grid of fine steps.

        >>> Loss.from_points(PrivacyCurve(((0.0, 0.5), (1.0, 0.25), (2.0, 0.0)))).delta(1.0) < 0.2501
        True
        """
        atoms, infinite = curve.atoms()
        losses, masses = (np.array(row, dtype=np.float64) for row in zip(*atoms, strict=True))
        finite = losses <= REACH
        infinite += math.fsum(masses[~finite])
        losses, masses = np.maximum(losses[finite], -REACH), masses[finite]
        step = grid_step(losses.tolist(), masses.tolist(), FINE, POINTS // 4)
        first, spread = _split(losses + WIDEN * np.abs(losses), masses, step)
        return cls(step=step, first=first, masses=spread, infinite=infinite)

    def regrid(self, step: float) -> "Loss":
        """Return the same measure on another grid, with the dots connected; errs upwards, little if the step is small.

        >>> Loss.from_distributions([0.75, 0.25], [0.25, 0.75], step=0.01).regrid(0.02).masses.size
        112
        """
        losses = self.step * np.arange(self.first, self.first + self.masses.size)
        first, masses = _split(losses + WIDEN * np.abs(losses), self.masses, _step(step))
        return Loss(step=step, first=first, masses=masses, infinite=self.infinite)

    def compose(self, other: "Loss") -> "Loss":
        """Return the cover of both pairs at once, independent or adaptive: the convolution on the coarser grid.

        Errs upwards: entries carry their rounding errors, and tails are cut off outwards.

        >>> coin = Loss.from_distributions([0.75, 0.25], [0.25, 0.75], step=0.01)
        >>> coin.compose(coin).delta(0.5) == coin.power(2).delta(0.5)
        True
        """
        if self.step != other.step:
            step = max(self.step, other.step)
            return self.regrid(step).compose(other.regrid(step))
        masses = _convolve(self.masses, other.masses)
        ours, theirs = math.fsum(self.masses), math.fsum(other.masses)
        infinite = self.infinite * (theirs + other.infinite) + other.infinite * ours
        whole = _trim(self.step, self.first + other.first, masses, up(infinite, 8 * UNIT) if infinite else 0.0)
        return whole if whole.masses.size <= POINTS else whole.regrid(2 * self.step)

    def power(self, times: int) -> "Loss":
        """Return the composition of ``times`` copies, by repeated squaring.

        >>> Loss.from_distributions([0.75, 0.25], [0.25, 0.75], step=0.01).power(40).delta(50.0) < 1e-12
        True
        """
        times = check_whole("times", times, 1)
        square, result = self, None
        while True:
            if times & 1:
                result = square if result is None else result.compose(square)
            times >>= 1
            if result is not None and not times:
                return result
            square = square.compose(square)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) = Σ_{l > ε} μ(l)·(1 − e^(ε−l)) + μ(∞), at most 1; errs upwards.

        >>> round(Loss.from_distributions([0.75, 0.25], [0.25, 0.75], step=0.01).delta(0.0), 6)
        0.5
        """
        return min(1.0, self._above(check_epsilon(epsilon)))

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 with δ(ε) ≤ δ, to a relative 10⁻⁹; errs upwards, ∞ if no ε suffices.

        >>> round(Loss.from_distributions([0.75, 0.25], [0.25, 0.75], step=0.01).epsilon(1e-9), 3)      # ln 3 is 1.0986
        1.1
        """
        delta = check_delta(delta)
        top = max(0.0, self.step * (self.first + self.masses.size))
        try:
            return least_real(lambda epsilon: self._above(epsilon) <= delta, 0.0, top)
        except Infeasible:
            return math.inf

    def _above(self, epsilon: float) -> float:
        losses = self.step * np.arange(self.first, self.first + self.masses.size)
        start = int(np.searchsorted(losses, epsilon))
        losses = losses[start:]
        shares = -portable.expm1(epsilon - losses)
        return up(float((self.masses[start:] * shares).sum()) + self.infinite, WIDEN)


def _step(step: object) -> float:
    return check_real("step", step, Interval(0.0, REACH, open_low=True))


def _split(losses: Floats, masses: Floats, step: float) -> tuple[int, Floats]:
    """Return atoms as the first node and the masses on the grid, each at most 8 units above the exact share."""
    if losses.size == 0:
        return 0, np.zeros(1)
    below = np.floor(losses / step)
    share = np.clip(portable.expm1(below * step - losses) / math.expm1(-step), 0.0, 1.0) + 8 * UNIT
    node = below.astype(np.int64)
    first, size = int(node.min()), int(node.max() - node.min()) + 2
    check_memory(f"a grid of step {step:g} over losses from {losses.min():.3g} to {losses.max():.3g}", 8 * size)
    rest = np.maximum(0.0, 1.0 - share) + 16 * UNIT
    spread = np.bincount(node - first + 1, share * masses, size).astype(np.float64)
    spread += np.bincount(node - first, rest * masses, size)
    spread *= 1 + 2 * losses.size * UNIT
    return first, spread


def _trim(step: float, first: int, masses: Floats, infinite: float) -> Loss:
    """Return the loss with its far tails moved upwards: the upper to +∞, the lower to the lowest node kept."""
    if masses.size <= SHORT and step * max(abs(first), abs(first + masses.size)) <= REACH:
        return Loss(step=step, first=first, masses=masses, infinite=infinite)
    above = np.cumsum(masses[::-1])[::-1]
    reach = math.floor(REACH / step)
    stop = int(np.searchsorted(-above, -TAIL)) if above[-1] < TAIL else masses.size
    stop = max(1, min(stop, reach - first + 1))
    if stop < masses.size:
        infinite = up(infinite + float(above[stop]), 2 * masses.size * UNIT)
    below = np.cumsum(masses[:stop])
    start = min(max(int(np.searchsorted(below, HEAD, side="right")), -reach - first), stop - 1)
    kept = masses[start:stop].copy()
    kept[0] = up(float(below[start]), 2 * masses.size * UNIT)
    return Loss(step=step, first=first + start, masses=kept, infinite=infinite)


def _convolve(a: Floats, b: Floats) -> Floats:
    """Return upper bounds on the entries of a∗b.

    Short rows are summed term by term: all terms are positive, so each entry has a small relative error. Long rows use
    the Fourier transform of a_i·e^(ti), b_j·e^(tj), which is off by at most E in *every* entry, so a∗b is known to
    E·e^(−tk): for t = 0 precisely around the mean, for t at which the tilted mean has probability e^(−18) precisely in
    that tail. Each tilt gives an upper bound, and so does the minimum of the three. By Parseval, with ‖X̂ − X‖₂ ≤ η‖X‖₂,
    η = 8·2⁻⁵³·log₂ N [Higham 2002, Theorem 24.2], E ≤ 2η(‖a‖₁‖b‖₂ + ‖b‖₁‖a‖₂) + O(η²).
    """
    if not (a.any() and b.any()):
        return np.zeros(1)
    if a.size * b.size <= DIRECT:
        return np.asarray(portable.convolve(a, b) * (1 + 2 * min(a.size, b.size) * UNIT))
    length = a.size + b.size - 1
    size = 1 << (length - 1).bit_length()
    eta = 8 * UNIT * math.log2(size)
    bound = np.full(length, math.inf)
    for tilt in (0.0, _tail_tilt(a, b, 1), _tail_tilt(a, b, -1)):
        x, x_scale = _tilted(a, tilt)
        y, y_scale = _tilted(b, tilt)
        raw = np.fft.irfft(portable.times(np.fft.rfft(x, size), np.fft.rfft(y, size)), size)[:length]
        error = 3 * eta * (x.sum() * math.sqrt((y * y).sum()) + y.sum() * math.sqrt((x * x).sum()))
        with np.errstate(over="ignore"):
            back = portable.exp(x_scale + y_scale - tilt * np.arange(length))
            bound = np.minimum(bound, (np.maximum(raw, 0.0) + error) * back)
    return bound * (1 + 4 * WIDEN)


def _tilted(a: Floats, tilt: float) -> tuple[Floats, float]:
    """Return a_i·e^(tilt·i) scaled to the maximum 1, and the logarithm of the scale."""
    with np.errstate(divide="ignore"):
        logs = portable.log(a) + tilt * np.arange(a.size)
    scale = float(logs.max())
    return portable.exp(logs - scale), scale


def _tail_tilt(a: Floats, b: Floats, sign: int) -> float:
    """Return the tilt t of the given sign at which t·K'(t) − K(t) = 18, K = ln Σ a_i·e^(ti) + ln Σ b_j·e^(tj)."""

    def rate(t: float) -> float:
        total = 0.0
        for row in (a, b):
            x, scale = _tilted(row, sign * t)
            weight = float(x.sum())
            total += sign * t * float((np.arange(row.size) * x).sum()) / weight - scale - math.log(weight)
        return total

    most = REACH / (a.size + b.size)
    return sign * (least_real(lambda t: rate(t) >= 18.0, 1e-9 * most, most, relative=0.1) if rate(most) >= 18 else most)
