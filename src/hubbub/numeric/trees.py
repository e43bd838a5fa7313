"""Nested histograms: counts of blocks of neighbouring buckets, at several widths, combined by least squares.

Level l counts blocks of w_l buckets, w_1 > … > w_L = 1, each a multiple of the next, with errors of variance 1/u_l.
Let Π_l be the projection onto vectors that are constant on the blocks of level l. A level observes M_l with
M_lᵀM_l = w_l·Π_l, and the projections commute, so that least squares is explicit: with λ_l = Σ_{k ≥ l} u_k·w_k and
Π_0 = 0, the covariance of the buckets is C = Σ_l (Π_l − Π_{l−1})/λ_l.

The number of people is known. If every person is in a bucket, C loses its component along the vector of ones, Π_0
becomes the projection on it, of variance 1/λ_1. With a further category for missing answers at every level, of
precision U = Σ u_l, buckets and category are independent before the total is used, and the total takes away
(C·1)(C·1)ᵀ/(1ᵀC·1 + 1/U), where C·1 = 1/λ_1.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrefixWeights:
    """The weights of counts in numbers of people below edges: a row for each edge, a column for equal weights."""

    level: NDArray[np.int64]
    """Level of the counts of each column."""
    weights: Floats
    first: Floats
    last: Floats
    """Buckets that the blocks of a column cover, from the first to before the last; beyond all: missing answers."""

    def influence(self) -> Floats:
        """Return how far one person who names unrelated blocks can move each number."""
        total = np.zeros(self.weights.shape[0])
        for level in np.unique(self.level):
            used = np.where((self.last > self.first)[:, self.level == level], self.weights[:, self.level == level], 0)
            total += used.max(axis=1) - used.min(axis=1)
        return total


@dataclass(frozen=True, slots=True)
class Tree:
    """Levels of blocks over ``buckets`` buckets: their widths, descending to 1, and the precision 1/variance of each.

    ``missing`` tells whether every level has a further category for people who are in no bucket.
    """

    buckets: int
    widths: tuple[int, ...]
    precisions: tuple[float, ...]
    missing: bool = False

    @property
    def weights(self) -> Floats:
        """λ_l = Σ_{k ≥ l} u_k·w_k: the precision of what level l adds to the one before."""
        return np.cumsum((np.array(self.precisions) * self.widths)[::-1])[::-1]

    @property
    def absent_precision(self) -> float:
        """Precision of the number of missing answers before the total is used: U = Σ u_l."""
        return float(np.sum(self.precisions))

    def total_variance(self) -> float:
        """Return the variance of the sum of all buckets before the total is used: d/λ_1."""
        return float(self.buckets / self.weights[0])

    def absent_variance(self) -> float:
        """Return the variance of the number of missing answers: that of two independent estimates of one number.

        >>> Tree(4, (1,), (0.25,), missing=True).absent_variance()      # 4 and 16, combined
        3.2
        """
        if not self.missing:
            return 0.0
        return 1.0 / (self.absent_precision + 1.0 / self.total_variance())

    def prefix_variance(self, right: ArrayLike) -> Floats:
        """Return the variance of the number of people in the first ``right`` buckets.

        Σ_l (N_l − N_{l−1})/λ_l with N_l = t − r + r²/w_l, r = t mod w_l the rest that level l does not resolve.

        >>> Tree(256, (16, 1), (1 / 31.0, 1 / 31.0)).prefix_variance([16, 128]).round(1).tolist()
        [27.4, 116.7]
        """
        t = np.asarray(right, dtype=np.float64)
        lam = self.weights
        sums, before = np.zeros_like(t), np.zeros_like(t)
        for width, weight in zip(self.widths, lam, strict=True):
            rest = t % width
            here = t - rest + rest * rest / width
            sums += (here - before) / weight
            before = here
        return np.asarray(np.maximum(sums - (t / lam[0]) ** 2 / self._known(), 0.0))

    def bucket_variance(self) -> float:
        """Return the variance of one bucket."""
        lam, shares = self.weights, [0.0, *(1.0 / width for width in self.widths)]
        sums = sum((new - old) / weight for (old, new), weight in zip(itertools.pairwise(shares), lam, strict=True))
        return float(sums - lam[0] ** -2 / self._known())

    def linear_variance(self, query: ArrayLike) -> float:
        """Return the variance of Σ query_i·bucket_i, for any query.

        >>> tree = Tree(6, (3, 1), (0.5, 0.25))
        >>> query = [1, 1, 1, 1, 0, 0]
        >>> abs(tree.linear_variance(query) - float(tree.prefix_variance(4))) < 1e-12
        True
        """
        q = np.asarray(query, dtype=np.float64)
        lam = self.weights
        sums, before = 0.0, 0.0
        for width, weight in zip(self.widths, lam.tolist(), strict=True):
            here = float((q.reshape(-1, width).sum(axis=1) ** 2).sum() / width)
            sums += (here - before) / weight
            before = here
        return max(0.0, sums - (float(q.sum()) / float(lam[0])) ** 2 / self._known())

    def prefix_weights(self, right: ArrayLike, share: ArrayLike = 0.0) -> "PrefixWeights":
        """Return the weights of the counts of every level in the number of people in the first ``right`` buckets.

        Minus ``share`` times the number of people in all buckets, if answers may be missing. Blocks of a level have
        equal weights if they leave the block of the prefix at the same wider level, on the same side: with x_l = 1
        below and 0 above that block and its filled share inside, a block of level k has the weight
        u_k·w_k·Σ_{l ≤ k} (x_l − x_{l−1})/λ_l, where x_0 takes away the total.
        """
        t, part = np.broadcast_arrays(np.asarray(right, dtype=np.float64), np.asarray(share, dtype=np.float64))
        lam, known, absent = self.weights, self._known(), self.absent_precision
        taken = t / lam[0] / known
        if self.missing:
            taken = taken + part / known / absent
        starts, stops = [np.zeros_like(t)], [np.full_like(t, float(self.buckets))]
        inside: list[Floats] = [taken]
        for width in self.widths:
            starts.append(t - t % width)
            stops.append(starts[-1] + width)
            inside.append(t % width / width)
        columns: list[tuple[int, Floats, Floats, Floats]] = []
        for k, (u, width) in enumerate(zip(self.precisions, self.widths, strict=True), start=1):
            before, scale = np.zeros_like(t), u * width
            for m in range(1, k + 1):
                below = scale * (before + (1 - inside[m - 1]) / lam[m - 1])
                above = scale * (before - inside[m - 1] / lam[m - 1])
                columns.append((k - 1, below, starts[m - 1], starts[m]))
                columns.append((k - 1, above, stops[m], stops[m - 1]))
                before = before + (inside[m] - inside[m - 1]) / lam[m - 1]
            columns.append((k - 1, scale * before, starts[k], stops[k]))
            if self.missing:
                own = u / absent * (part * (1 - 1 / known / absent) - t / lam[0] / known)
                nobody = np.full_like(t, float(self.buckets))
                columns.append((k - 1, own, nobody, nobody + width))
        level = np.array([column[0] for column in columns])
        weights, first, last = (np.stack([column[i] for column in columns], axis=-1) for i in (1, 2, 3))
        return PrefixWeights(level=level, weights=weights, first=first, last=last)

    def _known(self) -> float:
        """Return the variance of the total before it is used."""
        return self.total_variance() + (1.0 / self.absent_precision if self.missing else 0.0)

    def leaves(self, levels: Sequence[ArrayLike], n: int) -> tuple[Floats, float]:
        """Return the least-squares number of people in each bucket, and of missing answers, from unbiased counts.

        Each level holds the counts of its blocks, and of missing answers last if there is such a category.

        >>> Tree(4, (2, 1), (1.0, 1.0)).leaves([[6, 4], [3, 3, 2, 2]], 10)[0].tolist()
        [3.0, 3.0, 2.0, 2.0]
        """
        counts = [np.asarray(level, dtype=np.float64) for level in levels]
        absent = 0.0
        if self.missing:
            absent = sum(u * float(level[-1]) for u, level in zip(self.precisions, counts, strict=True))
            absent /= self.absent_precision
            counts = [level[:-1] for level in counts]
        lam = self.weights
        each = zip(self.precisions, counts, self.widths, strict=True)
        rest = np.cumsum(np.array([np.repeat(u * level, width) for u, level, width in each])[::-1], axis=0)[::-1]
        found = np.zeros(self.buckets)
        wider = (0, *self.widths[:-1])
        for row, width, above, weight in zip(rest, self.widths, wider, lam, strict=True):
            found += (_blocks(row, width) - (_blocks(row, above) if above else 0.0)) / weight
        excess = float(n) - float(found.sum()) - absent
        share = excess / self._known()
        return found + share / lam[0], absent + (share / self.absent_precision if self.missing else 0.0)


def _blocks(row: Floats, width: int) -> Floats:
    """Return the projection of a row onto vectors that are constant on blocks."""
    return np.repeat(row.reshape(-1, width).mean(axis=1), width)


def mean_square_prefix(tree: Tree) -> float:
    """Return the mean variance over all prefixes but the empty and the whole one.

    >>> round(mean_square_prefix(Tree(256, (16, 1), (1 / 31.829029, 1 / 31.829029))) ** 0.5, 2)
    12.65
    """
    return float(tree.prefix_variance(np.arange(1, tree.buckets)).mean())
