"""The source of all randomness: bytes of the operating system, expanded by AES-256 in counter mode.

Every random function of hubbub takes the keyword ``entropy``, a callable that returns the requested number of bytes;
``os.urandom`` qualifies. The default, :data:`system`, is faster than any statistical generator of numpy, because it is
the vetted AES of the ``cryptography`` package on hardware instructions.

A fill that writes too few bytes is a silent privacy failure, so every fill is checked.
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import DTypeLike, NDArray

from hubbub.bits.device import take
from hubbub.errors import EntropyFailure, check_whole, kind_of, reject

Entropy = Callable[[int], bytes]
"""A source of randomness: returns exactly the requested number of independent uniform bytes."""

_ZEROS = memoryview(bytes(1 << 21))
_KEY_BYTES = 32


def _encryptor(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def _keystream(cipher: CipherContext, target: memoryview) -> None:
    for start in range(0, len(target), len(_ZEROS)):
        piece = target[start : start + len(_ZEROS)]
        written = cipher.update_into(_ZEROS[: len(piece)], piece)
        if written != len(piece):
            raise EntropyFailure(f"the cipher wrote {written} of {len(piece)} bytes")


class SystemStream:
    """The keystream of AES-256-CTR under keys of the operating system, one cipher per thread.

    Forward secure by key erasure (Bernstein 2017, "Fast-key-erasure random-number generators"): each fill ends by
    replacing the key with fresh keystream, so that memory read later does not reveal earlier noise. A forked child
    draws new keys from the operating system.
    Memory: 2 MiB of zeros shared by all streams, and one cipher context per thread.

    >>> len(SystemStream()(5))
    5
    """

    __slots__ = ("_local",)

    def __init__(self) -> None:
        self._local = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._local = threading.local()

    def fill(self, buffer: memoryview) -> None:
        """Overwrite a contiguous buffer of bytes with keystream, then erase the key."""
        local = self._local
        cipher = getattr(local, "cipher", None)
        if cipher is None:
            cipher = _encryptor(take(os.urandom, _KEY_BYTES))
        local.cipher = None
        _keystream(cipher, buffer)
        local.cipher = _encryptor(take(lambda size: cipher.update(_ZEROS[:size]), _KEY_BYTES))

    def __call__(self, size: int) -> bytes:
        """Return ``size`` bytes."""
        return _bytes(self, size)


class KeyedStream:
    """The keystream of AES-256-CTR under a secret key: a random draw that can be repeated until the key is erased.

    With ``parts``, the key of the cipher is HMAC-SHA256 of them, each with its kind and length, under the secret key:
    different parts give independent streams. The bytes do not depend on how they are divided into fills. For one
    thread.

    >>> one, two = KeyedStream(bytes(32)), KeyedStream(bytes(32))
    >>> one(3) + one(4) == two(7)
    True
    >>> KeyedStream(bytes(32), "coins", 1)(4) == KeyedStream(bytes(32), "coins", 2)(4)
    False
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes, *parts: str | bytes | int) -> None:
        if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
            reject("the key of a stream", f"have {_KEY_BYTES} bytes")
        text = b"".join(_encoded(part) for part in parts)
        self._cipher = _encryptor(hmac.digest(key, text, "sha256") if parts else key)

    def fill(self, buffer: memoryview) -> None:
        """Overwrite a contiguous buffer of bytes with the next bytes of the stream."""
        _keystream(self._cipher, buffer)

    def __call__(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        return _bytes(self, size)


def _encoded(part: str | bytes | int) -> bytes:
    """Return a part of the name of a stream as bytes that start with its kind and length, so that names are unique."""
    if isinstance(part, str):
        kind, data = b"s", part.encode()
    elif isinstance(part, bytes):
        kind, data = b"b", part
    else:
        kind, data = b"i", check_whole("the part of the name of a stream", part, 0, (1 << 64) - 1).to_bytes(8, "little")
    return kind + len(data).to_bytes(8, "little") + data


class SeededStreamNotForPeople:
    """A reproducible keystream for tests and simulations; anyone who knows the seed can remove all noise.

    AES-256-CTR under SHA-256 of the seed. The bytes do not depend on how they are divided into fills. Threads may share
    a stream, but the order in which they are served is not reproducible. A forked child, which would repeat the noise
    of its parent, gets an :class:`~hubbub.errors.EntropyFailure`.

    >>> one, two = SeededStreamNotForPeople(7), SeededStreamNotForPeople(7)
    >>> one(3) + one(4) == two(7)
    True
    """

    __slots__ = ("_cipher", "_lock", "_process")

    def __init__(self, seed: int) -> None:
        seed = check_whole("seed", seed)
        self._cipher = _encryptor(hashlib.sha256(b"hubbub seeded stream %d" % seed).digest())
        self._lock = threading.Lock()
        self._process = os.getpid()

    def fill(self, buffer: memoryview) -> None:
        """Overwrite a contiguous buffer of bytes with the next bytes of the stream."""
        if os.getpid() != self._process:
            raise EntropyFailure("a seeded stream must not be used after a fork: it would repeat its noise")
        with self._lock:
            _keystream(self._cipher, buffer)

    def __call__(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        return _bytes(self, size)


def _bytes(stream: SystemStream | KeyedStream | SeededStreamNotForPeople, size: int) -> bytes:
    buffer = bytearray(check_whole("size", size))
    stream.fill(memoryview(buffer))
    return bytes(buffer)


system = SystemStream()
"""The default entropy of every random function."""


def check_entropy(entropy: Entropy) -> Entropy:
    """Return the source of randomness if it can be called.

    >>> check_entropy(7)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: entropy must be a function that returns ... random bytes, such as os.urandom, not int
    """
    if not callable(entropy):
        must = "be a function that returns the requested number of random bytes, such as os.urandom"
        reject("entropy", f"{must}, not {kind_of(entropy)}")
    return entropy


def fill(entropy: Entropy, array: NDArray[Any]) -> None:
    """Overwrite a C-contiguous array with random bytes; raises :class:`EntropyFailure` on a short fill.

    Memory: none for the streams of this module; one copy of the array for a plain callable.

    >>> words = np.zeros(2, np.uint32)
    >>> fill(lambda size: bytes(range(size)), words)
    >>> words.tobytes().hex()
    '0001020304050607'
    """
    if not array.size:
        return
    if not array.flags.c_contiguous:
        raise EntropyFailure("the array to fill must be contiguous")
    target = array.reshape(-1).view(np.uint8)
    if isinstance(entropy, SystemStream | KeyedStream | SeededStreamNotForPeople):
        entropy.fill(target.data)
    else:
        target[:] = np.frombuffer(take(entropy, target.size), np.uint8)


def draw(entropy: Entropy, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint64) -> NDArray[Any]:
    """Return a new array of uniform random words. Memory: the array, as in :func:`fill`.

    >>> draw(SeededStreamNotForPeople(7), (2, 3), np.uint8).shape
    (2, 3)
    """
    words = np.empty(shape, dtype)
    fill(entropy, words)
    return words
