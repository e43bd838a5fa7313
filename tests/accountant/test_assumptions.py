"""A guarantee states the assumptions of the theorem whose figure it returns, and can be asked for weaker ones."""

import hashlib
import math

import pytest

from hubbub import Budget, Fakes, FalseClaim, Protocol, Schema, account, calibrate, frontier, load_plan, plan_from
from hubbub.accountant.accounting import honest_users
from hubbub.accountant.cases import honest_fakes
from hubbub.documents import Json, canonical, parse
from hubbub.model.privacy import TRUST_MODELS, TrustModel
from hubbub.planner.families import family_key

BIT = Schema.bits(1)
NOISY = Protocol(0.3, 1, Fakes.laplace(0.01, 0), "bits")  # its fakes hide nothing: the figure rests on the flips


def test_s1_a_figure_that_rests_on_flips_needs_all_who_flip() -> None:
    found = account(NOISY, BIT, 1000, delta=1e-6).assumptions
    assert (found.honest, found.fakes, found.trust) == (1000, False, "shuffling")


def test_s1_one_honest_user_gets_what_the_fakes_and_the_own_flips_give() -> None:
    alone = account(NOISY, BIT, 1000, epsilon=0.1039, honest_fraction=0.001)
    assert alone.assumptions.honest == 1
    assert alone.delta >= 0.367  # by enumeration of one flipped bit among the drawn fakes


@pytest.mark.long
def test_s1_plans_with_flips_and_the_shufflers_fakes_state_what_they_rest_on() -> None:
    plans = [p for p in frontier(Schema.one_hot(10), 10**5, Budget(1, 1e-6), min_q=0.1) if p.protocol.shuffler_fakes]
    assert plans
    for plan in plans:
        held = plan.guarantee.assumptions
        share = held.honest / plan.n
        again = account(plan.protocol, plan.schema, plan.n, epsilon=1.0, honest_fraction=share, trust=held.trust)
        assert again.delta <= plan.guarantee.delta * (1 + 1e-9), family_key(plan)


def test_fakes_that_hide_more_than_the_flips_need_no_other_user() -> None:
    found = account(Protocol(1e-9, 1, Fakes.laplace(2.0, 30)), Schema.one_hot(5), 1000, delta=1e-6).assumptions
    assert (found.honest, found.fakes, found.trust) == (1, True, "shuffler-noise")


@pytest.mark.parametrize("trust", TRUST_MODELS)
def test_an_account_relies_on_no_more_than_the_stated_trust(trust: TrustModel) -> None:
    for protocol in (NOISY, Protocol(0.1, 1, Fakes.laplace(2.0, 30)), Protocol(0, 1, Fakes.laplace(2.0, 30))):
        needed = account(protocol, BIT, 1000, delta=1e-6, trust=trust).assumptions.trust
        assert TRUST_MODELS.index(needed) <= TRUST_MODELS.index(trust)


def test_less_trust_never_gives_a_smaller_figure() -> None:
    protocol = Protocol(0.1, 1, Fakes.laplace(2.0, 30))
    nobody, shuffling, noise = (account(protocol, BIT, 1000, delta=1e-6, trust=trust).epsilon for trust in TRUST_MODELS)
    assert noise <= shuffling <= nobody


def test_clear_records_among_the_shufflers_fakes_have_nothing_without_them() -> None:
    found = account(Protocol(0, 1, Fakes.laplace(2.0, 30)), BIT, 1000, epsilon=1.0, trust="shuffling")
    assert found.delta == 1.0


def test_a_figure_that_holds_without_a_shuffler_says_so() -> None:
    found = account(Protocol(0.25), BIT, 1, delta=1e-6).assumptions
    assert (found.honest, found.shuffler, found.trust) == (1, False, "nobody")


def test_s2_honest_users_are_credited_with_the_fakes_they_send() -> None:
    found = account(Protocol(0, 1, 300), Schema.one_hot(2), 3, epsilon=0.5, honest_fraction=0.5)
    assert found.assumptions.honest == 1
    assert found.delta >= 5.698e-4  # 5.70e-4 by enumeration of the 100 fakes of the one honest user


@pytest.mark.parametrize(("m", "n", "honest", "counted"), [(300, 3, 1, 100), (301, 3, 2, 200), (301, 3, 3, 301)])
def test_s2_uneven_shares_count_as_the_smaller_one(m: int, n: int, honest: int, counted: int) -> None:
    assert honest_fakes(Protocol(0.1, m=m), n, honest) == counted


def test_s9_a_fraction_is_the_decimal_it_is_written_as() -> None:
    assert honest_users(10, 0.3) == 3
    assert honest_users(10**10, 0.9999999999) == 10**10 - 1
    assert honest_users(10, math.nextafter(0.3, 0.0)) == 2  # the sum 2.9999999999999996 + 10⁻⁹ was rounded to 3


def test_a_plan_that_claims_fewer_honest_users_than_its_figure_needs_is_refused() -> None:
    plan = plan_from(BIT, 1000, NOISY, delta=1e-6)
    document = parse(plan.to_json(), "the plan")
    assert isinstance(document, dict)
    guarantee = document["guarantee"]
    assert isinstance(guarantee, dict) and isinstance(guarantee["assumptions"], dict)
    guarantee["assumptions"]["honest"] = 1
    with pytest.raises(FalseClaim, match="if 1 user is honest"):
        load_plan(_rehashed(document))


def _rehashed(document: dict[str, Json]) -> bytes:
    body = {key: value for key, value in document.items() if key != "id"}
    return canonical({**body, "id": hashlib.sha256(canonical(body)).hexdigest()})


def test_calibration_under_less_trust_needs_more_noise() -> None:
    budget = Budget(1.0, 1e-6)
    shuffled = calibrate(BIT, 1000, budget).protocol.q
    assert calibrate(BIT, 1000, budget, trust="nobody").protocol.q > shuffled
