"""The release of batches: pools that reach the minimum batch size are shuffled among fakes at the end of an epoch."""

import hashlib
import secrets

import numpy as np

from hubbub.bits import permutation
from hubbub.bits.entropy import Entropy
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.failpoints import reach
from hubbub.service.shuffler.store import NewBatch, ShufflerStore
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.task.contract import Contract
from hubbub.service.task.keys import PublicKey
from hubbub.service.task.manifest import CHUNK_SIZE, Manifest
from hubbub.service.task.sealing_batch import seal_reports
from hubbub.shuffler import draw_fakes


class Releases:
    """Releases pools as batches; :meth:`tick` is for the writer's thread."""

    def __init__(self, store: ShufflerStore, tasks: TaskRegistry, context: ServiceContext, entropy: Entropy) -> None:
        self._store, self._tasks, self._context, self._entropy = store, tasks, context, entropy
        self._drawn: dict[tuple[bytes, int], bytes] = {}
        """Sealed fakes by task and key id, each for one release."""

    def tick(self) -> list[str]:
        """Release the pools that are due since the last epoch ended, and return the ids of the new batches.

        When a task has ended, pools below the minimum batch size are deleted. A clock that jumps can delay or hasten a
        release, but never makes a batch smaller than the contract allows.
        """
        released = []
        for task in self._tasks.all():
            epoch = self._due(task)
            if epoch is None:
                continue
            for key_id in self._releasable(task):
                batch = self._release(task, key_id)
                released += [batch] if batch else []
            if epoch >= task.contract.task_end:
                self._store.close(task.row)
            self._store.finish_epoch(task.row, epoch)
        self._tasks.refresh()
        return released

    def draw_ahead(self) -> None:
        """Draw and seal the fakes of the next tick's releases, so that uploads need not wait for it.

        For any one thread. A draw is used once: if a release fails, its fakes are drawn again.
        """
        for task in self._tasks.all():
            if self._due(task) is not None:
                for key_id in self._releasable(task):
                    if (task.row.id, key_id) not in self._drawn:
                        fakes = self._seal_fakes(task.contract, task.analyzer_keys[key_id])
                        self._drawn[task.row.id, key_id] = fakes

    def _due(self, task: ServedTask) -> int | None:
        """Return the current epoch if a task is open and its last tick was in an earlier one."""
        epoch = task.contract.epoch_at(self._context.clock.now())
        return epoch if task.row.state == "open" and epoch > task.row.last_epoch else None

    def _releasable(self, task: ServedTask) -> list[int]:
        """Return the key ids of the pools that have reached the minimum batch size."""
        least, keys = task.contract.min_batch_size, task.analyzer_keys
        return [key_id for key_id, bundles in self._store.pools(task.row) if bundles >= least and key_id in keys]

    def _release(self, task: ServedTask, key_id: int) -> str | None:
        contract = task.contract
        fakes = self._drawn.pop((contract.task, key_id), None)
        if fakes is None:
            fakes = self._seal_fakes(contract, task.analyzer_keys[key_id])
        reach("release-begun")

        def build(slots: list[bytes], bundles: int) -> NewBatch:
            return self._build(contract, key_id, [*slots, fakes], bundles)

        return self._store.release(task.row, key_id, contract.min_batch_size, build)

    def _build(self, contract: Contract, key_id: int, slots: list[bytes], bundles: int) -> NewBatch:
        """Shuffle the sealed slots, divide them into chunks, and sign the manifest."""
        rows = np.frombuffer(b"".join(slots), np.uint8).reshape(-1, contract.slot_size)
        shuffled = permutation.shuffle(rows, entropy=self._entropy)
        step = max(1, CHUNK_SIZE // contract.slot_size)
        chunks = [shuffled[start : start + step].tobytes() for start in range(0, len(shuffled), step)]
        manifest = Manifest(
            batch=secrets.token_hex(16),
            task=contract.task,
            key_id=key_id,
            bundles=bundles,
            slots=len(shuffled),
            chunks=tuple(hashlib.sha256(chunk).hexdigest() for chunk in chunks),
        )
        return NewBatch(manifest.batch, manifest.sign(self._context.identity), chunks)

    def _seal_fakes(self, contract: Contract, key: PublicKey) -> bytes:
        messages = draw_fakes(contract.plan, entropy=self._entropy)
        if not len(messages):
            return b""
        payloads = np.ascontiguousarray(messages).view(np.uint8).reshape(len(messages), contract.plan.payload)
        return seal_reports(payloads, contract.layout, key, self._context.workers).tobytes()
