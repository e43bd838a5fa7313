"""The functions of libsodium that ristretto255 needs, from the library of the operating system.

Secret scalars stay in C, whose arithmetic takes the same time for all of them.
"""

import ctypes
import ctypes.util
import functools
from collections.abc import Callable, Iterator

from hubbub.errors import MissingExtra, WireError

SIZE = 32
WIDE = 64
"""Bytes of an element and of a scalar, and of the uniform bytes that become one."""
_NAMES = ("libsodium.so.26", "libsodium.so.23", "libsodium.dylib", "libsodium.dll")
_POINT, _SCALAR = "crypto_core_ristretto255_", "crypto_core_ristretto255_scalar_"
Function = Callable[..., bytes]


def _names() -> Iterator[str]:
    """Yield the usual names of the library, and then one that the linker knows, which takes a process to find out."""
    yield from _NAMES
    if (name := ctypes.util.find_library("sodium")) is not None:
        yield name


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return libsodium, or None if it is not installed or has no ristretto255."""
    for name in _names():
        try:
            found = ctypes.CDLL(name)
            found.crypto_core_ristretto255_from_hash  # noqa: B018 (absent from minimal builds)
        except (OSError, AttributeError):
            continue
        return found if found.sodium_init() >= 0 else None
    return None


@functools.cache
def _linked(name: str, checked: bool) -> Callable[..., int | None]:
    """Return a function of the library; raises if it is not installed."""
    found = library()
    if found is None:
        raise MissingExtra("", "ristretto255", library="libsodium, or P256-SHA256 in its place")
    linked = found[name]
    linked.restype = ctypes.c_int if checked else None
    return linked


def _function(name: str, *sizes: int, checked: bool) -> Function:
    """Return a function of libsodium that maps parts of these sizes to 32 bytes; ``checked`` ones may refuse them."""

    def call(*parts: bytes) -> bytes:
        linked = _linked(name, checked)
        if tuple(map(len, parts)) != sizes:
            raise WireError(f"an element or scalar of ristretto255 must have {SIZE} bytes")
        result = ctypes.create_string_buffer(SIZE)
        if linked(result, *parts) and checked:
            raise WireError("the bytes must be the encoding of an element of ristretto255 other than the identity")
        return result.raw

    return call


from_hash = _function(_POINT + "from_hash", WIDE, checked=True)
add = _function(_POINT + "add", SIZE, SIZE, checked=True)
multiply = _function("crypto_scalarmult_ristretto255", SIZE, SIZE, checked=True)
multiply_base = _function("crypto_scalarmult_ristretto255_base", SIZE, checked=True)
reduce = _function(_SCALAR + "reduce", WIDE, checked=False)
invert = _function(_SCALAR + "invert", SIZE, checked=True)
product = _function(_SCALAR + "mul", SIZE, SIZE, checked=False)
difference = _function(_SCALAR + "sub", SIZE, SIZE, checked=False)
