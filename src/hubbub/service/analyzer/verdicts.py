"""What the slots of a batch hold: reports, fillers, or something that is rejected, by reason."""

import hashlib
from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hubbub.plans import Plan
from hubbub.reports import message_type
from hubbub.service.runtime.workers import Workers
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.sealing_batch import slot_job

ID = np.dtype("S16")
"""The digest of a sealed slot. All have 16 bytes, so that trailing zeros, which numpy strips, are no ambiguity."""


class Verdict(IntEnum):
    """What a slot turned out to be; all from ``cannot_open`` on are rejected, and each may have cost a client."""

    report = 0
    filler = 1
    cannot_open = 2
    wrong_key = 3
    bad_version = 4
    bad_kind = 5
    bad_padding = 6
    illegal = 7
    repeated = 8


def open_slots(
    rows: NDArray[np.uint8], contract: Contract, key: int, private: bytes | None, workers: Workers
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The payloads of sealed slots, one a row, and a verdict for each; without a private key nothing opens."""
    size = contract.plan.payload
    verdicts = np.full(len(rows), Verdict.cannot_open, np.uint8)
    if private is None or not len(rows):
        return np.zeros((len(rows), size), np.uint8), verdicts
    data, good = workers.open(slot_job(contract.shape, key, private), rows.tobytes())
    texts = np.frombuffer(data, np.uint8).reshape(len(rows), 2 + size)
    opened = np.frombuffer(good, np.uint8) == 1
    verdicts[opened] = judge(texts[opened], contract.plan)
    named = np.ascontiguousarray(rows[:, :2]).view(">u2")[:, 0]
    verdicts[named != key] = Verdict.wrong_key
    return np.ascontiguousarray(texts[:, 2:]), verdicts


def judge(texts: NDArray[np.uint8], plan: Plan) -> NDArray[np.uint8]:
    """The verdicts on opened slots: version, kind, padding, and where records travel in the clear, whether legal."""
    version, kind, payloads = texts[:, 0], texts[:, 1], np.ascontiguousarray(texts[:, 2:])
    schema, records = plan.schema, plan.protocol.sends_records
    verdicts = np.where(kind == sealing.REPORT, np.uint8(Verdict.report), np.uint8(Verdict.filler))
    if records:
        used = schema.width % 8 or 8
        padded = payloads[:, -1] >> np.uint8(used) > 0 if used < 8 else np.zeros(len(texts), np.bool_)
        ones = np.bitwise_count(payloads).sum(axis=1, dtype=np.int64)
        illegal = (ones != 1) if schema.exclusive else (ones > schema.max_set)
        if plan.protocol.q == 0:
            verdicts[illegal & (kind == sealing.REPORT)] = Verdict.illegal
    else:
        padded = payloads.view(message_type(plan))[:, 0] >= schema.width
    filled = (kind == sealing.FILLER) & payloads.any(axis=1)
    verdicts[(padded & (kind == sealing.REPORT)) | filled] = Verdict.bad_padding
    verdicts[(kind != sealing.REPORT) & (kind != sealing.FILLER)] = Verdict.bad_kind
    verdicts[version != sealing.VERSION] = Verdict.bad_version
    return verdicts


def names(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """The ids of sealed slots."""
    return np.frombuffer(b"".join(hashlib.sha256(row).digest()[: ID.itemsize] for row in rows), ID)


def repeated(found: NDArray[np.bytes_], earlier: Iterable[NDArray[np.bytes_]]) -> NDArray[np.bool_]:
    """Which slots came before: among the sorted ids of earlier batches, or further up in this one.

    >>> repeated(np.array([b"b", b"a", b"b", b"c"], ID), [np.array([b"a", b"x"], ID)]).tolist()
    [False, True, True, False]
    """
    order = np.argsort(found, kind="stable")
    again = np.zeros(len(found), np.bool_)
    again[order[1:]] = found[order[1:]] == found[order[:-1]]
    for spent in earlier:
        if len(spent):
            place = np.minimum(np.searchsorted(spent, found), len(spent) - 1)
            again |= spent[place] == found
    return again
