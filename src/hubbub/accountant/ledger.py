"""``Ledger``: what repeated collections from the same people add up to."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from hubbub.accountant.accounting import STEEP, curve, solve_epsilon
from hubbub.accountant.analysis import Analysis, collusion
from hubbub.accountant.composition import Loss
from hubbub.errors import check_delta, check_epsilon, check_whole, reject
from hubbub.numeric.inversion import falling_root
from hubbub.privacy import Basis
from hubbub.protocol import Protocol
from hubbub.schema import Schema

POINTS = 120
TAIL = 1e-15


@dataclass(frozen=True, slots=True)
class Ledger:
    """The collections that one person has taken part in; every verb returns a new ledger.

    Each collection enters as a loss that covers its certified curve in both orders, so that the composition, which
    may be adaptive, errs upwards. :meth:`basic` is the plain sum, as a check.

    >>> ledger = Ledger().charge(Protocol(0.1), Schema.bits(1), 10_000, rounds=10)
    >>> ledger.epsilon(1e-6) < ledger.basic(1e-6)[0]
    True
    """

    losses: tuple[tuple[Loss, int], ...] = ()
    analyses: tuple[tuple[Analysis, float, int], ...] = ()

    def charge(
        self,
        protocol: Protocol,
        schema: Schema,
        n: int,
        *,
        rounds: int = 1,
        honest_fraction: float = 1.0,
        shuffler: bool = True,
    ) -> Self:
        """The ledger after ``rounds`` more collections of this kind, with or without a ``shuffler``."""
        rounds = check_whole("rounds", rounds, 1)
        analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, shuffler=shuffler)
        if analysis.basis not in (Basis.EXACT, Basis.PROVEN):
            reject("the collection", "have a proven guarantee", analysis.basis)
        pure = collusion(protocol, schema)
        return type(self)((*self.losses, (_cover(analysis, pure), rounds)), (*self.analyses, (analysis, pure, rounds)))

    def delta(self, epsilon: float) -> float:
        """δ(ε) of all collections together; errs upwards."""
        return self._total().delta(check_epsilon(epsilon))

    def epsilon(self, delta: float) -> float:
        """The ε that is proven for all collections together at δ; errs upwards, infinite if there is none."""
        return self._total().epsilon(check_delta(delta))

    def basic(self, delta: float) -> tuple[float, float]:
        """(ε, δ) by basic composition: δ is shared equally by all rounds, and the ε add up."""
        rounds = sum(count for _, _, count in self.analyses)
        if rounds == 0:
            return 0.0, 0.0
        share = check_delta(delta) / rounds
        spent = sum(count * solve_epsilon(analysis, share, pure)[1] for analysis, pure, count in self.analyses)
        return spent, delta

    def _total(self) -> Loss:
        if not self.losses:
            return Loss(step=1.0, first=0, masses=np.ones(1), infinite=0.0)
        total: Loss | None = None
        for loss, rounds in self.losses:
            part = loss.power(rounds)
            total = part if total is None else total.compose(part)
        assert total is not None
        return total


def _cover(analysis: Analysis, pure: float) -> Loss:
    """A loss above the certified curve in both orders, sampled up to where nothing is left of it."""
    top = solve_epsilon(analysis, TAIL, pure)[1]
    if math.isinf(top):
        # A curve with a floor, of outcomes that give a record away: nothing falls any more where the floor is reached.
        floor = max(analysis.upper(STEEP), math.log(TAIL)) + 1e-3
        top = min(falling_root(lambda x: analysis.upper(x) - floor, analysis.guess, STEEP, relative=1e-2)[1], STEEP)
    step = max(top, 1e-9) / POINTS
    deltas = [
        min(1.0, math.exp(min(analysis.upper(step * i), 0.0))) if step * i < pure else 0.0 for i in range(POINTS + 1)
    ]
    return Loss.from_envelope(deltas, step)
