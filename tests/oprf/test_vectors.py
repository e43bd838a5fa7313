"""The vectors of RFC 9497 (appendix A.1.2 and A.3.2) on both groups, and evaluations that must be refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.errors import HubbubError, InvalidInput, WireError
from hubbub.oprf import SUITES, Blinded, Evaluation, Key, blind, finalize, sodium, suite_named

CASES = json.loads(Path(__file__).with_name("rfc9497.json").read_text())
NAMES = [case["suite"] for case in CASES]
ORDER = {"ristretto255-SHA512": 2**252 + 27742317777372353535851937790883648493, "P256-SHA256": 0}
unhex = bytes.fromhex


@pytest.fixture(params=CASES, ids=NAMES)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A suite with its vectors; ristretto255 is skipped where libsodium is missing."""
    if not suite_named(request.param["suite"]).available():
        pytest.skip("libsodium is not installed")
    return dict(request.param)


def fixed_scalar(monkeypatch: pytest.MonkeyPatch, suite: str, scalar: bytes) -> None:
    monkeypatch.setattr(SUITES[suite], "random_scalar", lambda entropy: scalar)


def test_the_key_follows_from_the_seed(case: dict[str, Any]) -> None:
    key = Key.derive(case["suite"], unhex(case["seed"]), unhex(case["info"]))
    assert key.secret.hex() == case["secret"]
    assert key.public.hex() == case["public"]
    assert case["secret"] not in repr(key)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_step_equals_the_vector(case: dict[str, Any], place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, key = case["batches"][place], Key(case["suite"], unhex(case["secret"]))
    messages = [unhex(one) for one in batch["input"]]
    blinded = [
        Blinded(case["suite"], message, unhex(scalar)) for message, scalar in zip(messages, batch["blind"], strict=True)
    ]
    assert [one.element.hex() for one in blinded] == batch["blinded"]
    fixed_scalar(monkeypatch, case["suite"], unhex(batch["nonce"]))
    evaluation = key.evaluate([one.element for one in blinded])
    assert [one.hex() for one in evaluation.elements] == batch["evaluated"]
    assert evaluation.proof.hex() == batch["proof"]
    outputs = finalize(blinded, evaluation, key.public)
    assert [one.hex() for one in outputs] == batch["output"]
    assert outputs == [key.output(message) for message in messages]


def evaluated(suite: str) -> tuple[Key, list[Blinded], Evaluation]:
    key = Key.derive(suite, bytes(32), b"one")
    blinded = [blind(suite, b"a"), blind(suite, b"b")]
    return key, blinded, key.evaluate([one.element for one in blinded])


FORGERIES: dict[str, Callable[[Key, list[Blinded], Evaluation], Evaluation]] = {
    "of another key": lambda key, asked, _: Key.derive(key.suite, bytes(32), b"two").evaluate(
        [one.element for one in asked]
    ),
    "with swapped elements": lambda _, __, given: replace(given, elements=given.elements[::-1]),
    "with the proof of another request": lambda key, _, given: replace(
        given, proof=key.evaluate([blind(key.suite, b"a").element] * 2).proof
    ),
    "with one bit changed": lambda _, __, given: replace(given, proof=bytes([given.proof[0] ^ 1]) + given.proof[1:]),
    "with a proof of zeros": lambda _, __, given: replace(given, proof=bytes(64)),
    "with a short proof": lambda _, __, given: replace(given, proof=given.proof[:-1]),
    "with one element twice": lambda _, __, given: replace(given, elements=(given.elements[0],) * 2),
    "with one element only": lambda _, __, given: replace(given, elements=given.elements[:1]),
    "with the identity": lambda _, __, given: replace(given, elements=(bytes(len(given.elements[0])),) * 2),
    "that repeats the request": lambda _, asked, given: replace(given, elements=tuple(one.element for one in asked)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_swapped_and_repeated_proofs_are_refused(case: dict[str, Any], name: str) -> None:
    key, asked, given = evaluated(case["suite"])
    assert finalize(asked, given, key.public) == [key.output(b"a"), key.output(b"b")]
    with pytest.raises(WireError):
        finalize(asked, FORGERIES[name](key, asked, given), key.public)


def test_a_proof_is_refused_under_another_public_key(case: dict[str, Any]) -> None:
    _, asked, given = evaluated(case["suite"])
    with pytest.raises(WireError):
        finalize(asked, given, Key.derive(case["suite"], bytes(32), b"two").public)


def test_a_shifted_response_is_refused() -> None:
    """libsodium takes scalars modulo the order, so that a proof would have several forms."""
    suite = NAMES[0]
    if not suite_named(suite).available():
        pytest.skip("libsodium is not installed")
    key, asked, given = evaluated(suite)
    response = int.from_bytes(given.proof[32:], "little") + ORDER[suite]
    with pytest.raises(WireError):
        finalize(asked, replace(given, proof=given.proof[:32] + response.to_bytes(32, "little")), key.public)


def test_blinds_are_fresh_and_hide_the_message(case: dict[str, Any]) -> None:
    one, two = (blind(case["suite"], b"secret text") for _ in range(2))
    assert one.element != two.element
    assert "secret" not in repr(one)


@pytest.mark.parametrize("element", [b"", bytes(31), bytes(33), b"\xff" * 32, b"\xff" * 33, bytes(32)])
def test_bytes_that_encode_no_element_are_refused(case: dict[str, Any], element: bytes) -> None:
    with pytest.raises(WireError):
        Key.derive(case["suite"], bytes(32), b"").evaluate([element])


@pytest.mark.parametrize(
    "call",
    [
        lambda: Key.derive("nonesuch", bytes(32), b""),
        lambda: Key.derive("P256-SHA256", b"short", b""),
        lambda: Key("P256-SHA256", bytes(32)),
        lambda: Key("P256-SHA256", b"\xff" * 32),
        lambda: Key.derive("P256-SHA256", bytes(32), b"").evaluate([]),
        lambda: Key.derive("P256-SHA256", bytes(32), b"").evaluate("text"),  # type: ignore[arg-type]
        lambda: blind("P256-SHA256", "text"),  # type: ignore[arg-type]
        lambda: blind("P256-SHA256", bytes(2**16)),
        lambda: finalize([], Evaluation((), b""), b""),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        call()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sodium, "library", lambda: None)
    monkeypatch.setattr(sodium, "_linked", sodium._linked.__wrapped__)
    with pytest.raises(HubbubError, match="libsodium"):
        blind(NAMES[0], b"x")
    assert not suite_named(NAMES[0]).available()
