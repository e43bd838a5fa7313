"""Parts that both programs share: resources, listeners for operators, and metrics of periodic tasks."""

import contextlib
import logging
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from hubbub.errors import StoreFailure
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

log = logging.getLogger("hubbub")

S = TypeVar("S", bound=Store)
START_SECONDS = 2.0
"""Pause between two attempts to reach the database when a service starts."""


class Resources(Generic[S]):
    """The context, folder, credentials and store of one service."""

    def __init__(
        self, common: Common, role: str, clock: Clock | None, open_store: Callable[[Callable[[], Database]], S]
    ) -> None:
        clock, folder = clock or SystemClock(), common.folder
        self._url = common.store or f"sqlite:{folder / role}.db"
        with contextlib.ExitStack() as stack:
            identity = Identity.load(common.identity)
            stack.callback(ServiceFolder(folder, role).close)
            self._await_database()
            self.store = open_store(self.connect)
            stack.callback(self.store.shut)
            self.credentials = Credentials(common.credentials, role)
            keys = stack.enter_context(contextlib.closing(self.connect()))
            lifetime, grace = common.key_lifetime, common.key_grace
            # No key is advanced here: the core of the analyzer knows which keys must be kept.
            ring = Keyring(keys, self.credentials, clock, lifetime=lifetime, grace=grace, suites={common.suite})
            workers = Workers(common.workers)
            self.context = ServiceContext(ring, identity, clock, workers, common.min_batch_size)
            stack.callback(workers.close)
            workers.start()
            self._stack = stack.pop_all()

    def connect(self) -> Database:
        """Return a connection to the service's store."""
        return open_database(self._url)

    def _await_database(self) -> None:
        """Wait until the database answers; a service may be started before its database, or while that restarts."""
        database = self.connect()
        failed = False
        while True:
            try:
                database.rows("SELECT 1")
            except StoreFailure as error:
                if database.for_share == "":
                    raise  # a file: waiting would not help
                if not failed:
                    log.warning("waiting for the database: %s", error)
                failed = True
                time.sleep(START_SECONDS)
                continue
            finally:
                database.close()
            return

    def close(self) -> None:
        """End the workers, close the store, and unlock the folder."""
        self._stack.close()


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
