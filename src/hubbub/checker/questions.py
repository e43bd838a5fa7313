"""The questions of a survey: how many categories each of its attributes has, read from JSON without the library.

A choice or a flag is one attribute, a scale has one for each level of blocks of buckets, a number one for each digit,
and a cross-table one whose categories are the combinations. The privacy of a survey depends on nothing else of it.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .fields import WireError, keys, truth, whole

MAX_QUESTIONS, MAX_LABELS, MAX_CELLS = 1000, 10**7, 10**6
MAX_BUCKETS, MAX_RADIX, MAX_LEVELS, MAX_DIGITS = 2**16, 2**10, 2**40, 40
MAX_LABEL = 200
STANDARD_DIGITS = [4, 4, 4, 4]


def sizes(schema: Any) -> list[int]:
    """Return the number of categories of every attribute of a survey.

    >>> sizes({"kind": "survey", "derived": [], "questions": [{"name": "a", "kind": "flag", "missing": True}]})
    [3]
    """
    keys(schema, {"kind", "questions", "derived"}, "the schema")
    listed, derived = schema["questions"], schema["derived"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_QUESTIONS:
        raise WireError(f"the questions must be a list of 1 to {MAX_QUESTIONS:,}")
    asked = {_name(one): _KINDS[one["kind"]](one) for one in listed if _kind(one) != "cross"}
    if len({_name(one) for one in listed}) != len(listed) or not asked:
        raise WireError("the questions must have distinct names, and not all be cross-tables")
    kinds = {_name(one): one["kind"] for one in listed}
    tables = [_sides(one) for one in listed if one["kind"] == "cross"]
    if len(set(map(frozenset, tables))) != len(tables):
        raise WireError("two cross-tables must not be of the same questions")
    crossed = {name for table in tables for name in table}
    _check_derived(derived, crossed, kinds)
    found: list[int] = []
    for one in listed:
        name = one["name"]
        if one["kind"] == "cross":
            if any(kinds.get(side) not in ("choice", "flag", "scale") for side in _sides(one)):
                raise WireError("a cross-table must name questions of the survey that are a choice, a flag or a scale")
            cells = math.prod(asked[side][-1] for side in _sides(one))
            if not 4 <= cells <= MAX_CELLS:
                raise WireError(f"a cross-table must have 4 to {MAX_CELLS:,} cells")
            found.append(cells)
        elif name not in derived:
            found += asked[name]
    if sum(found) > MAX_LABELS:
        raise WireError(f"the attributes must have at most {MAX_LABELS:,} categories in all")
    return found


def free(schema: Any) -> bool:
    """Return True if two legal records are known to differ in all attributes.

    Any two answers may differ in all digits or blocks, but a number and its square depend on each other.

    >>> free({"kind": "one_hot", "labels": ["a", "b"], "max_set": 1})
    True
    """
    return schema["kind"] != "survey" or not any(one.get("variance") for one in schema["questions"])


def _check_derived(derived: Any, crossed: set[str], kinds: dict[str, str]) -> None:
    if not isinstance(derived, list) or not all(isinstance(name, str) for name in derived):
        raise WireError("the derived questions must be a list of names")
    if derived != sorted(set(derived)):
        raise WireError("the derived questions must be distinct and sorted")
    if any(kinds.get(name) not in ("choice", "flag") or name not in crossed for name in derived):
        raise WireError("a derived question must be a choice or a flag in a cross-table")


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        raise WireError(f"the kind of a question must be one of {', '.join(_KEYS)}")
    keys(value, {"name", "kind"} | _KEYS[kind], f"a question of kind {kind!r}")
    return kind


def _name(value: Any) -> str:
    name = value["name"]
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
        raise WireError("the name of a question must be a printable text of 1 to 200 characters")
    return name


def _choice(value: Any) -> list[int]:
    labels, missing = value["labels"], truth(value, "missing")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise WireError("the labels must be a list of strings")
    if not all(0 < len(label) <= MAX_LABEL and label.isprintable() for label in labels):
        raise WireError(f"the labels of a choice must be printable texts of 1 to {MAX_LABEL} characters")
    if len(set(labels)) != len(labels) or len(labels) < 2 or (missing and "no answer" in labels):
        raise WireError("the labels of a choice must be distinct, at least two, and other than 'no answer'")
    return [len(labels) + missing]


def _flag(value: Any) -> list[int]:
    return [2 + truth(value, "missing")]


def _scale(value: Any) -> list[int]:
    _unit(value)
    missing, edges = truth(value, "missing"), value["edges"]
    if not isinstance(edges, list):
        raise WireError("the edges of a scale must be a list")
    if edges:
        bounds = [_bound(edge) for edge in edges]
        count = len(bounds) - 1
        rest = (_bound(value["low"]), _bound(value["high"]), whole(value, "buckets", 0, MAX_BUCKETS))
        if rest != (0, 0, 0) or not 2 <= count <= MAX_BUCKETS or not _ascend(bounds):
            raise WireError("the edges of a scale must ascend, without low, high and buckets")
        if bounds == _equal(bounds[0], bounds[-1], count):
            raise WireError("the edges of a scale must be left out for equal buckets")
    else:
        low, high = _range(value)
        count = whole(value, "buckets", 2, MAX_BUCKETS)
        if not _ascend(_equal(low, high, count)):
            raise WireError("the buckets of a scale must be wider than the rounding of their edges")
    widths = _wholes(value, "levels", 1, MAX_BUCKETS)
    if widths and (widths[-1] != 1 or widths[0] >= count or any(a <= b or a % b for a, b in pairwise(widths))):
        raise WireError("the levels of a scale must descend to 1, each a multiple of the next")
    widths = widths or [1]
    padded = -(-count // widths[0]) * widths[0]
    return [padded // width + missing for width in widths]


def _number(value: Any) -> list[int]:
    _unit(value)
    _range(value)
    missing, variance = truth(value, "missing"), truth(value, "variance")
    digits = _wholes(value, "digits", 2, MAX_RADIX) or STANDARD_DIGITS
    if len(digits) > MAX_DIGITS or math.prod(digits) > MAX_LEVELS:
        raise WireError(f"the digits of a number must have at most {MAX_LEVELS:,} levels")
    return [2] * missing + digits * (1 + variance)


def _sides(value: Any) -> list[str]:
    names = value["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError("the names of a cross-table must be a list of strings")
    if not 2 <= len(names) <= 8 or len(set(names)) != len(names):
        raise WireError("the names of a cross-table must be 2 to 8, and distinct")
    return names


def _unit(value: Any) -> None:
    unit = value["unit"]
    if not isinstance(unit, str) or len(unit) > 20 or not unit.isprintable():
        raise WireError("the unit of a question must be a text of at most 20 printable characters")


def _bound(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) > 1e150:
        raise WireError("a bound of a question must be a number of at most 1e150 in size")
    return float(value)


def _range(value: Any) -> tuple[float, float]:
    low, high = _bound(value["low"]), _bound(value["high"])
    if not (low < high and high - low >= 1e-150):
        raise WireError("the range of a question must have a high above its low")
    return low, high


def _equal(low: float, high: float, count: int) -> list[float]:
    """Return the edges of equal buckets, in the order of operations that the format fixes."""
    return [*(low + (high - low) * i / count for i in range(count)), high]


def _ascend(edges: list[float]) -> bool:
    return all(one < two for one, two in pairwise(edges))


def _wholes(value: Any, key: str, low: int, high: int) -> list[int]:
    listed = value[key]
    if not isinstance(listed, list):
        raise WireError(f"{key!r} must be a list of whole numbers")
    return [whole({key: one}, key, low, high) for one in listed]


_KINDS: dict[str, Callable[[Any], list[int]]] = {"choice": _choice, "flag": _flag, "scale": _scale, "number": _number}
_KEYS: dict[str, set[str]] = {
    "choice": {"labels", "missing"},
    "flag": {"missing"},
    "scale": {"edges", "low", "high", "buckets", "missing", "unit", "levels"},
    "number": {"low", "high", "missing", "variance", "unit", "digits"},
    "cross": {"names"},
}
