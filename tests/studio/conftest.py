"""A studio without processes for fast tests, and a running one for browsers."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from hubbub.documents import Json
from hubbub.studio import work
from hubbub.studio.desk import Desk
from hubbub.studio.workers import STALE, Job

PROGRAM = """
from hubbub.cli import main
from hubbub.studio import desk, workers
desk.PATIENCE = workers.STARTING = 3600.0
main(['studio', '--no-open', '--port', '{port}'])
"""
"""A studio in which nothing is late for good: processes, and what was late at first, have an hour."""
LIMIT = 600
"""Seconds after which a test gives up: no test waits as long, however busy the machine is."""
INQUIRY: dict[str, Json] = {
    "kind": "one",
    "d": 3,
    "k": 1,
    "questions": [],
    "n": 2000,
    "epsilon": 1.0,
    "delta": 1e-6,
    "rounds": 1,
    "trust": "shuffling",
    "clear": False,
    "compromised": 0,
    "joint": False,
}
QUESTIONS: list[Json] = [
    {"name": "colour", "kind": "choice", "labels": ["red", "green", "blue"]},
    {"name": "dark mode", "kind": "flag"},
    {"name": "age", "kind": "number", "low": 0, "high": 100},
    {"name": "load time", "kind": "scale", "low": 0, "high": 64, "buckets": 16},
]


class Inline:
    """Workers that compute in this process."""

    def __init__(self) -> None:
        self.newest_of: dict[str, int] = {}
        self.slots: dict[int, str] = {}
        self.jobs: list[Job] = []

    def newest(self, tab: str, generation: int) -> int:
        self.newest_of[tab] = generation
        slot = len(self.slots)
        self.slots[slot] = tab
        return slot

    def leave(self, slot: int, generation: int) -> None:
        del slot, generation

    def drop(self, *names: str) -> None:
        for name in names:
            self.newest_of.pop(name, None)

    async def ready(self, *, urgent: bool = False) -> None:
        pass

    async def run(self, job: Job) -> dict[str, Any]:
        self.jobs.append(job)
        if self.newest_of.get(self.slots[job.slot]) != job.generation:
            return STALE
        return work.run(job.task, job.arguments, lambda: False)


@pytest.fixture
def workers() -> Inline:
    return Inline()


@pytest.fixture
def desk(workers: Inline) -> Desk:
    made: Any = workers
    return Desk(made)


class Running:
    """A studio in a process of its own."""

    def __init__(self, port: int = 0, errors: int | None = None) -> None:
        command = [sys.executable, "-c", PROGRAM.format(port=port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        assert found, said
        self.address, self.port = found[0], int(found[1])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(LIMIT)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def studio() -> Iterator[Running]:
    running = Running()
    yield running
    if running.process.poll() is None:
        running.stop()
