"""The last step of a single-bit certificate in ball arithmetic: a machine-checked upper bound.

The float search finds blocks of collections whose δ(ε) stays below the claim; here each block's bound is evaluated
with the balls of python-flint (Arb), with q and ε as exact dyadic numbers, so no rounding error can invalidate the
claim. The inequalities are those of :mod:`hubbub.accountant.theorems.bit`.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.accountant.theorems import bit, pair
from hubbub.errors import HubbubError, check_delta, check_epsilon, check_flip, check_whole, load_extra
from hubbub.model.plans import MAX_PEOPLE

if TYPE_CHECKING:
    from flint import arb

PRECISION = 192  # bits; about 60 are lost to exponents of up to 10⁹


def _flint() -> Any:
    return load_extra("flint", "rigorous", "Rigorous accounting")


def ball_delta(ones: int, zeros: int, q: float, epsilon: float) -> "arb":
    """Return a ball whose upper end is above δ(ε) of "own bit 1 against 0" in a crowd of these others.

    >>> round(float(ball_delta(99, 0, 0.1, 0.6931471805599453).upper()), 12)
    0.003381560395
    """
    flint = _flint()
    flint.ctx.prec = PRECISION
    arb, acb = flint.arb, flint.acb
    flip, grow = arb(q), arb(epsilon).exp()
    keep = 1 - flip
    left = keep - grow * flip
    if left <= 0:
        return arb(0)
    if not left > 0:  # not even these balls decide on which side of the pure ε it lies
        return arb(1)
    lam = (grow * keep - flip) / left
    theta = lam.log()
    high, low = keep * lam / (flip + keep * lam), flip * lam / (keep + flip * lam)
    mean = ones * high + zeros * low
    variance = ones * high * (1 - high) + zeros * low * (1 - low)
    spread = math.sqrt(float(variance.upper()))
    size = min(ones + zeros + 3, math.ceil(pair.SPAN * spread) + 28)
    narrow = float(variance.lower())
    cosine = 1 - pair.DECAY / narrow if narrow > 0 else -1.0
    reach = math.acos(cosine) if cosine > -1 else math.pi
    count = min(size // 2, math.ceil(reach * size / (2 * math.pi)))
    log_mass = (ones + 1) * (flip + keep * lam).log() + zeros * (keep + flip * lam).log()
    peak = (high - low) * lam.sqrt()
    nodes = []
    for j in range(1, count + 1):
        angle = 2 * arb.pi() * j / size
        turn = acb(angle.cos(), angle.sin())
        crowd = (1 - high + high * turn) ** ones * (1 - low + low * turn) ** zeros
        kernel = (high - low) * (turn - 1) / (1 - 1 / (lam * turn))
        nodes.append((turn, crowd * kernel * (1 if 2 * j == size else 2) / size))
    dropped = peak * (-variance * (1 - angle.cos())).exp() if 2 * count < size - 1 else arb(0)
    # At ε = 0 the tilt vanishes, and the node at w = 0 becomes (p − q)/size.
    flat = (high - low) / size if epsilon == 0 else arb(0)
    best = arb(0)
    middle = math.floor(float(mean.mid()))
    for threshold in range(max(middle - 1, 0), min(middle + 3, ones + zeros + 1) + 1):  # Darroch, with one to spare
        total = sum(((value * turn ** (-threshold)).real for turn, value in nodes), arb(0)) + dropped + flat
        if epsilon > 0:
            total += (grow - 1) * (theta * threshold - log_mass).exp() / ((theta * size).exp() - 1)
        bound = (log_mass - theta * threshold).exp() * total
        best = bound if bound.upper() > best.upper() else best
    return best


def certify(n: int, q: float, epsilon: float, delta: float) -> int:
    """Confirm δ(ε) ≤ ``delta`` for every single-bit collection of n, in both orders.

    Returns the number of blocks checked, and raises :class:`HubbubError` if ball arithmetic does not confirm it.

    >>> certify(1000, 0.1, 0.3775, 1e-6) > 10
    True
    """
    n, q, epsilon = check_whole("n", n, 1, MAX_PEOPLE), check_flip(q), check_epsilon(epsilon)
    goal = math.log(check_delta(delta))
    flint = _flint()
    low, high = np.array([0], dtype=np.int64), np.array([n - 1], dtype=np.int64)
    blocks: list[tuple[int, int]] = []
    while len(low):
        bound = bit.log_delta(low, n - 1 - high, q, epsilon)
        closed = (bound <= goal) | (low == high)
        blocks += zip(low[closed].tolist(), high[closed].tolist(), strict=True)
        low, high = bit.cut_blocks(low[~closed], high[~closed])
    claim = flint.arb(delta)
    for first, last in blocks:
        if not ball_delta(first, n - 1 - last, q, epsilon) <= claim:
            where = f"{first} to {last} ones of {n - 1} others"
            raise HubbubError(f"ball arithmetic does not confirm δ({epsilon!r}) ≤ {delta!r} for {where}")
    return len(blocks)
