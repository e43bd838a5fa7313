"""Clear records among fakes: exact δ(ε) for every collection and every distribution of the number of fakes.

The real records of the others are in the clear and cancel, so only the fakes hide a replaced record, and δ(ε) depends
neither on the other records nor on their number. A replacement a → b lowers the count of a by one and raises that of b.

**Uniform fakes** [004 §5]. Given that N fakes fell on a or b, A ~ Bin(N, 1/2) of them on a. The analyzer compares
(A+1, N−A) with (A, N−A+1), and exchanging a and b exchanges the two orders, so with A's probabilities b_j

    f(N) = max_k Pr(A ≥ k−1) − e^ε·Pr(A ≥ k),        δ(ε) = E[f(N)],

the maximum at k = T − g + 1, T = N + 1, g = ⌈T/(1+e^ε)⌉. That difference cancels; but f falls in N by

    f(N) − f(N+1) = ½·b_{k−1}·(e^ε − (k−1)/g)        if N+1 has the same k,
                    ½·b_{k−1}·(1 − e^ε·(g−1)/k)      if its k is one larger,

both ≥ 0 by the choice of g, from Pr(Bin(N+1) ≥ k) = ½Pr(Bin(N) ≥ k) + ½Pr(Bin(N) ≥ k−1). So f is a sum of positive
terms from the largest N downwards, and f of that N is one too:

    f(N) = (b_{k−1}/k)·Σ_{j≥0} (T − (g−1−j)(1+e^ε))·Π_{i<j} (g−1−i)/(k+i+1).

N is binomial or Poisson: the analyzer sees a random total M, but M has the same distribution under both collections, so
δ = E_M[δ_M(ε)], and thinning M ~ Bin(m, s) or Poisson(λ) leaves N ~ Bin(m, 2s/d) or Poisson(2λ/d).

**The shuffler's fakes.** A trusted shuffler draws each category's number from a shifted distribution (:class:`Fakes`).
Replacing a record shifts it by one down in some positions and by one up in others, independently. A *swap* shifts one
count of each kind, so that

    δ(ε) = P(0) + Σ_{x,y ≥ 1} (P(x−1)P(y) − e^ε·P(x)P(y−1))⁺.

Laplace fakes, ρ = e^(−1/scale): the loss is 2/scale for x > shift ≥ y, 0 or −2/scale elsewhere, so that the sum is
(1 − e^(ε−2/scale))⁺·(1 − ρ^shift)/Z², P(0) = (1 − ρ)·ρ^shift/Z, Z = 1 + ρ − ρ^(shift+1).
Gaussian fakes: the loss is (D + 1)/scale², D = x − 1 − y. With b = y − shift, 1/C = Σ_{b≥−shift} e^(−b²/(2·scale²)),

    M(D) = Σ_y P(y+D)P(y) = C²·e^(−D²/(4·scale²))·Σ_{b>−shift} e^(−(b+D/2)²/scale²).

All terms are positive, and ε is compared with the losses as an exact fraction: no tail has an absolute error.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.composition import Loss
from hubbub.errors import (
    PROBABILITY,
    Interval,
    check_delta,
    check_epsilon,
    check_memory,
    check_real,
    check_whole,
    reject,
)
from hubbub.model.protocol import Fakes
from hubbub.numeric import portable
from hubbub.numeric.inversion import falling_root
from hubbub.numeric.rounding import up

Floats = NDArray[np.float64]

UNIT = 2.0**-53
RELATIVE = 1e-10  # above the relative error of Stirling's series and of a few hundred factors
NOTHING = 1e-303  # above everything that underflows
DEPTHS = (64.0, 705.0)  # −ln of the mass on either side of a window; the wider one is used where δ is as small
CUT = 1e-29  # above the mass of a shuffler's distribution beyond the last count kept
DEEP = 2000.0  # −ln δ beyond which a sum is only bounded
MOST = 1e9  # above every loss that a search or a sum distinguishes
STEEP = 100.0  # a unit of loss beyond which losses are not multiples of it on the grid
FINE = 50.0  # scale of Gaussian fakes up to which the grid consists of their exact losses


def uniform_delta(epsilon: float, m: int, categories: int, *, share: float = 1.0) -> float:
    """Return δ(ε) of clear records among m uniform fakes, each present with probability ``share``. [004 §5]

    δ(ε) = E[f(N)], N ~ Bin(m, 2·share/d). With n honest users who add up to t fakes each, m = n·t, including those of
    the protected user. Exact for every collection; errs upwards, by a relative 10⁻⁹ + 10⁻¹⁵·m/d.

    >>> round(uniform_delta(1.0, 422, 10) * 1e7, 7)
    9.83
    """
    return uniform_bounds(epsilon, m, categories, share=share)[1]


def uniform_bounds(epsilon: float, m: int, categories: int, *, share: float = 1.0) -> tuple[float, float]:
    """Return a lower and an upper bound on the δ(ε) of :func:`uniform_delta`.

    >>> lower, upper = uniform_bounds(1.0, 422, 10)
    >>> 0.999999 < lower / upper < 1
    True
    """
    epsilon, m = check_epsilon(epsilon), check_whole("m", m, 0, 2**53)
    categories = check_whole("categories", categories, 2)
    share = check_real("share", share, PROBABILITY)
    chance = 2.0 * share / categories
    if chance in (0.0, 1.0) or m == 0:
        return _mean_gain(epsilon, m if chance == 1.0 else 0, np.ones(1), 0.0)
    odds = chance / ((categories - 2.0 * share) / categories)
    return _mixture(
        epsilon, m * chance, m * chance * (1.0 - chance), m, lambda counts: (m - counts) / (counts + 1.0) * odds
    )


def poisson_delta(epsilon: float, mean: float, categories: int) -> float:
    """Return δ(ε) of clear records among a total of Poisson(mean) uniform fakes.

    δ(ε) = E[f(N)], N ~ Poisson(2·mean/d): for n honest users who add Poisson(r) each, mean = n·r. Exact for every
    collection; errs upwards like :func:`uniform_delta`.

    >>> poisson_delta(1.0, 422.0, 10) > uniform_delta(1.0, 422, 10)
    True
    """
    return poisson_bounds(epsilon, mean, categories)[1]


def poisson_bounds(epsilon: float, mean: float, categories: int) -> tuple[float, float]:
    """Return a lower and an upper bound on the δ(ε) of :func:`poisson_delta`.

    >>> lower, upper = poisson_bounds(1.0, 422.0, 10)
    >>> 0.999999 < lower / upper < 1
    True
    """
    epsilon, categories = check_epsilon(epsilon), check_whole("categories", categories, 2)
    both = 2.0 * check_real("mean", mean, Interval(0.0, 2.0**53)) / categories
    return _mixture(epsilon, both, both, 2**54, lambda counts: both / (counts + 1.0))


def user_bounds(epsilon: float, fakes: Fakes, honest: int, categories: int) -> tuple[float, float]:
    """Return bounds on δ(ε) of clear records among the uniform fakes that ``honest`` users draw independently.

    >>> user_bounds(1.0, Fakes.binomial(1, 1.0), 422, 10) == uniform_bounds(1.0, 422, 10)
    True
    """
    if fakes.distribution == "binomial":
        return uniform_bounds(epsilon, honest * fakes.shift, categories, share=fakes.scale)
    return poisson_bounds(epsilon, honest * fakes.scale, categories)


def _window(mean: float, variance: float, most: int, depth: float) -> tuple[int, int]:
    """Return counts beyond which a binomial or Poisson number has mass at most e^−depth on either side (Bernstein)."""
    reach = depth / 3 + math.sqrt((depth / 3) ** 2 + 2 * depth * variance)
    low, high = max(0, math.floor(mean - reach)), min(most, math.ceil(mean + reach))
    check_memory("the distribution of the fakes", 64 * (high - low))
    return low, high


def _mixture(
    epsilon: float, mean: float, variance: float, most: int, ratio: Callable[[Floats], Floats]
) -> tuple[float, float]:
    """Return bounds on E[f(N)], N up to ``most``, with these ratios P(N = count + 1)/P(N = count)."""
    for depth in DEPTHS:
        low, high = _window(mean, variance, most, depth)
        ratios = ratio(np.arange(low, high, dtype=np.float64))
        mode = min(max(0, math.floor(mean) - low), ratios.size)
        rise = np.cumprod(1.0 / ratios[:mode][::-1])[::-1]
        weights = np.concatenate([rise, [1.0], np.cumprod(ratios[mode:])])
        # Dividing by the mass of the window only, and bounding f by 1 outside of it, errs upwards by e^−depth twice.
        outside = 2 * math.exp(-depth)
        bounds = _mean_gain(epsilon, low, weights / weights.sum(), outside)
        if bounds[0] > 1e12 * outside or high - low == most:
            break
    return bounds


def _mean_gain(epsilon: float, low: int, pmf: Floats, outside: float) -> tuple[float, float]:
    """Return bounds on Σ pmf_i·f(low + i) + outside, by the formulas of the module's text."""
    ratio = math.exp(min(epsilon, 700.0))
    total = np.arange(low + 1, low + pmf.size + 1)
    rest = np.ceil(total / (1.0 + ratio)).astype(np.int64)  # g, and k − 1 = T − g
    mode = total - rest
    moved = np.diff(mode) > 0
    t, g, c = total[:-1], rest[:-1], mode[:-1]
    point = _central(low, int(mode[0])) * np.cumprod(np.append(1.0, t / (2.0 * np.where(moved, c + 1, g))))
    falls = 0.5 * point[:-1] * np.maximum(0.0, np.where(moved, 1.0 - ratio * ((g - 1) / (c + 1)), ratio - c / g))
    last = point[-1] * _last(int(total[-1]), int(rest[-1]), ratio)
    gain = np.append(np.cumsum(falls[::-1])[::-1], 0.0) + last
    # Running products over the window, and differences of which the smallest are of the order 1/T.
    relative = RELATIVE + 8 * UNIT * (pmf.size + int(total[-1]))
    mean = float((pmf * gain).sum())
    return max(0.0, mean * (1 - relative) - outside - NOTHING), min(1.0, up(mean + outside + NOTHING, relative))


def _last(total: int, rest: int, ratio: float) -> float:
    """Return f(T−1) / b_{k−1}; the terms fall like e^(−2j²/T), those beyond 10·√T are below 10⁻⁸⁰."""
    k = total - rest + 1
    j = np.arange(min(rest - 1, math.ceil(10 * math.sqrt(total)) + 50) + 1)
    product = np.cumprod(np.append(1.0, (rest - j[1:]) / (k + j[1:])))
    return float(((total - (rest - 1 - j) * (1.0 + ratio)) * product).sum()) / k


def _central(n: int, c: int) -> float:
    """Return C(n, c)·2⁻ⁿ to a relative 10⁻¹¹ + 10⁻¹⁵·n, by Stirling's series where n is large."""
    if n <= 1000:
        return math.comb(n, c) / (1 << n)
    if n - c < 64:
        return math.exp(math.log(math.comb(n, c)) - n * math.log(2.0))
    y = (2 * c - n) / n
    bulk = 0.5 * n * ((1 + y) * math.log1p(y) + (1 - y) * math.log1p(-y))
    of_n, of_c, of_rest = ((1 / 12 - (1 / 360 - 1 / (1260 * x * x)) / (x * x)) / x for x in (n, c, n - c))
    return math.sqrt(n / (2 * math.pi) / c / (n - c)) * math.exp(of_n - of_c - of_rest - bulk)


def swap_delta(fakes: Fakes, epsilon: float) -> float:
    """Return δ(ε) if one category's count falls by one and another's rises, both hidden by the shuffler's fakes.

    Exact for one-hot records, and the same in both orders; errs upwards, by a relative 10⁻⁹.

    >>> round(swap_delta(Fakes.laplace(2.0, 25), 1.0) * 1e7, 3)      # all of it is P(0)
    9.127
    """
    return min(1.0, up(math.exp(min(swap_bounds(fakes, epsilon)[1], 0.0)), 8 * UNIT))


def swap_bounds(fakes: Fakes, epsilon: float) -> tuple[float, float]:
    """Return a lower and an upper bound on ln δ(ε) of a swap, close to each other in every tail.

    >>> lower, upper = swap_bounds(Fakes.laplace(2.0, 1300), 1.2)      # ln P(0)
    >>> -651.41 < lower < upper < lower + 1e-8 < -651.40
    True
    """
    epsilon = check_epsilon(epsilon)
    parts = _laplace_swap(fakes, epsilon) if fakes.distribution == "laplace" else _gaussian_swap(fakes, epsilon)
    lower, upper = (float(np.logaddexp.reduce(ends)) for ends in zip(*parts, strict=True))
    return min(lower, 0.0), min(upper, 0.0)


def swap_epsilon(fakes: Fakes, delta: float) -> tuple[float, float]:
    """Return bounds on the smallest ε with δ(ε) ≤ δ of a swap: a lower one, and one that holds; ∞ if no ε suffices.

    >>> swap_epsilon(Fakes.laplace(2.0, 300), 1e-20)[1]      # 2/scale, as long as δ is above P(0)
    1.0
    """
    goal = math.log(check_delta(delta))
    # Laplace fakes have no larger loss than 2/scale; there the curve falls to P(0) in one step.
    known = [2.0 / fakes.scale, math.nextafter(2.0 / fakes.scale, math.inf)] if fakes.distribution == "laplace" else []
    top = next((x for x in known if swap_bounds(fakes, x)[1] <= goal), MOST)
    guess = min(5.0 / fakes.scale, top / 2)
    upper = falling_root(lambda x: swap_bounds(fakes, x)[1] - goal, guess, top, relative=1e-7)[1]
    if math.isinf(upper):
        return (upper if swap_bounds(fakes, top)[0] > goal else 0.0), upper
    start = upper * (1 - 2e-7)  # usually just below the root
    if swap_bounds(fakes, start)[0] > goal:
        return start, upper
    return falling_root(lambda x: swap_bounds(fakes, x)[0] - goal, start, top, relative=1e-7)[0], upper


def _around(log: float, *exponents: float) -> tuple[float, float]:
    """Return bounds on a logarithm that is off by a few units of the exponents that it was formed from."""
    error = RELATIVE + 16 * UNIT * math.fsum(exponents)
    return log - error, log + error


def _laplace_swap(fakes: Fakes, epsilon: float) -> list[tuple[float, float]]:
    """Return bounds on the logarithms of the two parts of δ(ε) of a swap: see the module's text."""
    scale, shift = fakes.scale, fakes.shift
    below = -math.expm1(-shift / scale)  # 1 − ρ^shift
    norm = 1.0 + math.exp(-1.0 / scale) * below
    revealed = math.log(-math.expm1(-1.0 / scale)) - shift / scale - math.log(norm)
    parts = [_around(revealed, shift / scale)]
    excess = 2 / Fraction(scale) - Fraction(epsilon)
    if excess > 0 and shift > 0:
        parts.append(_around(math.log(-math.expm1(-float(excess))) + math.log(below) - 2 * math.log(norm)))
    return parts


def _gaussian_swap(fakes: Fakes, epsilon: float) -> list[tuple[float, float]]:
    """Return bounds on the logarithms of the two parts of δ(ε) of a swap: see the module's text."""
    scale, shift, square = fakes.scale, fakes.shift, fakes.scale * fakes.scale
    reach = math.ceil(40 * scale) + 2  # terms beyond it are below e⁻⁷⁰⁰ of the largest
    check_memory("the distribution of the fakes", 64 * reach)
    offsets = np.arange(-min(shift, reach), reach + 1, dtype=np.float64)
    norm = math.log(float(portable.exp(-0.5 * (offsets / scale) ** 2).sum()))
    exponent = 0.5 * (shift / scale) ** 2
    revealed = -exponent - norm
    parts = [_around(revealed, exponent)]
    exact, threshold = Fraction(scale) ** 2, Fraction(min(epsilon, MOST))
    first = math.floor(threshold * exact)  # D₀, the smallest D with (D + 1)/scale² > ε
    height = (0.5 * first / scale) ** 2
    if height > DEEP:
        # Σ_{D ≥ D₀} M(D) ≤ e^(−D₀²/(4·scale²))·Σ_j e^(−j²/(4·scale²))·Σ_b e^(−b²/scale²), and C ≤ 1.
        return [*parts, (-math.inf, -height / 2)]
    last = math.ceil(math.sqrt(float(first) ** 2 + 400 * square)) + 4
    step = np.arange(last - first)
    logs = np.empty(step.size)
    for parity in (0, 1):
        which = step[parity::2]
        start = 1 - shift + (first + parity) / 2  # b + D/2 at b = 1 − shift, for the first D of this parity
        skipped = max(0, math.ceil(-reach - start))
        end = max(start + which.size, 0.0) + reach / 4
        offsets = start + np.arange(skipped, math.ceil(end - start), dtype=np.float64)
        sums = _log_sums(-((offsets / scale) ** 2))
        logs[parity::2] = sums[np.maximum(np.arange(which.size) - skipped, 0)]
    gap = float((first + 1) / exact - threshold)
    logs += portable.log(-portable.expm1(-(gap + step / square))) - step * (2.0 * first + step) / (4 * square)
    total = float(np.logaddexp.reduce(logs)) - 2 * norm - height
    return [*parts, _around(total, height, reach)]


def _log_sums(logs: Floats) -> Floats:
    """Return ln Σ_{j ≥ i} e^(logs_j) for every i."""
    top = float(logs.max())
    if logs[-1] < top - 650.0:
        return np.asarray(np.logaddexp.accumulate(logs[::-1])[::-1])
    return np.asarray(top + portable.log(np.cumsum(portable.exp(logs - top)[::-1])[::-1]))


def change_loss(fakes: Fakes, falls: int, rises: int, *, step: float | None = None) -> Loss:
    """Return the loss if ``falls`` counts fall by one and ``rises`` others rise, each hidden by the shuffler's fakes.

    The composition of the pairs (P, P shifted by one) and (P shifted by one, P); the other order exchanges the two
    numbers. Fewer changes lose less: for at most k set bits, k of each. The default step is one that divides every
    loss, which makes the composition exact up to rounding, for Gaussian fakes of scale above 50 a hundredth of the
    typical loss, 1/scale. Errs upwards.

    >>> fakes = Fakes.laplace(2.0, 25)
    >>> 1 <= change_loss(fakes, 1, 1).delta(1.0) / swap_delta(fakes, 1.0) < 1.001
    True
    """
    falls, rises = check_whole("falls", falls), check_whole("rises", rises)
    if falls + rises == 0:
        reject("falls + rises", "be at least 1", falls + rises)
    parts = [
        _shift(fakes, rising=rising, step=step).power(times)
        for rising, times in ((False, falls), (True, rises))
        if times
    ]
    return parts[0] if len(parts) == 1 else parts[0].compose(parts[1])


def _shift(fakes: Fakes, *, rising: bool, step: float | None) -> Loss:
    """Return the loss of one count that rises (P shifted by one, P) or falls (P, P shifted by one); errs upwards."""
    unit = 1.0 / fakes.scale if fakes.distribution == "laplace" else 0.5 / fakes.scale / fakes.scale
    if step is not None or unit > STEEP or (fakes.distribution == "gaussian" and fakes.scale > FINE):
        stay, shifted = np.append(fakes.pmf, 0.0), np.append(0.0, fakes.pmf)
        first, second = (shifted, stay) if rising else (stay, shifted)
        one = Loss.from_distributions(first, second, step or 0.01 / fakes.scale)
        return replace(one, infinite=one.infinite + CUT)
    scale, shift = fakes.scale, fakes.shift
    if fakes.distribution == "laplace":
        # P(0 … shift−1), P(1 … shift) and the rest, from the geometric series.
        below, norm = -math.expm1(-shift / scale), 1.0 - math.exp(-1.0 / scale) * math.expm1(-shift / scale)
        side, ratio = below / norm, math.exp(-1.0 / scale)
        nodes = np.array([-1, 1] if rising else [1, -1])
        masses = np.array([ratio * side, 1.0 / norm] if rising else [side, ratio / norm])
        revealed = 0.0 if rising else math.exp(-shift / scale) * -math.expm1(-1.0 / scale) / norm + NOTHING
    else:
        # Half of 1/scale² divides every loss, (offset − ½)/scale². Offsets beyond 38·scale have mass below 10⁻³⁰⁰.
        reach = math.ceil(38 * scale)
        offsets = np.arange(-min(shift, reach), reach + 1)
        pmf = portable.exp(-0.5 * (offsets / scale) ** 2)
        pmf = np.maximum(pmf / pmf.sum(), NOTHING)
        revealed = 2 * NOTHING
        if not rising and offsets[0] == -shift:
            revealed, pmf, offsets = revealed + float(pmf[0]), pmf[1:], offsets[1:]
        nodes = 2 * offsets + 1 if rising else 1 - 2 * offsets
        masses = pmf
    return _on_grid(nodes, masses, revealed, unit)


def _on_grid(nodes: NDArray[np.int64], masses: Floats, revealed: float, unit: float) -> Loss:
    """Return the measure of masses at the losses ``nodes``·``unit``, on a grid whose step is at least the exact unit.

    A negative node lies slightly below its loss, so a share of its mass is added one node higher: connecting the dots.
    """
    step = up(unit, 4 * UNIT)
    low, high = min(int(nodes.min()), 0), max(int(nodes.max()), 0)
    row = np.zeros(high - low + 1)
    row[nodes - low] = masses + NOTHING
    negative = nodes < 0
    share = 16 * UNIT * (1.0 + step) * np.abs(nodes[negative])
    row[nodes[negative] - low + 1] += share * masses[negative]
    return Loss(step=step, first=low, masses=row * (1 + 1e-12), infinite=up(revealed, 1e-12) if revealed else 0.0)


def either_loss(fakes: Fakes, *, step: float | None = None) -> Loss:
    """Return a loss that covers a count falling by one and a count rising by one; errs upwards.

    Its power L covers every change of L bit positions.

    With w_t = P(shift ± t) and x = e^ε ≥ 1, H_x(fall) = P(0) + Σ_{1≤t≤shift} (w_{t−1} − x·w_t)⁺, and H_x(rise) is
    the sum over all t ≥ 1 without P(0), whose terms of t > shift are at most Σ (w_{t−1} − w_t) = w_shift = P(0). So the
    fall's losses above 0, the rise's below 0 (the reverse of a rise is a fall), and the rest of the mass at 0 are the
    envelope of both orders of both.

    >>> fakes = Fakes.gaussian(30.0, 200)
    >>> 1 <= either_loss(fakes).power(10).epsilon(1e-6) / change_loss(fakes, 10, 0).epsilon(1e-6) < 1.001
    True
    """
    fall, rise = change_loss(fakes, 1, 0, step=step), change_loss(fakes, 0, 1, step=step)
    low, high = rise.masses[: max(0, -rise.first)], fall.masses[max(0, 1 - fall.first) :]
    # The entries are at most 10⁻¹¹ too large, so that the rest is at most 10⁻¹¹ too small; the same margin contains
    # the shares of negative losses that lie at 0.
    rest = max(0.0, 1.0 - float(low.sum()) - float(high.sum()) - fall.infinite) + 2e-11
    masses = np.concatenate([low, [rest], high])
    return Loss(step=fall.step, first=min(0, rise.first), masses=masses, infinite=fall.infinite)
