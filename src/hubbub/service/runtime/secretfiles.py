"""Secret files: readable by their owner only, written atomically, overwritten before they are removed.

Overwriting is the best a program can do: a copy-on-write file system, a drive that remaps blocks, and a backup may keep
the old content.
"""

import os
from collections.abc import Callable
from pathlib import Path

from hubbub.errors import InvalidInput, reject
from hubbub.service.runtime.failpoints import reach

TEMPORARY = ".new"
"""Suffix of a partially written file."""


def write_atomically(
    path: Path, data: bytes, *, mode: int = 0o600, reach: Callable[[str], None] = lambda _: None
) -> None:
    """Replace a file durably: after a crash, the file has the complete old or the complete new content.

    The data is written to a temporary file beside ``path``, synced and renamed; then the folder is synced. ``reach`` is
    called with the name of each step, for tests that kill the process there.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)
    reach("file-before-write")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        os.fchmod(handle, mode)
        _write_all(handle, data)
        reach("file-before-sync")
        os.fsync(handle)
    finally:
        os.close(handle)
    reach("file-before-rename")
    temporary.rename(path)
    reach("file-before-folder-sync")
    _sync_folder(path.parent)


def write_file(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file of mode 0600 atomically; refuse to replace an existing file unless told to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder, "key"), b"secret")
    ...     read_secret(Path(folder, "key"))
    b'secret'
    """
    if not replace and path.exists():
        reject("the file", "not exist yet: it would be overwritten", path.name)
    write_atomically(path, data, reach=reach)


def read_secret(path: Path) -> bytes:
    """Return the content of a file; raise if anyone but its owner can read it."""
    with path.open("rb") as file:
        check_mode(path, os.fstat(file.fileno()).st_mode)
        return file.read()


def check_mode(path: Path, mode: int) -> None:
    """Raise if anyone but its owner can read a file.

    A systemd credential belongs to root and is opened to one service by an access control list, which shows up as a
    group permission; the folder around it admits nobody else.
    """
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    others = 0o037 if credentials and path.parent == Path(credentials) else 0o077
    if mode & others:
        raise InvalidInput(f"{path.name} must be readable by its owner only (mode 0600), got mode {mode & 0o777:04o}")


def erase(path: Path) -> None:
    """Overwrite a file with zeros, sync and remove it; do nothing if it does not exist."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        _write_all(handle, bytes(os.fstat(handle).st_size))
        os.fsync(handle)
    finally:
        os.close(handle)
    reach("file-before-unlink")
    path.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
