"""Search for ε on curves that cost up to a second per point."""

import math
from collections.abc import Callable

CLOSE = 2e-4  # relative distance from the root
STEPS = 80


def steep_root(
    excess: Callable[[float], float], guess: float, top: float, *, above: bool = False, relative: float = CLOSE
) -> float:
    """Return x in [0, top] with excess(x) ≤ 0, about ``relative`` above the smallest, for a decreasing function.

    The excess was evaluated at the result: it is safe where "≤ 0" is required. With ``above`` the result has
    excess(x) > 0 instead, just below the root, or is 0. The result is ∞ (with ``above``: ``top``) if the function is
    positive up to ``top``. Secants in x², in which ln δ is about linear, take five evaluations or so.

    >>> x = steep_root(lambda x: 14.0 - 7.0 * x * x, 1.0, 10.0)
    >>> 2**0.5 <= x <= 2**0.5 * 1.0003
    True
    """
    low, high = 0.0, math.inf  # excess(low) > 0 ≥ excess(high) where these were evaluated
    last: tuple[float, float] | None = None
    x = min(max(guess, 1e-9), top)
    for step in range(STEPS):
        value = excess(x)
        low, high = (x, high) if value > 0 else (low, x)
        if high == 0.0 or low >= top or (math.isfinite(high) and high - low <= relative * high):
            break
        slope = _slope(last, (x, value))
        last = (x, value)
        if slope is None or step % 8 == 7:
            x = _between(low, high, 1.1 ** (step + 1))
        else:
            if (value > 0) == above and abs(value) <= -2 * slope * x * x * relative:
                break
            root = math.sqrt(max(x * x - value / slope, 0.0))
            x = root * (1 - relative / 3 if above else 1 + relative / 3)
            if not max(low, 0.3 * min(high, low or high)) < x < min(high, 3 * (low or high)):
                x = _between(low, high, 1.1 ** (step + 1))
        x = min(x, top) if x > 1e-12 else 0.0
    return low if above else high


def _slope(one: tuple[float, float] | None, two: tuple[float, float]) -> float | None:
    """Return the slope in x² of the chord through two points, or None if it is not negative and finite."""
    if one is None or one[0] == two[0] or not (math.isfinite(one[1]) and math.isfinite(two[1])):
        return None
    slope = (two[1] - one[1]) / (two[0] ** 2 - one[0] ** 2)
    return slope if math.isfinite(slope) and slope < 0 else None


def _between(low: float, high: float, factor: float) -> float:
    """Return a point between the two ends, or by ``factor`` in the direction of the missing one."""
    if math.isinf(high):
        return factor * low
    return high / factor if low == 0.0 and high > 1e-12 else (low + high) / 2
