"""The random number of users' fakes: δ averaged over it.

Users draw their fakes independently of all records, so their total M has the same distribution under neighbouring
collections. An analyzer who also learns M sees at least as much (the view without M is a function of the view with it),
and given M the collection has exactly M fakes. For pairs of views (M, V) with one distribution of M the hockey-stick
divergence is the mean of those given M, so

    δ(ε) ≤ E[δ_M(ε)],

with equality where the analyzer can count the fakes, as with whole records.

δ_m does not rise in m: a further fake is independent of everything else, and adding it is post-processing. Let
0 = a_0 < a_1 < … < a_r, and let C_i ≥ P[M < a_i], C_{r+1} = 1, not fall in i. Summation by parts, with differences
δ_{a_i} − δ_{a_{i+1}} ≥ 0, gives

    E[δ_M] ≤ Σ_i P[a_i ≤ M < a_{i+1}]·δ_{a_i} ≤ Σ_i (C_{i+1} − C_i)·δ_{a_i},         C_0 = 0,

so upper bounds on the distribution function suffice. From some a_i downwards all blocks together weigh C_{i+1} at most.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.model.protocol import Fakes
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.rounding import up

Floats = NDArray[np.float64]
Blocks = list[tuple[int, float]]
"""Falling numbers and their weights, which add up to 1."""

REACH = 690.0  # masses below e^−690 are not resolved
NOTHING = 1e-299  # above that mass, and above everything that underflows
RELATIVE = 1e-9  # above the relative error of products of up to a million ratios
WIDE = 1e8  # variance above which Chernoff's bound replaces the table
COARSE = 0.05  # relative step from which on few blocks matter more than tight ones
NEGLIGIBLE = 1e-3  # share of the average below which smaller numbers are not looked at one by one


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """The total number of fakes of all honest users."""

    mean: float
    variance: float
    low: int
    below: Floats | None
    """Upper bounds on P[M < low], P[M < low + 1], …; None if the distribution is too wide for a table."""

    def fewer(self, a: int) -> float:
        """Return an upper bound on P[M < a].

        >>> number(Fakes.poisson(0.5), 2).fewer(1) >= math.exp(-1.0)
        True
        """
        if a <= 0:
            return 0.0
        if self.below is None:  # P[M ≤ mean − x] ≤ exp(−x²/(2·mean)), by Chernoff's bound
            gap = self.mean - (a - 1)
            return min(1.0, up(math.exp(-gap * gap / (2 * self.mean)), 1e-9) + NOTHING) if gap > 0 else 1.0
        if a >= self.low + self.below.size:
            return 1.0
        return min(1.0, up(float(self.below[max(a - self.low, 0)]), RELATIVE) + NOTHING)

    def starts(self, step: float, base: float = 0.0) -> list[int]:
        """Return numbers from three standard deviations above the mean down to 0.

        They are a relative ``step`` of a + ``base`` apart, but at most one standard deviation (two, if the step is
        coarse), or four of them where hardly any mass lies.
        """
        spread = math.sqrt(self.variance)
        most = spread if step < COARSE else 2 * spread
        found = [math.floor(self.mean + (3 * spread if self.below is not None else 0.0))]
        while found[-1] > 0:
            a = found[-1]
            if self.mean - a > 40 * math.sqrt(self.mean):  # all that is left has a mass below e^−800 (Chernoff)
                found.append(0)
                break
            width = min(step * (a + base), most) if abs(a - self.mean) < 6 * spread else 4 * spread
            found.append(max(0, a - max(1, math.floor(width))))
        return found


@lru_cache(maxsize=64)
def number(fakes: Fakes, honest: int) -> Number:
    """Return the total of the fakes that ``honest`` users draw.

    >>> number(Fakes.binomial(3, 1.0), 5).starts(0.02)[0]
    15
    """
    drawn = _moments(fakes, honest)
    if drawn.variance > WIDE:
        return Number(drawn.mean, drawn.variance, 0, None)
    exact = total(fakes, honest)
    # Dividing by the mass of the window only errs upwards, and what lies below it is part of NOTHING.
    return Number(drawn.mean, drawn.variance, exact.low, np.append(0.0, np.cumsum(exact.pmf))[:-1])


def _moments(fakes: Fakes, honest: int) -> Number:
    return Number(honest * fakes.mean, honest * fakes.variance, 0, None)


def total(fakes: Fakes, honest: int, share: float = 1.0) -> Distribution:
    """Return the distribution of the fakes that ``honest`` users draw and that pass with probability ``share`` each.

    Thinning Bin(m, s) leaves Bin(m, s·share), and Poisson(λ) leaves Poisson(λ·share). Probabilities have a relative
    error of 10⁻⁹ and leave out a mass of e⁻⁶⁹⁰ on either side (Bernstein).

    >>> total(Fakes.poisson(0.5), 2, 0.5).pmf[:2].round(6).tolist()
    [0.606531, 0.303265]
    """
    mean = honest * fakes.mean * share
    trials = honest * fakes.shift if fakes.distribution == "binomial" else 2**53
    chance = fakes.scale * share
    if fakes.distribution == "binomial" and chance >= 1.0:
        return Distribution(trials, np.ones(1))
    variance = mean * (1 - chance) if fakes.distribution == "binomial" else mean
    reach = REACH / 3 + math.sqrt((REACH / 3) ** 2 + 2 * REACH * variance)
    low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    counts = np.arange(low, high, dtype=np.float64)
    if fakes.distribution == "binomial":
        ratios = (trials - counts) / (counts + 1.0) * (chance / (1.0 - chance))
    else:
        ratios = mean / (counts + 1.0)
    mode = min(max(0, math.floor(mean) - low), ratios.size)
    rise = np.cumprod(1.0 / ratios[:mode][::-1])[::-1]
    weights = np.concatenate([rise, [1.0], np.cumprod(ratios[mode:])])
    return Distribution(low, weights / weights.sum())


def blocks(drawn: Number, *, step: float = 0.02, base: float = 0.0) -> Blocks:
    """Return falling numbers a_i and weights C_{i+1} − C_i of a variable that is stochastically at most M.

    ``base`` is about the number of fakes that hide as much as the users, so that δ depends on m + ``base``.

    >>> weights = [weight for _, weight in blocks(number(Fakes.poisson(2.0), 1))]
    >>> round(sum(weights), 12)
    1.0
    """
    found, high = [], 1.0
    for a in drawn.starts(step, base):
        low = min(drawn.fewer(a), high)
        if high > low:
            found.append((a, high - low))
        high = low
        if high == 0.0:
            break
    return found


def few_blocks(drawn: Number) -> Blocks:
    """Return blocks that start 1, 3, 6 and 12 standard deviations below the mean and at 0: for slow curves.

    >>> [a for a, _ in few_blocks(number(Fakes.poisson(1.0), 400))]
    [380, 340, 280, 160, 0]
    """
    spread = math.sqrt(drawn.variance)
    starts = sorted({max(0, math.floor(drawn.mean - x * spread)) for x in (1, 3, 6, 12)} | {0}, reverse=True)
    found, high = [], 1.0
    for a in starts:
        low = min(drawn.fewer(a), high)
        if high > low:
            found.append((a, high - low))
        high = low
    return found


def plus(one: Blocks, two: Blocks, step: float = 0.02) -> Blocks:
    """Return blocks of the sum of two independent numbers; sums are rounded down to steps of a relative ``step``.

    >>> plus([(3, 0.5), (0, 0.5)], [(1, 1.0)])
    [(4, 0.5), (1, 0.5)]
    """
    sums = sorted(((a + b, v * w) for a, v in one for b, w in two), reverse=True)
    found: list[tuple[int, float]] = []
    group: list[tuple[int, float]] = []
    for value, weight in sums:
        if group and value < group[0][0] * (1 - step):
            found.append((group[-1][0], math.fsum(w for _, w in group)))
            group = []
        group.append((value, weight))
    found.append((group[-1][0], math.fsum(w for _, w in group)))
    return found


def merged(found: Blocks, fewer: float) -> Blocks:
    """Return two of these blocks instead of all: a number below which lies at most the mass ``fewer``, and the least.

    >>> merged([(9, 0.5), (7, 0.25), (3, 0.2), (1, 0.05)], 0.1)
    [(3, 0.95), (1, 0.05)]
    """
    rest = 0.0
    for i in range(len(found) - 1, 0, -1):
        if rest + found[i][1] > fewer:
            first = (found[i][0], math.fsum(share for _, share in found[: i + 1]))
            return [first, (found[-1][0], rest)] if rest else [first]
        rest += found[i][1]
    return [found[0], (found[-1][0], rest)] if rest else found


def _log_sum(logs: list[float]) -> float:
    """Return the logarithm of a sum, −∞ if all terms are 0."""
    top = max(logs)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(each - top) for each in logs))


def average(drawn: Blocks, curve: Callable[[int], float]) -> float:
    """Return ln E[δ_M] for m ↦ ln δ_m = ``curve(m)``, which does not rise; errs upwards, by half a step on average.

    >>> few = blocks(number(Fakes.poisson(2.0), 1))
    >>> exact = -2.0 * (1 - math.exp(-1.0))  # E e^{−M} of a Poisson variable
    >>> 0.0 <= average(few, lambda m: -float(m)) - exact < 0.01
    True
    """
    logs: list[float] = []
    below = np.cumsum([weight for _, weight in reversed(drawn)])[::-1]
    for (a, share), others in zip(drawn, below.tolist(), strict=True):
        weight, rest = max(share, NOTHING), max(others, NOTHING)  # the product of two small weights underflows
        if logs and math.log(rest) < _log_sum(logs) + math.log(NEGLIGIBLE):
            logs.append(math.log(rest))  # this and all smaller numbers together: δ is at most 1
            break
        logs.append(math.log(weight) + min(curve(a), 0.0))
    return min(0.0, _log_sum(logs) + 1e-9)


def attained(drawn: Number, curve: Callable[[int], float], *, step: float = 0.02, base: float = 0.0) -> float:
    """Return a lower bound on ln E[δ_M] for a lower bound m ↦ ``curve(m)`` on ln δ_m, which does not rise.

    Σ_i P[a_i ≤ M < a_{i+1}]·δ_{a_{i+1}−1}; an attack on collections with a number of fakes that the analyzer knows.

    >>> few = number(Fakes.poisson(2.0), 1)
    >>> 0.0 <= -2.0 * (1 - math.exp(-1.0)) - attained(few, lambda m: -float(m)) < 0.01
    True
    """
    if drawn.below is None:
        return -math.inf
    logs = [-math.inf]
    starts = drawn.starts(step, base)
    for high, low in itertools.pairwise(starts):
        first, last = (int(np.clip(a - drawn.low, 0, drawn.below.size - 1)) for a in (low, high))
        mass = float(drawn.below[last] - drawn.below[first]) - 2 * RELATIVE * float(drawn.below[last]) - NOTHING
        if mass > 0:
            logs.append(math.log(mass) + curve(high - 1))
        if float(drawn.below[first]) < 1e-30:
            break
    return _log_sum(logs)
