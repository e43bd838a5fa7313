"""The yardsticks of 2016, recomputed, and what protocols chosen by them really give away.

"Guarantee 2" is read as ε = 2, a privacy ratio of λ = e², which [003 §4] calls a loose bound: with it, and with an
error of three deviations, the printed figures of home pages come out to the last digit. Records that differ in up to L
bits count as L *effective bits*: 2 for one choice, 2k for at most k set bits [003 §5].
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hubbub.accountant import account
from hubbub.bits.coins import positions
from hubbub.bits.entropy import Entropy
from hubbub.lab.attacks.evidence import coins, rate
from hubbub.numeric.bounds import flip_from_phi, local_flip, simple_three_sigma_flip
from hubbub.numeric.estimation import count_stderr
from hubbub.privacy import Guarantee
from hubbub.protocol import GRID, Protocol
from hubbub.schema import Schema

DEVIATIONS = 3.0
"""What the figures of 2016 take for the largest error, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A printed figure and what its formula gives, both shares of the people (or people, as the text says)."""

    what: str
    printed: str
    recomputed: str
    remark: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A protocol of 2016 and the guarantee that it really gives, as δ at the claimed ε."""

    what: str
    protocol: Protocol
    schema: Schema
    n: int
    epsilon: float
    wanted: float
    """The δ that was to be met."""

    @property
    def found(self) -> Guarantee:
        """δ at the claimed ε: proven from above, and by the best known attack from below."""
        return _found(self.protocol, self.schema, self.n, self.epsilon)

    def sentence(self) -> str:
        """What holds instead."""
        found = self.found
        return (
            f"{self.what} (q = {self.protocol.q:.3g}): at ε = {self.epsilon:g} the best known attack reaches "
            f"δ = {found.lower_bound:.2g}, and {found.delta:.2g} is proven, where {self.wanted:.2g} is wanted."
        )


@lru_cache(maxsize=64)
def _found(protocol: Protocol, schema: Schema, n: int, epsilon: float) -> Guarantee:
    return account(protocol, schema, n, epsilon=epsilon)


def share_within(stderr: float, n: int, error: float, deviations: float = DEVIATIONS) -> float:
    """The smallest share of n people whose count is measured within the relative ``error``: zσ/(error·n).

    >>> round(share_within(38.7, 10**7, 0.05) * 100, 4)
    0.0232
    """
    return deviations * stderr / (error * n)


def local_share(n: int, effective: int, epsilon: float, error: float) -> float:
    """What reports without a shuffler measure, as RAPPOR does: q = 1/(1 + e^(ε/L)) [003 eq 4.2], three deviations.

    >>> round(local_share(10**7, 2, 2.0, 0.05) * 100, 2)
    1.82
    """
    return share_within(count_stderr(n, local_flip(effective, epsilon)), n, error)


def plain_flip(n: int, effective: int, epsilon: float, k: int = 1) -> float:
    """The q of 1 + 3√((φ^L − 1)/(kN)) = e^(ε/k), the rule of [002 eq 4.36, 5.20] for L bits; certifies nothing.

    >>> round(plain_flip(10**7, 2, 2.0), 6)
    0.000148
    """
    return flip_from_phi((1 + k * n * (math.expm1(epsilon / k) / DEVIATIONS) ** 2) ** (1 / effective))


def ratio_flip(n: int, effective: int, epsilon: float) -> float:
    """The q of [003 eq 3.15], which counts the mean of the ratio as well; certifies nothing.

    >>> round(ratio_flip(50_000, 2, 2.0), 6)
    0.003098
    """
    return simple_three_sigma_flip(n, effective, epsilon)


@dataclass(frozen=True, slots=True)
class Standout:
    """How often an attacker tells two answers of one person apart, simulated."""

    right: float
    low: float
    high: float
    alone: float
    """How often no message of the crowd looks like either answer, so that the person's own message stands alone."""


def stand_out(n: int, q: float, *, trials: int, entropy: Entropy) -> Standout:
    """Attack whole flipped one-hot records where everybody else holds a third answer y.

    A message of the crowd shows x but not y with probability q² each, whatever else it shows; the person's own message
    does so with p² if the answer is x, and pq if it is another. Whichever of the two answers is shown more often
    without y is taken; a coin decides ties.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> stand_out(10**7, 0.00015, trials=1000, entropy=SeededStreamNotForPeople(7)).right > 0.88
    True
    """
    answer = coins(trials, entropy)
    flip_probability = math.ceil(q * GRID)
    lost = np.array(
        [_hits(trials, flip_probability, entropy) for _ in range(3)]
    )  # a flip of x, of x' and of y in the own message
    shown = [(answer ^ lost[0]) & ~lost[2], (~answer ^ lost[1]) & ~lost[2]]
    # Messages that show both are the same for both sides, and too rare to matter: q³n.
    crowd = [_crowd(n - 1, q * q, trials, entropy) for _ in range(2)]
    score = (crowd[0] + shown[0]) - (crowd[1] + shown[1])
    guess = np.where(score == 0, coins(trials, entropy), score > 0)
    right = rate(int((guess == answer).sum()), trials)
    return Standout(*right, float(((crowd[0] == 0) & (crowd[1] == 0)).mean()))


def _hits(trials: int, numerator: int, entropy: Entropy) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(trials, np.bool_)
    found[positions(trials, numerator, entropy=entropy)] = True
    return found


def _crowd(n: int, chance: float, trials: int, entropy: Entropy) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    where = positions(n * trials, math.ceil(chance * GRID), entropy=entropy) // n
    return np.bincount(where, minlength=trials).astype(np.int64)
