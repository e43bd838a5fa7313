"""The analyzer: opens batches, counts them exactly once, says what they show and what they cost in privacy.

It knows what was sent and never by whom. This is the synchronous core, without sockets: the skin in ``reading`` and
``programs`` calls :meth:`Analyzer.put_manifest` and ``put_chunk`` for the shuffler, and ``work`` from time to time.
"""

import hashlib
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hubbub.analyzer import achieved_guarantee, estimate, tally
from hubbub.canonical import Json, as_text, as_whole, canonical, fields, spell
from hubbub.errors import FalseClaim, InvalidInput
from hubbub.plans import Plan
from hubbub.protocol import Fakes
from hubbub.reports import Reports, Tally, message_type
from hubbub.service.analyzer.store import Archive, Arrival
from hubbub.service.analyzer.verdicts import ID, Verdict, names, open_slots, repeated
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.problems import Problem
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.contract import MIN_BATCH_SIZE, Contract, SignedContract, load_contract
from hubbub.service.task.identity import Identity, SignedDocument, as_bytes
from hubbub.service.task.keys import Keyring
from hubbub.service.task.slots import fewest_messages, most_messages

LEVEL = 0.95
"""Of the intervals of a result."""
_MOST_PARTS = 1 << 16
_LARGEST_PART = 4 << 20


@dataclass(frozen=True, slots=True)
class _Counted:
    """The messages of a batch, and why slots were rejected."""

    messages: NDArray[np.uint8]
    """Payloads, one a row."""
    rejected: dict[str, int]
    spent: bytes
    """The ids of all its slots, sorted."""


class Analyzer:
    """The core of the service; ``work`` is for one thread."""

    def __init__(
        self,
        archive: Archive,
        keyring: Keyring,
        identity: Identity,
        clock: Clock,
        *,
        workers: Workers,
        min_batch_size: int = MIN_BATCH_SIZE,
    ) -> None:
        self.archive, self.keyring, self.identity, self.clock = archive, keyring, identity, clock
        self._workers, self._min_batch_size = workers, min_batch_size
        self._lock = threading.Lock()
        self._contracts: dict[bytes, Contract] = {}
        self._refresh()

    # contracts, keys, tokens

    def add_contract(self, text: bytes) -> bytes:
        """Verify a signed contract, recomputing its guarantee, and serve it from now on; its task id."""
        contract = load_contract(text, min_batch_size=self._min_batch_size).contract
        if contract.analyzer != self.identity.public:
            raise FalseClaim("the contract names another analyzer")
        self.archive.add_task(contract.task, text)
        self._refresh()
        return contract.task

    def _refresh(self) -> None:
        with self._lock:
            for task, text in self.archive.tasks().items():
                if task not in self._contracts:
                    # A stored contract was verified when it came; to recompute its guarantee would cost seconds.
                    self._contracts[task] = SignedContract.from_json(text).contract

    def contracts(self) -> dict[str, Contract]:
        """The contracts that are served, by their task ids."""
        return {task.hex(): contract for task, contract in self._contracts.items()}

    def keys_document(self) -> bytes:
        """The signed list of the keys that slots are sealed to."""
        return self.keyring.public_list(self.identity)

    def rotate(self) -> None:
        """Begin to use a new key of the analyzer."""
        self.keyring.rotate()

    def advance(self) -> None:
        """Let keys expire and be destroyed as time goes by, and with them the ids of what was sealed to them."""
        self.keyring.advance()
        self.archive.forget_spent({key.id for key in self.keyring.public_keys()})

    def authorize(self, token: str, task: str | None = None) -> bool:
        """Whether a bearer token allows to read a task, or if none is named, to see which tasks there are."""
        scope = self.archive.scope(token)
        return scope is not None and (scope == "read:*" or (task is not None and scope == f"read:{task}"))

    # arrival

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch: its receipt, once its result is durable; until then the numbers of the parts wanted."""
        arrival = self.archive.find(batch)
        if arrival is None:
            arrival = self.archive.announce(self._read_manifest(batch, document))
        if arrival.manifest != document:
            raise Problem("conflict")
        receipt = self.archive.receipt(batch)
        return self.archive.missing(arrival) if receipt is None else receipt

    def _read_manifest(self, batch: str, document: bytes) -> Arrival:
        """Believe nothing of a manifest that the contract does not allow, whoever signed it."""
        try:
            signed = SignedDocument.from_json(document)
            body = signed.body
            task = bytes.fromhex(as_text(body["task"])) if isinstance(body, dict) and "task" in body else b""
            contract = self._contracts.get(task)
            if contract is None:
                raise Problem("unknown-task")
            read = fields(
                signed.verify(contract.shuffler, "manifest"),
                "a manifest",
                {
                    "batch": as_text,
                    "task": as_text,
                    "key": as_whole,
                    "bundles": as_whole,
                    "slots": as_whole,
                    "chunks": _digests,
                },
            )
        except (InvalidInput, TypeError, ValueError):
            raise Problem("malformed", "the manifest is not one") from None
        except FalseClaim:
            raise Problem("forbidden", "the manifest is not signed by the contract's shuffler") from None
        key, bundles, slots, chunks = read["key"], read["bundles"], read["slots"], read["chunks"]
        assert isinstance(key, int)
        assert isinstance(bundles, int)
        assert isinstance(slots, int)
        assert isinstance(chunks, list)
        if read["batch"] != batch:
            raise Problem("malformed", "the manifest is of another batch")
        if bundles < contract.min_batch_size:
            raise Problem("forbidden", f"a batch of this task must have at least {contract.min_batch_size} bundles")
        own = contract.slots * bundles
        if (slots < own if _shuffler_adds(contract.plan) else slots != own) or not 1 <= len(chunks) <= _MOST_PARTS:
            raise Problem("forbidden", "the numbers of slots and bundles do not fit the contract")
        if slots > len(chunks) * (_LARGEST_PART // contract.slot_size):
            raise Problem("forbidden", "so many slots do not fit into the parts")
        if not 0 <= key < 1 << 16:
            raise Problem("forbidden", "the number of a key must have 16 bits")
        return Arrival(batch, task, key, bundles, slots, len(chunks), document)

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Take a part of an announced batch, if it has the digest that the manifest gives; once more is no error."""
        arrival = self.archive.find(batch)
        if arrival is None:
            raise Problem("not-found")
        if arrival.state != "arriving":
            return
        body = SignedDocument.from_json(arrival.manifest).body
        assert isinstance(body, dict)
        chunks = body["chunks"]
        assert isinstance(chunks, list)
        if not 0 <= index < len(chunks):
            raise Problem("not-found")
        if hashlib.sha256(data).hexdigest() != chunks[index]:
            raise Problem("conflict", "the part does not have the digest of the manifest")
        self.archive.put(batch, index, data)

    # counting

    def work(self) -> bool:
        """Open, count and commit one batch that has arrived whole; False if there was none.

        One that fails does not keep the others back; the first failure is raised if none could be counted.
        """
        failure: Exception | None = None
        for arrival in self.archive.arriving():
            try:
                self._count(arrival)
            except Exception as error:
                failure = failure or error
            else:
                return True
        if failure is not None:
            raise failure
        return False

    def _count(self, arrival: Arrival) -> None:
        contract = self._contracts[arrival.task]
        counted = self._open(arrival, contract)
        reach("batch-opened")
        state, result = self._judge(arrival, contract, counted)
        receipt = SignedDocument.sign(
            self.identity,
            "receipt",
            {
                "batch": arrival.id,
                "task": arrival.task.hex(),
                "state": state,
                "manifest": hashlib.sha256(arrival.manifest).hexdigest(),
            },
        ).to_json()
        self.archive.commit(arrival, state, canonical(result), receipt, counted.spent)

    def _open(self, arrival: Arrival, contract: Contract) -> _Counted:
        size, private = contract.shape.slot_size, self.keyring.private(arrival.key)
        payloads, verdicts, ids = [], [], []
        for part in range(arrival.parts):
            data = self.archive.part(arrival, part)
            rows = np.frombuffer(data[: len(data) // size * size], np.uint8).reshape(-1, size)
            texts, found = open_slots(rows, contract, arrival.key, private, self._workers)
            payloads.append(texts)
            verdicts.append(found)
            ids.append(names(rows))
        found, all_ids = np.concatenate(verdicts), np.concatenate(ids)
        earlier = (np.frombuffer(self.archive.spent_ids(batch), ID) for batch in self.archive.spent(arrival))
        found[repeated(all_ids, earlier)] = Verdict.repeated
        rejected = {
            verdict.name: int(count)
            for verdict in Verdict
            if verdict >= Verdict.cannot_open and (count := np.count_nonzero(found == verdict))
        }
        if len(found) != arrival.slots:
            rejected["missing"] = abs(arrival.slots - len(found))
        return _Counted(np.concatenate(payloads)[found == Verdict.report], rejected, np.sort(all_ids).tobytes())

    def _judge(self, arrival: Arrival, contract: Contract, counted: _Counted) -> tuple[str, dict[str, Json]]:
        """What is said about a batch: its estimate and realized guarantee; or that it is withheld, and why."""
        plan, bad = contract.plan, sum(counted.rejected.values())
        each = _messages(plan)
        people = max(arrival.bundles - bad, 0)
        if each is not None:
            # A liar may also send fillers where reports are due: then somebody's messages are not there.
            people = min(people, len(counted.messages) // each)
        about: dict[str, Json] = {
            "batch": arrival.id,
            "task": arrival.task.hex(),
            "plan": plan.id,
            "bundles": arrival.bundles,
            "rejected": dict(counted.rejected),
        }
        if people < plan.n:
            reason = f"fewer than {plan.n} clients remain when every rejected slot is charged to one"
            return "withheld", {**about, "state": "withheld", "reason": reason}
        try:
            reports = self._reports(contract, counted, people)
            return "committed", {**about, "state": "committed", **_statement(tally(reports), contract)}
        except InvalidInput:
            return "withheld", {**about, "state": "withheld", "reason": "the messages cannot be those of the clients"}

    def _reports(self, contract: Contract, counted: _Counted, people: int) -> Reports:
        plan, messages = contract.plan, counted.messages
        m, each = plan.protocol.m, _messages(plan)
        if each is not None:
            # In random order already, so that what is cut off is a random part of those whose others were rejected.
            messages = messages[: each * people]
        values = messages if plan.protocol.sends_records else messages.view(message_type(plan))[:, 0]
        fakes = m // plan.n * people if isinstance(m, int) else 0
        return Reports(plan, np.ascontiguousarray(values), people, fakes, people)

    # reading and operation

    def batches(self, task: bytes) -> list[dict[str, Json]]:
        """The batches of a task that are done, and their states."""
        if task not in self._contracts:
            raise Problem("unknown-task")
        return [{"batch": one.id, "state": one.state} for one in self.archive.batches(task) if one.state != "arriving"]

    def result(self, batch: str) -> bytes | None:
        """The stored result of a batch: the same bytes for ever."""
        return self.archive.result(batch)

    def totals(self) -> dict[str, dict[str, int]]:
        """How many batches of every task are in which state, and the bundles of those that were counted."""
        found = {}
        for task in self._contracts:
            batches = self.archive.batches(task)
            states = Counter(batch.state for batch in batches)
            bundles = sum(batch.bundles for batch in batches if batch.state == "committed")
            found[task.hex()] = {
                **{name: states[name] for name in ("arriving", "committed", "withheld")},
                "bundles": bundles,
            }
        return found

    def ready(self) -> bool:
        """Whether batches can be taken now."""
        return any(key.state == "active" for key in self.keyring.public_keys()) and self.archive.writable()

    def backup(self, path: Path) -> None:
        """A consistent copy of the store."""
        self.archive.backup(path)


def _digests(value: Json) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [as_bytes(32)(digest).hex() for digest in value]


def _shuffler_adds(plan: Plan) -> bool:
    return isinstance(plan.protocol.m, Fakes) and plan.protocol.m.by == "shuffler"


def _messages(plan: Plan) -> int | None:
    """The number of messages of an honest client, where it is the same for all and shows in the batch."""
    fewest = fewest_messages(plan)
    return fewest if fewest == most_messages(plan) and not _shuffler_adds(plan) else None


def _statement(counts: Tally, contract: Contract) -> dict[str, Json]:
    """What a counted batch shows, and the guarantee that it was collected under."""
    plan = contract.plan
    found, given = estimate(counts, plan), achieved_guarantee(counts, plan)
    low, high = found.interval(LEVEL)
    return {
        "people": counts.n,
        "messages": counts.messages,
        "labels": list(found.labels),
        "values": found.values.tolist(),
        "stderr": found.stderr.tolist(),
        "level": LEVEL,
        "low": low.tolist(),
        "high": high.tolist(),
        "guarantee": {
            "epsilon": spell(given.epsilon),
            # Clients whose messages do not fit into their slots leave some out: that costs this much.
            "delta": given.delta + contract.overflow,
            "basis": given.basis.value,
            "method": given.method,
            "n": given.n,
            "assumptions": list(given.assumptions.sentences()),
        },
    }
