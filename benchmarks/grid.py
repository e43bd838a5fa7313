"""300 settings over the whole domain of the accountant and the planner: ``python -m benchmarks.grid [--slow SECONDS]``.

Prints the settings that take longer than the given CPU time. The settings are the corners in which the accountant was
once slow, and draws from the whole domain; the draws use ``random.Random.random`` alone, whose sequence is stable
across versions of Python, so that the grid is the same everywhere.
"""

import argparse
import gc
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from hubbub.accountant import account, calibrate
from hubbub.accountant.cases import shuffler
from hubbub.accountant.theorems import attacks, drawn, split
from hubbub.errors import HubbubError
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.planner import FAMILIES
from hubbub.planner.request import Request

T = TypeVar("T")
SIZE = 300
KEYS = (
    "local-flip", "local-response", "flip", "copies", "split", "response", "fake-and-flip", "clear-user-fakes",
    "clear-shuffler-fakes", "clear-shuffler-fakes-records", "flip-shuffler-fakes", "flip-shuffler-fakes-records",
)  # fmt: skip
"""The families of the planner when the grid was stored: a new one is added at the end of the grid."""
NARROW = 5
"""Width up to which whole records have to be as fast as everything else."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One call, and whether it evaluates whole records of many bits, which may take longer."""

    name: str
    wide: bool
    call: Callable[[], object]

    def seconds(self) -> float:
        """Return the CPU time of the call with empty caches; a request that nothing meets counts like any other."""
        clear_caches()
        gc.collect()
        start = time.process_time()
        with suppress(HubbubError):
            self.call()
        return time.process_time() - start


def clear_caches() -> None:
    """Clear the caches of the accountant, so that every run computes everything."""
    for cached in (
        split.cover, split.positions, split.attack, attacks._worst_background,
        shuffler.covers, drawn.cover, drawn.positions, drawn.attack,
    ):  # fmt: skip
        cached.cache_clear()


def settings() -> list[Setting]:
    """Return the grid: all corners, and draws up to the full size."""
    found = list(_corners())
    draw = _Draw(random.Random(13))
    kinds = (draw.given_delta, draw.given_epsilon, draw.calibration, draw.family, draw.family)
    while len(found) < SIZE:
        found.append(kinds[len(found) % len(kinds)]())
    return found


def _corners() -> Iterator[Setting]:
    """Yield the settings that once took tens of seconds."""
    one, four = Schema.bits(1), Schema.one_hot(4)
    yield _account(Protocol(1e-6), four, 4, delta=1e-4)
    for q in (0.5 - 1e-12, 0.5 - 1e-6, 0.49, 1e-12, 1e-6):
        for schema in (one, Schema.one_hot(2), four, Schema.bits(3)):
            for release in ("records", "bits"):
                if schema.width > 1 or release == "records":
                    yield _account(Protocol(q, release=_RELEASES[release]), schema, 10**10, delta=1e-6)
        yield _account(Protocol(q / 2, release="category"), four, 10**10, delta=1e-6)
    for n in (1, 1000, 10**10):
        yield _account(Protocol(0.01, 32), one, n, delta=1e-300)
        yield _account(Protocol(0.01, 32, 0, "bits"), Schema.bits(1000), n, delta=1e-3)
        yield _calibration(four, n, Budget(1e-3, 1e-9), max_q=0.01)
        yield _calibration(Schema.bits(4), n, Budget(1.0, 1e-9), max_q=1e-3)
    for key in KEYS:
        yield _family(key, four, 30_000, Budget(3.1, 1e-6))
        yield _family(key, Schema.bits(1000), 10**7, Budget(0.2, 1e-9), rounds=30)


_RELEASES: dict[str, Release] = {"records": "records", "bits": "bits", "category": "category"}


class _Draw:
    """Draws from the whole domain."""

    def __init__(self, source: random.Random) -> None:
        self.random = source.random

    def spread(self, low: float, high: float) -> float:
        """Return a value whose logarithm is uniform."""
        return low * math.exp(self.random() * math.log(high / low))

    def one_of(self, *choices: T) -> T:
        return choices[int(self.random() * len(choices))]

    def schema(self) -> Schema:
        kind = self.one_of("one-hot", "bit", "bits", "at-most")
        if kind == "one-hot":
            return Schema.one_hot(self.one_of(2, 3, 4, 8, 9, 100, 1000, 10**5, 10**6))
        if kind == "bit":
            return Schema.bits(1)
        if kind == "bits":
            return Schema.bits(self.one_of(2, 3, 5, 8, 13, 40, 200, 1000))
        return Schema.at_most(*self.one_of((1, 3), (2, 3), (2, 8), (3, 40), (10, 1650)))

    def people(self) -> int:
        return self.one_of(1, 2, math.ceil(self.spread(3, 1e10)), math.ceil(self.spread(100, 1e8)), 10**10)

    def flip(self) -> float:
        return self.one_of(1e-12, self.spread(1e-12, 0.1), self.spread(1e-3, 0.49), 0.5 - self.spread(1e-12, 0.1))

    def budget(self) -> Budget:
        delta = self.one_of(self.spread(1e-300, 1e-3), self.spread(1e-12, 1e-3), self.spread(1e-12, 1e-3))
        return Budget(self.spread(1e-3, 10.0), delta)

    def protocol(self, schema: Schema, n: int) -> Protocol:
        kind = self.one_of("flips", "flips", "copies", "category", "fixed", "users", "shuffler")
        release: Release = self.one_of("records", "bits")
        clear = self.one_of(True, False)
        q = 0.0 if clear and kind in ("fixed", "users", "shuffler") else self.flip()
        if kind == "copies":
            return Protocol(q, self.one_of(2, 7, 32), 0, release)
        if kind == "category" and schema.exclusive:
            return Protocol(q / schema.width * 2 * (1 - 1e-9), release="category")
        if kind == "fixed":
            return Protocol(q, self.one_of(1, 1, 2) if q else 1, math.ceil(self.spread(1, min(1e9, 10.0 * n))), release)
        if kind == "users":
            rate = self.spread(1e-6, 10.0)
            fakes = self.one_of(Fakes.poisson(rate), Fakes.binomial(math.ceil(2 * rate), rate / math.ceil(2 * rate)))
            return Protocol(q, 1, fakes, release)
        if kind == "shuffler":
            scale = self.spread(0.1, 1e4)
            shift = math.ceil(scale * self.one_of(0.0, 5.0, 30.0))
            return Protocol(q, 1, self.one_of(Fakes.laplace(scale, shift), Fakes.gaussian(scale, shift)), release)
        return Protocol(q, 1, 0, release)

    def given_delta(self) -> Setting:
        schema, n = self.schema(), self.people()
        share = self.one_of(1.0, 1.0, 0.5, 1e-3)
        return _account(self.protocol(schema, n), schema, n, delta=self.budget().delta, honest_fraction=share)

    def given_epsilon(self) -> Setting:
        schema, n = self.schema(), self.people()
        return _account(self.protocol(schema, n), schema, n, epsilon=self.budget().epsilon)

    def calibration(self) -> Setting:
        schema, n, budget = self.schema(), self.people(), self.budget()
        ways: tuple[dict[str, object], ...] = (
            {"max_q": self.one_of(0.5, 0.5, 0.01)},
            {"k": self.one_of(2, 32)},
            {"release": "bits", "k": self.one_of(1, 8)},
            {"release": "category" if schema.exclusive else "records"},
            {"q": self.one_of(0.0, 0.0, 0.01), "m": None},
            {
                "q": 0.0,
                "m": self.one_of(Fakes.laplace, Fakes.gaussian)(self.spread(0.5, 1e3), 0),
                "release": self.one_of("records", "bits"),
            },
            {"q": self.flip()},
            {"m": self.one_of(1000, Fakes.poisson(0.1), Fakes.laplace(2.0, 10))},
        )
        given = self.one_of(*ways)
        return _calibration(schema, None if list(given) == ["q"] else n, budget, **given)

    def family(self) -> Setting:
        """Return a family of the planner with a request that it applies to."""
        schema, n, budget = self.schema(), self.people(), self.budget()
        rounds, min_q, share = self.one_of(1, 1, 7, 365), self.one_of(0.0, 0.0, 0.05), self.one_of(1.0, 1.0, 0.5)
        key = self.one_of(*KEYS)
        if key.startswith(("clear", "flip-")):
            min_q = 0.05 if key.startswith("flip-") else 0.0
        if key in ("response", "local-response") and not schema.exclusive:
            schema = Schema.one_hot(9)
        if key.endswith("-records") and (schema.exclusive or schema.width == 1):
            schema = Schema.bits(3)
        return _family(key, schema, n, budget, rounds=rounds, min_q=min_q, honest_fraction=share)


def _wide(schema: Schema, *, whole: bool) -> bool:
    return whole and not schema.exclusive and schema.width > NARROW


def _account(protocol: Protocol, schema: Schema, n: int, **given: float) -> Setting:
    name = f"account({protocol}, {schema}, {n}, {_spelled(given)})"
    return Setting(name, _wide(schema, whole=protocol.sends_records), lambda: account(protocol, schema, n, **given))  # type: ignore[arg-type]


def _calibration(schema: Schema, n: int | None, budget: Budget, **given: object) -> Setting:
    name = f"calibrate({schema}, {n}, {budget}, {_spelled(given)})"
    whole = given.get("release", "records") == "records"
    return Setting(name, _wide(schema, whole=whole), lambda: calibrate(schema, n, budget, **given))  # type: ignore[arg-type]


def _family(key: str, schema: Schema, n: int, budget: Budget, **given: float) -> Setting:
    def search() -> object:
        request = Request.of(schema, n, budget, **given)  # type: ignore[arg-type]
        candidate = FAMILIES[key].propose(request)
        return candidate and candidate.best(request)

    whole = key in ("flip", "copies", "fake-and-flip", "flip-shuffler-fakes-records")
    return Setting(f"{key}({schema}, {n}, {budget}, {_spelled(given)})", _wide(schema, whole=whole), search)


def _spelled(given: object) -> str:
    assert isinstance(given, dict)
    return ", ".join(f"{name}={value}" for name, value in given.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", type=float, default=2.0, help="print the settings that take more CPU seconds")
    options = parser.parse_args()
    for index, setting in enumerate(settings()):
        spent = setting.seconds()
        if spent > options.slow:
            print(f"{index:3d} {spent:6.2f} s {'wide ' if setting.wide else ''}{setting.name}", flush=True)


if __name__ == "__main__":
    main()
