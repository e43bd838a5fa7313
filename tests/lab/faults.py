"""Clients and shufflers with one fault each."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.lab.audit.commands import Client, seeded_client
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.trial import audit

EFFORT = Effort(values=1500, runs=8, shuffles=0, pipeline=0)


def tried(plan: hb.Plan, client: Client, effort: Effort = EFFORT, confidence: float = 0.99) -> Audit:
    """Audit a client without a shuffler."""
    return audit(plan, client, None, tried=effort, confidence=confidence)


def honest(seed: int = 1) -> Client:
    return seeded_client(SeededStreamNotForPeople(seed))


def unpacked(reports: hb.Reports) -> NDArray[np.uint8]:
    width = reports.plan.schema.width
    return np.unpackbits(reports.messages, axis=1, bitorder="little", count=width)


def spoiled(change: Callable[[NDArray[np.uint8], NDArray[np.uint8]], NDArray[np.uint8]], seed: int = 1) -> Client:
    """Return a client of whole records whose honest messages are changed; the change also sees the records."""
    send = honest(seed)

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        reports = send(collection, plan)
        rows = np.unpackbits(collection.rows(0, len(collection)), axis=1, bitorder="little", count=plan.schema.width)
        bits = change(unpacked(reports), np.tile(rows, (plan.protocol.k, 1)))
        return replace(reports, messages=np.packbits(bits, axis=1, bitorder="little"))

    return client


def with_flip(factor: float, seed: int = 1) -> Client:
    """Return a client that multiplies q by a factor."""
    send = honest(seed)

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        other = replace(plan, protocol=plan.protocol.changed(q=plan.protocol.q * factor))
        return replace(send(collection, other), plan=plan)

    return client


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def reordered(order: Callable[[int], NDArray[np.int64]]) -> Callable[[hb.Reports], hb.Reports]:
    """Return a shuffler that arranges n messages in the given order."""
    return lambda reports: replace(reports, messages=reports.messages[order(len(reports))], shuffled=True)


def without_last_fake() -> Client:
    """Return a client none of whose fakes shows the last of four categories."""
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        reports = send(collection, plan)
        bits = unpacked(reports)
        late = np.arange(len(bits)) >= len(collection)
        bits[late & (bits[:, 3] == 1)] = [1, 0, 0, 0]
        return replace(reports, messages=np.packbits(bits, axis=1, bitorder="little"))

    return client
