"""``Ledger``: the total guarantee of repeated collections from the same people."""

import bisect
import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self, TypeVar

import numpy as np

from hubbub.accountant.accounting import curve
from hubbub.accountant.analysis import STEEP, Analysis, Curve, proven_epsilon
from hubbub.accountant.composition import Loss
from hubbub.errors import check_delta, check_epsilon, check_whole, reject
from hubbub.numeric.divergences import gaussian_signal
from hubbub.numeric.inversion import falling_root, gaussian_tail
from hubbub.privacy import Basis, TrustModel
from hubbub.protocol import Protocol
from hubbub.schema import Schema

POINTS = 120  # points of a curve at which a collection enters the ledger
MAX_ROUNDS = 10**6
SEVERAL = 96  # the same where several rounds enter, which need the tail less
FEW = 2  # rounds up to which the tail needs as many points
TAIL = 1e-15  # δ beyond which a curve is not sampled
PROBES = 6  # parts of a curve at whose ends all theorems are evaluated
TYPICAL = 5.5  # standard deviations of a total at the ε of interest
GAUSSIAN_START = 0.4  # δ at ε = 0 up to which a curve is compared with that of a Gaussian mechanism
GAUSSIAN_REACH = (6.0, 11.0)  # ε at which such a curve falls to ``TAIL``, in standard deviations


@dataclass(frozen=True, slots=True)
class Ledger:
    """The collections that one person has taken part in; ledgers are immutable.

    Each collection enters as a loss that covers its certified curve in both orders, so the composition, which may be
    adaptive, errs upwards. :meth:`basic` is basic composition, as a check.

    >>> ledger = Ledger().charge(Protocol(0.1), Schema.bits(1), 10_000, rounds=10)
    >>> ledger.epsilon(1e-6) < ledger.basic(1e-6)[0]
    True
    """

    losses: tuple[tuple[Loss, int], ...] = ()
    analyses: tuple[tuple[Analysis, int], ...] = ()

    def __post_init__(self) -> None:
        for name, size in (("losses", 2), ("analyses", 2)):
            entries: object = getattr(self, name)
            if not isinstance(entries, tuple) or not all(isinstance(e, tuple) and len(e) == size for e in entries):
                reject(name, "be the entries of another ledger; start with Ledger() and call charge()")

    def charge(
        self,
        protocol: Protocol,
        schema: Schema,
        n: int,
        *,
        rounds: int = 1,
        honest_fraction: float = 1.0,
        trust: TrustModel = "shuffler-noise",
    ) -> Self:
        """Return the ledger after ``rounds`` more collections of this kind, under the stated trust."""
        rounds = check_whole("rounds", rounds, 1, MAX_ROUNDS)
        analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, trust=trust)
        return add_rounds(self, analysis, rounds)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) of all collections together; errs upwards."""
        return self._total().delta(check_epsilon(epsilon))

    def epsilon(self, delta: float) -> float:
        """Return the ε proven for all collections together at δ; errs upwards, ∞ if none is proven."""
        return self._total().epsilon(check_delta(delta))

    def basic(self, delta: float) -> tuple[float, float]:
        """Return (ε, δ) by basic composition: δ is split equally among all rounds, and the ε add up."""
        delta = check_delta(delta)
        rounds = sum(count for _, count in self.analyses)
        if rounds == 0:
            return 0.0, 0.0
        share = delta / rounds
        spent = sum(count * proven_epsilon(analysis, share) for analysis, count in self.analyses)
        return spent, delta

    def _total(self) -> Loss:
        if not self.losses:
            return Loss(step=1.0, first=0, masses=np.ones(1), infinite=0.0)
        return reduce(Loss.compose, (loss.power(rounds) for loss, rounds in self.losses))


_AnyLedger = TypeVar("_AnyLedger", bound=Ledger)


def add_rounds(ledger: _AnyLedger, analysis: Analysis, rounds: int) -> _AnyLedger:
    """Return a ledger after ``rounds`` more collections, each with the given certified curve."""
    if analysis.basis not in (Basis.EXACT, Basis.PROVEN):
        reject("the collection", "have a proven guarantee", analysis.basis.value)
    losses = (*ledger.losses, (_cover(analysis, rounds), rounds))
    return type(ledger)(losses, (*ledger.analyses, (analysis, rounds)))


def _cover(analysis: Analysis, rounds: int) -> Loss:
    """Return a loss above the certified curve in both orders, sampled up to where nothing of the curve is left.

    Any nodes and any of the options give a cover; the chord between two nodes lies above the curve, because δ is convex
    in e^ε.
    """
    top, certain = _reach(analysis)
    start = analysis.delta(0.0)
    signal = gaussian_signal(0.0, start) if certain and 0.0 < start < GAUSSIAN_START else math.inf
    usual = GAUSSIAN_REACH[0] * signal < top < GAUSSIAN_REACH[1] * signal
    points = SEVERAL if usual and rounds > FEW else POINTS
    step = max(top, 1e-9) / points
    nodes = _nodes(points, step, signal, rounds) if usual else list(range(points + 1))
    probes = {nodes[round(i * (len(nodes) - 1) / PROBES)] for i in range(PROBES + 1)}
    leading = replace(analysis, upper=_leading(analysis, [step * node for node in sorted(probes)]))
    deltas = [leading.delta(step * node) for node in nodes]
    chords = np.interp(np.expm1(step * np.arange(points + 1)), np.expm1(step * np.array(nodes)), deltas)
    chords[nodes] = deltas
    return Loss.from_envelope(np.minimum(chords * (1 + 1e-12), 1.0), step)


def _reach(analysis: Analysis) -> tuple[float, bool]:
    """Return an ε up to which a curve is sampled, and True if δ is at most ``TAIL`` there but not at once 0."""

    def least(goal: float, top: float) -> float:
        guess = analysis.guess * math.sqrt(-math.log(TAIL) / 14.0)
        bend = gaussian_tail(goal)
        return falling_root(lambda x: analysis.upper(x) - goal, min(guess, top / 2), top, relative=1e-2, bend=bend)[1]

    goal, most = math.log(TAIL), min(analysis.pure, STEEP)
    found = least(goal, most)
    if found < most:
        return found, True
    if analysis.pure <= STEEP:
        return analysis.pure, False
    # Outcomes that reveal a record give the curve a positive limit: sample up to where it is reached.
    limit = max(analysis.upper(STEEP), goal) + 1e-3
    return min(least(limit, STEEP), STEEP), False


def _nodes(points: int, step: float, signal: float, rounds: int) -> list[int]:
    """Return the nodes at which a curve like that of a Gaussian mechanism is evaluated.

    A total near the ε of interest consists of losses around ``typical``. The rounding of losses to nodes adds to their
    variance what is smallest, for a given number of nodes, if distances grow like the density to the power of −1/3.
    """
    typical = signal * signal / 2 + TYPICAL * signal / math.sqrt(rounds)
    nodes = [0]
    while nodes[-1] < points:
        beyond = max(step * nodes[-1] - typical, 0.0) / signal
        nodes.append(min(nodes[-1] + max(1, math.floor(1.5 * math.exp(beyond * beyond / 6))), points))
    return nodes


def _leading(analysis: Analysis, probes: list[float]) -> Curve:
    """Return the minimum, between two probes, of the options that are the smallest at one of them.

    Any option gives a bound, and those that are nowhere the smallest only cost time.
    """
    options = analysis.options
    if len(options) < 2:
        return analysis.upper
    found = [[option.upper(probe) for option in options] for probe in probes]
    first = [values.index(min(values)) for values in found]

    def upper(epsilon: float) -> float:
        after = bisect.bisect_left(probes, epsilon)
        if after < len(probes) and probes[after] == epsilon:
            return found[after][first[after]]
        return min(options[i].upper(epsilon) for i in {*first[max(after - 1, 0) : after + 1]})

    return upper
