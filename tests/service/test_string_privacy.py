"""Stores, metrics, manifests and results of strings reveal no hidden one, and restored backups draw nothing anew."""

import contextlib
import secrets
import time
from pathlib import Path
from typing import Any

import pytest
from tests.service.string_system import StringSystem
from tests.service.test_string_batches import numbers, open_counts, released

from hubbub.errors import FalseClaim, Problem, StoreFailure
from hubbub.model.fakes import Fakes
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.metrics import Metrics, TaskMetrics
from hubbub.service.shuffler.blocks import (
    COUNTERS_TABLE,
    SlotCipher,
    Subtraction,
    add_slots,
    read_slots,
    release_seconds,
    seed_secret,
    shown_slots,
)
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Manifest

CANARY = "canary-of-one-holder"
VALUES: list[str | None] = ["crash at 0x1f"] * 40 + ["out of memory"] * 25 + [None] * 4


def stored_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_string_of_one_holder_is_found_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    system = StringSystem(tmp_path)
    transport = system.transport()
    sender = system.uploader(transport)
    values = [*VALUES, CANARY]
    sender.prepare(values, system.admissions(range(len(values))))
    sender.send()
    slot = next(one for one, people in open_counts(system) if people == 1 and opens_to(system, one, CANARY))
    texts = [CANARY.encode(), CANARY.encode().hex().encode()]
    sealed = [slot, slot.hex().encode()]

    def search() -> None:
        for place, data in stored_bytes(tmp_path).items():
            # Not even its seal: the rows of the shuffler are encrypted once more.
            for needle in (*texts, *sealed):
                assert needle not in data, place

    search()
    system.clock.advance(60)
    system.shuffler.tick()
    search()
    system.shuffler.shuffle()
    search()
    # The control: a slot that is shown is in the chunks that wait for their delivery.
    shown = released(system, "")[0][0]
    assert any(shown in data for data in stored_bytes(tmp_path).values())
    system.deliver()
    (result,) = system.results()
    assert set(numbers(result)) == {"crash at 0x1f", "out of memory"}
    search()
    for kind, body in transport.seen:
        assert not any(text in body for text in texts), kind
    assert CANARY not in caplog.text
    # A string that is shown is where it must be.
    assert any(b"out of memory" in data for place, data in stored_bytes(tmp_path).items() if "analyzer" in place)
    system.shut()


def opens_to(system: StringSystem, slot: bytes, text: str) -> bool:
    from hubbub.service.analyzer.shown import open_rows

    ring = system.analyzer.keyring
    pair = (ring.private(1), ring.public_keys()[0].public)
    found = open_rows(slot + (1).to_bytes(8, "big"), system.contract, 1, pair, 10)
    return any(text.encode() in body for body, _ in found.rows)


def test_metrics_and_manifests_do_not_depend_on_one_hidden_string(tmp_path: Path) -> None:
    """Two stores that differ in one person's string, one of them with one more distinct slot, under the same seed."""
    seen, distinct = [], list[int]()
    for number, last in enumerate(("crash at 0x1f", CANARY, "another canary")):
        folder = tmp_path / str(number)
        folder.mkdir()
        system = StringSystem(folder)
        system.people([*VALUES, *["other"] * 5, last])
        before = exported(system)
        distinct.append(len(list(read_slots(system.shuffler.store.jobs, 1, 1))))
        system.credentials.create(seed_secret(system.contract.task, 1), bytes(32))
        (batch,) = system.next_epoch()
        rows = [people for _, people in released(system, batch)]
        document = system.shuffler.store.buckets(system.shuffler.tasks.rows(), "shuffled")[0].manifest
        assert document is not None
        manifest = Manifest.read(SignedDocument.from_json(document), system.contract.shuffler)
        about = (
            manifest.bucket,
            manifest.epoch,
            manifest.bundles,
            manifest.slots,
            manifest.sizes,
            len(manifest.chunks),
        )
        seen.append((before, exported(system), about, len(rows)))
        system.shut()
    assert distinct[1] == distinct[2] == distinct[0] + 1
    assert seen[0] == seen[1] == seen[2]


def exported(system: StringSystem) -> str:
    """Return all that the shuffler exports about its tasks, without the ids of tasks."""
    from dataclasses import asdict

    from prometheus_client import generate_latest

    metrics = Metrics()
    figures = {
        task: TaskMetrics(1, system.contract.min_batch_size, asdict(counts), counts.error)
        for task, counts in system.shuffler.totals(check=True).items()
    }
    metrics.update(figures, {})
    incidents = dict(system.shuffler.incidents.counts)
    return generate_latest(metrics.registry).decode().replace(system.contract.id, "TASK") + str(incidents)


@pytest.mark.parametrize("distinct", [1, 300])
def test_a_batch_leaves_after_a_time_that_depends_on_the_number_of_people(tmp_path: Path, distinct: int) -> None:
    """The analyzer knows when an epoch ends; the time of a counter each would tell it how many strings there are."""
    system = StringSystem(tmp_path)
    slots = [secrets.token_bytes(system.contract.slot_size) for _ in range(distinct)]
    people = 1500
    system.people(VALUES)
    database, secret = system.shuffler.store.jobs, system.credentials.read(f"bucket-{system.contract.id}-1")
    assert secret is not None
    with database.transaction():
        add_slots(database, 1, 1, 9, [slots[place % distinct] for place in range(people)], SlotCipher(secret))
    system.clock.advance(60)
    system.shuffler.tick()
    database.run("UPDATE buckets SET bundles = bundles + ? WHERE bucket = 1", people)
    begun = time.monotonic()
    (batch,) = system.shuffler.shuffle()
    taken, allowed = time.monotonic() - begun, release_seconds(people + len(VALUES), 0.0)
    assert taken >= allowed > 0.15
    # Counters are deleted after the batch has left: that takes a time for each of them, too.
    assert len(list(read_slots(database, 1, 1))) >= distinct
    assert released(system, batch)
    system.shuffler.deliver(system.link)
    assert list(read_slots(database, 1, 1)) == []
    system.shut()


def test_a_string_changes_only_its_own_rows(tmp_path: Path) -> None:
    """Exactly, not only in distribution: every slot's draw is a function of the seed and of the slot alone."""
    fakes = Fakes.laplace(2.0, shift=20)
    draws, cipher = Subtraction(bytes(32), fakes), SlotCipher(bytes(32))
    held = {f"slot {number}".encode(): 10 + number for number in range(40)}

    def release(counts: dict[bytes, int]) -> dict[bytes, int]:
        database = open_database("sqlite::memory:")
        database.create([COUNTERS_TABLE[0]])
        with database.transaction():
            for number, (slot, people) in enumerate(counts.items()):
                add_slots(database, 1, 1, number % 3, [slot] * people, cipher)
        shown = shown_slots(read_slots(database, 1, 1), cipher, draws, sum(counts.values()))
        assert shown == sorted(shown)
        database.close()
        return dict(shown)

    before = release(held)
    for slot in list(held)[::13]:
        moved = {**held, slot: held[slot] - 1, b"new": 1}
        after = release(moved)
        assert {one: left for one, left in after.items() if one not in (slot, b"new")} == {
            one: left for one, left in before.items() if one != slot
        }
    assert b"new" not in release({**held, b"new": 1})


def test_draws_have_the_distribution_of_the_plan() -> None:
    """A chi-square test of the derived draws against the distribution, with a control that must fail."""
    fakes = Fakes.laplace(0.8, shift=3)
    draws = Subtraction(bytes(range(32)), fakes)
    count = 6000
    found = [draws.number(number.to_bytes(4, "big")) for number in range(count)]

    def statistic(expected: list[float]) -> float:
        cells = [(sum(one == value for one in found), count * chance) for value, chance in enumerate(expected)]
        kept = [(seen, mean) for seen, mean in cells if mean >= 5]
        rest = count - sum(seen for seen, _ in kept), count - sum(mean for _, mean in kept)
        pairs = [*kept, *([rest] if rest[1] >= 5 else [])]
        return sum((seen - mean) ** 2 / mean for seen, mean in pairs) / len(pairs)

    pmf = [float(one) for one in fakes.pmf]
    assert statistic(pmf) < 3
    assert statistic([*pmf[1:], 0.0]) > 30


@pytest.mark.parametrize("state", ["open", "sealed", "shuffled"])
def test_a_restored_backup_gives_the_same_bytes_or_is_refused(tmp_path: Path, state: str) -> None:
    system = StringSystem(tmp_path)
    system.people(VALUES)
    backup = system.back_up() if state == "open" else None
    system.clock.advance(60)
    system.shuffler.tick()
    backup = system.back_up() if state == "sealed" else backup
    system.shuffler.shuffle()
    backup = system.back_up() if state == "shuffled" else backup
    first = released(system, "")
    assert len(first) == 2
    assert backup is not None
    system.restore(backup)
    system.shuffler.fetch_keys(system.link)
    if state == "open":
        # Its people were in a bucket that was sealed: they are never drawn for again.
        system.next_epoch()
        assert released(system, "") == []
        assert system.counts().fenced == len(VALUES)
        system.people(VALUES, first=1000)
        system.next_epoch()
        system.deliver()
        assert [one["bucket"] for one in system.results()] == [3]
    else:
        system.shuffler.shuffle()
        assert released(system, "") == first
        system.deliver()
        (result,) = system.results()
        assert sorted(numbers(result).values()) == sorted(people for _, people in first)
    system.shut()


def test_a_batch_that_left_is_never_replaced_by_another(tmp_path: Path) -> None:
    """The digest of the announced batch is pinned outside the store: other counters of its bucket are not announced."""
    system = StringSystem(tmp_path)
    system.people(VALUES)
    system.clock.advance(60)
    system.shuffler.tick()
    backup = system.back_up()
    system.shuffler.shuffle()
    system.shuffler.deliver(system.link)
    system.restore(backup)
    database = system.shuffler.store.jobs
    database.run("UPDATE slot_counts SET people = people + 1 WHERE people = 40")
    database.run("UPDATE slot_counts SET people = people - 1 WHERE people = 25")
    system.shuffler.fetch_keys(system.link)
    system.shuffler.shuffle()
    system.count()
    with contextlib.suppress(FalseClaim, Problem):
        system.shuffler.deliver(system.link)
    results = system.results()
    assert [sorted(numbers(one)) for one in results] == [["crash at 0x1f", "out of memory"]]
    assert system.counts().committed == len(VALUES)
    system.shut()


def test_counters_that_lost_rows_are_not_released(tmp_path: Path) -> None:
    system = StringSystem(tmp_path)
    system.people(VALUES)
    system.clock.advance(60)
    system.shuffler.tick()
    system.shuffler.store.jobs.run("DELETE FROM slot_counts WHERE people = 25")
    with pytest.raises(StoreFailure, match="as many people as its bundles"):
        system.shuffler.shuffle()
    assert released(system, "") == []
    system.shut()


def test_secrets_of_a_delivered_bucket_are_erased(tmp_path: Path) -> None:
    system = StringSystem(tmp_path)
    system.people(VALUES)
    system.next_epoch()
    system.deliver()
    system.shuffler.shuffle()
    names = Credentials(tmp_path / "shuffler-credentials", "shuffler").names("")
    assert not [name for name in names if name.startswith(("seed-", "bucket-")) and name.endswith("-1")]
    assert list(read_slots(system.shuffler.store.jobs, 1, 1)) == []
    system.shut()


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([(0, 0)], "bad_number"),
        ([(0, 2**63)], "bad_number"),
        ([(0, 5), (0, 5)], "repeated"),
    ],
)
def test_rows_that_no_shuffler_sends_are_rejected(tmp_path: Path, rows: list[Any], reason: str) -> None:
    from hubbub.service.analyzer.shown import ShownStrings, open_rows

    system = StringSystem(tmp_path)
    system.people(VALUES)
    slots = sorted(slot for slot, people in open_counts(system) if people > 1)
    ring = system.analyzer.keyring
    data = b"".join(slots[place] + people.to_bytes(8, "big") for place, people in rows)
    found = open_rows(data, system.contract, 1, (ring.private(1), ring.public_keys()[0].public), 69)
    assert ShownStrings.add_up([found]).rejected == {reason: 1}
    assert open_rows(data, system.contract, 1, None, 69).rejected == {"cannot_open": len(rows)}
    system.shut()
