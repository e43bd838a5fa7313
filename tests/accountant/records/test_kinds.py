"""The kinds of the other users: against lists of all messages, exact fractions and 40 digits."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from tests.accountant.records.exact import Floats, flipped

from hubbub.accountant.theorems.records.kinds import Family, Kind, family, pmf
from hubbub.accountant.theorems.records.labels import noise_of
from hubbub.model.schema import Schema

UNIT = 2.0**-53


def found(schema: Schema, q: float) -> Family:
    kinds = family(schema, q)
    assert kinds is not None
    return kinds


def legal(schema: Schema) -> list[tuple[int, ...]]:
    every = itertools.product((0, 1), repeat=schema.width)
    return [record for record in every if schema.min_set <= sum(record) <= schema.max_set]


def transforms(score: Floats, mu: Floats, omega: Floats) -> list[float]:
    top = float(np.abs(score).max())
    return [float(chances @ np.exp(t / top * score)) for t in (-0.7, 0.3, 1.0) for chances in (mu, omega)]


SCHEMAS = [
    Schema.bits(1),
    Schema.bits(3),
    Schema.bits(4),
    Schema.one_hot(2),
    Schema.one_hot(3),
    Schema.one_hot(5),
    Schema.at_most(1, 2),
    Schema.at_most(2, 3),  # narrower than two disjoint records
    Schema.at_most(2, 5),
    Schema.at_most(3, 4),
    Schema.at_most(4, 4),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=repr)
def test_every_pair_and_every_other_record_is_a_listed_kind(schema: Schema) -> None:
    rng = np.random.default_rng(schema.width)
    q, epsilon = 0.23, 0.6
    kinds = found(schema, q)
    listed = [kinds.kind(i) for i in range(len(kinds.keys))]
    known = np.array([transforms(kind.scores(epsilon), kind.mu, kind.omega) for kind in listed])
    records = legal(schema)
    triples = [triple for triple in itertools.product(records, repeat=3) if triple[0] != triple[1]]
    for i in rng.permutation(len(triples))[:120]:
        x, other, y = (flipped(record, q) for record in triples[i])
        omega = np.full(len(x), 0.5**schema.width) if kinds.uniform else flipped((0,) * schema.width, q)
        assert (y >= kinds.gamma * omega).all()
        wanted = transforms((x - math.exp(epsilon) * other) / y, y, omega)
        assert np.abs(known / wanted - 1).max(axis=1).min() < 1e-12


@pytest.mark.parametrize("schema", SCHEMAS, ids=repr)
def test_the_transforms_of_all_kinds_at_once_are_those_of_each(schema: Schema) -> None:
    kinds = found(schema, 0.31)
    for epsilon, cut in ((0.4, math.inf), (0.4, 1.5), (0.0, math.inf)):
        t = 0.8 / kinds.largest(epsilon)
        masses = kinds.masses(t, epsilon, cut)
        for i in range(len(kinds.keys)):
            kind = kinds.kind(i)
            score = kind.scores(epsilon, cut)
            assert masses.m[i] == pytest.approx(float(kind.mu @ np.expm1(t * score)), abs=1e-14)
            assert masses.u[i] == pytest.approx(float(kind.omega @ np.expm1(t * score)), abs=1e-13)
            assert float(kind.mu @ kind.scores(epsilon)) == pytest.approx(-math.expm1(epsilon), abs=1e-12)
            assert score.max() <= kinds.largest(epsilon)


def test_the_matched_records_share_their_messages() -> None:
    q, epsilon = 0.2, 0.7
    kinds = found(Schema.bits(4), q)
    for h in (1, 2, 4):
        x, other = (0, 0, 0, 0), (1,) * h + (0,) * (4 - h)
        own, matched = (0,) * h + (1,) * (4 - h), (1,) * 4
        v = flipped(x, q) - math.exp(epsilon) * flipped(other, q)
        score = (v / flipped(own, q) + v / flipped(matched, q)) / 2
        one, two, pair = kinds.matched(h)
        assert kinds.triples[[one, two]].tolist() == [[0, h, 4 - h], [h, 0, 4 - h]]
        for t in (-0.1, 0.05):
            wanted = np.exp(t * score).mean()
            assert float(pair.omega @ np.exp(t * pair.scores(epsilon))) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("q", [1e-9, 0.01, 0.1, 0.2446, 1 / 3, 0.4999999, 0.5 - 2.0**-40])
@pytest.mark.parametrize("schema", [Schema.bits(1), Schema.bits(5), Schema.bits(13), Schema.at_most(3, 40)], ids=repr)
def test_gamma_is_rounded_down(schema: Schema, q: float) -> None:
    """Point 1: μ − γω must not be negative, not even by a unit in the last place."""
    kinds = family(schema, q)
    if kinds is not None:
        exact = Fraction(q)
        weight = (2 * exact) ** schema.width if kinds.uniform else (exact / (1 - exact)) ** schema.max_set
        assert 1 - Fraction(1, 10**12) < Fraction(kinds.gamma) / weight < 1 - Fraction(1, 2**53)


def mp_transform(key: tuple[int, int, int], q: float, epsilon: float, t: float) -> mpmath.mpf:
    """Return E_μ e^{tG} − 1 to 50 digits."""
    with mpmath.workdps(50):
        p, flip = 1 - mpmath.mpf(q), mpmath.mpf(q)
        ratio, total = p / flip, mpmath.mpf(0)
        for differ in itertools.product(*(range(size + 1) for size in key)):
            chance = mpmath.mpf(1)
            for size, s in zip(key, differ, strict=True):
                chance *= math.comb(size, s) * flip**s * p ** (size - s)
            (A, B, C), (a, b, c) = key, differ
            score = ratio ** (2 * c - C) * (ratio ** (2 * a - A) - mpmath.exp(epsilon) * ratio ** (2 * b - B))
            total += chance * mpmath.expm1(t * score)
        return total


@pytest.mark.parametrize(
    ("width", "q", "epsilon"),
    [(3, 0.4999999, 1e-7), (3, 0.4999999, 0.0), (2, 0.5 - 1e-10, 0.0), (3, 0.15, 0.3), (2, 1e-5, 0.7), (5, 0.25, 1.0)],
)
def test_the_allowance_covers_scores_that_cancel(width: int, q: float, epsilon: float) -> None:
    """Point 2: the error of G = X − e^ε X' is relative to X + e^ε X', not to |G|."""
    kinds = found(Schema.bits(width), q)
    t = 1.0 / kinds.largest(epsilon)
    masses = kinds.masses(t, epsilon)
    worst = 0.0
    for i, key in enumerate(kinds.triples.tolist()):
        kind = kinds.kind(i)
        exact = mp_transform((key[0], key[1], key[2]), q, epsilon, t)
        error = abs(float(mpmath.mpf(float(masses.m[i])) - exact))
        assert error <= masses.noise * t
        assert abs(float(float(kind.mu @ np.expm1(t * kind.scores(epsilon))) - exact)) <= masses.noise * t
        assert noise_of(kind, epsilon, math.inf, t, kinds.units) <= masses.noise * (1 + 1e-9)
        naive = UNIT * (len(kind.mu) + 8) * t * float(kind.mu @ np.abs(kind.scores(epsilon)))
        worst = max(worst, error / naive)
    if q > 0.49:
        assert worst > 1.0  # an allowance relative to |G| is too small here


@pytest.mark.parametrize("q", [1e-4, 1e-6, 1e-9])
def test_no_atom_is_dropped(q: float) -> None:
    """Point 3: e^{tG} can be large where a probability is tiny."""
    kinds = found(Schema.bits(3), q)
    for i in range(len(kinds.keys)):
        kind = kinds.kind(i)
        assert len(kind.mu) == int((kinds.triples[i] + 1).prod())
        assert (kind.mu > 0).all()
        assert (kind.omega > 0).all()
        assert np.isfinite(kind.first).all()
        assert float((kind.mu * kind.first).sum()) == pytest.approx(1.0, rel=1e-12)  # μ_x, mostly at the rarest atoms


@pytest.mark.parametrize(
    ("width", "q", "epsilon", "cut"), [(3, 0.1, 0.5, 40.0), (4, 0.02, 1.0, 500.0), (3, 1e-9, 1.0, 1e20)]
)
def test_the_cost_of_limiting_scores_does_not_overflow(width: int, q: float, epsilon: float, cut: float) -> None:
    """Point 4: E (G − c)⁺ as a mean under μ_x, from above and within 10⁻¹⁰."""
    kinds = found(Schema.bits(width), q)
    exact = 0.0
    for kind in map(kinds.kind, range(len(kinds.keys))):
        parts = [
            Fraction(mu) * max(Fraction(x) - Fraction(math.exp(epsilon)) * Fraction(other) - Fraction(cut), Fraction(0))
            for mu, x, other in zip(kind.mu.tolist(), kind.first.tolist(), kind.second.tolist(), strict=True)
        ]
        exact = max(exact, float(sum(parts)))
    assert exact <= kinds.excess(epsilon, cut) <= exact * (1 + 1e-9) + 1e-11
    assert max(kinds.kind(i).excess(epsilon, cut) for i in range(len(kinds.keys))) == pytest.approx(
        kinds.excess(epsilon, cut), rel=1e-9
    )
    assert kinds.excess(epsilon, math.inf) == 0.0


@pytest.mark.parametrize("q", [1e-9, 0.01, 0.1, 0.2446, 1 / 3, 0.4999999])
def test_binomial_probabilities_have_relative_errors_of_a_few_units(q: float) -> None:
    """Point 7: relative accuracy in every tail."""
    exact = Fraction(q)
    for size in (1, 2, 5, 13, 20):
        for s, value in enumerate(pmf(size, q, 1.0 - q).tolist()):
            wanted = math.comb(size, s) * exact**s * (1 - exact) ** (size - s)
            assert abs(Fraction(value) / wanted - 1) <= (size + 4) * Fraction(1, 2**53)


def test_too_many_or_overflowing_kinds_give_no_family() -> None:
    assert family(Schema.bits(40), 1e-9) is None
    assert family(Schema.bits(65), 0.45) is None
    assert family(Schema.bits(3), 0.5) is None
    assert family(Schema.at_most(1000, 10**5), 0.4999) is None
    assert isinstance(found(Schema.at_most(9, 40), 0.4).kind(0), Kind)
