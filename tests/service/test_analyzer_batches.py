"""Batches of the analyzer: numbered by buckets, fenced, counted chunk by chunk, and charged fairly for bad slots."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.analyzer_system import (
    ANALYZER,
    EPOCH,
    SHUFFLER,
    START,
    AnalyzerSystem,
    contract_of,
    payload_rows,
    small_plan,
    spoil,
)

import hubbub as hb
from hubbub.errors import Problem
from hubbub.model.protocol import Fakes
from hubbub.pipeline import device
from hubbub.pipeline.reports import decode_payloads
from hubbub.service.analyzer.core import _check_sizes
from hubbub.service.analyzer.slots import SLOT_ID, Verdict, create_table, judge, messages_per_client, spend, table_of
from hubbub.service.task import sealing
from hubbub.service.task.manifest import Gap, Receipt

VALUES = [str(i % 5) for i in range(30)]


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnalyzerSystem]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    found = AnalyzerSystem(tmp_path, url=url)
    yield found
    found.shut()


def refused(call: Any, *arguments: Any) -> str:
    with pytest.raises(Problem) as problem:
        call(*arguments)
    return problem.value.name


# -- buckets, fences and receipts --


def test_2_a_second_batch_under_the_same_number_is_fenced_and_the_first_receipt_stands(system: AnalyzerSystem) -> None:
    core, key = system.core, system.key()
    people = system.shuffler.people(VALUES, key)
    first = system.shuffler.batch(1, people, key)
    receipt = system.deliver(first)
    redrawn = system.shuffler.batch(1, people, key, seed=1)
    assert redrawn.id == first.id
    assert refused(core.put_manifest, redrawn.id, redrawn.document) == "fenced"
    assert core.manifest(first.id) == first.document
    assert core.put_manifest(first.id, first.document) == receipt
    found = Receipt.read(receipt, ANALYZER.public, system.task, 1)
    found.check(first.document)
    assert found.state == "committed"
    assert core.totals()[system.contract.id]["bundles"] == 30


def test_3_two_shufflers_that_announce_one_bucket_at_the_same_time_are_fenced(system: AnalyzerSystem) -> None:
    key, core = system.key(), system.core
    one = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key)
    other = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key)
    assert core.put_manifest(one.id, one.document) == [0]
    assert refused(core.put_manifest, other.id, other.document) == "fenced"
    assert refused(core.put_chunk, other.id, 0, other.chunks[0]) == "conflict"
    system.deliver(one)
    assert system.result(1)["people"] == 30


def test_replay_of_a_manifest_is_idempotent_at_every_stage(system: AnalyzerSystem) -> None:
    core, key = system.core, system.key()
    sent = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key, chunk=10)
    for _ in range(2):
        assert core.put_manifest(sent.id, sent.document) == [0, 1, 2]
    core.put_chunk(sent.id, 1, sent.chunks[1])
    assert core.work()
    core.put_chunk(sent.id, 1, sent.chunks[1])
    assert core.store.waiting_chunks(sent.id) == [], "a chunk that is counted is not stored again"
    assert core.put_manifest(sent.id, sent.document) == [0, 2]
    assert not core.work()
    for index in (2, 0):
        core.put_chunk(sent.id, index, sent.chunks[index])
    assert core.put_manifest(sent.id, sent.document) == []
    receipt = system.deliver(sent)
    core.put_chunk(sent.id, 0, sent.chunks[0])
    assert not core.work()
    assert core.put_manifest(sent.id, sent.document) == receipt
    assert (system.result(1)["people"], system.result(1)["rejected"]) == (30, {})


def test_1_a_manifest_with_a_key_that_never_existed_is_refused(system: AnalyzerSystem) -> None:
    key = system.key()
    people = system.shuffler.people(VALUES, key)
    for wrong in (0, key.id + 1, 65_536):
        sent = system.shuffler.batch(1, people, wrong)
        assert refused(system.core.put_manifest, sent.id, sent.document) == "forbidden"
    assert system.core.store.batches(system.task) == []
    assert system.counter() == 0


def test_a_batch_under_a_destroyed_key_is_withheld_by_name(system: AnalyzerSystem) -> None:
    key = system.key()
    sent = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key)
    system.core.rotate()
    system.core.put_keys_in_use(system.task, system.shuffler.keys_in_use(system.key().id))
    system.clock.advance(2 * 10**5)
    system.core.advance()
    assert system.core.keyring.private(key.id) is None
    receipt = Receipt.read(system.deliver(sent), ANALYZER.public, system.task, 1)
    assert receipt.state == "withheld"
    assert system.result(1)["rejected"] == {"cannot_open": 30}


def test_chunks_must_have_the_digest_and_the_size_in_the_manifest(system: AnalyzerSystem) -> None:
    key, core = system.key(), system.core
    sent = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key, chunk=20)
    assert core.put_manifest(sent.id, sent.document) == [0, 1]
    for wrong in (sent.chunks[1], sent.chunks[0][:-1], b""):
        assert refused(core.put_chunk, sent.id, 0, wrong) == "conflict"
    for index in (-1, 2):
        assert refused(core.put_chunk, sent.id, index, sent.chunks[0]) == "not-found"
    assert refused(core.put_chunk, "00" * 16, 0, sent.chunks[0]) == "not-found"
    false = dataclasses.replace(sent.manifest, bucket=2, sizes=(10, 20))
    core.put_manifest(false.batch, false.sign(SHUFFLER))
    assert refused(core.put_chunk, false.batch, 0, sent.chunks[0]) == "malformed"


# -- gaps --


def test_announced_gaps_and_unknown_buckets_are_named(system: AnalyzerSystem) -> None:
    system.collect(1, VALUES)
    system.collect(4, VALUES, gaps=(Gap(2, 2, 7, "restored"),), epoch=START // EPOCH + 3)
    assert system.counter() == 4
    assert system.core.gaps(system.task) == [
        {"first": 2, "last": 2, "bundles": 7, "reason": "restored", "counted": 0},
        {"first": 3, "last": 3, "reason": "unknown here"},
    ]
    assert system.result(4)["gaps"] == [{"first": 2, "last": 2, "bundles": 7, "reason": "restored"}]
    assert system.core.totals()[system.contract.id]["unknown_buckets"] == 1
    key = system.key()
    declared = system.shuffler.batch(2, system.shuffler.people(VALUES, key), key)
    assert refused(system.core.put_manifest, declared.id, declared.document) == "fenced"
    system.collect(3, VALUES, epoch=START // EPOCH + 2)
    assert [gap["first"] for gap in system.core.gaps(system.task)] == [2]
    listed = system.core.batches(system.task)
    assert [(entry["bucket"], entry["epoch"], entry["state"]) for entry in listed] == [
        (1, START // EPOCH, "committed"),
        (3, START // EPOCH + 2, "committed"),
        (4, START // EPOCH + 3, "committed"),
    ]
    assert listed[2]["released"] == START + 3 * EPOCH
    contract = system.contract
    assert (listed[2]["start"], listed[2]["end"]) == (contract.task_start * EPOCH, contract.task_end * EPOCH)


def test_a_batch_that_a_gap_covers_is_abandoned_unless_it_is_complete(system: AnalyzerSystem) -> None:
    core, key = system.core, system.key()
    incomplete = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key, chunk=10)
    core.put_manifest(incomplete.id, incomplete.document)
    core.put_chunk(incomplete.id, 0, incomplete.chunks[0])
    assert core.work()
    complete = system.shuffler.batch(2, system.shuffler.people(VALUES, key), key, chunk=20)
    core.put_manifest(complete.id, complete.document)
    for index in (0, 1):
        core.put_chunk(complete.id, index, complete.chunks[index])
    system.collect(3, VALUES, gaps=(Gap(1, 2, 60, "restored"),))
    assert [row.state for row in core.store.batches(system.task)] == ["abandoned", "committed", "committed"]
    gap = {"first": 1, "last": 2, "bundles": 60, "reason": "restored", "counted": 1}
    assert core.gaps(system.task) == [gap], "the second bucket was delivered before the shuffler forgot it"
    assert refused(core.put_manifest, incomplete.id, incomplete.document) == "fenced"
    assert refused(core.manifest, incomplete.id) == "not-found"
    core.put_chunk(incomplete.id, 1, incomplete.chunks[1])
    assert not core.work()
    assert core.store.waiting_chunks(incomplete.id) == []


# -- results --


@pytest.mark.long
def test_the_result_equals_that_of_the_library_for_the_same_messages(tmp_path: Path) -> None:
    for name, plan in {
        "records": small_plan(),
        "copies": small_plan(k=3),
        "bits": hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0.1, release="bits"), delta=1e-4),
        "category": hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0.1, release="category"), delta=1e-4),
        "fixed fakes": hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0.1, m=40), delta=1e-4),
        "drawn fakes": hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0.1, m=Fakes.binomial(4, 0.5)), delta=1e-4),
    }.items():
        system = AnalyzerSystem(tmp_path / name.replace(" ", "-"), [contract_of(plan)])
        key, filled, sent = system.key(), [], []
        for value in VALUES:
            messages = device.payloads(value, plan)
            sent += messages
            filled += [*messages, *[None] * (system.contract.slots - len(messages))]
        system.deliver(system.shuffler.batch(1, system.shuffler.slots(filled, key), key, chunk=17))
        found = system.result(1)
        fakes = plan.protocol.fixed_fakes // plan.n * len(VALUES)
        reports = hb.Reports(plan, decode_payloads(payload_rows(sent), plan), len(VALUES), fakes, shuffled=True)
        counts = hb.tally(reports)
        expected = hb.estimate(counts, plan).question
        assert (found["state"], found["people"], found["messages"]) == ("committed", 30, len(sent)), name
        assert found["table"]["value"] == expected.values.tolist(), name
        assert found["table"]["stderr"] == expected.stderr.tolist(), name
        stated = hb.Guarantee.from_document(found["guarantee"])
        assert stated == system.contract.with_overflow(hb.achieved_guarantee(counts, plan)), name
        system.shut()


@pytest.mark.parametrize("suite", [1, 2])
def test_10_both_suites_are_counted(tmp_path: Path, suite: int) -> None:
    system = AnalyzerSystem(tmp_path, [contract_of(small_plan(), suite=suite)])
    assert system.key(suite).suite == suite
    result = system.collect(1, VALUES)
    assert (result["state"], result["people"], result["rejected"]) == ("committed", 30, {})
    system.shut()


def test_10_a_task_of_another_suite_is_added_to_a_running_analyzer(tmp_path: Path) -> None:
    first, second = contract_of(small_plan()), contract_of(small_plan(), suite=2)
    system = AnalyzerSystem(tmp_path, [first, second])
    other = type(system.shuffler)(second)
    key = system.key(2)
    system.deliver(other.batch(1, other.people(VALUES, key), key))
    system.collect(1, VALUES)
    assert [totals["committed"] for totals in system.core.totals().values()] == [1, 1]
    wrong = system.shuffler.batch(2, system.shuffler.people(VALUES, system.key()), key)
    assert refused(system.core.put_manifest, wrong.id, wrong.document) == "forbidden"
    system.restart()
    assert system.key(2).id == key.id
    system.shut()


# -- repeated slots --


def test_repeated_slots_count_once_in_one_chunk_in_one_batch_and_in_two(system: AnalyzerSystem) -> None:
    key = system.key()
    people = system.shuffler.people(VALUES, key)
    again = people[:4]
    system.deliver(system.shuffler.batch(1, [*people, *again], key, chunk=7))
    assert (system.result(1)["rejected"], system.result(1)["people"]) == ({"repeated": 4}, 30)
    late = system.shuffler.people(VALUES, key)
    system.deliver(system.shuffler.batch(2, [*late, *people[10:15]], key))
    assert (system.result(2)["rejected"], system.result(2)["people"]) == ({"repeated": 5}, 30)


def test_a_slot_counts_under_the_key_that_it_names_only(system: AnalyzerSystem) -> None:
    """Opening takes the key from the manifest, but the id covers the two bytes: each change would count once more."""
    key = system.key()
    people = system.shuffler.people(VALUES, key)
    people[1:4] = [number.to_bytes(2, "big") + people[0][2:] for number in (0, key.id + 1, 65_535)]
    system.deliver(system.shuffler.batch(1, people, key))
    assert (system.result(1)["rejected"], system.result(1)["people"]) == ({"wrong_key": 3}, 27)


@pytest.mark.parametrize("surplus", [-1, 1])
def test_the_slots_of_a_batch_without_fakes_are_those_of_its_bundles(system: AnalyzerSystem, surplus: int) -> None:
    key = system.key()
    people = system.shuffler.people(VALUES, key)
    sent = system.shuffler.batch(1, [*people, people[0]][: 30 + surplus], key, bundles=30)
    assert refused(system.core.put_manifest, sent.id, sent.document) == "forbidden"


def test_a_batch_may_have_more_slots_than_its_bundles_if_the_shuffler_adds_fakes(tmp_path: Path) -> None:
    plan = hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0, m=Fakes.laplace(4.0, 70)), delta=1e-6)
    system = AnalyzerSystem(tmp_path, [contract_of(plan)])
    key = system.key()
    people = system.shuffler.people(VALUES, key)
    fewer = system.shuffler.batch(1, people[:-1], key, bundles=30)
    assert refused(system.core.put_manifest, fewer.id, fewer.document) == "forbidden"
    for bucket, slots in ((1, people), (2, [*people, people[0]])):
        sent = system.shuffler.batch(bucket, slots, key, bundles=30)
        assert system.core.put_manifest(sent.id, sent.document) == [0]
    system.shut()


def test_slots_of_one_task_cannot_be_spoiled_through_another(tmp_path: Path) -> None:
    first, second = contract_of(small_plan()), contract_of(small_plan(), number=1)
    system = AnalyzerSystem(tmp_path, [first, second])
    other, key = type(system.shuffler)(second), system.key()
    people = system.shuffler.people(VALUES, key)
    system.deliver(other.batch(1, [*other.people(VALUES, key), *people], key))
    assert system.core.store.batches(second.task)[0].state == "committed"
    system.deliver(system.shuffler.batch(1, people, key))
    assert (system.result(1)["people"], system.result(1)["rejected"]) == (30, {})
    system.shut()


def test_9_slot_ids_are_rows_of_a_table_per_key_and_go_with_the_key(system: AnalyzerSystem) -> None:
    key, database = system.key(), system.core.store.writer
    system.collect(1, VALUES, chunk=9)
    ((count, size),) = database.rows(f"SELECT COUNT(*), MAX(LENGTH(slot_id)) FROM {table_of(key.id)}")
    assert (count, size) == (30, 16)
    system.core.rotate()
    system.core.put_keys_in_use(system.task, system.shuffler.keys_in_use(system.key().id))
    system.clock.advance(2 * 10**5)
    system.core.advance()
    assert not database.has_table(table_of(key.id))
    assert system.core.store.manifest(system.shuffler.batch(1, [], key).id) is not None


def test_spend_marks_the_first_of_equal_ids() -> None:
    from hubbub.service.runtime.database import open_database

    database = open_database("sqlite::memory:")
    create_table(database, 1)
    ids = [b"b" * 16, b"a" * 15 + b"\0", b"b" * 16, b"c" * 16]
    array = np.array(ids, SLOT_ID)
    assert spend(database, 1, array).tolist() == [True, True, False, True]
    assert spend(database, 1, array).tolist() == [False] * 4
    more = np.array([b"d" * 16, *ids], SLOT_ID)
    assert spend(database, 1, more).tolist() == [True, False, False, False, False]
    assert spend(database, 1, array[:0]).tolist() == []
    # Twice beside one that is spent: new at its first place only.
    both = np.array([b"e" * 16, b"e" * 16, b"b" * 16], SLOT_ID)
    assert spend(database, 1, both).tolist() == [True, False, False]


# -- charging --


def _twenty_slots() -> hb.Plan:
    plan = hb.plan_from(hb.Schema.one_hot(4), 100, hb.Protocol(0.2, k=20), delta=1e-6)
    assert hb.accountant.overflow.min_slots(plan) == 20
    return plan


def test_6_eleven_malicious_clients_no_longer_erase_everybody(tmp_path: Path) -> None:
    """220 bad slots of 11 clients cost 11 people of 120; charging one client for each slot withheld the batch."""
    system = AnalyzerSystem(tmp_path, [contract_of(_twenty_slots())])
    key = system.key()
    people = system.shuffler.people(["1"] * 120, key)
    people[: 11 * 20] = map(spoil, people[: 11 * 20])
    system.deliver(system.shuffler.batch(1, people, key))
    result = system.result(1)
    assert result["rejected"] == {"cannot_open": 220}
    assert (result["state"], result["charged"], result["people"]) == ("committed", 11, 109)
    assert result["messages"] == 109 * 20
    assert abs(result["table"]["value"][1] - 109) < 5 * result["table"]["stderr"][1]
    stated = hb.Guarantee.from_document(result["guarantee"])
    assert stated == system.contract.plan.guarantee
    system.shut()


@pytest.mark.parametrize(("clients", "state"), [(20, "committed"), (21, "withheld")])
def test_6_more_malicious_clients_than_the_reserve_withhold_the_batch(tmp_path: Path, clients: int, state: str) -> None:
    system = AnalyzerSystem(tmp_path, [contract_of(_twenty_slots())])
    key = system.key()
    people = system.shuffler.people(["1"] * 120, key)
    people[: clients * 20 - 19] = map(spoil, people[: clients * 20 - 19])
    system.deliver(system.shuffler.batch(1, people, key))
    result = system.result(1)
    assert (result["state"], result["charged"]) == (state, clients)
    assert ("people" in result) == (state == "committed")
    assert ("reason" in result) == (state == "withheld")
    system.shut()


def test_6_the_guarantee_never_counts_clients_that_may_have_sent_a_bad_slot(tmp_path: Path) -> None:
    """Five bad slots may come from five clients: the guarantee is that of 115 clients, not of 119."""
    plan = _twenty_slots()
    system = AnalyzerSystem(tmp_path, [contract_of(plan)])
    key = system.key()
    people = system.shuffler.people(["1"] * 120, key)
    for client in range(5):
        people[20 * client] = spoil(people[20 * client])
    system.deliver(system.shuffler.batch(1, people, key, chunk=501))
    result = system.result(1)
    assert (result["charged"], result["people"], result["messages"]) == (1, 119, 119 * 20)
    stated = hb.Guarantee.from_document(result["guarantee"])
    assert stated == hb.account(plan.protocol, plan.schema, 115, delta=1e-6)
    assert stated.assumptions.honest == 115
    system.shut()


def test_6_malicious_clients_within_the_honest_fraction_withhold_nothing(tmp_path: Path) -> None:
    """A plan that counts on 90 honest clients of 100 loses nothing if ten are malicious, and says no more than it."""
    plan = hb.plan_from(hb.Schema.one_hot(4), 100, hb.Protocol(0.2), delta=1e-6, honest_fraction=0.9)
    for bad, state in ((10, "committed"), (11, "withheld")):
        system = AnalyzerSystem(tmp_path / str(bad), [contract_of(plan)])
        key = system.key()
        people = system.shuffler.people(["1"] * 100, key)
        people[:bad] = map(spoil, people[:bad])
        system.deliver(system.shuffler.batch(1, people, key))
        assert system.result(1)["state"] == state
        if state == "committed":
            assert system.result(1)["people"] == 90
            assert hb.Guarantee.from_document(system.result(1)["guarantee"]) == plan.guarantee
        system.shut()


def test_a_filler_instead_of_a_report_is_charged(tmp_path: Path) -> None:
    for k, people in ((1, 27), (3, 29)):
        system = AnalyzerSystem(tmp_path / str(k), [contract_of(small_plan(k=k))])
        key = system.key()
        slots = system.shuffler.people(["1"] * 30, key)
        slots[:3] = system.shuffler.slots([None] * 3, key)
        system.deliver(system.shuffler.batch(1, slots, key))
        result = system.result(1)
        assert (result["people"], result["rejected"]) == (people, {"missing_report": 3})
        system.shut()


def test_9_surplus_messages_are_the_last_ones(tmp_path: Path) -> None:
    """With three messages each, two bad slots leave one message too many: the last of the batch, in any chunk."""
    plan = small_plan(k=3)
    for chunk in (1, 2, 7, 1000):
        system = AnalyzerSystem(tmp_path / str(chunk), [contract_of(plan)])
        key = system.key()
        payloads = [one for value in VALUES for one in device.payloads(value, plan)]
        slots = system.shuffler.slots(payloads, key)
        slots[40:42] = map(spoil, slots[40:42])
        sent = system.shuffler.batch(1, slots, key, chunk=chunk)
        joined, size = b"".join(sent.chunks), system.contract.slot_size
        place = {slot: index for index, slot in enumerate(slots)}
        order = [place[joined[start : start + size]] for start in range(0, len(joined), size)]
        good = [payloads[index] for index in order if index not in (40, 41)]
        system.deliver(sent)
        reports = hb.Reports(plan, decode_payloads(payload_rows(good[: 29 * 3]), plan), 29, shuffled=True)
        assert system.result(1)["people"] == 29
        assert system.result(1)["table"]["value"] == hb.estimate(hb.tally(reports), plan).question.values.tolist()
        system.shut()


def test_a_batch_of_strings_shows_at_most_one_for_each_bundle() -> None:
    from types import SimpleNamespace as Some

    terms: Any = Some(min_batch_size=20, row_size=100, strings=Some())
    for slots, chunks, fits in ((30, 1, True), (31, 1, False), (30, 65_536, True), (30, 65_537, False)):
        manifest: Any = Some(bundles=30, slots=slots, sizes=(1,), chunks=("",) * chunks)
        if fits:
            _check_sizes(manifest, terms)
        else:
            assert refused(_check_sizes, manifest, terms) == "forbidden"


def test_a_batch_has_the_id_of_its_bucket_and_enough_bundles(system: AnalyzerSystem) -> None:
    key = system.key()
    sent = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key)
    other = system.shuffler.batch(2, [], key)
    assert refused(system.core.put_manifest, other.id, sent.document) == "malformed"
    least = system.contract.min_batch_size
    few = system.shuffler.batch(1, system.shuffler.people(VALUES[: least - 1], key), key)
    assert refused(system.core.put_manifest, few.id, few.document) == "forbidden"
    enough = system.shuffler.batch(1, system.shuffler.people(VALUES[:least], key), key)
    assert system.core.put_manifest(enough.id, enough.document) == [0]


def test_only_fixed_numbers_of_messages_make_fillers_suspicious() -> None:
    assert messages_per_client(small_plan(k=3)) == 3
    drawn = hb.plan_from(hb.Schema.one_hot(5), 20, hb.Protocol(0.1, m=Fakes.binomial(4, 0.5)), delta=1e-4)
    assert messages_per_client(drawn) is None


FLIPPED = hb.plan_from(hb.Schema.one_hot(5), 100, hb.Protocol(0.1, release="bits"), delta=1e-4)
ONE_EACH = hb.plan_from(hb.Schema.one_hot(5), 100, hb.Protocol(0.1, release="category"), delta=1e-4)
CLEAR = hb.plan_from(hb.Schema.one_hot(5), 100, hb.Protocol(0.0, m=400), delta=1e-4)


@pytest.mark.parametrize(
    ("plan", "plain", "expected"),
    [
        (FLIPPED, [sealing.VERSION, sealing.REPORT, 4], Verdict.report),
        (FLIPPED, [sealing.VERSION, sealing.REPORT, 5], Verdict.bad_padding),
        (FLIPPED, [sealing.VERSION, sealing.FILLER, 0], Verdict.filler),
        (FLIPPED, [sealing.VERSION, sealing.FILLER, 1], Verdict.bad_padding),
        (FLIPPED, [sealing.VERSION, 2, 0], Verdict.bad_kind),
        (FLIPPED, [sealing.VERSION + 1, sealing.REPORT, 0], Verdict.bad_version),
        (FLIPPED, [sealing.VERSION + 1, 2, 7], Verdict.bad_version),
        (ONE_EACH, [sealing.VERSION, sealing.FILLER, 0], Verdict.missing_report),
        (CLEAR, [sealing.VERSION, sealing.REPORT, 0b00100], Verdict.report),
        (CLEAR, [sealing.VERSION, sealing.REPORT, 0b00110], Verdict.illegal),
        (CLEAR, [sealing.VERSION, sealing.REPORT, 0], Verdict.illegal),
        (CLEAR, [sealing.VERSION, sealing.REPORT, 0b100000], Verdict.bad_padding),
    ],
)
def test_an_opened_slot_counts_only_if_a_client_can_send_it(plan: hb.Plan, plain: list[int], expected: Verdict) -> None:
    good = [sealing.VERSION, sealing.REPORT, 1]
    found = judge(np.array([good, plain, good], np.uint8), plan)
    assert [Verdict(one) for one in found.tolist()] == [Verdict.report, expected, Verdict.report]
