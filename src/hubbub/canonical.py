"""One text for one value: JSON in the canonical form of RFC 8785, written and read strictly.

Two programs in two languages that agree on a value agree on its bytes, and so on its digest. Numbers that JSON does not
have (an infinite ε) are written as strings by the caller.
"""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import NoReturn

from hubbub.errors import WireError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""What JSON can say."""


def canonical(value: Json) -> bytes:
    """The UTF-8 bytes of a value: sorted keys, no spaces, shortest numbers (RFC 8785).

    >>> canonical({"b": [1e-6, 2.0, 0.1], "a": "é"}).decode()
    '{"a":"é","b":[0.000001,2,0.1]}'
    """
    try:
        return _write(value).encode()
    except UnicodeEncodeError:
        raise WireError("text must be Unicode without lone surrogates, got others") from None
    except RecursionError:
        raise WireError("a value must not be nested so deeply") from None


def _write(value: Json) -> str:
    match value:
        case bool() | None:
            return json.dumps(value)
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return encode_basestring(value)
        case list():
            return "[" + ",".join(map(_write, value)) + "]"
        case dict():
            # RFC 8785 sorts by UTF-16 units, which for the ASCII keys used here is the order of Python.
            return "{" + ",".join(f"{json.dumps(key)}:{_write(value[key])}" for key in sorted(value)) + "}"


def _number(value: float) -> str:
    """A float as ECMAScript writes it."""
    if not math.isfinite(value):
        raise WireError(f"numbers must be finite, got {value}")
    if value == 0:
        return "0"
    text = repr(value)
    if "e" not in text:
        # Python and ECMAScript write the same shortest digits, and differ only in when they use an exponent, and in .0.
        return text.removesuffix(".0")
    sign, figures, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, figures))
    point = len(digits) + exponent
    if 0 < point <= 21:
        text = digits.ljust(point, "0")
        text = text[:point] + ("." + text[point:] if text[point:] else "")
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if digits[1:] else "") + f"e{point - 1:+d}"
    return "-" * sign + text


def parse(text: str | bytes, what: str) -> Json:
    """Read JSON, refusing what JSON leaves open: repeated keys, NaN, infinities, numbers out of range.

    >>> parse('{"a": 1, "a": 2}', "a plan")
    Traceback (most recent call last):
    hubbub.errors.WireError: a plan must have distinct keys, got one twice
    """

    def refuse(_: str) -> NoReturn:
        raise WireError(f"{what} must have finite numbers, got others")

    def number(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    def whole(text: str) -> int:
        return int(text) if len(text) < 20 else refuse(text)

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise WireError(f"{what} must have distinct keys, got one twice")
        return result

    try:
        source = text.decode() if isinstance(text, bytes) else text
        result: Json = json.loads(
            source, object_pairs_hook=unique, parse_constant=refuse, parse_float=number, parse_int=whole
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise WireError(f"{what} must be JSON in UTF-8, got something else") from None
    return result


def fields(value: Json, what: str, kinds: dict[str, Callable[[Json], object]]) -> dict[str, object]:
    """The entries of an object that has exactly these keys, each read by its function.

    >>> fields({"n": 1}, "a plan", {"n": int, "q": float})
    Traceback (most recent call last):
    hubbub.errors.WireError: a plan must have exactly the keys n, q, got others
    """
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise WireError(f"{what} must have exactly the keys {', '.join(kinds)}, got others")
    try:
        return {key: kind(value[key]) for key, kind in kinds.items()}
    except (TypeError, OverflowError):
        raise WireError(f"{what} must have entries of the right types, got others") from None


def spell(value: Json) -> Json:
    """A value in which infinity is the string that :func:`as_limit` reads."""
    return "inf" if value == math.inf else value


def as_text(value: Json) -> str:
    """A string, or a TypeError; like its siblings an entry of :func:`fields`."""
    if not isinstance(value, str):
        raise TypeError
    return value


def as_whole(value: Json) -> int:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def as_real(value: Json) -> float:
    """A number, as a float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    return float(value)


def as_limit(value: Json) -> float:
    """A number or infinity."""
    return math.inf if value == "inf" else as_real(value)


def as_truth(value: Json) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise TypeError
    return value
