"""What is asked and what is given: ``Budget``, ``Guarantee``, and the basis and the trust that a guarantee rests on."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hubbub.errors import check_epsilon, check_real, check_whole, reject


class Basis(StrEnum):
    """The kind of argument that a guarantee rests on."""

    EXACT = "exact"
    """The supremum over all neighbouring collections and both orders, to a stated tolerance, rounded up."""
    PROVEN = "proven"
    """A theorem that holds for all neighbouring collections, possibly loose."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is asked: (ε,δ)-differential privacy for the replacement of one record; δ = 0 asks for pure privacy.

    >>> Budget(1.0, 1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        delta = check_real("delta", self.delta, 0.0, 1.0, "be in [0, 1)", open_high=True)
        object.__setattr__(self, "delta", delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """For whom, against whom, and under which assumptions a guarantee holds."""

    honest: int
    """Users who follow the protocol, the protected one included; the others may be the analyzer's own."""
    shuffler: bool
    """Whether the shuffler must be honest: mix, not look, and draw its fakes as planned if it draws any."""
    view: str
    """What the analyzer sees."""
    collusion: float
    """Pure ε of everything that one user sent, if shuffler and analyzer collude; ∞ for clear records."""
    count: float
    """Pure ε of the *number* of messages one user sent, which the shuffler sees unless uploads are padded."""

    def sentences(self) -> list[str]:
        """The same in words.

        >>> trust = Assumptions(honest=900, shuffler=True, view="whole records", collusion=4.4, count=0.0)
        >>> print(*trust.sentences(), sep="\\n")
        The analyzer sees whole records, unlinked from their senders by an honest shuffler.
        At least 900 users, the protected one included, follow the protocol.
        If shuffler and analyzer collude, what one user sent is 4.4-differentially private.
        >>> clear = Assumptions(honest=1, shuffler=True, view="messages", collusion=math.inf, count=math.inf)
        >>> clear.sentences()[-1].endswith("or the shuffler learns it.")
        True
        """
        shuffled = ", unlinked from their senders by an honest shuffler" if self.shuffler else ", with their senders"
        lines = [f"The analyzer sees {self.view}{shuffled}."]
        if self.shuffler:
            users = (
                "user, the protected one, follows" if self.honest == 1 else "users, the protected one included, follow"
            )
            lines.append(f"At least {self.honest:,} {users} the protocol.")
            pure = f"what one user sent is {self.collusion:.4g}-differentially private"
            left = "nothing protects the record" if math.isinf(self.collusion) else pure
            lines.append(f"If shuffler and analyzer collude, {left}.")
        if self.count > 0:
            pure = "" if math.isinf(self.count) else f" ({self.count:.4g}-differentially private)"
            lines.append(
                "The number of messages of one user depends on the record: uploads must be padded to a fixed number, "
                f"or the shuffler learns it{pure}."
            )
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What is given: (ε,δ)-differential privacy for the replacement of one record of a collection of n.

    ``lower`` is the best known attack on the figure that was solved for: no guarantee with a smaller one exists.
    """

    epsilon: float
    delta: float
    lower: float
    solved: Literal["epsilon", "delta"]
    basis: Basis
    method: str
    n: int
    assumptions: Assumptions

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            reject("epsilon", "be at least 0", self.epsilon)
        check_real("delta", self.delta, 0.0, 1.0, "be in [0, 1]")
        check_whole("n", self.n, 1)

    def meets(self, budget: Budget) -> bool:
        """Return True if this guarantee implies the budget."""
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    def __str__(self) -> str:
        attack = f"best known attack: {self.solved} {self.lower:.6g}" if self.lower > 0 else "no attack known"
        return (
            f"({self.epsilon:.6g}, {self.delta:.3g})-DP, {self.basis.value} by {self.method}, n = {self.n:,}; {attack}"
        )
