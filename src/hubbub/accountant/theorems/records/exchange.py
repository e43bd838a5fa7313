"""Slot exchange: an upper bound on δ(ε) of one flipped record among n users that holds for every crowd.

A blanket proof lets the analyzer see who is not covered by the blanket. Here the victim's message may also take the
slot of a covered user, whose own message, a draw from ω, goes to the pool of covered messages. The likelihood ratio is
then a mean over *all* messages, each against the distribution of its own sender, and the weight of the blanket matters
only through P[Bin(n − 1, γ) ≤ 1] (``docs/theory/slot-exchange.md``).

The bound is the sum of that event's share, of what limiting large scores costs, and of the larger of Theorem 4
(:mod:`~hubbub.accountant.theorems.records.labels`) and, for bits, Theorem 5
(:mod:`~hubbub.accountant.theorems.records.cells`), whichever is smaller for each distance of x and x'.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.theorems.records import cells
from hubbub.accountant.theorems.records.blankets import blanket
from hubbub.accountant.theorems.records.contour import Crowd
from hubbub.accountant.theorems.records.kinds import Family, family
from hubbub.accountant.theorems.records.labels import WORK, evaluate, masses_of, tilt
from hubbub.accountant.theorems.records.local import local
from hubbub.model.schema import Schema

Floats = NDArray[np.float64]

FEW = 8.0  # with fewer covered users expected, the lost event is too likely
CUTS = (4.0, 2.0, 1.4, 1.2, 1.1, 1.0, 0.92, 0.85, 0.7, 0.5)  # limits on scores, in multiples of N(e^ε − 1)
NEGLIGIBLE = 4.0  # parts below e^−4 of the others are not resolved further
SMALLER = 0.75  # share of an ε at which nothing is proven that is evaluated instead
LEADING = 8  # kinds by which t and the limit are chosen


def log_lost(n: int, gamma: float) -> float:
    """Return ln P[Bin(n, γ) ≤ 1]; errs upwards.

    >>> round(math.exp(log_lost(10, 0.5)) * 1024, 6)
    11.0
    """
    if n < 1 or gamma >= 1.0:
        return 0.0
    exponent = n * math.log1p(-gamma)
    return min(0.0, exponent + math.log1p(n * gamma / (1 - gamma)) + 1e-15 * abs(exponent) + 1e-10)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def choose(found: Family, crowd: Crowd, epsilon: float) -> tuple[float, float] | None:
    """Return a limit on the scores (Corollary 3) and a t, by the bounds of leading kinds; None if nothing is finite.

    A choice: every pair gives a bound, as long as t times the largest limited score is at most 690.
    """
    rows = found.prominent(epsilon, LEADING)
    largest = found.largest(epsilon)
    scale = (crowd.n + crowd.mean) * math.expm1(epsilon)
    smallest = 3 * math.sqrt(found.second_moment(epsilon))
    cuts = [math.inf, *(scale * share for share in CUTS if smallest < scale * share < largest)]
    choices = []
    for cut in cuts:
        t, value = tilt(found, crowd, epsilon, cut, rows)
        if len(cuts) > 1:
            leading = rows[np.argsort(masses_of(found, rows, epsilon, cut, t).m, kind="stable")[-3:]]
            cost = max(found.kind(int(i)).excess(epsilon, cut) for i in rows) if cut < math.inf else 0.0
            main = float(evaluate(found, crowd, epsilon, cut, t, rows=leading).max())
            value = float(np.logaddexp(main, _log(cost)))
        if math.isfinite(value):
            choices.append((value, cut, t))
    if not choices:
        return None
    _, cut, t = min(choices)
    return cut, t


def exchange(schema: Schema, q: float, n: int, epsilon: float, target: float | None = None) -> float:
    """Return ln δ(ε) proven by slot exchange for every collection of n honest users; ∞ if it proves nothing.

    With a ``target`` for ln δ the evaluation stops as soon as the result is known to be on one side of it; what is
    returned is a bound in every case, but not always the smallest. Errs upwards.

    >>> round(math.exp(exchange(Schema.bits(5), 0.2446, 1000, 1.07)) * 1e6, 1)
    0.9
    """
    found = family(schema, q)
    crowd = Crowd(n - 1)
    if found is None or crowd.n * found.gamma < FEW:
        return math.inf
    alone = local(schema, q, epsilon)
    lost = log_lost(crowd.n, found.gamma) + alone
    if not math.isfinite(alone) or (target is not None and lost > target):
        return math.inf
    with np.errstate(all="ignore"):
        result = _exchange(found, crowd, epsilon, lost, target, dense=schema.dense)
        if not result < 0.0:  # far in the tail no contour suits all kinds; δ falls in ε, so a smaller one gives a bound
            smaller = SMALLER * epsilon
            lost = log_lost(crowd.n, found.gamma) + local(schema, q, smaller)
            result = _exchange(found, crowd, smaller, lost, target, dense=schema.dense)
    return result if result < 0.0 else math.inf


def _exchange(found: Family, crowd: Crowd, epsilon: float, lost: float, target: float | None, *, dense: bool) -> float:
    chosen = choose(found, crowd, epsilon)
    if chosen is None:
        return math.inf
    cut, t = chosen
    rest = float(np.logaddexp(lost, _log(found.excess(epsilon, cut))))

    def total(main: float) -> float:
        return float(np.logaddexp(main, rest)) + 1e-12

    enough = rest - NEGLIGIBLE
    values = evaluate(found, crowd, epsilon, cut, t, enough=enough)
    whole = total(float(values.max()))
    if math.isnan(whole):
        return math.inf
    if not dense or (target is not None and (whole <= target or rest > target)):
        return whole
    return min(whole, _by_distance(found, crowd.n, epsilon, cut, values, total, enough, target))


def _by_distance(
    found: Family,
    n: int,
    epsilon: float,
    cut: float,
    values: Floats,
    total: Callable[[float], float],
    enough: float,
    target: float | None,
) -> float:
    """Return the largest, over all distances of x and x', of the smaller bound of the two theorems."""
    distance = found.triples[:, :2].sum(axis=1)
    by_distance = {int(h): float(values[distance == h].max()) for h in np.unique(distance)}
    best, choice, work = enough, None, 0
    for h, value in sorted(by_distance.items(), key=lambda item: (-item[1], -item[0])):
        if value <= best:
            break
        if work > WORK:  # the other distances keep the bound of Theorem 4
            return total(value)
        problem = cells.Problem(found, n, epsilon, cut, h)
        paired, choice = cells.evaluate(problem, best, choice)
        work += problem.work
        best = max(best, min(value, paired))
        if target is not None and total(best) > target:
            return math.inf
    return total(best)


def bound(schema: Schema, q: float, n: int, epsilon: float, target: float | None = None) -> float:
    """Return ln δ(ε) proven for every collection of n honest users' flipped whole records: the least known bound.

    >>> bound(Schema.bits(5), 0.2446, 1000, 1.07) < math.log(1e-6) < blanket(Schema.bits(5), 0.2446, 1000, 1.07)
    True
    """
    best = min(local(schema, q, epsilon), blanket(schema, q, n, epsilon))
    if best == -math.inf or (target is not None and best <= target):
        return best
    return min(best, exchange(schema, q, n, epsilon, target))
