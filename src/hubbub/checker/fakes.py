"""Clear records among fakes: δ(ε) from the distribution of the fakes alone, for every collection.

**Users' fakes.** The others' records are in the clear and cancel. Of the two records in question, N uniform fakes hold
one or the other, A ~ Bin(N, 1/2) the first: the analyzer compares (A + 1, N − A) with (A, N − A + 1). The ratio of
their probabilities, a/(N + 1 − a) at a first counts, rises in a. So the best event is a threshold k on that count,

    f(N) = Pr(A ≥ k − 1) − x·Pr(A ≥ k),     k the least count with k/(N + 1 − k) > x,    δ(ε) = E f(N),   x = e^ε.

The total number of fakes is the same in both collections, so that averaging over it is exact. Each of m fakes holds one
of the two records with probability 2/d: N ~ Bin(m, 2/d), Bin(m, 2s/d) after thinning by s, or Poisson(2λ/d).

**The shuffler's fakes.** A count hidden by K fakes falls or rises by one: K against K + 1, or K + 1 against K. With
P(K) ∝ e^(−u|K − c|), u = 1/scale (Laplace), or e^(−u(K − c)²), u = 1/(2·scale²) (Gaussian), on K ≥ 0, the losses are
whole multiples of u. On that grid, composing counts is exact. A fall at K = 0 has an infinite loss, of mass P(0).

*Any direction* (envelope). For x ≥ 1, H_x(fall) ≥ H_x(rise): with w_t = P(c ± t), a fall is P(0) plus the sum of
(w_{t−1} − x·w_t)⁺ over 1 ≤ t ≤ c, and a rise is that sum over all t without P(0); its terms of t > c are at most
Σ (w_{t−1} − w_t) = w_c = P(0) in total. For x ≤ 1 the reverse holds, because the reversed pair of a rise is a fall. So
the fall's losses above 0, the rise's below 0, and the rest of the mass at 0 cover both; at x = 1 the curves meet.
"""

from fractions import Fraction
from math import isqrt

from .crowds import TooMuchWork
from .fixed import Masses, binomial, ceil_div, ceil_shift, exp_bounds
from .losses import Loss

MAX_WINDOW = 10**6


def mean_gain(numbers: Masses, x: Fraction) -> tuple[int, int]:
    """Return bounds of E f(N) at a rational x ≥ 1, in units of 2^−bits, for N with the distribution ``numbers``.

    From N to N + 1: Pr(A ≥ k) grows by ½·Pr(A = k − 1), and Pr(A = k − 1) by the factor (N + 1)/(2(N − k + 2)).
    From k to k + 1: Pr(A ≥ k) falls by Pr(A = k) = Pr(A = k − 1)·(N − k + 1)/k.
    """
    bits, first = numbers.bits, numbers.first
    guard = bits + 64
    n, k = first, _threshold(first, x)
    start = binomial(n, Fraction(1, 2), guard)
    tails = start.tails()
    place = k - start.first
    tail_low = tails[min(max(place, 0), len(tails) - 1)]
    tail_high = tail_low + (len(start.low) + 2) * start.slack
    at_low = start.low[place - 1] if 0 <= place - 1 < len(start.low) else 0
    at_high = at_low + start.slack
    low_total = high_total = 0
    for mass in numbers.low:
        gain_low = tail_low + at_low - ceil_div(tail_high * x.numerator, x.denominator)
        gain_high = tail_high + at_high - tail_low * x.numerator // x.denominator
        low_total += mass * max(0, gain_low)
        high_total += (mass + numbers.slack) * max(0, gain_high)
        tail_low, tail_high = tail_low + at_low // 2, tail_high + ceil_div(at_high, 2)
        at_low, at_high = at_low * (n + 1) // (2 * (n - k + 2)), ceil_div(at_high * (n + 1), 2 * (n - k + 2))
        n += 1
        while k < _threshold(n, x):
            at_low, at_high = at_low * (n - k + 1) // k, ceil_div(at_high * (n - k + 1), k)
            tail_low, tail_high = tail_low - at_high, tail_high - at_low
            k += 1
    return low_total >> guard, ceil_shift(high_total, guard) + numbers.slack


def _threshold(n: int, x: Fraction) -> int:
    """Return the least k with k > x·(n + 1 − k)."""
    return x.numerator * (n + 1) // (x.numerator + x.denominator) + 1


def steps(name: str, scale: Fraction, shift: int, bits: int) -> tuple[Loss, Loss, Fraction]:
    """Return covers of a count that falls and of one that rises, on the points e^(u·i), and u."""
    return _laplace(scale, shift, bits) if name == "laplace" else _gaussian(scale, shift, bits)


def _laplace(scale: Fraction, shift: int, bits: int) -> tuple[Loss, Loss, Fraction]:
    """Sum the geometric series: with a = e^(−u) and D = 1 + a − a^(c+1), P(0) = a^c·(1 − a)/D, and so on."""
    u, one = 1 / scale, 1 << bits
    low, high = exp_bounds(-u, bits)
    cut_low, cut_high = exp_bounds(-u * shift, bits)
    whole = one + low - ceil_shift(cut_high * high, bits)

    def mass(numerator: int) -> int:
        return ceil_div(max(numerator, 0) << bits, whole)

    zero = mass(ceil_shift(cut_high * (one - low), bits))
    fall = Loss(-1, [mass(high), 0, mass(one - cut_low)], zero, bits)
    rise = Loss(-1, [mass(high - (cut_low * low >> bits)), 0, mass(one)], 0, bits)
    return fall, rise, u


def _gaussian(scale: Fraction, shift: int, bits: int) -> tuple[Loss, Loss, Fraction]:
    """Multiply ratios e^(−(2j+1)u) outwards from the centre; the weights beyond the last are a geometric series."""
    u = 1 / (2 * scale * scale)
    work = bits + 32
    ratio_low, ratio_high = exp_bounds(-u, work)
    square_low, square_high = exp_bounds(-2 * u, work)
    lows, highs = [1 << work], [1 << work]
    while lows[-1] > 2**16:
        lows.append(lows[-1] * ratio_low >> work)
        highs.append(ceil_shift(highs[-1] * ratio_high, work))
        ratio_low, ratio_high = ratio_low * square_low >> work, ceil_shift(ratio_high * square_high, work)
        if len(lows) > MAX_WINDOW:
            raise TooMuchWork
    reach = len(lows) - 1
    left = min(shift, reach)
    whole = lows[0] + sum(lows[1:]) + sum(lows[1 : left + 1])
    beyond = ceil_div((2 * highs[-1] * ratio_high << bits), max(1, (1 << work) - ratio_high) * whole) + 1
    scaled = [ceil_div(high << bits, whole) for high in highs]
    # Offsets j = K − c from −left to reach. A fall to K has the loss −(2j − 1)u, a rise from K the loss (2j + 1)u.
    masses = [scaled[abs(j)] for j in range(-left, reach + 1)]
    zero = scaled[shift] if shift <= reach else beyond
    fall = [0] * (2 * len(masses) - 1)
    fall[::2] = reversed(masses)
    rise = [0] * (2 * len(masses) - 1)
    rise[::2] = masses
    if shift <= reach:
        fall[-1] = 0  # K = 0 cannot result from a count that was one lower
    falling = Loss(1 - 2 * reach, fall, zero + 2 * beyond, bits)
    return falling, Loss(1 - 2 * left, rise, 2 * beyond, bits), u


def either(fall: Loss, rise: Loss) -> Loss:
    """Return the cover of a count that falls and of one that rises: see the envelope above."""
    high = [*fall.masses[max(0, 1 - fall.first) :]]
    low = [*rise.masses[: max(0, -rise.first)]]
    rest = (1 << fall.bits) - sum(low) - sum(high) - fall.infinite
    # Masses err upwards by at most the excess of their sum over 1, which the rest must not lose.
    excess = sum(fall.masses) + fall.infinite + sum(rise.masses) + rise.infinite - (2 << fall.bits)
    return Loss(
        min(0, rise.first), [*low, max(0, rest) + max(0, excess), *high], fall.infinite + rise.infinite, fall.bits
    )


def thin(loss: Loss, factor: int, u: Fraction, bits: int) -> Loss:
    """Return a cover on the points e^(factor·u·i): an atom between two points is split so that E e^(−loss) is kept.

    The chord of (1 − x/x_l)⁺ between the neighbours a ≤ l ≤ b lies above it: the share (1 − a/l)/(1 − a/b) goes to b.
    """
    first = loss.first // factor
    masses = [0] * ((loss.first + len(loss.masses) - 1) // factor - first + 2)
    whole = (1 << bits) - exp_bounds(-u * factor, bits)[1]
    shares = [ceil_div((1 << bits) - exp_bounds(-u * i, bits)[0] << bits, whole) for i in range(factor)]
    for i, mass in enumerate(loss.masses, loss.first):
        node, rest = divmod(i, factor)
        upper = ceil_shift(mass * shares[rest], bits)
        masses[node - first] += max(0, mass - upper) + 1
        masses[node - first + 1] += upper
    return Loss(first, masses, loss.infinite, bits)


def coarseness(name: str, scale: Fraction, count: int) -> int:
    """Return the factor by which the grid of a Gaussian is thinned, so that a composition has some 50,000 points."""
    return int(scale * isqrt(count)) // 2000 + 1 if name == "gaussian" else 1
