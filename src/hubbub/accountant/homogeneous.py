"""Homogeneous crowds: the approximate δ of split bits if all others hold the same bits. Certifies nothing.

The certificate of split bits (:mod:`hubbub.accountant.theorems.split`) needs one or two percent more noise, and costs a
hundred times as much: searches that need few certificates start from here.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial, binomial_pmf

Floats = NDArray[np.float64]

RESOLVED = 1e-13  # smallest δ that is told apart from rounding errors
FAINT = 46.0  # outcomes of a probability below e^−46 are left out
CYCLE = 2**13  # grid points of the loss of all positions together; beyond them, losses count at the other end
GRAIN = (60.0, 10.0, CYCLE / 24)  # points per standard deviation: at least, times √(number of positions), at most


@lru_cache(maxsize=256)
def _position(n: int, q: float, k: int) -> tuple[Floats, Floats]:
    """Return the probabilities and losses of the outcomes of one position, in its worse order."""
    crowd = binomial(k * (n - 1), 1 - q, tail=FAINT + 10)
    first, second = (portable.convolve(crowd.pmf, binomial_pmf(k, chance)) for chance in (1 - q, q))
    likely = (first > math.exp(-FAINT)) & (second > 0)
    # What was cut off the crowd is missing in the first and last outcomes.
    likely[: k if crowd.low > 0 else 0] = False
    likely[len(likely) - (k if crowd.low + crowd.pmf.size <= k * (n - 1) else 0) :] = False
    return first[likely], portable.log(first[likely]) - portable.log(second[likely])


def likely_log_delta(positions: Sequence[tuple[int, float, int, int]], epsilon: float) -> float:
    """Return the approximate ln δ(ε) of positions (n, q, k, times) together; −∞ far below what is resolved.

    Losses are put on a grid, which keeps their mean, and convolved.

    >>> round(math.exp(likely_log_delta([(5000, 0.1964, 1, 2)], 0.1132)) * 1e6, 2)  # the certificate is 1.13
    1.12
    """
    found = [(*_position(n, q, k), times) for n, q, k, times in positions]
    moments = [(float((mass * loss).sum()), float((mass * loss * loss).sum()), times) for mass, loss, times in found]
    mean = math.fsum(times * first for first, _, times in moments)
    variance = math.fsum(times * (second - first * first) for first, second, times in moments)
    count = sum(times for _, _, times in found)
    step = math.sqrt(variance) / min(max(GRAIN[0], GRAIN[1] * math.sqrt(count)), GRAIN[2])
    low = round(mean / step) - CYCLE // 2
    product = np.ones(CYCLE // 2 + 1, dtype=np.complex128)
    shift = 0
    for mass, loss, times in found:
        place = np.floor(loss / step)
        rest, start = loss / step - place, int(place.min())
        index = (place - start).astype(np.intp) % CYCLE
        row = np.bincount(index, mass * (1 - rest), CYCLE) + np.bincount((index + 1) % CYCLE, mass * rest, CYCLE)
        product = portable.times(product, portable.power(np.fft.rfft(row), times))
        shift += times * start
    total = np.roll(np.fft.irfft(product, CYCLE), shift - low)
    losses = step * (low + np.arange(CYCLE))
    above = losses > epsilon
    delta = float((total[above] * -portable.expm1(epsilon - losses[above])).sum())
    return math.log(min(delta, 1.0)) if delta > 0.0 else -math.inf


def split_positions(protocol: Protocol, schema: Schema, honest: int) -> list[tuple[int, float, int, int]]:
    """Return the positions of split bits in which two records may differ, as :func:`likely_log_delta` takes them.

    >>> split_positions(Protocol(0.125, release="bits"), Schema.one_hot(9), 1000)
    [(1000, 0.125, 1, 2)]
    """
    if len(protocol.noise) == 1:
        return [(honest, protocol.q, protocol.k, schema.distance)]
    return [(honest, noise.q, 1, 2) for noise in protocol.noise]
