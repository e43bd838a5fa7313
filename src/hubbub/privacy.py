"""Privacy budgets and guarantees: ``Budget``, ``Guarantee``, and the ``Basis`` and ``Assumptions`` of a guarantee."""

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Literal, NoReturn, Self

from hubbub.canonical import Fields, Json, legal, spell
from hubbub.errors import (
    PROBABILITY,
    Interval,
    check_choice,
    check_epsilon,
    check_real,
    check_type,
    check_whole,
    reject,
)

LIMIT = Interval(0.0, math.inf)
"""Values of an ε that may be infinite."""
BUDGET_DELTA = Interval(0.0, 1.0, open_high=True)


TrustModel = Literal["nobody", "shuffling", "shuffler-noise"]
"""Parties that must be honest besides the protected user: nobody; a shuffler that shuffles, with users who add noise;
or a shuffler that also draws its fakes as planned and keeps their number secret."""
TRUST_MODELS: tuple[TrustModel, ...] = ("nobody", "shuffling", "shuffler-noise")


class Basis(StrEnum):
    """The kind of evidence behind a guarantee."""

    EXACT = "exact"
    """The supremum over all neighbouring collections and both orders, to a stated tolerance, rounded up."""
    PROVEN = "proven"
    """A theorem that holds for all neighbouring collections, possibly loose."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        reject("value", "be 'exact' or 'proven'", value)


@dataclass(frozen=True, slots=True)
class Budget:
    """A target: (ε,δ)-differential privacy for the replacement of one record; δ = 0 asks for pure privacy.

    >>> Budget(1.0, 1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_real("delta", self.delta, BUDGET_DELTA))

    @classmethod
    def from_document(cls, value: Json, what: str = "the budget") -> Self:
        """Read a budget from a JSON object."""
        read = Fields(value, what, "epsilon", "delta")
        with legal(what):
            return cls(read.real("epsilon"), read.real("delta"))

    def to_document(self) -> dict[str, Json]:
        """Return the budget as a JSON object."""
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, slots=True)
class Total:
    """The (ε, δ) of several collections together; ε is infinite if no bound is proven.

    >>> Total(1.5, 1e-6)
    Total(epsilon=1.5, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_real("epsilon", self.epsilon, LIMIT))
        object.__setattr__(self, "delta", check_real("delta", self.delta, PROBABILITY))

    def to_document(self) -> dict[str, Json]:
        """Return the total as a JSON object."""
        return {"epsilon": spell(self.epsilon), "delta": self.delta}

    @classmethod
    def from_document(cls, value: Json, what: str = "the total") -> Self:
        """Read a total from a JSON object."""
        read = Fields(value, what, "epsilon", "delta")
        with legal(what):
            return cls(read.limit("epsilon"), read.real("delta"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The conditions under which a guarantee holds: who must be honest, and what the analyzer sees."""

    honest: int
    """Users who follow the protocol, including the protected one; the others may collude with the analyzer."""
    shuffler: bool
    """True if the shuffler must be honest: permute the messages and keep the order secret."""
    fakes: bool
    """True if the shuffler must also draw its fakes as planned and keep their number secret."""
    view: str
    """Description of the analyzer's view."""
    collusion_epsilon: float
    """Pure ε of everything one user sent, if shuffler and analyzer collude; ∞ for clear records."""
    count_epsilon: float
    """Pure ε of the *number* of messages one user sent, which the shuffler sees unless uploads are padded."""

    def __post_init__(self) -> None:
        check_whole("honest", self.honest, 1)
        check_type("shuffler", self.shuffler, bool)
        check_type("fakes", self.fakes, bool)
        check_type("view", self.view, str)
        check_real("collusion_epsilon", self.collusion_epsilon, LIMIT)
        check_real("count_epsilon", self.count_epsilon, LIMIT)

    @property
    def trust(self) -> TrustModel:
        """The trust that the guarantee needs."""
        if not self.shuffler:
            return "nobody"
        return "shuffler-noise" if self.fakes else "shuffling"

    def sentences(self) -> list[str]:
        """Return the assumptions as English sentences.

        >>> held = Assumptions(
        ...     honest=900, shuffler=True, fakes=False, view="whole records", collusion_epsilon=4.4, count_epsilon=0.0
        ... )
        >>> print(*held.sentences(), sep="\\n")
        The analyzer sees whole records, unlinked from their senders by an honest shuffler.
        At least 900 users, including the protected one, follow the protocol.
        If shuffler and analyzer collude, what one user sent is 4.4-differentially private.
        >>> clear = Assumptions(
        ...     honest=1, shuffler=True, fakes=True, view="messages", collusion_epsilon=math.inf, count_epsilon=math.inf
        ... )
        >>> clear.sentences()[-1].endswith("or the shuffler learns it.")
        True
        """
        shuffled = ", unlinked from their senders by an honest shuffler" if self.shuffler else ", with their senders"
        lines = [f"The analyzer sees {self.view}{shuffled}."]
        if self.shuffler:
            users = (
                "user, the protected one, follows" if self.honest == 1 else "users, including the protected one, follow"
            )
            lines.append(f"At least {self.honest:,} {users} the protocol.")
            if self.fakes:
                lines.append("The shuffler draws its fakes as planned and keeps their number secret.")
            pure = f"what one user sent is {self.collusion_epsilon:.4g}-differentially private"
            left = "nothing protects the record" if math.isinf(self.collusion_epsilon) else pure
            lines.append(f"If shuffler and analyzer collude, {left}.")
        if self.count_epsilon > 0:
            pure = "" if math.isinf(self.count_epsilon) else f" ({self.count_epsilon:.4g}-differentially private)"
            lines.append(
                "The number of messages of one user depends on the record: uploads must be padded to a fixed number, "
                f"or the shuffler learns it{pure}."
            )
        return lines

    def to_document(self) -> dict[str, Json]:
        """Return the assumptions as a JSON object."""
        return {key: spell(value) for key, value in asdict(self).items()}

    @classmethod
    def from_document(cls, value: Json, what: str = "the assumptions") -> Self:
        """Read assumptions from a JSON object."""
        read = Fields(value, what, "honest", "shuffler", "fakes", "view", "collusion_epsilon", "count_epsilon")
        with legal(what):
            return cls(
                honest=read.whole("honest"),
                shuffler=read.truth("shuffler"),
                fakes=read.truth("fakes"),
                view=read.text("view"),
                collusion_epsilon=read.limit("collusion_epsilon"),
                count_epsilon=read.limit("count_epsilon"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(ε,δ)-differential privacy for the replacement of one record of a collection of n.

    ``lower_bound`` is what the best known attack attains for the parameter that was solved for: no guarantee with a
    smaller value exists.
    """

    epsilon: float
    delta: float
    lower_bound: float
    solved: Literal["epsilon", "delta"]
    basis: Basis
    method: str
    n: int
    assumptions: Assumptions

    def __post_init__(self) -> None:
        check_real("epsilon", self.epsilon, LIMIT)
        check_real("delta", self.delta, PROBABILITY)
        check_real("lower_bound", self.lower_bound, LIMIT)
        check_choice("solved", self.solved, ("epsilon", "delta"))
        check_type("basis", self.basis, Basis)
        check_type("method", self.method, str)
        check_type("assumptions", self.assumptions, Assumptions)
        check_whole("n", self.n, 1)

    def meets(self, budget: Budget) -> bool:
        """Return True if this guarantee implies the budget."""
        check_type("budget", budget, Budget)
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    def to_document(self) -> dict[str, Json]:
        """Return the guarantee as a JSON object."""
        return {
            "epsilon": spell(self.epsilon),
            "delta": self.delta,
            "lower_bound": spell(self.lower_bound),
            "solved": self.solved,
            "basis": self.basis.value,
            "method": self.method,
            "n": self.n,
            "assumptions": self.assumptions.to_document(),
        }

    @classmethod
    def from_document(cls, value: Json, what: str = "the guarantee") -> Self:
        """Read a guarantee from a JSON object."""
        keys = ("epsilon", "delta", "lower_bound", "solved", "basis", "method", "n", "assumptions")
        read = Fields(value, what, *keys)
        with legal(what):
            basis = check_choice("basis", read.text("basis"), tuple(one.value for one in Basis))
            return cls(
                epsilon=read.limit("epsilon"),
                delta=read.real("delta"),
                lower_bound=read.limit("lower_bound"),
                solved="delta"
                if check_choice("solved", read["solved"], ("epsilon", "delta")) == "delta"
                else "epsilon",
                basis=Basis(basis),
                method=read.text("method"),
                n=read.whole("n"),
                assumptions=Assumptions.from_document(read["assumptions"], f"the assumptions of {what}"),
            )

    @property
    def attack(self) -> str:
        """The best known attack in words; none exists where the guarantee is perfect."""
        if self.lower_bound > 0:
            return f"{self.solved} {self.lower_bound:.4g}"
        return "none exists" if (self.delta if self.solved == "delta" else self.epsilon) == 0 else "none known"

    def __str__(self) -> str:
        return (
            f"({self.epsilon:.6g}, {self.delta:.3g})-DP, {self.basis.value} by {self.method}, n = {self.n:,}; "
            f"best known attack: {self.attack}"
        )
