"""Streams give what they promise: AES in counter mode, nothing short, nothing twice."""

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
    """AES-CTR written out as the encryption of 0, 1, 2, …"""
    blocks = b"".join(i.to_bytes(16, "big") for i in range(-(-size // 16)))
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)[:size]


@given(st.lists(st.integers(0, 300), max_size=8))
def test_partition_of_a_seeded_stream_does_not_matter(sizes: list[int]) -> None:
    pieces, whole = SeededStreamNotForPeople(1), SeededStreamNotForPeople(1)
    assert b"".join(map(pieces, sizes)) == whole(sum(sizes))


def test_seeds_differ_and_bad_seeds_are_refused() -> None:
    assert len({SeededStreamNotForPeople(seed)(16) for seed in range(100)}) == 100
    with pytest.raises(InvalidInput, match="seed"):
        SeededStreamNotForPeople(-1)


def test_system_stream_is_keystream_whose_tail_becomes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []
    original = entropy._encryptor

    def spy(key: bytes) -> object:
        keys.append(key)
        return original(key)

    monkeypatch.setattr(entropy, "_encryptor", spy)
    stream = SystemStream()
    sizes = [5, 16, 3_000_000]
    given_out = [stream(size) for size in sizes]
    assert len(set(keys)) == len(sizes) + 1
    for size, output, key, following in zip(sizes, given_out, keys, keys[1:], strict=False):
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
    # The control: a cipher without protection is copied, and this way of looking sees it.
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
            return b"refused"

    assert in_child(work) == b"refused"
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


def test_short_cipher_output_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short:
        def update_into(self, data: bytes, target: memoryview) -> int:
            return len(data) - 1

    monkeypatch.setattr(entropy, "_encryptor", lambda key: Short())
    for stream in (SystemStream(), SeededStreamNotForPeople(1)):
        with pytest.raises(EntropyFailure, match="wrote 7 of 8 bytes"):
            stream(8)


@pytest.mark.parametrize("bad", [b"", bytes(7), bytes(9), "01234567", bytearray(8), None])
def test_bad_callables_are_noticed(bad: object) -> None:
    with pytest.raises(EntropyFailure, match="entropy must give 8 bytes, got "):
        fill(lambda size: bad, np.zeros(8, np.uint8))  # type: ignore[arg-type, return-value]


def test_a_view_with_gaps_is_refused_rather_than_left_unfilled() -> None:
    with pytest.raises(EntropyFailure, match="contiguous"):
        fill(system, np.zeros((4, 4), np.uint8)[:, :2])


@pytest.mark.parametrize("source", [os.urandom, system, SeededStreamNotForPeople(3)])
def test_every_byte_is_filled(source: entropy.Entropy) -> None:
    words = draw(source, (300, 1000))
    assert words.dtype == np.uint64
    assert (np.bincount(words.view(np.uint8).reshape(-1), minlength=256) > 8000).all()
    assert draw(source, 0).size == 0
