"""One pair of neighbouring crowds of single bits in k copies: two-sided bounds on δ(ε) by a tilted Fourier sum.

Tilted by e^{θs}, e^θ = (e^{ε/k} p − q)/(p − e^{ε/k} q), the tail of :mod:`hubbub.accountant.theorems.bit` becomes
M·e^{−θt}·h(t) with a Fourier integral h for which about twenty nodes suffice. The M-point trapezoid rule adds up h at
t + lM over all integers l: images above t are non-negative, those below at least −(e^ε − 1)e^{θ(t − lM)}/M, which is
added back: an *upper bound by construction*. Bernstein's inequality bounds the images for the lower bound. Dropped
nodes are bounded by ``|φ(w)| ≤ exp(−v(1 − cos w))``, v the variance of the tilted crowd. Rounding errors, ``ULPS`` of
every exponent and of every term that cancels, are added to the upper and subtracted from the lower bound.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial_pmf

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Flags = NDArray[np.bool_]
Whole = NDArray[np.intp]

UNIT = 2.0**-53
ULPS = 32 * UNIT  # relative error allowed for in every exponent: 32 half-units in the last place
SPAN = 12.0  # standard deviations between a threshold and its nearest alias
DECAY = 42.0  # dropped nodes weigh less than e^−42 of the largest
ENUMERATED = 400  # largest number of bits of a crowd that is enumerated
RELATIVE = 1e-11  # above the relative error of the probabilities of a convolution of that size
SMALLEST = 1e-300  # above all that underflows
STEEPEST = 600.0  # ε/k is lowered to this, so that likelihood ratios stay finite


@dataclass(frozen=True, slots=True)
class Tilt:
    """The tilted distributions for (q, k) and every ε of a list, and the logarithms of their masses."""

    q: float
    k: int
    epsilon: Floats
    theta: Floats
    high: Floats  # P(bit = 1) of a one, tilted
    low: Floats  # P(bit = 1) of a zero, tilted
    gap: Floats  # high − low, without cancellation
    mass_one: Floats  # log E e^{θ·bit} of a one
    mass_zero: Floats
    var_one: Floats
    var_zero: Floats
    even: Floats  # P(bit = 1) of a uniform bit, tilted
    mass_even: Floats
    var_even: Floats

    def of(self, pairs: Whole) -> "Tilt":
        """Return the tilts with these numbers, one for each pair; a single one is that of all pairs."""
        if len(self.epsilon) == 1:
            return self
        return Tilt(self.q, self.k, *(getattr(self, one.name)[pairs] for one in fields(self)[2:]))


def tilted(q: float, k: int, epsilon: Floats, side: int) -> tuple[Tilt, Flags]:
    """Return the tilts for (q, k, ε), and for which ε there is one.

    There is none where δ = 0, or where nothing positive is known for ``side`` = −1.

    p − e^{ε/k} q = (1 − 2q) − q·(e^{ε/k} − 1) cancels next to the pure ε, where δ is proportional to it. Therefore ε is
    first lowered by more than the rounding errors of that difference, or raised for ``side`` = −1: δ falls with ε, and
    the result errs upwards or downwards. Elsewhere the difference is as precise as its terms.
    """
    exponent = epsilon / k * (1.0 - side * 2 * ULPS)
    known = np.full(exponent.shape, True) if side > 0 else exponent <= STEEPEST
    exponent = np.minimum(exponent, STEEPEST)
    p, change = 1.0 - q, portable.expm1(exponent)
    left = (1.0 - 2 * q) - q * change
    known &= left > 0.0
    exponent, change, left = exponent[known], change[known], left[known]
    grow = change / left  # λ − 1, without cancellation
    lam = 1.0 + grow
    one, zero = q + p * lam, p + q * lam
    high, low = p * lam / one, q * lam / zero
    tilt = Tilt(
        q=q,
        k=k,
        epsilon=k * exponent,
        theta=portable.log1p(grow),
        high=high,
        low=low,
        gap=lam / one * ((1.0 - 2 * q) / zero),
        mass_one=portable.log1p(p * grow),
        mass_zero=portable.log1p(q * grow),
        var_one=high * (q / one),
        var_zero=low * (p / zero),
        even=lam / (1.0 + lam),
        mass_even=portable.log1p(grow / 2),
        var_even=lam / (1.0 + lam) / (1.0 + lam),
    )
    return tilt, known


def log_exponent(tilt: Tilt, ones: Floats, zeros: Floats, fair: int = 0) -> Floats:
    """Return ln(M·e^{−θ·mean}), the largest exponent of δ, summed without cancellation between large terms."""
    one, zero = tilt.mass_one - tilt.theta * tilt.high, tilt.mass_zero - tilt.theta * tilt.low
    return tilt.k * (ones * one + zeros * zero + tilt.mass_one) + fair * (tilt.mass_even - tilt.theta * tilt.even)


def _tail(variance: Floats, distance: Floats) -> Floats:
    """Return Bernstein's bound on P[X ≥ E X + distance] and P[X ≤ E X − distance] of a sum of independent bits."""
    y = np.maximum(distance, 0.0)
    return np.asarray(portable.exp(-(y**2) / (2 * (variance + y / 3) + 1e-300)))


def enumerated(ones: int, zeros: int, q: float, epsilon: float, k: int, fair: int = 0) -> float:
    """Return a lower bound on ln δ of one crowd by its definition; for small crowds, or a single user.

    >>> round(math.exp(enumerated(1, 0, 0.25, 0.0, 1)), 9)
    0.375
    """
    flips = {size: binomial_pmf(size, q) for size in (k * ones, k * zeros, k)}
    crowd = portable.convolve(portable.convolve(flips[k * ones][::-1], flips[k * zeros]), binomial_pmf(fair, 0.5))
    first, second = portable.convolve(crowd, flips[k][::-1]), portable.convolve(crowd, flips[k])
    relative = RELATIVE * (1.0 + (k * (ones + zeros + 1) + fair) / ENUMERATED)
    with np.errstate(over="ignore"):
        gain = first * (1.0 - relative) - portable.exp(epsilon + relative + portable.log(second + SMALLEST))
    delta = float(gain[gain > 0].sum()) * (1.0 - relative)
    return math.log(delta) if delta > 0.0 else -math.inf


class Window:
    """The nodes w = 2πj/M of the trapezoid rule for pairs whose tilted variances are of similar size.

    Every crowd has ``fair`` uniform bits besides those of ``ones`` and ``zeros``, which are multiples of 1/k. Pair i
    has the tilt number ``which[i]``.
    """

    def __init__(self, tilts: Tilt, which: Whole, ones: Floats, zeros: Floats, fair: int = 0) -> None:
        self.tilts, self.which, self.ones, self.zeros, self.fair = tilts, which, ones, zeros, fair
        tilt = self.tilt = tilts.of(which)
        k = tilt.k
        self.mean = k * (ones * tilt.high + zeros * tilt.low) + fair * tilt.even
        self.variance = k * (ones * tilt.var_one + zeros * tilt.var_zero) + fair * tilt.var_even
        self.base = log_exponent(tilt, ones, zeros, fair)
        narrow, wide = float(self.variance.min()), float(self.variance.max())
        size = math.ceil(SPAN * math.sqrt(wide)) + 24 + 4 * k
        # Far in the tail the images below lie within the untilted distribution, and must still be small beside δ.
        deep = tilt.theta**2 * wide > 4.0
        if deep.any():
            needed = (DECAY - self.base) / np.where(deep, tilt.theta, math.inf)
            size = max(size, math.ceil(float(needed.max())))
        support = round(k * float((ones + zeros).max())) + fair + k + 2
        self.whole = size >= support  # then all images lie outside of the support
        self.size = min(support, size)
        cosine = 1.0 - DECAY / narrow if narrow > 0.0 else -1.0
        reach = math.acos(cosine) if cosine > -1.0 else math.pi
        count = min(self.size // 2, math.ceil(reach * self.size / (2 * math.pi)))
        nodes = np.arange(1, count + 1)
        self.w = 2 * np.pi / self.size * nodes
        self.half = portable.sin(self.w / 2)
        self.weight = np.full(count, 2.0 / self.size)
        if 2 * count == self.size:
            self.weight[-1] /= 2
        # A node weighs at most exp(−v(1 − cos w)); phases are off by units of mean·w, powers by units of variance·w².
        fall = 2 * self.half**2
        sizes = self.weight * portable.exp(-narrow * fall)
        noise = float(sizes.sum()) * (8.0 + (k + count) / 8) + float((sizes * self.w**2).sum()) * wide
        self.error = ULPS * (self.mean * float((sizes * self.w).sum()) + noise)
        if 2 * count < self.size - 1:  # nodes were dropped
            self.error += portable.exp(-self.variance * fall[-1])

    def _factors(self) -> Complexes:
        """Return ln E e^{iw(bit − chance)} of a one, a zero and a uniform bit, each times its copies, for every tilt.

        The relative errors are small also for small w.
        """
        tilt = self.tilts
        chance = np.array([tilt.high, tilt.low, tilt.even])[:, :, None]
        times = np.array([[[float(tilt.k)]], [[float(tilt.k)]], [[float(self.fair)]]])
        square, sine = self.half**2, chance * portable.sin(self.w)
        real = 1.0 - 2 * chance * square
        fall = np.array([tilt.var_one, tilt.var_zero, tilt.var_even])[:, :, None] * (4.0 * square)
        size = 0.5 * portable.log1p(-np.minimum(fall, 0.5))
        if fall[..., -1].max() >= 0.5:
            size = np.where(fall < 0.5, size, portable.log(np.hypot(real, sine) + 1e-300))
        return np.asarray(times * (size + 1j * (portable.arctan2(sine, real) - self.w * chance)), dtype=np.complex128)

    def _own(self) -> Complexes:
        """Return the weighted difference of the user's two distributions at the nodes, by tilt."""
        tilt, turn = self.tilts, portable.expm1(1j * self.w)
        own = turn * (self.weight * tilt.gap[:, None])
        if tilt.k > 1:  # a^k − b^k = (a − b)·Σ a^i b^(k−1−i)
            a, b = 1.0 + tilt.high[:, None] * turn, 1.0 + tilt.low[:, None] * turn
            total, power = np.ones_like(a), np.ones_like(a)
            for _ in range(tilt.k - 1):
                power = portable.times(power, b)
                total = portable.times(total, a) + power
            own = portable.times(own, total)
        return np.asarray(own)

    def _each(self, values: Complexes) -> Complexes:
        """Return the rows of every pair, given those of every tilt."""
        return values if len(values) == 1 else values[self.which]

    def sums(self, start: Floats, count: int) -> tuple[Floats, Floats]:
        """Return the sums of nodes for h(t), and for the tilted P(t) − Q(t), at ``count`` thresholds from ``start``."""
        one, zero, even = map(self._each, self._factors())
        own = self._own()
        kernel = own / -portable.expm1(-self.tilts.theta[:, None] - 1j * self.w)
        turned = even - 1j * np.outer(start - self.mean, self.w)
        crowd = portable.exp(self.ones[:, None] * one + self.zeros[:, None] * zero + turned)
        h = self._turned(portable.times(crowd, self._each(kernel)), count)
        return h, self._turned(portable.times(crowd, self._each(own)), count) if self.tilts.k > 1 else h

    def _turned(self, values: Complexes, count: int) -> Floats:
        """Return the real parts of the sums of nodes, turned by 0 to ``count`` − 1 steps.

        A product of matrices would be rounded differently by each kind of processor, and with it the ids of plans.
        """
        angles = [self.w * step for step in range(count)]
        parts = [values.real * np.cos(angle) + values.imag * portable.sin(angle) for angle in angles]
        return np.stack([part.sum(axis=1) for part in parts], axis=1)

    def bound(self, side: int) -> Floats:
        """Return upper bounds on ln δ of every pair, or lower bounds for ``side`` = −1."""
        tilt, k, theta = self.tilt, self.tilt.k, self.tilt.theta
        # The mode of the tilted crowd is ⌊mean⌋ or ⌈mean⌉ (Darroch). P − Q is negative up to the mode, because the
        # crowd's distribution rises there, and positive from mode + k on: the best threshold lies in between.
        doubt = ULPS * self.mean
        start = np.floor(self.mean - doubt) + 1.0
        count = k + 1 + int((np.floor(self.mean + doubt) + 1.0 - start).max())
        h, difference = self.sums(start, count)
        h += (side * k * tilt.gap * portable.exp(theta / 2) * self.error)[:, None]
        if k > 1 and side > 0:
            h[self._excluded(start, difference)] = -math.inf
        fall = theta[:, None] * np.arange(count)
        scale = self.base - theta * (start - self.mean)
        images = self._added(scale, side)
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            gain = (h * portable.exp(-fall)).max(axis=1) + portable.exp(images)
            log_gain = portable.log(np.maximum(gain - (0.0 if side > 0 else self._images(start, scale)), 0.0))
            apart = theta * count >= STEEPEST  # the thresholds are too far apart for one scale
            if apart.any():
                each = portable.log(np.maximum(h, 0.0)) - fall
                sums = np.logaddexp(each.max(axis=1), images) if side > 0 else np.full(len(h), -math.inf)
                log_gain = np.where(apart, sums, log_gain)
        rounding = ULPS * (2 * theta * (self.mean + 4.0 * k) + 64.0)
        value = scale + side * rounding + np.maximum(log_gain, math.log(5e-324) if side > 0 else -math.inf)
        return np.minimum(np.where(np.isnan(value), 0.0 if side > 0 else -math.inf, value), 0.0)

    def _added(self, scale: Floats, side: int) -> Floats:
        """Return ln of the images below that are added back, or of the node at w = 0 for θ = 0, by M·e^{−θt}."""
        tilt, epsilon = self.tilt, self.tilt.epsilon
        period = tilt.theta * self.size
        tilts = period > 0.0
        some = np.where(tilts, period, 1.0)
        with np.errstate(divide="ignore"):
            below = epsilon + portable.log(portable.expm1(-epsilon) / portable.expm1(-some)) - period
        below = np.where(tilts, below, portable.log(tilt.k * tilt.gap / self.size))
        slack = ULPS * (64.0 + period + epsilon + np.abs(scale))
        return np.asarray(below + side * slack - np.where(tilts, scale, 0.0))

    def _excluded(self, start: Floats, difference: Floats) -> Flags:
        """Return which thresholds cannot be the best: up to one with P < Q, or above one with P > Q."""
        k = self.tilt.k
        sure = 2 * k * self.tilt.gap * self.error
        if not self.whole:
            sure = sure + 8 * _tail(self.variance + k, self.size - np.abs(start - self.mean) - 2 * k)
        negative, positive = difference < -sure[:, None], difference > sure[:, None]
        excluded = np.logical_or.accumulate(negative[:, ::-1], axis=1)[:, ::-1]
        excluded[:, 1:] |= np.logical_or.accumulate(positive, axis=1)[:, :-1]
        return np.asarray(excluded & ~excluded.all(axis=1, keepdims=True))

    def _images(self, start: Floats, scale: Floats) -> Floats | float:
        """Return a bound on the images that are added to h: above t, and below t beyond what is added back."""
        if self.whole:
            return 0.0
        tilt, k, q, size = self.tilt, self.tilt.k, self.tilt.q, self.size
        above = _tail(self.variance + k * tilt.var_one, start + size - self.mean - k * tilt.high)
        mean = k * (self.ones * (1.0 - q) + (self.zeros + 1.0) * q) + self.fair / 2
        spread = k * (self.ones + self.zeros + 1.0) * q + self.fair / 4
        below = 2 * _tail(spread, mean - start - 2.0 * k + size)
        period = tilt.theta * size
        repeated = np.where(period > 0.0, -portable.expm1(-period), 1.0)
        below = np.minimum(below, np.where(period > 0.0, 1.0 / repeated, math.inf))
        return np.asarray(2 * above + below * portable.exp(tilt.epsilon - period - scale))
