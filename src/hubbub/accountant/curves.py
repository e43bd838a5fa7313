"""``Analysis``: the certified and the attacked curve δ(ε) of one protocol, with the theorem behind them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from hubbub.privacy import Basis

Curve = Callable[[float], float]
"""ε ↦ ln δ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The privacy of one protocol: a certified curve, the curve of a known attack, and their origin.

    ``upper`` holds for all neighbouring collections and both orders of every pair; ``lower`` is what an attack
    achieves, −∞ where none is known.
    """

    upper: Curve
    lower: Curve
    basis: Basis
    method: str
    guess: float
    """Approximate ε at δ = 10⁻⁶, where searches start."""
    solve: Callable[[float], tuple[float, float]] | None = None
    """δ ↦ (lower, upper) bounds on ε, if something is faster or sharper than a search on the curves."""


def unknown(epsilon: float) -> float:
    """Return −∞: the lower curve where no attack is known.

    >>> unknown(1.0)
    -inf
    """
    return -math.inf


def log(value: float) -> float:
    """Return ln(value), −∞ at 0.

    >>> log(0.0)
    -inf
    """
    return math.log(value) if value > 0 else -math.inf


def better(one: Analysis, two: Analysis) -> Analysis:
    """Return the pointwise minimum of two certified curves, which is certified too.

    >>> coin = Analysis(upper=lambda x: -x, lower=unknown, basis=Basis.EXACT, method="one coin", guess=1.0)
    >>> better(coin, coin).method
    'the better of one coin and one coin'
    """
    return Analysis(
        upper=lambda epsilon: min(one.upper(epsilon), two.upper(epsilon)),
        lower=unknown,
        basis=Basis.PROVEN,
        method=f"the better of {one.method} and {two.method}",
        guess=min(one.guess, two.guess),
    )
