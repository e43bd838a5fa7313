"""The common ground of the questions of a survey: labels, numbers, and the policy for answers that are missing."""

import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Integral, Rational, Real
from typing import Literal

from hubbub.documents import Json
from hubbub.errors import check_items, check_type, check_whole, kind_of, reject

MAX_LABELS = 10**7
NO_ANSWER = "no answer"
"""Label of the category for missing answers, where a question has one."""
ANSWER = "the answer"
NO_VALUE = "be given; to allow none, create the question with missing=True"
Coin = Callable[[int], bool]
"""numerator ↦ True with probability exactly numerator/2⁴⁸."""
Document = dict[str, Json]
Rule = Literal["one", "at_most", "any", "text"]
"""The number of labels of a column that a record has: exactly one, a limited one, any; or a string instead."""


def is_missing(value: object) -> bool:
    """Return True for None, for a NaN, and for the missing values of pandas, without importing it.

    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    if type(value) is float:
        return math.isnan(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, Real) and not isinstance(value, Rational) and math.isnan(float(value))


def number(value: object, what: str = ANSWER) -> float:
    """Return an answer as a float; ±∞ where it is too large, which the bounds of the question clip.

    >>> number(7), number(-10**400), number(Decimal("0.5"))
    (7.0, -inf, 0.5)
    """
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        reject(what, f"be a number, not of type {kind_of(value)}")
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def check_bound(name: str, value: object) -> float:
    """Return a bound as a finite float.

    >>> check_bound("low", "0")
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: low must be a finite number, got '0'
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        reject(name, "be a finite number", value)
    try:
        bound = float(value)
    except OverflowError:
        reject(name, "be a finite number", value)
    if not math.isfinite(bound) or abs(bound) > 1e150:
        reject(name, "be a finite number of at most 1e150 in size", bound)
    return bound + 0.0  # −0 and 0 are one bound


def check_range(low: object, high: object) -> tuple[float, float]:
    """Return two finite bounds, of which the second is larger.

    >>> check_range(5, 5)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: high must be above low = 5, got 5.0
    """
    first, last = check_bound("low", low), check_bound("high", high)
    if not (first < last and last - first >= 1e-150):
        reject("high", f"be above low = {spell(first)}", last)
    return first, last


def check_unit(unit: object) -> str:
    """Return the unit of a question: a short text, or an empty one.

    >>> check_unit("ms")
    'ms'
    """
    text = check_type("unit", unit, str)
    if len(text) > 20 or not text.isprintable():
        reject("unit", "be at most 20 printable characters")
    return text


def spell(value: float) -> str:
    """Return a bound as people write it.

    >>> spell(4096.0), spell(0.25), spell(1e9)
    ('4096', '0.25', '1000000000')
    """
    whole = int(value) if value == int(value) and abs(value) < 1e15 else None
    return str(whole) if whole is not None else f"{value:.12g}"


def quoted(text: str, separator: str) -> str:
    """Return a text before a separator: as a JSON string if it contains the separator, or looks like such a string.

    >>> quoted("a", ": "), quoted("a: b", ": "), quoted("x ×", " × ")
    ('a', '"a: b"', '"x ×"')
    """
    # A blank on either side: half of the separator at an end would continue in the one that follows.
    return json.dumps(text, ensure_ascii=False) if separator in f" {text} " or text.startswith('"') else text


def with_missing(labels: Sequence[str], missing: bool) -> tuple[str, ...]:
    """Return the labels of an attribute, with the category for missing answers last."""
    return (*labels, NO_ANSWER) if missing else tuple(labels)


def check_label_names(name: str, labels: object) -> tuple[str, ...]:
    """Return ``labels`` if it is a tuple of strings that UTF-8 can encode.

    >>> check_label_names("labels", ("red", 7))
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: labels must be strings, but label 2 is of type int
    """
    if not isinstance(labels, tuple):
        reject(name, f"be a tuple of strings, not {kind_of(labels)}")
    if not all(isinstance(label, str) for label in labels):
        place = next(i for i, label in enumerate(labels) if not isinstance(label, str))
        reject(name, f"be strings, but label {place + 1:,} is of type {kind_of(labels[place])}")
    try:
        "".join(labels).encode()
    except UnicodeEncodeError:
        reject(name, "be valid Unicode text, without lone surrogates")
    return labels


def check_labels(labels: Sequence[str] | int, least: int) -> tuple[str, ...]:
    """Return distinct labels of any text; an integer stands for that many numbered ones.

    >>> check_labels(3, 1), check_labels(["b", "a"], 1)
    (('0', '1', '2'), ('b', 'a'))
    """
    if isinstance(labels, Integral) and not isinstance(labels, bool):
        labels = [str(i) for i in range(check_whole("the number of labels", labels, 1, MAX_LABELS))]
    # The order of the labels is part of the schema, so sets and mappings do not qualify.
    must = "be a list of strings or the number of labels"
    if isinstance(labels, int | Set | Mapping):
        reject("labels", f"{must}, not {kind_of(labels)}")
    names = check_label_names("labels", tuple(check_items("labels", labels, must)))
    if len(set(names)) != len(names):
        reject("labels", "be distinct")
    check_whole("the number of labels", len(names), least)
    return names


def summarize_labels(labels: Sequence[str]) -> str:
    """Return the number of labels and the first few of them, for error messages.

    >>> summarize_labels(["red", "green", "blue", "other"])
    '4 labels: red, green, …'
    """
    shown = [label if len(label) <= 20 else label[:19] + "…" for label in labels[:2]]
    count = "1 label" if len(labels) == 1 else f"{len(labels):,} labels"
    return f"{count}: {', '.join(shown)}" + (", …" if len(labels) > 2 else "")
