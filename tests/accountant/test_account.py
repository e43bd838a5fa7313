"""Every point of the family has a guarantee, with the properties of guarantees and all its assumptions."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant import account, curve
from hubbub.accountant.analysis import least_epsilon, unknown
from hubbub.bits.device import GRID_BITS
from hubbub.errors import InvalidInput
from hubbub.model.privacy import Assumptions, Basis, Budget, Guarantee
from hubbub.model.protocol import GRID, Fakes, Protocol
from hubbub.model.schema import Schema

SCHEMAS = [
    Schema.bits(1),
    Schema.bits(3),
    Schema.one_hot(2),
    Schema.one_hot(5),
    Schema.at_most(2, 7),
    Schema.at_most(3, 4),
]
PROTOCOLS = [
    Protocol(0.2),
    Protocol(0.2, k=3),
    Protocol(0.2, m=50),
    Protocol(0.2, k=2, m=50),
    Protocol(0.0, m=300),
    Protocol(0.01, release="bits"),
    Protocol(0.01, k=2, release="bits"),
    Protocol(0.01, m=50, release="bits"),
    Protocol(0.0, m=300, release="bits"),
    Protocol(0.0, m=Fakes.binomial(2, 0.3)),
    Protocol(0.0, m=Fakes.poisson(0.5)),
    Protocol(0.2, m=Fakes.poisson(0.5)),
    Protocol(0.01, m=Fakes.binomial(2, 0.3), release="bits"),
    Protocol(0.0, m=Fakes.laplace(3.0, 30)),
    Protocol(0.0, m=Fakes.gaussian(6.0, 40), release="bits"),
    Protocol(0.0, m=Fakes.laplace(3.0, 30), release="bits"),
    Protocol(0.2, m=Fakes.laplace(3.0, 30)),
    Protocol(0.01, m=Fakes.gaussian(6.0, 40), release="bits"),
]
POINTS = [*itertools.product(PROTOCOLS, SCHEMAS)]
POINTS += [(Protocol(0.05, release="category"), schema) for schema in SCHEMAS if schema.exclusive]


@pytest.mark.parametrize(("protocol", "schema"), POINTS)
def test_both_directions_agree(protocol: Protocol, schema: Schema) -> None:
    by_epsilon = account(protocol, schema, 1000, epsilon=0.8)
    assert 0 <= by_epsilon.lower_bound <= by_epsilon.delta <= 1
    by_delta = account(protocol, schema, 1000, delta=1e-5)
    assert 0 <= by_delta.lower_bound <= by_delta.epsilon
    assert (by_delta.solved, by_epsilon.solved) == ("epsilon", "delta")
    if math.isfinite(by_delta.epsilon):
        again = account(protocol, schema, 1000, epsilon=by_delta.epsilon)
        assert again.delta <= 1.011e-5  # single bits: the supremum of δ is known to 0.3 %
        assert again.meets(Budget(by_delta.epsilon, 1.02e-5))


@pytest.mark.parametrize(("protocol", "schema"), POINTS)
def test_delta_decreases_with_epsilon_and_honest_users(protocol: Protocol, schema: Schema) -> None:
    curves = [curve(protocol, schema, 1000, honest_fraction=share) for share in (0.5, 1.0)]
    for epsilon in (0.1, 0.5, 1.5):
        few, many = (min(analysis.upper(epsilon), 0.0) for analysis in curves)
        assert many <= few + 0.011
        assert min(curves[1].upper(epsilon + 0.3), 0.0) <= many + 0.011


@pytest.mark.long
@given(st.floats(0.02, 0.4), st.floats(1.02, 1.2), st.integers(10, 10_000), st.sampled_from(SCHEMAS))
@settings(max_examples=40)
def test_delta_decreases_with_q_and_n(q: float, more: float, n: int, schema: Schema) -> None:
    def log_delta(q: float, n: int) -> float:
        return curve(Protocol(q), schema, n).upper(0.5)

    here = log_delta(q, n)
    assert log_delta(min(q * more, 0.49), n) <= here + 0.005
    assert log_delta(q, 2 * n) <= here + 0.005


@given(st.integers(1, 2000), st.integers(2, 40), st.floats(0.1, 3.0))
def test_delta_decreases_with_m(m: int, d: int, epsilon: float) -> None:
    few, many = (account(Protocol(0, m=count), Schema.one_hot(d), 10, epsilon=epsilon).delta for count in (m, m + 7))
    assert many <= few + 1e-27  # the mass outside the window of counts is added as a constant


def test_one_hot_needs_more_than_two_bits() -> None:
    """[003 §5] calibrates one-hot records like two bits; a third category in the crowd reveals more."""
    two = account(Protocol(0.0877), Schema.bits(2), 1000, epsilon=math.log(2))
    one_hot = account(Protocol(0.0877), Schema.one_hot(5), 1000, epsilon=math.log(2))
    assert one_hot.lower_bound > 1e-2
    assert two.lower_bound < 8e-3


def test_anchors() -> None:
    def epsilon(protocol: Protocol, schema: Schema, n: int) -> float:
        return account(protocol, schema, n, delta=1e-6).epsilon

    assert epsilon(Protocol(0.1), Schema.bits(1), 1000) == pytest.approx(0.37739, rel=1e-3)
    assert epsilon(Protocol(0.01), Schema.bits(1), 10**7) == pytest.approx(0.009538, rel=1e-3)
    assert epsilon(Protocol(0, m=10**4), Schema.one_hot(100), 1) == pytest.approx(0.59564, rel=1e-4)
    assert epsilon(Protocol(0.1), Schema.one_hot(100), 10**4) == pytest.approx(0.43627, rel=1e-3)
    assert epsilon(Protocol(0.01, m=10**4), Schema.one_hot(100), 1) == pytest.approx(0.452, rel=1e-3)
    assert epsilon(Protocol(0.1964, release="bits"), Schema.bits(5), 5000) == pytest.approx(0.1853, rel=5e-3)


def test_k_copies_headline() -> None:
    """[002 §5] claims that copies improve precision: certified for 13 bits, though not by √k."""
    for k, q in ((1, 0.2843), (4, 0.3064), (16, 0.33)):
        assert account(Protocol(q, k=k), Schema.bits(13), 10**6, epsilon=math.log(2)).delta <= 1e-6


class TestAssumptions:
    def test_collusion_and_counts(self) -> None:
        given = account(Protocol(0.25, k=2, release="bits"), Schema.at_most(2, 9), 100, epsilon=1.0).assumptions
        assert given.collusion_epsilon == pytest.approx(2 * 4 * math.log(3))
        assert given.count_epsilon == pytest.approx(2 * 2 * math.log(3))
        one_hot = account(Protocol(0.25, release="bits"), Schema.one_hot(9), 100, epsilon=1.0).assumptions
        assert one_hot.count_epsilon == 0.0
        assert "padded" not in " ".join(one_hot.sentences())
        assert "padded" in " ".join(given.sentences())

    def test_the_message_count_of_one_hot_records_does_not_depend_on_the_record(self) -> None:
        """Bern(p) + Bin(d − 1, q) for every category, unlike for other records."""

        def distribution(record: tuple[int, ...], q: float) -> list[float]:
            found = [0.0] * (len(record) + 1)
            for flips in itertools.product((0, 1), repeat=len(record)):
                chance = math.prod(q if flip else 1 - q for flip in flips)
                found[sum(bit ^ flip for bit, flip in zip(record, flips, strict=True))] += chance
            return found

        assert distribution((1, 0, 0), 0.2) == pytest.approx(distribution((0, 0, 1), 0.2))
        some, none = distribution((1, 1, 0), 0.2), distribution((0, 0, 0), 0.2)
        worst = max(math.log(a / b) for a, b in zip(some, none, strict=True))
        assert worst == pytest.approx(2 * math.log(4))

    def test_clear_records_have_no_local_guarantee(self) -> None:
        given = account(Protocol(0, m=500), Schema.one_hot(5), 100, epsilon=1.0)
        assert given.assumptions.collusion_epsilon == math.inf
        assert "nothing protects" in " ".join(given.assumptions.sentences())

    def test_shuffler_fakes_need_no_honest_users(self) -> None:
        protocol = Protocol(0, m=Fakes.laplace(2.0, 25))
        some, all_ = (
            account(protocol, Schema.one_hot(100), 10**5, epsilon=1.0, honest_fraction=share) for share in (1e-5, 1.0)
        )
        assert some.delta == all_.delta
        assert all_.assumptions.honest == 1

    def test_honest_fraction_is_a_smaller_crowd(self) -> None:
        half = account(Protocol(0.1), Schema.one_hot(9), 10_000, delta=1e-6, honest_fraction=0.5)
        small = account(Protocol(0.1), Schema.one_hot(9), 5_000, delta=1e-6)
        assert half.epsilon == pytest.approx(small.epsilon, rel=1e-6)
        assert half.assumptions.honest == 5_000

    def test_without_a_shuffler(self) -> None:
        local = account(Protocol(0.25), Schema.bits(2), 10**6, delta=0, trust="nobody")
        assert local.epsilon == pytest.approx(2 * math.log(3))
        assert "senders" in local.assumptions.sentences()[0]
        tail = account(Protocol(0.25), Schema.bits(1), 10**6, epsilon=1.0, trust="nobody")
        assert tail.delta == pytest.approx(0.75 - math.e * 0.25, rel=1e-9)


def test_a_guarantee_meets_the_budgets_above_it() -> None:
    assumptions = Assumptions(
        honest=9, shuffler=True, fakes=False, view="whole records", collusion_epsilon=1.0, count_epsilon=0.0
    )
    budget = Budget(1.0, 1e-6)
    for basis in Basis:
        claim = Guarantee(
            epsilon=0.5,
            delta=1e-7,
            lower_bound=0.4,
            solved="epsilon",
            basis=basis,
            method="m",
            n=9,
            assumptions=assumptions,
        )
        assert claim.meets(budget)
        assert not claim.meets(Budget(0.4, 1e-6))
        assert not claim.meets(Budget(1.0, 1e-8))


def test_sampler_and_accountant_share_one_grid() -> None:
    assert 2**GRID_BITS == GRID
    for q in (1e-13, 0.1, 1 / 3, 0.4999999):
        assert Protocol(q).q >= q
        assert (Protocol(q).q * GRID).is_integer()
        assert Protocol(q).q - q < 1 / GRID


@pytest.mark.parametrize(
    "call",
    [
        lambda: account(Protocol(0.1), Schema.bits(1), 10),
        lambda: account(Protocol(0.1), Schema.bits(1), 10, epsilon=1.0, delta=1e-6),
        lambda: account(Protocol(0.1), Schema.bits(1), 0, epsilon=1.0),
        lambda: account(Protocol(0.1), Schema.bits(1), 10, epsilon=-1.0),
        lambda: account(Protocol(0.1), Schema.bits(1), 10, epsilon=math.nan),
        lambda: account(Protocol(0.1), Schema.bits(1), 10, delta=1.0),
        lambda: account(Protocol(0.1), Schema.bits(1), 10, epsilon=1.0, honest_fraction=0.0),
        lambda: account(Protocol(0.1), Schema.bits(1), 10, epsilon=1.0, honest_fraction=1.5),
        lambda: account(0.1, Schema.bits(1), 10, epsilon=1.0),  # type: ignore[arg-type]
        lambda: account(Protocol(0.1), "bits", 10, epsilon=1.0),  # type: ignore[arg-type]
        lambda: account(Protocol(0.1, release="category"), Schema.bits(3), 10, epsilon=1.0),
        lambda: account(Protocol(0.4, release="category"), Schema.one_hot(3), 10, epsilon=1.0),
        lambda: Protocol(0.5),
        lambda: Protocol(0.5 - 1e-16),
        lambda: Protocol(0.0),
        lambda: Protocol(0.0, k=2, m=5),
        lambda: Protocol(0.1, k=0),
        lambda: Protocol(0.1, m=-1),
        lambda: Protocol(0.1, release="rows"),  # type: ignore[arg-type]
        lambda: Protocol(0.1, k=2, release="category"),
        lambda: Protocol(0.1, k=2, m=Fakes.laplace(2.0, 25)),
        lambda: Fakes.binomial(0, 0.5),
        lambda: Fakes.binomial(2, 1.5),
        lambda: Fakes.poisson(0.0),
        lambda: Fakes.laplace(-1.0, 5),
        lambda: Fakes.gaussian(1.0, -5),
        lambda: Fakes.poisson(1.0).pmf,
        lambda: Budget(-1.0, 1e-6),
        lambda: Budget(1.0, 1.0),
        lambda: Schema.bits(0),
        lambda: Schema.bits([]),
        lambda: Schema.bits("red"),
        lambda: Schema.bits([1, 2]),  # type: ignore[list-item]
        lambda: Schema.one_hot(["only"]),
        lambda: Schema.one_hot(["same", "same"]),
        lambda: Schema.at_most(0, 5),
        lambda: Schema.at_most(6, 5),
    ],
)
def test_bad_input(call: object) -> None:
    assert callable(call)
    with pytest.raises(InvalidInput, match=r"\w+ must \w+"):
        call()


class TestSearches:
    """The number of evaluations behind an account, which is what makes it slow."""

    def test_s7_an_account_that_ends_at_the_pure_epsilon_asks_the_crowd_once(self) -> None:
        """In a crowd of four that flip one bit in a million, nothing is better than the flips alone."""
        seen: list[float] = []
        found = curve(Protocol(1e-6), Schema.one_hot(4), 4)
        crowd, alone = found.options

        def counted(epsilon: float) -> float:
            seen.append(epsilon)
            return crowd.upper(epsilon)

        counting = replace(found, options=(replace(crowd, upper=counted, lower=unknown), alone), lower=unknown)
        certified = least_epsilon(counting, 1e-4)[1]
        assert certified == pytest.approx(2 * math.log(1e6), rel=1e-4)
        assert len(seen) == 1

    def test_searches_take_few_evaluations(self) -> None:
        found = curve(Protocol(0.2446), Schema.bits(5), 1000)
        crowd, alone = found.options
        seen: list[float] = []

        def counted(epsilon: float) -> float:
            seen.append(epsilon)
            return crowd.upper(epsilon)

        for delta in (1e-3, 1e-6, 1e-12):
            seen.clear()
            counting = replace(found, options=(replace(crowd, upper=counted), alone), lower=unknown)
            assert least_epsilon(counting, delta)[2].method == crowd.method
            assert len(seen) <= 16

    def test_nothing_is_searched_above_epsilon_zero(self) -> None:
        """Flips next to 1/2 need no crowd and no attack."""
        found = curve(Protocol(0.5 - 1e-12, release="bits"), Schema.one_hot(4), 10**10)
        nothing = replace(found.options[0], upper=lambda epsilon: math.nan, lower=lambda epsilon: math.nan)
        assert least_epsilon(replace(found, options=(nothing, found.options[1])), 1e-6)[:2] == (0.0, 0.0)
