"""``DeviceLedger``: the total of a person's collections, computed on the device by plain Python without numpy.

Composes the covers of :meth:`hubbub.model.curves.PrivacyCurve.atoms` on grids whose step is a power of two. Masses are
whole numbers of 2^−80, rounded up, and convolutions are exact: one product of two long integers (Kronecker's
substitution). Every approximation moves mass to higher losses or enlarges it, so a total is never below the exact one;
``docs/theory/composition.md`` has the proof. :mod:`hubbub.io.ledgers` keeps a ledger in a file.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Self

from hubbub.accountant.charges import Charge, check_charges, check_new, check_within, grouped, pure_sum
from hubbub.errors import check_real, check_type
from hubbub.model.curves import REACH, UNIT, PrivacyCurve, grid_step
from hubbub.model.plans import Plan
from hubbub.model.privacy import BUDGET_DELTA, Budget, Total

BITS = 80
"""Masses are whole numbers of 2^−80."""
ONE = 1 << BITS
FINENESS = 16  # steps per standard deviation of one collection
MOST = 1024  # points beyond which a composition doubles its step
NEGLIGIBLE = ONE >> 66  # mass of about 10⁻²⁰ that a composition may move upwards at either end
WIDEN = 1e-12  # relative error of exponentials and sums of floats, and much more


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """The collections that the owner of a device has taken part in, with a budget; ledgers are immutable.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plan = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-8)
    >>> ledger = DeviceLedger(Budget(0.3, 1e-6)).charge(plan, collection="week 1")
    >>> ledger.total().epsilon < plan.guarantee.epsilon
    True
    """

    budget: Budget
    charges: tuple[Charge, ...] = ()

    def __post_init__(self) -> None:
        check_type("budget", self.budget, Budget)
        check_charges(self.charges)

    def charge(self, plan: Plan, *, collection: str, rounds: int = 1) -> Self:
        """Return the ledger after one more collection of a plan; call it before the device answers.

        Raises :class:`~hubbub.errors.BudgetExceeded` beyond the budget, and
        :class:`~hubbub.errors.AlreadyCharged` if this collection of the plan is charged already.
        """
        return self.add(Charge.of(plan, rounds=rounds, collection=collection))

    def add(self, charge: Charge) -> Self:
        """Return the ledger with one more charge."""
        check_new(self.charges, check_type("charge", charge, Charge))
        after = replace(self, charges=(*self.charges, charge))
        check_within(self.budget, after.total())
        return after

    def forecast(self, plan: Plan, rounds: int = 1) -> Total:
        """Return the total after ``rounds`` more collections of a plan; nothing is charged."""
        return replace(self, charges=(*self.charges, Charge.of(plan, rounds=rounds))).total()

    def total(self, delta: float | None = None) -> Total:
        """Return (ε, δ) of all collections together, at the δ of the budget or a given one; errs upwards."""
        delta = self.budget.delta if delta is None else check_real("delta", delta, BUDGET_DELTA)
        pure = pure_sum(self.charges)
        if delta == 0.0 or pure == 0.0:
            return Total(pure, delta)
        return Total(min(_composed(tuple(grouped(self.charges).items())).epsilon(delta), pure), delta)


@dataclass(frozen=True, slots=True)
class Cover:
    """Masses in units of 2^−80 at the losses step·first, step·(first + 1), …, and at an infinite loss."""

    step: float
    first: int
    masses: Sequence[int]
    infinite: int

    @staticmethod
    def of(curve: PrivacyCurve) -> "Cover":
        """Return the cover of one collection with these certified points.

        >>> cover = Cover.of(PrivacyCurve(((0.0, 0.5), (1.0, 0.25), (2.0, 0.0))))
        >>> round(cover.delta(1.0), 6), cover.infinite
        (0.25, 0)
        """
        atoms, infinite = curve.atoms()
        beyond = math.fsum(mass for loss, mass in atoms if loss > REACH) * (1 + WIDEN)
        finite = [(max(loss, -REACH), mass) for loss, mass in atoms if loss <= REACH]
        losses, masses = [loss for loss, _ in finite], [mass for _, mass in finite]
        step = grid_step(losses, masses, FINENESS, 4 * MOST)
        return _spread(step, [(loss, _units(mass)) for loss, mass in finite], _units(infinite) + _units(beyond))

    def compose(self, other: "Cover") -> "Cover":
        """Return the cover of both, on the coarser grid."""
        if self.step != other.step:
            step = max(self.step, other.step)
            return self.coarser(step).compose(other.coarser(step))
        masses = [-(-mass >> BITS) for mass in convolve(self.masses, other.masses)]
        ours, theirs = sum(self.masses), sum(other.masses) + other.infinite
        infinite = -(-(self.infinite * theirs + other.infinite * ours) >> BITS)
        whole = _trim(Cover(self.step, self.first + other.first, masses, infinite))
        return whole if len(whole.masses) <= MOST else whole.coarser(2 * self.step)

    def coarser(self, step: float) -> "Cover":
        """Return the cover on a grid of larger steps: a mass between two nodes is split so that E e^(−loss) stays."""
        if step == self.step:
            return self
        atoms = [(self.step * (self.first + i), mass) for i, mass in enumerate(self.masses) if mass]
        return _spread(step, atoms, self.infinite)

    def power(self, times: int) -> "Cover":
        """Return the cover of ``times`` ≥ 1 collections, by repeated squaring."""
        result = self
        for digit in f"{times:b}"[1:]:
            result = result.compose(result)
            if digit == "1":
                result = result.compose(self)
        return result

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) = Σ_{l > ε} μ(l)·(1 − e^(ε−l)) + μ(∞), at most 1; errs upwards."""
        terms = []
        for i in range(len(self.masses) - 1, -1, -1):
            loss = self.step * (self.first + i)
            if loss <= epsilon:
                break
            terms.append(math.ldexp(self.masses[i], -BITS) * -math.expm1(epsilon - loss))
        return min(1.0, (math.fsum(terms) + math.ldexp(self.infinite, -BITS)) * (1 + WIDEN))

    def epsilon(self, delta: float) -> float:
        """Return an ε with δ(ε) ≤ δ, at most 10⁻⁶ of a grid's reach above the smallest; ∞ if there is none."""
        low, high = 0.0, max(0.0, self.step * (self.first + len(self.masses)))
        if self.delta(high) > delta:
            return math.inf
        if self.delta(low) <= delta:
            return low
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def convolve(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Return the exact convolution of two rows of non-negative integers, by one product of two long integers.

    >>> convolve([1, 2], [3, 4])
    [3, 10, 8]
    """
    size = (max(a).bit_length() + max(b).bit_length() + min(len(a), len(b)).bit_length() + 7) // 8 or 1
    one, two = (int.from_bytes(b"".join(x.to_bytes(size, "little") for x in row), "little") for row in (a, b))
    count = len(a) + len(b) - 1
    digits = (one * two).to_bytes(size * count, "little")
    return [int.from_bytes(digits[i : i + size], "little") for i in range(0, size * count, size)]


@lru_cache(maxsize=32)
def _power(curve: PrivacyCurve, rounds: int) -> Cover:
    return Cover.of(curve).power(rounds)


@lru_cache(maxsize=32)
def _composed(rounds: tuple[tuple[PrivacyCurve, int], ...]) -> Cover:
    """Return the cover of all collections, fine grids first: on a coarse grid, many small losses would become large."""
    heap = [(cover.step, i, cover) for i, cover in enumerate(_power(curve, count) for curve, count in rounds)]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, one = heapq.heappop(heap)
        _, i, two = heapq.heappop(heap)
        both = one.compose(two)
        heapq.heappush(heap, (both.step, i, both))
    return heap[0][2]


def _units(mass: float) -> int:
    """Return a mass in units, rounded up."""
    return math.ceil(Fraction(mass) * ONE)


def _spread(step: float, atoms: Sequence[tuple[float, int]], infinite: int) -> Cover:
    """Return atoms on a grid: one of loss l between the nodes a and b gives the share (1 − e^(a−l))/(1 − e^(a−b)) to b.

    Losses on the grid are exact, as is their distance from a node; shares are rounded up by more than their error.
    """
    if not atoms:  # nothing but an infinite loss
        return Cover(step, 0, [0], infinite)
    first = math.floor(min(loss for loss, _ in atoms) / step)
    last = math.floor(max(loss for loss, _ in atoms) / step) + 1
    masses = [0] * (last - first + 1)
    whole = math.expm1(-step)
    for loss, mass in atoms:
        node = math.floor(loss / step)
        distance = loss - step * node
        if distance == 0.0:
            masses[node - first] += mass
            continue
        share = min(1.0, math.expm1(-distance) / whole)
        upper, lower = _units(min(1.0, share + 16 * UNIT)), _units(min(1.0, 1.0 - share + 16 * UNIT))
        masses[node - first + 1] += -(-mass * upper >> BITS)
        masses[node - first] += -(-mass * lower >> BITS)
    return _trim(Cover(step, first, masses, infinite))


def _trim(cover: Cover) -> Cover:
    """Return the cover with far tails moved upwards: the upper to +∞, the lower to the lowest node kept."""
    masses, infinite = cover.masses, cover.infinite
    stop, moved = len(masses), 0
    while stop > 1 and (moved + masses[stop - 1] <= NEGLIGIBLE or cover.step * (cover.first + stop - 1) > REACH):
        stop -= 1
        moved += masses[stop]
    infinite += moved
    start, moved = 0, 0
    while start < stop - 1 and moved + masses[start] <= NEGLIGIBLE:
        moved += masses[start]
        start += 1
    kept = list(masses[start:stop])
    kept[0] += moved
    return Cover(cover.step, cover.first + start, kept, infinite)
