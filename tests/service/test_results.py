"""The guarantee in the result of a batch: that of the batch, with the price of overflow at its own size."""

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.service.samples import contract

import hubbub as hb
from hubbub.accountant.overflow import max_messages, overflow
from hubbub.errors import WireError
from hubbub.service.analyzer.results import batch_result, position
from hubbub.service.analyzer.slots import Verdict
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.analyzer.tallies import BatchTally, PartialTally, count_chunk
from hubbub.service.reader import TaskResults, time_of
from hubbub.service.task.contract import Contract, Series

PLAN = hb.plan_from(hb.Schema.one_hot(20), 100, hb.Protocol(0.1, release="bits"), delta=1e-4)


def row_of(terms: Contract, bundles: int) -> BatchRow:
    """Return a batch that is about to be finished."""
    slots = bundles * terms.slots
    return BatchRow(
        id="batch",
        task=terms.task,
        bucket=3,
        epoch=450_000,
        round=1,
        key_id=1,
        bundles=bundles,
        slots=slots,
        chunk_count=1,
    )


def result_of(people: int) -> dict[str, object]:
    """Return the result of a batch of clients who all sent the first and the second label."""
    terms = contract(PLAN)
    payloads = np.tile(np.array([[0], [1]], np.uint8), (people, 1))
    part = count_chunk(payloads, np.zeros(len(payloads), np.uint8), PLAN)
    state, result = batch_result(row_of(terms, people), terms, BatchTally.add_up([part], PLAN), terms.spending(1))
    assert state == "committed"
    return dict(result)


@pytest.mark.parametrize("people", [100, 101, 5000])
def test_s9_overflow_is_priced_at_the_size_of_the_batch(people: int) -> None:
    terms = contract(PLAN)
    most = max_messages(PLAN)
    assert most is not None
    assert terms.slots < most, "some clients must overflow for this test"
    stated = hb.Guarantee.from_document(result_of(people)["guarantee"])  # type: ignore[arg-type]
    achieved = PLAN.guarantee
    if people > PLAN.n:
        achieved = hb.account(PLAN.protocol, PLAN.schema, people, delta=1e-4)
    price = overflow(PLAN, terms.slots, n=people, epsilon=achieved.epsilon)
    assert stated.epsilon == achieved.epsilon
    assert stated.assumptions.honest == people
    assert achieved.delta + price <= stated.delta <= (achieved.delta + price) * (1 + 1e-12)
    if people == 5000:
        assert price > 5 * terms.overflow, "the price at the plan's n would be too small"


def test_s9_batches_without_overflow_keep_their_guarantee() -> None:
    plan = hb.plan_from(hb.Schema.bits(2), 100, hb.Protocol(0.3), delta=1e-4)
    assert contract(plan).with_overflow(plan.guarantee) is plan.guarantee


def test_results_are_dated_and_ordered() -> None:
    result = result_of(100)
    assert (result["bucket"], result["epoch"]) == (3, 450_000)
    assert result["released"] == 450_000 * 3600


@pytest.mark.parametrize("number", [1, 3, 6])
@pytest.mark.parametrize("late", [0, 5], ids=["at the end", "late"])
def test_a_round_is_dated_by_its_start_and_not_by_its_release(number: int, late: int) -> None:
    """Regression: a weekly round was dated by the epoch of its release, one week late."""
    series = Series(6, 7, hb.Budget(10.0, 1e-3))
    terms = contract(PLAN, epoch=86_400, task_start=20_000, task_end=20_000 + series.epochs, series=series)
    week = 7 * 86_400
    begins = 20_000 * 86_400 + (number - 1) * week
    assert terms.round_span(number) == (begins, begins + week)
    assert terms.round_of(terms.epoch_at(begins)) == terms.round_of(terms.epoch_at(begins + week - 1)) == number
    released = terms.epoch_at(begins + week) + late
    row = replace(row_of(terms, 100), round=number, epoch=released)
    found = position(row, terms)
    assert (found["start"], found["end"], found["released"]) == (begins, begins + week, released * 86_400)
    assert found["round"] == number
    # Exports name the same three times.
    (line,) = TaskResults.ordered(terms.id, [{**found, "state": "withheld"}], []).rows()
    dates = [time_of(dict(found), name) for name in ("start", "end", "released")]
    assert [line[name] for name in ("start", "end", "released")] == dates
    assert dates[0] < dates[1] <= dates[2]


def test_6_eleven_malicious_clients_cost_eleven_of_1200_people() -> None:
    """The figures of the defect: M = 20 slots, 220 of them bad, 1 200 people, a plan for 1 000."""
    plan = hb.plan_from(hb.Schema.one_hot(4), 1000, hb.Protocol(0.2, k=20), delta=1e-6)
    terms = contract(plan)
    assert terms.slots == 20
    good = 1200 * 20 - 220
    counts = np.array([good, good // 5, good // 5, good // 5], np.int64)
    total = BatchTally(plan, counts, good, Counter({"cannot_open": 220}), np.zeros((0, 1), np.uint8))
    state, result = batch_result(row_of(terms, 1200), terms, total, terms.spending(1))
    assert (state, result["charged"], result["people"], result["messages"]) == ("committed", 11, 1189, 1189 * 20)
    assert hb.Guarantee.from_document(result["guarantee"]) == plan.guarantee


def test_9_partial_tallies_add_up_in_any_cut() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0.1, k=3), delta=1e-6)
    drawn = np.random.default_rng(1)
    payloads = drawn.integers(0, 32, (50, 1), np.uint8)
    verdicts = drawn.choice(np.array([Verdict.report, Verdict.illegal, Verdict.repeated], np.uint8), 50)
    whole = BatchTally.add_up([count_chunk(payloads, verdicts, plan)], plan)
    for size in (1, 2, 9):
        parts = [count_chunk(payloads[at : at + size], verdicts[at : at + size], plan) for at in range(0, 50, size)]
        stored = (PartialTally.from_row(*part.to_row(), plan=plan) for part in parts)
        found = BatchTally.add_up(stored, plan)
        assert (found.messages, found.rejected, found.bad) == (whole.messages, whole.rejected, whole.bad)
        assert np.array_equal(found.counts, whole.counts)
        found.drop_last(2)
        kept = payloads[verdicts == Verdict.report][:-2]
        assert np.array_equal(found.counts, count_chunk(kept, np.zeros(len(kept), np.uint8), plan).counts)


def test_results_of_batches_are_pooled_as_their_estimates_are() -> None:
    parts = [hb.Result.from_json(json.dumps(result_of(people))) for people in (100, 140)]
    both = hb.pool(parts).question
    payloads = np.tile(np.array([[0], [1]], np.uint8), (240, 1))
    counts = np.bincount(payloads.ravel(), minlength=20)
    tally = hb.Tally(
        plan=PLAN.id, n=240, fakes=0, messages=480, batches=2, smallest_batch=100, counts=counts.astype(np.int64)
    )
    whole = hb.estimate(tally, PLAN).question
    assert both.n == whole.n == 240
    np.testing.assert_allclose(both.values, whole.values, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(both.stderr, whole.stderr, rtol=1e-12)
    np.testing.assert_allclose(both.interval(0.95), whole.interval(0.95), rtol=1e-9, atol=1e-9)


def changed(result: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return a result with another state, or with other entries of its counts."""
    if "state" in change:
        return result | change
    return result | {"counts": [result["counts"][0] | change]}


@pytest.mark.parametrize(
    "change",
    [
        {"state": "withheld"},
        {"noise": None},
        {"values": ["x"]},
        {"labels": ["a"]},
        {"values": [math.nan] + 19 * [1.0]},
        {"values": [math.inf] + 19 * [1.0]},
        {"stderr": [math.nan] + 19 * [1.0]},
        {"stderr": [-1.0] + 19 * [1.0]},
    ],
    ids=["state", "noise", "no number", "labels", "nan", "infinite", "nan error", "negative error"],
)
def test_a_result_that_holds_no_estimate_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(WireError, match=r"the result|noise"):
        hb.Result.from_document(changed(result_of(100), change))


def test_a_result_without_its_noise_is_refused_by_name() -> None:
    result: dict[str, Any] = result_of(100)
    del result["counts"][0]["noise"]
    with pytest.raises(WireError, match=r"exactly the keys labels, .*, noise"):
        hb.Result.from_document(result)
