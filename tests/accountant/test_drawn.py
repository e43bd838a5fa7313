"""Flips and the shuffler's fakes together: above every small collection, and better than either alone."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accountant import account
from hubbub.accountant.theorems import drawn, fakes, split
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial_pmf
from hubbub.numeric.distributions import Distribution

Floats = NDArray[np.float64]


def pairs(n: int, q: float, noise: Fakes) -> list[tuple[Floats, Floats]]:
    """Return all pairs of one position: any number of ones among the others, both orders."""
    found = []
    for ones in range(n):
        crowd = np.convolve(binomial_pmf(ones, 1 - q), binomial_pmf(n - 1 - ones, q))
        hidden = np.convolve(crowd, noise.pmf)
        one, zero = (np.convolve(hidden, [1 - p, p]) for p in (1 - q, q))
        found += [(one, zero), (zero, one)]
    return found


@pytest.mark.parametrize(
    ("n", "q", "noise", "count"),
    [
        (1, 0.25, Fakes.laplace(2.0, 6), 1),
        (5, 0.1, Fakes.laplace(1.0, 5), 1),
        (4, 0.1, Fakes.laplace(0.7, 3), 2),
        (4, 0.3, Fakes.gaussian(1.0, 3), 2),
        (3, 0.02, Fakes.gaussian(0.8, 1), 2),
        (8, 0.4, Fakes.laplace(0.5, 0), 1),
        (30, 0.05, Fakes.gaussian(3.0, 9), 1),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 0.9, 0.99])
def test_all_collections_and_orders(n: int, q: float, noise: Fakes, count: int, share: float) -> None:
    epsilon = share * count * math.log((1 - q) / q)
    truth = 0.0
    for combination in itertools.combinations_with_replacement(pairs(n, q, noise), count):
        one, two = np.ones(1), np.ones(1)
        for p, r in combination:
            one, two = np.multiply.outer(one, p).ravel(), np.multiply.outer(two, r).ravel()
        truth = max(truth, float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum()))
    certified = drawn.positions(n, q, noise, count).delta(epsilon)
    assert truth * (1 - 1e-12) <= certified <= 1.15 * truth
    changes = [(falls, count - falls) for falls in range(count + 1)]
    assert max(drawn.attack(n, q, noise, *change).delta(epsilon) for change in changes) <= truth * (1 + 1e-12)


@pytest.mark.parametrize(
    ("n", "q", "noise", "count"),
    [
        (100, 0.1, Fakes.laplace(2.0, 25), 2),
        (1000, 0.05, Fakes.laplace(4.0, 50), 2),
        (1000, 0.1, Fakes.gaussian(10.0, 60), 5),
        (10_000, 0.1, Fakes.gaussian(40.0, 250), 40),
        (1000, 0.01, Fakes.gaussian(100.0, 600), 1000),
    ],
)
def test_the_combination_beats_both_of_its_parts(n: int, q: float, noise: Fakes, count: int) -> None:
    both = drawn.positions(n, q, noise, count).epsilon(1e-6)
    assert both < 0.99 * split.positions(n, q, 1, count).epsilon(1e-6)
    assert both < 0.99 * fakes.either_loss(noise).power(count).epsilon(1e-6)


def test_an_account_states_that_it_rests_on_flips_and_fakes() -> None:
    protocol, schema = Protocol(0.05, m=Fakes.laplace(4.0, 50), release="bits"), Schema.one_hot(20)
    found = account(protocol, schema, 1000, delta=1e-6)
    assert found.assumptions.honest == 1000
    assert found.assumptions.fakes
    assert 0.98 * found.epsilon < found.lower_bound <= found.epsilon < 0.45
    flips = account(protocol, schema, 1000, delta=1e-6, trust="shuffling")
    alone = account(protocol, schema, 1000, delta=1e-6, honest_fraction=0.001)
    assert found.epsilon < min(flips.epsilon, alone.epsilon)
    assert not flips.assumptions.fakes
    assert alone.assumptions.honest == 1


def test_fewer_honest_users_and_less_noise_raise_delta() -> None:
    noise = Fakes.gaussian(3.0, 20)
    deltas = [drawn.positions(n, 0.1, noise, 2).delta(0.3) for n in (200, 50, 10, 1)]
    assert deltas == sorted(deltas)
    wider = [drawn.positions(50, 0.1, Fakes.gaussian(scale, 30), 2).delta(0.3) for scale in (5.0, 3.0, 1.0)]
    assert wider == sorted(wider)


def test_the_combination_is_skipped_where_the_flips_dominate() -> None:
    protocol = Protocol(0.1, m=Fakes.laplace(2.0, 25), release="bits")
    found = account(protocol, Schema.bits(3), 10**6, delta=1e-6)
    assert not found.assumptions.fakes


@pytest.mark.parametrize("schema", [Schema.one_hot(2), Schema.one_hot(9), Schema.at_most(1, 2)], ids=str)
@pytest.mark.parametrize("n", [1, 5])
def test_no_attack_at_delta_0_beyond_the_largest_loss(schema: Schema, n: int) -> None:
    """A large count shows a one less surely among Laplace fakes than the flipped bit itself does."""
    protocol = Protocol(0.1, m=Fakes.laplace(2.0, 3), release="bits")
    given = account(protocol, schema, n, delta=0.0)
    p, q, ratio = 1 - protocol.q, protocol.q, math.exp(-1 / 2.0)
    # One count falls to 0 at best; in the other, P(c)/P(c−1) is at least e^(−1/scale) for every count c.
    largest = math.log(p / q) + math.log((p + q * ratio) / (q + p * ratio))
    assert 0.999 * largest < given.lower_bound <= largest < given.epsilon


def test_an_attack_at_delta_0_where_counts_of_0_reach_the_pure_epsilon() -> None:
    for schema, noise in ((Schema.bits(2), Fakes.laplace(2.0, 3)), (Schema.one_hot(2), Fakes.gaussian(2.0, 3))):
        given = account(Protocol(0.1, m=noise, release="bits"), schema, 5, delta=0.0)
        assert given.lower_bound == given.epsilon == given.assumptions.collusion_epsilon


def test_more_users_than_the_combination_counts_do_not_raise_delta() -> None:
    """The combination was dropped at once where the flips exceed the fakes: δ rose from 10⁻²¹ to 10⁻⁴."""
    protocol = Protocol(0.09616, m=Fakes.laplace(0.229, 11), release="bits")
    found = [account(protocol, Schema.bits(8), n, epsilon=17.89) for n in (5, 6, 20, 50)]
    deltas = [one.delta for one in found]
    assert deltas == sorted(deltas, reverse=True)
    assert [one.assumptions.honest for one in found] == [5, 5, 5, 5], "the theorem counts on five of them"
    assert [one.lower_bound for one in found[1:]] == [0.0, 0.0, 0.0], "an attack on five users is none on more"


EXACT = [(1, 0.25, Fakes.laplace(2.0, 6)), (5, 0.1, Fakes.laplace(1.0, 5)), (4, 0.3, Fakes.gaussian(1.0, 3))]
LACKING = drawn.LACKING / drawn.CUT
SHARES = (0.0, 0.1, 0.3, 0.6, 0.9)


def largest(n: int, q: float, noise: Fakes, epsilon: float) -> float:
    """Return δ of one position, the largest of all collections and both orders."""
    return max(float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum()) for one, two in pairs(n, q, noise))


@pytest.fixture
def afresh() -> Iterator[None]:
    """Keep no cover from before the test, and none after it."""
    drawn.cover.cache_clear()
    yield
    drawn.cover.cache_clear()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize(("n", "q", "noise"), EXACT)
def test_tails_that_are_cut_off_are_allowed_for(
    n: int, q: float, noise: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn, "LACKING", LACKING * 2e-3)
    monkeypatch.setattr(drawn, "CUT", 2e-3)
    for epsilon in (share * math.log((1 - q) / q) for share in SHARES):
        assert largest(n, q, noise, epsilon) <= drawn.cover(n, q, noise).delta(epsilon)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("n", "q", "noise"), EXACT)
def test_probabilities_that_err_by_what_is_stated_are_allowed_for(
    n: int, q: float, noise: Fakes, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = drawn._neighbours

    def erring(*arguments: object) -> tuple[Floats, Floats]:
        one, two = exact(*arguments)  # type: ignore[arg-type]
        return one * (1 - side * drawn.ERROR), two * (1 + side * drawn.ERROR)

    monkeypatch.setattr(drawn, "_neighbours", erring)
    for epsilon in (share * math.log((1 - q) / q) for share in SHARES):
        for ones in range(n):
            found = drawn._Curve.of(ones, n - 1 - ones, q, Distribution(0, noise.pmf)).at(epsilon)
            for one, two in pairs(n, q, noise)[2 * ones : 2 * ones + 2]:
                assert float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum()) <= found


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0, 1.9])
def test_losses_that_are_too_low_are_not_left_out(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to the pure ε all the mass is at one loss, which may be below ε by its error."""
    exact = drawn._neighbours

    def erring(*arguments: object) -> tuple[Floats, Floats]:
        one, two = exact(*arguments)  # type: ignore[arg-type]
        side = drawn.ERROR * np.sign(one - two)
        return one * (1 - side), two * (1 + side)

    monkeypatch.setattr(drawn, "_neighbours", erring)
    curve = drawn._Curve.of(0, 0, 0.25, Distribution(0, np.ones(1)))
    excess = share * drawn.ERROR
    assert 0.75 * -math.expm1(-excess) <= curve.at(math.log(3.0) - excess)


def test_a_sum_of_three_cut_distributions_lacks_no_more_than_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = binomial_pmf(20, 0.5)
    cut = float(noise[:3].sum()) * (1 + 1e-9)  # each of the six tails is as large as it may be
    monkeypatch.setattr(drawn, "CUT", cut)
    one, _ = drawn._neighbours(20, 20, 0.5, drawn._window(Distribution(0, noise)))
    assert 5.9 * cut < 1 - one.sum() <= LACKING * cut
