"""The kinds of the other users: everything slot exchange needs to know about a pair x, x' and another record y.

The likelihood ratios of a message depend on (x, x', y) only through the numbers of positions in which only x differs
from y (A), only x' does (B), or both do (C), and on how many of these the message differs from y. With a, b, c such
differences, ρ = p/q and k = 2c − C,

    X = μ_x/μ_y = ρ^(2a−A+k),    X' = μ_x'/μ_y = ρ^(2b−B+k),    G = X − e^ε X';

a, b, c are binomial of probability q under μ_y. The common part ω of all message distributions, μ_y ≥ γω, is

- *uniform*, γ = (2q)^L, under which a, b, c are binomial of probability 1/2; or
- *product*, ω = μ_0, γ = (q/p)^K for records with at most K ones, under which a position differs with probability q if
  y holds a 0 there and p if y holds a 1, so that A, B, C are split into (A0, A1), (B0, B1), (C0, C1).

A position in which x, x' and y all agree matters to nothing. Where the three hold a common one, the limits on the
numbers of ones only get tighter, so that the list without such positions has all kinds.

A :class:`Family` lists all kinds of a schema, and so all pairs in both orders. :meth:`Family.masses` evaluates the real
transforms of all of them at once; :meth:`Family.kind` returns the atoms of one. Further senders whose messages are at
least γω, such as fakes, are described by a :class:`Kind` of their own.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.theorems import bit
from hubbub.model.schema import Schema
from hubbub.numeric import portable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_WIDTH = 64  # most bits of a uniform family: 50 000 kinds
MAX_ONES = 8  # most ones of a product family: 40 000 kinds
MAX_RATIO = 600.0  # the logarithm of the largest likelihood ratio, times three
UNIT = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The atoms of one sender's messages: likelihood ratios and probabilities of messages that share them."""

    first: Floats
    """μ_x/μ_y."""
    second: Floats
    """μ_x'/μ_y."""
    mu: Floats
    """Probabilities under μ_y, all positive."""
    omega: Floats
    """Probabilities under ω."""

    def scores(self, epsilon: float, cut: float = math.inf) -> Floats:
        """Return G = X − e^ε X', at most ``cut``."""
        return np.minimum(self.first - math.exp(epsilon) * self.second, cut)

    def excess(self, epsilon: float, cut: float) -> float:
        """Return an upper bound on E_μ (G − cut)⁺; see :meth:`Family.excess`."""
        share = 1.0 - (math.exp(epsilon) * self.second + cut) / self.first
        kept = np.where(share > -1e-12, np.minimum(share + 2e-12, 1.0), 0.0)
        return float(portable.dot((self.mu * self.first), kept)) * (1 + 1e-11)


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The atoms of two records I and J under ω, on the same messages: likelihood ratios of x and x' to both."""

    own: tuple[Floats, Floats]
    other: tuple[Floats, Floats]
    omega: Floats

    def scores(self, epsilon: float, cut: float = math.inf) -> Floats:
        """Return H = (G_I + G_J)/2, each score at most ``cut``."""
        ratio = math.exp(epsilon)
        one, two = (np.minimum(first - ratio * second, cut) for first, second in (self.own, self.other))
        return (one + two) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Masses:
    """Real transforms of kinds at one t."""

    m: Floats
    """E_μ e^{tG} − 1."""
    u: Floats
    """E_ω e^{tG} − 1."""
    noise: float
    """A bound on the rounding error of E_μ e^{zG} and of γ E_ω e^{zG}, per unit of ``|z|``, for all these kinds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The kinds that share A and B: a table over (a, b) and k = 2c − C gives all of them by two matrix products."""

    A: int
    B: int
    D: int  # largest C
    rows: Integers  # positions of these kinds in the family
    split: Integers  # for each kind, the row of ``omega``
    column: Integers  # for each kind, the column of the mixtures over c
    mu: Floats  # probabilities of (a, b) under μ
    omega: Floats  # and under ω, for every way to split A and B
    mix_mu: Floats  # (2D + 1, columns): probabilities of k under μ
    mix_omega: Floats
    mix_x: Floats  # and under μ_x
    mu_x: Floats  # probabilities of (a, b) under μ_x
    first: Floats  # ρ^(2a−A) for every (a, b)
    second: Floats  # ρ^(2b−B)


@lru_cache(maxsize=2048)
def pmf(size: int, prob: float, rest: float) -> Floats:
    """Return the binomial probabilities of ``size`` trials, each with a relative error below (size + 4) units.

    ``rest`` is 1 − ``prob``. Every factor is a correctly rounded power or an exact binomial coefficient, which is more
    accurate for small sizes than the exponential of a logarithm.

    >>> pmf(2, 0.25, 0.75).tolist()
    [0.5625, 0.375, 0.0625]
    """
    chances = np.array([math.comb(size, s) * (prob**s * rest ** (size - s)) for s in range(size + 1)])
    chances.flags.writeable = False
    return chances


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """All kinds of a schema at one q, and the common part ω of their messages with its weight γ, rounded down."""

    q: float
    gamma: float
    keys: Integers
    """(A0, A1, B0, B1, C0, C1) of every kind."""
    triples: Integers
    """(A, B, C) of every kind."""
    uniform: bool
    width: int
    units: tuple[float, float]
    """The rounding errors of an averaged e^{zG} − 1, relative to e^{tG}(X + e^ε X')|z| and to max(1, e^{tG})|Gz|."""
    groups: tuple[_Group, ...] = field(repr=False)
    known: dict[object, object] = field(default_factory=dict, repr=False)

    def _chances(self, zeros: int, ones: int) -> Floats:
        """Return the probabilities of the number of differences under ω in positions where y holds a 0 or a 1."""
        q, p = self.q, 1.0 - self.q
        if self.uniform:
            return pmf(zeros + ones, 0.5, 0.5)
        return np.asarray(portable.convolve(pmf(zeros, q, p), pmf(ones, p, q)))

    def kind(self, index: int) -> Kind:
        """Return the atoms of the kind at ``index`` in ``keys``."""
        found = self.known.get(index)
        if isinstance(found, Kind):
            return found
        ratio, q = bit.log_odds(self.q), self.q
        A0, A1, B0, B1, C0, C1 = (int(v) for v in self.keys[index])
        sizes = (A0 + A1, B0 + B1, C0 + C1)
        shape = tuple(size + 1 for size in sizes)
        a, b, c = (2.0 * np.arange(size + 1) - size for size in sizes)
        first = np.broadcast_to(portable.exp(ratio * (a[:, None, None] + c)), shape).ravel()
        second = np.broadcast_to(portable.exp(ratio * (b[None, :, None] + c)), shape).ravel()
        mu = _outer(*(pmf(size, q, 1.0 - q) for size in sizes))
        omega = _outer(*(self._chances(*pair) for pair in ((A0, A1), (B0, B1), (C0, C1))))
        made = Kind(first, second, mu, omega)
        self.known[index] = made
        return made

    def matched(self, h: int) -> tuple[int, int, Matched]:
        """Return the kinds (0, h, L − h) and (h, 0, L − h) of a uniform family, and their atoms on the same messages.

        Each is a single record: x (or x') where the two differ, and the opposite of both elsewhere.
        """
        rest = self.width - h
        triples = self.triples
        own, other = (int(np.flatnonzero((triples == key).all(axis=1))[0]) for key in ((0, h, rest), (h, 0, rest)))
        ratio = bit.log_odds(self.q)
        j, c = 2.0 * np.arange(h + 1)[:, None] - h, 2.0 * np.arange(rest + 1)[None, :] - rest
        plain, up, down = ((portable.exp(ratio * (c + sign * j))).ravel() for sign in (0, 1, -1))
        omega = np.outer(pmf(h, 0.5, 0.5), pmf(rest, 0.5, 0.5)).ravel()
        return own, other, Matched((plain, up), (down, plain), omega)

    def at_distance(self, h: int) -> "Family":
        """Return the kinds of the pairs x, x' at distance h."""
        found = self.known.get(("distance", h))
        if isinstance(found, Family):
            return found
        rows = self.triples[:, :2].sum(axis=1) == h
        empty = replace(self, keys=self.keys[rows], triples=self.triples[rows], groups=(), known={})
        made = replace(empty, groups=tuple(_groups(empty)), known={})
        self.known["distance", h] = made
        return made

    def masses(self, t: float, epsilon: float, cut: float = math.inf, groups: Iterable[int] | None = None) -> Masses:
        """Return the transforms of all kinds at t, or of those with A + B in ``groups`` (0 for the others).

        t times the largest score must not exceed 690.
        """
        m, u = np.zeros(len(self.keys)), np.zeros(len(self.keys))
        noise = 0.0
        wanted = None if groups is None else set(groups)
        ratio, grow = bit.log_odds(self.q), math.exp(epsilon)
        relative, length = self.units
        for group in self.groups:
            if wanted is not None and group.A + group.B not in wanted:
                continue
            first, second = group.first, group.second
            power = portable.exp(ratio * np.arange(-group.D, group.D + 1))
            score = np.minimum(np.outer(first - grow * second, power), cut)
            rise = portable.expm1(np.minimum(t * score, 700.0))
            m[group.rows] = (portable.dot((portable.dot(group.mu, rise)), group.mix_mu))[group.column]
            u[group.rows] = (portable.dot((portable.dot(group.omega, rise)), group.mix_omega))[
                group.split, group.column
            ]
            tilted = rise + 1.0
            spread = portable.dot(portable.dot((group.mu * (first + grow * second)), tilted) * power, group.mix_mu)
            size = portable.dot(portable.dot(group.mu, (np.maximum(tilted, 1.0) * np.abs(score))), group.mix_mu)
            noise = max(noise, float((relative * spread + length * size).max()))
        return Masses(m, u, noise)

    def excess(self, epsilon: float, cut: float) -> float:
        """Return an upper bound on max_y E_μ (G_y − cut)⁺, the cost of limiting every score to ``cut`` (Corollary 3).

        The mean is taken under μ_x = X μ_y, with the factor (1 − (e^ε X' + cut)/X)⁺ ≤ 1: nothing overflows or cancels.
        """
        if cut == math.inf:
            return 0.0
        ratio = bit.log_odds(self.q)
        worst = 0.0
        for group in self.groups:
            first, second = group.first, group.second
            power = portable.exp(-ratio * np.arange(-group.D, group.D + 1))
            share = 1.0 - (math.exp(epsilon) * second / first)[:, None] - np.outer(cut / first, power)
            kept = np.where(share > -1e-12, np.minimum(share + 2e-12, 1.0), 0.0)
            worst = max(worst, float((portable.dot(portable.dot(group.mu_x, kept), group.mix_x)).max()))
        return worst * (1 + 1e-11)

    def largest(self, epsilon: float) -> float:
        """Return the largest score of any kind: ρ^C (ρ^A − e^ε ρ^(−B))."""
        ratio = bit.log_odds(self.q)
        a, b, c = self.triples.T.astype(np.float64)
        return max(0.0, float((portable.exp(ratio * (a + c)) - portable.exp(epsilon + ratio * (c - b))).max())) * (
            1 + 1e-12
        )

    def prominent(self, epsilon: float, each: int, rows: Integers | None = None) -> Integers:
        """Return the kinds (of those in ``rows``) with the largest second moments of G, and the largest third of X."""
        kept = np.arange(len(self.keys)) if rows is None else rows
        a, b, c = self.triples[kept].T.astype(np.float64)
        second = self._second_moments(epsilon, a, b, c)
        two, three = (self._moment(power) for power in (2, 3))
        third = three**c * (three**a - 3 * math.exp(epsilon) * two**a)
        top = np.concatenate([np.argsort(-second, kind="stable")[:each], np.argsort(-third, kind="stable")[:each]])
        return np.asarray(kept[np.unique(top)], np.int64)

    def second_moment(self, epsilon: float) -> float:
        """Return max_y E_μ G², about."""
        return float(self._second_moments(epsilon, *self.triples.T.astype(np.float64)).max())

    def _second_moments(self, epsilon: float, a: Floats, b: Floats, c: Floats) -> Floats:
        two, grow = self._moment(2), math.exp(epsilon)
        # φ^a + e^2ε φ^b − 2e^ε without cancellation
        return np.asarray(two**c * (np.maximum(two**a - 1 + grow**2 * (two**b - 1), 0.0) + (grow - 1) ** 2))

    def _moment(self, power: int) -> float:
        """Return E ℓ^power of the likelihood ratio ℓ of one position, ρ with probability q and 1/ρ otherwise."""
        ratio = bit.log_odds(self.q)
        return self.q * math.exp(power * ratio) + (1 - self.q) * math.exp(-power * ratio)


def _outer(a: Floats, b: Floats, c: Floats) -> Floats:
    return (a[:, None, None] * b[None, :, None] * c).ravel()


def _uniform_keys(width: int, ones: int) -> Integers:
    far = min(2 * ones, width)
    A, B, C = (v.ravel() for v in np.indices((far + 1,) * 3))
    most = min(3 * ones, width)
    total = A + B + C
    legal = (A + B >= 1) & (total - np.minimum(np.minimum(A, B), C) <= far) & (total <= most)
    zero = np.zeros(int(legal.sum()), np.int64)
    return np.stack([A[legal], zero, B[legal], zero, C[legal], zero], axis=1)


def _product_keys(width: int, ones: int, *, exactly: bool) -> Integers:
    A0, A1, B0, B1, C0, C1 = (v.ravel() for v in np.indices((ones + 1,) * 6))
    x, other, y = A0 + B1 + C0, B0 + A1 + C0, A1 + B1 + C1
    apart = A0 + A1 + B0 + B1
    legal = (apart >= 1) & (apart + C0 + C1 <= width)
    legal &= (x <= ones) & (other <= ones) & (y <= ones)
    if exactly:
        legal &= (x == ones) & (other == ones) & (y == ones)
    return np.stack([v[legal] for v in (A0, A1, B0, B1, C0, C1)], axis=1)


def family(schema: Schema, q: float) -> Family | None:
    """Return the kinds of a schema with the ω of larger weight, or None if they are too many or overflow.

    >>> found = family(Schema.bits(2), 0.25)
    >>> found.gamma < 0.25, len(found.keys)  # (A, B, C) with A + B ≥ 1 and A + B + C ≤ 2
    (True, 7)
    """
    return _family(schema.form, schema.width, schema.max_set, q)


@lru_cache(maxsize=16)
def _family(name: str, width: int, ones: int, q: float) -> Family | None:
    if not 0.0 < q < 0.5 or 3 * min(2 * ones, width) * bit.log_odds(q) > MAX_RATIO:
        return None
    uniform = (2 * q) ** width * (1 - (width + 4) * 2.0**-51) if width <= MAX_WIDTH else 0.0
    product = (q / (1 - q)) ** ones * (1 - (ones + 4) * 2.0**-51) if ones <= MAX_ONES and name != "bits" else 0.0
    gamma = max(uniform, product)
    if gamma < 1e-30:
        return None
    keys = _product_keys(width, ones, exactly=name == "one_hot") if gamma == product else _uniform_keys(width, ones)
    triples = keys[:, 0::2] + keys[:, 1::2]
    empty = Family(q, gamma, keys, triples, gamma != product, width, _units(triples, q), ())
    return replace(empty, groups=tuple(_groups(empty)), known={})


def _units(triples: Integers, q: float) -> tuple[float, float]:
    """Return :attr:`Family.units`.

    With D = A + B + C positions, X = e^{kr} has a relative error of (3D |ln q| + 3) units of 2⁻⁵³, and G cancels; a
    probability has one of some 2D + 20, and a sum over all atoms adds their number. All doubled.
    """
    reach, atoms = int(triples.sum(axis=1).max()), int((triples + 1).prod(axis=1).max())
    return UNIT * (8 * reach * abs(math.log(q)) + 16), UNIT * (6 * atoms + 4 * reach + 100)


def _groups(base: Family) -> list[_Group]:
    q, p = base.q, 1.0 - base.q
    keys, triples = base.keys, base.triples
    order = np.lexsort((triples[:, 1], triples[:, 0]))
    starts = np.flatnonzero(np.any(np.diff(triples[order, :2], axis=0), axis=1)) + 1
    ratio, radix = bit.log_odds(q), int(keys.max()) + 1
    split_code, column_code = (
        portable.dot(keys[:, :4], radix ** np.arange(4)),
        portable.dot(keys[:, 4:], radix ** np.arange(2)),
    )
    made = []
    mixtures: dict[tuple[int, bytes], tuple[Floats, Floats, Floats]] = {}
    for rows in np.split(order, starts):
        A, B = (int(v) for v in triples[rows[0], :2])
        D = int(triples[rows, 2].max())
        _, first_split, split = np.unique(split_code[rows], return_index=True, return_inverse=True)
        columns, first_column, column = np.unique(column_code[rows], return_index=True, return_inverse=True)
        name = (D, columns.tobytes())
        if name not in mixtures:
            mixtures[name] = _mixtures(base, D, keys[rows[first_column], 4:].tolist())
        omega = [
            np.outer(base._chances(A0, A1), base._chances(B0, B1)).ravel()
            for A0, A1, B0, B1 in keys[rows[first_split], :4].tolist()
        ]
        first, second = (portable.exp(ratio * (2.0 * np.arange(size + 1) - size)) for size in (A, B))
        made.append(
            _Group(
                A,
                B,
                D,
                rows,
                split.ravel(),
                column.ravel(),
                np.outer(pmf(A, q, p), pmf(B, q, p)).ravel(),
                np.array(omega),
                *mixtures[name],
                np.outer(pmf(A, p, q), pmf(B, q, p)).ravel(),
                np.repeat(first, B + 1),
                np.tile(second, A + 1),
            )
        )
    return made


def _mixtures(base: Family, D: int, columns: list[list[int]]) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities of k = 2c − C from −D to D under μ, ω and μ_x, with one column for every (C0, C1)."""
    q, p = base.q, 1.0 - base.q
    made = tuple(np.zeros((2 * D + 1, len(columns))) for _ in range(3))
    for i, (C0, C1) in enumerate(columns):
        C = C0 + C1
        place = np.arange(-C, C + 1, 2) + D
        for target, chances in zip(made, (pmf(C, q, p), base._chances(C0, C1), pmf(C, p, q)), strict=True):
            target[place, i] = chances
    return made[0], made[1], made[2]
