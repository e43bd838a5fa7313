"""Certified odds of a plan: how often the best guess between two answers of one person is right, at most.

Of two equally likely answers, all else known, a guess is right with probability ½(1 + TV) = ½(1 + δ(0)). The curve of a
plan bounds δ(0) of one round in both orders; the cover of both orders is composed for all rounds. If shuffler and
analyzer collude, one person's messages remain, of pure ε: no such pair is further apart than two answers of randomized
response, δ(0) = (e^ε − 1)/(e^ε + 1) (Kairouz, Oh and Viswanath 2015).
"""

import math

from hubbub.accountant.ledger import composed
from hubbub.curves import NO_PRIVACY, PrivacyCurve
from hubbub.privacy import Odds, guess_rate

CERTAIN = 20.0
"""ε·√rounds from which on a guess from all messages of one person is taken as certain."""
LARGEST = 100.0
"""Pure ε of one round from which on it is."""


def certified_odds(curve: PrivacyCurve, rounds: int, collusion: float) -> Odds:
    """Return the odds of a plan with this curve of one round and this pure ε of one person's messages; errs upwards.

    >>> certified_odds(PrivacyCurve(((0.0, 0.08), (1.0, 1e-6))), 1, math.log(3)).collusion
    0.75
    >>> certified_odds(PrivacyCurve(((0.0, 0.5), (math.log(3), 0.0))), 2, math.inf).total     # ½(1 + ½): both, or one
    0.75000...
    """
    local = _local(collusion)
    many = collusion * math.sqrt(rounds) >= CERTAIN
    return Odds(
        round=guess_rate(curve.delta(0.0)),
        total=_rate(curve, rounds),
        collusion=guess_rate(local.delta(0.0)),
        collusion_total=1.0 if many else _rate(local, rounds),
    )


def _rate(curve: PrivacyCurve, rounds: int) -> float:
    one = curve.delta(0.0)
    if rounds == 1 or one in (0.0, 1.0):
        return guess_rate(one)
    apart = -math.expm1(rounds * math.log1p(-one))  # 1 − (1 − δ)^rounds, whatever the rest of the curve
    return guess_rate(min(composed(((curve, rounds),)).delta(0.0), apart * (1 + 1e-12)))


def _local(epsilon: float) -> PrivacyCurve:
    """Return the curve of randomized response between two answers, which is above that of every pair of pure ε."""
    if epsilon == 0.0:
        return PrivacyCurve(((0.0, 0.0),))
    if epsilon >= LARGEST:
        return NO_PRIVACY
    return PrivacyCurve(((0.0, min(1.0, math.tanh(epsilon / 2) * (1 + 1e-14))), (epsilon, 0.0)))
