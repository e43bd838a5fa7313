"""Flipped categories and whole records: the privacy blanket, for every collection of the others.

Let every record's message distribution be at least a sub-density w (the *blanket*). Each other user's message can be
thought of as drawn from w with probability γ = Σw, whatever the record. Reveal who is not under the blanket, with their
messages. What remains is one message among covered ones, and (Balle, Bell, Gascón and Nissim 2019)

    δ(ε) ≤ E[(G_1 + … + G_n)⁺]/n,      G = (μ_x(s) − e^ε·μ_x'(s))/w(s) with density w(s), and 0 with probability 1 − γ.

- *Category*, d ≥ 3: w = q for each of d categories; G is p/q − e^ε, 1 − e^ε·p/q, and 1 − e^ε for the d − 2 others.
- *Uniform*: w = q^L for records of L bits; opposite records are the worst pair (docs/theory/vectors.md).
- *Product*: w = (q/p)^K·μ_0 for at most K set bits; disjoint records are the worst pair (docs/theory/onehot.md).

**Evaluation.** A value of G between two grid points is split between them so that its mean is kept. This enlarges G in
the convex order (Jensen), which sums of independent terms keep; as (·)⁺ is convex, E S⁺ grows. So does merging to a
grid of twice the step. Sums of m terms are convolved by doubling. Tails are cut at a stated price, because (·)⁺ has
slope at most 1: moving mass down by y in a sum of m terms lowers E S⁺ by at most (n/m)·mass·y, which is added to the
result; moving mass up only raises it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, isqrt

from .crowds import TooMuchWork
from .fixed import ceil_div, ceil_shift, convolve

GRAINS = (300, 1200)
"""Grid points per standard deviation of a sum: at first, and where the first bound is close to the goal."""
CLOSE = Fraction(1003, 1000)
MAX_POINTS = 40_000

Atom = tuple[Fraction, Fraction]
"""A value of G and its probability."""


class Spread(TooMuchWork):
    """The values of G are spread too widely for one grid."""


@dataclass(slots=True)
class _Sum:
    """A sum of ``terms`` variables: masses at step·first, step·(first + 1), …"""

    terms: int
    first: int
    masses: Sequence[int]
    doublings: int  # of the step


class _Evaluation:
    """E S⁺ of n independent terms, with masses in units of 2^−bits and a step that doubles as the sums widen."""

    def __init__(self, atoms: Sequence[Atom], n: int, goal: Fraction, bits: int, grain: int) -> None:
        self.n, self.bits, self.grain = n, bits, grain
        square = sum((weight * value * value for value, weight in atoms), Fraction(0))
        root = Fraction(isqrt(int(square * 4**64)), 2**64)
        self.step = _step(atoms, grain)
        self.deviation = root / self.step  # of one term, in steps
        # Each cut may cost a 2^−21 of the goal per doubling, in units of masses times steps.
        self.price = int(goal * n / self.step * 2**bits) >> 21
        self.cost = 0
        spread = max(value for value, _ in atoms) - min(value for value, _ in atoms)
        if spread / self.step > MAX_POINTS:
            raise Spread
        self.one = self._single(atoms)

    def _single(self, atoms: Sequence[Atom]) -> _Sum:
        entries: dict[int, int] = {0: 0}
        left = 1 << self.bits
        for value, weight in atoms:
            scaled = weight * 2**self.bits
            node, mass = value // self.step, ceil_div(scaled.numerator, scaled.denominator)
            left -= scaled.numerator // scaled.denominator
            share = (value / self.step - node) * mass
            upper = ceil_div(share.numerator, share.denominator)
            entries[node] = entries.get(node, 0) + mass - share.numerator // share.denominator
            entries[node + 1] = entries.get(node + 1, 0) + upper
        entries[0] += max(0, left)
        first = min(entries)
        return _Sum(1, first, [entries.get(i, 0) for i in range(first, max(entries) + 1)], 0)

    def result(self) -> Fraction:
        """Return an upper bound of E S⁺/n."""
        total = self.one
        for digit in bin(self.n)[3:]:
            total = self._add(total, total)
            if digit == "1":
                total = self._add(total, self.one)
        step = self.step * 2**total.doublings
        mean = sum(mass * (total.first + i) for i, mass in enumerate(total.masses) if total.first + i > 0)
        bound: Fraction = (mean * step + self.cost * self.step) / (self.n << self.bits)
        return bound

    def _add(self, one: _Sum, two: _Sum) -> _Sum:
        while two.doublings < one.doublings:
            two = self._coarsen(two)
        masses = [ceil_shift(mass, self.bits) for mass in convolve(one.masses, two.masses)]
        total = self._cut(_Sum(one.terms + two.terms, one.first + two.first, masses, one.doublings))
        while 4**total.doublings * (2 * self.grain) ** 2 <= total.terms * self.deviation**2:
            total = self._coarsen(total)
        return total

    def _coarsen(self, row: _Sum) -> _Sum:
        """Return the sum on a grid of twice the step; odd points are split in halves."""
        first = row.first >> 1
        masses = [0] * (((row.first + len(row.masses) - 1) >> 1) - first + 2)
        for i, mass in enumerate(row.masses, row.first):
            node = (i >> 1) - first
            half = (mass + 1) >> 1
            masses[node] += half if i & 1 else mass
            masses[node + 1] += half if i & 1 else 0
        return _Sum(row.terms, first, masses, row.doublings + 1)

    def _cut(self, row: _Sum) -> _Sum:
        masses, price = list(row.masses), self.price * row.terms // self.n >> row.doublings
        moved = spent = 0
        while len(masses) > 1 and spent + moved + masses[-1] <= price:  # down by one point, as often as it is cheap
            moved += masses.pop()
            spent += moved
        masses[-1] += moved
        self.cost += ceil_div(spent * self.n, row.terms) << row.doublings
        start = moved = spent = 0
        while start < len(masses) - 1 and spent + moved + masses[start] <= price:
            moved += masses[start]
            spent += moved
            start += 1
        masses[start] += moved
        return _Sum(row.terms, row.first + start, masses[start:], row.doublings)


def _step(atoms: Sequence[Atom], grain: int) -> Fraction:
    """Return a step of about 3/grain of a typical value, for which splitting the values adds little variance."""
    mass = sum((weight for _, weight in atoms), Fraction(0))
    typical = isqrt(int(sum(weight * value * value for value, weight in atoms) / mass * 4**64))
    values = [(int(value * 2**64), int(weight / mass * 2**32)) for value, weight in atoms]

    def added(step: int) -> int:
        return sum(weight * (value % step) * (step - value % step) for value, weight in values)

    return Fraction(min((typical * 3000 // (grain * (1000 + i)) for i in range(500)), key=added), 2**64)


def positive_mean(atoms: Sequence[Atom], n: int, goal: Fraction, bits: int) -> Fraction:
    """Return an upper bound of E[(G_1 + … + G_n)⁺]/n, which is sharp if it is close to ``goal``."""
    for grain in GRAINS:
        bound = _Evaluation(atoms, n, goal, bits, grain).result()
        if not goal < bound < goal * CLOSE:
            break
    return bound


def category(d: int, flip: Fraction, x: Fraction) -> list[Atom]:
    """Return G of randomized response with d categories, x a lower bound of e^ε."""
    ratio = (1 - (d - 1) * flip) / flip
    return [(ratio - x, flip), (1 - x * ratio, flip), (1 - x, (d - 2) * flip)]


def uniform(width: int, flip: Fraction, x: Fraction) -> list[Atom]:
    """Return G of opposite records of ``width`` bits under the uniform blanket, by agreements a with the first."""
    ratio = (1 - flip) / flip
    return [(ratio**a - x * ratio ** (width - a), comb(width, a) * flip**width) for a in range(width + 1)]


def product(ones: int, flip: Fraction, x: Fraction) -> list[Atom]:
    """Return G of disjoint records with ``ones`` set bits each, under the blanket of the zero record."""
    ratio, gamma = (1 - flip) / flip, (flip / (1 - flip)) ** ones
    chance = [comb(ones, u) * flip**u * (1 - flip) ** (ones - u) for u in range(ones + 1)]
    return [
        (ratio ** (2 * u) - x * ratio ** (2 * v), gamma * chance[u] * chance[v])
        for u in range(ones + 1)
        for v in range(ones + 1)
    ]


def largest(d: int, flip: Fraction, x: Fraction) -> list[Atom]:
    """Return G of two one-hot records under w(s) = min_y μ_y(s), by the two bits and the c set bits among the others.

    A message with a + b + c set bits is at distance a + b + c + 1 from every record whose bit is not set in it, and at
    distance d − 1 from all if every bit is set.
    """
    ratio = (1 - flip) / flip
    atoms = []
    for a, b, c in ((a, b, c) for a in (0, 1) for b in (0, 1) for c in range(d - 1)):
        total = a + b + c
        least = d - 1 if total == d else total + 1
        weight = flip**least * (1 - flip) ** (d - least)
        # μ of a record is (flip to its distance)·…, which is ratio^(least − distance) times w.
        first, second = ratio ** (least - (total + 1 - 2 * a)), ratio ** (least - (total + 1 - 2 * b))
        atoms.append((first - x * second, comb(d - 2, c) * weight))
    return atoms


def fakes(width: int, flip: Fraction, x: Fraction) -> list[Atom]:
    """Return G of opposite records among flipped uniform fakes: their messages are uniform over all 2^width."""
    return [(value * (2 * flip) ** width, weight / (2 * flip) ** width) for value, weight in uniform(width, flip, x)]
