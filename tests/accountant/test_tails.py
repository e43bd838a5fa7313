"""Named corners of fakes and split bits: certificates hold in every tail, and every lower bound is a legal attack."""

import itertools
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from hubbub.accountant import Ledger, account
from hubbub.accountant.attained import repeated, together
from hubbub.accountant.cases.shuffler import legal_changes
from hubbub.accountant.theorems.fakes import swap_bounds, swap_delta, swap_epsilon, uniform_bounds
from hubbub.accountant.theorems.split import attack, cover, positions
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema

ctx.prec = 300
mpmath.mp.dps = 50
mpf = mpmath.mpf


def fake_pmf(fakes: Fakes, counts: int) -> list[arb]:
    """Return P(0) … P(counts − 1) in ball arithmetic; the normalization includes the rest."""
    scale = arb(fakes.scale)
    if fakes.distribution == "laplace":
        weights = [(-abs(arb(k - fakes.shift)) / scale).exp() for k in range(counts)]
        rest = (-arb(counts - fakes.shift) / scale).exp() / (1 - (-1 / scale).exp())
    else:
        weights = [(-(arb(k - fakes.shift) ** 2) / (2 * scale**2)).exp() for k in range(counts)]
        rest = arb(0)
    total = sum(weights, rest)
    return [w / total for w in weights]


def hockey(pairs: list[tuple[list[arb], list[arb]]], epsilon: float) -> arb:
    """Return Σ (P − e^ε·Q)⁺ of independent pairs."""
    ratio, total = arb(epsilon).exp(), arb(0)
    for outcome in itertools.product(*(range(len(p)) for p, _ in pairs)):
        one, two = arb(1), arb(1)
        for place, (p, q) in zip(outcome, pairs, strict=True):
            one, two = one * p[place], two * q[place]
        gain = one - ratio * two
        total += gain if gain > 0 else 0
    return total


def shifts(fakes: Fakes, counts: int, falls: int, rises: int) -> list[tuple[list[arb], list[arb]]]:
    pmf = fake_pmf(fakes, counts)
    stay, shifted = pmf, [arb(0), *pmf[:-1]]
    return [(stay, shifted)] * falls + [(shifted, stay)] * rises


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 3.0])
def test_s5a_split_clear_bits_are_attacked_with_legal_records_only(epsilon: float) -> None:
    """at_most(2, 3): three falls need a record of three bits; at most two fall, or two rise."""
    fakes = Fakes.gaussian(1.0, 2)
    truth = max((hockey(shifts(fakes, 14, *change), epsilon) for change in ((2, 1), (1, 2))), key=float)
    found = account(
        Protocol(0, m=fakes, release="bits"), Schema.at_most(2, 3), 1, epsilon=epsilon, trust="shuffler-noise"
    )
    assert arb(found.lower_bound) <= truth <= arb(found.delta) + arb("1e-25")
    assert found.lower_bound > 0.99 * float(truth)
    assert found.delta < 1.0001 * float(truth)


def test_s5a_legal_changes_are_those_of_legal_records() -> None:
    for schema in (Schema.at_most(2, 3), Schema.at_most(3, 4), Schema.bits(3), Schema.one_hot(3), Schema.at_most(1, 3)):
        every = list(itertools.product((0, 1), repeat=schema.width))
        legal = [r for r in every if schema.min_set <= sum(r) <= schema.max_set]
        seen = {
            (sum(a > b for a, b in zip(x, y, strict=True)), sum(a < b for a, b in zip(x, y, strict=True)))
            for x, y in itertools.product(legal, legal)
        }
        largest = {c for c in seen if not any(o != c and o[0] >= c[0] and o[1] >= c[1] for o in seen)}
        assert set(legal_changes(schema)) == largest


@pytest.mark.parametrize(
    ("fakes", "epsilon"),
    [
        (Fakes.laplace(2.0, 300), 1.2),
        (Fakes.laplace(2.0, 300), 1.0),
        (Fakes.laplace(2.0, 80), math.nextafter(1.0, 0.0)),
        (Fakes.laplace(0.3, 200), 7.0),
        (Fakes.laplace(3.0, 0), 0.1),
    ],
)
def test_s5d_laplace_swaps_have_no_floor(fakes: Fakes, epsilon: float) -> None:
    scale, ratio = arb(fakes.scale), (-1 / arb(fakes.scale)).exp()
    norm = 1 + ratio - ratio ** (fakes.shift + 1)
    truth = (1 - ratio) * ratio**fakes.shift / norm
    if Fraction(epsilon) < 2 / Fraction(fakes.scale):
        truth += (1 - (arb(epsilon) - 2 / scale).exp()) * (1 - ratio**fakes.shift) / norm**2
    lower, upper = swap_bounds(fakes, epsilon)
    assert arb(lower) <= truth.log() <= arb(upper)
    assert upper - lower < 1e-9
    assert arb(swap_delta(fakes, epsilon)) >= truth


@pytest.mark.parametrize(
    ("fakes", "epsilon", "counts"),
    [
        (Fakes.gaussian(1.0, 2), 2.0, 25),
        (Fakes.gaussian(1.0, 38), 1.0, 70),
        (Fakes.gaussian(1.0, 38), 9.0, 70),
        (Fakes.gaussian(0.3, 3), 12.0, 12),
        (Fakes.gaussian(0.05, 1), 400.0, 4),
        (Fakes.gaussian(2.5, 0), 0.0, 60),
        (Fakes.gaussian(2.5, 7), 3.04, 60),
    ],
)
def test_s5d_gaussian_swaps_have_no_floor(fakes: Fakes, epsilon: float, counts: int) -> None:
    truth = hockey(shifts(fakes, counts, 1, 1), epsilon)
    lower, upper = swap_bounds(fakes, epsilon)
    assert arb(lower) <= truth.log() + arb("1e-15")
    assert truth.log() <= arb(upper)
    assert upper - lower < 1e-9


@pytest.mark.parametrize("delta", [1e-14, 1e-16, 1e-20, 1e-60])
def test_laplace_fakes_certify_two_over_the_scale_until_the_mass_of_zero(delta: float) -> None:
    lower, upper = swap_epsilon(Fakes.laplace(2.0, 300), delta)
    assert 1 - 1e-6 < lower <= upper <= math.nextafter(1.0, 2.0)
    assert swap_epsilon(Fakes.laplace(2.0, 300), 1e-70) == (math.inf, math.inf)  # P(0) = 1.8e-66
    found = account(Protocol(0, m=Fakes.laplace(2.0, 300)), Schema.one_hot(9), 1, delta=delta)
    assert upper <= found.epsilon <= upper * (1 + 1e-9)


def test_composed_laplace_fakes_certify_small_deltas() -> None:
    protocol = Protocol(0, m=Fakes.laplace(2.0, 200), release="bits")
    found = account(protocol, Schema.bits(5), 1, delta=1e-20)
    assert 2.4 < found.lower_bound <= found.epsilon <= 2.5 * (1 + 1e-9)  # 5/scale
    beyond = account(protocol, Schema.bits(5), 1, epsilon=2.6)
    zero = fake_pmf(Fakes.laplace(2.0, 200), 300)[0]
    truth = 1 - (1 - zero) ** 5
    assert arb(beyond.lower_bound) <= truth <= arb(beyond.delta) <= truth * (1 + arb("1e-9"))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("p", [Fraction(3, 4), Fraction(51, 100), Fraction(999, 1000)])
def test_s9_the_loss_of_an_attack_is_never_above_the_exact_value(count: int, p: Fraction) -> None:
    """Copies of a coin: δ(ε) = Σ_j C(count, j)·(p^j·q^(count−j) − e^ε·p^(count−j)·q^j)⁺."""
    q = 1 - p
    pair = np.array([float(p), float(q)])
    found = repeated(pair, pair[::-1], count)
    one, two = mpf(float(p)), mpf(float(q))
    for share in (0.0, 0.2, 0.7, 0.99, 0.999999):
        epsilon = share * count * math.log(p / q)
        ratio = mpmath.exp(mpf(epsilon))
        truth = mpmath.fsum(
            math.comb(count, j) * max(one**j * two ** (count - j) - ratio * one ** (count - j) * two**j, 0)
            for j in range(count + 1)
        )
        assert found.delta(epsilon) <= truth
        assert found.delta(epsilon) >= 0.95 * truth - 1e-9
        if truth > 1e-6:
            # δ falls strictly, so an ε with δ(ε) above the exact δ at another ε lies below that one.
            assert found.epsilon(float(truth)) <= epsilon * (1 + 1e-15)


def test_attacks_on_several_pairs_at_once_are_below_the_exact_value() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        p, q, r, s = (rng.dirichlet(np.ones(4)) for _ in range(4))
        first = np.multiply.outer(np.multiply.outer(p, p), r).ravel()
        second = np.multiply.outer(np.multiply.outer(q, q), s).ravel()
        found = together([(p, q, 2), (r, s, 1)])
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            truth = math.fsum(np.maximum(first - math.exp(epsilon) * second, 0.0))
            assert 0.97 * truth - 1e-3 <= found.delta(epsilon) <= truth * (1 + 1e-12)


@pytest.mark.parametrize(("n", "q", "count"), [(200, 0.2, 64), (5000, 0.01, 40)])
def test_attacks_by_fourier_transform_are_below_the_certificate_in_every_tail(n: int, q: float, count: int) -> None:
    attacked, certified = attack(n, q, 1, count), positions(n, q, 1, count)
    for delta in (1e-3, 1e-6, 1e-10, 1e-15):
        assert 0.97 * certified.epsilon(delta) < attacked.epsilon(delta) < certified.epsilon(delta)


def test_s9_the_curve_of_one_position_is_rounded_up() -> None:
    """One person: δ(ε) = p − e^ε·q exactly, at the nodes of the cover."""
    loss = cover(1, 0.3)
    q = Fraction(0.3)
    for i in range(0, 120, 7):
        epsilon = loss.step * i
        truth = mpf(1 - 0.3) - mpmath.exp(mpf(epsilon)) * mpf(q.numerator) / q.denominator
        assert loss.delta(epsilon) >= truth


@pytest.mark.parametrize(
    ("n", "q", "k", "count", "share"),
    [
        (11, 0.499, 3, 2, 0.99),
        (11, 0.499, 3, 2, 0.97),
        (8, 0.499, 1, 2, 0.999),
        (4, 0.2, 3, 2, 0.999),
        (6, 0.3, 1, 3, 0.99),
    ],
)
def test_split_bits_are_tight_next_to_the_pure_epsilon(n: int, q: float, k: int, count: int, share: float) -> None:
    """Certified δ over the exact δ of the worst homogeneous collection; it was up to 17,000."""
    p, flip = 1 - mpf(q), mpf(q)

    def counts(own: mpmath.mpf) -> list[mpmath.mpf]:
        crowd = [mpmath.binomial(k * (n - 1), j) * p**j * flip ** (k * (n - 1) - j) for j in range(k * (n - 1) + 1)]
        mine = [mpmath.binomial(k, j) * own**j * (1 - own) ** (k - j) for j in range(k + 1)]
        return [
            mpmath.fsum(crowd[s - j] * mine[j] for j in range(k + 1) if 0 <= s - j < len(crowd))
            for s in range(k * n + 1)
        ]

    one, two = counts(p), counts(flip)
    epsilon = share * k * count * math.log((1 - q) / q)
    ratio = mpmath.exp(mpf(epsilon))
    first, second = [mpf(1)], [mpf(1)]
    for _ in range(count):
        first = [a * b for a in first for b in one]
        second = [a * b for a in second for b in two]
    truth = mpmath.fsum(max(a - ratio * b, 0) for a, b in zip(first, second, strict=True))
    certified = positions(n, q, k, count).delta(epsilon)
    assert truth <= certified <= 3 * truth
    assert attack(n, q, k, count).delta(epsilon) <= truth


@pytest.mark.parametrize(("m", "categories", "epsilon"), [(60, 2, 9.0), (400, 10, 6.0), (200, 3, 6.0), (40, 2, 60.0)])
def test_clear_records_have_bounds_on_both_sides_in_every_tail(m: int, categories: int, epsilon: float) -> None:
    """δ = E[f(N)] summed exactly; below 10⁻²⁰ the lower end used to exceed it."""
    ratio, chance, truth = arb(epsilon).exp(), arb(2) / categories, arb(0)
    for number in range(m + 1):
        weight = arb(math.comb(m, number)) * chance**number * (1 - chance) ** (m - number)
        best, tail, ways = arb(0), 0, 0
        for k in range(number + 1, -1, -1):  # max over k of P(A ≥ k−1) − e^ε·P(A ≥ k)
            value = (arb(tail + (math.comb(number, k - 1) if k else 0)) - ratio * tail) / arb(2) ** number
            best = value if value > best else best
            ways = math.comb(number, k - 1) if k else 0
            tail += ways
        truth += weight * best
    lower, upper = uniform_bounds(epsilon, m, categories)
    assert arb(lower) <= truth <= arb(upper)
    assert lower > 0.999 * upper
    found = account(Protocol(0, m=m), Schema.one_hot(categories), 5, epsilon=epsilon)
    assert arb(found.lower_bound) <= truth <= arb(found.delta)


def test_delta_is_never_zero_among_fakes() -> None:
    for fakes in (Fakes.laplace(0.01, 500), Fakes.gaussian(0.5, 400), 10**6):
        found = account(Protocol(0, m=fakes), Schema.one_hot(3), 1, epsilon=50.0)
        assert found.delta > 0
        assert found.lower_bound <= found.delta


def test_a_ledger_of_many_wide_rounds_is_fast_enough_and_above_one_round() -> None:
    one_hot = Schema.one_hot(1000)
    ledger = Ledger().charge_protocol(Protocol(1e-3, release="bits"), one_hot, 10**5, rounds=365)
    once = account(Protocol(1e-3, release="bits"), one_hot, 10**5, delta=1e-6).epsilon
    assert once < ledger.epsilon(1e-6) < 365 * once


@pytest.mark.parametrize("epsilon", [1.0, 138.0, 250.0])
def test_few_losses_far_apart_are_attacked_soon(epsilon: float) -> None:
    """Fakes of a tiny scale have few losses, of hundreds, for which a grid of a million nodes took seconds."""
    fakes, start = Fakes.gaussian(0.06, 3), time.process_time()
    found = account(Protocol(0.0, m=fakes, release="bits"), Schema.at_most(2, 2), 100, epsilon=epsilon)
    assert time.process_time() - start < 1.0
    truth = max(float(hockey(shifts(fakes, 7, *change), epsilon)) for change in legal_changes(Schema.at_most(2, 2)))
    assert truth * (1 - 1e-9) <= found.lower_bound <= truth * (1 + 1e-12)
