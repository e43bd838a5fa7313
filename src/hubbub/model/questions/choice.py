"""Questions with a few answers: one label of several, and yes or no."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hubbub.documents import Fields
from hubbub.errors import check_items, check_type, check_whole, kind_of, reject
from hubbub.model.questions.answers import ANSWER, NO_ANSWER, NO_VALUE, Coin, Document, is_missing, with_missing

MAX_LABEL = 200
"""Largest number of characters of a label, which cells of cross-tables repeat."""


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One label of several; with ``missing``, no answer is a category of its own.

    >>> Choice(["red", "green", "blue"]).sizes
    (3,)
    """

    kind: ClassVar[str] = "choice"
    labels: tuple[str, ...]
    missing: bool
    _places: dict[str, int] = field(compare=False, repr=False)
    """The category of each label."""

    def __init__(self, labels: Sequence[str], *, missing: bool = False) -> None:
        names = tuple(check_items("labels", labels, "be a list of strings"))
        if not all(isinstance(label, str) for label in names):
            place = next(i for i, label in enumerate(names) if not isinstance(label, str))
            reject("labels", f"be strings, but label {place + 1:,} is of type {kind_of(names[place])}")
        if not all(0 < len(label) <= MAX_LABEL and label.isprintable() for label in names):
            reject("labels", f"be printable texts of 1 to {MAX_LABEL} characters")
        if len(set(names)) != len(names):
            reject("labels", "be distinct")
        check_whole("the number of labels", len(names), 2)
        object.__setattr__(self, "labels", names)
        object.__setattr__(self, "_places", {label: place for place, label in enumerate(names)})
        object.__setattr__(self, "missing", check_type("missing", missing, bool))
        if missing and NO_ANSWER in names:
            reject("labels", f"not contain {NO_ANSWER!r}, which is the category for missing answers")

    @property
    def unit(self) -> str:
        """The unit of its results."""
        return "people"

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the categories of each attribute."""
        return (with_missing(self.labels, self.missing),)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each attribute."""
        return (len(self.labels) + self.missing,)

    def encode(self, value: object, coin: Coin, what: str = ANSWER) -> tuple[int, ...]:
        """Return the category of an answer."""
        place = self._places.get(value) if isinstance(value, str) else None
        if place is not None:
            return (place,)
        if is_missing(value):
            if not self.missing:
                reject(what, NO_VALUE)
            return (len(self.labels),)
        if not isinstance(value, str):
            reject(what, f"be one label, not of type {kind_of(value)}")
        return reject(what, f"be one of {len(self.labels):,} labels")

    def to_document(self) -> Document:
        """Return the question as a JSON object."""
        return {"kind": self.kind, "labels": list(self.labels), "missing": self.missing}

    @classmethod
    def from_document(cls, read: Fields) -> "Choice":
        """Read the question from the fields of a JSON object."""
        return cls(read.texts("labels"), missing=read.truth("missing"))

    def __repr__(self) -> str:
        return f"Choice({len(self.labels)} labels{', missing=True' if self.missing else ''})"


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no; with ``missing``, no answer is a category of its own.

    >>> Flag().attributes, Flag(missing=True).sizes
    ((('no', 'yes'),), (3,))
    """

    kind: ClassVar[str] = "flag"
    missing: bool = False

    def __post_init__(self) -> None:
        check_type("missing", self.missing, bool)

    @property
    def unit(self) -> str:
        """The unit of its results."""
        return "people"

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the categories of each attribute."""
        return (with_missing(("no", "yes"), self.missing),)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each attribute."""
        return (2 + self.missing,)

    def encode(self, value: object, coin: Coin, what: str = ANSWER) -> tuple[int, ...]:
        """Return the category of an answer."""
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return (int(bool(value)),)
        if not is_missing(value):
            reject(what, f"be True or False, not of type {kind_of(value)}")
        if not self.missing:
            reject(what, NO_VALUE)
        return (2,)

    def to_document(self) -> Document:
        """Return the question as a JSON object."""
        return {"kind": self.kind, "missing": self.missing}

    @classmethod
    def from_document(cls, read: Fields) -> "Flag":
        """Read the question from the fields of a JSON object."""
        return cls(missing=read.truth("missing"))
