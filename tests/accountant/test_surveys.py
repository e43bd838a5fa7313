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
from hubbub.model.privacy import TrustModel
from hubbub.model.protocol import Noise
from hubbub.model.questions import Choice, Flag
from hubbub.model.releases import Release

pytestmark = pytest.mark.accountant

EPSILONS = (0.0, 0.3, 0.7, 1.0, 1.5, 2.5)
Probabilities = NDArray[np.float64]  # probabilities of all outcomes, in the same order for every collection
Collection = tuple[tuple[int, ...], ...]


def survey(sizes: Sequence[int]) -> hb.Schema:
    """Return a survey with a choice of each size."""
    return hb.Schema.survey({f"q{j}": Choice([str(c) for c in range(size)]) for j, size in enumerate(sizes)})


def divergence(p: Probabilities, q: Probabilities, epsilon: float) -> float:
    """Return H(p‖q) at e^ε over all outcomes."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst(sizes: Sequence[int], n: int, view_of: Callable[[Collection], Probabilities]) -> list[float]:
    """Return the largest δ at each ε over all collections, all pairs of tuples and both orders."""
    tuples = list(itertools.product(*map(range, sizes)))
    known: dict[Collection, Probabilities] = {}

    def view(collection: Collection) -> Probabilities:
        key = tuple(sorted(collection))
        if key not in known:
            known[key] = view_of(key)
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


def product(parts: Iterable[Probabilities]) -> Probabilities:
    """Return the probabilities of all combinations of independent outcomes."""
    chances = np.ones(1)
    for part in parts:
        chances = np.multiply.outer(chances, part.ravel()).ravel()
    return chances


def moved(chances: Probabilities, counts: Sequence[int], n: int) -> Probabilities:
    """Return the distribution of a vector of counts plus fakes, on a table with room for n people."""
    table = np.zeros([length + n for length in chances.shape])
    table[tuple(slice(count, count + length) for count, length in zip(counts, chances.shape, strict=True))] = chances
    return table


def short(fakes: hb.Fakes) -> Probabilities:
    """Return the probabilities without a far tail, which would make the enumeration long."""
    pmf = fakes.pmf
    return pmf[: int(np.searchsorted(np.cumsum(pmf), 1 - 1e-12)) + 1]


def independent(chances: Probabilities, size: int) -> Probabilities:
    """Return the distribution of the fakes of all categories, each drawn by itself."""
    return product([chances] * size).reshape((chances.size,) * size)


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
    views = [independent(short(one), size) for one, size in zip(fakes, sizes, strict=True)]

    def view(collection: Collection) -> Probabilities:
        return product(moved(chances, row, n) for chances, row in zip(views, counted(collection, sizes), strict=True))

    protocol = hb.Protocol.survey([Noise(m=one) for one in fakes])
    bounds = certified(protocol, sizes, n)
    for bound, truth in zip(bounds, worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= truth * 1.0001 + 1e-10
    assert hb.account(protocol, survey(sizes), n, epsilon=1.0).basis is hb.Basis.EXACT


def merged(p: Probabilities, q: Probabilities) -> tuple[Probabilities, Probabilities]:
    """Return a pair of distributions with outcomes of the same likelihood ratio added up, which keeps every δ."""
    used = (p > 1e-18) | (q > 1e-18)
    p, q = p[used], q[used]
    _, group = np.unique(np.round(p / (p + q), 11), return_inverse=True)
    return np.bincount(group, p).astype(np.float64), np.bincount(group, q).astype(np.float64)


def columns(chances: Probabilities, n: int) -> list[tuple[Probabilities, Probabilities]]:
    """Return the distinct pairs of one attribute: all answers of the others, all changes, and none, in both orders."""
    size = chances.ndim
    found: dict[tuple[float, ...], tuple[Probabilities, Probabilities]] = {}
    for others in itertools.combinations_with_replacement(range(size), n - 1):
        for a, b in itertools.product(range(size), repeat=2):
            rows = ([(own, *others).count(c) for c in range(size)] for own in (a, b))
            pair = merged(*(moved(chances, row, n).ravel() for row in rows))
            curve = tuple(round(divergence(*pair, epsilon), 11) for epsilon in EPSILONS)
            found.setdefault((len(pair[0]), *curve), pair)
    return list(found.values())


TINY = [hb.Fakes.laplace(0.5, 1), hb.Fakes.gaussian(0.6, 1), hb.Fakes.gaussian(0.8, 2)]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 2), (3, 3, 3), (3, 2), (3, 3)])
def test_all_collections_of_up_to_three_attributes(sizes: tuple[int, ...], n: int) -> None:
    """Attributes are independent given the collection, so all collections are all combinations of their columns."""
    views = [independent(short(one), size) for one, size in zip(TINY, sizes, strict=False)]
    pairs = [columns(chances, n) for chances in views]
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
    views = [independent(short(one), 2) for one in (hb.Fakes.gaussian(0.8, 2), hb.Fakes.gaussian(0.6, 1))]

    def view(x: tuple[int, int]) -> Probabilities:
        return product(moved(chances, row, 1) for chances, row in zip(views, counted((x,), (2, 2)), strict=True))

    whole = {round(divergence(view(x), view(y), 0.7), 12) for x in ((0, 0), (0, 1)) for y in ((1 - x[0], 1 - x[1]),)}
    assert len(whole) == 1
    assert divergence(view((0, 0)), view((0, 1)), 0.7) < 0.9 * whole.pop()


def uniform(most: int, chance: float, size: int) -> Probabilities:
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
    views = [uniform(n * count, chance, size) for count, size in zip(trials, sizes, strict=True)]

    def view(collection: Collection) -> Probabilities:
        return product(moved(chances, row, n) for chances, row in zip(views, counted(collection, sizes), strict=True))

    protocol = hb.Protocol.survey([Noise(m=hb.Fakes.binomial(count, chance)) for count in trials])
    for bound, truth in zip(certified(protocol, sizes, n), worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= truth * 1.0001


def single(value: int, size: int, q: float, release: Release) -> Probabilities:
    """Return the distribution of one user's messages for one attribute, over all vectors of bits."""
    table = np.zeros((2,) * size)
    if release == "category":
        for sent in range(size):
            table[tuple(int(c == sent) for c in range(size))] = 1 - (size - 1) * q if sent == value else q
        return table
    for bits in itertools.product((0, 1), repeat=size):
        table[bits] = math.prod(1 - q if bit == (c == value) else q for c, bit in enumerate(bits))
    return table


def summed(views: Sequence[Probabilities]) -> Probabilities:
    """Return the distribution of the sum of independent vectors of bits."""
    total = views[0]
    for chances in views[1:]:
        table = np.zeros([length + 1 for length in total.shape])
        for bits in itertools.product((0, 1), repeat=chances.ndim):
            table[tuple(slice(bit, bit + length) for bit, length in zip(bits, total.shape, strict=True))] += (
                chances[bits] * total
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

    def view(collection: Collection) -> Probabilities:
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
    """The corollary: on a grid, δ at Σ 2/b would be many times as large."""
    scales = (52.0, 20.5, 8.2, 3.25)
    protocol = hb.Protocol.survey([Noise(m=L(b, math.ceil(13 * b))) for b in scales])
    schema = hb.Schema.survey({str(j): Flag() for j in range(4)})
    largest = math.fsum(2 / b for b in scales)
    here = hb.account(protocol, schema, 10, epsilon=largest * (1 + 1e-12)).delta
    assert here == pytest.approx(-math.expm1(math.fsum(math.log1p(-float(n.m.pmf[0])) for n in protocol.noise)))  # type: ignore[union-attr]
    assert hb.account(protocol, schema, 10, delta=here * 1.0001).epsilon == pytest.approx(largest, rel=1e-6)


@pytest.mark.parametrize("fakes", [[(4.0, 54), (6.0, 80)], [(2.0, 3), (3.3, 0), (5.0, 9)]])
def test_laplace_fakes_of_different_scales_are_exact(fakes: list[tuple[float, int]]) -> None:
    """The smallest ε at which only empty categories tell anything apart, and everything below it."""
    protocol = hb.Protocol.survey([Noise(m=L(*one)) for one in fakes])
    largest = math.fsum(2 / scale for scale, _ in fakes)
    losses, masses, never = np.zeros(1), np.ones(1), 1.0
    for noise in protocol.noise:
        assert noise.shuffler_fakes is not None
        pmf, step = noise.shuffler_fakes.pmf, 1 / noise.shuffler_fakes.scale
        # All pairs of numbers of fakes: of the old category, and of the new one.
        rising = np.where(np.arange(pmf.size) >= noise.shuffler_fakes.shift, step, -step)
        falling = np.where(np.arange(1, pmf.size) <= noise.shuffler_fakes.shift, step, -step)
        parts: dict[float, float] = {}
        for loss, mass in zip(
            np.add.outer(rising, falling).ravel(), np.multiply.outer(pmf, pmf[1:]).ravel(), strict=True
        ):
            parts[round(float(loss), 12)] = parts.get(round(float(loss), 12), 0.0) + float(mass)
        losses = np.add.outer(losses, np.array([*parts])).ravel()
        masses = np.multiply.outer(masses, np.array([*parts.values()])).ravel()
        never *= 1 - float(pmf[0])

    def exact(epsilon: float) -> float:
        return 1 - never + float(masses @ np.maximum(-np.expm1(epsilon - losses), 0.0))

    for share in (0.0, 0.5, 0.9, 0.999, 0.99999, 1 - 1e-9):
        epsilon = share * largest
        truth = exact(epsilon)
        found = hb.account(protocol, survey([2] * len(fakes)), 10, epsilon=epsilon)
        assert 1 - 1e-9 <= found.delta / truth < 1.0001
        assert found.lower_bound <= truth * (1 + 1e-9)
        # Without a shift the largest loss is smaller, and so may be the ε of this δ.
        more = found.delta * (1 + 1e-9)
        solved = hb.account(protocol, survey([2] * len(fakes)), 10, delta=more).epsilon
        assert solved <= epsilon + 1e-6
        assert exact(solved) <= more


def test_squares_of_a_number_are_not_free() -> None:
    """No two numbers differ in all digits and in all digits of their squares, so that the composition is a bound."""
    protocol = hb.Protocol.survey([Noise(m=L(2.0, 2))] * 2)
    bound = hb.Schema.survey({"x": hb.Number(0, 1, digits=[2], variance=True)})
    found = hb.account(protocol, bound, 10, epsilon=0.3)
    assert found.basis is hb.Basis.PROVEN
    # The largest δ over all pairs of numbers is 0.3354.
    assert found.lower_bound < 0.3354 < found.delta
    free = hb.Schema.survey({"x": hb.Number(0, 1, digits=[2], variance=True, missing=True)})
    three = hb.Protocol.survey([Noise(m=L(2.0, 2))] * 3)
    assert hb.account(three, free, 10, epsilon=0.3).basis is hb.Basis.EXACT


def test_fakes_that_are_always_none_protect_nobody() -> None:
    protocol = hb.Protocol.survey([Noise(m=L(1 / 32, 0))] * 2)
    assert hb.account(protocol, survey([2, 2]), 10, epsilon=0.3).delta == 1


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
