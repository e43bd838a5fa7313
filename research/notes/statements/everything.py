"""All statements of the notes, in the order of the notes, and what becomes of each when it is computed now."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from research.notes.statements import note000, note001, note002, note003, note004, unsettled
from research.notes.statements.catalogue import Evidence, Statement, Status

NOTES = {
    "000": "Note 000, K-Randomization, May 2016",
    "001": "Note 001, K-Randomization, February 2016",
    "002": "Note 002, K-Randomization, December 2015",
    "003": "Note 003, Sufficient Differential Privacy, December 2017",
    "004": "Note 004, Shuffling protocols for one-hot vectors, May 2020",
    "open": "What is open",
}
"""The notes, and the heading of each."""

STATEMENTS: tuple[Statement, ...] = (
    *note000.STATEMENTS,
    *note001.STATEMENTS,
    *note002.STATEMENTS,
    *note003.STATEMENTS,
    *note004.STATEMENTS,
    *unsettled.STATEMENTS,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A statement, and the evidence just computed."""

    statement: Statement
    evidence: Evidence


def note_of(statement: Statement) -> str:
    """The note that a statement is of, or ``open``.

    >>> note_of(STATEMENTS[-1])
    'open'
    """
    return statement.id[:4] if statement.id.startswith("open") else statement.id[:3]


def judge(statements: Iterable[Statement]) -> Iterator[Verdict]:
    """Compute the evidence of each statement, one after the other.

    >>> [one.evidence.agrees for one in judge(STATEMENTS[-1:])]
    [True]
    """
    return (Verdict(one, one.check()) for one in statements)


def counts(statements: Iterable[Statement]) -> dict[Status, int]:
    """How many statements there are of each status.

    >>> counts(STATEMENTS)[Status.UNDETERMINED]
    4
    """
    found = Counter(one.status for one in statements)
    return {status: found[status] for status in Status if found[status]}
