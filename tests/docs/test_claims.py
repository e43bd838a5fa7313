"""Every sentence on privacy and counting is quoted in the table of claims, with support that exists."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from docs.claims import Claim

import hubbub as hb
from docs import claims, generate
from hubbub.accountant import Ledger
from hubbub.accountant.overflow import min_slots, overflow
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.model.protocol import Protocol
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick

FOUND = claims.claims()
MEND = "look at its support again, quote it in docs/claims.toml as it is now, and run python -m docs.generate"


@pytest.mark.parametrize("page", claims.PAGES)
def test_every_sentence_is_quoted(page: str) -> None:
    quoted = {one for claim in FOUND if claim.page == page for one in claim.says}
    assert [one for one in claims.sentences(page) if one not in quoted] == [], MEND


@pytest.mark.parametrize("claim", FOUND, ids=lambda claim: claim.name)
def test_a_claim_is_on_its_page_and_has_support(claim: Claim) -> None:
    assert [one for one in claim.says if one not in claims.sentences(claim.page)] == [], MEND
    assert claim.says
    assert claim.supported
    assert claims.missing_tests(claim.tests) == []
    assert claims.missing_anchors(claim.theorems) == []
    written = [name for name in claim.pending if (claims.ROOT / name).exists()]
    assert written == [], "these tests exist now: name them under tests"


def test_names_are_unique() -> None:
    names = [claim.name for claim in FOUND]
    assert [name for name in names if names.count(name) > 1] == []
    quoted = [(claim.page, one) for claim in FOUND for one in claim.says]
    assert [one for one in quoted if quoted.count(one) > 1] == []


def test_changes_are_noticed() -> None:
    text = (claims.DOCS / "services.md").read_text("utf-8")
    changed = text.replace("nothing counts twice", "nothing ever counts twice").replace("| analyzer | ", "| analyst | ")
    assert len(set(claims.cut(changed)) - set(claims.cut(text))) == 2
    assert set(claims.cut(f"{text}\n\nNobody learns anything.\n")) - set(claims.cut(text)) == {
        "Nobody learns anything."
    }
    assert claims.missing_tests(["tests/docs/test_claims.py::test_none", "tests/none.py::test_a"]) != []
    assert claims.missing_anchors(["theory/fakes.md#none", "theory/none.md#a"]) != []
    assert not Claim(name="a", page="threats.md", says=("a",)).supported


@pytest.mark.parametrize("page", generate.STORED)
def test_stored_parts_are_current(page: str) -> None:
    text = (claims.DOCS / page).read_text("utf-8")
    assert generate.filled(text, generate.STORED[page]()) == text, "run python -m docs.generate"


def test_a_page_needs_one_place_for_its_part() -> None:
    with pytest.raises(RuntimeError, match="one place"):
        generate.filled("# Title\n", "part")


# Claims that no other test shows.

DRAWN = hb.Fakes.laplace(2.0, shift=25)
GAPS: Mapping[str, tuple[Protocol, hb.Schema, int, float]] = {
    "one bit": (Protocol(0.1), hb.Schema.bits(1), 10**4, 0.001),
    "copies of one bit": (Protocol(0.2, k=4), hb.Schema.bits(1), 10**4, 0.001),
    "fixed fakes": (Protocol(0.0, m=2000), hb.Schema.one_hot(3), 1000, 1e-4),
    "users' fakes": (Protocol(0.0, m=hb.Fakes.binomial(1, 0.5)), hb.Schema.one_hot(3), 1000, 1e-4),
    "shuffler's fakes": (Protocol(0.0, m=DRAWN), hb.Schema.one_hot(3), 1000, 1e-4),
    "strings": (Protocol(0, m=hb.Fakes.laplace(2.0, 35), release="strings"), hb.Schema.strings(), 2000, 1e-4),
    "categories": (Protocol(0.02, release="category"), hb.Schema.one_hot(10), 10**4, 0.001),
    "split one-hot": (Protocol(0.01, release="bits"), hb.Schema.one_hot(10), 10**4, 0.002),
    "split bits": (Protocol(0.1, release="bits"), hb.Schema.bits(40), 10**5, 0.007),
    "split bits, shuffler's fakes": (Protocol(0.05, m=DRAWN, release="bits"), hb.Schema.bits(3), 1000, 0.02),
    "split one-hot, shuffler's fakes": (Protocol(0.01, m=DRAWN, release="bits"), hb.Schema.one_hot(10), 1000, 0.02),
    "whole one-hot": (Protocol(0.25), hb.Schema.one_hot(40), 1000, 0.002),
    "few of many": (Protocol(0.3139), hb.Schema.at_most(3, 40), 1000, 0.002),
    "five bits": (Protocol(0.2446), hb.Schema.bits(5), 1000, 0.02),
}
"""Protocols of the table in ``guarantees.md`` with the stated gap; ``tests/accountant/records`` has wider vectors."""


@pytest.mark.parametrize("name", GAPS)
def test_gaps_between_certificate_and_attack_are_as_stated(name: str) -> None:
    protocol, schema, n, gap = GAPS[name]
    held = hb.account(protocol, schema, n, delta=1e-6)
    assert 1 <= held.epsilon / held.lower_bound <= 1 + gap


def test_gaps_that_are_not_stated() -> None:
    """Whole records among the shuffler's fakes have no attack; without a shuffler, certificate and attack agree."""
    assert hb.account(Protocol(0.1, m=DRAWN), hb.Schema.one_hot(3), 1000, delta=1e-6).lower_bound == 0
    local = hb.account(Protocol(0.25), hb.Schema.one_hot(3), 1000, delta=1e-6, trust="nobody")
    assert local.epsilon == pytest.approx(local.lower_bound, rel=1e-4)


@pytest.mark.parametrize(("release", "epsilon"), [("records", 8), ("bits", 15)])
def test_the_local_guarantee_of_a_large_batch_is_weak(release: Literal["records", "bits"], epsilon: int) -> None:
    found = hb.calibrate(hb.Schema.one_hot(100), 100_000, hb.Budget(1.0, 1e-6), release=release)
    assert round(found.guarantee.assumptions.collusion_epsilon) == epsilon


def test_the_weight_of_a_device_in_a_survey_is_the_number_of_attributes() -> None:
    """Nothing links messages: a device that puts those of both attributes on one label counts almost as two people."""
    schema = hb.Schema.survey({"colour": hb.Choice(["red", "green", "blue"]), "dark mode": hb.Flag()})
    plan = hb.plan(schema, 1000, hb.Budget(1.0, 1e-6), trust="shuffler-noise")
    assert plan.protocol.clear
    given = {"colour": ["green"] * 1000, "dark mode": [False] * 1000}
    stream = SeededStreamNotForPeople(3)
    people = hb.Collection.from_values(given, plan.schema)
    honest = hb.tally(hb.shuffle(hb.randomize(people, plan, entropy=stream), plan, entropy=stream))
    names = list(plan.schema.labels)
    red, green, no = (next(i for i, name in enumerate(names) if part in name) for part in ("red", "green", "no"))
    counts = np.array(honest.counts)
    counts[[green, no]] -= 1
    counts[red] += 2
    before, after = (hb.estimate(one, plan)["colour"] for one in (honest, replace(honest, counts=counts)))
    assert isinstance(before, hb.LabelView)
    assert isinstance(after, hb.LabelView)
    moved = after.values[0] - before.values[0]
    assert 1.5 < moved <= 2


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("protocol", [Protocol(0.1, release="bits"), Protocol(0.2, k=2), Protocol(0.0, m=DRAWN)])
def test_the_weight_of_a_device_among_labels_that_add_up(protocol: Protocol, labels: int) -> None:
    """One more device, with none or with all of its messages on the first label, moves estimates as stated."""
    plan = hb.plan_from(hb.Schema.one_hot(labels), 100, protocol, delta=1e-3)
    gain, counts = protocol.k * (1 - 2 * plan.protocol.q), np.full(labels, 60)

    def values(n: int, sent: int) -> np.ndarray:
        found = counts + sent * (np.arange(labels) == 0)
        found.setflags(write=False)
        messages = n * protocol.k if protocol.sends_records else int(found.sum())
        own = hb.Tally(plan=plan.id, n=n, fakes=0, messages=messages, batches=1, smallest_batch=n, counts=found)
        return np.asarray(hb.estimate(own, plan).question.values)

    for sent in (0, protocol.k):
        moved = values(101, sent) - values(100, 0)
        assert moved.sum() == pytest.approx(1)
        assert moved[0] == pytest.approx(sent * (1 - 1 / labels) / gain + 1 / labels)
        assert moved[0] <= max(sent, protocol.k) / gain
    assert (values(101, 0) - values(100, 0)).tolist() == pytest.approx([1 / labels] * labels)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_odds_rarely_move_by_more_than_twice_the_ratio(epsilon: float) -> None:
    """Towards the truth with probability 2δ at most, away from it with δe^(−ε), for a bit in a crowd of every size."""
    for people, q in itertools.product((1, 5, 40), (0.01, 0.1, 0.3)):
        for held in range(people):
            pair = [one.pmf for one in neighbours(people, held, q)]
            for true, other in (pair, pair[::-1]):
                delta, factor = hockey_stick(true, other, epsilon), 2 * math.exp(epsilon)
                back = hockey_stick(other, true, epsilon)
                assert true[true > factor * other].sum() <= 2 * delta + 1e-15
                assert true[other > factor * true].sum() <= back * math.exp(-epsilon) + 1e-15


def test_the_overflow_of_slots_hardly_changes_odds() -> None:
    """Bundles lack a message with probability hτ, which raises a rate by as much; δ pays (1 + e^ε)·hτ for it."""
    for labels in (30, 100):
        plan = hb.plan(hb.Schema.one_hot(labels), 1000, hb.Budget(1.0, 1e-6))
        held = plan.guarantee
        assert 0 < overflow(plan, min_slots(plan)) / (1 + math.exp(held.epsilon)) < held.delta / 2000


def test_two_answers_of_one_person_cost_at_most_group_privacy() -> None:
    """Twice in one batch: (2ε, (1 + e^ε)·δ) at most, and more than once in each of two batches; by enumeration."""
    fakes = hb.Fakes.laplace(1.0, 14)
    pmf = np.append(fakes.pmf, [0.0, 0.0])

    def delta(shift: int, epsilon: float) -> float:
        moved = np.roll(pmf, shift)
        first, second = np.multiply.outer(moved, pmf), np.multiply.outer(pmf, moved)
        return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())

    plan = hb.plan_from(hb.Schema.one_hot(2), 1000, Protocol(0, m=fakes), delta=1e-6)
    rounds = Ledger().charge(plan, rounds=2)
    dearer = []
    for epsilon in (0.5, 1.0, 1.5, 2.0):
        assert delta(2, 2 * epsilon) <= (1 + math.exp(epsilon)) * delta(1, epsilon) * (1 + 1e-9)
        dearer.append(delta(2, 2 * epsilon) > rounds.delta(2 * epsilon))
    assert any(dearer)
    assert all(delta(1, one) >= delta(1, two) for one, two in itertools.pairwise((0.5, 1.0, 1.5)))
