"""Analyses of clear records among fakes, and of the shuffler's fakes, which hide flipped records too."""

import math
from functools import cache

import numpy as np

from hubbub.accountant.composition import Loss
from hubbub.accountant.curves import Analysis, log, unknown
from hubbub.accountant.theorems import fakes, split
from hubbub.numeric.binomial import MAX_EXACT, binomial
from hubbub.numeric.distributions import Distribution
from hubbub.privacy import Basis
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema


def clear_analysis(protocol: Protocol, schema: Schema, honest: int, total: int) -> Analysis:
    """Return the analysis of clear records among users' fakes, ``total`` of them if their number is fixed. [004 §5]

    Only the fakes hide a record, whatever the others hold.

    >>> clear_analysis(Protocol(0, m=300), Schema.one_hot(5), 1000, 300).basis
    <Basis.EXACT: 'exact'>
    """
    drawn = protocol.user_fakes
    if protocol.sends_bits and schema.dense and drawn is None:
        return _clear_bits_analysis(schema, total)
    size = schema.size

    def curve(epsilon: float) -> float:
        if size > MAX_EXACT:  # no number of fakes covers that many records
            return 0.0
        if drawn is None:
            return log(fakes.uniform_delta(epsilon, total, size))
        return log(fakes.user_delta(epsilon, drawn, honest, size))

    tight = protocol.sends_records or schema.exclusive
    return Analysis(
        upper=curve,
        lower=(lambda epsilon: curve(epsilon) - 1e-8) if tight else unknown,
        basis=Basis.EXACT if tight else Basis.PROVEN,
        method="the exact distribution of the uniform fakes",
        guess=1.0,
    )


def shuffler_fakes_analysis(protocol: Protocol, schema: Schema, drawn: Fakes) -> Analysis:
    """Return the analysis of fakes drawn by the shuffler for every legal record, or for every bit if bits are released.

    Flips only add privacy. Whole fake records are flipped like all others, so the released messages are a function of
    clear records among clear fakes. Fake bits are not flipped; given which positions were, the same counts change, each
    up or down, and both directions are covered.

    >>> shuffler_fakes_analysis(Protocol(0, m=Fakes.laplace(2.0, 25)), Schema.one_hot(9), Fakes.laplace(2.0, 25)).method
    "the exact laplace distribution of the shuffler's fakes"
    """
    if protocol.sends_records or (schema.exclusive and protocol.clear):
        return Analysis(
            upper=lambda epsilon: log(fakes.swap_delta(drawn, epsilon)),
            lower=(lambda epsilon: log(fakes.swap_delta(drawn, epsilon)) - 1e-6) if protocol.clear else unknown,
            basis=Basis.EXACT if protocol.clear else Basis.PROVEN,
            method=f"the exact {drawn.distribution} distribution of the shuffler's fakes",
            guess=1.0,
        )
    before, after = Distribution(0, drawn.pmf), Distribution(1, drawn.pmf)
    method = f"the {drawn.distribution} distribution of the shuffler's fakes"
    if not schema.dense and protocol.clear and 2 * schema.max_set <= schema.width:
        both = fakes.change_loss(drawn, 1, 1)  # a legal change lowers and raises at most max_set counts each
        return _composed(before, after, both, schema.max_set, Basis.PROVEN, method)
    return _composed(before, after, fakes.either_loss(drawn), schema.distance, Basis.PROVEN, method)


def _clear_bits_analysis(schema: Schema, m: int) -> Analysis:
    """Return the analysis of split clear bits: every position hides a one in Bin(m, 1/2) bits of uniform fakes."""
    before = binomial(m, 0.5)
    after = Distribution(before.low + 1, before.pmf)
    cover = Loss.from_distributions(
        np.append(0.0, before.pmf), np.append(before.pmf, 0.0), step=0.05 / math.sqrt(m / 4 + 1)
    )
    return _composed(after, before, cover, schema.width, Basis.EXACT, "the exact distribution of the uniform fakes")


def _composed(
    first: Distribution, second: Distribution, cover: Loss, count: int, basis: Basis, method: str
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
        solve=lambda delta: (attack().epsilon(delta), loss.epsilon(delta)),
    )
