"""Certified odds of a plan: how often the best guess between two answers of one person is right, at most.

Of two equally likely answers, all else known, a guess is right with probability ½(1 + TV) = ½(1 + δ(0)). The curve of a
plan bounds δ(0) of one round in both orders; the cover of both orders is composed for all rounds. If shuffler and
analyzer collude, one person's messages remain, of pure ε: no such pair is further apart than two answers of randomized
response, δ(0) = (e^ε − 1)/(e^ε + 1) (Kairouz, Oh and Viswanath 2015).
"""

import math

from hubbub.accountant.ledger import composed
from hubbub.model.curves import NO_PRIVACY, PrivacyCurve
from hubbub.model.plans import distance_of_rounds, pure_distance
from hubbub.model.privacy import Odds, guess_rate

CERTAIN = 20.0
"""ε·√rounds from which on a guess from all messages of one person is taken as certain."""
LARGEST = 100.0
"""Pure ε of one round from which on it is."""


def certified_odds(curve: PrivacyCurve, rounds: int, collusion: float) -> Odds:
    """Return the odds of a plan with this curve of one round and this pure ε of one person's messages; errs upwards.

    >>> certified_odds(PrivacyCurve(((0.0, 0.08), (1.0, 1e-6))), 1, math.log(3)).local
    0.750003
    """
    return Odds(**{name: guess_rate(delta) for name, delta in distances(curve, rounds, collusion).items()})


def distances(curve: PrivacyCurve, rounds: int, collusion: float) -> dict[str, float]:
    """Return δ(0) behind each of the odds; errs upwards.

    >>> two = distances(PrivacyCurve(((0.0, 0.5), (math.log(3), 0.0))), 2, math.inf)
    >>> two["round"], round(two["total"], 2)     # randomized response: a second answer does not help
    (0.5, 0.5)
    """
    local = _local(collusion)
    certain = collusion * math.sqrt(rounds) >= CERTAIN
    return {
        "round": curve.delta(0.0),
        "total": _composed(curve, rounds),
        "local": local.delta(0.0),
        "local_total": 1.0 if certain else _composed(local, rounds),
    }


def _composed(curve: PrivacyCurve, rounds: int) -> float:
    one = curve.delta(0.0)
    if rounds == 1 or one in (0.0, 1.0):
        return one
    return min(distance_of_rounds(one, rounds), composed(((curve, rounds),)).delta(0.0))


def _local(epsilon: float) -> PrivacyCurve:
    """Return the curve of randomized response between two answers, which is above that of every pair of pure ε."""
    if epsilon == 0.0:
        return PrivacyCurve(((0.0, 0.0),))
    if epsilon >= LARGEST:
        return NO_PRIVACY
    return PrivacyCurve(((0.0, pure_distance(epsilon)), (epsilon, 0.0)))
