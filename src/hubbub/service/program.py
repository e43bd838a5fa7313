"""Parts that both programs share: resources, listeners for operators, and metrics of periodic tasks."""

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from hubbub.service.context import ServiceContext
from hubbub.service.runtime.admin import admin_app
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import Database, open_database
from hubbub.service.runtime.metrics import Metrics, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.server import Listener, server_context
from hubbub.service.runtime.settings import Common, Config
from hubbub.service.runtime.store import Store
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.identity import Identity
from hubbub.service.task.keys import Keyring


class Resources:
    """The context, folder and store connections of one service."""

    def __init__(self, common: Common, role: str, clock: Clock | None) -> None:
        clock, folder, workers = clock or SystemClock(), common.folder, Workers(common.workers)
        identity = Identity.load(common.identity)
        self._folder = ServiceFolder(folder, role)
        lifetime, grace = common.key_lifetime, common.key_grace
        ring = Keyring(folder / "keys", role, common.suite, clock, lifetime=lifetime, grace=grace)
        ring.advance()
        self.context = ServiceContext(ring, identity, clock, workers, common.min_batch_size)
        workers.start()
        self._url = common.store or f"sqlite:{folder / role}.db"

    def connect(self) -> Database:
        """Open a connection to the service's store."""
        return open_database(self._url)

    def close(self, store: Store) -> None:
        """End the workers, close the store, and unlock the folder."""
        self.context.workers.close()
        store.shut()
        self._folder.close()


def public_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context of a public listener; None if a proxy in front of it terminates TLS."""
    return None if certificate is None or key is None else server_context(certificate, key)


def operator_listeners(
    config: Config, role: str, metrics: Metrics, ready: Callable[[], bool], commands: object
) -> list[Listener]:
    """Return the listeners for operators: health and metrics, and the admin socket."""
    return [
        Listener("operations", operations_app(metrics, ready), config.operations),
        Listener("admin", admin_app(role, commands), config.common.admin),
    ]


def task_metrics(tasks: Iterable[PeriodicTask]) -> dict[str, float]:
    """Return how often each periodic task succeeded and failed."""
    counts = [(task.name.replace(" ", "_"), *entry) for task in tasks for entry in task.results.items()]
    return {f"{name}_{result}": float(count) for name, result, count in counts}
