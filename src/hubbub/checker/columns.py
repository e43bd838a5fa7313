"""Split bits: the counts of different positions are independent single-bit crowds, so their losses are composed.

Two records differ in at most h positions. One cover must serve every crowd at every position, in both orders: the
maximum of the curves x ↦ H_x of a *fixed* finite set of crowds that bounds all others by data processing
(:mod:`hubbub.checker.crowds`). A maximum of convex curves is convex, and becomes a cover by its values on a grid of x
(:mod:`hubbub.checker.losses`). Its h-fold composition bounds δ. The choice of the crowds and of the grid decides only
the sharpness of the bound.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import isqrt

from hubbub.checker.crowds import Bits
from hubbub.checker.fixed import binomial, ceil_div, convolve
from hubbub.checker.losses import from_curve, powers

MAX_POINTS = 4096
EFFORTS = ((32, 256, 700), (64, 2048, 1400))
"""Grid points per spread of the loss; a block is halved while it exceeds the worst known crowd by more than one part in
the second number; most blocks. The second row serves where the first bound is close to the goal."""
MAX_SPREAD = 150
"""Largest standard deviation of one position's count whose crowds are composed within a minute."""
CLOSE = 400
"""A bound is close to the goal if it exceeds it by less than one part in this many."""


class Curve:
    """H_x of a pair whose ratio P(s)/Q(s) rises in s, at ascending x ≥ 1."""

    def __init__(self, p: Sequence[int], q: Sequence[int], slack: int, mean: int, bits: int) -> None:
        """Take lower bounds of P and Q on the same outcomes; entries, and the mass outside, are within ``slack``."""
        self.p, self.q, self.slack, self.bits = p, q, slack, bits
        self.p_tails, self.q_tails = ([0, *accumulate(reversed(row))][::-1] for row in (p, q))
        self.all_slack = (len(p) + 2) * slack
        self.mean = min(max(mean, 0), len(p) - 1)

    def values(self, points: Sequence[tuple[int, int]]) -> list[int]:
        """Return upper bounds of H at the points, given by lower and upper bounds in units of 2^−bits."""
        result: list[int] = []
        p, q, slack, bits = self.p, self.q, self.slack, self.bits
        t = self.mean
        while t > 0 and (p[t - 1] + slack << bits) > points[0][0] * q[t - 1]:
            t -= 1
        for low, high in points:
            # All s < t have P ≤ xQ, since t − 1 does, or since there are none in the list.
            while t < len(p) and (p[t] + slack << bits) <= low * q[t]:
                t += 1
            best, s = 0, t
            while True:
                best = max(best, self.p_tails[s] + self.all_slack - (low * self.q_tails[s] >> bits))
                if s == len(p) or (p[s] << bits) >= high * (q[s] + slack):
                    break
                if s == t + 2:  # the sign is below the precision: P(≥ t) is a bound as well
                    best = self.p_tails[t] + self.all_slack
                    break
                s += 1
            result.append(best)
        return result

    def attained(self, x: int) -> int:
        """Return a lower bound of H at x/2^bits ≥ 1: the best threshold, with every error against it."""
        slack, bits = self.all_slack, self.bits
        return max(p - ceil_div(x * (q + slack), 1 << bits) for p, q in zip(self.p_tails, self.q_tails, strict=True))


def bit_curve(problem: Bits, ones: int, zeros: int) -> Curve:
    """Return the curve of one crowd of single bits."""
    bits = problem.bits
    x, y = problem.crowd(ones, zeros)
    crowd = [mass >> bits for mass in convolve(x.low, y.low)]
    slack = 2 * (x.slack + y.slack) + 4
    rows = []
    for chance in (1 - problem.flip, problem.flip):
        own = [(mass.numerator << bits) // mass.denominator for mass in problem.own(chance)]
        rows.append([mass >> bits for mass in convolve(crowd, own)])
    k = problem.copies
    mean = int(problem.unit * (ones * (1 - problem.flip) + zeros * problem.flip)) + (problem.fair + k) // 2
    mean -= x.first + y.first
    return Curve(rows[0], rows[1], slack + len(x.low) + 2 * k + 4, mean, bits)


def fake_curve(fakes: int, bits: int) -> Curve:
    """Return the curve of a one against a zero among Bin(fakes, 1/2) ones; both orders are alike."""
    row = binomial(fakes, Fraction(1, 2), bits)
    return Curve([0, *row.low], [*row.low, 0], row.slack, fakes // 2 - row.first, bits)


def grid(problem: Bits, grain: int) -> tuple[int, int]:
    """Return the ratio r of the grid in units of 2^−bits, and the number of steps from 1 to the largest useful point.

    ln r is about a ``grain``-th of the spread of one position's loss. If the largest ratio of probabilities, (p/q)^k,
    is within reach, it becomes a point of the grid, because H vanishes from there on.
    """
    q, k, bits = problem.flip, problem.copies, problem.bits
    p, one = 1 - q, 1 << problem.bits
    spread = isqrt(int(k * k * (p - q) ** 2 / max(problem.variance, p * q) * 4**bits))
    ratio = one + max(min(spread, int((p / q - 1) * one)) // grain, 1)
    largest = ceil_div(p.numerator**k << bits, q.numerator**k) if k <= 64 else None
    if largest is None or powers(ratio, MAX_POINTS, bits)[-1][0] < largest:
        return ratio, MAX_POINTS
    steps = max(8, next(i for i, (low, _) in enumerate(powers(ratio, MAX_POINTS, bits)) if low >= largest))
    under, over = one, max(ratio, ceil_div(largest, 1))
    while over - under > 1:
        middle = (under + over) // 2
        under, over = (under, middle) if powers(middle, steps, bits)[-1][0] >= largest else (middle, over)
    return over, steps


def positions_delta(problem: Bits, count: int, e: int, goal: int) -> int:
    """Return an upper bound of δ for ``count`` changed positions at e^ε ≥ e/2^bits, in units of 2^−bits."""
    bits, n = problem.bits, problem.others
    negligible = max(1, (goal >> 24) // count)
    bound = 1 << bits
    for grain, sharp, most in EFFORTS:
        ratio, steps = grid(problem, grain)
        points = powers(ratio, steps, bits)
        worst = bit_curve(problem, n, 0).values(points)
        points = points[: next((i for i, value in enumerate(worst) if value <= negligible), steps) + 1]
        curve = envelope(problem, points, sharp, most)
        bound = min(bound, composed_delta(curve, points, ratio, bits, count, e, negligible))
        if not goal < bound < goal + goal // CLOSE:
            break
    return bound


def fakes_delta(fakes: int, count: int, bits: int, e: int, goal: int, grain: int = 32) -> int:
    """Return an upper bound of δ for ``count`` clear bits, each among Bin(fakes, 1/2) fake ones."""
    negligible = max(1, (goal >> 24) // count)
    ratio = (1 << bits) + max((2 << bits) // (isqrt(fakes + 1) * grain), 1)
    points = powers(ratio, MAX_POINTS, bits)
    curve = fake_curve(fakes, bits).values(points)
    size = next((i for i, value in enumerate(curve) if value <= max(negligible, curve[-1])), MAX_POINTS) + 1
    return composed_delta(curve[:size], points[:size], ratio, bits, count, e, negligible)


def composed_delta(
    curve: list[int], points: list[tuple[int, int]], ratio: int, bits: int, count: int, e: int, negligible: int
) -> int:
    """Return an upper bound of δ for ``count`` positions with this curve in both orders."""
    loss = from_curve(curve, points, ratio, bits).power(count, negligible)
    wide = powers(ratio, max(0, loss.first + len(loss.masses)), bits)
    return loss.delta(e, lambda i: wide[i][1] if i >= 0 else 1 << bits)


def envelope(problem: Bits, points: list[tuple[int, int]], sharp: int, most: int) -> list[int]:
    """Return upper bounds of H at the points over all crowds, by blocks that are halved where they are not sharp."""
    n = problem.others
    last = len(points) - 1
    attained = [0] * len(points)
    for ones in {0, n, max(n - 1, 0), 3 * n // 4, n // 2}:
        values = bit_curve(problem, ones, n - ones).values(points)
        attained = [max(pair) for pair in zip(attained, values, strict=True)]
    width = ceil_div(n + 1, 64)
    blocks: dict[tuple[int, int], list[int]] = {}

    def add(i: int, j: int) -> None:
        nonlocal attained
        blocks[i, j] = values = bit_curve(problem, i, n - j).values(points)
        if i == j:
            attained = [max(pair) for pair in zip(attained, values, strict=True)]

    for i in range(0, n + 1, width):
        add(i, min(i + width - 1, n))
    for probe in (0, last // 6, last // 3, last // 2, 2 * last // 3):
        while len(blocks) < most:
            limit = attained[probe] + attained[probe] // sharp
            loose = [(i, j) for (i, j), values in blocks.items() if i < j and values[probe] > limit]
            if not loose:
                break
            for i, j in loose:
                del blocks[i, j]
                add(i, (i + j) // 2)
                add((i + j) // 2 + 1, j)
    return [max(values) for values in zip(*blocks.values(), strict=True)]
