"""The result of a batch: an estimate with its achieved guarantee, or the reason why it is withheld."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.overflow import max_messages, min_messages
from hubbub.analyzer import achieved_guarantee, estimate, tally
from hubbub.canonical import Json
from hubbub.errors import InvalidInput
from hubbub.plans import Plan
from hubbub.reports import Reports, Tally, decode_payloads
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.task.contract import Contract

FORMAT = "hubbub result 2"
LEVEL = 0.95
"""Confidence level of the intervals in a result."""


@dataclass(frozen=True, slots=True)
class OpenedBatch:
    """The messages of a batch, and the number of rejected slots by reason."""

    payloads: NDArray[np.uint8]
    """The payloads of the reports, one per row."""
    rejected: dict[str, int]
    slot_ids: bytes
    """The sorted ids of all slots."""


def batch_result(batch: BatchRow, contract: Contract, opened: OpenedBatch) -> tuple[str, dict[str, Json]]:
    """Return the state of a batch, ``committed`` or ``withheld``, and its result as a JSON object."""
    plan = contract.plan
    people = max(batch.bundles - sum(opened.rejected.values()), 0)
    per_client = _messages_per_client(plan)
    if per_client is not None:
        # A malicious client may send fillers instead of reports: then messages of some client are missing.
        people = min(people, len(opened.payloads) // per_client)
    about: dict[str, Json] = {
        "format": FORMAT,
        "batch": batch.id,
        "task": batch.task.hex(),
        "plan": plan.id,
        "bundles": batch.bundles,
        "rejected": dict(opened.rejected),
    }
    if people < plan.n:
        reason = f"fewer than {plan.n} clients remain after charging every rejected slot to a different client"
        return "withheld", {**about, "state": "withheld", "reason": reason}
    try:
        counts = tally(_reports(plan, opened.payloads, people))
        return "committed", {**about, "state": "committed", **_statement(counts, contract)}
    except InvalidInput:
        reason = "the messages are not a possible outcome of the protocol"
        return "withheld", {**about, "state": "withheld", "reason": reason}


def _reports(plan: Plan, payloads: NDArray[np.uint8], people: int) -> Reports:
    per_client = _messages_per_client(plan)
    if per_client is not None:
        # The order is random, so the messages cut off are a random part of those whose clients lost a slot.
        payloads = payloads[: per_client * people]
    fakes = plan.protocol.fixed_fakes // plan.n * people
    return Reports(plan, decode_payloads(payloads, plan), people, fakes, shuffled=True)


def _messages_per_client(plan: Plan) -> int | None:
    """Return the number of messages of an honest client if it is fixed and no shuffler fakes obscure it."""
    fewest = min_messages(plan)
    return fewest if fewest == max_messages(plan) and plan.protocol.shuffler_fakes is None else None


def _statement(counts: Tally, contract: Contract) -> dict[str, Json]:
    """Return the estimate of a batch, and the guarantee under which it was collected."""
    plan = contract.plan
    found, achieved = estimate(counts, plan), achieved_guarantee(counts, plan)
    low, high = found.interval(LEVEL)
    # Clients whose messages exceed their slots leave some out, at the price of this batch's certificate.
    guarantee = contract.with_overflow(achieved)
    return {
        "people": counts.n,
        "messages": counts.messages,
        "labels": list(found.labels),
        "values": found.values.tolist(),
        "stderr": found.stderr.tolist(),
        "level": LEVEL,
        "low": low.tolist(),
        "high": high.tolist(),
        "guarantee": guarantee.to_document(),
    }
