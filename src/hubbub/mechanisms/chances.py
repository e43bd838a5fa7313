"""The chance that a string is shown, by the number of people who hold it."""

import functools

from hubbub.errors import OPEN_UNIT, check_real, check_type, check_whole, reject
from hubbub.model.fakes import Fakes
from hubbub.model.plans import Plan
from hubbub.numeric.shown import Floats, cumulative, shown, smallest_shown


@functools.lru_cache(maxsize=64)
def table(drawn: Fakes) -> Floats:
    """Return the probabilities that counts 0, 1, … are shown."""
    found = cumulative(drawn.pmf)
    found.setflags(write=False)
    return found


def chance_shown(plan: Plan, count: int) -> float:
    """Return the probability that a string that ``count`` people hold is shown: P(Z < count).

    A string that nobody holds is never shown, and one of a single person at most with probability δ.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> protocol = Protocol(0, m=Fakes.laplace(2.0, 35), release="strings")
    >>> plan = plan_from(Schema.strings(), 1000, protocol, epsilon=1.0)
    >>> chance_shown(plan, 0), chance_shown(plan, 1) <= plan.guarantee.delta, round(chance_shown(plan, 41), 3)
    (0.0, True, 0.969)
    """
    return shown(table(drawn_by(plan)), check_whole("count", count))


def count_shown(plan: Plan, probability: float = 0.5) -> int:
    """Return the smallest number of people whose string is shown with at least this probability.

    >>> from hubbub.planner import plan
    >>> from hubbub.model.schema import Schema
    >>> chosen = plan(Schema.strings(), 10**6, epsilon=1.0, delta=1e-8, trust="shuffler-noise")
    >>> count_shown(chosen), count_shown(chosen, 0.95)
    (36, 41)
    """
    return smallest_shown(table(drawn_by(plan)), check_real("probability", probability, OPEN_UNIT))


def drawn_by(plan: Plan) -> Fakes:
    """Return the distribution that the shuffler of a plan for strings subtracts from every count."""
    drawn = check_type("plan", plan, Plan).protocol
    if not drawn.sends_strings or drawn.shuffler_fakes is None:
        reject("the plan", "be one for strings that nobody listed, made for Schema.strings")
    return drawn.shuffler_fakes
