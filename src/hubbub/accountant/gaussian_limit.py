"""The Gaussian limit of a large collection: first guesses for searches. Certifies nothing.

A collection of n people behaves like a Gaussian mechanism with μ² = I/n, where I is the χ² divergence that one person's
messages contribute.
"""

import math
from collections.abc import Callable

import numpy as np

from hubbub.accountant.composition import Loss
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_delta, gaussian_signal
from hubbub.numeric.ratios import flip_from_phi, phi

COVERED = 400  # messages that a uniform blanket should cover: below, it proves little and is slow to evaluate

SAMPLES = 5  # points of a curve by which a composition is estimated
STEADY = 2.0  # largest ratio of the μ at these points
GRID = 120  # points of the curve between them
LEAST = 1e-250  # smallest δ whose μ is computed


def information(protocol: Protocol, schema: Schema) -> float:
    """Return I: 2(1/q − d) for a category, kh(φ − 1) for bits, k(φ^L − 1) or 2kφ^K(φ^K − 1) for whole records.

    h is the largest distance of two records of L bits, of which at most K are set. [003 eq 3.14 for φ]

    >>> round(information(Protocol(0.25, k=3, release="bits"), Schema.one_hot(9)), 9)
    8.0
    """
    q, k = protocol.q, protocol.k
    if protocol.sends_category:
        return 2 * (1 / q - schema.width)
    ratio = phi(q)
    if protocol.sends_bits or schema.width == 1:
        return k * schema.distance * (ratio - 1)
    power = math.exp(min(300.0, math.log(ratio) * (schema.width if schema.dense else schema.max_set)))
    return k * ((power if schema.dense else 2 * power * (power - 1) + 1) - 1)


def likely_flip(protocol: Protocol, schema: Schema, n: int, budget: Budget) -> float:
    """Return about the smallest q that meets the budget: the inverse of :func:`information` in q.

    >>> round(likely_flip(Protocol(0.1), Schema.bits(1), 1000, Budget(1.0, 1e-6)), 3)
    0.017
    """
    k = protocol.k
    needed = n * _signal(budget) ** 2
    if protocol.sends_category:
        return 1 / (schema.width + needed / 2)
    if protocol.sends_bits or schema.width == 1:
        return flip_from_phi(1 + needed / (k * schema.distance))
    if schema.dense:
        covered = 0.5 * math.pow(min(1.0, COVERED / (k * n)), 1 / schema.width)
        return max(flip_from_phi((1 + needed / k) ** (1 / schema.width)), covered)
    return flip_from_phi(((1 + math.sqrt(1 + 2 * needed / k)) / 2) ** (1 / schema.max_set))


def likely_people(protocol: Protocol, schema: Schema, budget: Budget) -> float:
    """Return about the smallest n that meets the budget.

    >>> 1500 < likely_people(Protocol(0.01), Schema.bits(1), Budget(1.0, 1e-6)) < 2000
    True
    """
    return 1.0 if protocol.clear else information(protocol, schema) / _signal(budget) ** 2


def likely_loss(delta: Callable[[float], float], signal: float, times: int, *, grid: int = GRID) -> Loss | None:
    """Return about the loss of several compositions, by few points of the curve δ(ε) of one of them.

    The curve between these points is that of a Gaussian mechanism whose μ, about ``signal``, changes linearly. None if
    the curve is not like that.

    >>> found = likely_loss(lambda epsilon: gaussian_delta(0.1, epsilon), 0.1, 4)
    >>> round(found.delta(0.5) / gaussian_delta(0.2, 0.5), 2)
    1.0
    """
    reach = signal * (5.5 / math.sqrt(times) + 2.5)
    points = [reach * i / (SAMPLES - 1) for i in range(SAMPLES)]
    deltas = [delta(point) for point in points]
    if not all(LEAST < value < 0.5 for value in deltas):
        return None
    signals = [gaussian_signal(*pair) for pair in zip(points, deltas, strict=True)]
    if max(signals) > STEADY * min(signals):
        return None
    step = 8 * (signal + signal * signal / 16) / grid
    nodes = [step * i for i in range(grid + 1)]
    curve = [gaussian_delta(*pair) for pair in zip(np.interp(nodes, points, signals).tolist(), nodes, strict=True)]
    return Loss.from_envelope(curve, step).power(times)


def _signal(budget: Budget) -> float:
    """Return about the μ of a Gaussian mechanism that meets the budget."""
    return gaussian_signal(max(budget.epsilon, 1e-3), max(budget.delta, 1e-300))
