"""Surveys: certificates against the enumeration of all small ones, and against golden values."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import hubbub as hb
from hubbub.accountant.theorems import surveys
from hubbub.accountant.theorems.fakes import uniform_bounds
from hubbub.accountant.theorems.uniform import user_loss
from hubbub.privacy import TrustModel
from hubbub.protocol import Noise
from hubbub.questions import Choice, Flag
from hubbub.releases import Release

pytestmark = pytest.mark.accountant

EPSILONS = (0.0, 0.3, 0.7, 1.0, 1.5, 2.5)
Law = NDArray[np.float64]  # probabilities of all outcomes, in the same order for every collection
Collection = tuple[tuple[int, ...], ...]


def survey(sizes: Sequence[int]) -> hb.Schema:
    """Return a survey with a choice of each size."""
    return hb.Schema.survey({f"q{j}": Choice([str(c) for c in range(size)]) for j, size in enumerate(sizes)})


def divergence(p: Law, q: Law, epsilon: float) -> float:
    """Return H(p‖q) at e^ε over all outcomes."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst(sizes: Sequence[int], n: int, law: Callable[[Collection], Law]) -> list[float]:
    """Return the largest δ at each ε over all collections, all pairs of tuples and both orders."""
    tuples = list(itertools.product(*map(range, sizes)))
    known: dict[Collection, Law] = {}

    def view(collection: Collection) -> Law:
        key = tuple(sorted(collection))
        if key not in known:
            known[key] = law(key)
        return known[key]

    found = [0.0] * len(EPSILONS)
    for others in itertools.combinations_with_replacement(tuples, n - 1):
        for x, y in itertools.permutations(tuples, 2):
            p, q = view((x, *others)), view((y, *others))
            found = [max(one, divergence(p, q, epsilon)) for one, epsilon in zip(found, EPSILONS, strict=True)]
    return found


def certified(protocol: hb.Protocol, sizes: Sequence[int], n: int) -> list[float]:
    return [hb.account(protocol, survey(sizes), n, epsilon=epsilon).delta for epsilon in EPSILONS]


def counted(collection: Collection, sizes: Sequence[int]) -> list[list[int]]:
    return [[sum(x[j] == c for x in collection) for c in range(size)] for j, size in enumerate(sizes)]


def product(parts: Iterable[Law]) -> Law:
    """Return the probabilities of all combinations of independent outcomes."""
    law = np.ones(1)
    for part in parts:
        law = np.multiply.outer(law, part.ravel()).ravel()
    return law


def moved(law: Law, counts: Sequence[int], n: int) -> Law:
    """Return the distribution of a vector of counts plus fakes, on a table with room for n people."""
    table = np.zeros([length + n for length in law.shape])
    table[tuple(slice(count, count + length) for count, length in zip(counts, law.shape, strict=True))] = law
    return table


def short(fakes: hb.Fakes) -> Law:
    """Return the probabilities without a far tail, which would make the enumeration long."""
    pmf = fakes.pmf
    return pmf[: int(np.searchsorted(np.cumsum(pmf), 1 - 1e-12)) + 1]


def independent(law: Law, size: int) -> Law:
    """Return the distribution of the fakes of all categories, each drawn by itself."""
    return product([law] * size).reshape((law.size,) * size)


@pytest.mark.parametrize(
    ("sizes", "fakes", "n"),
    [
        ((2,), [hb.Fakes.laplace(0.5, 2)], 1),
        ((3,), [hb.Fakes.gaussian(0.8, 2)], 2),
        ((3,), [hb.Fakes.laplace(0.5, 1)], 3),
        ((2, 2), [hb.Fakes.gaussian(0.8, 2), hb.Fakes.gaussian(0.6, 1)], 2),
        ((2, 2), [hb.Fakes.laplace(0.4, 1), hb.Fakes.gaussian(0.6, 1)], 2),
    ],
)
def test_fakes_of_the_shuffler_are_exact(sizes: tuple[int, ...], fakes: list[hb.Fakes], n: int) -> None:
    laws = [independent(short(one), size) for one, size in zip(fakes, sizes, strict=True)]

    def view(collection: Collection) -> Law:
        return product(moved(law, row, n) for law, row in zip(laws, counted(collection, sizes), strict=True))

    protocol = hb.Protocol.survey([Noise(m=one) for one in fakes])
    bounds = certified(protocol, sizes, n)
    for bound, truth in zip(bounds, worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= truth * 1.0001 + 1e-10
    assert hb.account(protocol, survey(sizes), n, epsilon=1.0).basis is hb.Basis.EXACT


def merged(p: Law, q: Law) -> tuple[Law, Law]:
    """Return a pair of distributions with outcomes of the same likelihood ratio added up, which keeps every δ."""
    used = (p > 1e-18) | (q > 1e-18)
    p, q = p[used], q[used]
    _, group = np.unique(np.round(p / (p + q), 11), return_inverse=True)
    return np.bincount(group, p).astype(np.float64), np.bincount(group, q).astype(np.float64)


def columns(law: Law, n: int) -> list[tuple[Law, Law]]:
    """Return the distinct pairs of one attribute: all answers of the others, all changes, and none, in both orders."""
    size = law.ndim
    found: dict[tuple[float, ...], tuple[Law, Law]] = {}
    for others in itertools.combinations_with_replacement(range(size), n - 1):
        for a, b in itertools.product(range(size), repeat=2):
            rows = ([(own, *others).count(c) for c in range(size)] for own in (a, b))
            pair = merged(*(moved(law, row, n).ravel() for row in rows))
            curve = tuple(round(divergence(*pair, epsilon), 11) for epsilon in EPSILONS)
            found.setdefault((len(pair[0]), *curve), pair)
    return list(found.values())


TINY = [hb.Fakes.laplace(0.5, 1), hb.Fakes.gaussian(0.6, 1), hb.Fakes.gaussian(0.8, 2)]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 2), (3, 3, 3), (3, 2), (3, 3)])
def test_all_collections_of_up_to_three_attributes(sizes: tuple[int, ...], n: int) -> None:
    """Attributes are independent given the collection, so all collections are all combinations of their columns."""
    laws = [independent(short(one), size) for one, size in zip(TINY, sizes, strict=False)]
    pairs = [columns(law, n) for law in laws]
    assert [len(each) for each in pairs] == [2] * len(sizes)  # a change, whichever, and none: Theorem 1
    truth = [0.0] * len(EPSILONS)
    for chosen in itertools.product(*pairs):
        p, q = product(one[0] for one in chosen), product(one[1] for one in chosen)
        truth = [max(one, divergence(p, q, epsilon)) for one, epsilon in zip(truth, EPSILONS, strict=True)]
    for bound, exact in zip(
        certified(hb.Protocol.survey([Noise(m=one) for one in TINY[: len(sizes)]]), sizes, n), truth, strict=True
    ):
        assert exact <= bound * (1 + 1e-9)
        assert bound <= exact * 1.0001 + 1e-10


def test_tuples_that_differ_everywhere_are_all_alike() -> None:
    """The control of Theorem 1: fewer changes lose less, and all pairs that differ everywhere lose the same."""
    laws = [independent(short(one), 2) for one in (hb.Fakes.gaussian(0.8, 2), hb.Fakes.gaussian(0.6, 1))]

    def view(x: tuple[int, int]) -> Law:
        return product(moved(law, row, 1) for law, row in zip(laws, counted((x,), (2, 2)), strict=True))

    whole = {round(divergence(view(x), view(y), 0.7), 12) for x in ((0, 0), (0, 1)) for y in ((1 - x[0], 1 - x[1]),)}
    assert len(whole) == 1
    assert divergence(view((0, 0)), view((0, 1)), 0.7) < 0.9 * whole.pop()


def uniform(most: int, chance: float, size: int) -> Law:
    """Return the distribution of Bin(most, chance) uniform fakes over the categories."""
    table = np.zeros((most + 1,) * size)
    for key in itertools.product(range(most + 1), repeat=size):
        drawn = sum(key)
        if drawn <= most:
            ways = math.factorial(drawn) / math.prod(map(math.factorial, key)) / size**drawn
            table[key] = ways * math.comb(most, drawn) * chance**drawn * (1 - chance) ** (most - drawn)
    return table


@pytest.mark.parametrize(("sizes", "trials", "n"), [((2, 3), (3, 2), 2), ((2, 2, 2), (1, 2, 1), 2), ((3,), (4,), 3)])
def test_fakes_of_the_users_are_exact(sizes: tuple[int, ...], trials: tuple[int, ...], n: int) -> None:
    chance = 0.5
    laws = [uniform(n * count, chance, size) for count, size in zip(trials, sizes, strict=True)]

    def view(collection: Collection) -> Law:
        return product(moved(law, row, n) for law, row in zip(laws, counted(collection, sizes), strict=True))

    protocol = hb.Protocol.survey([Noise(m=hb.Fakes.binomial(count, chance)) for count in trials])
    for bound, truth in zip(certified(protocol, sizes, n), worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= truth * 1.0001


def single(value: int, size: int, q: float, release: Release) -> Law:
    """Return the distribution of one user's messages for one attribute, over all vectors of bits."""
    table = np.zeros((2,) * size)
    if release == "category":
        for sent in range(size):
            table[tuple(int(c == sent) for c in range(size))] = 1 - (size - 1) * q if sent == value else q
        return table
    for bits in itertools.product((0, 1), repeat=size):
        table[bits] = math.prod(1 - q if bit == (c == value) else q for c, bit in enumerate(bits))
    return table


def summed(laws: Sequence[Law]) -> Law:
    """Return the distribution of the sum of independent vectors of bits."""
    total = laws[0]
    for law in laws[1:]:
        table = np.zeros([length + 1 for length in total.shape])
        for bits in itertools.product((0, 1), repeat=law.ndim):
            table[tuple(slice(bit, bit + length) for bit, length in zip(bits, total.shape, strict=True))] += (
                law[bits] * total
            )
        total = table
    return total


@pytest.mark.parametrize(
    ("sizes", "flips", "release", "n"),
    [
        ((2, 2), (0.2, 0.35), "category", 2),
        ((2, 2), (0.2, 0.35), "category", 3),
        ((2, 3), (0.25, 0.2), "category", 3),
        ((2, 2, 2), (0.2, 0.3, 0.1), "category", 3),
        ((2, 3), (0.15, 0.3), "bits", 2),
        ((3,), (0.2,), "bits", 3),
    ],
)
def test_noise_of_the_users_is_covered(
    sizes: tuple[int, ...], flips: tuple[float, ...], release: Release, n: int
) -> None:
    protocol = hb.Protocol.survey([Noise(q) for q in flips], release)

    def view(collection: Collection) -> Law:
        return product(
            summed([single(x[j], size, noise.q, release) for x in collection])
            for j, (size, noise) in enumerate(zip(sizes, protocol.noise, strict=True))
        )

    for bound, truth in zip(certified(protocol, sizes, n), worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= 1.3 * truth + 1e-9


L, G = hb.Fakes.laplace, hb.Fakes.gaussian
GOLDEN = [
    ([L(2.0, 25)], 9.127282e-07, 1e-6),
    ([G(6.0, 34)], 9.007749e-07, 1e-6),
    ([L(4.0, 54)] * 2, 3.409659e-07, 1e-6),
    ([L(10.0, 165)] * 5, 1.704980e-08, 1e-6),
    ([G(13.4, 76)] * 5, 9.554044e-07, 1e-6),
    ([G(19.0, 110)] * 10, 9.008982e-07, 1e-6),
    ([L(17.6, 300)] * 10, 9.330600e-07, 1e-6),
    ([G(38.0, 225)] * 40, 9.002801e-07, 1e-6),
    ([L(4.0, 50)] * 2, 9.268423e-07, 1e-6),
    ([L(5.0, 80), G(14.0, 90), G(14.0, 90)], 1.795845e-07, 5e-3),
    ([G(95.6 / 2 ** (j / 2), math.ceil(6 * 95.6 / 2 ** (j / 2))) for j in range(8)], 9.612393e-07, 5e-3),
    ([L(b, math.ceil(13 * b)) for b in (52.0, 20.5, 8.2, 3.25)], 4.805486e-07, 1e-6),
]


@pytest.mark.parametrize(("fakes", "delta", "tolerance"), GOLDEN)
def test_golden_values_of_fakes(fakes: list[hb.Fakes], delta: float, tolerance: float) -> None:
    protocol = hb.Protocol.survey([Noise(m=one) for one in fakes])
    schema = hb.Schema.survey({str(j): Flag() for j in range(len(fakes))})
    assert hb.account(protocol, schema, 1000, epsilon=1.0).delta == pytest.approx(delta, rel=tolerance)


@pytest.mark.parametrize(
    ("sizes", "noise", "release", "delta"),
    [
        ((2,) * 40, Noise(0.0072), "category", 9.910101e-07),
        ((5,) * 10, Noise(0.0038), "bits", 7.370615e-07),
        ((5,) * 10, Noise(m=hb.Fakes.binomial(1, 0.0181)), "bits", 9.011197e-07),
        ((5,) * 10, Noise(0.0036), "category", 6.566322e-07),
    ],
)
def test_golden_values_of_users_noise(sizes: tuple[int, ...], noise: Noise, release: Release, delta: float) -> None:
    """The golden values are certificates on coarser grids: these may be smaller, but not below the attack."""
    protocol = hb.Protocol.survey([noise] * len(sizes), release)
    found = hb.account(protocol, survey(sizes), 10**5, epsilon=1.0)
    assert 0.99 * delta < found.delta < 1.005 * delta
    attack = surveys.attack(surveys.grouped(sizes, protocol.noise), release, 10**5)
    if attack is not None:
        assert attack.delta(1.0) <= found.delta


def test_loss_of_users_fakes_is_exact_for_one_attribute() -> None:
    """The mixture over fakes against the exact sum, where each number has an interval of its own and where not."""
    for chance, honest, size, slack in ((0.5, 4, 2, 1e-8), (0.0181, 10**5, 5, 1e-8), (0.3, 10**5, 2, 4e-3)):
        deviation = math.sqrt(2 * size / (chance * honest))
        loss = user_loss(hb.Fakes.binomial(1, chance), honest, size, min(1e-3, deviation / 150))
        for epsilon in (0.0, deviation, 3 * deviation, 5 * deviation):
            low, high = uniform_bounds(epsilon, honest, size, share=chance)
            assert low <= loss.delta(epsilon) <= high * (1 + slack)


def test_one_choice_is_one_hot() -> None:
    for protocol in (hb.Protocol(0.0, m=L(2.0, 25), release="bits"), hb.Protocol(0.05, release="category")):
        alone = hb.account(protocol, survey([5]), 1000, delta=1e-6)
        assert alone == hb.account(protocol, hb.Schema.one_hot(5), 1000, delta=1e-6)


def test_losses_of_laplace_fakes_end_at_their_sum() -> None:
    """Corollary 2: on a grid, δ at Σ 2/b would be many times as large."""
    scales = (52.0, 20.5, 8.2, 3.25)
    protocol = hb.Protocol.survey([Noise(m=L(b, math.ceil(13 * b))) for b in scales])
    schema = hb.Schema.survey({str(j): Flag() for j in range(4)})
    largest = math.fsum(2 / b for b in scales)
    here = hb.account(protocol, schema, 10, epsilon=largest * (1 + 1e-12)).delta
    assert here == pytest.approx(-math.expm1(math.fsum(math.log1p(-float(n.m.pmf[0])) for n in protocol.noise)))  # type: ignore[union-attr]
    assert hb.account(protocol, schema, 10, delta=here * 1.0001).epsilon == pytest.approx(largest, rel=1e-6)


def test_collusion_adds_up_over_attributes() -> None:
    schema = survey([2, 3])
    found = hb.account(hb.Protocol.survey([Noise(0.1), Noise(0.2)], "category"), schema, 100, delta=1e-6)
    assert found.assumptions.collusion_epsilon == pytest.approx(math.log(9) + math.log(3))
    split = hb.account(hb.Protocol.survey([Noise(0.1), Noise(0.2)]), schema, 100, delta=1e-6)
    assert split.assumptions.collusion_epsilon == pytest.approx(2 * math.log(9) + 2 * math.log(4))
    assert math.isinf(
        hb.account(hb.Protocol.survey([Noise(m=L(2.0, 25))] * 2), schema, 100, delta=1e-6).assumptions.collusion_epsilon
    )


@pytest.mark.parametrize("trust", ["nobody", "shuffling"])
def test_clear_answers_need_the_shufflers_fakes(trust: TrustModel) -> None:
    found = hb.account(hb.Protocol.survey([Noise(m=L(4.0, 54))] * 2), survey([2, 2]), 100, delta=1e-6, trust=trust)
    assert math.isinf(found.epsilon)


def test_honest_fraction_counts_for_the_noise_of_the_users_only() -> None:
    schema = survey([2, 2])
    users = hb.Protocol.survey([Noise(0.01)] * 2, "category")
    shuffler = hb.Protocol.survey([Noise(m=L(4.0, 54))] * 2)
    few, all_ = (hb.account(users, schema, 10_000, delta=1e-6, honest_fraction=f).epsilon for f in (0.5, 1.0))
    assert few > 1.2 * all_
    assert few == hb.account(users, schema, 5_000, delta=1e-6).epsilon
    half, whole = (hb.account(shuffler, schema, 10_000, delta=1e-6, honest_fraction=f) for f in (0.5, 1.0))
    assert half.epsilon == whole.epsilon
    assert half.assumptions.honest == 1
