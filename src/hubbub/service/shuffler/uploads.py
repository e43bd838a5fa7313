"""Uploads: bundles are checked, opened and stored; a repeat gets the same response as the first upload."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hubbub.bundles import BundleLayout
from hubbub.errors import Problem, SealError
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.workers import NOT_OPENED, OPENED, Job
from hubbub.service.shuffler.blocks import BlockCipher, bucket_secret
from hubbub.service.shuffler.counters import SlotCipher
from hubbub.service.shuffler.store import OpenedBundle, ShufflerStore
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.sealing import BundleContent
from hubbub.service.task.sealing_batch import bundle_job

CONFIRMED_SECONDS = 60.0
"""Time for which uploads are accepted after the store was last known to be complete; real time, whatever the clock."""

VERSION_SECONDS = 3600
"""Seconds after which a client of another version may ask again."""
_Ciphers = tuple[BlockCipher, SlotCipher]
MAX_REMEMBERED = 100_000
"""Spent tokens of refused bundles that are remembered."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Bundles that passed all checks that need no key, without known repeats, and the ids of the keys to open them."""

    task: ServedTask
    bundles: tuple[bytes, ...]
    key_ids: tuple[int, ...]
    positions: tuple[int, ...]
    """The bundles' places in the request body, for problem documents."""

    @property
    def layout(self) -> BundleLayout:
        """The layout of the bundles, which are all of the round that was open."""
        return self.task.contract.layout_of(self.task.row.round)


class Uploads:
    """Checks, opens and stores bundles; :meth:`accept` is for the writer's thread."""

    def __init__(
        self, store: ShufflerStore, tasks: TaskRegistry, context: ServiceContext, credentials: Credentials
    ) -> None:
        self._store, self._tasks, self._credentials = store, tasks, credentials
        self._keyring, self._clock = context.keyring, context.clock
        self._ciphers: dict[bytes, tuple[int, _Ciphers]] = {}
        self._spent: dict[tuple[bytes, bytes], None] = {}
        self.blocked = False
        """True while it is not known that the store is complete: nothing is accepted, because it could count twice."""
        self._confirmed = time.monotonic()

    def confirm(self) -> None:
        """Accept uploads for a while, because the store is complete now and a later restore would be detected."""
        self.blocked, self._confirmed = False, time.monotonic()

    def prepare(self, task: bytes, body: bytes) -> Upload:
        """Check an upload without opening it, and drop bundles that were accepted before if they can no longer be.

        Repeats are detected before their keys are checked, so a client that receives ``outdated-keys`` knows that its
        bundle was not accepted.
        """
        served = self._tasks.find(task)
        contract = served.contract
        try:
            bundles = sealing.parse_upload(body, contract.layout, contract.contexts)
        except SealError as error:
            raise _problem(error) from None
        rounds = [contract.contexts[sealing.bundle_context(bundle)] for bundle in bundles]
        if any(number != served.row.round for number in rounds):
            # Another process may have begun the next round.
            self._tasks.refresh()
            served = self._tasks.find(task)
        key_ids = [sealing.bundle_key(bundle) for bundle in bundles]
        positions = list(range(len(bundles)))
        is_open = served.row.state == "open" and contract.accepts_at(self._clock.now())
        in_round = all(number == served.row.round for number in rounds)
        if not is_open or not in_round or not self._have(key_ids):
            # Another process may have made or destroyed keys; what it accepted under them is in the store.
            self._keyring.refresh()
            layouts = [contract.layout_of(number) for number in rounds]
            replay_ids = [sealing.replay_id(bundle, layout) for bundle, layout in zip(bundles, layouts, strict=True)]
            accepted = self._store.accepted(served.row, replay_ids)
            positions = [position for position in positions if replay_ids[position] not in accepted]
            if positions and not is_open:
                raise self._closed(contract, served.row.state)
            for position in positions:
                self._check_round(served, rounds[position], served.row.round, position)
                if self._keyring.private(key_ids[position]) is None:
                    restored = self._keyring.restored(key_ids[position])
                    raise Problem("uncertain" if restored else "outdated-keys", index=position)
        kept, ids = tuple(bundles[one] for one in positions), tuple(key_ids[one] for one in positions)
        return Upload(served, kept, ids, tuple(positions))

    def _closed(self, contract: Contract, state: str) -> Problem:
        """Return the problem of a task that accepts nothing now; final only if the store says so, not the clock."""
        if state == "open":
            return Problem("unavailable", "the task is not open by the clock of the service", retry_after=60)
        ended = contract.epoch_at(self._clock.now()) >= contract.task_end
        return Problem("series-ended" if contract.series is not None and ended else "closed-task")

    def _check_round(self, task: ServedTask, number: int, current: int, position: int) -> None:
        """Raise a problem if a bundle is not of the current round, which is final only after the grace of the round.

        The clock may have jumped: until then, a round that is over may return.
        """
        known = task.row.round == current and self._clock.monotonic() - task.since >= task.contract.round_grace
        if number < current and known:
            raise Problem("closed-round", index=position)
        if number != current:
            when = "is over" if number < current else "has not begun"
            raise Problem("unavailable", f"the round of a bundle {when}", index=position, retry_after=5)

    def _have(self, key_ids: Sequence[int]) -> bool:
        return all(self._keyring.private(key_id) is not None for key_id in set(key_ids))

    def open(self, upload: Upload) -> list[OpenedBundle]:
        """Open the bundles in this thread; :meth:`jobs` and :meth:`opened` let workers open many."""
        layout = upload.layout
        contents = []
        for position, bundle, key_id in zip(upload.positions, upload.bundles, upload.key_ids, strict=True):
            private = self._keyring.opener(key_id)
            if private is None:
                raise Problem("outdated-keys", index=position)
            try:
                contents.append(sealing.open_bundle(bundle, layout, private))
            except SealError as error:
                raise _problem(error, position) from None
        verifier = upload.task.verifier
        return self._opened(upload, contents, [verifier.valid(content.admission) for content in contents])

    def jobs(self, upload: Upload) -> Iterator[tuple[Job, bytes]]:
        """Yield jobs for the worker processes, one for each run of bundles under the same key, with their bytes."""
        layout = upload.layout
        start = 0
        for end in range(1, len(upload.key_ids) + 1):
            if end == len(upload.key_ids) or upload.key_ids[end] != upload.key_ids[start]:
                private = self._keyring.private(upload.key_ids[start])
                if private is None:
                    raise Problem("outdated-keys", index=upload.positions[start])
                job = bundle_job(layout, upload.key_ids[start], private, upload.task.verifier)
                yield job, b"".join(upload.bundles[start:end])
                start = end

    def opened(self, upload: Upload, done: Sequence[tuple[bytes, bytes]]) -> list[OpenedBundle]:
        """Return the opened bundles from the workers' results of :meth:`jobs`."""
        layout = upload.layout
        success = b"".join(flags for _, flags in done)
        if NOT_OPENED in success:
            raise Problem("cannot-open", index=upload.positions[success.index(NOT_OPENED)])
        inner = b"".join(texts for texts, _ in done)
        size = len(inner) // max(len(success), 1)
        contents = []
        for number, position in enumerate(upload.positions):
            try:
                contents.append(sealing.split_bundle(inner[number * size : (number + 1) * size], layout))
            except SealError as error:
                raise _problem(error, position) from None
        return self._opened(upload, contents, [flag == OPENED for flag in success])

    def _opened(self, upload: Upload, opened: Sequence[BundleContent], admitted: Sequence[bool]) -> list[OpenedBundle]:
        """Return the bundles to store; ``admitted`` states whose admission is valid."""
        row, layout, number = upload.task.row, upload.layout, upload.task.row.round
        result = []
        for position, bundle, shuffler_key_id, content, valid in zip(
            upload.positions, upload.bundles, upload.key_ids, opened, admitted, strict=True
        ):
            key_id, replay_id = sealing.slot_key(content.slots[0]), sealing.replay_id(bundle, layout)
            if key_id != row.key_id:
                # The bucket may have changed, here or in another process. The order matters: first the bucket, then
                # the accepted bundles, because acceptance under the old key ends with the bucket.
                self._tasks.refresh()
                row = self._tasks.find(row.id).row
            token_id = upload.task.verifier.token_id(content.admission) if valid else b""
            spent = (row.id, token_id) in self._spent
            if valid and not spent and key_id == row.key_id:
                slots = tuple(content.slots)
                result.append(
                    OpenedBundle(row.id, key_id, replay_id, slots, shuffler_key_id, token_id, position, number)
                )
            elif not self._store.accepted(row, [replay_id]):
                # A bundle that was accepted before gets the same response, whatever its admission.
                refused = "token-spent" if spent else "bad-token"
                raise Problem(refused if key_id == row.key_id else "outdated-keys", index=position)
        return result

    def accept(self, opened: Iterable[OpenedBundle]) -> None:
        """Store the new bundles; durable on return. The bundles of many uploads share one transaction."""
        by_task: dict[bytes, list[OpenedBundle]] = {}
        for bundle in opened:
            by_task.setdefault(bundle.task, []).append(bundle)
        if not by_task:
            return
        if self.blocked or time.monotonic() - self._confirmed > CONFIRMED_SECONDS:
            raise Problem("unavailable", "the store is being checked", retry_after=5)
        with self._store.transaction():
            reach("accept-begun")
            # Always in the same order, so that two processes do not wait for each other.
            for task, bundles in sorted(by_task.items()):
                self._accept(self._tasks.find(task), bundles)
            reach("accept-inserted")
        reach("accept-committed")

    def _accept(self, task: ServedTask, bundles: Sequence[OpenedBundle]) -> None:
        """Store the new bundles of one task in the open bucket, in the caller's transaction."""
        store, row = self._store, task.row
        state, bucket, key_id, number = store.open_bucket(row)
        phases = store.key_phases(sorted({bundle.shuffler_key_id for bundle in bundles}))
        self._reject_late(task, bundles, state, key_id, number, phases)
        by_id: dict[bytes, OpenedBundle] = {}
        for bundle in bundles:
            by_id.setdefault(bundle.replay_id, bundle)
        added = store.insert_replay_ids(row, [*by_id])
        fresh = [bundle for replay_id, bundle in by_id.items() if replay_id in added]
        if not fresh:
            return
        self._spend_tokens(task, fresh)
        blocks, counters = self._cipher(row.id, bucket)
        if task.contract.strings is None:
            store.insert_blocks(row, bucket, blocks.seal([bundle.slots for bundle in fresh]))
        else:
            store.insert_slots(row, bucket, [slot for bundle in fresh for slot in bundle.slots], counters)

    def _reject_late(
        self,
        task: ServedTask,
        bundles: Sequence[OpenedBundle],
        state: str,
        key_id: int,
        number: int,
        phases: dict[int, str],
    ) -> None:
        """Reject bundles whose task was closed, or whose round or keys ended, after they were opened.

        A client that retried in the meantime was told so, may have sealed again, and would be counted twice.
        """
        late = [
            bundle
            for bundle in bundles
            if state != "open"
            or bundle.round != number
            or bundle.key_id != key_id
            or phases.get(bundle.shuffler_key_id) not in ("pending", "live")
        ]
        if not late:
            return
        accepted = self._store.accepted(task.row, [bundle.replay_id for bundle in late], writing=True)
        for bundle in late:
            if bundle.replay_id in accepted:
                continue
            if state != "open":
                raise self._closed(task.contract, state)
            self._check_round(task, bundle.round, number, bundle.position)
            restored = phases.get(bundle.shuffler_key_id) == "restored"
            raise Problem("uncertain" if restored else "outdated-keys", index=bundle.position)

    def _spend_tokens(self, task: ServedTask, bundles: Sequence[OpenedBundle]) -> None:
        """Spend the admission tokens of new bundles: a token counts once, and only together with its bundle."""
        spending = [bundle for bundle in bundles if bundle.token_id]
        if not spending:
            return
        unspent = self._store.insert_tokens(task.row, [*{bundle.token_id for bundle in spending}])
        before = {bundle.token_id for bundle in spending} - unspent
        for token_id in before:
            # Not those that two bundles of this transaction share: it is rolled back, and neither has spent them.
            self._remember(task.row.id, token_id)
        for bundle in spending:
            if bundle.token_id not in unspent:
                raise Problem("token-spent", index=bundle.position)
            unspent.discard(bundle.token_id)
        reach("accept-spent")

    def _remember(self, task: bytes, token_id: bytes) -> None:
        """Remember a spent token, so that sending it again and again fails before it costs others a transaction."""
        while len(self._spent) >= MAX_REMEMBERED:
            self._spent.pop(next(iter(self._spent)), None)
        self._spent[task, token_id] = None

    def _cipher(self, task: bytes, bucket: int) -> "_Ciphers":
        known, ciphers = self._ciphers.get(task, (0, None))
        if ciphers is None or known != bucket:
            # Read, never created: if the secret is gone, the bucket ended before the store was restored.
            secret = self._credentials.read(bucket_secret(task, bucket))
            if secret is None:
                raise Problem("unavailable", "the store is being checked", retry_after=5)
            ciphers = BlockCipher(secret), SlotCipher(secret)
            self._ciphers[task] = bucket, ciphers
        return ciphers


def _problem(error: SealError, position: int | None = None) -> Problem:
    known = {"wrong-length": "wrong-length", "cannot-open": "cannot-open", "bad-version": "wrong-version"}
    name = known.get(error.reason, "malformed")
    # Not a final refusal: a client that is updated seals the same answer again.
    retry_after = VERSION_SECONDS if name == "wrong-version" else None
    return Problem(name, index=error.index if position is None else position, retry_after=retry_after)
