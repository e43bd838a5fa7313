"""One bit per person, sent in k flipped copies: certified over all collections, at a cost that does not grow with n.

The analyzer sees how many of the n·k shuffled bits are set. Of the n − 1 others, ``ones`` hold a 1 and ``zeros`` a 0.
With A ~ Bin(k·ones, p) + Bin(k·zeros, q),

    δ(ε) = max_t Σ_{s≥t} [ P(A + Bin(k,p) = s) − e^ε P(A + Bin(k,q) = s) ]     [002 Thm 4.1].

The opposite order exchanges ``ones`` and ``zeros``, so a supremum over ``ones`` = 0 … n − 1 covers both orders.

*Fakes* are single messages. ``fair`` of them are uniform bits: flipping leaves them uniform, so they add Bin(fair, 1/2)
to A. ``singles`` of them are flipped bits of unknown value, which count as further messages of the crowd: its
``ones`` + ``zeros`` = k(n − 1) + ``singles`` *messages* are then distributed in every possible way.

*One pair* of neighbouring crowds is bounded from both sides in :mod:`hubbub.accountant.theorems.pair`.

*All collections.* By the data-processing inequality, every ``ones`` in [i, j] has δ at most that of a crowd of only i
ones and n − 1 − j zeros: branch and bound over such blocks.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.accountant.theorems.pair import ENUMERATED, ULPS, Tilt, Whole, Window, enumerated, log_exponent, tilted
from hubbub.errors import check_delta, check_epsilon, check_flip, check_whole, reject
from hubbub.model.plans import MAX_PEOPLE
from hubbub.numeric.inversion import falling_root
from hubbub.numeric.rounding import up

Floats = NDArray[np.float64]


MAX_CROWD = 100 * MAX_PEOPLE  # largest crowd, users and fakes together
NOTHING = 600.0  # below e^−600, δ is bounded by the exponent alone


def log_odds(q: float) -> float:
    """Return ln(p/q), to a few units in the last place also next to q = 1/2.

    >>> round(log_odds(0.25), 9) == round(math.log(3), 9)
    True
    """
    return math.log1p(-q) - math.log(q) if q < 0.25 else math.log1p((1.0 - 2 * q) / q)


def pure_epsilon(q: float, k: int) -> float:
    """Return k·ln(p/q), from which on δ = 0; errs upwards.

    >>> pure_epsilon(0.25, 2) >= 2 * math.log(3)
    True
    """
    return up(k * log_odds(q), ULPS)


def log_delta(ones: ArrayLike, zeros: ArrayLike, q: float, epsilon: float, k: int = 1, *, fair: int = 0) -> Floats:
    """Return upper bounds on ln δ(ε) of "own bit 1 against 0" in crowds of ``ones`` and ``zeros`` others.

    ``fair`` uniform bits are added to every crowd. ``ones`` and ``zeros`` count users of k messages each, and may be
    multiples of 1/k.

    Errs upwards, by less than 10⁻⁹ relative to δ for crowds up to 10⁷ and 10⁻⁵ up to 10⁹; by more only where δ itself
    is a cancelling difference, next to the pure ε. −∞ where ε ≥ k·ln(p/q).

    >>> float(np.exp(log_delta([99], [0], 0.1, np.log(2))[0]))  # all others hold a 1
    0.00338156039...
    """
    q = check_flip(q)
    k = check_whole("k", k, 1)
    epsilon = check_epsilon(epsilon)
    one = np.atleast_1d(np.asarray(ones, dtype=np.float64))
    zero = np.atleast_1d(np.asarray(zeros, dtype=np.float64))
    if one.shape != zero.shape or one.ndim != 1 or (one < 0).any() or (zero < 0).any():
        reject("ones and zeros", "be non-negative lists of the same length")
    return _log_delta(one, zero, q, epsilon, k, check_whole("fair", fair))


def largest_log_delta(ones: Floats, zeros: Floats, q: float, epsilons: Floats, k: int = 1, *, fair: int = 0) -> Floats:
    """Return upper bounds on the largest ln δ of several crowds at each ε, as :func:`log_delta` has for one of them.

    The exponent alone bounds δ at a fraction of the cost, so only the crowds that it leaves open are evaluated.

    >>> ones = np.arange(100.0)
    >>> found = largest_log_delta(ones, 99 - ones, 0.1, np.array([0.5, 1.0]))
    >>> bool(abs(found[1] - log_delta(ones, 99 - ones, 0.1, 1.0).max()) < 1e-9)
    True
    """
    result = np.full(len(epsilons), -math.inf)
    below = np.flatnonzero(epsilons < pure_epsilon(q, k))
    tilt, known = tilted(q, k, epsilons[below], 1)
    places = below[known]
    if not len(places):
        return result
    bounds = _exponent_bound(tilt, ones[:, None], zeros[:, None], fair)  # a column for each ε
    first = bounds.argmax(axis=0)
    best = _tilted_log_delta(tilt, np.arange(len(first)), ones[first], zeros[first], fair, 1)
    is_open = bounds > best
    is_open[first, np.arange(len(first))] = False
    crowds, which = np.nonzero(is_open)
    if len(crowds):
        np.maximum.at(best, which, _tilted_log_delta(tilt, which, ones[crowds], zeros[crowds], fair, 1))
    result[places] = best
    return result


def _exponent_bound(tilt: Tilt, ones: Floats, zeros: Floats, fair: int) -> Floats:
    """Return ln δ as bounded by the exponent: |h| ≤ 1, and the best threshold lies at the tilted mean or above."""
    return log_exponent(tilt, ones, zeros, fair) + 2 * tilt.theta + math.log(2)


def attained_log_delta(ones: int, zeros: int, q: float, epsilon: float, k: int = 1, fair: int = 0) -> float:
    """Return a lower bound on ln δ(ε) of "own bit 1 against 0" in one crowd; −∞ below e^−600.

    >>> round(math.exp(attained_log_delta(99, 0, 0.1, math.log(2))), 9)
    0.00338156
    """
    best = float(_log_delta(np.array([float(ones)]), np.array([float(zeros)]), q, epsilon, k, fair, -1)[0])
    if k * (ones + zeros + 1) + fair <= ENUMERATED and epsilon < pure_epsilon(q, k):
        best = max(best, enumerated(ones, zeros, q, epsilon, k, fair))
    return best


def _log_delta(ones: Floats, zeros: Floats, q: float, epsilon: float, k: int, fair: int = 0, side: int = 1) -> Floats:
    tilt, known = tilted(q, k, np.array([epsilon]), side)
    if epsilon >= pure_epsilon(q, k) or not known.all():
        return np.full(ones.shape, -np.inf)
    return _tilted_log_delta(tilt, np.zeros(ones.shape, np.intp), ones, zeros, fair, side)


def _tilted_log_delta(tilts: Tilt, which: Whole, ones: Floats, zeros: Floats, fair: int, side: int) -> Floats:
    """Return bounds on ln δ of crowds, each with one of several tilts."""
    tilt = tilts.of(which)
    result = _exponent_bound(tilt, ones, zeros, fair)
    variance = ones * tilt.var_one + zeros * tilt.var_zero + fair * tilt.var_even / tilt.k
    scale = np.frexp(np.maximum(variance, 1e-3))[1] - 1.0  # ⌊log₂⌋
    seen = result > -NOTHING
    if side < 0:
        result[~seen] = -np.inf
    for size in np.unique(scale[seen]):  # pairs of similar width share one set of nodes
        group = seen & (scale == size)
        result[group] = Window(tilts, which[group], ones[group], zeros[group], fair).bound(side)
    return np.maximum(result, -NOTHING) if side > 0 else result


@dataclass(frozen=True, slots=True)
class Supremum:
    """Bounds on ln δ over all collections, and the number of ones among the others that reaches the lower one."""

    lower: float
    upper: float
    ones: int


def cut_blocks(
    low: NDArray[np.int64], high: NDArray[np.int64], parts: int = 2
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut each block [low, high] into at most ``parts`` blocks."""
    width = -((low - high - 1) // parts)
    start = (low[:, None] + width[:, None] * np.arange(parts)).ravel()
    end = np.minimum(start.reshape(len(low), parts) + width[:, None] - 1, high[:, None]).ravel()
    return start[start <= end], end[start <= end]


def _probes(others: int) -> NDArray[np.int64]:
    """Return where the worst crowd usually is: next to all ones, and, for small ε, in the middle."""
    candidates = [others, others - 1, others - 2, others - 3, (3 * others) // 4, others // 2, 0]
    return np.unique(np.clip(np.array(candidates, dtype=np.int64), 0, others))


def _users(messages: NDArray[np.int64], each: int, k: int) -> Floats:
    """Return others who send ``each`` messages as multiples of users, who send k."""
    return np.asarray(messages * (each / k), dtype=np.float64)


def _others(n: int, k: int, singles: int, fair: int) -> tuple[int, int]:
    """Return the number of others, and their messages each: users, or single messages if there are ``singles``."""
    check_whole("the crowd", n + check_whole("singles", singles) + check_whole("fair", fair), 1, MAX_CROWD)
    return (k * (n - 1) + singles, 1) if singles else (n - 1, k)


def supremum(
    n: int,
    q: float,
    epsilon: float,
    k: int = 1,
    *,
    singles: int = 0,
    fair: int = 0,
    tolerance: float = 0.01,
    limit: float | None = None,
) -> Supremum:
    """Return bounds on sup δ(ε) over all collections of n people and both orders, within ``tolerance`` in δ.

    The fakes are ``fair`` uniform bits and ``singles`` flipped bits of unknown value; with the latter, ``ones`` counts
    messages, and for k > 1 no attack is known.

    With a ``limit`` on ln δ the search only decides whether the supremum stays below it: it stops at the first
    collection above the limit, or when every block is below, and the lower bound is −∞.

    >>> found = supremum(100, 0.1, np.log(2), tolerance=1e-6)
    >>> round(float(np.exp(found.upper)), 9), found.ones
    (0.00338156, 99)
    """
    n = check_whole("n", n, 1, MAX_CROWD)
    q, k, epsilon = check_flip(q), check_whole("k", k, 1), check_epsilon(epsilon)
    others, each = _others(n, k, singles, fair)

    def exact(ones: NDArray[np.int64]) -> Floats:
        return _log_delta(_users(ones, each, k), _users(others - ones, each, k), q, epsilon, k, fair)

    points = _probes(others)
    values = exact(points)
    best, where = float(values.max()), int(points[values.argmax()])
    closed = -math.inf
    low, high = cut_blocks(np.array([0], dtype=np.int64), np.array([others], dtype=np.int64), 64)
    while len(low) and not (limit is not None and best > limit):
        bound = _log_delta(_users(low, each, k), _users(others - high, each, k), q, epsilon, k, fair)
        single = low == high
        if single.any() and float(bound[single].max()) > best:
            best, where = float(bound[single].max()), int(low[single][bound[single].argmax()])
        target = best + math.log1p(tolerance) if limit is None else limit
        is_open = (bound > target) & ~single
        if not is_open.all():
            closed = max(closed, float(bound[~is_open].max()))
        low, high, bound = low[is_open], high[is_open], bound[is_open]
        if len(low):  # probe the most promising block for a better collection
            worst = int(bound.argmax())
            middle = (low[worst : worst + 1] + high[worst : worst + 1]) // 2
            value = float(exact(middle)[0])
            if value > best:
                best, where = value, int(middle[0])
        low, high = cut_blocks(low, high, 4)
    upper = max(best, closed)
    if len(low):  # stopped early: the limit is exceeded
        return Supremum(-math.inf, math.inf, where)
    known = limit is None and each == k
    lower = attained_log_delta(where, others - where, q, epsilon, k, fair) if known else -math.inf
    return Supremum(lower, upper, where)


def partition(
    n: int,
    q: float,
    epsilons: ArrayLike,
    k: int = 1,
    *,
    singles: int = 0,
    fair: int = 0,
    tolerance: float = 0.02,
    most: int = 512,
) -> tuple[Floats, Floats]:
    """Return crowds (ones, zeros) whose δ curves together lie above that of every collection, tightly at ``epsilons``.

    One fixed finite set of crowds has a *convex* pointwise maximum, which a composition needs; a supremum that is
    refined for every ε separately has not. Blocks are cut where they exceed the worst collection by ``tolerance`` in δ.

    >>> ones, zeros = partition(1000, 0.1, [0.0, 0.3])
    >>> bool((ones + zeros).max() < 1000), len(ones) < 200
    (True, True)
    """
    n = check_whole("n", n, 1, MAX_CROWD)
    q, k = check_flip(q), check_whole("k", k, 1)
    others, each = _others(n, k, singles, fair)
    low, high = cut_blocks(np.array([0], dtype=np.int64), np.array([others], dtype=np.int64), 16)
    for epsilon in np.atleast_1d(np.asarray(epsilons, dtype=np.float64)).tolist():

        def exact(ones: NDArray[np.int64], zeros: NDArray[np.int64], epsilon: float = epsilon) -> Floats:
            return _log_delta(_users(ones, each, k), _users(zeros, each, k), q, epsilon, k, fair)

        bound = exact(low, others - high)
        ends = np.unique(np.concatenate([low, high]))
        worst = float(exact(ends, others - ends).max())
        while len(low) < most:
            coarse = (bound > worst + math.log1p(tolerance)) & (low < high)
            if not coarse.any():
                break
            start, end = cut_blocks(low[coarse], high[coarse], 2)
            ends = np.unique(np.concatenate([start, end]))
            worst = max(worst, float(exact(ends, others - ends).max()))
            low, high = np.concatenate([low[~coarse], start]), np.concatenate([high[~coarse], end])
            bound = np.concatenate([bound[~coarse], exact(start, others - end)])
    return _users(low, each, k), _users(others - high, each, k)


def certified_epsilon(
    n: int, q: float, delta: float, k: int = 1, *, singles: int = 0, fair: int = 0, relative: float = 8e-4
) -> tuple[float, float]:
    """Return (lower, upper): the ε of the worst known collection, and one proven for all collections.

    They are at most ``relative`` apart if possible. ``upper`` errs upwards: every collection has δ(upper) ≤ ``delta``
    in both orders. It is at most k·ln(p/q).

    >>> low, high = certified_epsilon(1000, 0.1, 1e-6)
    >>> 0.377204 <= low <= high <= 0.377582
    True
    """
    n = check_whole("n", n, 1, MAX_CROWD)
    q, delta, k = check_flip(q), check_delta(delta), check_whole("k", k, 1)
    goal = math.log(delta)
    pure = pure_epsilon(q, k)
    others, each = _others(n, k, singles, fair)
    known = _probes(others)

    def worst_known(epsilon: float, side: int = 1) -> float:
        crowds = _users(known, each, k), _users(others - known, each, k)
        return float(_log_delta(*crowds, q, epsilon, k, fair, side).max()) - goal

    def attained(epsilon: float) -> float:
        if k * n + fair <= ENUMERATED:
            return max(attained_log_delta(ones, others - ones, q, epsilon, k, fair) for ones in known.tolist()) - goal
        return worst_known(epsilon, -1)

    def attack(epsilon: float) -> float:
        """Return an ε of at most the given one at which a known collection has δ above ``delta``; 0 if none has."""
        if each != k:
            return 0.0
        for step in (0.0, relative / 100, relative / 10):
            if epsilon == 0.0 or attained(epsilon * (1.0 - step)) > 0:
                return epsilon * (1.0 - step)
        return falling_root(attained, epsilon * (1.0 - relative), epsilon, relative=relative / 50)[0]

    variance = max(others, 1) * each / k * q * (1.0 - q) + fair / (4 * k)  # of the bits, per copy
    width = math.sqrt(k / variance) * (1.0 - 2 * q)
    lower = falling_root(worst_known, min(5 * width, pure / 2), pure, relative=relative / 50)[0]
    gap = relative
    while lower > 0.0:
        upper = lower * (1.0 + gap)
        if upper >= pure:
            break
        found = supremum(n, q, upper, k, singles=singles, fair=fair, limit=goal)
        if found.upper <= goal:
            return attack(lower), upper
        if found.ones in known:
            gap *= 2.0
            continue
        known = np.unique(np.append(known, found.ones))
        lower = falling_root(worst_known, lower, pure, relative=relative / 50)[0]
    if lower == 0.0 and supremum(n, q, 0.0, k, singles=singles, fair=fair, limit=goal).upper <= goal:
        return 0.0, 0.0
    return attack(min(lower, pure)), pure
