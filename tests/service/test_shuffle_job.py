"""The shuffle job: streaming, repeatable to the byte, and safe to kill at every step."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.crashes import Killed, killed_at
from tests.service.shuffler_system import EPOCH, System, plan_of

from hubbub.bits.permutation import shuffle_external
from hubbub.errors import StoreFailure
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.runtime.workers import seal_reports
from hubbub.service.shuffler import shuffle
from hubbub.service.shuffler.blocks import BlockCipher, ScratchFile
from hubbub.service.shuffler.store import Counts

FAKES = plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70)), delta=1e-6)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:{folder}/{role}.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def system(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """Return a system with small blocks and chunks, so that a batch has several of both."""
    monkeypatch.setattr(shuffle, "CHUNK_BYTES", 5_000)
    monkeypatch.setattr(shuffle, "BLOCK_SIZE", 5_000)
    monkeypatch.setattr("hubbub.service.shuffler.blocks.BLOCK_SIZE", 5_000)
    found = System(tmp_path, plan=FAKES, url=url)
    found.fill(110)
    found.clock.advance(EPOCH)
    yield found
    found.shut()


def stored(system: System, table: str, *columns: str) -> dict[Any, Any]:
    key, value = columns
    rows = system.shuffler.store.jobs.rows(f"SELECT {key}, {value} FROM {table}")
    return {bytes(one) if isinstance(one, memoryview) else one: bytes(data) for one, data in rows}


def revive(system: System) -> None:
    """Start a new process after a kill; the leases of the dead one have ended."""
    system.clock.advance(EPOCH)
    system.start()


STEPS = (
    *("release-begun", "release-sealed", "release-committed", "secret-created"),
    *("shuffle-fenced", "fence-raised", "shuffle-fakes", "shuffle-fakes-stored", "shuffle-chunk", "shuffle-signed"),
    *("shuffle-committed", "sweep-slice", "deliver-manifest", "deliver-chunk", "deliver-chunk-sent"),
    *("deliver-receipt", "deliver-erased", "deliver-committed", "sweep-erased", "secret-erased"),
)


@pytest.mark.parametrize("point", STEPS)
@pytest.mark.parametrize("visit", [1, 3])
def test_a_kill_at_any_step_changes_no_byte_and_counts_once(system: System, point: str, visit: int) -> None:
    with killed_at(system, point, visit) as reached:
        system.shuffler.tick()
        system.shuffler.shuffle()
        for _ in range(3):
            system.shuffler.deliver(system.analyzer)
    if not reached[0]:
        assert visit > 1
    else:
        revive(system)
    fakes = stored(system, "blocks", "id", "data")
    chunks = stored(system, "outbox", "chunk", "data")
    system.shuffler.tick()
    system.shuffler.shuffle()
    after = stored(system, "outbox", "chunk", "data")
    if after:
        assert {index: after[index] for index in chunks} == chunks
    blocks = stored(system, "blocks", "id", "data")
    assert all(fakes[key] == data for key, data in blocks.items() if key in fakes)
    system.deliver()
    assert system.counts() == Counts(accepted=110, committed=110)
    (batch,) = system.analyzer.results()
    assert batch.rejected == 0
    # Whatever was sent, and however often, it was the same.
    assert len(set(system.analyzer.announcements)) == 1
    assert all(len(data) == 1 for data in system.analyzer.seen.values())
    assert max(system.analyzer.slots.values()) == 1
    system.shuffler._restores.tidy()
    assert system.credentials.names("seed-") == []


def test_a_second_process_gets_the_same_bytes(tmp_path: Path) -> None:
    """The same store, copied after the fakes were sealed, gives the same chunks."""
    system = System(tmp_path, plan=FAKES)
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    with killed_at(system, "shuffle-fakes-stored"):
        system.shuffler.shuffle()
    system.start()
    backup = system.back_up()
    manifests = []
    for _ in range(2):
        system.shuffler.shuffle()
        manifests.append(system.shuffler._deliveries._waiting()[0].manifest)
        chunks = stored(system, "outbox", "chunk", "data")
        system.kill()
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"shuffler.db{suffix}").unlink(missing_ok=True)
        shutil.copy(backup, tmp_path / "shuffler.db")
        system.start()
        assert chunks
    assert manifests[0] == manifests[1] is not None
    system.shut()


def test_the_draw_is_a_function_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the fakes are stored, the job draws the same numbers and payloads again."""
    system = System(tmp_path, plan=FAKES)
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    drawn: list[Any] = []

    def watched(payloads: Any, *arguments: Any) -> Any:
        drawn.append(payloads.copy())
        if len(drawn) < 3:
            raise Killed
        return seal_reports(payloads, *arguments)

    monkeypatch.setattr(shuffle, "seal_reports", watched)
    for _ in range(2):
        with pytest.raises(Killed):
            system.shuffler.shuffle()
    assert len(system.shuffler.shuffle()) == 1
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    system.shut()


def test_another_seed_under_the_same_name_is_never_used(system: System) -> None:
    """It would be a second draw: the bucket counts as one whose seed is gone."""
    system.shuffler.tick()
    name = f"seed-{system.contract.id}-1"
    system.credentials.erase(name)
    system.credentials.create(name)
    assert system.shuffler.shuffle() == []
    system.deliver()
    assert system.counts() == Counts(accepted=110, fenced=110)


def test_defect_9_the_job_streams_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the bucket, no array and no statement of the job is larger than its small memory."""
    memory = 1 << 16
    monkeypatch.setattr(shuffle, "CHUNK_BYTES", 4_000)
    monkeypatch.setattr(shuffle, "BLOCK_SIZE", 4_000)
    monkeypatch.setattr(shuffle, "_IN_MEMORY", 0)
    monkeypatch.setattr("hubbub.service.shuffler.blocks.BLOCK_SIZE", 4_000)
    system = System(tmp_path, plan=plan_of(), options={"memory": memory, "scratch": tmp_path})
    rows = [(1, 1, *_block(system, number)) for number in range(40)]
    system.shuffler.store.jobs.insert("blocks", rows)
    system.shuffler.store.jobs.insert("counts", [(1, 1, 0, 40 * 70)])
    ids = [(1, number.to_bytes(16, "big")) for number in range(40 * 70)]
    system.shuffler.store.jobs.insert("accepted_bundles", ids)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    largest = [0]
    slots, concatenate = shuffle._slots, np.concatenate

    def watched(texts: list[bytes], size: int) -> Any:
        largest[0] = max(largest[0], sum(map(len, texts)))
        return slots(texts, size)

    def joined(parts: Any) -> Any:
        found = concatenate(parts)
        largest[0] = max(largest[0], found.nbytes)
        return found

    def external(blocks: Any, scratch: Any, **options: Any) -> Iterator[Any]:
        # All that the permutation holds at a time is bounded by this argument (hubbub.bits.permutation).
        assert options["memory"] == memory
        yield from shuffle_external(blocks, scratch, **options)

    monkeypatch.setattr(shuffle, "shuffle_external", external)
    monkeypatch.setattr(shuffle, "_slots", watched)
    monkeypatch.setattr(np, "concatenate", joined)
    assert len(system.shuffler.shuffle()) == 1
    monkeypatch.undo()
    total = 40 * 70 * system.contract.slot_size
    assert largest[0] <= memory < total / 2
    chunks = stored(system, "outbox", "chunk", "data")
    assert max(map(len, chunks.values())) <= 4_000
    assert sum(map(len, chunks.values())) == total
    system.deliver()
    assert system.counts() == Counts(accepted=2800, committed=2800)
    system.shut()


def _block(system: System, number: int) -> tuple[bytes, int, bytes]:
    secret = system.credentials.read(f"bucket-{system.contract.id}-1")
    assert secret is not None
    size = system.contract.slot_size
    bundles = [[bytes([number, place]) + bytes(size - 2)] for place in range(70)]
    (block,) = BlockCipher(secret).seal(bundles)
    return block


def test_defect_13_a_bucket_waits_for_free_disk(url: str, tmp_path: Path) -> None:
    free_space = [1_000.0]
    system = System(tmp_path, plan=FAKES, url=url, options={"free_space": lambda: free_space[0]})
    system.fill(110)
    system.next_epoch()
    assert system.shuffler.incidents.counts["disk"] == 1
    assert system.counts() == Counts(accepted=110, sealed=110)
    system.fill(5)
    free_space[0] = 1e9
    assert len(system.shuffler.shuffle()) == 1
    system.deliver()
    assert system.counts() == Counts(accepted=115, committed=110, open=5)
    system.shut()


def test_a_damaged_block_stops_its_bucket(system: System) -> None:
    system.shuffler.tick()
    database = system.shuffler.store.jobs
    ((one, data),) = database.rows("SELECT id, data FROM blocks WHERE bundles > 0 LIMIT 1")
    torn = bytes(data)[:-1] + bytes([bytes(data)[-1] ^ 1])
    database.run("UPDATE blocks SET data = ? WHERE id = ?", torn, one)
    with pytest.raises(StoreFailure, match="damaged"):
        system.shuffler.shuffle()
    database.run("DELETE FROM blocks WHERE id = ?", one)
    with pytest.raises(StoreFailure, match=r"a bucket of 110 bundles has blocks of \d+"):
        system.shuffler.shuffle()


def test_chunks_of_another_version_are_made_again(system: System) -> None:
    """The manifest is not signed, so nothing of them has left."""
    system.shuffler.tick()
    with killed_at(system, "shuffle-chunk"):
        system.shuffler.shuffle()
    revive(system)
    system.shuffler.store.jobs.run("UPDATE outbox SET data = ?", b"another order")
    assert system.shuffler.shuffle() == []
    assert len(system.shuffler.shuffle()) == 1
    system.deliver()
    assert system.counts() == Counts(accepted=110, committed=110)


def test_stored_slots_show_neither_order_nor_bundles(system: System) -> None:
    """A block is unreadable without its secret; inside, the slots are sorted by their random bytes."""
    blocks = stored(system, "blocks", "id", "data")
    size = system.contract.slot_size
    secret = system.credentials.read(f"bucket-{system.contract.id}-1")
    assert secret is not None
    for block_id, data in blocks.items():
        text = BlockCipher(secret).open(block_id, 10, data)
        slots = [text[start : start + size] for start in range(0, len(text), size)]
        assert slots == sorted(slots)
        assert not any(slot in data for slot in slots)
        with pytest.raises(StoreFailure):
            BlockCipher(bytes(32)).open(block_id, 10, data)
        with pytest.raises(StoreFailure):
            BlockCipher(secret).open(block_id, 11, data)


def test_scratch_files_hold_no_slot_in_clear(tmp_path: Path) -> None:
    with ScratchFile(tmp_path) as file:
        file.write(b"sealed slot" * 100)
        file._file.flush()
        raw = Path(f"/proc/self/fd/{file._file.fileno()}").read_bytes()
        assert len(raw) == 1100
        assert b"sealed" not in raw
        file.seek(0)
        assert file.read(11) == b"sealed slot"
        with pytest.raises(OSError, match="from its start"):
            file.seek(1)
    assert list(tmp_path.iterdir()) == []


def test_fakes_that_are_sealed_again_after_a_restore_use_another_nonce(tmp_path: Path) -> None:
    """Regression: the nonce of a block of fakes followed from the seed, while its content is sealed at random."""
    system = System(tmp_path, plan=FAKES, options={"free_space": lambda: -1.0})
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    backup = system.back_up()
    nonces: list[set[bytes]] = []
    for restores in (True, False):
        # The disk is full: the fakes are stored, and the shuffle waits.
        system.shuffler.shuffle()
        rows = system.shuffler.store.jobs.rows("SELECT id FROM blocks WHERE bundles = 0")
        nonces.append({bytes(block_id)[:12] for (block_id,) in rows})
        if restores:
            system.restore(backup)
    assert nonces[0]
    assert not nonces[0] & nonces[1]
    system.shut()
