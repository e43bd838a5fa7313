"""Theorem 5 of slot exchange: two cells, for records of L bits.

Fix a pair x, x' at distance h. I is the record that equals x where the two differ and the opposite of both elsewhere, J
the same with x'. K₁ and K₂ count the covered users who hold I and J. Where K₁ ≥ K₂, every covered J is matched with a
covered I and their scores are averaged, H = (G_I + G_J)/2; where K₁ < K₂, the other way round. With U_IJ = E_ω e^{zH},
any functions V_y > 0 of w with

    V_y ≥ |U_y| for y ≠ J,    V_I V_J ≥ |U_IJ|²,                                                                  (6)

and m_y(ζ, z) = γζ V_y + |E_{μ_y} e^{zG_y} − γU_y|, the first part is at most

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
from hubbub.accountant.theorems.records.labels import BATCH, ROUNDING, tilted_variance

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Envelope:
    """The choice of V: constant for the matched kind, or as small as possible given a lower limit on V_I."""

    depth: float
    constant: bool


ENVELOPES = (Envelope(0.0, True), Envelope(0.7, True), Envelope(2.0, True), Envelope(1.5, False), Envelope(5.0, False))
FACTORS = (1.0, 1.1)  # multiples of the t that minimizes the exponent


def pair_noise(pair: Matched, epsilon: float, cut: float, t: float, units: tuple[float, float]) -> float:
    """Return a bound on the rounding errors of U_IJ, per unit of |z|."""
    score = pair.scores(epsilon, cut)
    grow = pair.omega * np.exp(np.minimum(t * score, 700.0))
    ratio = math.exp(epsilon)
    likelihood = sum(first + ratio * second for first, second in (pair.own, pair.other))
    return float(grow @ (units[0] * likelihood + units[1] * np.abs(score)))


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Transforms of kinds along one contour: |M(0, z)| − (1 − γ) and |U| − 1 at both ends of the intervals."""

    rest: Ends
    covered: Ends


class Cell:
    """One cell of one pair class: ``own`` carries itself, ``other`` is matched with it, at one t."""

    def __init__(
        self,
        family: Family,
        n: int,
        epsilon: float,
        cut: float,
        t: float,
        rows: NDArray[np.int64],
        own: int,
        other: int,
        pair: Matched,
    ) -> None:
        h = int(family.triples[own, :2].sum())
        masses = family.masses(t, epsilon, cut, [h])
        self.family, self.n, self.epsilon, self.cut, self.rows = family, n, epsilon, cut, rows
        self.own, self.other, self.pair = own, other, pair
        self.noise = 2 * masses.noise
        self.m, self.u = masses.m[rows], masses.u[rows]
        self.at_own, self.at_other = (int(np.flatnonzero(rows == index)[0]) for index in (own, other))
        gamma = family.gamma
        rise = np.expm1(np.minimum(t * pair.scores(epsilon, cut), 700.0))
        self.pair_noise = pair_noise(pair, epsilon, cut, t, family.units)
        both = 1.0 + float(pair.omega @ rise) + self.pair_noise * t
        self.matched = both**2 / (1.0 + self.u[self.at_own])  # V of the other kind at w = 0
        masses_real = self.m.copy()
        masses_real[self.at_other] += gamma * (self.matched - 1.0 - self.u[self.at_other])
        top = int(masses_real.argmax())
        variance = n * tilted_variance(family.kind(int(rows[top])), epsilon, cut, t)
        self.line: Contour = contour(t, math.sqrt(variance))
        self.grid: Labels = labels((1 + self.m[top]) / (n * gamma * (1 + self.u[top])))
        found = along(pair.scores(epsilon, cut), pair.omega[None], self.line)
        steps = np.diff(self.line.w) ** 2 / 8
        ends = falling(size(found.transform[0]), found.curve[0] * steps, np.asarray(both - 1.0))
        error = self.pair_noise * (t + self.line.w[1:])
        self.both: Ends = (1.0 + ends[0] + error, 1.0 + ends[1] + error)
        self.known: dict[int, tuple[Floats, Floats, Floats, Floats]] = {}

    def tables(self, places: list[int]) -> _Tables:
        """Return the transforms of the kinds at these places of ``rows``."""
        steps = np.diff(self.line.w) ** 2 / 8
        gamma = self.family.gamma
        error = self.noise * (self.line.t + self.line.w[1:])
        for place in places:
            if place in self.known:
                continue
            kind = self.family.kind(int(self.rows[place]))
            rest = np.maximum(kind.mu - gamma * kind.omega, 0.0)
            chances = np.stack([kind.mu, kind.omega, rest])
            found = along(kind.scores(self.epsilon, self.cut), chances, self.line)
            m, u = self.m[place], self.u[place]
            uncovered = size(found.transform[0] - gamma * found.transform[1], 1.0 - gamma)
            one = falling(uncovered, found.curve[2] * steps, np.asarray(m - gamma * u))
            two = falling(size(found.transform[1]), found.curve[1] * steps, np.asarray(u))
            self.known[place] = (one[0] + error, one[1] + error, two[0] + error / gamma, two[1] + error / gamma)
        kept = [self.known[place] for place in places]
        columns = [np.stack([row[i] for row in kept]) for i in range(4)]
        return _Tables((columns[0], columns[1]), (columns[2], columns[3]))

    def covered(self, envelope: Envelope) -> tuple[Ends, Ends]:
        """Return V − 1 of ``own`` and of ``other`` at the ends of the intervals."""
        scale = self.n * self.family.gamma
        found = self.tables([self.at_own]).covered
        u = found[0][0], found[1][0]
        if envelope.constant:
            fixed = self.matched + envelope.depth / scale
            own = tuple(np.maximum(u[i], self.both[i] ** 2 / fixed - 1.0) for i in (0, 1))
            flat = np.full(len(u[0]), fixed - 1.0)
            return (own[0], own[1]), (flat, flat)
        mass = 1.0 + float(self.u[self.at_own])
        limit = mass * (1.0 - min(envelope.depth / (scale * max(mass, self.matched)), 0.5)) - 1.0
        own = tuple(np.maximum(u[i], limit) for i in (0, 1))
        other = self.both[0] ** 2 / (1.0 + own[1]) - 1.0  # constant on each interval
        return (own[0], own[1]), (other, other)

    def prepare(self, envelope: Envelope) -> "Half":
        """Return the cell with one choice of V."""
        return Half(self, envelope)


class Half:
    """One cell with one choice of V, and its bounds by kind without phases."""

    def __init__(self, cell: Cell, envelope: Envelope) -> None:
        n, gamma, s = cell.n, cell.family.gamma, cell.grid.s
        self.cell = cell
        self.v_own, self.v_other = cell.covered(envelope)
        error = cell.noise * cell.line.t
        self.u = cell.u + error / gamma
        self.v = self.u.copy()
        self.v[cell.at_other] = cell.matched  # V_I = U_I(t) and V_J = U_IJ(t)²/U_I(t) for all w
        self.v[cell.at_other] -= 1.0
        self.r = cell.m - gamma * cell.u + 2 * error
        mass = self.r[:, None] + gamma * ((1.0 - s) * self.v[:, None] - s)
        self.least = floor(mass.max(axis=0), n)
        mass = np.maximum(mass, self.least)
        self.log = np.log1p(mass)
        self.weight = ((1.0 + self.u) * (1.0 + self.v))[:, None] / (1.0 + mass)
        exponents = n * self.log[:, 0]
        near = np.argsort(-exponents, kind="stable")[:64]
        near = near[exponents[near] > exponents[near[0]] - 40.0]
        self.scale = best_scale(Crowd(n), self.log[near], self.weight[near], None)
        self.plain = integral_without_phases(cell.line, cell.grid, self.scale, n, self.log, self.weight, None)

    def values(self, places: list[int]) -> Floats:
        """Return the logarithm of (7) without γ² for crowds of the kinds at these places."""
        cell = self.cell
        gamma, s = cell.family.gamma, cell.grid.s[:, None]
        found = cell.tables(places)
        logs, weights = [], []
        for end in (0, 1):
            u = found.covered[end]
            v = u.copy()
            for i, place in enumerate(places):
                if place == cell.at_own:
                    v[i] = self.v_own[end]
                elif place == cell.at_other:
                    v[i] = self.v_other[end]
            mass = found.rest[end][:, None] + gamma * ((1.0 - s) * v[:, None] - s)
            mass = np.maximum(mass, self.least[:, None])
            logs.append(np.log1p(mass))
            weights.append(((1.0 + u) * (1.0 + v))[:, None] / (1.0 + mass))
        factors = Factors((logs[0], logs[1]), (weights[0], weights[1]), self.log[places], self.weight[places])
        return integral(cell.line, cell.grid, self.scale, cell.n, factors, None)


def cell_tilt(
    family: Family, n: int, epsilon: float, cut: float, rows: NDArray[np.int64], own: int, other: int, pair: Matched
) -> float:
    """Return about the t that minimizes max_y m_y(1, t)ⁿ/t² over the kinds in ``rows``."""
    scores = {int(i): family.kind(int(i)).scores(epsilon, cut) for i in rows}
    joint = pair.scores(epsilon, cut)

    def worst(t: Floats) -> Floats:
        rises = {i: np.expm1(np.outer(t, score)) for i, score in scores.items()}
        both = np.exp(np.outer(t, joint)) @ pair.omega
        u_own, u_other = (rises[i] @ family.kind(i).omega for i in (own, other))
        m = {i: rise @ family.kind(i).mu for i, rise in rises.items()}
        m[other] = m[other] + family.gamma * (both**2 / (1.0 + u_own) - 1.0 - u_other)
        return np.max([n * np.log1p(value) for value in m.values()], axis=0)

    return least_tilt(worst, n, family, epsilon, cut)[0]


def evaluate(family: Family, n: int, epsilon: float, cut: float, h: int, enough: float = -math.inf) -> float:
    """Return the logarithm of the bound of Theorem 5 for all pairs at distance h and every crowd of n others.

    Kinds that are below ``enough`` without phases are not resolved further.
    """
    rows = np.flatnonzero(family.triples[:, :2].sum(axis=1) == h)
    one, two, pair = family.matched(h)
    swapped = Matched(pair.other, pair.own, pair.omega)
    score = [float(family.kind(int(i)).mu @ family.kind(int(i)).scores(epsilon, cut) ** 2) for i in rows]
    leading = np.unique(np.concatenate([rows[np.argsort(score)[-6:]], [one, two]]))
    core = [int(np.flatnonzero(rows == i)[0]) for i in leading]
    sides: list[list[Half]] = []
    for own, other, joint in ((one, two, pair), (two, one, swapped)):
        t = cell_tilt(family, n, epsilon, cut, leading, own, other, joint)
        limit = 690.0 / max(min(family.largest(epsilon), cut), 1e-300)
        cells = [
            Cell(family, n, epsilon, cut, min(t * factor, limit), rows, own, other, joint) for factor in FACTORS
        ]
        sides.append([cell.prepare(envelope) for cell, envelope in product(cells, ENVELOPES)])
    first, second = ([side.values(core) for side in halves] for halves in sides)
    worst = [[float(np.logaddexp(a, b).max()) for b in second] for a in first]
    i, j = np.unravel_index(int(np.argmin(worst)), (len(first), len(second)))
    a, b = sides[0][int(i)], sides[1][int(j)]
    values = np.logaddexp(a.plain, b.plain)
    values[core] = np.logaddexp(first[int(i)], second[int(j)])
    shift = 2 * math.log(family.gamma) + ROUNDING
    best = max(float(values[core].max()), enough - shift)
    order = [int(place) for place in np.argsort(-values, kind="stable") if int(place) not in set(core)]
    while order and values[order[0]] > best:
        batch, order = order[:BATCH], order[BATCH:]
        values[batch] = np.minimum(values[batch], np.logaddexp(a.values(batch), b.values(batch)))
        best = max(best, float(values[batch].max()))
    result = float(values.max())
    return result + shift if math.isfinite(result) else math.inf
