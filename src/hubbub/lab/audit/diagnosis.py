"""Diagnoses of a failed audit: what is wrong, in the terms of the protocol, from the root cause outwards.

Diagnoses are sought only if a test rejects the plan, so a program that follows its plan gets one with probability at
most 1 − confidence. Each kind of defect has its own test, at an equal share of that probability, whose null hypothesis
is the absence of this defect alone. Where messages are not independent, other tests are not trustworthy and are left
out: correct the first defect and audit again.
"""

import math
from collections.abc import Sequence

from hubbub.lab.audit import dependence, deviations, seeds, sequence, surveys
from hubbub.lab.audit.faults import Diagnosis, Kind
from hubbub.lab.audit.independence import examine as examine_independence
from hubbub.lab.audit.model import MessageModel
from hubbub.lab.audit.probes import Sample
from hubbub.lab.audit.statistics import Finding
from hubbub.model.plans import Plan

RARE = 1e-3  # expected repetitions above which the observed noise explains them
_REPEATS = ("repeated runs", seeds.RUNS_NAME, seeds.NOISE_NAME)
FAMILIES = 5  # tests of dependence between records, between bits, of flips, of fakes, and of mixed values
_FOLLOW_FROM_RATES = (
    "flips ", "pairs of bits", "repeated flips", "variance of ", sequence.COUNTS_NAME, "fakes per ",
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
    sequence.COUNTS_NAME: (
        "dependent records",
        "records depend on earlier ones: in a run of mixed values, {where} is shown too often or too rarely",
    ),
    sequence.BEFORE_NAME: (
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
    surveys.LINKED_NAME: "the answers of one person leave next to each other too often or too rarely",
    "distribution of shuffler fakes": "the numbers of the shuffler's fakes do not have the planned distribution",
}


def diagnose(
    violations: Sequence[Finding],
    samples: Sequence[Sample],
    plan: Plan,
    alpha: float,
    search: seeds.Search | None = None,
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
    client: Sequence[Finding], samples: Sequence[Sample], plan: Plan, alpha: float, search: seeds.Search | None
) -> list[Diagnosis]:
    model, level = MessageModel(plan), alpha / FAMILIES
    found = dependence.without_noise(samples, model)
    if found:
        return found
    repeats = [one for one in client if one.name in _REPEATS]
    weak = repeats and _weak_seed(repeats, samples, model, search)
    found = dependence.reused_noise(samples, model, level) or (weak or [])
    if found:
        return found
    shared = dependence.shared_coins(samples, model, level)
    rates = deviations.flip_rates(samples, model, level, independent=not shared)
    fakes = deviations.fakes(samples, model, level)
    # A wrong distribution of the fakes looks like wrong flips, and is the more specific explanation.
    if any(one.kind == "distribution of fakes" for one in fakes):
        rates = []
    found = [*shared, *rates, *fakes]
    if repeats and not any(one.harm == "privacy" for one in found):
        found.append(_seed(repeats[0]))
    return [*found, *_unexplained(client, found, samples, plan, level)]


def _weak_seed(
    repeats: Sequence[Finding], samples: Sequence[Sample], model: MessageModel, search: seeds.Search | None
) -> list[Diagnosis]:
    """Return a weak seed if noise repeats more often than the observed, possibly too small, noise explains."""
    noisy = [one for one in samples if not dependence.constant(one, model)]
    if not noisy:
        return []
    by_name = {one.name: one for one in repeats}
    if "repeated runs" in by_name and any(one.repeats for one in noisy):
        return [_seed(by_name["repeated runs"])]
    log_repeat = dependence.log_repeat(noisy, model)
    if search is not None and seeds.RUNS_NAME in by_name and noisy[0] is samples[0]:
        usual = 2 * math.log(search.runs) + search.values * model.plan.protocol.k * log_repeat
        if not model.linked or usual < math.log(RARE):
            return [_seed(by_name[seeds.RUNS_NAME])]
    again = seeds.stretches(noisy, model.plan, log_repeat) if seeds.NOISE_NAME in by_name else []
    return [_seed(one) for one in again if one.observed]


def _unexplained(
    client: Sequence[Finding], found: Sequence[Diagnosis], samples: Sequence[Sample], plan: Plan, level: float
) -> list[Diagnosis]:
    """Describe the tests that the diagnoses do not explain; more noise than planned explains no leak."""
    state = [one for one in client if one.name == sequence.BEFORE_NAME]
    if any(one.harm == "privacy" for one in found):
        return [_of_test(one) for one in state]
    client = sorted(client, key=lambda one: one.name != sequence.BEFORE_NAME)
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
    if model.has_user_fakes or plan.protocol.clear or plan.protocol.sends_category:
        return []
    table = deviations.cells(samples, model)
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
    if one.name == seeds.NOISE_NAME:
        text = f"noise repeats: the same stretch of {one.where}; the generator has too few states"
        return Diagnosis("weak seed", text, one.p)
    many = "1 run equals" if one.observed == 1 else f"{int(one.observed):,} runs equal"
    text = f"outputs repeat: {many} an earlier one byte for byte ({one.where}); the seed is fixed or too short"
    return Diagnosis("weak seed", text, one.p)


def _of_test(one: Finding) -> Diagnosis:
    if one.bound:
        return _attack(one)
    kind, text = _CLIENT.get(one.name, ("other", "{name}: {where}"))
    if one.name.startswith("flips ") and one.name != sequence.BEFORE_NAME:
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
