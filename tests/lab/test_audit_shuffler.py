"""An audit finds faulty shufflers; the library's shuffler and pipeline pass, with and without fakes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.lab.faults import generator, honest, reordered
from tests.pipeline.points import POINTS, PROTOCOLS, SCHEMAS, plan_of

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.lab.audit.attacks import Neighbours, attack_pipeline, crowds, statistic
from hubbub.lab.audit.commands import Shuffler
from hubbub.lab.audit.model import Probe
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.shuffler import arrivals, examine_shuffler, numbered_plan, observe
from hubbub.lab.audit.trial import audit

Order = NDArray[np.int64]


def own(seed: int = 1) -> Shuffler:
    entropy = SeededStreamNotForPeople(seed)
    return lambda reports: hb.shuffle(reports, entropy=entropy)


def tried(shuffler: Shuffler, runs: int = 60, plan: hb.Plan | None = None) -> Audit:
    plan = plan or plan_of("one_hot", "flip")
    return audit(plan, None, shuffler, tried=Effort(values=1, runs=1, shuffles=runs, pipeline=0))


def names(found: Audit) -> set[str]:
    assert found.sentence().startswith("FAIL")
    return {one.name for one in found.violations}


def naive(seed: int = 1) -> Callable[[int], Order]:
    """``for i: swap(i, random(n))``: n^n equally likely paths, which n! orders cannot share evenly."""
    coins = generator(seed)

    def order(n: int) -> Order:
        places, others = list(range(n)), coins.integers(0, n, n).tolist()
        for i, j in enumerate(others):
            places[i], places[j] = places[j], places[i]
        return np.array(places)

    return order


def test_naive_swapping() -> None:
    assert "correlation with arrival" in names(tried(reordered(naive())))


def test_sorting_by_short_keys() -> None:
    coins = generator()
    found = tried(reordered(lambda n: np.argsort(coins.integers(0, 2**16, n), kind="stable")), 100)
    assert names(found) == {"ascents"}


def test_blocks() -> None:
    coins = generator()

    def order(n: int) -> Order:
        return np.concatenate([start + coins.permutation(min(500, n - start)) for start in range(0, n, 500)])

    assert "input block against output block" in names(tried(reordered(order)))


def test_only_blocks_move() -> None:
    coins = generator()

    def order(n: int) -> Order:
        return np.concatenate([np.arange(i * n // 50, (i + 1) * n // 50) for i in coins.permutation(50)])

    assert "neighbours kept together" in names(tried(reordered(order)))


def test_one_message_stays() -> None:
    """The first message stays first; all others are shuffled."""
    coins = generator()
    found = tried(reordered(lambda n: np.r_[0, 1 + coins.permutation(n - 1)]), 80)
    assert names(found) >= {"first and last message"}


def test_fixed_order() -> None:
    once = generator().permutation(4000)
    assert "repeated orders" in names(tried(reordered(lambda n: once)))


def test_identity() -> None:
    assert "fixed points" in names(tried(reordered(np.arange), 20))


@pytest.mark.parametrize("change", [lambda rows: rows[1:], lambda rows: np.concatenate([rows, rows[:1]])])
def test_messages_lost_or_added(change: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]) -> None:
    found = tried(lambda reports: replace(reports, messages=change(reports.messages)), 5)
    assert found.sentence().startswith("FAIL: a shuffler must return")


@pytest.mark.parametrize("point", [("one_hot", "clear among Laplace fakes"), ("bits", "split among Laplace fakes")])
def test_fakes_without_noise(point: tuple[str, str]) -> None:
    shuffler, plan = own(), plan_of(*point)
    assert tried(own(), 80, plan).passed

    def constant(reports: hb.Reports) -> hb.Reports:
        m = reports.plan.protocol.shuffler_fakes
        if m is None:
            return shuffler(reports)
        still = replace(reports.plan, protocol=reports.plan.protocol.changed(m=replace(m, scale=0.01)))
        return replace(shuffler(replace(reports, plan=still)), plan=reports.plan)

    assert "distribution of shuffler fakes" in names(tried(constant, 80, plan))


def test_fakes_appended_after_the_records() -> None:
    plan = plan_of("one_hot", "clear among Laplace fakes")
    shuffler = own()

    def appended(reports: hb.Reports) -> hb.Reports:
        shuffled = shuffler(reports)
        if reports.plan.protocol.shuffler_fakes is None:
            return shuffled
        rest = np.bincount(shuffled.messages[:, 0], minlength=9) - np.bincount(reports.messages[:, 0], minlength=9)
        fakes = np.repeat(np.arange(9), rest).astype(np.uint8)[:, None]
        people = reports.messages[generator().permutation(len(reports))]
        return replace(shuffled, messages=np.concatenate([people, fakes]))

    assert "input block against output block" in names(tried(appended, 40, plan))


@pytest.mark.long
def test_library_shuffler_passes_at_every_point() -> None:
    p = []
    for seed, (kind, name) in enumerate(POINTS):
        plan = plan_of(kind, name)
        found = examine_shuffler(observe(own(seed), plan, 12, lambda: None), plan)
        p += [one.p for one in found if one.name != "repeated orders"]
    assert min(p) > 1e-5
    assert stats.kstest(p, "uniform").pvalue > 1e-4


@pytest.mark.long
def test_tags_are_legal_and_distinct() -> None:
    for kind, name in POINTS:
        plan = plan_of(kind, name)
        reports, tags = arrivals(plan)
        assert len(reports) == tags.size
        assert hb.shuffle(reports).n == plan.n
    assert np.unique(arrivals(numbered_plan())[1]).size == 4000


PIPELINES = ["flip", "copies", "split", "split among binomial fakes", "clear among Laplace fakes", "category"]


@pytest.mark.long
@pytest.mark.parametrize("name", PIPELINES)
def test_library_pipeline_stays_below_its_claim(name: str) -> None:
    plan = hb.plan_from(SCHEMAS["one_hot"], 400, PROTOCOLS[name], delta=1e-3)
    pairs = crowds(plan)
    assert pairs
    found = attack_pipeline(pairs[0], honest(), own(), 200, 1e-3, lambda: None)
    assert len(found) == 2
    for one in found:
        assert one.epsilon <= one.claimed
    if pairs[0].plan.n == 1:
        assert max(one.epsilon for one in found) > 0.15 * found[0].claimed


def test_pipeline_that_reveals_a_person_alone_in_a_batch() -> None:
    """Only the attack on the pipeline sees what split bits reveal of a single person."""
    plan = hb.plan_from(SCHEMAS["one_hot"], 50, hb.Protocol(0.25, release="bits"), delta=1e-3)

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        if len(collection) > 20:
            return honest()(collection, plan)
        return hb.Reports(plan, collection.ones(0, len(collection))[0].astype(np.uint8), len(collection))

    found = audit(plan, client, own(), tried=Effort(values=100, runs=8, shuffles=5, pipeline=200))
    assert any(one.part == "pipeline" and one.where.startswith("n = 1") for one in found.violations)


def test_statistic_of_a_batch_is_its_likelihood_ratio() -> None:
    """Two people with one bit each, against the ratio computed by hand."""
    schema, q = hb.Schema.bits(1), 0.2
    one, two = Probe("set", (0,)), Probe("not set", ())
    for release in ("records", "bits"):
        plan = hb.plan_from(schema, 2, hb.Protocol(q, release=release), delta=1e-3)
        score = statistic(Neighbours(plan, one, two, two))
        q = plan.protocol.q
        p = 1 - q
        first, second = [p * q, p * p + q * q, p * q], [q * q, 2 * p * q, p * p]
        values = []
        for ones in (2, 1, 0):
            messages = np.zeros(ones, np.uint8) if release == "bits" else np.array([[1]] * ones + [[0]] * (2 - ones))
            values.append(score(hb.Reports(plan, messages.astype(np.uint8), 2)))
        exact = np.log(first) - np.log(second)
        if release == "bits":
            assert np.allclose(values, exact)
        else:
            assert np.all(np.diff(values) < 0)
            assert np.all(np.diff(exact) < 0)


def test_shuffler_that_keeps_or_reverses_the_order_is_diagnosed() -> None:
    for order, text in (
        (np.arange, "messages leave in the order of arrival"),
        (lambda n: np.arange(n)[::-1], "reverse"),
    ):
        found = tried(reordered(order), 20)
        assert len(found.diagnoses) == 1
        assert text in found.sentence()
        assert not found.private


def test_repeated_order_comes_first() -> None:
    once = generator().permutation(4000)
    found = tried(reordered(lambda n: once))
    assert found.diagnoses[0].text.startswith("the same order was used again, as with a fixed seed")
