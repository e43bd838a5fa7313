"""Questions whose answers are labels: one of several, yes or no, or several at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from hubbub.documents import Fields
from hubbub.errors import check_items, check_type, check_whole, kind_of, reject
from hubbub.model.questions.answers import (
    ANSWER,
    NO_ANSWER,
    NO_VALUE,
    Coin,
    Document,
    Rule,
    check_labels,
    is_missing,
    summarize_labels,
    with_missing,
)

MAX_LABEL = 200
"""Largest number of characters of a label, which cells of cross-tables repeat."""


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One label of several; with ``missing``, no answer is a category of its own.

    >>> Choice(["red", "green", "blue"]).sizes
    (3,)
    """

    kind: ClassVar[str] = "choice"
    rule: ClassVar[Rule] = "one"
    labels: tuple[str, ...]
    missing: bool
    _places: dict[str, int] = field(compare=False, repr=False)
    """The category of each label, once an answer has been encoded: millions of labels need much memory."""

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
        self._set(names, check_type("missing", missing, bool))
        if missing and NO_ANSWER in names:
            reject("labels", f"not contain {NO_ANSWER!r}, which is the category for missing answers")

    @classmethod
    def unnamed(cls, labels: Sequence[str] | int) -> Self:
        """Return the only question of a schema, without a name, so that its labels may be any text."""
        made = cls.__new__(cls)
        made._set(check_labels(labels, 2), False)
        return made

    def _set(self, labels: tuple[str, ...], missing: bool) -> None:
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "_places", {})

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
        if not self._places:
            self._places.update({label: place for place, label in enumerate(self.labels)})
        place = self._places.get(value) if isinstance(value, str) else None
        if place is not None:
            return (place,)
        if is_missing(value):
            if not self.missing:
                reject(what, NO_VALUE)
            return (len(self.labels),)
        if not isinstance(value, str):
            reject(what, f"be one label, not of type {kind_of(value)}")
        return reject(what, f"be one of {summarize_labels(self.labels)}")

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
    rule: ClassVar[Rule] = "one"
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


@dataclass(frozen=True, slots=True, init=False)
class Several:
    """Any number of labels, or at most so many; the only question of its schema.

    >>> Several(["a", "b", "c"]).max_set, Several(["a", "b", "c"], at_most=2).max_set
    (3, 2)
    """

    kind: ClassVar[str] = "several"
    labels: tuple[str, ...]
    at_most: int | None

    def __init__(self, labels: Sequence[str] | int, *, at_most: int | None = None) -> None:
        object.__setattr__(self, "labels", check_labels(labels, 1))
        most = None if at_most is None else check_whole("at_most", at_most, 1, len(self.labels))
        object.__setattr__(self, "at_most", most)

    @property
    def rule(self) -> Rule:
        """The number of labels that a record has."""
        return "any" if self.at_most is None else "at_most"

    @property
    def unit(self) -> str:
        """The unit of its results."""
        return "people"

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """Labels of its only column."""
        return (self.labels,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels of its only column."""
        return (len(self.labels),)

    @property
    def max_set(self) -> int:
        """Largest number of labels of one person."""
        return len(self.labels) if self.at_most is None else self.at_most

    def encode(self, value: object, coin: Coin, what: str = ANSWER) -> tuple[int, ...]:
        """Return the places of the labels of an answer; a single label may be answered by a boolean."""
        if len(self.labels) == 1 and isinstance(value, bool):
            return (0,) if value else ()
        # The keys of a mapping would be taken for labels that are set.
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            reject(what, f"be a list of labels, not of type {kind_of(value)}")
        found: list[int] = []
        for label in check_items(what, value, "be a list of labels"):
            if not isinstance(label, str) or label not in self.labels:
                reject(what, f"contain only labels of the schema ({summarize_labels(self.labels)})")
            found.append(self.labels.index(label))
        if len(set(found)) != len(found):
            reject(what, "contain each label at most once")
        if len(found) > self.max_set:
            reject(what, f"contain no more labels than max_set = {self.max_set:,} allows")
        return tuple(found)

    def __repr__(self) -> str:
        return f"Several({len(self.labels)} labels{'' if self.at_most is None else f', at_most={self.at_most}'})"
