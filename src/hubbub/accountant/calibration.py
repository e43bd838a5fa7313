"""``calibrate``: the least noise that meets a budget, or the least crowd, verified by a final account."""

import math
from dataclasses import dataclass, replace

from hubbub.accountant.accounting import LARGEST, account, curve, honest_users
from hubbub.accountant.analysis import collusion
from hubbub.errors import Infeasible, Interval, check_flip, check_real, reject
from hubbub.numeric.divergences import gaussian_signal
from hubbub.numeric.inversion import falling_root, least_whole
from hubbub.numeric.ratios import flip_from_phi, phi
from hubbub.privacy import Budget, Guarantee
from hubbub.protocol import GRID, Fakes, Protocol, Release
from hubbub.schema import Schema

CLOSE = 5e-4
"""How far the returned q may lie above the least one, relatively."""
SMALLEST = 1e-12
SMALL = 1000


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A protocol and a crowd that meet a budget, and the guarantee that says so."""

    protocol: Protocol
    n: int
    guarantee: Guarantee


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
    shuffler: bool = True,
    max_q: float = 0.5,
) -> Calibrated:
    """The least of the one parameter given as None, among q, m and n, with which the budget is met.

    By default that is the lie probability. A least ``m`` is a number of uniform fakes. Of a law drawn by the shuffler
    the least shift is found with q = 0 and ``m=Fakes.laplace(scale, 0)``. Lands on the side where the budget holds:
    within 0.1 % of the least q, at the least m, and at the least n up to 1,000, within 0.1 % of it beyond. Where
    nothing is feasible, for instance with q up to ``max_q``, :class:`Infeasible` says what would be.

    >>> found = calibrate(Schema.bits(1), 1000, Budget(1.0, 1e-6))
    >>> round(found.protocol.q, 3), found.guarantee.meets(Budget(1.0, 1e-6))
    (0.031, True)
    >>> calibrate(Schema.one_hot(10), 1000, Budget(1.0, 1e-6), q=0, m=None).protocol.m
    422
    """
    drawn = isinstance(m, Fakes) and m.by == "shuffler" and q == 0
    if (q is None) + (m is None) + (n is None) + drawn != 1:
        reject("q, m and n", "have exactly one None, the one to be found", (q, m, n))
    limit = check_real("max_q", max_q, Interval(0.0, 0.5, open_low=True))
    asked = _Question(schema, budget, honest_fraction, shuffler)
    if n is None:
        protocol = Protocol(check_flip(q, zero=True), k, m if m is not None else 0, release)
        return asked.answer(protocol, asked.least_n(protocol))
    honest_users(n, honest_fraction)
    if drawn and isinstance(m, Fakes):
        return asked.answer(asked.least_shift(Protocol(0.0, k, m, release), n), n)
    if m is None:
        return asked.answer(asked.least_m(check_flip(q, zero=True), k, release, n), n)
    return asked.answer(asked.least_q(k, m, release, n, limit), n)


@dataclass(frozen=True, slots=True)
class _Question:
    schema: Schema
    budget: Budget
    honest_fraction: float
    shuffler: bool

    def excess(self, protocol: Protocol, n: int) -> float:
        """ln δ(ε) above the budget: not positive where the budget is met."""
        pure = collusion(protocol, self.schema)
        if self.budget.epsilon >= pure:
            return -math.inf
        if self.budget.delta == 0.0:
            return pure - self.budget.epsilon
        analysis = curve(protocol, self.schema, n, honest_fraction=self.honest_fraction, shuffler=self.shuffler)
        return analysis.upper(self.budget.epsilon) - math.log(self.budget.delta)

    def answer(self, protocol: Protocol, n: int) -> Calibrated:
        """The final account at the value found, which must meet the budget."""
        guarantee = account(
            protocol,
            self.schema,
            n,
            epsilon=self.budget.epsilon,
            honest_fraction=self.honest_fraction,
            shuffler=self.shuffler,
        )
        if not guarantee.meets(self.budget):
            raise Infeasible(f"the account at the value found gives {guarantee}, not {self.budget}")
        return Calibrated(protocol, n, guarantee)

    def least_q(self, k: int, m: int | Fakes, release: Release, n: int, limit: float) -> Protocol:
        top = min(limit, 0.5 if release != "category" else 1 / self.schema.width) * (1 - 2**-40)

        def excess(q: float) -> float:
            return self.excess(Protocol(max(q, 1 / GRID), k, m, release), n)

        if excess(top) > 0:
            best = account(Protocol(top, k, m, release), self.schema, n, delta=self.budget.delta or 1e-12)
            raise Infeasible(
                f"{self.budget} needs a lie probability above {limit:.4g} at n = {n:,}; "
                f"with q = {top:.4g} the best ε is {best.epsilon:.4g}"
            )
        guess = min(_gaussian_flip(self.schema, n, self.budget, k, release), 0.99 * top)
        found = falling_root(excess, guess, top, relative=CLOSE)[1]
        # The grid rounds up, which only adds noise.
        return Protocol(max(found, SMALLEST, 1 / GRID), k, m, release)

    def least_m(self, q: float, k: int, release: Release, n: int) -> Protocol:
        def holds(m: int) -> bool:
            return (q > 0 or m > 0) and self.excess(Protocol(q, k, m, release), n) <= 0

        try:
            return Protocol(q, k, least_whole(holds, 0, LARGEST), release)
        except Infeasible:
            raise Infeasible(f"no number of fakes up to {LARGEST:,} meets {self.budget} for {self.schema}") from None

    def least_shift(self, protocol: Protocol, n: int) -> Protocol:
        distribution = protocol.m
        assert isinstance(distribution, Fakes)

        def holds(shift: int) -> bool:
            return self.excess(replace(protocol, m=replace(distribution, shift=shift)), n) <= 0

        most = math.ceil(100 * distribution.scale) + 100
        try:
            return replace(protocol, m=replace(distribution, shift=least_whole(holds, 0, most)))
        except Infeasible:
            raise Infeasible(
                f"no shift makes {distribution.distribution} fakes of scale {distribution.scale:g} meet {self.budget}; "
                "try a larger scale"
            ) from None

    def least_n(self, protocol: Protocol) -> int:
        def excess(n: float) -> float:
            return self.excess(protocol, math.floor(n))

        if excess(SMALL) <= 0:
            return least_whole(lambda n: excess(n) <= 0, 1, SMALL)
        guess = min(max(_gaussian_crowd(self.schema, protocol, self.budget), SMALL), LARGEST)
        found = falling_root(excess, guess, float(LARGEST), relative=CLOSE)[1]
        if math.isinf(found):
            best = account(protocol, self.schema, LARGEST, delta=self.budget.delta or 1e-12)
            raise Infeasible(
                f"no crowd up to {LARGEST:,} meets {self.budget} with {protocol}; the best ε is {best.epsilon:.4g}"
            )
        return math.floor(found)


def _gaussian_flip(schema: Schema, n: int, budget: Budget, k: int, release: Release) -> float:
    """About the least q, from the Gaussian limit: a first guess for the search, no more."""
    information = n * _signal(budget) ** 2
    if release == "category":
        return 1 / (schema.width + information / 2)
    if release == "bits" or schema.width == 1:
        return flip_from_phi(1 + information / (k * schema.distance))
    if schema.dense:
        # A blanket of all vectors proves little before it covers some hundred messages, and is slow to evaluate there.
        covered = 0.5 * math.pow(min(1.0, 400 / (k * n)), 1 / schema.width)
        return max(flip_from_phi((1 + information / k) ** (1 / schema.width)), covered)
    return flip_from_phi(((1 + math.sqrt(1 + 2 * information / k)) / 2) ** (1 / schema.max_set))


def _gaussian_crowd(schema: Schema, protocol: Protocol, budget: Budget) -> float:
    """About the least n, by the inverse of :func:`_gaussian_lie`."""
    q, k = protocol.q, protocol.k
    if q == 0:
        return 1.0
    ratio = phi(q)
    if protocol.sends_category:
        information = 2 * (1 / q - schema.width)
    elif protocol.sends_bits or schema.width == 1:
        information = k * schema.distance * (ratio - 1)
    elif schema.dense:
        information = k * (ratio**schema.width - 1)
    else:
        information = 2 * k * ratio**schema.max_set * (ratio**schema.max_set - 1)
    return information / _signal(budget) ** 2


def _signal(budget: Budget) -> float:
    """About the μ of a Gaussian mechanism that meets the budget."""
    return gaussian_signal(max(budget.epsilon, 1e-3), max(budget.delta, 1e-300))
