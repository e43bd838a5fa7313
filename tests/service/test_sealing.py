"""Sealed bytes open only for their reader and contract; lengths are fixed, and errors are of one type."""

import os
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.service.samples import SERVABLE, contract, of_point, pair, simple

from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput, SealError, WireError
from hubbub.pipeline import device
from hubbub.service.task.sealing import (
    FILLER,
    MAX_BUNDLES,
    REASONS,
    SUITES,
    VERSION,
    _encrypt,
    bundle_key,
    generate,
    load_private,
    load_public,
    open_bundle,
    open_slot,
    parse_upload,
    replay_id,
    seal_bundle,
    seal_slot,
    slot_id,
    slot_info,
    slot_key,
    split_bundle,
)
from hubbub.wire.bundles import BundleLayout


def sealed(layout: BundleLayout, payloads: list[bytes], key: int = 1) -> bytes:
    """Return the bundle of a client."""
    padded = [*payloads, *[None] * (layout.slots - len(payloads))]
    slots = [seal_slot(payload, layout, key, pair(layout.suite, "analyzer").public) for payload in padded]
    return seal_bundle(slots, layout, key + 1, pair(layout.suite, "shuffler").public, bytes(layout.admission))


def opened(bundle: bytes, layout: BundleLayout) -> list[bytes | None]:
    """Return the payloads that the analyzer reads."""
    slots = open_bundle(bundle, layout, pair(layout.suite, "shuffler").private).slots
    return [open_slot(slot, layout, pair(layout.suite, "analyzer").private) for slot in slots]


def reason(bundle: bytes, layout: BundleLayout) -> str:
    """Return the reason why a bundle is rejected."""
    with pytest.raises(SealError) as caught:
        opened(bundle, layout)
    assert caught.value.reason in REASONS
    return caught.value.reason


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(("kind", "name"), SERVABLE)
def test_every_protocol_has_bundles_of_one_length(kind: str, name: str, suite: int) -> None:
    """For any record and any number of messages."""
    own = of_point(kind, name, suite)
    schema, entropy = own.plan.schema, SeededStreamNotForPeople(suite)
    values: list[object] = list(schema.labels) if kind == "one_hot" else [[], schema.labels[: schema.max_set]]
    for value in values:
        payloads = device.payloads(value, own.plan, entropy=entropy)
        bundle = sealed(own.layout, payloads)
        assert len(bundle) == own.bundle_size
        assert opened(bundle, own.layout) == [*payloads, *[None] * (own.slots - len(payloads))]


@given(st.data(), st.sampled_from([1, 2]))
def test_any_payload_round_trips(data: st.DataObject, suite: int) -> None:
    payload = data.draw(st.integers(1, 40))
    slots, key = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2**16 - 2))
    limit = data.draw(st.integers(1, 1 << 8 * payload))
    layout = BundleLayout(data.draw(st.binary(min_size=16, max_size=16)), suite, slots, payload, limit)
    numbers = data.draw(st.lists(st.integers(0, limit - 1), max_size=slots))
    payloads = [number.to_bytes(payload, "little") for number in numbers]
    bundle = sealed(layout, payloads, key)
    assert (len(bundle), bundle_key(bundle)) == (layout.bundle_size, key + 1)
    assert opened(bundle, layout) == [*payloads, *[None] * (slots - len(payloads))]


@given(st.binary(max_size=600), st.sampled_from(["unchanged", "bundle", "slot"]), st.booleans())
@example(b"", "unchanged", False)
@example(b"HBB3\x01", "bundle", True)
def test_arbitrary_bytes_are_rejected(data: bytes, size: str, view: bool) -> None:
    layout = simple().layout
    if size != "unchanged":
        length = layout.bundle_size if size == "bundle" else layout.slot_size
        data = data[:length].ljust(length, b"\0")
    given_ = memoryview(data) if view else data
    with pytest.raises(SealError):
        open_bundle(given_, layout, pair(1, "shuffler").private)
    with pytest.raises(SealError):
        open_slot(given_, layout, pair(1, "analyzer").private)
    with pytest.raises(SealError):
        parse_upload(given_, layout)


def flips(data: bytes, step: int = 1) -> list[bytes]:
    """Return copies of the data with one bit changed, for every ``step``-th bit."""
    number, size = int.from_bytes(data, "big"), len(data)
    return [(number ^ 1 << bit).to_bytes(size, "big") for bit in range(0, 8 * size, step)]


@pytest.mark.parametrize("suite", SUITES)
def test_every_changed_bit_is_detected(suite: int) -> None:
    """Including the bit that X25519 ignores: the key share is bound into the key schedule."""
    layout = simple(suite).layout
    bundle = sealed(layout, [b"\x05"])
    step = 1 if suite == 1 else 61
    reasons = [reason(changed, layout) for changed in flips(bundle, step)]
    assert set(reasons) <= {"cannot-open", "malformed", "bad-version"}
    slot = open_bundle(bundle, layout, pair(suite, "shuffler").private).slots[0]
    for changed in flips(slot, step):
        with pytest.raises(SealError, match="cannot-open"):
            open_slot(changed, layout, pair(suite, "analyzer").private)
    everyone = {replay_id(changed, layout) for changed in flips(bundle)}
    assert len(everyone) == 8 * (SUITES[suite].enc) + 1


@pytest.mark.slow
def test_every_changed_bit_is_detected_in_suite_2() -> None:
    layout = simple(2).layout
    for changed in flips(sealed(layout, [b"\x05"])):
        reason(changed, layout)


def test_every_other_length_is_rejected() -> None:
    layout = simple().layout
    bundle = sealed(layout, [b"\x05"])
    slot = open_bundle(bundle, layout, pair(1, "shuffler").private).slots[0]
    for size in range(len(bundle)):
        assert reason(bundle[:size], layout) == "wrong-length"
    assert reason(bundle + b"\0", layout) == "wrong-length"
    for data in [slot[:size] for size in range(len(slot))] + [slot + b"\0"]:
        with pytest.raises(SealError, match="wrong-length"):
            open_slot(data, layout, pair(1, "analyzer").private)


def test_a_report_for_a_large_batch_does_not_open_in_a_small_one() -> None:
    """Not even with the other task written into the header."""
    plan = simple().plan
    large, small = contract(plan, min_batch_size=10_000), contract(plan, min_batch_size=plan.n)
    bundle = sealed(large.layout, [b"\x05"])
    assert opened(bundle, large.layout)[0] == b"\x05"
    assert reason(bundle, small.layout) == "cannot-open"
    assert reason(bundle[:8] + small.task + bundle[24:], small.layout) == "cannot-open"
    for slot in open_bundle(bundle, large.layout, pair(1, "shuffler").private).slots:
        with pytest.raises(SealError, match="cannot-open"):
            open_slot(slot, small.layout, pair(1, "analyzer").private)


@pytest.mark.parametrize("changes", [{"epoch": 7}, {"task_start": 1}, {"task_end": 500_001}, {"analyzer": bytes(32)}])
def test_every_term_of_a_contract_is_bound_into_the_seal(changes: dict[str, object]) -> None:
    own = simple()
    bundle = sealed(own.layout, [b"\x05"])
    other = contract(own.plan, **changes).layout
    assert reason(bundle, other) == "cannot-open"
    assert reason(bundle[:8] + other.task + bundle[24:], other) == "cannot-open"


def test_other_keys_suites_and_key_ids_do_not_open() -> None:
    layout = simple().layout
    bundle = sealed(layout, [b"\x05"])
    slot = open_bundle(bundle, layout, pair(1, "shuffler").private).slots[0]
    stranger = load_private(1, generate(1)[0])
    attempts: list[Callable[[], object]] = [
        lambda: open_bundle(bundle, layout, stranger),
        lambda: open_bundle(bundle, layout, pair(1, "analyzer").private),
        lambda: open_bundle(bundle, layout, pair(2, "shuffler").private),
        lambda: open_bundle(bundle[:6] + b"\x77\x77" + bundle[8:], layout, pair(1, "shuffler").private),
        lambda: open_slot(slot, layout, stranger),
        lambda: open_slot(slot, layout, pair(1, "shuffler").private),
        lambda: open_slot(slot, layout, pair(2, "analyzer").private),
        lambda: open_slot(b"\x77\x77" + slot[2:], layout, pair(1, "analyzer").private),
    ]
    for attempt in attempts:
        with pytest.raises(SealError, match="cannot-open"):
            attempt()


@given(st.integers(1, 6), st.booleans())
def test_uploads_are_split_into_their_bundles(count: int, view: bool) -> None:
    layout = simple().layout
    bundles = [sealed(layout, [b"\x05"]) for _ in range(count)]
    body = b"".join(bundles)
    assert parse_upload(memoryview(body) if view else body, layout) == bundles
    assert len({replay_id(bundle, layout) for bundle in bundles}) == count


def test_uploads_of_other_lengths_and_headers_are_rejected() -> None:
    layout = simple().layout
    bundle = sealed(layout, [b"\x05"])
    assert len(parse_upload(bundle * MAX_BUNDLES, layout)) == MAX_BUNDLES
    for body in (b"", bundle[:-1], bundle + b"\0", bundle * (MAX_BUNDLES + 1)):
        with pytest.raises(SealError, match="wrong-length") as caught:
            parse_upload(body, layout)
        assert caught.value.index is None
    with pytest.raises(SealError, match="bundle 3 of the upload is rejected: bad-version") as caught:
        parse_upload(bundle * 2 + bundle[:3] + b"9" + bundle[4:], layout)
    assert (caught.value.reason, caught.value.index) == ("bad-version", 2)


def test_every_seal_is_fresh() -> None:
    layout = simple().layout
    bundles = [sealed(layout, [b"\x05"]) for _ in range(50)]
    slots = [slot for bundle in bundles for slot in open_bundle(bundle, layout, pair(1, "shuffler").private).slots]
    assert len({slot_id(slot) for slot in slots}) == 150
    assert {slot_key(slot) for slot in slots} == {1}


def test_invalid_content_is_not_sealed() -> None:
    layout = simple().layout
    public = pair(1, "analyzer").public
    slots = [seal_slot(None, layout, 1, public)] * 3
    attempts: list[Callable[[], object]] = [
        lambda: seal_slot(b"\x08", layout, 1, public),
        lambda: seal_slot(b"", layout, 1, public),
        lambda: seal_slot(b"\0\0", layout, 1, public),
        lambda: seal_slot(b"\0", layout, 2**16, public),
        lambda: seal_slot(b"\0", layout, -1, public),
        lambda: seal_bundle(slots[:2], layout, 1, public, bytes(32)),
        lambda: seal_bundle([*slots[:2], slots[2][:-1]], layout, 1, public, bytes(32)),
        lambda: seal_bundle([*slots[:2], b"\0\x02" + slots[2][2:]], layout, 1, public, bytes(32)),
        lambda: seal_bundle(slots, layout, 1, public, b""),
        lambda: seal_bundle(slots, layout, 1, public, bytes(31)),
        lambda: seal_bundle(slots, layout, 1, public, bytes(354)),
        lambda: replace(layout, admission=33),
        lambda: replace(layout, task=b""),
        lambda: replace(layout, suite=3),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput):
            attempt()


def test_invalid_public_keys_are_rejected() -> None:
    """A point of low order, a lattice key out of range, another suite: rejected at the latest when sealed to."""
    layout = simple().layout
    for suite, public in ((1, b""), (2, bytes(32)), (1, bytes(1216)), (2, b"\xff" * 1216)):
        with pytest.raises(WireError):
            load_public(suite, public)
    for key in (load_public(1, bytes(32)), pair(2, "analyzer").public):
        with pytest.raises(WireError):
            seal_slot(b"\0", layout, 1, key)
    for suite, private in ((1, b""), (2, os.urandom(96))):
        with pytest.raises(WireError):
            load_private(suite, private)


def test_layouts_and_errors_can_be_pickled() -> None:
    layout = simple().layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    error = pickle.loads(pickle.dumps(SealError("bad-kind", 4)))
    assert (error.reason, error.index) == ("bad-kind", 4)


def test_a_filler_with_any_content_is_rejected() -> None:
    """Otherwise it would be a way to send what is never counted."""
    layout = replace(simple().layout, payload=2)
    keys = pair(layout.suite, "analyzer")
    for content, expected in ((b"\0\0", None), (b"\0\1", "bad-padding"), (b"\1\0", "bad-padding")):
        plain = bytes([VERSION, FILLER]) + content
        slot = (1).to_bytes(2, "big") + _encrypt(layout.suite, plain, keys.public, slot_info(layout, b"\0\1"))
        if expected is None:
            assert open_slot(slot, layout, keys.private) is None
        else:
            with pytest.raises(SealError, match=expected):
                open_slot(slot, layout, keys.private)


def test_slots_of_one_bundle_are_sealed_to_one_key() -> None:
    layout = replace(simple().layout, slots=2)
    slots = [seal_slot(None, layout, key, pair(layout.suite, "analyzer").public) for key in (1, 1, 2)]
    start = bytes(layout.admission)
    assert split_bundle(start + slots[0] + slots[1], layout).slots == slots[:2]
    with pytest.raises(SealError, match="malformed"):
        split_bundle(start + slots[1] + slots[2], layout)


def test_the_suite_in_the_header_counts() -> None:
    layout = simple().layout
    bundle = bytearray(sealed(layout, []))
    bundle[bundle.index(bytes([layout.suite, 0]))] ^= 3
    assert reason(bytes(bundle), layout) == "cannot-open"
