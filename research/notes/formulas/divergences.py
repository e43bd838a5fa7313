"""The figure of sufficient differential privacy for two given laws. [003 eq 1.7]"""

import math

import numpy as np
import numpy.typing as npt

from hubbub.errors import Interval, check_real, reject

Array = npt.NDArray[np.float64]


def sufficient_tail(first: npt.ArrayLike, second: npt.ArrayLike, epsilon: float, *, strict: bool = True) -> float:
    """η(ε) = P[P(S)/Q(S) > e^ε] with S ~ ``first`` = P, the figure of sufficient differential privacy. [003 eq 1.7]

    δ(ε) ≤ η(ε), so η certifies (ε, η)-privacy if it is taken over both orders of every neighbouring pair; it overstates
    δ several times over, and unlike δ it can grow when records are added. ``strict=False`` counts ratios of exactly
    e^ε too, as the readings of [003 §3.3] do.

    >>> sufficient_tail([0.5625, 0.375, 0.0625], [0.1875, 0.625, 0.1875], math.log(2))
    0.5625
    """
    p, q, epsilon = _check_pair(first, second, epsilon)
    bar = math.exp(epsilon) * q
    return float(p[p > bar if strict else p >= bar].sum())


def _check_pair(first: npt.ArrayLike, second: npt.ArrayLike, epsilon: object) -> tuple[Array, Array, float]:
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if p.shape != q.shape:
        reject("first and second", "have the same shape", (p.shape, q.shape))
    for name, distribution in (("first", p), ("second", q)):
        if not ((distribution >= 0) & (distribution <= 1 + 1e-9)).all():
            reject(name, "consist of probabilities", "something else")
    return p, q, check_real("epsilon", epsilon, Interval(0.0, 709.0))
