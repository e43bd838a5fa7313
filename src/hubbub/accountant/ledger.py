"""``Ledger``: the total guarantee of repeated collections from the same people."""

import functools
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

import numpy as np

from hubbub.accountant.accounting import curve
from hubbub.accountant.charges import Charge, check_charges, check_new, check_within, grouped, pure_sum
from hubbub.accountant.composition import Loss
from hubbub.accountant.sampling import certified_points
from hubbub.documents import Fields, canonical, legal, parse
from hubbub.errors import WireError, check_delta, check_epsilon, check_real, check_type, check_whole, kind_of, reject
from hubbub.model.curves import PrivacyCurve
from hubbub.model.plans import MAX_ROUNDS, Plan
from hubbub.model.privacy import BUDGET_DELTA, Budget, Total, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.inversion import least_whole

FORMAT = "hubbub ledger 2"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The collections that one person has taken part in; ledgers are immutable.

    Each collection enters with the certified points of its curve, whose cover in both orders is composed, so the total,
    which may be adaptive, errs upwards. With a ``budget``, a charge beyond it raises
    :class:`~hubbub.errors.BudgetExceeded`. :meth:`basic` is basic composition, as a check.

    >>> ledger = Ledger().charge_protocol(Protocol(0.1), Schema.bits(1), 10_000, rounds=10)
    >>> ledger.epsilon(1e-6) < ledger.basic(1e-6)[0]
    True
    """

    charges: tuple[Charge, ...] = ()
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_charges(self.charges)
        if self.budget is not None:
            check_type("budget", self.budget, Budget)

    def charge(self, plan: Plan, *, rounds: int = 1, collection: str = "") -> Self:
        """Return the ledger after ``rounds`` more collections of a plan, under the assumptions of its guarantee.

        A named ``collection`` of a plan is charged once: charging it again raises
        :class:`~hubbub.errors.AlreadyCharged`. The curve of the plan is taken as certified, as
        :func:`hubbub.plan`, :func:`hubbub.plan_from` and :func:`hubbub.load_plan` do.
        """
        return self.add(Charge.of(plan, rounds=rounds, collection=collection))

    def charge_protocol(
        self,
        protocol: Protocol,
        schema: Schema,
        n: int,
        *,
        rounds: int = 1,
        honest_fraction: float = 1.0,
        trust: TrustModel = "shuffler-noise",
    ) -> Self:
        """Return the ledger after ``rounds`` more collections with a protocol, under the stated trust."""
        rounds = check_whole("rounds", rounds, 1, MAX_ROUNDS)
        points = certified_points(
            curve(protocol, schema, n, honest_fraction=honest_fraction, trust=trust), rounds=rounds
        )
        return self.add(Charge(name="", rounds=rounds, curve=points))

    def add(self, charge: Charge) -> Self:
        """Return the ledger with one more charge; raises beyond the budget, and for a name that is charged already."""
        check_new(self.charges, check_type("charge", charge, Charge))
        after = replace(self, charges=(*self.charges, charge))
        if self.budget is not None:
            check_within(self.budget, after.total(self.budget.delta))
        return after

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) of all collections together; errs upwards."""
        epsilon = check_epsilon(epsilon)
        return 0.0 if pure_sum(self.charges) <= epsilon else self._loss().delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the ε proven for all collections together at δ; errs upwards, ∞ if none is proven."""
        return self.total(check_delta(delta)).epsilon

    def total(self, delta: float | None = None) -> Total:
        """Return (ε, δ) of all collections together, at the δ of the budget or a given one, which may be 0."""
        delta = self._delta(delta)
        pure = pure_sum(self.charges)
        if delta == 0.0 or pure == 0.0:
            return Total(pure, delta)
        return Total(min(self._loss().epsilon(delta), pure), delta)

    def basic(self, delta: float) -> tuple[float, float]:
        """Return (ε, δ) by basic composition: δ is split equally among all rounds, and the ε add up."""
        delta = check_delta(delta)
        rounds = sum(charge.rounds for charge in self.charges)
        if rounds == 0:
            return 0.0, 0.0
        share = delta / rounds
        spent = sum(one.rounds * min(cover(one.curve).epsilon(share), one.curve.pure) for one in self.charges)
        return spent, delta

    def forecast(self, plan: Plan, rounds: int, *, delta: float | None = None) -> Total:
        """Return (ε, δ) after ``rounds`` more collections of a plan, at the δ of the budget or a given one.

        Nothing is charged, and the budget is not applied.
        """
        charge = Charge.of(plan, rounds=rounds)
        return replace(self, charges=(*self.charges, charge)).total(delta)

    def remaining(self, plan: Plan, budget: Budget | None = None) -> int:
        """Return the number of further rounds of a plan that the budget, or a given one, allows; at most a million."""
        limit = budget if budget is not None else self.budget
        limit = check_type("budget", limit, Budget)

        def exceeded(rounds: int) -> bool:
            return rounds > MAX_ROUNDS or self.forecast(plan, rounds, delta=limit.delta).epsilon > limit.epsilon

        return least_whole(exceeded, 1, MAX_ROUNDS + 1) - 1

    def to_json(self) -> str:
        """Return the canonical JSON."""
        budget = None if self.budget is None else self.budget.to_document()
        charges = [charge.to_document() for charge in self.charges]
        return canonical({"format": FORMAT, "budget": budget, "charges": [*charges]}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a ledger, and check its format and values."""
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of a ledger as str or bytes, not {kind_of(text)}")
        fields = Fields(parse(text, "the ledger"), "the ledger", "format", "budget", "charges")
        if fields.text("format") != FORMAT:
            raise WireError(f"the format of the ledger must be {FORMAT!r}")
        with legal("the ledger"):
            budget = None if fields["budget"] is None else Budget.from_document(fields["budget"], "the budget")
            return cls(tuple(Charge.from_document(one) for one in fields.items("charges")), budget)

    def _delta(self, delta: float | None) -> float:
        if delta is None:
            return check_type("budget", self.budget, Budget).delta
        return check_real("delta", delta, BUDGET_DELTA)

    def _loss(self) -> Loss:
        if not self.charges:
            return Loss(step=1.0, first=0, masses=np.ones(1), infinite=0.0)
        return composed(tuple(grouped(self.charges).items()))


@functools.lru_cache(maxsize=64)
def cover(points: PrivacyCurve) -> Loss:
    """Return the cover of one collection with these points."""
    return Loss.from_points(points)


@functools.lru_cache(maxsize=64)
def composed(rounds: tuple[tuple[PrivacyCurve, int], ...]) -> Loss:
    """Return the cover of several rounds of several collections.

    Fine grids come first: many small losses, each moved to the grid of a large one, would become large together.
    """
    powers = [cover(points).power(count) for points, count in rounds]
    return reduce(Loss.compose, sorted(powers, key=lambda loss: loss.step))
