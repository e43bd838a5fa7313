"""Theorem 5 of slot exchange: two cells, for records of L bits.

Fix a pair x, x' at distance h. I is the record that equals x where the two differ and the opposite of both elsewhere, J
the same with x'. K₁ and K₂ count the covered users who hold I and J. Where K₁ ≥ K₂, every covered J is matched with a
covered I and their scores are averaged, H = (G_I + G_J)/2; where K₁ < K₂, the other way round. With U_IJ = E_ω e^{zH},
any functions V_y > 0 of w with::

    V_y ≥ |U_y| for y ≠ J,    V_I V_J ≥ |U_IJ|²,                                                                  (6)

and ``m_y(ζ, z) = γζ V_y + |E_{μ_y} e^{zG_y} − γU_y|``, the first part is at most::

    γ² ∫₀¹ (1−ζ) (1/π) ∫₀^∞ e^{η²(t²−w²)/2}/(t²+w²) Σ_a |U_a| V_a Π_{i≠a} m_i(ζ, z) dw dζ                            (7)

(``docs/theory/slot-exchange.md``), and the second is at most the same with I and J exchanged and a t and V of its own.
The maximum over crowds is taken of the sum of both.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.theorems.records.contour import (
    Contour,
    Crowd,
    Ends,
    Factors,
    Labels,
    along,
    best_scale,
    contour,
    falling,
    floor,
    integral,
    integral_without_phases,
    labels,
    least_tilt,
    size,
)
from hubbub.accountant.theorems.records.kinds import Family, Matched
from hubbub.accountant.theorems.records.labels import BATCH, MAX_ERROR, OWN, ROUNDING, WORK, tilted_variance
from hubbub.errors import TooLarge
from hubbub.numeric import portable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Envelope:
    """The choice of V: constant for the matched kind, or as small as possible given a lower limit on V_I."""

    depth: float
    constant: bool


TRIED = (  # for each cell, multiples of the t that minimizes the exponent, and envelopes
    ((0.86, 0.95, 1.02), (Envelope(0.7, True), Envelope(1.5, False))),
    ((1.0, 1.06, 1.15), (Envelope(0.7, True), Envelope(1.5, False), Envelope(3.0, False), Envelope(5.0, False))),
)
COARSE = 2  # steps of the quadrature while choices are compared
CLOSE = 0.02  # a pair class this close to the largest is not optimized


@dataclass(frozen=True, slots=True)
class Choice:
    """The free choices of an evaluation: a t and an envelope for each of the two cells. Every choice gives a bound."""

    first: tuple[float, Envelope]
    second: tuple[float, Envelope]


class Problem:
    """All pairs at distance h in crowds of n others."""

    def __init__(self, family: Family, n: int, epsilon: float, cut: float, h: int) -> None:
        self.family, self.n, self.epsilon, self.cut, self.h = family, n, epsilon, cut, h
        self.rows = np.flatnonzero(family.triples[:, :2].sum(axis=1) == h)
        self.one, self.two, pair = family.matched(h)
        self.pairs = pair, Matched(pair.other, pair.own, pair.omega)
        self.work = 0  # done, in atoms

    def place(self, index: int) -> int:
        """Return the place of a kind in ``rows``."""
        return int(np.searchsorted(self.rows, index))


def pair_noise(pair: Matched, epsilon: float, cut: float, t: float, units: tuple[float, float]) -> float:
    """Return a bound on the rounding errors of U_IJ, per unit of ``|z|``."""
    score = pair.scores(epsilon, cut)
    grow = pair.omega * portable.exp(np.minimum(t * score, 700.0))
    ratio = math.exp(epsilon)
    likelihood = sum(first + ratio * second for first, second in (pair.own, pair.other))
    return float(
        portable.dot(grow, (units[0] * likelihood))
        + portable.dot(np.maximum(grow, pair.omega), (units[1] * np.abs(score)))
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Transforms of kinds along one contour: |M(0, z)| − (1 − γ) and |U| − 1 at both ends of the intervals."""

    rest: Ends
    covered: Ends


class Cell:
    """One of the two cells at one t; its kind ``own`` carries itself, ``other`` is matched with it."""

    def __init__(self, problem: Problem, swap: bool, t: float, coarse: int = 1) -> None:
        family, n, epsilon, cut = problem.family, problem.n, problem.epsilon, problem.cut
        masses = family.masses(t, epsilon, cut, [problem.h])
        self.problem, self.t = problem, t
        self.own, self.other = (problem.place(i) for i in (problem.one, problem.two)[:: -1 if swap else 1])
        pair = problem.pairs[swap]
        self.noise = 2 * masses.noise
        self.m, self.u = masses.m[problem.rows], masses.u[problem.rows]
        gamma, score = family.gamma, pair.scores(epsilon, cut)
        noise = pair_noise(pair, epsilon, cut, t, family.units)
        both = 1.0 + float(portable.dot(pair.omega, portable.expm1(t * score))) + noise * t
        self.matched = both**2 / (1.0 + self.u[self.own])  # V of the other kind at w = 0
        mass = self.m.copy()
        mass[self.other] += gamma * (self.matched - 1.0 - self.u[self.other])
        top = int(mass.argmax())
        variance = n * tilted_variance(family.kind(int(problem.rows[top])), epsilon, cut, t)
        self.line: Contour = contour(t, variance, coarse)
        self.grid: Labels = labels(n * gamma * (1 + self.u[top]) / (1 + self.m[top]), coarse)
        self.bend = np.diff(self.line.w) ** 2 / 8
        found = along(score, pair.omega[None], self.line)
        ends = falling(size(found.transform[0]), found.curve[0] * self.bend, np.asarray(both - 1.0))
        error = noise * (t + self.line.w[1:])
        self.both: Ends = (1.0 + ends[0] + error, 1.0 + ends[1] + error)
        self.known: dict[int, tuple[Floats, Floats, Floats, Floats]] = {}

    def tables(self, places: list[int]) -> _Tables:
        """Return the transforms of the kinds at these places."""
        problem = self.problem
        gamma = problem.family.gamma
        error = self.noise * (self.t + self.line.w[1:])
        for place in places:
            if place in self.known:
                continue
            kind = problem.family.kind(int(problem.rows[place]))
            problem.work += OWN + len(kind.mu)
            chances = np.stack([kind.mu, kind.omega, np.maximum(kind.mu - gamma * kind.omega, 0.0)])
            found = along(kind.scores(problem.epsilon, problem.cut), chances, self.line)
            m, u = self.m[place], self.u[place]
            uncovered = size(found.transform[0] - gamma * found.transform[1], 1.0 - gamma)
            one = falling(uncovered, found.curve[2] * self.bend, np.asarray(m - gamma * u))
            two = falling(size(found.transform[1]), found.curve[1] * self.bend, np.asarray(u))
            self.known[place] = (one[0] + error, one[1] + error, two[0] + error / gamma, two[1] + error / gamma)
        kept = [self.known[place] for place in places]
        columns = [np.stack([row[i] for row in kept]) for i in range(4)]
        return _Tables((columns[0], columns[1]), (columns[2], columns[3]))

    def covered(self, envelope: Envelope) -> tuple[Ends, Ends]:
        """Return V − 1 of ``own`` and of ``other`` at the ends of the intervals."""
        scale = self.problem.n * self.problem.family.gamma
        found = self.tables([self.own]).covered
        u = found[0][0], found[1][0]
        if envelope.constant:
            fixed = self.matched + envelope.depth / scale
            left, right = (np.maximum(u[i], self.both[i] ** 2 / fixed - 1.0) for i in (0, 1))
            flat = np.full(len(left), fixed - 1.0)
            return (left, right), (flat, flat)
        mass = 1.0 + float(self.u[self.own])
        limit = mass * (1.0 - min(envelope.depth / (scale * max(mass, self.matched)), 0.5)) - 1.0
        left, right = (np.maximum(u[i], limit) for i in (0, 1))
        other = self.both[0] ** 2 / (1.0 + right) - 1.0  # constant on each interval
        return (left, right), (other, other)


class Half:
    """One cell with one envelope, and its bounds by kind without phases."""

    def __init__(self, cell: Cell, envelope: Envelope) -> None:
        n, gamma, s = cell.problem.n, cell.problem.family.gamma, cell.grid.s
        self.cell, self.envelope = cell, envelope
        self.v_own, self.v_other = cell.covered(envelope)
        error = cell.noise * cell.t
        u = cell.u + error / gamma
        v = u.copy()
        v[cell.other] = cell.matched - 1.0  # V_I = U_I(t) and V_J = U_IJ(t)²/U_I(t) for all w
        mass = (cell.m - gamma * cell.u + 2 * error)[:, None] + gamma * ((1.0 - s) * v[:, None] - s)
        self.least = floor(mass.max(axis=0), n)
        mass = np.maximum(mass, self.least)
        self.log = portable.log1p(mass)
        self.weight = ((1.0 + u) * (1.0 + v))[:, None] / (1.0 + mass)
        exponents = n * self.log[:, 0]
        near = np.argsort(-exponents, kind="stable")[:24]
        if not math.isfinite(exponents[near[0]]):
            raise TooLarge("the bound for whole records exceeds the range of floating-point numbers; raise delta")
        near = near[exponents[near] > exponents[near[0]] - 40.0]
        self.scale = best_scale(Crowd(n), self.log[near], self.weight[near], None)
        self.plain = integral_without_phases(cell.line, cell.grid, self.scale, n, self.log, self.weight, None)

    def values(self, places: list[int]) -> Floats:
        """Return the logarithm of (7) without γ² for crowds of the kinds at these places."""
        cell = self.cell
        gamma, s = cell.problem.family.gamma, cell.grid.s[:, None]
        found = cell.tables(places)
        logs, weights = [], []
        for end in (0, 1):
            u = found.covered[end]
            v = u.copy()
            for i, place in enumerate(places):
                if place == cell.own:
                    v[i] = self.v_own[end]
                elif place == cell.other:
                    v[i] = self.v_other[end]
            mass = found.rest[end][:, None] + gamma * ((1.0 - s) * v[:, None] - s)
            mass = np.maximum(mass, self.least[:, None])
            logs.append(portable.log1p(mass))
            weights.append(((1.0 + u) * (1.0 + v))[:, None] / (1.0 + mass))
        factors = Factors((logs[0], logs[1]), (weights[0], weights[1]), self.log[places], self.weight[places])
        return integral(cell.line, cell.grid, self.scale, cell.problem.n, factors, None)


def cell_tilt(problem: Problem, swap: bool) -> float:
    """Return about the t that minimizes max_y m_y(1, t)ⁿ/t² over the leading kinds."""
    family, n, epsilon, cut = problem.family, problem.n, problem.epsilon, problem.cut
    own, other = (problem.one, problem.two)[:: -1 if swap else 1]
    pair = problem.pairs[swap]
    leading = family.prominent(epsilon, 3, problem.rows)
    kinds = {int(i): family.kind(int(i)) for i in (*leading, own, other)}
    scores = {i: kind.scores(epsilon, cut) for i, kind in kinds.items()}
    joint = pair.scores(epsilon, cut)

    def worst(t: Floats) -> Floats:
        rises = {i: portable.expm1(np.outer(t, score)) for i, score in scores.items()}
        both = portable.dot(portable.exp(np.outer(t, joint)), pair.omega)
        m = {i: portable.dot(rise, kinds[i].mu) for i, rise in rises.items()}
        u_own, u_other = (portable.dot(rises[i], kinds[i].omega) for i in (own, other))
        m[other] = m[other] + family.gamma * (both**2 / (1.0 + u_own) - 1.0 - u_other)
        return np.asarray(n * portable.log1p(np.max(list(m.values()), axis=0)))

    return least_tilt(worst, n, family, epsilon, cut)[0]


def _resolve(problem: Problem, choice: Choice, enough: float) -> float:
    """Return the maximum over all kinds of the sum of both cells, resolved where it exceeds ``enough``, within WORK."""
    one, two = (
        Half(Cell(problem, i > 0, t), envelope) for i, (t, envelope) in enumerate((choice.first, choice.second))
    )
    shift = 2 * math.log(problem.family.gamma) + ROUNDING
    values = np.logaddexp(one.plain, two.plain)
    order = [int(place) for place in np.argsort(-values, kind="stable")]
    best = enough - shift
    while order and values[order[0]] > best and problem.work < WORK:
        batch, order = order[:BATCH], order[BATCH:]
        values[batch] = np.minimum(values[batch], np.logaddexp(one.values(batch), two.values(batch)))
        best = max(best, float(values[batch].max()))
    result = float(values.max()) + shift
    precise = all(problem.n * half.cell.noise * half.cell.t < MAX_ERROR for half in (one, two))
    return result if precise and math.isfinite(result) else math.inf


def evaluate(problem: Problem, enough: float = -math.inf, hint: Choice | None = None) -> tuple[float, Choice]:
    """Return the logarithm of the bound of Theorem 5 for all pairs at distance h and every crowd, and the choices made.

    With a ``hint`` these choices are tried first, and kept if the bound is about ``enough``. Kinds whose bound without
    phases is below ``enough`` are not resolved further.
    """
    if hint is not None:
        value = _resolve(problem, hint, enough)
        if value <= enough + CLOSE:
            return value, hint
    limit = 690.0 / max(min(problem.family.largest(problem.epsilon), problem.cut), 1e-290)
    core = [problem.place(problem.one), problem.place(problem.two)]
    sides: list[list[Half]] = []
    for swap in (False, True):
        t = cell_tilt(problem, swap)
        factors, envelopes = TRIED[swap]
        tilted = [Cell(problem, swap, min(t * factor, limit), COARSE) for factor in factors]
        sides.append([Half(cell, envelope) for cell, envelope in product(tilted, envelopes)])
    first, second = ([half.values(core) for half in halves] for halves in sides)
    worst = [[float(np.logaddexp(a, b).max()) for b in second] for a in first]
    i, j = np.unravel_index(int(np.argmin(worst)), (len(first), len(second)))
    one, two = sides[0][int(i)], sides[1][int(j)]
    choice = Choice((one.cell.t, one.envelope), (two.cell.t, two.envelope))
    return _resolve(problem, choice, enough), choice
