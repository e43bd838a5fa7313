"""A collection of strings through relay, shuffler and analyzer as processes, each of which is killed again and again.

Everybody's string is counted exactly once: the plan of the test subtracts 1 from every count, practically surely, so
that the numbers of all batches, plus 1 each, add up to the number of people who hold each string.
"""

import contextlib
import functools
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.service.admissions import ISSUER, TICKET_KEY
from tests.service.live import TIMEOUT, LiveSystem, wait_until
from tests.service.postgres_server import PostgresServer

from hubbub.errors import NoResponse
from hubbub.model.fakes import Fakes
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.journal import Journal
from hubbub.service.provision import TICKETS
from hubbub.service.runtime.failpoints import POINTS
from hubbub.service.task.admission import KEY_SUFFIX
from hubbub.service.transport import HttpTransport, Response
from hubbub.service.uploader import Uploader

KILL = "kill"
STRINGS = ("out of memory", "crash at 0x1f", "köln", "/usr/bin/x", "")
"""Every fifth person holds each, so that every batch has several of each."""
SHUFFLER_ENDS = ("accept-inserted", "release-sealed", "shuffle-subtracted", "shuffle-chunk", "shuffle-committed",
                 "deliver-receipt", "upload-committed")  # fmt: skip
ANALYZER_ENDS = ("evaluations-reserved", "evaluation-made", "chunk-opened", "chunk-counted", "batch-counted",
                 "receipt-answered")  # fmt: skip


@functools.cache
def plain_plan(n: int) -> Plan:
    """Return a plan that subtracts 1 from every count, except with a probability that no test ever sees."""
    protocol = Protocol(0, m=Fakes.laplace(0.02, 1), release="strings")
    return plan_from(Schema.strings(32), n, protocol, epsilon=60.0)


class StringLive(LiveSystem):
    """Relay, shuffler and analyzer of a contract for strings as processes."""

    def __init__(self, folder: Path, *, min_batch_size: int, server: PostgresServer | None = None) -> None:
        plan = plain_plan(min_batch_size)
        entries = {"shuffler": {"lease": 2.0, "workers": 0}, "analyzer": {"lease": 2.0, "workers": 0}}
        super().__init__(
            folder,
            plan=plan,
            min_batch_size=min_batch_size,
            entries=entries,  # type: ignore[arg-type]
            server=server,
            replicas=(1, 1) if server else (0, 0),
            relay="relay.example",
            evaluations=10**9,
            per_client=100,
        )
        TICKET_KEY.evaluation().save(folder / "analyzer" / TICKETS / f"{ISSUER}{KEY_SUFFIX}")
        self.change("relay", {"shuffler": self.url})
        self.names.append("relay")

    @property
    def relay(self) -> str:
        """The URL of the relay, which stays the same at every start."""
        return f"http://{self.entry('relay', 'listen')}"

    def admissions(self, accounts: Sequence[object]) -> list[bytes]:
        task, other = self.contract.task, TICKET_KEY.evaluation()
        return [TICKET_KEY.mint(task, str(one)) + other.mint(task, str(one)) for one in accounts]


class ClientDied(BaseException):
    """The client's process ended."""


class PacedTransport(HttpTransport):
    """A connection to the relay that sends as fast as things die, and whose client dies itself now and then."""

    def __init__(self, url: str, test: "StringDeaths") -> None:
        super().__init__(url)
        self._test = test

    def post(self, task: str, body: bytes) -> Response:
        self._test.keep_pace()
        if self._test.chance.random() < self._test.client_deaths:
            with contextlib.suppress(NoResponse):
                super().post(task, body)
            raise ClientDied
        response = super().post(task, body)
        if response.status == 201:
            self._test.sent += len(body) // self._test.live.contract.bundle_size
        return response

    def evaluate(self, task: str, body: bytes) -> Response:
        response = super().evaluate(task, body)
        if self._test.chance.random() < self._test.client_deaths:
            raise ClientDied
        return response


class StringDeaths:
    """People who send strings while processes die."""

    client_deaths = 0.02

    def __init__(
        self, folder: Path, ends: Mapping[str, Sequence[str]], people: int, server: PostgresServer | None = None
    ) -> None:
        self.ends, self.people, self.chance = ends, people, random.Random(7)
        self.live = StringLive(folder, min_batch_size=60, server=server)
        self.total = sum(map(len, ends.values()))
        self.died: list[tuple[str, str]] = []
        self.clients_died = self.sent = 0
        self._path = folder / "sent.journal"
        self._failure: BaseException | None = None
        self._armed = threading.Barrier(len(ends) + 1)
        """Passed when every process whose first death has a point was started with it: nothing was sent before."""

    def keep_pace(self) -> None:
        """Wait until as large a share of the deaths has happened as of the answers was stored."""
        wait_until(self._behind, "the deaths to keep up")

    def _behind(self) -> bool:
        over = len(self.died) >= self.total or self._failure is not None
        return over or self.sent <= self.people * (len(self.died) + 10) / self.total

    def run(self) -> dict[str, Any]:
        """Run the test, check that every string counts once, and return figures."""
        begun, live = time.monotonic(), self.live
        values = [STRINGS[number % len(STRINGS)] for number in range(self.people)]
        with live.running():
            threads = [threading.Thread(target=self._live, args=(name, ends)) for name, ends in self.ends.items()]
            sending = threading.Thread(target=self._send, args=(values,))
            for thread in (sending, *threads):
                thread.start()
            for thread in (*threads, sending):
                thread.join()
            if self._failure is not None:
                raise self._failure
            wait_until(live.drained, "the last batches", 3 * TIMEOUT)
            figures = self._audit(values)
        return {**figures, "seconds": round(time.monotonic() - begun, 1)}

    def _send(self, values: Sequence[str]) -> None:
        try:
            self._armed.wait(TIMEOUT)
            while True:
                with contextlib.closing(Journal(self._path, self.live.contract)) as journal:
                    transport = PacedTransport(self.live.relay, self)
                    sender = Uploader(
                        self.live.contract,
                        transport,
                        journal,
                        per_request=5,
                        attempts=100_000,
                        pause=lambda seconds: time.sleep(min(seconds, 0.1)),
                    )
                    try:
                        if not len(journal):
                            sender.prepare(values, self.live.admissions(range(len(values))))
                        self.outcome = sender.send()
                    except ClientDied:
                        self.clients_died += 1
                        continue
                    finally:
                        transport.close()
                    return
        except BaseException as failure:
            self._failure = self._failure or failure

    def _live(self, name: str, ends: Sequence[str]) -> None:
        chance = random.Random(name)
        try:
            for number, planned in enumerate(ends):
                end = planned
                if planned in POINTS:
                    self.live.kill(name)
                    process = self.live.launch(name, planned)
                if number == 0:
                    self._armed.wait(TIMEOUT)
                if planned in POINTS:
                    # A point that is not reached, because nothing waits for it, becomes an ordinary kill.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(60)
                    reached = process.poll() is not None
                    assert not reached or process.returncode == -signal.SIGKILL, (name, planned, process.returncode)
                    if not reached:
                        self.live.kill(name)
                    end = planned if reached else KILL
                else:
                    wait_until(lambda: self.live.ready(name) or self._failure is not None, f"the {name}")
                    time.sleep(min(chance.expovariate(3.0), 1.0))
                    self.live.kill(name)
                self.died.append((name, end))
                self.live.launch(name)
                if self._failure is not None:
                    return
            wait_until(lambda: self.live.ready(name) or self._failure is not None, f"the {name} to be ready")
        except BaseException as failure:
            self._failure = self._failure or failure

    def _audit(self, values: Sequence[str]) -> dict[str, Any]:
        live, outcome = self.live, self.outcome
        assert (outcome.stored, outcome.waiting, outcome.refused, outcome.uncertain) == (self.people, 0, {}, 0)
        counts = live.counts()
        assert counts["accepted"] == self.people
        assert counts["committed"] + counts["open"] == self.people
        assert counts["error"] == 0
        results = live.results()
        counted: Counter[str] = Counter()
        for result in results:
            assert result["state"] == "committed"
            assert result["rejected"] == {}
            (shown,) = result["counts"]
            numbers = {one: number + 1 for one, number in zip(shown["strings"], shown["numbers"], strict=True)}
            assert sum(numbers.values()) == result["people"]
            counted.update(numbers)
        assert sum(result["people"] for result in results) == counts["committed"]
        held = Counter(values)
        missing = held - counted
        assert not counted - held, "a string was counted twice"
        assert sum(missing.values()) == counts["open"], "a string was lost"
        points = Counter(end for _, end in self.died if end != KILL)
        return {
            "people": self.people,
            "batches": len(results),
            "left_open": counts["open"],
            "deaths": len(self.died),
            "deaths_by_process": dict(Counter(name for name, _ in self.died)),
            "client_deaths": self.clients_died,
            **{f"at_{name}": count for name, count in points.items()},
        }
