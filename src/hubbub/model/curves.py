"""``PrivacyCurve``: certified points of the curve δ(ε) of one collection, and the measure on losses that covers it.

Everything that repeats a collection is computed from these points: the total of a plan, ledgers, and ledgers on
devices, so this module works without numpy. ``docs/theory/composition.md`` explains covers.
"""

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from hubbub.documents import Json, legal
from hubbub.errors import NON_NEGATIVE, PROBABILITY, WireError, check_items, check_real, reject

MAX_POINTS = 64
"""Most points of a curve."""
UNIT = 2.0**-53
REACH = 600.0  # gaps beyond this count as infinite, so that exponentials stay finite
Gap = Callable[[int, int], float]
"""(v, b) ↦ the distance of the losses of two nodes."""


@dataclass(frozen=True, slots=True)
class PrivacyCurve:
    """Points (ε, δ) at which one collection is (ε, δ)-private for all neighbours in both orders; ε rises, δ falls.

    >>> PrivacyCurve(((0.5, 0.1), (1.0, 0.0))).delta(0.75) < 0.06
    True
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        must = "be pairs (ε, δ) with ε increasing and δ not"
        pairs = []
        for pair in check_items("points", self.points, must):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                reject("points", must)
            epsilon, delta = pair
            one = check_real("epsilon of points", epsilon, NON_NEGATIVE)
            pairs.append((one, check_real("delta of points", delta, PROBABILITY)))
        if not 1 <= len(pairs) <= MAX_POINTS:
            reject("points", f"have between 1 and {MAX_POINTS} pairs", len(pairs))
        if any(a[0] >= b[0] or a[1] < b[1] for a, b in itertools.pairwise(pairs)):
            reject("points", must)
        object.__setattr__(self, "points", tuple(pairs))

    @property
    def pure(self) -> float:
        """The smallest ε of a point with δ = 0; ∞ if there is none."""
        return next((epsilon for epsilon, delta in self.points if delta == 0.0), math.inf)

    def delta(self, epsilon: float) -> float:
        """Return a bound on δ(ε): the chord between the neighbouring points, as δ is convex in e^ε; errs upwards."""
        epsilon = check_real("epsilon", epsilon, NON_NEGATIVE)
        after = bisect.bisect_left(self.points, (epsilon, -1.0))
        if after == len(self.points):
            return self.points[-1][1]
        right, low = self.points[after]
        if right == epsilon:
            return low
        # Below the first point, the chord starts at x = 0, where δ = 1.
        left, high = self.points[after - 1] if after else (-math.inf, 1.0)
        share = -math.expm1(epsilon - right) / -math.expm1(left - right)
        return min(high, (low + (high - low) * share) * (1 + 16 * UNIT))

    def atoms(self) -> tuple[list[tuple[float, float]], float]:
        """Return losses with their masses, and the mass of an infinite loss, that cover the collection in both orders.

        H_{1/x}(P‖Q) = 1 − 1/x + H_x(Q‖P)/x gives the points of negative losses. Masses err upwards.

        >>> atoms, infinite = PrivacyCurve(((0.0, 0.25), (1.0, 0.125))).atoms()
        >>> [loss for loss, mass in atoms], infinite
        ([-1.0, 0.0, 1.0], 0.125)
        """
        mirrored = [
            (-epsilon, (math.exp(-epsilon) * delta - math.expm1(-epsilon)) * (1 + 8 * UNIT))
            for epsilon, delta in reversed(self.points)
            if epsilon > 0.0
        ]
        losses, deltas = zip(*mirrored, *self.points, strict=True)
        u = list(itertools.accumulate((min(delta, 1.0) for delta in deltas), min))
        nodes, masses = hull(u, lambda v, b: losses[b] - losses[v])
        return [(losses[node], mass) for node, mass in zip(nodes, masses, strict=True)], u[-1]

    def to_document(self) -> list[Json]:
        """Return the points as a JSON array of pairs."""
        return [[epsilon, delta] for epsilon, delta in self.points]

    @classmethod
    def from_document(cls, value: Json, what: str = "the curve") -> Self:
        """Read a curve from a JSON array of pairs."""
        if not isinstance(value, list):
            raise WireError(f"{what} must be a list of pairs of numbers")
        pairs: list[tuple[float, float]] = []
        for pair in value:
            numbers = [one for one in pair if isinstance(one, int | float)] if isinstance(pair, list) else []
            if len(numbers) != 2 or numbers != pair or any(isinstance(one, bool) for one in numbers):
                raise WireError(f"{what} must be a list of pairs of numbers")
            pairs.append((float(numbers[0]), float(numbers[1])))
        with legal(what):
            return cls(tuple(pairs))

    def __repr__(self) -> str:
        return f"PrivacyCurve({len(self.points)} points up to ε = {self.points[-1][0]:.4g})"


NO_PRIVACY = PrivacyCurve(((0.0, 1.0),))
"""The curve of a collection about which nothing is known."""


def hull(u: Sequence[float], gap: Gap) -> tuple[list[int], list[float]]:
    """Return the vertices of the lower convex hull of (0, 1) and (e^loss, u), and the mass at each of them.

    The mass at the vertex v with neighbours a, b is (u_a − u_v)/(1 − e^(a−v)) − (u_v − u_b)/(e^(b−v) − 1), rounded up.
    """
    nodes: list[int] = []
    lefts: list[float] = []  # the first term of each vertex's mass, which depends only on the vertex to its left

    def right(v: int, b: int) -> float:
        distance = gap(v, b)
        return (u[v] - u[b]) / math.expm1(distance) if distance < REACH else 0.0

    for b in range(len(u)):
        while nodes and lefts[-1] < right(nodes[-1], b):
            nodes.pop()
            lefts.pop()
        lefts.append((u[nodes[-1]] - u[b]) / -math.expm1(-gap(nodes[-1], b)) if nodes else 1.0 - u[b])
        nodes.append(b)
    rights = [right(v, b) for v, b in itertools.pairwise(nodes)] + [0.0]
    # Each term is off by at most 4 units; their difference may cancel, so their sum bounds the absolute error.
    return nodes, [a - b + 8 * UNIT * (a + b) for a, b in zip(lefts, rights, strict=True)]


def grid_step(losses: Sequence[float], masses: Sequence[float], fineness: int, most: int) -> float:
    """Return a power of two: at most 1/fineness of the standard deviation, unless the grid needs more than ``most``.

    >>> grid_step([-1.0, 1.0], [0.5, 0.5], 10, 1000)
    0.0625
    """
    spread = math.sqrt(math.fsum(mass * loss * loss for loss, mass in zip(losses, masses, strict=True)))
    width = max(losses) - min(losses)
    wanted = max(spread / fineness, width / most, 1e-12)
    return math.ldexp(1.0, math.floor(math.log2(wanted)) + (wanted == width / most))
