"""Both services as real processes with their words kept, a clear plan in which every report has a value of its own,
and many raw connections at once.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from tests.service.bundles import seal_bundles
from tests.service.system import clear_plan

from hubbub.service.provision import SETTINGS, Role, Service, provision_all
from hubbub.service.runtime.admin_client import command
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.runtime.workers import Workers
from hubbub.service.task import sealing
from hubbub.service.task.keys import PublicKey, active_key, read_key_list
from hubbub.service.task.sealing_batch import seal_reports

__all__ = ["Town", "exchange", "pour", "until"]

MEDIA_TYPE = "application/hubbub-bundle"


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something that will be true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def exchange(address: str, *requests: bytes, source: str = "127.0.0.1", answers: int | None = None) -> list[int]:
    """Send bytes on one connection, all at once; the statuses of all answers until the other end hangs up."""

    async def talk() -> bytes:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
        said = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            for request in requests:
                writer.write(request)
            async with asyncio.timeout(30):
                while part := await reader.read(1 << 16):
                    said += part
                    if answers is not None and said.count(b"HTTP/1.1 ") >= answers and said.endswith(b"\r\n\r\n"):
                        break
        writer.close()
        return said

    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", asyncio.run(talk()))]


def pour(address: str, path: str, lots: Sequence[Sequence[bytes]]) -> Counter[int]:
    """Send the bodies of every lot one after another on a connection of its own, all lots at once; the statuses."""
    found: Counter[int] = Counter()

    async def send(lot: Sequence[bytes]) -> None:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for body in lot:
            head = (
                f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            found[int(answer[9:12])] += 1
        writer.close()

    async def all_at_once() -> None:
        async with asyncio.timeout(600):
            await asyncio.gather(*(send(lot) for lot in lots))

    asyncio.run(all_at_once())
    return found


class Town:
    """A system of real processes in a folder; the words of each service go to ``<role>.words`` beside its folder."""

    def __init__(self, folder: Path, *, width: int, people: int, min_batch_size: int, **terms: int) -> None:
        self.folder = folder
        self.contract = provision_all(
            folder, clear_plan(width, people), {"min_batch_size": min_batch_size, **terms}, test=True
        )
        self.services: dict[str, Service] = {}
        self.path = f"/v1/tasks/{self.contract.id}/bundles"

    def start(self, role: Role) -> Service:
        place = self.folder / role / ADDRESSES
        place.unlink(missing_ok=True)
        with (self.folder / f"{role}.words").open("ab") as words:
            process = subprocess.Popen(
                [sys.executable, "-m", "hubbub.service", role, str(self.folder / role / SETTINGS)],
                stdout=words,
                stderr=words,
            )
        until(lambda: place.exists() or process.poll() is not None)
        self.services[role] = Service(process, json.loads(place.read_text()))
        return self.services[role]

    def stop(self, role: Role, *, kill: bool = False) -> None:
        process = self.services.pop(role).process
        if kill:
            process.kill()
        else:
            process.terminate()
        process.wait(30)

    @contextlib.contextmanager
    def open(self) -> Iterator["Town"]:
        try:
            self.start("analyzer")
            self.start("shuffler")
            yield self
        finally:
            for service in self.services.values():
                service.process.kill()
                service.process.wait()

    @property
    def uploads(self) -> str:
        return self.services["shuffler"].places["uploads"]

    def keys(self) -> dict[str, PublicKey]:
        address = f"{self.uploads}/v1/tasks/{self.contract.id}/keys"
        until(lambda: httpx.get(address, trust_env=False).status_code == 200)
        said = httpx.get(address, trust_env=False).json()
        lists = {
            role: read_key_list(json.dumps(said[role]), getattr(self.contract, role), role)
            for role in ("shuffler", "analyzer")
        }
        return {role: active_key(found) for role, found in lists.items()}

    def slots(self, values: Sequence[int]) -> NDArray[np.uint8]:
        """Sealed slots with these values, one a row."""
        size = self.contract.plan.payload
        payloads = np.frombuffer(b"".join(value.to_bytes(size, "little") for value in values), np.uint8)
        with Workers(0) as workers:
            return seal_reports(payloads.reshape(-1, size), self.contract.layout, self.keys()["analyzer"], workers)

    def wrap(self, slots: NDArray[np.uint8]) -> list[bytes]:
        """Bundles of these slots."""
        with Workers(0) as workers:
            made = seal_bundles(slots, self.contract.layout, self.keys()["shuffler"], workers)
        return [row.tobytes() for row in made]

    def pour(self, lots: Sequence[Sequence[bytes]]) -> Counter[int]:
        return pour(self.uploads, self.path, lots)

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = command(self.services["shuffler"].socket, "check")["tasks"][self.contract.id]
        return found

    def results(self) -> list[dict[str, Any]]:
        """All that the analyzer says, read with a token."""
        service = self.services["analyzer"]
        token = command(service.socket, "token", "read:*")["token"]
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=service.places["results"], headers=headers, trust_env=False) as reader:
            batches = reader.get(f"/v1/tasks/{self.contract.id}/batches").json()["batches"]
            return [reader.get(f"/v1/batches/{one['batch']}").json() for one in batches]

    def counted(self) -> Counter[int]:
        """How often every value was counted, over all batches."""
        found: Counter[int] = Counter()
        for result in self.results():
            if result["state"] == "committed":
                found.update({value: round(count) for value, count in enumerate(result["values"]) if count > 0.5})
        return found

    def enc(self, bundle: bytes) -> bytes:
        """The fresh key share of a bundle."""
        return bundle[sealing.HEADER_SIZE : sealing.HEADER_SIZE + sealing.SUITES[self.contract.suite].enc]
