"""Surveys of several attributes: compositions over them, on one geometric grid where their losses have no common one.

Given the records the attributes are independent, and a cover of each composes to a cover of all
(:mod:`hubbub.checker.losses`); a cover also covers an attribute that does not change, since μ[x] ≥ (1 − x)⁺.

- *The shuffler's fakes*, one distribution for all categories of an attribute: the others' messages cancel, one count
  falls and another rises. This is a pair of its own lattice (:mod:`hubbub.checker.fakes`), on which equal attributes
  are composed exactly. If all are alike, the result is sharp, and an attack: two tuples may differ in all attributes.
- *Laplace fakes alone*, ε ≥ Σ 2/b: a finite loss of one attribute is at most 2/b, so that δ is the probability of an
  infinite one, 1 − ∏(1 − P(0)), exactly.
- *Laplace fakes alone*, below that: the loss of an attribute is −2/b, 0, 2/b or ∞, and the few sums of these are
  compared with ε one by one.
- *Users' fakes*: N uniform fakes hold one of the two categories in question, A ~ Bin(N, 1/2) the first. The analyzer
  compares (A + 1, N − A) with (A, N − A + 1), whose ratio at a first counts is a/(N + 1 − a): a list of atoms for each
  N, which is the same in both. Atoms are rational, and are put on the grid one by one.
- *Flipped bits*: two positions of an attribute change, each a crowd of single bits (:mod:`hubbub.checker.columns`).
  *Randomized response* between two answers is one such position. Among more answers it is not composed here.

An atom at the point l between two grid points a ≤ l ≤ b is split so that E[1/l] is kept: (1 − x/l)⁺ is convex in 1/l,
so that the chord lies above it. The share of b is (1 − a/l)/(1 − a/b), rounded up.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, prod

from . import columns, fakes
from .bounds import LARGEST_EPSILON, Bound, fakes_sent, odds
from .crowds import Bits, NoTheorem, TooMuchWork, Watch, silent
from .document import Answers, Claim, Fakes
from .fixed import binomial, ceil_div, ceil_shift, exp_bounds, log_bounds, window
from .losses import Loss, from_curve, powers, trim

BITS = 88
"""Precision, beyond that of δ."""
GRAIN = 1000
"""Grid points per standard deviation of the loss of all attributes together."""
LARGEST_STEP = Fraction(1, 1000)
SPAN, MAX_POINTS = 40, 60_000
"""Standard deviations of that loss, above 0, that the grid covers, and its largest number of points there."""
LOCAL_GRAIN = 8000
"""Grid points up to the pure ε of one user's messages."""
SHARP = (128, 1024)
"""A block of crowds may exceed the worst known one by one part in this many; the second if the first is not enough."""
MAX_ATOMS = 4 * 10**6
MAX_VALUES = 20_000
"""Values of the loss of Laplace fakes of different scales up to which they are summed one by one."""
Atom = tuple[int, int, int]
"""Numerator and denominator of a point, and the mass there."""


def theorems(claim: Claim, watch: Watch = silent) -> list[Callable[[], Iterator[Bound]]]:
    """Return the theorems that bound δ of a survey at the claimed ε; each yields bounds."""
    assert claim.epsilon is not None
    task = _Survey(claim, min(claim.epsilon, Fraction(LARGEST_EPSILON)), watch)
    found: list[Callable[[], Iterator[Bound]]] = []
    if claim.flip > 0:
        found.append(task.local)
    drawn = any(one.noise.by_shuffler for one in claim.answers)
    if not claim.shuffler or (drawn and not claim.may_use_shufflers_fakes):
        return found
    if all(one.noise.by_shuffler for one in claim.answers):
        found.append(task.largest_loss)
    return [*found, task.composed]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The points r^−reach, …, r^reach for r = ratio/2^bits."""

    ratio: int
    reach: int
    bits: int
    above: list[tuple[int, int]]
    lows: list[int]

    @classmethod
    def create(cls, step: Fraction, largest: Fraction, bits: int) -> "_Grid":
        """Return the grid with about this step, up to about the largest loss."""
        ratio = (1 << bits) + max(1, int(step * 2**bits))
        reach = min(MAX_POINTS, int(largest / step) + 2)
        above = powers(ratio, reach, bits)
        below = [(1 << 2 * bits) // high for _, high in reversed(above[1:])]
        return cls(ratio, reach, bits, above, below + [low for low, _ in above])

    def loss(self, atoms: Iterable[Atom], infinite: int) -> Loss:
        """Return the cover of atoms; what lies above the grid becomes infinite."""
        lows, bits, one = self.lows, self.bits, 1 << self.bits
        masses = [0] * len(lows)
        rise = self.ratio - one
        for numerator, denominator, mass in atoms:
            point = ceil_div(numerator << bits, denominator)
            upper = bisect_left(lows, point)
            if upper == len(lows):
                infinite += mass
            elif upper == 0:
                masses[0] += mass
            else:
                away = (1 << 2 * bits) - lows[upper - 1] * ((denominator << bits) // numerator)
                share = min(mass, ceil_div(mass * away * self.ratio, rise << 2 * bits))
                masses[upper] += share
                masses[upper - 1] += mass - share
        return Loss(-self.reach, masses, infinite, bits)

    def delta(self, loss: Loss, e: int) -> int:
        """Return an upper bound of δ at e^ε ≥ e/2^bits."""
        wide = powers(self.ratio, max(0, loss.first + len(loss.masses)), self.bits)
        return loss.delta(e, lambda i: wide[i][1] if i >= 0 else 1 << self.bits)


class _Survey:
    """One claim for a survey, with the bounds of all its attributes."""

    def __init__(self, claim: Claim, epsilon: Fraction, watch: Watch = silent) -> None:
        self.claim, self.epsilon, self.watch, self.done = claim, epsilon, watch, 0
        self.count = sum(one.times for one in claim.answers)
        self.bits = BITS + int(1 / claim.delta).bit_length() + self.count.bit_length()
        self.negligible = max(1, (int(claim.delta * 2**self.bits) >> 24) // (4 * self.count))
        self.e = exp_bounds(epsilon, self.bits)[0]

    def local(self) -> Iterator[Bound]:
        """One user's messages alone, seen with their sender."""
        claim, scale = self.claim, 1 << self.bits
        pure = Fraction(sum(power * log_bounds(ratio, 64)[1] for ratio, power in odds(claim)), 2**64)
        grid = _Grid.create(pure / LOCAL_GRAIN, pure, self.bits)
        result: Loss | None = None
        for one, (each, power) in zip(claim.answers, odds(claim), strict=True):
            q, ratio = one.noise.flip, each ** (power // one.times)
            if claim.release == "category":
                kept, changed = 1 - (one.size - 1) * q, q
            else:
                kept, changed = (1 - q) ** 2, q * q
            chances = [(ratio, kept), (Fraction(1), 1 - kept - changed), (1 / ratio, changed)]
            atoms = [(x.numerator, x.denominator, -int(-chance * scale // 1)) for x, chance in chances]
            loss = trim(grid.loss(atoms, 0), self.negligible).power(one.times, self.negligible)
            result = loss if result is None else result.compose(loss, self.negligible)
        assert result is not None
        method = "the likelihood ratio of one user's messages, composed over all attributes"
        yield Bound(Fraction(grid.delta(result, self.e), scale), method, 1, shuffler=False)

    def largest_loss(self) -> Iterator[Bound]:
        """The shuffler's Laplace fakes from the largest finite loss on: δ is the probability of an infinite one."""
        drawn = _by_fakes(self.claim)
        if any(one.name != "laplace" for one in drawn) or self.epsilon < sum(
            2 * times / one.scale for one, times in drawn.items()
        ):
            return
        # P(0) errs upwards by a few units, and so does the product, by as many for each attribute.
        stays = 1 << self.bits
        for one, times in drawn.items():
            zero = fakes.steps(one.name, one.scale, one.shift, self.bits)[0].infinite
            for _ in range(times):
                stays = stays * ((1 << self.bits) - zero) >> self.bits
        upper = Fraction((1 << self.bits) - stays, 1 << self.bits)
        lower = upper - Fraction(self.count << 20, 1 << self.bits) if self.claim.free else Fraction(0)
        yield Bound(upper, "the probability that no fake hides an attribute", 1, fakes=True, lower=lower)

    def composed(self) -> Iterator[Bound]:
        """The composition over all attributes."""
        claim, method = self.claim, f"composition over {self.count} attributes"
        if claim.release == "category" and any(one.size > 2 for one in claim.answers):
            raise NoTheorem("this checker composes randomized response between two answers only, not among more")
        drawn = _by_fakes(claim)
        if len(drawn) == 1 and all(one.noise.by_shuffler for one in claim.answers):
            ((only, times),) = drawn.items()
            exactly = max(1, self.negligible >> 24)
            loss, u = self._lattice(only, times, exactly)
            upper = loss.delta(self.e, lambda i: exp_bounds(u * i, self.bits)[1])
            excess = sum(loss.masses) + loss.infinite - (1 << self.bits)
            slack = excess + 16 * times * exactly + 2**20
            tight = claim.free and fakes.coarseness(only.name, only.scale, 2 * times) == 1
            lower = Fraction(upper - slack, 1 << self.bits) if tight else Fraction(0)
            yield Bound(Fraction(upper, 1 << self.bits), method, 1, fakes=True, lower=lower)
            return
        laplace = all(one.noise.by_shuffler for one in claim.answers) and all(one.name == "laplace" for one in drawn)
        if laplace and prod(2 * times + 1 for times in drawn.values()) <= MAX_VALUES:
            yield Bound(self._sums(drawn), method, 1, fakes=True)
            return
        if len(claim.answers) == 1 and claim.flip > 0:
            yield self._alike(claim.answers[0], method)
            return
        flipped = self._flipped()
        if sum(self._bits(one).variance for one in flipped) > columns.MAX_SPREAD**2:
            raise TooMuchWork
        honest = 1 if all(one.noise.by_shuffler for one in claim.answers) else claim.users
        for sharp in SHARP if flipped else SHARP[:1]:
            self.done = 0
            bound = Fraction(self._composed(drawn, sharp), 1 << self.bits)
            yield Bound(bound, method, honest, fakes=bool(drawn))
            if bound > claim.delta * columns.CLOSE[0]:
                return

    def _composed(self, drawn: Counter[Fakes], sharp: int) -> int:
        """Return the bound by covers of all attributes on one grid."""
        spread = self._spread()
        grid = _Grid.create(min(spread / GRAIN, LARGEST_STEP), SPAN * spread, self.bits)
        parts = [self._from_lattice(grid, *self._lattice(one, times, self.negligible)) for one, times in drawn.items()]
        parts += [self._users(grid, one, sharp) for one in self.claim.answers if not one.noise.by_shuffler]
        result = parts[0]
        for part in parts[1:]:
            result = result.compose(part, self.negligible)
        return grid.delta(result, self.e)

    def _flipped(self) -> list[Answers]:
        return [one for one in self.claim.answers if one.noise.flip > 0]

    def _bits(self, one: Answers) -> Bits:
        return Bits(one.noise.flip, 1, self.claim.users - 1, 1, self.bits)

    def _sums(self, drawn: Counter[Fakes]) -> Fraction:
        """Return δ of Laplace fakes of different scales, from every value of the loss."""
        one, sums, stays = 1 << self.bits, [(Fraction(0), 1 << self.bits)], 1 << self.bits
        for each, times in drawn.items():
            loss, u = self._lattice(each, times, max(1, self.negligible >> 24))
            points = [(u * i, mass) for i, mass in enumerate(loss.masses, loss.first) if mass]
            sums = [(at + more, ceil_shift(mass * part, self.bits)) for at, mass in sums for more, part in points]
            stays = stays * (one - loss.infinite) >> self.bits
        total = one - stays
        for at, mass in sums:
            if at > self.epsilon:
                total += ceil_shift(mass * (one - exp_bounds(self.epsilon - at, self.bits)[0]), self.bits)
        return Fraction(total, one)

    def _alike(self, one: Answers, method: str) -> Bound:
        """Return the bound of flipped attributes that are all alike."""
        count = _positions(one, self.claim.release)
        problem = self._bits(one)
        if problem.variance > columns.MAX_SPREAD**2:
            raise TooMuchWork
        goal = int(self.claim.delta * 2**self.bits)
        upper = columns.positions_delta(problem, count, self.e, goal, self.watch)
        return Bound(Fraction(upper, 1 << self.bits), method, self.claim.users)

    def _lattice(self, drawn: Fakes, times: int, negligible: int) -> tuple[Loss, Fraction]:
        """Return the cover of equal attributes among the shuffler's fakes, and the step of its lattice."""
        fall, rise, u = fakes.steps(drawn.name, drawn.scale, drawn.shift, self.bits)
        factor = fakes.coarseness(drawn.name, drawn.scale, 2 * times)
        if factor > 1:
            fall, rise = (fakes.thin(loss, factor, u, self.bits) for loss in (fall, rise))
        one = trim(fall, negligible).compose(trim(rise, negligible), negligible)
        return one.power(times, negligible), u * factor

    def _from_lattice(self, grid: _Grid, loss: Loss, u: Fraction) -> Loss:
        """Return the cover on the common grid."""
        step, at, scale = exp_bounds(u, self.bits)[1], exp_bounds(u * loss.first, self.bits)[1], 1 << self.bits
        atoms = []
        for mass in loss.masses:
            if mass:
                atoms.append((at, scale, mass))
            at = ceil_shift(at * step, self.bits)
        return trim(grid.loss(atoms, loss.infinite), self.negligible)

    def _users(self, grid: _Grid, one: Answers, sharp: int) -> Loss:
        """Return the cover of attributes that users hide."""
        drawn = one.noise.fakes
        if isinstance(drawn, Fakes):
            return self._users_fakes(grid, drawn, one.size).power(one.times, self.negligible)
        problem, points = self._bits(one), grid.above
        worst = columns.bit_curve(problem, problem.others, 0).values(points)
        size = next((i for i, value in enumerate(worst) if value <= self.negligible), len(points) - 1) + 1
        # The crowds of an attribute take time in proportion to their variance.
        work, total = int(problem.variance) + 1, sum(int(self._bits(one).variance) + 1 for one in self._flipped())

        def watch(done: int, most: int) -> None:
            self.watch(self.done + work * done // most, total)

        curve = columns.envelope(problem, points[:size], sharp, self.negligible, watch)
        self.done += work
        loss = from_curve(curve, points, grid.ratio, self.bits)
        return trim(loss, self.negligible).power(_positions(one, self.claim.release), self.negligible)

    def _users_fakes(self, grid: _Grid, drawn: Fakes, size: int) -> Loss:
        """Return the cover of one attribute among the uniform fakes of the users, from the atoms for every N."""
        numbers = fakes_sent(drawn, self.claim.users, Fraction(2, size), self.bits)
        kept = window(numbers.low, self.negligible)
        # What the entries lack, and what lies outside of them, counts as infinite: none of them needs its slack.
        infinite = (1 << self.bits) - sum(numbers.low[kept.start : kept.stop])
        middle = numbers.first + (kept.start + kept.stop) // 2
        if len(kept) * (16 * isqrt(middle) + 1) > MAX_ATOMS:
            raise TooMuchWork
        atoms: dict[tuple[int, int], int] = {}
        for place in kept:
            n, weight = numbers.first + place, numbers.low[place]
            halves = binomial(n, Fraction(1, 2), self.bits)
            chosen = window(halves.low, self.negligible)
            # At a = n + 1, one more than A may be, the ratio is infinite; A = a − 1 in the first collection.
            for i in chosen:
                before = halves.first + i
                mass = ceil_shift(weight * halves.low[i], self.bits)
                if before == n:
                    infinite += mass
                else:
                    atoms[before + 1, n - before] = atoms.get((before + 1, n - before), 0) + mass
            missed = (1 << self.bits) - sum(halves.low[chosen.start : chosen.stop])
            infinite += ceil_shift(weight * missed, self.bits)
        listed = ((numerator, denominator, mass) for (numerator, denominator), mass in atoms.items())
        return trim(grid.loss(listed, infinite), self.negligible)

    def _spread(self) -> Fraction:
        """Return about the standard deviation of the loss of all attributes: nothing rests on it."""
        total = Fraction(0)
        for one in self.claim.answers:
            drawn, q = one.noise.fakes, one.noise.flip
            if isinstance(drawn, Fakes) and drawn.by_shuffler:
                each = 2 / drawn.scale**2
            elif isinstance(drawn, Fakes):
                mean = self.claim.users * drawn.scale * (drawn.shift if drawn.name == "binomial" else 1)
                each = 2 * one.size / max(mean, Fraction(1))
            else:
                each = (1 if self.claim.release == "category" else 2) * (1 - 2 * q) ** 2
                each /= max(self.claim.users * q * (1 - q), Fraction(1))
            total += one.times * each
        return Fraction(max(1, isqrt(int(total * 4**64))), 2**64)


def _positions(one: Answers, release: str) -> int:
    """Return the number of single bits that change: one by randomized response between two answers, otherwise two."""
    return one.times * (1 if release == "category" else 2)


def _by_fakes(claim: Claim) -> Counter[Fakes]:
    """Return the number of attributes by the shuffler's fakes: their numbers of categories do not matter."""
    found: Counter[Fakes] = Counter()
    for one in claim.answers:
        if isinstance(one.noise.fakes, Fakes) and one.noise.by_shuffler:
            found[one.noise.fakes] += one.times
    return found
