"""Families have unique, stable keys, and every plan of a search is classified as the family that proposed it."""

import pytest

from hubbub.errors import InvalidInput
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import FAMILIES, Request, Search, family_key, family_name, plan_from
from hubbub.planner.certify import Candidate

BUDGET = Budget(1.0, 1e-6)


def test_documented_keys() -> None:
    """Keys are part of JSON and of the command line: they may be added to, never renamed."""
    assert list(FAMILIES) == [
        "local-flip",
        "local-response",
        "flip",
        "copies",
        "split",
        "response",
        "fake-and-flip",
        "clear-user-fakes",
        "clear-shuffler-fakes",
        "clear-shuffler-fakes-records",
        "flip-shuffler-fakes",
        "flip-shuffler-fakes-records",
        "strings",
    ]
    assert all(key == family.key for key, family in FAMILIES.items())


@pytest.mark.parametrize(
    ("protocol", "key", "name"),
    [
        (Protocol(0.1), "flip", "flipped records"),
        (Protocol(0.1, k=8), "copies", "8 flipped copies"),
        (Protocol(0.1, release="bits"), "split", "split bits"),
        (Protocol(0.1, k=2, release="bits"), "split", "split bits, 2 copies"),
        (Protocol(0.01, release="category"), "response", "9-ary randomized response"),
        (Protocol(0.0, m=900), "clear-user-fakes", "clear records, users' fakes"),
        (Protocol(0.0, m=Fakes.poisson(0.1)), "clear-user-fakes", "clear records, users' fakes (poisson)"),
        (
            Protocol(0.0, m=Fakes.gaussian(9.0, 60), release="bits"),
            "clear-shuffler-fakes",
            "clear records, shuffler's fakes (gaussian)",
        ),
        (Protocol(0.1, m=Fakes.binomial(1, 0.1)), "fake-and-flip", "flipped records, users' fakes (binomial)"),
        (
            Protocol(0.1, m=Fakes.laplace(2.0, 25)),
            "flip-shuffler-fakes",
            "flipped records, shuffler's fakes (laplace)",
        ),
    ],
)
def test_keys_and_names(protocol: Protocol, key: str, name: str) -> None:
    assert family_key(protocol, Schema.one_hot(9)) == key
    assert family_name(protocol, Schema.one_hot(9)) == name


def test_bits_and_whole_records_among_fakes_differ() -> None:
    for q, word in ((0.0, "clear"), (0.1, "flip")):
        bits = Protocol(q, m=Fakes.laplace(2.0, 25), release="bits")
        whole = Protocol(q, m=Fakes.laplace(2.0, 25))
        assert family_key(bits, Schema.bits(4)) == f"{word}-shuffler-fakes"
        assert family_key(whole, Schema.bits(4)) == f"{word}-shuffler-fakes-records"
        assert family_name(bits, Schema.bits(4)) != family_name(whole, Schema.bits(4))


def test_local_families_are_known_by_the_guarantee() -> None:
    schema = Schema.one_hot(9)
    assert family_key(plan_from(schema, 100, Protocol(0.3), delta=1e-6, trust="nobody")) == "local-flip"
    assert family_key(plan_from(schema, 100, Protocol(0.3), delta=1e-6)) == "flip"
    own = plan_from(schema, 100, Protocol(0.1, release="category"), delta=0.0, trust="nobody")
    assert family_key(own) == "local-response"
    assert family_name(own) == "local randomized response"


def test_one_bit_cannot_be_split() -> None:
    assert family_key(Protocol(0.1, release="bits"), Schema.bits(1)) == "flip"


@pytest.mark.parametrize("wrong", [("flip",), (Protocol(0.1), "bits")])
def test_bad_input(wrong: tuple[object, ...]) -> None:
    with pytest.raises(InvalidInput):
        family_key(*wrong)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "min_q"),
    [
        (Schema.one_hot(5), 0.0),
        (Schema.one_hot(12), 0.02),
        (Schema.one_hot(3), 0.0),
        (Schema.bits(1), 0.0),
        (Schema.bits(5), 0.0),
        (Schema.bits(5), 0.02),
        (Schema.at_most(2, 9), 0.0),
        (Schema.at_most(3, 12), 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_plans_are_classified_as_the_family_that_proposed_them(schema: Schema, min_q: float, n: int) -> None:
    comparison = Search.of(Request.of(schema, n, BUDGET, min_q=min_q, trust="shuffler-noise"))
    assert comparison.plans
    assert [family_key(plan) for plan in comparison.plans.values()] == list(comparison.plans)
    assert not set(comparison.plans) & set(comparison.failures)
    names = [family_name(plan) for plan in comparison.plans.values()]
    assert len(names) == len(set(names))


def test_candidates_have_attempts() -> None:
    for schema in (Schema.one_hot(5), Schema.bits(300), Schema.at_most(2, 9), Schema.bits(1)):
        for request in (
            Request.of(schema, 100, BUDGET),
            Request.of(schema, 100, BUDGET, max_messages=1, max_bytes=157),
            Request.of(schema, 1, Budget(0.0, 0.0), joint=True),
        ):
            for family in FAMILIES.values():
                candidate = family.candidate(request)
                assert candidate is None or (isinstance(candidate, Candidate) and candidate.attempts)
