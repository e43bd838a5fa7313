"""Slots of strings: golden bytes, other libraries, and everything that must change, or must be refused."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from typing import Any

import pytest
from cryptography.hazmat.primitives import hpke as library
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidInput, SealError, WireError
from hubbub.model.fakes import Fakes
from hubbub.model.questions import Text
from hubbub.oprf import Evaluation, Key, suite_named
from hubbub.pipeline.threshold import subtracted
from hubbub.wire import hpke
from hubbub.wire.strings import StringOpener, StringSlots, derive_tag_key, message

GOLDEN: list[dict[str, Any]] = json.loads((resources.files("hubbub.vectors") / "strings.json").read_text("utf-8"))
SUITE = "P256-SHA256"
SHORT = Text(32)
unhex = bytes.fromhex


def parties(
    task: bytes = b"t" * 16,
    key_id: int = 7,
    private: bytes = b"p" * 32,
    seed: bytes = b"s" * 32,
    strings: Text = SHORT,
) -> tuple[StringSlots, Key, StringOpener]:
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    form = StringSlots(strings=strings, task=task, key_id=key_id, public=public)
    key = derive_tag_key(SUITE, seed, task, key_id)
    return form, key, StringOpener(form, private, key)


def slot_of(form: StringSlots, key: Key, value: str) -> bytes:
    body = form.strings.encode(value)
    return form.sealed(body, key.output(message(body)))


@pytest.mark.parametrize("one", GOLDEN, ids=[f"{one['suite']}-{i}" for i, one in enumerate(GOLDEN)])
def test_golden_slots(one: dict[str, Any]) -> None:
    if not suite_named(one["suite"]).available():
        pytest.skip("libsodium is not installed")
    strings = Text(one["max_bytes"], one["cut"])
    form = StringSlots(strings=strings, task=unhex(one["task"]), key_id=one["key_id"], public=unhex(one["public"]))
    key = derive_tag_key(one["suite"], unhex(one["tag_seed"]), form.task, form.key_id)
    body = strings.encode(one["value"])
    assert key.public.hex() == one["tag_public"]
    assert body.hex() == one["body"]
    assert key.output(message(body)).hex() == one["output"]
    assert form.make(one["value"], one["suite"], key.public, key.evaluate).hex() == one["slot"]
    assert StringOpener(form, unhex(one["private"]), key).open(unhex(one["slot"])) == body


def test_golden_slots_are_all_different() -> None:
    assert len({one["slot"] for one in GOLDEN}) == len(GOLDEN) == 30


def test_the_vector_of_rfc_9180() -> None:
    """Appendix A.1.1, the first encryption, with its ikmE."""
    sealed = hpke.seal(
        unhex("4265617574792069732074727574682c20747275746820626561757479"),
        unhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"),
        unhex("4f6465206f6e2061204772656369616e2055726e"),
        unhex("7268600d403fce431561aef583ee1613527cff655c1343f29812e66706df3234"),
        unhex("436f756e742d30"),
    )
    assert sealed[:32].hex() == "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    assert sealed[32:].hex() == (
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )


def test_another_library_opens_what_is_sealed_and_seals_what_is_opened() -> None:
    suite = library.Suite(library.KEM.X25519, library.KDF.HKDF_SHA256, library.AEAD.AES_128_GCM)
    private = X25519PrivateKey.from_private_bytes(b"k" * 32)
    public = private.public_key().public_bytes_raw()
    assert suite.decrypt(hpke.seal(b"plain", public, b"info", b"c" * 32), private, b"info") == b"plain"
    assert (
        hpke.unseal(suite.encrypt(b"text", X25519PublicKey.from_public_bytes(public), b"info"), private, b"info")
        == b"text"
    )


def test_two_people_send_equal_bytes_and_only_the_analyzer_reads_them() -> None:
    form, key, opener = parties()
    one, two = (form.make("https://example.org/", SUITE, key.public, key.evaluate) for _ in range(2))
    assert one == two
    assert len(one) == form.size
    assert form.strings.decode(opener.open(one) or b"") == ("https://example.org/", False)


@pytest.mark.parametrize(
    "other",
    [{"task": b"u" * 16}, {"key_id": 8}, {"private": b"q" * 32}, {"seed": b"z" * 32}],
    ids=lambda changed: next(iter(changed)),
)
def test_another_task_or_key_changes_every_part(other: dict[str, Any]) -> None:
    """The encapsulated key and all of the ciphertext: no sixteen bytes in the same place are equal."""
    (form, key, _), (form2, key2, opener2) = parties(), parties(**other)
    one, two = (slot_of(*pair, "https://example.org/") for pair in ((form, key), (form2, key2)))
    blocks = range(2, form.size - 16)
    assert not any(one[i : i + 16] == two[i : i + 16] for i in blocks)
    equal = sum(a == b for a, b in zip(one[2:], two[2:], strict=True))
    assert equal < 8  # by chance, one byte in 256
    with pytest.raises(SealError):
        opener2.open(one)


def test_two_paddings_of_one_string_share_no_coins() -> None:
    """With coins from the output alone, bodies of two lengths would be encrypted with one key and one nonce."""
    form, key, _ = parties(strings=Text(32))
    longer = parties(strings=Text(40))[0]
    one, two = (slot_of(each, key, "x") for each in (form, longer))
    assert one[2:34] != two[2:34]


def test_a_cut_string_differs_from_the_shorter_one() -> None:
    form, key, opener = parties(strings=Text(8, cut=True))
    one, two = slot_of(form, key, "abcdefgh"), slot_of(form, key, "abcdefghi")
    assert one[2:34] != two[2:34]
    assert form.strings.decode(opener.open(two) or b"") == ("abcdefgh", True)


def test_fillers_differ_and_open_to_nothing() -> None:
    form, _, opener = parties()
    one, two = form.filler(), form.filler()
    assert one[2:] != two[2:]
    assert opener.open(one) is None
    assert opener.open(two) is None


def test_from_devices_to_the_analyzer_without_anybody_else_reading() -> None:
    """Devices make slots, the shuffler counts equal ones, and the analyzer opens what is shown and refuses the rest."""
    form, key, opener = parties()
    made = {text: form.make(text, SUITE, key.public, key.evaluate) for text in ("often", "rarely")}
    forged = form.sealed(form.strings.encode("often"), b"other coins")
    counts = Counter([made["often"]] * 60 + [made["rarely"]] * 3 + [form.filler() for _ in range(30)] + [forged] * 50)
    assert sorted(counts.values())[-3:] == [3, 50, 60]
    shown = dict(subtracted(counts.items(), Fakes.laplace(0.5, 9)))
    assert set(shown) == {made["often"], forged}
    assert not any(text.encode() in slot for slot in counts for text in made)
    assert form.strings.decode(opener.open(made["often"]) or b"") == ("often", False)
    assert 45 < shown[made["often"]] < 58
    assert refused(opener, forged) == "not-canonical"


def refused(opener: StringOpener, slot: bytes) -> str:
    with pytest.raises(SealError) as caught:
        opener.open(slot)
    return caught.value.reason


def test_slots_of_malicious_clients_are_refused() -> None:
    form, key, opener = parties()
    x, y = form.strings.encode("x"), form.strings.encode("y")
    coins_of_x = key.output(message(x))
    assert refused(opener, form.sealed(y, coins_of_x)) == "not-canonical"
    assert refused(opener, form.sealed(x, os.urandom(32))) == "not-canonical"
    assert refused(opener, form._key_bytes + os.urandom(form.size - 2)) == "cannot-open"
    assert refused(opener, slot_of(form, key, "x")[:-1]) == "wrong-length"
    assert refused(opener, b"\x00\x08" + slot_of(form, key, "x")[2:]) == "cannot-open"
    garbage = form._key_bytes + hpke.seal(b"\x02\x01\xff\xff" + bytes(32), form.public, form.info, bytes(32))
    assert refused(opener, garbage) == "bad-string"
    old = form._key_bytes + hpke.seal(b"\x01" + x, form.public, form.info, bytes(32))
    assert refused(opener, old) == "bad-version"


def test_an_evaluation_by_another_key_is_refused() -> None:
    """Whoever stands between could answer with a key of its own, and then test dictionaries without asking."""
    form, key, _ = parties()
    with pytest.raises(WireError):
        form.make("x", SUITE, key.public, derive_tag_key(SUITE, b"m" * 32, form.task, 7).evaluate)


def test_an_evaluation_is_not_accepted_for_another_string() -> None:
    form, key, _ = parties()
    seen: list[Evaluation] = []

    def repeat(elements: Any) -> Evaluation:
        seen.append(key.evaluate(elements))
        return seen[0]

    form.make("x", SUITE, key.public, repeat)
    with pytest.raises(WireError):
        form.make("y", SUITE, key.public, repeat)


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": b"short"},
        {"key_id": 2**16},
        {"key_id": -1},
        {"public": b"short"},
        {"strings": 64},
    ],
)
def test_bad_arguments(wrong: dict[str, Any]) -> None:
    good = {"strings": Text(8), "task": bytes(16), "key_id": 1, "public": hashlib.sha256(b"").digest()}
    with pytest.raises(InvalidInput):
        StringSlots(**{**good, **wrong})


def test_an_opener_needs_the_key_of_the_slots() -> None:
    form, key, _ = parties()
    with pytest.raises(InvalidInput):
        StringOpener(form, b"other" + bytes(27), key)
    with pytest.raises(InvalidInput):
        message(form.strings.encode(None))
    low_order = StringSlots(strings=Text(8), task=bytes(16), key_id=1, public=bytes(32))
    with pytest.raises(WireError):
        low_order.filler()


def test_nobody_counts_the_people_who_have_a_string_by_their_evaluations() -> None:
    form, key, opener = parties()
    asked: list[bytes] = []

    def evaluate(elements: Sequence[bytes]) -> Evaluation:
        asked.extend(elements)
        return key.evaluate(elements)

    slots = [form.make(value, SUITE, key.public, evaluate) for value in ("crash", None, None)]
    assert len(set(asked)) == len(set(slots)) == 3
    assert {len(slot) for slot in slots} == {form.size}
    assert [opener.open(slot) is None for slot in slots] == [False, True, True]


@given(st.text(max_size=40), st.integers(1, 40), st.booleans())
def test_bodies_are_read_as_they_were_written(value: str, max_bytes: int, cut: bool) -> None:
    strings = Text(max_bytes, cut)
    fits = len(value.encode("utf-8", "surrogatepass")) <= max_bytes
    try:
        body = strings.encode(value)
    except InvalidInput as error:
        assert not fits or "surrogates" in str(error)
        assert not value or value not in str(error) or len(value) < 4
        return
    found = strings.decode(body)
    assert found is not None
    assert len(body) == strings.size
    assert found == (value, False) if fits else (value.startswith(found[0]) and found[1])


@pytest.mark.parametrize(
    "body",
    [
        b"\x03\x00\x00" + bytes(8),
        b"\x02\x00\x08" + b"a" * 8,
        b"\x01\x00\x09" + b"a" * 8,
        b"\x01\x00\x02" + b"a" * 8,
        b"\x01\x00\x01" + b"\xff" + bytes(7),
        b"\x00\x00\x01" + b"a" + bytes(7),
        b"\x00\x00\x00" + b"a" + bytes(7),
        b"",
    ],
)
def test_illegal_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        Text(8).decode(body)
    if body[:1] == b"\x02":
        assert Text(8, cut=True).decode(body) == ("aaaaaaaa", True)
        with pytest.raises(WireError):
            Text(8, cut=True).decode(b"\x02\x00\x04aaaa" + bytes(4))
