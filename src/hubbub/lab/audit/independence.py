"""Tests of the independence of a client's flips: between bits, between messages, and between runs.

P-values are exact under the plan unless users' fakes are among the messages; then they are normal approximations.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.model import Floats, MessageModel, fake_pair, unpack
from hubbub.lab.audit.probes import Sample
from hubbub.lab.audit.statistics import Finding, binomial_p, chi_square_p, finding, gamma_p, normal_p, worst
from hubbub.model.plans import Plan

MIN_VARIANCE = 10.0  # smallest variance of a count that is treated as normal
LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024)
"""Numbers of messages after which a client might reuse its noise."""
COLUMNS = 24  # largest number of bits of which all pairs are tested


def columns(width: int) -> list[int]:
    """Return the bits that are tested in pairs: all, or a selection from the first to the last."""
    return sorted({*np.linspace(0, width - 1, min(width, COLUMNS), dtype=int).tolist()})


def examine(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Test if flips are independent within a message, between messages, and between runs."""
    model = MessageModel(plan)
    found = [_repetition(samples, model)]
    if not model.linked:
        found += _pairs_across_runs(samples, model)
    elif plan.protocol.sends_records:
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
    chosen = columns(width)
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


def _lags(samples: Sequence[Sample], model: MessageModel) -> list[Finding]:
    """Test if a unit is flipped where an earlier message, another copy, or the previous run flipped it too."""
    chosen, chance = columns(model.plan.schema.width), model.message_flip
    lags = lag_steps(samples[0], model)
    hits, trials = dict.fromkeys(lags, 0), dict.fromkeys(lags, 0)
    for sample in samples:
        flips = model.flips(sample.messages, sample.probe, chosen)
        for name, step in lags.items():
            earlier, later = disjoint_pairs(flips, step)
            pairs = earlier & later
            hits[name] += int(pairs.sum())
            trials[name] += pairs.size
    names = [name for name in lags if trials[name]]
    (place,), smallest = worst([binomial_p(hits[name], trials[name], chance**2) for name in names])
    name = names[place]
    return [finding("client", "repeated flips", name, hits[name] / trials[name], chance**2, smallest)]


def _dispersion(samples: Sequence[Sample], model: MessageModel) -> list[Finding]:
    """Test if counts vary across runs as those of independent messages do, neither more nor less."""
    protocol, width = model.plan.protocol, model.plan.schema.width
    value = mean = spread = 0.0
    whole, runs = 0.0, 0
    for sample in samples:
        free = sample.runs - 1
        peaked = free * free / sample.runs
        if protocol.sends_category:
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
