"""The studio as a process that follows stand-ins of the services."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.studio.conftest import LIMIT

ROOT = Path(__file__).parents[3]


@dataclass
class Process:
    """A program that serves the studio: its address, and everything it has printed."""

    process: "subprocess.Popen[str]"
    printed: list[str] = field(default_factory=list)
    lines: "queue.Queue[str]" = field(default_factory=queue.Queue)
    found: str = ""

    def follow(self) -> None:
        """Collect what the program prints."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            self.lines.put(line)

    def address(self) -> str:
        """Return the address of the studio, which the program prints."""
        end = time.monotonic() + LIMIT
        while not self.found and time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                line = self.lines.get(timeout=0.2)
                if line.startswith("studio: "):
                    self.found = line.split()[1].removesuffix("live")
                    break
            assert self.process.poll() is None, "".join(self.printed)
        assert self.found, "".join(self.printed)
        return self.found

    def stopped(self) -> bool:
        """Send SIGTERM, and return True when no process of the program is alive any more."""
        self.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            self.process.poll()
            if not alive(self.process.pid):
                return True
            time.sleep(0.02)
        return False


def alive(group: int) -> list[int]:
    """Return the processes of a group that run; one that has ended and waits for its parent does not."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state, _, member = (place / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(member) == group and state not in "ZX":
                found.append(int(place.name))
    return found


@contextlib.contextmanager
def started(*command: str) -> Iterator[Process]:
    """Run a Python program in a process group of its own, and end it."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, "-u", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )
    found = Process(process)
    reader = threading.Thread(target=found.follow, daemon=True)
    reader.start()
    try:
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


@contextlib.contextmanager
def following(url: str, token_file: Path, port: int = 0) -> Iterator[Process]:
    """Run ``hubbub studio`` on an analyzer's address, which is also that of both services' figures."""
    operations = [f"--{role}-operations={url}" for role in ("analyzer", "shuffler")]
    given = ["--port", str(port), "--no-open", "--live", url, "--token-file", str(token_file), *operations]
    with started("-c", "from hubbub.cli import main; main()", "studio", *given) as process:
        yield process
