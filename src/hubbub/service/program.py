"""Parts that both programs share: resources, listeners for operators, and metrics of periodic tasks."""

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from hubbub.service.context import ServiceContext
from hubbub.service.runtime.admin import admin_app
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Database, open_database
from hubbub.service.runtime.metrics import Metrics, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.server import Listener, server_context
from hubbub.service.runtime.settings import Common
from hubbub.service.runtime.store import Store
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.identity import Identity
from hubbub.service.task.keys import Keyring


class Resources:
    """The folder, identity, credentials, workers and store connections of one service."""

    def __init__(self, common: Common, role: str, clock: Clock | None) -> None:
        self._common, self._clock, self._workers = common, clock or SystemClock(), Workers(common.workers)
        self._identity = Identity.load(common.identity)
        self._folder = ServiceFolder(common.folder, role)
        self.credentials = Credentials(common.folder / "credentials", role)
        self._url = common.store or f"sqlite:{common.folder / role}.db"
        self._keys: Database | None = None

    def context(self) -> ServiceContext:
        """Return the context of the core, once the store, which records the keys, exists; no key is advanced yet."""
        common, clock = self._common, self._clock
        self._keys = self.connect()
        lifetime, grace = common.key_lifetime, common.key_grace
        ring = Keyring(self._keys, self.credentials, clock, lifetime=lifetime, grace=grace, suites={common.suite})
        self._workers.start()
        return ServiceContext(ring, self._identity, clock, self._workers, common.min_batch_size)

    def connect(self) -> Database:
        """Open a connection to the service's store."""
        return open_database(self._url)

    def close(self, store: Store | None = None) -> None:
        """End the workers, close the store, and unlock the folder."""
        self._workers.close()
        if self._keys is not None:
            self._keys.close()
        if store is not None:
            store.shut()
        self._folder.close()


def public_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context of a public listener; None if a proxy in front of it terminates TLS."""
    return None if certificate is None or key is None else server_context(certificate, key)


def operator_listeners(
    common: Common, role: str, metrics: Metrics, ready: Callable[[], bool], commands: object
) -> list[Listener]:
    """Return the listeners for operators: health and metrics, and the admin socket."""
    return [
        Listener("operations", operations_app(metrics, ready), common.operations),
        Listener("admin", admin_app(role, commands), common.admin),
    ]


def task_metrics(tasks: Iterable[PeriodicTask]) -> dict[str, float]:
    """Return how often each periodic task succeeded and failed."""
    counts = [(task.name.replace(" ", "_"), *entry) for task in tasks for entry in task.results.items()]
    return {f"{name}_{result}": float(count) for name, result, count in counts}
