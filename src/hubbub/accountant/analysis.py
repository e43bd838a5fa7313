"""``Analysis``: a certified curve δ(ε) with everything its figures rest on.

One theorem gives one analysis. Where several apply, :func:`best` keeps them as *options*: each has assumptions of its
own, and :func:`hubbub.account` reports those of the option whose figure it returns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, takewhile

from hubbub.model.privacy import Basis
from hubbub.numeric.inversion import falling_root, gaussian_tail
from hubbub.numeric.minimum import golden_section
from hubbub.numeric.rounding import up

STEEP = 60.0  # largest ε that is searched where no pure guarantee bounds it; a larger one is reported as infinite
MARGIN = 5e-10
"""Relative amount by which figures are raised after their certificate, so that a machine that rounds differently in the
last digits confirms them without any tolerance of its own."""
ATTACKED = 1e-4  # relative distance within which the ε of an attack is found
GAIN = 1e-4  # relative gain below which a further theorem is not worth its assumptions
LARGE = 700.0  # ε at which larger ones are evaluated: e^ε is still a float64, and δ falls with ε
NODES = tuple(2.0 * 1.5**i for i in range(15))  # ε at which a curve that may rise is looked at
LAST = 0.85  # and one more, as a share of the ε in question
RISE = 1e-3  # amount in ln δ above which a curve counts as rising
NEAR, FINE = 0.05, 0.01  # distances in ε at which a rise is looked for, and to which the least value is found
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
    reached: bool = True
    """True if outcomes come arbitrarily close to the loss ``pure``, so that δ > 0 at every smaller ε."""
    solve: Callable[[float], tuple[float, float]] | None = None
    """δ ↦ (lower, upper) bounds on ε, if something is faster or sharper than a search on the curves."""
    decide: Callable[[float, float], bool] | None = None
    """(ε, δ) ↦ True if proven, if something is faster or sharper than an evaluation of ``upper``."""
    options: tuple["Analysis", ...] = ()
    """The theorems of which this curve is the minimum; empty for a single theorem."""

    def delta(self, epsilon: float) -> float:
        """Return the certified δ at ε; errs upwards, and is 0 only from the pure ε on."""
        if epsilon >= self.pure:
            return 0.0
        return min(1.0, max(up(math.exp(min(self.upper(epsilon), 0.0)), MARGIN), SMALLEST))

    def attacked_delta(self, epsilon: float) -> float:
        """Return the δ that the known attack attains at ε; 0 where none is known."""
        return math.exp(min(self.lower(epsilon), 0.0)) if epsilon < self.pure else 0.0

    def certifies(self, epsilon: float, delta: float) -> bool:
        """Return True if (ε, δ) is proven here, by one evaluation and without any tolerance.

        Figures of :meth:`delta` and :meth:`epsilon` are proven with a margin of ``MARGIN``, far above the differences
        between the elementary functions of two machines.
        """
        if delta >= 1.0 or epsilon >= self.pure:
            return True
        if delta <= 0.0:
            return False
        epsilon = min(epsilon, LARGE)
        if self.decide is not None:
            return self.decide(epsilon, delta)
        return self.upper(epsilon) <= math.log(delta)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return (attack, certificate) for ε at δ; the certificate was evaluated and holds.

        For δ = 0 both are the pure ε, if it is reached.
        """
        return least_epsilon(self, delta)[:2]

    def certified_epsilon(self, delta: float, below: float = math.inf) -> float:
        """Return the smallest ε that this theorem proves at δ > 0; the pure ε if that is not less than ``below``."""
        goal = math.log(delta)
        top = min(self.pure, STEEP, below)
        if below <= top < self.pure and self.upper(top) > goal:
            return self.pure
        guess = min(self.guess * math.sqrt(max(-goal, 1.0) / 14.0), top / 2)
        found = falling_root(lambda x: self.upper(x) - goal, guess, top, relative=1e-5, bend=gaussian_tail(goal))[1]
        return min(found, self.pure)

    def attacked_epsilon(self, delta: float, certified: float) -> float:
        """Return the largest ε, up to the certified one, at which the known attack attains δ > 0."""
        goal, top = math.log(delta), min(certified, STEEP)
        found = falling_root(
            lambda x: self.lower(x) - goal, 0.98 * top, top, relative=ATTACKED, bend=gaussian_tail(goal)
        )
        return found[0]


def least_epsilon(analysis: Analysis, delta: float) -> tuple[float, float, Analysis]:
    """Return the ε of the known attack at δ, the smallest certified ε, and the theorem that certifies it.

    Theorems that trust less come first: they are cheap, and one that trusts more is searched only below their ε.

    >>> coin = Analysis(upper=lambda x: -x, lower=unknown, basis=Basis.EXACT, method="one coin", guess=1.0, honest=1)
    >>> round(least_epsilon(coin, math.exp(-5.0))[1], 3)
    5.0
    """
    options = analysis.options or (analysis,)
    certified, used, attacked = math.inf, options[0], 0.0
    # Where no outcome reaches the pure ε, the largest loss that an attack shows is the bound at δ = 0.
    shown = SMALLEST if delta == 0.0 and not analysis.reached else delta
    for option in sorted(options, key=needs):
        if certified == 0.0:
            break
        if delta == 0.0:
            found = option.pure
        elif option.solve is not None:
            low, high = option.solve(delta)
            found = min(_raised(high), option.pure)
            attacked = low if option is options[0] else attacked
        else:
            found = _confirmed(option, _raised(option.certified_epsilon(delta, certified * (1 - GAIN))), delta)
        if found < certified:
            certified, used = found, option
    if analysis.lower is unknown or certified == 0.0:
        return 0.0, certified, used
    if shown == 0.0:
        return certified, certified, used
    if options[0].solve is None:
        attacked = options[0].attacked_epsilon(shown, certified)
    elif delta == 0.0:
        attacked = options[0].solve(shown)[0]
    return min(attacked, certified), certified, used


def _confirmed(option: Analysis, epsilon: float, delta: float) -> float:
    """Return ε, or a slightly larger one, at which a single evaluation certifies δ, as whoever verifies a claim needs.

    A bound that depends unevenly on ε may be larger at the raised ε than where the search found it.
    """
    step = MARGIN
    while option.decide is not None and epsilon < option.pure and not option.certifies(epsilon, delta):
        epsilon, step = up(epsilon, step), 2 * step
    return min(epsilon, option.pure)


def proven_epsilon(analysis: Analysis, delta: float) -> float:
    """Return the smallest certified ε at δ alone: the search for an attack may cost more than the certificate.

    >>> coin = Analysis(upper=lambda x: -x, lower=unknown, basis=Basis.EXACT, method="one coin", guess=1.0, honest=1)
    >>> round(proven_epsilon(coin, math.exp(-5.0)), 3)
    5.0
    """
    return least_epsilon(replace(analysis, lower=unknown), delta)[1]


def needs(analysis: Analysis) -> tuple[bool, bool, int]:
    """Return what an analysis rests on, in an order that prefers to trust less."""
    return analysis.fakes, analysis.shuffler, analysis.honest


def _raised(epsilon: float) -> float:
    """Return an ε raised by the margin; a certificate at ε = 0 stays there."""
    return up(epsilon, MARGIN) if epsilon > 0.0 else epsilon


def non_increasing(curve: Curve) -> Curve:
    """Return a certified curve with the values of smaller ε where those are less: δ falls in ε, so they hold as well.

    Group privacy over k copies weighs δ by e^{iε/k}, and rises where the δ of one copy falls slowly, but never faster
    than e^ε. The curve is looked at on a grid from ε = 2 on; where it rises and may have been less, the interval to the
    left is searched for its least value.

    >>> rising = non_increasing(lambda x: abs(x - 3.0) / 2 - 10.0)
    >>> round(rising(2.5), 2), round(rising(3.5), 2), round(rising(20.0), 2)
    (-9.75, -10.0, -10.0)
    """
    at = cache(curve)

    @cache
    def least(low: float, high: float) -> float:
        """Return the least value found between two ε if the curve rises at the higher one, else ∞."""
        if not at(high - NEAR) < at(high) - RISE:
            return math.inf
        return min(at(low), golden_section(at, low, high, width=FINE, steps=200).least)

    def result(epsilon: float) -> float:
        value = at(epsilon)
        ends = [NODES[0] / 2, *takewhile(lambda node: node < epsilon, NODES), epsilon]
        if len(ends) == 2 or value == -math.inf:
            return value
        if LAST * epsilon > ends[-2]:
            ends.insert(-1, LAST * epsilon)
        for low, high in pairwise(ends):
            if at(high) - (high - low) < value:
                value = min(value, least(low, high))
        return value

    return result


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

    return Analysis(
        upper=lambda epsilon: min(option.upper(epsilon) for option in options),
        lower=main.lower if attack else unknown,
        basis=Basis.PROVEN,
        method=f"the better of {' and '.join(option.method for option in options)}",
        guess=min(option.guess for option in options),
        honest=max(option.honest for option in options),
        fakes=any(option.fakes for option in options),
        pure=min(option.pure for option in options),
        reached=main.reached,
        options=options,
    )
