"""Independent counts, each hidden by noise of a known distribution."""

from functools import cache

import numpy as np

from hubbub.accountant.analysis import Analysis, log
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import split
from hubbub.numeric.distributions import Distribution
from hubbub.privacy import Basis


def composed(
    honest: int,
    first: Distribution,
    second: Distribution,
    cover: Loss,
    count: int,
    basis: Basis,
    method: str,
    *,
    fakes: bool = False,
) -> Analysis:
    """Return the analysis of ``count`` independent counts, each distributed as one of a pair."""
    loss = cover.power(count)
    low, high = min(first.low, second.low), max(first.high, second.high)
    one, two = (np.pad(each.pmf, (each.low - low, high - each.high)) for each in (first, second))

    @cache
    def attack() -> Loss:  # computed on demand: a search for parameters needs only the certified curve
        return split.repeated(one, two, count)

    return Analysis(
        upper=lambda epsilon: log(loss.delta(epsilon)),
        lower=lambda epsilon: log(attack().delta(epsilon)),
        basis=basis,
        method=f"composition of {method} over {count} counts",
        guess=1.0,
        honest=honest,
        fakes=fakes,
        solve=lambda delta: (attack().epsilon(delta), loss.epsilon(delta)),
    )
