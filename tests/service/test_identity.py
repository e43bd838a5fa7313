"""Operator identities: signatures, and files that only their owner can read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.samples import ANALYZER, SHUFFLER

from hubbub.documents import hex_bytes
from hubbub.errors import FalseClaim, HubbubError, InvalidInput, WireError
from hubbub.service.task.identity import Identity, SignedDocument, verify


def test_files_round_trip_and_are_private(tmp_path: Path) -> None:
    path = tmp_path / "operator"
    own = Identity.generate()
    own.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Identity.load(path).public == own.public
    assert Identity.load(path).sign("keys", b"x") == own.sign("keys", b"x")
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InvalidInput, match="not exist"):
        Identity.generate().save(path)
    assert own.public.hex()[:8] in repr(own)
    assert path.read_text().split()[-1] not in repr(own)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_files_readable_by_others_are_rejected(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "operator"
    Identity.generate().save(path)
    path.chmod(mode)
    with pytest.raises(InvalidInput, match="owner only"):
        Identity.load(path)


@pytest.mark.parametrize("content", [b"", b"hubbub identity 1\n", b"hubbub identity 1\n00\n", b"\xff" * 80, b"00" * 32])
def test_other_files_are_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "operator"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(WireError, match="identity"):
        Identity.load(path)


@given(st.text("abc", max_size=5), st.binary(max_size=40))
def test_signatures_are_valid_only_for_the_signed_document(kind: str, body: bytes) -> None:
    signature = ANALYZER.sign(kind, body)
    verify(ANALYZER.public, kind, body, signature)
    others = [
        (SHUFFLER.public, kind, body, signature),
        (ANALYZER.public, kind + "d", body, signature),
        (ANALYZER.public, kind, body + b"\0", signature),
        (ANALYZER.public, kind, body, signature[:-1]),
        (ANALYZER.public, kind, body, signature[:-1] + bytes([signature[-1] ^ 1])),
        (ANALYZER.public[:-1], kind, body, signature),
    ]
    for other in others:
        with pytest.raises(FalseClaim):
            verify(*other)


def test_kind_and_body_are_separated() -> None:
    with pytest.raises(FalseClaim):
        verify(ANALYZER.public, "key", b"s\0x", ANALYZER.sign("keys", b"x"))


VALUES = st.recursive(
    st.none() | st.integers(-99, 99) | st.text('é\\"a', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES)
def test_documents_round_trip(body: object) -> None:
    document = SignedDocument.sign(SHUFFLER, "manifest", body)  # type: ignore[arg-type]
    again = SignedDocument.from_json(json.dumps(json.loads(document.to_json()), indent=2))
    assert again == document
    assert again.verify(SHUFFLER.public, "manifest") == body


@given(st.data())
def test_damaged_documents_raise_only_documented_errors(data: st.DataObject) -> None:
    text = SignedDocument.sign(SHUFFLER, "manifest", {"batch": "00", "chunks": [1, 2]}).to_json()
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + bytes([data.draw(st.integers(0, 255))]) + text[place + 1 :]
    try:
        assert SignedDocument.from_json(damaged).verify(SHUFFLER.public, "manifest") == {
            "batch": "00",
            "chunks": [1, 2],
        }
    except HubbubError as error:
        assert isinstance(error, WireError | FalseClaim)


@pytest.mark.parametrize("body", [b"[" * 900 + b"]" * 900, b'"\\ud800"'])
def test_bodies_without_a_canonical_form_are_rejected(body: bytes) -> None:
    text = b'{"body":' + body + b',"signature":"' + b"00" * 64 + b'"}'
    with pytest.raises(WireError):
        SignedDocument.from_json(text).verify(SHUFFLER.public, "manifest")


@pytest.mark.parametrize("value", ["0", "0g", "AB", "abcd", "", " ab", "ab ", "a b"])
def test_hexadecimal_strings_have_one_spelling(value: str) -> None:
    assert hex_bytes("ab", 1, "the task") == b"\xab"
    with pytest.raises(WireError):
        hex_bytes(value, 1, "the task")


def test_seeds_of_another_length_are_rejected() -> None:
    with pytest.raises(InvalidInput):
        Identity(b"short")
