"""Crowds of single bits whose distributions are known only roughly: the bounds still enclose the truth."""

from fractions import Fraction

import pytest
from tests.checker.crude import chances, crude, summed

from hubbub.checker import crowds
from hubbub.checker.crowds import Bits, Pair, crowd_delta
from hubbub.checker.fixed import Masses

BITS = 40
SCALE = 1 << BITS
FLIP = Fraction(1, 5)
CROWDS = [(0, 0), (9, 0), (0, 9), (7, 5), (1, 14)]
RATIOS = [Fraction(1), Fraction(21, 20), Fraction(3, 2), Fraction(3), Fraction(15, 2), Fraction(20)]


def rows(ones: int, zeros: int, copies: int) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """Return the exact distributions of A, P and Q."""
    crowd = summed(chances(ones, 1 - FLIP), chances(zeros, FLIP))
    return crowd, summed(crowd, chances(copies, 1 - FLIP)), summed(crowd, chances(copies, FLIP))


@pytest.fixture(params=[(2**16, 2**16), (2**28, 2**16), (2**16, 2**28), (2**33, 2**33), (2**16, 2**38)])
def rough(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the distributions of ones and of zeros err by their slack."""

    def binomial(n: int, chance: Fraction, bits: int) -> Masses:
        return crude(chances(n, chance), request.param[chance == FLIP], bits)

    monkeypatch.setattr(crowds, "binomial", binomial)


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize(("ones", "zeros"), CROWDS)
def test_crowds_of_distributions_that_err_by_their_slack_are_enclosed(ones: int, zeros: int, copies: int) -> None:
    crowd, one, two = rows(ones, zeros, copies)
    problem = Bits(FLIP, copies, ones + zeros, 1, BITS)
    for x in RATIOS:
        pair = Pair(problem, x, ones, zeros)
        for s in range(-1, len(one) + 1):
            exact = crowd[s] if 0 <= s < len(crowd) else Fraction(0)
            assert pair.point(s) <= exact * SCALE <= pair.point(s) + pair.point_slack
            above = sum(crowd[max(s, 0) :], Fraction(0))
            assert pair.tail(s) <= above * SCALE <= pair.tail(s) + pair.tail_slack
            sign = one[s] - x * two[s] if 0 <= s < len(one) else Fraction(0)
            assert pair.sign_low(s) <= sign * SCALE**2 <= pair.sign_high(s)
            gain = sum((a - x * b for a, b in zip(one[max(s, 0) :], two[max(s, 0) :], strict=True)), Fraction(0))
            assert pair.gain(s, upper=False) <= gain * SCALE <= pair.gain(s, upper=True)
        lower, upper = crowd_delta(problem, x, ones, zeros)
        exact = sum((max(Fraction(0), a - x * b) for a, b in zip(one, two, strict=True)), Fraction(0))
        assert lower <= exact * SCALE <= upper, x


@pytest.mark.parametrize("slacks", [(2**10, 2**20), (2**20, 2**10), (2**20, 2**20)])
def test_sums_of_distributions_that_err_by_their_slack_are_enclosed(slacks: tuple[int, int]) -> None:
    parts = [chances(9, FLIP), chances(12, Fraction(1, 2))]
    one, two = (crude(part, slack, BITS) for part, slack in zip(parts, slacks, strict=True))
    found = one.plus(two)
    for s, exact in enumerate(summed(*parts)):
        low = found.low[s - found.first] if 0 <= s - found.first < len(found.low) else 0
        assert low <= exact * SCALE <= low + found.slack


def test_points_that_are_rounded_down_are_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With these bits all probabilities are whole numbers of units, of which those of the crowd lack one each."""
    flip, n, copies, bits = Fraction(1, 4), 30, 150, 300
    parts = [chances(n, chance) for chance in (1 - flip, flip)]
    monkeypatch.setattr(crowds, "binomial", lambda n, chance, bits: crude(chances(n, chance), 1, bits, cut=False))
    pair = Pair(Bits(flip, copies, 2 * n, 1, bits), Fraction(1), n, n)
    crowd = summed(*parts)
    gains = [a - b for a, b in zip(chances(copies, 1 - flip), chances(copies, flip), strict=True)]
    for t in range(70, 120, 5):
        exact = sum(gain * sum(crowd[max(t - j, 0) :], Fraction(0)) for j, gain in enumerate(gains))
        assert pair.gain(t, upper=False) <= exact * 2**bits <= pair.gain(t, upper=True)


def test_a_tail_that_is_hardly_known_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 numbers of ones, all alike, the list shows a single one: just enough to know a sign, far below the end."""
    flip, x, size, slack = Fraction(1, 20), Fraction(10), 300, -(-SCALE // 300)
    kept, lost = 1 - flip - x * flip, x * (1 - flip) - flip
    low = [0] * size
    low[191] = int(kept / lost * (2 * slack + 4)) + 2
    monkeypatch.setattr(crowds, "_threshold", lambda *_: (280, 0))
    monkeypatch.setattr(
        crowds, "binomial", lambda n, chance, bits: Masses(0, low if n else [SCALE], slack if n else 0, bits)
    )
    lower, upper = crowd_delta(Bits(flip, 1, size - 1, 1, BITS), x, size - 1, 0)
    assert lower <= kept * SCALE / size <= upper  # P − xQ is positive only at the last number
    assert low[191] < kept * SCALE / size, "the control: what the list shows is less"
