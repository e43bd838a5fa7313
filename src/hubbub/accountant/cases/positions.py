"""Flipped single bits, and flipped records split into bits: every position is a collection of single bits."""

import math
from dataclasses import dataclass, replace

from hubbub.accountant.analysis import Analysis, log, non_increasing
from hubbub.accountant.composition import Loss
from hubbub.accountant.gaussian_limit import information
from hubbub.accountant.theorems import attacks, bit, fakes, split
from hubbub.accountant.theorems.records.local import group_steps
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import MAX_EXACT


@dataclass(frozen=True, slots=True)
class Positions:
    """The columns of a collection in which two records differ, each a collection of single bits among fakes."""

    n: int
    q: float
    k: int
    count: int
    fair: int = 0
    """Fakes whose bits are uniform and independent: those of schemas of which every bit vector is a legal record."""
    singles: int = 0
    """Fakes whose bits may be anything."""
    preliminary: bool = False
    """Compose a coarser curve of single bits, which costs less."""

    @property
    def crowd(self) -> float:
        """About the number of users whose flips hide as much as those of all users and fakes."""
        return self.n + (self.fair / (4 * self.q * (1 - self.q)) + self.singles) / self.k

    def log_delta(self, epsilon: float) -> float:
        """Return ln δ(ε); errs upwards."""
        if self.count == 1:
            return self._supremum(epsilon).upper
        return log(self.loss().delta(epsilon))

    def attacked(self, epsilon: float) -> float:
        """Return ln δ(ε) of the worst collection known without fakes of unknown bits; errs downwards."""
        if self.count == 1:
            return self._supremum(epsilon).lower
        return log(split.attack(self.n, self.q, self.k, self.count).delta(epsilon))

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return the ε of the worst collection of single bits known, and the certified one."""
        return bit.certified_epsilon(self.n, self.q, delta, self.k, singles=self.singles, fair=self.fair)

    def decide(self, epsilon: float, delta: float) -> bool:
        """Return True if (ε, δ) holds for single bits: the branch and bound ends once all collections are below δ.

        >>> Positions(1000, 0.1, 1, 1).decide(0.378, 1e-6), Positions(1000, 0.1, 1, 1).decide(0.377, 1e-6)
        (True, False)
        """
        goal = math.log(delta)
        found = bit.supremum(self.n, self.q, epsilon, self.k, singles=self.singles, fair=self.fair, limit=goal)
        return found.upper <= goal

    def loss(self) -> Loss:
        """Return the composition over all positions."""
        at = split.PRELIMINARY if self.preliminary else split.FINE
        return split.positions(self.n, self.q, self.k, self.count, at, singles=self.singles, fair=self.fair)

    def _supremum(self, epsilon: float) -> bit.Supremum:
        return bit.supremum(self.n, self.q, epsilon, self.k, singles=self.singles, fair=self.fair, tolerance=3e-3)


def columns(protocol: Protocol, schema: Schema, honest: int, total: int) -> Positions:
    """Return the columns in which two records of the schema may differ.

    >>> columns(Protocol(0.1), Schema.bits(1), 1000, 50).fair
    50
    """
    few = min(total, bit.MAX_CROWD - honest)  # counting fewer fakes than there are only raises the bound
    fair, singles = (few, 0) if schema.dense else (0, few)
    return Positions(honest, protocol.q, protocol.k, schema.distance, fair, singles)


def fakes_alone(schema: Schema, k: int, epsilon: float, number: int | Fakes, honest: int) -> float:
    """Return ln δ(ε) proven by the fakes alone, as if no record were flipped; ∞ if they cannot cover all records.

    Records and fakes are flipped and split alike, so the released messages are a function of clear records among clear
    fakes, for which δ is known exactly [004 §5]. The k copies are replaced one at a time. Errs upwards.

    >>> fakes_alone(Schema.one_hot(2), 1, 0.5, 600, 100) < -10
    True
    """
    if schema.size > MAX_EXACT or number == 0:
        return math.inf
    if isinstance(number, int):
        delta = fakes.uniform_delta(epsilon / k, min(number, MAX_EXACT), schema.size)
    elif honest * max(number.mean, number.shift) > MAX_EXACT:
        return math.inf  # more than the table of their number can hold
    else:
        delta = fakes.user_bounds(epsilon / k, number, honest, schema.size)[1]
    return min(0.0, log(delta) + group_steps(epsilon, k) + 1e-12)


def position_analysis(
    protocol: Protocol, schema: Schema, honest: int, total: int, *, preliminary: bool = False
) -> Analysis:
    """Return the analysis of single or split bits among ``total`` fakes: every position is a collection of single bits.

    >>> position_analysis(Protocol(0.1), Schema.bits(1), 1000, 50).basis
    <Basis.EXACT: 'exact'>
    """
    found = replace(columns(protocol, schema, honest, total), preliminary=preliminary)
    single = found.count == 1
    base = Analysis(
        upper=found.log_delta,
        lower=found.attacked,
        honest=honest,
        basis=Basis.EXACT if single else Basis.PROVEN,
        method="branch and bound over all collections"
        if single
        else f"composition of the certified single-bit curve over {found.count} positions",
        guess=5 * math.sqrt(information(protocol, schema) / found.crowd),  # five standard deviations of the loss
        solve=found.epsilon if single else None,
        decide=found.decide if single else None,
    )
    if total == 0 or (single and not found.singles):
        return base

    def upper(epsilon: float) -> float:
        return min(found.log_delta(epsilon), fakes_alone(schema, protocol.k, epsilon, total, honest))

    def column(epsilon: float) -> float:
        return attacks.column_attack(schema, protocol.q, honest, epsilon, protocol.k, total)

    among = "uniform fakes" if found.fair else "fakes counted as users or alone"
    method = f"{base.method}, with {among}"
    falling = upper if protocol.k == 1 else non_increasing(upper)
    return replace(base, upper=falling, lower=column, basis=Basis.PROVEN, method=method, solve=None, decide=None)
