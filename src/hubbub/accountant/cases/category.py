"""A category by randomized response: the uniform blanket; for two categories, single bits."""

import math

from hubbub.accountant.analysis import Analysis
from hubbub.accountant.cases.positions import Positions
from hubbub.accountant.theorems import bit, category
from hubbub.model.privacy import Basis
from hubbub.model.schema import Schema


def category_analysis(q: float, schema: Schema, honest: int) -> Analysis:
    """Return the analysis of d-ary randomized response: a uniform blanket, exact for two categories.

    >>> category_analysis(0.1, Schema.one_hot(4), 1000).method
    'the uniform privacy blanket'
    """
    d = schema.width
    binary = d == 2
    return Analysis(
        upper=lambda epsilon: category.blanket(d, q, honest, epsilon),
        lower=lambda epsilon: category.attack(d, q, honest, epsilon),
        basis=Basis.EXACT if binary else Basis.PROVEN,
        method="branch and bound over all collections" if binary else "the uniform privacy blanket",
        honest=honest,
        guess=5 * math.sqrt(2 / (honest * max(q, 1e-12))) * (1 - d * q),
        solve=(lambda delta: bit.certified_epsilon(honest, q, delta)) if binary else None,
        decide=Positions(honest, q, 1, 1).decide if binary else None,
    )
