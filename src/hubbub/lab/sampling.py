"""Large random counts for simulations: one binomial draw instead of a billion coins.

This is the only module with a statistical generator. Its numbers describe synthetic people and simulated noise and
never protect anyone; the generator is seeded by the caller's entropy.
"""

import numpy as np
from numpy.random import PCG64DXSM, Generator  # noqa: TID251 (simulations only; see above)
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw

Rng = Generator


def generator(entropy: Entropy) -> Rng:
    """Return a statistical generator seeded with 32 bytes of entropy.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> one, two = (generator(SeededStreamNotForPeople(7)) for _ in range(2))
    >>> one.binomial(10**9, 0.25) == two.binomial(10**9, 0.25)
    True
    """
    return Generator(PCG64DXSM(draw(entropy, 4).tolist()))


def draw_from(pmf: NDArray[np.float64], size: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
    """Draw independent numbers 0, 1, … with the probabilities ``pmf``, by inversion of the cdf.

    >>> draw_from(np.array([0.0, 0.0, 1.0]), (3,), np.random.default_rng(1)).tolist()
    [2, 2, 2]
    """
    edges = pmf.cumsum()
    # Scaling by the last edge keeps the result in range even if rounding moved that edge.
    return np.asarray(np.searchsorted(edges, rng.random(size) * edges[-1], side="right"), np.int64)
