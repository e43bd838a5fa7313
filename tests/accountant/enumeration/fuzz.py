"""Random settings of any size: no foreign exception, no NaN, no δ of 0 below the pure ε, and monotone results.

Each case is a chain of accounts that may only get better from left to right: a larger ε or δ, n, m or q. Theory says so
for the truth: δ falls with ε, and further users, fakes and flips are randomness that the analyzer could add. The last
does not hold for bits among a random number of fakes, where the analyzer does not know how many bits were 0.
Certified values may wobble by ``WOBBLE``: branch and bound stops at 0.3 % in δ, quadratures at less than 1 %.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import replace

from tests.accountant.enumeration.checks import Findings, Violation
from tests.accountant.enumeration.settings import Setting

from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema

WOBBLE = 0.011
"""Relative amount by which a certified value may rise along a chain."""
RESIDUE = 5e-15
"""Absolute amount by which it may rise: compositions and distributions of counts add their rounding errors to δ."""
RELEASES: list[Release] = ["records", "records", "records", "records", "bits", "bits", "bits", "category"]
"""The releases, in the proportion in which they are drawn."""
Call = tuple[Setting, dict[str, float]]
"""A setting, and its ε or δ."""


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _whole(rng: random.Random, low: int, high: int) -> int:
    return min(high, math.floor(_log_uniform(rng, low, high + 1)))


def _schema(rng: random.Random, release: Release) -> Schema:
    kind = "one_hot" if release == "category" else rng.choice(["bits", "one_hot", "at_most"])
    if kind == "one_hot":
        return Schema.one_hot(_whole(rng, 2, 300))
    if kind == "bits":
        return Schema.bits(_whole(rng, 1, 5 if release == "records" else 12))
    width = _whole(rng, 1, 40)
    return Schema.at_most(rng.randint(1, min(4, width)), width)


def _fakes(rng: random.Random) -> int | Fakes:
    kind = rng.choice(["none", "none", "fixed", "binomial", "poisson", "laplace", "gaussian"])
    if kind == "none":
        return 0
    if kind == "fixed":
        return _whole(rng, 1, 10**6)
    if kind == "binomial":
        return Fakes.binomial(_whole(rng, 1, 20), rng.uniform(0.01, 1.0))
    if kind == "poisson":
        return Fakes.poisson(_log_uniform(rng, 1e-3, 20.0))
    scale, shift = _log_uniform(rng, 0.05, 30.0), _whole(rng, 1, 200) - 1
    return Fakes.laplace(scale, shift) if kind == "laplace" else Fakes.gaussian(scale, shift)


def _setting(rng: random.Random) -> Setting:
    release = rng.choice(RELEASES)
    schema = _schema(rng, release)
    most = 1 / schema.width if release == "category" else 0.5
    middle, near, tiny = rng.uniform(0.01, 0.9), 1 - 10 ** -rng.uniform(1, 8), _log_uniform(rng, 1e-14, 0.9)
    q = most * rng.choice([middle, middle, middle, middle, near, near, tiny])
    m = 0 if release == "category" else _fakes(rng)
    k = rng.choice([1, 1, 1, 1, 2, 3, 8, 32]) if release != "category" else 1
    if m != 0 and rng.random() < 0.3:
        q = 0.0
    if q == 0 or (isinstance(m, Fakes) and m.by == "shuffler"):
        k = 1
    n = _whole(rng, 1, 10 ** rng.choice([1, 2, 3, 4, 5, 9 if k == 1 else 4]))
    return Setting(Protocol(q, k, m, release), schema, n, rng.choice([1.0, 1.0, 0.5, 0.1]))


def _more_fakes(m: int | Fakes) -> int | Fakes | None:
    if isinstance(m, int):
        return 2 * m + 3 if m else None
    if m.distribution == "binomial":
        return replace(m, shift=m.shift + 1)
    return replace(m, scale=1.5 * m.scale) if m.distribution == "poisson" else None


def chains(seed: int) -> Iterator[tuple[str, list[Call]]]:
    """Yield chains of calls without end: what grows, and the calls in the order of falling δ."""
    rng = random.Random(seed)
    while True:
        here = _setting(rng)
        protocol, schema = here.protocol, here.schema
        pure = min(here.pure, 8.0)
        share = rng.choice([rng.uniform(0.0, 1.0), 1 - 10 ** -rng.uniform(1, 9)])
        epsilon = rng.choice([0.0, _log_uniform(rng, 1e-3, 8.0), pure * share, min(here.pure, 2000.0) * share])
        at = {"epsilon": epsilon}
        grows = rng.choice(["ε", "n", "m", "q"] * 4 + ["δ"])
        if grows == "n" and (here.fraction == 1 or not protocol.fixed_fakes):
            yield "n", [(here, at), (replace(here, n=2 * here.n), at)]
        elif grows == "m" and (more := _more_fakes(protocol.m)) is not None:
            whole = replace(here, fraction=1.0)
            yield "m", [(whole, at), (replace(whole, protocol=protocol.changed(m=more)), at)]
        elif grows == "q" and protocol.q and not (protocol.sends_bits and isinstance(protocol.m, Fakes)):
            most = 1 / schema.width if protocol.sends_category else 0.5
            higher = min(protocol.q + (most - protocol.q) * rng.uniform(0.05, 0.5), most * (1 - 1e-9))
            if higher > protocol.q:
                yield "q", [(here, at), (replace(here, protocol=protocol.changed(q=higher)), at)]
        elif grows == "δ" and (protocol.clear or schema.width == 1 or not protocol.sends_records):
            delta = 10 ** -rng.choice([rng.uniform(2, 12), rng.uniform(2, 300)])
            yield "δ", [(here, {"delta": delta}), (here, {"delta": 10 * delta})]
        else:
            yield "ε", [(here, at), (here, {"epsilon": epsilon * 1.2 + 1e-3})]


def positive(setting: Setting, epsilon: float) -> bool:
    """Return True if the true δ is certainly positive: below the pure ε, except for bits among random fakes.

    Those hide the largest count of a position, and only records that differ in one direction keep their pure ε.
    """
    protocol = setting.protocol
    if protocol.sends_bits and isinstance(protocol.m, Fakes) and not setting.schema.dense and not protocol.clear:
        return False
    return epsilon < setting.pure * (1 - 1e-12)


def run(found: Findings, seed: int, calls: int) -> None:
    """Check chains until that many accounts have been made."""
    stop = found.settings + calls
    for grows, chain in chains(seed):
        if found.settings >= stop:
            return
        before = math.inf
        for setting, at in chain:
            where = f"{setting} {at}"
            if (given := found.call(setting, **at)) is None:
                break
            found.comparisons += 1
            claimed = given.epsilon if grows == "δ" else given.delta
            if not 0.0 <= given.lower_bound <= claimed <= (math.inf if grows == "δ" else 1.0):
                found.violations.append(Violation("not 0 ≤ lower ≤ upper", where, claimed, given.lower_bound))
            if given.delta == 0.0 and positive(setting, given.epsilon):
                found.violations.append(Violation("δ = 0 below the pure ε", where, 0.0, "positive"))
            if claimed > before * (1 + WOBBLE) + RESIDUE:
                found.violations.append(Violation(f"rises with {grows}", where, claimed, f"at most {before!r}"))
            before = claimed
