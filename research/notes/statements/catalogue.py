"""What it takes to call a statement right, wrong, loose or empty: an id, a claim, and a check that runs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What became of a statement when it was computed."""

    CONFIRMED = "confirmed"
    WRONG = "wrong"
    LOOSE = "loose"
    EMPTY = "empty"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a check found: whether it bears the status out, and the figures, just computed, that show it."""

    agrees: bool
    shown: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim of the notes, our status of it, why, and the check that recomputes the evidence."""

    id: str
    claim: str
    status: Status
    remark: str
    """What is wrong and what is right instead, or how far the confirmation reaches."""
    check: Callable[[], Evidence]


class Note:
    """Collects the statements of one note: decorates checks, whose docstrings are the remarks.

    >>> note = Note("002")
    >>> @note.states("002-(4.46)", "p/q ≤ 2 needs q ≥ 1/3", Status.CONFIRMED)
    ... def local() -> Evidence:
    ...     '''Algebra.'''
    ...     q = 1 / 3
    ...     return Evidence(abs((1 - q) / q - 2) < 1e-12, f"p/q = {(1 - q) / q:.3f} at q = 1/3")
    >>> [(one.id, str(one.status), one.check().agrees) for one in note.statements]
    [('002-(4.46)', 'confirmed', True)]
    """

    __slots__ = ("name", "statements")

    def __init__(self, name: str) -> None:
        self.name = name
        self.statements: list[Statement] = []

    def states(
        self, identity: str, claim: str, status: Status
    ) -> Callable[[Callable[[], Evidence]], Callable[[], Evidence]]:
        """Enter the decorated check under this id; ids are unique and name their note."""
        assert identity.startswith(self.name)
        assert all(one.id != identity for one in self.statements)

        def enter(check: Callable[[], Evidence]) -> Callable[[], Evidence]:
            assert check.__doc__
            self.statements.append(Statement(identity, claim, status, " ".join(check.__doc__.split()), check))
            return check

        return enter
