"""Reading and writing: ``-`` is a pipe, and a file is there completely or not at all."""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

PIPE = "-"
"""The name that stands for standard input or output."""


@contextlib.contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for ``-``, for reading bytes."""
    if path == PIPE:
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield file


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """Open a file, or standard output for ``-``, for writing bytes.

    A file is written beside its place and moved there in the end, so that whoever looks sees the old content or all of
    the new one; if anything raises, nothing is left. Devices and named pipes are written to directly.
    """
    if path == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = Path(path)
    if place.exists() and not place.is_file():
        with place.open("wb") as file:
            yield file
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent)
    except OSError as error:
        # The complaint is about the place that was asked for.
        raise type(error)(error.errno, error.strerror, path) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is its owner's alone; what is moved into place has the rights of any new file.
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def same_file(one: str, two: str) -> bool:
    """Whether two names are of one file that is there; pipes and devices are nobody's double."""
    a, b = Path(one), Path(two)
    return PIPE not in (one, two) and a.is_file() and b.is_file() and a.samefile(b)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def first_bytes(path: str, count: int) -> bytes:
    """What a file, or standard input, begins with; whoever reads it afterwards still finds these bytes."""
    if path == PIPE:
        return cast("io.BufferedReader", sys.stdin.buffer).peek(count)[:count]
    with reading(path) as file:
        return file.read(count)


def read_text(path: str) -> bytes:
    """All bytes of a small file."""
    with reading(path) as file:
        return file.read()


def write_text(path: str, text: str | bytes) -> None:
    """Write a text, in UTF-8, or other bytes, as a whole."""
    with writing(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)
