"""The shuffler without sockets: it accepts bundles, releases batches of at least the minimum size, and delivers them.

It learns who sends but never what is sent: everything it stores is sealed to the analyzer. The HTTP layer calls
``uploads``, the program's loops call ``tick``, ``draw_ahead``, ``fetch_keys`` and ``deliver``.
"""

from hubbub.bits.entropy import Entropy, system
from hubbub.service.context import ServiceContext
from hubbub.service.shuffler.delivery import AnalyzerClient, deliver_all
from hubbub.service.shuffler.release import Releases
from hubbub.service.shuffler.store import Counts, ShufflerStore
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.shuffler.uploads import Uploads


class Shuffler:
    """The core of the service; ``uploads.accept``, ``tick`` and ``close`` are for one thread, the writer's."""

    def __init__(self, store: ShufflerStore, context: ServiceContext, *, entropy: Entropy = system) -> None:
        self.store, self.keyring = store, context.keyring
        self.tasks = TaskRegistry(store, context)
        self.uploads = Uploads(store, self.tasks, context)
        self.releases = Releases(store, self.tasks, context, entropy)

    def tick(self) -> list[str]:
        """Advance the keys, release the batches that are due, and return their ids."""
        self.keyring.advance()
        return self.releases.tick()

    def fetch_keys(self, client: AnalyzerClient) -> None:
        """Fetch and adopt the analyzer's key list."""
        self.tasks.update_keys(client.keys())

    def deliver(self, client: AnalyzerClient) -> bool:
        """Try once to deliver every waiting batch, and return True if any is left."""
        return deliver_all(self.store, self.tasks, client)

    def close(self, task: bytes, *, destroy: bool = False) -> None:
        """End a task early: its pools expire, and ``destroy`` also forgets which bundles it accepted."""
        self.store.close(self.tasks.find(task).row, "destroyed" if destroy else "closed")
        self.tasks.refresh()

    def totals(self, *, check: bool = False) -> dict[str, Counts]:
        """Return the number of bundles in each state by task; ``check`` recounts the pools."""
        counts = self.store.counts
        tasks = [(task.row, task.contract) for task in self.tasks.all()]
        return {contract.id: counts(row, slots=contract.slots if check else None) for row, contract in tasks}

    def ready(self) -> bool:
        """Return True if uploads can be accepted now."""
        return any(key.state == "active" for key in self.keyring.public_keys()) and self.store.writable()
