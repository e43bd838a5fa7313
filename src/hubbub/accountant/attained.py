"""Privacy loss distributions that err downwards: the δ that an attack attains.

An :class:`Attained` is a measure ν on finitely many losses and on +∞ with

    ν[x] = Σ_l ν(l)·(1 − x·e^(−l))⁺ + ν(∞) ≤ H_x(P‖Q)        for every x ≥ 0.

Dropping mass, moving it to a lower loss, or *merging* losses at −ln of the mean of e^(−l) (Jensen) lowers ν[x], and so
does every step here: it is the counterpart of :class:`hubbub.accountant.composition.Loss`, whose argument for
compositions holds with ≤ instead of ≥.

**Many copies.** Losses are rounded down on a grid; the rows of masses are multiplied by one Fourier transform for each
of a few tilts t, of a_i·e^(ti)/c. With ‖X̂ − X‖₂ ≤ η‖X‖₂, η = 8·2⁻⁵³·log₂ N [Higham 2002, Theorem 24.2], and moduli of
at most 1, the product of m rows is off by at most 3·m·η·‖a‖₂ in *every* entry, ‖a‖₂ the largest of them. The cycle
spans some standard deviations of the tilted sum on both sides of its mean if hardly any mass lies beyond (Chernoff),
and all values otherwise; mass beyond may reappear in the cycle, so its bound is subtracted as well. Each tilt gives a
lower bound on each entry; the largest counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import check_delta, check_epsilon, check_whole
from hubbub.numeric import portable
from hubbub.numeric.inversion import falling_root

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats, int]
"""Two distributions over the same outcomes, and the number of copies."""

UNIT = 2.0**-53
ERROR = 1e-11  # above the relative error of given probabilities, and of their logarithms' differences
SMALLEST = 1e-100  # probabilities below it are dropped
LOWEST = 1e-13  # mass of the lowest losses that is dropped from each copy: it would make the grid long
GRAIN = (25.0, 200.0)  # the roundings of all copies lower a loss by half a standard deviation of the sum, divided by it
FINE = 12800.0  # copies times grain, within these limits
KEPT = 2**13  # losses that are kept; more are merged
CYCLE = 2**21  # entries of one Fourier transform
WINDOWS = (10.0, 20.0, 40.0)  # standard deviations on both sides of the mean
BEYOND = math.log(1e-18)
RATES = (20.0, 60.0, 180.0)  # −ln of the probability of the losses around which a tilt is precise
BUCKETS = 2**12  # groups of nodes in a Chernoff bound
DIRECT = 2**12  # entries of a sum up to which it is summed term by term, which keeps every entry's relative accuracy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Attained:
    """A measure on losses, in increasing order, and +∞ below a pair of distributions (see the module's text).

    ``delta`` and ``epsilon`` err downwards: they are never above those of the pair.
    """

    losses: Floats
    masses: Floats
    infinite: float

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) = Σ_{l > ε} ν(l)·(1 − e^(ε−l)) + ν(∞); errs downwards.

        >>> repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).delta(0.0) <= 0.5
        True
        """
        start = int(np.searchsorted(self.losses, check_epsilon(epsilon), side="right"))
        shares = -portable.expm1(epsilon - self.losses[start:])
        return (float((self.masses[start:] * shares).sum()) + self.infinite) * (1 - ERROR)

    def epsilon(self, delta: float) -> float:
        """Return an ε ≥ 0 with δ(ε) > δ, within 10⁻⁹ of the largest; 0 if there is none, ∞ if every ε is one.

        >>> round(repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).epsilon(1e-9), 3)      # ln 3 is 1.0986
        1.099
        """
        delta = check_delta(delta)
        if self.infinite * (1 - ERROR) > delta:
            return math.inf
        top = max(0.0, float(self.losses[-1]))
        return falling_root(lambda x: self.delta(x) - delta, top / 2, top, relative=1e-9)[0] if top else 0.0


def repeated(first: Floats, second: Floats, count: int) -> Attained:
    """Return the loss of ``count`` copies of a pair of distributions; errs downwards, so it is an attack.

    >>> repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).delta(0.0) <= 0.5
    True
    """
    return together([(first, second, count)])


def together(pairs: Sequence[Pair]) -> Attained:
    """Return the loss of several pairs at once, each in its number of copies; errs downwards, so it is an attack.

    The largest loss of each pair lies on the grid, so that nothing is lost that only the largest losses attain.

    >>> coin = np.array([0.75, 0.25])
    >>> both = together([(coin, coin[::-1], 2), (coin[::-1], coin, 1)])
    >>> 0.687 < both.delta(0.0) <= 0.6875
    True
    """
    hidden = 0.0  # ln of the probability that no outcome of infinite loss occurs
    rows: list[Pair] = []
    for first, second, copies in pairs:
        count = check_whole("count", copies)
        if count == 0:
            continue
        certain = float(first[(first > SMALLEST) & (second == 0)].sum())
        hidden += count * math.log1p(-min(certain, 1 - UNIT))
        finite = (first > SMALLEST) & (second > 0)
        mass, losses = first[finite], portable.log(first[finite]) - portable.log(second[finite])
        order = np.argsort(losses, kind="stable")
        used = order[np.cumsum(mass[order]) > LOWEST]
        rows.append((mass[used], losses[used], count))
    infinite = -math.expm1(hidden)
    if not rows or any(mass.size == 0 for mass, _, _ in rows):
        return Attained(losses=np.zeros(1), masses=np.zeros(1), infinite=infinite)
    if sum(count * math.log(mass.size) for mass, _, count in rows) <= math.log(KEPT):
        return _listed(rows, infinite)
    step = _step(rows)
    grids = [_Row.of(mass, losses, step, count) for mass, losses, count in rows]
    window = _cycle(grids, [row.tilted(0.0)[0] for row in grids])[0]
    span = min(_length(grids), 2 * window + 2)
    if span > CYCLE:  # too fine for one cycle
        step *= 2 * span / CYCLE
        grids = [_Row.of(mass, losses, step, count) for mass, losses, count in rows]
    low, masses = _product(grids)
    # The logarithms carry the relative errors of the probabilities.
    top = math.fsum(row.count * (row.top - ERROR * (1 + abs(row.top))) for row in grids)
    used = np.flatnonzero(masses[max(0, math.floor(-top / step) - low) :])  # only positive losses count at ε ≥ 0
    if used.size == 0:
        return Attained(losses=np.zeros(1), masses=np.zeros(1), infinite=infinite)
    first, last = used[[0, -1]] + max(0, math.floor(-top / step) - low)
    total = sum(row.count for row in grids)
    losses = top + step * np.arange(low + first, low + last + 1)
    return _merged(losses, masses[first : last + 1] * (1 - ERROR) ** total, infinite)


def _listed(rows: Sequence[Pair], infinite: float) -> Attained:
    """Return the product of all rows by listing its outcomes: few losses far apart would make the grid long."""
    losses, masses = np.zeros(1), np.ones(1)
    for mass, each, count in rows:
        for _ in range(count):
            losses = np.add.outer(losses, each - ERROR * (1 + np.abs(each))).ravel()
            masses = np.multiply.outer(masses, mass * (1 - ERROR)).ravel()
    order = np.argsort(losses, kind="stable")
    return Attained(losses=losses[order], masses=masses[order], infinite=infinite)


def _merged(losses: Floats, masses: Floats, infinite: float) -> Attained:
    """Return the measure with neighbouring losses merged, from the largest downwards, until ``KEPT`` remain."""
    width = -(-losses.size // KEPT)
    if width > 1:
        lacking = -losses.size % width
        losses, masses = np.pad(losses, (lacking, 0), mode="edge"), np.pad(masses, (lacking, 0))
        groups, weights = losses.reshape(-1, width), masses.reshape(-1, width)
        below = groups[:, -1:] - groups
        mass = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = portable.log((weights * portable.exp(below)).sum(axis=1) / mass) * (1 + 1e-12) + 4 * UNIT * abs(
                losses[-1]
            )
        losses = np.where(mass > 0, groups[:, -1] - moved, groups[:, 0])
        masses = mass
    return Attained(losses=losses, masses=masses, infinite=infinite)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One pair on the grid: the mass at top − step·(size − 1), …, top − step, top."""

    top: float
    masses: Floats
    count: int

    @classmethod
    def of(cls, mass: Floats, losses: Floats, step: float, count: int) -> "_Row":
        top = float(losses.max())
        nodes = np.ceil((top - losses) / step).astype(np.int64)
        return cls(top=top, masses=np.bincount(nodes, mass)[::-1].astype(np.float64), count=count)

    def tilted(self, tilt: float) -> tuple[Floats, float]:
        """Return the masses times e^(tilt·node), normalized, and ln of the normalization; nodes are counted from 0."""
        with np.errstate(divide="ignore"):
            logs = portable.log(self.masses) + tilt * np.arange(1 - self.masses.size, 1)
        peak = float(logs.max())
        weights = portable.exp(logs - peak)
        total = float(weights.sum())
        return weights / total, peak + math.log(total)


def _step(rows: Sequence[Pair]) -> float:
    variance, widest, total = 0.0, 0.0, 0
    for mass, losses, count in rows:
        share = float(mass.sum())
        mean = float((mass * losses).sum()) / share
        variance += count * float((mass * (losses - mean) ** 2).sum()) / share
        widest, total = max(widest, float(np.ptp(losses))), total + count
    grain = min(max(FINE / total, GRAIN[0]), GRAIN[1])
    return max(math.sqrt(variance) / (grain * total), widest / 2**20, 1e-12)


def _product(rows: Sequence[_Row]) -> tuple[int, Floats]:
    """Return lower bounds on the entries of the product of all rows, from the node low ≤ 0 on; tops are at node 0."""
    length = _length(rows)
    if length <= DIRECT:
        product = np.ones(1)
        for row in rows:
            for _ in range(row.count):
                product = portable.convolve(product, row.masses) * (1 - 2 * (row.masses.size + 1) * UNIT)
        return 1 - length, product
    found = [part for tilt in _tilts(rows) if (part := _tilted_product(rows, length, tilt)) is not None]
    if not found:
        return 0, np.zeros(1)
    low = min(start for start, _ in found)
    best = np.zeros(1 - low)
    for start, entries in found:
        window = slice(start - low, start - low + entries.size)
        best[window] = np.maximum(best[window], entries)
    return low, best


def _tilts(rows: Sequence[_Row]) -> list[float]:
    """Return the tilts t ≥ 0 at which t·K'(t) − K(t) reaches each rate, K = Σ ln E e^(t·node)."""

    def rate(tilt: float) -> float:
        total = 0.0
        for row in rows:
            weights, log = row.tilted(tilt)
            total += row.count * (tilt * float((weights * np.arange(1 - weights.size, 1)).sum()) - log)
        return total

    found, top = [0.0], 700.0 / max(row.masses.size for row in rows)
    for goal in RATES:
        if rate(top) <= goal:
            break
        found.append(falling_root(lambda tilt, goal=goal: goal - rate(tilt), top / 8, top, relative=0.1)[1])  # type: ignore[misc]
    return found


def _length(rows: Sequence[_Row]) -> int:
    return 1 + sum(row.count * (row.masses.size - 1) for row in rows)


def _cycle(rows: Sequence[_Row], weights: Sequence[Floats]) -> tuple[float, float]:
    """Return how far the cycle reaches from the mean, and a bound on ln of the mass beyond; (∞, −∞) for all values."""
    variance = 0.0
    for row, each in zip(rows, weights, strict=True):
        nodes = np.arange(each.size)
        variance += row.count * float((each * (nodes - float((each * nodes).sum())) ** 2).sum())
    for deviations in WINDOWS:
        window = deviations * math.sqrt(variance) + 10
        beyond = _beyond(rows, weights, window)
        if beyond <= BEYOND:
            return window, beyond
    return math.inf, -math.inf


def _tilted_product(rows: Sequence[_Row], length: int, tilt: float) -> tuple[int, Floats] | None:
    """Return the first node and lower bounds on the entries of the product, precise around the tilted mean.

    None if the cycle would be too long.
    """
    tilted = [row.tilted(tilt) for row in rows]
    weights = [each for each, _ in tilted]
    scale = math.fsum(row.count * log for row, (_, log) in zip(rows, tilted, strict=True))
    window, beyond = _cycle(rows, weights)
    span = min(length, 2 * window + 2)
    if span > CYCLE:
        return None
    if span == length:
        beyond = -math.inf
    size = 1 << math.ceil(math.log2(span))
    product = np.ones(size // 2 + 1, np.complex128)
    longest, mean, total = 0.0, 0.0, 0
    for row, each in zip(rows, weights, strict=True):
        # Entries beyond the cycle wrap around, as the sums do.
        factor = np.fft.rfft(np.bincount(np.arange(each.size) % size, each, size))
        product = portable.times(product, portable.power(factor, row.count))
        longest, total = max(longest, math.sqrt(float((each * each).sum()))), total + row.count
        mean += row.count * float((each * np.arange(1 - each.size, 1)).sum())
    error = 3 * total * 8 * UNIT * math.log2(size) * longest + math.exp(beyond)
    entries = np.fft.irfft(product, size) - error  # entry i is the sum of all nodes ≡ i + 1 − length modulo size
    first = 1 - length if span == length else max(1 - length, math.floor(mean) - size // 2)
    nodes = np.arange(first, min(0, first + size - 1) + 1)
    entries = entries[(nodes - (1 - length)) % size]
    known = entries > 0.0
    bound = np.zeros(nodes.size)
    bound[known] = portable.exp(portable.log(entries[known]) + scale - tilt * nodes[known]) * (1 - ERROR)
    return first, bound


def _beyond(rows: Sequence[_Row], weights: Sequence[Floats], window: float) -> float:
    """Return a bound on ln P[|S − E S| > window] for the sum S of all copies, by Chernoff's inequality."""
    bounds = []
    reach = max(row.masses.size for row in rows)
    for side in (1, -1):
        tilts = portable.exp(np.linspace(math.log(1e-4), math.log(600.0), 40)) / reach
        logs = np.zeros(tilts.size)
        for row, each in zip(rows, weights, strict=True):
            nodes = np.arange(1 - each.size, 1)
            width = -(-each.size // BUCKETS)  # nodes in a bucket count as the outermost of them
            bucket = np.arange(each.size) // width
            mass = np.bincount(bucket, each)
            ends = nodes[0] + width * np.arange(mass.size) + (width - 1 if side == 1 else 0)
            away, mass = side * (ends - float((each * nodes).sum()))[mass > 0], mass[mass > 0]
            exponents = np.outer(tilts, away)
            peak = exponents.max(axis=1)
            logs += row.count * (peak + portable.log((mass * portable.exp(exponents - peak[:, None])).sum(axis=1)))
        bounds.append(float((logs - tilts * window).min()))
    return max(bounds) + math.log(2)
