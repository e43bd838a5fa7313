"""The brackets of the quadrature contain the exact value for any atoms."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant import quadrature
from hubbub.accountant.quadrature import Complexes, Floats, Integral, _bromwich, _Line, positive_mean
from hubbub.accountant.theorems.attacks import background
from hubbub.errors import InvalidInput


def exact(values: list[float], weights: list[float], n: int) -> Fraction:
    """Return (1/n)·E[S⁺], summed over all choices of the n terms; missing weight is an atom at 0."""
    v = [*map(Fraction, values), Fraction(0)]
    w = [*map(Fraction, weights)]
    w.append(1 - sum(w, start=Fraction(0)))
    mean = Fraction(0)
    for chosen in itertools.combinations_with_replacement(range(len(v)), n):
        total = sum(v[i] for i in chosen)
        if total > 0:
            counts = [chosen.count(i) for i in range(len(v))]
            ways = math.factorial(n) // math.prod(map(math.factorial, counts))
            chance = ways * math.prod((w[i] ** c for i, c in enumerate(counts)), start=Fraction(1))
            mean += chance * total
    return mean / n


def log(x: Fraction) -> float:
    return math.log(x) if x > 0 else -math.inf


def contained(values: list[float], weights: list[float], n: int) -> None:
    truth, bracket = log(exact(values, weights, n)), positive_mean(values, weights, n)
    slack = 2e-15 * abs(truth) if math.isfinite(truth) else 0.0  # of the logarithm of the exact value
    assert bracket.lower - slack <= truth <= bracket.upper + slack


shares = st.lists(st.integers(1, 50), min_size=4, max_size=4)


@given(st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=1, max_size=3), shares, st.integers(1, 5))
def test_random_atoms(values: list[float], parts: list[int], n: int) -> None:
    """The weights sum to less than 1: the last part is missing."""
    contained(values, [part / (sum(parts) + 1) for part in parts[: len(values)]], n)


@given(st.lists(st.tuples(st.floats(-12, 12), st.booleans()), min_size=2, max_size=3), shares, st.integers(1, 5))
def test_heavy_tails(logs: list[tuple[float, bool]], parts: list[int], n: int) -> None:
    contained(
        [math.exp(x) * (1 if up else -1) for x, up in logs], [a / (sum(parts) + 1) for a in parts[: len(logs)]], n
    )


@given(st.floats(0, 60), st.floats(0, 60), st.floats(0.1, 3), st.integers(1, 5))
def test_one_huge_and_rare_atom(size: float, rare: float, bottom: float, n: int) -> None:
    contained([math.exp(size), -bottom, 0.5], [math.exp(-rare) / 4, 0.6, 0.1], n)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("rare", [1e-1, 1e-4, 1e-7, 1e-10, 1e-13])
def test_an_atom_that_is_just_large_enough(n: int, rare: float) -> None:
    """S = 0 with one large atom: after cancellation only the probability of two is left."""
    contained([n - 1.0, -1.0], [rare, math.nextafter(1.0 - rare, 0.0)], n)  # at most 1 in total


@pytest.mark.parametrize(
    ("values", "weights", "n"), [([2.0], [0.25], 7), ([1.0, 3.0], [0.5, 0.5], 3), ([5.0, -1.0], [0.5, 0.5], 1)]
)
def test_known_sums(values: list[float], weights: list[float], n: int) -> None:
    truth = float(exact(values, weights, n))
    assert math.exp(positive_mean(values, weights, n).upper) == pytest.approx(truth, rel=1e-12)


def test_nothing_positive() -> None:
    assert positive_mean([-1.0, 0.0], [0.5, 0.5], 3).upper == -math.inf
    assert positive_mean([1.0], [0.0], 3).upper == -math.inf


HOMOGENEOUS = {"outlier": (5, 0, 0), "crowd": (0, 5, 0)}


@pytest.mark.parametrize(("order", "delta"), [("outlier", 5.0234e-4), ("crowd", 1.1062e-4)])
def test_five_bits_among_a_thousand(order: str, delta: float) -> None:
    bracket = positive_mean(*background(HOMOGENEOUS[order], 0.2446, math.log(2)), 1000)
    assert math.exp(bracket.lower) <= delta * (1 + 1e-4)
    assert math.exp(bracket.upper) >= delta * (1 - 1e-4)
    assert bracket.upper - bracket.lower <= 5e-4


def test_forty_bits_among_ten_million() -> None:
    bracket = positive_mean(*background((40, 0, 0), 0.351, 2.0), 10**7)
    assert math.exp(bracket.lower) <= 6.01e-4 * 1.002
    assert math.exp(bracket.upper) >= 6.01e-4 * 0.998
    assert bracket.upper - bracket.lower <= 2e-3


@pytest.mark.parametrize("n", [10, 10**3, 10**5, 10**7, 10**9])
@pytest.mark.parametrize(("kind", "q"), [((1, 1, 1), 0.1), ((5, 0, 0), 0.25), ((8, 0, 0), 0.3), ((0, 8, 0), 0.35)])
def test_the_bracket_is_narrow(kind: tuple[int, int, int], q: float, n: int) -> None:
    information = 50.0 ** (sum(kind) / 8)
    epsilon = min(3 * math.sqrt(information / n), 2.0)
    bracket = positive_mean(*background(kind, q, epsilon), n)
    assert 0 <= bracket.upper - bracket.lower <= 5e-4


def test_simulation() -> None:
    """Simulated sums agree with the bracket; a wrong number of terms does not."""
    values, weights = background((3, 0, 0), 0.25, 0.3)
    rng = np.random.default_rng(7)
    sums = rng.multinomial(200, weights / weights.sum(), size=400_000) @ values / 200
    gains = np.maximum(sums, 0.0)
    deviation = float(gains.std()) / math.sqrt(len(gains))

    def distance(n: int) -> float:
        bracket = positive_mean(values, weights, n)
        return abs(float(gains.mean()) - math.exp(bracket.upper)) / deviation

    assert distance(200) < 5
    assert distance(190) > 8


@pytest.mark.parametrize(
    "call",
    [
        lambda: positive_mean([1.0, 2.0], [1.0], 3),
        lambda: positive_mean([math.inf], [1.0], 3),
        lambda: positive_mean([1.0], [math.nan], 3),
        lambda: positive_mean([1.0], [-0.1], 3),
        lambda: positive_mean([1.0, -1.0], [0.9, 0.2], 3),
        lambda: positive_mean([1.0], [0.5], 0),
    ],
)
def test_bad_input(call: object) -> None:
    with pytest.raises(InvalidInput):
        call()  # type: ignore[operator]


def coins(n: int) -> mpmath.mpf:
    """Return ln E[S⁺]/n of an even number of fair coins ±1: ½·C(n, n/2)/2ⁿ."""
    with mpmath.workdps(60):
        ways = mpmath.loggamma(n + 1) - 2 * mpmath.loggamma(n // 2 + 1)
        return ways - n * mpmath.log(2) - mpmath.log(2)


@pytest.mark.parametrize("cut", [0.1, 0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("n", [200, 20_000])
def test_frequencies_that_are_cut_off_are_allowed_for(cut: float, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quadrature, "CUT", cut)
    for tolerance in (5e-4, 1e-2, 0.5, 1.0):
        found = _bromwich(Integral(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), n, 0.0), tolerance)
        assert found.lower <= coins(n) + math.log(n) <= found.upper


@pytest.mark.parametrize("side", [-1, 1])
def test_nodes_that_err_by_their_rounding_are_allowed_for(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n, pieces, log_mgf = 10**10, _Line.pieces, Integral.log_mgf

    def erring(self: _Line) -> Iterator[tuple[Complexes, Complexes]]:
        error = 0.9 * self.integral.rounding(self.t, self.reach)
        for z, values in pieces(self):
            yield z, values * (1 + side * error)

    def shifted(self: Integral, t: Floats) -> Floats:
        error = 0.9 * self.rounding(float(t[0]), 0.0) if len(t) == 1 else 0.0
        return log_mgf(self, t) + side * error

    monkeypatch.setattr(_Line, "pieces", erring)
    monkeypatch.setattr(Integral, "log_mgf", shifted)
    found = _bromwich(Integral(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), n, 0.0), 1e-6)
    assert found.lower <= coins(n) + math.log(n) <= found.upper
