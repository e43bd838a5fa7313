"""Signed statements of the analyzer's keys in use, so that it destroys no key that waiting reports are sealed to."""

from hubbub.service.context import ServiceContext
from hubbub.service.shuffler.analyzer_client import AnalyzerClient
from hubbub.service.shuffler.keychoice import next_key
from hubbub.service.shuffler.store import ShufflerStore, TaskRow
from hubbub.service.shuffler.tasks import ServedTask
from hubbub.service.task.manifest import KeysInUse

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
