"""Intervals and p-values of differences between two batches of different people.

Intervals of differences are made from those of the two figures: the distances of the bounds to the estimates are added
in squares (Newcombe 1998, method 10; Zou and Donner 2008).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEAST_P = 1e-6  # smallest p-value that is told apart
HALVINGS = 14


def recovered(a: Array, b: Array, ends_a: tuple[Array, Array], ends_b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the interval of b − a from those of a and b.

    >>> one, two = np.array([1.0]), np.array([5.0])
    >>> low, high = recovered(one, two, (one - 3, one + 3), (two - 4, two + 4))
    >>> low.tolist(), high.tolist()
    ([-1.0], [9.0])
    """
    first, last = np.clip(a, *ends_a), np.clip(b, *ends_b)
    low = last - first - np.hypot(last - ends_b[0], ends_a[1] - first)
    high = last - first + np.hypot(ends_b[1] - last, first - ends_a[0])
    return np.asarray(low), np.asarray(high)


def smallest_level(excludes: Callable[[float], bool]) -> float:
    """Return the p-value: the smallest α for which the interval of level 1 − α excludes equality, rounded upwards.

    >>> abs(smallest_level(lambda level: level < 0.97) - 0.03) < 1e-4
    True
    """
    low, high = math.log(LEAST_P), 0.0
    if excludes(1 - LEAST_P):
        return LEAST_P
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if excludes(1 - math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)
