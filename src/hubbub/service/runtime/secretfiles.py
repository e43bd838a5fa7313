"""Secret files: readable by their owner only, written atomically, overwritten before they are removed.

Overwriting is the best a program can do: a copy-on-write file system, a drive that remaps blocks, and a backup may keep
the old content.
"""

import contextlib
import os
from pathlib import Path

from hubbub.errors import InvalidInput, reject
from hubbub.io.files import sync_folder, write_atomic
from hubbub.service.runtime.failpoints import reach


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
    write_atomic(path, data, mode=0o600, step=lambda name: reach(f"file-before-{name}"))


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
    with contextlib.suppress(FileNotFoundError):
        with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            os.fsync(file.fileno())
        reach("file-before-unlink")
        path.unlink()
        sync_folder(path.parent)
