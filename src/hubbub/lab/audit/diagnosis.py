"""Diagnoses of a failed audit: what is wrong, in the terms of the protocol, from the root cause outwards.

Diagnoses are sought only if a test rejects the plan, so a program that follows its plan gets one with probability at
most 1 − confidence. Each kind of defect has its own test, at an equal share of that probability, whose null hypothesis
is the absence of this defect alone. Where messages are not independent, other tests are not trustworthy and are left
out: correct the first defect and audit again.

Tests of dependence hold whatever the flip probabilities are: they compare joint frequencies with the observed ones of
each bit, given which the number of coincidences is hypergeometric. Wrong frequencies are explained by the simplest
grouping of cells (a value and a bit) that fits: one rate for all, one for set and one for unset bits, one per bit, one
per value, or one per bit and state. A grouping fits if no cell differs from the rest of its group. P-values are exact
without fakes and conservative with them; those of all groups are adjusted by Holm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.client import (
    BEFORE_NAME,
    COUNTS_NAME,
    NOISE_NAME,
    RUNS_NAME,
    Search,
    examine_independence,
    fake_moments,
    lag_tables,
    observed_flips,
    pair_indices,
    stretches,
    tested_bits,
)
from hubbub.lab.audit.model import Floats, MessageModel, Sample, row_hashes
from hubbub.lab.audit.shuffler import LINKED_NAME
from hubbub.lab.audit.statistics import (
    INTERVAL,
    Diagnosis,
    Finding,
    Harm,
    Kind,
    bennett_p,
    binomial_p,
    holm,
    hypergeometric_p,
    rate_text,
    worst,
)
from hubbub.lab.mechanisms import UserFakes
from hubbub.model.plans import Plan
from hubbub.numeric.binomial import clopper_pearson

RARE = 1e-3  # expected repetitions above which the observed noise explains them
_REPEATS = ("repeated runs", RUNS_NAME, NOISE_NAME)
FAMILIES = 5  # tests of dependence between records, between bits, of flips, of fakes, and of mixed values
_FOLLOW_FROM_RATES = (
    "flips ", "pairs of bits", "repeated flips", "variance of ", COUNTS_NAME, "fakes per ",
)  # fmt: skip
"""Beginnings of the names of tests that reject if flips or fakes are too many, although all are independent."""

_CLIENT: dict[str, tuple[Kind, str]] = {
    "pairs of bits across runs": ("correlated bits", "the counts of {where} vary together from run to run"),
    "pairs of bits": ("correlated bits", "{where}: the two bits are shown together too often or too rarely"),
    "repeated flips": ("dependent records", "a message is flipped where another one was flipped too: {where}"),
    "variance of counts across runs": (
        "reused noise",
        "counts vary {more} from run to run than with independent flips",
    ),
    "variance of totals across runs": (
        "reused noise",
        "totals vary {more} from run to run than with independent flips",
    ),
    "fakes per user": ("number of fakes", "the number of users' fakes is not as planned"),
    "fakes per value": ("number of fakes", "the number of users' fakes depends on the value: {where}"),
    COUNTS_NAME: (
        "dependent records",
        "records depend on earlier ones: in a run of mixed values, {where} is shown too often or too rarely",
    ),
    BEFORE_NAME: (
        "dependent records",
        "records depend on earlier ones: the flip rate of {where}, is not that after other records",
    ),
}
_SHUFFLER = {
    "input block against output block": "the order of arrival shows: too many or too few messages move {where}",
    "correlation with arrival": "the order of arrival shows: earlier arrivals tend to leave earlier or later",
    "ascents": "the order is not uniform: too many messages follow an earlier arrival, as after sorting by short keys",
    "fixed points": "messages keep their position",
    "neighbours kept together": "neighbouring messages stay together, {where}",
    "first and last message": "the {where} message is not uniform",
    "distance between former neighbours": "former neighbours are too close together or too far apart",
    "repeated orders": "the same order was used again, as with a fixed seed",
    "number of shuffler fakes": "the shuffler adds {more} fakes than planned, {where}",
    LINKED_NAME: "the answers of one person leave next to each other too often or too rarely",
    "distribution of shuffler fakes": "the numbers of the shuffler's fakes do not have the planned distribution",
}


def diagnose(
    violations: Sequence[Finding],
    samples: Sequence[Sample],
    plan: Plan,
    alpha: float,
    search: Search | None = None,
) -> list[Diagnosis]:
    """Return the defects that explain the tests that reject the plan; none if no test does.

    ``alpha`` bounds the probability of naming a defect that is absent.
    """
    client = [one for one in violations if one.part == "client"]
    found = [
        Diagnosis("illegal messages", f"{one.name} ({one.where})" if one.where else one.name, one.p)
        for one in violations
        if one.part == "wire"
    ]
    if client:
        found += _of_client(client, samples, plan, alpha, search)
    found += _of_shuffler([one for one in violations if one.part == "shuffler"])
    if not any(one.harm == "privacy" for one in found):
        found += [_attack(one) for one in violations if one.part == "pipeline"][:1]
    return found


def _of_client(
    client: Sequence[Finding], samples: Sequence[Sample], plan: Plan, alpha: float, search: Search | None
) -> list[Diagnosis]:
    model, level = MessageModel(plan), alpha / FAMILIES
    found = without_noise(samples, model)
    if found:
        return found
    repeats = [one for one in client if one.name in _REPEATS]
    weak = repeats and _weak_seed(repeats, samples, model, search)
    found = reused_noise(samples, model, level) or (weak or [])
    if found:
        return found
    shared = shared_coins(samples, model, level)
    rates = flip_rates(samples, model, level, independent=not shared)
    fakes = wrong_fakes(samples, model, level)
    # A wrong distribution of the fakes looks like wrong flips, and is the more specific explanation.
    if any(one.kind == "distribution of fakes" for one in fakes):
        rates = []
    found = [*shared, *rates, *fakes]
    if repeats and not any(one.harm == "privacy" for one in found):
        found.append(_seed(repeats[0]))
    return [*found, *_unexplained(client, found, samples, plan, level)]


def _weak_seed(
    repeats: Sequence[Finding], samples: Sequence[Sample], model: MessageModel, search: Search | None
) -> list[Diagnosis]:
    """Return a weak seed if noise repeats more often than the observed, possibly too small, noise explains."""
    noisy = [one for one in samples if not constant(one, model)]
    if not noisy:
        return []
    by_name = {one.name: one for one in repeats}
    if "repeated runs" in by_name and any(one.repeats for one in noisy):
        return [_seed(by_name["repeated runs"])]
    equal = log_repeat(noisy, model)
    if search is not None and RUNS_NAME in by_name and noisy[0] is samples[0]:
        usual = 2 * math.log(search.runs) + search.values * model.plan.protocol.k * equal
        if not model.linked or usual < math.log(RARE):
            return [_seed(by_name[RUNS_NAME])]
    again = stretches(noisy, model.plan, equal) if NOISE_NAME in by_name else []
    return [_seed(one) for one in again if one.observed]


def _unexplained(
    client: Sequence[Finding], found: Sequence[Diagnosis], samples: Sequence[Sample], plan: Plan, level: float
) -> list[Diagnosis]:
    """Describe the tests that the diagnoses do not explain; more noise than planned explains no leak."""
    state = [one for one in client if one.name == BEFORE_NAME]
    if any(one.harm == "privacy" for one in found):
        return [_of_test(one) for one in state]
    client = sorted(client, key=lambda one: one.name != BEFORE_NAME)
    rest = [one for one in client if not (found and one.name.startswith(_FOLLOW_FROM_RATES)) or one in state]
    rest = [one for one in rest if one.name not in _REPEATS]
    if found:
        rest += _with_observed_rate(client, samples, plan, level)
    named = [one for one in rest if not one.bound] or rest
    return [_of_test(one) for one in _first_of_each(named)]


def _with_observed_rate(
    client: Sequence[Finding], samples: Sequence[Sample], plan: Plan, level: float
) -> list[Finding]:
    """Return the tests of independence that reject also under the observed flip probability instead of the planned one.

    Where bits have different flip probabilities, tests that sum over bits cannot be repeated and count as rejected.
    """
    model = MessageModel(plan)
    names = {one.name for one in client}
    if model.has_user_fakes or not model.flipped or not model.form.alike:
        return []
    table = cells(samples, model)
    group, groups = table.groups("all")
    if not table.fits(group, len(groups), level):
        return [one for one in client if one.name.startswith(("variance of ", "pairs of bits across"))]
    rate = float(table.flips.sum() / table.trials.sum())
    fitted = examine_independence(samples, model.with_flip(min(max(rate, 1e-12), 0.5)))
    return [one for one in fitted if one.name in names and one.p <= level]


def _first_of_each(tests: Sequence[Finding]) -> list[Finding]:
    first: dict[str, Finding] = {}
    for one in tests:
        first.setdefault(_CLIENT.get(one.name, ("other", ""))[0], one)
    return list(first.values())


def _seed(one: Finding) -> Diagnosis:
    if one.name == NOISE_NAME:
        text = f"noise repeats: the same stretch of {one.where}; the generator has too few states"
        return Diagnosis("weak seed", text, one.p)
    many = "1 run equals" if one.observed == 1 else f"{int(one.observed):,} runs equal"
    text = f"outputs repeat: {many} an earlier one byte for byte ({one.where}); the seed is fixed or too short"
    return Diagnosis("weak seed", text, one.p)


def _of_test(one: Finding) -> Diagnosis:
    if one.bound:
        return _attack(one)
    kind, text = _CLIENT.get(one.name, ("other", "{name}: {where}"))
    if one.name.startswith("flips ") and one.name != BEFORE_NAME:
        kind, text = "flip probability", "{name}: {where}"
    return Diagnosis(kind, f"{_fill(text, one)}: {_numbers(one)}", one.p)


def _of_shuffler(tests: Sequence[Finding]) -> list[Diagnosis]:
    """Return a diagnosis for each kind of test that rejects, or the order itself if it is that of arrival."""
    ordered = next((one for one in tests if one.name == "correlation with arrival" and abs(one.observed) > 0.9), None)
    if ordered is not None:
        way = "the order of arrival" if ordered.observed > 0 else "the reverse order of arrival"
        nearly = "" if abs(ordered.observed) > 1 - 1e-9 else "nearly "
        text = f"messages leave in {nearly}{way}: correlation {ordered.observed:.4g}, expected 0"
        fakes = [one for one in tests if "shuffler fakes" in one.name]
        return [Diagnosis("shuffler", text, ordered.p), *map(_shuffler_test, fakes)]
    # A repeated order explains the rest.
    first = sorted(tests, key=lambda one: one.name != "repeated orders")
    return [_shuffler_test(one) for one in first]


def _shuffler_test(one: Finding) -> Diagnosis:
    text = _fill(_SHUFFLER.get(one.name, "{name}: {where}"), one)
    return Diagnosis("shuffler", f"{text}: {_numbers(one)}", one.p)


def _attack(one: Finding) -> Diagnosis:
    who = "a shuffled batch reveals" if one.part == "pipeline" else "messages reveal"
    text = f"{who} more than planned about the pair {one.where}: ε ≥ {one.observed:.4g} by {one.name[7:]}, claimed "
    return Diagnosis("distinguishable values", f"{text}≤ {one.allowed:.4g}", one.p)


def _fill(text: str, one: Finding) -> str:
    return text.format(name=one.name, where=one.where, more="more" if one.observed > one.allowed else "less")


def _numbers(one: Finding) -> str:
    return f"expected {one.allowed:.4g}, observed {one.observed:.4g}"


MIN_NOISE = -30.0  # ln of the probability of equal messages below which equality is no accident


def without_noise(samples: Sequence[Sample], model: MessageModel) -> list[Diagnosis]:
    """Diagnose output that is a function of the value: the record itself, a fixed message, or one constant for all."""
    if not model.flipped or model.has_user_fakes:
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
        return not model.noise(one).any()
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
    _, sizes = np.unique(row_hashes(np.concatenate([model.noise(one) for one in samples])), return_counts=True)
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
    found = lag_tables(samples, model)
    if not found:
        return []
    names, tables = list(found), list(found.values())
    (i, j), p = worst(np.array([hypergeometric_p(*table) for table in tables]))
    if p > level:
        return []
    both, first, second, size = tables[i]
    expected = float((first[:, j] * second[:, j] / size[:, j]).sum())
    unit = model.unit_name(tested_bits(model.plan.schema.width)[j])
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
    if not first.size or not model.form.pairs or not model.attributable:
        return []
    tables = []
    for sample in samples:
        flips = model.flips(sample, chosen).astype(np.float32)
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


SHOWN = 3  # most groups that a text lists
GROUPINGS = ("all", "state", "bit", "value", "bit and state", "cell")
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The flips of every bit at every value; a row per value."""

    model: MessageModel
    values: list[str]
    ones: NDArray[np.bool_]
    flips: Floats  # without the expected contribution of fakes
    trials: Floats
    variance: Floats | None  # of the counts, if users' fakes are among the messages

    @property
    def planned(self) -> Floats:
        """The planned flip probability of each cell."""
        return np.where(self.ones, self.model.flip(was_set=True), self.model.flip(was_set=False))

    def groups(self, grouping: str) -> tuple[Numbers, list[str]]:
        """Return the number of the group of each cell, and the names of the groups."""
        width, bits = self.ones.shape[1], [self.model.bit_name(j) for j in range(self.ones.shape[1])]
        bit = np.broadcast_to(np.arange(width), self.ones.shape)
        value = np.broadcast_to(np.arange(len(self.values))[:, None], self.ones.shape)
        state = self.ones.astype(np.int64)
        if grouping == "all":
            return np.zeros_like(state), ["every bit"]
        if grouping == "state":
            return state, ["unset bits (0 → 1)", "set bits (1 → 0)"]
        if grouping == "bit":
            return bit, bits
        if grouping == "value":
            return value, [f"every bit of the value: {name}" for name in self.values]
        if grouping == "bit and state":
            return 2 * bit + state, [f"{name} {text}" for name in bits for text in ("if unset", "if set")]
        cells = [f"{name} of the value: {value}" for value in self.values for name in bits]
        return value * width + bit, cells

    def sums(self, group: Numbers, count: int) -> tuple[Floats, Floats, Floats]:
        """Return the flips, the trials and the planned flips of each group."""
        flat = group.reshape(-1)
        parts = (self.flips, self.trials, self.planned * self.trials)
        flips, trials, planned = (np.bincount(flat, part.reshape(-1), count).astype(np.float64) for part in parts)
        return flips, trials, planned

    def fits(self, group: Numbers, count: int, level: float) -> bool:
        """Return True if no cell differs from the rest of its group."""
        flips, trials, _ = (part[group] for part in self.sums(group, count))
        if self.variance is None:
            p = hypergeometric_p(self.flips[None], self.trials[None], flips[None], trials[None])
        else:
            expected = self.trials * flips / np.maximum(trials, 1)
            p = bennett_p(self.flips - expected, 2 * self.variance)
        return worst(p)[1] > level


def cells(samples: Sequence[Sample], model: MessageModel) -> Cells:
    """Return the flips of all samples."""
    ones, flips, trials = observed_flips(samples, model)
    size = np.broadcast_to(trials.astype(np.float64)[:, None], flips.shape)
    variance = None
    if model.has_user_fakes:
        variance = np.broadcast_to(fake_moments(samples, model)[1][:, None], flips.shape)
    return Cells(model, [one.probe.name for one in samples], ones, flips, size, variance)


def flip_rates(samples: Sequence[Sample], model: MessageModel, level: float, *, independent: bool) -> list[Diagnosis]:
    """Diagnose wrong flip probabilities; ``independent`` is False if bits are flipped together."""
    if not model.flipped:
        return []
    if not model.form.alike:
        return _category(samples, model, level)
    table = cells(samples, model)
    # Bits that are flipped together are not pooled: a sum over them varies more than independent flips do.
    for grouping in GROUPINGS if independent else GROUPINGS[2:]:
        group, names = table.groups(grouping)
        if grouping == "cell" or table.fits(group, len(names), level):
            break
    flips, trials, planned = table.sums(group, len(names))
    known = trials > 0
    if table.variance is None:
        # Within a group all cells have the same planned probability.
        p = binomial_p(flips, trials, planned / np.maximum(trials, 1))
    else:
        spread, most = _spread(table, samples, group, len(names))
        p = bennett_p(flips - planned, spread, most)
    adjusted = holm(np.where(known, p, 1.0))
    bad = np.flatnonzero(known & (adjusted <= level))
    if not bad.size:
        return []
    copies = _wrong_copies(samples, model, level)
    if copies:
        return copies
    rows = [_rate(names[i], flips[i], int(trials[i]), planned[i] / trials[i], float(adjusted[i]), model) for i in bad]
    if grouping == "state":
        other = [_describe(names[i], flips[i], int(trials[i]), planned[i] / trials[i]) for i in (0, 1) if i not in bad]
        text = "flips depend on the true value: " + "; ".join([*(one.text for one in rows), *other])
        return [Diagnosis("biased flips", text, min(one.p for one in rows), _worse(rows))]
    return _joined(rows, bad.size)


def _spread(table: Cells, samples: Sequence[Sample], group: Numbers, count: int) -> tuple[Floats, Floats]:
    """Return the variance of each group's flips with fakes, and the most that one message adds to them."""
    _, variance, covariance = fake_moments(samples, table.model)
    total, most = np.zeros(count), np.ones(count)
    for row, var, cov in zip(group, variance, covariance, strict=True):
        size = np.bincount(row, minlength=count)
        total += size * var + size * (size - 1) * abs(cov)
        most = np.maximum(most, size)
    return total, most


def _describe(name: str, flips: float, trials: int, planned: float) -> str:
    return f"{name}: {rate_text(flips, trials, planned)}"


def _rate(name: str, flips: float, trials: int, planned: float, p: float, model: MessageModel) -> Diagnosis:
    """Return the diagnosis of a group that is flipped too often or too rarely."""
    verb = "are" if name.startswith(("set bits", "unset bits")) else "is"
    numbers = rate_text(flips, trials, planned)
    if round(flips) <= 0:
        return Diagnosis("flip probability", f"{name} {'were' if verb == 'are' else 'was'} never flipped: {numbers}", p)
    if flips < trials * planned:
        return Diagnosis("flip probability", f"{name} {verb} flipped less often than planned: {numbers}", p)
    high = float(clopper_pearson(min(round(flips), trials), trials, INTERVAL / 2)[1])
    if high > 1 - model.message_flip:
        text = f"{name} {verb} flipped so often that the opposite of the truth is shown: {numbers}"
        return Diagnosis("flip probability", text, p)
    text = f"{name} {verb} flipped more often than planned: {numbers}"
    return Diagnosis("flip probability", text, p, "estimates")


def _worse(rows: Sequence[Diagnosis]) -> Harm:
    return "privacy" if any(one.harm == "privacy" for one in rows) else "estimates"


def _joined(rows: list[Diagnosis], count: int) -> list[Diagnosis]:
    """Return the first diagnoses, those of privacy first, and the number of the others."""
    rows = sorted(rows, key=lambda one: (one.harm != "privacy", one.p))
    if count <= SHOWN:
        return rows
    last = rows[SHOWN - 1]
    more = f"; and {count - SHOWN:,} more like these"
    return [*rows[: SHOWN - 1], Diagnosis(last.kind, last.text + more, last.p, _worse(rows[SHOWN - 1 :]))]


def _wrong_copies(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose split bits whose counts are those of another number of copies."""
    protocol = model.plan.protocol
    if model.linked or model.has_user_fakes:
        return []
    seen = sum(float(one.counts.sum()) for one in samples)
    each = sum(one.values * float(model.shown(one.probe.ones).sum()) for one in samples)
    copies = round(seen / each) if each else 0
    if copies in (0, protocol.k):
        return []
    shown = np.array([one.counts.sum(axis=0) for one in samples], np.float64)
    sizes = np.array([copies * one.values for one in samples], np.float64)[:, None]
    chances = np.array([model.shown(one.probe.ones) for one in samples])
    if worst(binomial_p(shown, sizes, chances))[1] <= level:
        return []
    text = f"each record is sent in {copies} {'copy' if copies == 1 else 'copies'} instead of {protocol.k}: "
    # Under the plan, this total is the sum of independent bits.
    mean = protocol.k * each
    p = float(bennett_p(seen - mean, mean))
    return [Diagnosis("number of copies", f"{text}{int(seen):,} messages, expected {mean:,.0f}", p)]


def _category(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose how often categories are flipped, and to which others."""
    width, planned = model.plan.schema.width, model.message_flip
    own = np.array([one.probe.ones[0] for one in samples])
    counts = np.array([one.counts.sum(axis=0) for one in samples], np.float64)
    trials = np.array([one.values for one in samples], np.float64)
    flips = trials - counts[np.arange(len(own)), own]
    level, found = level / 2, []
    alike = hypergeometric_p(
        flips[None], trials[None], np.full((1, len(own)), flips.sum()), np.full((1, len(own)), trials.sum())
    )
    if worst(alike)[1] > level:
        names, sums, sizes = ["every category"], flips.sum(keepdims=True), trials.sum(keepdims=True)
    else:
        names, sums, sizes = [model.bit_name(j) for j in own], flips, trials
    p = holm(binomial_p(sums, sizes, planned))
    bad = np.flatnonzero(p <= level)
    rows = [_rate(names[i], sums[i], int(sizes[i]), planned, float(p[i]), model) for i in bad]
    rows = [_within(one, sums[i] / sizes[i], width) for one, i in zip(rows, bad, strict=True)]
    found += _joined(rows, bad.size) if rows else []
    if width > 2:
        others = np.arange(width)[None, :] != own[:, None]
        p = np.where(others, binomial_p(counts, flips[:, None], 1 / (width - 1)), 1.0)
        (i, j), smallest = worst(p)
        if smallest <= level and flips[i]:
            text = f"a flipped {model.bit_name(own[i])} is not shown as every other category equally often: as "
            text += f"{model.bit_name(j)} {rate_text(counts[i, j], int(flips[i]), 1 / (width - 1))}"
            found.append(Diagnosis("categories after a flip", text, smallest))
    return found


def _within(one: Diagnosis, rate: float, width: int) -> Diagnosis:
    """More flips of a category are only noise up to the uniform distribution."""
    too_many = rate > planned_limit(width)
    return Diagnosis(one.kind, one.text, one.p, "privacy" if too_many else one.harm)


def planned_limit(width: int) -> float:
    """Return the flip probability at which all categories are equally likely.

    >>> planned_limit(4)
    0.75
    """
    return 1 - 1 / width


def wrong_fakes(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose the number and the distribution of users' fakes."""
    return [*_number_of_fakes(samples, model, level / 2), *_bits_of_fakes(samples, model, level / 2)]


def _number_of_fakes(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    source = model.fakes
    if not isinstance(source, UserFakes) or not model.linked:
        return []
    m = source.distribution
    sizes = np.array([one.values for one in samples])
    drawn = np.array([one.fakes.sum() for one in samples])
    names = ["users", *(f"users with the value: {one.probe.name}" for one in samples)]
    totals, people = np.concatenate([[drawn.sum()], drawn]), np.concatenate([[sizes.sum()], sizes])
    adjusted = holm(source.p(totals, people))
    i = 0 if adjusted[0] <= level else int(np.argmin(adjusted))
    if adjusted[i] > level:
        return []
    fewer = totals[i] < people[i] * m.mean
    text = (
        f"{names[i]} add {'fewer' if fewer else 'more'} fakes than planned: expected {m.mean:.4g} per user, observed "
    )
    text += f"{totals[i] / people[i]:.4g} ({int(totals[i]):,} of {int(people[i]):,} users)"
    # A number of fakes that depends on the value reveals it, in whichever direction.
    return [Diagnosis("number of fakes", text, float(adjusted[i]), "privacy" if fewer or i else "estimates")]


def _bits_of_fakes(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose bits that fakes show too often or too rarely: by the same amount for set and for unset bits."""
    drawn = sum(int(one.fakes.sum()) for one in samples)
    if not model.has_user_fakes or not drawn:
        return []
    table = cells(samples, model)
    off = table.flips - table.planned * table.trials
    shown = np.where(table.ones, -off, off)
    variance = np.asarray(table.variance).sum(axis=0)
    total, contrast = shown.sum(axis=0), off.sum(axis=0)
    adjusted = holm(bennett_p(total, variance))
    bad = np.flatnonzero((adjusted <= level) & ((not model.flipped) | (np.abs(total) > np.abs(contrast))))
    if not bad.size:
        return []
    i = int(bad[np.argmin(adjusted[bad])])
    seen, v = float(np.clip((drawn * model.fake_bit + total[i]) / drawn, 0, 1)), model.fake_bit
    often = "too rarely" if total[i] < 0 else "too often"
    rest = f", and {bad.size - 1:,} others deviate" if bad.size > 1 else ""
    text = f"fakes are not uniform over the legal records: they show {model.bit_name(i)} {often}{rest}: expected "
    text += f"{100 * v:.4g} % of {drawn:,} fakes, observed about {100 * seen:.4g} %"
    return [Diagnosis("distribution of fakes", text, float(adjusted[i]))]
