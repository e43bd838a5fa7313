"""``Charge``: one entry of a ledger, with everything that its cost depends on; works without numpy."""

import math
from dataclasses import dataclass
from typing import Annotated, Self

from hubbub.documents import Document, Whole
from hubbub.errors import AlreadyCharged, BudgetExceeded, check_type, reject
from hubbub.model.curves import PrivacyCurve
from hubbub.model.plans import MAX_ROUNDS, Plan
from hubbub.model.privacy import Budget, Total

MAX_NAME = 256
"""Most characters of the name of a collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge(Document):
    """The cost of ``rounds`` collections with the same curve; ``name`` identifies it within a ledger."""

    name: str
    """The plan's id and the name of the collection, or "" for a charge that may be repeated."""
    rounds: Annotated[int, Whole(1, MAX_ROUNDS)]
    curve: PrivacyCurve

    @classmethod
    def of(cls, plan: Plan, *, rounds: int = 1, collection: str = "") -> Self:
        """Return the charge for rounds of a plan, as the collection of this name."""
        check_type("plan", plan, Plan)
        name = f"{plan.id}/{check_name(collection)}" if not isinstance(collection, str) or collection else ""
        return cls(name=name, rounds=rounds, curve=plan.curve)


def check_name(name: object) -> str:
    """Return the name of a collection: printable text, not empty.

    >>> check_name("week 7")
    'week 7'
    """
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        reject("collection", f"be a name of 1 to {MAX_NAME} printable characters")
    return name


def check_charges(charges: object) -> tuple[Charge, ...]:
    """Return the charges of a ledger, each name of which occurs once."""
    if not isinstance(charges, tuple) or not all(isinstance(one, Charge) for one in charges):
        reject("charges", "be the charges of another ledger; start with Ledger() and call charge()")
    names = [one.name for one in charges if one.name]
    if len(set(names)) < len(names):
        reject("charges", "have distinct names")
    return charges


def check_new(charges: tuple[Charge, ...], charge: Charge) -> None:
    """Raise :class:`AlreadyCharged` if the ledger has a charge of this name."""
    if charge.name and any(one.name == charge.name for one in charges):
        raise AlreadyCharged(f"the collection {charge.name.partition('/')[2]!r} of this plan is already charged")


def check_within(budget: Budget | None, spent: Total) -> None:
    """Raise :class:`BudgetExceeded` if the total is above the budget."""
    if budget is not None and spent.epsilon > budget.epsilon:
        figure = "∞" if math.isinf(spent.epsilon) else f"{spent.epsilon:.4g}"
        raise BudgetExceeded(
            f"the charge would bring the total to ε = {figure} at δ = {spent.delta:.3g}, above the budget of "
            f"ε = {budget.epsilon:.4g}; nothing was charged"
        )


def pure_sum(charges: tuple[Charge, ...]) -> float:
    """Return the sum of the pure ε of all rounds, rounded up; ∞ if a collection has none."""
    terms = [math.nextafter(one.rounds * one.curve.pure, math.inf) for one in charges if one.curve.pure > 0.0]
    return math.nextafter(math.fsum(terms), math.inf) if terms else 0.0


def grouped(charges: tuple[Charge, ...]) -> dict[PrivacyCurve, int]:
    """Return the number of rounds with each curve."""
    found: dict[PrivacyCurve, int] = {}
    for one in charges:
        found[one.curve] = found.get(one.curve, 0) + one.rounds
    return found
