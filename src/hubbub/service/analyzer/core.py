"""The analyzer without sockets: it opens batches, counts each exactly once, and states results with their guarantee.

It learns what was sent but never by whom. The HTTP layer calls :meth:`Analyzer.put_manifest` and ``put_chunk`` for the
shuffler, and the program's loop calls ``work``. Several processes may serve one PostgreSQL store.

The first manifest that is announced for a bucket stands, and so does its receipt: another one under the same number
comes from a shuffler that was restored from a backup or runs twice, and is *fenced*. The highest bucket ever announced
is remembered outside the store, so that an analyzer whose own store was restored knows which buckets it has forgotten.

Key retention: the analyzer keeps a key until every shuffler has signed that nothing waits under it. A shuffler states
the keys of its open bucket and of its undelivered buckets (:class:`KeysInUse`). Buckets change to newer keys only, so a
statement also says that the keys *below* the newest one it names, and not named, will never be used again. It says
nothing about keys *above*: the open bucket may have changed to one of them since, in the hours or weeks in which no
statement came through. Those are held until a statement reaches beyond them. A task whose shuffler has not made a
statement holds every key of its suite. A task that has ended releases its keys only by an empty statement.
"""

import functools
import hashlib
import threading
from collections import Counter as Tallies
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hubbub.documents import Json
from hubbub.errors import FalseClaim, InvalidInput, Problem
from hubbub.service.analyzer.evaluations import Evaluations
from hubbub.service.analyzer.jobs import TallyJobs
from hubbub.service.analyzer.lake import ExportJobs, Lake
from hubbub.service.analyzer.results import position
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.task.contract import MAX_EPOCH, Contract, RoundStatus, SignedContract, load_served_contract
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.keylist import CLOCK_TOLERANCE
from hubbub.service.task.ledger import RoundLedger
from hubbub.service.task.manifest import (
    CHUNK_SIZE,
    MAX_BUCKET,
    MAX_CHUNKS,
    Counter,
    KeysInUse,
    Manifest,
    batch_id,
    claimed_task,
)
from hubbub.service.task.sealing import MAX_KEY_ID

UNKNOWN = "unknown here"
"""The reason of a gap that no manifest announced: the batch is late, or the analyzer's own store was restored."""


def missing_ranges(present: Iterable[tuple[int, int]], highest: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of numbers from 1 to ``highest`` that no range in ``present`` covers.

    >>> list(missing_ranges([(5, 5), (1, 2), (2, 3)], 9))
    [(4, 4), (6, 9)]
    """
    following = 1
    for first, last in sorted([*present, (highest + 1, highest + 1)]):
        before = min(first - 1, highest)
        if following <= before:
            yield following, before
        following = max(following, last + 1)


@dataclass(frozen=True, slots=True)
class Holder:
    """The facts about one task that decide which keys it holds."""

    suite: int
    named: Collection[int] | None
    """The keys in the newest statement; None if the shuffler has not made any."""
    since: int
    """The oldest key that a bucket opened after the statement can have, from a key list that was still valid."""
    ended: bool


def held_keys(keys: Collection[tuple[int, int]], holder: Holder) -> set[int]:
    """Return the keys, given as pairs of id and suite, that must not be destroyed because of one task.

    >>> keys = [(1, 1), (2, 1), (3, 1), (4, 2)]
    >>> held_keys(keys, Holder(1, named=None, since=0, ended=True))
    {1, 2, 3}
    >>> held_keys(keys, Holder(1, named=[2], since=3, ended=False))
    {2, 3}
    >>> held_keys(keys, Holder(1, named=[], since=3, ended=False))
    {3}
    >>> held_keys(keys, Holder(1, named=[], since=3, ended=True))
    set()
    """
    own = {key for key, suite in keys if suite == holder.suite}
    if holder.named is None:
        return own
    if named := own.intersection(holder.named):
        return named | {key for key in own if key > max(named)}
    if holder.ended and not holder.named:
        return set()
    return {key for key in own if key >= holder.since}


STATES = ("arriving", "committed", "withheld", "abandoned")
_FINISHED = ("committed", "withheld")
_Document = TypeVar("_Document", Manifest, KeysInUse)


class Analyzer:
    """The core of the service; ``work`` is for one thread per process, everything else for any."""

    def __init__(
        self, store: AnalyzerStore, context: ServiceContext, credentials: Credentials, lake: Lake | None = None
    ) -> None:
        self.store, self.keyring = store, context.keyring
        self._context, self._credentials = context, credentials
        self._lock = threading.Lock()
        self._contracts: dict[bytes, Contract] = {}
        self._lake = lake
        if lake is not None:
            store.bind_lake(lake.bind)
        self._read = functools.lru_cache(maxsize=4)(self._read_stored)
        self._refresh()
        self.ledger = RoundLedger(store.writer, credentials)
        self.evaluations = Evaluations(
            store.evaluations, context.keyring, self._contract, context.ticket_keys, context.clock
        )
        self._jobs = TallyJobs(store, context, self._contracts, self.ledger)
        self._exports = None if lake is None else ExportJobs(store, context, self._contracts, lake)

    def add_contract(self, text: bytes) -> bytes:
        """Verify a signed contract, recomputing its guarantee, start to serve it, and return its task."""
        contract = load_served_contract(text, "analyzer", self._context.identity, self._context.min_batch_size)
        self._check_export(contract)
        if contract.strings is not None:
            self.evaluations.check(contract)
        self.store.add_task(contract.task, text)
        self._refresh()
        self.advance()
        return contract.task

    def _refresh(self) -> None:
        with self._lock:
            for task in self.store.tasks():
                if task not in self._contracts:
                    # A stored contract was verified when it was added; recomputing its guarantee would take seconds.
                    contract = SignedContract.from_json(self.store.contract(task)).contract
                    self._check_export(contract)
                    self.keyring.support(contract.suite)
                    self._contracts[task] = contract

    def _check_export(self, contract: Contract) -> None:
        """Raise unless the contract and the setting agree on whether opened batches leave the store."""
        if contract.export and self._lake is None:
            raise InvalidInput(
                f"the contract {contract.id} exports opened batches, but the setting 'lake' names no folder for them"
            )
        if self._lake is not None and not contract.export:
            raise InvalidInput(
                f"the setting 'lake' names a folder for opened batches, but the contract {contract.id} does not export "
                "any: serve it by an analyzer without a lake"
            )

    def contracts(self) -> dict[str, Contract]:
        """Return the served contracts by their ids."""
        return {task.hex(): contract for task, contract in self._contracts.items()}

    def scope(self, token: str) -> str | None:
        """Return the scope of a bearer token, or None if it is not valid now."""
        return self.store.scope(token, now=self._context.clock.now())

    def authorize(self, token: str, task: str | None = None) -> bool:
        """Return True if a bearer token may read a task or, if none is given, may list all tasks."""
        scope = self.scope(token)
        return scope is not None and (scope == "read:*" or (task is not None and scope == f"read:{task}"))

    # -- keys --

    def keys_document(self) -> bytes:
        """Return the signed list of the keys that slots are sealed to."""
        self.keyring.refresh()
        return self.keyring.public_list().sign(self._context.identity)

    def tag_keys_document(self, task: bytes) -> bytes:
        """Return the signed tag keys of a task of strings."""
        return self.evaluations.tag_keys(task).sign(self._context.identity)

    def advance(self) -> None:
        """Advance the keys, destroy those that are due and not held, and drop the slot ids of destroyed keys."""
        self._refresh()
        self.keyring.advance(self.held_keys())
        self.store.drop_spent()
        self.evaluations.forget()

    def rotate(self) -> None:
        """Replace the active key of every suite now."""
        self._refresh()
        self.keyring.rotate(self.held_keys())

    def held_keys(self) -> set[int]:
        """Return the keys that must not be destroyed: something may be sealed to them that is not counted yet."""
        self.keyring.refresh()
        keys = [(key.id, key.suite) for key in self.keyring.public_keys()]
        held = {batch.key_id for batch in self.store.arriving()}
        for task in self.store.tasks():
            contract, statement = self._contract(task), self.store.statement(task)
            named, since = (None, 0) if statement is None else (statement.keys, statement.since)
            ended = contract.epoch_at(self._context.clock.now()) >= contract.task_end
            held |= held_keys(keys, Holder(contract.suite, named, since, ended))
        return held

    def put_keys_in_use(self, task: bytes, document: bytes) -> None:
        """Store the shuffler's statement of the keys in use, the newest of which decides what may be destroyed."""
        contract = self._contract(task)
        statement = _read(document, contract, KeysInUse, "statement of the keys in use")
        if statement.task != task:
            raise Problem("malformed", "the statement is for another task")
        if len(statement.keys) > MAX_KEY_ID + 1:
            raise Problem("malformed", "the statement has more keys than there are")
        self.store.put_statement(statement, self._oldest_usable_key(contract.suite), document)

    def _oldest_usable_key(self, suite: int) -> int:
        """Return the oldest key that a valid key list may still name as active."""
        before = self._context.clock.now() - self.keyring.list_lifetime - CLOCK_TOLERANCE
        return self.store.oldest_usable_key(suite, before)

    # -- delivery --

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt if its result is durable, otherwise the indices of missing chunks."""
        if self.store.manifest(batch) != document:
            self._announce(batch, document)
        receipt = self.store.receipt(batch)
        if receipt is not None:
            return receipt
        row = self.store.find(batch)
        assert row is not None
        if row.state == "abandoned":
            raise Problem("fenced", "the shuffler declared that this bucket will never be delivered")
        return self.store.missing(row)

    def _announce(self, batch: str, document: bytes) -> None:
        self._refresh()
        manifest, contract = read_manifest(batch, document, self._contracts)
        suite = self.store.key_suite(manifest.key_id)
        if suite is None and manifest.key_id > self._credentials.fence().last_key:
            raise Problem("forbidden", "the analyzer never had the key that the manifest names")
        if suite not in (None, contract.suite):
            raise Problem("forbidden", "the key that the manifest names is of another suite than the contract")
        bucket, number = manifest.bucket, manifest.round
        if self.store.manifest(batch) is None:
            self.ledger.check(contract, number)
            # Before the store: a restored store must not make the analyzer forget that it had this bucket and round.
            self._credentials.raise_fence(sealed={contract.id: bucket}, charged={contract.id: [number]})
        self.store.announce(manifest, document, lambda: self.ledger.charge(contract, bucket, number, manifest.epoch))

    def manifest(self, batch: str) -> bytes:
        """Return the manifest that stands for a bucket; none does for a bucket that was declared a gap."""
        row, document = self.store.find(batch), self.store.manifest(batch)
        if row is None or document is None or row.state == "abandoned":
            raise Problem("not-found")
        return document

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Store a chunk of an announced batch if it has the digest in the manifest; idempotent."""
        row = self.store.find(batch)
        if row is None:
            raise Problem("not-found")
        if row.state != "arriving":
            return
        manifest = self._read(batch)
        if not 0 <= index < len(manifest.chunks):
            raise Problem("not-found")
        if hashlib.sha256(data).hexdigest() != manifest.chunks[index]:
            raise Problem("conflict", "the chunk does not match its digest in the manifest")
        if len(data) != manifest.sizes[index] * self._contract(row.task).row_size:
            raise Problem("malformed", "the chunk does not have the number of slots in the manifest")
        self.store.put_chunk(batch, index, data)

    def _read_stored(self, batch: str) -> Manifest:
        document = SignedDocument.from_json(self.manifest(batch))
        return Manifest.read(document, self._contract(claimed_task(document)).shuffler)

    def counter(self, task: bytes) -> bytes:
        """Return the signed number of the highest bucket that was ever announced."""
        self._contract(task)
        return Counter(task, self._highest(task)).sign(self._context.identity)

    def _highest(self, task: bytes) -> int:
        """Return the highest bucket ever announced, even if this store has been restored since."""
        return max(self._credentials.fence().sealed.get(task.hex(), 0), self.store.highest_bucket(task))

    def work(self) -> bool:
        """Count one chunk, or state the result of one batch; return False if there is nothing to do."""
        self._refresh()
        return self._jobs.work()

    def export(self) -> bool:
        """Export one batch to the lake; return False if there is nothing to do."""
        self._refresh()
        return self._exports is not None and self._exports.work()

    # -- results --

    def batches(self, task: bytes, after: int = 0) -> list[dict[str, Json]]:
        """Return the finished batches of a task after a bucket, by their buckets, with epochs and states."""
        contract = self._contract(task)
        finished = [row for row in self.store.batches(task, after) if row.state in _FINISHED]
        return [
            {"batch": row.id, **position(row, contract), "bundles": row.bundles, "state": row.state} for row in finished
        ]

    def gaps(self, task: bytes) -> list[dict[str, Json]]:
        """Return the gaps of a task: those the shuffler announced, and buckets that are unknown here.

        A restored shuffler announces all buckets that its store does not know; ``counted`` of them have a result here.
        """
        self._contract(task)
        finished = [row.bucket for row in self.store.batches(task) if row.state in _FINISHED]
        found: list[tuple[int, dict[str, Json]]] = []
        for gap in self.store.gaps(task):
            counted = sum(gap.first <= bucket <= gap.last for bucket in finished)
            found.append((gap.first, {**gap.to_document(), "counted": counted}))
        for first, last in self._unknown(task):
            found.append((first, {"first": first, "last": last, "reason": UNKNOWN}))
        return [document for _, document in sorted(found, key=lambda entry: entry[0])]

    def _unknown(self, task: bytes) -> list[tuple[int, int]]:
        """Return the ranges of buckets that were neither announced, as far as is known here, nor declared a gap."""
        present = [(row.bucket, row.bucket) for row in self.store.batches(task)]
        present += ((gap.first, gap.last) for gap in self.store.gaps(task))
        return list(missing_ranges(present, self._highest(task)))

    def totals(self) -> dict[str, dict[str, int]]:
        """Return batches by state, bundles by outcome, and the buckets that are unknown here, by task."""
        totals = {}
        for task in list(self._contracts):
            states: Tallies[str] = Tallies()
            bundles: Tallies[str] = Tallies()
            for row in self.store.batches(task):
                states[row.state] += 1
                bundles[row.state] += row.bundles
            totals[task.hex()] = {
                **{state: states[state] for state in STATES},
                "bundles": bundles["committed"],
                "withheld_bundles": bundles["withheld"],
                "unknown_buckets": sum(last - first + 1 for first, last in self._unknown(task)),
            }
        return totals

    def rounds(self) -> dict[str, RoundStatus]:
        """Return the current round of every task, and what its rounds have cost each person so far, by task."""
        now, found = self._context.clock.now(), {}
        for contract in list(self._contracts.values()):
            number = contract.round_of(contract.epoch_at(now))
            found[contract.id] = RoundStatus(number, self.ledger.spent(contract), contract.total)
        return found

    def ready(self) -> bool:
        """Return True if batches can be accepted now."""
        return any(key.state == "active" for key in self.keyring.public_keys()) and self.store.writable()

    def _contract(self, task: bytes) -> Contract:
        if task not in self._contracts:
            # Another replica may have added it.
            self._refresh()
        if task not in self._contracts:
            raise Problem("unknown-task")
        return self._contracts[task]


def read_manifest(batch: str, document: bytes, contracts: Mapping[bytes, Contract]) -> tuple[Manifest, Contract]:
    """Return the manifest of a batch and its contract; raise a problem if the contract does not allow it."""
    try:
        contract = contracts.get(claimed_task(SignedDocument.from_json(document)))
    except InvalidInput:
        raise Problem("malformed", "the document is not a valid manifest") from None
    if contract is None:
        raise Problem("unknown-task")
    manifest = _read(document, contract, Manifest, "manifest")
    if batch != batch_id(manifest.task, manifest.bucket):
        raise Problem("malformed", "the manifest is for another batch")
    if not 1 <= manifest.key_id <= MAX_KEY_ID:
        raise Problem("forbidden", f"a key id must be in [1, {MAX_KEY_ID}]")
    if manifest.epoch > MAX_EPOCH or any(gap.bundles > MAX_BUCKET for gap in manifest.gaps):
        raise Problem("malformed", "the numbers of the manifest are out of range")
    _check_sizes(manifest, contract)
    return manifest, contract


def _read(document: bytes, contract: Contract, kind: type[_Document], name: str) -> _Document:
    """Read a document that the contract's shuffler must have signed."""
    try:
        return kind.read(SignedDocument.from_json(document), contract.shuffler)
    except InvalidInput:
        raise Problem("malformed", f"the document is not a valid {name}") from None
    except FalseClaim:
        raise Problem("forbidden", f"the {name} is not signed by the contract's shuffler") from None


def _check_sizes(manifest: Manifest, contract: Contract) -> None:
    if manifest.bundles < contract.min_batch_size:
        raise Problem("forbidden", f"a batch of this task must have at least {contract.min_batch_size} bundles")
    if max(manifest.sizes, default=0) > CHUNK_SIZE // contract.row_size:
        raise Problem("forbidden", "the slots do not fit into the chunks")
    if contract.strings is not None:
        if manifest.slots > manifest.bundles or len(manifest.chunks) > MAX_CHUNKS:
            raise Problem("forbidden", "a batch must not show more strings than it has bundles")
        return
    sent = contract.slots * manifest.bundles
    with_fakes = contract.plan.protocol.has_shuffler_fakes
    if manifest.slots < sent or (manifest.slots > sent and not with_fakes):
        raise Problem("forbidden", "the number of slots does not match the number of bundles")
    if not 1 <= len(manifest.chunks) <= MAX_CHUNKS:
        raise Problem("forbidden", f"a batch must have 1 to {MAX_CHUNKS} chunks")
