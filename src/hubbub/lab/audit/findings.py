"""What one test of an audit found: how a statistic came out, what the plan's law allows, and how surprising that is."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Part = Literal["client", "mix", "chain", "wire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One test; the smaller p, the less the observation agrees with the plan."""

    part: Part
    name: str
    where: str
    """The bit, the value, the run or the place at which it is, or came nearest to be, violated."""
    observed: float
    allowed: float
    """What the plan's law says: the expected value, or for ε the largest that is claimed."""
    p: float
    """Under the plan's law, at most this probability of something as extreme."""
    bound: bool = False
    """Whether ``observed`` is a bound on ε from below and ``allowed`` the claim; such a test has its own confidence."""

    def violates(self, level: float) -> bool:
        """Whether this test alone, at its share of the false alarms, speaks against the plan.

        >>> Finding(part="client", name="flips", where="bit 2", observed=0.0, allowed=0.1, p=1e-9).violates(1e-4)
        True
        """
        return self.p <= level


def worst(p: ArrayLike) -> tuple[tuple[int, ...], float]:
    """Where the smallest of many p-values stands, and the p-value of it all by Bonferroni: count · smallest.

    >>> worst([[0.5, 0.01], [0.3, 0.2]])
    ((0, 1), 0.04)
    """
    values = np.asarray(p, np.float64)
    place = np.unravel_index(int(np.argmin(values)), values.shape)
    return tuple(int(i) for i in place), min(1.0, values.size * float(values[place]))
