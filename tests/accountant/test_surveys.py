"""Surveys: certificates against the enumeration of all small ones, and against golden values."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import hubbub as hb
from hubbub.privacy import TrustModel
from hubbub.protocol import Noise
from hubbub.questions import Choice, Flag
from hubbub.releases import Release

pytestmark = pytest.mark.accountant

EPSILONS = (0.0, 0.3, 0.7, 1.0, 1.5, 2.5)
Law = dict[tuple[int, ...], float]
Collection = tuple[tuple[int, ...], ...]


def survey(sizes: Sequence[int]) -> hb.Schema:
    """Return a survey with a choice of each size."""
    return hb.Schema.survey({f"q{j}": Choice([str(c) for c in range(size)]) for j, size in enumerate(sizes)})


def divergence(p: Law, q: Law, epsilon: float) -> float:
    """Return H(p‖q) at e^ε over all outcomes."""
    keys = p.keys() | q.keys()
    return math.fsum(max(0.0, p.get(key, 0.0) - math.exp(epsilon) * q.get(key, 0.0)) for key in keys)


def worst(sizes: Sequence[int], n: int, law: Callable[[Collection], Law]) -> list[float]:
    """Return the largest δ at each ε over all collections, all pairs of tuples and both orders."""
    tuples = list(itertools.product(*map(range, sizes)))
    known: dict[Collection, Law] = {}

    def view(collection: tuple[tuple[int, ...], ...]) -> Law:
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


def counted(collection: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> list[list[int]]:
    return [[sum(x[j] == c for x in collection) for c in range(size)] for j, size in enumerate(sizes)]


def product(parts: Iterable[Law]) -> Law:
    law: Law = {(): 1.0}
    for part in parts:
        law = {key + more: p * q for key, p in law.items() for more, q in part.items()}
    return law


def short(fakes: hb.Fakes) -> NDArray[np.float64]:
    """Return the probabilities without a far tail, which would make the enumeration long."""
    pmf = fakes.pmf
    return pmf[: int(np.searchsorted(np.cumsum(pmf), 1 - 1e-12)) + 1]


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
    laws = [short(one) for one in fakes]

    def view(collection: tuple[tuple[int, ...], ...]) -> Law:
        rows = counted(collection, sizes)
        cells: list[Law] = [
            {(count + extra,): float(law[extra]) for extra in range(law.size)}
            for row, law in zip(rows, laws, strict=True)
            for count in row
        ]
        return product(cells)

    protocol = hb.Protocol.survey([Noise(m=one) for one in fakes])
    bounds = certified(protocol, sizes, n)
    for bound, truth in zip(bounds, worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= truth * 1.0001 + 1e-10
    assert hb.account(protocol, survey(sizes), n, epsilon=1.0).basis is hb.Basis.EXACT


def test_tuples_that_differ_everywhere_are_all_alike() -> None:
    """The control of Theorem 1: fewer changes lose less, and all pairs that differ everywhere lose the same."""
    laws = [short(hb.Fakes.gaussian(0.8, 2)), short(hb.Fakes.gaussian(0.6, 1))]

    def view(x: tuple[int, int]) -> Law:
        return product(
            {(int(x[j] == c) + extra,): float(law[extra]) for extra in range(law.size)}
            for j, law in enumerate(laws)
            for c in range(2)
        )

    whole = {round(divergence(view(x), view(y), 0.7), 12) for x in ((0, 0), (0, 1)) for y in ((1 - x[0], 1 - x[1]),)}
    assert len(whole) == 1
    assert divergence(view((0, 0)), view((0, 1)), 0.7) < 0.9 * whole.pop()


def multinomial(m: int, d: int) -> Law:
    return {
        key: math.factorial(m) / math.prod(map(math.factorial, key)) / d**m
        for key in itertools.product(range(m + 1), repeat=d)
        if sum(key) == m
    }


@pytest.mark.parametrize(("sizes", "trials", "n"), [((2, 3), (4, 5), 2), ((2, 2, 2), (3, 4, 2), 2), ((3,), (6,), 3)])
def test_fakes_of_the_users_are_exact(sizes: tuple[int, ...], trials: tuple[int, ...], n: int) -> None:
    chance = 0.5
    noise = []
    for count, size in zip(trials, sizes, strict=True):
        mixed: Law = {}
        for drawn in range(n * count + 1):
            weight = math.comb(n * count, drawn) * chance ** (n * count)
            for key, p in multinomial(drawn, size).items():
                mixed[key] = mixed.get(key, 0.0) + weight * p
        noise.append(mixed)

    def view(collection: tuple[tuple[int, ...], ...]) -> Law:
        rows = counted(collection, sizes)
        return product(
            {tuple(a + b for a, b in zip(row, key, strict=True)): p for key, p in law.items()}
            for row, law in zip(rows, noise, strict=True)
        )

    protocol = hb.Protocol.survey([Noise(m=hb.Fakes.binomial(count, chance)) for count in trials])
    for bound, truth in zip(certified(protocol, sizes, n), worst(sizes, n, view), strict=True):
        assert truth <= bound * (1 + 1e-9)
        assert bound <= truth * 1.0001


def single(value: int, size: int, q: float, release: Release) -> Law:
    """Return the distribution of one user's messages for one attribute."""
    if release == "category":
        return {
            tuple(int(c == sent) for c in range(size)): 1 - (size - 1) * q if sent == value else q
            for sent in range(size)
        }
    return {
        bits: math.prod(1 - q if bit == (c == value) else q for c, bit in enumerate(bits))
        for bits in itertools.product((0, 1), repeat=size)
    }


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

    def view(collection: tuple[tuple[int, ...], ...]) -> Law:
        law: Law = {(0,) * sum(sizes): 1.0}
        for x in collection:
            one = product(
                single(value, size, noise.q, release)
                for value, size, noise in zip(x, sizes, protocol.noise, strict=True)
            )
            new: Law = {}
            for key, p in law.items():
                for more, q in one.items():
                    total = tuple(a + b for a, b in zip(key, more, strict=True))
                    new[total] = new.get(total, 0.0) + p * q
            law = new
        return law

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
    """The grid of the certificate is this project's own, so that figures differ by a little."""
    protocol = hb.Protocol.survey([noise] * len(sizes), release)
    assert hb.account(protocol, survey(sizes), 10**5, epsilon=1.0).delta == pytest.approx(delta, rel=1e-2)


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
