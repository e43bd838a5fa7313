"""The last step of a single-bit certificate in ball arithmetic, as an oracle: no rounding error can hide in it.

The float search finds blocks of collections whose δ(ε) stays below the claim; here each block's bound is evaluated
with the balls of python-flint (Arb), with q and ε as exact dyadic numbers. The inequalities are those of
:mod:`hubbub.accountant.theorems.bit`; the checker has its own, and takes longer for large crowds.
"""

import math

import numpy as np
from flint import acb, arb, ctx

from hubbub.accountant.theorems import bit, pair

PRECISION = 192  # bits; about 60 are lost to exponents of up to 10⁹


def ball_delta(ones: int, zeros: int, q: float, epsilon: float) -> arb:
    """Return a ball whose upper end is above δ(ε) of "own bit 1 against 0" in a crowd of these others."""
    ctx.prec = PRECISION
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


def confirmed(n: int, q: float, epsilon: float, delta: float) -> bool:
    """Return True if δ(ε) ≤ ``delta`` holds for every single-bit collection of n, in both orders."""
    goal = math.log(delta)
    low, high = np.array([0], dtype=np.int64), np.array([n - 1], dtype=np.int64)
    blocks: list[tuple[int, int]] = []
    while len(low):
        bound = bit.log_delta(low, n - 1 - high, q, epsilon)
        closed = (bound <= goal) | (low == high)
        blocks += zip(low[closed].tolist(), high[closed].tolist(), strict=True)
        low, high = bit.cut_blocks(low[~closed], high[~closed])
    claim = arb(delta)
    return all(ball_delta(first, n - 1 - last, q, epsilon) <= claim for first, last in blocks)
