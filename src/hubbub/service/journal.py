"""The journal of an upload: every answer with what is needed to send it again unchanged, until it is stored."""

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hubbub.errors import InvalidInput, WireError, check_whole
from hubbub.service.task.contract import Contract


@dataclass(frozen=True, slots=True)
class Answer:
    """A randomized answer, with its admission and bundle, or with the secrets of the token that it waits for."""

    messages: list[bytes]
    admission: bytes | None = None
    bundle: bytes | None = None
    pending: bytes | None = None
    """The secrets of a :class:`PendingToken`."""
    code: str | None = None
    """The code by which the issuer knows the account."""


class Journal:
    """The state of every answer: messages, admission and sealed bundle until it is stored, afterwards only its state.

    A file for one round of one contract, readable by its owner only. It never contains raw answers, except strings that
    nobody listed, which no device randomizes, until they are stored. ``round`` is the
    round of a new journal; an existing one keeps its own.
    """

    def __init__(self, path: Path | str, contract: Contract, round: int = 1) -> None:
        self._size = contract.plan.payload
        self.round = check_whole("round", round, 1, contract.rounds)
        place = str(path)
        if place != ":memory:":
            os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        self._store = sqlite3.connect(place, isolation_level=None)
        try:
            self._begin(contract)
        except sqlite3.DatabaseError:
            self._store.close()
            raise WireError("the journal must be a file written by hubbub send; choose a new file name") from None

    def _begin(self, contract: Contract) -> None:
        for statement in (
            "PRAGMA synchronous = full",
            "PRAGMA secure_delete = on",
            "CREATE TABLE IF NOT EXISTS contract (task BLOB NOT NULL, round INTEGER NOT NULL)",
            "CREATE TABLE IF NOT EXISTS answers (no INTEGER PRIMARY KEY, messages BLOB, admission BLOB, pending BLOB, "
            "code TEXT, bundle BLOB, state TEXT, sealed_to BLOB)",
        ):
            self._store.execute(statement)
        if "sealed_to" not in {row[1] for row in self._store.execute("PRAGMA table_info(answers)")}:
            self._store.execute("ALTER TABLE answers ADD COLUMN sealed_to BLOB")
        rows = self._store.execute("SELECT task, round FROM contract").fetchall()
        if not rows:
            self._store.execute("INSERT INTO contract VALUES (?, ?)", (contract.task, self.round))
        elif len(rows) == 1 and bytes(rows[0][0]) == contract.task:
            self.round = int(rows[0][1])
        else:
            raise WireError("the journal belongs to another contract; choose a new file name")

    def __len__(self) -> int:
        return int(self._store.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def fill(self, answers: Iterable[Answer]) -> None:
        """Store all answers, or none; a journal is filled once."""
        if len(self):
            raise InvalidInput(f"the journal must be empty before answers are added; it holds {len(self):,}")
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            rows = ((b"".join(one.messages), one.admission, one.pending, one.code, one.bundle) for one in answers)
            names = "messages, admission, pending, code, bundle, state"
            self._store.executemany(f"INSERT INTO answers ({names}) VALUES (?, ?, ?, ?, ?, 'waiting')", rows)

    def waiting(self, limit: int) -> list[tuple[int, bytes]]:
        """Return the numbers and bundles of the first sealed answers that are not known to be stored."""
        query = "SELECT no, bundle FROM answers WHERE state = 'waiting' AND bundle IS NOT NULL ORDER BY no LIMIT ?"
        return [(number, bytes(bundle)) for number, bundle in self._store.execute(query, (limit,))]

    def requests(self, limit: int) -> list[tuple[int, bytes, str]]:
        """Return number, secrets and code of the first answers whose tokens are not known yet."""
        query = (
            "SELECT no, pending, code FROM answers "
            "WHERE state = 'waiting' AND bundle IS NULL AND code IS NOT NULL ORDER BY no LIMIT ?"
        )
        return [(number, bytes(pending), str(code)) for number, pending, code in self._store.execute(query, (limit,))]

    def admit(self, number: int, admission: bytes, bundle: bytes) -> None:
        """Store an issued token and the bundle that contains it, and delete the secrets of its request."""
        statement = "UPDATE answers SET admission = ?, bundle = ?, pending = NULL, code = NULL WHERE no = ?"
        self._store.execute(statement, (admission, bundle, number))

    def unsealed(self, limit: int, after: int = 0) -> list[tuple[int, bytes, bytes, bytes, bytes]]:
        """Return the first strings, after that of a number, that wait for their evaluation.

        Each has number, messages, admission, blind, and the keys of a bundle that was sent before.
        """
        query = (
            "SELECT no, messages, admission, pending, COALESCE(sealed_to, x'') FROM answers "
            "WHERE state = 'waiting' AND bundle IS NULL AND code IS NULL AND no > ? ORDER BY no LIMIT ?"
        )
        return [(row[0], *map(bytes, row[1:])) for row in self._store.execute(query, (after, limit))]

    def unseal(self, number: int, pending: bytes, admission: bytes | None = None) -> None:
        """Store the blind of a string that is to be evaluated, or evaluated again for another key."""
        statement = (
            "UPDATE answers SET bundle = NULL, code = NULL, pending = ?, admission = COALESCE(?, admission) "
            "WHERE no = ? AND state = 'waiting'"
        )
        self._store.execute(statement, (pending, admission, number))

    def seal(self, bundles: Iterable[tuple[int, bytes]], keys: bytes) -> None:
        """Store the bundles of evaluated strings, and their keys, before they are sent, and delete their blinds."""
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            statement = (
                "UPDATE answers SET bundle = ?, sealed_to = ?, pending = NULL WHERE no = ? AND state = 'waiting'"
            )
            self._store.executemany(statement, [(bundle, keys, number) for number, bundle in bundles])

    def sealed_to(self, number: int) -> bytes:
        """Return the keys that the bundle of a string is sealed to; empty if there is none."""
        query = "SELECT COALESCE(sealed_to, x'') FROM answers WHERE no = ?"
        return bytes(self._store.execute(query, (number,)).fetchone()[0])

    def admission(self, number: int) -> bytes:
        """Return the admission of an answer."""
        return bytes(self._store.execute("SELECT admission FROM answers WHERE no = ?", (number,)).fetchone()[0])

    def messages(self, number: int) -> list[bytes]:
        """Return the randomized messages of an answer."""
        data = bytes(self._store.execute("SELECT messages FROM answers WHERE no = ?", (number,)).fetchone()[0])
        return [data[start : start + self._size] for start in range(0, len(data), self._size)]

    def replace(self, number: int, bundle: bytes) -> None:
        """Store a new seal of the same messages before it is sent."""
        self._store.execute("UPDATE answers SET bundle = ? WHERE no = ? AND state = 'waiting'", (bundle, number))

    def bundle(self, number: int) -> bytes | None:
        """Return the sealed bundle of an answer; None if it is settled, or waits for its evaluation."""
        found = self._store.execute("SELECT bundle FROM answers WHERE no = ?", (number,)).fetchone()[0]
        return None if found is None else bytes(found)

    def settle(self, numbers: Iterable[int], state: str) -> None:
        """Set the state of answers, ``stored`` or the name of a problem, and delete everything else about them."""
        self._store.execute("BEGIN IMMEDIATE")
        with self._store:
            erased = "messages = NULL, admission = NULL, pending = NULL, code = NULL, bundle = NULL, sealed_to = NULL"
            statement = f"UPDATE answers SET state = ?, {erased} WHERE no = ?"
            self._store.executemany(statement, [(state, number) for number in numbers])

    def states(self) -> dict[str, int]:
        """Return the number of answers in each state."""
        return dict(self._store.execute("SELECT state, COUNT(*) FROM answers GROUP BY state ORDER BY state"))

    def close(self) -> None:
        """Close the file."""
        self._store.close()
