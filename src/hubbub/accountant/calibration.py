"""``calibrate``: the smallest noise, or the smallest collection, that meets a budget, verified by a final account."""

import math
from dataclasses import dataclass, replace

from hubbub.accountant.accounting import account, curve, honest_users
from hubbub.accountant.analysis import MARGIN, Analysis, least_epsilon, unknown
from hubbub.accountant.cases.local import collusion
from hubbub.accountant.gaussian_limit import likely_flip, likely_people
from hubbub.errors import Infeasible, Interval, check_choice, check_real, check_type, check_whole, reject
from hubbub.numeric.inversion import Bend, compressed, falling_root, gaussian_tail, least_whole
from hubbub.plans import MAX_PEOPLE
from hubbub.privacy import TRUSTS, Budget, Guarantee, Trust
from hubbub.protocol import GRID, Fakes, Protocol, Release
from hubbub.schema import Schema

CLOSE = 5e-4  # largest relative distance of the returned q from the smallest one
SMALLEST_FLIP = 1e-12
SMALL = 1000  # number of people up to which the smallest n is found exactly
MAX_FAKES = 10**10


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A protocol and a number of people that meet a budget, with the guarantee that proves it."""

    protocol: Protocol
    n: int
    guarantee: Guarantee

    def __post_init__(self) -> None:
        check_type("protocol", self.protocol, Protocol)
        check_whole("n", self.n, 1, MAX_PEOPLE)
        check_type("guarantee", self.guarantee, Guarantee)


def calibrate(
    schema: Schema,
    n: int | None,
    budget: Budget,
    *,
    q: float | None = None,
    m: int | Fakes | None = 0,
    k: int = 1,
    release: Release = "records",
    honest_fraction: float = 1.0,
    trust: Trust = "shuffler-noise",
    max_q: float = 0.5,
) -> Calibrated:
    """Return the smallest value that meets the budget of the one parameter among q, m and n that is None.

    By default that is the flip probability q. For ``m=None`` it is a number of uniform fakes; for q = 0 and
    ``m=Fakes.laplace(scale, 0)`` it is the shift of the shuffler's distribution. The result lands on the side where
    the budget holds: within 0.1 % of the smallest q, at the smallest m, at the smallest n up to 1,000 and within 0.1 %
    of it above. If nothing is feasible, for instance with q up to ``max_q``, :class:`Infeasible` says what would be.

    >>> result = calibrate(Schema.bits(1), 1000, Budget(1.0, 1e-6))
    >>> round(result.protocol.q, 3), result.guarantee.meets(Budget(1.0, 1e-6))
    (0.031, True)
    >>> calibrate(Schema.one_hot(10), 1000, Budget(1.0, 1e-6), q=0, m=None).protocol.m
    422
    """
    check_type("schema", schema, Schema)
    check_type("budget", budget, Budget)
    check_choice("trust", trust, TRUSTS)
    limit = check_real("max_q", max_q, Interval(0.0, 0.5, open_low=True))
    # The parameter to find starts at a value that makes the protocol legal: clear records need at least one fake.
    protocol = Protocol(1 / GRID if q is None else q, k, (0 if q else 1) if m is None else m, release)
    finds_shift = protocol.clear and protocol.shuffler_fakes is not None
    if (q is None) + (m is None) + (n is None) + finds_shift != 1:
        reject("exactly one of q, m and n", "be None: the parameter to find", (q, m, n))
    search = _Search(schema, budget, honest_fraction, trust)
    if n is None:
        return search.result(protocol, search.smallest_n(protocol))
    honest_users(n, honest_fraction)
    if finds_shift:
        return search.result(search.smallest_shift(protocol, n), n)
    if m is None:
        return search.result(search.smallest_m(protocol, n), n)
    return search.result(search.smallest_q(protocol, n, limit), n)


@dataclass(frozen=True, slots=True)
class _Search:
    schema: Schema
    budget: Budget
    honest_fraction: float
    trust: Trust

    @property
    def goal(self) -> float:
        """The logarithm of δ, less the margin by which the final account raises its figure."""
        return math.log(self.budget.delta) - 2 * MARGIN if self.budget.delta > 0 else -math.inf

    @property
    def bend(self) -> Bend:
        """The transformation that makes ln δ nearly linear in the parameter to find."""
        return gaussian_tail(self.goal) if self.budget.delta > 0 else compressed

    def curve(self, protocol: Protocol, n: int) -> Analysis:
        """Return the certified curve of a protocol."""
        return curve(protocol, self.schema, n, honest_fraction=self.honest_fraction, trust=self.trust)

    def excess(self, protocol: Protocol, n: int) -> float:
        """Return ln δ(ε) minus that of the budget, which is met where the result is not positive."""
        pure = collusion(protocol, self.schema)
        if self.budget.epsilon >= pure:
            return -math.inf
        if self.budget.delta == 0.0:
            return pure - self.budget.epsilon
        return self.curve(protocol, n).upper(self.budget.epsilon) - self.goal

    def result(self, protocol: Protocol, n: int) -> Calibrated:
        """Return the value found after a final account, which must meet the budget."""
        epsilon, share = self.budget.epsilon, self.honest_fraction
        guarantee = account(protocol, self.schema, n, epsilon=epsilon, honest_fraction=share, trust=self.trust)
        if not guarantee.meets(self.budget):
            raise Infeasible(f"the final account gives {guarantee}, which does not meet {self.budget}")
        return Calibrated(protocol, n, guarantee)

    def best_epsilon(self, protocol: Protocol, n: int) -> float:
        """Return the ε that a protocol proves at the δ of the budget, without the search for an attack."""
        analysis = self.curve(protocol, n)
        return least_epsilon(replace(analysis, lower=unknown), self.budget.delta)[1]

    def likely_flip(self, protocol: Protocol, n: int) -> float:
        """Return about the smallest q; without a shuffler, one user's record is a crowd of one, bit by bit."""
        if self.trust == "nobody" and not protocol.sends_category:
            protocol, n = replace(protocol, release="bits"), 1
        return likely_flip(protocol, self.schema, n, self.budget)

    def smallest_q(self, protocol: Protocol, n: int, limit: float) -> Protocol:
        choices = self.schema.width if protocol.sends_category else 2
        top = min(limit, 1 / choices) * (1 - 2**-40)

        def flip(odds: float) -> float:
            """Return q at odds = q/(1 − 2q), which resolve also the flips next to 1/2, where the error is 1/(1 − 2q)."""
            return min(max(odds / (1 + choices * odds), 1 / GRID), top)

        def excess(odds: float) -> float:
            return self.excess(replace(protocol, q=flip(odds)), n)

        most = top / (1 - choices * top)
        if self.excess(replace(protocol, q=top), n) > 0:
            best = self.best_epsilon(replace(protocol, q=top), n)
            raise Infeasible(
                f"{self.budget} needs a flip probability above {limit:.4g} at n = {n:,}; "
                f"with q = {top:.4g} the best ε is {best:.4g}"
            )
        likely = min(self.likely_flip(protocol, n), top)
        odds = falling_root(excess, likely / (1 - choices * likely), most, relative=CLOSE, bend=self.bend)[1]
        q = top if math.isinf(odds) else flip(odds)
        # Rounding up to the grid only adds noise.
        return replace(protocol, q=max(q, SMALLEST_FLIP, 1 / GRID))

    def smallest_m(self, protocol: Protocol, n: int) -> Protocol:
        def holds(m: int) -> bool:
            return not (protocol.clear and m == 0) and self.excess(replace(protocol, m=m), n) <= 0

        try:
            return replace(protocol, m=least_whole(holds, 0, MAX_FAKES))
        except Infeasible:
            raise Infeasible(f"no number of fakes up to {MAX_FAKES:,} meets {self.budget} for {self.schema}") from None

    def smallest_shift(self, protocol: Protocol, n: int) -> Protocol:
        fakes = protocol.shuffler_fakes
        assert fakes is not None

        def holds(shift: int) -> bool:
            return self.excess(replace(protocol, m=replace(fakes, shift=shift)), n) <= 0

        try:
            shift = least_whole(holds, 0, math.ceil(100 * fakes.scale) + 100)
        except Infeasible:
            raise Infeasible(
                f"no shift makes {fakes.distribution} fakes of scale {fakes.scale:g} meet {self.budget}; "
                "try a larger scale"
            ) from None
        return replace(protocol, m=replace(fakes, shift=shift))

    def smallest_n(self, protocol: Protocol) -> int:
        def excess(n: float) -> float:
            return self.excess(protocol, math.floor(n))

        if excess(SMALL) <= 0:
            return least_whole(lambda n: excess(n) <= 0, 1, SMALL)
        guess = min(max(likely_people(protocol, self.schema, self.budget), SMALL), MAX_PEOPLE)
        people = falling_root(excess, guess, float(MAX_PEOPLE), relative=CLOSE)[1]
        if math.isinf(people):
            best = self.best_epsilon(protocol, MAX_PEOPLE)
            raise Infeasible(
                f"no collection of up to {MAX_PEOPLE:,} people meets {self.budget} with {protocol}; "
                f"the best ε is {best:.4g}"
            )
        return math.floor(people)
