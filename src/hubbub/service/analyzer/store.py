"""What the analyzer keeps: parts of a batch until it is counted, results for ever, slot ids while their key lives."""

import hashlib
import secrets
from dataclasses import dataclass

from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.store import Store

_TABLES = (
    "tasks (task {blob} PRIMARY KEY, contract {blob} NOT NULL)",
    """batches (id TEXT PRIMARY KEY, task {blob} NOT NULL, key BIGINT NOT NULL, bundles BIGINT NOT NULL,
       slots BIGINT NOT NULL, parts BIGINT NOT NULL, manifest {blob} NOT NULL, state TEXT NOT NULL,
       result {blob}, receipt {blob}, spent {blob})""",
    "chunks (batch TEXT, part BIGINT, data {blob} NOT NULL, PRIMARY KEY (batch, part))",
    "tokens (digest {blob} PRIMARY KEY, scope TEXT NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch as its manifest announces it, and how far it got."""

    id: str
    task: bytes
    key: int
    bundles: int
    slots: int
    parts: int
    manifest: bytes
    state: str = "arriving"
    """``arriving``, then ``committed`` or ``withheld``."""


class Archive(Store):
    """The analyzer's store."""

    role = "analyzer"
    tables = _TABLES

    def add_task(self, task: bytes, contract: bytes) -> None:
        """Begin to serve a contract; once more is no error."""
        self._writer.run("INSERT INTO tasks VALUES (?, ?) ON CONFLICT (task) DO NOTHING", task, contract)

    def tasks(self) -> dict[bytes, bytes]:
        """The signed contracts, by their task ids."""
        rows = self._reader.rows("SELECT task, contract FROM tasks ORDER BY task")
        return {bytes(task): bytes(contract) for task, contract in rows}

    def announce(self, batch: Arrival) -> Arrival:
        """Enter a batch unless it is known; what is stored under its id."""
        self._writer.run(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, 'arriving', NULL, NULL, NULL) "
            "ON CONFLICT (id) DO NOTHING",
            batch.id,
            batch.task,
            batch.key,
            batch.bundles,
            batch.slots,
            batch.parts,
            batch.manifest,
        )
        reach("manifest-stored")
        found = self.find(batch.id)
        assert found is not None
        return found

    def find(self, batch: str) -> Arrival | None:
        """The batch of this id."""
        found = self._arrivals("WHERE id = ?", batch)
        return found[0] if found else None

    def arriving(self) -> list[Arrival]:
        """The batches whose parts are all here, and that are not counted yet."""
        complete = "parts = (SELECT COUNT(*) FROM chunks WHERE chunks.batch = batches.id)"
        return self._arrivals(f"WHERE state = 'arriving' AND {complete} ORDER BY id")

    def batches(self, task: bytes) -> list[Arrival]:
        """The batches of a task."""
        return self._arrivals("WHERE task = ? ORDER BY id", task)

    def _arrivals(self, where: str, *values: object) -> list[Arrival]:
        rows = self._writer.rows(
            f"SELECT id, task, key, bundles, slots, parts, manifest, state FROM batches {where}", *values
        )
        return [
            Arrival(name, bytes(task), key, bundles, slots, parts, bytes(manifest), state)
            for name, task, key, bundles, slots, parts, manifest, state in rows
        ]

    def put(self, batch: str, part: int, data: bytes) -> None:
        """Keep a part of a batch that is arriving; once more is no error."""
        with self._writer.transaction():
            self._writer.run(
                "INSERT INTO chunks SELECT id, ?, ? FROM batches WHERE id = ? AND state = 'arriving' "
                "ON CONFLICT (batch, part) DO NOTHING",
                part,
                data,
                batch,
            )
            reach("chunk-stored")
        reach("chunk-committed")

    def missing(self, batch: Arrival) -> list[int]:
        """The numbers of the parts that did not arrive yet."""
        here = {part for (part,) in self._writer.rows("SELECT part FROM chunks WHERE batch = ?", batch.id)}
        return [part for part in range(batch.parts) if part not in here]

    def part(self, batch: Arrival, part: int) -> bytes:
        """A part of a batch."""
        rows = self._reader.rows("SELECT data FROM chunks WHERE batch = ? AND part = ?", batch.id, part)
        return bytes(rows[0][0])

    def spent(self, batch: Arrival) -> list[str]:
        """The counted batches whose slots were sealed to the same key: none of them may come again."""
        rows = self._reader.rows(
            "SELECT id FROM batches WHERE task = ? AND key = ? AND spent IS NOT NULL", batch.task, batch.key
        )
        return [name for (name,) in rows]

    def spent_ids(self, batch: str) -> bytes:
        """The ids of the slots of a counted batch, sorted, one after the other."""
        return bytes(self._reader.rows("SELECT spent FROM batches WHERE id = ?", batch)[0][0])

    def commit(self, batch: Arrival, state: str, result: bytes, receipt: bytes, spent: bytes) -> None:
        """Store the result of a batch and forget its slots, in one transaction and once for all times."""
        with self._writer.transaction():
            self._writer.run(
                "UPDATE batches SET state = ?, result = ?, receipt = ?, spent = ? WHERE id = ? AND state = 'arriving'",
                state,
                result,
                receipt,
                spent,
                batch.id,
            )
            self._writer.run("DELETE FROM chunks WHERE batch = ?", batch.id)
            reach("batch-counted")
        reach("batch-committed")
        self._writer.tidy()

    def forget_spent(self, living: set[int]) -> None:
        """Forget the ids of slots whose key is destroyed: they cannot be opened any more."""
        keys = {key for (key,) in self._writer.rows("SELECT DISTINCT key FROM batches WHERE spent IS NOT NULL")}
        for key in keys - living:
            self._writer.run("UPDATE batches SET spent = NULL WHERE key = ?", key)

    def result(self, batch: str) -> bytes | None:
        """The stored result."""
        return self._blob("result", batch)

    def receipt(self, batch: str) -> bytes | None:
        """The stored receipt."""
        return self._blob("receipt", batch)

    def _blob(self, column: str, batch: str) -> bytes | None:
        rows = self._reader.rows(f"SELECT {column} FROM batches WHERE id = ?", batch)
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    def add_token(self, scope: str) -> str:
        """A new bearer token, of which only a hash is kept."""
        token = secrets.token_urlsafe(32)
        self._writer.run("INSERT INTO tokens VALUES (?, ?)", _digest(token), scope)
        return token

    def revoke_token(self, token: str) -> bool:
        """Forget a token; whether there was one."""
        return self._writer.run("DELETE FROM tokens WHERE digest = ?", _digest(token)) > 0

    def scope(self, token: str) -> str | None:
        """What a token allows: found by its hash, so that the time it takes says nothing about other tokens."""
        rows = self._reader.rows("SELECT scope FROM tokens WHERE digest = ?", _digest(token))
        return rows[0][0] if rows else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
