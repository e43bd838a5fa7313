"""The shuffler's fakes: the lattice of losses against sums over all counts, in 50 digits."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import mpmath
import pytest
from tests.checker.enumeration import claim

from hubbub.checker.document import Claim, Fakes
from hubbub.checker.fakes import coarseness, steps, thin
from hubbub.checker.fixed import exp_bounds
from hubbub.checker.theorems import theorems

CUT = 40
"""Counts beyond this are left out of the sum, which lowers it by less than 10⁻²⁰."""


def pmf(fakes: Fakes) -> list[mpmath.mpf]:
    scale = mpmath.mpf(fakes.scale.numerator) / fakes.scale.denominator
    offsets = [mpmath.mpf(k - fakes.shift) / scale for k in range(4 * CUT)]
    weights = [mpmath.exp(-abs(x) if fakes.name == "laplace" else -x * x / 2) for x in offsets]
    return [weight / mpmath.fsum(weights) for weight in weights][:CUT]


def exact(fakes: Fakes, falls: int, rises: int, epsilon: Fraction) -> mpmath.mpf:
    """Σ (P − e^ε·Q)⁺ over the counts that fall (K against K + 1) and those that rise (K + 1 against K)."""
    row = pmf(fakes)
    stay, shifted = row, [mpmath.mpf(0), *row[:-1]]
    pairs = [list(zip(stay, shifted, strict=True))] * falls + [list(zip(shifted, stay, strict=True))] * rises
    x = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    total = mpmath.mpf(0)
    for outcome in itertools.product(*pairs):
        p, q = mpmath.fprod(one for one, _ in outcome), mpmath.fprod(two for _, two in outcome)
        total += max(mpmath.mpf(0), p - x * q)
    return total


LAPLACE, GAUSSIAN = Fakes("laplace", Fraction(3, 4), 5), Fakes("gaussian", Fraction(5, 4), 4)
ONE, TWO = [(1, 1)], [(2, 0), (1, 1), (0, 2)]
CASES: list[tuple[Claim, list[tuple[int, int]], bool]] = [
    (claim("one_hot", 3, 1, 9, "0", fakes=LAPLACE), ONE, True),
    (claim("one_hot", 3, 1, 9, "0", fakes=GAUSSIAN, release="bits"), ONE, True),
    (claim("one_hot", 3, 1, 9, "1/99", fakes=GAUSSIAN), ONE, False),
    (claim("bits", 2, 2, 9, "0", fakes=LAPLACE, release="bits"), TWO, True),
    (claim("bits", 2, 2, 9, "0", fakes=GAUSSIAN, release="bits"), TWO, True),
    (claim("at_most", 4, 1, 9, "0", fakes=GAUSSIAN, release="bits"), ONE, True),
    (claim("one_hot", 3, 1, 9, "1/99", fakes=LAPLACE, release="bits"), TWO, False),
]


@pytest.mark.parametrize("epsilon", ["0", "1/3", "8/5", "3"])
@pytest.mark.parametrize(("case", "changes", "attacked"), CASES)
def test_bounds_enclose_the_sum(case: Claim, changes: list[tuple[int, int]], attacked: bool, epsilon: str) -> None:
    assert isinstance(case.fakes, Fakes)
    with mpmath.workdps(50):
        value = max(exact(case.fakes, *change, Fraction(epsilon)) for change in changes)
        goal = Fraction(1, 10**9)
        task = theorems(replace(case, epsilon=Fraction(epsilon), delta=goal))[1 if case.flip else 0]
        *loose, sharp = list(task())
        for bound in (*loose, sharp):
            assert mpmath.mpf(bound.upper.numerator) / bound.upper.denominator >= value
            assert bound.fakes
        assert sharp.upper.numerator / mpmath.mpf(sharp.upper.denominator) <= value + mpmath.mpf(10) ** -15
        assert sharp.lower.numerator / mpmath.mpf(sharp.lower.denominator) <= value + mpmath.mpf(10) ** -18
        assert (sharp.lower > 0) == attacked


def test_a_thinner_grid_only_raises_the_bound() -> None:
    bits = 120
    fall, rise, u = steps("gaussian", Fraction(30), 200, bits)
    pair = fall.compose(rise, 0)
    e = exp_bounds(Fraction(1, 5), bits)[0]

    def point(factor: int, i: int) -> int:
        return exp_bounds(u * factor * i, bits)[1]

    fine = pair.delta(e, partial(point, 1))
    for factor in (2, 7, 20):
        coarse = thin(pair, factor, u, bits)
        value = coarse.delta(e, partial(point, factor))
        assert fine - 2**10 <= value <= fine + fine // 10  # each sum is rounded up
    assert coarseness("gaussian", Fraction(30), 4) == 1 < coarseness("gaussian", Fraction(5000), 4)


@pytest.mark.parametrize("fakes", [LAPLACE, Fakes("laplace", Fraction(7, 3), 0), Fakes("laplace", Fraction(9), 30)])
def test_masses_of_few_bits_are_rounded_up(fakes: Fakes) -> None:
    with mpmath.workdps(50):
        ratio = mpmath.exp(-mpmath.mpf(fakes.scale.denominator) / fakes.scale.numerator)
        cut = ratio**fakes.shift
        whole = 1 + ratio - cut * ratio
        falls, rises = (ratio, 0, 1 - cut, cut * (1 - ratio)), (ratio - cut * ratio, 0, 1, 0)
        for bits in range(3, 30):
            for loss, exactly in zip(steps("laplace", fakes.scale, fakes.shift, bits)[:2], (falls, rises), strict=True):
                for found, mass in zip((*loss.masses, loss.infinite), exactly, strict=True):
                    assert mass / whole * 2**bits <= found <= mass / whole * 2**bits + 8
