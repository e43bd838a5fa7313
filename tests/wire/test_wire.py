"""Every value has one encoding: encoding and decoding round-trip, and decoders reject all other bytes."""

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.points import POINTS, plan_of
from tests.vectors import write

import hubbub as hb
from hubbub import errors
from hubbub.pipeline import device
from hubbub.pipeline.reports import decode_payloads, legal_payloads, message_type
from hubbub.vectors import Counter, check_vectors, wire_vectors
from hubbub.wire import batches, messages

GOOD: list[dict[str, Any]] = wire_vectors()["good"]
BAD: list[dict[str, Any]] = wire_vectors()["bad"]
PLANS = {vector["name"]: hb.Plan.from_json(vector["plan"]) for vector in GOOD}
WIDE = hb.plan_from(hb.Schema.at_most(2, 300), 100, hb.Protocol(0.01, release="bits"), epsilon=3.0)
# Plans are made when a test draws them, not by every process that collects the tests.
ALL_PLANS: list[Callable[[], hb.Plan]] = [functools.partial(plan_of, *point) for point in POINTS]
ALL_PLANS += [functools.partial(PLANS.__getitem__, name) for name in PLANS] + [lambda: WIDE]


@pytest.mark.parametrize("vector", GOOD, ids=lambda vector: str(vector["name"]))
def test_good_vectors(vector: dict[str, Any]) -> None:
    """A client in another language checks itself in this way: plan, id, then messages from the counter stream."""
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
    """Tighter guarantees may change ids, but not the payloads that devices send for a plan."""
    for old, new in zip(GOOD, write.good(), strict=True):
        assert [[m[40:] for m in one] for one in old["messages"]] == [[m[40:] for m in one] for one in new["messages"]]


@pytest.mark.parametrize("vector", BAD, ids=lambda vector: "{plan}, {what}: {why}".format(**vector))
def test_bad_vectors(vector: dict[str, Any]) -> None:
    decode = messages.decode if vector["what"] == "message" else batches.decode
    with pytest.raises(getattr(errors, vector["error"])):
        decode(bytes.fromhex(vector["data"]), PLANS[vector["plan"]])


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ('{"format": "hubbub wire vectors 1"}', "the format of the file of vectors must be"),
        ('{"format": "hubbub wire vectors 2"}', "does not have the entries"),
        ("[]", "the format"),
    ],
)
def test_files_of_vectors(text: str, wording: str) -> None:
    with pytest.raises(errors.WireError, match=wording):
        check_vectors(text)


def test_magic_numbers_differ() -> None:
    """A decoder of one format never accepts the bytes of another."""
    vector = GOOD[0]
    message, batch = (bytes.fromhex(text) for text in (vector["messages"][0][0], vector["batch"]))
    assert (message[:4], batch[:5]) == (b"HBM\2", b"HUBB\2")


def edited(data: bytes, place: int, new: bytes, *, digest: bool = True) -> bytes:
    data = data[:place] + new + data[place + len(new) :]
    return data[:-32] + hashlib.sha256(data[:-32]).digest() if digest else data


FLIP = PLANS["flip"]
MESSAGE = bytes.fromhex(GOOD[0]["messages"][0][0])
BATCH = bytes.fromhex(GOOD[0]["batch"])
WORDINGS: list[tuple[Callable[[], object], str]] = [
    (lambda: messages.decode(MESSAGE[:-1], FLIP), "a message of this plan must have 21 bytes, got 20"),
    (lambda: messages.decode(b"HUB" + MESSAGE[3:], FLIP), 'a message must start with "HBM"'),
    (lambda: messages.decode(b"HBM\1" + MESSAGE[4:], FLIP), "the version of a message must be 2, got 1"),
    (lambda: messages.decode(MESSAGE[:20] + b"\x08", FLIP), "the payload must have zero padding bits"),
    (lambda: messages.decode(bytearray(21), FLIP), "a message must be of type bytes, not bytearray"),  # type: ignore[arg-type]
    (lambda: messages.encode(b"\1\1", FLIP), "the length of the payload must be 1, got 2"),
    (lambda: batches.decode(BATCH[:71], FLIP), "a batch must have at least 72 bytes, got 71"),
    (lambda: batches.decode(edited(BATCH, 0, b"HBM\2"), FLIP), 'a batch must start with "HUBB"'),
    (lambda: batches.decode(edited(BATCH, 4, b"\1"), FLIP), "the version of a batch must be 2, got 1"),
    (lambda: batches.decode(edited(BATCH, 5, b"\0"), FLIP), "the release of a batch must be 1, 2, 3 or 4, got 0"),
    (lambda: batches.decode(edited(BATCH, 6, b"\2"), FLIP), "the flag 'shuffled' of a batch must be 0 or 1, got 2"),
    (lambda: batches.decode(edited(BATCH, 7, b"\1"), FLIP), "the reserved byte of a batch must be zero"),
    (
        lambda: batches.decode(edited(BATCH, 12, b"\2"), FLIP),
        "a batch of width 3 must have the payload size of its release, got 2",
    ),
    (
        lambda: batches.decode(edited(BATCH, 8, b"\4"), FLIP),
        "the release, width and payload size of a batch must be those of its plan",
    ),
    (
        lambda: batches.decode(edited(BATCH, 56, b"\xff" * 8), FLIP),
        "in the header of a batch: n must be a whole number in [0, 1,000,000,000,000], got 18446744073709551615",
    ),
    (lambda: batches.decode(BATCH[:-33], FLIP), "a batch of 2 messages must have 106 bytes, but it is shorter"),
    (lambda: batches.decode(BATCH[:-1], FLIP), "a batch of 2 messages must have 106 bytes, but it is shorter"),
    (lambda: batches.decode(BATCH[:73], FLIP), "a batch of 2 messages must have 106 bytes, but it is shorter"),
    (lambda: batches.decode(BATCH + b"\0", FLIP), "a batch of 2 messages must have 106 bytes, but it is longer"),
    (
        lambda: batches.decode(edited(BATCH, 72, b"\7", digest=False), FLIP),
        "a batch must end with the SHA-256 of its content",
    ),
    (lambda: batches.decode(edited(BATCH, 73, b"\x08"), FLIP), "payload 2 must have zero padding bits"),
    (lambda: batches.decode("HUBB", FLIP), "a batch must be of type bytes, not str"),  # type: ignore[arg-type]
    (lambda: decode_payloads(b"\1\0\0", WIDE), "the length of the payloads must be a multiple of 2, got 3"),
    (lambda: decode_payloads(b"\1\0\x2c\1", WIDE), "payload 2 must be an index below 300"),
]


@pytest.mark.parametrize(("call", "wording"), WORDINGS, ids=[wording for _, wording in WORDINGS])
def test_wording_of_wire_errors(call: Callable[[], object], wording: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        call()
    assert type(caught.value) is errors.WireError
    assert str(caught.value) == wording


@given(st.data())
def test_batches_round_trip(data: st.DataObject) -> None:
    plan = plan_of(*data.draw(st.sampled_from(POINTS)))
    limit = plan.protocol.payload_format.limit(plan.schema.width)
    numbers = data.draw(st.lists(st.integers(0, limit - 1), max_size=40))
    payloads = [number.to_bytes(plan.payload, "little") for number in numbers]
    assert [messages.decode(messages.encode(payload, plan), plan) for payload in payloads] == payloads
    n, fakes = data.draw(st.integers(1, 99)), data.draw(st.integers(0, 9))
    reports = hb.Reports(plan, decode_payloads(b"".join(payloads), plan), n, fakes, data.draw(st.booleans()))
    again = batches.decode(batches.encode(reports), plan)
    assert again.messages.dtype == message_type(plan)
    assert np.array_equal(again.messages, reports.messages)
    assert again.header == reports.header == batches.decode_header(batches.encode(reports))
    cut = data.draw(st.integers(0, len(numbers)))
    batch = hb.Batch(reports.header, iter([reports.messages[:cut], reports.messages[cut:]]))
    assert batches.encode(batch) == batches.encode(reports)


def test_a_batch_must_have_the_messages_that_it_declares() -> None:
    reports = batches.decode(BATCH, FLIP)
    short = hb.Batch(reports.header, [reports.messages[:1]])
    with pytest.raises(errors.InvalidInput, match=r"^the batch must have the 2 messages of its header, got 1$"):
        batches.encode(short)
    with pytest.raises(errors.InvalidInput, match=r"^the batch must have the 2 messages of its header, got 1$"):
        hb.tally(short)


@given(st.data())
def test_vectorised_legality_agrees_with_the_scalar_check(data: st.DataObject) -> None:
    plan = data.draw(st.sampled_from(ALL_PLANS))()
    payloads = data.draw(st.lists(st.binary(min_size=plan.payload, max_size=plan.payload), max_size=20))
    form = plan.protocol.payload_format

    def legal(payload: bytes) -> bool:
        try:
            return form.check(payload, plan.schema.width) == payload
        except errors.WireError:
            return False

    expected = [legal(payload) for payload in payloads]
    rows = np.frombuffer(b"".join(payloads), np.uint8).reshape(-1, plan.payload)
    assert legal_payloads(rows, plan).tolist() == expected
    if all(expected):
        assert decode_payloads(b"".join(payloads), plan).tobytes() == b"".join(payloads)
        assert len(hb.Reports(plan, decode_payloads(rows, plan), 1)) == len(payloads)
    else:
        with pytest.raises(errors.WireError, match=f"^payload {expected.index(False) + 1} must "):
            decode_payloads(b"".join(payloads), plan)


@given(st.data())
def test_all_damage_is_detected(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(GOOD))
    plan, batch = PLANS[vector["name"]], bytearray.fromhex(vector["batch"])
    place = data.draw(st.integers(0, len(batch) - 1))
    batch[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(errors.InvalidInput):
        batches.decode(bytes(batch), plan)


@given(st.binary(max_size=200))
def test_noise_is_rejected(noise: bytes) -> None:
    for plan in PLANS.values():
        with pytest.raises(errors.WireError):
            messages.decode(noise, plan)
        with pytest.raises(errors.WireError):
            batches.decode(noise, plan)


def test_only_bytes_are_read() -> None:
    for wrong in (None, "HB", bytearray(21), 7):
        with pytest.raises(errors.InvalidInput):
            messages.decode(wrong, FLIP)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidInput):
            messages.encode(wrong, FLIP)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidInput):
            batches.decode(wrong, FLIP)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidInput):
            batches.encode(wrong)  # type: ignore[arg-type]
