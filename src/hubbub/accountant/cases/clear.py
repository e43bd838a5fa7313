"""Clear records among users' fakes: the exact distribution of the fakes."""

import math
from collections.abc import Sequence

import numpy as np

from hubbub.accountant.analysis import Analysis, log, unknown
from hubbub.accountant.attained import Attained, repeated
from hubbub.accountant.cases.counts import composed
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import fakes
from hubbub.numeric.binomial import MAX_EXACT, binomial
from hubbub.privacy import Basis
from hubbub.protocol import Protocol
from hubbub.schema import Schema

POSITIONS = 2048  # positions that an attack uses at most; with fewer it is weaker, but still an attack


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

    def bounds(epsilon: float) -> tuple[float, float]:
        if size > MAX_EXACT:  # a fake falls on one of two records with probability 2·mean/size at most
            mean = total if drawn is None else honest * drawn.mean
            return max(0.0, 1.0 - 2.001 * mean / size), 1.0
        if drawn is None:
            return fakes.uniform_bounds(epsilon, total, size)
        return fakes.user_bounds(epsilon, drawn, honest, size)

    tight = protocol.sends_records or schema.exclusive
    return Analysis(
        upper=lambda epsilon: log(bounds(epsilon)[1]),
        lower=(lambda epsilon: log(bounds(epsilon)[0])) if tight else unknown,
        basis=Basis.EXACT if tight else Basis.PROVEN,
        method="the exact distribution of the uniform fakes",
        honest=honest,
        guess=1.0,
    )


def _clear_bits_analysis(schema: Schema, honest: int, m: int) -> Analysis:
    """Return the analysis of split clear bits: every position hides a one in Bin(m, 1/2) bits of uniform fakes.

    Exchanging 0 and 1 maps a count that rises to one that falls, so all changes of all positions have the same curve.
    """
    noise = binomial(m, 0.5).pmf
    count = schema.width

    def covers() -> Sequence[Loss]:
        step = 0.05 / math.sqrt(m / 4 + 1)
        return [Loss.from_distributions(np.append(0.0, noise), np.append(noise, 0.0), step=step).power(count)]

    def attacks() -> Sequence[Attained]:
        return [repeated(np.append(0.0, noise), np.append(noise, 0.0), min(count, POSITIONS))]

    return composed(
        covers,
        attacks,
        honest=honest,
        basis=Basis.EXACT,
        method=f"composition of the exact distribution of the uniform fakes over {count} counts",
    )
