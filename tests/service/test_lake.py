"""The lake: opened batches as directories, only if the contract says so, exactly once, and equal to the result."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import call
from tests.service.admissions import ISSUER
from tests.service.analyzer_system import AnalyzerSystem, Sent, contract_of, small_plan, spoil
from tests.service.crash import LAKE_POINTS as STEPS
from tests.service.live import LiveSystem, wait_until
from tests.service.samples import claimed, contract
from tests.service.system import System
from tests.service.test_analyzer_workers import Killed, Kills, batch_of, finish
from tests.service.test_surveys import PEOPLE, RESPONSE, SHUFFLER, N

import hubbub as hb
from hubbub.accountant.accounting import VIEWS
from hubbub.documents import Json, canonical
from hubbub.errors import Infeasible, InvalidInput, MissingExtra, StoreFailure, WireError
from hubbub.io.directories import MANIFEST, Manifest, read_directory, write_directory
from hubbub.pipeline import device
from hubbub.service.analyzer import lake as module
from hubbub.service.analyzer.lake import MARK, directory_name
from hubbub.service.runtime.database import LEASE_SECONDS
from hubbub.service.task.contract import EXPORT, MESSAGE_VIEWS, Contract, SignedContract
from hubbub.service.task.manifest import Gap

WIDE = hb.Schema.one_hot(6)
PLANS = {
    "records": hb.plan_from(WIDE, 20, hb.Protocol(0.1), delta=1e-6),
    "copies": hb.plan_from(WIDE, 20, hb.Protocol(0.2, k=3), delta=1e-6),
    "bits": hb.plan_from(hb.Schema.one_hot(20), 20, hb.Protocol(0.1, release="bits"), delta=1e-4),
    "category": hb.plan_from(WIDE, 20, hb.Protocol(0.1, release="category"), delta=1e-6),
    "fakes in total": hb.plan_from(WIDE, 20, hb.Protocol(0.1, m=40), delta=1e-6),
    "users' fakes": hb.plan_from(WIDE, 20, hb.Protocol(0.1, m=hb.Fakes.binomial(4, 0.5)), delta=1e-6),
    "shuffler's fakes": hb.plan_from(WIDE, 20, hb.Protocol(0, m=hb.Fakes.laplace(2.0, 30)), delta=1e-6),
    "few honest users": hb.plan_from(WIDE, 20, hb.Protocol(0.1), delta=1e-4, honest_fraction=0.5),
}


def directories(folder: Path) -> list[str]:
    """Return the names of everything in a lake, also of what is hidden."""
    return sorted(path.name for path in folder.iterdir() if path.name != MARK) if folder.exists() else []


def content(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a lake."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def name_of(terms: Contract, bucket: int = 1) -> str:
    return directory_name(terms.task, bucket)


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnalyzerSystem]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    found = exporting(tmp_path, url=url)
    yield found
    found.shut()


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Kills:
    found = Kills(monkeypatch)
    monkeypatch.setattr(module, "reach", found._reach)
    return found


def exporting(folder: Path, plan: hb.Plan | None = None, **options: Any) -> AnalyzerSystem:
    terms = contract_of(plan or small_plan(), export=True)
    return AnalyzerSystem(folder, [terms], lake=folder / "lake", **options)


def export(system: AnalyzerSystem) -> int:
    """Export everything that waits, and return the number of batches."""
    count = 0
    while system.core.export():
        count += 1
    return count


def opened(system: AnalyzerSystem) -> int:
    ((count,),) = system.core.store.writer.rows("SELECT COUNT(*) FROM opened")
    return int(count)


def mark_of(system: AnalyzerSystem) -> Path:
    assert system.lake is not None
    return system.lake / MARK


# -- the contract --


def test_contracts_without_export_keep_their_text() -> None:
    plan = small_plan()
    terms, other = contract_of(plan), contract_of(plan, export=True)
    assert EXPORT not in terms.to_document()
    assert other.to_document() == {**terms.to_document(), EXPORT: True}
    assert terms.task != other.task
    assert Contract.from_json(other.to_json()) == other
    assert Contract.from_json(terms.to_json()).export is False


def test_operators_see_the_term_before_they_sign(tmp_path: Path) -> None:
    plan, file = tmp_path / "plan.json", tmp_path / "contract.json"
    plan.write_text(small_plan(400).to_json())
    words = ("serve", "contract", "--plan", str(plan), "--analyzer", "01" * 32, "--shuffler", "02" * 32)
    for more in ((), ("--export",)):
        told = call(*words, "-o", str(file), *more)
        assert told.exit_code == 0, told.output
        shown = call("inspect", str(file))
        figures = json.loads(call("inspect", str(file), "--json").stdout)
        for text in (told.stderr, shown.stdout):
            assert ("the analyzer keeps the shuffled messages" in " ".join(text.split())) == bool(more)
        assert figures["export"] is bool(more)


@pytest.mark.parametrize("value", [False, None, 1, "true", [], {}])
def test_export_is_true_or_absent(value: Any) -> None:
    """One contract has one text: a false value would be a second spelling of absence."""
    document = {**contract_of(small_plan()).to_document(), EXPORT: value}
    with pytest.raises(WireError, match="'export' of the contract must be true or"):
        Contract.from_json(json.dumps(document))


def test_only_messages_that_the_guarantee_covers_are_exported() -> None:
    """Every release but that of strings certifies the messages; a plan whose guarantee covers less is refused."""
    assert {view for release, view in VIEWS.items() if release != "strings"} == set(MESSAGE_VIEWS)
    plan = claimed(WIDE, hb.Protocol(0.1))
    assert plan.guarantee.assumptions.view not in MESSAGE_VIEWS
    contract(plan)
    with pytest.raises(Infeasible, match=r"covers less than the messages of a batch.*leave out export"):
        contract(plan, export=True)
    with pytest.raises(InvalidInput, match="export must be True or False"):
        contract(small_plan(), export=1)


@pytest.mark.parametrize("name", ["bits", "category"])
def test_messages_follow_from_the_certified_counts(name: str) -> None:
    """The premise of the views: up to their order, indices can be computed from their tally; records cannot."""
    plan = PLANS[name]
    sent = hb.shuffle(hb.randomize(hb.Collection.from_values(np.arange(60) % 6, plan.schema), plan))
    counts = hb.tally(sent).counts
    assert np.array_equal(np.sort(sent.messages), np.repeat(np.arange(plan.schema.width), counts))
    one, two = ([0b000011, 0b000100], [0b000101, 0b000010])
    tallies = [
        hb.tally(hb.Reports(PLANS["records"], np.array(rows, np.uint8)[:, None], 2)).counts.tolist()
        for rows in (one, two)
    ]
    assert tallies[0] == tallies[1]


# -- directories equal results --


def assert_equal(folder: Path, plan: hb.Plan, result: dict[str, Any]) -> None:
    """Fail unless the estimate of a directory is the result of the analyzer, to the last digit."""
    counts = hb.tally(read_directory(folder, plan))
    assert (counts.n, counts.messages) == (result["people"], result["messages"])
    found = replace(hb.estimate(counts, plan), released=result["released"]).to_document()
    assert found == {name: result[name] for name in found}


@pytest.mark.parametrize("bad", [0, 4], ids=["good slots", "bad slots"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "users' fakes" else name for name in PLANS]
)
def test_a_directory_gives_the_result_of_the_analyzer(tmp_path: Path, name: str, bad: int) -> None:
    """The estimate, its error bars and its guarantee; also if slots were rejected, or messages did not fit."""
    plan = PLANS[name]
    system = System(tmp_path, plan=plan, min_batch_size=30, export=True)
    client = system.client
    bundles = []
    for number in range(32):
        slots = client.slots(device.payloads(plan.schema.labels[number % 6], plan))
        if number < bad:
            slots[0] = spoil(slots[0])
        bundles.append(client.bundle(slots))
    system.upload(*bundles)
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert (result["state"], result["rejected"]) == ("committed", {"cannot_open": bad} if bad else {})
    while system.analyzer.export():
        pass
    folder = tmp_path / "lake" / name_of(system.contract)
    assert_equal(folder, plan, result)
    header = Manifest.read(folder).header
    assert header.shuffled
    assert (header.slots > 0) == (system.contract.overflow > 0) == (name == "bits")
    assert (header.certified > 0) == (bad > 0 and system.contract.slots > 1)
    system.shut()


@pytest.mark.parametrize("plan", [SHUFFLER, RESPONSE], ids=["shuffler's fakes", "response"])
def test_surveys_are_exported(tmp_path: Path, plan: hb.Plan) -> None:
    system = System(tmp_path, plan=plan, min_batch_size=N, export=True)
    client = system.client
    system.upload(*(client.seal(one) for one in PEOPLE))
    system.next_epoch()
    system.deliver()
    while system.analyzer.export():
        pass
    assert_equal(tmp_path / "lake" / name_of(system.contract), plan, system.results()[0])
    system.shut()


def test_a_directory_holds_the_messages_and_nothing_else(tmp_path: Path) -> None:
    """No slot, no id, no key, no time, no bundle; and the store has no message afterwards."""
    system = exporting(tmp_path)
    key = system.key()
    people = system.shuffler.people([str(i % 5) for i in range(24)], key)
    system.deliver(system.shuffler.batch(1, people, key, chunk=7))
    stored = b"".join(system.core.store.opened(system.shuffler.batch(1, people, key).id, i) or b"" for i in range(4))
    assert export(system) == 1
    folder = tmp_path / "lake" / name_of(system.contract)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, "part-00000.parquet"]
    sent = np.concatenate(list(read_directory(folder, system.contract.plan).blocks))
    assert sent.tobytes() == stored
    assert opened(system) == 0
    assert json.loads((folder / MANIFEST).read_text()).keys() == {
        *("format", "plan", "release", "width", "n", "fakes", "messages", "shuffled", "rows", "parts")
    }
    system.shut()


# -- exactly once --


def reference(folder: Path, sent: Sent, source: AnalyzerSystem) -> dict[str, str]:
    """Return the files of an export without any interruption, of the same batch."""
    shutil.copytree(source.folder / "credentials", folder / "credentials")
    other = exporting(folder)
    other.deliver(sent)
    assert export(other) == 1
    found = {name: digest for name, digest in content(folder / "lake").items() if name != MARK}
    other.shut()
    return found


@pytest.mark.parametrize("step", [*STEPS, "batch-counted", "batch-committed"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_kill_at_any_step_leaves_one_whole_directory(tmp_path: Path, kills: Kills, step: str, count: int) -> None:
    """Never a directory without a durable result, never a half one under its name, in the end one with these bytes."""
    system = exporting(tmp_path / "one")
    sent = batch_of(system)
    expected = reference(tmp_path / "other", sent, system)
    lake, name = tmp_path / "one" / "lake", name_of(system.contract)
    kills.arm(step, count)
    killed = False
    for _ in range(4):
        try:
            finish(system, sent)
            export(system)
        except Killed:
            assert not killed
            killed = True
            system.restart()
            if (lake / name).exists():
                assert {key: digest for key, digest in content(lake).items() if key.startswith(name)} == expected
                assert system.core.store.result(sent.id) is not None
            system.clock.advance(2 * LEASE_SECONDS)
    assert killed == (count == 1 or step == "lake-block")
    assert directories(lake) == [name]
    assert {key: digest for key, digest in content(lake).items() if key != MARK} == expected
    assert (opened(system), export(system)) == (0, 0)
    system.shut()


def test_the_steps_are_reached_in_their_order(system: AnalyzerSystem, kills: Kills) -> None:
    system.deliver(batch_of(system))
    assert export(system) == 1
    assert {*STEPS} <= kills.reached
    assert directories(system.folder / "lake") == [name_of(system.contract)]


@pytest.mark.parametrize("step", ["lake-cleared", "lake-block", "lake-written", "lake-renamed", "lake-durable"])
def test_a_paused_replica_cannot_spoil_the_export_of_another(system: AnalyzerSystem, kills: Kills, step: str) -> None:
    sent, other = batch_of(system), system.replica()
    system.deliver(sent)
    lake = system.folder / "lake"
    seen: list[dict[str, str]] = []

    def take_over() -> None:
        kills.arm("")
        system.clock.advance(2 * LEASE_SECONDS)
        while other.export():
            pass
        seen.append(content(lake))

    kills.arm(step, 1, take_over)
    try:
        export(system)
    except (OSError, StoreFailure):
        assert step in ("lake-block", "lake-written"), "its directory was taken away"
    assert directories(lake) == [name_of(system.contract)]
    assert [content(lake)] == seen, "the first directory stands"
    assert (opened(system), export(system)) == (0, 0)


def test_replicas_export_every_batch_once(postgres_url: str, tmp_path: Path) -> None:
    system = exporting(tmp_path, url=postgres_url)
    for bucket in range(1, 7):
        system.deliver(batch_of(system, bucket))
    counts: list[int] = []

    def run(replica: Any) -> None:
        count = 0
        while replica.export():
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=run, args=(system.replica(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    counts.append(export(system))
    assert sum(counts) == 6
    assert directories(tmp_path / "lake") == [name_of(system.contract, bucket) for bucket in range(1, 7)]
    system.shut()


def test_a_restored_store_leaves_the_directory_untouched(tmp_path: Path) -> None:
    """The backup still has the messages; the directory exists, is the same, and keeps even its times."""
    system = exporting(tmp_path)
    system.deliver(batch_of(system))
    backup = system.backup()
    assert export(system) == 1
    folder = tmp_path / "lake" / name_of(system.contract)
    before = content(tmp_path / "lake"), folder.stat().st_ino, folder.stat().st_mtime_ns
    system.restore(backup)
    assert opened(system) > 0
    assert (export(system), opened(system)) == (1, 0)
    assert (content(tmp_path / "lake"), folder.stat().st_ino, folder.stat().st_mtime_ns) == before
    system.shut()


def test_a_restored_store_exports_again_what_was_deleted_from_the_lake(tmp_path: Path) -> None:
    system = exporting(tmp_path)
    system.deliver(batch_of(system))
    backup = system.backup()
    export(system)
    before = content(tmp_path / "lake")
    shutil.rmtree(tmp_path / "lake" / name_of(system.contract))
    system.restart()
    assert (export(system), directories(tmp_path / "lake")) == (0, []), "deleted by its owner: not written again"
    system.restore(backup)
    export(system)
    assert content(tmp_path / "lake") == before
    system.shut()


def other_messages(folder: Path, plan: hb.Plan) -> None:
    write_directory(folder, plan, hb.shuffle(hb.randomize(hb.Collection.from_values(["0"] * 21, plan.schema), plan)))


def no_manifest(folder: Path, plan: hb.Plan) -> None:
    other_messages(folder, plan)
    (folder / MANIFEST).unlink()


def a_file(folder: Path, plan: hb.Plan) -> None:
    del plan
    folder.write_text("mine")


def a_link(folder: Path, plan: hb.Plan) -> None:
    other_messages(folder.parent.parent / "elsewhere", plan)
    folder.symlink_to(folder.parent.parent / "elsewhere")


def a_broken_link(folder: Path, plan: hb.Plan) -> None:
    del plan
    folder.symlink_to("nowhere")


@pytest.mark.parametrize("make", [other_messages, no_manifest, a_file, a_link, a_broken_link])
def test_something_else_of_this_name_is_not_touched(tmp_path: Path, make: Callable[[Path, hb.Plan], None]) -> None:
    system = exporting(tmp_path)
    place = tmp_path / "lake" / name_of(system.contract)
    make(place, system.contract.plan)
    target = str(place.readlink()) if place.is_symlink() else ""
    watched = [path for path in (tmp_path / "lake", tmp_path / "elsewhere") if path.exists()]
    before = [content(path) for path in watched]
    system.deliver(batch_of(system))
    system.deliver(batch_of(system, 2))
    # The other batch is not held up.
    assert system.core.export()
    with pytest.raises(StoreFailure, match=f"something else under the name {place.name}; it was not changed"):
        system.core.export()
    assert all(old.items() <= content(path).items() for path, old in zip(watched, before, strict=True))
    assert (str(place.readlink()) if place.is_symlink() else "") == target
    assert opened(system) > 0
    shutil.move(place, tmp_path / "aside")
    assert export(system) == 1
    assert directories(tmp_path / "lake") == [name_of(system.contract, bucket) for bucket in (1, 2)]
    system.shut()


def test_a_full_disk_leaves_nothing_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = exporting(tmp_path)
    system.deliver(batch_of(system))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("hubbub.io.directories.MessageWriter.write", full)
        with pytest.raises(OSError, match="No space left"):
            system.core.export()
    assert directories(tmp_path / "lake") == []
    assert export(system) == 1
    system.shut()


# -- what is never exported --


def test_withheld_batches_are_not_exported(system: AnalyzerSystem) -> None:
    key = system.key()
    slots = [spoil(slot) for slot in system.shuffler.people([str(i % 5) for i in range(20)], key)]
    system.deliver(system.shuffler.batch(1, slots, key, chunk=7))
    assert system.result(1)["state"] == "withheld"
    assert (opened(system), export(system), directories(system.folder / "lake")) == (0, 0, [])


def test_abandoned_batches_are_not_exported(system: AnalyzerSystem) -> None:
    """A shuffler that was restored declares a gap while chunks of the bucket are missing."""

    key = system.key()
    people = system.shuffler.people([str(i % 5) for i in range(24)], key)
    sent = system.shuffler.batch(1, people, key, chunk=7)
    system.core.put_manifest(sent.id, sent.document)
    system.core.put_chunk(sent.id, 0, sent.chunks[0])
    while system.core.work():
        pass
    assert opened(system) == 1
    more = system.shuffler.people([str(i % 5) for i in range(24)], key)
    system.deliver(system.shuffler.batch(2, more, key, gaps=(Gap(1, 1, 24, "restored"),)))
    assert export(system) == 1
    assert directories(system.folder / "lake") == [name_of(system.contract, 2)]
    assert opened(system) == 0


def test_nothing_is_stored_for_contracts_that_do_not_export(tmp_path: Path) -> None:
    system = AnalyzerSystem(tmp_path)
    system.collect(1, [str(i % 5) for i in range(24)])
    assert (opened(system), system.core.export()) == (0, False)
    system.shut()


# -- settings --


def test_contract_and_setting_must_agree(tmp_path: Path) -> None:
    terms = contract_of(small_plan(), export=True)
    with pytest.raises(InvalidInput, match=f"contract {terms.id} exports .* 'lake' names no folder"):
        AnalyzerSystem(tmp_path / "one", [terms])
    plain = contract_of(small_plan())
    with pytest.raises(InvalidInput, match=f"names a folder .* contract {plain.id} does not export any"):
        AnalyzerSystem(tmp_path / "two", [plain], lake=tmp_path / "lake")
    with pytest.raises(InvalidInput, match="does not export any"):
        AnalyzerSystem(tmp_path / "three", [terms, plain], lake=tmp_path / "other")


def test_a_stored_contract_must_agree_too(tmp_path: Path) -> None:
    system = exporting(tmp_path / "one")
    system.lake = None
    with pytest.raises(InvalidInput, match="'lake' names no folder"):
        system.restart()
    system.shut()
    system = AnalyzerSystem(tmp_path / "two")
    system.lake = tmp_path / "lake"
    with pytest.raises(InvalidInput, match="does not export any"):
        system.restart()
    system.shut()


def test_the_folder_is_the_one_that_was_used_first(tmp_path: Path) -> None:
    """A volume that is not mounted, or another one, must not get batches; the setting may name a new path of it."""
    system = exporting(tmp_path)
    system.deliver(batch_of(system))
    lake = tmp_path / "lake"
    lake.rename(tmp_path / "mounted")
    with pytest.raises(StoreFailure, match="is not available, or its mark is missing"):
        system.core.export()
    lake.mkdir()
    with pytest.raises(StoreFailure, match="is not available, or its mark is missing"):
        system.restart()
    mark_of(system).write_text('{"format": "hubbub lake 1", "id": "00"}')
    with pytest.raises(StoreFailure, match="is not the one to which batches were exported before"):
        system.restart()
    for text in ("", "{}", '{"format": "hubbub lake 2", "id": "00"}', '{"format": "hubbub lake 1", "id": 0}'):
        mark_of(system).write_text(text)
        with pytest.raises(StoreFailure, match="is damaged"):
            system.restart()
    system.lake = tmp_path / "mounted"
    system.restart()
    assert export(system) == 1
    assert directories(lake) == []
    system.shut()


def test_analyzers_that_mark_a_new_folder_at_the_same_time_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores of their own do not exclude each other: the mark of the first must not be replaced by the second."""
    first, second = module.Lake(tmp_path / "lake"), module.Lake(tmp_path / "lake")
    known: list[str] = []

    def overtaken(document: Json) -> bytes:
        monkeypatch.setattr(module, "canonical", canonical)
        known.append(first.bind(""))
        return canonical(document)

    monkeypatch.setattr(module, "canonical", overtaken)
    assert [second.bind("")] == known
    first.check()
    assert directories(tmp_path / "lake") == []


def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = exporting(tmp_path)
    system.deliver(batch_of(system))

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("mkdir", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pathlib.Path.{name}", denied)
            with pytest.raises(PermissionError):
                system.core.export()
        assert name_of(system.contract) not in directories(tmp_path / "lake")
        assert opened(system) > 0
    assert export(system) == 1
    assert directories(tmp_path / "lake") == [name_of(system.contract)], "nothing hidden is left behind"
    system.shut()


def test_without_pyarrow_a_lake_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match="export of batches needs the extra 'frames'"):
        exporting(tmp_path)


# -- real processes --


@pytest.mark.long
def test_uploads_become_a_directory_that_estimates_like_the_analyzer(tmp_path: Path) -> None:
    """Both services, clients, a kill of the analyzer while it exports, and ``hubbub estimate`` of the directory."""
    plan = hb.plan_from(hb.Schema.one_hot(["red", "green", "blue"]), 50, hb.Protocol(0.1, release="bits"), delta=1e-4)
    live = LiveSystem(tmp_path / "live", plan=plan, min_batch_size=50, export=True)
    (tmp_path / "plan.json").write_text(plan.to_json())
    lake = tmp_path / "live" / "analyzer" / "lake"
    folder = lake / name_of(live.contract)
    signed = SignedContract.from_json((tmp_path / "live" / "contract.json").read_bytes())
    assert signed.verify().export
    with live.running():
        live.kill("analyzer")
        live.start("analyzer", "lake-written")
        (tmp_path / "answers.csv").write_text("colour\n" + "red\nred\nblue\n" * 20)
        key = tmp_path / "live" / "shuffler" / "tickets" / f"{ISSUER}.key"
        sent = call(
            *("send", str(tmp_path / "answers.csv"), "--contract", str(tmp_path / "live" / "contract.json")),
            *("--to", live.url, "--journal", str(tmp_path / "journal"), "--unsafe-test", "--ticket-key", str(key)),
        )
        assert sent.exit_code == 0, sent.output
        live.processes["analyzer"].wait(600)
        assert not folder.exists()
        assert [name for name in directories(lake) if name.startswith(f".{folder.name}")]
        live.start("analyzer")
        wait_until(folder.exists, "the export")
        (result,) = live.results()
    assert directories(lake) == [folder.name]
    told = call("estimate", str(folder), "--plan", str(tmp_path / "plan.json"), "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["guarantee"] == result["guarantee"]
    assert (found["people"], result["people"]) == (60, 60)
    assert found["table"] == result["table"]
    assert_equal(folder, plan, result)


@pytest.mark.long
def test_a_running_analyzer_is_killed_at_every_step(tmp_path: Path) -> None:
    """SIGKILL at each failpoint, one batch after another; the next process completes the export."""
    live = LiveSystem(tmp_path / "live", export=True)
    lake = tmp_path / "live" / "analyzer" / "lake"
    with live.running():
        for number, step in enumerate(STEPS, 1):
            live.kill("analyzer")
            live.start("analyzer", step)
            assert live.pour([[b"".join(live.seal(range(60)))]]) == {201: 1}
            live.processes["analyzer"].wait(600)
            whole = (lake / name_of(live.contract, number)).exists()
            assert whole == (step in STEPS[STEPS.index("lake-renamed") :]), step
            live.start("analyzer")
            wait_until((lake / name_of(live.contract, number)).exists, "the export")
            wait_until(lambda: not _stored(live), "the end of the export")
        results = live.results()
    assert directories(lake) == [name_of(live.contract, result["bucket"]) for result in results]
    assert len(results) == len(STEPS)
    for result in results:
        assert_equal(lake / name_of(live.contract, result["bucket"]), live.contract.plan, result)


def _stored(live: LiveSystem) -> int:
    """Return the number of chunks whose messages are in the store."""
    with contextlib.closing(sqlite3.connect(live.folder / "analyzer" / "analyzer.db")) as store:
        return int(store.execute("SELECT COUNT(*) FROM opened").fetchone()[0])
