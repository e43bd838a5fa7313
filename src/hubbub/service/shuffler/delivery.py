"""The delivery of batches to the analyzer; a batch is erased only when a valid receipt proves its result durable."""

from typing import Protocol

from hubbub.service.runtime.failpoints import reach
from hubbub.service.shuffler.store import Batch, ShufflerStore
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.task.manifest import check_receipt


class AnalyzerClient(Protocol):
    """Requests to the analyzer; a request that fails may have been processed."""

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt if its result is durable, otherwise the missing chunks."""

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Send a chunk of an announced batch."""

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""


def deliver_all(store: ShufflerStore, tasks: TaskRegistry, client: AnalyzerClient) -> bool:
    """Try once to deliver every waiting batch, and return True if any is left.

    A batch that fails does not hold up the others; the first failure is raised after all were tried.
    """
    failure: Exception | None = None
    for batch in store.outbox():
        try:
            _deliver(store, tasks, batch, client)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return bool(store.outbox())


def _deliver(store: ShufflerStore, tasks: TaskRegistry, batch: Batch, client: AnalyzerClient) -> None:
    reach("deliver-manifest")
    answer = client.put_manifest(batch.id, batch.manifest)
    if isinstance(answer, list) and answer:
        for index in answer:
            reach("deliver-chunk")
            client.put_chunk(batch.id, index, store.chunk(batch.id, index))
            reach("deliver-chunk-sent")
        answer = client.put_manifest(batch.id, batch.manifest)
    if isinstance(answer, list):
        return
    reach("deliver-receipt")
    check_receipt(answer, tasks.contract(batch.task).analyzer, batch.id, batch.task, batch.manifest)
    store.erase(batch, answer)
