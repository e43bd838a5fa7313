"""Split bits: the counts of different positions are independent single-bit crowds, so their losses are composed.

Two records differ in at most h positions. One cover must serve every crowd at every position, in both orders: the
maximum of the curves x ↦ H_x of a *fixed* finite set of crowds that bounds all others by data processing
(:mod:`hubbub.checker.crowds`). A maximum of convex curves is convex, and becomes a cover by its values on a grid of x
(:mod:`hubbub.checker.losses`). Its h-fold composition bounds δ. The choice of the crowds and of the grid decides only
the sharpness of the bound.

**Blocks of crowds.** In a crowd of the block [i, j], w = unit·(j − i) messages are ones or zeros, and the others are
the same in all of it. With F(t) = P(≥ t) − x·Q(≥ t) of those others, H_x of the crowd is the largest mean of F(t − R),
R the number of set ones among the w. That is at most max F = H_x of the others (data processing), but R also has the
variance v = w·p·q in every crowd of the block, since a one and a zero have the variance p·q. Suppose

    F(s) ≤ α − γ·min((s − c)², r²) for all s,  γ ≥ 0,  r² ≥ 7v;   then   H_x ≤ α − γ·(v − (μ + 2v(p − q)²)/(4r²)),

μ = 3v² + v(1 − 6pq) the fourth central moment of R, again that of every crowd. *Proof.* Let Y = t − R, d = E Y − c.
As min(y, r²) ≥ y − y²/(4r²), the mean of min((Y − c)², r²) is at least v + d² − (μ + 4|d|·|μ₃| + 6d²v + d⁴)/(4r²), and
|μ₃| ≤ v(p − q), 4|d|v(p − q) ≤ 2v(d² + (p − q)²): at least v − (μ + 2v(p − q)²)/(4r²) + d²(1 − (8v + d²)/(4r²)), which
proves it if d² ≤ 4r² − 8v. Otherwise |d| ≥ r·√(20/7), and Chebyshev's inequality gives at least r²(1 − v/(|d| − r)²)
≥ r² − 3v ≥ v. As F rises to its maximum and falls after it, the condition is checked for |s − c| < r + 1 alone.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import isqrt

from .crowds import Bits, Watch, silent
from .fixed import binomial, ceil_div, convolve, window
from .losses import from_curve, powers

MAX_POINTS = 4096
EFFORTS = ((32, 128), (32, 512), (64, 2048))
"""Grid points per spread of the loss; a block of crowds may exceed the worst known one by one part in the second. A
later row serves where the bound is close to the goal."""
BLOCKS = 2000
"""Most blocks of crowds; what is left is then covered by a few."""
MAX_SPREAD = 700
"""Largest standard deviation of one position's count, or of several ones' sum, whose crowds are composed."""
CLOSE = (Fraction(5, 4), Fraction(401, 400))
"""A bound is close to the goal if it exceeds it by less than this factor, at the first effort and at others."""


class Curve:
    """H_x of a pair whose ratio P(s)/Q(s) rises in s, at ascending x ≥ 1."""

    def __init__(self, p: Sequence[int], q: Sequence[int], slack: int, mean: int, bits: int, missing: int = 0) -> None:
        """Take lower bounds of P and Q on the same outcomes.

        Entries, and the mass outside, are within ``slack``, but for a mass of ``missing`` in all.
        """
        self.p, self.q, self.slack, self.bits = p, q, slack + missing, bits
        self.p_tails, self.q_tails = ([0, *accumulate(reversed(row))][::-1] for row in (p, q))
        self.all_slack = (len(p) + 2) * slack + missing
        self.mean = min(max(mean, 0), len(p) - 1)

    def tail(self, s: int, x: int) -> int:
        """Return an upper bound of F(s) = P(≥ s) − x·Q(≥ s) at x/2^bits, for a place s of the list."""
        return self.p_tails[s] + self.all_slack - (x * self.q_tails[s] >> self.bits)

    def values(
        self, points: Sequence[tuple[int, int]], block: "Block | None" = None, known: Sequence[int] = ()
    ) -> list[int]:
        """Return upper bounds of H at the points, given by lower and upper bounds in units of 2^−bits.

        With a block, those of all its crowds, of which this curve has the common messages; they need not be sharp where
        they are below the known ones.
        """
        result: list[int] = []
        p, q, slack, bits = self.p, self.q, self.slack, self.bits
        t = self.mean
        while t > 0 and (p[t - 1] + slack << bits) > points[0][0] * q[t - 1]:
            t -= 1
        for place, (low, high) in enumerate(points):
            # All s < t have P ≤ xQ, since t − 1 does, or since there are none in the list.
            while t < len(p) and (p[t] + slack << bits) <= low * q[t]:
                t += 1
            best, s = 0, t
            while True:
                best = max(best, self.tail(s, low))
                if s == len(p) or (p[s] << bits) >= high * (q[s] + slack):
                    if block and best > known[place]:
                        best = min(best, block.largest(self, range(t, s + 1), low))
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


@dataclass(frozen=True, slots=True)
class Block:
    """The messages in which the crowds of a block differ: r, and a lower bound of v − (μ + 2v(p − q)²)/(4r²)."""

    radius: int
    kept: int
    """In units of 2^−20."""

    @classmethod
    def create(cls, messages: int, flip: Fraction) -> "Block | None":
        """Return the block of that many messages, unless nothing can be said about it."""
        noise, odd = flip * (1 - flip), (1 - 2 * flip) ** 2
        v = messages * noise
        radius = isqrt(int(7 * v)) + 1
        kept = int((v - (3 * v * v + v * (1 - 6 * noise) + 2 * v * odd) / (4 * radius**2)) * 2**20)
        return cls(radius, kept) if kept > 0 else None

    def largest(self, curve: Curve, tops: range, x: int) -> int:
        """Return the bound of H over the block at x/2^bits, with the maximum of F in ``tops``.

        The parabola goes through F at its maximum and beside it. Squares of distances are in units of 2^−40.
        """
        nothing, radius = 1 << curve.bits, self.radius
        t = max(tops, key=lambda s: curve.tail(s, x))
        if t - radius < 3 or t + radius + 3 > len(curve.p):
            return nothing
        left, top, right = (curve.tail(s, x) for s in (t - 1, t, t + 1))
        bend = 2 * top - left - right
        if bend <= 0:
            return nothing
        alpha, shift = top + (right - left) ** 2 // (8 * bend) + 1, ((right - left) << 19) // bend
        start, end = min(t - radius - 1, tops[0]), max(t + radius + 1, tops[-1]) + 1
        rows = zip(curve.p_tails[start:end], curve.q_tails[start:end], range(start - t, end - t), strict=True)
        bits, height, far = curve.bits, alpha - curve.all_slack, radius**2 << 40
        gamma = min(
            ((height - p + (x * q >> bits)) << 80) // min(((s << 20) - shift) ** 2 or 1, far) for p, q, s in rows
        )
        return alpha - (gamma * self.kept >> 60) if gamma > 0 else nothing


def bit_curve(problem: Bits, ones: int, zeros: int, cut: int = 0) -> Curve:
    """Return the curve of one crowd of single bits; a mass of ``cut`` may be left out at each end of its two parts."""
    bits = problem.bits
    x, y = problem.crowd(ones, zeros)
    some, others = window(x.low, cut), window(y.low, cut)
    crowd = [mass >> bits for mass in convolve(x.low[some.start : some.stop], y.low[others.start : others.stop])]
    # An entry is rounded down three times, as a sum of both parts, in ``own`` and with it: each time its errors are
    # weighed by what adds up to at most 1. All else that is lacking is missing.
    slack = 3
    rows = []
    for chance in (1 - problem.flip, problem.flip):
        own = [(mass.numerator << bits) // mass.denominator for mass in problem.own(chance)]
        rows.append([mass >> bits for mass in convolve(crowd, own)])
    k = problem.copies
    mean = int(problem.unit * (ones * (1 - problem.flip) + zeros * problem.flip)) + (problem.fair + k) // 2
    mean -= x.first + some.start + y.first + others.start
    # Ends that are left out, and what all entries of both parts lack, and what lies outside of them.
    missing = 4 * cut + (len(x.low) + 1) * x.slack + (len(y.low) + 1) * y.slack
    return Curve(rows[0], rows[1], slack, mean, bits, missing)


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


def positions_delta(problem: Bits, count: int, e: int, goal: int, watch: Watch = silent) -> int:
    """Return an upper bound of δ for ``count`` changed positions at e^ε ≥ e/2^bits, in units of 2^−bits."""
    bits, n = problem.bits, problem.others
    negligible = max(1, (goal >> 24) // count)
    bound = 1 << bits
    for effort, (grain, sharp) in enumerate(EFFORTS):
        ratio, steps = grid(problem, grain)
        points = powers(ratio, steps, bits)
        worst = bit_curve(problem, n, 0).values(points)
        points = points[: next((i for i, value in enumerate(worst) if value <= negligible), steps) + 1]
        curve = envelope(problem, points, sharp, negligible, watch)
        bound = min(bound, composed_delta(curve, points, ratio, bits, count, e, negligible))
        if not goal < bound < goal * CLOSE[effort > 0]:
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


def envelope(
    problem: Bits, points: list[tuple[int, int]], sharp: int, negligible: int, watch: Watch = silent
) -> list[int]:
    """Return upper bounds of H at the points over all crowds.

    Blocks [i, j] follow each other from the crowd of ones downwards. Each is as wide as its bound at some probes stays
    within one part in ``sharp`` of the worst known crowd; leaving out the messages of a block raises H in proportion to
    their number. The crowd of ones, mostly the worst, is evaluated at all points, the blocks at a few: between them the
    chord lies above the curve, since H is convex in x. Nothing but the sharpness rests on the choices.
    """
    n = problem.others
    cut = negligible >> 8
    worst = bit_curve(problem, n, 0, cut).values(points)
    places = chords(worst, points, 4 * sharp)
    few = [points[i] for i in places]
    probes = sorted({bisect_left(places, share * (len(points) - 1) // 12) for share in range(9)})

    attained = [worst[i] for i in places]

    def values(i: int, j: int) -> list[int]:
        return bit_curve(problem, i, n - j, cut).values(
            few, Block.create(problem.unit * (j - i), problem.flip), attained
        )

    for ones in {0, max(n - 1, 0), 3 * n // 4, n // 2} - {n}:
        attained = [max(pair) for pair in zip(attained, values(ones, ones), strict=True)]
    part = ceil_div(n, 32)
    fewer = bit_curve(problem, n - part, 0, cut).values(few)
    rises = [max(1, (fewer[p] - worst[places[p]]) // max(part, 1)) for p in probes]  # by each message left out
    highest, j, width, most = [0] * len(few), n - 1, 1, BLOCKS
    while j >= 0:
        i = max(0, j - width + 1)
        found = values(i, j)
        most -= 1
        spare = [attained[p] + attained[p] // sharp - found[p] for p in probes]
        if i < j and min(spare) < 0 and most > 0:
            width = (j - i + 1) // 2
            continue
        if i == j:
            attained = [max(pair) for pair in zip(attained, found, strict=True)]
        highest = [max(pair) for pair in zip(highest, found, strict=True)]
        more = min(space // rise for space, rise in zip(spare, rises, strict=True))
        width = max(1, min(width + more, 16 * width)) if most > 0 else ceil_div(n, 16)
        j = i - 1
        watch(n - i, n)
    return convex([max(pair) for pair in zip(worst, between(highest, places, points), strict=True)], points)


def convex(bounds: Sequence[int], points: Sequence[tuple[int, int]]) -> list[int]:
    """Return the bounds lowered to the chords of their convex hull: the largest H over all crowds is convex in x too.

    Where bounds are not convex, by the sharpness of their blocks, a cover of them has mass that no crowd has.
    """
    places: list[int] = []
    for i, value in enumerate(bounds):
        while len(places) > 1:
            a, b = places[-2:]
            rise, next_rise = bounds[b] - bounds[a], value - bounds[b]
            if rise * (points[i][0] - points[b][0]) < next_rise * (points[b][0] - points[a][0]):
                break
            places.pop()
        places.append(i)
    chords = between([bounds[i] for i in places], places, points)
    return [min(pair) for pair in zip(bounds, chords, strict=True)]


def chords(curve: Sequence[int], points: Sequence[tuple[int, int]], sharp: int) -> list[int]:
    """Return some of the places, ends included, whose chords are at most about a ``sharp``-th above the curve."""
    places, stride = [0], 1
    while places[-1] < len(curve) - 1:
        start = places[-1]
        stride = min(2 * stride, len(curve) - 1 - start)
        while stride > 1:
            middle, end = start + stride // 2, start + stride
            height = between([curve[start], curve[end]], [0, stride], points[start : end + 1])[stride // 2]
            if (height - curve[middle]) * sharp <= curve[middle]:
                break
            stride //= 2
        places.append(start + stride)
    return places


def between(few: Sequence[int], places: Sequence[int], points: Sequence[tuple[int, int]]) -> list[int]:
    """Return upper bounds at all points of the broken line through values that fall, at these places.

    The share of the first of two values, (z − x)/(z − y) for y ≤ x ≤ z, rises with y and z, and falls with x.
    """
    result = [few[0]]
    for (start, end), (first, second) in zip(pairwise(places), pairwise(few), strict=True):
        fall, z = max(0, first - second), points[end][1]
        width = z - points[start][1]
        result += [second + ceil_div(fall * (z - points[i][0]), width) for i in range(start + 1, end)]
        result.append(second)
    return result
