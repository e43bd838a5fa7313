"""Privacy losses on a grid, composed by convolution; every step raises the bound.

Write H_x(P‖Q) = Σ (P − xQ)⁺, so that δ(ε) = H_x at x = e^ε. A measure μ on points x₀ < x₁ < … and ∞ *covers* a pair
(P, Q) if μ[x] := Σ_i μ_i·(1 − x/x_i)⁺ + μ_∞ ≥ H_x(P‖Q) for all x ≥ 0.

- Raising a mass, or moving it to a larger point, raises μ[x].
- *Composition* (Koskela, Jälkö and Honkela 2020). (p₁p₂ − x·q₁q₂)⁺ = p₂·(p₁ − (x·q₂/p₂)·q₁)⁺, so H_x of the product is
  the mean of H_y(P₁‖Q₁) at y = x·q₂/p₂ over P₂. Replace it by μ¹[y], exchange the sums, and do the same with μ². On a
  geometric grid the covers' masses are convolved. This also holds if the second pair is chosen after the first outcome.
- *Curves* (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). H is convex, falls, and is 1 at x = 0. With u_i ≥ H
  at x_i, the broken line through (0, 1), (x₀, u₀), …, level after the last point, lies above H. It is μ[·] of the
  masses x_i·(change of slope at x_i), and of u_last at ∞. Negative masses (u not quite convex) are raised to 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .fixed import ceil_div, ceil_shift, convolve


@dataclass(frozen=True, slots=True)
class Loss:
    """Masses in units of 2^−bits at the points r^first, r^(first+1), …, and at ∞."""

    first: int
    masses: Sequence[int]
    infinite: int
    bits: int

    def compose(self, other: "Loss", negligible: int) -> "Loss":
        """Return the cover of both pairs; at most ``negligible`` mass is moved upwards at either end."""
        masses = [ceil_shift(mass, self.bits) for mass in convolve(self.masses, other.masses)]
        finite, theirs = sum(self.masses), sum(other.masses) + other.infinite
        infinite = ceil_shift(self.infinite * theirs + other.infinite * finite, self.bits)
        return trim(Loss(self.first + other.first, masses, infinite, self.bits), negligible)

    def power(self, times: int, negligible: int) -> "Loss":
        """Return the cover of ``times`` ≥ 1 independent copies, by repeated squaring."""
        result = self
        for digit in bin(times)[3:]:
            result = result.compose(result, negligible)
            if digit == "1":
                result = result.compose(self, negligible)
        return result

    def delta(self, e: int, point: Callable[[int], int]) -> int:
        """Return an upper bound of μ[x], x = e/2^bits, with ``point(i)`` ≥ r^i·2^bits; both are in units of 2^−bits."""
        total = self.infinite
        for i in range(len(self.masses) - 1, -1, -1):
            at = point(self.first + i)
            if at <= e:
                break
            total += ceil_div(self.masses[i] * (at - e), at)
        return min(total, 1 << self.bits)


def trim(loss: Loss, negligible: int) -> Loss:
    """Return the cover with at most ``negligible`` mass moved upwards at either end."""
    masses = list(loss.masses)
    infinite, moved = loss.infinite, 0
    while len(masses) > 1 and moved + masses[-1] <= negligible:
        moved += masses.pop()
    infinite += moved
    start, moved = 0, 0
    while start < len(masses) - 1 and moved + masses[start] <= negligible:
        moved += masses[start]
        start += 1
    masses[start] += moved
    return replace(loss, first=loss.first + start, masses=masses[start:], infinite=infinite)


def from_curve(half: Sequence[int], points: Sequence[tuple[int, int]], ratio: int, bits: int) -> Loss:
    """Return the cover of both orders of all pairs with H ≤ half[i] at r^i, i = 0, 1, …, in both orders.

    r = ratio/2^bits exactly, and points[i] are bounds of r^i. As H_{1/x}(P‖Q) = 1 − 1/x + H_x(Q‖P)/x, the same values
    bound H at r^−i.
    """
    one = 1 << bits
    u = [one - (one - value) * one // points[i][1] for i, value in reversed(list(enumerate(half)))][:-1] + list(half)
    for i in range(1, len(u)):
        u[i] = min(u[i], u[i - 1])
    step = ratio - one
    masses = []
    for i, here in enumerate(u):
        left = (u[i - 1] - here) * ratio if i else (one - here) * step
        right = (here - u[i + 1]) * one if i + 1 < len(u) else 0
        masses.append(max(0, ceil_div(left - right, step)))
    return Loss(1 - len(half), masses, u[-1], bits)


def powers(ratio: int, count: int, bits: int) -> list[tuple[int, int]]:
    """Return lower and upper bounds of r^0, …, r^count for r = ratio/2^bits, in units of 2^−bits.

    >>> powers(3, 2, 1)
    [(2, 2), (3, 3), (4, 5)]
    """
    result = [(1 << bits, 1 << bits)]
    for _ in range(count):
        low, high = result[-1]
        result.append((low * ratio >> bits, ceil_shift(high * ratio, bits)))
    return result
