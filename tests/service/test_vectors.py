"""The seals follow RFC 9180: its test vectors, our reference implementation, and pyhpke agree."""

import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.bindings._rust import openssl
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey
from tests.service import reference
from tests.service.samples import pair

from hubbub.service.task.sealing import SUITES, generate, load_private, open_slot, seal_slot
from hubbub.wire.bundles import BundleLayout

VECTORS = json.loads((Path(__file__).parent / "golden" / "hpke.json").read_text())


def test_rfc_9180_by_the_library() -> None:
    """The vectors have associated data, which only the library's inner function accepts."""
    vector = {name: bytes.fromhex(text) for name, text in VECTORS["rfc9180"].items() if name != "source"}
    opened = openssl.hpke._decrypt_with_aad(
        SUITES[1].hpke, vector["enc"] + vector["ct"], load_private(1, vector["skR"]), vector["info"], vector["aad"]
    )
    assert opened == vector["plain"]
    assert generate(1, entropy=lambda _: vector["skR"])[1] == vector["pkR"]


def test_rfc_9180_by_the_reference() -> None:
    vector = {name: bytes.fromhex(text) for name, text in VECTORS["rfc9180"].items() if name != "source"}
    assert reference.decapsulate(vector["skR"], vector["enc"], 1) == vector["shared_secret"]
    assert reference.schedule(vector["shared_secret"], vector["info"], 1) == (vector["key"], vector["base_nonce"])
    arguments = (vector["skE"], vector["pkR"], vector["plain"], vector["info"], vector["aad"])
    assert reference.seal(*arguments) == vector["enc"] + vector["ct"]


def test_xwing_keys() -> None:
    """The 32 private bytes are X-Wing's seed. A wrong key or ciphertext gives another secret, not an error."""
    vector = VECTORS["xwing"]
    seed = bytes.fromhex(vector["seed"])
    assert reference.decapsulate(seed, bytes.fromhex("".join(vector["ct"])), 2).hex() == vector["ss"]
    public = generate(2, entropy=lambda _: seed)[1]
    assert len(public) == 1216
    assert public[-32:].hex() == vector["pk_end"]


@pytest.mark.parametrize("suite", SUITES)
def test_the_reference_opens_our_seals(suite: int) -> None:
    keys = pair(suite, "analyzer")
    layout = BundleLayout(os.urandom(16), suite, 1, 5, 1 << 40)
    for payload in (b"\0" * 5, b"\xff" * 5, None):
        sealed = seal_slot(payload, layout, 513, keys.public)
        plain = reference.open_(keys.secret, sealed[2:], b"hubbub/2 slot" + layout.task + b"\x02\x01", suite)
        assert plain == (b"\x02\0" + bytes(5) if payload is None else b"\x02\x01" + payload)


def other() -> CipherSuite:
    return CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)


def interoperate(times: int) -> None:
    """Check that pyhpke opens our seals and we open its seals, with fresh keys every hundred times."""
    layout = BundleLayout(bytes(range(16)), 1, 1, 3, 1 << 24)
    info = b"hubbub/2 slot" + layout.task + b"\x00\x07"
    suite = other()
    for round_ in range(times):
        if round_ % 100 == 0:
            secret, public = generate(1)
            private = load_private(1, secret)
            theirs = suite.kem.deserialize_private_key(secret)
            to_us = suite.kem.deserialize_public_key(public)
            ours = private.public_key()
        payload = round_.to_bytes(3, "little")
        sealed = seal_slot(payload, layout, 7, ours)
        assert (
            suite.create_recipient_context(sealed[2:34], theirs, info=info).open(sealed[34:]) == b"\x02\x01" + payload
        )
        enc, context = suite.create_sender_context(to_us, info=info)
        assert open_slot(b"\x00\x07" + enc + context.seal(b"\x02\x01" + payload), layout, private) == payload


def test_pyhpke_both_ways() -> None:
    interoperate(1000)


@pytest.mark.slow
def test_pyhpke_both_ways_at_length() -> None:
    interoperate(10_000)


def test_rfc_9180_by_pyhpke() -> None:
    vector = {name: bytes.fromhex(text) for name, text in VECTORS["rfc9180"].items() if name != "source"}
    key = KEMKey.from_pyca_cryptography_key(load_private(1, vector["skR"]))
    context = other().create_recipient_context(vector["enc"], key, info=vector["info"])
    assert context.open(vector["ct"], aad=vector["aad"]) == vector["plain"]
