"""Tail probabilities and densities of sums, by the tilted integral of :mod:`hubbub.accountant.quadrature`."""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from hubbub.accountant.quadrature import FLOOR, Bracket, Complexes, Floats, Integral, validated
from hubbub.errors import reject

MARGIN = 7.5
"""Standard deviations of smoothing between the two ends of a tail probability."""


def tail_probability(
    values: ArrayLike, weights: ArrayLike, n: int, *, extra: ArrayLike | None = None, tolerance: float = 1e-3
) -> Bracket:
    """Bracket ln P[G_1 + … + G_n + H > 0], H one more term with the same values and the weights ``extra``.

    Both ends are rigorous: P[S > 0]·Φ(a) ≤ P[S + ηZ > −aη] and P[S > 0] ≥ P[S + ηZ > aη] − Φ(−a).
    They come within ``tolerance`` of each other unless S has atoms next to 0; an atom *at* 0 counts for the upper end.

    >>> bracket = tail_probability([1.0, -1.0], [0.3, 0.7], 3)  # at least two of three: 0.027 + 3·0.063
    >>> bool(abs(np.exp(bracket.lower) - 0.216) < 1e-3), bool(abs(np.exp(bracket.upper) - 0.216) < 1e-3)
    (True, True)
    """
    g, w, n = validated(values, weights, n)
    own = None if extra is None else validated(values, extra, 1)[1]
    if g.max(initial=0.0) <= 0:
        return Bracket(-math.inf, -math.inf)
    order = np.argsort(g)
    integral = Integral(g[order], w[order], n, max(1.0 - float(w.sum()), 0.0), None if own is None else own[order])
    t = integral.tilt(1)
    log_mass = float(integral.log_mgf(np.array([t]))[0])
    if log_mass < FLOOR:
        return Bracket(-math.inf, log_mass)
    lower, upper = -math.inf, min(log_mass, 0.0)
    period, smoothing = 24.0 / t, tolerance / (3 * MARGIN * t)
    outside = math.erfc(MARGIN / math.sqrt(2)) / 2
    slack = integral.rounding(t, 0.0)
    for _ in range(40):
        line = integral.line(t, smoothing, period)
        margin = MARGIN * smoothing
        (above, noise_above), (below, noise_below) = line.total(partial(_shifted, margin), partial(_shifted, -margin))
        above += line.cut / line.reach * math.exp(margin * t) + noise_above
        below -= 2 * line.cut / line.reach + noise_below
        images = integral.images(t, period, smoothing, 1, math.log(max(above, 1e-300)) + log_mass)
        if above > 0:
            upper = min(upper, log_mass + math.log(above / (1.0 - outside)) + slack)
        attained = math.exp(log_mass) * (below - images * above) - outside
        if attained > 0:
            lower = max(lower, math.log(attained) - slack)
        if line.count == integral.most or (images < 0.2 * tolerance and upper - lower < 2 * tolerance):
            break
        if images >= 0.2 * tolerance:
            period *= 1.5
        elif line.count * 4 > integral.most:
            break
        else:
            smoothing /= 4.0
    return Bracket(lower, upper)


def _shifted(by: float, z: Complexes) -> Complexes:
    """Return the factor e^{by·z}/z that turns the smoothed integrand into P[S + ηZ > −by]."""
    return np.asarray(np.exp(by * z) / z)


def density(
    values: ArrayLike, weights: ArrayLike, n: int, points: ArrayLike, *, extra: ArrayLike | None = None
) -> Floats:
    """Return the density at ``points`` of G_1 + … + G_n + H, smoothed over their distance. Certifies nothing.

    >>> x = np.linspace(-60.0, 60.0, 241)
    >>> f = density([1.0, -1.0], [0.5, 0.5], 100, x)
    >>> bool(abs(f.sum() * 0.5 - 1.0) < 1e-3)
    True
    """
    g, w, n = validated(values, weights, n)
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2 or not (np.diff(x) > 0).all():
        reject("points", "be an increasing list of at least two numbers")
    own = None if extra is None else validated(values, extra, 1)[1]
    integral = Integral(g, w, n, max(1.0 - float(w.sum()), 0.0), own)
    spread = integral.scale + float(x[-1] - x[0])
    line = integral.line(0.0, float(np.diff(x).min()), 4 * spread)
    total = sum((np.exp(-np.outer(x, z)) @ values).real for z, values in line.pieces())
    return np.asarray(np.maximum(total, 0.0))
