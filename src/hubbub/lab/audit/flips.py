"""Whether a client lies as often, and as independently, as its plan says: every bit, every value, every pair.

All p-values are exact under the plan's law, as long as no fakes of users are among the messages; with them, normal.
A family of tests counts as one: its worst member, with the p-value of all by Bonferroni.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hubbub.data import Schema
from hubbub.lab.audit.chances import binomial_p, chi_square_p, gamma_p, normal_p, poisson_p
from hubbub.lab.audit.findings import Finding, worst
from hubbub.lab.audit.probes import Sample, drawn_by_users, unpack
from hubbub.numeric.binomial import clopper_pearson
from hubbub.protocol import GRID, Fakes, Plan
from hubbub.tables import fake_patterns

__all__ = ["Rate", "columns", "examine", "moments", "rates", "shown"]

COLUMNS = 24
"""Bits between which pairs are tried, where there are more."""
NORMAL = 10.0
"""The least variance of a count that is taken as normal."""
LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024)
"""Messages after which noise might be used again."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a bit was flipped, with an interval."""

    label: str
    set: bool
    """Whether the bit was set before."""
    flips: int
    trials: int
    low: float
    high: float


def shown(plan: Plan, ones: Sequence[int]) -> Floats:
    """The chance that a message of a record with these ones shows each bit, or is each category.

    >>> from hubbub.data import Schema
    >>> from hubbub.planner import adopt
    >>> from hubbub.protocol import Protocol
    >>> shown(adopt(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6), [1]).tolist()
    [0.25, 0.75, 0.25]
    """
    width, q = plan.schema.width, plan.protocol.q
    chances = np.full(width, q)
    chances[list(ones)] = 1 - (width - 1) * q if plan.protocol.release == "category" else 1 - q
    return chances


def moments(plan: Plan, values: int, fakes: int) -> tuple[float, float, float]:
    """Of the fakes, what every bit gains on average; of all, the variance of each count and the covariance of two.

    People's copies add k·n·pq to each variance. A fake shows a bit with probability v and two bits with v₂; F fakes add
    Fv(1 − v) and F(v₂ − v²), and where F is itself random, Var(F)·v² to both.
    """
    protocol, schema = plan.protocol, plan.schema
    q, m = protocol.q, protocol.m
    number, spread = float(fakes), 0.0
    if protocol.release == "bits" and isinstance(m, Fakes) and m.by == "users":
        number, spread = values * m.mean, values * m.variance
    own = protocol.k * values * q * (1 - q)
    if not number:
        return 0.0, own, 0.0
    v = q + (1 - 2 * q) * schema.density
    both = _both(schema, q) if schema.width > 1 else 0.0
    return number * v, own + number * v * (1 - v) + spread * v * v, number * (both - v * v) + spread * v * v


@functools.lru_cache(maxsize=8)
def _both(schema: Schema, q: float) -> float:
    """The chance that a fake shows two given bits."""
    none, one, _, two = fake_patterns(schema, 2).tolist()
    return float(two * (1 - q) ** 2 + 2 * one * q * (1 - q) + none * q * q)


def columns(width: int) -> list[int]:
    """Bits to take in pairs: all, or some from the first to the last."""
    return sorted({*np.linspace(0, width - 1, min(width, COLUMNS), dtype=int).tolist()})


def examine(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """All tests of a client's law on what it made of the probes."""
    found = [*_marginals(samples, plan), *_number_of_fakes(samples, plan), _repetition(samples, plan)]
    if plan.protocol.release == "bits":
        found += _runs_of_pairs(samples, plan)
    elif plan.protocol.release == "records":
        found += _pairs(samples, plan)
    if plan.protocol.release != "bits" and not drawn_by_users(plan):
        found += _lags(samples, plan)
    return [*found, *_dispersion(samples, plan)]


def rates(samples: Sequence[Sample], plan: Plan, level: float, most: int = 40) -> list[Rate]:
    """How often each bit was flipped, over all probes, with intervals that all hold but for a chance of ``level``.

    Of users' fakes among the messages, the expected share is subtracted.
    """
    ones, lies, trials = _lies(samples, plan)
    level /= 4 * min(plan.schema.width, most)
    result = []
    for j in range(min(plan.schema.width, most)):
        for state in (False, True):
            rows = ones[:, j] == state
            count, total = round(float(lies[rows, j].sum())), int(trials[rows].sum())
            if total:
                count = min(max(count, 0), total)
                low, high = clopper_pearson(count, total, level)
                result.append(Rate(plan.schema.labels[j], state, count, total, float(low), float(high)))
    return result


def _bit(plan: Plan, j: int) -> str:
    what = "category" if plan.protocol.release == "category" else "bit"
    return f"{what} {j} ({plan.schema.labels[j] or 'blank'})"


def _lies(samples: Sequence[Sample], plan: Plan) -> tuple[NDArray[np.bool_], Floats, NDArray[np.int64]]:
    """By probe and bit: whether it was set, how often it lied, in how many messages of people."""
    width, k = plan.schema.width, plan.protocol.k
    ones = np.array([sample.probe.bits(width) for sample in samples], np.bool_)
    trials = np.array([k * sample.n * sample.runs for sample in samples])
    counts = np.array([sample.counts.sum(axis=0) for sample in samples], np.float64)
    gained = np.array([moments(plan, sample.n * sample.runs, int(sample.fakes.sum()))[0] for sample in samples])
    counts -= gained[:, None]
    return ones, np.where(ones, trials[:, None] - counts, counts), trials


def _marginals(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """How often bits lie: all of them, each one over all values, each value over all bits, and each by itself."""
    ones, lies, trials = _lies(samples, plan)
    width, q = plan.schema.width, plan.protocol.q
    spread = [moments(plan, sample.n * sample.runs, int(sample.fakes.sum())) for sample in samples]
    variance, covariance = (np.array([one[i] for one in spread]) for i in (1, 2))
    chances = {False: q, True: (width - 1) * q if plan.protocol.release == "category" else q}
    found, bits, values = [], [], []
    for state, text in ((False, "not set"), (True, "set")):
        cells = ones == state
        if not cells.any():
            continue
        each, size = np.where(cells, lies, 0.0), cells.sum(axis=1)
        along = size * variance + size * (size - 1) * covariance
        chance = chances[state]

        def judge(
            counts: Floats, totals: NDArray[np.int64], spreads: Floats, names: list[str], chance: float = chance
        ) -> list[tuple[float, str, float, float]]:
            p = _lie_p(counts, totals, chance, spreads if drawn_by_users(plan) else None)
            rows = zip(p.tolist(), names, counts.tolist(), totals.tolist(), strict=True)
            return [(one, name, count / total, chance) for one, name, count, total in rows if total]

        bits += judge(
            each.sum(axis=0), trials @ cells, variance @ cells, [f"{_bit(plan, j)}, {text}" for j in range(width)]
        )
        names = [f"value: {sample.probe.name}; bits {text}" for sample in samples]
        values += judge(each.sum(axis=1), trials * size, along, names)
        total = judge(each.sum(keepdims=True)[0], np.array([trials @ size]), np.array([along.sum()]), ["all bits"])
        found.append(_family(f"lies of bits {text}", total))
    found += [_family("lies of each bit", bits), _family("lies at each value", values)]
    (i, j), least = worst(
        _lie_p(
            lies,
            np.broadcast_to(trials[:, None], lies.shape),
            np.where(ones, chances[True], q),
            np.broadcast_to(variance[:, None], lies.shape) if drawn_by_users(plan) else None,
        )
    )
    return [
        *found,
        Finding(
            part="client",
            name="lies of each bit at each value",
            where=f"{_bit(plan, j)} at value: {samples[i].probe.name}",
            observed=float(lies[i, j] / trials[i]),
            allowed=chances[bool(ones[i, j])],
            p=least,
        ),
    ]


def _lie_p(counts: Floats, totals: NDArray[np.int64], chance: Floats | float, variance: Floats | None) -> Floats:
    """By the binomial law; by a normal one where fakes are among the messages, and then the variance is given."""
    if variance is None:
        return binomial_p(counts, totals, chance)
    off = counts - totals * chance
    z = normal_p(off / np.sqrt(np.maximum(variance, 1e-9)))
    return np.asarray(np.where(variance > 1e-9, z, np.abs(off) < 1e-6), np.float64)


def _family(name: str, judged: list[tuple[float, str, float, float]]) -> Finding:
    (place,), p = worst([one[0] for one in judged])
    _, where, observed, allowed = judged[place]
    return Finding(part="client", name=name, where=where, observed=observed, allowed=allowed, p=p)


def _number_of_fakes(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    m = plan.protocol.m
    if not isinstance(m, Fakes) or m.by == "shuffler" or plan.protocol.release == "bits":
        return []
    values = sum(sample.n * sample.runs for sample in samples)
    drawn = sum(int(sample.fakes.sum()) for sample in samples)
    if m.law == "binomial":
        p = float(binomial_p(drawn, values * m.shift, math.ceil(Fraction(m.scale) * GRID) / GRID))
    else:
        p = float(poisson_p(drawn, values * m.mean))
    sizes = np.array([sample.n * sample.runs for sample in samples])
    off = np.array([sample.fakes.sum() for sample in samples]) - sizes * m.mean
    (place,), least = worst(normal_p(off / np.sqrt(np.maximum(sizes * m.variance, 1e-9))))
    one = samples[place]
    return [
        Finding(
            part="client", name="fakes of a user", where="all values", observed=drawn / values, allowed=m.mean, p=p
        ),
        Finding(
            part="client",
            name="fakes at each value",
            where=f"value: {one.probe.name}",
            observed=float(one.fakes.sum() / (one.n * one.runs)),
            allowed=m.mean,
            p=least,
        ),
    ]


def _repetition(samples: Sequence[Sample], plan: Plan) -> Finding:
    """Runs that repeat each other to the byte, where chance alone would need more luck than 10⁻¹²."""
    q, k, width = plan.protocol.q, plan.protocol.k, plan.schema.width
    one, category = samples[0], plan.protocol.release == "category"
    # Equal messages have equal counts, and one count of variance v repeats with probability 1/√(4πv).
    luck = -0.5 * max(1, width - 1) * math.log(max(1.0, 4 * math.pi * moments(plan, one.n, int(one.fakes[0]))[1]))
    if plan.protocol.release != "bits":
        each = (width - 1) * q if category else q
        luck = min(luck, one.n * k * (1 if category else width) * math.log1p(-2 * each * (1 - each)))
    repeated = [sample for sample in samples if sample.repeats]
    runs = sum(sample.runs for sample in samples)
    certain = sum(sample.repeats for sample in samples) * (luck + math.log(runs)) < math.log(1e-12)
    return Finding(
        part="client",
        name="runs that repeat another",
        where=f"value: {repeated[0].probe.name}" if repeated else "all values",
        observed=float(sum(sample.repeats for sample in samples)),
        allowed=0.0,
        p=0.0 if certain else 1.0,
    )


def _pairs(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """How often two bits are shown together, by message."""
    chosen = columns(plan.schema.width)
    pairs = list(itertools.combinations(range(len(chosen)), 2))
    if not pairs:
        return []
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    fake = _both(plan.schema, plan.protocol.q) if drawn_by_users(plan) else 0.0
    p, seen, allowed = [], [], []
    for sample in samples:
        bits = unpack(sample.messages, chosen).astype(np.float32)
        both = (bits.T @ bits)[first, second].astype(np.float64)
        chance = shown(plan, sample.probe.ones)[chosen]
        together = chance[first] * chance[second]
        own, fakes = plan.protocol.k * sample.n * sample.runs, int(sample.fakes.sum())
        if fakes:
            mean = own * together + fakes * fake
            spread = own * together * (1 - together) + fakes * fake * (1 - fake)
            p.append(np.where(spread > 1e-9, normal_p((both - mean) / np.sqrt(np.maximum(spread, 1e-9))), both == mean))
        else:
            mean = own * together
            p.append(binomial_p(both, own, together))
        seen.append(both / (own + fakes))
        allowed.append(mean / (own + fakes))
    (i, j), least = worst(np.array(p))
    where = f"{_bit(plan, chosen[first[j]])} with {_bit(plan, chosen[second[j]])} at value: {samples[i].probe.name}"
    return [
        Finding(
            part="client",
            name="two bits together",
            where=where,
            observed=float(seen[i][j]),
            allowed=float(allowed[i][j]),
            p=least,
        )
    ]


def _scores(sample: Sample, plan: Plan) -> tuple[Floats, float, float]:
    """The counts of every run in standard deviations around their mean; the variance of one; the correlation of two."""
    own = plan.protocol.k * sample.n * shown(plan, sample.probe.ones)
    parts = [moments(plan, sample.n, int(fakes)) for fakes in sample.fakes]
    scores = [
        (row - own - gained) / math.sqrt(max(variance, 1e-9))
        for row, (gained, variance, _) in zip(sample.counts, parts, strict=True)
    ]
    _, variance, covariance = parts[0]
    # Around the mean of the runs: whether that is right, is asked elsewhere.
    return scores - np.mean(scores, axis=0), variance, covariance / max(variance, 1e-9)


def _runs_of_pairs(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Whether the counts of two bits move together from run to run: all that split bits show of it."""
    chosen = columns(plan.schema.width)
    pairs = list(itertools.combinations(range(len(chosen)), 2))
    scored = [_scores(sample, plan) for sample in samples]
    if not pairs or any(variance < NORMAL for _, variance, _ in scored):
        return []
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    sums, differences, runs = np.zeros(len(pairs)), np.zeros(len(pairs)), 0
    for scores, _, rho in scored:
        a, b = scores[:, chosen][:, first], scores[:, chosen][:, second]
        sums += ((a + b) ** 2).sum(axis=0) / max(2 * (1 + rho), 1e-9)
        differences += ((a - b) ** 2).sum(axis=0) / (2 * (1 - rho))
        runs += len(scores) - 1
    usable = all(1 + rho > 1e-6 for *_, rho in scored)
    p = np.array([chi_square_p(sums, runs) if usable else np.ones(len(pairs)), chi_square_p(differences, runs)])
    (kind, j), least = worst(p)
    return [
        Finding(
            part="client",
            name="two bits together, by run",
            where=f"{_bit(plan, chosen[first[j]])} with {_bit(plan, chosen[second[j]])}",
            observed=float((sums, differences)[kind][j] / runs),
            allowed=1.0,
            p=least,
        )
    ]


def _lags(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Whether a message lies where an earlier one, another copy, or the same place of the last run has lied."""
    protocol, width = plan.protocol, plan.schema.width
    one = protocol.release == "category"
    chance = (width - 1) * protocol.q if one else protocol.q
    chosen = columns(width)
    length = protocol.k * samples[0].n
    lags = {f"{step} before": step for step in (*LAGS, protocol.k) if 2 * step <= length}
    if protocol.k > 1:
        lags["in another copy"] = samples[0].n
    if samples[0].runs > 1:
        lags["at the same place of the last run"] = length
    hits, trials = dict.fromkeys(lags, 0), dict.fromkeys(lags, 0)
    for sample in samples:
        if one:
            lies = (sample.messages != sample.probe.ones[0])[:, None]
        else:
            lies = unpack(sample.messages, chosen) ^ sample.probe.bits(width)[chosen].astype(np.bool_)
        for name, step in lags.items():
            # Disjoint pairs, so that coincidences are independent and their number binomial.
            rows = lies[: len(lies) // (2 * step) * (2 * step)].reshape(-1, 2, step, lies.shape[1])
            pairs = rows[:, 0] & rows[:, 1]
            hits[name] += int(pairs.sum())
            trials[name] += pairs.size
    names = [name for name in lags if trials[name]]
    (place,), least = worst([binomial_p(hits[name], trials[name], chance**2) for name in names])
    name = names[place]
    return [
        Finding(
            part="client",
            name="lies that follow another",
            where=name,
            observed=hits[name] / trials[name],
            allowed=chance**2,
            p=least,
        )
    ]


def _dispersion(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Whether counts vary from run to run as much as independent messages do: neither more nor less."""
    protocol, width = plan.protocol, plan.schema.width
    value = mean = spread = 0.0
    whole, runs = 0.0, 0
    for sample in samples:
        free = sample.runs - 1
        peaked = free * free / sample.runs
        if protocol.release == "category":
            expected = sample.n * shown(plan, sample.probe.ones)
            value += float(((sample.counts - sample.counts.mean(axis=0)) ** 2 / expected).sum())
            mean += free * (width - 1)
            odd = float((sample.n / expected).sum()) - width * width - 2 * width + 2
            spread += free * 2 * (width - 1) + peaked * odd / sample.n
            continue
        scores, variance, rho = _scores(sample, plan)
        if variance < 1e-9:
            continue
        value += float((scores**2).sum())
        mean += free * width
        q = protocol.q
        peak = (1 - 6 * q * (1 - q)) / (protocol.k * sample.n * q * (1 - q)) if q else 0.0
        spread += free * (2 * width + 2 * width * (width - 1) * rho * rho) + peaked * width * peak
        joint = width * (1 + (width - 1) * rho)
        if joint * variance > NORMAL:
            whole += float((scores.sum(axis=1) ** 2).sum() / joint)
            runs += free
    if not mean:
        return []
    found = [
        Finding(
            part="client",
            name="counts from run to run",
            where="all bits",
            observed=value / mean,
            allowed=1.0,
            p=gamma_p(value, mean, spread),
        )
    ]
    if runs and width > 1:
        p = float(chi_square_p(whole, runs))
        found.append(
            Finding(
                part="client",
                name="messages from run to run",
                where="all bits together",
                observed=whole / runs,
                allowed=1.0,
                p=p,
            )
        )
    return found
