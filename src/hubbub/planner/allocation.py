"""The allocation of noise to the attributes of a survey: the smallest total error for a given privacy loss.

The total is Σ_e W_e·γ_e/λ_e (:mod:`hubbub.mechanisms.design`) with the weight W of each question, λ_e = Σ_a A_ea·u_a.

- **Gaussian noise** and its likes: losses of all attributes together have the variance Σ_a 2·u_a. This is the problem
  of an optimal experimental design, which is convex; u_a ← u_a·√(g_a/Σ u·g), g_a = Σ_e W_e·γ_e·A_ea/λ_e², reduces the
  total in every step (Titterington 1976; Yu 2010). For attributes that are questions by themselves it stops at once at
  s_a² ∝ 1/√(W·γ).
- **Laplace noise** of scale b_a = 1/√(2·u_a): pure losses 2/b_a add up, so that v_a = √u_a has a fixed sum. With
  v_a ← v_a·(v_a·g_a)^{1/3}, rescaled, questions by themselves stop at once at b_a ∝ (W·γ)^(−1/3).

An attribute whose precision falls to 0 is not worth its message.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hubbub.mechanisms.design import Effect
from hubbub.numeric import portable

Floats = NDArray[np.float64]

STEPS = 3000
CLOSE = 1e-9  # relative change of the total at which the search ends
NOTHING = 1e-4  # share of the largest precision below which an attribute is not worth a message


def gaussian_shares(parts: Sequence[Effect], count: int, weights: Mapping[str, float]) -> Floats:
    """Return the precision of each attribute, in shares of their sum, with the smallest total error.

    >>> from hubbub.model.questions import Flag, Choice
    >>> from hubbub.model.schema import Schema
    >>> from hubbub.mechanisms.design import effects
    >>> parts = effects(Schema.survey({"a": Flag(), "b": Choice(list("vwxyz"))}))
    >>> shares = gaussian_shares(parts, 2, {"a": 1.0, "b": 1.0})
    >>> round(float(shares[1] / shares[0]), 4)      # √(0.8/0.5)
    1.2649
    """
    matrix, costs = _matrices(parts, count, weights)
    shares = np.full(count, 1.0 / count)
    last = math.inf
    for _ in range(STEPS):
        precision = portable.dot(matrix, shares)
        total = float((costs / precision).sum())
        if last - total < CLOSE * total:
            break
        last = total
        gain = portable.dot(costs / precision**2, matrix)
        shares = shares * np.sqrt(gain / portable.dot(shares, gain))
        shares /= shares.sum()
    return shares


def laplace_shares(parts: Sequence[Effect], count: int, weights: Mapping[str, float]) -> Floats:
    """Return the pure loss 2/b of each attribute, in shares of their sum, with a total error that no change improves.

    >>> from hubbub.model.questions import Flag, Choice
    >>> from hubbub.model.schema import Schema
    >>> from hubbub.mechanisms.design import effects
    >>> parts = effects(Schema.survey({"a": Flag(), "b": Choice(list("vwxyz"))}))
    >>> shares = laplace_shares(parts, 2, {"a": 1.0, "b": 1.0})
    >>> round(float(shares[1] / shares[0]) ** 3, 4)      # 0.8/0.5
    1.6
    """
    matrix, costs = _matrices(parts, count, weights)
    shares = np.full(count, 1.0 / count)
    last = math.inf
    for _ in range(STEPS):
        precision = portable.dot(matrix, shares**2)
        total = float((costs / precision).sum())
        if abs(last - total) < CLOSE * total:
            break
        last = total
        gain = shares * portable.dot(costs / precision**2, matrix)
        shares = shares * portable.exp(portable.log(gain / portable.dot(shares, gain)) / 3)
        shares /= shares.sum()
    return shares


def _matrices(parts: Sequence[Effect], count: int, weights: Mapping[str, float]) -> tuple[Floats, Floats]:
    matrix = np.zeros((len(parts), count))
    for row, one in zip(matrix, parts, strict=True):
        for place, weight in one.weights.items():
            row[place] = weight
    return matrix, np.array([weights[one.question] * one.gamma for one in parts])


def total_error(parts: Sequence[Effect], precisions: Sequence[float], weights: Mapping[str, float]) -> float:
    """Return the weighted total of the mean square errors of all questions.

    >>> from hubbub.model.questions import Flag
    >>> from hubbub.model.schema import Schema
    >>> from hubbub.mechanisms.design import effects
    >>> total_error(effects(Schema.survey({"a": Flag(), "b": Flag()})), [0.5, 0.25], {"a": 1.0, "b": 3.0})
    7.0
    """
    matrix, costs = _matrices(parts, len(precisions), weights)
    with np.errstate(divide="ignore"):
        return float((costs / portable.dot(matrix, np.asarray(precisions))).sum())
