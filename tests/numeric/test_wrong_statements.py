"""What notes 003 and 004 state and what is not so: each refuted by its counterexample, next to what holds instead."""

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from hubbub.lab.statements.enumeration import crowd_law
from hubbub.numeric.bounds import (
    chernoff_lie,
    clear_fakes,
    clear_fakes_printed,
    local_lie,
    simple_three_sigma_lie,
    three_sigma_lie,
    three_sigma_ratio,
)
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick, sufficient_tail
from hubbub.numeric.estimation import count_stderr
from hubbub.numeric.outliers import outlier_pair
from hubbub.numeric.ratios import (
    outlier_ratio,
    outlier_ratio_mean,
    outlier_ratio_values,
    phi,
    privacy_ratios,
)
from hubbub.numeric.vectors import bit_vectors, transition_matrix

Array = npt.NDArray[np.float64]
LN2 = math.log(2)
Q = Fraction(1, 4)
P = 1 - Q


class TestNote003:
    def test_conjecture_1_as_stated(self) -> None:
        """n = 2, λ = 2: the order of the notes has the tail 3/16, the other order 9/16."""
        zeros, outlier = neighbours(2, 0, 0.25)
        assert sufficient_tail(outlier.pmf, zeros.pmf, LN2) == pytest.approx(3 / 16, rel=1e-13)
        assert sufficient_tail(zeros.pmf, outlier.pmf, LN2) == pytest.approx(9 / 16, rel=1e-13)

    def test_conjecture_1_in_both_orders(self) -> None:
        """n = 5, λ = 6/5: D' = {1, 1, 1, 0} has δ = 27/160, the homogeneous pair 11/80 and 729/5120."""
        epsilon = math.log(1.2)
        zeros, outlier = neighbours(5, 0, 0.25)
        homogeneous = [hockey_stick(outlier.pmf, zeros.pmf, epsilon), hockey_stick(zeros.pmf, outlier.pmf, epsilon)]
        assert homogeneous == pytest.approx([11 / 80, 729 / 5120], rel=1e-12)
        zero, one = neighbours(5, 3, 0.25)
        mixed = hockey_stick(one.pmf, zero.pmf, epsilon)
        assert mixed == pytest.approx(27 / 160, rel=1e-12)
        assert mixed > max(homogeneous)

    def test_conjecture_1_for_three_bits(self) -> None:
        """n = 3, q = 1/4, λ = 8.41: the worst collection is 1.44 times worse than either order of the homogeneous pair.

        All others and all changes of the record 000 are tried, which by the XOR symmetry are all there are.
        """
        rows = transition_matrix(3, 0.25)
        outcomes = list(itertools.product(range(8), repeat=3))
        code = {h: i for i, h in enumerate(sorted({tuple(sorted(o)) for o in outcomes}))}
        index = np.array([code[tuple(sorted(o))] for o in outcomes])

        def histogram(*records: int) -> Array:
            joint = np.einsum("i,j,k->ijk", *(rows[r] for r in records))
            return np.bincount(index, weights=joint.ravel()).astype(np.float64)

        def delta(others: tuple[int, int], before: int, after: int) -> float:
            return hockey_stick(histogram(after, *others), histogram(before, *others), math.log(8.41))

        homogeneous = max(delta((7, 7), 7, 0), delta((7, 7), 0, 7))
        worst = max(
            delta(others, 7, after)
            for others in itertools.combinations_with_replacement(range(8), 2)
            for after in range(7)
        )
        assert homogeneous == pytest.approx(0.0517, abs=6e-5)
        assert worst == pytest.approx(0.0744, abs=6e-5)

    def test_the_reading_for_5000(self) -> None:
        """N = 5000, λ = 2 needs q = 0.1963; the printed 0.1778 belongs to N = 10000 and leaves a tail of 4.3 %."""
        assert three_sigma_lie(5000, 5, LN2) == pytest.approx(0.19634, abs=5e-6)
        assert simple_three_sigma_lie(5000, 5, LN2) == pytest.approx(0.19640, abs=5e-6)
        assert simple_three_sigma_lie(10_000, 5, LN2) == pytest.approx(0.1778, abs=5e-5)
        assert three_sigma_ratio(5000, 5, 0.1778) > 2
        tail = sufficient_tail(*outlier_pair(5000, 5, 0.1778), LN2, strict=False)
        assert tail == pytest.approx(0.04271, abs=6e-6)
        assert tail > 9 * 0.0045

    @pytest.mark.parametrize(
        ("epsilon", "n", "q", "printed"),
        [
            (LN2, 1000, 0.2446, 0.006),
            (LN2, 3000, 0.2109, 0.0048),
            (2.0, 3000, 0.1424, 0.0062),
            (2.0, 5000, 0.1310, 0.0074),
        ],
    )
    def test_the_printed_tails_are_low(self, epsilon: float, n: int, q: float, printed: float) -> None:
        """By 8 to 25 per cent of the true tail."""
        true = sufficient_tail(*outlier_pair(n, 5, q), epsilon, strict=False)
        assert 0.08 < 1 - printed / true < 0.26

    def test_the_deviations_of_section_4(self) -> None:
        """σ/√N is 7.21 and not 7.5, and 0.654 and not 0.6: an 11-fold gain and not a 12-fold one."""
        local, sufficient = count_stderr(1, local_lie(5, LN2)), count_stderr(1, simple_three_sigma_lie(5000, 5, LN2))
        assert local == pytest.approx(7.2077, abs=5e-5)
        assert sufficient == pytest.approx(0.6543, abs=5e-5)
        assert local / sufficient == pytest.approx(11.02, abs=5e-3)
        assert local / count_stderr(1, 0.1778) == pytest.approx(12.15, abs=5e-3)

    def test_one_per_cent_of_the_population_with_ten_per_cent_error(self) -> None:
        """Three deviations are 15.2 % of 1 % of 10⁷."""
        q = simple_three_sigma_lie(10**7, 40, 2.0)
        assert 3 * count_stderr(10**7, q) / 10**5 == pytest.approx(0.152, abs=5e-4)

    def test_the_identity_for_psi_has_a_square(self) -> None:
        """(p⁵ + q⁵)/(pq)²: the middle line is printed with (pq)⁴."""
        middle = (P + Q) * (P**4 - P**3 * Q + (P * Q) ** 2 - P * Q**3 + Q**4)
        assert middle / (P * Q) ** 2 == (P**5 + Q**5) / (P * Q) ** 2 == Fraction(61, 9)
        assert middle / (P * Q) ** 4 != Fraction(61, 9)

    @pytest.mark.parametrize(("epsilon", "n", "q"), [(LN2, 1000, 0.2446), (LN2, 3000, 0.2109), (2.0, 5000, 0.131)])
    def test_hoeffding_is_vacuous(self, epsilon: float, n: int, q: float) -> None:
        """The remark of §3.3: the range of one contribution is (p/q)^5, so the bound is 0.97 and more."""
        values = outlier_ratio_values(5, q)
        gap = n * (math.exp(epsilon) - outlier_ratio_mean(n, 5, q))
        assert math.exp(-2 * gap**2 / (n * (values[-1] - values[0]) ** 2)) > 0.97

    def test_sufficient_tails_can_grow_with_the_crowd(self) -> None:
        """(1.7): the worst tail at q = 1/4, λ = 1.5 goes from 0.336 (n = 6) to 0.427 (n = 7), while δ falls."""

        def worst(n: int, measure: object) -> float:
            assert callable(measure)
            pairs = [neighbours(n, ones, 0.25) for ones in range(n)]
            return max(float(measure(zero.pmf, one.pmf, math.log(1.5))) for zero, one in pairs)

        assert worst(6, sufficient_tail) == pytest.approx(0.336, abs=5e-4)
        assert worst(7, sufficient_tail) == pytest.approx(0.427, abs=5e-4)
        assert worst(7, hockey_stick) < worst(6, hockey_stick)

    def test_one_hot_records_need_the_noise_of_two_bits(self) -> None:
        """§5: with everybody else at a third category the variance of the ratio is 2φ² − 2φ > φ² − 1."""
        for q in (0.05, 0.0877, 0.3):
            r, first = (1 - q) / q, phi(q)
            bits = bit_vectors(3).astype(int)
            third = transition_matrix(3, q)[6]
            assert bits[6].tolist() == [0, 0, 1]
            a, b = (r ** (2.0 * (bits[:, i] - bits[:, 2])) for i in (0, 1))
            assert float(third @ (a - b) ** 2) == pytest.approx(2 * first**2 - 2 * first, rel=1e-10)
            assert 2 * first**2 - 2 * first - (first**2 - 1) == pytest.approx((first - 1) ** 2, rel=1e-9)

    def test_one_hot_records_with_a_third_category_are_not_protected(self) -> None:
        """§5: N = 1000, λ = 2, q of (3.15) for L = 2: δ is 1.2·10⁻² and not 1.9·10⁻⁴.

        δ = (1/N) E(Σ (a − λb))⁺ over N records at the third category, on a grid that keeps the mean.
        """
        n, q = 1000, simple_three_sigma_lie(1000, 2, LN2)
        assert hockey_stick(*outlier_pair(n, 2, q), LN2) == pytest.approx(1.9e-4, rel=0.03)
        r = (1 - q) / q
        bits = bit_vectors(3).astype(int)
        chances = transition_matrix(3, q)[6]
        gain = r ** (2.0 * (bits[:, 0] - bits[:, 2])) - 2 * r ** (2.0 * (bits[:, 1] - bits[:, 2]))
        points, step = 2**20, 0.02
        place = (gain - gain.min()) / step
        index, part = np.floor(place).astype(int), place - np.floor(place)
        single = np.zeros(points)
        np.add.at(single, index, chances * (1 - part))
        np.add.at(single, index + 1, chances * part)
        total = np.fft.irfft(np.fft.rfft(single) ** n, points)
        # The sum is near −N; its grid wraps around once per points·step ≈ 21000.
        values = n * gain.min() + step * np.arange(points)
        period = points * step
        values -= period * np.floor((values + n + period / 2) / period)
        assert float(total @ np.maximum(values, 0)) / n == pytest.approx(1.2e-2, rel=0.04)


class TestNote004:
    def test_cor_4_2_has_a_wrong_sign(self) -> None:
        """R[μ_r + l | D_r] ≤ R[μ_n + l + 2 | D_n]: 0.6986 against 1/3 at n = 16, r = 0, l = 3; ≥ holds throughout."""
        n, q = 16, 0.25

        def right(r: int, s: int) -> float:
            return float(privacy_ratios(n + 1, r, q)[min(s, n + 1)])

        assert right(0, 4 + 3) == pytest.approx(0.6986, abs=5e-5)
        assert right(16, 12 + 5) == pytest.approx(1 / 3)
        for r, l in itertools.product(range(0, n + 1, 2), range(3, 10)):
            assert right(r, 4 + r // 2 + l) >= right(n, 12 + l + 2) * (1 - 1e-12)

    def test_lemma_4_3_has_a_hypothesis_that_no_one_meets(self) -> None:
        """l ≥ npq contradicts the l = √(3nq ln(2/δ)) for which it is needed; l > √(npq) + 1 does not."""
        n, delta = 1000, 1e-6
        q = chernoff_lie(n, 1.0, delta)
        l = math.sqrt(3 * n * q * math.log(2 / delta))
        assert l == pytest.approx(68.9, abs=0.05)
        assert math.sqrt(n * q * (1 - q)) + 1 < l < n * q * (1 - q)

    def test_4_24_shows_the_inverse(self) -> None:
        """The displayed quotient is P(D)/P(D'), of which (4.25) is the inverse."""
        n = 6
        without, outlier = crowd_law(n, 0), crowd_law(n, 1)
        for i in range(n + 1):
            inverse = Fraction(n - i, n) * Q / P + Fraction(i, n) * P / Q
            assert without[i] / outlier[i] == 1 / inverse
            assert outlier_ratio([n - i, i], 0.25) == pytest.approx(float(inverse), rel=1e-13)
        assert outlier[0] / without[0] != without[0] / outlier[0]

    def test_4_36_divides_by_the_wrong_thing(self) -> None:
        """(l/n)(p − q)/(nq) must be (l/n)(p − q)/(pq)."""
        n, l, q, p = 1000, 30, Fraction(1, 10), Fraction(9, 10)
        meant = (n * p + l) / n * q / p + (n * q - l) / n * p / q
        assert meant == 1 - Fraction(l, n) * (p - q) / (p * q) == Fraction(11, 15)
        assert float(1 - Fraction(l, n) * (p - q) / (n * q)) == pytest.approx(0.99976, abs=5e-7)

    def test_section_5_drops_the_one(self) -> None:
        """The printed m violates (5.3): 2.7267 > e at d = 10, ε = 1, δ = 10⁻⁶; the corrected m meets it."""

        def ratio(m: float) -> float:
            spread = math.sqrt(3 * m / 10 * math.log(4e6))
            return (m / 10 + spread + 1) / (m / 10 - spread)

        printed = math.ceil(clear_fakes_printed(10, 1.0, 1e-6))
        assert ratio(printed) == pytest.approx(2.7267, abs=5e-5)
        assert ratio(printed) > math.e
        assert ratio(clear_fakes(10, 1.0, 1e-6)) == pytest.approx(math.e, rel=1e-12)

    def test_4_19_drops_a_factor(self) -> None:
        """Lemma 4.4 without e^ε in (4.19) would bound the total variation, which is far above δ(ε)."""
        zero, one = neighbours(20, 0, 0.25)
        assert hockey_stick(one.pmf, zero.pmf, 0.0) > 10 * hockey_stick(one.pmf, zero.pmf, 1.0)
