"""The schema of a collection: the labels of a record's bits, and which records are legal."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Literal, Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import check_choice, check_items, check_type, check_whole, kind_of, reject
from hubbub.model.questions import Attribute, Question, Questions
from hubbub.model.texts import Strings

MAX_LABELS = 10**7
KINDS = ("bits", "one_hot", "at_most", "survey", "strings")


@dataclass(frozen=True, slots=True)
class Schema:
    """The labels of a record's bits, and which records are legal.

    Created by :meth:`bits` (any bits), :meth:`one_hot` (exactly one), :meth:`at_most` (a limited number),
    :meth:`survey` (several questions, each with attributes of which exactly one category is set) or :meth:`strings`
    (one string that nobody listed).

    >>> Schema.one_hot(["red", "green", "blue"])
    Schema.one_hot(3 labels)
    """

    kind: Literal["bits", "one_hot", "at_most", "survey", "strings"]
    labels: tuple[str, ...]
    max_set: int
    """Largest number of bits set in a legal record."""
    questions: Questions | None = None
    """The questions of a survey."""
    texts: Strings | None = None
    """The limits of strings that nobody listed, which have no labels."""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if (self.questions is not None) != (self.kind == "survey"):
            reject("questions", "be given for surveys, and only for those")
        if self.questions is not None:
            check_type("questions", self.questions, Questions)
            if (self.labels, self.max_set) != (self.questions.labels, len(self.questions.attributes)):
                reject("labels and max_set", "be those of the questions; create surveys with Schema.survey")
        check_label_names("labels", self.labels)
        if (self.texts is not None) != (self.kind == "strings"):
            reject("texts", "be given for strings, and only for those")
        if self.texts is not None:
            check_type("texts", self.texts, Strings)
            if self.labels or self.max_set != 1:
                reject("labels and max_set", "be () and 1 for strings; create the schema with Schema.strings")
            return
        if len(set(self.labels)) != len(self.labels):
            reject("labels", "be distinct")
        check_whole("the number of labels", len(self.labels), 1 + self.exclusive)
        check_whole("max_set", self.max_set, 1, len(self.labels))

    @classmethod
    def bits(cls, labels: Sequence[str] | int) -> Self:
        """Records in which any bits may be set; an integer stands for that many numbered labels."""
        names = _names(labels)
        return cls("bits", names, max(len(names), 1))

    @classmethod
    def one_hot(cls, labels: Sequence[str] | int) -> Self:
        """Records in which exactly one bit is set: one choice out of several."""
        return cls("one_hot", _names(labels), 1)

    @classmethod
    def at_most(cls, max_set: int, labels: Sequence[str] | int) -> Self:
        """Records in which at most ``max_set`` bits are set."""
        names = _names(labels)
        return cls("at_most", names, check_whole("max_set", max_set, 1, max(len(names), 1)))

    @classmethod
    def survey(cls, questions: Mapping[str, Question], *, derived: Iterable[str] = ()) -> Self:
        """Records of answers to several questions, by name; each question has attributes with a noise of their own.

        The planner chooses the digits of numbers and the levels of scales that leave them open, and which questions
        are ``derived`` from a cross-table alone: encode answers with the schema of the plan.

        >>> from hubbub.model.questions import Choice, Flag
        >>> Schema.survey({"colour": Choice(["red", "blue"]), "dark mode": Flag()})
        Schema.survey(2 questions, 2 attributes, 4 labels)
        """
        must = "be a list of the names of questions"
        named = tuple(check_items("derived", derived, must))
        if not all(isinstance(name, str) for name in named):
            reject("derived", must)
        return cls._of(Questions.create(questions, named))

    @classmethod
    def strings(cls, max_bytes: int = 64, *, cut: bool = False) -> Self:
        """Records of one string each, of at most ``max_bytes`` bytes in UTF-8, that nobody has to list in advance.

        Longer strings are refused, or cut after the last character that fits. Needs the trust "shuffler-noise".

        >>> Schema.strings(max_bytes=80)
        Schema.strings(80 bytes)
        """
        return cls("strings", (), 1, texts=Strings(max_bytes, cut))

    @classmethod
    def _of(cls, questions: Questions) -> Self:
        check_whole("the number of categories of all attributes", questions.attributes[-1].stop, 2, MAX_LABELS)
        return cls("survey", questions.labels, len(questions.attributes), questions)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Attributes of which every record has exactly one category: those of a survey, or the only one if one-hot.

        >>> [one.size for one in Schema.one_hot(5).attributes], Schema.bits(3).attributes
        ([5], ())
        """
        if self.questions is not None:
            return self.questions.attributes
        return (Attribute("", 0, self.width),) if self.exclusive else ()

    @property
    def width(self) -> int:
        """Number of bits in a record.

        >>> Schema.bits(40).width
        40
        """
        return len(self.labels)

    @property
    def extent(self) -> int:
        """The number that the size of a payload follows from: bits of a record, or bytes of the longest string."""
        return self.width if self.texts is None else self.texts.max_bytes

    @property
    def exclusive(self) -> bool:
        """True if every record has exactly one label, so that counts add up to n."""
        return self.kind == "one_hot"

    @property
    def dense(self) -> bool:
        """True if any bits may be set, so that records are stored packed rather than as lists of set bits."""
        return self.kind == "bits"

    @property
    def min_set(self) -> int:
        """Smallest number of bits set in a legal record."""
        return len(self.attributes)

    @property
    def distance(self) -> int:
        """Largest Hamming distance between two legal records.

        >>> Schema.bits(5).distance, Schema.one_hot(5).distance, Schema.at_most(2, 9).distance
        (5, 2, 4)
        """
        return 2 if self.texts is not None else min(2 * self.max_set, self.width)

    @property
    def size(self) -> int:
        """Number of legal records.

        >>> Schema.bits(5).size, Schema.one_hot(5).size, Schema.at_most(2, 5).size
        (32, 5, 16)
        """
        if self.texts is not None:
            reject("the schema", "have labels, to count its legal records")
        if self.attributes:
            return math.prod(attribute.size for attribute in self.attributes)
        if self.max_set == self.width:
            return 1 << self.width
        return sum(math.comb(self.width, i) for i in range(self.max_set + 1))

    @property
    def records_with_bit(self) -> int:
        """Number of legal records in which one given bit is set; not for surveys, where it depends on the bit.

        >>> Schema.bits(3).records_with_bit, Schema.one_hot(3).records_with_bit, Schema.at_most(2, 4).records_with_bit
        (4, 1, 4)
        """
        if self.questions is not None or self.texts is not None:
            reject("the schema", "not be a survey, whose attributes differ, nor one of strings")
        if self.max_set == self.width and not self.min_set:
            return 1 << (self.width - 1)
        return sum(math.comb(self.width - 1, i - 1) for i in range(1, self.max_set + 1))

    @property
    def density(self) -> float:
        """Probability that a given bit of a uniform legal record is set: what a fake shows before it is flipped.

        >>> Schema.bits(5).density, Schema.one_hot(5).density, Schema.at_most(1, 4).density
        (0.5, 0.2, 0.2)
        """
        return float(Fraction(self.records_with_bit, self.size))

    @property
    def label_summary(self) -> str:
        """The number of labels and the first few of them, for error messages.

        >>> Schema.one_hot(["red", "green", "blue", "other"]).label_summary
        '4 labels: red, green, …'
        """
        return summarize_labels(self.labels)

    def to_document(self) -> dict[str, Json]:
        """Return the schema as a JSON object; the labels of a survey follow from its questions."""
        if self.questions is not None:
            return {"kind": self.kind, **self.questions.to_document()}
        if self.texts is not None:
            return {"kind": self.kind, **self.texts.to_document()}
        return {"kind": self.kind, "labels": list(self.labels), "max_set": self.max_set}

    @classmethod
    def from_document(cls, value: Json, what: str = "the schema") -> Self:
        """Read a schema from a JSON object, as in ``{"kind": "one_hot", "labels": ["red", "blue"], "max_set": 1}``."""
        if isinstance(value, dict) and value.get("kind") == "survey":
            read = Fields(value, what, "kind", "questions", "derived")
            questions = Questions.from_document(read.items("questions"), read.texts("derived"), what)
            with legal(what):
                return cls._of(questions)
        if isinstance(value, dict) and value.get("kind") == "strings":
            limits = {key: part for key, part in value.items() if key != "kind"}
            return cls("strings", (), 1, texts=Strings.from_document(limits, what))
        read = Fields(value, what, "kind", "labels", "max_set")
        kind, labels, max_set = read.text("kind"), read.texts("labels"), read.whole("max_set")
        with legal(what):
            check_choice("kind", kind, KINDS[:3])
            if kind == "at_most":
                return cls.at_most(max_set, labels)
            schema = cls.bits(labels) if kind == "bits" else cls.one_hot(labels)
            if schema.max_set != max_set:
                reject("max_set", f"be {schema.max_set} for this kind of schema", max_set)
        return schema

    def __repr__(self) -> str:
        if self.texts is not None:
            return f"Schema.strings({_counted(self.texts.max_bytes, 'byte')}{', cut' if self.texts.cut else ''})"
        limit = f"{self.max_set}, " if self.kind == "at_most" else ""
        if self.questions is not None:
            limit = f"{_counted(len(self.questions), 'question')}, {_counted(self.max_set, 'attribute')}, "
        return f"Schema.{self.kind}({limit}{self.width} label{'' if self.width == 1 else 's'})"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _names(labels: Sequence[str] | int) -> tuple[str, ...]:
    if isinstance(labels, Integral) and not isinstance(labels, bool):
        return tuple(str(i) for i in range(check_whole("the number of labels", labels, 1, MAX_LABELS)))
    # The order of the labels is part of the schema, so sets and mappings do not qualify.
    must = "be a list of strings or the number of labels"
    if isinstance(labels, int | Set | Mapping):
        reject("labels", f"{must}, not {kind_of(labels)}")
    return tuple(check_items("labels", labels, must))


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


def choose_labels(labels: Iterable[str], known: Sequence[str], owner: str) -> tuple[str, ...]:
    """Return a selection of distinct labels as a tuple; a single string stands for one label.

    >>> choose_labels(["red", "mauve"], ("red", "green", "blue"), "the schema")
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: labels must be distinct labels of the schema (3 labels: red, green, …)
    """
    each = [labels] if isinstance(labels, str) else labels
    chosen = tuple(check_items("labels", each, f"be a list of labels of {owner}"))
    names = set(known)
    if not all(isinstance(label, str) and label in names for label in chosen) or len(set(chosen)) != len(chosen):
        reject("labels", f"be distinct labels of {owner} ({summarize_labels(known)})")
    return chosen


def summarize_labels(labels: Sequence[str]) -> str:
    """Return the number of labels and the first few of them, for error messages.

    >>> summarize_labels(["red", "green", "blue", "other"])
    '4 labels: red, green, …'
    """
    shown = [label if len(label) <= 20 else label[:19] + "…" for label in labels[:2]]
    count = "1 label" if len(labels) == 1 else f"{len(labels):,} labels"
    return f"{count}: {', '.join(shown)}" + (", …" if len(labels) > 2 else "")
