"""Diagnoses of noise that is not independent: none at all, equal copies, reused noise, and one coin for several bits.

These tests hold whatever the flip probabilities are: they compare joint frequencies with the observed ones of each bit,
given which the number of coincidences is hypergeometric. So a wrong flip probability is not mistaken for dependence.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.faults import Diagnosis
from hubbub.lab.audit.independence import columns, disjoint_pairs, lag_steps, pair_indices
from hubbub.lab.audit.model import MessageModel, row_hashes
from hubbub.lab.audit.probes import Sample
from hubbub.lab.audit.seeds import noise
from hubbub.lab.audit.statistics import binomial_p, hypergeometric_p, worst

MIN_NOISE = -30.0  # ln of the probability of equal messages below which equality is no accident


def without_noise(samples: Sequence[Sample], model: MessageModel) -> list[Diagnosis]:
    """Diagnose output that is a function of the value: the record itself, a fixed message, or one constant for all."""
    if model.plan.protocol.clear or model.has_user_fakes:
        return []
    luck = sum(_luck(one, model) for one in samples)
    if luck > MIN_NOISE or not all(constant(one, model) for one in samples):
        return []
    sent, p = sum(model.plan.protocol.k * one.values for one in samples), math.exp(max(luck, -700.0))
    if all(_unchanged(one, model) for one in samples):
        return [Diagnosis("clear records", f"records are sent unchanged: nothing was flipped in {sent:,} messages", p)]
    if len(samples) > 1 and len({(one.messages[:1].tobytes(), one.counts[0].tobytes()) for one in samples}) == 1:
        text = f"every message is the same constant, whatever the value ({sent:,} messages of {len(samples)} values)"
        return [Diagnosis("constant output", text, p)]
    text = "the output is deterministic: equal records always give equal messages"
    return [Diagnosis("deterministic output", text, p)]


def constant(one: Sample, model: MessageModel) -> bool:
    """Return True if all messages of a value are equal, or all counts of split bits."""
    seen = one.messages if model.linked else one.counts
    return bool((seen == seen[0]).all())


def _unchanged(one: Sample, model: MessageModel) -> bool:
    if model.linked:
        return not noise(one, model).any()
    plain = one.probe.bits(model.plan.schema.width).astype(np.int64)
    return bool((one.counts == model.plan.protocol.k * one.n * plain).all())


def _luck(one: Sample, model: MessageModel) -> float:
    """Return ln of a bound on the probability that all messages, or all counts of split bits, are equal."""
    if model.linked:
        # Disjoint pairs of messages are independent.
        return model.repeat_log_probability(len(one.messages) // 2)
    variance = model.moments(one.n, 0)[1]
    width = model.plan.schema.width
    return -0.5 * (one.runs // 2) * width * math.log(max(1.0, 4 * math.pi * variance))


def log_repeat(samples: Sequence[Sample], model: MessageModel) -> float:
    """Return ln of the probability that two messages carry equal noise: the planned one, or the observed if larger."""
    planned = model.repeat_log_probability(1)
    if not model.linked or model.has_user_fakes:
        return planned
    _, sizes = np.unique(row_hashes(np.concatenate([noise(one, model) for one in samples])), return_counts=True)
    equal, total = float((sizes * (sizes - 1.0)).sum()), float(sizes.sum())
    return max(planned, math.log(max(equal, 1.0) / (total * (total - 1))))


def reused_noise(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose copies that are equal, noise drawn once per run, and records that depend on earlier ones."""
    if not model.linked or model.has_user_fakes or any(one.grouped for one in samples):
        return []
    return _per_run(samples, model) or _copies(samples, model, level) or _earlier(samples, model, level)


def _per_run(samples: Sequence[Sample], model: MessageModel) -> list[Diagnosis]:
    runs = [run for one in samples for run in np.split(one.messages, one.runs)]
    luck = sum(model.repeat_log_probability(len(run) // 2) for run in runs)
    if luck > MIN_NOISE or any((run != run[0]).any() for run in runs):
        return []
    text = "noise is drawn once per run: all messages of a run are equal, although different runs differ"
    return [Diagnosis("reused noise", text, math.exp(max(luck, -700.0)))]


def _copies(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    k = model.plan.protocol.k
    if k < 2:
        return []
    # Copies follow each other, or all first copies come before all second ones.
    for adjacent in (True, False):
        equal = total = 0
        for one in samples:
            shape = (one.runs, one.n, k, -1) if adjacent else (one.runs, k, one.n, -1)
            rows = one.messages.reshape(shape)
            first, second = (rows[:, :, 0], rows[:, :, 1]) if adjacent else (rows[:, 0], rows[:, 1])
            equal += int((first == second).all(axis=-1).sum())
            total += one.runs * one.n
        p = float(binomial_p(equal, total, math.exp(model.repeat_log_probability(1))))
        if equal == total and 2 * p <= level:
            text = f"the {k} copies of a record are identical: they share one draw of noise instead of {k}"
            return [Diagnosis("equal copies", f"{text} ({equal:,} of {total:,} pairs of copies are equal)", 2 * p)]
    return []


def _earlier(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Compare the flips of each unit with those of earlier messages; one table per probe, pooled over probes."""
    chosen, lags = columns(model.plan.schema.width), lag_steps(samples[0], model)
    cells: dict[str, list[tuple[NDArray[np.int64], ...]]] = {name: [] for name in lags}
    for sample in samples:
        flips = model.flips(sample.messages, sample.probe, chosen)
        for name, step in lags.items():
            a, b = disjoint_pairs(flips, step)
            if len(a):
                size = np.full(a.shape[1], len(a))
                cells[name].append(((a & b).sum(axis=0), a.sum(axis=0), b.sum(axis=0), size))
    names = [name for name in lags if cells[name]]
    if not names:
        return []
    tables = [[np.array(part) for part in zip(*cells[name], strict=True)] for name in names]
    (i, j), p = worst(np.array([hypergeometric_p(*table) for table in tables]))
    if p > level:
        return []
    both, first, second, size = tables[i]
    expected = float((first[:, j] * second[:, j] / size[:, j]).sum())
    unit = "the category" if model.plan.protocol.sends_category else model.bit_name(chosen[j])
    seen = f"{int(both[:, j].sum()):,} of {int(size[:, j].sum()):,} pairs of messages, expected {expected:,.4g}"
    if names[i] == "in another copy":
        text = f"the copies of a record are not independent: {unit} is flipped in both copies in {seen}"
        return [Diagnosis("equal copies", text, p)]
    where = names[i] if "run" in names[i] else f"in the message {names[i]}"
    return [
        Diagnosis(
            "dependent records", f"records depend on earlier ones: {unit} is flipped here and {where} in {seen}", p
        )
    ]


def shared_coins(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose bits of a message that are flipped together, or never together."""
    plan = model.plan
    chosen, first, second = pair_indices(plan.schema.width)
    if not first.size or not plan.protocol.sends_records or model.has_user_fakes or plan.protocol.clear:
        return []
    tables = []
    for sample in samples:
        flips = model.flips(sample.messages, sample.probe, chosen).astype(np.float32)
        both, single = (flips.T @ flips)[first, second].astype(np.float64), flips.sum(axis=0, dtype=np.float64)
        tables.append((both, single[first], single[second], np.full(first.size, float(len(flips)))))
    stacked = [np.array(part) for part in zip(*tables, strict=True)]
    p = np.minimum(1.0, first.size * hypergeometric_p(*stacked))
    bad = np.flatnonzero(p <= level)
    if not bad.size:
        return []
    j = int(np.argmin(p))
    both_seen, size = stacked[0][:, j].sum(), stacked[3][:, j].sum()
    expected = float((stacked[1][:, j] * stacked[2][:, j] / stacked[3][:, j]).sum())
    names = [model.bit_name(chosen[side[j]]) for side in (first, second)]
    numbers = f"both in {int(both_seen):,} of {int(size):,} messages, expected {expected:,.4g} from their single rates"
    if bad.size == first.size and first.size > 1 and all(stacked[0].sum(axis=0) == stacked[1].sum(axis=0)):
        text = f"one coin flips all bits of a record together instead of one coin per bit: {names[0]} and {names[1]}, "
        return [Diagnosis("correlated bits", text + numbers, float(p[j]))]
    many = f" and {bad.size - 1:,} other pairs" if bad.size > 2 else " and 1 other pair" if bad.size == 2 else ""
    how = "together" if both_seen > expected else "at the expense of each other"
    text = f"flips of bits are not independent: {names[0]} and {names[1]}{many} are flipped {how}, {numbers}"
    return [Diagnosis("correlated bits", text, float(p[j]))]
