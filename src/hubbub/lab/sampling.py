"""Large random counts for synthetic people: one draw of a binomial law instead of a billion coins.

This is the only place of hubbub with a statistical generator. Nothing that is drawn here ever protects anybody: it
stands for people who do not exist, or for the noise of a simulation, and is keyed by the caller's entropy all the same.
"""

import numpy as np
from numpy.random import PCG64DXSM  # noqa: TID251 (simulations only; see above)
from numpy.random import Generator as Generator  # noqa: TID251
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw


def chance(entropy: Entropy) -> Generator:
    """A statistical generator whose whole stream follows from 32 bytes of entropy.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> one, two = (chance(SeededStreamNotForPeople(7)) for _ in range(2))
    >>> one.binomial(10**9, 0.25) == two.binomial(10**9, 0.25)
    True
    """
    return Generator(PCG64DXSM(draw(entropy, 4).tolist()))


def numbers_of(pmf: NDArray[np.float64], size: tuple[int, ...], dice: Generator) -> NDArray[np.int64]:
    """Independent whole numbers 0, 1, … with the probabilities ``pmf``, by inversion of its cdf.

    >>> numbers_of(np.array([0.0, 0.0, 1.0]), (3,), np.random.default_rng(1)).tolist()
    [2, 2, 2]
    """
    edges = pmf.cumsum()
    # A uniform number below the last edge never falls beyond it, whatever rounding made of that edge.
    return np.asarray(np.searchsorted(edges, dice.random(size) * edges[-1], side="right"), np.int64)
