"""The strings of a batch: rows of a slot and a number of people, opened, made again and compared.

A row that does not open, or that is not the only slot of its string, is rejected by itself: nobody is charged for it,
and the batch is not withheld, because one malicious client can send such a slot.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hubbub.documents import Fields, Json, canonical, parse
from hubbub.errors import SealError
from hubbub.model.plans import Plan
from hubbub.service.task.contract import PEOPLE_SIZE, Contract
from hubbub.service.task.keylist import tag_key
from hubbub.service.task.sealing import slot_key
from hubbub.wire.strings import StringOpener, StringSlots

BAD_NUMBER, REPEATED, UNKNOWN_KEY = "bad_number", "repeated", "cannot_open"
"""Reasons for which a row is rejected, besides those of a slot."""


@dataclass(frozen=True, slots=True)
class ShownStrings:
    """The strings of one chunk, or of a batch: bodies with their numbers of people, and the rejected rows."""

    rows: tuple[tuple[bytes, int], ...]
    fillers: int
    rejected: dict[str, int]

    def to_row(self) -> tuple[bytes, int, int, bytes, bytes]:
        """Return the values of the row in the store, in the columns of a partial tally."""
        rejected: dict[str, Json] = dict(self.rejected)
        data = b"".join(people.to_bytes(PEOPLE_SIZE, "big") + body for body, people in self.rows)
        return data, len(self.rows), self.fillers, canonical(rejected), b""

    @classmethod
    def from_row(
        cls, data: bytes, messages: int, fillers: int, rejected: bytes, tail: bytes, *, plan: Plan
    ) -> "ShownStrings":
        """Read a row of the store."""
        del messages, tail
        assert plan.schema.text is not None
        step = PEOPLE_SIZE + plan.schema.text.size
        parts = [data[start : start + step] for start in range(0, len(data), step)]
        rows = tuple((part[PEOPLE_SIZE:], int.from_bytes(part[:PEOPLE_SIZE], "big")) for part in parts)
        found = parse(rejected, "the rejected rows")
        names = tuple(found) if isinstance(found, dict) else ()
        reasons = Fields(found, "the rejected rows", *names)
        return cls(rows, fillers, {name: reasons.whole(name) for name in names})

    @classmethod
    def add_up(cls, parts: Iterable["ShownStrings"]) -> "ShownStrings":
        """Return the strings of all chunks; a string that a batch shows twice counts once, with its first number."""
        found: dict[bytes, int] = {}
        rejected: Counter[str] = Counter()
        fillers = 0
        for part in parts:
            rejected.update(part.rejected)
            fillers += part.fillers
            for body, people in part.rows:
                if body in found:
                    rejected[REPEATED] += 1
                else:
                    found[body] = people
        return cls(tuple(found.items()), fillers, dict(rejected))


def open_rows(
    data: bytes, contract: Contract, key_id: int, pair: tuple[bytes, bytes] | None, most: int
) -> ShownStrings:
    """Open the rows of a chunk of a batch of ``most`` people; without the private and public key, none opens."""
    size = contract.row_size
    rows = [data[start : start + size] for start in range(0, len(data), size)]
    if pair is None:
        return ShownStrings((), 0, {UNKNOWN_KEY: len(rows)} if rows else {})
    opener = _opener(contract, key_id, *pair)
    shown: list[tuple[bytes, int]] = []
    rejected: Counter[str] = Counter()
    fillers = 0
    for row in rows:
        slot, people = row[:-PEOPLE_SIZE], int.from_bytes(row[-PEOPLE_SIZE:], "big")
        try:
            body = opener.open(slot)
        except SealError as error:
            wrong = error.reason == "cannot-open" and slot_key(slot) != key_id
            rejected["wrong_key" if wrong else error.reason.replace("-", "_")] += 1
            continue
        if not 1 <= people <= most:
            rejected[BAD_NUMBER] += 1
        elif body is None:
            fillers += 1
        else:
            shown.append((body, people))
    return ShownStrings(tuple(shown), fillers, dict(rejected))


def _opener(contract: Contract, key_id: int, private: bytes, public: bytes) -> StringOpener:
    assert contract.plan.schema.text is not None
    assert contract.strings is not None
    slots = StringSlots(strings=contract.plan.schema.text, task=contract.task, key_id=key_id, public=public)
    return StringOpener(slots, private, tag_key(contract.strings.group, private, contract.task, key_id))
