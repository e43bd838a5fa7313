"""The journal: what is stored leaves nothing behind in its files, whatever happened before, and old journals go on."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.service.admissions import BY_TICKET, TICKET_KEY
from tests.service.string_system import StringSystem
from tests.service.system import System, clear_plan
from tests.service.test_uploader import Wire

from hubbub.errors import InvalidInput
from hubbub.service.journal import Answer, Journal
from hubbub.service.task.admission import Admission
from hubbub.service.uploader import Uploader

PEOPLE = 400


@pytest.fixture
def system(tmp_path: Path) -> StringSystem:
    return StringSystem(tmp_path)


def canaries(system: StringSystem, count: int) -> list[bytes]:
    """Return payloads of strings, every one of which is found again if it is in a file."""
    source = random.Random(7)
    size = system.contract.plan.payload
    return [b"canary" + source.randbytes(size - 6) for _ in range(count)]


def files(path: Path) -> bytes:
    """Return the bytes of all files of a journal."""
    return b"".join(one.read_bytes() for one in sorted(path.parent.glob(f"{path.name}*")))


def seal(journal: Journal, system: StringSystem, numbers: list[int]) -> None:
    source = random.Random(numbers[0])
    journal.seal([(number, source.randbytes(system.contract.bundle_size)) for number in numbers], b"keys")


def test_nothing_about_a_stored_answer_is_left_in_any_file(system: StringSystem, tmp_path: Path) -> None:
    """Regression: copies of strings stayed behind in pages from which SQLite had moved them."""
    path, texts = tmp_path / "sent.journal", canaries(system, PEOPLE)
    journal = Journal(path, system.contract)
    journal.fill(Answer(text, TICKET_KEY.mint(bytes(16), str(n)) * 2, bytes(32)) for n, text in enumerate(texts))
    for start in range(0, PEOPLE, 64):
        seal(journal, system, [n + 1 for n in range(PEOPLE)][start : start + 64])
    again = random.Random(3).sample(range(1, PEOPLE + 1), 60)
    for number in again:
        journal.unseal(number, bytes(31) + b"\1")
    seal(journal, system, again)
    order = random.Random(5).sample(range(1, PEOPLE + 1), PEOPLE)
    for start in range(0, PEOPLE, 37):
        settled = order[start : start + 37]
        journal.settle(settled, "stored")
        data = files(path)
        # At once, while all others are still waiting.
        assert not [number for number in settled if texts[number - 1] in data]
    journal.close()
    data = files(path)
    assert b"canary" not in data
    assert not [n for n in range(PEOPLE) if TICKET_KEY.mint(bytes(16), str(n)) in data]


def test_a_crash_at_any_step_leaves_nothing_behind_that_the_next_run_does_not_erase(
    system: StringSystem, tmp_path: Path
) -> None:
    path, texts = tmp_path / "sent.journal", canaries(system, 40)
    copies: list[Path] = []
    journal = Journal(path, system.contract)

    def snapshot(_: str) -> None:
        """Keep the files as they are before a statement, in the middle of a transaction or not."""
        folder = tmp_path / f"copy-{len(copies)}"
        folder.mkdir()
        for one in path.parent.glob(f"{path.name}*"):
            shutil.copy(one, folder / one.name)
        copies.append(folder / path.name)

    journal._store.execute("PRAGMA cache_size = 1")
    journal._store.set_trace_callback(snapshot)
    journal.fill(Answer(text, bytes(64), bytes(32)) for text in texts)
    seal(journal, system, list(range(1, 41)))
    journal.unseal(7, bytes(31) + b"\1")
    seal(journal, system, [7])
    journal.settle(range(1, 31), "stored")
    journal.refuse(31, "bad-token")
    journal.refuse(32, "uncertain")
    journal.resume()
    journal.settle(range(31, 41), "stored")
    journal.close()
    assert len(copies) > 100
    for copy in copies[:: len(copies) // 40]:
        found = Journal(copy, system.contract)
        found.settle(range(1, len(found) + 1), "stored")
        found.close()
        assert b"canary" not in files(copy)


OLD = (
    "CREATE TABLE contract (task BLOB NOT NULL, round INTEGER NOT NULL)",
    "CREATE TABLE answers (no INTEGER PRIMARY KEY, messages BLOB, admission BLOB, pending BLOB, code TEXT, "
    "bundle BLOB, state TEXT, sealed_to BLOB)",
)


@pytest.mark.parametrize("admission", [Admission(), BY_TICKET], ids=["open", "ticket"])
def test_a_journal_of_the_previous_version_goes_on(tmp_path: Path, admission: Admission) -> None:
    """Its bundles are not taken any more: with a ticket they are sealed again, otherwise they may be counted."""
    system = System(tmp_path, plan=clear_plan(4, 100), admission=admission)
    path, open_to_all = tmp_path / "sent.journal", admission.kind == "open"
    tickets = [b"" if open_to_all else TICKET_KEY.mint(system.contract.task, str(one)) for one in range(3)]
    # The previous version has stored the first of them, and its response was lost.
    if not open_to_all:
        system.upload(system.client.seal("1", tickets[0]))
    old = sqlite3.connect(path)
    for statement in OLD:
        old.execute(statement)
    old.execute("INSERT INTO contract VALUES (?, 1)", (system.contract.task,))
    for ticket, bundle in zip(tickets, (b"HBB2 first", b"HBB2 second", None), strict=True):
        values = (b"\1", ticket, None, None, bundle, "waiting")
        old.execute("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?, ?, NULL)", values)
    old.execute("INSERT INTO answers (state) VALUES ('stored')")
    old.commit()
    old.close()
    journal = Journal(path, system.contract)
    sender = Uploader(system.contract, Wire(system), journal, pause=lambda _: None, now=system.clock.now)
    outcome = sender.send()
    assert (outcome.stored, outcome.uncertain, outcome.refused) == ((2, 2, {}) if open_to_all else (4, 0, {}))
    assert system.counts().accepted == (1 if open_to_all else 3)
    journal.close()
    assert sum(Journal(path, system.contract).states().values()) == 4
    system.shut()


def test_two_runs_do_not_use_one_journal_at_once(tmp_path: Path) -> None:
    """Regression: both found it empty and filled it, each with ids of its own, so that everybody counted twice."""
    system = System(tmp_path, plan=clear_plan(4, 100), admission=Admission())
    path = tmp_path / "sent.journal"
    journal = Journal(path, system.contract)
    with pytest.raises(InvalidInput, match="one run at a time"):
        Journal(path, system.contract)
    sender = Uploader(system.contract, Wire(system), journal, pause=lambda _: None, now=system.clock.now)
    sender.prepare([1, 2])
    with pytest.raises(InvalidInput, match="one run at a time"):
        Journal(path, system.contract)
    assert sender.send().stored == 2
    journal.close()
    assert Journal(path, system.contract).states() == {"stored": 2}
    system.shut()


def test_a_sealed_answer_keeps_no_blind(system: StringSystem, tmp_path: Path) -> None:
    path = tmp_path / "sent.journal"
    journal = Journal(path, system.contract)
    journal.fill([Answer(b"\1", bytes(64), b"blinded by canary")])
    assert b"canary" in files(path)
    seal(journal, system, [1])
    assert (journal.read(1).pending, b"canary" in files(path)) == (b"", False)
    journal.close()


def test_the_file_of_the_previous_version_keeps_nothing_that_was_deleted(tmp_path: Path) -> None:
    system, path = System(tmp_path, plan=clear_plan(4, 100)), tmp_path / "sent.journal"
    old = sqlite3.connect(path)
    old.execute("PRAGMA secure_delete = off")
    for statement in OLD:
        old.execute(statement)
    old.execute("INSERT INTO contract VALUES (?, 1)", (system.contract.task,))
    for content in (b"\1", b"canary" * 20_000):
        values = (content, bytes(32), None, None, None, "waiting")
        old.execute("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?, ?, NULL)", values)
    old.execute("DELETE FROM answers WHERE no = 2")
    old.commit()
    old.close()
    assert b"canary" in files(path)
    journal = Journal(path, system.contract)
    assert b"canary" not in files(path)
    assert journal.states() == {"waiting": 1}
    journal.close()
    system.shut()


def test_only_the_owner_reads_a_journal(system: StringSystem, tmp_path: Path) -> None:
    path = tmp_path / "sent.journal"
    Journal(path, system.contract).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_an_uncertain_answer_only_the_bundle_is_kept(system: StringSystem, tmp_path: Path) -> None:
    path = tmp_path / "sent.journal"
    journal = Journal(path, system.contract)
    journal.fill([Answer(b"canary" * 9, b"canary" * 9)])
    seal(journal, system, [1])
    bundle = journal.read(1).bundle
    journal.refuse(1, "uncertain")
    assert journal.read(1) == Answer(b"", bundle=bundle)
    assert b"canary" not in files(path)
    journal.close()


def test_a_journal_knows_that_an_earlier_bundle_was_sent(system: StringSystem, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "sent.journal", system.contract)
    journal.fill([Answer(b"\1", bytes(64), bytes(32))] * 2)
    seal(journal, system, [1, 2])
    assert not journal.sealed_again(1)
    journal.unseal(1, bytes(32))
    seal(journal, system, [2])
    assert [journal.sealed_again(number) for number in (1, 2)] == [True, True]
    journal.close()


def test_rows_never_change_their_size(system: StringSystem, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "sent.journal", system.contract)
    journal.fill([Answer(bytes(n), bytes(64), bytes(32)) for n in (1, 200)])
    sizes = "SELECT LENGTH(data) FROM contents ORDER BY no"
    before = journal._store.execute(sizes).fetchall()
    seal(journal, system, [1, 2])
    journal.unseal(1, bytes(32))
    assert journal._store.execute(sizes).fetchall() == before
    journal.settle([1, 2], "stored")
    assert journal._store.execute(sizes).fetchall() == before
    journal.close()
