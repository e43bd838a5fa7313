"""Compromised users against strings: what the analyzer learns about one person's string by sending it as well.

The shuffler passes on strings with numbers of people. Compromised users who send the target's string raise its count by
a number that the analyzer knows, which changes nothing. If the shuffler passed on people's own sealed values instead,
c − Z of c, the analyzer would recognize those of its users, and would see all honest ones but a share of Z.
"""

import math
from collections import defaultdict
from collections.abc import Mapping

from hubbub.errors import check_epsilon, check_whole
from hubbub.mechanisms.chances import drawn_by
from hubbub.model.plans import Plan


def counts_delta(plan: Plan, compromised: int, epsilon: float) -> float:
    """Return the δ(ε) of the analyzer with this many users who send the target's string: numbers are passed on.

    The target holds the string, or another one that nobody else holds.

    >>> from hubbub import Fakes, Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.strings(), 2000, Protocol(0, m=Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0)
    >>> counts_delta(plan, 100, 1.0) <= plan.guarantee.delta
    True
    """
    own, pmf = check_whole("compromised", compromised), drawn_by(plan).pmf.tolist()
    rows: list[dict[tuple[int, int], float]] = []
    for ours, other in ((own + 1, 0), (own, 1)):
        one, two = _shown(ours, pmf), _shown(other, pmf)
        rows.append({(i, j): p * q for i, p in one.items() for j, q in two.items()})
    return _largest(rows[0], rows[1], check_epsilon(epsilon))


def values_delta(plan: Plan, compromised: int, epsilon: float) -> float:
    """Return the same δ(ε) if the shuffler passed on c − Z of the people's own sealed values: the control.

    >>> from hubbub import Fakes, Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.strings(), 2000, Protocol(0, m=Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0)
    >>> round(values_delta(plan, 100, 1.0), 2)
    0.65
    """
    own, pmf = check_whole("compromised", compromised), drawn_by(plan).pmf.tolist()
    return _largest(_chosen(1, own, pmf), _chosen(0, own, pmf), check_epsilon(epsilon))


def _shown(count: int, pmf: list[float]) -> dict[int, float]:
    """Return the distribution of max(0, count − Z)."""
    found: dict[int, float] = defaultdict(float)
    for number, probability in enumerate(pmf):
        found[max(0, count - number)] += probability
    return found


def _chosen(honest: int, own: int, pmf: list[float]) -> dict[tuple[int, int], float]:
    """Return the distribution of the honest and the recognized values among c − Z of c that are chosen uniformly."""
    count = honest + own
    found: dict[tuple[int, int], float] = defaultdict(float)
    for number, probability in enumerate(pmf[:count]):
        left = count - number
        for one in range(max(0, left - own), min(honest, left) + 1):
            ways = math.comb(honest, one) * math.comb(own, left - one) / math.comb(count, left)
            found[one, left - one] += probability * ways
    found[0, 0] += math.fsum(pmf[count:])
    return found


def _largest(first: Mapping[tuple[int, int], float], second: Mapping[tuple[int, int], float], epsilon: float) -> float:
    """Return the larger of both orders of Σ (P − e^ε·Q)⁺."""
    factor, outcomes = math.exp(epsilon), {*first, *second}

    def gain(one: Mapping[tuple[int, int], float], two: Mapping[tuple[int, int], float]) -> float:
        return math.fsum(max(0.0, one.get(key, 0.0) - factor * two.get(key, 0.0)) for key in outcomes)

    return max(gain(first, second), gain(second, first))
