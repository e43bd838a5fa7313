"""The analyzer's store: chunks until their batch is counted, slot ids until their key is destroyed, all results."""

from dataclasses import astuple, dataclass

from hubbub.service.analyzer.tokens import TOKENS_TABLE, TokenStore
from hubbub.service.runtime.failpoints import reach

_TABLES = (
    "tasks (id {blob} PRIMARY KEY, contract {blob} NOT NULL)",
    """batches (id TEXT PRIMARY KEY, task {blob} NOT NULL, key_id BIGINT NOT NULL, bundles BIGINT NOT NULL,
       slots BIGINT NOT NULL, chunk_count BIGINT NOT NULL, manifest {blob} NOT NULL, state TEXT NOT NULL,
       result {blob}, receipt {blob}, slot_ids {blob})""",
    "chunks (batch TEXT, chunk BIGINT, data {blob} NOT NULL, PRIMARY KEY (batch, chunk))",
    TOKENS_TABLE,
)
_BATCH_COLUMNS = "id, task, key_id, bundles, slots, chunk_count, manifest, state"


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch as its manifest announces it, and its state."""

    id: str
    task: bytes
    key_id: int
    bundles: int
    slots: int
    chunk_count: int
    manifest: bytes
    state: str = "arriving"
    """``arriving``, then ``committed`` or ``withheld``."""


class AnalyzerStore(TokenStore):
    """The analyzer's store."""

    role = "analyzer"
    version = 2
    tables = _TABLES

    def add_task(self, task: bytes, contract: bytes) -> None:
        """Add a task; idempotent."""
        self._writer.run("INSERT INTO tasks VALUES (?, ?) ON CONFLICT (id) DO NOTHING", task, contract)

    def tasks(self) -> dict[bytes, bytes]:
        """Return the signed contracts by task."""
        rows = self._reader.rows("SELECT id, contract FROM tasks ORDER BY id")
        return {bytes(task): bytes(contract) for task, contract in rows}

    def announce(self, batch: BatchRow) -> BatchRow:
        """Add a batch unless its id is known, and return the stored batch."""
        values = ", ".join("?" * len(astuple(batch)))
        statement = f"INSERT INTO batches VALUES ({values}, NULL, NULL, NULL) ON CONFLICT (id) DO NOTHING"
        self._writer.run(statement, *astuple(batch))
        reach("manifest-stored")
        stored = self.find(batch.id)
        assert stored is not None
        return stored

    def find(self, batch: str) -> BatchRow | None:
        """Return a batch by its id."""
        rows = self._batches("WHERE id = ?", batch)
        return rows[0] if rows else None

    def complete(self) -> list[BatchRow]:
        """Return the batches whose chunks have all arrived and that are not counted yet."""
        complete = "chunk_count = (SELECT COUNT(*) FROM chunks WHERE chunks.batch = batches.id)"
        return self._batches(f"WHERE state = 'arriving' AND {complete} ORDER BY id")

    def batches(self, task: bytes) -> list[BatchRow]:
        """Return the batches of a task."""
        return self._batches("WHERE task = ? ORDER BY id", task)

    def _batches(self, where: str, *values: object) -> list[BatchRow]:
        rows = self._writer.rows(f"SELECT {_BATCH_COLUMNS} FROM batches {where}", *values)
        return [
            BatchRow(batch, bytes(task), key_id, bundles, slots, chunks, bytes(manifest), state)
            for batch, task, key_id, bundles, slots, chunks, manifest, state in rows
        ]

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Store a chunk of an arriving batch; idempotent."""
        with self._writer.transaction():
            arriving = "SELECT id, ?, ? FROM batches WHERE id = ? AND state = 'arriving'"
            statement = f"INSERT INTO chunks {arriving} ON CONFLICT (batch, chunk) DO NOTHING"
            self._writer.run(statement, index, data, batch)
            reach("chunk-stored")
        reach("chunk-committed")

    def missing(self, batch: BatchRow) -> list[int]:
        """Return the indices of the chunks that have not arrived."""
        stored = {index for (index,) in self._writer.rows("SELECT chunk FROM chunks WHERE batch = ?", batch.id)}
        return [index for index in range(batch.chunk_count) if index not in stored]

    def chunk(self, batch: BatchRow, index: int) -> bytes:
        """Return a chunk of a batch."""
        rows = self._reader.rows("SELECT data FROM chunks WHERE batch = ? AND chunk = ?", batch.id, index)
        return bytes(rows[0][0])

    def counted(self, batch: BatchRow) -> list[str]:
        """Return the counted batches whose slots were sealed to the same key: none of these may be counted again."""
        query = "SELECT id FROM batches WHERE task = ? AND key_id = ? AND slot_ids IS NOT NULL"
        return [counted for (counted,) in self._reader.rows(query, batch.task, batch.key_id)]

    def slot_ids(self, batch: str) -> bytes:
        """Return the sorted, concatenated ids of the slots of a counted batch."""
        return bytes(self._reader.rows("SELECT slot_ids FROM batches WHERE id = ?", batch)[0][0])

    def commit(self, batch: BatchRow, state: str, result: bytes, receipt: bytes, slot_ids: bytes) -> None:
        """Store the result of a batch and delete its chunks, in one transaction and only once."""
        with self._writer.transaction():
            columns = "state = ?, result = ?, receipt = ?, slot_ids = ?"
            statement = f"UPDATE batches SET {columns} WHERE id = ? AND state = 'arriving'"
            self._writer.run(statement, state, result, receipt, slot_ids, batch.id)
            self._writer.run("DELETE FROM chunks WHERE batch = ?", batch.id)
            reach("batch-counted")
        reach("batch-committed")
        self._writer.tidy()

    def forget_slot_ids(self, existing: set[int]) -> None:
        """Delete the ids of slots whose key is destroyed: these slots can no longer be opened."""
        keys = {key for (key,) in self._writer.rows("SELECT DISTINCT key_id FROM batches WHERE slot_ids IS NOT NULL")}
        for key_id in keys - existing:
            self._writer.run("UPDATE batches SET slot_ids = NULL WHERE key_id = ?", key_id)

    def result(self, batch: str) -> bytes | None:
        """Return the stored result of a batch, which never changes."""
        return self._blob("result", batch)

    def receipt(self, batch: str) -> bytes | None:
        """Return the stored receipt of a batch."""
        return self._blob("receipt", batch)

    def _blob(self, column: str, batch: str) -> bytes | None:
        rows = self._reader.rows(f"SELECT {column} FROM batches WHERE id = ?", batch)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None
