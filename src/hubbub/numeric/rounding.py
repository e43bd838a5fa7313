"""Outward rounding: the last step of every value that certifies something.

Float64 evaluations carry a relative error that the caller can bound, typically by a few hundred units in the last
place. Widening a value by that bound in the safe direction turns "correct up to rounding" into a one-sided bound.
"""

import math

from hubbub.errors import NON_NEGATIVE, check_real


def up(value: float, relative: float = 0.0) -> float:
    """Return a float just above value + abs(value)·relative; infinity stays infinite.

    Errs upwards: the result is strictly larger than the exact widened value.

    >>> up(1.0) > 1.0, up(0.0) > 0.0, up(1.0, 1e-3) >= 1.001, up(-1.0, 1e-3) > -1.0
    (True, True, True, True)
    """
    relative = check_real("relative", relative, NON_NEGATIVE)
    # One step for the addition, one for the product: each is within half a unit of the exact result.
    return math.nextafter(math.nextafter(value + abs(value) * relative, math.inf), math.inf)
