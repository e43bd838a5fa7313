"""Exact samplers: the probabilities of their decisions, followed through the whole tree, are those of the law.

A script takes the place of the randomness: every decision is taken in all ways, with its exact probability, until a
path is too unlikely. What is lost with such paths bounds the error of the comparison.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import pytest

from hubbub.bits import exact

LEAST = 1e-10


class Cut(Exception):
    """The path is not followed any further."""


class Script:
    """Decisions along one path; the ways not taken are listed."""

    def __init__(self, path: Sequence[int]) -> None:
        self.path, self.taken, self.chance = path, 0, 1.0
        self.others: list[tuple[int, ...]] = []
        self.lost = 0.0

    def choose(self, chances: Sequence[float]) -> int:
        """Return the way of the next decision, which has these chances."""
        way = self.path[self.taken] if self.taken < len(self.path) else 0
        if self.taken >= len(self.path):
            self.path = (*self.path, way)
            for other, chance in enumerate(chances[1:], 1):
                if self.chance * chance >= LEAST:
                    self.others.append((*self.path[:-1], other))
                else:
                    self.lost += self.chance * chance
        self.taken += 1
        self.chance *= chances[way]
        if self.chance < LEAST:
            self.lost += self.chance
            raise Cut
        return way


@dataclass
class Explored:
    """The probabilities of all results, and of paths that were not followed."""

    chances: dict[int, float]
    lost: float


def explore(draw: Callable[[Script], int]) -> Explored:
    """Follow all paths; those that are cut on purpose are in neither."""
    chances: dict[int, float] = defaultdict(float)
    lost, waiting = 0.0, [()]
    while waiting:
        script = Script(waiting.pop())
        try:
            result: int | None = draw(script)
        except Cut:
            result = None
        waiting += script.others  # type: ignore[arg-type]
        lost += script.lost
        if result is not None:
            chances[result] += script.chance
    return Explored(dict(chances), lost)


class Below:
    """A uniform number of which only a comparison is asked."""

    def __init__(self, script: Script, below: int) -> None:
        self.script, self.below = script, below

    def __lt__(self, limit: int) -> bool:
        chance = min(limit / self.below, 1.0)
        return self.script.choose([chance, 1 - chance]) == 0


GAMMAS = [(0, 1), (1, 1), (1, 3), (99, 100), (3, 2), (2, 1), (7, 3), (1, 10**6)]


@pytest.mark.parametrize(("numerator", "denominator"), GAMMAS)
def test_bernoulli_of_an_exponential(numerator: int, denominator: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 1: True with probability e^−γ."""

    def draw(script: Script) -> int:
        monkeypatch.setattr(exact, "uniform", lambda below, *, entropy: Below(script, below))
        return int(exact._exp(numerator, denominator, bytes))

    found = explore(draw)
    assert found.chances[1] == pytest.approx(math.exp(-numerator / denominator), abs=found.lost + 1e-12)
    assert found.lost < 1e-6


def exponential(script: Script) -> Callable[[int, int, object], bool]:
    """Return a coin of probability e^−γ."""

    def coin(numerator: int, denominator: int, entropy: object) -> bool:
        chance = math.exp(-numerator / denominator)
        return script.choose([chance, 1 - chance]) == 0

    return coin


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(5, 3), Fraction(4), Fraction(1, 3), Fraction(7, 4)])
def test_laplace_numbers(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 2: what one attempt returns is proportional to e^(−|x|/scale), zero counted once."""

    def draw(script: Script) -> int:
        attempts = [0]

        def uniform(below: int, *, entropy: object) -> int:
            assert below in (2, scale.numerator)
            attempts[0] += below == scale.numerator
            if attempts[0] > 1:
                raise Cut
            return script.choose([1 / below] * below)

        monkeypatch.setattr(exact, "uniform", uniform)
        monkeypatch.setattr(exact, "_exp", exponential(script))
        return exact.laplace(scale, entropy=bytes)

    found = explore(draw)
    whole = sum(found.chances.values())
    ratio = math.exp(-1 / scale)
    zero = (1 - ratio) / (1 + ratio)
    for x in range(-8, 9):
        assert found.chances.get(x, 0.0) / whole == pytest.approx(zero * ratio ** abs(x), abs=1e-7, rel=1e-6)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5, 4), Fraction(3), Fraction(2.7)])
def test_gaussian_numbers(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 3: what one attempt accepts of the Laplace numbers is proportional to e^(−x²/2σ²)."""
    reach = 40

    def draw(script: Script) -> int:
        attempts = [0]

        def laplace(width: Fraction, *, entropy: object) -> int:
            assert width == math.floor(scale) + 1
            attempts[0] += 1
            if attempts[0] > 1:
                raise Cut
            weights = [math.exp(-abs(x) / width) for x in range(-reach, reach + 1)]
            return script.choose([weight / sum(weights) for weight in weights]) - reach

        monkeypatch.setattr(exact, "laplace", laplace)
        monkeypatch.setattr(exact, "_exp", exponential(script))
        return exact.gaussian(scale, entropy=bytes)

    found = explore(draw)
    whole = sum(found.chances.values())
    weights = {x: math.exp(-((x / float(scale)) ** 2) / 2) for x in range(-reach, reach + 1)}
    for x, weight in weights.items():
        truth = weight / sum(weights.values())
        assert found.chances.get(x, 0.0) / whole == pytest.approx(truth, abs=2 * found.lost / whole, rel=1e-9)
    assert found.lost < 1e-6


def scripted(data: bytes) -> Callable[[int], bytes]:
    """Return a source of these bytes."""
    return lambda size: data[:size]


def test_poisson_numbers_of_rate_one_are_drawn_by_inversion() -> None:
    mpmath.mp.dps = 60
    total, edges = mpmath.mpf(0), exact.poisson_edges()
    for k, edge in enumerate(edges):
        total += mpmath.exp(-1) / mpmath.factorial(k)
        assert abs(edge - total * 2**128) <= 2
    for word in (0, *(edge + step for edge in edges for step in (-1, 0, 1))):
        if word < 2**128:
            data = word.to_bytes(16, "little")
            assert exact.poisson(1.0, entropy=scripted(data)) == bisect_right(edges, word)
    assert len(edges) > 30


@pytest.mark.parametrize("rate", [0.3, 1 / 3, 1.7, 2.0, 5e-15, math.pi])
def test_poisson_numbers_are_thinned_to_no_less_than_their_rate(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chance is rounded up to the grid: never less noise than requested."""
    seen: list[tuple[int, int]] = []

    def coins(width: int, numerator: int, *, entropy: object) -> int:
        seen.append((width, numerator))
        return 0

    monkeypatch.setattr(exact, "coins", coins)
    words = 0.9  # of every number of rate 1: F(1) < 0.9 < F(2)
    drawn = exact.poisson(rate, entropy=lambda size: int(words * 2 ** (8 * size)).to_bytes(size, "little"))
    whole = math.ceil(rate)
    if rate == whole:
        assert (drawn, seen) == (2 * whole, [])
        return
    ((width, numerator),) = seen
    assert width == 2 * whole
    assert 0 <= Fraction(numerator, 2**48) - Fraction(rate) / whole < Fraction(1, 2**48)
