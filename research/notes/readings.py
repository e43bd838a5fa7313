"""What the notes print, recomputed, beside what is true."""

import math
from dataclasses import dataclass
from functools import cache

from hubbub.accountant import quadrature
from hubbub.accountant.theorems import attacks
from hubbub.model.schema import Schema
from research.notes.formulas.bounds import three_sigma_flip
from research.notes.formulas.tails import sufficient

PRINTED = (
    (math.log(2), 1000, 0.2446, 0.006),
    (math.log(2), 3000, 0.2109, 0.0048),
    (math.log(2), 5000, 0.1778, 0.0045),
    (2.0, 1000, 0.1692, 0.0037),
    (2.0, 3000, 0.1424, 0.0062),
    (2.0, 5000, 0.1310, 0.0074),
)
"""(ε, N, q, η) as [003 §3.3] prints them for records of five bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One row of [003 §3.3]: what is printed, the same recomputed, and the (ε,δ) truth at the printed q."""

    epsilon: float
    n: int
    printed_q: float
    q: float
    """The least q of the notes' own rule, mean + 3 standard deviations [003 eq 3.12]."""
    printed_eta: float
    eta: float
    """P[R > e^ε] at the printed q, for the notes' background and order."""
    forward: float
    """δ(ε) of the same pair: outlier against homogeneous."""
    reverse: float
    """δ(ε) in the other order, which the notes never look at."""
    proven: float
    """δ(ε) that is proven at the printed q for all collections and both orders."""


@cache
def readings(width: int = 5) -> tuple[Reading, ...]:
    """The table of [003 §3.3], recomputed.

    >>> row = readings()[2]
    >>> row.printed_q, round(row.q, 4), round(row.eta, 3)  # the notes' q for N = 5000 is a slip
    (0.1778, 0.1963, 0.043)
    """
    schema = Schema.bits(width)
    rows = []
    for epsilon, n, q, eta in PRINTED:
        forward = sufficient(schema, q, n, epsilon, tolerance=5e-3)
        reverse = quadrature.positive_mean(*attacks.background((0, width, 0), q, epsilon), n)
        rows.append(
            Reading(
                epsilon=epsilon,
                n=n,
                printed_q=q,
                q=three_sigma_flip(n, width, epsilon),
                printed_eta=eta,
                eta=forward.eta[1],
                forward=forward.delta[1],
                reverse=math.exp(reverse.upper),
                proven=forward.guarantee.delta,
            )
        )
    return tuple(rows)
