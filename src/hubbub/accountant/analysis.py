"""``Analysis``: a certified curve δ(ε) with everything its figures rest on.

One theorem gives one analysis. Where several apply, :func:`best` keeps them as *options*: each has assumptions of its
own, and :func:`hubbub.account` reports those of the option whose figure it returns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from hubbub.numeric.inversion import falling_root
from hubbub.numeric.rounding import up
from hubbub.privacy import Basis

STEEP = 60.0  # largest ε that is searched where no pure guarantee bounds it; a larger one is reported as infinite
SMALLEST = 5e-324  # the smallest positive float: a δ below it is reported as this, never as 0

Curve = Callable[[float], float]
"""ε ↦ ln δ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The privacy of one protocol: a certified curve, the curve of a known attack, and what they rest on.

    ``upper`` holds for all neighbouring collections and both orders of every pair; ``lower`` is what a legal attack
    achieves, −∞ where none is known.
    """

    upper: Curve
    lower: Curve
    basis: Basis
    method: str
    guess: float
    """Approximate ε at δ = 10⁻⁶, where searches start."""
    honest: int
    """Users on whose randomization ``upper`` rests, including the protected one."""
    fakes: bool = False
    """True if ``upper`` rests on the shuffler's fakes."""
    shuffler: bool = True
    """True if ``upper`` rests on the shuffler at all."""
    pure: float = math.inf
    """ε from which on δ = 0."""
    solve: Callable[[float], tuple[float, float]] | None = None
    """δ ↦ (lower, upper) bounds on ε, if something is faster or sharper than a search on the curves."""
    options: tuple["Analysis", ...] = ()
    """The theorems of which this curve is the minimum; empty for a single theorem."""

    def delta(self, epsilon: float) -> float:
        """Return the certified δ at ε; errs upwards, and is 0 only from the pure ε on."""
        log_delta = self.upper(epsilon) if epsilon < self.pure else -math.inf
        return 0.0 if log_delta == -math.inf else min(1.0, max(up(math.exp(min(log_delta, 0.0)), 1e-12), SMALLEST))

    def attacked_delta(self, epsilon: float) -> float:
        """Return the δ that the known attack attains at ε; 0 where none is known."""
        return math.exp(min(self.lower(epsilon), 0.0)) if epsilon < self.pure else 0.0

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return (attack, certificate) for ε at δ; the certificate was evaluated and holds.

        For δ = 0 both are the pure ε.
        """
        if delta == 0.0:
            return self.pure, self.pure
        if self.solve is not None:
            lower, upper = self.solve(delta)
            return min(lower, self.pure), min(upper, self.pure)
        goal = math.log(delta)
        top = min(self.pure, STEEP)
        upper = falling_root(lambda x: self.upper(x) - goal, min(self.guess, top / 2), top, relative=1e-5)[1]
        upper = min(upper, self.pure)
        if self.lower is unknown:
            return 0.0, upper
        lower = falling_root(lambda x: self.lower(x) - goal, min(upper, top) / 1.3 or 1e-6, top, relative=1e-5)[0]
        return min(lower, upper), upper


def unknown(epsilon: float) -> float:
    """Return −∞: the lower curve where no attack is known."""
    return -math.inf


def log(value: float) -> float:
    """Return ln(value), −∞ at 0."""
    return math.log(value) if value > 0 else -math.inf


def best(main: Analysis, *others: Analysis, attack: bool = True) -> Analysis:
    """Return the pointwise minimum of certified curves, which rests on all they rest on; the options stay available.

    The known attack is that of the main option, unless it breaks what another one rests on.

    >>> coin = Analysis(upper=lambda x: -x, lower=unknown, basis=Basis.EXACT, method="one coin", guess=1.0, honest=1)
    >>> best(coin, coin).method
    'the better of one coin and one coin'
    """
    if not others:
        return main
    options = (main, *others)

    def solve(delta: float) -> tuple[float, float]:
        found = [option.epsilon(delta) for option in options]
        upper = min(upper for _, upper in found)
        return (min(found[0][0], upper) if attack else 0.0), upper

    return Analysis(
        upper=lambda epsilon: min(option.upper(epsilon) for option in options),
        lower=main.lower if attack else unknown,
        basis=Basis.PROVEN,
        method=f"the better of {' and '.join(option.method for option in options)}",
        guess=min(option.guess for option in options),
        honest=max(option.honest for option in options),
        fakes=any(option.fakes for option in options),
        pure=min(option.pure for option in options),
        solve=solve,
        options=options,
    )
