"""Series: contracts that the same people answer once in every round, under one total guarantee.

A round is a fixed number of epochs, so everyone derives it from the clock. Everything that is sealed or admitted for a
round is bound to the round's *context*, 16 bytes that take the place of the task: a bundle or a ticket of one round is
worth nothing in another, and a slot opens only in a batch of its own round.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from hubbub.documents import Fields, Json, legal, spell
from hubbub.errors import check_type, check_whole
from hubbub.model.privacy import Budget
from hubbub.wire.bundles import TASK_SIZE, BundleLayout

MAX_SERIES = 10_000
"""Most rounds of a series."""
_LABEL = b"hubbub/2 round"


@dataclass(frozen=True, slots=True)
class Series:
    """The rounds of a contract, the length of a round, and the total that all rounds together must not exceed."""

    rounds: int
    round_epochs: int
    """Epochs per round."""
    total: Budget

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", check_whole("rounds", self.rounds, 1, MAX_SERIES))
        object.__setattr__(self, "round_epochs", check_whole("round_epochs", self.round_epochs, 1, 10**9))
        check_type("total", self.total, Budget)

    @property
    def epochs(self) -> int:
        """The number of epochs of all rounds."""
        return self.rounds * self.round_epochs

    def to_document(self) -> dict[str, Json]:
        """Return the series as a JSON object."""
        total: dict[str, Json] = {"epsilon": self.total.epsilon, "delta": self.total.delta}
        return {"rounds": self.rounds, "round_epochs": self.round_epochs, "total": total}

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read a series from a JSON object."""
        fields = Fields(value, "the series", "rounds", "round_epochs", "total")
        total = Fields(fields["total"], "the total of the series", "epsilon", "delta")
        with legal("the series"):
            budget = Budget(total.real("epsilon"), total.real("delta"))
            return cls(fields.whole("rounds"), fields.whole("round_epochs"), budget)


@dataclass(frozen=True, slots=True)
class Spending:
    """The privacy that a number of rounds of a contract has cost each person at most."""

    rounds: int
    epsilon: float
    delta: float

    def to_document(self) -> dict[str, Json]:
        """Return the spending as a JSON object."""
        return {"rounds": self.rounds, "epsilon": spell(self.epsilon), "delta": self.delta}


@dataclass(frozen=True, slots=True)
class RoundStatus:
    """The current round of a task, what its rounds have cost each person so far, and the most they may."""

    round: int
    spent: Spending
    total: Spending

    def to_document(self) -> dict[str, Json]:
        """Return columns for operators: the round of all rounds, ε spent and allowed, and δ."""
        return {
            "round": f"{self.round} of {self.total.rounds}",
            "spent_epsilon": spell(self.spent.epsilon),
            "total_epsilon": spell(self.total.epsilon),
            "total_delta": self.total.delta,
        }


def round_context(task: bytes, number: int) -> bytes:
    """Return the 16 bytes to which everything of one round is bound.

    >>> round_context(bytes(16), 1).hex()[:8]
    'f482d353'
    """
    return hashlib.sha256(_LABEL + task + number.to_bytes(4, "big")).digest()[:TASK_SIZE]


@functools.lru_cache(maxsize=1024)
def round_layout(layout: BundleLayout, number: int) -> BundleLayout:
    """Return the layout of one round of a series."""
    return replace(layout, task=round_context(layout.task, number))


@functools.lru_cache(maxsize=64)
def round_contexts(task: bytes, rounds: int) -> Mapping[bytes, int]:
    """Return the rounds of a series by their contexts."""
    return MappingProxyType({round_context(task, number): number for number in range(1, rounds + 1)})
