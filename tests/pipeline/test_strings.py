"""From people's strings to estimates, in memory, by devices and in files; exact coverage of the intervals."""

import collections
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.errors import BatchTooSmall, InvalidInput, InvalidRecord, PlanMismatch, WireError
from hubbub.io import kernels
from hubbub.io.reports import inspect_reports, read_reports, write_reports
from hubbub.mechanisms.draws import draw_number
from hubbub.model.questions import Text
from hubbub.numeric.shown import conditional_interval, cumulative
from hubbub.pipeline import device
from hubbub.pipeline.rows import bodies, from_counts, legal_rows, people
from hubbub.pipeline.shuffle import draw_fakes, shuffle_blocks
from hubbub.pipeline.threshold import subtracted
from hubbub.wire import batches, messages

SCHEMA = hb.Schema.strings(max_bytes=16)
DRAWN = hb.Fakes.laplace(0.5, 9)
PROTOCOL = hb.Protocol(0, m=DRAWN, release="strings")
PLAN = hb.plan_from(SCHEMA, 100, PROTOCOL, epsilon=4.0)
VALUES: list[str | None] = ["oops"] * 60 + ["ouch é"] * 30 + ["rare"] * 5 + [None] * 4 + ["secret"]
TRUTH = collections.Counter(one for one in VALUES if one is not None)


def shuffled(values: list[Any] | None = None, plan: hb.Plan = PLAN) -> hb.Reports:
    people = hb.Collection.from_values(VALUES if values is None else values, plan.schema)
    return hb.shuffle(hb.randomize(people, plan))


def result_of(reports: hb.Reports, plan: hb.Plan = PLAN) -> hb.Result:
    return hb.estimate(hb.tally(reports), plan)


def estimated(reports: hb.Reports, plan: hb.Plan = PLAN) -> hb.StringView:
    view = result_of(reports, plan).question
    assert isinstance(view, hb.StringView)
    return view


def test_the_pipeline_shows_what_many_hold() -> None:
    found = estimated(shuffled())
    assert found.strings[:2] == ("oops", "ouch é")
    assert set(found.strings) <= set(TRUTH)
    assert found["oops"].value == pytest.approx(60, abs=10)
    assert found["oops"].sure
    low, high = found.other()
    assert low <= 10 <= high <= 40
    assert result_of(shuffled()).guarantee == PLAN.guarantee
    assert "oops" in found
    assert "secret" not in repr(found)


def test_a_collection_hides_its_strings() -> None:
    people = hb.Collection.from_values(["secret"], SCHEMA)
    assert "secret" not in repr(people)
    with pytest.raises(TypeError):
        pickle.dumps(people)


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        tuple(VALUES),
        iter(VALUES),
        np.array(VALUES, object),
        pa.array(VALUES),
        pa.table({"s": VALUES}),
        pd.Series(VALUES),
        pd.DataFrame({"s": VALUES}),
        pl.Series(VALUES),
    ],
    ids=lambda one: type(one).__name__,
)
def test_values_may_come_in_many_containers(values: Any) -> None:
    expected = hb.Collection.from_values(VALUES, SCHEMA).rows(0, 100)
    assert np.array_equal(hb.Collection.from_values(values, SCHEMA).rows(0, 100), expected)


@pytest.mark.parametrize("values", ["text", b"text", 7, {"a": 1}, np.zeros((2, 2)), pa.table({"a": ["x"], "b": ["y"]})])
def test_other_containers_are_refused(values: Any) -> None:
    with pytest.raises(InvalidInput):
        hb.Collection.from_values(values, SCHEMA)


@pytest.mark.parametrize("value", [7, b"bytes", "a" * 17, "\ud800", ["x"], True])
def test_invalid_strings_are_refused_by_number_without_their_content(value: Any) -> None:
    with pytest.raises(InvalidRecord) as caught:
        hb.Collection.from_values(["ok", value], SCHEMA)
    assert caught.value.record == 2
    assert "aaa" not in str(caught.value)


def test_longer_strings_are_cut_if_the_schema_says_so() -> None:
    plan = hb.plan_from(hb.Schema.strings(4, cut=True), 100, PROTOCOL, epsilon=4.0)
    found = estimated(shuffled(["abcdef"] * 50 + ["abcd"] * 50, plan), plan)
    assert sorted(zip(found.strings, found.cut, strict=True)) == [("abcd", False), ("abcd", True)]


def test_devices_send_the_same_rows() -> None:
    rows = np.array([list(device.payloads(value, PLAN)[0]) for value in VALUES], np.uint8)
    assert np.array_equal(rows, hb.randomize(hb.Collection.from_values(VALUES, SCHEMA), PLAN).messages)
    payload = device.payloads("oops", PLAN)[0]
    assert messages.decode(messages.encode(payload, PLAN), PLAN) == payload
    for wrong in (b"", payload[:-1], b"\2" + payload[1:], payload[:4] + b"\2" + payload[5:], payload[:-1] + b"x"):
        with pytest.raises(WireError):
            messages.encode(wrong, PLAN)
    for call in (lambda: device.encode("x", SCHEMA), lambda: device.record_payloads(1, PLAN)):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(InvalidInput):
        device.payloads("x", PLAN, fakes=3)
    with pytest.raises(InvalidInput):
        hb.randomize(hb.Collection.from_values(["x"], SCHEMA), PLAN, fakes=3)


def test_small_or_inconsistent_batches_are_refused() -> None:
    with pytest.raises(BatchTooSmall):
        shuffled(["x"] * 99)
    reports = hb.randomize(hb.Collection.from_values(VALUES, SCHEMA), PLAN)
    with pytest.raises(BatchTooSmall):
        hb.shuffle(replace(reports, n=101))
    doubled = reports.messages.copy()
    doubled[0, 0] = 2
    with pytest.raises(InvalidInput, match="one person"):
        hb.shuffle(replace(reports, messages=doubled))
    with pytest.raises(InvalidInput):
        replace(reports, messages=np.zeros_like(reports.messages))


def test_a_batch_is_drawn_once() -> None:
    once = shuffled()
    assert np.array_equal(hb.shuffle(once).messages, once.messages)


def test_rows_leave_in_the_order_of_their_bytes() -> None:
    values = [f"s{i % 7}" for i in range(700)]
    plan = hb.plan_from(SCHEMA, 700, PROTOCOL, epsilon=4.0)
    found = bodies(shuffled(values, plan).messages)
    assert len(found) == 7
    assert found == sorted(found)


def test_tallies_refuse_what_no_shuffler_sends() -> None:
    reports = hb.randomize(hb.Collection.from_values(VALUES, SCHEMA), PLAN)
    with pytest.raises(InvalidInput, match="shuffled"):
        hb.tally(reports)
    strings = Text(16)
    one, two = strings.encode("a"), strings.encode("b")
    twice = np.concatenate([from_counts([(one, 3)], strings)] * 2)
    with pytest.raises(WireError):
        hb.tally(replace(reports, messages=twice, shuffled=True))
    with pytest.raises(WireError):
        rows = from_counts([(strings.encode(None), 3)], strings)
        hb.tally(replace(reports, messages=rows, shuffled=True))
    with pytest.raises(InvalidInput):
        rows = from_counts([(one, 60), (two, 60)], strings)
        hb.estimate(hb.tally(replace(reports, messages=rows, shuffled=True)), PLAN)
    garbage = np.frombuffer((5).to_bytes(4, "little") + b"\1\0\2\xff\xfe" + bytes(14), np.uint8).reshape(1, -1)
    with pytest.raises(WireError):
        hb.estimate(hb.tally(replace(reports, messages=garbage, shuffled=True)), PLAN)
    other = hb.plan_from(SCHEMA, 101, PROTOCOL, epsilon=4.0)
    with pytest.raises(PlanMismatch):
        hb.estimate(hb.tally(shuffled()), other)
    with pytest.raises(InvalidInput):
        hb.joint(shuffled(), PLAN, ["x"])
    with pytest.raises(InvalidInput, match="a string that one of them does not show"):
        hb.tally(shuffled()) + hb.tally(shuffled())


@pytest.mark.parametrize("name", ["batch.hub", "batch.parquet", "batch/"])
def test_files_and_directories(tmp_path: Path, name: str) -> None:
    reports = hb.randomize(hb.Collection.from_values(VALUES, SCHEMA), PLAN)
    first, second = f"{tmp_path}/raw-{name}", f"{tmp_path}/mixed-{name}"
    half = [
        replace(reports, messages=reports.messages[:40], n=40),
        replace(reports, messages=reports.messages[40:], n=60),
    ]
    write_reports(first, PLAN, half)
    assert inspect_reports(first, PLAN).n == 100
    mixed = shuffle_blocks(read_reports(first, PLAN), PLAN, tempfile.TemporaryFile)
    header = write_reports(second, PLAN, mixed)
    assert header.shuffled
    assert header.n == 100
    found = hb.estimate(hb.tally(read_reports(second, PLAN)), PLAN).question
    assert found.strings[:2] == ("oops", "ouch é")
    with pytest.raises(PlanMismatch):
        read_reports(second, hb.plan_from(hb.Schema.strings(17), 100, PROTOCOL, epsilon=4.0))


def test_wire_batches_reject_other_payload_sizes() -> None:
    data = batches.encode(shuffled())
    assert len(batches.decode(data, PLAN)) == 2
    with pytest.raises(WireError):
        batches.decode_header(data[:12] + b"\1\0\0\0" + data[16:])


def test_estimates_are_read_as_written() -> None:
    result = result_of(shuffled())
    found, again = result.question, hb.Result.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert [one.name for one in again.question] == list(found.strings)
    assert result.to_arrow().num_rows == len(found)
    assert found.to_arrow().num_rows == len(found.to_pandas()) == len(found.to_polars()) == len(found)
    assert "oops" in found._repr_html_()
    text = result.to_json()
    damaged = ("{}", text.replace("hubbub result 3", "hubbub result 9"), "7", text.replace('"cut": []', '"cut": [70]'))
    for each in (*damaged, text.replace('"numbers": [', '"numbers": [0, ')):
        with pytest.raises(WireError):
            hb.Result.from_json(each)
    with pytest.raises(InvalidInput, match="one of the"):
        found["secret"]


def test_an_empty_release_is_an_estimate_too() -> None:
    result = result_of(shuffled([None] * 100))
    found = result.question
    assert len(found) == 0
    assert found.other() == (100, 100)
    assert list(found) == []
    assert hb.Result.from_json(result.to_json()).question.other() == (100, 100)


def test_a_larger_batch_has_a_guarantee_of_its_own() -> None:
    found = result_of(shuffled(["oops"] * 150))
    assert found.guarantee is not None
    assert found.guarantee.n == 150
    assert found.guarantee.delta == PLAN.guarantee.delta


def test_arrow_kernels_read_strings() -> None:
    table = pa.table({"s": VALUES, "other": range(100)})
    expected = hb.Collection.from_values(VALUES, SCHEMA).rows(0, 100)
    assert np.array_equal(kernels.collection(table, PLAN, "s").rows(0, 100), expected)
    assert np.array_equal(kernels.decode(kernels.reports(table, PLAN, "s"), PLAN).messages[:, 4:], expected)
    with pytest.raises(InvalidInput):
        kernels.collection(table, PLAN)
    with pytest.raises(InvalidInput):
        kernels.tally(kernels.reports(table, PLAN, "s"), PLAN)


REAL = hb.plan(hb.Schema.strings(), 10**6, epsilon=1.0, delta=1e-8, trust="shuffler-noise")


def test_conditional_intervals_cover_every_count_from_20_to_200() -> None:
    drawn = REAL.protocol.m
    assert isinstance(drawn, hb.Fakes)
    pmf = drawn.pmf
    table = cumulative(pmf)
    ends = {r: conditional_interval(table, r, 0.95) for r in range(1, 201)}
    for count in range(1, 201):
        chance = np.array([pmf[count - r] if count - r < pmf.size else 0.0 for r in range(1, count + 1)])
        covered = sum(p for r, p in enumerate(chance, 1) if ends[r][0] <= count <= ends[r][1])
        assert covered / chance.sum() >= 0.95, count
    # The control: an interval that does not allow for the condition fails where strings are rarely shown.
    low, high = np.searchsorted(table[1:], 0.025), np.searchsorted(table[1:], 0.975)
    count = 20
    chance = np.array([pmf[count - r] for r in range(1, count + 1)])
    plain = sum(p for r, p in enumerate(chance, 1) if r + low <= count <= r + high)
    assert plain / chance.sum() < 0.5


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("drawn", [hb.Fakes.gaussian(3.0, 12), hb.Fakes.laplace(0.5, 0), hb.Fakes.laplace(2.0, 5)])
def test_conditional_intervals_cover_at_other_levels(drawn: hb.Fakes, level: float) -> None:
    pmf = drawn.pmf
    table = cumulative(pmf)
    for count in range(1, 80):
        covered = total = 0.0
        for number in range(1, count + 1):
            p = pmf[count - number] if count - number < pmf.size else 0.0
            low, high = conditional_interval(table, number, level)
            total += p
            covered += p * (low <= count <= high)
        assert covered >= level * total * (1 - 1e-9)


def test_sure_means_that_the_interval_has_no_count_that_is_hardly_ever_shown() -> None:
    numbers = np.arange(1, 60)
    drawn = REAL.protocol.shuffler_fakes
    assert drawn is not None
    found = hb.StringView(
        n=10**6, strings=tuple(map(str, numbers)), cut=(False,) * numbers.size, numbers=numbers, fakes=drawn
    )
    sure = found.sure.tolist()
    assert sure.index(True) + 1 == 9
    assert all(sure[8:])
    assert [one.sure for one in found] == sure
    low, high = found.interval()
    assert (low[4], high[4]) == (5, 46)
    assert (low[9], high[9]) == (39, 51)
    far = conditional_interval(cumulative(found.fakes.pmf), 10**6, 0.95)
    assert far[1] - far[0] < 15
    assert far[0] > 10**6 + 20


@pytest.mark.long
def test_a_string_of_one_person_is_shown_with_probability_delta_in_simulation() -> None:
    plan = hb.plan(SCHEMA, 1000, epsilon=1.0, delta=1e-3, trust="shuffler-noise")
    drawn = plan.protocol.shuffler_fakes
    assert drawn is not None
    times = 200_000
    found = sum(1 for _ in subtracted(((i, 1) for i in range(times)), drawn))
    expected = times * hb.chance_shown(plan, 1)
    assert abs(found - expected) < 5 * expected**0.5
    assert expected <= times * plan.guarantee.delta
    # The control: clamping instead of conditioning shows far more of them.
    clamped = sum(max(0, draw_number(hb.Fakes.laplace(drawn.scale, 0))) == 0 for _ in range(2000))
    assert clamped > 2000 * plan.guarantee.delta * 10


@pytest.mark.long
def test_a_million_people_of_a_zipf_crowd() -> None:
    rng = np.random.default_rng(5)
    weights = 1 / np.arange(1, 10**7 + 1) ** 1.05
    counts = rng.multinomial(10**6, weights / weights.sum())
    held = {f"s{place}": int(count) for place, count in enumerate(counts) if count}
    shown = dict(subtracted(held.items(), hb.Fakes.laplace(2.0, 35)))
    assert len(shown) >= 1650
    assert min(held[one] for one in shown) > 10
    mean = hb.Fakes.laplace(2.0, 35).mean
    errors = np.array([shown[one] + mean - held[one] for one in shown])
    assert abs(errors.mean()) < 0.5
    assert 2.5 < np.sqrt((errors**2).mean()) < 3.2


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(1, 10**6)), max_size=8, unique_by=lambda one: one[0]))
def test_rows_hold_what_was_put_in(entries: list[tuple[str, int]]) -> None:
    strings = Text(20)
    try:
        counts = {strings.encode(text): number for text, number in entries}
    except InvalidInput:
        return
    rows = from_counts(counts.items(), strings)
    assert legal_rows(rows, strings).all()
    assert dict(zip(bodies(rows), people(rows).tolist(), strict=True)) == counts


def test_the_rest_allows_for_strings_that_are_shown_because_they_lost_little() -> None:
    """All counts are near the threshold: n less the sum of the values is too low by far."""
    plan = hb.plan_from(SCHEMA, 100, hb.Protocol(0, m=hb.Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0)
    values = [f"string {i // 30}" for i in range(30 * 400)]
    people = hb.Collection.from_values(values, plan.schema)
    found = hb.estimate(hb.tally(hb.shuffle(hb.randomize(people, plan))), plan).question
    truth = len(values) - 30 * len(found)
    low, high = found.other()
    assert low <= truth <= high
    assert found.n - found.values.sum() < truth - 2 * len(found)


def test_a_whole_string_comes_before_one_that_was_cut() -> None:
    schema = hb.Schema.strings(4, cut=True)
    plan = hb.plan_from(schema, 100, PLAN.protocol, epsilon=4.0)
    found = estimated(shuffled(["abcdefg"] * 60 + ["abcd"] * 40, plan), plan)
    assert [(one.name, one.cut) for one in found] == [("abcd", True), ("abcd", False)]
    assert not found["abcd"].cut


def test_bytes_that_no_device_sends_are_not_shown() -> None:
    reports = hb.randomize(hb.Collection.from_values(["oops"] * 60 + ["ouch"] * 60, SCHEMA), PLAN)
    messages = reports.messages.copy()
    messages[60:, 7] = 0xFF  # the first byte of "ouch", after four of the number and three of the prefix
    found = estimated(hb.shuffle(replace(reports, messages=messages)))
    assert found.strings == ("oops",)


def test_strings_have_no_fakes_that_an_engine_could_add() -> None:
    with pytest.raises(InvalidInput, match="strings"):
        draw_fakes(PLAN)
