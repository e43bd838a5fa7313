"""Many seals at once: what workers are given, so that they open and make exactly what ``sealing`` does one by one."""

import functools

import numpy as np
from numpy.typing import NDArray

from hubbub.bundles import HEADER_SIZE, BundleLayout
from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.task.keys import PublicKey
from hubbub.service.task.sealing import (
    BUNDLE_INFO,
    REPORT,
    SLOT_INFO,
    VERSION,
)


@functools.lru_cache(maxsize=64)
def bundle_job(shape: BundleLayout, key: int, private: bytes) -> Job:
    """Opening bundles of one shuffler key."""
    info = BUNDLE_INFO + shape.task + key.to_bytes(2, "big")
    return Job(suite=shape.suite, key=private, info=info, size=shape.bundle_size, skip=HEADER_SIZE)


def slot_job(shape: BundleLayout, key: int, private: bytes) -> Job:
    """Opening slots of one analyzer key."""
    info = SLOT_INFO + shape.task + key.to_bytes(2, "big")
    return Job(suite=shape.suite, key=private, info=info, size=shape.slot_size, skip=2)


def seal_reports(
    payloads: NDArray[np.uint8], shape: BundleLayout, key: PublicKey, workers: Workers
) -> NDArray[np.uint8]:
    """Sealed slots, one a row, of payloads, one a row."""
    count = len(payloads)
    number = key.id.to_bytes(2, "big")
    texts = np.hstack([np.tile(np.array([VERSION, REPORT], np.uint8), (count, 1)), payloads])
    job = Job(suite=shape.suite, key=key.public, info=SLOT_INFO + shape.task + number, size=2 + shape.payload)
    sealed = np.frombuffer(workers.seal(job, texts.tobytes()), np.uint8).reshape(count, -1)
    return np.hstack([np.tile(np.frombuffer(number, np.uint8), (count, 1)), sealed])
