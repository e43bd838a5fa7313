"""Minimization of unimodal functions by golden-section search."""

import math
from collections.abc import Callable
from typing import NamedTuple

RATIO = (math.sqrt(5) - 1) / 2


class Minimum(NamedTuple):
    """The result of a search: the better of the last two points, its value, and the least of all values found."""

    at: float
    value: float
    least: float


def golden_section(
    f: Callable[[float], float], low: float, high: float, *, width: float | None = None, steps: int = 90
) -> Minimum:
    """Return the minimum of a unimodal function after ``steps``, or as soon as the interval is at most ``width``.

    Kiefer (1953). The ends of the interval are not evaluated. If the function is not unimodal, ``least`` is still a
    value that it takes.

    >>> round(golden_section(lambda x: (x - 2.0) ** 2, 0.0, 10.0).at, 6)
    2.0
    """
    left, right = high - RATIO * (high - low), low + RATIO * (high - low)
    at_left, at_right = f(left), f(right)
    least = min(at_left, at_right)
    for _ in range(steps):
        if width is not None and not high - low > width:
            break
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - RATIO * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + RATIO * (high - low)
            at_right = f(right)
        least = min(least, at_left, at_right)
    return Minimum(left, at_left, least) if at_left <= at_right else Minimum(right, at_right, least)
