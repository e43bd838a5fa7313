"""The accuracy rules of 2016, recomputed, and the privacy that protocols chosen by them really give.

"Guarantee 2" is read as ε = 2, a privacy ratio of λ = e², which [003 §4] calls a loose bound: with it, and with an
error of three standard deviations, the printed figures for home pages are reproduced to the last digit. Records that
differ in up to L bits count as L *effective bits*: 2 for one choice, 2k for at most k set bits [003 §5].
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from research.notes.formulas.bounds import local_flip, simple_three_sigma_flip
from research.notes.formulas.estimation import count_stderr

from hubbub.accountant import account
from hubbub.bits.coins import positions
from hubbub.bits.entropy import Entropy
from hubbub.lab.attacks.evidence import coins, rate
from hubbub.model.privacy import Guarantee
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.ratios import flip_from_phi

DEVIATIONS = 3.0
"""The largest error in the figures of 2016, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A printed figure and the value that its formula gives, both for the number of people of 2016."""

    what: str
    printed: str
    recomputed: str
    remark: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A protocol chosen by a rule of 2016 and the guarantee that it really gives, as δ at the claimed ε."""

    what: str
    protocol: Protocol
    schema: Schema
    n: int
    epsilon: float
    target: float
    """The δ to be met."""

    @property
    def found(self) -> Guarantee:
        """δ at the claimed ε: proven from above, and by the best known attack from below."""
        return _found(self.protocol, self.schema, self.n, self.epsilon)

    def sentence(self) -> str:
        """Say what the protocol gives, and if the target is met."""
        found = self.found
        if found.delta <= self.target:
            verdict = "The target is met."
        elif found.lower_bound > self.target:
            verdict = "The target is not met."
        else:
            verdict = "No known attack exceeds the target, and no proof meets it."
        attack = f"the best known attack reaches δ = {found.lower_bound:.2g}, and " if found.lower_bound > 0 else ""
        return (
            f"{self.what} (q = {self.protocol.q:.3g}, {self.n:,} people): at ε = {self.epsilon:g}, {attack}"
            f"δ = {found.delta:.2g} is proven; the target is {self.target:.2g}. {verdict}"
        )


@lru_cache(maxsize=64)
def _found(protocol: Protocol, schema: Schema, n: int, epsilon: float) -> Guarantee:
    return account(protocol, schema, n, epsilon=epsilon)


def percent(share: float) -> str:
    """Format a share.

    >>> percent(0.000232)
    '0.0232 %'
    """
    return f"{100 * share:.3g} %"


def compare_shares(share: float, claimed: float) -> str:
    """Say how the smallest measured share of a plan compares with the one that a rule of 2016 claims.

    >>> compare_shares(0.00012, 0.003)
    'shares down to 0.012 %, below the 0.3 % that the rule claims without a proof'
    """
    if share >= 1:
        return "no share within the target error"
    if claimed >= 1:
        return f"shares down to {percent(share)}, where the rule measures none"
    side = "below" if share < claimed else "above"
    return f"shares down to {percent(share)}, {side} the {percent(claimed)} that the rule claims without a proof"


def share_within(stderr: float, n: int, error: float, deviations: float = DEVIATIONS) -> float:
    """The smallest share of n people whose count is measured within the relative ``error``: zσ/(error·n).

    >>> round(share_within(38.7, 10**7, 0.05) * 100, 4)
    0.0232
    """
    return deviations * stderr / (error * n)


def share_of_flips(n: int, q: float, error: float, k: int = 1) -> float:
    """The smallest share that k copies of records flipped with probability q measure, with three deviations.

    >>> round(share_of_flips(10**7, 0.00015, 0.05) * 100, 4)
    0.0232
    """
    return share_within(count_stderr(n, q, k=k), n, error)


def local_share(n: int, effective: int, epsilon: float, error: float) -> float:
    """The share that reports without a shuffler measure, as in RAPPOR: q = 1/(1 + e^(ε/L)) [003 eq 4.2].

    >>> round(local_share(10**7, 2, 2.0, 0.05) * 100, 2)
    1.82
    """
    return share_of_flips(n, local_flip(effective, epsilon), error)


def plain_flip(n: int, effective: int, epsilon: float, k: int = 1) -> float:
    """The q with 1 + 3√((φ^L − 1)/(kN)) = e^(ε/k), the rule of [002 eq 4.36, 5.20] for L bits; certifies nothing.

    >>> round(plain_flip(10**7, 2, 2.0), 6)
    0.000148
    """
    return flip_from_phi((1 + k * n * (math.expm1(epsilon / k) / DEVIATIONS) ** 2) ** (1 / effective))


def ratio_flip(n: int, effective: int, epsilon: float) -> float:
    """The q of [003 eq 3.15], which includes the mean of the ratio; certifies nothing.

    >>> round(ratio_flip(50_000, 2, 2.0), 6)
    0.003098
    """
    return simple_three_sigma_flip(n, effective, epsilon)


@dataclass(frozen=True, slots=True)
class Standout:
    """The rate at which an attacker distinguishes two answers of one person, simulated, with a confidence interval."""

    right: float
    low: float
    high: float
    alone: float
    """The share of trials in which no other message looks like either answer, so that the person's message is alone."""


def stand_out(n: int, q: float, *, trials: int, entropy: Entropy) -> Standout:
    """Attack whole flipped one-hot records where everyone else holds a third answer y.

    Each message of another user shows x but not y with probability q²; the attacked person's message does so with
    probability p² if the answer is x, and pq otherwise. The attacker picks the answer that more messages show without
    y; a coin breaks ties.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> stand_out(10**7, 0.00015, trials=1000, entropy=SeededStreamNotForPeople(7)).right > 0.88
    True
    """
    answer = coins(trials, entropy)
    numerator = math.ceil(q * GRID)
    lost = np.array([_hits(trials, numerator, entropy) for _ in range(3)])  # flips of x, x' and y in the own message
    shown = [(answer ^ lost[0]) & ~lost[2], (~answer ^ lost[1]) & ~lost[2]]
    # Messages that show both are the same for both sides, and too rare to matter: q³n.
    others = [_others(n - 1, q * q, trials, entropy) for _ in range(2)]
    score = (others[0] + shown[0]) - (others[1] + shown[1])
    guess = np.where(score == 0, coins(trials, entropy), score > 0)
    right = rate(int((guess == answer).sum()), trials)
    return Standout(*right, float(((others[0] == 0) & (others[1] == 0)).mean()))


def _hits(trials: int, numerator: int, entropy: Entropy) -> NDArray[np.bool_]:
    found = np.zeros(trials, np.bool_)
    found[positions(trials, numerator, entropy=entropy)] = True
    return found


def _others(n: int, probability: float, trials: int, entropy: Entropy) -> NDArray[np.int64]:
    where = positions(n * trials, math.ceil(probability * GRID), entropy=entropy) // n
    return np.bincount(where, minlength=trials).astype(np.int64)
