"""Theorem 4 of slot exchange: all crowds at once, with the phases of the labels kept.

With z = t + iw, U_y(z) = E_ω e^{zG_y} and M_y(ζ, z) = E_{μ_y} e^{zG_y} − (1 − ζ) γ U_y(z), the part of δ(ε) in which at
least one other user is covered is at most::

    γ² ∫₀¹ (1−ζ) (1/π) ∫₀^∞ e^{η²(t²−w²)/2}/(t²+w²) Σ_a |U_a|² Π_{i≠a} |M_i(ζ, z)| dw dζ

(``docs/theory/slot-exchange.md``). ``|M_y|`` is convex in ζ, and ``−d²|M_y|/dw² ≤ E_μ (G − c)² e^{tG}`` for every c.
"""

import math
from dataclasses import dataclass

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
from hubbub.accountant.theorems.records.kinds import UNIT, Family, Integers, Kind, Masses
from hubbub.numeric import portable

Floats = NDArray[np.float64]

BATCH = 6  # kinds whose phases are computed together
WORK = 120_000  # atoms whose phases are computed at all, in no more than a second
OWN = 600  # what a kind costs besides its atoms
MAX_ERROR = 0.1  # rounding errors of the exponent above which nothing is proven
ROUNDING = 1e-10  # of the final sums and logarithms


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """One evaluation: everything that does not depend on the kind."""

    line: Contour
    grid: Labels
    gamma: float
    least: Floats  # smallest m − 1 that is resolved, at every node in s
    noise: float
    epsilon: float
    cut: float

    def real(self, m: Floats, u: Floats) -> tuple[Floats, Floats]:
        """Return ln m and c at w = 0, over (kinds, nodes in s), from the transforms of kinds at t."""
        error = self.noise * self.line.t
        mass = m[:, None] - self.grid.s * self.gamma * (1.0 + u[:, None]) + 2 * error
        mass = np.maximum(mass, self.least)
        return portable.log1p(mass), (1.0 + u[:, None] + error / self.gamma) ** 2 / (1.0 + mass)

    def factors(self, kinds: list[Kind], m: Floats, u: Floats) -> Factors:
        """Return the factors of kinds along the contour."""
        steps = np.diff(self.line.w) ** 2 / 8
        error = self.noise * (self.line.t + self.line.w[1:])
        s = self.grid.s[:, None]
        logs: tuple[list[Floats], list[Floats]] = ([], [])
        weights: tuple[list[Floats], list[Floats]] = ([], [])
        for kind, m_top, u_top in zip(kinds, m, u, strict=True):
            found = along(kind.scores(self.epsilon, self.cut), np.stack([kind.mu, kind.omega]), self.line)
            values = size(found.transform[0] - s * self.gamma * (1.0 + found.transform[1]))
            top = m_top - s * self.gamma * (1.0 + u_top)
            masses = falling(values, found.curve[0] * steps, top)
            covered = falling(size(found.transform[1]), found.curve[1] * steps, np.asarray(u_top))
            for end in (0, 1):
                # Between nodes in s a factor must not fall in ζ, that is, not rise in s.
                mass = np.maximum.accumulate(np.maximum(masses[end] + 2 * error, self.least[:, None])[::-1])[::-1]
                logs[end].append(portable.log1p(mass))
                weights[end].append((1.0 + covered[end] + error / self.gamma) ** 2 / (1.0 + mass))
        log_top, weight_top = self.real(m, u)
        return Factors(_stack(logs), _stack(weights), log_top, weight_top)


def _stack(ends: tuple[list[Floats], list[Floats]]) -> Ends:
    return np.stack(ends[0]), np.stack(ends[1])


def transforms(kind: Kind, epsilon: float, cut: float, t: float) -> tuple[float, float]:
    """Return E_μ e^{tG} − 1 and E_ω e^{tG} − 1 of one kind."""
    rise = portable.expm1(np.minimum(t * kind.scores(epsilon, cut), 700.0))
    return float(portable.dot(kind.mu, rise)), float(portable.dot(kind.omega, rise))


def noise_of(kind: Kind, epsilon: float, cut: float, t: float, units: tuple[float, float]) -> float:
    """Return a bound on the rounding errors of the transforms of one kind, per unit of ``|z|``."""
    score = kind.scores(epsilon, cut)
    grow = portable.exp(np.minimum(t * score, 700.0))
    likelihood = kind.first + math.exp(epsilon) * kind.second
    return float(
        portable.dot(kind.mu, (units[0] * grow * likelihood + units[1] * np.maximum(grow, 1.0) * np.abs(score)))
    )


def evaluate(
    family: Family,
    crowd: Crowd,
    epsilon: float,
    cut: float,
    t: float,
    *,
    enough: float = -math.inf,
    rows: Integers | None = None,
) -> Floats:
    """Return the logarithm of the bound of Theorem 4 for every kind of ``family``; the maximum holds for every crowd.

    Kinds are bounded without phases first. Phases are computed in the order of these bounds, until all other kinds are
    below the largest value found or below ``enough``. With ``rows`` only these kinds are evaluated, for crowds of them.
    """
    n, gamma = crowd.n, family.gamma
    masses = family.masses(t, epsilon, cut) if rows is None else masses_of(family, rows, epsilon, cut, t)
    kept = np.arange(len(family.keys)) if rows is None else rows
    m, u, noise = masses.m, masses.u, masses.noise
    exponents = n * portable.log1p(m)
    top = int(exponents.argmax())
    if not math.isfinite(exponents[top]):  # t is far too large: nothing of the transforms is left
        return np.full(len(kept), np.inf)
    kind = family.kind(int(kept[top]))
    variance = n * tilted_variance(kind, epsilon, cut, t)
    decay = n * gamma * (1 + u[top]) / (1 + m[top])
    guest = crowd.companion
    if guest is not None:
        guest_m, guest_u = transforms(guest, epsilon, cut, t)
        noise = max(
            noise, noise_of(guest, epsilon, cut, t, (family.units[0], family.units[1] + 12 * UNIT * len(guest.mu)))
        )
        variance += crowd.mean * tilted_variance(guest, epsilon, cut, t)
        if not 1 + guest_m > 1e-200:  # nothing of the transform is left
            return np.full(len(kept), np.inf)
        decay += crowd.mean * gamma * (1 + guest_u) / (1 + guest_m)
    if not (n + crowd.mean) * noise * t < MAX_ERROR:
        return np.full(len(kept), np.inf)
    line, grid = contour(t, variance), labels(decay)
    least = floor((m[:, None] - grid.s * gamma * (1 + u[:, None])).max(axis=0), n)
    nodes = _Nodes(line, grid, gamma, least, noise, epsilon, cut)
    log, weight = nodes.real(m, u)
    near = np.argsort(-exponents, kind="stable")[:64]
    near = near[exponents[near] > exponents[top] - 40.0]
    ends, flat = None, None
    if guest is None:
        scale = best_scale(crowd, log[near], weight[near], None)
    else:
        own = nodes.factors([guest], np.array([guest_m]), np.array([guest_u]))
        scale = best_scale(crowd, log[near], weight[near], (own.log_top[0], own.weight_top[0]))
        with np.errstate(over="ignore"):
            one, two = (crowd.further(own.weight[i][0] / scale[:, None] + own.log[i][0]) for i in (0, 1))
            flat = crowd.further(own.weight_top[0] / scale + own.log_top[0])
        ends = ((one, two), flat)
    values = integral_without_phases(line, grid, scale, n, log, weight, flat)
    order = np.argsort(-values, kind="stable")
    order = order[: int(np.searchsorted(np.cumsum(OWN + (family.triples[kept[order]] + 1).prod(axis=1)), WORK)) + 1]
    shift = 2 * math.log(gamma) + ROUNDING
    done, best = 0, enough - shift
    while done < len(order) and values[order[done]] > best:
        batch = order[done : done + BATCH]
        factors = nodes.factors([family.kind(int(kept[i])) for i in batch], m[batch], u[batch])
        values[batch] = np.minimum(values[batch], integral(line, grid, scale, n, factors, ends))
        best = max(best, float(values[batch].max()))
        done += BATCH
    return values + shift


def masses_of(family: Family, rows: Integers, epsilon: float, cut: float, t: float) -> Masses:
    """Return the transforms of a few kinds at t."""
    kinds = [family.kind(int(i)) for i in rows]
    m, u = np.array([transforms(kind, epsilon, cut, t) for kind in kinds]).T
    return Masses(m, u, max(noise_of(kind, epsilon, cut, t, family.units) for kind in kinds))


def tilted_variance(kind: Kind, epsilon: float, cut: float, t: float) -> float:
    """Return the variance of G under μ e^{tG}."""
    score = kind.scores(epsilon, cut)
    tilted = kind.mu * portable.exp(np.minimum(t * score, 700.0))
    tilted = tilted / tilted.sum()
    return float(portable.dot(tilted, (score - float(portable.dot(tilted, score))) ** 2))


def tilt(family: Family, crowd: Crowd, epsilon: float, cut: float, rows: Integers) -> tuple[float, float]:
    """Return about the t that minimizes max_y M_y(1, t)ⁿ/t² over the kinds in ``rows``, and that exponent."""
    kinds = [family.kind(int(i)) for i in rows]
    everything = kinds if crowd.companion is None else [*kinds, crowd.companion]
    scores = [kind.scores(epsilon, cut) for kind in everything]

    def worst(t: Floats) -> Floats:
        logs = [
            portable.log1p(portable.dot(portable.expm1(np.outer(t, score)), kind.mu))
            for score, kind in zip(scores, everything, strict=True)
        ]
        most = np.max(logs[: len(kinds)], axis=0)
        return np.asarray(crowd.n * most + (0.0 if crowd.companion is None else crowd.further(logs[-1])))

    return least_tilt(worst, crowd.n, family, epsilon, cut)
