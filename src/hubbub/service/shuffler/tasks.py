"""The tasks that the shuffler serves: their contracts, their states, and the analyzer's keys, pinned for ever."""

import threading
from dataclasses import dataclass

from hubbub.documents import Json, canonical, parse
from hubbub.errors import FalseClaim, Problem, WireError
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.database import Database
from hubbub.service.shuffler.buckets import Buckets, Incidents
from hubbub.service.shuffler.store import ShufflerStore, TaskRow
from hubbub.service.task.admission import Verifier, refusing_verifier, verifier
from hubbub.service.task.contract import Contract, SignedContract, load_served_contract
from hubbub.service.task.keylist import ExpiredKeys, KeyList, PublicKey, TagKeys


def pin_tag_keys(database: Database, contract: Contract, text: bytes, incidents: Incidents) -> None:
    """Adopt the signed tag keys of a task, unless they change the bytes that any list before gave to a key id."""
    assert contract.strings is not None
    listed = TagKeys.read(text, contract.analyzer, contract.task, contract.strings.group)
    with database.transaction():
        rows = [(contract.task, key_id, public) for key_id, public in sorted(listed.keys.items())]
        database.insert_new("tag_pins", rows, "key_id")
        query = "SELECT key_id, public FROM tag_pins WHERE task = ?"
        pins = {key_id: bytes(public) for key_id, public in database.rows(query, contract.task)}
        for key_id, public in listed.keys.items():
            if pins[key_id] != public:
                incidents.report("keys-changed", f"the analyzer changed the public bytes of the tag key {key_id}")
                raise FalseClaim(f"the analyzer's tag keys give key {key_id} other bytes than before; refused")
        statement = "INSERT INTO tag_lists VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET document = ?"
        database.run(statement, contract.task, text, text)


def tag_keys_for(database: Database, contract: Contract, key_id: int) -> Json | None:
    """Return the signed tag keys of a task for clients; None until they include a key of the analyzer."""
    if not database.rows("SELECT 1 FROM tag_pins WHERE task = ? AND key_id = ?", contract.task, key_id):
        return None
    rows = database.rows("SELECT document FROM tag_lists WHERE task = ?", contract.task)
    text = bytes(rows[0][0])
    assert contract.strings is not None
    listed = TagKeys.read(text, contract.analyzer, contract.task, contract.strings.group)
    return parse(text, "the tag keys") if key_id in listed.keys else None


@dataclass(frozen=True, slots=True)
class ServedTask:
    """A stored task with its parsed contract and the analyzer's current key list."""

    row: TaskRow
    contract: Contract
    keys: KeyList | None
    verifier: Verifier
    """The check of the admissions of the open bucket's round."""
    since: float
    """The real time at which this process saw the round begin."""


class TaskRegistry:
    """The tasks in the store, parsed once; :meth:`refresh` rereads their states."""

    def __init__(self, store: ShufflerStore, context: ServiceContext, buckets: Buckets, incidents: Incidents) -> None:
        self._store, self._context, self._buckets, self._incidents = store, context, buckets, incidents
        self._tasks: dict[bytes, ServedTask] = {}
        self._lists: dict[bytes, tuple[bytes, KeyList]] = {}
        self._lock = threading.Lock()
        self._identity: bytes | None = None
        self.refresh()

    def refresh(self) -> None:
        """Reread all tasks from the store."""
        with self._lock:
            tasks = {}
            for row in self._store.tasks():
                known = self._tasks.get(row.id)
                # A stored contract was verified when it was added; recomputing its guarantee would take seconds.
                contract = known.contract if known else SignedContract.from_json(row.contract).contract
                self._context.keyring.support(contract.suite)
                same = known is not None and known.row.round == row.round
                since = known.since if known and same else self._context.clock.monotonic()
                if row.state == "open":
                    check = known.verifier if known and same else self._verifier(contract, row.round)
                else:
                    # The key of a finished task may be gone.
                    check = refusing_verifier(contract.task)
                tasks[row.id] = ServedTask(row, contract, self._list(contract.analyzer), check, since)
            self._tasks = tasks

    def _list(self, identity: bytes) -> KeyList | None:
        text = self._store.key_list(identity)
        if text is None:
            return None
        known = self._lists.get(identity)
        if known is None or known[0] != text:
            known = self._lists[identity] = text, KeyList.read(text, identity, "analyzer")
        return known[1]

    def add_contract(self, text: bytes) -> bytes:
        """Verify a signed contract, recomputing its guarantee, start to serve it, and return its task."""
        contract = load_served_contract(text, "shuffler", self._context.identity, self._context.min_batch_size)
        self._verifier(contract, 1)
        keys = self._store.key_list(contract.analyzer)
        listed = None if keys is None else KeyList.read(keys, contract.analyzer, "analyzer")
        self._buckets.add_task(contract, text, listed)
        self.refresh()
        # The contract may be the first one of its suite.
        self._context.keyring.advance()
        return contract.task

    def _verifier(self, contract: Contract, number: int) -> Verifier:
        """Return the check of a round's admissions; raise if the shuffler lacks the issuer's key."""
        return verifier(contract.admission, contract.context_of(number), self._context.ticket_keys)

    def all(self) -> list[ServedTask]:
        """Return all tasks, including closed and destroyed ones."""
        return list(self._tasks.values())

    def rows(self) -> dict[int, TaskRow]:
        """Return the rows of all tasks by their numbers."""
        return {task.row.number: task.row for task in self.all()}

    def reachable(self) -> list[ServedTask]:
        """Return the tasks of the analyzer that this shuffler is connected to.

        Its key list shows which one it is; until then, that is known only if all contracts name the same one.
        """
        named = {task.contract.analyzer for task in self.all()}
        identity = self._identity or (named.pop() if len(named) == 1 else None)
        return [task for task in self.all() if task.contract.analyzer == identity]

    def find(self, task: bytes) -> ServedTask:
        """Return a task; raise a problem if it is unknown or destroyed."""
        found = self._tasks.get(task)
        if found is None or found.row.state == "destroyed":
            raise Problem("unknown-task")
        return found

    def stored(self, task: bytes) -> ServedTask:
        """Return a stored task, whatever its state."""
        return self._tasks[task]

    def contract(self, task: bytes) -> Contract:
        """Return the contract of a stored task, whatever its state."""
        return self.stored(task).contract

    def contracts(self) -> dict[str, Contract]:
        """Return the contracts of all tasks by their ids."""
        return {task.contract.id: task.contract for task in self.all()}

    def contract_document(self, task: bytes) -> bytes:
        """Return the signed contract as it was added."""
        return self.find(task).row.contract

    def keys_document(self, task: bytes) -> bytes:
        """Return the keys that a client seals to: both signed key lists, and the id of the analyzer's key in use."""
        served = self.find(task)
        text = self._store.key_list(served.contract.analyzer)
        if text is None or served.keys is None or served.keys.find(served.row.key_id) is None:
            raise Problem("unavailable", "the analyzer's keys are not known yet", retry_after=5)
        listed = self._context.keyring.public_list()
        if not listed.has_active(served.contract.suite):
            # Those of a restored store were given up, by this process or another, and new ones are not made yet.
            raise Problem("unavailable", "the shuffler's keys are being replaced", retry_after=5)
        own = parse(listed.sign(self._context.identity), "the key list")
        theirs = parse(text, "the key list")
        document: dict[str, Json] = {"shuffler": own, "analyzer": theirs, "analyzer_key_id": served.row.key_id}
        if served.contract.strings is not None:
            document["tags"] = tag_keys_for(self._store.jobs, served.contract, served.row.key_id)
            if document["tags"] is None:
                raise Problem("unavailable", "the analyzer's tag keys are not known yet", retry_after=5)
        return canonical(document)

    def update_tag_keys(self, task: ServedTask, text: bytes) -> None:
        """Adopt the analyzer's tag keys of a task of strings."""
        pin_tag_keys(self._store.jobs, task.contract, text, self._incidents)

    def update_keys(self, text: bytes) -> None:
        """Adopt the key list of one analyzer for all tasks that name its identity; other tasks are not affected.

        The list must be valid now, and must not give other bytes to a key id than any list before it: an analyzer that
        did so could tell apart the reports sealed with each, and strip the shuffler's fakes.
        """
        identity, listed = self._read(text)
        self._identity = identity
        self._pin(identity, listed, text)
        self.refresh()

    def use_keys(self) -> None:
        """Give open buckets without a key one from the current list, if the analyzer was told that it is in use."""
        missing = False
        for task in self.reachable():
            if task.keys is not None and task.row.state == "open":
                missing |= not self._buckets.use_keys(task.row, task.contract, task.keys)
        self.refresh()
        if missing:
            raise FalseClaim("the analyzer's key list has no active key of the contract's suite")

    def _read(self, text: bytes) -> tuple[bytes, KeyList]:
        """Return the identity that signed a list, among those of all contracts, and the list."""
        for identity in dict.fromkeys(task.contract.analyzer for task in self.all()):
            try:
                return identity, KeyList.read(text, identity, "analyzer", now=self._context.clock.now())
            except ExpiredKeys:
                raise
            except FalseClaim:
                continue
        raise FalseClaim("the key list is not signed by the analyzer of any contract")

    def _pin(self, identity: bytes, listed: KeyList, text: bytes) -> None:
        if any(key.id < 1 for key in listed.keys):
            raise WireError("the ids of the analyzer's keys must be counted from 1")
        database = self._store.jobs
        with database.transaction():
            rows = [(identity, key.id, key.suite, key.public) for key in sorted(listed.keys, key=lambda key: key.id)]
            database.insert_new("pins", rows, "key_id")
            pins = self.pins(identity)
            if max((key.id for key in listed.keys), default=0) < max(pins, default=0):
                # It lacks keys that are in use, which would look as if the analyzer had destroyed them.
                raise FalseClaim("the analyzer's key list is older than one that was received before")
            for key in listed.keys:
                if pins[key.id] != (key.suite, key.public):
                    self._incidents.report("keys-changed", f"the analyzer changed the public bytes of its key {key.id}")
                    raise FalseClaim(f"the analyzer's key list gives key {key.id} other bytes than before; refused")
            statement = "INSERT INTO key_lists VALUES (?, ?) ON CONFLICT (identity) DO UPDATE SET document = ?"
            database.run(statement, identity, text, text)

    def pins(self, identity: bytes) -> dict[int, tuple[int, bytes]]:
        """Return suite and public bytes of every key that an analyzer ever listed, by id."""
        query = "SELECT key_id, suite, public FROM pins WHERE identity = ?"
        return {key_id: (suite, bytes(public)) for key_id, suite, public in self._store.jobs.rows(query, identity)}

    def pinned_key(self, task: TaskRow, key_id: int) -> PublicKey:
        """Return the analyzer's key with the bytes that clients were given first."""
        suite, public = self.pins(self.contract(task.id).analyzer)[key_id]
        return PublicKey(key_id, suite, public, "active")
