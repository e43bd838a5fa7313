"""Canonical JSON (RFC 8785) and typed readers for JSON objects.

Programs in different languages that agree on a value agree on its bytes, and therefore on its digest. JSON has no
infinity: callers write an infinite ε as the string ``"inf"`` (:func:`spell`).
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from json.encoder import encode_basestring
from typing import NoReturn

from hubbub.errors import InvalidInput, WireError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Any JSON value."""


def canonical(value: Json) -> bytes:
    """Return the canonical UTF-8 bytes of a value: sorted keys, no spaces, shortest numbers (RFC 8785).

    >>> canonical({"b": [1e-6, 2.0, 0.1], "a": "é"}).decode()
    '{"a":"é","b":[0.000001,2,0.1]}'
    >>> canonical([["a", "b"], ["a", 1, None], []]).decode()
    '[["a","b"],["a",1,null],[]]'
    """
    try:
        return _write(value).encode()
    except UnicodeEncodeError:
        raise WireError("text must not contain lone surrogates") from None
    except RecursionError:
        raise WireError("JSON must not be nested so deeply") from None


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
            # Schemas have up to ten million labels, and every process that loads a task computes its digest.
            texts = [encode_basestring(one) for one in value if isinstance(one, str)]
            return "[" + ",".join(texts if len(texts) == len(value) else map(_write, value)) + "]"
        case dict():
            # RFC 8785 sorts by UTF-16 units, which for the ASCII keys used here is the order of Python.
            return "{" + ",".join(f"{json.dumps(key)}:{_write(value[key])}" for key in sorted(value)) + "}"


def _number(value: float) -> str:
    """Format a float as ECMAScript does."""
    if not math.isfinite(value):
        raise WireError(f"JSON numbers must be finite, got {value}")
    if value == 0:
        return "0"
    text = float.__repr__(value)  # subclasses, such as the floats of numpy, have other ones
    if "e" not in text:
        # Python and ECMAScript print the same shortest digits; they differ in the exponent and in a trailing .0.
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
    """Parse JSON strictly: no duplicate keys, no NaN or infinity, no number out of range.

    >>> parse('{"a": 1, "a": 2}', "a plan")
    Traceback (most recent call last):
    hubbub.errors.WireError: a plan must not have a duplicate key
    """

    def refuse(_: str) -> NoReturn:
        raise WireError(f"{what} must not have a number that is infinite, NaN or out of range")

    def number(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    def whole(text: str) -> int:
        return int(text) if len(text) < 20 else refuse(text)

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise WireError(f"{what} must not have a duplicate key")
        return result

    try:
        source = text.decode() if isinstance(text, bytes) else text
        result: Json = json.loads(
            source, object_pairs_hook=unique, parse_constant=refuse, parse_float=number, parse_int=whole
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise WireError(f"{what} must be JSON in UTF-8") from None
    return result


@contextmanager
def legal(what: str) -> Iterator[None]:
    """Turn an :class:`InvalidInput` raised while building an object from JSON into a :class:`WireError`.

    >>> with legal("the schema"):
    ...     raise InvalidInput("labels must be distinct")
    Traceback (most recent call last):
    hubbub.errors.WireError: in the schema: labels must be distinct
    """
    try:
        yield
    except WireError:
        raise
    except InvalidInput as error:
        raise WireError(f"in {what}: {error}") from None


class Fields:
    """A JSON object with exactly the given keys, read one typed entry at a time.

    >>> Fields({"n": "many"}, "a plan", "n").whole("n")
    Traceback (most recent call last):
    hubbub.errors.WireError: 'n' of a plan must be a whole number
    >>> Fields({"n": 1}, "a plan", "n", "q")
    Traceback (most recent call last):
    hubbub.errors.WireError: a plan must be an object with exactly the keys n, q
    """

    def __init__(self, value: Json, what: str, *keys: str) -> None:
        if not isinstance(value, dict) or value.keys() != set(keys):
            raise WireError(f"{what} must be an object with exactly the keys {', '.join(keys)}")
        self._entries = value
        self._what = what

    def __getitem__(self, key: str) -> Json:
        return self._entries[key]

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._entries[key]
        return value if isinstance(value, str) else self._refuse(key, "a string")

    def texts(self, key: str) -> list[str]:
        """Return a list of strings."""
        value = self._entries[key]
        strings = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
        return strings if strings == value else self._refuse(key, "a list of strings")

    def items(self, key: str) -> list[Json]:
        """Return a list."""
        value = self._entries[key]
        return value if isinstance(value, list) else self._refuse(key, "a list")

    def wholes(self, key: str) -> list[int]:
        """Return a list of whole numbers."""
        value = self._entries[key]
        if not isinstance(value, list) or any(not isinstance(one, int) or isinstance(one, bool) for one in value):
            self._refuse(key, "a list of whole numbers")
        return [one for one in value if isinstance(one, int)]

    def whole(self, key: str) -> int:
        """Return a whole number."""
        value = self._entries[key]
        if not isinstance(value, int) or isinstance(value, bool):
            self._refuse(key, "a whole number")
        return value

    def real(self, key: str) -> float:
        """Return a number as a float."""
        value = self._entries[key]
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._refuse(key, "a number")
        return float(value)

    def reals(self, key: str) -> list[float]:
        """Return a list of numbers as floats."""
        value = self._entries[key]
        if not isinstance(value, list) or any(
            not isinstance(one, int | float) or isinstance(one, bool) for one in value
        ):
            self._refuse(key, "a list of numbers")
        return [float(one) for one in value if isinstance(one, int | float)]

    def limit(self, key: str) -> float:
        """Return a number, or infinity for the string ``"inf"``."""
        return math.inf if self._entries[key] == "inf" else self.real(key)

    def truth(self, key: str) -> bool:
        """Return true or false."""
        value = self._entries[key]
        return value if isinstance(value, bool) else self._refuse(key, "true or false")

    def _refuse(self, key: str, expected: str) -> NoReturn:
        raise WireError(f"{key!r} of {self._what} must be {expected}")


def spell(value: Json) -> Json:
    """Return the value, with infinity replaced by the string that :meth:`Fields.limit` reads."""
    return "inf" if value == math.inf else value
