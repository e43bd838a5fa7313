"""Distributions of sums in an abelian group whose elements are 64-bit codes, in balls and in floating point."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

MASK = 2**64 - 1
Codes = NDArray[np.uint64]
Floats = NDArray[np.float64]
Masses = dict[int, arb]
"""Code of a part of the view ↦ probability."""


@cache
def random_code(message: int) -> int:
    """Return a fixed pseudorandom code; sums of few of them are distinct. (SplitMix64, Steele et al. 2014)"""
    value = (message + 1) * 0x9E3779B97F4A7C15 & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def convolve(one: Masses, two: Masses) -> Masses:
    """Return the distribution of a sum."""
    result: Masses = {}
    for (a, p), (b, q) in itertools.product(one.items(), two.items()):
        code = (a + b) & MASK
        result[code] = result[code] + p * q if code in result else p * q
    return result


def multiples(weights: list[arb], part: Masses) -> Masses:
    """Return the distribution of a random number of parts that are always the same."""
    (code,) = part
    return {i * code & MASK: weight for i, weight in enumerate(weights)}


def mix(summands: Iterable[tuple[arb, Masses]]) -> Masses:
    result: Masses = {}
    for weight, masses in summands:
        for code, p in masses.items():
            result[code] = result[code] + weight * p if code in result else weight * p
    return result


@dataclass(frozen=True)
class Spread:
    """Distributions over one common support: a row for each crowd."""

    codes: Codes
    rows: Floats

    def shifted(self, offsets: list[int]) -> tuple[Codes, list[Floats]]:
        """Return the support after one more part, and the rows moved by each offset."""
        steps = np.array(offsets, np.uint64)
        codes = np.sort((self.codes[:, None] + steps).ravel())
        codes = codes[np.append(True, codes[1:] != codes[:-1])]
        padded = np.concatenate([self.rows, np.zeros((len(self.rows), 1))], axis=1)
        moved = []
        for step in steps:
            source = np.searchsorted(self.codes, codes - step)
            source[source == len(self.codes)] = 0
            source[self.codes[source] != codes - step] = -1
            moved.append(padded[:, source])
        return codes, moved

    def plus(self, part: Masses) -> "Spread":
        """Return the distributions with one more independent part."""
        codes, moved = self.shifted(list(part))
        return Spread(codes, sum(float(p) * rows for p, rows in zip(part.values(), moved, strict=True)))  # type: ignore[arg-type]

    def randomly_often(self, weights: list[arb], part: Masses) -> "Spread":
        """Return the distributions with a random number of further parts, by Horner's rule unless a part is certain."""
        if len(part) == 1:
            return self.plus(multiples(weights, part))
        if not any(weights[:-1]):  # a fixed number
            result = self
            for _ in weights[1:]:
                result = result.plus(part)
            return result
        result = Spread(self.codes, float(weights[-1]) * self.rows)
        for weight in reversed(weights[:-1]):
            longer = result.plus(part)
            codes = np.union1d(longer.codes, self.codes)
            rows = np.zeros((len(self.rows), len(codes)))
            rows[:, np.searchsorted(codes, longer.codes)] = longer.rows
            rows[:, np.searchsorted(codes, self.codes)] += float(weight) * self.rows
            result = Spread(codes, rows)
        return result
