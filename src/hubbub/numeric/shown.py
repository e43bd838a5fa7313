"""Counts of which only count − Z is seen, and only where it is positive: chances and conditional intervals.

Z has the probabilities ``pmf`` = P(0), P(1), …; F(c) = P(Z < c) is the probability that a count c is shown. Given that
it is shown, R = c − Z, and an interval for c keeps the counts that an equal-tailed test given "shown" does not reject:

    P(R ≥ r | c) = F(c − r + 1)/F(c) > (1 − level)/2   and   P(R ≤ r | c) = 1 − F(c − r)/F(c) > (1 − level)/2.

It covers every count with at least the stated probability among the cases in which the count is shown: a plain
interval does not where that is rare, because only large R are seen there.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cumulative(pmf: Floats) -> Floats:
    """Return F(0), F(1), …, the probabilities that counts 0, 1, … are shown.

    >>> cumulative(np.array([0.25, 0.75])).tolist()
    [0.0, 0.25, 1.0]
    """
    return np.concatenate([[0.0], np.minimum(np.cumsum(pmf), 1.0)])


def shown(table: Floats, count: int) -> float:
    """Return the probability that a count is shown.

    >>> shown(cumulative(np.array([0.25, 0.75])), 5)
    1.0
    """
    return float(table[min(count, table.size - 1)])


def smallest_shown(table: Floats, probability: float) -> int:
    """Return the smallest count that is shown with at least this probability; the last of the table if none is.

    >>> smallest_shown(cumulative(np.array([0.25, 0.75])), 0.5)
    2
    """
    return min(int(np.searchsorted(table, probability)), table.size - 1)


def conditional_interval(table: Floats, number: int, level: float) -> tuple[int, int]:
    """Return the smallest and largest count that are compatible with R = ``number`` ≥ 1, given that it is shown.

    >>> conditional_interval(cumulative(np.full(9, 1 / 9)), 3, 0.5)
    (3, 9)
    """
    tail, last = (1 - level) / 2, table.size - 1
    # Beyond the table everything is shown, and the interval is that of c − R alone.
    moved = max(0, number - last)
    number -= moved
    counts = np.arange(number, number + last)
    at = table[np.minimum(counts, last)]
    more = table[np.minimum(counts - number + 1, last)] / np.where(at > 0, at, 1.0)
    less = 1.0 - table[counts - number] / np.where(at > 0, at, 1.0)
    kept = counts[(at > 0) & (more > tail) & (less > tail)]
    if not kept.size:
        kept = counts[np.argmax(np.minimum(more, less)) :][:1]
    return int(kept[0]) + moved, int(kept[-1]) + moved
