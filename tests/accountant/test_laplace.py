"""The loss of attributes among Laplace fakes of several scales, each scale with a number of attributes."""

import math

import mpmath
import pytest

from hubbub.accountant.theorems.laplace import atoms
from hubbub.model.protocol import Fakes

Groups = list[tuple[Fakes, int]]

GROUPS: list[Groups] = [
    [(Fakes.laplace(4.0, 54), 3), (Fakes.laplace(6.0, 80), 2)],
    [(Fakes.laplace(2.0, 9), 6)],
    [(Fakes.laplace(0.5, 1), 2), (Fakes.laplace(1.25, 4), 3), (Fakes.laplace(3.0, 0), 1)],
]


def single(fakes: Fakes) -> dict[int, mpmath.mpf]:
    """Return the chances of the losses −2/b, 0 and 2/b of one attribute, as −1, 0 and 1, and of an infinite one as 2.

    By sums over the numbers of fakes of the old and of the new category.
    """
    ratio, shift = mpmath.exp(-1 / mpmath.mpf(fakes.scale)), fakes.shift
    chances = [ratio ** abs(k - shift) for k in range(shift + int(90 * fakes.scale) + 90)]
    whole = mpmath.fsum(chances)
    rising = mpmath.fsum(chances[shift:]) / whole
    one, more = mpmath.fsum(chances[1 : shift + 1]) / whole, mpmath.fsum(chances[shift + 1 :]) / whole
    return {-1: (1 - rising) * more, 0: rising * more + (1 - rising) * one, 1: rising * one, 2: chances[0] / whole}


def exact(groups: Groups, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return δ(ε), adding one attribute at a time."""
    parts = [(mpmath.mpf(0), mpmath.mpf(1))]
    stays = mpmath.mpf(1)
    for fakes, times in groups:
        chances = single(fakes)
        for _ in range(times):
            stays *= 1 - chances[2]
            sums: dict[mpmath.mpf, mpmath.mpf] = {}
            for loss, mass in parts:
                for sign in (-1, 0, 1):
                    place = mpmath.nstr(loss + sign * 2 / mpmath.mpf(fakes.scale), 25)
                    sums[place] = sums.get(place, mpmath.mpf(0)) + mass * chances[sign]
            parts = [(mpmath.mpf(place), mass) for place, mass in sums.items()]
    return 1 - stays + mpmath.fsum(mass * max(0, 1 - mpmath.exp(epsilon - loss)) for loss, mass in parts)


@pytest.mark.parametrize("groups", GROUPS)
def test_every_attribute_of_a_group_counts(groups: Groups) -> None:
    """Up to the largest loss, next to which only categories without fakes tell anything apart."""
    mpmath.mp.dps = 40
    found = atoms(groups)
    assert found is not None
    largest = math.fsum(times * 2 / fakes.scale for fakes, times in groups)
    for share in (0.0, 0.3, 0.7, 0.9, 0.99, 0.999999, 1.0, 1.1):
        truth = exact(groups, mpmath.mpf(share * largest))
        assert truth <= found.delta(share * largest) <= truth * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-12")
    never = 1 - mpmath.fprod((1 - single(fakes)[2]) ** times for fakes, times in groups)
    assert abs(found.never / never - 1) < mpmath.mpf("1e-12")


def test_a_group_is_its_attributes() -> None:
    for groups in GROUPS:
        whole, parts = atoms(groups), atoms([(fakes, 1) for fakes, times in groups for _ in range(times)])
        assert whole is not None
        assert parts is not None
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            assert whole.delta(epsilon) == pytest.approx(parts.delta(epsilon), rel=1e-10)


def test_a_chance_that_underflows_is_not_nothing() -> None:
    found = atoms([(Fakes.laplace(1.0, 2000), 2)])
    assert found is not None
    assert 0 < found.never < 1e-300
    assert found.epsilon(0.0) == math.inf


@pytest.mark.parametrize("groups", GROUPS)
def test_the_smallest_epsilon_of_a_delta_errs_upwards(groups: Groups) -> None:
    found = atoms(groups)
    assert found is not None
    for delta in (0.5, 0.2, 0.9):
        epsilon = found.epsilon(delta)
        if 0 < epsilon < math.inf:
            assert found.delta(epsilon) <= delta < found.delta(epsilon * (1 - 1e-11))


@pytest.mark.parametrize("groups", [GROUPS[1], [(Fakes.laplace(7.0, 300), 3), (Fakes.laplace(0.7, 40), 9)]])
@pytest.mark.parametrize("factor", [1.0, 1.1, 1.3, 0.9, 0.7, 0.37])
def test_rounded_losses_are_not_below_the_exact_ones(groups: Groups, factor: float) -> None:
    """Next to the largest loss, δ is proportional to what ε is below it."""
    scaled = [(Fakes.laplace(fakes.scale * factor, fakes.shift), times) for fakes, times in groups]
    found = atoms(scaled)
    assert found is not None
    with mpmath.workdps(40):
        largest = mpmath.fsum(times * 2 / mpmath.mpf(fakes.scale) for fakes, times in scaled)
        mass = mpmath.fprod(single(fakes)[1] ** times for fakes, times in scaled)
        epsilon = math.nextafter(float(largest), 0.0)
        for _ in range(20):
            excess = mass * -mpmath.expm1(epsilon - largest)
            assert excess <= found.delta(epsilon) - found.never
            epsilon = math.nextafter(epsilon, 0.0)
