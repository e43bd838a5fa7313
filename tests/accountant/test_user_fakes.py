"""Users' fakes, fixed and random, with flips and copies: certified values lie above every enumerated collection."""

import itertools
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import stats

from hubbub.accountant import account
from hubbub.accountant.cases import analyze
from hubbub.accountant.theorems import attacks, bit, numbers, split
from hubbub.accountant.theorems.records import fake_blanket
from hubbub.accountant.theorems.records.contour import Crowd
from hubbub.accountant.theorems.records.exchange import exchange
from hubbub.accountant.theorems.records.fakes import (
    Companions,
    _at_distance,
    bound_with_fakes,
    companion,
    exchange_with_fakes,
    pool,
    weight_of_fakes,
)
from hubbub.accountant.theorems.records.kinds import family
from hubbub.accountant.theorems.records.local import group_steps
from hubbub.accountant.theorems.records.sparse import density, sparse_fake_blanket
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial_pmf

Floats = NDArray[np.float64]

EPSILONS = (0.0, 0.1, 0.3, 0.6, 0.9)  # shares of the pure ε


def legal(schema: Schema) -> list[int]:
    return [r for r in range(1 << schema.width) if schema.min_set <= r.bit_count() <= schema.max_set]


def message(record: int, width: int, q: float) -> Floats:
    """Return the distribution of one flipped record over all messages."""
    distance = np.array([(s ^ record).bit_count() for s in range(1 << width)])
    return q**distance * (1 - q) ** (width - distance)


def added(histograms: Floats, sender: Floats) -> Floats:
    """Return the distribution of the histogram after one more message; axes are the counts of all but one message."""
    result = np.zeros([size + 1 for size in histograms.shape])
    inner = tuple(slice(0, size) for size in histograms.shape)
    result[inner] += sender[-1] * histograms
    for axis, chance in enumerate(sender[:-1]):
        place = tuple(slice(1, size + 1) if i == axis else slice(0, size) for i, size in enumerate(histograms.shape))
        result[place] += chance * histograms
    return result


def histogram(senders: list[Floats]) -> Floats:
    result = np.ones([1] * (len(senders[0]) - 1))
    for sender in senders:
        result = added(result, sender)
    return result


def hockey(one: Floats, two: Floats, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum())


def true_deltas(schema: Schema, q: float, n: int, epsilons: list[float], m: int, k: int = 1) -> list[float]:
    """Return the largest δ over all collections and ordered pairs among m fakes, by enumeration of whole messages."""
    senders = [message(record, schema.width, q) for record in legal(schema)]
    fake = np.mean(senders, axis=0)
    worst = [0.0] * len(epsilons)
    for others in itertools.combinations_with_replacement(range(len(senders)), n - 1):
        crowd = histogram([*(senders[i] for i in others for _ in range(k)), *[fake] * m] or [np.eye(len(fake))[-1] * 0])
        if not others and not m:
            crowd = np.ones([1] * (len(fake) - 1))
        seen = []
        for sender in senders:
            one = crowd
            for _ in range(k):
                one = added(one, sender)
            seen.append(one)
        for one, two in itertools.permutations(seen, 2):
            worst = [max(w, hockey(one, two, e)) for w, e in zip(worst, epsilons, strict=True)]
    return worst


def true_delta(schema: Schema, q: float, n: int, epsilon: float, m: int) -> float:
    return true_deltas(schema, q, n, [epsilon], m)[0]


def grid(schema: Schema, q: float, k: int = 1) -> list[float]:
    return [share * k * schema.distance * math.log((1 - q) / q) for share in EPSILONS]


SMALL = [
    (Schema.bits(1), 3, 4),
    (Schema.bits(1), 5, 6),
    (Schema.bits(2), 2, 3),
    (Schema.bits(2), 3, 5),
    (Schema.one_hot(2), 3, 6),
    (Schema.one_hot(3), 2, 2),
    (Schema.at_most(1, 2), 3, 4),
]


@pytest.mark.parametrize("q", [0.08, 0.25, 0.4])
@pytest.mark.parametrize(("schema", "n", "m"), SMALL)
def test_fixed_fakes_among_all_collections(schema: Schema, n: int, m: int, q: float) -> None:
    epsilons = grid(schema, q)
    for epsilon, truth in zip(epsilons, true_deltas(schema, q, n, epsilons, m), strict=True):
        analysis = analyze(Protocol(q, m=m), schema, n, n)
        assert truth * (1 - 1e-12) <= analysis.delta(epsilon)
        assert math.exp(analysis.lower(epsilon)) <= truth * (1 + 1e-9) + 1e-15
        if schema.width > 1:
            for bound in (
                pool(schema, q, n - 1, epsilon, Companions(fixed=m)),
                exchange_with_fakes(schema, q, n, epsilon, fixed=m),
            ):
                assert truth * (1 - 1e-12) <= math.exp(min(bound, 0.0))


@pytest.mark.parametrize("q", [0.1, 0.3])
@pytest.mark.parametrize(
    ("schema", "n", "m", "k"),
    [(Schema.bits(1), 3, 3, 2), (Schema.bits(1), 2, 4, 3), (Schema.bits(2), 2, 2, 2), (Schema.at_most(1, 2), 2, 2, 2)],
)
def test_fakes_among_copies_of_all_collections(schema: Schema, n: int, m: int, k: int, q: float) -> None:
    epsilons = grid(schema, q, k)
    for epsilon, truth in zip(epsilons, true_deltas(schema, q, n, epsilons, m, k), strict=True):
        analysis = analyze(Protocol(q, k, m), schema, n, n)
        assert truth * (1 - 1e-12) <= analysis.delta(epsilon)
        assert math.exp(analysis.lower(epsilon)) <= truth * (1 + 1e-9) + 1e-15


def mean_delta(fakes: Fakes, n: int, most: int, given: Callable[[int], float]) -> tuple[float, float]:
    """Return E[δ_M] but for M > ``most``, and the probability of that."""
    if fakes.distribution == "poisson":
        drawn = stats.poisson(n * fakes.scale)
    else:
        drawn = stats.binom(n * fakes.shift, fakes.scale)
    return float(sum(drawn.pmf(m) * given(m) for m in range(most + 1))), float(drawn.sf(most))


@pytest.mark.parametrize("q", [0.1, 0.3])
@pytest.mark.parametrize(
    ("schema", "n", "fakes", "most"),
    [
        (Schema.bits(1), 4, Fakes.poisson(0.5), 14),
        (Schema.bits(1), 3, Fakes.binomial(2, 0.6), 6),
        (Schema.bits(2), 2, Fakes.binomial(2, 0.5), 4),
        (Schema.one_hot(3), 1, Fakes.binomial(3, 0.5), 3),
        (Schema.at_most(1, 2), 2, Fakes.binomial(2, 0.5), 4),
    ],
)
def test_random_fakes_are_averaged(schema: Schema, n: int, fakes: Fakes, most: int, q: float) -> None:
    analysis = analyze(Protocol(q, m=fakes), schema, n, n)
    for epsilon in grid(schema, q):
        truth, rest = mean_delta(fakes, n, most, partial(true_delta, schema, q, n, epsilon))
        assert truth * (1 - 1e-9) <= analysis.delta(epsilon)
        assert math.exp(analysis.lower(epsilon)) <= (truth + rest) * (1 + 1e-9) + 1e-15
        if schema.width == 1:  # exact but for the blocks and the tolerance of the search
            assert analysis.delta(epsilon) <= (truth + rest) * 1.02 + 1e-12


def test_random_fakes_at_small_n_are_not_discarded() -> None:
    """A cut by Chernoff's bound once counted none of 20 expected fakes, which made δ four thousand times too large."""
    epsilon = 1.2
    analysis = analyze(Protocol(0.1, m=Fakes.poisson(4.0)), Schema.bits(1), 5, 5)
    truth, rest = mean_delta(Fakes.poisson(4.0), 5, 60, lambda m: true_deltas(Schema.bits(1), 0.1, 5, [epsilon], m)[0])
    assert truth <= analysis.delta(epsilon) <= 1.03 * (truth + rest)
    assert analysis.delta(epsilon) < 0.01 * math.exp(bit.supremum(5, 0.1, epsilon).upper)


def columns(n: int, q: float, k: int, chances: list[float]) -> list[tuple[Floats, Floats]]:
    """Return the pairs of counts of one column over all collections, among fakes that set the bit with these."""
    pairs = []
    for ones in range(n):
        crowd = np.convolve(binomial_pmf(k * ones, 1 - q), binomial_pmf(k * (n - 1 - ones), q))
        for chance in chances:
            crowd = np.convolve(crowd, [1 - chance, chance])
        pairs.append((np.convolve(crowd, binomial_pmf(k, 1 - q)), np.convolve(crowd, binomial_pmf(k, q))))
    return pairs


@pytest.mark.parametrize("seed", range(6))
def test_single_bits_among_uniform_fakes_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        n, k, m = (int(rng.integers(low, high)) for low, high in ((1, 7), (1, 4), (0, 9)))
        q = float(rng.choice([0.01, 0.1, 0.3, 0.45]))
        epsilon = float(rng.choice([0.0, 0.1, 0.5, 0.9])) * k * math.log((1 - q) / q)
        pairs = columns(n, q, k, [0.5] * m)
        truth = max(max(hockey(a, b, epsilon), hockey(b, a, epsilon)) for a, b in pairs)
        found = bit.supremum(n, q, epsilon, k, fair=m, tolerance=1e-6)
        assert truth * (1 - 1e-12) <= math.exp(found.upper) <= truth * (1 + 2e-6) + 1e-15
        assert math.exp(found.lower) <= truth * (1 + 1e-12)
        unknown = max(
            max(hockey(a, b, epsilon), hockey(b, a, epsilon))
            for ones in range(m + 1)
            for a, b in columns(n, q, k, [1 - q] * ones + [q] * (m - ones))
        )
        assert unknown * (1 - 1e-12) <= math.exp(bit.supremum(n, q, epsilon, k, singles=m).upper)


def test_split_bits_among_fakes() -> None:
    """Positions of uniform bit vectors are independent, those of one-hot fakes are not."""
    q, n, m = 0.2, 3, 2
    for epsilon in (0.2, 0.8, 1.5):
        one = [(np.multiply.outer(a, c), np.multiply.outer(b, d)) for a, b in columns(n, q, 1, [0.5] * m)
               for c, d in columns(n, q, 1, [0.5] * m)]  # fmt: skip
        truth = max(max(hockey(a, b, epsilon), hockey(b, a, epsilon)) for a, b in one)
        assert truth <= split.positions(n, q, 1, 2, fair=m).delta(epsilon)
        schema = Schema.one_hot(3)
        assert account(Protocol(q, m=m, release="bits"), schema, n, epsilon=epsilon).delta >= true_split(
            schema, q, n, m, epsilon
        )


def true_split(schema: Schema, q: float, n: int, m: int, epsilon: float) -> float:
    """Return the largest δ of split bits: the distribution of all column counts, by convolution of flipped records."""
    senders = [message(record, schema.width, q) for record in legal(schema)]
    fake = np.mean(senders, axis=0)

    def counts(parts: list[Floats]) -> Floats:
        size = len(parts) + 1
        total = np.zeros([size] * schema.width)
        total[(0,) * schema.width] = 1.0
        for part in parts:
            step = np.zeros_like(total)
            for s, chance in enumerate(part):
                shift = [s >> i & 1 for i in range(schema.width)]
                step += chance * np.roll(total, shift, axis=tuple(range(schema.width)))
            total = step
        return total

    worst = 0.0
    for others in itertools.combinations_with_replacement(range(len(senders)), n - 1):
        seen = [counts([*(senders[i] for i in others), *[fake] * m, own]) for own in senders]
        worst = max(worst, *(hockey(a, b, epsilon) for a, b in itertools.permutations(seen, 2)))
    return worst


def test_one_hot_fakes_hide_split_bits_by_themselves() -> None:
    """Counted as users of unknown records, 600 fakes in two categories proved ε = 2.57 instead of 0.3."""
    for fakes in (600, Fakes.binomial(2, 0.3)):
        found = account(Protocol(0.01, m=fakes, release="bits"), Schema.one_hot(2), 1000, delta=1e-6)
        assert found.lower_bound < found.epsilon < 0.6
    schema, q, n, m = Schema.one_hot(2), 0.05, 2, 4
    for epsilon in (0.1, 0.5, 1.0):
        certified = account(Protocol(q, m=m, release="bits"), schema, n, epsilon=epsilon).delta
        assert true_split(schema, q, n, m, epsilon) <= certified


@pytest.mark.parametrize(
    "schema", [Schema.bits(1), Schema.bits(3), Schema.one_hot(4), Schema.at_most(2, 5), Schema.at_most(3, 4)]
)
def test_more_fakes_never_hurt(schema: Schema) -> None:
    for k in (1, 2):
        deltas = [account(Protocol(0.2, k, m), schema, 30, epsilon=0.7).delta for m in (0, 1, 3, 10, 40, 200, 1000)]
        assert all(more <= fewer * (1 + 4e-3) for fewer, more in itertools.pairwise(deltas))
        assert deltas[-1] < 0.1 * deltas[0]


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("d", [2, 3, 7, 1200])
def test_companions_are_distributions(d: int, uniform: bool) -> None:
    kind = companion(Schema.one_hot(d), 0.1, 2, uniform=uniform)
    assert kind is not None
    assert kind.mu.sum() == pytest.approx(1.0, abs=1e-12)
    assert kind.omega.sum() == pytest.approx(1.0, abs=1e-12)
    merged = 1.0 if d < 400 else 1.1
    assert 1 - 1e-12 <= kind.first @ kind.mu <= merged + 1e-12  # merging raises μ_x/f
    assert 1 / merged - 1e-12 <= kind.second @ kind.mu <= 1 + 1e-12


@pytest.mark.parametrize("schema", [Schema.bits(3), Schema.one_hot(4), Schema.at_most(2, 4), Schema.at_most(1, 3)])
@pytest.mark.parametrize("q", [0.1, 0.35])
def test_the_weight_of_fakes_is_the_largest(schema: Schema, q: float) -> None:
    senders = [message(record, schema.width, q) for record in legal(schema)]
    fake = np.mean(senders, axis=0)
    largest = min(float((sender / fake).min()) for sender in senders)
    assert largest * (1 - 1e-9) <= weight_of_fakes(schema, q) <= largest
    if not (schema.dense or schema.exclusive):
        zero = message(0, schema.width, q)
        ratio = [float((fake / zero)[s]) for s in (0, 1, 3, (1 << schema.width) - 1)]
        sizes = [0, 1, 2, schema.width]
        assert density(schema, q)[sizes] == pytest.approx(ratio, rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("schema", [Schema.at_most(1, 2), Schema.at_most(2, 3)])
def test_sparse_fakes_alone_are_exact(schema: Schema, m: int) -> None:
    for epsilon in (0.0, 0.4, 1.1, 2.0):
        truth = true_deltas(schema, 0.2, 1, [epsilon], m)[0]
        assert truth * (1 - 1e-12) <= math.exp(sparse_fake_blanket(schema, 0.2, m, epsilon)) <= truth * 1.01 + 1e-12


def test_pool_and_slot_exchange_complement_each_other() -> None:
    schema = Schema.bits(3)
    many, few = Companions(fixed=1000), Companions(fixed=10)
    assert pool(schema, 0.2, 1000, 0.3, many) < exchange_with_fakes(schema, 0.2, 1001, 0.3, fixed=1000)
    assert exchange_with_fakes(schema, 0.2, 1001, 0.7, fixed=10) < pool(schema, 0.2, 1000, 0.7, few)
    assert pool(schema, 0.2, 1000, 0.7, few) < fake_blanket(schema, 0.2, 10, 0.7)
    whole = bound_with_fakes(schema, 0.2, 1001, 0.7, few)
    assert whole <= exchange_with_fakes(schema, 0.2, 1001, 0.7, fixed=10)


def test_limits_on_scores_of_other_pairs_cost_nothing() -> None:
    """Every pair pays for the limit on its own scores alone, so known fakes prove no less than further users."""
    with_fakes = exchange_with_fakes(Schema.bits(13), 0.2266, 10**6, 1.01, fixed=1000)
    assert with_fakes <= exchange(Schema.bits(13), 0.2266, 10**6 + 1000, 1.01)


def test_a_limit_that_costs_all_that_matters() -> None:
    """A cost next to the bound to beat left the logarithm of 0, and a ValueError."""
    schema, q, epsilon, cut = Schema.bits(2), 0.05, 0.1, 1e-3
    kinds, guest = family(schema, q), companion(schema, q, 2, uniform=True)
    assert kinds is not None
    assert guest is not None
    pairs, crowd = kinds.at_distance(2), Crowd(10, guest, lambda x: 5 * x)
    cost = math.log(max(pairs.excess(epsilon, cut), guest.excess(epsilon, cut)) + 1e-300)
    for enough in (cost, math.nextafter(cost, 0.0), cost + 1e-15):
        assert _at_distance(pairs, crowd, epsilon, cut, 0.01, enough) > cost


@pytest.mark.parametrize(
    ("q", "h", "share", "t"), [(0.1, 3, 1.05, 10.0), (0.2, 2, 1.05, 100.0), (0.2, 2, 1.5, 10.0), (0.2, 3, 1.05, 10.0)]
)
def test_a_tilt_that_is_far_too_large_proves_nothing(q: float, h: int, share: float, t: float) -> None:
    """All scores at a short distance may be negative at an ε for a longer one: their transforms vanish at a large t."""
    schema, epsilon = Schema.bits(3), h * math.log((1 - q) / q) * share
    kinds, guest = family(schema, q), companion(schema, q, h, uniform=True)
    assert kinds is not None
    pairs, crowd = kinds.at_distance(h), Crowd(10, guest, lambda x: 5 * x)
    assert pairs.largest(epsilon) == 0.0
    with np.errstate(all="ignore"):
        assert _at_distance(pairs, crowd, epsilon, math.inf, t, -math.inf) == math.inf


def test_the_generating_function_averages_over_the_number() -> None:
    schema, q, n, epsilon = Schema.bits(2), 0.25, 200, 0.5
    for fakes in (Fakes.poisson(0.2), Fakes.binomial(1, 0.2)):
        drawn = numbers.number(fakes, n)
        single = [(m, exchange_with_fakes(schema, q, n, epsilon, fixed=m)) for m in (20, 40, 60)]
        found = exchange_with_fakes(schema, q, n, epsilon, drawn=fakes)
        assert single[2][1] < found < single[0][1]
        assert found == pytest.approx(
            numbers.average(
                numbers.blocks(drawn, base=n), lambda m: exchange_with_fakes(schema, q, n, epsilon, fixed=m)
            ),
            abs=0.1,
        )


def test_lost_events_are_averaged() -> None:
    n, gamma = 30, 0.1
    for companions, pmf in (
        (Companions(drawn=Fakes.poisson(0.5), honest=20), stats.poisson(10.0).pmf(np.arange(200))),
        (Companions(drawn=Fakes.binomial(2, 0.25), honest=20), stats.binom(40, 0.25).pmf(np.arange(41))),
        (Companions(fixed=10), np.eye(11)[10]),
    ):
        exact = sum(p * stats.binom(n + m, gamma).cdf(1) for m, p in enumerate(pmf))
        assert math.exp(companions.log_lost(n, gamma)) == pytest.approx(exact, rel=1e-9)
        x = np.array([-0.3, 0.0, 0.1])
        logs = np.log(np.exp(np.outer(x, np.arange(len(pmf)))) @ pmf)
        assert companions.log_pgf(x) == pytest.approx(logs, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-12, 0.3, 37.1, 350.7, 699.9])
def test_group_steps_are_bounds_on_their_sum(epsilon: float) -> None:
    for k in (1, 2, 3, 7, 12, 31, 32):
        with ctx.workprec(300):
            exact = sum(((arb(epsilon) * i / k).exp() for i in range(k)), arb(0)).log()
            assert exact <= group_steps(epsilon, k)
            assert group_steps(epsilon, k) - exact < 1e-14 * (1 + epsilon)


def test_group_steps_do_not_overflow() -> None:
    assert group_steps(2000.0, 4) == pytest.approx(1500.0, rel=1e-3)


def test_blocks_are_stochastically_smaller() -> None:
    for fakes, n in ((Fakes.poisson(0.7), 50), (Fakes.binomial(3, 0.2), 400), (Fakes.binomial(2, 1.0), 10)):
        drawn = numbers.number(fakes, n)
        exact = stats.poisson(n * 0.7) if fakes.distribution == "poisson" else stats.binom(n * fakes.shift, fakes.scale)
        for found in (numbers.blocks(drawn), numbers.blocks(drawn, step=0.1), numbers.few_blocks(drawn)):
            assert sum(weight for _, weight in found) == pytest.approx(1.0, abs=1e-12)
            for a, _ in found:
                smaller = sum(weight for b, weight in found if b < a)
                assert smaller >= exact.cdf(a - 1) * (1 - 1e-9)


def test_huge_numbers_of_fakes_need_no_table() -> None:
    drawn = numbers.number(Fakes.poisson(3.0), 10**10)
    assert drawn.below is None
    assert 0.5 < drawn.fewer(30 * 10**9 - 1000) <= 1.0
    assert drawn.fewer(30 * 10**9 - 10**6) < 1e-6
    fixed = account(Protocol(0.01, m=3 * 10**10), Schema.bits(1), 10**10, delta=1e-6).epsilon
    drawn_epsilon = account(Protocol(0.01, m=Fakes.poisson(3.0)), Schema.bits(1), 10**10, delta=1e-6).epsilon
    assert 0.999 * fixed <= drawn_epsilon < 1.01 * fixed


def test_random_column_attacks_are_legal() -> None:
    """The thinned number of fakes that show the bit, against the mixture over all numbers."""
    n, q, epsilon = 6, 0.2, 0.3
    for fakes, pmf in (
        (Fakes.poisson(0.5), stats.poisson(3.0).pmf(np.arange(60))),
        (Fakes.binomial(2, 0.3), stats.binom(12, 0.3).pmf(np.arange(13))),
    ):
        schema = Schema.one_hot(3)
        shown = q + (1 - 2 * q) / 3
        mixture = sum(p * np.pad(binomial_pmf(m, shown), (0, len(pmf) - m)) for m, p in enumerate(pmf))
        best = 0.0
        for common in (q, 1 - q):
            crowd = np.convolve(binomial_pmf(n - 1, common), mixture)
            one, two = np.convolve(crowd, [q, 1 - q]), np.convolve(crowd, [1 - q, q])
            best = max(best, hockey(one, two, epsilon), hockey(two, one, epsilon))
        found = math.exp(attacks.drawn_column_attack(schema, q, n, epsilon, 1, fakes))
        assert best * (1 - 2e-6) <= found <= best * (1 + 1e-9)


def test_weights_that_underflow_count_as_a_little() -> None:
    """Sums of two small weights underflow to 0, for instance for 40 bits and ten million users."""
    few = numbers.plus([(10, 1.0), (5, 1e-200)], [(10, 1.0), (0, 1e-200)])
    assert min(weight for _, weight in few) == 0.0
    assert numbers.average(few, lambda m: -1000.0 if m > 5 else 0.0) > math.log(1e-299) - 1.0
    assert numbers.average(few, lambda m: -20.0) == pytest.approx(-20.0, abs=1e-8)


@pytest.mark.parametrize(
    ("protocol", "schema", "n"),
    [
        pytest.param(Protocol(0.0039, 3, 819), Schema.one_hot(96), 63, id="fixed"),
        pytest.param(
            Protocol(0.0039, 3, Fakes.poisson(13.0)), Schema.one_hot(96), 63, id="drawn", marks=pytest.mark.slow
        ),
        pytest.param(Protocol(0.0039, 3, 819, "bits"), Schema.one_hot(96), 63, id="split"),
    ],
)
def test_group_privacy_over_copies_does_not_raise_delta_with_epsilon(
    protocol: Protocol, schema: Schema, n: int
) -> None:
    """Group privacy weighs the δ of one copy by e^(2ε/3): δ rose from 0.005 at ε = 8 to 0.12 at ε = 17."""
    deltas = [account(protocol, schema, n, epsilon=epsilon).delta for epsilon in (2.0, 5.0, 8.0, 9.0, 12.0, 17.0, 28.0)]
    assert all(later <= 1.003 * earlier for earlier, later in itertools.pairwise(deltas))


def test_few_fakes_of_few_labels_are_accounted_soon() -> None:
    """Bounds that gain nothing over one user's flips once took minutes."""
    start = time.process_time()
    for k in (1, 32):
        given = account(Protocol(0.0242, k, Fakes.binomial(2, 0.17)), Schema.at_most(4, 24), 31, epsilon=0.1465)
        assert 0.99 < given.delta <= 1.0
    assert time.process_time() - start < 4.0
