"""The least noise of each kind of protocol, and about what to expect of it before the accountant is asked.

A certificate costs up to a second, so that searches are led by cheap guesses (the Gaussian limit, an attack) and end
with one account that must meet the budget: whatever the guesses say, no plan leaves this module without it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from hubbub.accountant import Calibrated, Ledger, account, calibrate, curve
from hubbub.errors import SHARE, Infeasible, Interval, TooLarge, check_flip, check_real, check_whole, reject
from hubbub.estimates import predicted_stderr
from hubbub.numeric.divergences import gaussian_delta, gaussian_signal
from hubbub.numeric.inversion import falling_root, least_real
from hubbub.numeric.ratios import flip_from_phi
from hubbub.planner.expectations import (
    discrete_laplace,
    hidden_flip,
    legal_records,
    local_choice,
    local_flips,
    whole_records,
)
from hubbub.plans import HEADER, Plan
from hubbub.privacy import Budget
from hubbub.protocol import Fakes, Protocol, Release
from hubbub.schema import Schema

Attempt = Callable[[Budget], Calibrated]
"""The budget of one round ↦ a protocol that meets it; raises Infeasible."""

COPIES = (32, 16, 8, 4, 2)
LISTED = 2**20
"""Legal records up to which uniform fakes can cover all of them."""
DRAWN = 2**16
"""Legal records up to which a shuffler draws a number for each of them."""
FLOOD = 1000
"""Fakes of one user beyond which nobody would send them, and no law is searched."""
NARROW = 8
"""Bits up to which a packed record is as short as the number of a bit."""
WIDE = 64
"""Bits from which the number of a bit is so much shorter that the number of users' fakes may be hidden for it."""
LAVISH = 30.0
"""The largest ε that is planned for; whoever allows more gains nothing by it."""
LONG = 256
"""Bits from which whole records of any bits hide so little in a crowd that no certificate is worth its time."""
FAIR = 0.97
"""The share of the budget that several rounds should use before the search for more ends."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One kind of protocol: about its standard error in the Gaussian limit, and ways to settle its parameters.

    The ways are in an order in which the standard error falls and then rises, so that the first that is worse than
    the one before ends the search.
    """

    expected: float
    ways: Sequence[Attempt]
    shuffler: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Who is asked what, how often, for which budget and within which limits."""

    schema: Schema
    n: int
    budget: Budget
    honest_fraction: float = 1.0
    shuffler_fakes: bool = True
    joint: bool = False
    max_messages: float = math.inf
    max_bytes: float = math.inf
    min_q: float = 0.0
    rounds: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            reject("schema", "be a Schema", type(self.schema).__name__)
        if not isinstance(self.budget, Budget):
            reject("budget", "be a Budget", type(self.budget).__name__)
        check_whole("n", self.n, 1, 10**10)
        check_real("honest_fraction", self.honest_fraction, SHARE)
        check_real("max_messages", self.max_messages, Interval(1.0, math.inf))
        check_real("max_bytes", self.max_bytes, Interval(HEADER, math.inf))
        check_flip(self.min_q, zero=True)
        check_whole("rounds", self.rounds, 1)
        if self.budget.epsilon > LAVISH:
            object.__setattr__(self, "budget", Budget(LAVISH, self.budget.delta))

    def answer(self, candidate: Candidate) -> Plan:
        """The best plan of this kind within the limits, or Infeasible with the first reason."""
        best: Plan | None = None
        reason: Exception | None = None
        for way in candidate.ways:
            try:
                plan = self._limited(self._composed(way, candidate.shuffler))
            except (Infeasible, TooLarge) as error:
                reason = reason or error
                continue
            if best is not None and plan.stderr > best.stderr:
                break
            best = plan
        if best is None:
            raise reason or Infeasible("the limits leave no protocol of this kind")
        return best

    def candidates(self) -> list[Candidate]:
        """The kinds of protocols that make sense here, the most promising first.

        With δ = 0 no crowd helps, and only what each user does for himself counts.
        """
        found = [self._local(), *(self._shuffled() if self.budget.delta > 0 else ())]
        return sorted((one for one in found if one.ways), key=lambda one: one.expected)

    def _shuffled(self) -> Iterator[Candidate]:
        schema, local = self.schema, self._local().expected
        one_hot = schema.exclusive
        flip = self._whole(1)
        whole = not schema.dense or schema.width <= LONG
        if whole:
            yield Candidate(min(local, flip), [self._flipped])
        # One bit gains next to nothing by copies, at equal privacy.
        copies = self._allowed_copies() if whole and schema.width > 1 else []
        if copies:
            yield Candidate(min(local, self._whole(copies[0])), [self._copied(k) for k in copies])
        if not self.joint:
            if schema.width > 1:
                yield Candidate(min(local, math.sqrt(schema.distance / self._kappa)), [self._split])
            if one_hot:
                flip_probability = Protocol(1 / (schema.width + self.n * self._kappa / 2 + 1), release="category")
                expected = predicted_stderr(schema, flip_probability, self.n)
                yield Candidate(min(local, expected), [lambda budget: self._flipped(budget, release="category")])
        if self.budget.epsilon > 0:
            yield from self._with_fakes(flip)

    def _with_fakes(self, flip: float) -> Iterator[Candidate]:
        schema = self.schema
        kinds = legal_records(schema)
        # Two counts of 2/κ fakes each, of which one is the real change.
        needed = 2 * kinds / self._kappa
        noise = needed * schema.density * (1 - schema.density)
        if self.min_q == 0 and kinds <= LISTED and needed <= FLOOD * self.n:
            yield Candidate(math.sqrt(noise), [self._among_users_fakes])
        if schema.kind != "at_most" and schema.width > 1 and (schema.exclusive or schema.width <= LONG):
            yield self._fake_and_flip(needed, noise, flip)
        if self.shuffler_fakes:
            if not self.joint or schema.exclusive:
                yield self._among_drawn_fakes(schema.distance, 1, self._compact(NARROW))
            if kinds <= DRAWN and not schema.exclusive and schema.width > 1:
                yield self._among_drawn_fakes(2, kinds * schema.density, "records")

    # About what to expect.

    @property
    def _kappa(self) -> float:
        """The squared signal of one round, among the honest: (μ of the budget)²/rounds."""
        return gaussian_signal(self.budget.epsilon, self.budget.delta) ** 2 / self.rounds

    def _whole(self, k: int) -> float:
        return whole_records(self.schema, self.n, self.n * self.honest_fraction * self._kappa, k)

    def _local(self) -> Candidate:
        """Pure or approximate local privacy, by flips or, for one choice of several, by randomized response."""
        schema, epsilon = self.schema, self.budget.epsilon / self.rounds
        expected = local_flips(schema, self.n, epsilon, self._kappa if self.budget.delta > 0 else 0.0)
        ways: list[Attempt] = [lambda budget: self._flipped(budget, shuffler=False)]
        if schema.exclusive and not self.joint:
            ways.append(self._local_category)
            other = local_choice(schema, self.n, epsilon)
            if other < expected:
                expected, ways = other, ways[::-1]
        return Candidate(expected, ways, shuffler=False)

    # Ways to settle the parameters.

    def _flipped(
        self, budget: Budget, k: int = 1, release: Release = "records", *, shuffler: bool = True
    ) -> Calibrated:
        found = calibrate(
            self.schema,
            self.n,
            budget,
            k=k,
            release=release,
            honest_fraction=self.honest_fraction,
            shuffler=shuffler,
        )
        least = self.min_q / (self.schema.width - 1) if release == "category" else self.min_q
        if release == "category" and max(found.protocol.q, least) * self.schema.width >= 1:
            raise Infeasible(f"{budget} leaves nothing of {self.schema.width} categories to tell at n = {self.n:,}")
        if found.protocol.q >= least:
            return found
        return self._settled(Protocol(least, k, 0, release), budget, shuffler=shuffler)

    def _local_category(self, budget: Budget) -> Calibrated:
        """q = 1/(e^ε + d − 1), a little more for rounding; at least what the policy asks for."""
        d = self.schema.width
        flip_probability = max((1 + 1e-12) / (math.exp(min(budget.epsilon, 600.0)) + d - 1), self.min_q / (d - 1))
        protocol = Protocol(flip_probability, release="category")
        if protocol.q * d >= 1:
            raise Infeasible(f"{budget} leaves nothing of {d} categories for one user to tell")
        return self._settled(protocol, budget, shuffler=False)

    def _copied(self, k: int) -> Attempt:
        return lambda budget: self._flipped(budget, k)

    def _allowed_copies(self) -> list[int]:
        message = HEADER + -(-self.schema.width // 8)
        return [k for k in COPIES if k <= self.max_messages and k * message <= self.max_bytes]

    def _split(self, budget: Budget) -> Calibrated:
        """Split bits: the attack costs a hundredth of the certificate and lies within a per cent of it.

        Several copies would gain at most a fifth, by a finer lattice, for so many times the messages.
        """
        if self.schema.distance > 8:
            return self._flipped(budget, release="bits")
        goal = math.log(budget.delta)

        def excess(q: float) -> float:
            protocol = Protocol(max(q, 1e-14), release="bits")
            return self._curve(protocol, lower=True)(budget.epsilon) - goal

        signal = gaussian_signal(budget.epsilon, budget.delta) ** 2
        guess = flip_from_phi(1 + self.n * self.honest_fraction * signal / self.schema.distance)
        q = falling_root(excess, guess, 0.499, relative=1e-3)[1]
        for slack in (1.004, 1.012, 1.05):
            if q * slack < 0.5:
                try:
                    return self._settled(Protocol(max(q * slack, self.min_q, 1e-14), release="bits"), budget)
                except Infeasible:
                    continue
        return self._flipped(budget, release="bits")

    def _among_users_fakes(self, budget: Budget) -> Calibrated:
        """Clear records; everybody adds Binomial(t, s) fakes, t about twice what is needed, s the least that does.

        A binomial total varies less than a Poisson one, and both are a little worse than a fixed one.
        """
        share = self.honest_fraction
        total = calibrate(self.schema, self.n, budget, q=0, m=None, honest_fraction=share).protocol.m
        assert isinstance(total, int)
        release = self._compact(WIDE)
        return self._least(
            lambda mean: Protocol(0.0, m=_users_distribution(mean, 2 * total / self.n), release=release),
            budget,
            1.001 * total / self.n,
            1.9 * total / self.n,
            1e-4,
        )

    def _fake_and_flip(self, needed: float, noise: float, flip: float) -> Candidate:
        """Flipped records among users' flipped fakes.

        If enough fakes for clear records can be sent, flips only add an error, in return for which something is left
        where shuffler and analyzer collude: here they add the variance that clear records would have, and the least
        fakes are found. Otherwise a few numbers of fakes are tried, and the least q is found for each.
        """
        schema, room = self.schema, (min(self.max_messages, 5.0) - 1) * self.n * self.honest_fraction
        if 1.5 * needed <= room and noise <= 0.02 * self.n:
            q = max(self.min_q, noise / self.n)
            mean = needed / (self.n * self.honest_fraction)

            def fewest(budget: Budget) -> Calibrated:
                found = self._least(
                    lambda x: Protocol(q, m=_users_distribution(x, 2 * mean)), budget, 1.2 * mean, 1.9 * mean, 2e-3
                )
                if isinstance(found.protocol.m, Fakes) and found.protocol.m.mean < 1e-6 * mean:
                    raise Infeasible("the flips alone do, without fakes")
                return found

            flips = self.n * q * (1 - q)
            return Candidate(math.sqrt(noise + flips) / (1 - 2 * q), [fewest])

        def least(share: float) -> Attempt:
            guess = self._hidden_flip(share * self.n)
            return lambda budget: self._least(
                lambda q: Protocol(max(q, self.min_q), m=_users_distribution(share, 2 * share)),
                budget,
                guess,
                0.4999,
                1e-3,
            )

        # Of fewer fakes that users draw at random, next to none are certain.
        certain = 500 / (self.n * self.honest_fraction)
        shares = [share for share in (1 / 64, 1 / 16, 1 / 4, 1.0) if certain <= share and share * self.n <= room]
        expected = flip / 2
        if schema.dense and shares:
            expected = min(
                predicted_stderr(schema, Protocol(self._hidden_flip(x * self.n), m=round(x * self.n)), self.n)
                for x in shares
            )
        return Candidate(expected, [least(share) for share in shares])

    def _hidden_flip(self, m: float) -> float:
        return hidden_flip(self.schema, m * self.honest_fraction * self._kappa)

    def _among_drawn_fakes(self, changes: int, hidden: float, release: Release) -> Candidate:
        """Clear records among the shuffler's fakes: ``changes`` counts change by one, a label sums ``hidden`` of them.

        Laplace fakes of scale h/ε prove pure privacy but for the cut at 0, Gaussian ones √h/μ. With a least lie
        probability the records are flipped as well.
        """
        rounds, epsilon = self.rounds, self.budget.epsilon
        gaussian = math.sqrt(changes / self._kappa)
        laplace = discrete_laplace(changes * rounds / epsilon)

        def by_laplace(budget: Budget) -> Calibrated:
            distribution = Fakes.laplace(changes / budget.epsilon, 0)
            return self._drawn(calibrate(self.schema, self.n, budget, q=0, m=distribution, release=release), budget)

        def by_gaussian(budget: Budget) -> Calibrated:
            least = math.sqrt(changes) / gaussian_signal(budget.epsilon, budget.delta)
            reach = -float(ndtri(budget.delta / (50 * changes)))
            for slack in (1.003, 1.02, 1.08, 1.3):
                scale = max(slack * least, 0.5)
                protocol = Protocol(0.0, m=Fakes.gaussian(scale, math.ceil(reach * scale) + 1), release=release)
                try:
                    return self._drawn(self._settled(protocol, budget), budget)
                except Infeasible as error:
                    reason = error
            raise reason

        ways = sorted([(laplace, by_laplace), (gaussian, by_gaussian)], key=lambda pair: pair[0])
        best = ways[0][0]
        return Candidate(best * math.sqrt(hidden), [way for about, way in ways if about < 1.3 * best])

    def _drawn(self, found: Calibrated, budget: Budget) -> Calibrated:
        if self.min_q == 0:
            return found
        # Flipped whole one-hot records change two counts as clear ones do; single bits of them might change more.
        release = "records" if self.schema.exclusive else found.protocol.release
        return self._settled(Protocol(self.min_q, m=found.protocol.m, release=release), budget)

    def _compact(self, limit: int) -> Release:
        """Clear one-hot records are the same as whole ones and as the numbers of their bits, which may be shorter."""
        whole = self.joint or (self.schema.exclusive and self.schema.width <= limit)
        return "records" if whole or (not self.schema.exclusive and limit == WIDE) else "bits"

    # Certificates.

    def _curve(self, protocol: Protocol, *, lower: bool = False) -> Callable[[float], float]:
        analysis = curve(protocol, self.schema, self.n, honest_fraction=self.honest_fraction)
        return analysis.lower if lower else analysis.upper

    def _least(
        self, protocol: Callable[[float], Protocol], budget: Budget, guess: float, top: float, relative: float
    ) -> Calibrated:
        goal = math.log(budget.delta)

        def excess(x: float) -> float:
            return self._curve(protocol(x))(budget.epsilon) - goal

        found = falling_root(excess, guess, top, relative=relative)[1]
        if math.isinf(found):
            raise Infeasible(f"{protocol(top)} does not meet {budget} at n = {self.n:,}")
        return self._settled(protocol(found), budget)

    def _settled(self, protocol: Protocol, budget: Budget, *, shuffler: bool = True) -> Calibrated:
        guarantee = account(
            protocol,
            self.schema,
            self.n,
            epsilon=budget.epsilon,
            honest_fraction=self.honest_fraction,
            shuffler=shuffler,
        )
        if not guarantee.meets(budget):
            raise Infeasible(f"the account gives {guarantee}, not {budget}")
        return Calibrated(protocol, self.n, guarantee)

    def _composed(self, attempt: Attempt, shuffler: bool) -> Calibrated:
        """One round of ``rounds``, such that the ledger of all of them was evaluated and holds.

        Starts where Gaussian mechanisms would compose, with half of δ kept for the composition itself, and scales the
        ε of one round by what the ledger leaves or lacks.
        """
        budget, rounds = self.budget, self.rounds
        if rounds == 1:
            return attempt(budget)
        if budget.delta == 0:
            return attempt(Budget(budget.epsilon / rounds, 0.0))
        delta = budget.delta / (2 * rounds)
        signal = math.sqrt(self._kappa)
        epsilon = least_real(lambda e: gaussian_delta(signal, e) <= delta, 0.0, 700.0, relative=1e-3)
        found, spent = None, math.inf
        for _ in range(6):
            trial = attempt(Budget(epsilon, delta))
            ledger = Ledger().charge(
                trial.protocol,
                self.schema,
                self.n,
                rounds=rounds,
                honest_fraction=self.honest_fraction,
                shuffler=shuffler,
            )
            spent = ledger.epsilon(budget.delta)
            if spent <= budget.epsilon:
                found = trial
                if spent >= FAIR * budget.epsilon:
                    break
            epsilon *= min(2.0, 0.995 * budget.epsilon / spent) if math.isfinite(spent) else 0.5
        if found is None:
            raise Infeasible(f"{rounds} rounds spend ε = {spent:.4g}, more than {budget} allows")
        return found

    def _limited(self, found: Calibrated) -> Plan:
        protocol, schema = found.protocol, self.schema
        plan = Plan(
            schema=schema,
            n=self.n,
            protocol=protocol,
            guarantee=found.guarantee,
            stderr=predicted_stderr(schema, protocol, self.n),
            honest_fraction=self.honest_fraction,
        )
        flip_probability = protocol.q * (schema.width - 1) if protocol.sends_category else protocol.q
        if plan.messages > self.max_messages:
            raise Infeasible(f"it needs {plan.messages:.4g} messages per user, more than {self.max_messages:g}")
        if plan.upload > self.max_bytes:
            raise Infeasible(f"it needs {plan.upload:.4g} bytes per user, more than {self.max_bytes:g}")
        if flip_probability < self.min_q * (1 - 1e-12):
            raise Infeasible(f"it has a lie probability of {flip_probability:.4g}, less than {self.min_q:g}")
        return plan


def _users_distribution(mean: float, most: float) -> Fakes:
    trials = max(1, math.ceil(most))
    return Fakes.binomial(trials, min(max(mean, 1e-9) / trials, 1.0))
