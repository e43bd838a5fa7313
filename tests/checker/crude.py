"""Distributions that err by as much as they state: what bounds allow for must cover them."""

from fractions import Fraction
from math import comb

from hubbub.checker.fixed import Masses


def chances(n: int, chance: Fraction) -> list[Fraction]:
    """Return the exact probabilities of Bin(n, chance)."""
    return [comb(n, i) * chance**i * (1 - chance) ** (n - i) for i in range(n + 1)]


def crude(exact: list[Fraction], slack: int, bits: int, *, first: int = 0, cut: bool = True) -> Masses:
    """Return the masses of a distribution, each too low by the slack, without ends of as much mass in all."""
    scale = 1 << bits
    start, end, rest = 0, len(exact), slack
    while cut and start < end - 1 and exact[start] * scale <= Fraction(rest, 2):
        rest -= -int(-exact[start] * scale // 1)
        start += 1
    while cut and start < end - 1 and exact[end - 1] * scale <= rest:
        rest -= -int(-exact[end - 1] * scale // 1)
        end -= 1
    low = [max(0, -int(-one * scale // 1) - slack) for one in exact[start:end]]
    return Masses(first + start, low, slack, bits)


def summed(one: list[Fraction], two: list[Fraction]) -> list[Fraction]:
    """Return the exact distribution of the sum of two independent numbers."""
    total = [Fraction(0)] * (len(one) + len(two) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(two):
            total[i + j] += a * b
    return total
