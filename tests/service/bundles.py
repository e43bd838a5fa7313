"""Many sealed bundles at once, with the same bytes as ``sealing`` makes one by one."""

import numpy as np
from numpy.typing import NDArray
from tests.service.admissions import new_admission

from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.task.keylist import PublicKey
from hubbub.service.task.sealing import bundle_header, bundle_info
from hubbub.wire.bundles import BundleLayout


def seal_bundles(slots: NDArray[np.uint8], layout: BundleLayout, key: PublicKey, workers: Workers) -> NDArray[np.uint8]:
    """Return bundles of sealed slots, both one per row: every ``layout.slots`` slots make one bundle.

    Every bundle has an admission of its own; see :mod:`tests.service.admissions`.
    """
    inner = slots.reshape(-1, layout.slots * layout.slot_size)
    admissions = b"".join(new_admission(layout.task, layout.admission) for _ in inner)
    texts = np.hstack([np.frombuffer(admissions, np.uint8).reshape(len(inner), layout.admission), inner])
    info = bundle_info(layout, key.id.to_bytes(2, "big"))
    job = Job(suite=layout.suite, key=key.public, info=info, size=texts.shape[1])
    sealed = np.frombuffer(workers.seal(job, texts.tobytes()), np.uint8).reshape(len(inner), -1)
    header = np.frombuffer(bundle_header(layout, key.id), np.uint8)
    return np.hstack([np.tile(header, (len(inner), 1)), sealed])
