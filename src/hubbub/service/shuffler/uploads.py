"""Uploads: bundles are checked, opened and stored; a repeat gets the same response as the first upload."""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from hubbub.errors import Problem, SealError
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.workers import NOT_OPENED, OPENED, Job, bundle_job
from hubbub.service.shuffler.blocks import BlockCipher, SlotCipher, bucket_secret
from hubbub.service.shuffler.store import OpenedBundle, ShufflerStore
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.sealing import BundleContent
from hubbub.wire.bundles import BundleLayout

CONFIRMED_SECONDS = 60.0
"""Time for which uploads are accepted after the store was last known to be complete; real time, whatever the clock."""

VERSION_SECONDS = 3600
"""Seconds after which a client of another version may ask again."""
_Ciphers = tuple[BlockCipher, SlotCipher]
ATTEMPTS = 5
"""Transactions for the same uploads: one, another if tokens are spent, more if other processes spend some meanwhile."""
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


class _Spent(Exception):
    """A token of a transaction was spent before; the transaction is rolled back."""


@dataclass(slots=True)
class _View:
    """One task within a transaction: what the store says about it, and the bundles that are to be stored."""

    served: ServedTask
    state: str
    bucket: int
    key_id: int
    number: int
    """The round of the open bucket."""
    phases: Mapping[int, str]
    accepted: Set[bytes] = frozenset()
    spent: Set[bytes] = frozenset()
    fresh: dict[bytes, OpenedBundle] = field(default_factory=dict)
    """The bundles to store, by replay id."""
    tokens: set[bytes] = field(default_factory=set)
    """The tokens that they spend."""

    def late(self, bundle: OpenedBundle) -> bool:
        """Return True if the task was closed, or the bundle's round or keys ended, after it was opened."""
        in_time = self.state == "open" and (bundle.round, bundle.key_id) == (self.number, self.key_id)
        return not in_time or self.phases.get(bundle.shuffler_key_id) not in ("pending", "live")

    def add(self, bundle: OpenedBundle) -> None:
        """Store a bundle with the others."""
        self.fresh[bundle.replay_id] = bundle
        if bundle.token_id:
            self.tokens.add(bundle.token_id)


class Uploads:
    """Checks, opens and stores bundles; :meth:`accept_all` is for the writer's thread."""

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
                wrong = self._wrong_round(served, rounds[position], served.row.round, position)
                if wrong is not None:
                    raise wrong
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

    def _wrong_round(self, task: ServedTask, number: int, current: int, position: int) -> Problem | None:
        """Return the problem of a bundle that is not of the current round, final only after the grace of the round.

        The clock may have jumped: until then, a round that is over may return.
        """
        known = task.row.round == current and self._clock.monotonic() - task.since >= task.contract.round_grace
        if number < current and known:
            return Problem("closed-round", index=position)
        if number != current:
            when = "is over" if number < current else "has not begun"
            return Problem("unavailable", f"the round of a bundle {when}", index=position, retry_after=5)
        return None

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
        holders: dict[bytes, bytes] = {}
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
            # A token of two bundles: refused here, where it costs nobody else a transaction.
            repeated = bool(token_id) and holders.setdefault(token_id, replay_id) != replay_id
            spent = repeated or (row.id, token_id) in self._spent
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
        """Store the new bundles of one upload, durably; raise the problem for which it is refused."""
        (refusal,) = self.accept_all([tuple(opened)])
        if refusal is not None:
            raise refusal

    def accept_all(self, uploads: Sequence[Sequence[OpenedBundle]]) -> list[Problem | None]:
        """Store the new bundles of many uploads in one durable transaction; return the refusal of each, or None.

        A refused upload stores nothing and costs the others nothing but one repetition: if tokens turn out to be spent,
        the transaction is rolled back, and another one reads first which are.
        """
        if not any(uploads):
            return [None] * len(uploads)
        if self.blocked or time.monotonic() - self._confirmed > CONFIRMED_SECONDS:
            raise Problem("unavailable", "the store is being checked", retry_after=5)
        for attempt in range(ATTEMPTS):
            try:
                with self._store.transaction():
                    reach("accept-begun")
                    refusals = self._accept(uploads, look=attempt > 0)
                    reach("accept-inserted")
            except _Spent:
                continue
            reach("accept-committed")
            return refusals
        raise Problem("unavailable", "other processes are spending the same tokens", retry_after=1)

    def _accept(self, uploads: Sequence[Sequence[OpenedBundle]], *, look: bool) -> list[Problem | None]:
        """Store the new bundles of the uploads that are not refused, in the caller's transaction."""
        by_task: dict[bytes, list[OpenedBundle]] = {}
        for bundle in itertools.chain.from_iterable(uploads):
            by_task.setdefault(bundle.task, []).append(bundle)
        # Always in the same order, so that two processes do not wait for each other.
        views = {task: self._view(task, bundles, look=look) for task, bundles in sorted(by_task.items())}
        refusals = [self._refusal(upload, views) for upload in uploads]
        for view in views.values():
            self._insert(view)
        return refusals

    def _view(self, task: bytes, bundles: Sequence[OpenedBundle], *, look: bool) -> "_View":
        """Return what the store says about bundles of a task; ``look``: also which of them it has, or whose tokens."""
        # Whatever its state: a task that was destroyed meanwhile must not refuse the uploads of others.
        store, served = self._store, self._tasks.stored(task)
        row = served.row
        state, bucket, key_id, number = store.open_bucket(row)
        phases = store.key_phases(sorted({bundle.shuffler_key_id for bundle in bundles}))
        view = _View(served, state, bucket, key_id, number, phases)
        asked = [bundle.replay_id for bundle in bundles if look or view.late(bundle)]
        view.accepted = store.accepted(row, asked, writing=True)
        if look:
            view.spent = store.spent(row, sorted({bundle.token_id for bundle in bundles if bundle.token_id}))
        return view

    def _refusal(self, upload: Sequence[OpenedBundle], views: "Mapping[bytes, _View]") -> Problem | None:
        """Return the problem of an upload, or None after adding its new bundles to those that are stored."""
        fresh: dict[bytes, OpenedBundle] = {}
        tokens: set[bytes] = set()
        for bundle in upload:
            view, token_id = views[bundle.task], bundle.token_id
            if bundle.replay_id in view.accepted or bundle.replay_id in view.fresh or bundle.replay_id in fresh:
                continue
            if view.late(bundle):
                return self._lateness(bundle, view)
            if token_id in view.spent:
                self._remember(bundle.task, token_id)
            if token_id in view.spent or token_id in view.tokens or token_id in tokens:
                return Problem("token-spent", index=bundle.position)
            fresh[bundle.replay_id] = bundle
            tokens |= {token_id} if token_id else set()
        for bundle in fresh.values():
            views[bundle.task].add(bundle)
        return None

    def _insert(self, view: "_View") -> None:
        """Store bundles in the open bucket; raise :class:`_Spent` if the token of one was spent with another."""
        store, row = self._store, view.served.row
        added = store.insert_replay_ids(row, [*view.fresh])
        fresh = [bundle for replay_id, bundle in view.fresh.items() if replay_id in added]
        spending = [bundle.token_id for bundle in fresh if bundle.token_id]
        if spending:
            if len(store.insert_tokens(row, spending)) < len(spending):
                raise _Spent
            reach("accept-spent")
        if not fresh:
            return
        blocks, counters = self._cipher(row.id, view.bucket)
        if view.served.contract.strings is None:
            store.insert_blocks(row, view.bucket, blocks.seal([bundle.slots for bundle in fresh]))
        else:
            store.insert_slots(row, view.bucket, [slot for bundle in fresh for slot in bundle.slots], counters)

    def _lateness(self, bundle: OpenedBundle, view: "_View") -> Problem:
        """Return the problem of a bundle whose task was closed, or whose round or keys ended, after it was opened.

        A client that retried in the meantime was told so, may have sealed again, and would be counted twice.
        """
        if view.state != "open":
            return self._closed(view.served.contract, view.state)
        wrong = self._wrong_round(view.served, bundle.round, view.number, bundle.position)
        restored = view.phases.get(bundle.shuffler_key_id) == "restored"
        return wrong or Problem("uncertain" if restored else "outdated-keys", index=bundle.position)

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
