"""The checker confirms the accountant's plans, and none that claims more than the protocol gives."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.plans import LONG, SHORT, UNKNOWN, Setting, forged, make, rehashed, scaled

import hubbub as hb
from hubbub.checker import State, WireError, verify
from hubbub.checker.bounds import EXACT_POWERS, exceeds_ratio
from hubbub.checker.crowds import silent
from hubbub.checker.document import Claim, canonical, read
from hubbub.checker.verdict import Part, _odds, _total
from hubbub.documents import canonical as reference

CONFIRMED, NOT_CONFIRMED, FALSE = State.CONFIRMED, State.NOT_CONFIRMED, State.FALSE


def check(setting: Setting, less: float = 0.999) -> None:
    plan = make(setting)
    verdict = verify(hb.load_plan(plan.to_json()).to_json())
    assert verdict.state is CONFIRMED, verdict.parts
    assert verdict.bound is not None
    assert verdict.bound <= plan.guarantee.delta
    assert verdict.honest <= plan.guarantee.assumptions.honest
    assert verify(scaled(plan, less)).state is not CONFIRMED


@pytest.mark.parametrize("setting", SHORT, ids=lambda setting: setting[0])
def test_both_implementations_agree(setting: Setting) -> None:
    check(setting)


@pytest.mark.slow
@pytest.mark.parametrize("setting", LONG, ids=lambda setting: setting[0])
def test_both_implementations_agree_on_large_plans(setting: Setting) -> None:
    check(setting, 0.995)  # the checker's bound of split bits is up to 3 % below the accountant's


@pytest.mark.parametrize("setting", UNKNOWN, ids=lambda setting: setting[0])
def test_proofs_that_the_checker_does_not_know_are_not_confirmed(setting: Setting) -> None:
    assert verify(make(setting).to_json()).state is NOT_CONFIRMED


SPLIT = hb.plan_from(hb.Schema.bits(3), 60, hb.Protocol(0.1, release="bits"), delta=1e-6)
BIT = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)
FIXED = hb.plan_from(hb.Schema.one_hot(10), 100, hb.Protocol(0, 1, 422), delta=1e-6)
FAIR = hb.plan_from(hb.Schema.bits(1), 300, hb.Protocol(0.1, 1, 900), delta=1e-6)
LAPLACE = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0, 1, hb.Fakes.laplace(2.0, 25)), epsilon=1.0)
PURE = hb.plan_from(hb.Schema.bits(3), 100, hb.Protocol(0.3), delta=0.0)


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = to(document[path[-1]]) if callable(to) else to

    return change


ASSUMED = ("guarantee", "assumptions")


def _some_honest(document: dict[str, Any]) -> None:
    document["honest_fraction"] = 0.99
    document["guarantee"]["assumptions"]["honest"] = 99


FAULTS: list[tuple[str, hb.Plan, Callable[[dict[str, Any]], None], State]] = [
    ("smaller delta", BIT, _set("guarantee", "delta", to=9e-7), FALSE),
    ("fewer flips", BIT, _set("protocol", "noise", 0, "flip", to=lambda flip: flip - flip // 1000), FALSE),
    ("more copies", BIT, _set("protocol", "k", to=2), FALSE),
    ("one honest user", BIT, _set(*ASSUMED, "honest", to=1), FALSE),
    ("fewer honest users", BIT, _set(*ASSUMED, "honest", to=990), FALSE),
    ("no shuffler", BIT, _set(*ASSUMED, "shuffler", to=False), FALSE),
    ("no collusion", BIT, _set(*ASSUMED, "collusion_epsilon", to=2.197), FALSE),
    ("no information in the number", SPLIT, _set(*ASSUMED, "count_epsilon", to=6.59), FALSE),
    ("smaller epsilon", SPLIT, _set("guarantee", "epsilon", to=lambda epsilon: epsilon * 0.999), NOT_CONFIRMED),
    ("fewer fakes", FIXED, _set("protocol", "noise", 0, "m", to=400), FALSE),
    ("uneven fakes", FIXED, _some_honest, FALSE),
    ("honest part of the fakes", FIXED, _set(*ASSUMED, "honest", to=99), FALSE),
    ("fewer fakes among flipped bits", FAIR, _set("protocol", "noise", 0, "m", to=890), FALSE),
    ("fakes of dishonest users", FAIR, _set(*ASSUMED, "honest", to=299), NOT_CONFIRMED),
    ("clear records under collusion", FIXED, _set(*ASSUMED, "collusion_epsilon", to=700.0), FALSE),
    ("lower centre", LAPLACE, _set("protocol", "noise", 0, "m", "shift", to=24), FALSE),
    ("smaller scale", LAPLACE, _set("protocol", "noise", 0, "m", "scale", to=1.99), FALSE),
    ("unassumed fakes", LAPLACE, _set(*ASSUMED, to=lambda held: {**held, "fakes": False}), NOT_CONFIRMED),
    ("pure by a billionth", PURE, _set("guarantee", "epsilon", to=lambda epsilon: epsilon * (1 - 9e-10)), FALSE),
]


@pytest.mark.parametrize(("plan", "change", "state"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_planted_faults_are_found(plan: hb.Plan, change: Callable[[dict[str, Any]], None], state: State) -> None:
    assert verify(plan.to_json()).state is CONFIRMED
    assert verify(forged(plan, change)).state is state


def test_fakes_that_are_assumed_suffice() -> None:
    assert verify(forged(LAPLACE, _set(*ASSUMED, to=lambda held: {**held, "fakes": True}))).state is CONFIRMED


def test_flips_of_others_do_not_count_for_one_honest_user() -> None:
    """Review S1: the claim rests on a thousand users' flips, but names one honest user."""
    plan = hb.plan_from(
        hb.Schema.bits(1), 1000, hb.Protocol(0.3, 1, hb.Fakes.laplace(0.01, 0), "bits"), delta=1e-6, honest_fraction=1.0
    )
    alone = forged(plan, _set(*ASSUMED, "honest", to=1))
    document = json.loads(alone)
    document["guarantee"]["epsilon"] = 0.10390099819574575
    assert verify(rehashed(document)).state is NOT_CONFIRMED


def test_fakes_of_dishonest_users_do_not_count() -> None:
    """Review S2: of three users one is honest, and sends a third of the fakes."""
    plan = hb.plan_from(hb.Schema.one_hot(2), 3, hb.Protocol(0, 1, 300), epsilon=0.5)
    document = json.loads(forged(plan, _set(*ASSUMED, "honest", to=1)))
    document["honest_fraction"] = 0.5
    document["guarantee"]["delta"] = 7.363637583904619e-05
    assert verify(rehashed(document)).state is FALSE


def test_weaker_claims_are_confirmed() -> None:
    for plan in (BIT, SPLIT, FIXED, LAPLACE, PURE):
        assert verify(scaled(plan, 1.001)).state is CONFIRMED


def test_empty_claims_are_confirmed() -> None:
    assert verify(forged(BIT, _set("guarantee", "epsilon", to="inf"))).state is CONFIRMED
    assert verify(forged(BIT, _set("guarantee", "delta", to=1))).state is CONFIRMED


def test_widely_spread_likelihoods_are_named() -> None:
    # Randomized response of 50,000 labels ended with a traceback.
    plan = hb.plan_from(hb.Schema.one_hot(50_000), 10**6, hb.Protocol(2e-6, release="category"), epsilon=1.0)
    verdict = verify(plan.to_json())
    assert verdict.state is State.NOT_CONFIRMED
    assert "longer than a minute" in verdict.parts[0].reason


def test_unfeasible_evaluations_are_named() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(3), 10**9, hb.Protocol(0.1, release="bits"), delta=1e-6)
    verdict = verify(plan.to_json())
    assert verdict.state is NOT_CONFIRMED
    assert "longer than a minute" in verdict.parts[0].reason


TEXT = BIT.to_json()
DOCUMENT = json.loads(TEXT)
DAMAGED = [
    ("empty", "", "JSON"),
    ("truncated", TEXT[:-20], "JSON"),
    ("not UTF-8", b"\xff" + TEXT.encode(), "JSON"),
    ("a list", "[]", "exactly the keys"),
    ("edited", TEXT.replace('"n":1000', '"n":9000'), "digest of its content"),
    ("other id", TEXT.replace(DOCUMENT["id"][:8], "00000000"), "digest of its content"),
    ("duplicate key", TEXT[:-1] + ',"n":1000}', "duplicate key"),
    ("NaN", TEXT.replace('"delta":0.000001', '"delta":NaN'), "NaN"),
    ("infinite", TEXT.replace('"delta":0.000001', '"delta":1e999'), "infinite"),
    ("long integer", TEXT.replace('"n":1000', '"n":' + "9" * 30), "out of range"),
    ("deeply nested", "[" * 100_000, "JSON"),
    ("further key", rehashed({**DOCUMENT, "note": 1}), "exactly the keys"),
    ("other format", rehashed({**DOCUMENT, "format": "hubbub plan 1"}), "format"),
    ("lone surrogate", TEXT.replace('"view":"', '"view":"\\ud800'), "surrogates"),
]
ILLEGAL: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_set("n", to=0), "'n' must be"),
    (_set("n", to=True), "'n' must be"),
    (_set("n", to=999), "be for n = 999"),
    (_set("honest_fraction", to=0), "honest_fraction"),
    (_set("honest_fraction", to=1.5), "honest_fraction"),
    (_set("schema", "kind", to="trits"), "kind"),
    (_set("schema", "labels", to=[1]), "list of strings"),
    (_set("schema", "labels", to=["a", "a"]), "distinct"),
    (_set("schema", "max_set", to=2), "max_set"),
    (_set("protocol", "noise", 0, "flip", to=2**47), "flip"),
    (_set("protocol", "noise", 0, "flip", to=0), "clear records"),
    (_set("protocol", "k", to=0), "'k'"),
    (_set("protocol", "release", to="words"), "release"),
    (_set("protocol", "release", to="category"), "category"),
    (_set("protocol", "noise", 0, "m", to=-1), "'m'"),
    (_set("protocol", "noise", 0, "m", to={"distribution": "cauchy", "scale": 1, "shift": 0}), "distribution"),
    (_set("protocol", "noise", 0, "m", to={"distribution": "laplace", "scale": 0, "shift": 0}), "scale"),
    (_set("guarantee", "epsilon", to=-1), "epsilon"),
    (_set("guarantee", "delta", to=1.5), "delta"),
    (_set("guarantee", "delta", to="0"), "delta"),
    (_set(*ASSUMED, "honest", to=1001), "honest"),
    (_set(*ASSUMED, "shuffler", to=1), "shuffler"),
    (_set(*ASSUMED, "view", to="nothing"), "view"),
    (_set(*ASSUMED, to=[]), "assumptions"),
]


@pytest.mark.parametrize(("text", "reason"), [one[1:] for one in DAMAGED], ids=[one[0] for one in DAMAGED])
def test_damaged_plans_are_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        verify(text)


@pytest.mark.parametrize(("change", "reason"), ILLEGAL)
def test_illegal_values_are_refused(change: Callable[[dict[str, Any]], None], reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        verify(forged(BIT, change))


CATEGORY = hb.plan_from(hb.Schema.one_hot(5), 150, hb.Protocol(0.05, release="category"), delta=1e-6)


@pytest.mark.parametrize(
    ("plan", "path", "to", "reason"),
    [
        (FIXED, ("protocol", "k"), 2, "clear records must be sent once"),
        (CATEGORY, ("protocol", "noise", 0, "m"), 5, "copies or fakes with a category"),
        (CATEGORY, ("protocol", "k"), 2, "copies or fakes with a category"),
        (LAPLACE, ("protocol", "k"), 2, "clear records must be sent once"),
    ],
)
def test_combinations_that_no_theorem_covers_are_refused(
    plan: hb.Plan, path: tuple[str | int, ...], to: int, reason: str
) -> None:
    with pytest.raises(WireError, match=reason):
        verify(forged(plan, _set(*path, to=to)))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcz_"), inner, max_size=3),
    )
)  # fmt: skip
def test_canonical_json_is_that_of_the_library(value: Any) -> None:
    assert canonical(value).encode() == reference(value)


def test_rounds_share_the_total_before_it_is_compared_with_one_user_s_messages() -> None:
    """Three rounds of a bit flipped with 1/4 cost 3·ln 3 = 3.296."""
    claim = Claim(
        id="", kind="bits", width=1, max_set=1, n=100, honest_fraction=Fraction(1), flip=Fraction(1, 4), copies=1,
        fakes=0, release="records", epsilon=Fraction(2), delta=Fraction(0), honest=1, shuffler=False,
        may_use_shufflers_fakes=False, collusion_epsilon=None, count_epsilon=None, rounds=3,
        total_epsilon=Fraction(33, 10), total_delta=Fraction(0), curve=(),
    )  # fmt: skip
    part = Part("guarantee", State.CONFIRMED, "")
    assert _total(claim, part, silent).state is State.CONFIRMED
    assert _total(replace(claim, total_epsilon=Fraction(3, 2)), part, silent).state is State.NOT_CONFIRMED


@pytest.mark.parametrize(("rounds", "copies"), [(10**6, 1), (1, 10**6), (10**6, 10**6)])
def test_powers_of_likelihood_ratios_take_no_time(rounds: int, copies: int) -> None:
    """Regression: ratio^(rounds·copies) was multiplied out, so that a plan of 1.6 kB took minutes."""
    made = json.loads(hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.45), delta=1e-6).to_json())
    made["rounds"], made["protocol"]["k"] = rounds, copies
    made["guarantee"]["delta"] = made["total"]["delta"] = 1.0
    made["odds"] = {"round": 1.0, "total": 1.0, "local": 0.999 if copies > 1 else 1.0, "local_total": 0.999}
    claim = read(rehashed(made))
    started = time.process_time()
    found = _odds(claim, Part("guarantee", CONFIRMED, ""), silent)
    assert time.process_time() - started < 1
    assert found.state is (FALSE if copies > 1 else NOT_CONFIRMED)


@given(st.fractions(1, 50), st.integers(1, 300), st.integers(0, 2**40))
def test_ratios_are_compared_as_if_multiplied_out(ratio: Fraction, power: int, shift: int) -> None:
    """With digits enough, the logarithms decide; a bound may be the product itself."""
    exact = ratio**power
    for bound in (exact, exact + Fraction(1, 1 + shift), max(Fraction(1), exact - Fraction(1, 1 + shift))):
        assert exceeds_ratio(bound, [(ratio, power)]) in {exact > bound, None}
        assert power > EXACT_POWERS or exceeds_ratio(bound, [(ratio, power)]) is not None
