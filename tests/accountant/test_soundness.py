"""Figures that were once claimed and were false: who must be honest, float corners, lower bounds, exceptions."""

import math

import pytest
from flint import arb, ctx, fmpq
from tests.accountant.enumeration.reference import (
    PRECISION,
    Model,
    Verdict,
    compare,
    exact,
    fewest_fakes,
    number_of_fakes,
)
from tests.accountant.enumeration.settings import Setting

from hubbub.accountant import account
from hubbub.accountant.theorems import bit
from hubbub.model.privacy import Budget
from hubbub.model.protocol import GRID, Fakes, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.planner import frontier


def certificate(
    protocol: Protocol, schema: Schema, n: int, epsilon: float, fraction: float = 1.0
) -> tuple[float, Verdict]:
    """Return the certified δ, and its comparison with the truth under the assumptions of the guarantee."""
    given = account(protocol, schema, n, epsilon=epsilon, honest_fraction=fraction)
    honest = given.assumptions.honest
    model = Model(protocol, schema, honest, fewest_fakes(protocol.fixed_fakes, n, honest))
    return given.delta, compare(model, epsilon, given.delta, above=True)


def attack(protocol: Protocol, schema: Schema, n: int, epsilon: float) -> tuple[float, Verdict]:
    """Return the lower bound on δ, and its comparison with the truth."""
    given = account(protocol, schema, n, epsilon=epsilon)
    model = Model(protocol, schema, given.assumptions.honest, protocol.fixed_fakes)
    return given.lower_bound, compare(model, epsilon, given.lower_bound, above=False)


def test_s1_honest_users_are_those_of_the_theorem_used() -> None:
    """The better of flips and shuffler's fakes was claimed to need one honest user; the flips need all of them."""
    protocol, schema = Protocol(0.3, 1, Fakes.laplace(0.01, 0), "bits"), Schema.bits(1)
    given = account(protocol, schema, 1000, delta=1e-6)
    alone = Model(protocol, schema, 1, 0)
    truth = compare(alone, 0.1039, 1e-6, above=True)
    assert not truth.holds
    assert truth.truth == pytest.approx(0.367, abs=1e-3)
    if given.assumptions.honest == 1:
        assert compare(alone, given.epsilon, 1e-6, above=True).holds
    else:
        assert given.assumptions.honest == 1000


@pytest.mark.parametrize("fakes", [Fakes.laplace(0.01, 0), Fakes.gaussian(0.0625, 0)])
@pytest.mark.parametrize("release", ["records", "bits"])
def test_s1_small_crowds_under_the_stated_assumptions(fakes: Fakes, release: Release) -> None:
    for epsilon in (0.1, 0.5):
        claimed, verdict = certificate(Protocol(0.3, 1, fakes, release), Schema.bits(1), 12, epsilon)
        assert verdict.holds, (claimed, verdict.truth)


def test_s1_plans_say_who_must_be_honest() -> None:
    """A plan of flipped records among shuffler's fakes claimed δ = 8.5e-146 with one honest user; 9.1e-7 is true."""
    plans = frontier(Schema.one_hot(10), 10**5, Budget(1.0, 1e-6), min_q=0.1)
    drawn = [plan for plan in plans if plan.protocol.shuffler_fakes and plan.protocol.sends_records]
    assert drawn
    for plan in drawn:
        given, q, fakes = plan.guarantee, plan.protocol.q, plan.protocol.shuffler_fakes
        assert fakes is not None
        # With one honest user, the analyzer tells the records apart at least if no fake is drawn for any of 10 labels.
        nothing = float(number_of_fakes(fakes, 1)[0][0]) ** 10
        gain = (1 - q) ** 10 - math.exp(given.epsilon) * q**2 * (1 - q) ** 8
        assert given.assumptions.honest > 1 or given.delta >= nothing * gain > 0


@pytest.mark.parametrize(
    ("m", "n", "fraction", "d"),
    [(300, 3, 0.5, 2), (100, 3, 0.75, 2), (20, 10, 0.75, 3), (7, 4, 0.5, 3), (3, 8, 0.5, 2)],
)
@pytest.mark.parametrize("release", ["records", "bits"])
def test_s2_only_fakes_of_honest_users_count(m: int, n: int, fraction: float, d: int, release: Release) -> None:
    """m = 300 and n = 3: claimed 7.36e-5 at ε = 0.5; one honest user sends 100 fakes, and 5.70e-4 is true."""
    claimed, verdict = certificate(Protocol(0, 1, m, release), Schema.one_hot(d), n, 0.5, fraction)
    assert verdict.holds, (claimed, verdict.truth)


SHARES = (1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-14, 1.0)


def _near_the_pure_epsilon(setting: Setting) -> list[str]:
    false = []
    for share in SHARES:
        claimed, verdict = certificate(setting.protocol, setting.schema, setting.n, setting.pure * share)
        if not verdict.holds:
            false.append(f"{setting} share {share}: claimed {claimed!r}, truth {verdict.truth!r}")
    return false


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("below", [1e-6, 1e-8, 1e-12])
def test_s3_categories_near_the_uniform_point(d: int, below: float) -> None:
    """One-hot of 3, q = 1/3 − 1e-8, n = 1, ε = pure·(1 − 1e-9): claimed 0; 3.0e-17 is true."""
    protocol = Protocol(1 / d - below, release="category")
    assert not [line for n in (1, 2, 4) for line in _near_the_pure_epsilon(Setting(protocol, Schema.one_hot(d), n))]


@pytest.mark.parametrize(
    "schema", [Schema.bits(1), Schema.bits(2), Schema.bits(3), Schema.one_hot(3), Schema.at_most(1, 2)], ids=str
)
@pytest.mark.parametrize("q", [0.1, 0.3, 0.5 - 1e-6, 0.5 - 1e-8, 0.5 - 1e-12])
def test_s3_whole_records_near_the_pure_epsilon(schema: Schema, q: float) -> None:
    assert not [line for n in (1, 3) for line in _near_the_pure_epsilon(Setting(Protocol(q), schema, n))]


@pytest.mark.parametrize("q", [0.1, 0.5 - 1e-6, 0.5 - 1e-12])
def test_s3_records_among_flipped_fakes_near_the_pure_epsilon(q: float) -> None:
    schemas = (Schema.bits(2), Schema.one_hot(3))
    assert not [line for one in schemas for line in _near_the_pure_epsilon(Setting(Protocol(q, 1, 3), one, 2))]


@pytest.mark.parametrize("release", ["records", "bits"])
def test_s3_copies_near_the_pure_epsilon(release: Release) -> None:
    protocol = Protocol(0.5 - 1e-6, 2, 0, release)
    schemas = (Schema.bits(1), Schema.bits(2), Schema.one_hot(3))
    assert not [line for one in schemas for line in _near_the_pure_epsilon(Setting(protocol, one, 2))]


@pytest.mark.parametrize("release", ["records", "bits"])
def test_s3_local_curves_near_the_pure_epsilon(release: Release) -> None:
    false = []
    for q, k, schema in (
        (0.45515874086148855, 2, Schema.bits(3)),
        (1.000000082740371e-09, 1, Schema.bits(3)),
        (0.5 - 1e-12, 1, Schema.one_hot(3)),
    ):
        setting = Setting(Protocol(q, k, 0, release), schema, 1)
        for share in SHARES:
            epsilon = setting.pure * share
            given = account(setting.protocol, schema, 1, epsilon=epsilon, trust="nobody")
            if not compare(Model(setting.protocol, schema, 1, 0), epsilon, given.delta, above=True).holds:
                false.append((str(setting), share, given.delta))
    assert not false


@pytest.mark.parametrize("q", [0.1, 0.49, 0.5 - 1e-6, 0.5 - 1e-9, 0.5 - 1e-12])
@pytest.mark.parametrize("schema", [Schema.bits(1), Schema.bits(3), Schema.one_hot(4)], ids=str)
def test_s3_pure_epsilon_errs_upwards(q: float, schema: Schema) -> None:
    """ln(p/q) as a difference of two logarithms cancels near 1/2."""
    protocol = Protocol(q, k=2)
    given = account(protocol, schema, 5, delta=0)
    with ctx.workprec(PRECISION):
        flip = arb(fmpq(protocol.flip_numerator, GRID))
        truth = 2 * schema.distance * ((1 - flip) / flip).log()
        assert arb(exact(given.epsilon)) >= truth
        assert arb(exact(given.assumptions.collusion_epsilon)) >= truth
        assert given.epsilon <= float(truth) * (1 + 1e-9)


@pytest.mark.parametrize(("q", "n"), [(0.499999999, 41), (0.5 - 1e-12, 51)])
def test_s4_one_bit_at_epsilon_zero_errs_upwards(q: float, n: int) -> None:
    """q = .499999999, n = 41: claimed 2.50740500e-10; 2.50740505e-10 is true."""
    claimed, verdict = certificate(Protocol(q), Schema.bits(1), n, 0.0)
    assert verdict.holds, (claimed, verdict.truth)
    assert claimed <= verdict.truth * 1.004


@pytest.mark.parametrize(("scale", "most", "width"), [(1.0, 2, 3), (0.5, 3, 4), (0.5, 3, 5)])
def test_s5a_attack_on_split_bits_uses_legal_records(scale: float, most: int, width: int) -> None:
    """gaussian(1, 2), at_most(2, 3), n = 1, ε = 2: lower bound .28427; .26953 is true."""
    protocol = Protocol(0, 1, Fakes.gaussian(scale, 2), "bits")
    claimed, verdict = attack(protocol, Schema.at_most(most, width), 1, 2.0)
    assert verdict.holds, (claimed, verdict.truth)


def test_s5b_copies_at_large_epsilon() -> None:
    """q = .01745, k = 7, n = 10, ε = 19.11: "exact" with δ = lower bound = 1; .6413 is true."""
    claimed, verdict = attack(Protocol(0.01745, 7), Schema.bits(1), 10, 19.11)
    assert verdict.holds, (claimed, verdict.truth)


@pytest.mark.parametrize(
    ("q", "k", "release", "schema", "n", "epsilon"),
    [
        (1e-5, 3, "records", Schema.bits(2), 3, 48.3542449513318),
        (1e-8, 2, "records", Schema.bits(2), 3, 51.577905823393586),
        (1e-8, 2, "bits", Schema.one_hot(3), 1, 66.31445034436318),
    ],
)
def test_s5c_attacks_allow_for_their_rounding(
    q: float, k: int, release: Release, schema: Schema, n: int, epsilon: float
) -> None:
    claimed, verdict = attack(Protocol(q, k, 0, release), schema, n, epsilon)
    assert verdict.holds, (claimed, verdict.truth)


def test_s5d_shuffler_fakes_report_no_floor_as_attained() -> None:
    """laplace(2, 300), ε = 1.2: lower bound 3.0e-15; the truth is below 1e-60."""
    given = account(Protocol(0, 1, Fakes.laplace(2.0, 300)), Schema.one_hot(3), 10, epsilon=1.2)
    # δ(1.2) is at most P(count 0 or 1) where 1.2 > 2/scale: e^(−149.5)/scale is above both.
    assert given.lower_bound <= math.exp(-149.5)


@pytest.mark.parametrize("q", [0.01, 0.1, 0.45])
def test_s5e_single_bits_near_the_pure_epsilon(q: float) -> None:
    for n in (1, 2, 5, 12):
        setting = Setting(Protocol(q), Schema.bits(1), n)
        for share in SHARES:
            claimed, verdict = attack(setting.protocol, setting.schema, n, setting.pure * share)
            assert verdict.holds, (n, share, claimed, verdict.truth)


@pytest.mark.parametrize("epsilon", [5.0, 15.0, 20.0, 21.0])
def test_s5f_lower_end_of_branch_and_bound_in_large_crowds(epsilon: float) -> None:
    """n = 5.5e8, q = 5.2e-10: the lower end exceeds the exact δ of the crowd that is said to reach it."""
    n, q = 550_000_000, Protocol(5.2e-10).q
    found = bit.supremum(n, q, epsilon, tolerance=3e-3)
    with ctx.workprec(PRECISION):
        truth = _rare_flips(found.ones, n - 1 - found.ones, q, epsilon)
        assert arb(exact(found.lower)) <= truth.log()
        assert arb(exact(found.upper)) >= truth.log()


def _rare_flips(ones: int, zeros: int, q: float, epsilon: float, reach: int = 60) -> arb:
    """Return δ(ε) of "own bit 1 against 0", leaving out crowds in which more than ``reach`` ones or zeros flip."""
    flip = arb(exact(q))
    same = 1 - flip

    def flips(people: int) -> list[arb]:
        chances = [same**people]
        for i in range(min(people, reach)):
            chances.append(chances[-1] * (people - i) / (i + 1) * flip / same)
        return chances

    crowd: dict[int, arb] = {}
    for i, down in enumerate(flips(ones)):
        for j, up in enumerate(flips(zeros)):
            crowd[j - i] = crowd.get(j - i, arb(0)) + down * up
    growth = arb(exact(epsilon)).exp()
    terms = (
        crowd.get(s - 1, arb(0)) * (same - growth * flip) + crowd.get(s, arb(0)) * (flip - growth * same)
        for s in range(-reach, reach + 2)
    )
    return sum((term for term in terms if term > 0), arb(0))


@pytest.mark.parametrize("schema", [Schema.bits(1), Schema.bits(3), Schema.one_hot(4)], ids=str)
@pytest.mark.parametrize("release", ["records", "bits"])
def test_s6_many_copies_of_rare_flips_do_not_overflow(schema: Schema, release: Release) -> None:
    """k·ln(p/q) = 1 031 is above the largest exponent of a float."""
    protocol = Protocol(1e-14, 32, 0, release)
    for epsilon in (0.0, 1.0, 100.0, 800.0):
        assert 0.0 < account(protocol, schema, 10, epsilon=epsilon).delta <= 1.0
    assert 0.0 < account(protocol, schema, 10, delta=1e-6).epsilon <= account(protocol, schema, 10, delta=0).epsilon


@pytest.mark.parametrize("schema", [Schema.bits(1), Schema.bits(3), Schema.one_hot(4)], ids=str)
@pytest.mark.parametrize("release", ["records", "bits"])
def test_s6_large_epsilon_with_copies(schema: Schema, release: Release) -> None:
    assert account(Protocol(1e-14, 32, 0, release), schema, 10, epsilon=710.0).delta > 0.0
    assert account(Protocol(0.1, 2, 0, release), schema, 10, epsilon=710.0).delta == 0.0


@pytest.mark.long
def test_s6_frontier_of_many_bits_and_rounds() -> None:
    """A ZeroDivisionError of a search for the number of fakes."""
    budget = Budget(0.2, 1e-9)
    for plan in frontier(Schema.bits(1000), 10**7, budget, trust="shuffling", clear=True, rounds=30):
        assert plan.guarantee.epsilon <= budget.epsilon


def test_s6_solving_for_epsilon_near_the_uniform_point() -> None:
    """A certified ε of NaN was refused as bad input."""
    given = account(Protocol(0.499999999, 1, 1, "bits"), Schema.at_most(2, 4), 2, delta=1e-9)
    assert 0.0 <= given.epsilon < 1e-6
