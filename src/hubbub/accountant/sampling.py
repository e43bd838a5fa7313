"""``certified_points``: few points of a certified curve that determine the cost of repeated collections closely.

Any points give a cover, so only the accuracy depends on their choice. The chord between two neighbours lies above the
curve, because δ is convex in e^ε.
"""

import bisect
import math
from dataclasses import replace
from decimal import ROUND_CEILING, Context

from hubbub.accountant.analysis import STEEP, Analysis, Curve
from hubbub.errors import reject
from hubbub.model.curves import MAX_POINTS, PrivacyCurve
from hubbub.model.privacy import Basis
from hubbub.numeric.divergences import gaussian_signal
from hubbub.numeric.inversion import falling_root, gaussian_tail

TAIL = 1e-15  # δ beyond which a curve is not sampled
TYPICAL = 5.5  # standard deviations of a total at the ε of interest
FINE, ONCE = 0.22, 0.28  # distance of points in standard deviations where most losses of a total, or of one round, lie
EXCESS = 0.16  # eight times the relative excess of ε between two points, for a single round
GROWTH = 2.0  # largest ratio of two neighbouring distances
PROBES = 4  # parts of a curve at whose ends all theorems are evaluated
NEARLY = 0.999  # share of the largest ε at which a curve is taken to have reached its limit
WHOLE = 1 - 2.0**-20  # δ at ε = 0 from which on nothing is protected


def certified_points(
    analysis: Analysis, *, rounds: int = 1, extra: tuple[tuple[float, float], ...] = ()
) -> PrivacyCurve:
    """Return certified points of a curve, chosen for totals of about ``rounds`` rounds, with known ``extra`` points.

    A total near the ε of interest consists of losses below ``typical``, where rounding a loss to a point adds to the
    variance of the total; beyond, the distance grows like the density to the power of −1/3. A single round needs
    ε to a relative h²·s/(8ε) at the distance h, with s the slope of −ln δ.

    >>> from hubbub.accountant.accounting import curve
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> len(certified_points(curve(Protocol(0.1), Schema.bits(1), 1000)).points) < 40
    True
    """
    if analysis.basis not in (Basis.EXACT, Basis.PROVEN):
        reject("the collection", "have a proven guarantee", analysis.basis.value)
    top, start = min(analysis.pure, STEEP), _shortened(analysis.delta(0.0))
    if top == 0.0 or start >= WHOLE:
        return _curve([(0.0, start)], extra)
    reach = _reach(analysis)
    probes = [reach * i / PROBES for i in range(PROBES + 1)]
    leading = replace(analysis, upper=_leading(analysis, probes))
    signal = max(gaussian_signal(0.0, start), reach / 1000)
    typical = signal * signal / 2 + TYPICAL * signal / math.sqrt(rounds)
    points = [(0.0, start)]
    finest = (FINE if rounds > 1 else ONCE) * signal
    distance = finest
    while points[-1][1] > TAIL and points[-1][0] < reach and len(points) < MAX_POINTS - 8:
        epsilon, delta = points[-1]
        if len(points) > 1:
            before = points[-2]
            slope = max(math.log(before[1] / delta) / (epsilon - before[0]), 1e-9)
            beyond = max(epsilon - typical, 0.0) / signal
            single = math.sqrt(EXCESS * epsilon / slope)
            fine = finest * math.exp(min(beyond * beyond / 6, 50.0))
            distance = min(fine, max(single, finest / 2), GROWTH * distance)
        left = MAX_POINTS - 8 - len(points)
        if left < MAX_POINTS / 2:  # the end must be reached, but not at the cost of the beginning
            distance = max(distance, (reach - epsilon) / left)
        node = epsilon + distance
        node = min(float(f"{node:.6g}"), reach)
        points.append((node, min(_shortened(leading.delta(node)), delta)))
    if analysis.pure <= STEEP and points[-1][1] > TAIL:
        points.append((analysis.pure, 0.0))
    return _curve(points, extra)


def _shortened(delta: float) -> float:
    """Return δ rounded up to ten digits, which keeps the JSON of plans short."""
    return min(1.0, float(Context(prec=10, rounding=ROUND_CEILING).create_decimal(delta)))


def _curve(points: list[tuple[float, float]], extra: tuple[tuple[float, float], ...]) -> PrivacyCurve:
    """Return the curve through all points, of which δ must not rise."""
    merged: list[tuple[float, float]] = []
    for epsilon, delta in sorted([*points, *extra]):
        if merged and merged[-1][0] == epsilon:
            continue
        merged.append((epsilon, min(delta, merged[-1][1]) if merged else delta))
    return PrivacyCurve(tuple(merged))


def _reach(analysis: Analysis) -> float:
    """Return an ε up to which a curve is sampled: δ is ``TAIL`` there, or nearly its limit, or 0."""

    def least(goal: float, top: float) -> float:
        guess = analysis.guess * math.sqrt(-math.log(TAIL) / 14.0)
        bend = gaussian_tail(goal)
        return falling_root(lambda x: analysis.upper(x) - goal, min(guess, top / 2), top, relative=2e-2, bend=bend)[1]

    goal, most = math.log(TAIL), min(analysis.pure, STEEP)
    found = least(goal, most)
    if found < most:
        return found
    # Outcomes that reveal a record give the curve a positive limit: sample up to where it is reached. Another theorem
    # may end the curve far beyond.
    limit = max(analysis.upper(NEARLY * most), goal) + 1e-3
    return min(least(limit, most), most)


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
