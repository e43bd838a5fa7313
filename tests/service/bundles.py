"""Many sealed bundles at once, as tests and benchmarks need them; a device seals its own one by one."""

import numpy as np
from numpy.typing import NDArray

from hubbub.bundles import TOKEN_SIZE, BundleLayout
from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.task.keys import PublicKey
from hubbub.service.task.sealing import BUNDLE_INFO, bundle_header

__all__ = ["wrap_slots"]


def wrap_slots(slots: NDArray[np.uint8], shape: BundleLayout, key: PublicKey, workers: Workers) -> NDArray[np.uint8]:
    """Return bundles, one per row, of sealed slots, one per row; every ``shape.slots`` of them make one bundle."""
    inner = slots.reshape(-1, shape.slots * shape.slot_size)
    texts = np.hstack([np.zeros((len(inner), TOKEN_SIZE), np.uint8), inner])
    info = BUNDLE_INFO + shape.task + key.id.to_bytes(2, "big")
    job = Job(suite=shape.suite, key=key.public, info=info, size=texts.shape[1])
    sealed = np.frombuffer(workers.seal(job, texts.tobytes()), np.uint8).reshape(len(inner), -1)
    header = np.frombuffer(bundle_header(shape, key.id), np.uint8)
    return np.hstack([np.tile(header, (len(inner), 1)), sealed])
