"""Canonical JSON (RFC 8785), typed readers for JSON objects, and the codec that derives both from the types of fields.

Programs in different languages that agree on a value agree on its bytes, and therefore on its digest. JSON has no
infinity: an infinite ε is written as the string ``"inf"`` (:func:`spell`).
"""

import functools
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from json.encoder import encode_basestring
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self, get_args, get_origin, get_type_hints

from hubbub.errors import Interval, InvalidInput, WireError, check_choice, check_real, check_type, check_whole, reject

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


def hex_bytes(text: str, size: int, what: str) -> bytes:
    """Return the bytes of a lower-case hexadecimal string.

    >>> hex_bytes("01ff", 2, "the task")
    b'\\x01\\xff'
    """
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if data.hex() != text or len(data) != size:
        raise WireError(f"{what} must have {2 * size} lower-case hexadecimal digits")
    return data


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole numbers that a field may have."""

    low: int = 0
    high: int | None = None


OPTIONAL = "optional"
"""Marks a field that is written only if its value is not the default, and may be missing for no other reason."""


class Document:
    """A dataclass that is a JSON object with an entry for each field, checked and read by the types of the fields.

    A field has a truth value, a string, one of several strings (``Literal``, ``StrEnum``), a number (``Annotated`` with
    its range, an :class:`Interval` or :class:`Whole`), bytes (``Annotated`` with their number; in hexadecimal digits),
    another document, or a tuple of these; each may be None if its type says so. Classes whose fields depend on each
    other define ``__post_init__``, and call :func:`check_fields` in it.

    >>> @dataclass(frozen=True, slots=True)
    ... class Coin(Document):
    ...     heads: Annotated[float, Interval(0.0, 1.0)]
    ...     tosses: Annotated[int, Whole(1)]
    ...     name: Annotated[str, OPTIONAL] = ""
    >>> canonical(Coin(0.5, 10).to_document()).decode(), Coin.from_document({"heads": 1, "tosses": 2})
    ('{"heads":0.5,"tosses":10}', Coin(heads=1.0, tosses=2, name=''))
    >>> Coin.from_document({"heads": 1, "tosses": 0})
    Traceback (most recent call last):
    hubbub.errors.WireError: in the coin: tosses must be a whole number of at least 1, got 0
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    WHAT: ClassVar[str] = ""
    """The name of such an object in error messages, if it is not that of the class."""

    def __post_init__(self) -> None:
        check_fields(self)

    def to_document(self) -> dict[str, Json]:
        """Return the object as JSON."""
        entries = [(one, getattr(self, one.name)) for one in _entries(type(self))]
        return {one.name: one.write(value) for one, value in entries if not one.optional or value != one.default}

    @classmethod
    def from_document(cls, value: Json, what: str = "") -> Self:
        """Read the object from JSON; ``what`` names it in error messages."""
        what = what or cls.WHAT or f"the {cls.__name__.lower()}"
        given = value if isinstance(value, dict) else {}
        entries = [one for one in _entries(cls) if not one.optional or one.name in given]
        read = Fields(value, what, *(one.name for one in entries))
        with legal(what):
            values = {one.name: one.read(read, one.name, what) for one in entries}
            for one in entries:
                if one.optional and values[one.name] == one.default:
                    reject(one.name, "be left out for its default", one.default)
            return cls(**values)


def check_fields(document: Document) -> None:
    """Raise :class:`InvalidInput` unless all fields have values of their types; store numbers as int and float."""
    for one in _entries(type(document)):
        object.__setattr__(document, one.name, one.check(one.name, getattr(document, one.name)))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A field: how its value is checked, written, and read from the entry of this name of an object."""

    check: Callable[[str, Any], Any]
    write: Callable[[Any], Json]
    read: Callable[[Fields, str, str], Any]
    name: str = ""
    optional: bool = False
    default: object = None


_ENTRIES: dict[type, tuple[_Entry, ...]] = {}


def _entries(kind: type[Document]) -> tuple[_Entry, ...]:
    if kind not in _ENTRIES:
        hints, found = get_type_hints(kind, include_extras=True), []
        for field in (one for one in fields(kind) if one.init):
            one, optional = _entry(hints[field.name]), OPTIONAL in get_args(hints[field.name])
            found.append(replace(one, name=field.name, optional=optional, default=field.default))
        _ENTRIES[kind] = tuple(found)
    return _ENTRIES[kind]


def _entry(hint: Any) -> _Entry:
    hint, *rules = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    rule = next((one for one in rules if one != OPTIONAL), None)
    if rule is not None:
        return _ruled(rule)
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return _plain(lambda name, value: check_choice(name, value, parts), Fields.text)
    if get_origin(hint) is tuple:
        return _sequence(parts[0])
    if get_origin(hint) is UnionType:
        return _or_none(_entry(next(one for one in parts if one is not NoneType)))
    return _typed(hint)


def _plain(check: Callable[[str, Any], Any], read: Callable[[Fields, str], Any]) -> _Entry:
    return _Entry(check, spell, lambda entries, key, _: read(entries, key))


def _ruled(rule: object) -> _Entry:
    """Return the entry of a number within a range, or of bytes of a size."""
    match rule:
        case Interval():
            infinite = rule.high == math.inf and not rule.open_high
            return _plain(functools.partial(check_real, interval=rule), Fields.limit if infinite else Fields.real)
        case Whole():
            return _plain(functools.partial(check_whole, low=rule.low, high=rule.high), Fields.whole)
    assert isinstance(rule, int)
    return _Entry(
        lambda name, value: _check_size(name, value, rule),
        bytes.hex,
        lambda read, key, what: hex_bytes(read.text(key), rule, f"the {key} of {what}"),
    )


def _typed(kind: Any) -> _Entry:
    """Return the entry of a truth value, a string, a member of an enumeration, or a document."""
    check = functools.partial(check_type, kind=kind)
    if kind in (bool, str):
        return _plain(check, Fields.truth if kind is bool else Fields.text)
    if issubclass(kind, StrEnum):
        values = tuple(one.value for one in kind)
        return _Entry(
            check,
            lambda value: str(value.value),
            lambda read, key, _: kind(check_choice(key, read.text(key), values)),
        )
    return _Entry(
        check,
        lambda value: value.to_document(),
        lambda read, key, what: kind.from_document(read[key], f"the {key} of {what}"),
    )


def _check_size(name: str, value: object, size: int) -> bytes:
    if not isinstance(value, bytes) or len(value) != size:
        reject(name, f"have {size} bytes")
    return value


def _or_none(one: _Entry) -> _Entry:
    return _Entry(
        lambda name, value: None if value is None else one.check(name, value),
        lambda value: None if value is None else one.write(value),
        lambda read, key, what: None if read[key] is None else one.read(read, key, what),
    )


def _sequence(hint: Any) -> _Entry:
    """Return the entry of a tuple of strings, of whole numbers, or of documents."""
    one = _entry(hint)
    base = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    lists: dict[type, Callable[[Fields, str], list[Any]]] = {str: Fields.texts, int: Fields.wholes}

    def documents(entries: Fields, key: str) -> list[Any]:
        return [base.from_document(item) for item in entries.items(key)]

    read = lists.get(base, documents)
    return _Entry(
        lambda name, value: tuple(one.check(name, item) for item in value),
        lambda value: [one.write(item) for item in value],
        lambda entries, key, _: tuple(read(entries, key)),
    )
