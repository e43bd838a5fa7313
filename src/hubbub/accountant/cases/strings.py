"""Strings that nobody listed: the exact distribution of what the shuffler subtracts from every count.

max(0, c − Z) is a function of c − Z, and c − Z against c − 1 − Z is the mirror image of c + Z against c + 1 + Z. A
string that nobody holds is never shown, so that all strings may be thought of as released; one that replaces another
lowers one count and raises one. δ(ε) is therefore at most that of a swap among the shuffler's fakes
(:mod:`hubbub.accountant.theorems.fakes`), for all collections and both orders, and equals it where the counts of both
strings exceed what is ever subtracted. Compromised users only add known numbers to counts. docs/theory/strings.md.
"""

import math

import numpy as np

from hubbub.accountant.analysis import Analysis, log
from hubbub.accountant.theorems import fakes
from hubbub.model.fakes import Fakes
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Protocol

CELLS = 1 << 22
"""Pairs of numbers up to which the best attack in a small batch is computed."""


def strings_analysis(protocol: Protocol, n: int) -> Analysis:
    """Return the analysis of a batch of n people: a bound for all n, exact if two strings can hide what is subtracted.

    >>> protocol = Protocol(0, m=Fakes.laplace(2.0, 35), release="strings")
    >>> strings_analysis(protocol, 10_000).basis, strings_analysis(protocol, 10).basis
    (<Basis.EXACT: 'exact'>, <Basis.PROVEN: 'proven'>)
    """
    drawn = protocol.shuffler_fakes
    assert drawn is not None
    exact = n > 2 * drawn.pmf.size
    return Analysis(
        upper=lambda epsilon: fakes.swap_bounds(drawn, epsilon)[1],
        lower=lambda epsilon: log(attained(drawn, n, epsilon)),
        basis=Basis.EXACT if exact else Basis.PROVEN,
        method=f"the exact {drawn.distribution} distribution of what the shuffler subtracts",
        honest=1,
        fakes=True,
        guess=1.0,
        solve=(lambda delta: fakes.swap_epsilon(drawn, delta)) if exact else None,
    )


def attained(drawn: Fakes, n: int, epsilon: float) -> float:
    """Return a δ that the analyzer attains in a batch of n people, half of whom hold each of two strings.

    Beyond the counts of the table nothing is subtracted but with probability 10⁻²⁹. A person who alone holds a string
    is recognized if nothing is subtracted: P(0) is attained in every batch. Errs downwards.

    >>> drawn = Fakes.laplace(2.0, 35)
    >>> attained(drawn, 10**6, 0.5) >= attained(drawn, 40, 0.5) >= attained(drawn, 1, 0.5) > 0
    True
    """
    pmf = drawn.pmf
    alone = float(pmf[0]) * (1 - 1e-9)
    if n > 2 * pmf.size:
        found = math.exp(fakes.swap_bounds(drawn, epsilon)[0]) - 4 * fakes.CUT * (1 + math.exp(min(epsilon, 700.0)))
        return max(alone, found)
    one, two = n // 2, n - 1 - n // 2
    if (one + 2) * (two + 2) > CELLS:
        return alone
    # One string falls from one + 1 holders to one, the other rises from two to two + 1.
    joint = np.outer(_shown(pmf, one + 1, one + 2), _shown(pmf, two, two + 2))
    other = np.outer(_shown(pmf, one, one + 2), _shown(pmf, two + 1, two + 2))
    gain = np.clip(joint - math.exp(min(epsilon, 700.0)) * other, 0.0, None)
    return max(alone, float(gain.sum()) * (1 - 1e-9) - 1e-15)


def _shown(
    pmf: "np.ndarray[tuple[int], np.dtype[np.float64]]", count: int, size: int
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the probabilities of max(0, count − Z) = 0, 1, …"""
    row = np.zeros(size)
    reach = min(count, pmf.size)
    row[count - reach + 1 : count + 1] = pmf[:reach][::-1]
    row[0] += pmf[count:].sum()
    return row
