"""Fields of parsed JSON, read strictly."""

from fractions import Fraction
from typing import Any


class WireError(ValueError):
    """A text that is no plan, is damaged, or was changed after its id was computed."""


def keys(value: Any, keys: set[str], what: str) -> None:
    """Raise unless a value is an object with exactly these keys."""
    if not isinstance(value, dict) or value.keys() != keys:
        raise WireError(f"{what} must be an object with exactly the keys {', '.join(sorted(keys))}")


def whole(value: dict[str, Any], key: str, low: int, high: int) -> int:
    """Return a whole number between the bounds."""
    number = value[key]
    if type(number) is not int or not low <= number <= high:
        raise WireError(f"{key!r} must be a whole number in [{low:,}, {high:,}]")
    return number


def real(value: dict[str, Any], key: str, low: int, high: int | None) -> Fraction:
    """Return the exact value of a number between the bounds."""
    number = value[key]
    if type(number) not in (int, float) or number < low or (high is not None and number > high):
        raise WireError(f"{key!r} must be a number of at least {low}" + (f" and at most {high}" if high else ""))
    return Fraction(float(number))


def epsilon(value: dict[str, Any], key: str) -> Fraction | None:
    """Return an ε; None if it is infinite."""
    return None if value[key] == "inf" else real(value, key, 0, None)


def truth(value: dict[str, Any], key: str) -> bool:
    """Return a truth value."""
    flag = value[key]
    if not isinstance(flag, bool):
        raise WireError(f"{key!r} must be true or false")
    return flag
