"""Cross-tables: tables of the same people over several factors, combined by least squares.

A table R counts people by the factors in R, with errors of variance 1/u_R in each of its |D_R| cells. The *effect* of a
set T of factors is what their table shows beyond its margins: the T-table with the mean along each of its axes taken
away. Effects are orthogonal and every table that contains T observes the effect of T, so that least squares combines
them one by one: with weights u_R/|D_R|, whose sum is λ_T. A cell of the table S is then

    n/|D_S| + Σ_{∅ ≠ T ⊆ S} e_T·|D_T|/|D_S|,        of variance |D_S|⁻²·Σ_{∅ ≠ T ⊆ S} ∏_{i ∈ T} (d_i − 1)/λ_T.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Factors = tuple[str, ...]
"""Names of factors, in the order of the axes of a table."""


@dataclass(frozen=True, slots=True)
class CellWeights:
    """The equal weights of some counts of a table in an estimated cell of another table."""

    table: Factors
    shared: Factors
    """Factors of both tables."""
    agreed: Factors
    """Shared factors in which the counts agree with the cell; they differ from it in the other shared factors."""
    weight: float
    copies: int

    def people(self, cells: Floats, names: Factors) -> Floats:
        """Return, for every cell of the estimated table, the number of people in these counts.

        >>> weights = CellWeights(("a",), ("a",), (), 0.1, 1)
        >>> weights.people(np.array([3.0, 7.0]), ("a",)).tolist()      # those who are not in the cell
        [7.0, 3.0]
        """
        others = [name for name in self.shared if name not in self.agreed]
        total = np.zeros_like(cells)
        for count in range(len(others) + 1):
            for more in itertools.combinations(others, count):
                kept = {*self.agreed, *more}
                rest = tuple(axis for axis, name in enumerate(names) if name not in kept)
                total = total + (-1) ** count * cells.sum(axis=rest, keepdims=True)
        return np.asarray(total)


@dataclass(frozen=True, slots=True)
class Factorial:
    """Tables over factors: the number of categories of each factor, and the precision 1/variance of each table."""

    sizes: Mapping[str, int]
    precisions: Mapping[Factors, float]

    def cells(self, factors: Factors) -> int:
        """Return the number of cells of a table.

        >>> Factorial({"a": 3, "b": 2}, {("a", "b"): 1.0}).cells(("a", "b"))
        6
        """
        return math.prod(self.sizes[name] for name in factors)

    def weight(self, effect: Factors) -> float:
        """Return λ_T: the sum of u_R/|D_R| over the tables that observe an effect."""
        return math.fsum(u / self.cells(table) for table, u in self.precisions.items() if set(effect) <= set(table))

    def cell_variance(self, table: Factors) -> float:
        """Return the variance of a cell; ∞ if the tables do not determine it.

        >>> Factorial({"a": 4}, {("a",): 0.5}).cell_variance(("a",))      # 2·(1 − 1/4)
        1.5
        >>> both = Factorial({"a": 2, "b": 2}, {("a",): 1.0, ("b",): 1.0, ("a", "b"): 1.0})
        >>> round(both.cell_variance(("a",)), 6), both.cell_variance(("a", "b")) < 0.75
        (0.333333, True)
        """
        sums = 0.0
        for effect in _effects(table):
            weight = self.weight(effect)
            if weight == 0:
                return math.inf
            sums += math.prod(self.sizes[name] - 1 for name in effect) / weight
        return sums / self.cells(table) ** 2

    def cell_weights(self, table: Factors) -> list["CellWeights"]:
        """Return the weights of the counts of all tables in a cell, by the factors in which they agree with the cell.

        A count of the table R has the weight Σ_T |D_T|/|D_S|·u_R/(|D_R|·λ_T)·∏_{i ∈ T} (1[agrees in i] − 1/d_i), over
        the nonempty sets T of factors of both tables.

        >>> [(one.weight, one.copies) for one in Factorial({"a": 4}, {("a",): 0.5}).cell_weights(("a",))]
        [(-0.25, 3), (0.75, 1)]
        """
        found = []
        for other, u in self.precisions.items():
            shared = tuple(name for name in table if name in other)
            scales = {
                effect: self.cells(effect) / self.cells(table) * u / self.cells(other) / self.weight(effect)
                for effect in _effects(shared)
            }
            for count in range(len(shared) + 1) if shared else ():
                for agreed in itertools.combinations(shared, count):
                    weight = math.fsum(
                        scale * math.prod((name in agreed) - 1 / self.sizes[name] for name in effect)
                        for effect, scale in scales.items()
                    )
                    copies = math.prod(self.sizes[name] - (name in shared) for name in other if name not in agreed)
                    found.append(CellWeights(other, shared, agreed, weight, copies))
        return found

    def estimate(self, counts: Mapping[Factors, Floats], table: Factors, n: int) -> Floats:
        """Return the least-squares cells of a table from unbiased counts of all tables, each with an axis per factor.

        >>> one = Factorial({"a": 2}, {("a",): 1.0})
        >>> one.estimate({("a",): np.array([7.0, 5.0])}, ("a",), 10).tolist()      # the number of people is known
        [6.0, 4.0]
        """
        whole = self.cells(table)
        found = np.full([self.sizes[name] for name in table], n / whole)
        for effect in _effects(table):
            weight = self.weight(effect)
            total = np.zeros([self.sizes[name] for name in effect])
            for factors, u in self.precisions.items():
                if set(effect) <= set(factors):
                    total += u / self.cells(factors) * _effect(counts[factors], factors, effect)
            shape = [self.sizes[name] if name in effect else 1 for name in table]
            found = found + (total / weight * (self.cells(effect) / whole)).reshape(shape)
        return found


def _effects(table: Factors) -> Iterator[Factors]:
    for count in range(1, len(table) + 1):
        yield from itertools.combinations(table, count)


def _effect(counts: Floats, factors: Factors, effect: Factors) -> Floats:
    """Return the effect in a table that contains its factors, its axes in the order of the effect."""
    rest = tuple(axis for axis, name in enumerate(factors) if name not in effect)
    margin = counts.sum(axis=rest)
    kept = [name for name in factors if name in effect]
    margin = margin.transpose([kept.index(name) for name in effect])
    for axis in range(margin.ndim):
        margin = margin - margin.mean(axis=axis, keepdims=True)
    return np.asarray(margin)
