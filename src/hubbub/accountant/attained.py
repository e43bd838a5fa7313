"""Privacy loss distributions that err downwards: the δ that an attack attains.

An :class:`Attained` is a measure ν on the losses {base + step·i} and on +∞ with

    ν[x] = Σ_l ν(l)·(1 − x·e^(−l))⁺ + ν(∞) ≤ H_x(P‖Q)        for every x ≥ 0.

Dropping mass, or moving it to a lower loss, lowers ν[x], and so does every step here: it is the counterpart of
:class:`hubbub.accountant.composition.Loss`, whose argument for compositions holds with ≤ instead of ≥.

**Many copies** take one Fourier transform of the tilted row a_i·e^(ti)/c for each of a few tilts t. With ‖X̂ − X‖₂ ≤
η‖X‖₂, η = 8·2⁻⁵³·log₂ N [Higham 2002, Theorem 24.2], and \\|X\\| ≤ 1, the product of m such rows is off by at most
3·m·η·‖a‖₂ in *every* entry, ‖a‖₂ that of the longest of them. The cycle spans 20 standard deviations of the tilted sum
on both sides of its mean if hardly any mass lies beyond (Chernoff), and all values otherwise; what lies beyond may
reappear in the cycle, so its bound is subtracted as well. Each tilt gives a lower bound on each entry; the largest
counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import check_delta, check_epsilon, check_whole
from hubbub.numeric.inversion import falling_root

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats, int]
"""Two distributions over the same outcomes, and the number of copies."""

UNIT = 2.0**-53
ERROR = 1e-11  # above the relative error of given probabilities, and of their logarithms' differences
SMALLEST = 1e-300  # probabilities below it are dropped
GRAIN = 200  # steps by which all roundings together lower a loss, per standard deviation of the sum: at most one half
RATES = (0.0, 20.0, 60.0, 180.0, 500.0)  # −ln of the probability of the losses around which a tilt is precise
BUCKETS = 2**12  # groups of nodes in a Chernoff bound
DIRECT = 2**12  # entries of a sum up to which it is summed term by term, which keeps every entry's relative accuracy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Attained:
    """A measure on {base, base + step, …} and +∞ below a pair of distributions (see the module's text).

    ``delta`` and ``epsilon`` err downwards: they are never above those of the pair.
    """

    base: float
    step: float
    masses: Floats
    infinite: float

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) = Σ_{l > ε} ν(l)·(1 − e^(ε−l)) + ν(∞); errs downwards.

        >>> repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).delta(0.0) <= 0.5
        True
        """
        losses = self.base + self.step * np.arange(self.masses.size)
        start = int(np.searchsorted(losses, check_epsilon(epsilon), side="right"))
        shares = -np.expm1(epsilon - losses[start:])
        return (float((self.masses[start:] * shares).sum()) + self.infinite) * (1 - ERROR)

    def epsilon(self, delta: float) -> float:
        """Return an ε ≥ 0 with δ(ε) > δ, within 10⁻⁹ of the largest; 0 if there is none, ∞ if every ε is one.

        >>> round(repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).epsilon(1e-9), 3)      # ln 3 is 1.0986
        1.099
        """
        delta = check_delta(delta)
        if self.infinite * (1 - ERROR) > delta:
            return math.inf
        top = max(0.0, self.base + self.step * self.masses.size)
        return min(falling_root(lambda x: self.delta(x) - delta, top / 2, top, relative=1e-9)) if top else 0.0


def repeated(first: Floats, second: Floats, count: int) -> Attained:
    """Return the loss of ``count`` copies of a pair of distributions; errs downwards, so it is an attack.

    >>> repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).delta(0.0) <= 0.5
    True
    """
    return together([(first, second, count)])


def together(pairs: Sequence[Pair]) -> Attained:
    """Return the loss of several pairs at once, each in its number of copies; errs downwards, so it is an attack.

    Losses are rounded down on a grid on which the largest loss of each pair lies, so that what only the largest losses
    attain is not lost.

    >>> coin = np.array([0.75, 0.25])
    >>> both = together([(coin, coin[::-1], 2), (coin[::-1], coin, 1)])
    >>> 0.687 < both.delta(0.0) <= 0.6875
    True
    """
    hidden = 0.0  # ln of the probability that no outcome of infinite loss occurs
    rows: list[tuple[Floats, Floats, int]] = []
    for first, second, copies in pairs:
        count = check_whole("count", copies)
        if count == 0:
            continue
        certain = float(first[(first > SMALLEST) & (second == 0)].sum())
        hidden += count * math.log1p(-min(certain, 1 - UNIT))
        finite = (first > SMALLEST) & (second > 0)
        rows.append((first[finite], np.log(first[finite]) - np.log(second[finite]), count))
    infinite = -math.expm1(hidden)
    if not rows or any(mass.size == 0 for mass, _, _ in rows):
        return Attained(base=0.0, step=1.0, masses=np.zeros(1), infinite=infinite)
    step = _step(rows)
    grids = [_Row.of(mass, losses, step, count) for mass, losses, count in rows]
    low, masses = _product(grids)
    # The logarithms carry the relative errors of the probabilities.
    base = math.fsum(row.count * (row.top - ERROR * (1 + abs(row.top))) for row in grids) + step * low
    total = sum(row.count for row in grids)
    return Attained(base=base, step=step, masses=masses * (1 - ERROR) ** total, infinite=infinite)


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
            logs = np.log(self.masses) + tilt * np.arange(1 - self.masses.size, 1)
        peak = float(logs.max())
        weights = np.exp(logs - peak)
        total = float(weights.sum())
        return weights / total, peak + math.log(total)


def _step(rows: Sequence[tuple[Floats, Floats, int]]) -> float:
    variance, widest, total = 0.0, 0.0, 0
    for mass, losses, count in rows:
        share = float(mass.sum())
        mean = float((mass * losses).sum()) / share
        variance += count * float((mass * (losses - mean) ** 2).sum()) / share
        widest, total = max(widest, float(np.ptp(losses))), total + count
    return max(math.sqrt(variance) / (GRAIN * total), widest / 2**20, 1e-12)


def _product(rows: Sequence[_Row]) -> tuple[int, Floats]:
    """Return lower bounds on the entries of the product of all rows, from the node low ≤ 0 on; tops are at node 0."""
    length = 1 + sum(row.count * (row.masses.size - 1) for row in rows)
    if length <= DIRECT:
        product = np.ones(1)
        for row in rows:
            for _ in range(row.count):
                product = np.convolve(product, row.masses) * (1 - 2 * (row.masses.size + 1) * UNIT)
        return 1 - length, product
    found = [_tilted_product(rows, length, tilt) for tilt in _tilts(rows)]
    low = min(start for start, _ in found)
    best = np.zeros(1 - low)
    for start, entries in found:
        part = best[start - low : start - low + entries.size]
        np.maximum(part, entries[: part.size], out=part)
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
    for goal in RATES[1:]:
        if rate(top) <= goal:
            break
        found.append(falling_root(lambda tilt, goal=goal: goal - rate(tilt), top / 8, top, relative=0.1)[1])  # type: ignore[misc]
    return found


def _tilted_product(rows: Sequence[_Row], length: int, tilt: float) -> tuple[int, Floats]:
    """Return the first node and lower bounds on the entries of the product, precise around the tilted mean."""
    weights, scale, mean, variance, longest, total = [], 0.0, 0.0, 0.0, 0.0, 0
    for row in rows:
        each, log = row.tilted(tilt)
        nodes = np.arange(1 - each.size, 1)
        centre = float((each * nodes).sum())
        mean, variance = mean + row.count * centre, variance + row.count * float((each * (nodes - centre) ** 2).sum())
        longest, total = max(longest, math.sqrt(float((each * each).sum()))), total + row.count
        scale += row.count * log
        weights.append(each)
    window = 20 * math.sqrt(variance) + 2 * max(row.masses.size for row in rows)
    beyond = _beyond(rows, weights, window)
    if beyond > math.log(1e-17) or 2 * window >= length:
        window, beyond = float(length), -math.inf
    size = 1 << math.ceil(math.log2(min(length, 2 * window + 2)))
    product = np.ones(size // 2 + 1, np.complex128)
    for row, each in zip(rows, weights, strict=True):
        # Entries beyond the cycle wrap around, as the sums do.
        product *= np.fft.rfft(np.bincount(np.arange(each.size) % size, each, size)) ** row.count
    error = 3 * total * 8 * UNIT * math.log2(size) * longest + math.exp(beyond)
    entries = np.fft.irfft(product, size) - error  # entry i is the sum of all nodes ≡ i + 1 − length modulo size
    first = 1 - length if math.isinf(beyond) else max(1 - length, math.floor(mean) - size // 2)
    last = min(0, first + size - 1)
    nodes = np.arange(first, last + 1)
    entries = entries[(nodes - (1 - length)) % size]
    known = entries > 0.0
    bound = np.zeros(nodes.size)
    bound[known] = np.exp(np.log(entries[known]) + scale - tilt * nodes[known]) * (1 - ERROR)
    return first, bound


def _beyond(rows: Sequence[_Row], weights: Sequence[Floats], window: float) -> float:
    """Return a bound on ln P[|S − E S| > window] for the sum S of all copies, by Chernoff's inequality."""
    bounds = []
    reach = max(row.masses.size for row in rows)
    for side in (1, -1):
        tilts = np.geomspace(1e-4, 600.0, 40) / reach
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
            logs += row.count * (peak + np.log((mass * np.exp(exponents - peak[:, None])).sum(axis=1)))
        bounds.append(float((logs - tilts * window).min()))
    return max(bounds) + math.log(2)
