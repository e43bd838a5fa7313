"""Whether a client lies as independently as its plan says: pairs of bits, of messages, and of runs.

All p-values are exact under the plan's law, as long as no fakes of users are among the messages; with them, normal.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from hubbub.lab.audit.findings import Finding, worst
from hubbub.lab.audit.flips import Floats, columns, fake_pair, moments, name_bit, shown
from hubbub.lab.audit.probes import Sample, drawn_by_users, unpack
from hubbub.lab.audit.statistics import binomial_p, chi_square_p, gamma_p, normal_p
from hubbub.plans import Plan

NORMAL = 10.0
"""The least variance of a count that is taken as normal."""
LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024)
"""Messages after which noise might be used again."""


def examine(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Whether lies go together: within a message, from one to the next, and from run to run."""
    found = [_repetition(samples, plan)]
    if plan.protocol.sends_bits:
        found += _runs_of_pairs(samples, plan)
    elif plan.protocol.sends_records:
        found += _pairs(samples, plan)
    if not plan.protocol.sends_bits and not drawn_by_users(plan):
        found += _lags(samples, plan)
    return [*found, *_dispersion(samples, plan)]


def _repetition(samples: Sequence[Sample], plan: Plan) -> Finding:
    """Runs that repeat each other to the byte, where chance alone would need more luck than 10⁻¹²."""
    q, k, width = plan.protocol.q, plan.protocol.k, plan.schema.width
    one, category = samples[0], plan.protocol.sends_category
    # Equal messages have equal counts, and one count of variance v repeats with probability 1/√(4πv).
    luck = -0.5 * max(1, width - 1) * math.log(max(1.0, 4 * math.pi * moments(plan, one.n, int(one.fakes[0]))[1]))
    if not plan.protocol.sends_bits:
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
    fake = fake_pair(plan.schema, plan.protocol.q) if drawn_by_users(plan) else 0.0
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
    one, other = (name_bit(plan, chosen[side[j]]) for side in (first, second))
    return [
        Finding(
            part="client",
            name="two bits together",
            where=f"{one} with {other} at value: {samples[i].probe.name}",
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
            where=f"{name_bit(plan, chosen[first[j]])} with {name_bit(plan, chosen[second[j]])}",
            observed=float((sums, differences)[kind][j] / runs),
            allowed=1.0,
            p=least,
        )
    ]


def _lags(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Whether a message lies where an earlier one, another copy, or the same place of the last run has lied."""
    protocol, width = plan.protocol, plan.schema.width
    one = protocol.sends_category
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
            flips = (sample.messages != sample.probe.ones[0])[:, None]
        else:
            flips = unpack(sample.messages, chosen) ^ sample.probe.bits(width)[chosen].astype(np.bool_)
        for name, step in lags.items():
            # Disjoint pairs, so that coincidences are independent and their number binomial.
            rows = flips[: len(flips) // (2 * step) * (2 * step)].reshape(-1, 2, step, flips.shape[1])
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
        if protocol.sends_category:
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
