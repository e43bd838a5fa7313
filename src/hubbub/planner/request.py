"""``Request``: the schema, batch size, budget and constraints of a plan, validated once."""

import math
from dataclasses import dataclass, fields
from typing import Self, TypedDict, Unpack

from hubbub.bundles import bundle_size
from hubbub.errors import CLEAR_OR_FLIPPED, SHARE, Interval, check_real, check_type, check_whole, reject
from hubbub.numeric.divergences import gaussian_signal
from hubbub.plans import MAX_PEOPLE
from hubbub.privacy import Budget
from hubbub.schema import Schema

MAX_EPSILON = 30.0
"""Largest ε of the search; a larger budget buys no smaller error."""
MAX_ROUNDS = 10**6
MESSAGES = Interval(1.0, math.inf)
BYTES = Interval(float(bundle_size(1, 1)), math.inf)
"""Limits on the upload: no sealed bundle is smaller than one slot with a payload of one byte."""


class Constraints(TypedDict, total=False):
    """The constraints that :func:`plan`, :func:`frontier`, :func:`smallest_n` and :func:`best_epsilon` accept."""

    honest_fraction: float
    """Fraction of users that follow the protocol; the guarantee counts on no others. Default 1."""
    shuffler_fakes: bool
    """Allow fakes that the shuffler draws. Default True."""
    joint: bool
    """Require whole records, which joint tables need. Default False."""
    max_messages: float
    """Largest number of messages in the sealed bundle of a user, fillers included. Default unlimited."""
    max_bytes: float
    """Largest size of the sealed bundle of a user. Default unlimited."""
    min_q: float
    """Smallest flip probability of a bit, or of a category, that a policy requires. Default 0."""
    rounds: int
    """Number of collections from the same people that share the budget. Default 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A validated request for a plan; :class:`Constraints` describes the optional fields."""

    schema: Schema
    n: int
    """Minimum batch size."""
    budget: Budget
    honest_fraction: float = 1.0
    shuffler_fakes: bool = True
    joint: bool = False
    max_messages: float = math.inf
    max_bytes: float = math.inf
    min_q: float = 0.0
    rounds: int = 1

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        check_type("budget", self.budget, Budget)
        check_type("shuffler_fakes", self.shuffler_fakes, bool)
        check_type("joint", self.joint, bool)
        for name, value in (
            ("n", check_whole("n", self.n, 1, MAX_PEOPLE)),
            ("honest_fraction", check_real("honest_fraction", self.honest_fraction, SHARE)),
            ("max_messages", check_real("max_messages", self.max_messages, MESSAGES)),
            ("max_bytes", check_real("max_bytes", self.max_bytes, BYTES)),
            ("min_q", check_real("min_q", self.min_q, CLEAR_OR_FLIPPED)),
            ("rounds", check_whole("rounds", self.rounds, 1, MAX_ROUNDS)),
            ("budget", Budget(min(self.budget.epsilon, MAX_EPSILON), self.budget.delta)),
        ):
            object.__setattr__(self, name, value)

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
        return gaussian_signal(self.budget.epsilon, self.budget.delta) ** 2 / self.rounds


def _smallest(n: int | tuple[int, int]) -> int:
    if not isinstance(n, tuple | list):
        return check_whole("n", n, 1, MAX_PEOPLE)
    if len(n) != 2:
        reject("n", "be a number of people or a range (low, high)", n)
    low, high = (check_whole("n", end, 1, MAX_PEOPLE) for end in n)
    if low > high:
        reject("n", "be a range with low ≤ high", n)
    return low
