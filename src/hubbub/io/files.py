"""Atomic writes, and ``-`` for standard input and output."""

import contextlib
import errno
import io
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from hubbub.errors import HubbubError

PIPE = "-"
"""The name that stands for standard input or output."""
PARTIAL = ".new"
"""Suffix of the name of a file that is being written."""


@contextlib.contextmanager
def naming(path: str, hint: str = "") -> Iterator[None]:
    """Add the name of a file and a hint to the errors that its content raises, as notes that the command line shows."""
    try:
        yield
    except HubbubError as error:
        if not getattr(error, "__notes__", None):
            error.add_note("standard input" if path == PIPE else path)
            if hint:
                error.add_note(hint)
        raise


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

    Regular files are replaced atomically, see :func:`replacing`. Devices and named pipes are written to directly.
    """
    if path == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = Path(path)
    try:
        if place.exists() and not place.is_file():
            with place.open("wb") as file:
                yield file
            return
        with replacing(place) as file:
            yield file
    except OSError as error:
        # Errors of writing, such as a full disk, do not name the file.
        if error.filename is None and error.errno is not None:
            raise type(error)(error.errno, error.strerror, path) from None
        raise


@contextlib.contextmanager
def replacing(
    path: Path, *, mode: int | None = None, sync: bool = True, step: Callable[[str], object] = lambda _: None
) -> Iterator[BinaryIO]:
    """Open a new file beside ``path`` for writing and reading, and rename it to ``path`` at the end.

    Readers find either the old file or the complete new one, even after a crash, which may leave ``NAME.*.new`` behind.
    If the body raises, the new file is removed. ``mode`` defaults to that of any new file. ``sync`` makes the file and
    its name durable. ``step`` is called with ``"write"``, ``"sync"``, ``"rename"`` and ``"folder-sync"`` before each of
    these steps, so that tests can interrupt them.
    """
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    step("write")
    try:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    except OSError as error:
        # The error names the file that the caller asked for.
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            step("sync")
            if sync:
                os.fsync(file.fileno())
        step("rename")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    step("folder-sync")
    if sync:
        sync_folder(path.parent)


def write_atomic(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    sync: bool = True,
    step: Callable[[str], object] = lambda _: None,
) -> None:
    """Write a file atomically and, unless ``sync`` is False, durably; see :func:`replacing`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(Path(folder, "key"), b"secret", mode=0o600)
    ...     oct(Path(folder, "key").stat().st_mode & 0o777)
    '0o600'
    """
    with replacing(path, mode=mode, sync=sync, step=step) as file:
        file.write(data)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, atomically and durably; of two programs that try, one raises.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_new(Path(folder, "name"), b"first")
    ...     write_new(Path(folder, "name"), b"second")
    Traceback (most recent call last):
    FileExistsError: [Errno 17] File exists: ...
    """
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    write_atomic(beside, data)
    try:
        # Unlike renaming, linking does not replace a file that another program has written since.
        path.hardlink_to(beside)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
    except OSError:
        # A file system without links, such as some network and object stores.
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_destination(path: str) -> None:
    """Raise the error that writing the file would raise, before hours of work rather than after them.

    >>> check_destination("/nonesuch/report.html")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: '/nonesuch/report.html'
    """
    if path != PIPE and Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if path != PIPE and not Path(path).parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def check_new_directory(path: str) -> None:
    """Raise the error that creating the directory would raise, before hours of work rather than after them.

    >>> check_new_directory("/")
    Traceback (most recent call last):
    FileExistsError: [Errno 17] File exists: '/'
    """
    place = Path(path)
    if place.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def same_file(one: str, two: str) -> bool:
    """Return True if two names refer to one regular file; pipes and devices never match."""
    a, b = Path(one), Path(two)
    return PIPE not in (one, two) and a.is_file() and b.is_file() and a.samefile(b)


def first_bytes(path: str, count: int) -> bytes:
    """Return the first bytes of a file, or of standard input, without consuming them."""
    if path == PIPE:
        return cast("io.BufferedReader", sys.stdin.buffer).peek(count)[:count]
    with reading(path) as file:
        return file.read(count)


def read_text(path: str) -> bytes:
    """Return all bytes of a small file."""
    with reading(path) as file:
        return file.read()


def write_text(path: str, text: str | bytes) -> None:
    """Write a text, encoded in UTF-8, or bytes."""
    with writing(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)
