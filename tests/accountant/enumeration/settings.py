"""The deterministic list of small settings: all schemas, releases, fakes, copies and honest fractions."""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from flint import arb, ctx, fmpq
from tests.accountant.enumeration.reference import PRECISION, exact, fewest_fakes, number_of_fakes

from hubbub.model.protocol import GRID, Fakes, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema

SCHEMAS = [
    *(Schema.bits(width) for width in (1, 2, 3)),
    *(Schema.one_hot(d) for d in (2, 3, 4, 5)),
    *(Schema.at_most(most, d) for most, d in ((1, 2), (1, 3), (2, 3), (3, 4), (1, 4), (2, 4))),
]
FLIPS = [
    1e-14,
    1e-9,
    1e-6,
    1e-3,
    0.01,
    0.05,
    0.1,
    0.2,
    0.25,
    0.3,
    0.4,
    0.45,
    0.49,
    0.499,
    0.5 - 1e-6,
    0.5 - 1e-9,
    0.5 - 1e-12,
]
USERS_FAKES = [
    *(Fakes.binomial(*one) for one in ((1, 0.5), (2, 0.25), (3, 0.75), (4, 0.125), (1, 1.0))),
    *(Fakes.poisson(rate) for rate in (0.125, 0.5, 1.0, 2.0)),
]
SHUFFLER_FAKES = [
    *(
        Fakes.laplace(*one)
        for one in ((0.01, 0), (0.03125, 1), (0.125, 0), (0.25, 2), (0.5, 3), (1.0, 4), (2.0, 10), (1.5, 0))
    ),
    *(Fakes.gaussian(*one) for one in ((0.0625, 0), (0.125, 1), (0.25, 1), (0.5, 2), (1.0, 2), (1.0, 5), (2.0, 9))),
]
FRACTIONS = [1.0, 1.0, 1.0, 0.5, 0.75, 0.25]
DELTAS = [0.0, 0.3, 1e-2, 1e-4, 1e-6, 1e-9, 1e-15]


@dataclass(frozen=True)
class Setting:
    """A protocol in a collection of n people, a fraction of whom are honest."""

    protocol: Protocol
    schema: Schema
    n: int
    fraction: float = 1.0

    def __str__(self) -> str:
        m = self.protocol.m
        fakes = f"{m.distribution}({m.scale:g}, {m.shift})" if isinstance(m, Fakes) else m
        most = f"{self.schema.max_set}, " if self.schema.form == "at_most" else ""
        return (
            f"q={self.protocol.q!r} k={self.protocol.k} m={fakes} {self.protocol.release} "
            f"{self.schema.form}({most}{self.schema.width}) n={self.n} f={self.fraction:g}"
        )

    def _pure(self) -> arb:
        protocol, d = self.protocol, self.schema.width
        q = arb(fmpq(protocol.flip_numerator, GRID))
        if protocol.sends_category:
            return ((1 - (d - 1) * q) / q).log()
        return protocol.k * self.schema.distance * ((1 - q) / q).log()

    @property
    def pure(self) -> float:
        """The smallest ε from which on one user's messages alone have δ = 0, to the nearest float; ∞ if clear."""
        with ctx.workprec(PRECISION):
            return math.inf if self.protocol.clear else float(self._pure())

    def bounded_by(self, epsilon: float) -> bool:
        """Return True if the pure ε is at most ``epsilon``."""
        with ctx.workprec(PRECISION):
            return math.isinf(epsilon) or (not self.protocol.clear and bool(self._pure() <= exact(epsilon)))

    @property
    def epsilons(self) -> list[float]:
        """Values of ε at 0, tiny, in the middle, and near and beyond the pure ε."""
        pure = self.pure if math.isfinite(self.pure) else 6.0
        shares = [0.0, 1e-12, 1e-5, 0.03, 0.1, 0.3, 0.6, 0.9, 0.97, 1 - 1e-3, 1 - 1e-9, 1 - 1e-14, 1.0, 1 + 1e-12, 1.1]
        return sorted({pure * share for share in shares} | {0.1, 0.5, 1.0, 2.0})

    @property
    def work(self) -> float:
        """The approximate number of products that the reference distributions take for one ε."""
        protocol, schema = self.protocol, self.schema
        honest = max(1, math.floor(self.n * self.fraction))
        messages = protocol.k * honest + fewest_fakes(protocol.fixed_fakes, self.n, honest)
        width = schema.width
        crowds = math.comb(honest - 2 + schema.size, schema.size - 1) if not protocol.clear else 1
        if protocol.user_fakes:
            messages += len(number_of_fakes(protocol.user_fakes, honest)[0])
        cells = width if protocol.sends_category else 3 if protocol.clear else 2**width
        if protocol.shuffler_fakes:
            reach = len(number_of_fakes(protocol.shuffler_fakes, 1)[0])
            if not protocol.sends_bits:
                messages += reach * (2 if protocol.clear else schema.size)
            messages += reach * protocol.sends_bits
            width = schema.distance
        states = (messages + 1) ** width if protocol.sends_bits else math.comb(messages + cells - 1, cells - 1)
        own = 2 ** (width * protocol.k) if not protocol.clear else 2
        pairs = min(schema.size, 10)
        return float(crowds) * states * own * pairs


def _flips(schema: Schema, release: Release) -> list[float]:
    if release != "category":
        return FLIPS
    d = schema.width
    return [
        1e-14,
        1e-6,
        1e-3,
        0.01,
        *(share / d for share in (0.3, 0.6, 0.9, 0.99)),
        *(1 / d - x for x in (1e-6, 1e-8, 1e-12)),
    ]


def _draw(rng: random.Random, release: Release, fakes: str, schema: Schema) -> Setting:
    q = rng.choice(_flips(schema, release))
    if rng.random() < 0.3:
        q = rng.uniform(1e-4, 0.4999 if release != "category" else 0.9999 / schema.width)
    if fakes in ("users", "shuffler", "fixed") and rng.random() < 0.4:
        q = 0.0
    n = rng.randint(1, 12)
    m: int | Fakes = 0
    if fakes == "fixed":
        m = rng.choice([1, 2, 3, 5, 8, 13, 2 * n, 3 * n] + ([40, 300] if q == 0 else []))
    elif fakes == "users":
        m = rng.choice(USERS_FAKES)
    elif fakes == "shuffler":
        m = rng.choice(SHUFFLER_FAKES)
    copies = rng.choice([1, 1, 2, 3]) if release != "category" and fakes != "shuffler" and q else 1
    return Setting(Protocol(q, copies, m, release), schema, n, rng.choice(FRACTIONS))


def settings(seed: int, count: int, work: float) -> Iterator[Setting]:
    """Yield settings, in turn of every release, kind of fakes and schema; those that cost more get fewer people."""
    rng = random.Random(seed)
    releases: list[tuple[Release, str]] = [
        *itertools.product(("records", "bits"), ("none", "fixed", "users", "shuffler")),  # type: ignore[list-item]
        ("category", "none"),
    ]
    classes = [
        (release, fakes, schema)
        for schema, (release, fakes) in itertools.product(SCHEMAS, releases)
        if release != "category" or schema.exclusive
    ]
    rng.shuffle(classes)
    for release, fakes, schema in itertools.islice(itertools.cycle(classes), count):
        while (found := _draw(rng, release, fakes, schema)).work > work:
            pass
        yield found
