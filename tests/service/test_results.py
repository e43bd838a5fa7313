"""The guarantee in the result of a batch: that of the batch, with the price of overflow at its own size."""

import numpy as np
import pytest
from tests.service.samples import contract

import hubbub as hb
from hubbub.accountant.overflow import max_messages, overflow
from hubbub.service.analyzer.results import OpenedBatch, batch_result
from hubbub.service.analyzer.store import BatchRow

PLAN = hb.plan_from(hb.Schema.one_hot(20), 100, hb.Protocol(0.1, release="bits"), delta=1e-4)


def result_of(people: int) -> dict[str, object]:
    """Return the result of a batch of clients who all sent the first and the second label."""
    terms = contract(PLAN)
    payloads = np.tile(np.array([[0], [1]], np.uint8), (people, 1))
    row = BatchRow("batch", terms.task, 1, people, people * terms.slots, 1, b"")
    state, result = batch_result(row, terms, OpenedBatch(payloads, {}, b""))
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
