"""A flood of junk: bundles that cost their sender nothing and must cost the others nothing."""

import os
from pathlib import Path

from tests.service.system import Client

from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.keylist import PublicKey


def junk(contract: Contract, key: PublicKey | Client, count: int) -> bytes:
    """Return the body of an upload of bundles that are well formed and do not open."""
    public = key._public("shuffler") if isinstance(key, Client) else key
    head = sealing.bundle_header(contract.layout, public.id)
    return b"".join(head + os.urandom(contract.bundle_size - len(head)) for _ in range(count))


def spoiled(client: Client) -> bytes:
    """Return a bundle that the shuffler accepts and of which no slot opens at the analyzer."""
    key, size = client._public("analyzer"), client.contract.slot_size
    slots = [key.id.to_bytes(2, "big") + os.urandom(size - 2) for _ in range(client.contract.slots)]
    return client.bundle(slots)


def resident(pid: int) -> int:
    """Return the bytes of memory that a process occupies."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
