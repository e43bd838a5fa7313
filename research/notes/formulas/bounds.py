"""Closed forms of the notes, one function per numbered statement, and what each of them is worth.

The rules of three deviations [002, 003] certify nothing: they look at one order of one pair of collections, and they
stop at a deviation instead of bounding what lies beyond. They are here to reproduce the notes. The Chernoff bounds
[004] are sound and several times looser than the exact accountant.
"""

import math
from collections.abc import Callable

import numpy as np

from hubbub.errors import Infeasible, Interval, check_delta, check_epsilon, check_flip, check_real, check_whole, reject
from hubbub.numeric.binomial import binomial_pmf
from hubbub.numeric.inversion import least_real, least_whole
from hubbub.numeric.rounding import up
from research.notes.formulas.ratios import outlier_ratio_mean, outlier_ratio_variance

ROUNDING = 1e-13
"""Relative rounding error that no closed form here exceeds; those that certify are widened by it."""

TINY = 1e-300
"""No lie probability below this is ever looked at."""


def local_epsilon(width: int, q: float) -> float:
    """ε = L ln(p/q), the pure local guarantee for records that differ in up to L bits. [000 Prop 5.1]

    Certifies ε-differential privacy without any shuffler, for every collection; tight, whatever the number of records.

    >>> round(local_epsilon(40, 0.351), 3)
    24.586
    """
    width, q = check_whole("width", width, 1), check_flip(q)
    return up(width * math.log1p((1 - 2 * q) / q), ROUNDING)


def local_flip(width: int, epsilon: float) -> float:
    """q = 1/(1 + e^(ε/L)), the least lie probability with L ln(p/q) ≤ ε. [003 eq 4.2]

    Certifies pure ε-differential privacy; inverse of :func:`local_epsilon`.

    >>> round(local_flip(5, math.log(2)), 12)
    0.465398038619
    """
    width, epsilon = check_whole("width", width, 1), _check_positive_epsilon(epsilon)
    share = math.exp(-epsilon / width)
    return up(share / (1 + share), ROUNDING)


def three_sigma_bit_flip(n: int, epsilon: float) -> float:
    """q = ½(1 − 1/√(1 + 36/((λ − 1)² N))), λ = e^ε, for single bits. [002 eq 4.45]

    Certifies nothing: the ratio is bounded in one order of one pair only, and up to three deviations only. At N = 1000,
    λ = e², the exact δ of the other order is 0.80.

    >>> round(three_sigma_bit_flip(1000, math.log(2)), 12)
    0.008764067568
    """
    return three_sigma_copies_flip(n, epsilon, 1)


def three_sigma_copies_flip(n: int, epsilon: float, k: int) -> float:
    """q = ½(1 − 1/√(1 + 36/((λ^(1/k) − 1)² kN))), λ = e^ε, for k copies of single bits. [002 eq 5.24]

    Certifies nothing, as :func:`three_sigma_bit_flip`. Nor does it deliver the promised precision: with this q the
    standard error 3/(k(λ^(1/k) − 1)) *grows* with k.

    >>> round(three_sigma_copies_flip(1000, math.log(2), 16), 12)
    0.158833069908
    """
    n, k, epsilon = check_whole("n", n, 1), check_whole("k", k, 1), _check_positive_epsilon(epsilon)
    x = 36 / (math.expm1(epsilon / k) ** 2 * k * n)
    root = math.sqrt(1 + x)
    return 0.5 * x / (root * (root + 1))


def copies_outlier_ratio_bound(s: int, n: int, q: float, k: int) -> float:
    """R_s ≤ ((s/kN)(q/p) + (1 − s/kN)(p/q))^k, the bound on :func:`copies_outlier_ratio`. [002 eq 5.13]

    Errs upwards, with equality for k = 1 and at both ends of s; the printed proof (5.12) bounds term by term, which is
    wrong, but the sum is right (drawing without replacement is below drawing with it in convex order, Hoeffding 1963).

    >>> round(copies_outlier_ratio_bound(1964, 1000, 0.009, 2), 9)
    3.963755535
    """
    n, k, q = check_whole("n", n, 1), check_whole("k", k, 1), check_flip(q)
    share = check_whole("s", s, 0, k * n) / (k * n)
    r = (1 - q) / q
    return (share / r + (1 - share) * r) ** k


def three_sigma_ratio(n: int, width: int, q: float) -> float:
    """E R + 3 √Var R of the outlier pair. [003 eq 3.12, left side]

    Certifies only that R stays below it with probability 0.9 (Cantelli), in one order of one pair.

    >>> round(three_sigma_ratio(1000, 5, 0.2445366789402966), 9)
    2.0
    """
    return outlier_ratio_mean(n, width, q) + 3 * math.sqrt(outlier_ratio_variance(n, width, q))


def three_sigma_flip(n: int, width: int, epsilon: float) -> float:
    """The least q with E R + 3 √Var R ≤ e^ε. [003 eq 3.12]

    Certifies nothing: one order of a pair that is not the worst case [003 conjecture 1 is wrong], and a tail that is
    left over. The readings of [003 §3.3] are these values; the one for N = 5000, λ = 2 must be 0.1963 and not 0.1778.

    >>> round(three_sigma_flip(5000, 5, math.log(2)), 12)
    0.196343943752
    """
    return _least_flip(lambda q: three_sigma_ratio(n, width, q), epsilon)


def simple_three_sigma_ratio(n: int, width: int, q: float) -> float:
    """1 + φ^L/N + 3 √(φ^L/N + (ψ^L − φ^(2L))/N²), a little above :func:`three_sigma_ratio`. [003 eq 3.13, 3.15]

    >>> round(simple_three_sigma_ratio(1000, 5, 0.2448738806458347), 9)
    2.0
    """
    mean, variance = outlier_ratio_mean(n, width, q), outlier_ratio_variance(n, width, q)
    # φ^L/N = mean − 1 + 1/N, and the variance lacks (φ^L − 1)/N² + 1/N of the simpler form.
    return mean + 1 / n + 3 * math.sqrt(variance + (mean - 1) / n + 1 / n)


def simple_three_sigma_flip(n: int, width: int, epsilon: float) -> float:
    """The least q with 1 + φ^L/N + 3 √(φ^L/N + (ψ^L − φ^(2L))/N²) ≤ e^ε. [003 eq 3.15, 3.16]

    Certifies nothing, as :func:`three_sigma_flip`, of which it is a slightly larger variant.

    >>> round(simple_three_sigma_flip(10**7, 40, 2.0), 12)
    0.350914415602
    """
    return _least_flip(lambda q: simple_three_sigma_ratio(n, width, q), epsilon)


def chernoff_flip(n: int, epsilon: float, delta: float) -> float:
    """q = 3 ln(2/δ) / (n (1 − e^−ε)²) for n equal bits, one of which may change. [004 eq 4.42, Lemmas 4.5, 4.6]

    Certifies (ε, δ)-privacy in both orders if all other bits are equal, and only then; 3 times above the exact
    least q at δ = 10⁻⁹, and more for larger δ and smaller ε: 18 times at ε = 0.1, δ = 0.01.

    >>> round(chernoff_flip(1000, 1.0, 1e-6), 12)
    0.108930289973
    """
    n, epsilon, delta = check_whole("n", n, 1), _check_positive_epsilon(epsilon), check_delta(delta)
    return _below_half(up(3 * math.log(2 / delta) / (n * math.expm1(-epsilon) ** 2), ROUNDING))


def shifted_chernoff_flip(n: int, epsilon: float, delta: float) -> float:
    """The least q with q ≥ 3 ln(2/δ) / (n [1 − e^−ε − 2(p − q)/(npq)]²), for n bits of any values. [004 eq 4.6]

    Certifies (ε, δ)-privacy of n shuffled bits for every collection, as far above the exact least q as
    :func:`chernoff_flip`. The printed proof bounds the tail of one collection only; Bernstein's inequality with the
    variance npq repairs it, and n then counts the bits besides the one that changes, so pass the size of the crowd less
    one to be strict.

    >>> round(shifted_chernoff_flip(1000, 1.0, 1e-6), 12)
    0.114374598036
    """
    n, epsilon, delta = check_whole("n", n, 1), _check_positive_epsilon(epsilon), check_delta(delta)
    need = 3 * math.log(2 / delta) / n

    def holds(q: float) -> bool:
        room = -math.expm1(-epsilon) - 2 * (1 - 2 * q) / (n * q * (1 - q))
        return room > 0 and q * room * room >= need

    return _below_half(up(least_real(holds, min(need, 0.25), 0.5, relative=1e-15), ROUNDING))


def clear_fakes_printed(width: int, epsilon: float, delta: float) -> float:
    """m = 3d ln(4/δ) ((e^ε + 1)/(e^ε − 1))² uniform fakes for clear one-hot records of d bits. [004 §5, as printed]

    Certifies nothing as it stands: the last step drops a −1 and reverses the implication, so that this m violates the
    condition (5.3) it was derived from. Use :func:`clear_fakes`.

    >>> round(clear_fakes_printed(10, 1.0, 1e-6), 9)
    2135.562192368
    """
    width, epsilon, delta = check_whole("width", width, 2), _check_positive_epsilon(epsilon), check_delta(delta)
    return 3 * width * math.log(4 / delta) / math.tanh(epsilon / 2) ** 2


def clear_fakes(width: int, epsilon: float, delta: float) -> float:
    """m = d ((b + √(b² + 4a))/(2a))², a = e^ε − 1, b = √(3 ln(4/δ)) (e^ε + 1). [004 §5, with the −1 kept]

    Certifies (ε, δ)-privacy of clear one-hot records of d bits among at least m honest uniform fakes, for every
    collection (round up); 3.5 to 8 times above the exact least m.

    >>> round(clear_fakes(10, 1.0, 1e-6), 9)
    2147.185952516
    """
    width, epsilon, delta = check_whole("width", width, 2), _check_positive_epsilon(epsilon), check_delta(delta)
    a = math.expm1(epsilon)
    b = math.sqrt(3 * math.log(4 / delta)) * (math.exp(epsilon) + 1)
    return up(width * ((b + math.sqrt(b * b + 4 * a)) / (2 * a)) ** 2, ROUNDING)


def column_flip(n: int, m: int, epsilon: float, delta: float) -> float:
    """The least q with q ≥ 3 ln(4/δ) / ((N − 1)[1 − e^(−ε/2) − 2(p − q)/((N − 1)pq)]²), N = n + m. [004 §6, Prop 6.1 A]

    The statement that [004 Prop 6.1] leaves empty, if the analyzer sees only the column sums of the flipped one-hot
    records and fakes. Certifies (ε, δ)-privacy for every number of columns and every collection: a changed record
    changes two columns, each of which is (ε/2, δ/2)-private. It does not hold if whole records are seen. If the n
    others are not trusted, pass n = 1.

    >>> round(column_flip(900, 100, 1.0, 1e-6), 4)
    0.3006
    """
    n, m, epsilon, delta = check_whole("n", n, 1), check_whole("m", m, 0), check_epsilon(epsilon), check_delta(delta)
    if n + m < 2:
        reject("n + m", "be at least 2", n + m)
    return shifted_chernoff_flip(n + m - 1, epsilon / 2, delta / 2)


def fake_largest_ratio(width: int, q: float) -> float:
    """c = max a = d p²/(p² + (d − 1) q²), a(s) = p(s|e_1)/F(s), F the law of a flipped uniform one-hot fake of d bits.

    >>> round(fake_largest_ratio(100, 0.01), 9)
    99.0
    """
    width, q = check_whole("width", width, 2), check_flip(q, zero=True)
    p = 1 - q
    return width * p * p / (p * p + (width - 1) * q * q)


def fake_second_moment(width: int, q: float) -> float:
    """C = E_F[a²] = E[a | e_1], with a = d t/(w p² + (d − w) q²) if w bits are seen, t = p² if bit 1 is among them,
    else q².

    >>> round(fake_second_moment(10, 0.05), 12)
    7.493424455935
    """
    width, q = check_whole("width", width, 2), check_flip(q, zero=True)
    p = 1 - q
    others = np.arange(width)
    chance = binomial_pmf(width - 1, q)
    seen = width * p * p / ((others + 1) * p * p + (width - others - 1) * q * q)
    unseen = width * q * q / np.maximum(others * p * p + (width - others) * q * q, TINY)
    return float(chance @ (p * seen + q * unseen))


def fake_chi_square(width: int, q: float) -> float:
    """E_F[(a − b)²] = 2d(p − q)² E[1/((1 + W)p² + (d − 1 − W)q²)], W ~ Bin(d − 2, q): what one fake leaves unhidden.

    2d at q = 0; towards 2(p − q)²/(pq) for large d: m fakes weigh as m(1/d + q) exact hits.

    >>> round(fake_chi_square(10, 0.05), 12)
    14.429832124299
    """
    width, q = check_whole("width", width, 2), check_flip(q, zero=True)
    p = 1 - q
    others = np.arange(width - 1)
    weights = 1 / ((others + 1) * p * p + (width - 1 - others) * q * q)
    return 2 * width * (p - q) ** 2 * float(binomial_pmf(width - 2, q) @ weights)


def vector_fakes_epsilon(m: int, width: int, q: float, delta: float) -> float:
    """ε = ln((m + c + √(2m(C − 1)l) + cl/3) / (m − √(2mCl))), l = ln(2/δ); ∞ if the denominator is not positive.

    The statement that [004 Prop 6.1] leaves empty, if whole flipped one-hot records of d bits pass the shuffler among m
    flipped uniform fakes [004 §6, Prop 6.1 B]. Certifies (ε, δ)-privacy for every collection: Bernstein's inequality
    for the numerator, the lower-tail inequality of Maurer (2003) for the denominator. Only fakes count; real records
    hide nothing here, because all of them may hold a third value.

    >>> round(vector_fakes_epsilon(14223, 100, 0.0, 1e-6), 4)
    1.0
    """
    m, width, delta = check_whole("m", m, 1), check_whole("width", width, 2), check_delta(delta)
    log_term = math.log(2 / delta)
    largest, second = fake_largest_ratio(width, q), fake_second_moment(width, q)
    below = m - math.sqrt(2 * m * second * log_term)
    above = m + largest + math.sqrt(2 * m * (second - 1) * log_term) + largest * log_term / 3
    return up(math.log(above / below), ROUNDING) if below > 0 else math.inf


def vector_fakes(width: int, q: float, epsilon: float, delta: float) -> int:
    """The least m with :func:`vector_fakes_epsilon` ≤ ε. [004 §6, Prop 6.1 B]

    Certifies what that function certifies; at q = 0 a better constant than :func:`clear_fakes`.

    >>> vector_fakes(100, 0.0, 1.0, 1e-6)
    14223
    """
    epsilon = _check_positive_epsilon(epsilon)
    return least_whole(lambda m: vector_fakes_epsilon(m, width, q, delta) <= epsilon, 1, 2**62)


def _check_positive_epsilon(epsilon: object) -> float:
    return check_real("epsilon", check_epsilon(epsilon), Interval(0.0, 350.0, open_low=True))


def _least_flip(ratio: Callable[[float], float], epsilon: float) -> float:
    bar = math.exp(_check_positive_epsilon(epsilon))
    return _below_half(least_real(lambda q: ratio(q) <= bar, TINY, math.nextafter(0.5, 0.0), relative=1e-15))


def _below_half(q: float) -> float:
    if q >= 0.5:
        raise Infeasible("no lie probability below 1/2 is enough: the crowd is too small for this budget")
    return q
