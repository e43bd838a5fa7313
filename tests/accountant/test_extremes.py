"""Extreme but legal settings: every account ends with a number, and nothing is claimed that no attack attains."""

import hashlib
import math

import pytest

from hubbub import Fakes, InvalidInput, Protocol, Schema, account, checker, plan_from
from hubbub.checker import State
from hubbub.documents import Json, canonical, parse

BITS = Schema.bits(2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "schema", "n", "epsilon"),
    [
        (Protocol(0.25, m=Fakes.poisson(1000.0)), BITS, 1000, 1.9),
        (Protocol(0.25, m=Fakes.binomial(1000, 0.9)), Schema.at_most(1, 3), 1000, 1.9),
        (Protocol(0.25, 2, m=Fakes.poisson(1000.0)), BITS, 1000, 4.3),
        (Protocol(0.2, 30), Schema.bits(3), 1, 5e-324),
        (Protocol(0.25, 3, m=300_000, release="bits"), BITS, 100_000, 5e-324),
        (Protocol(0.49999763056975155, 1, Fakes.poisson(2.04909)), Schema.bits(4), 3, 3.746964164277208e-05),
        (Protocol(0.24127550026644684, 8, Fakes.poisson(0.0678699)), Schema.one_hot(44), 835, 18.331186791561258),
    ],
    ids=str,
)
def test_extreme_epsilons_have_a_delta(protocol: Protocol, schema: Schema, n: int, epsilon: float) -> None:
    found = account(protocol, schema, n, epsilon=epsilon)
    assert 0 < found.delta <= 1
    assert found.lower_bound <= found.delta


@pytest.mark.parametrize(
    ("protocol", "schema", "n", "delta"),
    [
        (Protocol(0.1, m=Fakes.poisson(1e9)), Schema.bits(1), 10**9, 1e-6),
        (Protocol(0.1, m=Fakes.poisson(1e9), release="bits"), Schema.one_hot(4), 10**9, 1e-6),
        (Protocol(1e-14, 2, m=Fakes.binomial(2**40, 1e-12), release="bits"), Schema.one_hot(50), 10**6, 0.01),
        (Protocol(0.5 - 1e-12, 7, m=50, release="bits"), Schema.one_hot(50), 1, 1e-12),
        (Protocol(0.5 - 1e-12, m=Fakes.gaussian(2**-10, 0)), Schema.one_hot(3), 10**6, 1e-300),
        (Protocol(0.5 - 1e-12, 2, m=Fakes.poisson(1e-12)), Schema.at_most(2, 9), 1000, 1e-30),
    ],
    ids=str,
)
def test_extreme_deltas_have_an_epsilon(protocol: Protocol, schema: Schema, n: int, delta: float) -> None:
    found = account(protocol, schema, n, delta=delta)
    assert 0 <= found.lower_bound <= found.epsilon < math.inf


def test_fakes_near_the_pure_epsilon_do_not_hide_what_holds_below() -> None:
    """A bound that was no number at the local ε ended the search there, at 35.7."""
    found = account(Protocol(0.0114, m=Fakes.binomial(1, 0.1)), Schema.bits(8), 200_000, delta=1e-6)
    assert found.epsilon < 1


@pytest.mark.parametrize("m", [10, Fakes.poisson(1.0), Fakes.binomial(2, 0.5)], ids=str)
@pytest.mark.parametrize(("width", "q"), [(2000, 0.1), (10**5, 0.41)])
def test_thousands_of_bits_among_fakes_do_not_overflow(width: int, q: float, m: int | Fakes) -> None:
    """The estimate of which theorem proves most once raised OverflowError."""
    schema, n, epsilon = Schema.bits(width), 2, 2.6
    found, alone = (account(Protocol(q, m=one), schema, n, epsilon=epsilon).delta for one in (m, 0))
    assert 0.99 < found <= alone == 1.0


@pytest.mark.parametrize(("k", "positions", "epsilon"), [(30, 5, 24.9), (1, 2, 1.5)])
def test_attacks_on_split_bits_count_the_mass_beyond_their_window(k: int, positions: int, epsilon: float) -> None:
    """The crowd attacked has δ ≤ e^−812 and ≤ 4.4e-70 here, by Chernoff's bound."""
    found = account(Protocol(0.2, k, release="bits"), Schema.bits(positions), 1000, epsilon=epsilon)
    assert found.lower_bound <= 1e-69


@pytest.mark.parametrize("trust", ["nobody", "shuffling"])
def test_categories_of_records_with_several_bits_are_refused(trust: str) -> None:
    with pytest.raises(InvalidInput, match="one-hot"):
        account(Protocol(0.2, release="category"), Schema.bits(40), 10, delta=1e-6, trust=trust)  # type: ignore[arg-type]


def _claimed(plan_json: str, **claim: Json) -> bytes:
    """Return a plan with other claims and the id that belongs to them."""
    document = parse(plan_json, "the plan")
    assert isinstance(document, dict)
    guarantee = document["guarantee"]
    assert isinstance(guarantee, dict) and isinstance(guarantee["assumptions"], dict)
    for key, value in claim.items():
        (guarantee["assumptions"] if key == "honest" else guarantee)[key] = value
    body = {key: value for key, value in document.items() if key != "id"}
    return canonical({**body, "id": hashlib.sha256(canonical(body)).hexdigest()})


def test_the_checker_credits_honest_users_with_the_fakes_they_surely_send() -> None:
    """With m = 199 and n = 100 every user sends at least one, so 50 honest users send 50; 99 were counted."""
    plan = plan_from(Schema.one_hot(2), 100, Protocol(0, m=199), epsilon=1.0, honest_fraction=0.5)
    assert checker.verify(plan.to_json()).state is State.CONFIRMED
    assert checker.verify(_claimed(plan.to_json(), delta=8.61e-8)).state is not State.CONFIRMED


def test_the_checker_credits_no_share_that_nobody_enforces() -> None:
    plan = plan_from(Schema.one_hot(2), 100, Protocol(0, m=200), epsilon=1.0)
    assert checker.verify(plan.to_json()).state is State.CONFIRMED
    assert checker.verify(_claimed(plan.to_json(), honest=50, delta=1e-3)).state is not State.CONFIRMED
