"""``Chain``: an append-only file of JSON lines, each bound to all lines before it, with an anchor outside the file.

A line is an object with ``entry``, ``sequence``, ``previous`` and ``hash``: its number from 1, the hash of the line
before it (64 zeros for the first), and the SHA-256 of the canonical JSON of the other three. The *anchor* holds the
number and the hash of the last line. It is written before each append, with the line that is about to follow, and again
after it. So an append that is interrupted anywhere is completed when the file is opened: what was begun counts. A
changed, removed or inserted line, and a file that was truncated or replaced by an older copy, contradict the anchor or
the chain. Works without numpy: devices keep their ledgers in it.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from hubbub.documents import Fields, Json, canonical, parse
from hubbub.errors import LedgerDamaged, WireError, reject
from hubbub.io.files import write_atomic

ANCHOR_FORMAT = "hubbub anchor 1"
START = "0" * 64
"""The hash before the first line."""


class Anchor(Protocol):
    """A place outside the file, and outside the backups of the file, for a few kilobytes."""

    def read(self) -> bytes | None:
        """Return the bytes last written, or None if there are none."""

    def write(self, data: bytes) -> None:
        """Replace the bytes atomically and durably."""


@dataclass(frozen=True, slots=True)
class FileAnchor:
    """An anchor in a file; put it where backups and copies of the chain do not include it."""

    path: Path

    def read(self) -> bytes | None:
        """Return the content of the file, or None if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return self.path.read_bytes()
        return None

    def write(self, data: bytes) -> None:
        """Replace the file."""
        write_atomic(self.path, data, mode=0o600)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The content of an anchor."""

    sequence: int
    head: str
    pending: str

    def to_bytes(self) -> bytes:
        return canonical(
            {"format": ANCHOR_FORMAT, "sequence": self.sequence, "head": self.head, "pending": self.pending}
        )


class Chain:
    """The entries of a locked file, to which more can be appended; see :func:`open_chain`."""

    def __init__(self, path: Path, file: BinaryIO, anchor: Anchor) -> None:
        self._path, self._file, self._anchor = path, file, anchor
        self.entries: list[Json] = []
        self._head = START

    def append(self, entry: Json) -> None:
        """Append an entry durably; once this was called, the entry counts, even if the call is interrupted."""
        sequence = len(self.entries) + 1
        line, digest = _line(sequence, self._head, entry)
        self._anchor.write(_Mark(len(self.entries), self._head, line).to_bytes())
        self._write(line)
        self._anchor.write(_Mark(sequence, digest, "").to_bytes())
        self.entries.append(entry)
        self._head = digest

    def _write(self, line: str) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def load(self) -> None:
        """Read and check all lines; complete an append that was interrupted."""
        mark = _mark(self._anchor)
        data = self._file.read()
        *lines, torn = data.split(b"\n")
        hashes = [START]
        for number, line in enumerate(lines, start=1):
            entry, digest = _checked(number, line, hashes[-1])
            self.entries.append(entry)
            hashes.append(digest)
        if len(lines) < mark.sequence:
            raise LedgerDamaged(
                f"the file has {len(lines):,} lines, but its anchor has seen {mark.sequence:,}: it was truncated, or "
                "replaced by an older copy"
            )
        if hashes[mark.sequence] != mark.head:
            raise LedgerDamaged(f"line {mark.sequence:,} is not the one that the anchor has seen: it was replaced")
        self._head = hashes[-1]
        further = [line.decode(errors="replace") for line in lines[mark.sequence :]]
        if further not in ([], [mark.pending] if mark.pending else []):
            raise LedgerDamaged(f"line {mark.sequence + 1:,} is not one that the anchor has announced")
        if torn and (further or not mark.pending.encode().startswith(torn)):
            raise LedgerDamaged("the last line is incomplete, and is not one that the anchor has announced")
        if mark.pending:
            self._complete(mark, bool(further), len(data) - len(torn))

    def _complete(self, mark: _Mark, written: bool, size: int) -> None:
        """Finish the append that the anchor has announced."""
        if not written:
            self._file.truncate(size)
            entry, self._head = _checked(mark.sequence + 1, mark.pending.encode(), mark.head)
            self._write(mark.pending)
            self.entries.append(entry)
        self._anchor.write(_Mark(mark.sequence + 1, self._head, "").to_bytes())


def _mark(anchor: Anchor) -> _Mark:
    """Return what the anchor holds, or raise LedgerDamaged."""
    data = anchor.read()
    if data is None:
        raise LedgerDamaged("the ledger needs its anchor, which is missing: the file may be an older copy")
    try:
        fields = Fields(parse(data, "the anchor"), "the anchor", "format", "sequence", "head", "pending")
        if fields.text("format") != ANCHOR_FORMAT:
            raise WireError("the format of the anchor is unknown")
        return _Mark(fields.whole("sequence"), fields.text("head"), fields.text("pending"))
    except WireError as error:
        raise LedgerDamaged(f"its anchor is unreadable: {error}") from None


def create_chain(path: Path, anchor: Anchor, entry: Json) -> None:
    """Create the file with its first entry; neither the file nor the anchor may exist."""
    if path.exists() or anchor.read() is not None:
        reject("path", "be the name of a new file; this ledger or its anchor exists already: charge it instead")
    anchor.write(_Mark(0, START, _line(1, START, entry)[0]).to_bytes())
    with open_chain(path, anchor):
        pass


@contextlib.contextmanager
def open_chain(path: Path, anchor: Anchor) -> Iterator[Chain]:
    """Open and lock the file, check it, and complete an interrupted append.

    Raises :class:`LedgerDamaged` if the file contradicts itself or its anchor.
    """
    with locked(path, missing=anchor.read() is not None) as file:
        chain = Chain(path, file, anchor)
        chain.load()
        yield chain


@contextlib.contextmanager
def locked(path: Path, *, missing: bool = False) -> Iterator[BinaryIO]:
    """Open a file for reading and writing, alone; with ``missing``, an absent file is created."""
    handle = os.open(path, os.O_RDWR | (os.O_CREAT if missing else 0), 0o600)
    with os.fdopen(handle, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def repair_chain(path: Path, anchor: Anchor, missing: Callable[[int, Json], Json]) -> None:
    """Accept the lines of a damaged file up to the first that is wrong, and append an entry for what may be missing.

    ``missing`` returns that entry, given the number of lines that were accepted and the entry of an append that was
    begun, or None. The anchor accepts the lines and announces the entry at once: whenever this is interrupted, either
    the file is still damaged or the entry counts. The damaged file is kept as ``NAME.damaged``.
    """
    with locked(path) as file:
        lines = file.read().split(b"\n")[:-1]
        head, good = START, 0
        for number, line in enumerate(lines, start=1):
            try:
                _, head = _checked(number, line, head)
            except LedgerDamaged:
                break
            good = number
        if good == 0:
            raise LedgerDamaged("its first line is damaged: create a new ledger, and charge everything that was asked")
        write_atomic(path.with_name(f"{path.name}.damaged"), b"\n".join(lines) + b"\n", mode=0o600)
        file.truncate(sum(len(line) + 1 for line in lines[:good]))
        file.flush()
        os.fsync(file.fileno())
        announced, _ = _line(good + 1, head, missing(good, _begun(anchor)))
        anchor.write(_Mark(good, head, announced).to_bytes())
    with open_chain(path, anchor):
        pass


def _begun(anchor: Anchor) -> Json:
    """Return the entry of the line that a readable anchor has announced, or None."""
    try:
        line = parse(_mark(anchor).pending, "a line")
        return Fields(line, "a line", "entry", "previous", "sequence", "hash")["entry"]
    except (LedgerDamaged, WireError):
        return None


def _line(sequence: int, previous: str, entry: Json) -> tuple[str, str]:
    body: dict[str, Json] = {"entry": entry, "previous": previous, "sequence": sequence}
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return canonical({**body, "hash": digest}).decode(), digest


def _checked(number: int, line: bytes, previous: str) -> tuple[Json, str]:
    """Return the entry and the hash of a line, or raise LedgerDamaged."""
    what = f"line {number:,}"
    try:
        fields = Fields(parse(line, what), what, "entry", "previous", "sequence", "hash")
        sequence, before, claimed = fields.whole("sequence"), fields.text("previous"), fields.text("hash")
    except WireError as error:
        raise LedgerDamaged(f"{error}: the line was changed or damaged") from None
    expected, digest = _line(sequence, before, fields["entry"])
    if digest != claimed or expected.encode() != line:
        raise LedgerDamaged(f"{what} does not have the hash that it states: it was changed")
    if sequence != number or before != previous:
        raise LedgerDamaged(f"{what} does not follow the line before it: a line was removed, inserted or replaced")
    return fields["entry"], digest
