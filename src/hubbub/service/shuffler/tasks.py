"""The tasks that the shuffler serves: their contracts, their states, and the keys that clients seal to."""

import threading
from dataclasses import dataclass

from hubbub.canonical import canonical, parse
from hubbub.errors import FalseClaim, Problem
from hubbub.service.context import ServiceContext
from hubbub.service.shuffler.store import ShufflerStore, TaskRow
from hubbub.service.task.admission import Verifier, refusing_verifier, verifier
from hubbub.service.task.contract import Contract, SignedContract, load_served_contract
from hubbub.service.task.keys import PublicKey, read_key_list


@dataclass(frozen=True, slots=True)
class ServedTask:
    """A stored task with its parsed contract and the analyzer's keys by id."""

    row: TaskRow
    contract: Contract
    analyzer_keys: dict[int, PublicKey]
    verifier: Verifier
    """The check of the bundles' admissions."""


class TaskRegistry:
    """The tasks in the store, parsed once; :meth:`refresh` rereads their states."""

    def __init__(self, store: ShufflerStore, context: ServiceContext) -> None:
        self._store, self._context = store, context
        self._tasks: dict[bytes, ServedTask] = {}
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Reread all tasks from the store."""
        with self._lock:
            tasks = {}
            for row in self._store.tasks():
                known = self._tasks.get(row.id)
                # A stored contract was verified when it was added; recomputing its guarantee would take seconds.
                contract = known.contract if known else SignedContract.from_json(row.contract).contract
                text = self._store.key_list(row)
                keys = read_key_list(text, contract.analyzer, "analyzer") if text else []
                if row.state == "open":
                    check = known.verifier if known else self._verifier(contract)
                else:
                    # The key of a finished task may be gone.
                    check = refusing_verifier(contract.task)
                tasks[row.id] = ServedTask(row, contract, {key.id: key for key in keys}, check)
            self._tasks = tasks

    def add_contract(self, text: bytes) -> bytes:
        """Verify a signed contract, recomputing its guarantee, start to serve it, and return its task."""
        contract = load_served_contract(text, "shuffler", self._context.identity, self._context.min_batch_size)
        self._verifier(contract)
        self._store.add_task(contract.task, text)
        known = next((task for task in self.all() if task.contract.analyzer == contract.analyzer), None)
        self.refresh()
        if known is not None and known.row.id != contract.task and (keys := self._store.key_list(known.row)):
            # The same analyzer's keys: clients of the new task need not wait until they are fetched again.
            self._store_keys(self._tasks[contract.task], keys)
            self.refresh()
        return contract.task

    def _verifier(self, contract: Contract) -> Verifier:
        """Return the check of a contract's admissions; raise if the shuffler lacks the issuer's key."""
        return verifier(contract.admission, contract.task, self._context.ticket_keys)

    def all(self) -> list[ServedTask]:
        """Return all tasks, including closed and destroyed ones."""
        return list(self._tasks.values())

    def find(self, task: bytes) -> ServedTask:
        """Return a task; raise a problem if it is unknown or destroyed."""
        found = self._tasks.get(task)
        if found is None or found.row.state == "destroyed":
            raise Problem("unknown-task")
        return found

    def contract(self, task: bytes) -> Contract:
        """Return the contract of a stored task, whatever its state."""
        return self._tasks[task].contract

    def contracts(self) -> dict[str, Contract]:
        """Return the contracts of all tasks by their ids."""
        return {task.contract.id: task.contract for task in self.all()}

    def contract_document(self, task: bytes) -> bytes:
        """Return the signed contract as it was added."""
        return self.find(task).row.contract

    def keys_document(self, task: bytes) -> bytes:
        """Return the keys that a client seals to: both signed key lists, and the id of the analyzer's key in use."""
        served = self.find(task)
        text = self._store.key_list(served.row)
        if text is None or served.row.key_id not in served.analyzer_keys:
            # The list is stored shortly before it is in use.
            raise Problem("unavailable", "the analyzer's keys are not known yet", retry_after=5)
        own = parse(self._context.keyring.public_list(self._context.identity), "the key list")
        theirs = parse(text, "the key list")
        return canonical({"shuffler": own, "analyzer": theirs, "analyzer_key_id": served.row.key_id})

    def update_keys(self, text: bytes) -> None:
        """Adopt the analyzer's key list; in the writer's thread, so that no upload is committed meanwhile."""
        stored = [self._store_keys(task, text) for task in self.all()]
        self.refresh()
        if not all(stored):
            raise FalseClaim("the analyzer's key list has no active key of the contract's suite")

    def _store_keys(self, task: ServedTask, text: bytes) -> bool:
        keys = read_key_list(text, task.contract.analyzer, "analyzer")
        active = [key.id for key in keys if key.state == "active" and key.suite == task.contract.suite]
        if active:
            self._store.store_key_list(task.row, text, active[0], {key.id for key in keys})
        return bool(active)
