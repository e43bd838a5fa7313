"""Exact values for small crowds: δ(ε) itself, and the right sides of the theorems of slot exchange, by enumeration."""

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def flipped(record: Sequence[int], q: float) -> Floats:
    """Return the probabilities of all messages of a record, in the order of their bits."""
    messages = np.array(list(itertools.product((0, 1), repeat=len(record))))
    distance = (messages != np.array(record)).sum(axis=1)
    return np.asarray(q**distance * (1 - q) ** (len(record) - distance), np.float64)


def all_flipped(width: int, q: float) -> Floats:
    """Return the message probabilities of all bit vectors, one row per record."""
    return np.array([flipped(record, q) for record in itertools.product((0, 1), repeat=width)])


def delta(x: Floats, other: Floats, kinds: Sequence[Floats], counts: Sequence[int], epsilon: float) -> float:
    """Return δ(ε) of x against x' in a crowd with ``counts`` users of each kind, by adding one message at a time."""
    size, n = len(x), sum(counts)

    def add(histograms: Floats, chances: Floats) -> Floats:
        grown = chances[-1] * histograms
        for axis in range(size - 1):
            shifted = np.zeros_like(histograms)
            target, source = [slice(None)] * (size - 1), [slice(None)] * (size - 1)
            target[axis], source[axis] = slice(1, None), slice(0, -1)
            shifted[tuple(target)] = histograms[tuple(source)]
            grown = grown + chances[axis] * shifted
        return np.asarray(grown, np.float64)

    crowd = np.zeros((n + 2,) * (size - 1))
    crowd[(0,) * (size - 1)] = 1.0
    for chances, count in zip(kinds, counts, strict=True):
        for _ in range(count):
            crowd = add(crowd, chances)
    return float(np.maximum(add(crowd, x) - math.exp(epsilon) * add(crowd, other), 0).sum())


@cache
def _compositions(n: int, parts: int) -> tuple[tuple[int, ...], ...]:
    if parts == 1:
        return ((n,),)
    return tuple((first, *rest) for first in range(n + 1) for rest in _compositions(n - first, parts - 1))


def compositions(n: int, parts: int) -> NDArray[np.int64]:
    """Return all ways to write n as an ordered sum of ``parts`` numbers."""
    return np.array(_compositions(n, parts))


def _multinomial(n: int, chances: Floats) -> tuple[NDArray[np.int64], Floats]:
    counts = compositions(n, len(chances))
    ways = np.array([math.factorial(n) / math.prod(map(math.factorial, row)) for row in counts.tolist()])
    return counts, ways * np.prod(chances**counts, axis=1)


def _sums(terms: Iterable[tuple[int, Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return all values of a sum of independent scores, (how many, score by message, chances), with probabilities."""
    values, weights = np.zeros(1), np.ones(1)
    for count, score, chances in terms:
        if count:
            counts, probabilities = _multinomial(count, chances)
            values = np.add.outer(values, counts @ score).ravel()
            weights = np.outer(weights, probabilities).ravel()
    return values, weights


def lost(n: int, gamma: float) -> float:
    """Return P[Bin(n, γ) ≤ 1]."""
    return (1 - gamma) ** n + n * gamma * (1 - gamma) ** (n - 1)


class Setting:
    """A pair, the kinds of the others, and a blanket γω below all of them."""

    def __init__(
        self, x: Floats, other: Floats, kinds: Sequence[Floats], epsilon: float, gamma: float, omega: Floats
    ) -> None:
        self.gamma, self.omega, self.kinds = gamma, omega, kinds
        v = x - math.exp(epsilon) * other
        self.scores = [v / chances for chances in kinds]
        self.rest = [np.maximum(chances - gamma * omega, 0) / (1 - gamma) for chances in kinds]

    def covered(self, counts: Sequence[int]) -> Iterable[tuple[tuple[int, ...], float]]:
        """Yield the numbers of covered users by kind, with at least one, and their probabilities."""
        for covered in itertools.product(*(range(count + 1) for count in counts)):
            if sum(covered):
                yield (
                    covered,
                    math.prod(
                        math.comb(count, k) * self.gamma**k * (1 - self.gamma) ** (count - k)
                        for count, k in zip(counts, covered, strict=True)
                    ),
                )

    def uncovered(self, counts: Sequence[int], covered: Sequence[int]) -> list[tuple[int, Floats, Floats]]:
        """Return the terms of the users who are not covered."""
        return [
            (count - k, score, rest)
            for count, k, score, rest in zip(counts, covered, self.scores, self.rest, strict=True)
        ]

    def theorem1(self, counts: Sequence[int]) -> float:
        """Return the right side of Theorem 1."""
        total = lost(sum(counts), self.gamma)
        for covered, probability in self.covered(counts):
            size = sum(covered)
            mean = np.sum([k * score for k, score in zip(covered, self.scores, strict=True)], axis=0) / size
            values, weights = _sums([(size + 1, mean, self.omega), *self.uncovered(counts, covered)])
            total += probability * self.gamma / (size + 1) * float(weights @ np.maximum(values, 0))
        return total

    def theorem5(self, counts: Sequence[int], one: int, two: int) -> float:
        """Return the paired expectation of Theorem 5 with the kinds ``one`` and ``two`` matched, plus P[K ≤ 1]."""
        return self._paired(counts, one, two)

    def corollary2(self, counts: Sequence[int]) -> float:
        """Return the right side of Corollary 2."""
        return self._paired(counts, None, None)

    def _paired(self, counts: Sequence[int], one: int | None, two: int | None) -> float:
        total = lost(sum(counts), self.gamma)
        for covered, probability in self.covered(counts):
            size = sum(covered)
            pool = list(covered)
            terms = self.uncovered(counts, covered)
            if one is not None and two is not None:
                pairs = min(covered[one], covered[two])
                terms.append((2 * pairs, (self.scores[one] + self.scores[two]) / 2, self.omega))
                pool[one] -= pairs
                pool[two] -= pairs
            terms += [(count, score, self.omega) for count, score in zip(pool, self.scores, strict=True)]
            values, weights = _sums(terms)
            for k, score in zip(covered, self.scores, strict=True):
                if k:
                    more = np.add.outer(values, score).ravel()
                    mean = float(np.outer(weights, self.omega).ravel() @ np.maximum(more, 0))
                    total += probability * self.gamma / (size * (size + 1)) * k * mean
        return total


def supremum(kinds: Floats, n: int, epsilons: Sequence[float], pairs: Sequence[tuple[int, int]]) -> dict[float, float]:
    """Return sup δ(ε) over ALL crowds of n − 1 others with the given kinds and over the pairs, by FFT.

    Rounding errors are some 10⁻¹⁵ absolutely.
    """
    size = kinds.shape[1]
    shape = (n + 1,) * (size - 1)
    spectra = []
    for chances in kinds:
        unit = np.zeros(shape)
        for s in range(size - 1):
            unit[tuple(int(s == axis) for axis in range(size - 1))] = chances[s]
        unit[(0,) * (size - 1)] = chances[-1]
        spectra.append(np.fft.fftn(unit))
    powers = [[spectrum**k for k in range(n)] for spectrum in spectra]
    best = dict.fromkeys(epsilons, 0.0)
    needed = sorted({i for pair in pairs for i in pair})
    for counts in _compositions(n - 1, len(kinds)):
        base = math.prod((power[k] for power, k in zip(powers, counts, strict=True)), start=np.ones(shape, complex))
        sides = {i: np.fft.ifftn(base * spectra[i]).real for i in needed}
        for (i, j), epsilon in itertools.product(pairs, epsilons):
            best[epsilon] = max(best[epsilon], float(np.maximum(sides[i] - math.exp(epsilon) * sides[j], 0).sum()))
    return best
