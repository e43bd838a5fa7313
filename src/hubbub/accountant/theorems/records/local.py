"""The local bound: δ(ε) of what one user sends, without any crowd."""

import math

from hubbub.accountant.theorems import bit
from hubbub.numeric.binomial import binomial_pmf
from hubbub.numeric.divergences import hockey_stick
from hubbub.schema import Schema


def local(schema: Schema, q: float, epsilon: float, k: int = 1) -> float:
    """Return ln δ(ε) of what one user sends in k copies, without any crowd: a bound for every collection.

    Two records at distance h are told apart by Bin(kh, p) against Bin(kh, q). Errs upwards.

    >>> local(Schema.bits(1), 0.25, 1.2)  # nothing is left beyond ln 3
    -inf
    """
    bits = k * schema.distance
    if epsilon >= bits * bit.log_odds(q):
        return -math.inf
    kept, flipped = (binomial_pmf(bits, chance) for chance in (1 - q, q))
    # Next to the pure ε the difference of the two distributions cancels; each is known to better than 10⁻¹².
    wide = kept > flipped * math.exp(min(epsilon, 700.0)) * (1 - 1e-12)
    return math.log(max(hockey_stick(kept, flipped, epsilon) + 2e-12 * float(kept[wide].sum()), 5e-324)) + 1e-10
