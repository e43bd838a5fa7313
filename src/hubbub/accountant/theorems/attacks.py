"""Attacks on whole records: exact δ(ε) of particular collections, which bound every guarantee from below.

**Backgrounds.** All others hold one record y, so the message distribution of every one of them is w = μ_y and the
bracket of :mod:`hubbub.accountant.quadrature` is exact for that collection. Positions fall into A where only x differs
from y, B where only x' does, C where both do; with ρ = p/q and independent binomials a, b, c of probability q,

    G = ρ^(2c−C)·(ρ^(2a−A) − e^ε ρ^(2b−B)).

The notes consider C = A = 0 [003 §2–3]; a third category is worse.

**Counts.** The analyzer only counts the messages of one suspicious kind, or those that have one bit set; weaker, but
also for several copies and among fakes.
"""

import itertools
import math
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.quadrature import UNIT, attained_mean, difference
from hubbub.accountant.theorems import bit, numbers
from hubbub.accountant.theorems.records import OVERFLOW, Atoms, bracket, weight_error
from hubbub.model.protocol import Fakes
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial, binomial_pmf
from hubbub.numeric.distributions import Distribution

Floats = NDArray[np.float64]

FAR = 1e-22  # probabilities below this are left out
SMALLEST = 1e-300  # above all that underflows
TAIL = 52.0  # probabilities beyond e^−52 are below FAR, and are not computed
COMMON = 1e-6  # above the relative error that neighbouring counts of a large crowd share

Background = tuple[int, int, int]
"""(A, B, C): the numbers of positions in which only x, only x', or both differ from the others' record."""


def backgrounds(schema: Schema) -> list[Background]:
    """Return the backgrounds that are tried for a schema.

    >>> backgrounds(Schema.one_hot(3))  # x', x and a third category
    [(2, 0, 0), (0, 2, 0), (1, 1, 1)]
    """
    width, ones = schema.width, schema.max_set
    if schema.exclusive:
        return [(2, 0, 0), (0, 2, 0)] + ([(1, 1, 1)] if width > 2 else [])
    if schema.dense or width < 2 * ones:
        if width <= 5:
            kinds = itertools.product(range(width + 1), repeat=3)
            return [(a, b, c) for a, b, c in kinds if 0 < a + b <= a + b + c <= width]
        return [(width, 0, 0), (0, width, 0), (width - 1, 1, 0), (1, width - 1, 0), (width // 2, width - width // 2, 0)]
    third = min(ones, width - 2 * ones)
    return [(2 * ones, 0, 0), (0, 2 * ones, 0), (ones, ones, third), (ones, ones, 0)]


def exponents(kind: Background, q: float) -> tuple[Floats, Floats, Floats]:
    """Return ln(μ_x/μ_y), ln(μ_x'/μ_y) and the probability under μ_y of every message in a crowd that holds y.

    >>> x, other, weights = exponents((1, 1, 1), 0.1)
    >>> [round(float(portable.exp(row) @ weights), 12) for row in (x, other)]  # both are densities
    [1.0, 1.0]
    """
    a_weights, b_weights, c_weights = (binomial_pmf(size, q) for size in kind)
    a, b, c = (2 * np.arange(size + 1) - size for size in kind)
    shape = tuple(size + 1 for size in kind)
    weights = a_weights[:, None, None] * b_weights[None, :, None] * c_weights
    # Sums of whole numbers, so that equal likelihoods are equal floats.
    x, other = (np.broadcast_to(row, shape).ravel() for row in (a[:, None, None] + c, b[None, :, None] + c))
    ratio = bit.log_odds(q)
    return ratio * x, ratio * other, weights.ravel()


def likelihoods(kind: Background, q: float) -> tuple[Floats, Floats, Floats]:
    """Return μ_x/μ_y, μ_x'/μ_y and the probability under μ_y of every kind of message in a crowd that holds y.

    >>> [round(float(row.max()), 9) for row in likelihoods((1, 0, 0), 0.25)]
    [3.0, 1.0, 0.75]
    """
    x, other, weights = exponents(kind, q)
    return portable.exp(x), portable.exp(other), weights


def background(kind: Background, q: float, epsilon: float) -> Atoms:
    """Return the atoms G of a pair of records among others who all hold y, with their probabilities under μ_y.

    The atoms err downwards.

    >>> values, weights = background((1, 1, 1), 0.1, 1.0)
    >>> abs(float(values @ weights) + math.expm1(1.0)) < 1e-12  # E G = 1 − e^ε
    True
    """
    x, other, weights = exponents(kind, q)
    return difference(x, epsilon + other, epsilon + 2 * sum(kind) * bit.log_odds(q), side=-1), weights


def attack(schema: Schema, q: float, n: int, epsilon: float) -> float:
    """Return ln δ(ε) of the worst collection known in which all others hold one record; errs downwards.

    The search for that record is done once for every quarter of an octave of ε.

    >>> one_hot, eps = Schema.one_hot(3), 0.35071
    >>> 5 < math.exp(attack(one_hot, 0.1, 10**4, eps)) / 1e-6 < 40  # the notes' background has 10⁻⁶ here
    True
    """
    near = 2.0 ** (round(4 * math.log2(epsilon)) / 4) if 1e-12 < epsilon < OVERFLOW else 0.0
    kind = _worst_background(schema, q, n, near)
    if kind is None or epsilon >= OVERFLOW:
        return copies_attack(schema, q, n, epsilon, 1)
    relative = 3 * weight_error(sum(kind), q)
    best = attained_mean(*background(kind, q, epsilon), n, relative=relative, tolerance=2e-3)
    # A count shows no more than all messages, but is exact where the terms of their mean cancel.
    return max(best, _single_bit(q, n, epsilon, 1), _count_attack(kind, q, n, epsilon, 1))


@lru_cache(maxsize=256)
def _worst_background(schema: Schema, q: float, n: int, epsilon: float) -> Background | None:
    if _overflows(schema, q) or epsilon > OVERFLOW:
        return None
    return max(backgrounds(schema), key=lambda kind: bracket(*background(kind, q, epsilon), n).lower)


def _overflows(schema: Schema, q: float) -> bool:
    return 3 * schema.distance * bit.log_odds(q) > OVERFLOW


def copies_attack(schema: Schema, q: float, n: int, epsilon: float, k: int) -> float:
    """Return ln δ(ε) for an analyzer who counts the messages of one suspicious kind among k copies; errs downwards.

    All others hold one record. The kind is a set of messages, ordered by likelihood ratio, that x sends more often than
    x'; the count is Bin(k, ·) of the person's copies plus Bin(k(n−1), ·). It is an attack, not the best one.

    >>> from hubbub.accountant.theorems.records import copies
    >>> schema, q, n, k = Schema.bits(13), 0.3063, 10**6, 4
    >>> copies_attack(schema, q, n, 0.3, k) < copies(schema, q, n, 0.3, k)
    True
    """
    best = _single_bit(q, n, epsilon, k)
    if _overflows(schema, q):
        return best
    return max(best, *(_count_attack(kind, q, n, epsilon, k) for kind in backgrounds(schema)))


def _single_bit(q: float, n: int, epsilon: float, k: int) -> float:
    """Return ln δ(ε) for an analyzer who counts one bit that all others have set, or all have clear."""
    return max(bit.attained_log_delta(*crowd, q, epsilon, k) for crowd in ((n - 1, 0), (0, n - 1)))


def _count_attack(kind: Background, q: float, n: int, epsilon: float, k: int) -> float:
    """Return ln δ(ε) for an analyzer who counts the messages that betray x most among others who all hold y."""
    x, other, weights = exponents(kind, q)
    order = np.argsort(other - x, kind="stable")
    rows = weights[order], (weights * portable.exp(x))[order], (weights * portable.exp(other))[order]
    inside = [np.cumsum(row)[:-1] for row in rows]
    outside = [np.cumsum(row[::-1])[::-1][1:] for row in rows]  # not 1 − inside, which cancels
    signal = (inside[1] - inside[2]) ** 2 / (inside[0] * outside[0] + SMALLEST)
    cut = int(signal.argmax())
    crowd, own, twin = (
        partial(_counted, chance=float(a[cut]), rest=float(b[cut])) for a, b in zip(inside, outside, strict=True)
    )
    base = _central(crowd(k * (n - 1)).pmf)
    one, two = (portable.convolve(base, each) for each in _aligned(own(k), twin(k)))
    return _either_order(one, two, epsilon, k, 2 * FAR)


def _counted(trials: int, chance: float, rest: float) -> Distribution:
    """Return the distribution of a count of messages of a kind with this chance, ``rest`` = 1 − chance."""
    if chance < rest:
        return binomial(trials, min(chance, 1.0), tail=TAIL)
    return binomial(trials, min(rest, 1.0), tail=TAIL).flipped(trials)


def _aligned(*some: Distribution) -> list[Floats]:
    """Return the probabilities of the same numbers, whatever tails the distributions leave out.

    >>> [one.tolist() for one in _aligned(Distribution(1, np.ones(1)), Distribution(0, np.array([0.5, 0.5])))]
    [[0.0, 1.0], [0.5, 0.5]]
    """
    first, last = min(one.low for one in some), max(one.high for one in some)
    beyond = [(one.low - first, last - one.high) for one in some]
    # A copy of a reversed array would be summed in another order, and last digits are part of plan ids.
    return [np.pad(one.pmf, ends) if any(ends) else one.pmf for one, ends in zip(some, beyond, strict=True)]


def column_attack(schema: Schema, q: float, n: int, epsilon: float, k: int, m: int) -> float:
    """Return ln δ(ε) for an analyzer who counts one bit of k copies of n records and m fakes; errs downwards.

    All others have that bit set, or all have it clear; a fake shows it with probability v = q + (p − q)·density.

    >>> abs(column_attack(Schema.bits(1), 0.1, 100, 0.5, 1, 0) - copies_attack(Schema.bits(1), 0.1, 100, 0.5, 1)) < 1e-3
    True
    """
    return _column(q, n, epsilon, k, binomial(m, q + (1 - 2 * q) * schema.density, tail=TAIL).pmf)


def drawn_column_attack(schema: Schema, q: float, n: int, epsilon: float, k: int, fakes: Fakes) -> float:
    """Return ln δ(ε) for an analyzer who counts one bit of k copies of n records and of the users' fakes.

    The number of fakes that show the bit is a thinned binomial or Poisson variable. The analyzer does not look at the
    number of all fakes. Errs downwards; −∞ if that distribution is too wide for a table.

    >>> setting = Schema.bits(1), 0.1, 9, 0.5, 1
    >>> abs(drawn_column_attack(*setting, Fakes.binomial(2, 1.0)) - column_attack(*setting, 18)) < 1e-9
    True
    """
    share = q + (1 - 2 * q) * schema.density
    if n * fakes.mean * share > numbers.WIDE:
        return -math.inf
    return _column(q, n, epsilon, k, numbers.total(fakes, n, share).pmf)


def _column(q: float, n: int, epsilon: float, k: int, shown: Floats) -> float:
    best = -math.inf
    for flipped in (slice(None, None, -1), slice(None)):
        crowd, error = _central_convolution(binomial(k * (n - 1), q, tail=TAIL).pmf[flipped], shown)
        flips = binomial_pmf(k, q)
        one, zero = portable.convolve(crowd, flips[::-1]), portable.convolve(crowd, flips)
        best = max(best, _either_order(one, zero, epsilon, k, error))
    return best


def _either_order(one: Floats, two: Floats, epsilon: float, k: int, error: float) -> float:
    """Return ln δ(ε) in the better of the two orders; errs downwards.

    Every probability has an absolute error of at most ``error``, for the tails left out and for Fourier transforms, and
    a relative error that varies little between neighbouring counts.
    """
    relative = 1e-11 * k + 64 * UNIT * len(one)
    return max(_attained(*pair, epsilon, relative, error) for pair in ((one, two), (two, one)))


def _attained(first: Floats, second: Floats, epsilon: float, relative: float, error: float) -> float:
    with np.errstate(over="ignore"):
        lost = portable.exp(epsilon + relative + portable.log(second + error + SMALLEST))
    gain = first * (1 - relative) - error - lost
    delta = float(gain[gain > 0].sum())
    return math.log(delta) - COMMON if delta > 0 else -math.inf


def _central(pmf: Floats) -> Floats:
    """Return probabilities without those of the far tails."""
    return pmf[pmf > FAR]


def _central_convolution(one: Floats, two: Floats) -> tuple[Floats, float]:
    """Return the convolution of two distributions without their far tails, and a bound on its absolute error."""
    one, two = _central(one), _central(two)
    if len(one) * len(two) < 2**22:
        return portable.convolve(one, two), 4 * FAR
    size = 1 << (len(one) + len(two) - 1).bit_length()
    product = np.fft.irfft(portable.times(np.fft.rfft(one, size), np.fft.rfft(two, size)), size)[
        : len(one) + len(two) - 1
    ]
    error = 16 * UNIT * math.log2(size) * math.sqrt((one * one).sum() * (two * two).sum())
    return np.maximum(product, 0.0), error + 4 * FAR
