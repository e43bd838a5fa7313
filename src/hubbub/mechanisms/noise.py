"""The noise of an estimated count: what flips and fakes add to it."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hubbub.documents import Fields, Json, legal
from hubbub.errors import WireError, reject
from hubbub.mechanisms.errors import survey_stderr
from hubbub.mechanisms.response import Response
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.estimation import category_variance, shown_by_drawn, shown_by_users
from hubbub.numeric.population import LITTLE, CountNoise, poisson

_LONGEST = 10**5
"""Largest support of a sum of distributions that is computed."""
EXACT_DRAWS = 1024
"""Largest number of draws whose sum is computed exactly; the sum of more is close enough to normal."""
FEW_OTHERS = 8
"""Largest number of labels of a known total whose error is summed exactly; the mean of more others is near normal."""
LONG_TABLE = 4096
"""Largest table of such an error, unless there are two labels: it is stored with the estimate."""
FINE = 8
"""Cells of a message in which the mean of many other labels is added to little noise."""
FILLED = 3.0
"""Standard deviation of the messages with one of few labels from which on the errors of a known total lie close.

Half a step of slack is enough then: of 9,000 exact coverages of three to eight labels, none is below its level."""
WIDEST = 64.0
"""Largest standard deviation, in messages, of flips and users' fakes whose distribution is kept with the estimate.

Quantiles of wider ones are those of the normal distribution with the correction for the largest skewness that sums of
coins can have, to less than a tenth of a message (:func:`hubbub.numeric.intervals.wide_reach`).
"""
_TAIL = 60.0
_PRODUCTS = 10**8
"""Largest number of products in a convolution."""


@dataclass(frozen=True, slots=True)
class FakeCount:
    """The number of fakes with a given bit set: mean, variance, and its distribution, or that of one part of it."""

    mean: float
    variance: float
    distribution: Distribution | None = None
    rest: float = 0.0
    """Variance of the other part: fakes without the bit that flips set."""
    shared: float = 0.0
    """Covariance of the numbers of two labels of one-hot records, which their known total removes."""
    apart: Distribution | None = None
    """d − 1 times the fakes that show a label of a known total less those that show others, if flipped and d small."""


def fake_noise(
    schema: Schema,
    protocol: Protocol,
    n: int,
    fakes: int,
    *,
    batches: int = 1,
    user_fakes: int | None = None,
    moments: bool = False,
) -> FakeCount:
    """Return the noise that fakes add to one count of n users.

    There are ``fakes`` of them in total, or each user draws their number, or the shuffler does in each of ``batches``.

    A uniform legal fake has a given bit set with probability v = q + (p − q)·density after it is flipped. Whole records
    reveal the number M of fakes that users drew, ``user_fakes``: all messages but k·n. So do one-hot records in the
    clear as single bits. In predictions, M is replaced by its mean, which gives the mean of the variance. Other single
    bits hide M, so its variance is added. Fakes of the shuffler:
    :func:`hubbub.numeric.estimation.shown_by_drawn`. With ``moments``, the distribution of the sum, which may take
    seconds, is left out.

    >>> fake_noise(Schema.one_hot(4), Protocol(0.0, m=400), 1000, 400, moments=True)
    FakeCount(mean=100.0, variance=75.0, distribution=None, rest=0.0, shared=0.0, apart=None)
    """
    q = protocol.q
    # What is subtracted from the counts of strings varies as much as what is added to those of labels.
    fake = 0.0 if protocol.sends_strings else q + (1 - 2 * q) * schema.density
    users, drawn = protocol.user_fakes, protocol.shuffler_fakes
    if drawn is None:
        number, spread = (n * users.mean, n * users.variance) if users else (fakes, 0.0)
        if users and (protocol.sends_records or (protocol.clear and known_total(schema, protocol))):
            number, spread = number if user_fakes is None else user_fakes, 0.0
        mean, variance = shown_by_users(number, spread, fake)
        shared = (
            spread * fake**2 - number * ((1 - 2 * q) * schema.density) ** 2 if known_total(schema, protocol) else 0.0
        )
        kept = not moments and variance <= WIDEST**2
        shown = users_shown(mean, variance) if kept else None
        return FakeCount(mean, variance, shown, shared=shared, apart=_apart(schema, protocol, n, number, shown))
    mean, variance = batches * drawn.mean, batches * drawn.variance
    if protocol.sends_records:
        with_bit = schema.records_with_bit
        total = shown_by_drawn(mean, variance, q, with_bit, schema.size - with_bit)
        rest = shown_by_drawn(mean, variance, q, 0, schema.size - with_bit)[1]
        shared = variance * q * (2 - 4 * q + schema.width * q) if known_total(schema, protocol) else 0.0
        shown = None if moments else drawn_sum(drawn, q, with_bit * batches)
        return FakeCount(*total, shown, rest, shared, _apart(schema, protocol, n, batches, shown))
    shown = None if moments else drawn_sum(drawn, 0.0, batches)
    return FakeCount(mean, variance, shown, apart=_apart(schema, protocol, n, batches, shown))


def known_total(schema: Schema, protocol: Protocol) -> bool:
    """Return True if the counts of all labels add up to the number of people, and messages as such do not.

    Those of randomized response do, and those of clear records among a number of fakes that is known.

    >>> known_total(Schema.one_hot(2), Protocol(0.1)), known_total(Schema.one_hot(2), Protocol(0.1, release="category"))
    (True, False)
    """
    if not schema.exclusive or schema.width == 1 or protocol.sends_category:
        return False
    return protocol.q > 0 or not protocol.sends_records or protocol.shuffler_fakes is not None


def users_shown(mean: float, variance: float) -> Distribution:
    """Return the number of users' fakes that show a bit, from its moments: Bin(t, s) with ts = μ, ts(1 − s) = V.

    Bin(M, v) if their number M is known; Bin(nt, sv) if each of n users draws Bin(t, s) of them; Poisson if V = μ. A
    predicted M, and with it t, need not be whole: it is rounded up.

    >>> users_shown(2.0, 1.5).pmf.size, round(float(users_shown(2.0, 2.0).pmf[0]), 6)
    (9, 0.135335)
    """
    shown = 1 - variance / mean if mean > 0 else 0.0
    if shown < 1e-12:
        return trimmed(poisson(mean))
    trials = math.ceil(mean / shown - 1e-6)
    return trimmed(binomial(trials, min(mean / trials, 1.0), tail=_TAIL))


def trimmed(distribution: Distribution) -> Distribution:
    """Return a distribution without the ends of a probability of at most 10⁻¹⁸ each, which no interval needs.

    >>> trimmed(Distribution(0, np.array([1e-19, 0.5, 0.5, 0.0]))).pmf.tolist()
    [0.5, 0.5]
    """
    pmf = distribution.pmf
    first, last = (int(np.searchsorted(side.cumsum(), 1e-18, side="right")) for side in (pmf, pmf[::-1]))
    return Distribution(distribution.low + first, pmf[first : pmf.size - last])


def thinned(fakes: Fakes, kept: float) -> Distribution:
    """Return the distribution of one draw of which each unit is kept with this probability, without its left tail.

    >>> thinned(Fakes.laplace(0.1, 1), 0.5).pmf[:2].round(4).tolist()
    [0.5, 0.5]
    """
    numbers = fakes.pmf
    first = int(np.searchsorted(numbers.cumsum(), 1e-18))
    if kept < 1:
        found = np.zeros(numbers.size)
        for number in range(first, numbers.size):
            some = binomial(number, kept)
            found[some.low : some.high + 1] += numbers[number] * some.pmf
        first = int(np.searchsorted(found.cumsum(), 1e-18))
        numbers = found
    return Distribution(first, numbers[first:])


@functools.lru_cache(64)
def drawn_sum(fakes: Fakes, q: float, times: int) -> Distribution | None:
    """Return the distribution of the sum of ``times`` draws, each unit of which is lost with probability q."""
    if not 0 < times <= EXACT_DRAWS or fakes.shift + 100 * fakes.scale * math.sqrt(times) > _LONGEST:
        return None
    return _times(thinned(fakes, 1 - q), times)


def predicted_stderr(schema: Schema, protocol: Protocol, n: int) -> float:
    """Return σ of one count of n people; for categories, its maximum over all data; for surveys, of all questions.

    >>> round(predicted_stderr(Schema.bits(1), Protocol(0.1), 1000), 6)
    11.858541
    """
    if schema.named:
        return survey_stderr(schema, protocol, n)
    if protocol.sends_strings and protocol.shuffler_fakes:
        return math.sqrt(protocol.shuffler_fakes.variance)
    if protocol.sends_category:
        if not schema.exclusive or protocol.q * schema.width >= 1:
            reject(
                "a category",
                f"be released with a one-hot schema of d labels and q < 1/d, got {schema} and q = {protocol.q:g}",
            )
        return math.sqrt(float(category_variance([0, n], n, protocol.q, schema.width).max()))
    return math.sqrt(predicted_noise(schema, protocol, n).variance)


def smooth(distribution: Distribution, variance: float) -> Distribution | None:
    """Return the distribution of a whole number plus a rounded normal error of the given variance.

    >>> round(smooth(Distribution(0, np.ones(1)), 4.0).cdf(0), 3)
    0.599
    """
    if variance == 0:
        return distribution
    sigma = math.sqrt(variance)
    reach = math.ceil(9 * sigma) + 1
    if reach * distribution.pmf.size > _PRODUCTS:
        return None
    edges: NDArray[Any] = ndtr((np.arange(-reach, reach + 2) - 0.5) / sigma)
    return distribution.plus(Distribution(-reach, np.diff(edges)))


def count_noise(schema: Schema, protocol: Protocol, n: int, fakes: FakeCount | None = None) -> CountNoise:
    """Return the error of one estimated count of n people, given the noise of the fakes (None for categories).

    >>> count_noise(Schema.bits(1), Protocol(0.25), 100, FakeCount(0.0, 0.0)).variance
    75.0
    >>> round(count_noise(Schema.one_hot(3), Protocol(0.25), 100, FakeCount(0.0, 0.0)).variance, 9)
    50.0
    """
    q, k = protocol.q, protocol.k
    if protocol.sends_category:
        return Response(schema.columns[0], protocol.only).count_noise(n, 0.0, 1)
    assert fakes is not None
    gain, flips = k * (1 - 2 * q), k * n * q * (1 - q)
    kept = protocol.shuffler_fakes is not None or flips + fakes.variance <= WIDEST**2
    alone = fakes.variance == 0 and fakes.mean == 0
    variance = (flips + fakes.variance - fakes.shared) / gain**2
    if known_total(schema, protocol):
        return _error_of_total(schema.width, protocol, k * n, fakes, variance, kept=kept)
    if alone and k == 1:
        return CountNoise(variance=variance, gain=gain, flip=q)
    shown, full = _among_flips(fakes, k * n, q) if kept else (None, None)
    # Without flips, errors lie on the lattice of the distribution, and only rounding must not exclude a point.
    return _error(variance, gain, shown, full, slack=1e-6 if gain == 1 else 0.5)


def _error_of_total(
    size: int, protocol: Protocol, messages: int, fakes: FakeCount, variance: float, *, kept: bool
) -> CountNoise:
    """Return the error of one of ``size`` counts that add up to n, among the messages of n people."""
    q, gain = protocol.q, protocol.k * (1 - 2 * protocol.q)
    if kept and fakes.variance == 0 and fakes.mean == 0:
        return flip_noise(size, messages, q, variance, gain)
    if kept and fakes.apart is not None:
        empty, full = (one.plus(fakes.apart) for one in _flips_apart(size, messages, q))
        return _apart_error(size, variance, gain, empty, full)
    shown, full_or_none = _among_flips(fakes, messages, q) if kept else (None, None)
    if q == 0 and protocol.shuffler_fakes is None:  # all messages are people and M fakes: the mean is known
        return _error(fakes.variance, gain, shown, slack=1e-6)
    return total_noise(size, variance, gain, shown, full_or_none, alike=q == 0)


def _error(
    variance: float,
    gain: float,
    shown: Distribution | None = None,
    full: Distribution | None = None,
    slack: float = 0.5,
) -> CountNoise:
    """Return an error with its distributions in messages, if nobody and if everybody has the label, where known."""
    if shown is None:
        return CountNoise(variance=variance, gain=gain)
    return CountNoise(variance=variance, gain=gain, distribution=shown, centre=shown.mean, slack=slack, full=full)


def _apart_error(size: int, variance: float, gain: float, empty: Distribution, full: Distribution) -> CountNoise:
    """Return the error of one of few counts of a known total, given d − 1 times its messages less those of the others.

    Where noise is little, a flip of the label moves the possible errors by d − 1; much noise has errors in between.
    """
    error, slack = variance * (1 - 1 / size), 0.5 if gain * math.sqrt(variance) >= FILLED else (size - 1) / 2
    return _error(error, gain * size, trimmed(empty), trimmed(full), slack)


@functools.lru_cache(64)
def flip_noise(size: int, messages: int, q: float, variance: float, gain: float) -> CountNoise:
    """Return the error of one of ``size`` counts of a known total, if bits of N messages are flipped.

    ``variance`` is s², for which the covariance of the counts is s²·(I − J/size).

    >>> round(flip_noise(3, 100, 0.25, 75.0, 0.5).centre, 6)     # 2·25 − 25 + 25
    50.0
    """
    shown = trimmed(binomial(messages, q, tail=_TAIL))
    if _few(size, shown):
        return _apart_error(size, variance, gain, *_flips_apart(size, messages, q))
    return total_noise(size, variance, gain, shown, shown.flipped(0))


@functools.lru_cache(64)
def _flips_apart(size: int, messages: int, q: float) -> tuple[Distribution, Distribution]:
    """Return d − 1 times the messages with a label less those with others: if nobody, and if everybody has the label.

    If nobody has it, that is (d − 1)·Bin(N, q) + Bin(N, q) − Bin((d − 2)N, q) and a constant: those who have another
    label lack its bit in as many messages. If all have it, −(d − 1)·Bin(N, q) − Bin((d − 1)N, q) and a constant.

    >>> [one.pmf.size for one in _flips_apart(3, 1, 0.25)], _flips_apart(3, 1, 0.25)[1].low
    ([5, 5], -4)
    """
    own, lost, rest, others = (
        trimmed(binomial(number * messages, q, tail=_TAIL)) for number in (1, 1, size - 2, size - 1)
    )
    many = _stretched(own, size - 1)
    return many.plus(lost).plus(rest.flipped(0)), many.plus(others).flipped(0)


def _apart(
    schema: Schema, protocol: Protocol, n: int, number: float, shown: Distribution | None
) -> Distribution | None:
    """Return d − 1 times the fakes with a label less those with others; None unless labels are few and flipped.

    ``number`` is that of users' fakes, or of the batches to which the shuffler adds some.
    """
    d = schema.width
    if shown is None or shown.pmf.size == 1 or protocol.q == 0 or not known_total(schema, protocol):
        return None
    return _fakes_apart(d, protocol, n, number) if d <= FEW_OTHERS and (d - 1) * shown.pmf.size <= LONG_TABLE else None


@functools.lru_cache(64)
def _fakes_apart(size: int, protocol: Protocol, n: int, number: float) -> Distribution:
    """Return the same for a small number of labels, by what one fake with the label adds, and one with another.

    >>> one = _fakes_apart(2, Protocol(0.25, m=1), 10, 1)
    >>> one.low, one.pmf.tolist()
    (-1, [0.3125, 0.375, 0.3125])
    """
    q, users, drawn = protocol.q, protocol.user_fakes, protocol.shuffler_fakes
    if drawn is not None and not protocol.sends_records:
        one = thinned(drawn, 1.0)
        return _times(_stretched(one, size - 1).plus(_times(one, size - 1).flipped(0)), int(number))
    own, rest, others = (binomial(bits, q) for bits in (1, size - 2, size - 1))
    held = _stretched(own.flipped(1), size - 1).plus(others.flipped(0))
    lacked = _stretched(own, size - 1).plus(own.flipped(1).flipped(0)).plus(rest.flipped(0))
    if drawn is not None:
        shown = thinned(drawn, 1.0)
        return _times(_compound(shown, held).plus(_times(_compound(shown, lacked), size - 1)), int(number))
    low, high = min(held.low, lacked.low), max(held.high, lacked.high)
    masses = np.zeros(high - low + 1)
    for one, weight in ((held, 1 / size), (lacked, 1 - 1 / size)):
        masses[one.low - low : one.high - low + 1] += weight * one.pmf
    if users is None or protocol.sends_records:
        return _times(Distribution(low, masses), math.ceil(number))
    if users.distribution == "binomial":
        masses *= users.scale
        masses[-low] += 1 - users.scale
        return _times(Distribution(low, masses), n * users.shift)
    total = Distribution(0, np.ones(1))
    for place, mass in enumerate(masses.tolist(), low):
        if place != 0:
            some = _stretched(trimmed(poisson(number * mass)), abs(place))
            total = trimmed(total.plus(some if place > 0 else some.flipped(0)))
    return total


def _times(one: Distribution, times: int) -> Distribution:
    """Return the sum of independent draws, by squaring.

    >>> _times(Distribution(0, np.array([0.5, 0.5])), 3).pmf.tolist()
    [0.125, 0.375, 0.375, 0.125]
    """
    total = Distribution(0, np.ones(1))
    while times:
        total = trimmed(total.plus(one)) if times & 1 else total
        times >>= 1
        one = trimmed(one.plus(one)) if times else one
    return total


def _compound(number: Distribution, one: Distribution) -> Distribution:
    """Return the sum of a random number of independent draws, by Horner's rule.

    >>> _compound(Distribution(1, np.array([0.5, 0.5])), Distribution(1, np.ones(1))).pmf.tolist()
    [0.5, 0.5]
    """
    low, high = min(one.low, 0), max(one.high, 0)
    step = np.pad(one.pmf, (one.low - low, high - one.high))
    total = Distribution(0, np.zeros(1))
    for weight in number.pmf[::-1].tolist():
        pmf = portable.convolve(total.pmf, step)
        place = -(total.low + low)
        pmf[place] += weight
        total = Distribution(total.low + low, pmf)
    return trimmed(trimmed(total).plus(_times(one, number.low)))


def _few(size: int, shown: Distribution) -> bool:
    """Return True if the noise of all labels is summed exactly: there are few, and the table is not long."""
    return size == 2 or (size <= FEW_OTHERS and (size - 1) * shown.pmf.size <= LONG_TABLE)


def total_noise(
    size: int,
    variance: float,
    gain: float,
    shown: Distribution | None,
    full: Distribution | None = None,
    *,
    alike: bool = False,
) -> CountNoise:
    """Return the error of one of ``size`` counts of a known total: s²·(1 − 1/d), with its tails.

    ``shown`` is the noise of the messages with one label, and ``full`` that if everybody has it. The error is (d − 1)/d
    of the difference to the mean of the others. Few others that are independent and distributed ``alike`` are summed.
    The mean of many is close to normal: the error is a part of the label's own noise, and a remainder that is not
    correlated with it. The part is the ratio of both variances, as the error and the mean of all are not correlated
    either: 1 − 1/d of independent noise, and 1 if the sum of all labels is known.

    >>> one = total_noise(2, 8.0, 1.0, Distribution(0, np.array([0.25, 0.5, 0.25])), alike=True)
    >>> one.variance, one.gain, one.distribution.pmf.tolist()
    (4.0, 2.0, [0.0625, 0.25, 0.375, 0.25, 0.0625])
    """
    error = variance * (1 - 1 / size)
    if shown is None:
        return CountNoise(variance=error, gain=gain)
    if alike and _few(size, shown) and (others := _convolved([shown] * (size - 1))) is not None:
        whole = trimmed(_stretched(shown, size - 1).plus(others.flipped(0)))
        return _error(error, gain * size, whole, slack=1e-6)  # not flipped, and the same if everybody has the label
    fine = FINE if alike and gain * math.sqrt(variance) <= LITTLE else 1
    places = np.arange(shown.low, shown.high + 1, dtype=np.float64)
    own, whole_error = float(portable.dot((places - shown.mean) ** 2, shown.pmf)), gain**2 * error
    part = min(1.0, whole_error / own) if own > 0 else 1.0
    spread = whole_error * (1 - part) * (fine / part) ** 2

    def among_others(one: Distribution | None) -> Distribution | None:
        found = None if one is None else smooth(_stretched(one, fine), spread)
        return None if found is None else trimmed(found)

    found = among_others(shown)
    return _error(error, gain * fine / part if found else gain, found, among_others(full))


@functools.lru_cache(64)
def column_noise(noise: Noise, size: int, n: int, variance: float, gain: float, batches: int) -> CountNoise:
    """Return the error s²·(1 − 1/d) of one count of a column of d labels of which everybody has one, with its tails.

    ``gain`` messages show each person; the number of users' fakes is known, so that their mean is, too.
    """
    error = variance * (1 - 1 / size)
    if batches == 0 or (noise.shuffler_fakes is None and gain**2 * variance > WIDEST**2):
        return CountNoise(variance=error, gain=gain)
    if noise.user_fakes is not None:
        known = users_shown(variance, error)
        return CountNoise(variance=error, distribution=known, centre=variance, slack=1e-6)
    if noise.shuffler_fakes is None:
        return flip_noise(size, n, noise.q, variance, gain)
    return total_noise(size, variance, gain, drawn_sum(noise.shuffler_fakes, 0.0, batches), alike=True)


def _stretched(one: Distribution, times: int) -> Distribution:
    """Return the distribution of a multiple.

    >>> _stretched(Distribution(1, np.array([0.5, 0.5])), 3).pmf.tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    pmf = np.zeros((one.pmf.size - 1) * times + 1)
    pmf[::times] = one.pmf
    return Distribution(one.low * times, pmf)


def _among_flips(
    fakes: FakeCount, messages: int, q: float
) -> tuple[Distribution, Distribution | None] | tuple[None, None]:
    """Return the noise in the messages that show a label that nobody has, and that all have; None if too wide.

    Without flips, both are the same, and the second is None.
    """
    if fakes.distribution is None:
        return None, None
    flips = math.sqrt(messages * q * (1 - q) + fakes.rest)
    if (20 * flips + 200) * fakes.distribution.pmf.size > _PRODUCTS:
        return None, None
    # A Poisson number is at least as skewed as the fakes without the bit that flips set.
    others, own = poisson(fakes.rest), binomial(messages, q, tail=_TAIL)
    shown = trimmed(fakes.distribution.plus(trimmed(others.plus(own))))
    if q == 0:
        return shown, None
    return shown, trimmed(fakes.distribution.plus(trimmed(others.plus(own.flipped(0)))))


def predicted_noise(schema: Schema, protocol: Protocol, n: int) -> CountNoise:
    """Return the mean and variance of the error of one count in a batch of n people, without its exact distribution.

    >>> predicted_noise(Schema.one_hot(4), Protocol(0.0, m=400), 1000).variance
    75.0
    """
    if protocol.sends_category:
        return count_noise(schema, protocol, n)
    if protocol.sends_strings:
        return CountNoise(variance=predicted_stderr(schema, protocol, n) ** 2, gain=1.0)
    return count_noise(schema, protocol, n, fake_noise(schema, protocol, n, protocol.fixed_fakes, moments=True))


def pooled_noise(parts: list[tuple[int, CountNoise]]) -> CountNoise:
    """Return the error of a sum of counts."""
    if len(parts) == 1:
        return parts[0][1]
    total = _pooled(parts)
    if total.distribution is None or all(noise.full is None and noise.flip is None for _, noise in parts):
        return total
    lacked = _pooled([(n, noise.reflected(n)) for n, noise in parts]).distribution
    return replace(total, full=None if lacked is None else lacked.flipped(0))


def _pooled(parts: list[tuple[int, CountNoise]]) -> CountNoise:
    """Return the error of a sum of counts if nobody has the label."""
    first = parts[0][1]
    people = max(sum(n for n, _ in parts), 1)
    variance = math.fsum(noise.variance for _, noise in parts)
    growth = math.fsum(n * noise.growth for n, noise in parts) / people
    drawn = [noise for _, noise in parts if noise.distribution is not None]
    if drawn:
        gain = max(drawn, key=lambda noise: noise.variance).gain
        chosen = [noise for noise in drawn if noise.gain == gain]
        moved = [(noise.variance, _moved(n, noise, gain)) for n, noise in parts if noise not in chosen]
        known = [noise.distribution for noise in chosen] + [one for _, one in moved]
        exact = _convolved([one for one in known if one is not None])
        rest = gain**2 * math.fsum(wide for wide, one in moved if one is None)
        if exact is not None and (total := smooth(exact, rest)) is not None:
            return CountNoise(
                variance=variance,
                gain=gain,
                growth=growth,
                distribution=total,
                centre=math.fsum(noise.centre for noise in chosen),
                slack=max(noise.slack for noise in chosen) if len(chosen) == len(parts) else 0.5,
            )
    alike = all(noise.flip is not None and (noise.flip, noise.gain) == (first.flip, first.gain) for _, noise in parts)
    gain = min(noise.gain for _, noise in parts)
    return CountNoise(variance=variance, gain=gain, growth=growth, flip=first.flip if alike else None)


def _moved(n: int, noise: CountNoise, gain: float) -> Distribution | None:
    """Return an error around 0 in messages of another gain; None if it is wide, or known by its variance only.

    What lies between two whole numbers is split between them so that the mean remains, which errs outwards.
    """
    found, centre = noise.distribution, noise.centre
    if found is None and noise.flip is not None and noise.spread <= WIDEST:
        found, centre = binomial(n, noise.flip, tail=_TAIL), n * noise.flip
    if found is None:
        return None
    place = (np.arange(found.low, found.high + 1) - centre) * (gain / noise.gain)
    whole = np.floor(place).astype(np.int64)
    masses = np.zeros(int(whole[-1] - whole[0]) + 2)
    np.add.at(masses, whole - whole[0], found.pmf * (1 - place + whole))
    np.add.at(masses, whole - whole[0] + 1, found.pmf * (place - whole))
    return Distribution(int(whole[0]), masses)


def _convolved(distributions: list[Distribution]) -> Distribution | None:
    """Return the distribution of the sum, None if it is too long to be computed and therefore close to normal."""
    total = Distribution(0, np.ones(1))
    for one in distributions:
        if total.pmf.size + one.pmf.size > _LONGEST:
            return None
        total = trimmed(total.plus(one))
    return total


def noise_document(noise: CountNoise) -> dict[str, Json]:
    """Return the error of a count as a JSON object."""
    return {
        "variance": noise.variance,
        "gain": noise.gain,
        "growth": noise.growth,
        "flip": noise.flip,
        "distribution": _distribution_document(noise.distribution),
        "centre": noise.centre,
        "slack": noise.slack,
        "full": _distribution_document(noise.full),
    }


def _distribution_document(one: Distribution | None) -> Json:
    return None if one is None else {"low": one.low, "pmf": one.pmf.tolist()}


def noise_from_document(value: Json, what: str = "the noise of the estimate") -> CountNoise:
    """Read the error of a count from a JSON object."""
    read = Fields(value, what, "variance", "gain", "growth", "flip", "distribution", "centre", "slack", "full")
    with legal(what):
        return CountNoise(
            variance=read.real("variance"),
            gain=read.real("gain"),
            growth=read.real("growth"),
            flip=None if read["flip"] is None else read.real("flip"),
            distribution=_distribution_from_document(read["distribution"], what),
            centre=read.real("centre"),
            slack=read.real("slack"),
            full=_distribution_from_document(read["full"], what),
        )


def _distribution_from_document(value: Json, what: str) -> Distribution | None:
    if value is None:
        return None
    given = Fields(value, f"the distribution of {what}", "low", "pmf")
    masses = given.items("pmf")
    if not all(isinstance(mass, int | float) and 0 <= mass <= 1 for mass in masses):
        raise WireError(f"'pmf' of the distribution of {what} must be a list of probabilities")
    return Distribution(given.whole("low"), np.array(masses, np.float64))
