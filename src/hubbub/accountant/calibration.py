"""``calibrate``: the smallest noise, or the smallest collection, that meets a budget, verified by a final account."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hubbub.accountant.accounting import curve, honest_users, prove, with_attack
from hubbub.accountant.analysis import MARGIN, Analysis, log, proven_epsilon
from hubbub.accountant.cases.local import collusion, local_analysis
from hubbub.accountant.gaussian_limit import likely_flip, likely_loss, likely_people
from hubbub.accountant.theorems import split
from hubbub.errors import Infeasible, Interval, check_choice, check_real, check_type, check_whole, reject
from hubbub.model.plans import MAX_PEOPLE
from hubbub.model.privacy import TRUST_MODELS, Budget, Guarantee, TrustModel
from hubbub.model.protocol import GRID, Fakes, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.numeric.inversion import Bend, compressed, falling_root, gaussian_tail, least_whole

CLOSE = 5e-4  # largest relative distance of the returned q from the smallest one
SMALLEST_FLIP = 1e-12
SMALL = 1000  # number of people up to which the smallest n is found exactly
MAX_FAKES = 10**10
CORRECTIONS = 5  # certificates that correct the estimate of split bits before they guide the search alone
STEP = 1.01  # factor by which a parameter is changed to find how fast the estimate falls
MANY = 64  # positions from which on these estimates are coarser: their cost grows with the number
MAX_ATTACK_DISTANCE = 8  # Hamming distance up to which an attack guides the search for split bits


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
    trust: TrustModel = "shuffler-noise",
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
    found = draft(
        schema, n, budget, q=q, m=m, k=k, release=release, honest_fraction=honest_fraction, trust=trust, max_q=max_q
    )
    guarantee = with_attack(found.guarantee, found.protocol, schema, honest_fraction=honest_fraction, trust=trust)
    return replace(found, guarantee=guarantee)


def draft(
    schema: Schema,
    n: int | None,
    budget: Budget,
    *,
    q: float | None = None,
    m: int | Fakes | None = 0,
    k: int = 1,
    release: Release = "records",
    honest_fraction: float = 1.0,
    trust: TrustModel = "shuffler-noise",
    max_q: float = 0.5,
) -> Calibrated:
    """Return the result of :func:`calibrate`, its guarantee without the attack: for the trials of a search."""
    if check_type("schema", schema, Schema).named:
        reject("schema", "have one noise for all labels; hubbub.plan finds that of every question of a survey")
    check_type("budget", budget, Budget)
    check_choice("trust", trust, TRUST_MODELS)
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
    trust: TrustModel

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

    def local_excess(self, protocol: Protocol) -> float:
        """Return the excess of one user's messages alone, which is the pure ε minus that of the budget if δ = 0."""
        analysis = local_analysis(protocol, self.schema)
        if self.budget.epsilon >= analysis.pure:
            return -math.inf
        if self.budget.delta == 0.0:
            return analysis.pure - self.budget.epsilon
        return analysis.upper(self.budget.epsilon) - self.goal

    def result(self, protocol: Protocol, n: int) -> Calibrated:
        """Return the value found after a final certificate, which must meet the budget."""
        epsilon, share = self.budget.epsilon, self.honest_fraction
        guarantee = prove(protocol, self.schema, n, epsilon=epsilon, honest_fraction=share, trust=self.trust)
        if not guarantee.meets(self.budget):
            figures = f"({guarantee.epsilon:.6g}, {guarantee.delta:.3g})-DP"
            raise Infeasible(f"the final certificate gives {figures}, which does not meet {self.budget}")
        return Calibrated(protocol, n, guarantee)

    def best_epsilon(self, protocol: Protocol, n: int) -> float:
        """Return the ε that a protocol proves at the δ of the budget, without the search for an attack."""
        return proven_epsilon(self.curve(protocol, n), self.budget.delta)

    def smallest_q(self, protocol: Protocol, n: int, limit: float) -> Protocol:
        """Return the protocol with the smallest q; the flips that need no crowd come first, because they cost little.

        The search is in the odds q/(1 − 2q), or q/(1 − dq) for d categories: they resolve small q, and also the last q
        before the uniform point, where the error grows without bound.
        """
        choices = self.schema.width if protocol.sends_category else 2
        top = min(limit, 1 / choices) * (1 - 2**-40)

        def flipped(odds: float) -> Protocol:
            return protocol.changed(q=min(max(odds / (1 + choices * odds), SMALLEST_FLIP), top))

        def odds_of(q: float) -> float:
            q = min(q, top)
            return q / (1 - choices * q)

        def root(
            excess: Callable[[Protocol], float], guess: float, most: float, stride: float = 1.25, close: float = CLOSE
        ) -> float:
            start = min(odds_of(guess), most)
            return falling_root(
                lambda odds: excess(flipped(odds)), start, most, relative=close, bend=self.bend, stride=stride
            )[1]

        alone = protocol.changed(release="bits") if protocol.sends_records else protocol
        most = root(self.local_excess, likely_flip(alone, self.schema, 1, self.budget), odds_of(top))
        if self.trust == "nobody" and math.isfinite(most):
            return flipped(most)
        # A crowd is searched below the flips that need none, if it gains anything there.
        ceiling = min(most * (1 - CLOSE), odds_of(top))
        guess, stride = likely_flip(protocol, self.schema, n, self.budget), 1.25
        likely = self.estimated(protocol) and math.isfinite(
            self.likely_excess(flipped(min(odds_of(guess), ceiling)), n)
        )
        attacked = protocol.sends_bits and 1 < self.schema.distance <= MAX_ATTACK_DISTANCE and self.budget.delta > 1e-15
        guided = False
        if likely:
            near = root(lambda one: self.likely_excess(one, n), guess, ceiling)
            guided = near < 0.9 * ceiling
            if guided:
                close, safe = _corrected(
                    lambda odds: self.excess(flipped(odds), n),
                    lambda odds: self.likely_excess(flipped(odds), n),
                    near,
                    ceiling,
                )
                if close:
                    return flipped(safe)
                guess, stride = flipped(safe).q, 1.004
        elif attacked and self.trust != "nobody":
            # The attack costs a fraction of the certificate, which lies a few thousandths above it.
            near = root(lambda one: self.curve(one, n).lower(self.budget.epsilon) - self.goal, guess, ceiling)
            guess, stride = 1.004 * flipped(min(near, ceiling)).q, 1.01
            guided = near < 0.9 * ceiling
        if self.trust == "nobody" or (not guided and self.excess(flipped(ceiling), n) > 0):
            if math.isfinite(most):
                return flipped(most)
            best = self.best_epsilon(flipped(ceiling), n)
            raise Infeasible(
                f"{self.budget} needs a flip probability above {limit:.4g} at n = {n:,}; "
                f"with q = {top:.4g} the best ε is {best:.4g}"
            )
        found = root(lambda one: self.excess(one, n), guess, ceiling, stride)
        return flipped(min(found, most, odds_of(top)))

    def estimated(self, protocol: Protocol) -> bool:
        """Return True if the excess may be estimated: for split bits among no fakes, if users trust the shuffler."""
        split_bits = protocol.sends_bits and protocol.m == 0 and self.schema.distance > 1
        return split_bits and self.trust != "nobody" and self.budget.delta > 1e-15

    def likely_excess(self, protocol: Protocol, n: int) -> float:
        """Return about the excess of split bits, by homogeneous crowds; ∞ where they are not nearly Gaussian."""
        q, k, count = protocol.q, protocol.k, self.schema.distance
        honest, points = honest_users(n, self.honest_fraction), 60 if count > MANY else 120
        loss = likely_loss(
            lambda x: split.homogeneous_delta(honest, q, k, x), split.spread(honest, q, k), count, grid=points
        )
        return math.inf if loss is None else log(loss.delta(self.budget.epsilon)) - self.goal

    def smallest_m(self, protocol: Protocol, n: int) -> Protocol:
        def holds(m: int) -> bool:
            return not (protocol.clear and m == 0) and self.excess(protocol.changed(m=m), n) <= 0

        try:
            return protocol.changed(m=least_whole(holds, 0, MAX_FAKES))
        except Infeasible:
            raise Infeasible(f"no number of fakes up to {MAX_FAKES:,} meets {self.budget} for {self.schema}") from None

    def smallest_shift(self, protocol: Protocol, n: int) -> Protocol:
        fakes = protocol.shuffler_fakes
        assert fakes is not None

        def holds(shift: int) -> bool:
            return self.excess(protocol.changed(m=replace(fakes, shift=shift)), n) <= 0

        try:
            shift = least_whole(holds, 0, math.ceil(100 * fakes.scale) + 100)
        except Infeasible:
            raise Infeasible(
                f"no shift makes {fakes.distribution} fakes of scale {fakes.scale:g} meet {self.budget}; "
                "try a larger scale"
            ) from None
        return protocol.changed(m=replace(fakes, shift=shift))

    def smallest_n(self, protocol: Protocol) -> int:
        def excess(n: float) -> float:
            return self.excess(protocol, math.floor(n))

        def likely(n: float) -> float:
            return self.likely_excess(protocol, math.floor(n))

        guess, stride = min(max(likely_people(protocol, self.schema, self.budget), SMALL), MAX_PEOPLE), 1.25
        if self.estimated(protocol) and math.isfinite(likely(guess)):
            near = falling_root(likely, guess, MAX_PEOPLE, relative=CLOSE, bend=self.bend)[1]
            if 2 * SMALL < near < MAX_PEOPLE / 2:
                close, people = _corrected(excess, likely, near, MAX_PEOPLE)
                if close:
                    return math.floor(people)
                guess, stride = people, 1.004
        if excess(SMALL) <= 0:
            return least_whole(lambda n: excess(n) <= 0, 1, SMALL)
        people = falling_root(excess, guess, float(MAX_PEOPLE), relative=CLOSE, stride=stride)[1]
        if math.isinf(people):
            best = self.best_epsilon(protocol, MAX_PEOPLE)
            raise Infeasible(
                f"no collection of up to {MAX_PEOPLE:,} people meets {self.budget} with {protocol}; "
                f"the best ε is {best:.4g}"
            )
        return math.floor(people)


def _corrected(
    excess: Callable[[float], float], likely: Callable[[float], float], near: float, top: float
) -> tuple[bool, float]:
    """Return a parameter up to ``top`` that meets the budget, close to the smallest, starting at an estimate of it.

    A certificate tells by how much the estimate is too low, and the estimate how fast certificates fall. These are not
    quite smooth: if few of them do not suffice, the result is (False, a better guess).
    """
    slope = (likely(near) - likely(near * STEP)) / math.log(STEP)  # of the excess, in the logarithm of the parameter
    if not 0.0 < slope < math.inf:
        return False, near
    a, b, x = 0.0, math.inf, near
    for step in range(CORRECTIONS):
        found = excess(x)
        a, b = (a, x) if found <= 0 else (x, b)
        if found <= 0 < found + slope * CLOSE or (b < math.inf and b - a <= 2 * CLOSE * b):
            return True, b
        x = min(x * math.exp(min(max(found / slope, -0.1), 0.1)) * (1 + CLOSE / 4), top)
        if a > 0.0 and b < math.inf and (step == CORRECTIONS - 2 or not a < x < b):
            x = math.sqrt(a * b)  # halves the bracket of a certificate that jumps
        elif not a < x < b:
            break
    return False, min(b, max(a, near))
