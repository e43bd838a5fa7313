"""Rows of strings: a number of people, four bytes little-endian, and the body of a string, as arrays of bytes.

Before the shuffler has counted, every row is that of one person.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import check_memory
from hubbub.model.questions.text import CUT, NOTHING, PREFIX, WHOLE, Text
from hubbub.model.releases import PEOPLE

Rows = NDArray[np.uint8]
MAX_COUNT = (1 << 8 * PEOPLE) - 1
"""Most people of a row, and so of a batch."""
_STEP = 1 << 16
"""Rows that are checked at a time."""


def one_person(bodies: Rows) -> Rows:
    """Return the rows of people who hold these strings, one each.

    >>> one_person(np.zeros((1, 4), np.uint8)).tolist()
    [[1, 0, 0, 0, 0, 0, 0, 0]]
    """
    check_memory("the rows", bodies.size + PEOPLE * len(bodies))
    rows = np.empty((len(bodies), PEOPLE + bodies.shape[1]), np.uint8)
    rows[:, :PEOPLE] = (1, 0, 0, 0)
    rows[:, PEOPLE:] = bodies
    return rows


def people(rows: Rows) -> NDArray[np.int64]:
    """Return the number of people of each row."""
    return np.ascontiguousarray(rows[:, :PEOPLE]).view("<u4")[:, 0].astype(np.int64)


def bodies(rows: Rows) -> list[bytes]:
    """Return the bodies of all rows."""
    kept = np.ascontiguousarray(rows[:, PEOPLE:])
    found: list[bytes] = kept.view(f"V{kept.shape[1]}")[:, 0].tolist() if kept.size else []
    return found


def from_counts(counts: Iterable[tuple[bytes, int]], strings: Text) -> Rows:
    """Return the rows of strings with their numbers of people, in the order of their bytes, which tells nothing.

    >>> people(from_counts([(bytes(4), 7)], Text(1))).tolist()
    [7]
    """
    data = b"".join(number.to_bytes(PEOPLE, "little") + body for body, number in sorted(counts))
    return np.frombuffer(data, np.uint8).reshape(-1, PEOPLE + strings.size)


def counted(blocks: Iterable[Rows]) -> Counter[bytes]:
    """Return how many people hold each string, and how many hold none, from the rows of single people."""
    counts: Counter[bytes] = Counter()
    for block in blocks:
        for start in range(0, len(block), _STEP):
            counts.update(bodies(block[start : start + _STEP]))
    return counts


def legal_rows(rows: Rows, strings: Text) -> NDArray[np.bool_]:
    """Return which rows have at least one person, a kind that the schema allows, and zeros after the string.

    :meth:`hubbub.model.questions.text.Text.decode` also checks the text.
    """
    parts = [_legal(rows[start : start + _STEP], strings) for start in range(0, len(rows), _STEP)]
    return np.concatenate([*parts, np.empty(0, np.bool_)])


def _legal(rows: Rows, strings: Text) -> NDArray[np.bool_]:
    kind, text = rows[:, PEOPLE], rows[:, PEOPLE + PREFIX :]
    length = rows[:, PEOPLE + 1].astype(np.int64) << 8 | rows[:, PEOPLE + 2]
    beyond = np.arange(strings.max_bytes) >= length[:, None]
    allowed = (kind == WHOLE) | ((kind == NOTHING) & (length == 0))
    if strings.cut:
        allowed |= (kind == CUT) & (length >= strings.max_bytes - 3)
    filled = (length <= strings.max_bytes) & ~(beyond & (text != 0)).any(axis=1)
    return np.asarray(allowed & filled & rows[:, :PEOPLE].any(axis=1))
