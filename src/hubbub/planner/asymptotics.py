"""Standard errors in the limit of a large crowd: estimates that order a search and certify nothing.

κ is the squared signal of a Gaussian mechanism that meets the budget; ``information`` is κ times the honest users.
"""

import math

from hubbub.model.schema import Schema


def total_factor(schema: Schema) -> float:
    """Return √(1 − 1/d), by which the known total of one column reduces independent errors of its d counts.

    >>> total_factor(Schema.one_hot(4)) == 0.75**0.5, total_factor(Schema.bits(4))
    (True, 1.0)
    """
    return math.sqrt(1 - 1 / schema.width) if len(schema.attributes) == 1 and schema.width > 1 else 1.0


def whole_records(schema: Schema, n: int, information: float, k: int) -> float:
    """Return σ of k copies of flipped whole records: σ² = N/(k(φ − 1)), φ^L = 1 + κN/k, or 2φ^K(φ^K − 1) = κN/k.

    The first for L free bits, the second for at most K set ones with a third record as background.

    >>> [round(whole_records(Schema.bits(13), 10**6, 5e4, k)) for k in (1, 16)]
    [878, 270]
    """
    if schema.dense:
        phi = math.pow(1 + information / k, 1 / schema.width)
    else:
        phi = math.pow((1 + math.sqrt(1 + 2 * information / k)) / 2, 1 / schema.max_set)
    return math.sqrt(n / (k * max(phi - 1, 1e-300)))


def local_flips(schema: Schema, n: int, epsilon: float, signal: float) -> float:
    """Return σ of flips that need no crowd: h·ln(p/q) = ε or h(φ − 1) = κ, the better one at h differing bits.

    >>> round(local_flips(Schema.bits(1), 1000, 1.0, 0.0), 2)
    30.34
    """
    pure = 4 * math.sinh(min(epsilon / schema.distance, 600.0) / 2) ** 2  # φ − 1 at p/q = e^(ε/h)
    return math.sqrt(n / max(pure, signal / schema.distance, 1e-300))


def local_response_error(schema: Schema, n: int, epsilon: float) -> float:
    """Return σ of local d-ary randomized response for a rare category: Nq(1 − q)/(p − q)², q = 1/(e^ε + d − 1).

    >>> round(local_response_error(Schema.one_hot(2), 1000, 1.0), 2)
    30.34
    """
    gain = math.expm1(min(epsilon, 30.0))
    return math.sqrt(n * (gain + schema.width - 1)) / max(gain, 1e-150)


def discrete_laplace(scale: float) -> float:
    """Return σ of P(k) ∝ a^|k|, a = e^(−1/scale): σ² = 2a/(1 − a)² (Ghosh, Roughgarden and Sundararajan 2012).

    >>> round(discrete_laplace(2.0), 6)
    2.799178
    """
    return math.sqrt(2 * math.exp(-1 / scale)) / -math.expm1(-1 / scale)


def hidden_flip(schema: Schema, information: float) -> float:
    """Return the q at which m uniform fakes hide a flipped record, κm = ``information``: (2(p² + q²))^L = κm for bits.

    >>> round(hidden_flip(Schema.bits(40), 35_000), 3)
    0.227
    """
    if not schema.dense:
        return 1 / schema.width
    ratio = min(math.pow(max(information, 1.0), 1 / schema.width), 1.99)
    return min(max((1 - math.sqrt(ratio - 1)) / 2, 1e-6), 0.49)


def legal_records(schema: Schema) -> float:
    """Return the number of legal records as a float, without a long sum for wide records.

    >>> legal_records(Schema.bits(10)), legal_records(Schema.at_most(1, 9))
    (1024.0, 10.0)
    """
    return 2.0 ** min(schema.width, 1000) if schema.dense else float(min(schema.size, 10**300))
