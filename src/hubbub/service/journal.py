"""The journal of an upload: every answer with what is needed to send it again unchanged, until it is stored.

SQLite leaves copies of rows behind in the free space of pages whenever it moves them, even if it overwrites what it
deletes. Everything about an answer is therefore one row whose size is fixed when it is written: nothing is moved, and
the row is erased by zeros in its place.
"""

import fcntl
import os
import sqlite3
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from hubbub.errors import InvalidInput, WireError, check_whole
from hubbub.service.task.contract import Contract

STORED, WAITING = "stored", "waiting"
UNCERTAIN = "uncertain"
"""State of an answer that may have been counted before the shuffler's store was restored; it is never sealed again."""
TOKEN, BLIND, BUNDLE, ERASED = "token", "blind", "bundle", ""
"""The steps of an answer: it waits for its token, for the evaluation of its string, or for its bundle to be stored."""
_LENGTHS = struct.Struct(">5I")
_BLIND_SIZE = 64
"""Space for the blind of a string, in bytes."""
_OLD = "SELECT messages, admission, pending, code, bundle, state FROM answers ORDER BY no"


@dataclass(frozen=True, slots=True)
class Answer:
    """A randomized answer, with its admission and bundle, or with the secrets of the token that it waits for."""

    messages: bytes
    """The payloads of all messages."""
    admission: bytes = b""
    """A ticket or a token, or the random id of the answer: it is spent once, whatever is sealed again."""
    pending: bytes = b""
    """The secrets of a :class:`hubbub.service.task.tokens.PendingToken`, or the blind of a string."""
    code: bytes = b""
    """The code by which the issuer knows the account."""
    bundle: bytes = b""

    @property
    def step(self) -> str:
        """The step of the answer: the thing it waits for."""
        return BUNDLE if self.bundle else TOKEN if self.code else BLIND


class Journal:
    """The state of every answer: messages, admission and sealed bundle until it is stored, afterwards only its state.

    A file for one round of one contract, readable by its owner only. It never contains raw answers, except strings that
    nobody listed, which no device randomizes, until they are stored. ``round`` is the round of a new journal; an
    existing one keeps its own. One run uses a journal at a time: two would each give ids to the answers of a new one,
    and each settle what the other is about to seal again.
    """

    def __init__(self, path: Path | str, contract: Contract, round: int = 1) -> None:
        self._payload = contract.plan.payload
        self._space = contract.bundle_size + 2 * contract.admission.size
        self.round = check_whole("round", round, 1, contract.rounds)
        place = str(path)
        self._unlock: Callable[[], object] = lambda: None
        if place != ":memory:":
            self._lock(place)
        self._store = sqlite3.connect(place, isolation_level=None)
        try:
            self._begin(contract)
        except sqlite3.DatabaseError:
            self.close()
            raise WireError("the journal must be a file written by hubbub send; choose a new file name") from None

    def _lock(self, place: str) -> None:
        """Reserve the file for this object until it is closed or gone; the system does so if the process dies."""
        handle = os.open(place, os.O_CREAT | os.O_RDWR, 0o600)
        self._unlock = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = os.path.samestat(os.fstat(handle), Path(place).stat())
        except OSError:
            alone = False
        if not alone:
            self._unlock()
            raise InvalidInput("the journal must be used by one run at a time: wait until the other run has ended")

    def _begin(self, contract: Contract) -> None:
        for statement in (
            "PRAGMA synchronous = full",
            "PRAGMA secure_delete = on",
            "CREATE TABLE IF NOT EXISTS contract (task BLOB NOT NULL, round INTEGER NOT NULL)",
            # `again` is 1 if the answer was sent in an earlier bundle.
            "CREATE TABLE IF NOT EXISTS entries (no INTEGER PRIMARY KEY, state TEXT NOT NULL, step TEXT NOT NULL, "
            "sealed_to BLOB NOT NULL, again INTEGER NOT NULL)",
            "CREATE TABLE IF NOT EXISTS contents (no INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        ):
            self._store.execute(statement)
        rows = self._store.execute("SELECT task, round FROM contract").fetchall()
        if not rows:
            self._store.execute("INSERT INTO contract VALUES (?, ?)", (contract.task, self.round))
        elif len(rows) == 1 and bytes(rows[0][0]) == contract.task:
            self.round = int(rows[0][1])
        else:
            raise WireError("the journal belongs to another contract; choose a new file name")
        if self._store.execute("SELECT 1 FROM sqlite_master WHERE name = 'answers'").fetchone():
            self._migrate(contract.admission.size if contract.admission.kind == "open" else 0)

    def _migrate(self, identified: int) -> None:
        """Take over a journal of an earlier version, whose bundles no shuffler takes any more.

        An answer with a ticket or token is sealed again. Without one, a bundle that may be stored must not be followed
        by another, which would have an id of its own; ``identified`` is the size of the id, 0 if none is needed.
        """
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            for *fields, before in self._store.execute(_OLD).fetchall():
                # The columns are those of an answer, in its order.
                messages, admission, pending, code, bundle = (
                    one.encode() if isinstance(one, str) else bytes(one or b"") for one in fields
                )
                state = UNCERTAIN if before == WAITING and bundle and identified else before
                waits = state == WAITING
                own = admission or (os.urandom(identified) if waits else b"")
                kept = Answer(messages, own, pending, code) if waits else None
                self._insert(kept, state, b"", again=bool(bundle))
            self._store.execute("DROP TABLE answers")
        self._store.execute("VACUUM")

    def __len__(self) -> int:
        return int(self._store.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    def fill(self, answers: Iterable[Answer], keys: bytes = b"") -> None:
        """Store all answers, or none; a journal is filled once. ``keys`` are those that bundles are sealed to."""
        if len(self):
            raise InvalidInput(f"the journal must be empty before answers are added; it holds {len(self):,}")
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            for one in answers:
                self._insert(one, WAITING, keys)

    def _insert(self, answer: Answer | None, state: str, keys: bytes, *, again: bool = False) -> None:
        step = ERASED if answer is None else answer.step
        statement = "INSERT INTO entries (state, step, sealed_to, again) VALUES (?, ?, ?, ?)"
        number = self._store.execute(statement, (state, step, keys, again)).lastrowid
        size = 0
        if answer is not None:
            size = self._space + _BLIND_SIZE + len(answer.messages) + len(answer.pending) + len(answer.code)
        data = _packed(answer, _LENGTHS.size + size)
        self._store.execute("INSERT INTO contents VALUES (?, ?)", (number, data))

    def _answers(self, step: str, after: int, limit: int) -> Iterator[tuple[int, Answer]]:
        """Return number and content of the first answers at a step that are not known to be stored."""
        query = (
            "SELECT no, data FROM entries JOIN contents USING (no) "
            "WHERE state = 'waiting' AND step = ? AND no > ? ORDER BY no LIMIT ?"
        )
        rows = self._store.execute(query, (step, after, limit)).fetchall()
        return ((number, _unpacked(data)) for number, data in rows)

    def _write(self, number: int, answer: Answer) -> None:
        """Replace the content of an answer in its place."""
        size = self._store.execute("SELECT LENGTH(data) FROM contents WHERE no = ?", (number,)).fetchone()[0]
        self._store.execute("UPDATE contents SET data = ? WHERE no = ?", (_packed(answer, size), number))
        self._store.execute("UPDATE entries SET step = ? WHERE no = ?", (answer.step, number))

    def read(self, number: int) -> Answer:
        """Return everything about an answer; all is empty if it is settled."""
        return _unpacked(self._store.execute("SELECT data FROM contents WHERE no = ?", (number,)).fetchone()[0])

    def waiting(self, limit: int) -> list[tuple[int, bytes]]:
        """Return the numbers and bundles of the first sealed answers that are not known to be stored."""
        return [(number, one.bundle) for number, one in self._answers(BUNDLE, 0, limit)]

    def requests(self, limit: int) -> list[tuple[int, bytes, str]]:
        """Return number, secrets and code of the first answers whose tokens are not known yet."""
        return [(number, one.pending, one.code.decode()) for number, one in self._answers(TOKEN, 0, limit)]

    def unsealed(self, limit: int, after: int = 0) -> list[tuple[int, Answer]]:
        """Return the first answers, after that of a number, that wait for their evaluation or their seal."""
        return list(self._answers(BLIND, after, limit))

    def unseal(self, number: int, pending: bytes, admission: bytes = b"") -> None:
        """Store the blind of a string that is to be evaluated, or evaluated again for another key."""
        found = self.read(number)
        kept = replace(found, pending=pending, code=b"", bundle=b"", admission=admission or found.admission)
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            self._write(number, kept)
            self._store.execute("UPDATE entries SET again = MAX(again, ?) WHERE no = ?", (bool(found.bundle), number))

    def seal(self, bundles: Iterable[tuple[int, bytes]], keys: bytes, admission: bytes = b"") -> None:
        """Store new bundles before they are sent, and the keys that they are sealed to; their blinds are erased.

        ``admission`` is a token that has just been issued.
        """
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            for number, bundle in bundles:
                found = self.read(number)
                again = bool(found.bundle)
                kept = replace(found, pending=b"", code=b"", bundle=bundle, admission=admission or found.admission)
                self._write(number, kept)
                statement = "UPDATE entries SET sealed_to = ?, again = MAX(again, ?) WHERE no = ?"
                self._store.execute(statement, (keys, again, number))

    def sealed_to(self, number: int) -> bytes:
        """Return the keys that the last bundle of an answer was sealed to; empty if there was none."""
        return bytes(self._store.execute("SELECT sealed_to FROM entries WHERE no = ?", (number,)).fetchone()[0])

    def sealed_again(self, number: int) -> bool:
        """Return True if the answer was sent in an earlier bundle, too."""
        return bool(self._store.execute("SELECT again FROM entries WHERE no = ?", (number,)).fetchone()[0])

    def messages(self, answer: Answer) -> list[bytes]:
        """Return the randomized messages of an answer."""
        data, size = answer.messages, self._payload
        return [data[start : start + size] for start in range(0, len(data), size)]

    def refuse(self, number: int, problem: str) -> None:
        """Set the state of an answer to the name of a problem, and keep everything for the next run.

        Of an uncertain answer only the bundle is kept: it may be sent again, but nothing else may be.
        """
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            self._store.execute("UPDATE entries SET state = ? WHERE no = ?", (problem, number))
            if problem == UNCERTAIN:
                self._write(number, Answer(b"", bundle=self.read(number).bundle))

    def resume(self) -> None:
        """Let all answers that were refused, and not settled, wait again."""
        self._store.execute("UPDATE entries SET state = 'waiting' WHERE step <> ''")

    def settle(self, numbers: Iterable[int], state: str) -> None:
        """Set the state of answers, ``stored`` or the name of a problem, and erase everything else about them."""
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            for number in numbers:
                self._store.execute("UPDATE contents SET data = ZEROBLOB(LENGTH(data)) WHERE no = ?", (number,))
                statement = "UPDATE entries SET state = ?, step = '', sealed_to = x'', again = 0 WHERE no = ?"
                self._store.execute(statement, (state, number))

    def states(self) -> dict[str, int]:
        """Return the number of answers in each state."""
        return dict(self._store.execute("SELECT state, COUNT(*) FROM entries GROUP BY state ORDER BY state"))

    def close(self) -> None:
        """Close the file."""
        self._store.close()
        self._unlock()


def _packed(answer: Answer | None, size: int) -> bytes:
    """Return the content of an answer in a fixed number of bytes: five lengths, the fields, and zeros.

    >>> _unpacked(_packed(Answer(b"ab", bundle=b"c"), 30))
    Answer(messages=b'ab', admission=b'', pending=b'', code=b'', bundle=b'c')
    """
    fields = () if answer is None else astuple(answer)
    data = _LENGTHS.pack(*map(len, fields)) + b"".join(fields) if fields else b""
    if len(data) > size:
        raise WireError(f"an answer of the journal must have at most {size:,} bytes, got {len(data):,}")
    return data.ljust(size, b"\0")


def _unpacked(data: bytes) -> Answer:
    fields, start = [], _LENGTHS.size
    for length in _LENGTHS.unpack_from(data):
        fields.append(bytes(data[start : start + length]))
        start += length
    return Answer(*fields)
