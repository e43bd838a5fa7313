"""The whole system under random operations on a simulated clock: nothing is lost, nothing is counted twice."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.service.simulation import Simulation

from hubbub.documents import Json
from hubbub.service.analyzer import jobs, results
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.analyzer.tallies import BatchTally
from hubbub.service.runtime.database import Lease, Leases
from hubbub.service.shuffler.buckets import Buckets, Closing
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.restore import Restores
from hubbub.service.shuffler.shuffle import Shuffles
from hubbub.service.shuffler.store import Bucket, TaskRow
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.shuffler.uploads import Uploads
from hubbub.service.task import admission as admissions
from hubbub.service.task import contract as contracts
from hubbub.service.task.contract import Contract
from hubbub.service.task.keylist import KeyList
from hubbub.service.task.keys import Keyring
from hubbub.service.task.ledger import RoundLedger

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", range(10))
def test_short(seed: int) -> None:
    Simulation(seed).run(25)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_a_thousand_sequences(first: int) -> None:
    for seed in range(first, first + 50):
        Simulation(10_000 + seed).run(40)


# Each defect of the review, with its fix taken out.


def no_pins(patch: Patch) -> None:
    def pin(tasks: TaskRegistry, identity: bytes, listed: KeyList, text: bytes) -> None:
        statement = "INSERT INTO key_lists VALUES (?, ?) ON CONFLICT (identity) DO UPDATE SET document = ?"
        tasks._store.jobs.run(statement, identity, text, text)

    patch.setattr(TaskRegistry, "_pin", pin)


def no_restore_detection(patch: Patch) -> None:
    patch.setattr(Restores, "rewound", lambda restores: False)
    patch.setattr(Buckets, "_prepare", _prepare_again)


def _prepare_again(buckets: Buckets, task: TaskRow, bucket: int) -> None:
    from hubbub.service.shuffler.blocks import bucket_secret, seed_secret

    buckets._credentials.create(seed_secret(task.id, bucket))
    buckets._credentials.create(bucket_secret(task.id, bucket + 1))


def no_leases(patch: Patch) -> None:
    def acquire(leases: Leases, name: str) -> Lease:
        return Lease(name, 1)

    def confirm(leases: Leases, lease: Lease) -> None:
        """Do not look for other holders."""

    def still_sealed(shuffles: Shuffles, bucket: Bucket, lease: Lease) -> None:
        """Do not look whether another process has finished the bucket."""

    patch.setattr(Leases, "acquire", acquire)
    patch.setattr(Leases, "confirm", confirm)
    patch.setattr(Shuffles, "_confirm", still_sealed)


def no_key_retention(patch: Patch) -> None:
    """The analyzer destroys its keys after their grace, whatever waits under them."""
    patch.setattr(Analyzer, "held_keys", lambda analyzer: set())


def close_destroys(patch: Patch) -> None:
    def close(shuffler: Shuffler, task: bytes, *, destroy: bool = False) -> Closing:
        row = shuffler.tasks.find(task).row
        with shuffler._buckets._locked(row) as (_, bucket, _):
            expired = shuffler._buckets._end(row, bucket, "expired")
            shuffler.store.jobs.run("UPDATE tasks SET state = 'closed' WHERE number = ?", row.number)
        shuffler.tasks.refresh()
        return Closing(None, expired)

    patch.setattr(Shuffler, "close", close)


def every_bad_slot_is_a_client(patch: Patch) -> None:
    honest = results.batch_result

    def charged(batch: BatchRow, contract: Contract, total: BatchTally, *rest: Any) -> tuple[str, dict[str, Json]]:
        state, result = honest(batch, contract, total, *rest)
        if batch.bundles - total.bad < contract.plan.n:
            return "withheld", {**result, "state": "withheld"}
        return state, result

    patch.setattr(jobs, "batch_result", charged)


def one_failure_stops_all(patch: Patch) -> None:
    def tick(shuffler: Shuffler) -> list[str]:
        shuffler.refresh()
        lease = shuffler._lead()
        assert lease is not None
        shuffler._restores.beat()
        shuffler.keyring.advance()
        released = []
        for task in shuffler.tasks.all():
            released += shuffler._release(task, lease)
        shuffler.tasks.refresh()
        return released

    patch.setattr(Shuffler, "tick", tick)


def one_suite_only(patch: Patch) -> None:
    patch.setattr(Keyring, "support", lambda keyring, suite: None)


def one_identity_only(patch: Patch) -> None:
    def read(tasks: TaskRegistry, text: bytes) -> tuple[bytes, KeyList]:
        found = [
            (task.contract.analyzer, KeyList.read(text, task.contract.analyzer, "analyzer")) for task in tasks.all()
        ]
        return found[0]

    patch.setattr(TaskRegistry, "_read", read)


def lists_without_dates(patch: Patch) -> None:
    patch.setattr(KeyList, "check_time", lambda listed, now: None)


def epochs_only_grow(patch: Patch) -> None:
    release = Shuffler._release

    def forward(shuffler: Shuffler, task: Any, lease: Lease) -> list[str]:
        if task.contract.epoch_at(shuffler._context.clock.now()) <= task.row.last_epoch:
            return []
        return release(shuffler, task, lease)

    patch.setattr(Shuffler, "_release", forward)


def tickets_are_not_spent(patch: Patch) -> None:
    patch.setattr(Uploads, "_spend_tokens", lambda uploads, task, bundles: None)


def open_admission(patch: Patch) -> None:
    patch.setattr(contracts, "_check_crowd", lambda plan, admission: None)


def rounds_without_a_limit(patch: Patch) -> None:
    patch.setattr(RoundLedger, "check", lambda ledger, contract, number: contract.spending(1))


def buckets_of_two_rounds(patch: Patch) -> None:
    """A bucket below the minimum takes the bundles of the next round as well."""

    def turn(buckets: Buckets, task: TaskRow, contract: Contract, *rest: Any, **options: Any) -> bool:
        database, epoch = buckets._database, rest[1]
        database.run("UPDATE tasks SET round = ? WHERE number = ?", contract.round_of(epoch), task.number)
        return True

    patch.setattr(Buckets, "turn", turn)


def a_ledger_in_the_store_only(patch: Patch) -> None:
    def rounds(ledger: RoundLedger, task: bytes) -> frozenset[int]:
        rows = ledger._database.rows("SELECT DISTINCT round FROM ledger WHERE task = ?", task)
        return frozenset(number for (number,) in rows)

    patch.setattr(RoundLedger, "rounds", rounds)


def tickets_of_any_round(patch: Patch) -> None:
    """Bundles are bound to their round, tickets to the task only."""

    def verifier(tasks: TaskRegistry, contract: Contract, number: int) -> AnyRound:
        return AnyRound(tasks, contract)

    patch.setattr(TaskRegistry, "_verifier", verifier)


class AnyRound:
    """A check that accepts the tickets of all rounds."""

    def __init__(self, tasks: TaskRegistry, contract: Contract) -> None:
        keys = tasks._context.ticket_keys
        self.all = [admissions.verifier(contract.admission, context, keys) for context in contract.contexts]

    def valid(self, admission: bytes) -> bool:
        return any(one.valid(admission) for one in self.all)

    def token_id(self, admission: bytes) -> bytes:
        return self.all[0].token_id(admission)


SERIES_DEFECTS: list[tuple[Callable[[Patch], None], str]] = [
    (rounds_without_a_limit, "beyond the contract's were spent"),
    (buckets_of_two_rounds, "honest people were rejected|twice"),
    (a_ledger_in_the_store_only, "forgotten"),
    (tickets_of_any_round, "ticket of another round was accepted|twice"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "message"), SERIES_DEFECTS, ids=[one[0].__name__ for one in SERIES_DEFECTS])
def test_the_simulation_finds_a_defect_of_series(
    defect: Callable[[Patch], None], message: str, monkeypatch: Patch
) -> None:
    defect(monkeypatch)
    assert re.search(message, _first_failure())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10_089, 10_119])
def test_the_simulation_finds_a_gap_that_names_sealed_buckets_only(seed: int, monkeypatch: Patch) -> None:
    """The reports of the bucket that was open when the store was lost are then in no gap.

    The bucket before it had been shuffled in the first sequence, and only sealed in the second.
    """

    def last_sealed(buckets: Buckets, task: bytes) -> int:
        return buckets._credentials.fence().sealed.get(task.hex(), 0)

    monkeypatch.setattr(Buckets, "last_opened", last_sealed)
    with pytest.raises(AssertionError, match="is lost"):
        Simulation(seed).run(40)


def _first_failure() -> str:
    """Return the error of the first of a few sequences that fails."""
    for seed in range(60):
        try:
            Simulation(seed).run(40)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    raise AssertionError("the defect was not found")


DEFECTS: list[tuple[int, Callable[[Patch], None], str]] = [
    (1, no_pins, "other bytes under a known key id|honest people were rejected"),
    (2, no_restore_detection, "accepted a bundle that may have been counted|in common|twice"),
    (3, no_leases, ""),
    (4, no_key_retention, "expired|was withheld|rejected"),
    (5, close_destroys, "destroyed by close"),
    (6, every_bad_slot_is_a_client, "good people was withheld"),
    (8, one_failure_stops_all, "due was not released"),
    (10, one_suite_only, ""),
    (11, one_identity_only, "signed by its operator|identity"),
    (12, lists_without_dates, "expired"),
    (14, epochs_only_grow, "not released"),
    (15, tickets_are_not_spent, "admitted two bundles|answered twice"),
    (15, open_admission, "open admission was served"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "defect", "message"), DEFECTS, ids=[f"{one[0]}-{one[1].__name__}" for one in DEFECTS]
)
def test_the_simulation_finds_defect(
    number: int, defect: Callable[[Patch], None], message: str, monkeypatch: Patch
) -> None:
    """With the fix of a defect taken out, one of a few sequences fails, and for that reason."""
    defect(monkeypatch)
    for seed in range(40):
        try:
            Simulation(seed).run(40)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            assert re.search(message, found), f"defect {number} was found for another reason: {found}"
            return
    raise AssertionError(f"defect {number} was not found")
