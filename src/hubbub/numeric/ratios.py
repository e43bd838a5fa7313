"""φ, the second moment of the likelihood ratio of one flipped bit, and the flip probability that has a given φ."""

import math

from hubbub.errors import Interval, check_flip, check_real


def phi(q: float) -> float:
    """Return φ = (p³ + q³)/(pq) = p/q + q/p − 1 = 1 + (p − q)²/(pq), the second moment of a bit's ratio. [003 eq 3.14]

    >>> round(3 * phi(0.25), 12)
    7.0
    """
    q = check_flip(q)
    return 1 + (1 - 2 * q) ** 2 / (q * (1 - q))


def flip_from_phi(value: float) -> float:
    """Return q = 1/(1 + ((φ + 1) + √((φ + 1)² − 4))/2), the flip probability with this φ > 1. [003 eq 3.16]

    >>> round(flip_from_phi(7 / 3), 12)
    0.25
    """
    value = check_real("phi", value, Interval(1.0, math.inf, open_low=True, open_high=True))
    return 1 / (1 + (value + 1 + math.sqrt((value - 1) * (value + 3))) / 2)
