"""Parts that both service programs share: their resources, the common listeners, and the metrics of their loops."""

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from hubbub.service.runtime.admin import Commands, Meter, admin, operations
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import Database, Store, open_database
from hubbub.service.runtime.process import Folder, Loop, keyring, store_of
from hubbub.service.runtime.server import Listener, server_context
from hubbub.service.runtime.settings import Common
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.contract import allowed_batch_size
from hubbub.service.task.identity import Identity


class Resources:
    """The clock, identity, folder, keys and worker processes of one service."""

    def __init__(self, common: Common, role: str, clock: Clock | None) -> None:
        self.clock = clock or SystemClock()
        self.identity = Identity.load(common.identity)
        self._folder = Folder(common.folder, role)
        self.keyring = keyring(common, role, self.clock)
        self.workers = Workers(common.workers)
        self.workers.start()
        self.min_batch_size = allowed_batch_size(unsafe_test=common.unsafe_test)
        self._url = store_of(common, role)

    def connect(self) -> Database:
        """Open a connection to the service's store."""
        return open_database(self._url)

    def close(self, store: Store) -> None:
        """End the workers, close the store, and unlock the folder."""
        self.workers.close()
        store.shut()
        self._folder.close()


def public_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context of a public listener; None if a proxy in front of it terminates TLS."""
    return None if certificate is None or key is None else server_context(certificate, key)


def operator_listeners(common: Common, meter: Meter, ready: Callable[[], bool], commands: Commands) -> list[Listener]:
    """Return the listeners for operators: health and metrics, and the admin socket."""
    return [
        Listener(name="operations", app=operations(meter, ready), address=common.operations),
        Listener(name="admin", app=admin(commands), address=common.admin),
    ]


def loop_metrics(loops: Iterable[Loop]) -> dict[str, float]:
    """Return how often each loop succeeded and failed."""
    return {
        f"{loop.name.replace(' ', '_')}_{result}": float(count)
        for loop in loops
        for result, count in loop.results.items()
    }
