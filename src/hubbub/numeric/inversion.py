"""Inversion of monotone functions; the result lies on the side where the condition holds.

A privacy calibration that returns "the root" is unsafe: half of all roots violate the budget by a rounding error.
These searches return a point at which the condition was *evaluated and found true*, within the stated distance of the
boundary; the caller never has to re-check.
"""

import math
from collections.abc import Callable

from hubbub.errors import Infeasible, reject


def least_real(
    holds: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-9, steps: int = 200
) -> float:
    """Return x with ``holds(x)``, within ``relative``·x above the smallest one, for ``holds`` false below, true above.

    Lands on the side where ``holds`` is true. The search bisects the interval, in the logarithm while low > 0 and
    high/low > 4, so that a root of 10⁻⁹ costs no more than one of 1/2. Raises :class:`Infeasible` if ``holds(high)``
    is false.

    >>> x = least_real(lambda t: t * t >= 2.0, 0.0, 2.0)
    >>> x * x >= 2.0, abs(x / 2**0.5 - 1) < 1e-9
    (True, True)
    """
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        reject("low and high", "be finite with low ≤ high", (low, high))
    if not holds(high):
        raise Infeasible(f"the condition does not hold anywhere up to {high!r}")
    if holds(low):
        return low
    for _ in range(steps):
        if high - low <= relative * abs(high):
            break
        middle = math.sqrt(low) * math.sqrt(high) if low > 0 and high > 4 * low else low + (high - low) / 2
        if not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def least_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest integer x of [low, high] with ``holds(x)``, for ``holds`` false below x and true from x on.

    Exact. Doubles its stride from ``low`` before it bisects, so that a small answer takes few evaluations even if
    ``high`` is enormous. Raises :class:`Infeasible` if no integer holds.

    >>> least_whole(lambda m: m * m >= 1000, 0, 10**18)
    32
    """
    if low > high:
        reject("low and high", "satisfy low ≤ high", (low, high))
    if holds(low):
        return low
    stride = 1
    while low + stride < high and not holds(low + stride):
        low += stride
        stride *= 2
    top = min(low + stride, high)
    if top == high and not holds(high):
        raise Infeasible(f"the condition does not hold anywhere up to {high}")
    while top - low > 1:
        middle = (low + top) // 2
        if holds(middle):
            top = middle
        else:
            low = middle
    return top


def falling_root(
    excess: Callable[[float], float], guess: float, top: float, *, relative: float = 1e-6
) -> tuple[float, float]:
    """Return (a, b) with excess(a) > 0 ≥ excess(b) and b − a ≤ relative·b, for a decreasing function on [0, top].

    Both ends were evaluated: b is safe where "≤ 0" is required, and a shows that nothing much smaller suffices. The
    result is (0, 0) if the function is not positive even at 0, (top, ∞) if it is positive up to ``top``. Smooth
    functions take about ten evaluations (regula falsi with the Illinois halving, ended by a step of ``relative``), any
    function a few hundred at most.

    >>> a, b = falling_root(lambda x: 2.0 - x * x, 1.0, 10.0)
    >>> a < 2**0.5 <= b, b - a <= 1e-6 * b
    (True, True)
    """

    def bent(x: float) -> float:
        """Return the excess, compressed so that a distant end does not pull every chord to the other."""
        value = excess(x)
        return math.copysign(math.log1p(abs(value)), value) if value else 0.0

    a, above, b, below = _bracket(bent, min(guess, top), top)
    if b == 0.0 or math.isinf(b):
        return a, b
    side = 0
    for step in range(200):
        if b - a <= relative * b:
            break
        # An infinite value has no slope, and every eighth step bisects, so that no function can stall the search.
        if step % 8 == 7 or not (math.isfinite(above) and math.isfinite(below)):
            x = (a + b) / 2
        else:
            x = b - (b - a) * below / (below - above)
            x = min(max(x, a + relative * b / 2), b - relative * b / 2)
        value = bent(x)
        if value > 0:
            a, above = x, value
            below = below / 2 if side == 1 else below
            side = 1
        else:
            b, below = x, value
            above = above / 2 if side == -1 else above
            side = -1
    return a, b


def _bracket(excess: Callable[[float], float], guess: float, top: float) -> tuple[float, float, float, float]:
    """Return (a, excess(a), b, excess(b)) around the root, in strides that grow from a quarter of the guess."""
    x, value, factor = guess, excess(guess), 1.25
    if value > 0:
        while value > 0:
            if x == top:
                return top, value, math.inf, 0.0
            a, above = x, value
            x, factor = min(factor * x, top), factor * factor
            value = excess(x)
        return a, above, x, value
    while value <= 0:
        b, below = x, value
        if x == 0.0:
            return 0.0, value, 0.0, value
        x, factor = x / factor if x > guess * 2.0**-100 else 0.0, factor * factor
        value = excess(x)
    return x, value, b, below
