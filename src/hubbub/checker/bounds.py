"""Bounds on δ with the honest parties that they need, and the pure ε of one user's messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, prod

from .crowds import TooMuchWork
from .document import Claim, Fakes
from .fixed import Masses, binomial, log_bounds, poisson

LARGEST_EPSILON = 2000
"""A larger ε is checked as if it were this one, which only raises δ."""
MAX_LIST = 10**6
EXACT_POWERS = 256
"""Largest sum of powers of likelihood ratios that is multiplied out; only such a product can equal a claimed ratio."""
MAX_BITS = 1024
"""Digits of the logarithms of larger powers beyond which a comparison is left undecided."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven upper bound on δ and, where an attack is evaluated as well, a lower one."""

    upper: Fraction
    method: str
    honest: int
    """Honest users needed, including the protected one."""
    shuffler: bool = True
    """True if the shuffler must be honest."""
    fakes: bool = False
    """True if the shuffler must draw its fakes as planned."""
    lower: Fraction = Fraction(0)


def exceeds_pure(epsilon: Fraction | None, odds: Sequence[tuple[Fraction, int]]) -> bool:
    """Return True if e^ε ≥ the product of all ratio^power ≥ 1, decided without tolerance.

    No e^ε is rational unless ε = 0, so that enough digits of the logarithms always decide.

    >>> exceeds_pure(Fraction(11, 10), [(Fraction(3), 1)]), exceeds_pure(Fraction(10, 10), [(Fraction(3), 1)])
    (True, False)
    """
    if epsilon is None:
        return True
    if all(ratio <= 1 for ratio, _ in odds):
        return True
    bits = 128
    while True:
        logs = [(log_bounds(ratio, bits), power) for ratio, power in odds]
        if epsilon * 2**bits >= sum(power * high for (_, high), power in logs):
            return True
        if epsilon * 2**bits < sum(power * low for (low, _), power in logs):
            return False
        bits *= 2


def exceeds_ratio(bound: Fraction, odds: Sequence[tuple[Fraction, int]]) -> bool | None:
    """Return whether the product of all ratio^power ≥ 1 is above a ratio of at least 1; None if that is not decided.

    >>> three = Fraction(3)
    >>> exceeds_ratio(three, [(three, 1)]), exceeds_ratio(three, [(three, 2)]), exceeds_ratio(three, [(three, 10**12)])
    (False, True, True)
    """
    if sum(power for _, power in odds) <= EXACT_POWERS:
        return prod((ratio**power for ratio, power in odds), start=Fraction(1)) > bound
    bits = 128
    while bits <= MAX_BITS:
        logs, (least, most) = [(log_bounds(ratio, bits), power) for ratio, power in odds], log_bounds(bound, bits)
        if sum(power * low for (low, _), power in logs) > most:
            return True
        if sum(power * high for (_, high), power in logs) <= least:
            return False
        bits *= 2
    return None


def odds(claim: Claim) -> list[tuple[Fraction, int]]:
    """Return pairs (r, c) such that one user's messages are Σ c·ln(r)-private on their own; for flips above 0.

    [000 Prop 5.1], Warner 1965. Those of the attributes of a survey add up.
    """
    if claim.answers:
        return [
            ((1 - (one.size - 1) * one.noise.flip) / one.noise.flip, one.times)
            if claim.release == "category"
            else ((1 - one.noise.flip) / one.noise.flip, 2 * one.times)
            for one in claim.answers
        ]
    q = claim.flip
    if claim.release == "category":
        return [((1 - (claim.width - 1) * q) / q, 1)]
    return [((1 - q) / q, claim.copies * claim.distance)]


def fakes_sent(drawn: Fakes, users: int, share: Fraction, bits: int) -> Masses:
    """Return the distribution of the fakes of that many users, each counted with probability ``share``."""
    total = users * drawn.shift if drawn.name == "binomial" else users
    mean = total * share * drawn.scale
    if isqrt(int(mean)) > MAX_LIST // 40:
        raise TooMuchWork
    return poisson(mean, bits) if drawn.name == "poisson" else binomial(total, share * drawn.scale, bits)
