"""Flipped whole records among the shuffler's fakes: the product of what the fakes and what the flips prove."""

import math
from functools import lru_cache

from hubbub.accountant.analysis import Analysis, unknown
from hubbub.model.privacy import Basis
from hubbub.numeric.rounding import up

STEPS = 16
"""Grid points up to the ε that the flips alone give; the choice of the points decides only the sharpness."""
REACH = 40 * STEPS
"""Number of grid points at most."""
ALLOWANCE = 1e-12
"""Above the relative error of the logarithms and exponentials of this module."""


def product_analysis(flips: Analysis, drawn: Analysis) -> Analysis:
    """Return the analysis that counts both the flips of honest users and the shuffler's fakes.

    For all c ≥ 1 and ε₂ ≥ 0, δ(ln(c + e^ε₂)) ≤ δ_F(c)·δ_flip(ε₂) (docs/theory/fakes.md), with δ_F for clear records
    among the fakes, and δ_flip for flipped records without fakes. It says nothing up to ε = ln 2. The points ε₂ lie on
    one grid for all ε, so that evaluations at different ε share them.

    >>> coin = Analysis(upper=lambda x: -x, lower=unknown, basis=Basis.EXACT, method="one coin", guess=1.0, honest=9)
    >>> product_analysis(coin, coin).upper(0.5), round(product_analysis(coin, coin).upper(math.log(4)), 2)
    (0.0, -1.39)
    """
    step = max(flips.guess, 1e-6) / STEPS
    flipped = lru_cache(maxsize=4096)(lambda i: flips.upper(step * i))

    def fakes_alone(epsilon: float, i: int) -> float:
        """Return ln δ_F at the c that leaves e^ε − c for the i-th point; c is rounded down."""
        c = math.exp(epsilon) * (1 - ALLOWANCE) - up(math.exp(step * i), ALLOWANCE)
        return drawn.upper(math.log(c) * (1 - ALLOWANCE)) if c > 1.0 else 0.0

    @lru_cache(maxsize=256)
    def search(epsilon: float) -> tuple[float, int]:
        """Return the smallest ln δ found, and its point."""
        if epsilon <= math.log(2.0):
            return 0.0, 0
        last = min(REACH, int(math.log(math.expm1(min(epsilon, 600.0))) / step))
        tried: dict[int, float] = {}

        def total(i: int) -> float:
            if i not in tried:
                tried[i] = min(0.0, flipped(i) + fakes_alone(epsilon, i))
            return tried[i]

        best, stride = min(STEPS, last), max(1, min(STEPS, last) // 2)
        total(best)
        while stride:
            better = min((i for i in (best - stride, best + stride) if 0 <= i <= last), key=total, default=best)
            if total(better) < total(best):
                best = better
            else:
                stride //= 2
        return total(best), best

    def decide(epsilon: float, delta: float) -> bool:
        if epsilon <= math.log(2.0):
            return False
        point = search(epsilon)[1]
        rest = math.log(delta) - fakes_alone(epsilon, point)
        return rest >= 0.0 or flips.certifies(step * point, math.exp(rest) * (1 - ALLOWANCE))

    return Analysis(
        upper=lambda epsilon: search(epsilon)[0] * (1 - ALLOWANCE),
        lower=unknown,
        basis=Basis.PROVEN,
        method=f"the product of {flips.method} and of {drawn.method}",
        guess=min(math.log(math.exp(min(flips.guess, 50.0)) + math.exp(min(drawn.guess, 50.0))), 50.0),
        honest=flips.honest,
        fakes=True,
        decide=decide,
    )
