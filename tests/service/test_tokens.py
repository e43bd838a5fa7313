"""Blind signatures and tokens: the vectors of RFC 9474 and RFC 9578, blindness, and tokens that are refused."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.admissions import TOKEN_KEY, issued

from hubbub.errors import WireError
from hubbub.service.issuer import Signer
from hubbub.service.task import blindrsa
from hubbub.service.task.tokens import (
    PendingToken,
    TokenVerifier,
    challenge,
    encode_token_key,
    load_token_key,
    parse_request,
    truncated_key_id,
)

GOLDEN = Path(__file__).parent / "golden"
TASK = bytes(range(16))
KEY = TOKEN_KEY.public
CHALLENGE = challenge("issuer.example", TASK)
VERIFIER = TokenVerifier(KEY, CHALLENGE)


def vectors(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def numbers(one: dict[str, str]) -> rsa.RSAPrivateKey:
    p, q, e = (int(one[name], 16) for name in "pqe")
    d = pow(e, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(e, p * q)
    terms = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    return rsa.RSAPrivateNumbers(p, q, d, *terms, public).private_key()


@pytest.mark.parametrize("one", vectors("rfc9474")["vectors"])
def test_vectors_of_rfc_9474(one: dict[str, str]) -> None:
    private = numbers(one)
    public, modulus = private.public_key(), private.public_key().public_numbers().n
    message, salt = bytes.fromhex(one["msg"]), bytes.fromhex(one["salt"])
    factor = pow(int(one["inv"], 16), -1, modulus)
    blinded = blindrsa.blind(public, message, salt, factor)
    assert blinded.hex() == one["blinded_msg"]
    response = Signer(private).sign(blinded)
    assert response.hex() == one["blind_sig"]
    assert blindrsa.finalize(public, message, response, factor).hex() == one["sig"]


@pytest.mark.parametrize("one", vectors("rfc9578")["vectors"])
def test_vectors_of_rfc_9578(one: dict[str, str]) -> None:
    whole = vectors("rfc9578")
    private = serialization.load_pem_private_key(bytes.fromhex(whole["skS"]), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    key = encode_token_key(private.public_key())
    assert key.hex() == whole["pkS"]
    given_ = {name: bytes.fromhex(value) for name, value in one.items()}
    pending = PendingToken(given_["nonce"], given_["salt"], int.from_bytes(given_["blind"], "big"))
    assert PendingToken.from_bytes(pending.to_bytes()) == pending
    assert pending.request(key, given_["token_challenge"]) == given_["token_request"]
    name, blinded = parse_request(given_["token_request"])
    assert name == truncated_key_id(key)
    assert Signer(private).sign(blinded) == given_["token_response"]
    token = pending.finalize(key, given_["token_challenge"], given_["token_response"])
    assert token == given_["token"]
    assert TokenVerifier(key, given_["token_challenge"]).valid(token)


def test_a_challenge_names_issuer_and_task() -> None:
    context = hashlib.sha256(b"hubbub/2 admission" + TASK).hexdigest()
    assert CHALLENGE.hex() == "0002" + "000e" + b"issuer.example".hex() + "20" + context + "0000"


def test_a_token_of_another_task_issuer_key_or_type_is_refused() -> None:
    token = issued(TOKEN_KEY, CHALLENGE)
    assert VERIFIER.valid(token)
    other = type(TOKEN_KEY).generate()
    refusing = [
        TokenVerifier(KEY, challenge("issuer.example", bytes(16))),
        TokenVerifier(KEY, challenge("issuer2.example", TASK)),
        TokenVerifier(other.public, CHALLENGE),
    ]
    assert [one.valid(token) for one in refusing] == [False] * 3
    assert not VERIFIER.valid(issued(other, CHALLENGE))
    assert not VERIFIER.valid(b"\x00\x01" + token[2:])


def test_every_changed_bit_is_refused() -> None:
    token = issued(TOKEN_KEY, CHALLENGE)
    for place in range(8 * len(token)):
        changed = bytearray(token)
        changed[place // 8] ^= 1 << place % 8
        assert not VERIFIER.valid(bytes(changed))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400) | st.binary(min_size=354, max_size=354))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    assert not VERIFIER.valid(data)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_requests_and_responses_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        parse_request(data[:258])
    with pytest.raises(WireError):
        PendingToken.from_bytes(data)
    with pytest.raises(WireError):
        PendingToken(bytes(32), bytes(48), 7).finalize(KEY, CHALLENGE, data)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 8 * len(KEY) - 1))
def test_a_key_has_one_encoding(place: int) -> None:
    changed = bytearray(KEY)
    changed[place // 8] ^= 1 << place % 8
    try:
        public = load_token_key(bytes(changed))
    except WireError:
        return
    assert encode_token_key(public) == bytes(changed)  # a bit of the modulus was changed


@pytest.mark.parametrize(("bits", "exponent"), [(1024, 65537), (3072, 65537), (2048, 3)])
def test_other_kinds_of_keys_are_refused(bits: int, exponent: int) -> None:
    key = encode_token_key(rsa.generate_private_key(exponent, bits).public_key())
    with pytest.raises(WireError, match="2048 bits"):
        load_token_key(key)


def test_a_wrong_response_is_refused() -> None:
    pending = PendingToken.generate(KEY)
    response = TOKEN_KEY.signer().sign(pending.request(KEY, CHALLENGE)[3:])
    for wrong in (response[:-1] + bytes([response[-1] ^ 1]), response[1:], b"\xff" * 256, bytes(256)):
        with pytest.raises(WireError, match="response"):
            pending.finalize(KEY, CHALLENGE, wrong)


def test_blinding_factors_are_uniform_below_the_modulus() -> None:
    """Draws at or above the modulus are rejected rather than reduced, and so is 0."""
    public = load_token_key(KEY)
    modulus = public.public_numbers().n
    size = 256
    draws = [(modulus + 5).to_bytes(size, "big"), modulus.to_bytes(size, "big"), bytes(size), b"\0" * 255 + b"\x07"]
    source = iter(draws)
    assert blindrsa.random_factor(public, lambda _: next(source)) == 7
    # Of 400 factors, about 50 lie in each eighth of [1, n): six standard deviations on both sides.
    stream = hashlib.shake_256(b"factors").digest(size * 1200)
    places = iter(range(0, len(stream), size))

    def entropy(count: int) -> bytes:
        start = next(places)
        return stream[start : start + count]

    counts = [0] * 8
    for _ in range(400):
        counts[blindrsa.random_factor(public, entropy) * 8 // modulus] += 1
    assert all(abs(count - 50) < 6 * (400 * 7 / 64) ** 0.5 for count in counts), counts


def test_requests_do_not_depend_on_the_token() -> None:
    """For every request and every token there is exactly one factor that connects them.

    The factor is uniform, so two people's pairs of request and token, exchanged, are equally likely: the issuer learns
    nothing about which of its requests a token belongs to.
    """
    public = load_token_key(KEY)
    n, e = public.public_numbers().n, public.public_numbers().e
    signer = TOKEN_KEY.signer()
    first, second = PendingToken.generate(KEY), PendingToken.generate(KEY)
    requests = [one.request(KEY, CHALLENGE) for one in (first, second)]
    tokens = [
        one.finalize(KEY, CHALLENGE, signer.sign(request[3:]))
        for one, request in zip((first, second), requests, strict=True)
    ]
    for request in requests:
        for token in tokens:
            message = pow(int.from_bytes(token[98:], "big"), e, n)
            blinded = int.from_bytes(request[3:], "big")
            response = int.from_bytes(signer.sign(request[3:]), "big")
            factor = response * pow(int.from_bytes(token[98:], "big"), -1, n) % n
            assert message * pow(factor, e, n) % n == blinded
            exchanged = PendingToken(token[2:34], bytes(48), factor)
            assert exchanged.finalize(KEY, CHALLENGE, response.to_bytes(256, "big")) == token


def test_nothing_of_the_request_survives_in_the_token() -> None:
    pending = PendingToken.generate(KEY)
    request = pending.request(KEY, CHALLENGE)
    response = TOKEN_KEY.signer().sign(request[3:])
    token = pending.finalize(KEY, CHALLENGE, response)
    seen = {bytes(data[i : i + 4]) for data in (request[3:], response) for i in range(len(data) - 3)}
    assert not seen & {token[i : i + 4] for i in range(len(token) - 3)}


def test_the_private_operation_refuses_what_is_not_below_the_modulus() -> None:
    signer = TOKEN_KEY.signer()
    modulus = load_token_key(KEY).public_numbers().n
    for wrong in (bytes(256), modulus.to_bytes(256, "big"), b"\xff" * 256, b"", b"\1" * 255, b"\1" * 257):
        with pytest.raises(WireError, match="blinded message"):
            signer.sign(wrong)


def test_a_wrong_result_is_never_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single faulty signature would reveal the factors of the key (Boneh, DeMillo and Lipton 1997)."""
    signer = TOKEN_KEY.signer()
    right: Callable[[bytes], bytes] = signer._power
    monkeypatch.setattr(signer, "_power", lambda blinded: bytes([right(blinded)[0] ^ 1]) + right(blinded)[1:])
    with pytest.raises(Exception, match="not released"):
        signer.sign(b"\1" * 256)
