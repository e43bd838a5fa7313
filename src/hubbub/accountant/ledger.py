"""``Ledger``: the total guarantee of repeated collections from the same people."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np

from hubbub.accountant.accounting import curve
from hubbub.accountant.analysis import STEEP, Analysis, proven_epsilon
from hubbub.accountant.composition import Loss
from hubbub.errors import check_delta, check_epsilon, check_whole, reject
from hubbub.numeric.inversion import falling_root
from hubbub.privacy import Basis, TrustModel
from hubbub.protocol import Protocol
from hubbub.schema import Schema

POINTS = 120  # points of a curve at which a collection enters the ledger
MAX_ROUNDS = 10**6
TAIL = 1e-15  # δ beyond which a curve is not sampled


@dataclass(frozen=True, slots=True)
class Ledger:
    """The collections that one person has taken part in; ledgers are immutable.

    Each collection enters as a loss that covers its certified curve in both orders, so the composition, which may be
    adaptive, errs upwards. :meth:`basic` is basic composition, as a check.

    >>> ledger = Ledger().charge(Protocol(0.1), Schema.bits(1), 10_000, rounds=10)
    >>> ledger.epsilon(1e-6) < ledger.basic(1e-6)[0]
    True
    """

    losses: tuple[tuple[Loss, int], ...] = ()
    analyses: tuple[tuple[Analysis, int], ...] = ()

    def __post_init__(self) -> None:
        for name, size in (("losses", 2), ("analyses", 2)):
            entries: object = getattr(self, name)
            if not isinstance(entries, tuple) or not all(isinstance(e, tuple) and len(e) == size for e in entries):
                reject(name, "be the entries of another ledger; start with Ledger() and call charge()")

    def charge(
        self,
        protocol: Protocol,
        schema: Schema,
        n: int,
        *,
        rounds: int = 1,
        honest_fraction: float = 1.0,
        trust: TrustModel = "shuffler-noise",
    ) -> Self:
        """Return the ledger after ``rounds`` more collections of this kind, under the stated trust."""
        rounds = check_whole("rounds", rounds, 1, MAX_ROUNDS)
        analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, trust=trust)
        if analysis.basis not in (Basis.EXACT, Basis.PROVEN):
            reject("the collection", "have a proven guarantee", analysis.basis.value)
        return type(self)((*self.losses, (_cover(analysis), rounds)), (*self.analyses, (analysis, rounds)))

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) of all collections together; errs upwards."""
        return self._total().delta(check_epsilon(epsilon))

    def epsilon(self, delta: float) -> float:
        """Return the ε proven for all collections together at δ; errs upwards, ∞ if none is proven."""
        return self._total().epsilon(check_delta(delta))

    def basic(self, delta: float) -> tuple[float, float]:
        """Return (ε, δ) by basic composition: δ is split equally among all rounds, and the ε add up."""
        delta = check_delta(delta)
        rounds = sum(count for _, count in self.analyses)
        if rounds == 0:
            return 0.0, 0.0
        share = delta / rounds
        spent = sum(count * proven_epsilon(analysis, share) for analysis, count in self.analyses)
        return spent, delta

    def _total(self) -> Loss:
        if not self.losses:
            return Loss(step=1.0, first=0, masses=np.ones(1), infinite=0.0)
        return reduce(Loss.compose, (loss.power(rounds) for loss, rounds in self.losses))


def _cover(analysis: Analysis) -> Loss:
    """Return a loss above the certified curve in both orders, sampled up to where nothing of the curve is left."""
    top = proven_epsilon(analysis, TAIL)
    if math.isinf(top):
        # Outcomes that reveal a record give the curve a positive limit: sample up to where it is reached.
        limit = max(analysis.upper(STEEP), math.log(TAIL)) + 1e-3
        top = min(falling_root(lambda x: analysis.upper(x) - limit, analysis.guess, STEEP, relative=1e-2)[1], STEEP)
    step = max(top, 1e-9) / POINTS
    return Loss.from_envelope([analysis.delta(step * i) for i in range(POINTS + 1)], step)
