"""The loss of a survey among the shuffler's Laplace fakes, whose attributes may have different scales: no grid.

Let r = e^(−1/b) and P(k) ∝ r^|k − shift|, k ≥ 0, be the fakes of each category of one attribute. If an answer moves to
another category, the count of the old one contributes the loss 1/b if at least ``shift`` fakes were drawn for it, and
−1/b otherwise; the count of the new one contributes ∞ if none was drawn for it, 1/b for 1 to ``shift`` of them, and
−1/b for more. The loss of an attribute is −2/b, 0, 2/b or ∞, and that of the survey has few values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hubbub.model.protocol import Fakes
from hubbub.numeric import portable
from hubbub.numeric.rounding import up

Floats = NDArray[np.float64]

MOST = 2 * 10**5
"""Largest number of atoms of the whole loss."""
ROUNDING = 1e-11  # relative error of a sum of products of a few probabilities, with a large margin
SHIFT = 1e-13  # error of a loss, relative to the largest one, with a large margin


@dataclass(frozen=True, slots=True)
class Atoms:
    """A loss of finitely many values; ``delta`` and ``epsilon`` err upwards."""

    losses: Floats
    masses: Floats
    never: float
    """Probability of an infinite loss."""

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) = E[(1 − e^(ε − L))⁺].

        >>> round(atoms([(Fakes.laplace(2.0, 25), 1)]).delta(1.0) * 1e7, 6)
        9.127282
        """
        above = self.losses > epsilon
        rest = float(portable.dot(self.masses[above], -portable.expm1(epsilon - self.losses[above])))
        return min(1.0, up(self.never + rest, ROUNDING))

    def epsilon(self, delta: float) -> float:
        """Return an ε at which δ is at most ``delta``: the smallest one to 10⁻¹², or ∞.

        >>> one = atoms([(Fakes.laplace(2.0, 25), 1)])
        >>> round(one.epsilon(1e-6), 6), one.epsilon(9e-7)
        (1.0, inf)
        """
        if self.delta(math.nextafter(float(self.losses.max()), math.inf)) > delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, math.nextafter(float(self.losses.max()), math.inf)
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def atoms(groups: Sequence[tuple[Fakes, int]]) -> Atoms | None:
    """Return the loss of attributes among Laplace fakes, each given with its number, or None if it has too many values.

    >>> atoms([(Fakes.laplace(2.0, 25), 40), (Fakes.laplace(3.0, 30), 1)]).losses.size
    243
    """
    if math.prod(2 * times + 1 for _, times in groups) > MOST:
        return None
    losses, masses, stays = np.zeros(1), np.ones(1), 0.0
    for fakes, times in groups:
        nothing, pair = _attribute(fakes)
        finite: Floats = reduce(portable.convolve, [pair] * times)
        steps = np.arange(-times, times + 1) * (2 / fakes.scale)
        losses = np.add.outer(losses, steps).ravel()
        masses = np.multiply.outer(masses, finite).ravel()
        stays += times * (math.log1p(-nothing) if nothing < 1 else -math.inf)
    return Atoms(losses + SHIFT * max(1.0, float(losses.max())), masses, -math.expm1(stays))


def _attribute(fakes: Fakes) -> tuple[float, Floats]:
    """Return the probability of an infinite loss, and those of −2/b, 0 and 2/b."""
    scale, shift = fakes.scale, fakes.shift
    ratio, below = math.exp(-1 / scale), -math.expm1(-shift / scale)
    # Weights times 1 − r: of 0, of 1 to shift, of more; and of fewer than shift, of the others.
    none, some, more = math.exp(-shift / scale) * -math.expm1(-1 / scale), below, ratio
    fewer, others = ratio * below, 1.0
    whole = fewer + others
    first = np.array([fewer, 0.0, others]) / whole
    second = np.array([more, 0.0, some]) / whole
    # A probability that underflows is not 0.
    return max(none / whole, 5e-324), portable.convolve(first, second)[::2]
