"""Setting services up: identities, certificates of the link, settings, a contract; a whole system for trying out."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hubbub.errors import HubbubError, check_whole
from hubbub.plans import Plan
from hubbub.service.runtime.certificates import Authority
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.process import ADDRESSES, run
from hubbub.service.runtime.secretfiles import write_file
from hubbub.service.runtime.settings import AnalyzerConfig, ShufflerConfig, read_config
from hubbub.service.task.contract import MIN_BATCH_SIZE, Contract, SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.slots import least_slots

Role = Literal["analyzer", "shuffler"]

SETTINGS = "settings.toml"
"""The name of a service's settings in its folder."""

CONTRACT = "contract.json"
"""The name of the contract of a whole system."""

STOP = 6.0
"""Seconds after which a program that was told to stop is killed."""


def draw_up(
    plan: Plan,
    *,
    analyzer: bytes,
    shuffler: bytes,
    epoch: int = 3600,
    days: float = 30.0,
    min_batch_size: int | None = None,
    slots: int | None = None,
    suite: int = 1,
    clock: Clock | None = None,
) -> Contract:
    """A contract that opens now: by default with 5 % more clients than the plan needs, and as few slots as suffice."""
    check_whole("epoch", epoch, 1)
    now = int((clock or SystemClock()).now() // epoch)
    return Contract(
        plan=plan,
        min_batch_size=max(MIN_BATCH_SIZE, plan.n + plan.n // 20) if min_batch_size is None else min_batch_size,
        slots=least_slots(plan) if slots is None else slots,
        epoch=epoch,
        task_start=now,
        task_end=now + 1 + int(days * 86_400 / epoch),
        suite=suite,
        analyzer=analyzer,
        shuffler=shuffler,
    )


def found(folder: Path, role: Role, entries: Mapping[str, object] | None = None, *, host: str = "localhost") -> bytes:
    """Make the folder of one service: its identity and settings; the analyzer's has the link's authority too.

    What the shuffler needs for the link is put into ``for-shuffler`` of the analyzer's folder. Returns the public
    identity, which goes into contracts.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = Identity.generate()
    identity.save(folder / "identity")
    if role == "analyzer":
        authority = Authority.generate()
        authority.save(folder)
        authority.issue("server", [host]).save(folder, "link")
        passed = folder / "for-shuffler"
        passed.mkdir(mode=0o700)
        authority.issue("client", ["shuffler"]).save(passed, "link")
        write_file(passed / "authority.pem", authority.certificate)
    given = ({} if role == "analyzer" else {"analyzer": f"https://{host}:8500"}) | dict(entries or {})
    lines = [f"{name} = {_toml(value)}\n" for name, value in given.items()]
    write_file(folder / SETTINGS, "".join(lines).encode())
    return identity.public


def provision_all(folder: Path, plan: Plan, terms: Mapping[str, Any] | None = None, *, test: bool = False) -> Contract:
    """Make both services for one machine, and a contract that both have signed: for trying out, not for people.

    ``terms`` are those of :func:`draw_up`.
    """
    link, common = free_port(), {"contracts": [f"../{CONTRACT}"], "unsafe_test": test}
    analyzer = folder / "analyzer"
    shuffler = folder / "shuffler"
    found(analyzer, "analyzer", {"link": f"127.0.0.1:{link}", "read": f"127.0.0.1:{free_port()}", **common})
    address = f"https://127.0.0.1:{link}"
    found(shuffler, "shuffler", {"listen": f"127.0.0.1:{free_port()}", "analyzer": address, **common})
    for name in ("link.pem", "link.key", "authority.pem"):
        write_file(shuffler / name, (analyzer / "for-shuffler" / name).read_bytes())
    both = [Identity.load(one / "identity") for one in (analyzer, shuffler)]
    contract = draw_up(plan, analyzer=both[0].public, shuffler=both[1].public, **(terms or {}))
    write_file(folder / CONTRACT, SignedContract.sign(contract, *both).to_json())
    return contract


def free_port() -> int:
    """A port of this machine that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_role(role: str, settings: Path, changes: Mapping[str, object] | None = None) -> None:
    """Run the service of a file of settings, until SIGTERM or SIGINT; ``changes`` override what the file says."""
    # Each imports what the other does not need: the shuffler starts without the mathematics.
    if role == "shuffler":
        from hubbub.service.shuffler.app import ShufflerProgram  # noqa: PLC0415

        run(lambda: ShufflerProgram(read_config(settings, ShufflerConfig, changes)))
    else:
        from hubbub.service.analyzer.app import AnalyzerProgram  # noqa: PLC0415

        run(lambda: AnalyzerProgram(read_config(settings, AnalyzerConfig, changes)))


@dataclass(frozen=True, slots=True)
class Service:
    """A service that runs: its process, and where it listens, by the names of its listeners."""

    process: "subprocess.Popen[bytes]"
    places: Mapping[str, str]

    @property
    def socket(self) -> Path:
        """Where it takes commands."""
        return Path(self.places["admin"].removeprefix("unix:"))


@contextlib.contextmanager
def serve_role(folder: Path, role: Role, *, seconds: float = 60.0) -> Iterator[Service]:
    """Start one service of a folder of :func:`found_all` as a process of its own, and stop it in the end."""
    (folder / role / ADDRESSES).unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-m", "hubbub.service", role, str(folder / role / SETTINGS)])
    try:
        yield Service(process, _await(folder / role / ADDRESSES, process, seconds))
    finally:
        process.terminate()
        try:
            process.wait(STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def serve_all(folder: Path) -> Iterator[tuple[Service, Service]]:
    """Start both services: the analyzer and the shuffler."""
    with serve_role(folder, "analyzer") as analyzer, serve_role(folder, "shuffler") as shuffler:
        yield analyzer, shuffler


def _await(path: Path, process: "subprocess.Popen[bytes]", seconds: float) -> dict[str, str]:
    end = time.monotonic() + seconds
    while not path.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise HubbubError(f"the {path.parent.name} did not start")
        threading.Event().wait(0.02)
    found: dict[str, str] = json.loads(path.read_text())
    return found


def _toml(value: object) -> str:
    """A value as TOML writes it; for the kinds that settings have, this is how JSON writes it.

    >>> _toml(["a", "b"]), _toml(True), _toml(3)
    ('["a", "b"]', 'true', '3')
    """
    return json.dumps(value)
