"""Streams are AES in counter mode, never short and never repeated."""

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from hubbub.bits import entropy
from hubbub.bits.entropy import SeededStreamNotForPeople, SystemStream, draw, fill, system
from hubbub.errors import EntropyFailure, InvalidInput


def counter_mode(key: bytes, size: int) -> bytes:
    """Return AES-CTR as the encryption of 0, 1, 2, …"""
    blocks = b"".join(i.to_bytes(16, "big") for i in range(-(-size // 16)))
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)[:size]


@given(st.lists(st.integers(0, 300), max_size=8))
def test_a_seeded_stream_does_not_depend_on_the_sizes_drawn(sizes: list[int]) -> None:
    pieces, whole = SeededStreamNotForPeople(1), SeededStreamNotForPeople(1)
    assert b"".join(map(pieces, sizes)) == whole(sum(sizes))


def test_seeds_differ_and_bad_seeds_are_rejected() -> None:
    assert len({SeededStreamNotForPeople(seed)(16) for seed in range(100)}) == 100
    with pytest.raises(InvalidInput, match="seed"):
        SeededStreamNotForPeople(-1)


def test_the_tail_of_each_fill_of_the_system_stream_becomes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []
    original = entropy._encryptor

    def spy(key: bytes) -> object:
        keys.append(key)
        return original(key)

    monkeypatch.setattr(entropy, "_encryptor", spy)
    stream = SystemStream()
    sizes = [5, 16, 3_000_000]
    outputs = [stream(size) for size in sizes]
    assert len(set(keys)) == len(sizes) + 1
    for size, output, key, following in zip(sizes, outputs, keys, keys[1:], strict=False):
        expected = counter_mode(key, size + 32)
        assert output == expected[:size]
        assert following == expected[size:]


def in_child(work: Callable[[], bytes]) -> bytes:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, work())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork_does_not_copy_noise() -> None:
    system(1)
    there = in_child(lambda: system(32))
    assert len(there) == 32
    assert there != system(32)
    # The control: an unprotected cipher is copied, and this test detects it.
    bare = entropy._encryptor(bytes(32))
    assert in_child(lambda: bare.update(bytes(32))) == bare.update(bytes(32))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork_stops_a_seeded_stream() -> None:
    stream = SeededStreamNotForPeople(1)

    def work() -> bytes:
        try:
            return stream(8)
        except EntropyFailure:
            return b"rejected"

    assert in_child(work) == b"rejected"
    assert len(stream(8)) == 8


def test_each_thread_has_its_own_cipher() -> None:
    stream = SystemStream()
    outputs: list[bytes] = []
    ciphers: list[object] = []

    def work() -> None:
        outputs.append(stream(32))
        ciphers.append(stream._local.cipher)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(outputs)) == 4
    assert len({id(cipher) for cipher in ciphers}) == 4


def test_short_cipher_output_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short:
        def update_into(self, data: bytes, target: memoryview) -> int:
            return len(data) - 1

    monkeypatch.setattr(entropy, "_encryptor", lambda key: Short())
    for stream in (SystemStream(), SeededStreamNotForPeople(1)):
        with pytest.raises(EntropyFailure, match="wrote 7 of 8 bytes"):
            stream(8)


@pytest.mark.parametrize("bad", [b"", bytes(7), bytes(9), "01234567", bytearray(8), None])
def test_bad_callables_are_detected(bad: object) -> None:
    with pytest.raises(EntropyFailure, match=r"^the entropy source (returned \d of 8 bytes|must return bytes)"):
        fill(lambda size: bad, np.zeros(8, np.uint8))  # type: ignore[arg-type, return-value]


def test_a_view_with_gaps_is_rejected() -> None:
    with pytest.raises(EntropyFailure, match="contiguous"):
        fill(system, np.zeros((4, 4), np.uint8)[:, :2])


@pytest.mark.parametrize("source", [os.urandom, system, SeededStreamNotForPeople(3)])
def test_every_byte_is_filled(source: entropy.Entropy) -> None:
    words = draw(source, (300, 1000))
    assert words.dtype == np.uint64
    assert (np.bincount(words.view(np.uint8).reshape(-1), minlength=256) > 8000).all()
    assert draw(source, 0).size == 0
