"""One bit per person, sent in k flipped copies: certified over all collections, at a cost that does not grow with n.

The analyzer sees how many of the n·k shuffled bits are set. Of the n − 1 others, ``ones`` hold a 1 and ``zeros`` a 0.
With A ~ Bin(k·ones, p) + Bin(k·zeros, q),

    δ(ε) = max_t Σ_{s≥t} [ P(A + Bin(k,p) = s) − e^ε P(A + Bin(k,q) = s) ]     [002 Thm 4.1].

The opposite order exchanges ``ones`` and ``zeros``, so a supremum over ``ones`` = 0 … n − 1 covers both orders.

*Fakes* are single messages. ``fair`` of them are uniform bits: flipping leaves them uniform, so they add Bin(fair, 1/2)
to A. ``singles`` of them are flipped bits of unknown value, which count as further messages of the crowd: its
``ones`` + ``zeros`` = k(n − 1) + ``singles`` *messages* are then distributed in every possible way.

*One pair.* Tilted by e^{θs}, e^θ = (e^{ε/k} p − q)/(p − e^{ε/k} q), the sum becomes M·e^{−θt}·h(t) with a Fourier
integral h for which about twenty nodes suffice. The M-point trapezoid rule adds up h at t + lM over all integers l:
images above t are non-negative, those below at least −(e^ε − 1)e^{θ(t − lM)}/M, which is added back: an *upper bound by
construction*. Dropped nodes are bounded by ``|φ(w)| ≤ exp(−v(1 − cos w))``, v the variance of the tilted A. The mode is
that of Darroch 1964.

*All collections.* By the data-processing inequality, every ``ones`` in [i, j] has δ at most that of a crowd of only i
ones and n − 1 − j zeros: branch and bound over such blocks. Rounding errors, ``ULPS`` of the exponents, are added.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.errors import check_delta, check_epsilon, check_flip, check_whole, reject
from hubbub.numeric.inversion import falling_root
from hubbub.numeric.rounding import up
from hubbub.plans import MAX_PEOPLE

Floats = NDArray[np.float64]

ULPS = 32 * 2.0**-53  # relative error allowed for in every exponent: 32 half-units in the last place

MAX_CROWD = 100 * MAX_PEOPLE  # largest crowd, users and fakes together
SPAN = 12.0  # standard deviations between a threshold and its nearest alias
NOTHING = 600.0  # below e^−600, δ is bounded by the exponent alone
DECAY = 42.0  # dropped nodes weigh less than e^−42 of the largest


@dataclass(frozen=True, slots=True)
class _Tilt:
    """The tilted distributions of one (q, k, ε), and the logarithms of their masses."""

    k: int
    epsilon: float
    theta: float
    high: float  # P(bit = 1) of a one, tilted
    low: float  # P(bit = 1) of a zero, tilted
    mass_one: float  # log E e^{θ·bit} of a one
    mass_zero: float
    var_one: float
    var_zero: float
    even: float  # P(bit = 1) of a uniform bit, tilted
    mass_even: float
    var_even: float


def allowance(n: int) -> float:
    """Return a bound on the excess of ln δ of one pair in a crowd of n, except next to the pure ε.

    >>> allowance(10**6)
    2e-08
    """
    return 1e-8 + 1e-14 * n


def log_odds(q: float) -> float:
    """Return ln(p/q).

    >>> round(log_odds(0.25), 9) == round(math.log(3), 9)
    True
    """
    return math.log1p(-q) - math.log(q)


def pure_epsilon(q: float, k: int) -> float:
    """Return k·ln(p/q), from which on δ = 0; errs upwards.

    >>> pure_epsilon(0.25, 2) >= 2 * math.log(3)
    True
    """
    return up(k * log_odds(q), ULPS)


def _tilt(q: float, k: int, epsilon: float) -> _Tilt | None:
    """Return the tilt for (q, k, ε), or None if ε ≥ k·ln(p/q), where δ = 0.

    p − e^{ε/k} q cancels next to the pure ε, where δ is proportional to it. Therefore ε is first lowered by more than
    the rounding errors of that difference: δ falls with ε, and the result errs upwards.
    """
    if epsilon >= pure_epsilon(q, k):
        return None
    p = 1.0 - q
    exponent = max(epsilon / k - 2 * ULPS * (1.0 + epsilon / k), 0.0)
    left = p - math.exp(exponent) * q
    grow = math.expm1(exponent) / left  # λ − 1, without cancellation
    lam = 1.0 + grow
    one, zero = q + p * lam, p + q * lam
    high, low = p * lam / one, q * lam / zero
    return _Tilt(
        k=k,
        epsilon=k * exponent,
        theta=math.log1p(grow),
        high=high,
        low=low,
        mass_one=math.log1p(p * grow),
        mass_zero=math.log1p(q * grow),
        var_one=high * (q / one),
        var_zero=low * (p / zero),
        even=lam / (1.0 + lam),
        mass_even=math.log1p(grow / 2),
        var_even=lam / (1.0 + lam) ** 2,
    )


def _exponent(tilt: _Tilt, ones: Floats, zeros: Floats, fair: int) -> Floats:
    """Return ln(M·e^{−θ·mean}), summed without cancellation between large terms."""
    one, zero = tilt.mass_one - tilt.theta * tilt.high, tilt.mass_zero - tilt.theta * tilt.low
    return tilt.k * (ones * one + zeros * zero + tilt.mass_one) + fair * (tilt.mass_even - tilt.theta * tilt.even)


def _window(tilt: _Tilt, ones: Floats, zeros: Floats, fair: int) -> Floats:
    """Return upper bounds on ln δ of pairs whose tilted variances are of similar size."""
    k = tilt.k
    mean = k * (ones * tilt.high + zeros * tilt.low) + fair * tilt.even
    variance = k * (ones * tilt.var_one + zeros * tilt.var_zero) + fair * tilt.var_even
    narrow, wide = float(variance.min()), float(variance.max())
    messages = k * (ones + zeros) + fair
    support = math.ceil(messages.max()) + k + 2
    base = _exponent(tilt, ones, zeros, fair)
    size = math.ceil(SPAN * math.sqrt(wide)) + 24 + 4 * k
    # Far in the tail the images below lie within the untilted distribution, and must still be small beside δ.
    if tilt.theta**2 * wide > 4.0:
        size = max(size, math.ceil((DECAY - float(base.min())) / tilt.theta))
    size = min(support, size)
    cosine = 1.0 - DECAY / narrow if narrow > 0.0 else -1.0
    reach = math.acos(cosine) if cosine > -1.0 else math.pi
    count = min(size // 2, math.ceil(reach * size / (2 * math.pi)))
    nodes = np.arange(1, count + 1)
    w = 2 * np.pi / size * nodes
    turn = np.expm1(1j * w)
    centred_one = k * (np.log1p(tilt.high * turn) - 1j * w * tilt.high)
    centred_zero = k * (np.log1p(tilt.low * turn) - 1j * w * tilt.low)
    own = np.exp(k * np.log1p(tilt.high * turn)) - np.exp(k * np.log1p(tilt.low * turn))
    weight = np.where(2 * nodes == size, 1.0, 2.0) / size
    kernel = weight * own / -np.expm1(-tilt.theta - 1j * w)
    centred_even = fair * (np.log1p(tilt.even * turn) - 1j * w * tilt.even)
    crowd = np.exp(np.outer(ones, centred_one) + np.outer(zeros, centred_zero) + centred_even) * kernel

    peak = k * (tilt.high - tilt.low) * math.exp(tilt.theta / 2)
    dropped = peak * np.exp(-variance * (1.0 - math.cos(w[-1]))) if 2 * count < size - 1 else 0.0
    period = tilt.theta * size
    alias = math.log(math.expm1(tilt.epsilon)) - period - math.log(-math.expm1(-period)) if period > 0 else -math.inf
    flat = k * (tilt.high - tilt.low) / size if tilt.theta == 0.0 else 0.0
    rounding = ULPS * (messages + k) * (tilt.theta + w[-1]) + 64 * ULPS

    def at(threshold: Floats) -> Floats:
        offset = threshold - mean
        scale = base - tilt.theta * offset
        h = (crowd * np.exp(-1j * np.outer(offset, w))).real.sum(axis=1)
        h += flat + dropped + np.exp(alias - scale)
        noise = 8 * ULPS * peak  # absolute error of the sum of nodes
        return np.asarray(scale + np.log(np.maximum(h + noise, 5e-324)) + rounding)

    middle = mean + 1.0 if k == 1 else mean + k * (tilt.high + tilt.low) / 2 + 0.5
    first = np.clip(np.floor(middle), 0, np.round(messages) + k)
    best = np.maximum(at(first), at(first + 1.0))
    if k > 1:  # with one copy the tilted mode is the floor or the ceiling of the mean (Darroch)
        for direction, start in ((-1.0, first), (1.0, first + 1.0)):
            here, climbing = start, np.ones(len(mean), bool)
            while climbing.any():
                here = here + direction
                value = at(here)
                climbing &= value > best
                best = np.where(climbing, value, best)
    return best


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


def _log_delta(ones: Floats, zeros: Floats, q: float, epsilon: float, k: int, fair: int = 0) -> Floats:
    tilt = _tilt(q, k, epsilon)
    if tilt is None:
        return np.full(ones.shape, -np.inf)
    # |h| ≤ 2, and the best threshold lies at the tilted mean or above, so the exponent alone bounds δ.
    result = _exponent(tilt, ones, zeros, fair) + 2 * tilt.theta + math.log(2)
    variance = ones * tilt.var_one + zeros * tilt.var_zero + fair * tilt.var_even / k
    scale = np.floor(np.log2(np.maximum(variance, 1e-3)))
    seen = result > -NOTHING
    for size in np.unique(scale[seen]):  # pairs of similar width share one set of nodes
        group = seen & (scale == size)
        result[group] = _window(tilt, ones[group], zeros[group], fair)
    return np.maximum(result, -NOTHING)


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
    check_whole("singles", singles), check_whole("fair", fair)
    check_whole("the crowd", n + singles + fair, 1, MAX_CROWD)
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
    messages, and the lower end is an attack only if k = 1.

    With a ``limit`` on ln δ the search only decides whether the supremum stays below it: it stops at the first
    collection above the limit, or when every block is below.

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
    # Evaluated values exceed the exact ones by the rounding allowance, and say nothing in the deepest tail.
    best = best - allowance(n + singles + fair) if best > -NOTHING else -math.inf
    if len(low):  # stopped early: the limit is exceeded, so the supremum is known only from below
        return Supremum(best, math.inf, where)
    return Supremum(best, upper, where)


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
    for epsilon in np.atleast_1d(np.asarray(epsilons, dtype=np.float64)):
        while len(low) < most:
            bound = _log_delta(_users(low, each, k), _users(others - high, each, k), q, float(epsilon), k, fair)
            ends = np.unique(np.concatenate([low, high]))
            values = _log_delta(_users(ends, each, k), _users(others - ends, each, k), q, float(epsilon), k, fair)
            coarse = (bound > values.max() + math.log1p(tolerance)) & (low < high)
            if not coarse.any():
                break
            start, end = cut_blocks(low[coarse], high[coarse], 2)
            low, high = np.concatenate([low[~coarse], start]), np.concatenate([high[~coarse], end])
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

    def worst_known(epsilon: float) -> float:
        crowds = _users(known, each, k), _users(others - known, each, k)
        return float(_log_delta(*crowds, q, epsilon, k, fair).max()) - goal

    width = math.sqrt(k) * (1.0 - 2 * q) / math.sqrt(max(others, 1) * each / k * q * (1.0 - q) + fair / (4 * k))
    lower = falling_root(worst_known, min(5 * width, pure / 2), pure, relative=relative / 50)[0]
    gap = relative
    while lower > 0.0:
        upper = lower * (1.0 + gap)
        if upper >= pure:
            break
        found = supremum(n, q, upper, k, singles=singles, fair=fair, limit=goal)
        if found.upper <= goal:
            return lower, upper
        if found.ones in known:
            gap *= 2.0
            continue
        known = np.unique(np.append(known, found.ones))
        lower = falling_root(worst_known, lower, pure, relative=relative / 50)[0]
    if lower == 0.0 and supremum(n, q, 0.0, k, singles=singles, fair=fair, limit=goal).upper <= goal:
        return 0.0, 0.0
    return min(lower, pure), pure
