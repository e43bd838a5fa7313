"""Reference distributions of the analyzer's view, from the definitions in docs/theory/setting.md and of protocols.

Nothing here uses the accountant. A view is a sum of independent parts in an abelian group, written as 64-bit codes:
the histogram of the messages for records and categories, the count of every position for bits. The true δ(ε) is the
largest hockey-stick divergence over all crowds of the other honest users and all ordered pairs of records of the
protected one; pairs that differ by a symmetry of the protocol are evaluated once.

With A the distribution of everybody else and μ, μ' those of the protected user, δ = Σ (A * (μ − e^ε μ'))⁺. The signed
factor is computed in ball arithmetic and rounded once, and A is a sum of positive terms, so that floating point has a
relative error of a few ulps of the terms that are added. That error is carried along; a comparison that it does not
decide is repeated in ball arithmetic.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb, ctx, fmpq
from tests.accountant.enumeration.sums import Floats, Masses, Spread, convolve, mix, multiples, random_code

from hubbub.model.protocol import GRID, Fakes, Protocol
from hubbub.model.schema import Schema

PRECISION = 320
"""Bits of the balls."""
NEGLECTED = 1e-34
"""Mass of the random numbers of fakes that is cut off, and added to the error."""
ULP = 2.0**-53


def legal_records(schema: Schema) -> list[int]:
    """Return all legal records, bit i of the number being label i."""
    every = range(1 << schema.width)
    if schema.exclusive:
        return [record for record in every if record.bit_count() == 1]
    return [record for record in every if record.bit_count() <= schema.max_set]


def exact(value: float) -> fmpq:
    """Return the rational number that a float is."""
    return fmpq(*value.as_integer_ratio())


def fewest_fakes(m: int, n: int, honest: int) -> int:
    """Return the fewest of m fakes that ``honest`` of n users can send: each of them sends ⌊m/n⌋ or more."""
    return m if honest == n else honest * (m // n)


def number_of_fakes(fakes: Fakes, users: int) -> tuple[list[arb], float]:
    """Return P(0), P(1), … of the users' total, or of the shuffler's fakes in one category, and the mass cut off."""
    scale = arb(exact(fakes.scale))
    if fakes.distribution == "binomial":
        trials = fakes.shift * users
        return [arb(math.comb(trials, i)) * scale**i * (1 - scale) ** (trials - i) for i in range(trials + 1)], 0.0
    if fakes.distribution == "poisson":
        rate = users * scale
        weights, total = [arb(1)], rate.exp()
        while not (weights[-1] / total < NEGLECTED / 4) or len(weights) < 2 * rate:
            weights.append(weights[-1] * rate / len(weights))
        return [weight / total for weight in weights], NEGLECTED
    power = 1 if fakes.distribution == "laplace" else 2
    weights = []
    for i in itertools.count():
        weights.append((-((abs(arb(i - fakes.shift)) / scale) ** power) / power).exp())
        if i > fakes.shift and weights[-1] < NEGLECTED**2 * (1 - (-1 / scale).exp()):
            break
    total = sum(weights, arb(0))
    masses, tail = [weight / total for weight in weights], arb(0)
    while tail + masses[-1] < NEGLECTED:
        tail += masses.pop()
    return masses, 2 * NEGLECTED


@dataclass(frozen=True)
class Pair:
    """The protected user's two records, the part of the view that depends on them, and what the others can send."""

    model: "Model"
    first: int
    second: int

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """The positions that are modelled.

        Without users' fakes, counts of different positions are independent, and those in which the records agree say
        nothing.
        """
        every = range(self.model.schema.width)
        if not self.model.protocol.sends_bits or self.model.fixed or self.model.protocol.user_fakes:
            return tuple(every)
        return tuple(i for i in every if (self.first ^ self.second) >> i & 1)

    def code(self, message: int) -> int:
        """Return what one message adds to the view."""
        protocol = self.model.protocol
        if protocol.sends_bits:
            return sum((message >> i & 1) << 12 * place for place, i in enumerate(self.kept))
        if protocol.clear and message not in (self.first, self.second):
            return 0  # the likelihood ratio depends only on the counts of the two records
        return random_code(message)

    def sent(self, record: int) -> Masses:
        """Return the distribution of one flipped copy of a record."""
        protocol, width = self.model.protocol, self.model.schema.width
        q = fmpq(protocol.flip_numerator, GRID)
        if protocol.sends_category:
            cells = [1 << i for i in range(width)]
            return mix((1 - (width - 1) * q if y == record else q, {self.code(y): fmpq(1)}) for y in cells)
        if protocol.clear:
            return {self.code(record): fmpq(1)}
        changes = [(one, one.bit_count()) for one in range(1 << width)]
        return mix((q**h * (1 - q) ** (width - h), {self.code(record ^ one): fmpq(1)}) for one, h in changes)

    def own(self, record: int) -> Masses:
        """Return the distribution of the k copies of a record."""
        return self.model.repeated(self.sent(record), self.model.protocol.k)

    @cached_property
    def fake(self) -> Masses:
        """The distribution of one flipped fake of a user: uniform over the legal records."""
        legal = self.model.legal
        return mix((fmpq(1, len(legal)), self.sent(record)) for record in legal)

    @cached_property
    def types(self) -> list[Masses]:
        """The distinct distributions of the messages of one other user; none where they are known and cancel."""
        if self.model.protocol.clear:
            return []
        distinct = {tuple(sorted(own.items())): own for own in map(self.own, self.model.legal)}
        return list(distinct.values())

    @cached_property
    def additions(self) -> list[tuple[list[arb], Masses]]:
        """The fakes: a list of weights of 0, 1, … parts, and the distribution of one part."""
        protocol = self.model.protocol
        if self.model.fixed:
            return [([arb(0)] * self.model.fixed + [arb(1)], self.fake)]
        if protocol.user_fakes:
            return [(number_of_fakes(protocol.user_fakes, self.model.honest)[0], self.fake)]
        if not protocol.shuffler_fakes or not self.model.shuffler_draws:
            return []
        weights = number_of_fakes(protocol.shuffler_fakes, 1)[0]
        if protocol.sends_bits:
            return [(weights, {self.code(1 << i): fmpq(1)}) for i in self.kept]
        relevant = (self.first, self.second) if protocol.clear else self.model.legal
        return [(weights, self.sent(record)) for record in relevant]

    @cached_property
    def crowds(self) -> tuple[Spread, list[tuple[int, ...]]]:
        """The distribution of everybody else for all crowds, and the types of their members."""
        spread = Spread(np.zeros(1, np.uint64), np.ones((1, 1)))
        for weights, part in self.additions:
            spread = spread.randomly_often(weights, part)
        members: list[tuple[int, ...]] = [()]
        if not self.types:
            return spread, members
        offsets = list(self.types[0])
        for _ in range(self.model.honest - 1):
            codes, moved = spread.shifted(offsets)
            rows, longer = [], []
            for kind, masses in enumerate(self.types):
                parents = [i for i, crowd in enumerate(members) if not crowd or crowd[-1] <= kind]
                rows.append(sum(float(masses[y]) * one[parents] for y, one in zip(offsets, moved, strict=True)))
                longer += [(*members[i], kind) for i in parents]
            spread, members = Spread(codes, np.concatenate(rows)), longer
        return spread, members

    @cached_property
    def relative(self) -> float:
        """A bound on the relative error of the sums of products in floating point, plus that of their factors."""
        sums = [
            (len(weights) if len(part) > 1 else 1, len(part) if len(part) > 1 else len(weights))
            for weights, part in self.additions
        ]
        sums += [(self.model.honest - 1, len(self.types[0]))] if self.types else []
        return 1.01 * ULP * (8 + sum(count * (terms + 4) for count, terms in sums))

    def evaluate(self, epsilon: float) -> tuple[Floats, Floats]:
        """Return δ(ε) of all crowds, and bounds on its error."""
        factor = self.factor(epsilon)
        spread, _ = self.crowds
        _, moved = spread.shifted(list(factor))
        up, down = np.zeros_like(moved[0]), np.zeros_like(moved[0])
        for value, rows in zip(map(float, factor.values()), moved, strict=True):
            if value > 0:
                up += value * rows
            else:
                down -= value * rows
        error = (self.relative + ULP * len(factor)) * (up + down)
        delta = np.maximum(up - down, 0.0).sum(axis=1)
        cut = self.model.neglected(epsilon)
        return delta, np.where(up - down > -error, error, 0.0).sum(axis=1) + ULP * 64 * delta + cut

    def factor(self, epsilon: float) -> Masses:
        """Return μ − e^ε μ', with the zeros left out."""
        growth = arb(exact(epsilon)).exp()
        one, two = self.own(self.first), self.own(self.second)
        signed = {code: one.get(code, fmpq(0)) - growth * two.get(code, fmpq(0)) for code in {**one, **two}}
        return {code: value for code, value in signed.items() if not value.contains(0)} or {0: arb(0)}

    def ball(self, epsilon: float, crowd: int) -> tuple[arb, arb]:
        """Return bounds on δ(ε) of one crowd, in ball arithmetic."""
        with ctx.workprec(PRECISION):
            masses = self.model.base(self)
            for kind in self.crowds[1][crowd]:
                masses = convolve(masses, self.types[kind])
            low = high = arb(0)
            for value in convolve(masses, self.factor(epsilon)).values():
                high += arb(0) if value < 0 else value.upper()
                low += value.lower() if value > 0 else arb(0)
            cut = self.model.neglected(epsilon)
            return low - cut, high + cut

    @property
    def cost(self) -> int:
        """The number of products that :meth:`ball` takes for one crowd."""
        codes = len(self.crowds[0].codes)
        steps = sum(len(weights) if len(part) > 1 else 1 for weights, part in self.additions)
        return codes * (2 * (len(self.types[0]) if self.types else 2) + steps)


@dataclass(frozen=True)
class Model:
    """The truth about a protocol when only ``honest`` users follow it, and they send ``fixed`` of a fixed number m."""

    protocol: Protocol
    schema: Schema
    honest: int
    fixed: int
    shuffler_draws: bool = True
    """True if the shuffler draws its fakes honestly."""
    _bases: dict[tuple[int, int], Masses] = field(default_factory=dict, compare=False)
    _known: dict[float, list[tuple[Pair, Floats, Floats]]] = field(default_factory=dict, compare=False)

    @cached_property
    def legal(self) -> list[int]:
        """All legal records."""
        return legal_records(self.schema)

    @cached_property
    def pairs(self) -> list[Pair]:
        """One ordered pair of records from every class under the symmetries of the protocol.

        Permutations of the positions are symmetries of every protocol; inversions of positions are one if all records
        are legal, except for bits among a random number of fakes, whose zeros are not seen. Clear records are mere
        categories, and all pairs are alike.
        """
        if self.protocol.clear and self.protocol.sends_records:
            return [Pair(self, *self.legal[:2])]
        invertible = self.schema.dense and not (self.protocol.sends_bits and isinstance(self.protocol.m, Fakes))
        seen: dict[tuple[int, int, int], Pair] = {}
        for first, second in itertools.permutations(self.legal, 2):
            common, gained, lost = first & second, second & ~first, first & ~second
            key = (common.bit_count(), gained.bit_count(), lost.bit_count())
            if invertible:
                key = (0, 0, (gained | lost).bit_count())
            seen.setdefault(key, Pair(self, first, second))
        return list(seen.values())

    @staticmethod
    def repeated(masses: Masses, times: int) -> Masses:
        """Return the distribution of a sum of independent copies."""
        result: Masses = {0: fmpq(1)}
        for _ in range(times):
            result = convolve(result, masses)
        return result

    def base(self, pair: Pair) -> Masses:
        """Return the distribution of the fakes, in ball arithmetic."""
        key = (pair.first, pair.second)
        if key not in self._bases:
            masses: Masses = {0: arb(1)}
            for weights, part in pair.additions:
                if len(part) == 1:
                    masses = convolve(masses, multiples(weights, part))
                    continue
                start, masses = masses, {code: weights[-1] * p for code, p in masses.items()}
                for weight in reversed(weights[:-1]):
                    masses = mix([(arb(1), convolve(masses, part)), (weight, start)])
            self._bases[key] = masses
        return self._bases[key]

    def evaluate(self, epsilon: float) -> list[tuple[Pair, Floats, Floats]]:
        """Return all pairs with δ(ε) of all crowds and bounds on its error; the latest result is kept."""
        if epsilon not in self._known:
            with ctx.workprec(PRECISION):
                found = [(pair, *pair.evaluate(epsilon)) for pair in self.pairs]
            self._known.clear()
            self._known[epsilon] = found
        return self._known[epsilon]

    def neglected(self, epsilon: float) -> float:
        """Return a bound on the error of δ(ε) from cutting off large numbers of fakes."""
        fakes = self.protocol.m
        if not isinstance(fakes, Fakes) or fakes.distribution == "binomial" or not self.shuffler_draws:
            return 0.0
        return NEGLECTED * 2 * self.schema.size * (1 + math.exp(min(epsilon, 700.0)))


@dataclass(frozen=True)
class Verdict:
    """The comparison of a claimed δ with the truth: ``holds`` is None where it could not be decided."""

    holds: bool | None
    truth: float


def compare(model: Model, epsilon: float, claimed: float, *, above: bool, limit: int = 3_000_000) -> Verdict:
    """Return whether the true δ(ε) is at most ``claimed`` (``above``), or at least ``claimed`` (not ``above``)."""
    with ctx.workprec(PRECISION):
        found = model.evaluate(epsilon)
        truth = max(float(delta.max()) for _, delta, _ in found)
        if above and all(claimed >= (delta + error).max() for _, delta, error in found):
            return Verdict(True, truth)
        if not above and any(claimed <= (delta - error).max() for _, delta, error in found):
            return Verdict(True, truth)
        close = [
            (float(delta[i]), pair, int(i))
            for pair, delta, error in found
            for i in np.flatnonzero(delta + error >= claimed)
        ]
        complete, best = True, -math.inf
        for _, pair, crowd in sorted(close, key=lambda one: -one[0]):
            if (limit := limit - pair.cost) < 0:
                complete = False
                break
            low, high = pair.ball(epsilon, crowd)
            best = max(best, float(low))
            if above and low > exact(claimed):
                return Verdict(False, float(low))
            if not above and high >= exact(claimed):
                return Verdict(True, float(high))
        if above:
            return Verdict(True if complete else None, max(best, truth) if complete else truth)
        return Verdict(False if complete else None, max(best, 0.0) if close else truth)
