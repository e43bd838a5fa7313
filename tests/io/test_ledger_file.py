"""Ledgers in files: what was begun counts, and a changed, truncated or restored file is noticed."""

import json
import shutil
from pathlib import Path

import pytest

import hubbub as hb
from hubbub.accountant.device_ledger import DeviceLedger
from hubbub.io import chains
from hubbub.io.chains import FileAnchor
from hubbub.io.ledgers import LedgerFile

PLAN = hb.plan_from(hb.Schema.bits(1), 10_000, hb.Protocol(0.1), delta=1e-8)
BUDGET = hb.Budget(0.5, 1e-6)


@pytest.fixture(params=[hb.Ledger, DeviceLedger])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerFile[hb.Ledger]:
    """Return a file with two charges."""
    file: LedgerFile[hb.Ledger] = LedgerFile(tmp_path / "people.ledger", request.param)
    file.create(BUDGET)
    file.charge(PLAN, collection="week 1")
    file.charge(PLAN, collection="week 2", rounds=2)
    return file


def lines(tmp_path: Path) -> list[bytes]:
    return (tmp_path / "people.ledger").read_bytes().splitlines(keepends=True)


def test_a_file_keeps_every_charge(kept: LedgerFile[hb.Ledger]) -> None:
    ledger = kept.read()
    assert [(one.name.partition("/")[2], one.rounds) for one in ledger.charges] == [("week 1", 1), ("week 2", 2)]
    assert ledger.total() == ledger.__class__(budget=BUDGET).add(hb.Charge.of(PLAN, rounds=3)).total()


def test_a_doubled_charge_is_refused_or_recognized_as_a_retry(kept: LedgerFile[hb.Ledger]) -> None:
    with pytest.raises(hb.AlreadyCharged, match="week 1"):
        kept.charge(PLAN, collection="week 1")
    before = kept.read()
    assert kept.charge(PLAN, collection="week 1", again=True) == before
    with pytest.raises(hb.AlreadyCharged):
        kept.charge(PLAN, collection="week 1", rounds=2, again=True)
    assert kept.read() == before


def test_a_charge_beyond_the_budget_is_not_written(kept: LedgerFile[hb.Ledger], tmp_path: Path) -> None:
    before = lines(tmp_path)
    with pytest.raises(hb.BudgetExceeded):
        kept.charge(PLAN, collection="year", rounds=365)
    assert lines(tmp_path) == before


@pytest.mark.parametrize("written", [0, 1, 40, -1])
def test_a_torn_write_counts_as_charged(
    kept: LedgerFile[hb.Ledger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The process dies after a part of the line, or none of it, or all but the newline, reached the disk."""

    def torn(chain: chains.Chain, line: str) -> None:
        with (tmp_path / "people.ledger").open("ab") as file:
            file.write(line.encode()[: len(line) if written < 0 else written])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(chains.Chain, "_write", torn)
        with pytest.raises(KeyboardInterrupt):
            kept.charge(PLAN, collection="week 3")
    assert [one.name.partition("/")[2] for one in kept.read().charges] == ["week 1", "week 2", "week 3"]
    with pytest.raises(hb.AlreadyCharged):
        kept.charge(PLAN, collection="week 3")
    assert len(kept.charge(PLAN, collection="week 4").charges) == 4


def test_a_write_without_its_second_anchor_counts_once(
    kept: LedgerFile[hb.Ledger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchor = tmp_path / "people.ledger.anchor"
    plain, states = FileAnchor.write, list[bytes]()

    def noted(self: FileAnchor, data: bytes) -> None:
        plain(self, data)
        states.append(data)

    monkeypatch.setattr(FileAnchor, "write", noted)
    kept.charge(PLAN, collection="week 3")
    anchor.write_bytes(states[0])
    assert len(kept.read().charges) == 3


def test_damage_is_explained(kept: LedgerFile[hb.Ledger], tmp_path: Path) -> None:
    path, anchor, good = tmp_path / "people.ledger", tmp_path / "people.ledger.anchor", lines(tmp_path)
    marked = anchor.read_bytes()
    for data, why in (
        ([good[0], good[1].replace(b'"rounds":1', b'"rounds":2'), good[2]], "line 2 does not have the hash"),
        ([good[0], good[2]], "line 2 does not follow"),
        ([good[0], good[2], good[1]], "line 2 does not follow"),
        ([good[0], good[1], good[1]], "line 3 does not follow"),
        (good[:2], "truncated, or replaced by an older copy"),
        ([good[0], good[1], good[2][:-20]], "has 2 lines"),
        ([*good, b'{"entry'], "last line is incomplete"),
        ([good[0], b"damage\n", good[2]], "line 2 must be JSON"),
        ([], "has 0 lines"),
    ):
        path.write_bytes(b"".join(data))
        with pytest.raises(hb.LedgerDamaged, match=why):
            kept.read()
        with pytest.raises(hb.LedgerDamaged, match=why):
            kept.charge(PLAN, collection="week 3")
    path.write_bytes(b"".join(good))
    assert len(kept.read().charges) == 2
    anchor.write_bytes(marked[:-5])
    with pytest.raises(hb.LedgerDamaged, match="anchor is unreadable"):
        kept.read()
    anchor.unlink()
    with pytest.raises(hb.LedgerDamaged, match="needs its anchor"):
        kept.read()


def test_a_restored_backup_is_noticed_and_recovered_conservatively(tmp_path: Path) -> None:
    phone, safe = tmp_path / "phone", FileAnchor(tmp_path / "keystore")
    phone.mkdir()
    file = LedgerFile(phone / "ledger", DeviceLedger, anchor=safe)
    file.create(BUDGET)
    file.charge(PLAN, collection="week 1")
    shutil.copytree(phone, tmp_path / "backup")
    spent = file.charge(PLAN, collection="week 2").total()
    shutil.rmtree(phone)
    shutil.copytree(tmp_path / "backup", phone)
    with pytest.raises(hb.LedgerDamaged, match="older copy"):
        file.charge(PLAN, collection="week 3")
    listed = file.recover([(PLAN, 1)])
    assert listed.total() == spent
    assert (phone / "ledger.damaged").exists()
    assert len(file.charge(PLAN, collection="week 3").charges) == 3


def test_without_a_list_of_what_was_lost_nothing_more_is_allowed(kept: LedgerFile[hb.Ledger], tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    path.write_bytes(b"".join(lines(tmp_path)[:2]))
    assert kept.recover().total().epsilon == float("inf")
    with pytest.raises(hb.BudgetExceeded):
        kept.charge(PLAN, collection="week 9")


def test_a_new_ledger_needs_a_new_file(kept: LedgerFile[hb.Ledger]) -> None:
    with pytest.raises(hb.InvalidInput, match="new file"):
        kept.create(BUDGET)


def test_a_recovery_that_is_interrupted_never_rewinds_the_ledger(
    kept: LedgerFile[hb.Ledger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the anchor accepted the short file before what was lost had been charged."""
    path = tmp_path / "people.ledger"
    path.write_bytes(b"".join(lines(tmp_path)[:2]))
    anchor = tmp_path / "people.ledger.anchor"
    before = path.read_bytes(), anchor.read_bytes()
    real = FileAnchor.write
    for announced in (False, True):
        path.write_bytes(before[0])
        anchor.write_bytes(before[1])

        def die(own: FileAnchor, data: bytes, announced: bool = announced) -> None:
            if announced:
                real(own, data)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(FileAnchor, "write", die)
            kept.recover([(PLAN, 2)])
        if announced:
            assert sum(one.rounds for one in kept.read().charges) == 3
        else:
            with pytest.raises(hb.LedgerDamaged):
                kept.read()
            assert sum(one.rounds for one in kept.recover([(PLAN, 2)]).charges) == 3


def test_a_recovery_counts_the_charge_that_was_begun(kept: LedgerFile[hb.Ledger], tmp_path: Path) -> None:
    """Regression: the line that the anchor had announced was dropped."""
    path, anchor = tmp_path / "people.ledger", tmp_path / "people.ledger.anchor"
    old = b"".join(lines(tmp_path)[:2])
    before = anchor.read_bytes()
    kept.charge(PLAN, collection="week 3", rounds=4)
    line = lines(tmp_path)[-1].decode().strip()
    anchor.write_bytes(before.replace(b'"pending":""', b'"pending":' + json.dumps(line).encode()))
    path.write_bytes(old)
    assert sum(one.rounds for one in kept.recover([(PLAN, 2)]).charges) == 1 + 2 + 4
