"""Clear records among users' fakes: the exact distribution of the fakes."""

import math

import numpy as np

from hubbub.accountant.analysis import Analysis, log, unknown
from hubbub.accountant.cases.counts import composed
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import fakes
from hubbub.numeric.binomial import MAX_EXACT, binomial
from hubbub.numeric.distributions import Distribution
from hubbub.privacy import Basis
from hubbub.protocol import Protocol
from hubbub.schema import Schema


def clear_analysis(protocol: Protocol, schema: Schema, honest: int, total: int) -> Analysis:
    """Return the analysis of clear records among users' fakes, ``total`` of them if their number is fixed. [004 §5]

    Only the fakes hide a record, whatever the others hold.

    >>> clear_analysis(Protocol(0, m=300), Schema.one_hot(5), 1000, 300).basis
    <Basis.EXACT: 'exact'>
    """
    drawn = protocol.user_fakes
    if protocol.sends_bits and schema.dense and drawn is None:
        return _clear_bits_analysis(schema, honest, total)
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
        honest=honest,
        guess=1.0,
    )


def _clear_bits_analysis(schema: Schema, honest: int, m: int) -> Analysis:
    """Return the analysis of split clear bits: every position hides a one in Bin(m, 1/2) bits of uniform fakes."""
    before = binomial(m, 0.5)
    after = Distribution(before.low + 1, before.pmf)
    cover = Loss.from_distributions(
        np.append(0.0, before.pmf), np.append(before.pmf, 0.0), step=0.05 / math.sqrt(m / 4 + 1)
    )
    return composed(
        honest, after, before, cover, schema.width, Basis.EXACT, "the exact distribution of the uniform fakes"
    )
