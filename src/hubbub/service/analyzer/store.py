"""The analyzer's store: chunks and partial tallies until their batch is counted, slot ids, and all results.

The messages of contracts that export them are stored by the transaction that counts them, until they are exported.

Every method is one transaction that may be repeated, and that several processes may run at the same time on PostgreSQL:
the row of a task is locked while a batch is announced, and the row of a batch while anything of it changes.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hubbub.errors import InvalidInput, Problem, reject
from hubbub.model.plans import Plan
from hubbub.service.analyzer.evaluations import EVALUATION_TABLES
from hubbub.service.analyzer.shown import ShownStrings
from hubbub.service.analyzer.slots import create_table, drop_table, table_of
from hubbub.service.analyzer.tallies import PartialTally
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.database import LEASE_TABLE, Database, Leases, LostLease, Store
from hubbub.service.runtime.failpoints import reach
from hubbub.service.task.keys import KEY_TABLES
from hubbub.service.task.ledger import LEDGER_TABLE
from hubbub.service.task.manifest import Gap, KeysInUse, Manifest

TOKENS_TABLE = """tokens (name TEXT PRIMARY KEY, digest {blob} UNIQUE, scope TEXT NOT NULL, created BIGINT NOT NULL,
       expires BIGINT NOT NULL, revoked BIGINT)"""


@dataclass(frozen=True, slots=True)
class ReaderToken:
    """The description of a token; times are seconds since 1970."""

    name: str
    scope: str
    created: int
    expires: int
    state: str
    """``valid``, ``expired`` or ``revoked``."""


class TokenStore(Store):
    """The part of the analyzer's store that holds the tokens."""

    def add_token(self, name: str, scope: str, *, now: float, expires: float) -> str:
        """Create a token and return it; the name of an expired or revoked token can be used again."""
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
            reject("the name of a token", "have 1 to 64 letters, digits, dots, hyphens or underscores", name)
        token = secrets.token_urlsafe(32)
        with self._writer.transaction():
            known = "SELECT 1 FROM tokens WHERE name = ? AND revoked IS NULL AND expires > ?"
            if self._writer.rows(known, name, int(now)):
                raise InvalidInput(f"a token with the name {name} exists; revoke it first, or choose another name")
            self._writer.run("DELETE FROM tokens WHERE name = ?", name)
            statement = "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, NULL)"
            self._writer.run(statement, name, _digest(token), scope, int(now), int(expires))
        return token

    def revoke_token(self, name: str, *, now: float) -> bool:
        """Revoke a token, forget its hash, and return True if it was not revoked before."""
        statement = "UPDATE tokens SET revoked = ?, digest = NULL WHERE name = ? AND revoked IS NULL"
        return self._writer.run(statement, int(now), name) > 0

    def reader_tokens(self, *, now: float) -> list[ReaderToken]:
        """Return all tokens, by name."""
        rows = self._writer.rows("SELECT name, scope, created, expires, revoked FROM tokens ORDER BY name")
        found = []
        for name, scope, created, expires, revoked in rows:
            state = "revoked" if revoked is not None else "valid" if now < expires else "expired"
            found.append(ReaderToken(name, scope, created, expires, state))
        return found

    def scope(self, token: str, *, now: float) -> str | None:
        """Return the scope of a valid token; looked up by its hash, so the time reveals nothing about other tokens."""
        query = "SELECT scope FROM tokens WHERE digest = ? AND revoked IS NULL AND expires > ?"
        rows = self._reader.rows(query, _digest(token), int(now))
        return rows[0][0] if rows else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


_TABLES = (
    "tasks (id {blob} PRIMARY KEY, contract {blob} NOT NULL)",
    """batches (id TEXT PRIMARY KEY, task {blob} NOT NULL, bucket BIGINT NOT NULL, epoch BIGINT NOT NULL,
       round BIGINT NOT NULL, key_id BIGINT NOT NULL, bundles BIGINT NOT NULL, slots BIGINT NOT NULL,
       chunk_count BIGINT NOT NULL, manifest {blob} NOT NULL, state TEXT NOT NULL, result {blob}, receipt {blob},
       UNIQUE (task, bucket))""",
    "chunks (batch TEXT, chunk BIGINT, data {blob} NOT NULL, PRIMARY KEY (batch, chunk))",
    """partial_tallies (batch TEXT, chunk BIGINT, counts {blob} NOT NULL, messages BIGINT NOT NULL,
       fillers BIGINT NOT NULL, rejected {blob} NOT NULL, tail {blob} NOT NULL, PRIMARY KEY (batch, chunk))""",
    "opened (batch TEXT, chunk BIGINT, reports {blob} NOT NULL, PRIMARY KEY (batch, chunk))",
    "lakes (id BIGINT PRIMARY KEY, name TEXT NOT NULL)",
    """gaps (task {blob}, first_bucket BIGINT, last_bucket BIGINT, bundles BIGINT NOT NULL, reason TEXT NOT NULL,
       PRIMARY KEY (task, first_bucket, last_bucket))""",
    """statements (task {blob} PRIMARY KEY, number BIGINT NOT NULL, since BIGINT NOT NULL, keys {blob} NOT NULL,
       document {blob} NOT NULL)""",
    TOKENS_TABLE,
    LEASE_TABLE,
    *KEY_TABLES,
    LEDGER_TABLE,
    *EVALUATION_TABLES,
)
_BATCH_COLUMNS = "id, task, bucket, epoch, round, key_id, bundles, slots, chunk_count, state"
_ARRIVED = """(SELECT COUNT(*) FROM chunks WHERE chunks.batch = batches.id
               AND NOT EXISTS (SELECT 1 FROM partial_tallies p WHERE p.batch = chunks.batch AND p.chunk = chunks.chunk))
            + (SELECT COUNT(*) FROM partial_tallies WHERE partial_tallies.batch = batches.id)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch as its manifest announces it, and its state."""

    id: str
    task: bytes
    bucket: int
    epoch: int
    round: int
    key_id: int
    bundles: int
    slots: int
    chunk_count: int
    state: str = "arriving"
    """``arriving``, then ``committed`` or ``withheld``; ``abandoned`` if the shuffler declared it a gap before that."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The newest statement of the keys in use of a task."""

    number: int
    since: int
    """The oldest key that clients could still take up when the statement arrived."""
    keys: tuple[int, ...]
    document: bytes


class AnalyzerStore(TokenStore):
    """The analyzer's store."""

    role = "analyzer"
    version = 6
    """Contracts with plans of version 3, as in the shuffler's store."""
    tables = _TABLES

    def __init__(self, connect: Callable[[], Database]) -> None:
        self.evaluations = connect()
        super().__init__(connect)
        if not self._writer.for_update:
            # One process uses an SQLite store, so all leases are those of processes that have ended.
            self._writer.run("DELETE FROM leases")

    def shut(self) -> None:
        """Close all connections."""
        self.evaluations.close()
        super().shut()

    @property
    def writer(self) -> Database:
        """The connection that writes."""
        return self._writer

    def leases(self, clock: Clock, seconds: float) -> Leases:
        """Return the leases of one worker."""
        return Leases(self._writer, clock, seconds=seconds)

    def add_task(self, task: bytes, contract: bytes) -> None:
        """Add a task; idempotent."""
        self._writer.run("INSERT INTO tasks VALUES (?, ?) ON CONFLICT (id) DO NOTHING", task, contract)

    def tasks(self) -> list[bytes]:
        """Return all tasks."""
        return [bytes(task) for (task,) in self._writer.rows("SELECT id FROM tasks ORDER BY id")]

    def contract(self, task: bytes) -> bytes:
        """Return the signed contract of a task."""
        return bytes(self._writer.rows("SELECT contract FROM tasks WHERE id = ?", task)[0][0])

    # -- batches --

    def announce(self, manifest: Manifest, document: bytes, charge: Callable[[], None]) -> BatchRow:
        """Add a batch and its gaps unless its bucket is known; raise ``fenced`` if other content is or was announced.

        ``charge`` enters a new batch into the ledger, in the same transaction.

        A batch that a gap covers, and of which chunks are missing, will never be complete: it is abandoned.
        """
        database, task, bucket = self._writer, manifest.task, manifest.bucket
        with database.transaction():
            database.rows(f"SELECT id FROM tasks WHERE id = ?{database.for_update}", task)
            stored = self.manifest(manifest.batch)
            if stored is None:
                query = "SELECT 1 FROM gaps WHERE task = ? AND first_bucket <= ? AND last_bucket >= ?"
                if database.rows(query, task, bucket, bucket):
                    raise Problem("fenced", "the shuffler declared that this bucket will never be delivered")
                sizes = (manifest.key_id, manifest.bundles, manifest.slots, len(manifest.chunks))
                about = (manifest.batch, task, bucket, manifest.epoch, manifest.round)
                charge()
                database.insert("batches", [(*about, *sizes, document, "arriving", None, None)])
                for gap in manifest.gaps:
                    self._add_gap(task, gap)
                stored = document
            if stored != document:
                raise Problem("fenced", "another batch was announced for this bucket")
        reach("manifest-stored")
        (row,) = self._batches("WHERE id = ?", manifest.batch)
        if row.state == "abandoned":
            raise Problem("fenced", "the shuffler declared that this bucket will never be delivered")
        return row

    def _add_gap(self, task: bytes, gap: Gap) -> None:
        database = self._writer
        values = (task, gap.first, gap.last, gap.bundles, gap.reason)
        database.run("INSERT INTO gaps VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", *values)
        covered = "task = ? AND bucket BETWEEN ? AND ? AND state = 'arriving'"
        for (batch,) in database.rows(f"SELECT id FROM batches WHERE {covered}", task, gap.first, gap.last):
            statement = f"UPDATE batches SET state = 'abandoned' WHERE id = ? AND state = 'arriving' AND {_ARRIVED}"
            if database.run(f"{statement} < chunk_count", batch):
                self._erase(batch, "opened")

    def find(self, batch: str) -> BatchRow | None:
        """Return a batch by its id."""
        rows = self._batches("WHERE id = ?", batch)
        return rows[0] if rows else None

    def batches(self, task: bytes, after: int = 0) -> list[BatchRow]:
        """Return the batches of a task after a bucket, in the order of their buckets."""
        return self._batches("WHERE task = ? AND bucket > ? ORDER BY bucket", task, after)

    def highest_bucket(self, task: bytes) -> int:
        """Return the highest bucket of a task in this store, 0 if there is none."""
        ((found,),) = self._writer.rows("SELECT MAX(bucket) FROM batches WHERE task = ?", task)
        return found or 0

    def arriving(self) -> list[BatchRow]:
        """Return the batches that are not counted, the oldest buckets first."""
        return self._batches("WHERE state = 'arriving' ORDER BY bucket, id")

    def _batches(self, where: str, *values: object) -> list[BatchRow]:
        columns = _BATCH_COLUMNS.split(", ")
        rows = self._writer.rows(f"SELECT {_BATCH_COLUMNS} FROM batches {where}", *values)
        return [BatchRow(**dict(zip(columns, (row[0], bytes(row[1]), *row[2:]), strict=True))) for row in rows]

    def gaps(self, task: bytes) -> list[Gap]:
        """Return the gaps that the manifests of a task announced."""
        query = "SELECT first_bucket, last_bucket, bundles, reason FROM gaps WHERE task = ? ORDER BY first_bucket"
        return [Gap(*row) for row in self._reader.rows(query, task)]

    def manifest(self, batch: str) -> bytes | None:
        """Return the manifest that announced a batch."""
        return self._blob("manifest", batch)

    def result(self, batch: str) -> bytes | None:
        """Return the stored result of a batch, which never changes."""
        return self._blob("result", batch)

    def results(self, task: bytes, after: int, last: int, count: int) -> list[bytes]:
        """Return the first results of a task from the bucket after ``after`` up to ``last``, by their buckets."""
        wanted = "task = ? AND bucket > ? AND bucket <= ? AND result IS NOT NULL ORDER BY bucket LIMIT ?"
        query = f"SELECT result FROM batches WHERE {wanted}"
        return [bytes(result) for (result,) in self._reader.rows(query, task, after, last, count)]

    def receipt(self, batch: str) -> bytes | None:
        """Return the stored receipt of a batch."""
        return self._blob("receipt", batch)

    def _blob(self, column: str, batch: str) -> bytes | None:
        rows = self._writer.rows(f"SELECT {column} FROM batches WHERE id = ?", batch)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    # -- chunks --

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Store a chunk of an arriving batch unless it is stored or counted."""
        database = self._writer
        with database.transaction():
            if not self._is_arriving(batch) or self._is_counted(batch, index):
                return
            statement = "INSERT INTO chunks VALUES (?, ?, ?) ON CONFLICT (batch, chunk) DO NOTHING"
            database.run(statement, batch, index, data)
            reach("chunk-stored")
        reach("chunk-committed")

    def _is_arriving(self, batch: str) -> bool:
        """Return True if a batch is arriving, and keep it so until the transaction ends."""
        query = f"SELECT state FROM batches WHERE id = ?{self._writer.for_share}"
        return self._writer.rows(query, batch) == [("arriving",)]

    def _is_counted(self, batch: str, index: int) -> bool:
        return bool(self._writer.rows("SELECT 1 FROM partial_tallies WHERE batch = ? AND chunk = ?", batch, index))

    def missing(self, batch: BatchRow) -> list[int]:
        """Return the indices of the chunks that have not arrived."""
        query = "SELECT chunk FROM chunks WHERE batch = ? UNION SELECT chunk FROM partial_tallies WHERE batch = ?"
        stored = {index for (index,) in self._writer.rows(query, batch.id, batch.id)}
        return [index for index in range(batch.chunk_count) if index not in stored]

    def waiting_chunks(self, batch: str) -> list[int]:
        """Return the indices of the chunks that have arrived and are not counted."""
        query = "SELECT chunk FROM chunks WHERE batch = ? ORDER BY chunk"
        return [index for (index,) in self._writer.rows(query, batch)]

    def chunk(self, batch: str, index: int) -> bytes | None:
        """Return a chunk; None if it was counted or never stored."""
        rows = self._reader.rows("SELECT data FROM chunks WHERE batch = ? AND chunk = ?", batch, index)
        return bytes(rows[0][0]) if rows else None

    def take_chunk(self, batch: str, index: int) -> bool:
        """Delete a chunk inside the transaction that counts it; return False if there is nothing to count."""
        arriving = self._is_arriving(batch)
        deleted = self._writer.run("DELETE FROM chunks WHERE batch = ? AND chunk = ?", batch, index)
        return arriving and deleted == 1 and not self._is_counted(batch, index)

    def add_partial(self, batch: str, index: int, partial: PartialTally | ShownStrings) -> None:
        """Store the partial tally of a chunk."""
        self._writer.insert("partial_tallies", [(batch, index, *partial.to_row())])

    def partials(self, batch: BatchRow, plan: Plan) -> Iterator[PartialTally]:
        """Yield the partial tallies of a batch one by one, in the order of the chunks."""
        for row in self._partials(batch):
            yield PartialTally.from_row(*row, plan=plan)

    def shown(self, batch: BatchRow, plan: Plan) -> Iterator[ShownStrings]:
        """Yield the strings of each chunk of a batch, in the order of the chunks."""
        for row in self._partials(batch):
            yield ShownStrings.from_row(*row, plan=plan)

    def _partials(self, batch: BatchRow) -> Iterator[tuple[bytes, int, int, bytes, bytes]]:
        query = "SELECT counts, messages, fillers, rejected, tail FROM partial_tallies WHERE batch = ? AND chunk = ?"
        for index in range(batch.chunk_count):
            rows = self._reader.rows(query, batch.id, index)
            if not rows:
                raise LostLease("another replica has finished the batch")
            counts, messages, fillers, rejected, tail = rows[0]
            yield bytes(counts), messages, fillers, bytes(rejected), bytes(tail)

    def is_tallied(self, batch: BatchRow) -> bool:
        """Return True if all chunks of a batch are counted."""
        ((count,),) = self._writer.rows("SELECT COUNT(*) FROM partial_tallies WHERE batch = ?", batch.id)
        return bool(count == batch.chunk_count)

    def finish(self, batch: str, state: str, result: bytes, receipt: bytes) -> bool:
        """Store the result and the receipt inside a transaction, only once; return False if there is a result."""
        values = "state = ?, result = ?, receipt = ?"
        statement = f"UPDATE batches SET {values} WHERE id = ? AND state = 'arriving'"
        if not self._writer.run(statement, state, result, receipt, batch):
            return False
        self._erase(batch, *(() if state == "committed" else ("opened",)))
        return True

    def _erase(self, batch: str, *more: str) -> None:
        for table in ("chunks", "partial_tallies", *more):
            self._writer.run(f"DELETE FROM {table} WHERE batch = ?", batch)

    # -- exports --

    def bind_lake(self, bind: Callable[[str], str]) -> None:
        """Tie the store to its lake for good: ``bind`` gets the identity that is known, and returns the one to know."""
        database = self._writer
        with database.transaction():
            # Two replicas that start at the same time would mark the folder twice.
            database.rows(f"SELECT version FROM schema_version{database.for_update}")
            known = [name for (name,) in database.rows("SELECT name FROM lakes")]
            name = bind(known[0] if known else "")
            database.run("INSERT INTO lakes VALUES (1, ?) ON CONFLICT (id) DO NOTHING", name)

    def add_opened(self, batch: str, index: int, reports: bytes) -> None:
        """Store the messages of a chunk inside the transaction that counts it."""
        self._writer.insert("opened", [(batch, index, reports)])

    def opened(self, batch: str, index: int) -> bytes | None:
        """Return the messages of a chunk; None if they were exported."""
        rows = self._reader.rows("SELECT reports FROM opened WHERE batch = ? AND chunk = ?", batch, index)
        return bytes(rows[0][0]) if rows else None

    def waiting_exports(self) -> list[BatchRow]:
        """Return the batches whose result is durable and whose messages are not exported, the oldest buckets first."""
        waiting = "EXISTS (SELECT 1 FROM opened WHERE opened.batch = batches.id)"
        return self._batches(f"WHERE state = 'committed' AND {waiting} ORDER BY bucket, id")

    def erase_opened(self, batch: str) -> None:
        """Delete the messages of a batch inside a transaction."""
        self._writer.run("DELETE FROM opened WHERE batch = ?", batch)

    # -- keys --

    def create_spent(self, key_id: int) -> None:
        """Create the table of a key's spent slots if it does not exist."""
        database = self._writer
        if not database.has_table(table_of(key_id)):
            with database.transaction():
                # Two replicas that create one table at the same time would fail.
                database.rows(f"SELECT version FROM schema_version{database.for_update}")
                create_table(database, key_id)

    def drop_spent(self) -> None:
        """Drop the spent slots of keys that no longer exist: these slots cannot be opened again."""
        for (key_id,) in self._writer.rows("SELECT id FROM keys WHERE phase NOT IN ('pending', 'live')"):
            if self._writer.has_table(table_of(key_id)):
                drop_table(self._writer, key_id)

    def key_suite(self, key_id: int) -> int | None:
        """Return the suite of a key that was ever recorded."""
        rows = self._writer.rows("SELECT suite FROM keys WHERE id = ?", key_id)
        return rows[0][0] if rows else None

    def oldest_usable_key(self, suite: int, before: float) -> int:
        """Return the key of a suite that was the active one at a time, 0 if that is not known."""
        query = "SELECT MAX(id) FROM keys WHERE suite = ? AND phase = 'live' AND time <= ?"
        ((found,),) = self._writer.rows(query, suite, before)
        return found or 0

    def put_statement(self, statement: KeysInUse, since: int, document: bytes) -> None:
        """Store a statement of the keys in use; raise ``conflict`` if a newer one is stored."""
        database, task = self._writer, statement.task
        with database.transaction():
            database.rows(f"SELECT id FROM tasks WHERE id = ?{database.for_update}", task)
            stored = self.statement(task)
            if stored is not None and stored.number >= statement.number:
                if stored.document == document:
                    return
                raise Problem("conflict", f"the number of a statement must be above {stored.number}")
            keys = b"".join(key.to_bytes(8, "big") for key in statement.keys)
            columns = "number = excluded.number, since = excluded.since, keys = excluded.keys"
            conflict = f"ON CONFLICT (task) DO UPDATE SET {columns}, document = excluded.document"
            database.run(
                f"INSERT INTO statements VALUES (?, ?, ?, ?, ?) {conflict}",
                *(task, statement.number, since, keys, document),
            )
        reach("statement-stored")

    def statement(self, task: bytes) -> Statement | None:
        """Return the newest statement of the keys in use of a task."""
        query = "SELECT number, since, keys, document FROM statements WHERE task = ?"
        for number, since, keys, document in self._writer.rows(query, task):
            raw = bytes(keys)
            named = tuple(int.from_bytes(raw[start : start + 8], "big") for start in range(0, len(raw), 8))
            return Statement(number, since, named, bytes(document))
        return None
