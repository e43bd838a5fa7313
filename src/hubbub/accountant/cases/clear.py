"""Clear records among users' fakes: the exact distribution of the fakes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hubbub.accountant.analysis import STEEP, Analysis, log, unknown
from hubbub.accountant.attained import Attained, repeated
from hubbub.accountant.cases.counts import composed
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import fakes
from hubbub.errors import check_memory
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import MAX_EXACT, log_binomial_pmf
from hubbub.numeric.inversion import falling_root

CUT = 1e-40  # mass of the noise of split clear bits that counts as an infinite loss
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
    size = min(schema.size, 2**900)  # within the range of floats; beyond 2⁵³ only the lower bound uses it
    mean = total if drawn is None else honest * drawn.mean

    @lru_cache(8)
    def bounds(epsilon: float) -> tuple[float, float]:
        if size > MAX_EXACT:  # a fake falls on one of two records with probability 2·mean/size at most
            return max(0.0, 1.0 - 2.001 * mean / size), 1.0
        if drawn is None:
            return fakes.uniform_bounds(epsilon, total, size)
        return fakes.user_bounds(epsilon, drawn, honest, size)

    tight = protocol.sends_records or schema.exclusive
    guess = min(1.0, 5 * math.sqrt(min(2 * size, MAX_EXACT) / max(mean, 1)))  # five standard deviations of the loss

    def solve(delta: float) -> tuple[float, float]:
        goal = math.log(delta)
        upper = falling_root(lambda x: log(bounds(x)[1]) - goal, guess, STEEP, relative=1e-5)[1]
        if not tight:
            return 0.0, upper
        near = min(upper, STEEP) * (1 - 1e-5)  # usually the other end of the last step
        if log(bounds(near)[0]) > goal:
            return near, upper
        return falling_root(lambda x: log(bounds(x)[0]) - goal, near, STEEP, relative=1e-5)[0], upper

    return Analysis(
        upper=lambda epsilon: log(bounds(epsilon)[1]),
        lower=(lambda epsilon: log(bounds(epsilon)[0])) if tight else unknown,
        basis=Basis.EXACT if tight else Basis.PROVEN,
        method="the exact distribution of the uniform fakes",
        honest=honest,
        guess=guess,
        solve=solve,
    )


def _clear_bits_analysis(schema: Schema, honest: int, m: int) -> Analysis:
    """Return the analysis of split clear bits: every position hides a one in Bin(m, 1/2) bits of uniform fakes.

    Exchanging 0 and 1 maps a count that rises to one that falls, so all changes of all positions have the same curve.
    """
    # Beyond the window lies a mass of at most CUT (Hoeffding), which counts as an infinite loss.
    reach = min(math.ceil(math.sqrt(0.5 * m * -math.log(CUT / 2))), -(-m // 2))
    low, high = m // 2 - min(reach, m // 2), min(-(-m // 2) + reach, m)
    check_memory("the distribution of the fakes", 128 * (high - low))
    noise = portable.exp(log_binomial_pmf(np.arange(low, high + 1), m, 0.5))
    cut = 0.0 if high - low == m else CUT
    after, before = np.append(0.0, noise), np.append(noise, 0.0)
    count = schema.width

    def covers() -> Sequence[Loss]:
        one = Loss.from_distributions(after, before, step=0.05 / math.sqrt(m / 4 + 1))
        return [replace(one, infinite=one.infinite + cut).power(count)]

    def attacks() -> Sequence[Attained]:
        # Outside of the window both are possible; only the first outcome of all may reveal the record.
        inside = slice(None) if cut == 0.0 else slice(1, -1)
        return [repeated(after[inside], before[inside], min(count, POSITIONS))]

    return composed(
        covers,
        attacks,
        honest=honest,
        basis=Basis.EXACT,
        method=f"composition of the exact distribution of the uniform fakes over {count} counts",
    )
