"""The local bound: δ(ε) of what one user sends, without any crowd."""

import math

import numpy as np

from hubbub.accountant.quadrature import UNIT, difference
from hubbub.accountant.theorems import bit
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial_pmf


def local(schema: Schema, q: float, epsilon: float, k: int = 1) -> float:
    """Return ln δ(ε) of what one user sends in k copies, without any crowd: a bound for every collection.

    Two records at distance h are told apart by Bin(kh, p) against Bin(kh, q). Errs upwards.

    >>> local(Schema.bits(1), 0.25, 1.2)  # nothing is left beyond ln 3
    -inf
    """
    bits = k * schema.distance
    if epsilon >= bit.pure_epsilon(q, bits):
        return -math.inf
    kept, ratio = binomial_pmf(bits, q)[::-1], bit.log_odds(q)
    excess = epsilon - ratio * (2 * np.arange(bits + 1) - bits)  # of ε over the log-likelihood ratio
    gain = difference(0.0, np.minimum(excess, 1.0), epsilon + bits * ratio)
    delta = float((kept * np.clip(gain, 0.0, 1.0)).sum()) + (bits + 1) * 5e-324
    return min(math.log(max(delta, 5e-324)) + 8 * weight_error(bits, q), 0.0)


def weight_error(bits: int, q: float) -> float:
    """Return a bound on the relative error of binomial probabilities and powers for this number of flipped bits.

    >>> weight_error(10, 0.25) < 1e-12
    True
    """
    return UNIT * (1024 + 32 * bits * (1 + bit.log_odds(q)))


def group_steps(epsilon: float, k: int) -> float:
    """Return ln Σ_{i<k} e^{iε/k}, the weight of the k steps of group privacy; errs upwards.

    The sum is e^{ε(1−1/k)}·(1 − e^{−ε})/(1 − e^{−ε/k}), whose quotient lies between 1 and k.

    >>> round(math.exp(group_steps(0.0, 3)), 9)
    3.0
    """
    share = math.expm1(-epsilon) / math.expm1(-epsilon / k) if epsilon > 1e-300 else float(k)
    return (epsilon * (1 - 1 / k) + math.log(share)) * (1 + 8 * UNIT) + 8 * UNIT
