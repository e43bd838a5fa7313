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
Replacing a record shifts it by one down in some positions and by one up in others, independently.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.composition import Loss
from hubbub.errors import PROBABILITY, Interval, check_epsilon, check_memory, check_real, check_whole, reject
from hubbub.numeric.rounding import up
from hubbub.protocol import Fakes

Floats = NDArray[np.float64]

UNIT = 2.0**-53
RELATIVE = 1e-10  # above the relative error of Stirling's series and of a few hundred factors
NOTHING = 1e-300  # above everything that underflows
CUT = 1e-29  # above the mass of a shuffler's distribution beyond the last count kept


def uniform_delta(epsilon: float, m: int, categories: int, *, share: float = 1.0) -> float:
    """Return δ(ε) of clear records among m uniform fakes, each present with probability ``share``. [004 §5]

    δ(ε) = E[f(N)], N ~ Bin(m, 2·share/d). With n honest users who add up to t fakes each, m = n·t, including those of
    the protected user. Exact for every collection; errs upwards, by a relative 10⁻¹⁰ + 10⁻¹⁵·m/d and by 10⁻²⁷.

    >>> round(uniform_delta(1.0, 422, 10) * 1e7, 7)
    9.83
    """
    epsilon, m = check_epsilon(epsilon), check_whole("m", m, 0, 2**53)
    categories = check_whole("categories", categories, 2)
    share = check_real("share", share, PROBABILITY)
    chance = 2.0 * share / categories
    if chance in (0.0, 1.0) or m == 0:
        return _mean_gain(epsilon, m if chance == 1.0 else 0, np.ones(1), 0.0)
    low, high = _window(m * chance, m * chance * (1.0 - chance), m)
    counts = np.arange(low, high)
    odds = chance / ((categories - 2.0 * share) / categories)
    return _mixture(epsilon, low, (m - counts) / (counts + 1.0) * odds, m * chance)


def poisson_delta(epsilon: float, mean: float, categories: int) -> float:
    """Return δ(ε) of clear records among a total of Poisson(mean) uniform fakes.

    δ(ε) = E[f(N)], N ~ Poisson(2·mean/d): for n honest users who add Poisson(r) each, mean = n·r. Exact for every
    collection; errs upwards like :func:`uniform_delta`.

    >>> poisson_delta(1.0, 422.0, 10) > uniform_delta(1.0, 422, 10)
    True
    """
    epsilon, categories = check_epsilon(epsilon), check_whole("categories", categories, 2)
    both = 2.0 * check_real("mean", mean, Interval(0.0, 2.0**53)) / categories
    low, high = _window(both, both, 2**54)
    return _mixture(epsilon, low, both / np.arange(low + 1.0, high + 1.0), both)


def user_delta(epsilon: float, fakes: Fakes, honest: int, categories: int) -> float:
    """Return δ(ε) of clear records among the uniform fakes that ``honest`` users draw independently.

    Errs upwards like :func:`uniform_delta`.

    >>> user_delta(1.0, Fakes.binomial(1, 1.0), 422, 10) == uniform_delta(1.0, 422, 10)
    True
    """
    if fakes.distribution == "binomial":
        return uniform_delta(epsilon, honest * fakes.shift, categories, share=fakes.scale)
    return poisson_delta(epsilon, honest * fakes.scale, categories)


def _window(mean: float, variance: float, most: int) -> tuple[int, int]:
    """Return counts beyond which a binomial or Poisson variable has mass at most e⁻⁶⁴ on either side (Bernstein)."""
    reach = 64 / 3 + math.sqrt((64 / 3) ** 2 + 128 * variance)
    low, high = max(0, math.floor(mean - reach)), min(most, math.ceil(mean + reach))
    check_memory("the distribution of the fakes", 64 * (high - low))
    return low, high


def _mixture(epsilon: float, low: int, ratios: Floats, mean: float) -> float:
    """Return E[f(N)] for N = low, low+1, … with these ratios of successive probabilities; errs upwards."""
    mode = min(max(0, math.floor(mean) - low), ratios.size)
    rise = np.cumprod(1.0 / ratios[:mode][::-1])[::-1]
    weights = np.concatenate([rise, [1.0], np.cumprod(ratios[mode:])])
    # Dividing by the mass of the window only, and bounding f by 1 outside of it, errs upwards by e⁻⁶⁴ twice.
    return _mean_gain(epsilon, low, weights / weights.sum(), 2 * math.exp(-64))


def _mean_gain(epsilon: float, low: int, pmf: Floats, outside: float) -> float:
    """Return Σ pmf_i·f(low + i) + outside, by the formulas of the module's text."""
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
    return min(1.0, up(float((pmf * gain).sum()) + outside + NOTHING, relative))


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

    Σ_{x,y} (P(x−1)P(y) − e^ε·P(x)P(y−1))⁺; as P(y)/P(y−1) falls in y, each x has all y up to one Y(x), which leaves
    Σ_x P(x−1)·F(Y) − e^ε·P(x)·F(Y−1), F the distribution function. Exact for one-hot records, and the same in both
    orders; errs upwards, by 10⁻¹⁵ and by rounding, a relative 10⁻⁹ for scales up to 100.

    >>> round(swap_delta(Fakes.laplace(2.0, 25), 1.0) * 1e7, 3)      # all of it is P(0)
    9.127
    """
    epsilon = min(check_epsilon(epsilon), 700.0)
    pmf = fakes.pmf
    offset = np.arange(1, pmf.size) - fakes.shift
    if fakes.distribution == "laplace":
        slopes = np.where(offset <= 0, 1.0 / fakes.scale, -1.0 / fakes.scale)
    else:
        slopes = (0.5 - offset) / fakes.scale / fakes.scale
    # Losses within a few units of ε are omitted from the sum and bounded instead: they would only add noise.
    margin = 16 * UNIT * (epsilon + 1.0 / fakes.scale)
    last = np.searchsorted(-slopes, -(epsilon + margin + slopes))
    below = np.append(0.0, np.cumsum(pmf))
    gained, lost = pmf[:-1] * below[last + 1], math.exp(epsilon) * (pmf[1:] * below[last])
    noise = 8 * (pmf.size + 100) * UNIT * float(gained.sum())
    terms = float(np.maximum(gained - lost, 0.0).sum()) + float(pmf[-1])
    return min(1.0, up(terms + noise + margin + CUT, RELATIVE))


def change_loss(fakes: Fakes, falls: int, rises: int, *, step: float | None = None) -> Loss:
    """Return the loss if ``falls`` counts fall by one and ``rises`` others rise, each hidden by the shuffler's fakes.

    The composition of the pairs (P, P shifted by one) and (P shifted by one, P); the other order exchanges the two
    numbers. Fewer changes lose less: for at most k set bits, k of each. The default step is about a hundredth of the
    typical loss, 1/scale, and divides every loss, which makes the composition exact up to rounding. Errs upwards.

    >>> fakes = Fakes.laplace(2.0, 25)
    >>> 1 <= change_loss(fakes, 1, 1).delta(1.0) / swap_delta(fakes, 1.0) < 1.001
    True
    """
    falls, rises = check_whole("falls", falls), check_whole("rises", rises)
    if falls + rises == 0:
        reject("falls + rises", "be at least 1", falls + rises)
    step = _step(fakes) if step is None else step
    stay, shifted = np.append(fakes.pmf, 0.0), np.append(0.0, fakes.pmf)
    parts = [
        replace(one, infinite=one.infinite + CUT).power(times)
        for one, times in (
            (Loss.from_distributions(stay, shifted, step), falls),
            (Loss.from_distributions(shifted, stay, step), rises),
        )
        if times
    ]
    return parts[0] if len(parts) == 1 else parts[0].compose(parts[1])


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
    step = _step(fakes) if step is None else step
    fall, rise = change_loss(fakes, 1, 0, step=step), change_loss(fakes, 0, 1, step=step)
    low, high = rise.masses[: max(0, -rise.first)], fall.masses[max(0, 1 - fall.first) :]
    # The entries are at most 10⁻¹¹ too large, so that the rest is at most 10⁻¹¹ too small.
    rest = max(0.0, 1.0 - float(low.sum()) - float(high.sum()) - fall.infinite) + 2e-11
    masses = np.concatenate([low, [rest], high])
    return Loss(step=step, first=min(0, rise.first), masses=masses, infinite=fall.infinite)


def _step(fakes: Fakes) -> float:
    """Return about 0.01/scale, and a divisor of the losses: ±1/scale, or the odd multiples of 1/(2·scale²)."""
    step, loss = 0.01 / fakes.scale, 0.5 / fakes.scale / fakes.scale
    return loss / math.ceil(loss / step) if fakes.distribution == "gaussian" and loss > step else step
