"""Jobs for worker processes that open and seal many items, with the same bytes as ``sealing`` handles one by one."""

import functools

import numpy as np
from numpy.typing import NDArray

from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.task.admission import Verifier
from hubbub.service.task.keylist import PublicKey
from hubbub.service.task.sealing import REPORT, VERSION, bundle_info, slot_info
from hubbub.wire.bundles import HEADER_SIZE, BundleLayout


@functools.lru_cache(maxsize=64)
def bundle_job(layout: BundleLayout, key_id: int, private: bytes, verifier: Verifier) -> Job:
    """Return the job of opening bundles sealed to one key of the shuffler, and of checking their admissions."""
    info = bundle_info(layout, key_id.to_bytes(2, "big"))
    return Job(
        suite=layout.suite,
        key=private,
        info=info,
        size=layout.bundle_size,
        skip=HEADER_SIZE,
        admission=verifier.to_bytes(),
    )


def slot_job(layout: BundleLayout, key_id: int, private: bytes) -> Job:
    """Return the job of opening slots sealed to one key of the analyzer."""
    info = slot_info(layout, key_id.to_bytes(2, "big"))
    return Job(suite=layout.suite, key=private, info=info, size=layout.slot_size, skip=2)


def seal_reports(
    payloads: NDArray[np.uint8], layout: BundleLayout, key: PublicKey, workers: Workers
) -> NDArray[np.uint8]:
    """Return the sealed slots of payloads, both one per row."""
    count = len(payloads)
    key_bytes = key.id.to_bytes(2, "big")
    plain = np.hstack([np.tile(np.array([VERSION, REPORT], np.uint8), (count, 1)), payloads])
    job = Job(suite=layout.suite, key=key.public, info=slot_info(layout, key_bytes), size=2 + layout.payload)
    sealed = np.frombuffer(workers.seal(job, plain.tobytes()), np.uint8).reshape(count, -1)
    return np.hstack([np.tile(np.frombuffer(key_bytes, np.uint8), (count, 1)), sealed])
