"""What a device does with its answer: randomize once, seal, and send until it is known to be stored; never twice.

Everything that must not be drawn again stands in a journal before the first attempt. A bundle is sent as it is until
there is an answer; only the answer ``outdated-keys``, which says that it was not taken, makes the sender seal the same
randomized messages anew. So a lost answer, a crash or a rotation of keys never makes an answer count twice.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import httpx

from hubbub.bits.exact import Buffered
from hubbub.canonical import Json, as_whole, canonical, fields, parse
from hubbub.device import record_payloads
from hubbub.errors import HubbubError, Infeasible, WireError, reject
from hubbub.service.runtime.problems import PREFIX
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.keys import PublicKey, active_key, read_key_list

MEDIA_TYPE = "application/hubbub-bundle"
TRIES = 12
"""Attempts without an answer before a run gives up; the journal keeps what was not answered."""
T = TypeVar("T")
LONGEST = 60.0
"""Seconds between two attempts, at most."""


class Lost(HubbubError):
    """No answer: the request may have been carried out or not."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for an upload: the status, the name of the problem, and how long to wait."""

    status: int
    problem: str = ""
    retry_after: float = 0.0

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later.

        >>> Answer(503).transient, Answer(409, "outdated-keys").transient
        (True, False)
        """
        return self.status in (408, 425, 429) or self.status >= 500


class Transport(Protocol):
    """The way to a shuffler; raises :class:`Lost` where there is no answer."""

    def keys(self, task: str) -> bytes:
        """The document of keys of a task."""

    def post(self, task: str, body: bytes) -> Answer:
        """Upload bundles."""


class Http:
    """A shuffler behind a URL, over connections that are kept."""

    def __init__(self, url: str, *, timeout: float = 30.0, client: httpx.Client | None = None) -> None:
        place = httpx.URL(url)
        if place.scheme not in ("http", "https") or not place.host:
            reject("the shuffler's address", "be http://… or https://…", "another")
        self._url = url.rstrip("/")
        # No user agent and no cookies: nothing that would tell one device from another.
        self._client = client or httpx.Client(timeout=timeout, headers={"user-agent": ""}, trust_env=False)

    def keys(self, task: str) -> bytes:
        """The document of keys of a task."""
        with _answers():
            answer = self._client.get(f"{self._url}/v1/tasks/{task}/keys")
            if answer.status_code == 404:
                reject("the contract", "be one that the service at this address serves", "another")
            if answer.status_code != 200:
                raise Lost(f"the shuffler gave no keys: status {answer.status_code}")
            return answer.content

    def post(self, task: str, body: bytes) -> Answer:
        """Upload bundles."""
        with _answers():
            answer = self._client.post(
                f"{self._url}/v1/tasks/{task}/bundles", content=body, headers={"content-type": MEDIA_TYPE}
            )
            problem, wait = "", answer.headers.get("retry-after", "")
            if answer.status_code != 201:
                with contextlib.suppress(ValueError, AttributeError):
                    problem = str(answer.json().get("type", "")).removeprefix(PREFIX)
            return Answer(answer.status_code, problem, float(wait) if wait.isascii() and wait.isdigit() else 0.0)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextlib.contextmanager
def _answers() -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise Lost(f"no answer from the shuffler: {type(error).__name__}") from None


class Journal:
    """Answers on their way: randomized messages and sealed bundles until they are stored, then only that they are.

    A file of one contract, readable by its owner only; raw answers never reach it.
    """

    def __init__(self, path: Path | str, contract: Contract) -> None:
        self._size = contract.plan.payload
        place = str(path)
        if place != ":memory:":
            os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        self._store = sqlite3.connect(place, isolation_level=None)
        try:
            self._begin(contract)
        except sqlite3.DatabaseError:
            self._store.close()
            raise WireError("the journal must be one of hubbub send, got another file") from None

    def _begin(self, contract: Contract) -> None:
        for statement in (
            "PRAGMA synchronous = full",
            "PRAGMA secure_delete = on",
            "CREATE TABLE IF NOT EXISTS contract (task BLOB NOT NULL)",
            "CREATE TABLE IF NOT EXISTS answers (no INTEGER PRIMARY KEY, messages BLOB, bundle BLOB, state TEXT)",
        ):
            self._store.execute(statement)
        tasks = [bytes(task) for (task,) in self._store.execute("SELECT task FROM contract")]
        if not tasks:
            self._store.execute("INSERT INTO contract VALUES (?)", (contract.task,))
        elif tasks != [contract.task]:
            raise WireError("the journal must be of this contract, got one of another")

    def __len__(self) -> int:
        return int(self._store.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def fill(self, answers: Iterable[tuple[list[bytes], bytes]]) -> None:
        """Enter all answers, their messages and bundles, or none: a journal is filled once."""
        if len(self):
            reject("the journal", "be empty when answers are entered", f"{len(self)} answers")
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            rows = ((b"".join(messages), bundle) for messages, bundle in answers)
            self._store.executemany("INSERT INTO answers (messages, bundle, state) VALUES (?, ?, 'waiting')", rows)

    def waiting(self, most: int) -> list[tuple[int, bytes]]:
        """The first answers that are not known to be stored, with their bundles."""
        rows = self._store.execute(
            "SELECT no, bundle FROM answers WHERE state = 'waiting' ORDER BY no LIMIT ?", (most,)
        )
        return [(number, bytes(bundle)) for number, bundle in rows]

    def messages(self, number: int) -> list[bytes]:
        """The randomized messages of an answer."""
        data = bytes(self._store.execute("SELECT messages FROM answers WHERE no = ?", (number,)).fetchone()[0])
        return [data[start : start + self._size] for start in range(0, len(data), self._size)]

    def replace(self, number: int, bundle: bytes) -> None:
        """Another seal of the same messages, before it is sent."""
        self._store.execute("UPDATE answers SET bundle = ? WHERE no = ? AND state = 'waiting'", (bundle, number))

    def settle(self, numbers: Iterable[int], state: str) -> None:
        """Mark answers as ``stored``, or by the name of the problem for which they are refused; forget the rest."""
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            self._store.executemany(
                "UPDATE answers SET state = ?, messages = NULL, bundle = NULL WHERE no = ?",
                [(state, number) for number in numbers],
            )

    def states(self) -> dict[str, int]:
        """How many answers are in which state."""
        return dict(self._store.execute("SELECT state, COUNT(*) FROM answers GROUP BY state ORDER BY state"))

    def close(self) -> None:
        """Close the file."""
        self._store.close()


@dataclass(frozen=True, slots=True)
class Sent:
    """How a run ended: answers stored, refused by the name of the problem, and still waiting."""

    stored: int
    waiting: int
    refused: dict[str, int]


@dataclass
class Sender:
    """Sends the answers of a journal to the shuffler of a contract."""

    contract: Contract
    transport: Transport
    journal: Journal
    per_request: int = 100
    tries: int = TRIES
    pause: Callable[[float], None] = time.sleep
    entropy: Callable[[int], bytes] = os.urandom

    def prepare(self, records: Iterable[int]) -> None:
        """Randomize and seal the encoded records of people, one bundle each, and enter all of them in the journal."""
        keys = self._retry(self._fetch)
        source = Buffered(self.entropy)

        def answers() -> Iterator[tuple[list[bytes], bytes]]:
            for record in records:
                messages = record_payloads(record, self.contract.plan, entropy=source)[: self.contract.slots]
                yield messages, self._seal(messages, keys)

        self.journal.fill(answers())

    def send(self, tell: Callable[[int], None] = lambda _: None) -> Sent:
        """Send everything that waits, until it is stored or refused; ``tell`` is given the number settled so far."""
        settled = 0
        while waiting := self.journal.waiting(self.per_request):
            problem = self._send(waiting)
            if problem is None:
                self.journal.settle([number for number, _ in waiting], "stored")
            elif len(waiting) > 1:
                # Which of them was refused, and which not, shows when they are sent one by one.
                for one in waiting:
                    self._send_one(*one)
            else:
                self._settle_one(waiting[0][0], problem)
            settled += len(waiting)
            tell(settled)
        states = self.journal.states()
        stored, left = states.pop("stored", 0), states.pop("waiting", 0)
        return Sent(stored, left, states)

    def _send_one(self, number: int, bundle: bytes) -> None:
        problem = self._send([(number, bundle)])
        if problem is None:
            self.journal.settle([number], "stored")
        else:
            self._settle_one(number, problem)

    def _settle_one(self, number: int, problem: str) -> None:
        """After a refusal: seal anew if the keys were outdated, which says that the bundle was not taken."""
        for _ in range(self.tries):
            if problem != "outdated-keys":
                self.journal.settle([number], problem)
                return
            bundle = self._seal(self.journal.messages(number), self._retry(self._fetch))
            self.journal.replace(number, bundle)
            answer = self._send([(number, bundle)])
            if answer is None:
                self.journal.settle([number], "stored")
                return
            problem = answer
        raise Infeasible("the shuffler's keys were outdated again and again; try later")

    def _send(self, bundles: list[tuple[int, bytes]]) -> str | None:
        """None if the bundles are stored, or the name of the problem that refuses them for good."""
        body = b"".join(bundle for _, bundle in bundles)

        def post() -> Answer:
            return self.transport.post(self.contract.id, body)

        answer = self._retry(post)
        return None if answer.status == 201 else answer.problem or f"status {answer.status}"

    def _retry(self, call: Callable[[], T]) -> T:
        """Call until there is an answer that is not ``try later``: waits double, with full jitter, up to a minute."""
        for attempt in range(self.tries):
            wait = 0.0
            try:
                answer = call()
            except Lost:
                if attempt == self.tries - 1:
                    raise
            else:
                if not (isinstance(answer, Answer) and answer.transient):
                    return answer
                wait = answer.retry_after
            share = int.from_bytes(self.entropy(4), "big") / 2**32
            self.pause(wait + share * min(LONGEST, 0.25 * 2**attempt))
        raise Lost("the shuffler is busy; what was not taken stays in the journal")

    def _fetch(self) -> tuple[PublicKey, PublicKey]:
        """The keys to seal with, of the analyzer and of the shuffler, each signed by its operator."""
        read = fields(
            parse(self.transport.keys(self.contract.id), "a document of keys"),
            "a document of keys",
            {"shuffler": _text, "analyzer": _text, "analyzer_key_id": as_whole},
        )
        own, theirs = str(read["shuffler"]), str(read["analyzer"])
        keys = read_key_list(theirs, self.contract.analyzer, "analyzer")
        used = [key for key in keys if key.id == read["analyzer_key_id"] and key.suite == self.contract.suite]
        if not used:
            raise WireError("the key in use must be in the analyzer's list, got another")
        return used[0], active_key(read_key_list(own, self.contract.shuffler, "shuffler"))

    def _seal(self, messages: list[bytes], keys: tuple[PublicKey, PublicKey]) -> bytes:
        layout = self.contract.layout
        analyzer, shuffler = keys
        inner = _load(analyzer)
        filled: list[bytes | None] = [*messages, *[None] * (layout.slots - len(messages))]
        slots = [sealing.seal_slot(message, layout, analyzer.id, inner) for message in filled]
        return sealing.seal_bundle(slots, layout, shuffler.id, _load(shuffler))


def _load(key: PublicKey) -> sealing.Public:
    return sealing.load_public(key.suite, key.public)


def _text(value: Json) -> str:
    return canonical(value).decode()
