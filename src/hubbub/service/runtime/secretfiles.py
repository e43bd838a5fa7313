"""Small files that must be whole or absent, and secret ones that only their owner may read.

Written beside their place, synced, renamed, and the folder synced: after a crash there is the old file or the new one.
Overwriting before removal is the best a program can do; a file system that copies on write, a drive that moves
blocks, and a backup keep what they have.
"""

import os
from pathlib import Path

from hubbub.errors import InvalidInput, reject
from hubbub.service.runtime.failpoints import reach

TEMPORARY = ".new"
"""How the name of a half-written file ends."""


def write_file(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file of mode 0600 atomically and durably; refuses to replace one unless told to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder, "key"), b"secret")
    ...     read_secret(Path(folder, "key"))
    b'secret'
    """
    if not replace and path.exists():
        reject("the file", "not exist yet, because it would be lost", path.name)
    beside = path.with_name(path.name + TEMPORARY)
    beside.unlink(missing_ok=True)
    reach("vault-before-write")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.fchmod(handle, 0o600)
        _write_all(handle, data)
        reach("vault-before-sync")
        os.fsync(handle)
    finally:
        os.close(handle)
    reach("vault-before-rename")
    beside.rename(path)
    reach("vault-before-folder-sync")
    sync_folder(path.parent)


def read_secret(path: Path) -> bytes:
    """The bytes of a file that nobody but its owner may read; raises if others may."""
    with path.open("rb") as file:
        check_mode(path, os.fstat(file.fileno()).st_mode)
        return file.read()


def check_mode(path: Path, mode: int) -> None:
    """Raise if others than its owner may read a file.

    A credential of systemd belongs to root and is opened for one service by an access list, which looks like a right of
    the group; the folder around it lets nobody else in.
    """
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    others = 0o037 if given and path.parent == Path(given) else 0o077
    if mode & others:
        raise InvalidInput(f"{path.name} must be readable by its owner only (mode 0600), got mode {mode & 0o777:04o}")


def erase(path: Path) -> None:
    """Overwrite a file with zeros, sync, and remove it; nothing if it is not there."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        _write_all(handle, bytes(os.fstat(handle).st_size))
        os.fsync(handle)
    finally:
        os.close(handle)
    reach("vault-before-unlink")
    path.unlink()
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
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
