"""Tests of a client: its flip rates, their independence, mixed values, and the search for weak seeds.

P-values are exact under the plan unless users' fakes are among the messages; then they are normal approximations. A
family of tests counts as one: its smallest p-value, corrected by Bonferroni.

A run on equal records does not show what earlier records do to later ones, so one run mixes all test values in random
order. The counts of that run are known whatever the order of the messages; if the messages come in the order of the
records, their flips must also be independent of the record before.

A generator with a seed of s bits repeats itself among R independent runs with probability 1 − exp(−R(R − 1)/2^(s + 1)),
the birthday bound. A seed per run is found by many short runs, a seed per record or a short period by equal stretches
of noise within the long runs.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.bits.entropy import Entropy, draw, system
from hubbub.lab.audit.commands import Client
from hubbub.lab.audit.model import (
    Floats,
    MessageModel,
    Probe,
    Sample,
    check_reports,
    fake_pair,
    mix,
    number_of_fakes,
    probe_collection,
    row_hashes,
    unpack,
)
from hubbub.lab.audit.statistics import (
    Finding,
    bennett_p,
    binomial_p,
    chi_square_p,
    finding,
    gamma_p,
    hypergeometric_p,
    normal_p,
    shortfall,
    worst,
)
from hubbub.lab.mechanisms import UserFakes
from hubbub.model.plans import Plan
from hubbub.numeric.binomial import binomial_pmf, clopper_pearson
from hubbub.pipeline.records import Collection

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rate:
    """The observed flip rate of a bit, with a confidence interval."""

    label: str
    set: bool  # True if the bit was set in the record
    flips: int
    trials: int
    low: float
    high: float


def examine_flips(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Test the flip rate of each bit, over all probes and at each, and the number of fakes."""
    return [*_marginals(samples, plan), *_number_of_fakes(samples, plan)]


def rates(samples: Sequence[Sample], plan: Plan, level: float, most: int = 40) -> list[Rate]:
    """Return the flip rates of the first bits, with intervals that hold simultaneously with confidence 1 − level.

    The expected contribution of users' fakes is subtracted.
    """
    ones, flips, trials = observed_flips(samples, MessageModel(plan))
    level /= 4 * min(plan.schema.width, most)
    result = []
    for j in range(min(plan.schema.width, most)):
        for state in (False, True):
            rows = ones[:, j] == state
            count, total = round(float(flips[rows, j].sum())), int(trials[rows].sum())
            if total:
                count = min(max(count, 0), total)
                low, high = clopper_pearson(count, total, level)
                result.append(Rate(plan.schema.labels[j], state, count, total, float(low), float(high)))
    return result


def power(samples: Sequence[Sample], plan: Plan, level: float) -> tuple[float | None, float | None]:
    """Return the relative shortfall of q that is found with probability 95 %: on all bits, and on one bit only."""
    model, q, width = MessageModel(plan), plan.protocol.q, plan.schema.width
    if not samples or not model.flipped:
        return None, None
    sizes = np.array([plan.protocol.k * one.values for one in samples])
    if not model.form.alike:
        return shortfall(int(sizes.sum()), model.message_flip, level), None
    unset = np.array([1 - one.probe.bits(width).astype(np.int64) for one in samples])
    cells, lone = int(sizes @ unset.sum(axis=1)), int((sizes @ unset[:, [0, -1]]).max())
    share = level / (2 * width)
    if not model.has_user_fakes:
        return shortfall(cells, q, level), shortfall(lone, q, share) if lone else None
    _, variance, covariance = fake_moments(samples, model)
    count = unset.sum(axis=1)
    total = float((count * variance + count * (count - 1) * covariance).sum())
    reach = [(1.645 - float(ndtri(part / 2))) for part in (level, share)]
    first = min(1.0, reach[0] * math.sqrt(total) / (cells * q))
    alone = float(variance @ unset[:, 0])
    return first, min(1.0, reach[1] * math.sqrt(alone) / (lone * q)) if lone else None


def fake_moments(samples: Sequence[Sample], model: MessageModel) -> tuple[Floats, Floats, Floats]:
    """Return, by probe, the mean that fakes add to each count, the variance of a count, and the covariance of two."""
    rows = [model.moments(sample.values, int(sample.fakes.sum())) for sample in samples]
    gained, variance, covariance = np.array(rows).T
    return gained, variance, covariance


def observed_flips(samples: Sequence[Sample], model: MessageModel) -> tuple[NDArray[np.bool_], Floats, Numbers]:
    """Return, by probe and bit, if it was set and how often it was flipped, and the messages of each probe."""
    width, k = model.plan.schema.width, model.plan.protocol.k
    ones = np.array([sample.probe.bits(width) for sample in samples], np.bool_)
    trials = np.array([k * sample.values for sample in samples])
    counts = np.array([sample.counts.sum(axis=0) for sample in samples], np.float64)
    counts -= fake_moments(samples, model)[0][:, None]
    return ones, np.where(ones, trials[:, None] - counts, counts), trials


def _marginals(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Test flip rates: of all bits, of each bit over all values, of each value over all bits, and of each pair."""
    model, width = MessageModel(plan), plan.schema.width
    ones, flips, trials = observed_flips(samples, model)
    _, variance, covariance = fake_moments(samples, model)
    bits = [model.bit_name(j) for j in range(width)]
    values = [f"value: {one.probe.name}" for one in samples]
    names = ("flips of unset bits", "flips of set bits", "flips per bit", "flips per value")
    families: dict[str, list[Finding]] = {name: [] for name in names}

    def judge(name: str, where: list[str], counts: Floats, totals: Floats, chance: float, spread: Floats) -> None:
        p = _flip_p(counts, totals, chance, spread if model.has_user_fakes else None)
        tested = [i for i in range(len(where)) if totals[i]]
        rows = [finding("client", name, where[i], counts[i] / totals[i], chance, p[i]) for i in tested]
        families[name] += rows

    for state, text in ((False, "unset"), (True, "set")):
        cells = (ones == state).astype(np.float64)
        if not cells.any():
            continue
        each, size, chance = cells * flips, cells.sum(axis=1), model.flip(was_set=state)
        along, total = size * variance + size * (size - 1) * covariance, trials @ size[:, None]
        judge(
            f"flips of {text} bits", ["all bits"], each.sum(keepdims=True)[0], total, chance, along.sum(keepdims=True)
        )
        where = [f"{name}, {text}" for name in bits]
        judge("flips per bit", where, each.sum(axis=0), trials @ cells, chance, variance @ cells)
        where = [f"{name}, {text} bits" for name in values]
        judge("flips per value", where, each.sum(axis=1), trials * size, chance, along)
    chances = np.where(ones, model.flip(was_set=True), model.flip(was_set=False))
    totals, spread = (np.broadcast_to(row[:, None], flips.shape) for row in (trials.astype(np.float64), variance))
    (i, j), smallest = worst(_flip_p(flips, totals, chances, spread if model.has_user_fakes else None))
    where_worst, rate = f"{bits[j]} at {values[i]}", flips[i, j] / trials[i]
    return [
        *map(_worst_of, filter(None, families.values())),
        finding("client", "flips per bit and value", where_worst, rate, chances[i, j], smallest),
    ]


def _worst_of(family: list[Finding]) -> Finding:
    (place,), p = worst([one.p for one in family])
    return replace(family[place], p=p)


def _flip_p(counts: Floats, totals: Floats, chance: Floats | float, variance: Floats | None) -> Floats:
    """Return binomial p-values, or normal ones if fakes are among the messages and the variance is given."""
    if variance is None:
        return binomial_p(counts, totals, chance)
    off = counts - totals * chance
    z = normal_p(off / np.sqrt(np.maximum(variance, 1e-9)))
    return np.asarray(np.where(variance > 1e-9, z, np.abs(off) < 1e-6), np.float64)


def _number_of_fakes(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    model = MessageModel(plan)
    source = model.fakes
    if not isinstance(source, UserFakes) or not model.linked:
        return []
    m = source.distribution
    sizes = np.array([sample.values for sample in samples])
    drawn = np.array([sample.fakes.sum() for sample in samples])
    values, total = int(sizes.sum()), int(drawn.sum())
    (place,), smallest = worst(normal_p((drawn - sizes * m.mean) / np.sqrt(np.maximum(sizes * m.variance, 1e-9))))
    where = f"value: {samples[place].probe.name}"
    return [
        finding("client", "fakes per user", "all values", total / values, m.mean, float(source.p(total, values))),
        finding("client", "fakes per value", where, drawn[place] / sizes[place], m.mean, smallest),
    ]


MIN_VARIANCE = 10.0  # smallest variance of a count that is treated as normal
LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024)
"""Numbers of messages after which a client might reuse its noise."""
COLUMNS = 24  # largest number of bits of which all pairs are tested


def tested_bits(width: int) -> list[int]:
    """Return the bits that are tested in pairs: all, or a selection from the first to the last."""
    return sorted({*np.linspace(0, width - 1, min(width, COLUMNS), dtype=int).tolist()})


def examine_independence(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Test if flips are independent within a message, between messages, and between runs."""
    model = MessageModel(plan)
    found = [_repetition(samples, model)]
    if not model.linked:
        found += _pairs_across_runs(samples, model)
    elif model.form.pairs:
        found += _pairs(samples, model)
    if model.linked and not model.has_user_fakes and not any(one.grouped for one in samples):
        found += _lags(samples, model)
    return [*found, *_dispersion(samples, model)]


def _repetition(samples: Sequence[Sample], model: MessageModel) -> Finding:
    """Find runs that equal another byte for byte, if chance explains them with probability below 10⁻¹² only."""
    one = samples[0]
    # Equal messages have equal counts, and a count of variance v repeats with probability 1/√(4πv).
    variance = model.moments(one.n, int(one.fakes[0]))[1]
    luck = -0.5 * max(1, model.plan.schema.width - 1) * math.log(max(1.0, 4 * math.pi * variance))
    if model.linked and not any(sample.grouped for sample in samples):
        luck = min(luck, model.repeat_log_probability(one.n * model.plan.protocol.k))
    repeats, runs = sum(sample.repeats for sample in samples), sum(sample.runs for sample in samples)
    where = next((f"value: {sample.probe.name}" for sample in samples if sample.repeats), "all values")
    certain = repeats * (luck + math.log(runs)) < math.log(1e-12)
    return finding("client", "repeated runs", where, repeats, 0.0, 0.0 if certain else 1.0)


def pair_indices(width: int) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Return the bits that are tested in pairs, and the places of the first and of the second bit of each pair."""
    chosen = tested_bits(width)
    first, second = np.array(list(itertools.combinations(range(len(chosen)), 2)), np.int64).reshape(-1, 2).T
    return chosen, first, second


def _pairs(samples: Sequence[Sample], model: MessageModel) -> list[Finding]:
    """Test how often two bits are shown together in one message."""
    plan = model.plan
    chosen, first, second = pair_indices(plan.schema.width)
    if not first.size:
        return []
    fake = fake_pair(plan.schema, plan.protocol.q) if model.has_user_fakes else 0.0
    p, seen, allowed = [], [], []
    for sample in samples:
        bits = unpack(sample.messages, chosen).astype(np.float32)
        both = (bits.T @ bits)[first, second].astype(np.float64)
        chance = model.shown(sample.probe.ones)[chosen]
        together = chance[first] * chance[second]
        own, fakes = plan.protocol.k * sample.values, int(sample.fakes.sum())
        mean = own * together + fakes * fake
        if fakes:
            spread = own * together * (1 - together) + fakes * fake * (1 - fake)
            p.append(np.where(spread > 1e-9, normal_p((both - mean) / np.sqrt(np.maximum(spread, 1e-9))), both == mean))
        else:
            p.append(binomial_p(both, own, together))
        seen.append(both / (own + fakes))
        allowed.append(mean / (own + fakes))
    (i, j), smallest = worst(np.array(p))
    one, other = (model.bit_name(chosen[side[j]]) for side in (first, second))
    where = f"{one} with {other} at value: {samples[i].probe.name}"
    return [finding("client", "pairs of bits", where, seen[i][j], allowed[i][j], smallest)]


def _scores(sample: Sample, model: MessageModel) -> tuple[Floats, float, float]:
    """Return the standardized counts of each run, the variance of one count, and the correlation of two."""
    own = model.plan.protocol.k * sample.n * model.shown(sample.probe.ones)
    parts = [model.moments(sample.n, int(fakes)) for fakes in sample.fakes]
    scores = [
        (row - own - gained) / math.sqrt(max(variance, 1e-9))
        for row, (gained, variance, _) in zip(sample.counts, parts, strict=True)
    ]
    _, variance, covariance = parts[0]
    # Centred on the mean of the runs, because other tests judge that mean.
    return scores - np.mean(scores, axis=0), variance, covariance / max(variance, 1e-9)


def _pairs_across_runs(samples: Sequence[Sample], model: MessageModel) -> list[Finding]:
    """Test if the counts of two bits vary together across runs, which is all that split bits show of dependence."""
    chosen, first, second = pair_indices(model.plan.schema.width)
    scored = [_scores(sample, model) for sample in samples]
    if not first.size or any(variance < MIN_VARIANCE for _, variance, _ in scored):
        return []
    sums, differences, runs = np.zeros(first.size), np.zeros(first.size), 0
    for scores, _, rho in scored:
        a, b = scores[:, chosen][:, first], scores[:, chosen][:, second]
        sums += ((a + b) ** 2).sum(axis=0) / max(2 * (1 + rho), 1e-9)
        differences += ((a - b) ** 2).sum(axis=0) / (2 * (1 - rho))
        runs += len(scores) - 1
    usable = all(1 + rho > 1e-6 for *_, rho in scored)
    p = np.array([chi_square_p(sums, runs) if usable else np.ones(first.size), chi_square_p(differences, runs)])
    (kind, j), smallest = worst(p)
    where = f"{model.bit_name(chosen[first[j]])} with {model.bit_name(chosen[second[j]])}"
    return [finding("client", "pairs of bits across runs", where, (sums, differences)[kind][j] / runs, 1.0, smallest)]


def lag_steps(sample: Sample, model: MessageModel) -> dict[str, int]:
    """Return the distances at which flips are compared, by name."""
    k, n = model.plan.protocol.k, sample.n
    lags = {f"{step} messages earlier" if step > 1 else "1 message earlier": step for step in (*LAGS, k)}
    lags = {name: step for name, step in lags.items() if 2 * step <= k * n}
    if k > 1:
        lags["in another copy"] = n
    if sample.runs > 1:
        lags["at the same position in the previous run"] = k * n
    return lags


def disjoint_pairs(flips: NDArray[np.bool_], step: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the rows of all pairs at a distance; disjoint, so that coincidences are independent."""
    rows = flips[: len(flips) // (2 * step) * (2 * step)].reshape(-1, 2, step, flips.shape[1])
    return rows[:, 0].reshape(-1, flips.shape[1]), rows[:, 1].reshape(-1, flips.shape[1])


def lag_tables(samples: Sequence[Sample], model: MessageModel) -> dict[str, list[Numbers]]:
    """Return, by distance, how often each unit is flipped in both messages of a pair, in either, and all pairs.

    Every table has a row for each sample and a column for each unit.
    """
    chosen, lags = tested_bits(model.plan.schema.width), lag_steps(samples[0], model)
    found: dict[str, list[tuple[Numbers, ...]]] = {name: [] for name in lags}
    for sample in samples:
        flips = model.flips(sample, chosen)
        for name, step in lags.items():
            a, b = disjoint_pairs(flips, step)
            if len(a):
                size = np.full(a.shape[1], len(a))
                found[name].append(((a & b).sum(axis=0), a.sum(axis=0), b.sum(axis=0), size))
    return {name: [np.array(part) for part in zip(*rows, strict=True)] for name, rows in found.items() if rows}


def _lags(samples: Sequence[Sample], model: MessageModel) -> list[Finding]:
    """Test if a unit is flipped where an earlier message, another copy, or the previous run flipped it too."""
    chance = model.message_flip**2
    found = lag_tables(samples, model).items()
    tables = {name: (int(both.sum()), int(size.sum())) for name, (both, _, _, size) in found}
    (place,), smallest = worst([binomial_p(hits, trials, chance) for hits, trials in tables.values()])
    name, (hits, trials) = list(tables.items())[place]
    return [finding("client", "repeated flips", name, hits / trials, chance, smallest)]


def _dispersion(samples: Sequence[Sample], model: MessageModel) -> list[Finding]:
    """Test if counts vary across runs as those of independent messages do, neither more nor less."""
    protocol, width = model.plan.protocol, model.plan.schema.width
    value = mean = spread = 0.0
    whole, runs = 0.0, 0
    for sample in samples:
        free = sample.runs - 1
        peaked = free * free / sample.runs
        if not model.form.alike:
            expected = sample.n * model.shown(sample.probe.ones)
            value += float(((sample.counts - sample.counts.mean(axis=0)) ** 2 / expected).sum())
            mean += free * (width - 1)
            odd = float((sample.n / expected).sum()) - width * width - 2 * width + 2
            spread += free * 2 * (width - 1) + peaked * odd / sample.n
            continue
        scores, variance, rho = _scores(sample, model)
        if variance < 1e-9:
            continue
        value += float((scores**2).sum())
        mean += free * width
        pq = protocol.q * (1 - protocol.q)
        peak = (1 - 6 * pq) / (protocol.k * sample.n * pq) if pq else 0.0
        spread += free * (2 * width + 2 * width * (width - 1) * rho * rho) + peaked * width * peak
        joint = width * (1 + (width - 1) * rho)
        if joint * variance > MIN_VARIANCE:
            whole += float((scores.sum(axis=1) ** 2).sum() / joint)
            runs += free
    found = []
    if mean:
        p = gamma_p(value, mean, spread)
        found.append(finding("client", "variance of counts across runs", "all bits", value / mean, 1.0, p))
    if mean and runs and width > 1:
        p = float(chi_square_p(whole, runs))
        found.append(finding("client", "variance of totals across runs", "all bits together", whole / runs, 1.0, p))
    return found


COUNTS_NAME, BEFORE_NAME = "counts of mixed values", "flips after another record"
Bits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """The messages of one run on records of mixed values."""

    records: NDArray[np.uint8]  # a row of bits per record
    counts: NDArray[np.int64]
    messages: NDArray[Any]
    fakes: int


def send_mixed(client: Client, plan: Plan, probes: list[Probe], n: int, *, entropy: Entropy = system) -> Mixed:
    """Send n records, drawn from the probes, in one run; raises WireError on illegal reports."""
    chosen = (draw(entropy, n) % np.uint64(len(probes))).astype(np.int64)
    records = np.array([probe.bits(plan.schema.width) for probe in probes])[chosen]
    reports = client(Collection.from_values(records, plan.schema), plan)
    check_reports(reports, plan, n)
    model = MessageModel(plan)
    return Mixed(records, model.form.counts(reports.messages), reports.messages, number_of_fakes(reports, n))


def examine_mixed(mixed: Mixed, plan: Plan) -> tuple[list[Finding], bool | None]:
    """Return the tests of a mixed run, and if its messages are in the order of the records (None if unknown)."""
    model = MessageModel(plan)
    found = [_mixed_counts(mixed, model)]
    if not model.attributable:
        return found, None
    chosen = tested_bits(plan.schema.width)
    truth = mixed.records[:, chosen].astype(np.bool_)
    shown = model.form.shown(mixed.messages, chosen)
    aligned = [rows ^ truth for rows in _layouts(shown, len(truth), plan.protocol.k)]
    in_order = _in_order(aligned, truth, model)
    if in_order is None or not in_order[1]:
        return found, None if in_order is None else False
    return [*found, _after(aligned[in_order[0]], truth, [model.bit_name(j) for j in chosen])], True


def _mixed_counts(mixed: Mixed, model: MessageModel) -> Finding:
    """Test how often each bit is shown: a sum of independent terms of known mean and variance."""
    n, k = len(mixed.records), model.plan.protocol.k
    ones = mixed.records.sum(axis=0, dtype=np.float64)
    lit, dark = 1 - model.flip(was_set=True), model.flip(was_set=False)
    gained, _, _ = model.moments(n, mixed.fakes)
    noise = model.moments(n, mixed.fakes)[1] - k * n * model.plan.protocol.q * (1 - model.plan.protocol.q)
    mean = k * (ones * lit + (n - ones) * dark) + gained
    variance = k * (ones * lit * (1 - lit) + (n - ones) * dark * (1 - dark)) + noise
    (j,), p = worst(bennett_p(mixed.counts - mean, variance))
    return finding("client", COUNTS_NAME, model.bit_name(j), mixed.counts[j] / (k * n), mean[j] / (k * n), p)


def _layouts(shown: Bits, n: int, k: int) -> list[Bits]:
    """Return the first copies if copies follow each other, and if all first copies come before all second ones."""
    return [shown[:n], shown[::k]] if k > 1 else [shown]


def _in_order(aligned: list[Bits], truth: Bits, model: MessageModel) -> tuple[int, bool] | None:
    """Return the layout that agrees best with the records, and if it is in order; None if noise hides the order.

    Messages are in order if they differ from the records in clearly fewer bits than messages in random order would.
    """
    share, (n, width) = truth.mean(axis=0), truth.shape
    lit, dark = 1 - model.flip(was_set=True), model.flip(was_set=False)
    margin = 8 * width * math.sqrt(0.25 / n)  # eight standard deviations, even if all bits are flipped together
    planned, shown = float((share * (1 - lit) + (1 - share) * dark).sum()), share * lit + (1 - share) * dark
    if _disagreement(share, shown) - planned < 2 * margin:
        return None
    wrong = [float(rows.mean(axis=0).sum()) for rows in aligned]
    best = int(np.argmin(wrong))
    shown = (aligned[best] ^ truth).mean(axis=0)
    return best, wrong[best] < _disagreement(share, shown) - margin


def _disagreement(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return the expected number of bits in which independent records with these frequencies differ."""
    return float((one * (1 - two) + (1 - one) * two).sum())


def _after(flips: Bits, truth: Bits, names: list[str]) -> Finding:
    """Test if a bit is flipped more often after a record in which it is set, for unset and for set bits."""
    p, shares = [], []
    before, now, flipped = truth[:-1], truth[1:], flips[1:]
    for lit in (False, True):
        here = now == lit
        total, first, second = here.sum(axis=0), (here & before).sum(axis=0), (here & flipped).sum(axis=0)
        both = (here & before & flipped).sum(axis=0)
        p.append(hypergeometric_p(both[None], first[None], second[None], total[None]))
        shares.append((both / np.maximum(first, 1), (second - both) / np.maximum(total - first, 1)))
    (state, j), smallest = worst(np.array(p))
    where = f"{names[j]}, {('unset', 'set')[state]}, after a record in which it is set"
    return finding("client", BEFORE_NAME, where, shares[state][0][j], shares[state][1][j], smallest)


CERTAIN = math.log(1e-9)  # expected repetitions of an honest client, in logarithms
MAX_VALUES = 20_000  # most values of a short run
MAX_WINDOWS = 1 << 20  # most messages that are searched for equal stretches
SEARCH_SECONDS = 20.0  # the search by short runs ends after this time
RUNS_NAME, NOISE_NAME = "repeated short runs", "repeated stretches of noise"


@dataclass(frozen=True, slots=True)
class Search:
    """The outcome of many short runs."""

    runs: int
    values: int  # values of each run
    repeats: int  # runs whose output equals that of an earlier run, byte for byte
    log_expected: float  # logarithm of a bound on the expected number of equal pairs of an honest client's runs

    @property
    def seed_bits(self) -> int:
        """The largest seed in bits that these runs find with probability 95 %; 0 if none.

        >>> Search(628, 10, 0, -50.0).seed_bits, Search(2600, 10, 0, -50.0).seed_bits
        (16, 20)
        """
        return max(0, math.floor(math.log2(max(1.0, self.runs * (self.runs - 1) / (2 * math.log(20))))))

    def finding(self) -> Finding:
        """Return the search as a test: by Markov's inequality, p is at most the expected number of equal pairs."""
        p = math.exp(min(0.0, self.log_expected)) if self.repeats else 1.0
        return finding("client", RUNS_NAME, f"{self.runs:,} runs of {self.values:,} values", self.repeats, 0.0, p)


def runs_needed(seed_bits: int) -> int:
    """Return the number of runs that find a seed of this size with probability 95 %.

    >>> [runs_needed(bits) for bits in (16, 20, 24, 32)]
    [628, 2507, 10027, 160417]
    """
    return math.ceil(0.5 + math.sqrt(0.25 + 2 * math.log(20) * 2**seed_bits))


def run_values(plan: Plan, runs: int) -> int | None:
    """Return the values per run that rule out equal runs of an honest client; None if there is too little noise."""
    target = CERTAIN - 2 * math.log(max(runs, 2))
    n = 1
    while n <= MAX_VALUES:
        if _log_repeat(plan, n) <= target:
            return n
        n = math.ceil(n * 1.3)
    return None


def search(client: Client, plan: Plan, probe: Probe, runs: int, progress: Callable[[], None]) -> Search | None:
    """Send one record in many short runs and look for equal outputs; None if the plan has too little noise."""
    n = run_values(plan, runs) if runs else None
    if n is None:
        return None
    collection, start = probe_collection(plan.schema, probe, n), time.monotonic()
    seen: set[bytes] = set()
    done = 0
    while done < runs and (done < 2 or time.monotonic() - start < SEARCH_SECONDS):
        seen.add(client(collection, plan).messages.tobytes())
        done += 1
        progress()
    expected = math.log(done * (done - 1) / 2) + _log_repeat(plan, n)
    return Search(done, n, done - len(seen), expected)


def _log_repeat(plan: Plan, n: int) -> float:
    """Return ln of an upper bound on the probability that two runs on n equal records write the same messages.

    Messages of whole records and categories are independent. Split bits may be written in any order, so only their
    counts are compared; each is a sum of kn flips and of independent fakes, which can only lower Σ P(s)².
    """
    model, protocol = MessageModel(plan), plan.protocol
    if not model.flipped or (model.linked and model.has_user_fakes):
        return 0.0
    if model.linked:
        return model.repeat_log_probability(n * protocol.k)
    pmf = binomial_pmf(n * protocol.k, protocol.q)
    return plan.schema.width * math.log(float(pmf @ pmf))


def stretches(samples: Sequence[Sample], plan: Plan, log_repeat: float | None = None) -> list[Finding]:
    """Look for stretches of noise that occur twice, as those of a short period or of a weak seed per record do.

    Two stretches of w messages are equal with probability c^w, and at most c^((w + 1)/2) if they overlap, where c is
    the probability that two messages are equal, under the plan unless its logarithm is given. w is chosen so that none
    is expected among all pairs.
    """
    model = MessageModel(plan)
    if not model.attributable or any(one.grouped for one in samples):
        return []
    share = MAX_WINDOWS // len(samples)
    rows = np.concatenate([model.noise(one)[:share] for one in samples])
    c = model.repeat_log_probability(1) if log_repeat is None else log_repeat
    pairs, w = 2 * math.log(len(rows)), 1
    while pairs + (w if w == 1 else (w + 1) / 2) * c > CERTAIN and w < len(rows):
        w *= 2
    if 4 * w > len(rows):
        return []
    found = _equal_windows(rows, w)
    p = math.exp(pairs + (w if w == 1 else (w + 1) / 2) * c) if found is not None else 1.0
    where = f"{w:,} messages" if w > 1 else "1 message"
    if found is not None:
        where += f", again after {found[1] - found[0]:,}"
    return [finding("client", NOISE_NAME, where, float(found is not None), 0.0, p)]


def _equal_windows(rows: NDArray[Any], w: int) -> tuple[int, int] | None:
    """Return the positions of two equal windows of w rows (a power of two), or None."""
    hashes = row_hashes(rows)
    step = 1
    while step < w:
        hashes = mix(hashes[:-step], hashes[step:])
        step *= 2
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    for place in same[:16]:
        first, second = int(order[place]), int(order[place + 1])
        if (rows[first : first + w] == rows[second : second + w]).all():
            return first, second
    return None
