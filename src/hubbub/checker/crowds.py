"""Single bits: δ(ε) of one user's k messages among the set or unset messages of all others, for every crowd.

The analyzer sees how many messages are set. A set bit is sent as set with probability p = 1 − q, an unset one with q.
If ``ones`` of the others' N messages stem from set bits, and A ~ Bin(ones, p) + Bin(N − ones, q), then

    H_x = Σ_s (P(s) − x·Q(s))⁺,      P = A + Bin(k, p),   Q = A + Bin(k, q).

- P(s)/Q(s) rises in s: a Bernoulli(p) against a Bernoulli(q) has this property, and adding an independent sum of
  Bernoulli variables, whose distribution is log-concave, keeps it. So P − xQ changes its sign once, at some t, and
  H_x = F(t), F(t) = P(≥ t) − x·Q(≥ t), which is the maximum of F.
- The opposite order of a pair exchanges ones and zeros, so all values of ``ones`` cover both orders.
- *All crowds.* Every crowd with i ≤ ones ≤ j consists of i ones, N − j zeros and j − i further messages. The latter are
  independent of the protected record, so that leaving them out can only raise H_x (data processing). A block [i, j]
  is therefore bounded by the crowd (i, N − j), and blocks are halved until the bound is sharp enough.
- *Fair fakes.* A uniform bit stays uniform if it is flipped, so m of them add a Bin(m, 1/2) to A. It is a sum of
  Bernoulli variables, symmetric under the exchange of ones and zeros, and independent of all records: the three
  statements above hold with it.

Probabilities are sums of positive products of binomial probabilities that are known to an absolute error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, isqrt
from operator import mul

from .fixed import Masses, binomial, ceil_div, ceil_shift

MAX_WORK = 12 * 10**7
"""Largest number of products that a search over crowds may take, about half a minute."""


Watch = Callable[[int, int], None]
"""Told the work done so far, and all of it."""


def silent(done: int, total: int) -> None:
    """Tell nobody."""


class TooMuchWork(Exception):
    """The evaluation would take longer than a minute."""


class NoTheorem(Exception):
    """No theorem of this checker applies, for the reason given."""


@dataclass(frozen=True, slots=True)
class Bits:
    """One user's k copies of a bit among others, all flipped with probability ``flip``.

    There are ``others`` further bits, each sent ``unit`` times: users if unit = k, single messages if unit = 1. The
    latter include the former, and fakes, whatever these hold. ``fair`` further messages are uniform bits.
    """

    flip: Fraction
    copies: int
    others: int
    unit: int
    bits: int
    fair: int = 0

    @property
    def variance(self) -> Fraction:
        """The variance of the others' set messages."""
        return self.others * self.unit * self.flip * (1 - self.flip) + Fraction(self.fair, 4)

    def own(self, chance: Fraction) -> list[Fraction]:
        """Return the exact distribution of the user's set messages."""
        k = self.copies
        return [comb(k, j) * chance**j * (1 - chance) ** (k - j) for j in range(k + 1)]

    def crowd(self, ones: int, zeros: int) -> tuple[Masses, Masses]:
        """Return the distributions of the set messages that stem from ones, and from zeros or fair fakes."""
        unit, q = self.unit, self.flip
        rest = binomial(zeros * unit, q, self.bits)
        if self.fair:
            rest = rest.plus(binomial(self.fair, Fraction(1, 2), self.bits))
        return binomial(ones * unit, 1 - q, self.bits), rest


class Pair:
    """F and the sign of P − xQ for one crowd and one rational x, by sums over one index."""

    def __init__(self, problem: Bits, x: Fraction, ones: int, zeros: int) -> None:
        self.bits = bits = problem.bits
        scale = 1 << bits
        kept, flipped = problem.own(1 - problem.flip), problem.own(problem.flip)
        gains = [(a - x * b) * scale for a, b in zip(kept, flipped, strict=True)]
        self.gains_low = [gain.numerator // gain.denominator for gain in gains]
        self.gains_high = [ceil_div(gain.numerator, gain.denominator) for gain in gains]
        self.x, self.y = problem.crowd(ones, zeros)
        self.tails = self.y.tails()
        self.reversed_y, self.reversed_tails = self.y.low[::-1], self.tails[::-1]
        self.x_tails = self.x.tails()
        lx, ly = len(self.x.low), len(self.y.low)
        self.point_slack = 2 * (self.x.slack + self.y.slack) + 4
        self.tail_slack = (lx + 2) * self.x.slack + (ly + 2) * self.y.slack + 4
        self.points: dict[int, int] = {}

    def point(self, s: int) -> int:
        """Return a lower bound of P(A = s); the upper bound is ``point_slack`` above."""
        if s not in self.points:
            self.points[s] = self._dot(self.reversed_y, len(self.y.low), s) >> self.bits
        return self.points[s]

    def tail(self, t: int) -> int:
        """Return a lower bound of P(A ≥ t); the upper bound is ``tail_slack`` above."""
        # P(Y ≥ t − i) is 1 for i > t − first, up to slack; the list of tails has one more entry, which is 0.
        certain = min(max(t - self.y.first + 1 - self.x.first, 0), len(self.x.low))
        sure = self.x_tails[certain] * self.tails[0]
        return (self._dot(self.reversed_tails, len(self.tails), t) + sure) >> self.bits

    def _dot(self, reversed_row: Sequence[int], size: int, s: int) -> int:
        """Return Σ_i x_i·row(s − i), ``row`` beginning at y.first and given in reverse."""
        # The entry for x index i is reversed_row[size − 1 − (s − x.first − i − y.first)].
        offset = size - 1 - (s - self.x.first - self.y.first)
        start, end = max(0, -offset), min(len(self.x.low), size - offset)
        if start >= end:
            return 0
        return sum(map(mul, self.x.low[start:end], reversed_row[start + offset : end + offset]))

    def sign_high(self, s: int) -> int:
        """Return an upper bound of P(s) − x·Q(s), scaled by 4^bits."""
        return sum(
            gain * (self.point(s - j) + (self.point_slack if gain > 0 else 0)) for j, gain in enumerate(self.gains_high)
        )

    def sign_low(self, s: int) -> int:
        """Return a lower bound of P(s) − x·Q(s), scaled by 4^bits."""
        return sum(
            gain * (self.point(s - j) + (self.point_slack if gain < 0 else 0)) for j, gain in enumerate(self.gains_low)
        )

    def gain(self, t: int, *, upper: bool) -> int:
        """Return an upper or lower bound of F(t) in units of 2^−bits: Σ_j gain_j·P(A ≥ t − j)."""
        low, total = self.tail(t), 0
        for j, one in enumerate(self.gains_high if upper else self.gains_low):
            low += self.point(t - j) if j else 0
            # All that both parts lack is in ``tail_slack``; each point is rounded down once more.
            slack = self.tail_slack + j if (one > 0) == upper else 0
            total += one * (low + slack)
        return ceil_shift(total, self.bits) if upper else total >> self.bits


def _threshold(problem: Bits, x: Fraction, ones: int, zeros: int) -> tuple[int, int]:
    """Return an estimate of t, and the mean of A: nothing rests on either.

    Tilted by λ^s, λ = (yp − q)/(p − yq) with y ≈ x^(1/k), both distributions of the user have equal mass, and P − xQ
    changes its sign near the mean of the tilted distributions.
    """
    q, k = problem.flip, problem.copies
    p = 1 - q
    y = x
    if k > 1:
        low, high = Fraction(1), min(x, p / q)
        for _ in range(60):
            middle = Fraction(int((low + high) * 2**79), 2**80)
            low, high = (middle, high) if _rough_power(middle, k) < x else (low, middle)
        y = high
    if y * q >= p:
        every = problem.unit * (ones + zeros) + problem.fair
        return every + k, every
    tilt = (y * p - q) / (p - y * q)
    up, down = p * tilt / (q + p * tilt), q * tilt / (p + q * tilt)
    mean = problem.unit * (ones * up + zeros * down) + problem.fair * tilt / (1 + tilt) + (k * (up + down) - 1) / 2
    return int(mean) + 1, int(problem.unit * (ones * p + zeros * q)) + problem.fair // 2


def _rough_power(base: Fraction, exponent: int) -> Fraction:
    result = Fraction(1)
    for digit in bin(exponent)[2:]:
        result *= result * base if digit == "1" else result
        result = Fraction(int(result * 2**80), 2**80)
    return result


def crowd_delta(problem: Bits, x: Fraction, ones: int, zeros: int) -> tuple[int, int]:
    """Return lower and upper bounds of H_x of one crowd, in units of 2^−bits."""
    pair = Pair(problem, x, ones, zeros)
    t, mean = _threshold(problem, x, ones, zeros)
    for _ in range(40):  # all s < t must have P − xQ ≤ 0: one non-positive value proves it for all smaller ones
        if pair.sign_high(t - 1) <= 0 or t == 0:
            break
        t -= 1
    else:  # too far in the tail for the precision: any smaller t gives a bound that may be small enough
        for part in (4, 3, 2, 1):
            t = mean + (t - mean) * part // 5
            if pair.sign_high(t - 1) <= 0:
                return 0, pair.tail(t - problem.copies) + pair.tail_slack
        return 0, 1 << problem.bits
    while pair.sign_high(t) <= 0 and t <= problem.unit * (ones + zeros) + problem.fair + problem.copies:
        t += 1
    candidates = next((range(t, t + j + 1) for j in range(3) if pair.sign_low(t + j) >= 0), None)
    if candidates is None:
        return 0, pair.tail(t - problem.copies) + pair.tail_slack
    low = max(pair.gain(s, upper=False) for s in candidates)
    return max(0, low), max(pair.gain(s, upper=True) for s in candidates)


def supremum(problem: Bits, x_low: Fraction, x_high: Fraction, goal: int) -> tuple[int, int]:
    """Return (a lower bound of one crowd's H, an upper bound for all crowds), in units of 2^−bits.

    x lies in [x_low, x_high]. The search ends when all blocks are at most ``goal``, or at the first crowd whose bound
    exceeds it; then the upper bound is 1, because other crowds may be worse.
    """
    n = problem.others
    work = _work(problem, n, 0)
    if work > MAX_WORK:
        raise TooMuchWork
    first, _ = crowd_delta(problem, x_high, n, 0)
    if first > goal:
        return first, 1 << problem.bits
    worst, blocks = 0, [(0, n)]
    while blocks:
        i, j = blocks.pop()
        work += _work(problem, i, n - j)
        if work > MAX_WORK:
            raise TooMuchWork
        upper = crowd_delta(problem, x_low, i, n - j)[1]
        if upper <= goal:
            worst = max(worst, upper)
        elif i == j:
            return max(first, crowd_delta(problem, x_high, i, n - j)[0]), 1 << problem.bits
        else:
            middle = (i + j) // 2
            blocks += [(i, middle), (middle + 1, j)]
    return first, worst


def _work(problem: Bits, ones: int, zeros: int) -> int:
    noise = problem.unit * problem.flip * (1 - problem.flip)
    spread = isqrt(int((ones + zeros) * noise)) + 1
    small, large = sorted((isqrt(int(zeros * noise)), isqrt(problem.fair // 4)))
    return spread * isqrt(problem.bits) * (12 + 2 * problem.copies) + 320 * large * (isqrt(small) + 1) * (
        problem.fair > 0
    )
