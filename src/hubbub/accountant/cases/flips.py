"""Flipped records, also among users' fakes, which are flipped like records."""

import math

from hubbub.accountant.analysis import Analysis, non_increasing
from hubbub.accountant.cases.positions import columns, fakes_alone, position_analysis
from hubbub.accountant.cases.records import record_analysis
from hubbub.accountant.theorems import attacks, bit, numbers
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema

NARROW = 0.03
STEP, SEVERAL = 0.02, 0.06  # relative steps in the number of fakes: for one position, and for several


def flip_analysis(
    protocol: Protocol, schema: Schema, honest: int, fakes: int, *, preliminary: bool = False
) -> Analysis:
    """Return the analysis of flipped records among ``fakes`` flipped fakes, which are uniform legal records.

    >>> flip_analysis(Protocol(0.1, release="bits"), Schema.one_hot(9), 1000, 0).method
    'composition of the certified single-bit curve over 2 positions'
    """
    if protocol.sends_bits or schema.width == 1:
        return position_analysis(protocol, schema, honest, fakes, preliminary=preliminary)
    return record_analysis(protocol, schema, honest, fakes)


def user_fakes_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: Fakes) -> Analysis:
    """Return the analysis of flipped records among a random number of users' fakes: the mean over that number.

    An analyzer who learns the number of fakes learns no less than one who does not, so that the mean of δ given that
    number is a bound; where messages are whole records, their number tells it
    (:mod:`hubbub.accountant.theorems.numbers`).

    >>> user_fakes_analysis(Protocol(0.1), Schema.bits(1), 1000, Fakes.poisson(1.0)).basis
    <Basis.PROVEN: 'proven'>
    """
    if protocol.sends_bits or schema.width == 1:
        return _drawn_positions(protocol, schema, honest, fakes)
    return record_analysis(protocol, schema, honest, 0, fakes)


def _drawn_positions(protocol: Protocol, schema: Schema, honest: int, fakes: Fakes) -> Analysis:
    number = numbers.number(fakes, honest)
    usual = position_analysis(protocol, schema, honest, math.floor(number.mean))
    q, k = protocol.q, protocol.k
    single = schema.distance == 1
    step, base = STEP if single else SEVERAL, k * honest * (4 * q * (1 - q) if schema.dense else 1.0)
    narrow = math.sqrt(number.variance) < NARROW * (number.mean + base)  # few steps lose less than 1 % in ε
    quick = not single and narrow
    drawn = numbers.few_blocks(number) if quick else numbers.blocks(number, step=step, base=base)

    def upper(epsilon: float) -> float:
        alone = math.inf if single else fakes_alone(schema, k, epsilon, fakes, honest)
        if alone <= columns(protocol, schema, honest, math.floor(number.mean)).log_delta(epsilon):
            return alone  # the mean over all numbers is hardly smaller than at their mean
        return min(alone, numbers.average(drawn, lambda m: columns(protocol, schema, honest, m).log_delta(epsilon)))

    def lower(epsilon: float) -> float:
        hidden = attacks.drawn_column_attack(schema, q, honest, epsilon, k, fakes)
        if not single or protocol.sends_bits or not schema.dense:  # the number of messages does not tell that of fakes
            return hidden
        # One collection for all numbers of fakes: the worst for their mean.
        ones = bit.supremum(honest, q, epsilon, k, fair=math.floor(number.mean), tolerance=STEP).ones
        seen = numbers.attained(
            number,
            lambda m: bit.attained_log_delta(ones, honest - 1 - ones, q, epsilon, k, m),
            step=step,
            base=base,
        )
        return max(seen, hidden)

    return Analysis(
        upper=upper if k == 1 else non_increasing(upper),
        lower=lower,
        basis=Basis.PROVEN,
        method=f"{usual.method}, averaged over the number of fakes",
        honest=honest,
        guess=usual.guess,
    )
