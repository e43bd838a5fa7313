"""``Request``: the schema, batch size, budget, trust and constraints of a plan, validated once."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Self, TypedDict, Unpack

from hubbub.accountant.cases.local import collusion
from hubbub.errors import (
    CLEAR_OR_FLIPPED,
    SHARE,
    Infeasible,
    Interval,
    check_choice,
    check_real,
    check_type,
    check_whole,
    kind_of,
    reject,
)
from hubbub.model.plans import MAX_PEOPLE
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_signal
from hubbub.wire.bundles import bundle_size

MAX_EPSILON = 30.0
"""Largest ε of the search; a larger budget buys no smaller error."""
MAX_ROUNDS = 10**6
WEIGHT = Interval(1e-6, 1e6)
MESSAGES = Interval(1.0, math.inf)
BYTES = Interval(float(bundle_size(1, 1)), math.inf)
"""Limits on the upload: no sealed bundle is smaller than one slot with a payload of one byte."""
COLLUSION = Interval(0.0, math.inf, open_low=True)


class Limits(TypedDict, total=False):
    """The constraints of a plan besides the trust."""

    clear: bool
    """Allow records in the clear among users' fakes under the trust "shuffling"; "shuffler-noise" allows clear records
    in any case, and "nobody" in none. Default False."""
    max_collusion_epsilon: float
    """Largest pure ε, over all rounds together, of everything one user sent if shuffler and analyzer collude. Default
    unlimited."""
    honest_fraction: float
    """Fraction of users that follow the protocol; the guarantee counts on no others. Default 1."""
    joint: bool
    """Require whole records, which joint tables need. Default False."""
    max_messages: float
    """Largest number of messages in the sealed bundle of a user, fillers included. Default unlimited."""
    max_bytes: float
    """Largest size of the sealed bundle of a user. Default unlimited."""
    max_client_weight: float
    """Largest number of people that one malicious device may count for on one label
    (:func:`hubbub.planner.client_weight`). Default unlimited."""
    min_q: float
    """Smallest flip probability of a bit, or of a category, that a policy requires. Default 0."""
    rounds: int
    """Number of collections from the same people that share the budget. Default 1."""
    weights: Mapping[str, float]
    """Importance of the squared error of each question of a survey, by name. Default 1 for each."""


class Constraints(Limits, total=False):
    """The constraints that :func:`plan` and :func:`solve` accept."""

    trust: TrustModel
    """The parties that must be honest for the guarantee to hold: "nobody"; the shuffler, which mixes, and the users,
    who add noise ("shuffling"); or a shuffler that also draws fakes as planned and keeps their number secret
    ("shuffler-noise"). Default "shuffling"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A validated request for a plan; :class:`Constraints` describes the optional fields."""

    schema: Schema
    n: int
    """Minimum batch size."""
    budget: Budget
    trust: TrustModel = "shuffling"
    clear: bool = False
    max_collusion_epsilon: float = math.inf
    honest_fraction: float = 1.0
    joint: bool = False
    max_messages: float = math.inf
    max_bytes: float = math.inf
    max_client_weight: float = math.inf
    min_q: float = 0.0
    rounds: int = 1
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        check_type("budget", self.budget, Budget)
        check_choice("trust", self.trust, TRUST_MODELS)
        check_type("clear", self.clear, bool)
        check_type("joint", self.joint, bool)
        for name, value in (
            ("n", check_whole("n", self.n, 1, MAX_PEOPLE)),
            ("max_collusion_epsilon", check_real("max_collusion_epsilon", self.max_collusion_epsilon, COLLUSION)),
            ("honest_fraction", check_real("honest_fraction", self.honest_fraction, SHARE)),
            ("max_messages", check_real("max_messages", self.max_messages, MESSAGES)),
            ("max_bytes", check_real("max_bytes", self.max_bytes, BYTES)),
            ("max_client_weight", check_real("max_client_weight", self.max_client_weight, MESSAGES)),
            ("min_q", check_real("min_q", self.min_q, CLEAR_OR_FLIPPED)),
            ("rounds", check_whole("rounds", self.rounds, 1, MAX_ROUNDS)),
            ("budget", Budget(min(self.budget.epsilon, MAX_EPSILON), self.budget.delta)),
        ):
            object.__setattr__(self, name, value)
        self._check_weights()

    def _check_weights(self) -> None:
        names = self.schema.questions.names if self.schema.named else ()
        if not isinstance(self.weights, Mapping):
            reject("weights", f"be a mapping from questions to numbers, not {kind_of(self.weights)}")
        for name, weight in self.weights.items():
            if name not in names:
                wrong = f"name questions of the survey, but {name!r:.60} is none"
                reject("weights", wrong if names else "be given for surveys only")
            check_real(f"the weight of {name!r}", weight, WEIGHT)

    @classmethod
    def of(cls, schema: Schema, n: int | tuple[int, int], budget: Budget, **constraints: Unpack[Constraints]) -> Self:
        """Return the request for n people, or for the smallest batch of a range (low, high).

        >>> Request.of(Schema.bits(1), (100, 1000), Budget(1.0, 1e-6), rounds=4).n
        100
        """
        known = [one.name for one in fields(cls)[3:]]
        unknown = sorted(set(constraints) - set(known))
        if unknown:
            raise TypeError(f"{unknown[0]!r} is not a constraint; the constraints are {', '.join(known)}")
        return cls(schema=schema, n=_smallest(n), budget=budget, **constraints)

    @property
    def honest_users(self) -> float:
        """Expected number of users that follow the protocol."""
        return self.n * self.honest_fraction

    @property
    def signal(self) -> float:
        """Squared signal κ of one round: (μ of a Gaussian mechanism that meets the budget)²/rounds."""
        return _signal(self.budget.epsilon, self.budget.delta) ** 2 / self.rounds

    @property
    def needs_flips(self) -> bool:
        """True if a policy requires that every record is flipped, so that no record may be sent in the clear."""
        return self.min_q > 0 or math.isfinite(self.max_collusion_epsilon)

    @property
    def allows_clear(self) -> bool:
        """True if records may be sent in the clear, hidden only by fakes."""
        return not self.needs_flips and (self.trust == "shuffler-noise" or (self.trust == "shuffling" and self.clear))

    def required_flip(self, k: int = 1, release: Release = "records") -> float:
        """Return the smallest q of a protocol that ``min_q`` and ``max_collusion_epsilon`` allow, 0 if any is allowed.

        For ε = ``max_collusion_epsilon``/rounds, h differing bits and k copies: q = 1/(1 + e^(ε/(kh))); for d
        categories, q = 1/(e^ε + d − 1). Rounded up until the accountant's collusion ε is at most the maximum.

        >>> round(Request.of(Schema.bits(1), 9, Budget(1.0, 0.0), max_collusion_epsilon=2).required_flip(), 4)
        0.1192
        """
        category = release == "category"
        policy = self.min_q / (self.schema.width - 1) if category else self.min_q
        if math.isinf(self.max_collusion_epsilon):
            return policy
        limit = self.max_collusion_epsilon / self.rounds
        loss = min(limit if category else limit / (k * self.schema.distance), 600.0)
        units = math.ceil(GRID / (math.exp(loss) + (self.schema.width - 1 if category else 1)))
        for _ in range(64):  # the closed form is right to a few units of the grid of flip probabilities
            if 2 * units >= GRID or (category and units * self.schema.width >= GRID):
                break
            protocol = Protocol(max(units, 1) / GRID, k, 0, release)
            if collusion(protocol, self.schema) * self.rounds <= self.max_collusion_epsilon:
                return max(policy, protocol.q)
            units += 1 + units // 2**45
        raise Infeasible(
            f"a collusion ε of {self.max_collusion_epsilon:g} leaves no information about one user; "
            "raise max_collusion_epsilon"
        )


@functools.lru_cache(maxsize=1024)
def _signal(epsilon: float, delta: float) -> float:
    """Return the μ of a Gaussian mechanism: a root that every family of a request needs several times."""
    return gaussian_signal(epsilon, delta)


def given_budget(budget: Budget | None, epsilon: float | None, delta: float | None) -> Budget:
    """Return the budget, given as one object or as its two numbers.

    >>> given_budget(None, 1.0, 1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    """
    if budget is not None:
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if value is not None:
                reject(name, "be omitted if a budget is given")
        return check_type("budget", budget, Budget)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is None:
            reject(name, "be given if no budget is given")
    assert epsilon is not None
    assert delta is not None
    return Budget(epsilon, delta)


def _smallest(n: int | tuple[int, int]) -> int:
    if not isinstance(n, tuple | list):
        return check_whole("n", n, 1, MAX_PEOPLE)
    if len(n) != 2:
        reject("n", "be a number of people or a range (low, high)", n)
    low, high = (check_whole("n", end, 1, MAX_PEOPLE) for end in n)
    if low > high:
        reject("n", "be a range with low ≤ high", n)
    return low
