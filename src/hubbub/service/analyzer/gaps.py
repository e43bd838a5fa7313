"""Gaps: buckets of a task that the analyzer has no batch for, and the reason as far as it is known."""

from collections.abc import Iterable, Iterator

UNKNOWN = "unknown here"
"""The reason of a gap that no manifest announced: the batch is late, or the analyzer's own store was restored."""


def missing_ranges(present: Iterable[tuple[int, int]], highest: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of numbers from 1 to ``highest`` that no range in ``present`` covers.

    >>> list(missing_ranges([(5, 5), (1, 2), (2, 3)], 9))
    [(4, 4), (6, 9)]
    """
    following = 1
    for first, last in sorted([*present, (highest + 1, highest + 1)]):
        before = min(first - 1, highest)
        if following <= before:
            yield following, before
        following = max(following, last + 1)
