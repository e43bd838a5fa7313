"""Key retention: the analyzer keeps a key until every shuffler has signed that nothing waits under it.

A shuffler states the keys of its open bucket and of its undelivered buckets (:class:`KeysInUse`). Buckets change to
newer keys only, so a statement also says that the keys *below* the newest one it names, and not named, will never be
used again. It says nothing about keys *above*: the open bucket may have changed to one of them since, in the hours or
weeks in which no statement came through. Those are held until a statement reaches beyond them. A task whose shuffler
has not made a statement holds every key of its suite. A task that has ended releases its keys only by an empty
statement.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """The facts about one task that decide which keys it holds."""

    suite: int
    named: Collection[int] | None
    """The keys in the newest statement; None if the shuffler has not made any."""
    since: int
    """The oldest key that a bucket opened after the statement can have, from a key list that was still valid."""
    ended: bool


def held_keys(keys: Collection[tuple[int, int]], holder: Holder) -> set[int]:
    """Return the keys, given as pairs of id and suite, that must not be destroyed because of one task.

    >>> keys = [(1, 1), (2, 1), (3, 1), (4, 2)]
    >>> held_keys(keys, Holder(1, named=None, since=0, ended=True))
    {1, 2, 3}
    >>> held_keys(keys, Holder(1, named=[2], since=3, ended=False))
    {2, 3}
    >>> held_keys(keys, Holder(1, named=[], since=3, ended=False))
    {3}
    >>> held_keys(keys, Holder(1, named=[], since=3, ended=True))
    set()
    """
    own = {key for key, suite in keys if suite == holder.suite}
    if holder.named is None:
        return own
    if named := own.intersection(holder.named):
        return named | {key for key in own if key > max(named)}
    if holder.ended and not holder.named:
        return set()
    return {key for key in own if key >= holder.since}
