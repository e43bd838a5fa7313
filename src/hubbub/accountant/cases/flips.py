"""Flipped records, also among users' fakes: fakes are flipped like records, so they count as further users."""

import math

import numpy as np

from hubbub.accountant.analysis import Analysis, unknown
from hubbub.accountant.cases.positions import position_analysis
from hubbub.accountant.cases.records import record_analysis
from hubbub.privacy import Basis
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema

NEGLECTED = 1e-15  # probability that is added to δ for the event that users draw fewer fakes than counted


def flip_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: int) -> Analysis:
    """Return the analysis of flipped records among ``fakes`` flipped fakes, whatever these hold.

    >>> flip_analysis(Protocol(0.1, release="bits"), Schema.one_hot(9), 1000, 0).method
    'composition of the certified single-bit curve over 2 positions'
    """
    if protocol.sends_bits or schema.width == 1:
        return position_analysis(protocol, schema, honest, fakes)
    return record_analysis(protocol, schema, honest, fakes)


def user_fakes_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: Fakes) -> Analysis:
    """Return the analysis of flipped records among a random number of users' fakes.

    Counts the fakes that are present except with probability ``NEGLECTED``, by Chernoff's bound for binomial and
    Poisson distributions: P[M ≤ mean − x] ≤ exp(−x²/(2·mean)).

    >>> user_fakes_analysis(Protocol(0.1), Schema.bits(1), 1000, Fakes.poisson(1.0)).basis
    <Basis.PROVEN: 'proven'>
    """
    mean = honest * fakes.mean
    certain = max(0, math.floor(mean - math.sqrt(2 * mean * -math.log(NEGLECTED))))
    flips = flip_analysis(protocol, schema, honest, certain)
    return Analysis(
        upper=lambda epsilon: float(np.logaddexp(flips.upper(epsilon), math.log(NEGLECTED))),
        lower=unknown,
        basis=Basis.PROVEN,
        method=f"{flips.method}, with at least {certain:,} fakes except with probability {NEGLECTED:g}",
        honest=honest,
        guess=flips.guess,
    )
