"""Streams that are named by parts under one key: different names, different streams."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hubbub.bits.entropy import KeyedStream
from hubbub.errors import InvalidInput

KEY = bytes(range(32))
NAMES: list[tuple[str | bytes | int, ...]] = [
    (),
    ("",),
    (b"",),
    (0,),
    ("", ""),
    ("a", "b"),
    ("ab",),
    ("ab", ""),
    (b"ab",),
    ("a", b"b"),
    (1, 2),
    (2, 1),
    (bytes([1, 0, 0, 0, 0, 0, 0, 0]),),
    (1,),
    (1 << 63,),
    (513,),
]


def test_different_names_have_different_streams() -> None:
    streams = [KeyedStream(KEY, *parts)(32) for parts in NAMES]
    assert len(set(streams)) == len(NAMES)
    assert streams == [KeyedStream(KEY, *parts)(32) for parts in NAMES]
    assert not set(streams) & {KeyedStream(bytes(32), *parts)(32) for parts in NAMES}


def test_the_key_is_an_hmac_of_kinds_lengths_and_parts() -> None:
    text = (
        b"s" + bytes([5, 0, 0, 0, 0, 0, 0, 0]) + b"coins" + b"i" + bytes([8, 0, 0, 0, 0, 0, 0, 0]) + b"\x07" + bytes(7)
    )
    key = hmac.new(KEY, text + b"b" + bytes([1, 0, 0, 0, 0, 0, 0, 0]) + b"x", hashlib.sha256).digest()
    wanted = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(40))
    assert KeyedStream(KEY, "coins", 7, b"x")(40) == wanted


@pytest.mark.parametrize("part", [-1, 1 << 64, 1.0, None, True])
def test_wrong_parts(part: object) -> None:
    with pytest.raises(InvalidInput, match="the part of the name of a stream must be a whole number"):
        KeyedStream(KEY, part)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "k" * 32, bytearray(32)])
def test_a_key_has_32_bytes(key: object) -> None:
    with pytest.raises(InvalidInput, match="the key of a stream"):
        KeyedStream(key)  # type: ignore[arg-type]
