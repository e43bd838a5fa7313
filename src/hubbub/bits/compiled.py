"""Compiled loops of the extra ``fast``: the only module that imports numba, itself imported on demand."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

_Loop = TypeVar("_Loop", bound=Callable[..., Any])
_compile: Callable[[_Loop], _Loop] = numba.njit(nogil=True)


@_compile
def scatter(
    records: NDArray[np.uint64], bucket: NDArray[np.uint8], mixed: NDArray[np.uint64], buckets: int
) -> NDArray[np.int64]:
    """Copy each record to its bucket's part of ``mixed``; return the end of each part.

    >>> mixed = np.empty(3, np.uint64)
    >>> ends = scatter(np.array([5, 6, 7], np.uint64), np.array([2, 0, 2], np.uint8), mixed, 4)
    >>> mixed.tolist(), ends.tolist()
    ([6, 5, 7], [1, 1, 3, 3])
    """
    ends = np.zeros(buckets, np.int64)
    for i in range(bucket.size):
        ends[bucket[i]] += 1
    total = 0
    for b in range(buckets):
        total, ends[b] = total + ends[b], total
    for i in range(bucket.size):
        b = bucket[i]
        mixed[ends[b]] = records[i]
        ends[b] += 1
    return ends


@_compile
def fisher_yates(records: NDArray[np.uint64], left: int, words: NDArray[np.uint32]) -> int:
    """Choose the last of ``left`` records, then the one before, …; return how many are left when the words run out.

    The choice among k is the high half of word·k, rejected if the low half shows that the word belongs to an incomplete
    multiple of k: unbiased (Lemire 2019, "Fast random integer generation in an interval").

    >>> records = np.array([5, 6, 7], np.uint64)
    >>> fisher_yates(records, 3, np.ones(2, np.uint32)), records.tolist()
    (1, [6, 7, 5])
    """
    mask = np.uint64(2**32 - 1)
    for word in words:
        if left < 2:
            break
        bound = np.uint64(left)
        product = np.uint64(word) * bound
        fraction = product & mask
        if fraction < bound and fraction < (mask + np.uint64(1) - bound) % bound:
            continue
        chosen = np.int64(product >> np.uint64(32))
        left -= 1
        records[chosen], records[left] = records[left], records[chosen]
    return left
