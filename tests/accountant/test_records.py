"""Whole records: certified curves lie above every small collection, and attacks below."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant import account
from hubbub.accountant.quadrature import positive_mean
from hubbub.accountant.theorems import category
from hubbub.accountant.theorems.attacks import attack, background, copies_attack
from hubbub.accountant.theorems.records import blanket, blankets, copies, fake_blanket, local
from hubbub.accountant.theorems.records.blankets import _merged, _product_blanket
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial_pmf

Message = int
Distribution = dict[Message, float]
Seen = tuple[int, ...]


def legal(schema: Schema) -> list[int]:
    """Return all legal records, as the bits of integers."""
    return [r for r in range(1 << schema.width) if schema.min_set <= r.bit_count() <= schema.max_set]


def flipped(record: int, width: int, q: float) -> Distribution:
    chances = {s: (s ^ record).bit_count() for s in range(1 << width)}
    return {s: q**h * (1 - q) ** (width - h) for s, h in chances.items()}


def shuffled(senders: list[Distribution]) -> dict[Seen, float]:
    """Return the distribution of the multiset of messages, adding one sender at a time."""
    distribution: dict[Seen, float] = {(): 1.0}
    for sender in senders:
        grown: dict[Seen, float] = defaultdict(float)
        for seen, probability in distribution.items():
            for message, chance in sender.items():
                grown[tuple(sorted((*seen, message)))] += probability * chance
        distribution = grown
    return distribution


def mixture(distributions: list[Distribution]) -> Distribution:
    return {
        s: math.fsum(distribution[s] for distribution in distributions) / len(distributions) for s in distributions[0]
    }


def hockey(one: dict[Seen, float], two: dict[Seen, float], epsilon: float) -> float:
    ratio = math.exp(epsilon)
    return math.fsum(max(p - ratio * two.get(seen, 0.0), 0.0) for seen, p in one.items())


def worst(
    distributions: list[Distribution],
    n: int,
    epsilons: list[float],
    k: int = 1,
    fakes: list[Distribution] | None = None,
) -> list[float]:
    """Return the largest δ over all collections of n people and all ordered pairs."""
    found = [0.0] * len(epsilons)
    for others in itertools.combinations_with_replacement(range(len(distributions)), n - 1):
        crowd = [distributions[i] for i in others for _ in range(k)] + (fakes or [])
        seen = [shuffled([*crowd, *[distribution] * k]) for distribution in distributions]
        for one, two in itertools.permutations(seen, 2):
            found = [max(f, hockey(one, two, e)) for f, e in zip(found, epsilons, strict=True)]
    return found


def grid(schema: Schema, q: float, k: int = 1) -> list[float]:
    pure = k * schema.distance * math.log((1 - q) / q)
    return [0.0, 0.05 * pure, 0.2 * pure, 0.5 * pure, 0.8 * pure, 0.9 * pure]


def flips(schema: Schema, q: float) -> list[Distribution]:
    return [flipped(record, schema.width, q) for record in legal(schema)]


SMALL = [
    (Schema.bits(1), 1),
    (Schema.bits(1), 4),
    (Schema.bits(2), 2),
    (Schema.bits(2), 4),
    (Schema.one_hot(2), 3),
    (Schema.one_hot(3), 1),
    (Schema.one_hot(3), 2),
    (Schema.one_hot(3), 3),
    (Schema.one_hot(4), 2),
    (Schema.at_most(1, 3), 3),
    (Schema.at_most(2, 3), 2),
    (Schema.at_most(2, 4), 2),
]


@pytest.mark.parametrize("q", [0.15, 0.25, 0.4])
@pytest.mark.parametrize(("schema", "n"), SMALL)
def test_all_collections(schema: Schema, n: int, q: float) -> None:
    epsilons = grid(schema, q)
    for epsilon, truth in zip(epsilons, worst(flips(schema, q), n, epsilons), strict=True):
        assert truth <= math.exp(blanket(schema, q, n, epsilon)) * (1 + 1e-12)
        assert math.exp(attack(schema, q, n, epsilon)) <= truth * (1 + 1e-9)


@pytest.mark.parametrize("q", [0.1, 0.3])
@pytest.mark.parametrize(
    ("schema", "n"), [(Schema.bits(1), 2), (Schema.bits(2), 2), (Schema.one_hot(3), 1), (Schema.at_most(1, 2), 2)]
)
def test_two_copies(schema: Schema, n: int, q: float) -> None:
    epsilons = grid(schema, q, 2)
    for epsilon, truth in zip(epsilons, worst(flips(schema, q), n, epsilons, k=2), strict=True):
        assert truth <= math.exp(copies(schema, q, n, epsilon, 2)) * (1 + 1e-12)
        assert math.exp(copies_attack(schema, q, n, epsilon, 2)) <= truth * (1 + 1e-9)


@pytest.mark.parametrize(("width", "k", "epsilon"), [(3, 80, 1.0), (3, 400, 0.5), (100, 100, 1.0)])
def test_many_copies_whose_counts_have_different_supports(width: int, k: int, epsilon: float) -> None:
    """Regression: tails left out made the two counts start at different numbers, and their difference raised."""
    schema, q, n = Schema.bits(width), 0.45, 1000
    assert -math.inf < copies_attack(schema, q, n, epsilon, k) <= copies(schema, q, n, epsilon, k)


@pytest.mark.parametrize("q", [0.1, 0.3])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize(
    ("schema", "n"),
    [(Schema.bits(2), 1), (Schema.bits(2), 2), (Schema.one_hot(3), 1), (Schema.one_hot(3), 2), (Schema.one_hot(2), 2)],
)
def test_flipped_fakes(schema: Schema, n: int, m: int, q: float) -> None:
    epsilons = grid(schema, q)
    distributions = flips(schema, q)
    for epsilon, truth in zip(
        epsilons, worst(distributions, n, epsilons, fakes=[mixture(distributions)] * m), strict=True
    ):
        certified = math.exp(fake_blanket(schema, q, m, epsilon))
        assert truth <= certified * (1 + 1e-12)
        assert truth <= math.exp(blanket(schema, q, n + m, epsilon)) * (1 + 1e-12)
        if n == 1:  # no other people, so the distribution of the fakes is exact
            assert certified <= truth * (1 + 2.5e-3) + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_merged_atoms_are_larger_in_the_convex_order(seed: int) -> None:
    source = np.random.default_rng(seed)
    values = np.sort(source.normal(size=500) ** 3)[:: 1 if seed % 2 else -1]
    weights = source.random(500) ** 4
    merged, masses = _merged(values, weights)
    assert len(merged) <= blankets.ATOMS
    assert masses @ merged == pytest.approx(weights @ values, abs=1e-10)
    for limit in np.linspace(-8.0, 8.0, 33):
        assert masses @ np.maximum(merged - limit, 0.0) >= weights @ np.maximum(values - limit, 0.0) - 1e-10


def test_merged_atoms_of_different_magnitude_keep_their_mean() -> None:
    """The share of a value far above is below the precision of 1 − share, but its part of the mean is not."""
    values, weights = np.append(1e20, np.linspace(2.0, 1.0, 499)), np.append(1e-30, np.full(499, 1 / 500))
    merged, masses = _merged(values, weights)
    for limit in (0.0, 1.0, 1.5, 1.99, 1.999, 2.0, 3.0):
        kept, whole = (
            sum(Fraction(w) * max(Fraction(x) - Fraction(limit), Fraction(0)) for x, w in zip(*atoms, strict=True))
            for atoms in ((merged, masses), (values, weights))
        )
        assert kept >= whole * (1 - Fraction(1, 10**13))


@pytest.mark.parametrize("steps", [1, 2, 5, 20, 300, 10**5])
@pytest.mark.parametrize("d", [300, 1000, 5000])
def test_fakes_of_many_labels_next_to_the_uniform_point(d: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged atoms of the same value gave masses that were not numbers, and a legal protocol was refused."""
    schema, q, m = Schema.one_hot(d), 0.5 - steps / GRID, 50
    found = [fake_blanket(schema, q, m, epsilon) for epsilon in (0.0, 1e-15)]
    assert account(Protocol(q, m=m), schema, 100, epsilon=0.0).delta >= 0.0
    blankets._one_hot_fakes.cache_clear()
    monkeypatch.setattr(blankets, "ATOMS", d)
    whole = [fake_blanket(schema, q, m, epsilon) for epsilon in (0.0, 1e-15)]
    blankets._one_hot_fakes.cache_clear()
    assert found == pytest.approx(whole, abs=3e-3)


@pytest.mark.parametrize(
    ("d", "q", "m", "epsilon"), [(5000, 0.05, 10**4, 0.3), (5000, 0.3, 10**4, 0.1), (10**5, 0.01, 10**4, 1.0)]
)
def test_fakes_of_many_labels_need_few_atoms(
    d: int, q: float, m: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of atoms, recomputed for every number of fakes, made a ledger of 100,000 labels take half a minute."""
    schema = Schema.one_hot(d)
    found = fake_blanket(schema, q, m, epsilon)
    assert sum(len(part[1]) for part in blankets._one_hot_fakes(d, q)) <= 4 * blankets.ATOMS
    blankets._one_hot_fakes.cache_clear()
    monkeypatch.setattr(blankets, "ATOMS", d)
    whole = fake_blanket(schema, q, m, epsilon)
    blankets._one_hot_fakes.cache_clear()
    assert whole - 1e-4 <= found <= whole + 1e-3


def test_fakes_of_three_categories_at_a_known_value() -> None:
    schema, distributions = Schema.one_hot(3), flips(Schema.one_hot(3), 0.1)
    assert worst(distributions, 1, [0.5], fakes=[mixture(distributions)] * 2)[0] == pytest.approx(
        0.3779629255085528, rel=1e-12
    )
    assert math.exp(fake_blanket(schema, 0.1, 2, 0.5)) == pytest.approx(0.3779629255085528, rel=2.5e-3)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_categories(d: int, n: int) -> None:
    q = 1 / (math.e + d - 1)
    distributions = [{s: 1 - (d - 1) * q if s == own else q for s in range(d)} for own in range(d)]
    epsilons = [0.0, 0.2, 0.5, 0.77, 0.95]
    for epsilon, truth in zip(epsilons, worst(distributions, n, epsilons), strict=True):
        assert truth <= math.exp(category.blanket(d, q, n, epsilon)) * (1 + 1e-12)
        assert math.exp(category.attack(d, q, n, epsilon)) <= truth * (1 + 1e-8)


def test_values_for_which_published_code_is_too_low() -> None:
    """Four categories, two people: published code says 0.01708. One-hot, four people: 0.0048."""
    q = 1 / (math.e + 3)
    distributions = [{s: 1 - 3 * q if s == own else q for s in range(4)} for own in range(4)]
    third = hockey(shuffled([distributions[0], distributions[2]]), shuffled([distributions[1], distributions[2]]), 0.77)
    assert third == pytest.approx(0.028042, abs=1e-6)
    assert math.exp(category.attack(4, q, 2, 0.77)) == pytest.approx(third, rel=1e-3)
    truth = worst(distributions, 2, [0.77])[0]  # with one of the two categories in the crowd it is even higher
    assert truth == pytest.approx(0.04643, abs=1e-5)
    assert math.exp(category.blanket(4, q, 2, 0.77)) >= truth
    one_hot = Schema.one_hot(3)
    truth = worst(flips(one_hot, 0.1), 4, [4.0])[0]
    assert truth >= 0.12245
    assert math.exp(blanket(one_hot, 0.1, 4, 4.0)) >= truth


@pytest.mark.parametrize("gap", [1e-2, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize(
    ("schema", "q", "k"), [(Schema.bits(3), 0.2, 1), (Schema.one_hot(5), 0.01, 2), (Schema.bits(8), 0.4, 1)]
)
def test_one_user_next_to_the_pure_epsilon(schema: Schema, q: float, k: int, gap: float) -> None:
    """δ = p^b − e^ε q^b, where only the unflipped outcome counts, is a difference of nearly equal numbers."""
    import mpmath

    bits = k * schema.distance
    with mpmath.workdps(40):
        p, flip = 1 - mpmath.mpf(q), mpmath.mpf(q)
        epsilon = float(bits * mpmath.log(p / flip)) - gap
        truth = mpmath.log(p**bits - mpmath.exp(mpmath.mpf(epsilon)) * flip**bits)
    assert float(truth) <= local(schema, q, epsilon, k) <= float(truth) + 1e-6 + 1e-10 / gap


def solved(bound: object, low: float, high: float) -> float:
    """Return the point at which a decreasing bound reaches 10⁻⁶."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) > math.log(1e-6) else (low, middle)  # type: ignore[operator]
    return high


@pytest.mark.parametrize(
    ("n", "q", "third", "certified"),
    [
        (10**3, 0.25, 0.30954, 0.35744),
        (10**4, 0.1, 0.43576, 0.46317),
        (10**6, 0.01, 0.57863, 0.58221),
        (10**7, 0.1, 0.01044, 0.01105),
    ],
)
def test_known_one_hot_epsilons(n: int, q: float, third: float, certified: float) -> None:
    """One hundred categories, where the product blanket is used."""
    schema = Schema.one_hot(100)
    assert solved(lambda e: blanket(schema, q, n, e), 0.0, 2.0) == pytest.approx(certified, rel=2e-3)
    found = solved(lambda e: positive_mean(*background((1, 1, 1), q, e), n).lower, 0.0, 2.0)
    assert found == pytest.approx(third, rel=2e-3)


@pytest.mark.parametrize(
    ("d", "eps0", "n", "epsilon"),
    [(3, 1.0, 10**4, 0.038), (4, 3.0, 10**4, 0.21517), (16, 3.0, 10**4, 0.17146), (100, 5.0, 10**6, 0.04561)],
)
def test_known_category_epsilons(d: int, eps0: float, n: int, epsilon: float) -> None:
    q = 1 / (math.exp(eps0) + d - 1)
    certified = solved(lambda e: category.blanket(d, q, n, e), 0.0, 2.0)
    assert certified == pytest.approx(epsilon, rel=5e-4)
    assert solved(lambda e: category.attack(d, q, n, e), 0.0, 2.0) == pytest.approx(certified, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(math.log(2), 1.9e-2), (1.0, 4.4e-3), (2.0, 6.6e-6)])
def test_five_bits_among_a_thousand(epsilon: float, delta: float) -> None:
    assert math.exp(blanket(Schema.bits(5), 0.2446, 1000, epsilon)) == pytest.approx(delta, rel=0.02)


@settings(max_examples=8)
@given(st.integers(2, 7), st.floats(0.1, 0.45), st.floats(0.0, 2.0), st.integers(1, 2000))
def test_more_differing_positions_are_worse(width: int, q: float, epsilon: float, n: int) -> None:
    """The bound by the uniform blanket for records that differ in h positions grows with h."""
    ratio = math.log((1 - q) / q)
    uppers = []
    for h in range(1, width + 1):
        a_weights, c_weights = binomial_pmf(h, 0.5), binomial_pmf(width - h, 0.5)
        atoms = [
            (
                math.exp(ratio * c) * (math.exp(ratio * a) - math.exp(epsilon + ratio * (h - a))),
                a_weights[a] * c_weights[c],
            )
            for a in range(h + 1)
            for c in range(width - h + 1)
        ]
        values, weights = zip(*atoms, strict=True)
        uppers.append(positive_mean(values, [w * (2 * q) ** width for w in weights], n).upper)
    assert all(b >= a - 2e-3 for a, b in itertools.pairwise(uppers))


@pytest.mark.long
@settings(max_examples=8)
@given(st.integers(1, 3), st.floats(0.05, 0.45), st.floats(0.0, 2.0), st.integers(1, 2000))
def test_disjoint_records_with_all_ones_are_worst(most: int, q: float, epsilon: float, n: int) -> None:
    """The product blanket covers records with i and j ones apart and c in common, i + c and j + c at most K."""
    ratio = math.log((1 - q) / q)
    top = positive_mean(*_product_blanket(most, q, epsilon), n).upper
    for i, j, c in itertools.product(range(most + 1), repeat=3):
        if i + j > 0 and max(i, j) + c <= most:
            i_weights, j_weights, c_weights = (binomial_pmf(size, q) for size in (i, j, c))
            values, weights = [], []
            for a, b, e in itertools.product(range(i + 1), range(j + 1), range(c + 1)):
                one, two = 2 * (a + e) - i - c, 2 * (b + e) - j - c
                values.append(math.exp(ratio * (most + one)) - math.exp(epsilon + ratio * (most + two)))
                weights.append(i_weights[a] * j_weights[b] * c_weights[e] * math.exp(-ratio * most))
            assert positive_mean(values, weights, n).upper <= top + 2e-3


@settings(max_examples=8)
@given(
    st.sampled_from([Schema.bits(3), Schema.one_hot(4), Schema.one_hot(30), Schema.at_most(2, 9)]),
    st.floats(0.02, 0.45),
    st.floats(0, 3),
    st.integers(1, 10**6),
)
def test_bounds_decrease(schema: Schema, q: float, epsilon: float, n: int) -> None:
    base = blanket(schema, q, n, epsilon)
    assert blanket(schema, q, 2 * n, epsilon) <= base + 2e-3
    assert blanket(schema, q, n, epsilon + 0.3) <= base + 2e-3
    assert blanket(schema, (q + 0.499) / 2, n, epsilon) <= base + 2e-3
