"""The parts of a service that its core uses besides its store."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.leases import LEASE_SECONDS
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
