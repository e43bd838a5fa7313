"""Certificates and attacks in the corners where terms cancel: next to q = 1/2 or 1/d, to ε = 0 and to the pure ε.

The references are evaluated in ball arithmetic, with q and ε as exact binary numbers.
"""

import itertools
import math
import time
from collections import Counter

import pytest
from flint import arb, arb_poly, ctx
from tests.accountant.balls import ball_delta

from hubbub.accountant import account
from hubbub.accountant.cases import analyze
from hubbub.accountant.quadrature import positive_mean
from hubbub.accountant.theorems import attacks, bit, category, records
from hubbub.accountant.theorems.records import blankets
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema

Atoms = list[tuple[arb, arb]]


@pytest.fixture(autouse=True)
def precision() -> None:
    ctx.prec = 320


def mean_gain(atoms: Atoms, n: int) -> arb:
    """Return (1/n)·E[S⁺] over all outcomes; missing weight is an atom at 0."""
    atoms = [*atoms, (arb(0), 1 - sum((weight for _, weight in atoms), arb(0)))]
    total = arb(0)
    for chosen in itertools.combinations_with_replacement(range(len(atoms)), n):
        value = sum((atoms[i][0] for i in chosen), arb(0))
        if value > 0:
            ways = math.factorial(n) // math.prod(map(math.factorial, Counter(chosen).values()))
            for i in chosen:
                value *= atoms[i][1]
            total += ways * value
    return total / n


def gain(first: list[arb], second: list[arb], epsilon: float) -> arb:
    """Return δ(ε) by its definition."""
    ratio = arb(epsilon).exp()
    differences = (one - ratio * two for one, two in zip(first, second, strict=True))
    return sum((each for each in differences if each > 0), arb(0))


def counted(trials: int, chance: arb) -> arb_poly:
    return arb_poly([1 - chance, chance]) ** trials


def crowd_delta(ones: int, zeros: int, q: float, epsilon: float, k: int = 1, fakes: int = 0) -> arb:
    """Return δ(ε) of "own bit 1 against 0" in a crowd of these others and of uniform fakes."""
    flip = arb(q)
    crowd = counted(k * ones, 1 - flip) * counted(k * zeros, flip) * counted(fakes, arb(0.5))
    one, zero = (crowd * counted(k, chance) for chance in (1 - flip, flip))
    return gain(one.coeffs(), zero.coeffs(), epsilon)


def worst_crowd(n: int, q: float, epsilon: float, k: int = 1, fakes: int = 0) -> arb:
    every = (crowd_delta(ones, n - 1 - ones, q, epsilon, k, fakes) for ones in range(n))
    return max(every, key=lambda ball: float(ball.mid()))


def pure(odds: arb, distance: int) -> float:
    return float((distance * odds.log()).mid())


def category_atoms(d: int, q: float, epsilon: float) -> Atoms:
    flip, ratio = arb(q), arb(epsilon).exp()
    odds = (1 - (d - 1) * flip) / flip
    return [(odds - ratio, flip), (1 - ratio * odds, flip), (1 - ratio, (d - 2) * flip)]


def largest_atoms(width: int, q: float, epsilon: float) -> Atoms:
    flip, ratio = arb(q), arb(epsilon).exp()
    odds = (1 - flip) / flip
    kinds: Counter[tuple[int, int, int]] = Counter()
    for message in itertools.product((0, 1), repeat=width):
        distance = [1 + sum(message) - 2 * set_bit for set_bit in message]
        kinds[distance[0], distance[1], max(distance)] += 1
    return [
        (odds ** (most - one) - ratio * odds ** (most - two), count * flip**most * (1 - flip) ** (width - most))
        for (one, two, most), count in kinds.items()
    ]


def product_atoms(ones: int, q: float, epsilon: float) -> Atoms:
    flip, ratio = arb(q), arb(epsilon).exp()
    odds = (1 - flip) / flip
    shown = counted(ones, flip).coeffs()
    return [
        (odds ** (2 * u) - ratio * odds ** (2 * v), shown[u] * shown[v] / odds**ones)
        for u in range(ones + 1)
        for v in range(ones + 1)
    ]


def uniform_atoms(width: int, q: float, epsilon: float) -> Atoms:
    flip, ratio = arb(q), arb(epsilon).exp()
    odds = (1 - flip) / flip
    return [(odds**a - ratio * odds ** (width - a), math.comb(width, a) * flip**width) for a in range(width + 1)]


def fake_atoms(width: int, q: float, epsilon: float) -> Atoms:
    scale = (2 * arb(q)) ** width
    return [(value * scale, weight / scale) for value, weight in uniform_atoms(width, q, epsilon)]


def one_hot_fake_atoms(d: int, q: float, epsilon: float) -> Atoms:
    flip, ratio = arb(q), arb(epsilon).exp()
    kinds: Counter[tuple[int, int, int]] = Counter()
    for message in itertools.product((0, 1), repeat=d):
        kinds[message[0], message[1], sum(message)] += 1

    def chance(set_bits: int, own: int) -> arb:
        distance = 1 + set_bits - 2 * own
        return flip**distance * (1 - flip) ** (d - distance)

    atoms = []
    for (one, two, total), count in kinds.items():
        blanket = (total * chance(total, 1) + (d - total) * chance(total, 0)) / d
        atoms.append(((chance(total, one) - ratio * chance(total, two)) / blanket, count * blanket))
    return atoms


FLIPS = (0.5 - 1e-12, 0.5 - 3e-9, 0.4999, 0.3, 1e-3, 1e-6)
NEAR = (0.0, 0.3, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15)


def certified_blankets(q: float, share: float) -> list[tuple[str, float, arb]]:
    """Return the name, the certified ln δ and the exact value of each blanket for two users or one fake."""
    odds = (1 - arb(q)) / arb(q)
    two, four = share * pure(odds, 2), share * pure(odds, 4)
    upper = records.bracket
    return [
        ("largest", upper(*blankets._largest_blanket(3, q, two), 2).upper, mean_gain(largest_atoms(3, q, two), 2)),
        ("product", upper(*blankets._product_blanket(2, q, four), 2).upper, mean_gain(product_atoms(2, q, four), 2)),
        ("uniform", upper(*records.uniform_blanket(2, q, two), 3).upper, mean_gain(uniform_atoms(2, q, two), 3)),
        ("fakes", records.fake_blanket(Schema.bits(2), q, 1, two), mean_gain(fake_atoms(2, q, two), 2)),
        (
            "one-hot fakes",
            records.fake_blanket(Schema.one_hot(3), q, 1, two),
            mean_gain(one_hot_fake_atoms(3, q, two), 2),
        ),
    ]


@pytest.mark.parametrize("share", NEAR)
@pytest.mark.parametrize("q", FLIPS)
def test_blankets_are_not_below_their_exact_value(q: float, share: float) -> None:
    for name, found, truth in certified_blankets(q, share):
        assert not truth > arb(found).exp(), name


@pytest.mark.parametrize("q", [0.5 - 1e-9, 0.4999, 0.3])
def test_blankets_stay_tight_next_to_the_uniform_point(q: float) -> None:
    """The allowance is relative to the terms that cancel, not to 1."""
    for name, found, truth in certified_blankets(q, 1 - 1e-9):
        assert arb(found).exp() < truth * arb("1.001"), name


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("share", NEAR)
@pytest.mark.parametrize(("d", "gap"), [(3, 1e-8), (3, 1e-12), (4, 1e-3), (9, 1e-14), (3, 0.2), (100, 1e-10)])
def test_categories_are_bracketed_next_to_the_uniform_point(d: int, gap: float, share: float, n: int) -> None:
    q = 1 / d - gap if gap < 1 / d else 1e-6
    flip = arb(q)
    odds = (1 - (d - 1) * flip) / flip
    epsilon = share * pure(odds, 1)
    truth, alone = mean_gain(category_atoms(d, q, epsilon), n), 1 - (d - 1) * flip - arb(epsilon).exp() * flip
    truth = truth if truth < alone else alone
    assert arb(category.blanket(d, q, n, epsilon)).exp() >= truth * (1 - arb(2) ** -45)
    assert arb(category.local(d, q, epsilon)).exp() >= alone
    ratio = arb(epsilon).exp()
    third = [
        (odds - ratio, flip), (1 - ratio * odds, flip), ((1 - ratio) / odds, flip * odds), (1 - ratio, (d - 3) * flip)
    ]  # fmt: skip
    assert not arb(category.attack(d, q, n, epsilon)).exp() > mean_gain(third, n)


def test_one_category_of_three_next_to_a_third() -> None:
    """Used to be certified as δ = 0."""
    protocol = Protocol(1 / 3 - 1e-8, release="category")
    flip = arb(protocol.q)
    epsilon = pure((1 - 2 * flip) / flip, 1) * (1 - 1e-9)
    truth = 1 - 2 * flip - arb(epsilon).exp() * flip
    found = account(protocol, Schema.one_hot(3), 1, epsilon=epsilon)
    assert truth > 0
    assert truth <= arb(found.delta) <= truth * arb("1.001")
    assert truth * arb("0.99") <= arb(found.lower_bound) <= truth


@pytest.mark.parametrize(("q", "n"), [(0.499999999, 41), (0.5 - 1e-12, 51), (0.5 - 1e-15, 2), (0.4999, 7)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-17])
def test_one_bit_at_zero_epsilon(q: float, n: int, epsilon: float) -> None:
    truth = worst_crowd(n, q, epsilon)
    found = bit.supremum(n, q, epsilon, tolerance=1e-6)
    assert arb(found.lower).exp() <= truth <= arb(found.upper).exp()
    assert found.upper - found.lower < 1e-4


@pytest.mark.parametrize(
    ("n", "q", "k", "epsilon"),
    [(10, 0.01745, 7, 19.11), (10, 0.01745, 7, 25.0), (4, 1e-3, 12, 60.0), (6, 1e-6, 5, 50.0), (3, 0.2, 9, 11.0)],
)
def test_copies_at_a_large_epsilon(n: int, q: float, k: int, epsilon: float) -> None:
    """Used to be certified, and reported as attained, as δ = 1."""
    truth = worst_crowd(n, q, epsilon, k)
    analysis = analyze(Protocol(q, k), Schema.bits(1), n, n)
    found = bit.supremum(n, q, epsilon, k, tolerance=1e-6)
    assert arb(found.lower).exp() <= truth <= arb(found.upper).exp()
    assert found.upper - found.lower < 1e-4
    assert analysis.options[0].basis is Basis.EXACT


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("q", [1e-5, 0.01, 0.2, 0.45])
@pytest.mark.parametrize("share", [0.3, 0.8, 0.99, 1 - 1e-6])
def test_attacks_on_counts_are_attained(q: float, share: float, k: int) -> None:
    """Their allowance grows with e^ε."""
    n, epsilon = 5, share * pure((1 - arb(q)) / arb(q), k)
    for found, fakes in (
        (attacks.copies_attack(Schema.bits(1), q, n, epsilon, k), 0),
        (attacks.column_attack(Schema.bits(1), q, n, epsilon, k, 0), 0),
        (attacks.column_attack(Schema.bits(1), q, n, epsilon, k, 4), 4),
    ):
        assert arb(found).exp() <= worst_crowd(n, q, epsilon, k, fakes)


def test_attacks_on_counts_reach_far_below_a_trillionth() -> None:
    truth = math.log(max(float(crowd_delta(*crowd, 0.2, 1.1, fakes=10).mid()) for crowd in ((199, 0), (0, 199))))
    assert truth < math.log(1e-14)
    assert truth - 1e-2 < attacks.column_attack(Schema.bits(1), 0.2, 200, 1.1, 1, 10) <= truth


@pytest.mark.parametrize("digits", [6, 10, 13, 14, 15])
@pytest.mark.parametrize(("n", "q", "k"), [(1, 0.1, 1), (4, 0.25, 1), (3, 0.4, 2), (9, 0.01, 1), (2, 0.3, 5)])
def test_lower_bounds_next_to_the_pure_epsilon(n: int, q: float, k: int, digits: int) -> None:
    epsilon = pure((1 - arb(q)) / arb(q), k) * (1 - 10.0**-digits)
    found, truth = bit.supremum(n, q, epsilon, k), worst_crowd(n, q, epsilon, k)
    assert arb(found.lower).exp() <= truth <= arb(found.upper).exp()
    if k == 1:
        protocol = Protocol(q)
        local = analyze(protocol, Schema.bits(1), n, n, "nobody")
        alone = crowd_delta(0, 0, protocol.q, epsilon)
        assert not arb(local.attacked_delta(epsilon)) > alone
        assert not alone > arb(local.delta(epsilon))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 5.0])
def test_the_lower_bound_of_half_a_billion_ones(epsilon: float) -> None:
    """All but 0.3 of these bits are sent as they are: the phases of the Fourier sum are large."""
    n, q = 550_000_000, 5.2e-10
    flip, ratio = arb(q), arb(epsilon).exp()
    others, keep = n - 1, 1 - flip
    # A = others − (number of flips), so P[A ≥ others − j] is a sum of j + 1 terms
    term, tail, best = keep**others, arb(0), arb(0)
    for flips in range(12):
        below, tail = tail, tail + term
        term *= flip / keep * (others - flips) / (flips + 1)
        # threshold t = others − flips + 1: P[A ≥ t − 1] = tail, P[A ≥ t] = below
        value = keep * tail + flip * below - ratio * (flip * tail + keep * below)
        best = value if value > best else best
    found = float(bit.log_delta([others], [0], q, epsilon)[0])
    assert best <= arb(found).exp() <= best * arb("1.0001")
    lower = attacks.copies_attack(Schema.bits(1), q, n, epsilon, 1)
    assert lower <= float(max((best, crowd_of_zeros(n, q, epsilon)), key=lambda x: float(x.mid())).log().upper())


def crowd_of_zeros(n: int, q: float, epsilon: float) -> arb:
    flip, ratio = arb(q), arb(epsilon).exp()
    keep = 1 - flip
    term, head, best = keep ** (n - 1), arb(0), arb(0)
    for count in range(40):  # P[A = count]; threshold t = count + 1
        head += term
        above, at_least = 1 - head, 1 - head + term
        term *= flip / keep * (n - 1 - count) / (count + 1)
        value = keep * at_least + flip * above - ratio * (flip * at_least + keep * above)
        best = value if value > best else best
    return best


COPIES = [
    (Protocol(1e-14, 32, 0, "bits"), Schema.bits(1)),
    (Protocol(1e-14, 32, 0, "bits"), Schema.one_hot(4)),
    (Protocol(1e-14, 32), Schema.one_hot(4)),
    (Protocol(1e-14, 32, 7), Schema.bits(3)),
    (Protocol(1e-300, release="category"), Schema.one_hot(4)),
    (Protocol(0.3, 1, 5), Schema.bits(2)),
]


COLLECTIONS = [
    # Copies of whole records among fakes take seconds: the smallest collection is fast.
    pytest.param(protocol, schema, n, marks=[pytest.mark.long] if protocol.k > 1 and protocol.m and n > 1 else [])
    for protocol, schema in COPIES
    for n in (1, 10, 10**6)
]


@pytest.mark.parametrize(("protocol", "schema", "n"), COLLECTIONS)
def test_large_exponents_do_not_overflow(protocol: Protocol, schema: Schema, n: int) -> None:
    for epsilon in (1.0, 500.0, 710.0, 1e4):
        found = account(protocol, schema, n, epsilon=epsilon)
        assert 0 <= found.lower_bound <= found.delta <= 1
        assert found.delta == 0 or epsilon < found.assumptions.collusion_epsilon
    solved = account(protocol, schema, n, delta=1e-6)
    assert 0 <= solved.lower_bound <= solved.epsilon <= solved.assumptions.collusion_epsilon


@pytest.mark.parametrize("share", [0.5, 1 - 1e-6, 1 - 1e-13])
@pytest.mark.parametrize(("width", "q", "k"), [(1, 1e-14, 32), (3, 1e-9, 4), (2, 0.5 - 1e-9, 3), (5, 0.3, 1)])
def test_the_local_curve_is_bracketed(width: int, q: float, k: int, share: float) -> None:
    bits = width * k
    flip = arb(q)
    kept = counted(bits, 1 - flip).coeffs()
    epsilon = share * pure((1 - flip) / flip, bits)
    truth = gain(kept, kept[::-1], epsilon)
    assert truth <= arb(records.local(Schema.bits(width), q, epsilon, k)).exp() * (1 + arb(2) ** -45)


def test_few_users_with_a_huge_range_of_likelihoods() -> None:
    start = time.process_time()
    found = account(Protocol(1e-6), Schema.one_hot(4), 4, delta=1e-4)
    assert found.epsilon == pytest.approx(2 * math.log(1e6), rel=1e-3)
    assert time.process_time() - start < 3


def test_equal_atoms_are_merged_for_both_ends() -> None:
    """Atoms that nearly coincide used to be merged into the larger also for the lower end."""
    step = 1 + 2.0**-45
    values, weights, n = [1.0, step, -0.999], [0.25, 0.25, 0.5], 1
    truth = 0.25 + 0.25 * step
    assert positive_mean(values, weights, n).lower <= math.log(truth)


def test_ball_arithmetic_beyond_the_pure_epsilon() -> None:
    q = 0.1
    odds = float(((1 - arb(q)) / arb(q)).log().mid())
    assert ball_delta(3, 0, q, math.nextafter(odds, 9.0)) == 0
    assert ball_delta(3, 0, q, math.nextafter(odds, 0.0)) > 0


def test_the_local_bound_of_a_crowd_is_not_called_exact() -> None:
    found = account(Protocol(1e-6), Schema.one_hot(4), 4, epsilon=27.0)
    assert found.basis is Basis.PROVEN
    assert account(Protocol(1e-6), Schema.one_hot(4), 4, epsilon=27.0, trust="nobody").basis is Basis.EXACT
