"""Parts that both programs share: resources, listeners for operators, and metrics of periodic tasks."""

import contextlib
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from hubbub import __version__
from hubbub.documents import Json
from hubbub.errors import WireError
from hubbub.service.runtime.admin import admin_app
from hubbub.service.runtime.certificates import expiry
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import LEASE_SECONDS, Database, Store, open_database
from hubbub.service.runtime.metrics import Metrics, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.server import Listener, server_context
from hubbub.service.runtime.settings import Common, Config
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.admission import TicketKey
from hubbub.service.task.contract import MIN_BATCH_SIZE
from hubbub.service.task.identity import Identity
from hubbub.service.task.keys import Keyring


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The keys, identity, clock and workers of a service, and the smallest batch size that it accepts."""

    keyring: Keyring
    identity: Identity
    clock: Clock
    workers: Workers
    min_batch_size: int = MIN_BATCH_SIZE
    ticket_keys: Mapping[str, TicketKey] = field(default_factory=dict)
    """The keys of the ticket issuers that the shuffler serves, by issuer name."""
    lease_seconds: float = LEASE_SECONDS
    """Seconds after which another process takes over the job of one that has died."""


LOCK_SECONDS = 8.0
"""Time to wait for a process that is stopping and still uses the folder, such as one whose parent was killed."""


S = TypeVar("S", bound=Store)


class Resources(Generic[S]):
    """The context, folder, credentials and store of one service."""

    def __init__(
        self, common: Common, role: str, clock: Clock | None, open_store: Callable[[Callable[[], Database]], S]
    ) -> None:
        clock, folder = clock or SystemClock(), common.folder
        self._url = common.store or f"sqlite:{folder / role}.db"
        with contextlib.ExitStack() as stack:
            identity = Identity.load(common.identity)
            stack.callback(ServiceFolder(folder, role, seconds=LOCK_SECONDS).close)
            self.credentials = Credentials(common.credentials, role, common.fence)
            if self._url.startswith("sqlite:"):
                # One process per file; a copy of the file with the same secrets would be a second life of the store.
                stack.enter_context(self.credentials.reserve(LOCK_SECONDS))
            self.store = open_store(self.connect)
            stack.callback(self.store.shut)
            keys = stack.enter_context(contextlib.closing(self.connect()))
            ages = {
                "lifetime": common.key_lifetime,
                "grace": common.key_grace,
                "list_lifetime": common.key_list_lifetime,
            }
            # No key is advanced here: the core of the analyzer knows which keys must be kept.
            ring = Keyring(keys, self.credentials, clock, suites={common.suite}, **ages)
            workers = Workers(common.workers)
            self.context = ServiceContext(
                ring, identity, clock, workers, common.min_batch_size, lease_seconds=common.lease
            )
            stack.callback(workers.close)
            workers.start()
            self._stack = stack.pop_all()

    def connect(self) -> Database:
        """Return a connection to the service's store."""
        return open_database(self._url)

    def close(self) -> None:
        """End the workers, close the store, and unlock the folder."""
        self._stack.close()


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
    """Return how often each periodic task succeeded and failed, and the seconds since it last succeeded."""
    found: dict[str, float] = {}
    for task in tasks:
        name = task.name.replace(" ", "_")
        found |= {f"{name}_{result}": float(count) for result, count in task.results.items()}
        found[f"{name}_age_seconds"] = task.age
    return found


def expiry_metrics(config: Config, keyring: Keyring) -> dict[str, float]:
    """Return the times at which the key in use must be replaced and the certificates expire."""
    found = {f"{name}_expires_timestamp_seconds": when for name, when in _certificates(config).items()}
    return {**found, "key_due_timestamp_seconds": keyring.replacement_due()}


def service_status(config: Config, keyring: Keyring) -> dict[str, Json]:
    """Return the part of a service's status that both roles have: release, keys and certificates."""
    keys: list[Json] = [{"key": key.id, "suite": key.suite, "state": key.state} for key in keyring.public_keys()]
    files: list[Json] = [{"file": name, "expires": int(when)} for name, when in _certificates(config).items()]
    due = int(keyring.replacement_due())
    return {"role": keyring.role, "release": __version__, "key_due": due, "keys": keys, "certificates": files}


def _certificates(config: Config) -> dict[str, float]:
    found = {}
    for name in ("certificate", "link_certificate", "link_authority"):
        path = getattr(config, name)
        # A file that was removed or damaged is noticed at the next start; until then the service runs without it.
        with contextlib.suppress(OSError, WireError):
            if path is not None:
                found[name] = expiry(path)
    return found
