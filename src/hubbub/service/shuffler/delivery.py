"""The delivery of batches to the analyzer; a batch is erased only when a valid receipt proves its result durable.

The number of a bucket is signed by both sides. If the analyzer has another manifest under the same number, this
shuffler was restored or runs twice. It adopts the other manifest if that is its own, of the same bundles, and complete;
otherwise its bucket is *fenced*: discarded, counted and named in a gap. It is never sent under another number, because
two batches of the same people reveal which slots are fakes.

For the same reason the shuffler does not rely on the analyzer to refuse a second batch. Sealing is randomized, so a
store that is restored to a time before the shuffle makes another batch of the same people. Before a batch is announced,
its digest is therefore *pinned* in the credential folder, where no restore rewinds it: no other batch of the bucket is
ever announced, and none once the bucket's secrets are erased.
"""

import hashlib
import re
import ssl
from typing import Protocol

import httpx

from hubbub.documents import Fields, parse
from hubbub.errors import AnalyzerUnreachable, FalseClaim, InvalidInput, Problem, WireError
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Lease, Leases, LostLease
from hubbub.service.runtime.failpoints import reach
from hubbub.service.shuffler.blocks import batch_pin
from hubbub.service.shuffler.buckets import Buckets, next_key
from hubbub.service.shuffler.shuffle import Shuffles
from hubbub.service.shuffler.store import Bucket, ShufflerStore, TaskRow
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Counter, KeysInUse, Manifest, Receipt


class AnalyzerClient(Protocol):
    """Requests to the analyzer; a request that fails may have been processed."""

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt if its result is durable, otherwise the missing chunks.

        Raise the problem ``fenced`` if the analyzer has another manifest under this number.
        """

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Send a chunk of an announced batch."""

    def manifest(self, batch: str) -> bytes | None:
        """Return the manifest that the analyzer has for a batch; None if it knows no such batch."""

    def counter(self, task: str) -> bytes:
        """Return the analyzer's signed counter of the buckets announced for a task."""

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        """Send the signed statement of the analyzer's keys that undelivered reports are sealed to."""

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""

    def tag_keys(self, task: str) -> bytes:
        """Return the analyzer's signed tag keys of a task of strings."""


MAX_RESPONSE_SIZE = 16 << 20
"""Largest response in bytes; key lists and lists of missing chunks are far smaller."""


class HttpsAnalyzerClient:
    """A kept-alive HTTPS connection to the analyzer, for one thread; every failure is one exception."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None, *, seconds: float = 60.0) -> None:
        timeout = httpx.Timeout(seconds, connect=min(seconds, 10.0))
        limits = httpx.Limits(max_connections=2, keepalive_expiry=60.0)
        url, verify = address.rstrip("/"), True if context is None else context
        # The machine's proxy settings and netrc are for browsers, not for this connection.
        self._client = httpx.Client(base_url=url, verify=verify, timeout=timeout, limits=limits, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt, or the indices of the missing chunks.

        Raise the problem ``fenced`` if the analyzer has another manifest for this bucket.
        """
        status, body = self._request("PUT", f"/v1/batches/{batch}", document, {200, 202, 409})
        if status == 409:
            problem = _problem_name(body)
            if problem not in ("", " (fenced)"):
                # A bucket is given up only if the analyzer says so.
                raise AnalyzerUnreachable(f"the analyzer responded 409{problem}")
            # The body is the other manifest; it is read from its own address, where nothing else can be in its place.
            raise Problem("fenced")
        if status == 200:
            return body
        try:
            items = Fields(parse(body, "the response"), "the response", "missing").items("missing")
        except WireError:
            items = [None]
        missing = [index for index in items if isinstance(index, int) and not isinstance(index, bool)]
        if missing != items:
            raise AnalyzerUnreachable("the analyzer's response violates the protocol")
        return missing

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Send a chunk of an announced batch."""
        self._request("PUT", f"/v1/batches/{batch}/chunks/{index}", data, {204})

    def manifest(self, batch: str) -> bytes | None:
        """Return the manifest that the analyzer has for a batch; None if it knows no such batch."""
        status, body = self._request("GET", f"/v1/batches/{batch}/manifest", None, {200, 404})
        return body if status == 200 else None

    def counter(self, task: str) -> bytes:
        """Return the analyzer's signed counter of the buckets announced for a task."""
        return self._request("GET", f"/v1/tasks/{task}/counter", None, {200})[1]

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        """Send the signed statement of the analyzer's keys that undelivered reports are sealed to."""
        self._request("PUT", f"/v1/tasks/{task}/keys-in-use", document, {204})

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""
        return self._request("GET", "/v1/keys", None, {200})[1]

    def tag_keys(self, task: str) -> bytes:
        """Return the analyzer's signed tag keys of a task of strings."""
        return self._request("GET", f"/v1/tasks/{task}/tags", None, {200})[1]

    def _request(self, method: str, path: str, content: bytes | None, expected: set[int]) -> tuple[int, bytes]:
        try:
            with self._client.stream(method, path, content=content) as response:
                body = bytearray()
                for part in response.iter_raw():
                    body += part
                    if len(body) > MAX_RESPONSE_SIZE:
                        raise AnalyzerUnreachable(f"the analyzer's response exceeds {MAX_RESPONSE_SIZE:,} bytes")
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            raise AnalyzerUnreachable(f"the analyzer could not be reached: {type(error).__name__}") from None
        if response.status_code not in expected:
            raise AnalyzerUnreachable(f"the analyzer responded {response.status_code}{_problem_name(bytes(body))}")
        return response.status_code, bytes(body)


def _problem_name(body: bytes) -> str:
    """Return the name of the problem in a response, if any; nothing else of a response is logged.

    >>> _problem_name(b'{"type":"urn:hubbub:problem:conflict"}')
    ' (conflict)'
    """
    found = re.search(rb'"urn:hubbub:problem:([a-z-]{1,32})"', body[:4096])
    return f" ({found[1].decode()})" if found else ""


_PER_LIFE = 1 << 40


class Statements:
    """Sends a statement for a task whenever its keys in use have changed."""

    def __init__(self, store: ShufflerStore, context: ServiceContext) -> None:
        self._database, self._context = store.jobs, context

    def send(self, task: ServedTask, client: AnalyzerClient) -> None:
        """State the keys of all undelivered buckets, and that of the next one, unless the analyzer knows them already.

        A bucket is opened only with a key that was stated before, so the analyzer never destroys one in between.
        """
        statement = self._next(task.row, next_key(task.keys, task.contract.suite, task.row.key_id)[0])
        if statement is None:
            return
        client.put_keys_in_use(task.contract.id, statement.sign(self._context.identity))
        query = "UPDATE statements SET sent = 1 WHERE task = ? AND number = ?"
        self._database.run(query, task.row.number, statement.number)

    def _next(self, task: TaskRow, following: int) -> KeysInUse | None:
        """Record and return a statement of the current keys; None if it was sent before.

        A statement and its number are fixed while the task is locked, so higher numbers state later keys. Numbers
        begin with the number of restores, so that they also grow when the store is rewound, and follow the clock, so
        that they grow even if everything but the identity is lost.
        """
        database = self._database
        with database.transaction():
            database.rows(f"SELECT 1 FROM tasks WHERE number = ?{database.for_update}", task.number)
            query = (
                "SELECT DISTINCT key_id FROM buckets WHERE task = ? AND key_id > 0 "
                "AND state IN ('open', 'sealed', 'shuffled')"
            )
            used = {row[0] for row in database.rows(query, task.number)}
            keys = tuple(sorted(used | ({following} - {0} if task.state == "open" else set())))
            text = " ".join(map(str, keys))
            rows = database.rows("SELECT number, keys, sent FROM statements WHERE task = ?", task.number)
            number, known, sent = rows[0] if rows else (0, None, 0)
            if known == text and sent:
                return None
            ((restores,),) = database.rows("SELECT restores FROM life")
            number = max(number + 1, _PER_LIFE * restores + int(self._context.clock.now()))
            database.run("DELETE FROM statements WHERE task = ?", task.number)
            database.run("INSERT INTO statements VALUES (?, ?, ?, 0)", task.number, number, text)
        return KeysInUse(task.id, number, keys)


class Deliveries:
    """Delivers shuffled buckets; any number of processes may run this at once."""

    def __init__(
        self,
        store: ShufflerStore,
        tasks: TaskRegistry,
        buckets: Buckets,
        shuffles: Shuffles,
        leases: Leases,
        credentials: Credentials,
    ) -> None:
        self._store, self._tasks, self._buckets = store, tasks, buckets
        self._shuffles, self._leases, self._credentials = shuffles, leases, credentials

    def run(self, client: AnalyzerClient) -> bool:
        """Try once to deliver every waiting bucket, and return True if any is left.

        The buckets of a task are announced in their order. A task that fails does not hold up the others; the first
        failure is raised after all were tried.
        """
        failure: Exception | None = None
        stopped: set[int] = set()
        for bucket in self._waiting():
            if bucket.task.number in stopped:
                continue
            try:
                announced = self._leased(bucket, client)
            except Exception as error:
                announced, failure = False, failure or error
            if not announced:
                stopped.add(bucket.task.number)
        if failure is not None:
            raise failure
        return bool(self._waiting())

    def _waiting(self) -> list[Bucket]:
        rows = {task.row.number: task.row for task in self._tasks.reachable()}
        return self._store.buckets(rows, "sealed", "shuffled")

    def _leased(self, bucket: Bucket, client: AnalyzerClient) -> bool:
        """Deliver a bucket under a lease; return True if the analyzer knows it."""
        if bucket.state == "sealed" and self._shuffles.has_secrets(bucket):
            return False
        lease = self._leases.acquire(f"deliver {bucket.batch}")
        if lease is None:
            return False
        try:
            if self._may_leave(bucket):
                self._deliver(bucket, client, lease)
            else:
                self._take_receipt(bucket, client, lease)
        except LostLease:
            return False
        finally:
            self._leases.release(lease)
        return True

    def _may_leave(self, bucket: Bucket) -> bool:
        """Return True if no other batch of this bucket was ever announced; the first one is pinned.

        A bucket without its secrets ended before the store was restored.
        """
        if bucket.state != "shuffled" or bucket.manifest is None or not self._shuffles.has_secrets(bucket):
            return False
        shuffler = self._tasks.contract(bucket.task.id).shuffler
        manifest = Manifest.read(SignedDocument.from_json(bucket.manifest), shuffler)
        content = hashlib.sha256("".join(manifest.chunks).encode()).digest()
        return self._credentials.create(batch_pin(bucket.task.id, bucket.number), content) == content

    def _deliver(self, bucket: Bucket, client: AnalyzerClient, lease: Lease) -> None:
        manifest = bucket.manifest or b""
        try:
            reach("deliver-manifest")
            answer = client.put_manifest(bucket.batch, manifest)
            if isinstance(answer, list) and answer:
                for index in answer:
                    self._send(bucket, index, client, lease)
                answer = client.put_manifest(bucket.batch, manifest)
        except Problem as problem:
            if problem.name != "fenced":
                raise
            self._take_receipt(bucket, client, lease, refused=True)
            return
        if not isinstance(answer, list):
            self._end(bucket, manifest, answer, lease)

    def _send(self, bucket: Bucket, index: int, client: AnalyzerClient, lease: Lease) -> None:
        data = self._store.chunk(bucket, index)
        if data is None:
            raise AnalyzerUnreachable("the analyzer asked for a chunk that the batch does not have")
        reach("deliver-chunk")
        client.put_chunk(bucket.batch, index, data)
        reach("deliver-chunk-sent")
        with self._store.jobs.transaction():
            self._leases.confirm(lease)

    def _take_receipt(self, bucket: Bucket, client: AnalyzerClient, lease: Lease, *, refused: bool = False) -> None:
        """Settle a bucket that the analyzer ``refused``, or may have received before the store was restored."""
        theirs = client.manifest(bucket.batch)
        if theirs is None or not self._is_ours(bucket, theirs):
            self._check_evidence(bucket, client, refused)
            self._buckets.fence(bucket, lease)
            return
        answer = client.put_manifest(bucket.batch, theirs)
        if isinstance(answer, list):
            if answer:
                # Its chunks were lost when the store was restored: it can never be completed, nor replaced.
                self._buckets.fence(bucket, lease)
            return
        reach("adopt-receipt")
        self._end(bucket, theirs, answer, lease)

    def _check_evidence(self, bucket: Bucket, client: AnalyzerClient, refused: bool) -> None:
        """Raise unless the analyzer of the contract itself accounts for a bucket that is about to be discarded.

        A refusal is not signed, and may come from a proxy or from another analyzer; the counter is.
        """
        contract = self._tasks.contract(bucket.task.id)
        counter = Counter.read(client.counter(contract.id), contract.analyzer, bucket.task.id)
        if refused and counter.bucket < bucket.number:
            raise AnalyzerUnreachable("the analyzer refuses a batch that its signed counter does not include")

    def _is_ours(self, bucket: Bucket, document: bytes) -> bool:
        """Return True if a manifest is this shuffler's own, of the same bucket with the same bundles."""
        contract = self._tasks.contract(bucket.task.id)
        try:
            theirs = Manifest.read(SignedDocument.from_json(document), contract.shuffler)
            ours = bucket.manifest and Manifest.read(SignedDocument.from_json(bucket.manifest), contract.shuffler)
        except (InvalidInput, FalseClaim):
            return False
        same = (theirs.task, theirs.bucket, theirs.bundles, theirs.key_id, theirs.epoch, theirs.round) == (
            *(bucket.task.id, bucket.number, bucket.bundles),
            *(bucket.key_id, bucket.epoch, bucket.round),
        )
        # The number of fakes is a function of the seed.
        return same and (not ours or ours.slots == theirs.slots)

    def _end(self, bucket: Bucket, manifest: bytes, answer: bytes, lease: Lease) -> None:
        reach("deliver-receipt")
        analyzer = self._tasks.contract(bucket.task.id).analyzer
        receipt = Receipt.read(answer, analyzer, bucket.task.id, bucket.number)
        receipt.check(manifest)
        self._buckets.deliver(bucket, manifest, answer, receipt.state, lease)
