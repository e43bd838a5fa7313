"""The client of a shuffler: randomize each answer once, seal it, and upload it until it is known to be stored.

Randomized messages and sealed bundles are written to a journal before the first attempt. A bundle is sent unchanged
until there is a response; only the problem ``outdated-keys``, which says that it was not stored, makes the uploader
seal the same randomized messages again. A lost response, a crash or a key rotation therefore never counts an answer
twice.
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
from hubbub.canonical import Fields, canonical, parse
from hubbub.device import record_payloads
from hubbub.errors import Infeasible, InvalidInput, NoResponse, WireError, reject
from hubbub.service.runtime.problems import PREFIX
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.keys import PublicKey, active_key, read_key_list

MEDIA_TYPE = "application/hubbub-bundle"
ATTEMPTS = 12
"""Attempts per request; afterwards the journal keeps the bundles for the next run."""
LONGEST_PAUSE = 60.0
"""Longest pause between two attempts, in seconds."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Response:
    """The response to an upload: HTTP status, name of the problem, and seconds to wait before the next attempt."""

    status: int
    problem: str = ""
    retry_after: float = 0.0

    @property
    def transient(self) -> bool:
        """True if the same request may succeed later.

        >>> Response(503).transient, Response(409, "outdated-keys").transient
        (True, False)
        """
        return self.status in (408, 425, 429) or self.status >= 500


class Transport(Protocol):
    """A connection to a shuffler; raises :class:`NoResponse` if there is no response."""

    def keys(self, task: str) -> bytes:
        """Return the key document of a task."""

    def post(self, task: str, body: bytes) -> Response:
        """Upload bundles."""


class HttpTransport:
    """A shuffler behind a URL, over persistent connections."""

    def __init__(self, url: str, *, timeout: float = 30.0, client: httpx.Client | None = None) -> None:
        place = httpx.URL(url)
        if place.scheme not in ("http", "https") or not place.host:
            reject("the shuffler's address", "be a URL http://… or https://…", url)
        self._url = url.rstrip("/")
        # No user agent and no cookies: nothing that distinguishes one device from another.
        self._client = client or httpx.Client(timeout=timeout, headers={"user-agent": ""}, trust_env=False)

    def keys(self, task: str) -> bytes:
        """Return the key document of a task."""
        with _responses():
            response = self._client.get(f"{self._url}/v1/tasks/{task}/keys")
            if response.status_code == 404:
                reject("the contract", "be one that the shuffler at this address serves")
            if response.status_code != 200:
                raise NoResponse(f"the shuffler returned no keys: status {response.status_code}")
            return response.content

    def post(self, task: str, body: bytes) -> Response:
        """Upload bundles."""
        with _responses():
            url, headers = f"{self._url}/v1/tasks/{task}/bundles", {"content-type": MEDIA_TYPE}
            response = self._client.post(url, content=body, headers=headers)
            problem, wait = "", response.headers.get("retry-after", "")
            if response.status_code != 201:
                with contextlib.suppress(ValueError, AttributeError):
                    problem = str(response.json().get("type", "")).removeprefix(PREFIX)
            return Response(response.status_code, problem, float(wait) if wait.isascii() and wait.isdigit() else 0.0)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextlib.contextmanager
def _responses() -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise NoResponse(f"no response from the shuffler: {type(error).__name__}") from None


class Journal:
    """The state of every answer: randomized messages and sealed bundle until it is stored, afterwards only its state.

    A file for one contract, readable by its owner only. It never contains raw answers.
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
            raise WireError("the journal must be a file written by hubbub send; choose a new file name") from None

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
            raise WireError("the journal belongs to another contract; choose a new file name")

    def __len__(self) -> int:
        return int(self._store.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def fill(self, answers: Iterable[tuple[list[bytes], bytes]]) -> None:
        """Store the messages and bundles of all answers, or none; a journal is filled once."""
        if len(self):
            raise InvalidInput(f"the journal must be empty before answers are added; it holds {len(self):,}")
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            rows = ((b"".join(messages), bundle) for messages, bundle in answers)
            self._store.executemany("INSERT INTO answers (messages, bundle, state) VALUES (?, ?, 'waiting')", rows)

    def waiting(self, limit: int) -> list[tuple[int, bytes]]:
        """Return the numbers and bundles of the first answers that are not known to be stored."""
        query = "SELECT no, bundle FROM answers WHERE state = 'waiting' ORDER BY no LIMIT ?"
        return [(number, bytes(bundle)) for number, bundle in self._store.execute(query, (limit,))]

    def messages(self, number: int) -> list[bytes]:
        """Return the randomized messages of an answer."""
        data = bytes(self._store.execute("SELECT messages FROM answers WHERE no = ?", (number,)).fetchone()[0])
        return [data[start : start + self._size] for start in range(0, len(data), self._size)]

    def replace(self, number: int, bundle: bytes) -> None:
        """Store a new seal of the same messages before it is sent."""
        self._store.execute("UPDATE answers SET bundle = ? WHERE no = ? AND state = 'waiting'", (bundle, number))

    def settle(self, numbers: Iterable[int], state: str) -> None:
        """Set the state of answers, ``stored`` or the name of a problem, and delete their messages and bundles."""
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            statement = "UPDATE answers SET state = ?, messages = NULL, bundle = NULL WHERE no = ?"
            self._store.executemany(statement, [(state, number) for number in numbers])

    def states(self) -> dict[str, int]:
        """Return the number of answers in each state."""
        return dict(self._store.execute("SELECT state, COUNT(*) FROM answers GROUP BY state ORDER BY state"))

    def close(self) -> None:
        """Close the file."""
        self._store.close()


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of a run: answers stored, still waiting, and refused by name of the problem."""

    stored: int
    waiting: int
    refused: dict[str, int]


@dataclass
class Uploader:
    """Sends the answers of a journal to the shuffler of a contract."""

    contract: Contract
    transport: Transport
    journal: Journal
    per_request: int = 100
    attempts: int = ATTEMPTS
    pause: Callable[[float], None] = time.sleep
    entropy: Callable[[int], bytes] = os.urandom

    def prepare(self, records: Iterable[int]) -> None:
        """Randomize and seal encoded records, one bundle each, and store them in the journal."""
        keys = self._retry(self._fetch)
        source = Buffered(self.entropy)

        def answers() -> Iterator[tuple[list[bytes], bytes]]:
            for record in records:
                messages = record_payloads(record, self.contract.plan, entropy=source)[: self.contract.slots]
                yield messages, self._seal(messages, keys)

        self.journal.fill(answers())

    def send(self, progress: Callable[[int], None] = lambda _: None) -> Sent:
        """Send all waiting answers until they are stored or refused; ``progress`` gets the number settled so far."""
        settled = 0
        while waiting := self.journal.waiting(self.per_request):
            problem = self._send(waiting)
            if problem is None:
                self.journal.settle([number for number, _ in waiting], "stored")
            elif len(waiting) > 1:
                # Sent one by one, they show which of them was refused.
                for one in waiting:
                    self._send_one(*one)
            else:
                self._settle_one(waiting[0][0], problem)
            settled += len(waiting)
            progress(settled)
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
        """Record a refusal, or seal again if the keys were outdated, which means that the bundle was not stored."""
        for _ in range(self.attempts):
            if problem != "outdated-keys":
                self.journal.settle([number], problem)
                return
            bundle = self._seal(self.journal.messages(number), self._retry(self._fetch))
            self.journal.replace(number, bundle)
            outcome = self._send([(number, bundle)])
            if outcome is None:
                self.journal.settle([number], "stored")
                return
            problem = outcome
        raise Infeasible("the shuffler's keys changed during every attempt; try again later")

    def _send(self, bundles: list[tuple[int, bytes]]) -> str | None:
        """Return None if the bundles are stored, or the name of the problem if they are refused."""
        body = b"".join(bundle for _, bundle in bundles)
        response = self._retry(lambda: self.transport.post(self.contract.id, body))
        return None if response.status == 201 else response.problem or f"status {response.status}"

    def _retry(self, call: Callable[[], T]) -> T:
        """Call until there is a final response; pauses double, with full jitter, up to a minute."""
        for attempt in range(self.attempts):
            wait = 0.0
            try:
                result = call()
            except NoResponse:
                if attempt == self.attempts - 1:
                    raise
            else:
                if not (isinstance(result, Response) and result.transient):
                    return result
                wait = result.retry_after
            share = int.from_bytes(self.entropy(4), "big") / 2**32
            self.pause(wait + share * min(LONGEST_PAUSE, 0.25 * 2**attempt))
        raise NoResponse("the shuffler is overloaded")

    def _fetch(self) -> tuple[PublicKey, PublicKey]:
        """Return the keys of the analyzer and of the shuffler to seal with, each signed by its operator."""
        text = self.transport.keys(self.contract.id)
        read = Fields(parse(text, "the key document"), "the key document", "shuffler", "analyzer", "analyzer_key_id")
        keys = read_key_list(canonical(read["analyzer"]), self.contract.analyzer, "analyzer")
        used = [key for key in keys if key.id == read.whole("analyzer_key_id") and key.suite == self.contract.suite]
        if not used:
            raise WireError("the key document must name a key of the analyzer's list in 'use'")
        return used[0], active_key(read_key_list(canonical(read["shuffler"]), self.contract.shuffler, "shuffler"))

    def _seal(self, messages: list[bytes], keys: tuple[PublicKey, PublicKey]) -> bytes:
        layout = self.contract.layout
        analyzer, shuffler = keys
        inner, outer = (sealing.load_public(key.suite, key.public) for key in keys)
        filled: list[bytes | None] = [*messages, *[None] * (layout.slots - len(messages))]
        slots = [sealing.seal_slot(message, layout, analyzer.id, inner) for message in filled]
        return sealing.seal_bundle(slots, layout, shuffler.id, outer)
