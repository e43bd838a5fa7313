"""The result of one test of an audit: a statistic, what the plan predicts for it, and a p-value."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Part = Literal["client", "shuffler", "pipeline", "wire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one test; a small p-value contradicts the plan."""

    part: Part
    name: str
    where: str
    """The bit, value, run or position with the largest deviation."""
    observed: float
    allowed: float
    """The value that the plan predicts, or the largest ε that it claims."""
    p: float
    """Under the plan, an upper bound on the probability of an equally extreme result."""
    bound: bool = False
    """True if ``observed`` is a lower confidence bound on ε and ``allowed`` the claimed ε."""

    def violates(self, level: float) -> bool:
        """Return True if the test rejects the plan at this significance level.

        >>> finding("client", "flips", "bit 2", 0.0, 0.1, 1e-9).violates(1e-4)
        True
        """
        return self.p <= level


def finding(part: Part, name: str, where: str, observed: float, allowed: float, p: float) -> Finding:
    """Return the result of a test with a p-value."""
    return Finding(
        part=part, name=name, where=where, observed=float(observed), allowed=float(allowed), p=min(1.0, float(p))
    )


def worst(p: ArrayLike) -> tuple[tuple[int, ...], float]:
    """Return the index of the smallest p-value and the p-value of the family by Bonferroni: count · smallest.

    >>> worst([[0.5, 0.01], [0.3, 0.2]])
    ((0, 1), 0.04)
    """
    values = np.asarray(p, np.float64)
    place = np.unravel_index(int(np.argmin(values)), values.shape)
    return tuple(int(i) for i in place), min(1.0, values.size * float(values[place]))
