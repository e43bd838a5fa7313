"""The privacy loss of a clear category among the uniform fakes of the users, as a measure on a grid.

Of all fakes, N fall on the old or the new category of the record that changes; N is binomial or Poisson and has the
same distribution whatever the record is, so that the loss is a mixture over N
(:mod:`hubbub.accountant.theorems.fakes`). Given N, the analyzer sees x messages for the new category and y = N + 1 − x
for the other, with

    P(x, y) = C(N, x−1)·2⁻ᴺ,    Q(x, y) = C(N, x)·2⁻ᴺ,    P/Q = x/y,

so that the loss is ln(x/y), and infinite for y = 0.

**Fewer fakes cover more.** The pair of N fakes arises from that of M ≤ N by adding N − M fakes, which depend on no
record: post-processing. Hence all N of a short interval may be replaced by the smallest of them, which keeps the cost
independent of the number of people. The variance of the loss, about 4/N, grows by half the relative
width of an interval at most.
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hubbub.accountant.composition import UNIT, Loss
from hubbub.errors import check_memory
from hubbub.model.protocol import Fakes
from hubbub.numeric import portable

Floats = NDArray[np.float64]

COARSE = 4e-4  # relative width of an interval of N
DEPTH = 60.0  # −ln of the mass on either side of a window that counts as an infinite loss
RELATIVE = 1e-12  # above the relative error of exponentials


@lru_cache(maxsize=256)
def user_loss(users: Fakes, honest: int, categories: int, step: float, coarse: float = COARSE) -> Loss:
    """Return the loss of one clear category among the uniform fakes that ``honest`` users draw; errs upwards.

    Exact for every collection, up to the grid and to intervals of N.

    >>> from hubbub.accountant.theorems.fakes import uniform_delta
    >>> loss = user_loss(Fakes.binomial(1, 0.5), 2000, 10, 1e-3)
    >>> 1 <= loss.delta(0.5) / uniform_delta(0.5, 2000, 10, share=0.5) < 1.001
    True
    """
    first, second = _pairs(users, honest, categories, coarse, 1)
    loss = Loss.from_distributions(first, second, step)
    # Beyond the window of N, and beyond that of each binomial distribution, on either side.
    return replace(loss, infinite=loss.infinite + 4 * math.exp(-DEPTH))


def attacked_pair(users: Fakes, honest: int, categories: int) -> tuple[Floats, Floats]:
    """Return the two distributions of a clear category among uniform fakes, for an attack; they err downwards.

    Every N of an interval is replaced by the largest of them.

    >>> first, second = attacked_pair(Fakes.binomial(1, 0.5), 200, 10)
    >>> 0.99 < float(first.sum()) <= 1.0
    True
    """
    return _pairs(users, honest, categories, 5 * COARSE, -1)


def _pairs(users: Fakes, honest: int, categories: int, coarse: float, side: int) -> tuple[Floats, Floats]:
    """Return the probabilities of all (N, x), and those of the second distribution at the exact ratio y/x."""
    low, weights = _numbers(users, honest, categories)
    starts = _starts(low, weights.size, coarse)
    shares = np.add.reduceat(weights, starts)
    chosen = starts if side > 0 else np.append(starts[1:], weights.size) - 1
    number = (low + chosen).astype(np.float64)[:, None]
    # Hoeffding: beyond |x − 1 − N/2| = √(N·DEPTH/2) lies a mass of e^−DEPTH on either side.
    reach = math.ceil(math.sqrt((low + int(chosen[-1])) * DEPTH / 2)) + 1
    check_memory("the distribution of the fakes", 64 * starts.size * (2 * reach + 1))
    drawn = np.floor(number / 2) + np.arange(-reach, reach + 1.0)  # x − 1, those that fell on the new category
    inside = (drawn >= 0) & (drawn <= number)
    drawn = np.asarray(np.clip(drawn, 0.0, number), np.float64)
    logs = _log_factorials(number) - _log_factorials(drawn) - _log_factorials(number - drawn) - number * math.log(2.0)
    # The logarithms of factorials are right to a few units in the last place.
    error = RELATIVE + 64 * UNIT * math.lgamma(low + weights.size + 1.0) + 8 * UNIT * weights.size
    first = (portable.exp(logs) * shares[:, None] * (1 + side * error))[inside]
    return first, first * ((number - drawn) / (drawn + 1.0))[inside]


def _starts(low: int, size: int, coarse: float) -> NDArray[np.int64]:
    """Return where intervals of N begin, counted from the smallest N."""
    found = [0]
    while (after := found[-1] + max(1, math.floor(coarse * (low + found[-1])))) < size:
        found.append(after)
    return np.array(found)


def _log_factorials(whole: Floats) -> Floats:
    """Return ln k! of whole numbers, from a table of those between the smallest and the largest."""
    low, high = float(whole.min()), float(whole.max())
    return np.asarray(gammaln(np.arange(low, high + 1.0) + 1.0)[(whole - low).astype(np.int64)])


def _numbers(users: Fakes, honest: int, categories: int) -> tuple[int, Floats]:
    """Return the smallest N of a window and upper bounds on the probabilities of all N in it."""
    if users.distribution == "binomial":
        trials, chance = honest * users.shift, 2.0 * users.scale / categories
        mean, variance, most = trials * chance, trials * chance * (1 - chance), trials
    else:
        mean = variance = 2.0 * honest * users.scale / categories
        most = 2**54
    if variance <= 0.0:
        return round(mean), np.ones(1)
    reach = DEPTH / 3 + math.sqrt((DEPTH / 3) ** 2 + 2 * DEPTH * variance)  # Bernstein's inequality
    low, high = max(0, math.floor(mean - reach)), min(most, math.ceil(mean + reach))
    check_memory("the distribution of the fakes", 64 * (high - low))
    counts = np.arange(low, high, dtype=np.float64)
    if users.distribution == "binomial":
        ratios = (trials - counts) / (counts + 1.0) * (chance / ((categories - 2.0 * users.scale) / categories))
    else:
        ratios = mean / (counts + 1.0)
    mode = min(max(0, math.floor(mean) - low), ratios.size)
    rise = np.cumprod(1.0 / ratios[:mode][::-1])[::-1]
    weights = np.concatenate([rise, [1.0], np.cumprod(ratios[mode:])])
    # Dividing by the mass of the window only errs upwards.
    return low, weights / weights.sum()
