"""The running services under load: ``python -m benchmarks.services [--json] [--quick]``.

Both services run as processes, with their stores on the disk under ``--folder``; the client shares the machine with
them. A bundle counts once its response has arrived, which the shuffler sends after the commit is synced. Bundles are
sealed beforehand, and every one is new. All figures are flat:

- ``singles_per_s``: bundles stored per second, one per request, on persistent connections; ``p50_ms`` and ``p99_ms``
  are the latencies of these requests.
- ``hundreds_per_s``: bundles stored per second, in requests of 100.
- ``overload_…``: requests of 100 on a thousand connections, repeated when they are refused: responses by status, and
  ``overload_stored_share``, the rate at which bundles are still stored relative to ``hundreds_per_s``.
- ``copies_…``: requests of 100 bundles of four reports each, the copies of one person.
- ``opened_per_s``, ``commit_s``: a batch of a million slots, opened by two worker processes, counted and committed.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import statistics
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpx
import numpy as np
from numpy.typing import NDArray
from tests.service.admissions import BY_TICKET
from tests.service.bundles import seal_bundles
from tests.service.live import install_ticket_key

from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.context import ServiceContext
from hubbub.service.provision import RunningService, draft_contract, provision_all, serve_role
from hubbub.service.runtime.admin_client import command
from hubbub.service.runtime.clock import SystemClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import KeyList, PublicKey
from hubbub.service.task.keys import Keyring
from hubbub.service.task.manifest import CHUNK_SIZE, Manifest, batch_id
from hubbub.service.task.sealing_batch import seal_reports

PLAN = plan_from(Schema.one_hot(100), 1000, Protocol(0.1), delta=1e-6)
COPIES = plan_from(Schema.one_hot(100), 1000, Protocol(0.2, k=4), delta=1e-6)
Run = Callable[[int, int, int], tuple["Load", float]]
FEW, SOME, TOO_MANY = 64, 256, 1000
"""Simultaneous connections: for hundreds, for singles, and for overload."""
PAUSE = 1.0
"""Seconds after which a refused request is repeated, as ``Retry-After`` says."""


def reports(count: int, contract: Contract, key: PublicKey, workers: Workers) -> NDArray[np.uint8]:
    """Return sealed slots of random records."""
    payloads = np.frombuffer(os.urandom(count * PLAN.payload), np.uint8).reshape(count, -1).copy()
    payloads[:, -1] &= 0x0F
    return seal_reports(payloads, contract.layout, key, workers)


@dataclass
class Load:
    """The responses: statuses, and seconds per request."""

    statuses: Counter[int] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    stored: int = 0


class Connection(asyncio.Protocol):
    """A persistent connection that sends the next body when the response to the previous one has arrived."""

    def __init__(self, head: bytes, bodies: deque[bytes], size: int, load: Load) -> None:
        self._head, self._bodies, self._size, self._load = head, bodies, size, load
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it
        self._next()

    def _next(self) -> None:
        if not self._bodies:
            self._transport.close()
            return
        self._body = self._bodies.popleft()
        self._begun = time.perf_counter()
        self._transport.write(self._head % len(self._body) + self._body)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self._buffer = b""
        status = int(head[9:12])
        self._load.statuses[status] += 1
        self._load.times.append(time.perf_counter() - self._begun)
        if status == 201:
            self._load.stored += len(self._body) // self._size
            self._next()
        else:
            self._bodies.append(self._body)
            asyncio.get_running_loop().call_later(PAUSE, self._next)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._load.statuses[0] += 1
        if not self.done.done():
            self.done.set_result(None)


async def drive(url: httpx.URL, bundles: NDArray[np.uint8], per_request: int, connections: int) -> tuple[Load, float]:
    """Send all bundles and return the responses and the seconds it took."""
    load, size = Load(), bundles.shape[1]
    bodies = deque(bundles[start : start + per_request].tobytes() for start in range(0, len(bundles), per_request))
    head = (
        f"POST {url.path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/hubbub-bundle\r\n"
        "Content-Length: %d\r\n\r\n"
    ).encode()
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Connection(head, bodies, size, load), url.host, url.port or 80)
        for _ in range(connections)
    ]
    await asyncio.gather(*(one.done for _, one in made))
    return load, time.perf_counter() - begun


@contextlib.contextmanager
def running(folder: Path, plan: Plan, workers: Workers) -> Iterator[tuple[RunningService, Contract, Run]]:
    """Run both services and return a function that puts load on them: bundles, bundles per request, connections."""
    import uvloop

    contract = provision_all(folder, plan, {"epoch": 3600, "admission": BY_TICKET})
    install_ticket_key(folder / "shuffler")
    with serve_role(folder, "analyzer"), serve_role(folder, "shuffler") as shuffler:
        place = f"{shuffler.addresses['uploads']}/v1/tasks/{contract.id}"
        said = _keys(f"{place}/keys")
        inner = KeyList.read(json.dumps(said["analyzer"]), contract.analyzer, "analyzer").active(contract.suite)
        outer = KeyList.read(json.dumps(said["shuffler"]), contract.shuffler, "shuffler").active(contract.suite)

        def seal(count: int) -> NDArray[np.uint8]:
            slots = reports(count * contract.slots, contract, inner, workers)
            return seal_bundles(slots, contract.layout, outer, workers)

        def run(count: int, per_request: int, connections: int) -> tuple[Load, float]:
            bundles = seal(count)
            return uvloop.run(drive(httpx.URL(f"{place}/bundles"), bundles, per_request, connections))

        run(1000, 1, 8)
        yield shuffler, contract, run


def measure_intake(folder: Path, workers: Workers, singles: int, hundreds: int) -> dict[str, object]:
    """Measure the shuffler under three kinds of load."""
    with running(folder, PLAN, workers) as (shuffler, contract, run):
        one, spent = run(singles, 1, SOME)
        many, spent_many = run(hundreds, 100, FEW)
        over, spent_over = run(hundreds, 100, TOO_MANY)
        counts = command(shuffler.socket, "check")["tasks"][contract.id]
        stored = 1000 + one.stored + many.stored + over.stored
        return {
            "bundle_bytes": contract.bundle_size,
            "singles_per_s": one.stored / spent,
            "p50_ms": 1e3 * statistics.median(one.times),
            "p99_ms": 1e3 * float(np.quantile(one.times, 0.99)),
            "hundreds_per_s": many.stored / spent_many,
            **{f"overload_status_{status}": count for status, count in sorted(over.statuses.items())},
            "overload_stored_share": (over.stored / spent_over) / (many.stored / spent_many),
            "other_statuses": sum((one.statuses + many.statuses).values()) - one.statuses[201] - many.statuses[201],
            "acknowledged": stored,
            "accepted": counts["accepted"],
            "conservation_error": counts["error"],
        }


def measure_copies(folder: Path, workers: Workers, bundles: int) -> dict[str, object]:
    """Measure the shuffler with four copies per person."""
    with running(folder, COPIES, workers) as (_, contract, run):
        load, spent = run(bundles, 100, FEW)
        rate = load.stored / spent
        return {
            "copies_bundle_bytes": contract.bundle_size,
            "copies_bundles_per_s": rate,
            "copies_reports_per_s": rate * contract.slots,
        }


def _keys(url: str) -> dict[str, object]:
    for _ in range(600):
        answer = httpx.get(url, trust_env=False)
        if answer.status_code == 200:
            found: dict[str, object] = answer.json()
            return found
        time.sleep(0.05)
    raise SystemExit("the shuffler published no keys")


def measure_commit(folder: Path, workers: Workers, slots: int) -> dict[str, object]:
    """Measure one large batch through the analyzer."""
    both = [Identity.generate(), Identity.generate()]
    contract = draft_contract(PLAN, analyzer=both[0].public, shuffler=both[1].public)
    clock = SystemClock()
    url = f"sqlite:{folder}/analyzer.db"
    store, credentials = AnalyzerStore(lambda: open_database(url)), Credentials(folder / "credentials", "analyzer")
    ring = Keyring(open_database(url), credentials, clock, lifetime=1e6, grace=1e6)
    context = ServiceContext(keyring=ring, identity=both[0], clock=clock, workers=workers)
    analyzer = Analyzer(store, context, credentials)
    analyzer.add_contract(SignedContract.sign(contract, *both).to_json())
    analyzer.advance()
    key, batch = ring.active(contract.suite), batch_id(contract.task, 1)
    rows = reports(slots, contract, key, workers)
    step = CHUNK_SIZE // contract.slot_size
    parts = [rows[start : start + step].tobytes() for start in range(0, slots, step)]
    manifest = Manifest(
        task=contract.task,
        bucket=1,
        epoch=contract.task_start,
        round=1,
        key_id=key.id,
        key_list="00" * 32,
        bundles=slots,
        slots=slots,
        chunks=tuple(hashlib.sha256(part).hexdigest() for part in parts),
        sizes=tuple(len(part) // contract.slot_size for part in parts),
    )
    signed = manifest.sign(both[1])
    begun = time.perf_counter()
    analyzer.put_manifest(batch, signed)
    for place, part in enumerate(parts):
        analyzer.put_chunk(batch, place, part)
    while analyzer.work():
        pass
    spent = time.perf_counter() - begun
    result = json.loads(analyzer.store.result(batch) or b"{}")
    store.shut()
    ring.close()
    return {"slots": slots, "commit_s": spent, "opened_per_s": slots / spent, "people": result["people"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="use smaller numbers")
    parser.add_argument("--folder", type=Path, help="folder of the stores; default: the folder for temporary files")
    given = parser.parse_args()
    singles, hundreds, slots = (4000, 20_000, 20_000) if given.quick else (60_000, 200_000, 1_000_000)
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(Workers(2))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.folder)))
        figures = {
            **measure_intake(folder / "intake", workers, singles, hundreds),
            **measure_copies(folder / "copies", workers, hundreds // 4),
            **measure_commit(folder, workers, slots),
        }
    if given.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:28s} {value}")


if __name__ == "__main__":
    main()
