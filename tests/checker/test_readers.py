"""``load_plan`` and ``verify`` accept the same texts as plans, and refuse the same ones."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.checker.plans import forged, rehashed

import hubbub as hb
from hubbub.checker import State, WireError, verify
from hubbub.checker.document import canonical
from hubbub.errors import FalseClaim

BIT = hb.plan_from(hb.Schema.bits(1), 100, hb.Protocol(0.1), delta=1e-6)
ONE = hb.plan_from(hb.Schema.bits(1), 1, hb.Protocol(0.1), delta=1e-3)
CLEAR = hb.plan_from(hb.Schema.one_hot(3), 50, hb.Protocol(0, 1, 100), delta=1e-6)
HALF = hb.plan_from(hb.Schema.bits(1), 101, hb.Protocol(0.1), delta=1e-6, honest_fraction=0.5)
Change = Callable[[dict[str, Any]], object]

NO_ODDS = dict.fromkeys(("round", "total", "local", "local_total"), 1)


def _held(document: dict[str, Any]) -> dict[str, Any]:
    held: dict[str, Any] = document["guarantee"]["assumptions"]
    return held


def _guarantee(**values: Any) -> Change:
    return lambda document: document["guarantee"].update(values)


REFUSED: list[tuple[str, hb.Plan, Change, str]] = [
    ("more honest users than the fraction provides", HALF, lambda one: _held(one).update(honest=51), "at most 50"),
    ("smaller honest fraction", BIT, lambda one: one.update(honest_fraction=0.99), "at most 99"),
    ("no word on the shuffler's fakes", BIT, lambda one: _held(one).pop("fakes"), "exactly the keys"),
    ("fractional n of the guarantee", BIT, _guarantee(n=100.5), "'n' must be"),
    ("n of the guarantee is true", ONE, _guarantee(n=True), "'n' must be"),
    ("basis", BIT, _guarantee(basis="conjectured"), "'basis'"),
    ("basis of another type", BIT, _guarantee(basis=["exact"]), "'basis'"),
    ("solved", BIT, _guarantee(solved="n"), "'solved'"),
    ("method", BIT, _guarantee(method=None), "'method'"),
    ("negative lower bound", BIT, _guarantee(lower_bound=-1e-9), "lower_bound"),
    ("lower bound in words", BIT, _guarantee(lower_bound="nan"), "lower_bound"),
    ("no standard error", BIT, lambda one: one.update(stderr=0), "'stderr'"),
    ("infinite standard error", BIT, lambda one: one.update(stderr="inf"), "'stderr'"),
    ("negative delta", BIT, _guarantee(delta=-5e-324), "delta"),
    ("negative epsilon", BIT, _guarantee(epsilon=-5e-324), "epsilon"),
]


@pytest.mark.parametrize(("plan", "change", "reason"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_both_refuse(plan: hb.Plan, change: Change, reason: str) -> None:
    text = forged(plan, change)
    with pytest.raises((hb.WireError, FalseClaim)):
        hb.load_plan(text)
    with pytest.raises(WireError, match=reason):
        verify(text)


def test_numbers_of_plans_are_doubles() -> None:
    """An integer beyond 2⁵³ stands for the nearest double, also in the digest."""
    document = json.loads(forged(BIT, _guarantee(epsilon=9007199254740992)))
    verbatim = json.dumps(document).replace("9007199254740992", "9007199254740993")
    assert hb.load_plan(verbatim).id == document["id"]
    assert verify(verbatim).plan == document["id"]
    assert canonical(2**53 + 1) == "9007199254740992"
    body = '{"epsilon":9007199254740993}'
    assert canonical(json.loads(body)) != body
    digits = canonical({key: part for key, part in document.items() if key != "id"}).replace("740992", "740993")
    other = json.dumps({**json.loads(digits), "id": hashlib.sha256(digits.encode()).hexdigest()})
    for reader in (hb.load_plan, verify):
        with pytest.raises((hb.WireError, WireError), match="digest"):
            reader(other)


@pytest.mark.parametrize("text", [None, 7, {"format": "hubbub plan 3"}, bytearray(b"{}")])
def test_other_types_are_refused(text: Any) -> None:
    for reader in (hb.load_plan, verify):
        with pytest.raises((hb.InvalidInput, WireError)):
            reader(text)


def test_empty_claims_hold_under_every_assumption() -> None:
    nothing = {"curve": [[0, 1]], "total": {"epsilon": "inf", "delta": 1}, "odds": NO_ODDS}
    empty = forged(
        CLEAR, lambda one: (_held(one).update(honest=1), one["guarantee"].update(delta=1), one.update(nothing))
    )
    assert hb.load_plan(empty).guarantee.delta == 1
    assert verify(empty).state is State.CONFIRMED


def test_huge_epsilons_are_decided() -> None:
    for epsilon in (1e16, 1e300):
        text = forged(CLEAR, _guarantee(epsilon=epsilon))
        assert hb.load_plan(text).guarantee.epsilon == epsilon
        assert verify(text).state in (State.CONFIRMED, State.NOT_CONFIRMED)


@pytest.mark.parametrize(
    ("schema", "flip"), [(hb.Schema.bits(1), 0), (hb.Schema.bits(1), 2**44), (hb.Schema.bits(2), 2**44)]
)
def test_very_many_fakes_are_refused_at_once(schema: hb.Schema, flip: int) -> None:
    plan = hb.plan_from(schema, 10, hb.Protocol(0.1, 1, 50, "bits"), delta=1e-3)
    document = json.loads(forged(plan, lambda one: one["protocol"]["noise"][0].update(m=10**12, flip=flip)))
    _held(document).update(collusion_epsilon="inf", count_epsilon="inf")
    document["guarantee"].update(epsilon=1e-9, delta=1e-9)
    document["odds"] = NO_ODDS
    verdict = verify(rehashed(document))
    assert verdict.state is State.NOT_CONFIRMED
    assert "longer than a minute" in verdict.parts[0].reason
