"""The shuffler: takes bundles, waits until the crowd is large enough, mixes, delivers, forgets.

It knows who sends and never what; everything it stores is sealed to the analyzer. This is the synchronous core, without
sockets: the skin in ``intake`` and ``programs`` calls ``prepare``, ``open`` and ``accept`` for uploads, and from time
to time ``tick`` and ``deliver``.
"""

import hashlib
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from hubbub.bits import permutation
from hubbub.bits.entropy import Entropy, system
from hubbub.canonical import Json, as_text, canonical, fields, parse
from hubbub.errors import FalseClaim, SealError
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.problems import Problem
from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.shuffler.store import Batch, Counts, Opened, Pool, Task
from hubbub.service.task import sealing
from hubbub.service.task.contract import MIN_BATCH_SIZE, Contract, SignedContract, load_contract
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.keys import Keyring, PublicKey, read_key_list
from hubbub.service.task.sealing_batch import bundle_job, seal_reports
from hubbub.shuffler import draw_fakes

CHUNK = 4 << 20
"""Bytes of one part of a batch, at most."""


class Link(Protocol):
    """The way to the analyzer; every call may fail, and may have been carried out when it failed."""

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch: the receipt, if its result is durable; otherwise the numbers of the parts still wanted."""

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Hand over a part of an announced batch."""

    def keys(self) -> bytes:
        """The analyzer's signed list of keys."""


@dataclass(frozen=True, slots=True)
class _Served:
    task: Task
    contract: Contract
    keys: dict[int, PublicKey]
    """The analyzer's, by their ids."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Bundles that passed the checks that need no key, with the keys that open them; repeats are gone already."""

    served: _Served
    bundles: tuple[bytes, ...]
    keys: tuple[int, ...]
    places: tuple[int, ...]
    """Where in the body each of them was, for refusals."""


class Shuffler:
    """The core of the service; ``accept`` and ``tick`` are for one thread, the writer's."""

    def __init__(
        self,
        pool: Pool,
        keyring: Keyring,
        identity: Identity,
        clock: Clock,
        *,
        workers: Workers,
        min_batch_size: int = MIN_BATCH_SIZE,
        entropy: Entropy = system,
    ) -> None:
        self.pool, self.keyring, self.identity, self.clock = pool, keyring, identity, clock
        self._workers, self._min_batch_size, self._entropy = workers, min_batch_size, entropy
        self._served: dict[bytes, _Served] = {}
        self._ahead: dict[tuple[bytes, int], bytes] = {}
        self._lock = threading.Lock()
        self._refresh()

    # contracts and keys

    def add_contract(self, text: bytes) -> bytes:
        """Verify a signed contract, recomputing its guarantee, and serve it from now on; its task id."""
        contract = load_contract(text, min_batch_size=self._min_batch_size).contract
        if contract.shuffler != self.identity.public:
            raise FalseClaim("the contract names another shuffler")
        self.pool.add_task(contract.task, text)
        known = next((one for one in self._served.values() if one.contract.analyzer == contract.analyzer), None)
        self._refresh()
        if known is not None and known.task.task != contract.task and (keys := self.pool.key_list(known.task)):
            # The same analyzer's keys, so that clients of the new task need not wait until they are fetched again.
            self._keep(self._served[contract.task], keys)
            self._refresh()
        return contract.task

    def _refresh(self) -> None:
        with self._lock:
            served = {}
            for task in self.pool.tasks():
                before = self._served.get(task.task)
                # A stored contract was verified when it came; to recompute its guarantee would cost seconds.
                contract = before.contract if before else SignedContract.from_json(task.contract).contract
                text = self.pool.key_list(task)
                keys = read_key_list(text, contract.analyzer, "analyzer") if text else []
                served[task.task] = _Served(task, contract, {key.id: key for key in keys})
            self._served = served

    def _find(self, task: bytes) -> _Served:
        found = self._served.get(task)
        if found is None or found.task.state == "destroyed":
            raise Problem("unknown-task")
        return found

    def contract_document(self, task: bytes) -> bytes:
        """The signed contract, as the operators gave it."""
        return self._find(task).task.contract

    def keys_document(self, task: bytes) -> bytes:
        """What a client seals with: both signed lists of keys, and the number of the analyzer's key in use."""
        served = self._find(task)
        text = self.pool.key_list(served.task)
        if text is None or served.task.key not in served.keys:
            # The list is stored a moment before it is in use.
            raise Problem("unavailable", "the analyzer's keys are not known yet", retry_after=5)
        own = parse(self.keyring.public_list(self.identity), "a list of keys")
        return canonical({"shuffler": own, "analyzer": parse(text, "a list of keys"), "use": served.task.key})

    def fetch_keys(self, link: Link) -> None:
        """Ask for the analyzer's list of keys, and take it over."""
        self.take_keys(link.keys())

    def take_keys(self, text: bytes) -> None:
        """Take over the analyzer's list of keys; one that is not signed by the analyzer of the contract is refused.

        For the writer's thread: no upload is committed while the key in use changes.
        """
        kept = [self._keep(served, text) for served in list(self._served.values())]
        self._refresh()
        if not all(kept):
            raise FalseClaim("the analyzer's list has no active key of the contract's suite")

    def _keep(self, served: _Served, text: bytes) -> bool:
        keys = read_key_list(text, served.contract.analyzer, "analyzer")
        active = [key.id for key in keys if key.state == "active" and key.suite == served.contract.suite]
        if active:
            self.pool.keep_list(served.task, text, active[0], {key.id for key in keys})
        return bool(active)

    def rotate(self) -> None:
        """Begin to use a new key of the shuffler."""
        self.keyring.rotate()

    # uploads

    def prepare(self, task: bytes, body: bytes) -> Upload:
        """Check an upload as far as it goes without opening it; bundles that were accepted before drop out here.

        A repeat is recognised before its key is looked at, so that a client which is told ``outdated-keys`` knows that
        its bundle was not accepted.
        """
        served = self._find(task)
        contract = served.contract
        try:
            bundles = sealing.parse_upload(body, contract.shape)
        except SealError as error:
            raise _refusal(error) from None
        keys = [sealing.bundle_key(bundle) for bundle in bundles]
        places = list(range(len(bundles)))
        taking = served.task.state == "open" and contract.takes(self.clock.now())
        if not taking or any(self.keyring.private(key) is None for key in keys):
            replays = [sealing.replay_id(bundle, contract.shape) for bundle in bundles]
            known = self.pool.known(served.task, replays)
            places = [place for place in places if replays[place] not in known]
            if places and not taking:
                raise Problem("closed-task")
            for place in places:
                if self.keyring.private(keys[place]) is None:
                    raise Problem("outdated-keys", index=place)
        return Upload(
            served, tuple(bundles[place] for place in places), tuple(keys[place] for place in places), tuple(places)
        )

    def open(self, upload: Upload) -> list[Opened]:
        """Open the bundles here; for many at once, :meth:`jobs` and :meth:`opened` let workers do it."""
        shape = upload.served.contract.shape
        slots = []
        for place, bundle, key in zip(upload.places, upload.bundles, upload.keys, strict=True):
            opener = self.keyring.opener(key)
            if opener is None:
                raise Problem("outdated-keys", index=place)
            try:
                slots.append(sealing.open_bundle(bundle, shape, opener))
            except SealError as error:
                raise _refusal(error, place) from None
        return self._opened(upload, slots)

    def jobs(self, upload: Upload) -> Iterator[tuple[Job, bytes]]:
        """The same as work for :class:`Workers`: one job for each run of bundles under one key, with their bytes."""
        shape = upload.served.contract.shape
        start = 0
        for place in range(1, len(upload.keys) + 1):
            if place == len(upload.keys) or upload.keys[place] != upload.keys[start]:
                private = self.keyring.private(upload.keys[start])
                if private is None:
                    raise Problem("outdated-keys", index=upload.places[start])
                yield bundle_job(shape, upload.keys[start], private), b"".join(upload.bundles[start:place])
                start = place

    def opened(self, upload: Upload, done: Sequence[tuple[bytes, bytes]]) -> list[Opened]:
        """The opened bundles from what workers answered to the jobs."""
        shape = upload.served.contract.shape
        good = b"".join(flags for _, flags in done)
        if 0 in good:
            raise Problem("cannot-open", index=upload.places[good.index(0)])
        inner = b"".join(texts for texts, _ in done)
        size = len(inner) // max(len(good), 1)
        slots = []
        for number, place in enumerate(upload.places):
            try:
                slots.append(sealing.split_bundle(inner[number * size : (number + 1) * size], shape))
            except SealError as error:
                raise _refusal(error, place) from None
        return self._opened(upload, slots)

    def _opened(self, upload: Upload, slots: Sequence[list[bytes]]) -> list[Opened]:
        served, shape = upload.served, upload.served.contract.shape
        result = []
        for place, bundle, opener, parts in zip(upload.places, upload.bundles, upload.keys, slots, strict=True):
            key, replay = sealing.slot_key(parts[0]), sealing.replay_id(bundle, shape)
            if key == served.task.key:
                result.append(Opened(served.task.task, key, replay, tuple(parts), opener))
            elif not self.pool.known(served.task, [replay]):
                raise Problem("outdated-keys", index=place)
        return result

    def accept(self, opened: Iterable[Opened]) -> None:
        """Keep what is new of it; durable on return. Bundles of many uploads share one transaction."""
        groups: dict[bytes, list[Opened]] = {}
        for bundle in opened:
            groups.setdefault(bundle.task, []).append(bundle)
        if not groups:
            return
        with self.pool.transaction():
            reach("accept-begun")
            for task, bundles in groups.items():
                served = self._find(task)
                self._refuse_late(served.task, bundles)
                self.pool.accept(served.task, bundles)
        reach("accept-committed")

    def _refuse_late(self, task: Task, bundles: Sequence[Opened]) -> None:
        """Refuse what was opened in time, but whose task was closed, or whose keys ended, before it was committed.

        Whoever asked again in between was told so, may have sealed anew, and would be counted twice.
        """
        late = [
            bundle.replay
            for bundle in bundles
            if task.state != "open" or bundle.key != task.key or self.keyring.private(bundle.opener) is None
        ]
        if late and not self.pool.known(task, late).issuperset(late):
            raise Problem("closed-task" if task.state != "open" else "outdated-keys")

    # release and delivery

    def tick(self) -> list[str]:
        """Do what is due since the last epoch ended: release the pools that are large enough; the new batches.

        When the contract has ended, what is too small to be released is destroyed. A clock that goes back, or jumps,
        can delay or hasten a release, but nothing makes a batch smaller than the contract allows.
        """
        self.keyring.advance()
        released = []
        for served in list(self._served.values()):
            task, contract, epoch = served.task, served.contract, served.contract.epoch_at(self.clock.now())
            if task.state != "open" or epoch <= task.epoch:
                continue
            for key, bundles in self.pool.pools(task):
                if bundles >= contract.min_batch_size and key in served.keys:
                    batch = self._release(served, key)
                    released += [batch] if batch else []
            if epoch >= contract.task_end:
                self.pool.close(task)
            self.pool.tick(task, epoch)
        self._refresh()
        return released

    def draw_ahead(self) -> None:
        """Draw and seal the fakes of the releases that the next tick will make: uploads need not wait for that.

        For any one thread. A draw is used once: what is drawn for a release that fails is drawn again.
        """
        for served in list(self._served.values()):
            task, contract = served.task, served.contract
            if task.state == "open" and contract.epoch_at(self.clock.now()) > task.epoch:
                for key, bundles in self.pool.pools(task):
                    if (
                        bundles >= contract.min_batch_size
                        and key in served.keys
                        and (task.task, key) not in self._ahead
                    ):
                        self._ahead[task.task, key] = self._seal_fakes(contract, served.keys[key])

    def _release(self, served: _Served, key: int) -> str | None:
        contract, shape = served.contract, served.contract.shape
        fakes = self._ahead.pop((contract.task, key), None)
        if fakes is None:
            fakes = self._seal_fakes(contract, served.keys[key])
        reach("release-begun")

        def mix(slots: list[bytes], bundles: int) -> tuple[str, bytes, Iterable[bytes]]:
            rows = np.frombuffer(b"".join([*slots, fakes]), np.uint8).reshape(-1, shape.slot_size)
            mixed = permutation.shuffle(rows, entropy=self._entropy)
            step = max(1, CHUNK // shape.slot_size)
            parts = [mixed[start : start + step].tobytes() for start in range(0, len(mixed), step)]
            batch = secrets.token_hex(16)
            manifest: dict[str, Json] = {
                "batch": batch,
                "task": contract.task.hex(),
                "key": key,
                "bundles": bundles,
                "slots": len(mixed),
                "chunks": [hashlib.sha256(part).hexdigest() for part in parts],
            }
            return batch, SignedDocument.sign(self.identity, "manifest", manifest).to_json(), parts

        return self.pool.release(served.task, key, contract.min_batch_size, mix)

    def _seal_fakes(self, contract: Contract, key: PublicKey) -> bytes:
        messages = draw_fakes(contract.plan, entropy=self._entropy)
        if not len(messages):
            return b""
        payloads = np.ascontiguousarray(messages).view(np.uint8).reshape(len(messages), contract.plan.payload)
        return seal_reports(payloads, contract.shape, key, self._workers).tobytes()

    def deliver(self, link: Link) -> bool:
        """Try once to hand every waiting batch over; whether any is left.

        A batch that fails does not keep the others back; the first failure is raised when all were tried.
        """
        failure: Exception | None = None
        for batch in self.pool.outbox():
            try:
                self._deliver(batch, link)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return bool(self.pool.outbox())

    def _deliver(self, batch: Batch, link: Link) -> None:
        reach("deliver-manifest")
        answer = link.put_manifest(batch.id, batch.manifest)
        if isinstance(answer, list) and answer:
            for index in answer:
                reach("deliver-chunk")
                link.put_chunk(batch.id, index, self.pool.part(batch.id, index))
                reach("deliver-chunk-sent")
            answer = link.put_manifest(batch.id, batch.manifest)
        if isinstance(answer, list):
            return
        reach("deliver-receipt")
        contract = self._served[batch.task].contract
        said = fields(
            SignedDocument.from_json(answer).verify(contract.analyzer, "receipt"),
            "a receipt",
            {"batch": as_text, "task": as_text, "state": as_text, "manifest": as_text},
        )
        expected = (batch.id, batch.task.hex(), hashlib.sha256(batch.manifest).hexdigest())
        if (said["batch"], said["task"], said["manifest"]) != expected:
            raise FalseClaim("the receipt is for another batch")
        self.pool.erase(batch, answer)

    # operation

    def close(self, task: bytes, *, destroy: bool = False) -> None:
        """End a task early: what waits in its pools is expired, or with ``destroy`` everything about it forgotten."""
        self.pool.close(self._find(task).task, "destroyed" if destroy else "closed")
        self._refresh()

    def totals(self, *, check: bool = False) -> dict[str, Counts]:
        """Where the bundles of every task are; ``check`` counts the pools anew instead of believing the sums."""
        return {
            task.hex(): self.pool.counts(served.task, slots=served.contract.slots if check else None)
            for task, served in self._served.items()
        }

    def contracts(self) -> dict[str, Contract]:
        """The contracts that are served, by their task ids."""
        return {task.hex(): served.contract for task, served in self._served.items()}

    def ready(self) -> bool:
        """Whether uploads can be taken now."""
        return any(key.state == "active" for key in self.keyring.public_keys()) and self.pool.writable()

    def backup(self, path: Path) -> None:
        """A consistent copy of the store."""
        self.pool.backup(path)


def _refusal(error: SealError, index: int | None = None) -> Problem:
    name = error.reason if error.reason in ("wrong-length", "cannot-open") else "malformed"
    return Problem(name, index=error.index if index is None else index)
