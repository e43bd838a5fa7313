"""One encoding of each value: everything goes round, and every other byte string is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.points import POINTS, plan_of
from tests.vectors import write

import hubbub as hb
from hubbub import device, errors
from hubbub.reports import message_type
from hubbub.vectors import Counter, wire_vectors
from hubbub.wire import batches, messages

GOOD: list[dict[str, Any]] = wire_vectors()["good"]
BAD: list[dict[str, Any]] = wire_vectors()["bad"]
PLANS = {vector["name"]: hb.Plan.from_json(vector["plan"]) for vector in GOOD}


@pytest.mark.parametrize("vector", GOOD, ids=lambda vector: str(vector["name"]))
def test_good_vectors(vector: dict[str, Any]) -> None:
    """As a client in another language would check itself: plan, id, then message by message from the counter stream."""
    plan = PLANS[vector["name"]]
    assert plan.id == vector["id"]
    assert plan.to_json() == vector["plan"]
    entropy = Counter()
    payloads = []
    for value, sent in zip(vector["values"], vector["messages"], strict=True):
        made = [messages.encode(payload, plan).hex() for payload in device.payloads(value, plan, entropy=entropy)]
        assert made == sent
        payloads += [messages.decode(bytes.fromhex(message), plan) for message in sent]
    data = bytes.fromhex(vector["batch"])
    reports = batches.decode(data, plan)
    assert reports.messages.tobytes() == b"".join(payloads)
    assert batches.encode(reports) == data


def test_vectors_are_current() -> None:
    """Guarantees may be sharpened and change ids; what devices send for a plan may not."""
    for old, new in zip(GOOD, write.good(), strict=True):
        assert [[m[40:] for m in one] for one in old["messages"]] == [[m[40:] for m in one] for one in new["messages"]]


@pytest.mark.parametrize("vector", BAD, ids=lambda vector: "{plan}, {what}: {why}".format(**vector))
def test_bad_vectors(vector: dict[str, Any]) -> None:
    decode = messages.decode if vector["what"] == "message" else batches.decode
    with pytest.raises(getattr(errors, vector["error"]), match=" must "):
        decode(bytes.fromhex(vector["data"]), PLANS[vector["plan"]])


@given(st.data())
def test_batches_go_round(data: st.DataObject) -> None:
    plan = plan_of(*data.draw(st.sampled_from(POINTS)))
    count = data.draw(st.integers(0, 40))
    width = plan.schema.width
    top = (1 << width) - 1 if plan.protocol.release == "records" else width - 1
    numbers = data.draw(st.lists(st.integers(0, top), min_size=count, max_size=count))
    payloads = [number.to_bytes(plan.payload, "little") for number in numbers]
    assert [messages.decode(messages.encode(payload, plan), plan) for payload in payloads] == payloads
    reports = write.reports_of(payloads, plan, n=data.draw(st.integers(0, 99)), fakes=data.draw(st.integers(0, 9)))
    again = batches.decode(batches.encode(reports), plan)
    assert again.messages.dtype == message_type(plan)
    assert np.array_equal(again.messages, reports.messages)
    assert (again.n, again.fakes, again.batch) == (reports.n, reports.fakes, reports.batch)
    assert batches.read_header(batches.encode(reports)).plan == plan.id


@given(st.data())
def test_every_damage_is_noticed(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(GOOD))
    plan, batch = PLANS[vector["name"]], bytearray.fromhex(vector["batch"])
    place = data.draw(st.integers(0, len(batch) - 1))
    batch[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(errors.InvalidInput):
        batches.decode(bytes(batch), plan)


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    for plan in PLANS.values():
        with pytest.raises(errors.WireError):
            messages.decode(noise, plan)
        with pytest.raises(errors.WireError):
            batches.decode(noise, plan)


def test_only_bytes_are_read() -> None:
    plan = PLANS["flip"]
    for wrong in (None, "HB", bytearray(21), 7):
        with pytest.raises(errors.InvalidInput):
            messages.decode(wrong, plan)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidInput):
            messages.encode(wrong, plan)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidInput):
            batches.decode(wrong, plan)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidInput):
            batches.encode(wrong)  # type: ignore[arg-type]
