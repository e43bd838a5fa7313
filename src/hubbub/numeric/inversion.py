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


Bend = Callable[[float], float]
"""An increasing function with the sign of its argument, which makes an excess nearly linear."""


def compressed(excess: float) -> float:
    """Return the excess on a logarithmic scale, so that a distant end does not pull every chord to the other.

    >>> compressed(0.0), compressed(math.expm1(2.0)), compressed(-math.inf)
    (0.0, 2.0, -inf)
    """
    return math.copysign(math.log1p(abs(excess)), excess) if excess else 0.0


def gaussian_tail(log_delta: float) -> Bend:
    """Return the transformation that makes ln δ(ε) − ``log_delta`` nearly linear in ε, since δ(ε) is like e^(−ε²/2μ²).

    √−ln δ is then linear; the difference of two roots is written without cancellation, so the sign stays exact.

    >>> gaussian_tail(-16.0)(7.0), gaussian_tail(-16.0)(-9.0)
    (1.0, -1.0)
    """
    goal = math.sqrt(max(-log_delta, 1e-12))

    def bend(excess: float) -> float:
        if math.isinf(excess):
            return excess
        return excess / (goal + math.sqrt(max(-log_delta - excess, 0.0)))

    return bend


def falling_root(
    excess: Callable[[float], float],
    guess: float,
    top: float,
    *,
    relative: float = 1e-6,
    bend: Bend = compressed,
    stride: float = 1.25,
) -> tuple[float, float]:
    """Return (a, b) with excess(a) > 0 ≥ excess(b) and b − a ≤ relative·b, for a decreasing function on [0, top].

    Both ends were evaluated: b is safe where "≤ 0" is required, and a shows that nothing much smaller suffices. The
    result is (0, 0) if the function is not positive even at 0, (top, ∞) if it is positive up to ``top``. Functions that
    ``bend`` makes smooth take about seven evaluations (secants, then one step to either side of the root), any function
    a few hundred at most. ``stride`` is the factor of the first step away from the guess: small for a good guess.

    >>> a, b = falling_root(lambda x: 2.0 - x * x, 1.0, 10.0)
    >>> a < 2**0.5 <= b, b - a <= 1e-6 * b
    (True, True)
    """
    known: dict[float, float] = {}

    def bent(x: float) -> float:
        value = bend(excess(x))
        if math.isfinite(value):
            known[x] = value
        return value

    a, b = _bracket(bent, min(guess, top), top, stride)
    if b == 0.0 or math.isinf(b):
        return a, b
    for step in range(200):
        if b - a <= relative * b:
            break
        x = _secant(sorted(known.items(), key=lambda point: abs(point[1]))[:2])
        margin = 0.45 * relative * b
        if step % 6 == 5 or not a - margin <= x <= b + margin:  # no function can stall the search
            x = math.sqrt(a) * math.sqrt(b) if 0 < 4 * a < b else (a + b) / 2
        elif x - a <= margin:  # one end is close to the root: step just beyond it
            x = max(a, x) + margin
        elif b - x <= margin:
            x = min(b, x) - margin
        x = min(max(x, a + margin / 2), b - margin / 2)
        if bent(x) > 0:
            a = x
        else:
            b = x
    return a, b


def _secant(points: list[tuple[float, float]]) -> float:
    """Return the root of the line through two points, nan if there is none."""
    if len(points) < 2:
        return math.nan
    (x, f), (y, g) = points
    return x - f * (y - x) / (g - f) if f != g else math.nan


def _bracket(excess: Callable[[float], float], guess: float, top: float, factor: float) -> tuple[float, float]:
    """Return points on both sides of the root, in strides that grow from the given factor."""
    x, value = guess, excess(guess)
    if value > 0:
        while value > 0:
            if x == top:
                return top, math.inf
            a = x
            # A guess of 0 must move too, and the factor must stay finite.
            x, factor = min(max(factor * x, 1e-12 * top), top), min(factor * factor, 1e100)
            value = excess(x)
        return a, x
    while value <= 0:
        b = x
        if x == 0.0:
            return 0.0, 0.0
        x, factor = x / factor if x > guess * 2.0**-100 else 0.0, min(factor * factor, 1e100)
        value = excess(x)
    return x, b
