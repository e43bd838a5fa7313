"""Policies for invalid records of a file of values, and counts of what was done about them.

The counts depend on the raw values: they are for the person who holds the file, and no file of reports contains them.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hubbub.errors import InvalidInput, InvalidRecord, check_choice, check_type
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.encoded import Encoded

OnError = Literal["fail", "skip"]
Problems = dict[int, InvalidRecord]
"""Problems of records, by position in a block, from 0."""
UNKNOWN = "has a label that is not in the schema"
FIRST = 5
"""Numbers of invalid records that a summary lists."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The treatment of records that are not valid as they are.

    ``missing`` is the label of records without a value, and ``other`` the label that replaces labels outside the
    schema. Other invalid records raise an error (``on_error="fail"``) or are skipped: they become ``missing`` if it is
    given, so that the number of people stays the same, and are left out otherwise.
    """

    on_error: OnError = "fail"
    missing: str | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        check_choice("on_error", self.on_error, ("fail", "skip"))
        for name in ("missing", "other"):
            if getattr(self, name) is not None:
                check_type(name, getattr(self, name), str)

    @property
    def keeps_all(self) -> bool:
        """True if no record is ever left out.

        >>> Policy().keeps_all, Policy("skip").keeps_all, Policy("skip", missing="unknown").keeps_all
        (True, False, True)
        """
        return self.on_error == "fail" or self.missing is not None

    def index(self, name: Literal["missing", "other"], schema: Schema) -> int | None:
        """Return the index of one of the two labels, or None if it is not given.

        >>> Policy(missing="none").index("missing", Schema.one_hot(["red", "none"]))
        1
        """
        label: str | None = getattr(self, name)
        if label is None:
            return None
        if label not in schema.labels:
            shown = f", got {label!r}" if len(label) <= 80 else ""
            text = f"{name} must be a label of the schema ({schema.label_summary}){shown}; plan again to add a label"
            raise InvalidInput(text)
        return schema.labels.index(label)


@dataclass(slots=True)
class Summary:
    """Counts of the records of one file, updated while the file is read.

    ``listener`` is called for every record that is not used as it is, with its number, what happened to it
    (``"missing"``, ``"other"``, ``"skipped"`` or ``"failed"``) and the reason, which contains no data.
    """

    rows: int = 0
    """Records read so far, valid or not."""
    missing: int = 0
    """Records without a value that became the label for missing values."""
    other: int = 0
    """Records in which labels outside the schema became the label for others."""
    bad: int = 0
    """Other invalid records, and those for which no label is given."""
    dropped: int = 0
    """Invalid records that were left out; the other ones became the label for missing values."""
    clipped: int = 0
    """Answers to a survey outside of the bounds of their question, which count as the nearest bound."""
    first: list[int] = field(default_factory=list)
    """Numbers of the first invalid records."""
    fraction: float | None = None
    """Part of the file that was read so far, if its size is known."""
    listener: Callable[[int, str, str], None] | None = None

    @property
    def clean(self) -> bool:
        """True if every record is used as it is."""
        return not (self.missing or self.other or self.bad or self.clipped)

    def to_document(self) -> dict[str, Any]:
        """Return the counts as a JSON object.

        >>> Summary(rows=3, bad=1, dropped=1, first=[2]).to_document()
        {'rows': 3, 'missing': 0, 'other': 0, 'bad': 1, 'dropped': 1, 'clipped': 0, 'first': [2]}
        """
        names = ("rows", "missing", "other", "bad", "dropped", "clipped", "first")
        return {name: value for name, value in asdict(self).items() if name in names}


class Repair:
    """Applies a policy to the blocks of a file in order."""

    def __init__(self, policy: Policy, schema: Schema, summary: Summary) -> None:
        self.policy, self.schema, self.summary = policy, schema, summary
        self.missing, self.other = policy.index("missing", schema), policy.index("other", schema)
        self._failure: InvalidRecord | None = None

    def __call__(self, block: Encoded) -> Encoded | None:
        """Return the records to use, or None once an invalid record makes the whole file fail."""
        summary, start = self.summary, self.summary.rows
        summary.rows += block.n
        summary.other += block.renamed.size
        outcomes = [(start + place + 1, "other", UNKNOWN) for place in block.renamed.tolist()]
        outcomes += [self._count(problem, start + problem.record) for problem in block.problems]
        if summary.listener is not None:
            for outcome in sorted(outcomes):
                summary.listener(*outcome)
        if self._failure is not None:
            return None
        return block.repaired(self.missing)

    def _count(self, problem: InvalidRecord, record: int) -> tuple[int, str, str]:
        """Return the number of an invalid record, what happens to it, and the reason."""
        summary = self.summary
        # A column is named only if it is a label of the schema or was chosen by the caller.
        reason = problem.problem if problem.column is None else f"column {problem.column!r} {problem.problem}"
        if problem.kind == "missing" and self.missing is not None:
            summary.missing += 1
            return record, "missing", reason
        summary.bad += 1
        if len(summary.first) < FIRST:
            summary.first.append(record)
        if self.policy.on_error == "skip":
            summary.dropped += self.missing is None
            return record, "skipped", reason
        self._failure = self._failure or InvalidRecord(record, problem.problem, problem.column, problem.kind)
        return record, "failed", reason

    def finish(self) -> None:
        """Raise the first problem, with the number of further ones, if the policy is to fail."""
        if self._failure is not None:
            one, more = self._failure, self.summary.bad - 1
            rest = "" if not more else f"; {more:,} more {'record is' if more == 1 else 'records are'} invalid"
            raise InvalidRecord(one.record, one.problem + rest, one.column, one.kind)
