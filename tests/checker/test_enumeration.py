"""No bound of the checker is below the truth of a tiny collection, and no attack is above it."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.checker.enumeration import claim, truth

from hubbub.checker.document import Claim, Fakes
from hubbub.checker.fixed import exp_bounds
from hubbub.checker.theorems import theorems

BITS = 160
EPSILONS = ["1/5", *(pytest.param(value, marks=pytest.mark.slow) for value in ("0", "1/1000", "7/10", "3/2", "11/5"))]
THIN = Fakes("binomial", Fraction(3, 10), 2)

CASES = [
    (claim("bits", 1, 1, 1, "1/4"), True),
    (claim("bits", 1, 1, 5, "1/4"), True),
    (claim("bits", 1, 1, 8, "1/50"), True),
    (claim("bits", 1, 1, 6, "9/20"), True),
    (claim("bits", 1, 1, 3, "1/5", copies=3), True),
    (claim("bits", 1, 1, 3, "1/5", fakes=4), True),
    (claim("bits", 1, 1, 5, "1/50", fakes=1), True),
    (claim("bits", 1, 1, 2, "1/5", copies=2, fakes=2), True),
    (claim("bits", 1, 1, 3, "1/5", fakes=THIN), False),
    (claim("bits", 2, 2, 3, "1/4", release="bits"), False),
    (claim("one_hot", 3, 1, 3, "1/10", release="bits"), False),
    (claim("at_most", 3, 1, 2, "1/5", release="bits"), False),
    (claim("bits", 2, 2, 2, "1/4", release="bits", copies=2), False),
    (claim("bits", 2, 2, 2, "1/4", release="bits", fakes=2), False),
    (claim("bits", 2, 2, 2, "1/10", release="bits", copies=2, fakes=1), False),
    (claim("at_most", 2, 2, 2, "1/10", release="bits", fakes=3), False),
    (claim("one_hot", 3, 1, 2, "1/10", release="bits", fakes=3), False),
    (claim("one_hot", 2, 1, 4, "1/5", release="category"), True),
    (claim("one_hot", 3, 1, 4, "1/10", release="category"), False),
    (claim("one_hot", 4, 1, 3, "6/25", release="category"), False),
    (claim("bits", 2, 2, 3, "1/4"), False),
    (claim("one_hot", 3, 1, 3, "1/5"), False),
    (claim("at_most", 2, 1, 3, "1/3"), False),
    (claim("bits", 2, 2, 2, "1/3", copies=2), False),
    (claim("bits", 2, 2, 2, "1/3", fakes=2), False),
    (claim("one_hot", 3, 1, 2, "0", fakes=6), True),
    (claim("bits", 2, 2, 2, "0", fakes=4), True),
    (claim("bits", 2, 2, 2, "0", fakes=4, release="bits"), False),
    (claim("at_most", 2, 1, 2, "0", fakes=4, release="bits"), False),
    (claim("one_hot", 3, 1, 3, "0", fakes=THIN), True),
    (claim("bits", 2, 2, 1, "1/4", shuffler=False), True),
    (claim("one_hot", 3, 1, 1, "1/4", copies=2, shuffler=False), True),
    (claim("one_hot", 4, 1, 1, "1/6", release="category", shuffler=False), True),
]
"""Claims, and whether an attack on them is known."""


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("case", "attacks"), CASES)
def test_bounds_enclose_the_truth(case: Claim, attacks: bool, epsilon: str) -> None:
    low, high = exp_bounds(Fraction(epsilon), BITS)
    exact = truth(case, Fraction(high, 1 << BITS))
    largest = truth(case, Fraction(low, 1 << BITS))
    found = False
    # The claim decides precision and where searches stop: just above, just below, and far from the truth.
    for delta in (exact * 1001 / 1000, exact * 999 / 1000, exact / 10**9, Fraction(1, 2)):
        goal = min(max(delta, Fraction(1, 10**40)), Fraction(999, 1000))
        for theorem in theorems(replace(case, epsilon=Fraction(epsilon), delta=goal)):
            for bound in theorem():
                assert bound.upper >= exact, bound
                assert bound.lower <= largest, bound
                found = found or bound.lower > 0
    assert found or not attacks or exact < Fraction(1, 10**9)
