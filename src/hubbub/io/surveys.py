"""Survey files: the questions of a survey and their weights, in TOML.

A file has a table for every question, in the order of the survey::

    [questions."load time"]
    kind = "scale"
    low = 0
    high = 4096
    buckets = 256
    unit = "ms"
    weight = 2

``KINDS`` lists the keys of every kind of question; the reference in the documentation is generated from it.
"""

import contextlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, Self

from hubbub.errors import InvalidInput, check_choice, check_real, check_type, kind_of, reject
from hubbub.io.files import naming, read_text
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.model.schema import Schema
from hubbub.planner.request import WEIGHT

MAX_SIZE = 2**20
"""Largest number of characters of a survey file."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a question in a survey file."""

    type: str
    meaning: str
    required: bool = False


HINT = "the keys are listed in docs/howto/surveys.md; `hubbub survey` prints an example"
_KIND = Key("string", "`choice`, `flag`, `scale`, `number` or `cross`", required=True)
_WEIGHT = Key("number", "importance of its squared error beside those of the other questions; 1 if left out")
_MISSING = Key("boolean", "`true` counts people without an answer as a category of their own; otherwise refused")
_UNIT = Key("string", "unit of the numbers, such as `ms`, for errors and results")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question in a survey file: its meaning, its keys beside ``kind`` and ``weight``, its constructor."""

    meaning: str
    keys: Mapping[str, Key]
    make: Callable[..., Question]
    check: Callable[[Any, Mapping[str, Question]], None] = lambda question, others: None
    """Raises unless the question fits the others of its file."""
    refused: str = ""
    """The noun for it if it cannot be in a cross-table."""

    @property
    def all_keys(self) -> dict[str, Key]:
        """All keys in the order of the reference."""
        return {"kind": _KIND, **self.keys, "weight": _WEIGHT}


def _cross(names: Any) -> Cross:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        reject("names", "be a list of the names of questions")
    return Cross(*names)


def _check_names(cross: Cross, others: Mapping[str, Question]) -> None:
    """Raise unless a cross-table names questions of the file that it can combine."""
    for name in cross.names:
        refused = KINDS[others[name].kind].refused if name in others else "none"
        if refused:
            reject("names", f"be those of choices, flags and scales of the file, but {name!r} is {refused}")


KINDS: dict[str, Kind] = {
    "choice": Kind(
        "One label of several.",
        {"labels": Key("list of strings", "the answers to choose from", required=True), "missing": _MISSING},
        Choice,
    ),
    "flag": Kind("Yes or no.", {"missing": _MISSING}, Flag),
    "scale": Kind(
        "A number, for its distribution, its median and other quantiles.",
        {
            "low": Key("number", "lower bound; smaller numbers count in the first bucket"),
            "high": Key("number", "upper bound; larger numbers count in the last bucket"),
            "buckets": Key("integer", "number of buckets between `low` and `high`"),
            "log": Key("boolean", "`true` makes each bucket wider than the one before by the same factor"),
            "edges": Key("list of numbers", "all edges of the buckets, instead of `low`, `high`, `buckets` and `log`"),
            "unit": _UNIT,
            "missing": _MISSING,
            "levels": Key("list of integers", "buckets in the blocks of each level; chosen by the planner if left out"),
        },
        Scale,
    ),
    "number": Kind(
        "A number, for its sum and its mean.",
        {
            "low": Key("number", "lower bound; smaller numbers count as this one", required=True),
            "high": Key("number", "upper bound; larger numbers count as this one", required=True),
            "unit": _UNIT,
            "variance": Key("boolean", "`true` collects what is needed for the variance as well"),
            "missing": _MISSING,
            "digits": Key("list of integers", "radices of the digits, lowest first; chosen by the planner if left out"),
        },
        Number,
        refused="a number, which cannot be in a cross-table",
    ),
    "cross": Kind(
        "The cross-table of other questions; people answer those, and it needs no answer.",
        {"names": Key("list of strings", "names of the choices, flags and scales to combine", required=True)},
        _cross,
        check=_check_names,
        refused="none",
    ),
}
"""The kinds of questions in a survey file, by name."""


def _frozen_weights() -> Mapping[str, float]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of a survey file: the schema of its questions, and the weights of some of them.

    >>> survey = Survey.from_toml('[questions."dark mode"]\\nkind = "flag"\\nweight = 2')
    >>> survey.schema, dict(survey.weights)
    (Schema.survey(1 question, 1 attribute, 2 labels), {'dark mode': 2.0})
    """

    schema: Schema
    weights: Mapping[str, float] = field(default_factory=_frozen_weights)
    """Importance of the squared error of each question, by name, as :func:`hubbub.plan` takes it; 1 for the others."""

    def __post_init__(self) -> None:
        questions = check_type("schema", self.schema, Schema).questions
        if not questions.named:
            reject("schema", f"be that of a survey, got {self.schema}")
        if not isinstance(self.weights, Mapping):
            reject("weights", f"be a mapping from questions to numbers, not {kind_of(self.weights)}")
        found = {}
        for name, weight in self.weights.items():
            if name not in questions.names:
                reject("weights", "name questions of the survey")
            found[name] = check_real(f"weights[{name!r}]", weight, WEIGHT)
        object.__setattr__(self, "weights", MappingProxyType(found))

    @classmethod
    def from_toml(cls, text: str | bytes) -> Self:
        """Parse a survey file; errors name the question and the key."""
        if not isinstance(text, str | bytes):
            reject("text", f"be a survey file as str or bytes, not {kind_of(text)}")
        document = _parsed(text)
        if document.keys() != {"questions"} or not isinstance(document["questions"], dict):
            extra = [key for key in document if key != "questions"]
            about = f", but it has the key {extra[0]!r}" if extra else ""
            reject("a survey file", f'consist of tables such as [questions."load time"]{about}')
        found: dict[str, Question] = {}
        weights: dict[str, float] = {}
        for name, entries in document["questions"].items():
            with _question(name):
                found[name], weight = _read(entries)
            if weight is not None:
                weights[name] = weight
        for name, question in found.items():
            with _question(name):
                KINDS[question.kind].check(question, found)
        return cls(Schema.survey(found), weights)


def read_survey(path: str | PathLike[str]) -> Survey:
    """Read a survey file, in TOML: ``plan(survey.schema, n, budget, weights=survey.weights)`` plans for it."""
    if not isinstance(path, str | PathLike):
        reject("path", f"be the name of a survey file, not {kind_of(path)}")
    name = fspath(path)
    with naming(name, HINT):
        return Survey.from_toml(read_text(name))


def _parsed(text: str | bytes) -> dict[str, Any]:
    if len(text) > MAX_SIZE:
        reject("a survey file", f"have at most {MAX_SIZE:,} characters")
    try:
        return tomllib.loads(text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError:
        reject("a survey file", "be UTF-8 text")
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"a survey file must be TOML: {_lowered(str(error))}") from None
    except RecursionError:
        reject("a survey file", "be TOML without deeply nested tables")
    except ValueError:
        reject("a survey file", "have numbers of at most a few hundred digits")


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _read(entries: Any) -> tuple[Question, float | None]:
    """Return the question of one table, and its weight if it has one."""
    if not isinstance(entries, dict):
        reject("a question", f"be a table of keys, not {kind_of(entries)}")
    if "kind" not in entries:
        reject("kind", f"be given; it is one of {', '.join(KINDS)}")
    name = check_choice("kind", entries["kind"], tuple(KINDS))
    kind = KINDS[name]
    for key in entries:
        if key not in kind.all_keys:
            reject(repr(key), f"be one of the keys of the kind {name!r}: {', '.join(kind.all_keys)}")
    for key, one in kind.keys.items():
        if one.required and key not in entries:
            reject(key, f"be given for the kind {name!r}")
    weight = check_real("weight", entries["weight"], WEIGHT) if "weight" in entries else None
    return kind.make(**{key: value for key, value in entries.items() if key in kind.keys}), weight


@contextlib.contextmanager
def _question(name: str) -> Iterator[None]:
    """Name the question in errors about its keys."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"question {name!r}: {error}") from None


STARTER = """\
# A survey file: one table for every question. Plan with: hubbub plan --survey FILE -n 10000 --epsilon 1 --delta 1e-6
# "kind" is choice, flag, scale, number or cross. Remove the questions that you do not need.

# One label of several. "missing" counts people without an answer; without it, every person must answer.
[questions."colour"]
kind = "choice"
labels = ["red", "green", "blue", "other"]
missing = true

# Yes or no.
[questions."dark mode"]
kind = "flag"

# A number, for its median and other quantiles. Numbers outside the bounds count in the first or last bucket.
# "log = true" makes buckets that grow by the same factor; "edges = [0, 10, 100, 1000]" gives all of them instead.
[questions."load time"]
kind = "scale"
low = 0
high = 4096
buckets = 256
unit = "ms"
weight = 2  # its squared error counts twice as much as those of the other questions

# A number, for its mean and its sum. Numbers outside the bounds are clipped: choose the bounds beforehand.
[questions."memory"]
kind = "number"
low = 0
high = 65536
unit = "MB"

# Combinations of the answers to several questions; people do not answer it separately.
[questions."colour × dark mode"]
kind = "cross"
names = ["colour", "dark mode"]
"""
"""A starter survey file with every kind of question."""


def survey_keys() -> str:
    """Return the reference of all keys as Markdown: a table for every kind of question."""
    parts = []
    for name, kind in KINDS.items():
        rows = [
            f"| `{key}` | {one.type} | {'yes' if one.required else ''} | {one.meaning} |"
            for key, one in kind.all_keys.items()
        ]
        head = "| key | type | required | meaning |\n|---|---|---|---|"
        parts.append(f"### {name}\n\n{kind.meaning}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)
