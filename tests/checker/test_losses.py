"""Covers of pairs: a curve's cover lies above it and meets it at the nodes, and what is cut off moves upwards."""

from fractions import Fraction

from hubbub.checker.fixed import ceil_div
from hubbub.checker.losses import Loss, from_curve, powers, trim

BITS = 60
ONE = 1 << BITS
COIN = (Fraction(9, 10), Fraction(1, 10))


def divergence(x: Fraction, infinite: Fraction = Fraction(0)) -> Fraction:
    """Return H_x of a coin against the opposite one, in either order, if an outcome of this chance tells them apart."""
    p, q = COIN
    return infinite + (1 - infinite) * (max(p - x * q, Fraction(0)) + max(q - x * p, Fraction(0)))


def test_the_cover_of_a_curve_is_above_it_and_meets_it_at_the_nodes() -> None:
    ratio = ONE + ONE // 16
    points = powers(ratio, 48, BITS)
    for infinite in (Fraction(0), Fraction(1, 50)):
        half = [ceil_div((value := divergence(Fraction(low, ONE), infinite)).numerator << BITS, value.denominator)
                for low, _ in points]  # fmt: skip
        cover = from_curve(half, points, ratio, BITS)
        assert sum(cover.masses) + cover.infinite >= ONE
        wide = {i: points[i][1] if i >= 0 else ceil_div(ONE * ONE, points[-i][0]) for i in range(-48, 49)}
        for i in range(-47, 48):
            for shift in range(4):
                x = (wide[i] * (4 - shift) + wide[i + 1] * shift) // 4
                found, exact = cover.delta(x, wide.__getitem__), divergence(Fraction(x, ONE), infinite) * ONE
                assert exact <= found, (i, shift)
                if shift == 0:
                    assert found <= exact + ONE // 2**40, i


def test_what_is_trimmed_moves_upwards() -> None:
    cut = trim(Loss(-2, [1, 2, 50, 40, 3, 1], 5, 8), 4)
    assert (cut.first, cut.masses, cut.infinite) == (0, [53, 40], 9)
