"""Signed statements of the analyzer's keys that reports wait under, so that the analyzer destroys no key too early."""

from hubbub.service.context import ServiceContext
from hubbub.service.shuffler.delivery import AnalyzerClient
from hubbub.service.shuffler.store import ShufflerStore, TaskRow
from hubbub.service.task.manifest import KeysInUse


class Statements:
    """Sends a statement for a task whenever its keys in use have changed."""

    def __init__(self, store: ShufflerStore, context: ServiceContext) -> None:
        self._database, self._context = store.jobs, context

    def send(self, task: TaskRow, client: AnalyzerClient) -> None:
        """State the keys of the open bucket and of all undelivered buckets, unless the analyzer knows them already."""
        statement = self._next(task)
        if statement is None:
            return
        client.put_keys_in_use(task.id.hex(), statement.sign(self._context.identity))
        query = "UPDATE statements SET sent = 1 WHERE task = ? AND number = ?"
        self._database.run(query, task.number, statement.number)

    def _next(self, task: TaskRow) -> KeysInUse | None:
        """Record and return a statement of the current keys; None if it was sent before.

        A statement and its number are fixed while the task is locked, so higher numbers state later keys. Numbers
        follow the clock, so that they also grow over a restore of the store.
        """
        database = self._database
        with database.transaction():
            database.rows(f"SELECT 1 FROM tasks WHERE number = ?{database.for_update}", task.number)
            query = (
                "SELECT DISTINCT key_id FROM buckets WHERE task = ? AND key_id > 0 "
                "AND state IN ('open', 'sealed', 'shuffled') ORDER BY key_id"
            )
            keys = tuple(row[0] for row in database.rows(query, task.number))
            text = " ".join(map(str, keys))
            rows = database.rows("SELECT number, keys, sent FROM statements WHERE task = ?", task.number)
            number, known, sent = rows[0] if rows else (0, None, 0)
            if known == text and sent:
                return None
            number = max(number + 1, int(self._context.clock.now()))
            database.run("DELETE FROM statements WHERE task = ?", task.number)
            database.run("INSERT INTO statements VALUES (?, ?, ?, 0)", task.number, number, text)
        return KeysInUse(task.id, number, keys)
