"""``audit``: all tests and attacks on a client and a shuffler, and the verdict."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hubbub.errors import Interval, WireError, check_real, check_whole, reject
from hubbub.lab.audit.attacks import Attack, Neighbours, attack_bits, attack_pairs, attack_pipeline, cost, crowds
from hubbub.lab.audit.client import (
    Search,
    examine_flips,
    examine_independence,
    examine_mixed,
    power,
    rates,
    runs_needed,
    search,
    send_mixed,
    stretches,
)
from hubbub.lab.audit.columns import ColumnAudit, separate
from hubbub.lab.audit.commands import Client, ClientCommand, Shuffler, ShufflerCommand, UnreachableCategory
from hubbub.lab.audit.diagnosis import diagnose
from hubbub.lab.audit.model import MessageModel, Sample, neighbours, probes, sample
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.shuffler import batch_size, examine_shuffler, linked_answers, numbered_plan, observe, tagging
from hubbub.lab.audit.statistics import Finding, finding
from hubbub.lab.audit.strings import audit_strings
from hubbub.lab.mechanisms import ShufflerFakes
from hubbub.model.plans import Plan
from hubbub.planner import plan_from

Progress = Callable[[str, int, int], None]
"""Called with the current activity, the finished steps and the total number of steps."""

SEED_BITS, SEED_BITS_COMMAND = 20, 16  # seeds that are found with probability 95 %, in a callable and in a command
MIN_MIXED, MAX_MIXED = 50, 20_000
WANTED_FLIPS = 14_000  # flips of unset bits that reveal, with probability 95 %, a q that is 5 % too small


def effort(
    plan: Plan,
    client: Client | None,
    shuffler: Shuffler | None,
    *,
    runs: int | None = None,
    seed_runs: int | None = None,
) -> Effort:
    """Return the effort that finds a q that is 5 % too small and a short seed, within limits on memory and time.

    ``runs`` sets the number of copies of each probe instead, and ``seed_runs`` that of the short runs.

    >>> from hubbub.lab.audit.commands import library_client
    >>> from hubbub import Protocol, Schema
    >>> effort(plan_from(Schema.bits(8), 100, Protocol(0.01), delta=1e-6, trust="nobody"), library_client, None)
    Effort(values=6731, runs=8, shuffles=0, pipeline=0, mixed=13462, short=2507)
    """
    protocol, width, model = plan.protocol, plan.schema.width, MessageModel(plan)
    slow = isinstance(client, ClientCommand)
    unset = sum(width - len(probe.ones) for probe in probes(plan.schema))
    per_value = protocol.k * protocol.q * unset
    # Fakes among the messages add noise that hides flips.
    wanted = (4 if model.has_user_fakes else 1) * WANTED_FLIPS / per_value if per_value else 4000.0
    memory = (1 << 25) / (plan.payload_messages * (plan.payload if model.linked else 4))
    if model.form.pairs or (not plan.schema.min_set and plan.schema.max_set == width):
        memory = min(memory, (1 << 26) / (protocol.k * width))
    times = 3 if slow else 8 if model.linked else 32
    total = runs if runs is not None else max(4000.0, min(wanted, memory, 100_000 if slow else 2_000_000))
    shuffles = 0
    if isinstance(shuffler, ShufflerCommand):
        shuffles = min(30, max(10, 4_000_000 // batch_size(plan)))
    elif shuffler is not None:
        shuffles = 200 if runs is None else min(200, max(20, runs // 10))
    both = client is not None and shuffler is not None and not slow and not isinstance(shuffler, ShufflerCommand)
    repeats = 0 if not both else 1000 if runs is None else min(1000, max(100, runs // 4))
    values, short = max(1, math.ceil(total / times)), seed_runs
    if short is None:
        short = runs_needed(SEED_BITS_COMMAND if slow else SEED_BITS)
        short = short if runs is None else min(short, runs // 10)
    mixed = min(MAX_MIXED, 2 * values, (1 << 26) // width)  # one byte per bit
    return Effort(
        values=values,
        runs=times,
        shuffles=shuffles,
        pipeline=repeats,
        mixed=mixed if client is not None and mixed >= MIN_MIXED else 0,
        short=short if client is not None else 0,
    )


def audit(
    plan: Plan,
    client: Client | None,
    shuffler: Shuffler | None,
    *,
    runs: int | None = None,
    seed_runs: int | None = None,
    confidence: float = 0.99,
    tried: Effort | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Audit:
    """Audit a client, a shuffler, or with both also the pipeline, against a plan.

    An honest program passes with probability at least ``confidence``: each of M tests has the significance level
    (1 − confidence)/M, and every bound on ε holds at that level. If a test rejects the plan, its defects are diagnosed.
    """
    confidence = check_real("confidence", confidence, Interval(0.5, 1.0, open_high=True))
    if runs is not None:
        check_whole("runs", runs, 100)
    if seed_runs is not None:
        check_whole("seed_runs", seed_runs, 0)
    if plan.schema.text is not None:
        return audit_strings(plan, client, shuffler, runs=runs, confidence=confidence, progress=progress)
    each = separate(plan)
    if each and isinstance(shuffler, ShufflerCommand):
        reject("the shuffler", "be a Python callable for a survey; commands are audited with other plans only")
    spent = tried or effort(each[0].plan() if each else plan, client, shuffler, runs=runs, seed_runs=seed_runs)
    alpha = (1 - confidence) / (len(each) + 1) if each else 1 - confidence
    parts: list[tuple[str, Audit]] = []
    own = Observed()
    if client is not None and each:
        parts = _audit_columns(each, client, tried, runs, seed_runs, alpha, progress)
        own.notes += dict.fromkeys(note for _, one in parts for note in one.notes if "pipeline" not in note)
    elif client is not None:
        own = _examine_client(client, plan, spent, progress)
    samples, findings, notes = own.samples, own.findings, own.notes
    if shuffler is not None:
        findings += _shuffle(shuffler, plan, each, spent.shuffles, progress, notes)
    broken = any(test.part == "wire" for tests in (findings, *(one.findings for _, one in parts)) for test in tests)
    crowded = crowds(plan) if client and shuffler and spent.pipeline and not broken else []
    if client is not None and not crowded:
        notes.append(_no_pipeline(plan, client, shuffler, broken))
    model = MessageModel(plan)
    pairs = neighbours([one.probe for one in samples]) if samples and model.attributable else []
    single = bool(samples) and model.form.alike and model.flipped and not model.has_user_fakes
    level = alpha / max(1, len(findings) + 2 * len(pairs) + single + 2 * len(crowded))
    attacks = attack_pairs(samples, pairs, plan, level) if pairs else []
    attacks += [attack_bits(samples, plan, level)] if single else []
    findings += [one.finding("client") for one in attacks]
    if crowded and client is not None and shuffler is not None:
        reached = _attack_pipeline(crowded, client, shuffler, spent.pipeline, level, progress)
        attacks += reached
        findings += [one.finding("pipeline") for one in reached]
    causes = diagnose([one for one in findings if one.violates(level)], samples, plan, alpha, own.search)
    powers = [
        power(samples, plan, level) if samples else (None, None),
        *((one.power, one.power_bit) for _, one in parts),
    ]
    shown = [replace(test, name=f"{name}: {test.name}") for name, one in parts for test in one.attacks]
    named = [replace(why, text=f"{name}: {why.text}") for name, one in parts for why in one.diagnoses]
    return Audit(
        plan=plan,
        confidence=confidence,
        level=min([level, *(one.level for _, one in parts)]),
        effort=spent,
        probes=len(samples) + sum(one.probes for _, one in parts),
        findings=[*(_within(name, test) for name, one in parts for test in one.findings), *findings],
        attacks=[*shown, *attacks],
        rates=rates(samples, plan, 1 - confidence) if samples else [],
        power=max((one for one, _ in powers if one is not None), default=None),
        power_bit=max((one for _, one in powers if one is not None), default=None),
        notes=notes,
        diagnoses=[*named, *causes],
        search=own.search or next((one.search for _, one in parts), None),
    )


@dataclass(slots=True)
class Observed:
    """The outcome of the tests of a client: samples, findings, the search for a weak seed, and what was left out."""

    samples: list[Sample] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    search: Search | None = None


def _audit_columns(
    each: list[ColumnAudit],
    client: Client,
    tried: Effort | None,
    runs: int | None,
    seed_runs: int | None,
    alpha: float,
    progress: Progress,
) -> list[tuple[str, Audit]]:
    """Audit the client on every column as on a plan of its own; the others vary meanwhile."""
    audits: list[tuple[str, Audit]] = []
    for one in each:
        alone = one.plan()
        part = tried or effort(alone, client, None, runs=runs, seed_runs=seed_runs)
        # One search for a weak seed suffices, because a run draws all attributes from one generator.
        part = replace(part, shuffles=0, pipeline=0, short=0 if audits else part.short)
        found = audit(alone, one.client(client), None, confidence=1 - alpha, tried=part, progress=progress)
        audits.append((one.name, found))
    return audits


def _examine_client(client: Client, plan: Plan, tried: Effort, progress: Progress) -> Observed:
    """Run all tests of a client on a plan of one column."""
    found = Observed()
    samples = found.samples = _send(client, plan, tried, progress, found.findings, found.notes)
    if not samples:
        return found
    found.findings += [*examine_flips(samples, plan), *examine_independence(samples, plan), *stretches(samples, plan)]
    if any(one.grouped for one in samples):
        found.notes.append("messages are sorted by content: dependence on earlier messages cannot be tested")
    if any(one.part == "wire" for one in found.findings):
        return found
    found.findings += _mix(client, plan, samples, tried.mixed, found.notes)
    try:
        found.search = _search(client, plan, samples, tried.short, progress, found.notes)
        found.findings += [found.search.finding()] if found.search is not None else []
    except WireError as error:
        found.findings.append(_wire(error, "short runs"))
    return found


def _within(column: str, test: Finding) -> Finding:
    """Return the test of one column with its name."""
    return replace(test, where=f"{column}: {test.where}")


def _mix(client: Client, plan: Plan, samples: list[Sample], n: int, notes: list[str]) -> list[Finding]:
    """Test a run of mixed values."""
    if not n:
        return []
    try:
        found, in_order = examine_mixed(send_mixed(client, plan, [one.probe for one in samples], n), plan)
    except WireError as error:
        return [_wire(error, "mixed values")]
    if in_order is False:
        notes.append("messages are not in the order of the records: dependence on other values is tested in total only")
    return found


def _search(
    client: Client, plan: Plan, samples: list[Sample], runs: int, progress: Progress, notes: list[str]
) -> Search | None:
    """Search for a weak seed in many short runs."""
    if any(one.grouped for one in samples):
        return None
    count = _counter("searching for a weak seed", runs, progress)
    found = search(client, plan, samples[0].probe, runs, count)
    if found is None and runs:
        notes.append("no weak seed was searched for: a short run of this plan has too little noise to be recognized")
    return found


def _wire(error: WireError, where: str) -> Finding:
    return finding("wire", str(error), where, 1.0, 0.0, 0.0)


def _send(
    client: Client, plan: Plan, tried: Effort, progress: Progress, findings: list[Finding], notes: list[str]
) -> list[Sample]:
    """Return the samples of all probes, and add a finding for each probe whose reports are illegal."""
    found = probes(plan.schema)
    count, samples = _counter("sending probes", len(found) * tried.runs, progress), []
    for probe in found:
        try:
            samples.append(sample(client, plan, probe, tried.values, tried.runs, count))
        except UnreachableCategory:
            notes.append(f"{probe.name} was not tested: no answer has this category")
        except WireError as error:
            findings.append(_wire(error, f"value: {probe.name}"))
    return samples


def _shuffle(
    shuffler: Shuffler, plan: Plan, each: list[ColumnAudit], runs: int, progress: Progress, notes: list[str]
) -> list[Finding]:
    """Test a shuffler: a command on batches of the plan, a callable on numbered messages and on each column."""
    draws = not each and isinstance(MessageModel(plan).fakes, ShufflerFakes)
    batches = [("", shuffler, plan)]
    if isinstance(shuffler, ShufflerCommand):
        if draws or tagging(plan).distinct < batch_size(plan):
            notes.append(
                "the messages of this plan cannot be numbered: the shuffler is tested by blocks of arrivals only"
            )
    else:
        n, delta = min(plan.n, 400), plan.guarantee.delta or 1e-9
        batches = [("", shuffler, numbered_plan())]
        batches += [("", shuffler, plan_from(plan.schema, n, plan.protocol, delta=delta))] if draws else []
        batches += [(one.name, one.shuffler(shuffler), one.plan(n, numbers=True)) for one in each]
    count, found = _counter("shuffling", (len(batches) + bool(each)) * runs, progress), []
    for name, send, one in batches:
        try:
            tests = examine_shuffler(observe(send, one, runs, count), one)
            found += [_within(name, test) if name else test for test in tests]
        except WireError as error:
            found.append(_wire(error, f"the shuffler, {name}" if name else "the shuffler"))
    return [*found, linked_answers(shuffler, plan, runs, count)] if each else found


def _attack_pipeline(
    pairs: Sequence[Neighbours],
    client: Client,
    shuffler: Shuffler,
    runs: int,
    level: float,
    progress: Progress,
) -> list[Attack]:
    sizes = [int(min(runs, max(100, 400_000 // cost(pair.plan)))) for pair in pairs]
    count = _counter("attacking the pipeline", 2 * sum(sizes), progress)
    return [
        attack
        for pair, size in zip(pairs, sizes, strict=True)
        for attack in attack_pipeline(pair, client, shuffler, size, level, count)
    ]


def _counter(what: str, total: int, progress: Progress) -> Callable[[], None]:
    steps = itertools.count(1)
    return lambda: progress(what, next(steps), total)


def _no_pipeline(plan: Plan, client: Client, shuffler: Shuffler | None, broken: bool) -> str:
    if broken:
        reason = "the messages are illegal"
    elif isinstance(client, ClientCommand) or isinstance(shuffler, ShufflerCommand):
        reason = "a program would have to be started thousands of times"
    elif shuffler is None:
        reason = "no shuffler is given"
    else:
        reason = f"no small crowd has a finite ε at δ = {plan.guarantee.delta:g}"
    return f"the whole pipeline was not attacked: {reason}"
