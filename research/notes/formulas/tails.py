"""Sufficient differential privacy, the notes' own criterion [003 eq 1.7], beside the δ(ε) that is really given.

η(ε) = P[R(S) > e^ε], where R is the ratio of the probabilities of what the analyzer sees under two neighbouring
collections, and S is drawn from the first. η ≥ δ; but it is stated for *one* background and order, is not monotone in
the size of the crowd, and is not closed under post-processing, so that it guarantees nothing by itself.

With all others holding one record, R(S) > e^ε if and only if G_1 + … + G_n > 0 for the atoms G of
:func:`hubbub.accountant.theorems.attacks.background`, one message drawn from the law of x and n − 1 from the others'.
So the engine brackets η rigorously for every such background, as it does δ.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.accountant.accounting import account
from hubbub.accountant.quadrature import positive_mean
from hubbub.accountant.theorems import attacks
from hubbub.errors import OPEN_UNIT, check_epsilon, check_flip, check_real, check_whole, reject
from hubbub.model.privacy import Guarantee
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.inversion import least_real
from research.notes.formulas.tail_quadrature import density, tail_probability

Background = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sufficient:
    """η of one background and order, in rigorous brackets, beside what the same noise really gives."""

    background: Background
    eta: tuple[float, float]
    """The probability that the ratio exceeds e^ε, from below and from above."""
    delta: tuple[float, float]
    """δ(ε) of the same pair of collections."""
    guarantee: Guarantee
    """What is proven for all collections at the same ε."""


def sufficient(
    schema: Schema,
    q: float,
    n: int,
    epsilon: float,
    background: Background | None = None,
    *,
    tolerance: float = 1e-3,
) -> Sufficient:
    """η(ε) for one flipped copy of whole records where all others hold one record.

    ``background`` counts the positions in which only x, only x', or both differ from the others' record; exchange the
    first two for the other order. The default is the notes' case: the others hold x', and x is the outlier. The
    ends of η lie within about ``tolerance`` of each other.

    >>> found = sufficient(Schema.bits(5), 0.2446, 1000, math.log(2))
    >>> [round(end, 4) for end in found.eta], [round(end, 6) for end in found.delta]
    ([0.0071, 0.0071], [0.000502, 0.000502])
    """
    q, n, epsilon = check_flip(q), check_whole("n", n, 2), check_epsilon(epsilon)
    kind = _checked(schema, background)
    eta = _eta(kind, q, n, epsilon, tolerance)
    pair = positive_mean(*attacks.background(kind, q, epsilon), n)
    return Sufficient(
        background=kind,
        eta=eta,
        delta=(math.exp(pair.lower), math.exp(pair.upper)),
        guarantee=account(Protocol(q), schema, n, epsilon=epsilon),
    )


def sufficient_flip(
    schema: Schema, n: int, epsilon: float, eta: float, background: Background | None = None
) -> tuple[float, Sufficient]:
    """The least q with η(ε) ≤ ``eta`` for one background, and everything that is known at that q.

    Certifies nothing: read the guarantee beside it.

    >>> q, found = sufficient_flip(Schema.bits(5), 1000, math.log(2), 0.0071)
    >>> round(q, 3), 1e-4 < found.guarantee.delta < 1e-2
    (0.245, True)
    """
    n, epsilon = check_whole("n", n, 2), check_epsilon(epsilon)
    goal = check_real("eta", eta, OPEN_UNIT)
    kind = _checked(schema, background)
    found = least_real(lambda q: _eta(kind, q, n, epsilon, 1e-2)[1] <= goal, 1e-6, 0.4999, relative=1e-4)
    return found, sufficient(schema, found, n, epsilon, kind)


def ratio_density(n: int, width: int, q: float, points: ArrayLike) -> NDArray[np.float64]:
    """The density of R(S) at ``points`` for the notes' pair of opposite records, the outlier present [003 §3.3].

    >>> x = np.linspace(0.3, 3.0, 200)
    >>> bool(abs(ratio_density(1000, 5, 0.25, x).sum() * (x[1] - x[0]) - 1) < 0.01)
    True
    """
    q, n, width = check_flip(q), check_whole("n", n, 2), check_whole("width", width, 1)
    x, _, distribution = attacks.likelihoods((width, 0, 0), q)
    return density(x / n, distribution, n - 1, points, extra=distribution * x)


def _checked(schema: Schema, background: Background | None) -> Background:
    if background is None:
        return schema.distance, 0, 0
    if background not in attacks.backgrounds(schema):
        reject("background", f"be one of {attacks.backgrounds(schema)}", background)
    return background


def _eta(kind: Background, q: float, n: int, epsilon: float, tolerance: float) -> tuple[float, float]:
    x, other, distribution = attacks.likelihoods(kind, q)
    found = tail_probability(
        x - math.exp(epsilon) * other, distribution, n - 1, extra=distribution * x, tolerance=tolerance
    )
    return math.exp(found.lower), math.exp(found.upper)
