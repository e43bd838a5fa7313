"""``audit``: all tests and attacks on a client and a shuffler, and the verdict."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hubbub.errors import Interval, WireError, check_real, check_whole, reject
from hubbub.lab.audit import attacks as attacking
from hubbub.lab.audit import client as testing
from hubbub.lab.audit import surveys
from hubbub.lab.audit.attacks import Attack, attack_bits, attack_pairs
from hubbub.lab.audit.commands import Client, ClientCommand, Shuffler, ShufflerCommand, UnreachableCategory
from hubbub.lab.audit.diagnosis import diagnose
from hubbub.lab.audit.model import MessageModel, Sample, neighbours, probes, sample
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.shuffler import batch_size, distinct, examine_shuffler, numbered_plan, observe
from hubbub.lab.audit.statistics import Finding, finding
from hubbub.lab.audit.strings import audit_strings
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
    # Fakes among the messages add noise that hides testing.
    wanted = (4 if model.has_user_fakes else 1) * WANTED_FLIPS / per_value if per_value else 4000.0
    memory = (1 << 25) / (plan.payload_messages * (plan.payload if model.linked else 4))
    if plan.schema.dense or protocol.sends_records:
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
        short = testing.runs_needed(SEED_BITS_COMMAND if slow else SEED_BITS)
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
    if plan.schema.texts is not None:
        return audit_strings(plan, client, shuffler, runs=runs, confidence=confidence, progress=progress)
    if plan.schema.questions is not None:
        return _audit_survey(plan, client, shuffler, runs, seed_runs, confidence, tried, progress)
    tried = tried or effort(plan, client, shuffler, runs=runs, seed_runs=seed_runs)
    model = MessageModel(plan)
    notes: list[str] = []
    findings: list[Finding] = []
    samples = _send(client, plan, tried, progress, findings, notes) if client is not None else []
    if samples:
        findings += [*testing.examine_flips(samples, plan), *testing.examine_independence(samples, plan)]
        findings += testing.stretches(samples, plan)
        if any(one.grouped for one in samples):
            notes.append("messages are sorted by content: dependence on earlier messages cannot be tested")
    search = None
    if client is not None and samples and not any(one.part == "wire" for one in findings):
        findings += _mix(client, plan, samples, tried.mixed, notes)
        try:
            search = _search(client, plan, samples, tried.short, progress, notes)
            findings += [search.finding()] if search is not None else []
        except WireError as error:
            findings.append(_wire(error, "short runs"))
    if shuffler is not None:
        findings += _shuffle(shuffler, plan, tried, progress, notes)
    broken = any(one.part == "wire" for one in findings)
    pairs = neighbours([one.probe for one in samples]) if samples and model.local else []
    flipped = not plan.protocol.sends_category and not plan.protocol.clear
    single = bool(samples) and flipped and not model.has_user_fakes
    crowds = attacking.crowds(plan) if tried.pipeline and not broken else []
    if client is not None and not crowds:
        notes.append(_no_pipeline(plan, client, shuffler, broken))
    level = (1 - confidence) / max(1, len(findings) + 2 * len(pairs) + single + 2 * len(crowds))
    attacks = attack_pairs(samples, pairs, plan, level) if pairs else []
    attacks += [attack_bits(samples, plan, level)] if single else []
    findings += [one.finding("client") for one in attacks]
    if crowds and client is not None and shuffler is not None:
        reached = _attack_pipeline(crowds, client, shuffler, tried.pipeline, level, progress)
        attacks += reached
        findings += [one.finding("pipeline") for one in reached]
    power, power_bit = testing.power(samples, plan, level)
    violations = [one for one in findings if one.violates(level)]
    return Audit(
        plan=plan,
        confidence=confidence,
        level=level,
        effort=tried,
        probes=len(samples),
        findings=findings,
        attacks=attacks,
        rates=testing.rates(samples, plan, 1 - confidence) if samples else [],
        power=power,
        power_bit=power_bit,
        notes=notes,
        diagnoses=diagnose(violations, samples, plan, 1 - confidence, search),
        search=search,
    )


def _audit_survey(
    plan: Plan,
    client: Client | None,
    shuffler: Shuffler | None,
    runs: int | None,
    seed_runs: int | None,
    confidence: float,
    tried: Effort | None,
    progress: Progress,
) -> Audit:
    """Audit every attribute of a survey as a one-hot plan of its own, and then the messages of all together."""
    if isinstance(shuffler, ShufflerCommand):
        reject("the shuffler", "be a Python callable for a survey; commands are audited with other plans only")
    each = surveys.attributes(plan)
    alpha = (1 - confidence) / (len(each) + 1)
    audits: list[Audit] = []
    for one in each if client is not None else []:
        assert client is not None
        alone, send = one.plan(), one.client(client)
        part = tried or effort(alone, client, None, runs=runs, seed_runs=seed_runs)
        # One search for a weak seed suffices, because a run draws all attributes from one generator.
        part = replace(part, shuffles=0, pipeline=0, short=0 if audits else part.short)
        audits.append(audit(alone, send, None, confidence=1 - alpha, tried=part, progress=progress))
    spent = tried or effort(each[0].plan(), client, shuffler, runs=runs, seed_runs=seed_runs)
    findings, notes = [], dict.fromkeys(note for one in audits for note in one.notes if "pipeline" not in note)
    if shuffler is not None:
        findings = _shuffle_survey(shuffler, each, plan, spent.shuffles, progress)
    broken = any(one.part == "wire" for found in (findings, *(a.findings for a in audits)) for one in found)
    whole = client is not None and shuffler is not None and spent.pipeline and not broken
    crowds = surveys.crowds(plan) if whole else []
    if client is not None and not crowds:
        notes[_no_pipeline(plan, client, shuffler, broken)] = None
    level = alpha / max(1, len(findings) + 2 * len(crowds))
    named = list(zip((one.name for one in each), audits, strict=False))
    attacks = [replace(one, name=f"{name}: {one.name}") for name, found in named for one in found.attacks]
    if crowds and client is not None and shuffler is not None:
        reached = _attack_pipeline(crowds, client, shuffler, spent.pipeline, level, progress, surveys.cost)
        attacks += reached
        findings += [one.finding("pipeline") for one in reached]
    together = diagnose([one for one in findings if one.violates(level)], [], plan, alpha)
    tests = [replace(one, where=f"{name}: {one.where}") for name, found in named for one in found.findings]
    causes = [replace(one, text=f"{name}: {one.text}") for name, found in named for one in found.diagnoses]
    powers = [one.power for one in audits if one.power is not None]
    single = [one.power_bit for one in audits if one.power_bit is not None]
    return Audit(
        plan=plan,
        confidence=confidence,
        level=min([level, *(one.level for one in audits)]),
        effort=spent,
        probes=sum(one.probes for one in audits),
        findings=[*tests, *findings],
        attacks=attacks,
        rates=[],
        power=max(powers, default=None),
        power_bit=max(single, default=None),
        notes=list(notes),
        diagnoses=[*causes, *together],
        search=next((one.search for one in audits), None),
    )


def _shuffle_survey(
    shuffler: Shuffler, each: list[surveys.AttributeAudit], plan: Plan, runs: int, progress: Progress
) -> list[Finding]:
    """Test a shuffler on numbered messages, on each attribute, and on the answers of whole people."""
    count = _counter("shuffling", (len(each) + 2) * runs, progress)
    numbered = numbered_plan()
    found = examine_shuffler(observe(shuffler, numbered, runs, count), numbered)
    for one in each:
        alone = one.plan(min(plan.n, 400), numbers=True)
        try:
            tests = examine_shuffler(observe(one.shuffler(shuffler), alone, runs, count), alone)
            found += [replace(test, where=f"{one.name}: {test.where}") for test in tests]
        except WireError as error:
            found.append(_wire(error, f"the shuffler, {one.name}"))
    return [*found, surveys.linked_answers(shuffler, plan, runs, count)]


def _mix(client: Client, plan: Plan, samples: list[Sample], n: int, notes: list[str]) -> list[Finding]:
    """Test a run of mixed values."""
    if not n:
        return []
    try:
        found, in_order = testing.examine_mixed(
            testing.send_mixed(client, plan, [one.probe for one in samples], n), plan
        )
    except WireError as error:
        return [_wire(error, "mixed values")]
    if in_order is False:
        notes.append("messages are not in the order of the records: dependence on other values is tested in total only")
    return found


def _search(
    client: Client, plan: Plan, samples: list[Sample], runs: int, progress: Progress, notes: list[str]
) -> testing.Search | None:
    """Search for a weak seed in many short runs."""
    if any(one.grouped for one in samples):
        return None
    count = _counter("searching for a weak seed", runs, progress)
    found = testing.search(client, plan, samples[0].probe, runs, count)
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


def _shuffle(shuffler: Shuffler, plan: Plan, tried: Effort, progress: Progress, notes: list[str]) -> list[Finding]:
    """Test a shuffler: a command on batches of the plan, a callable also on numbered messages."""
    draws = plan.protocol.shuffler_fakes is not None
    if isinstance(shuffler, ShufflerCommand):
        plans = [plan]
        if draws or distinct(plan) < batch_size(plan):
            notes.append(
                "the messages of this plan cannot be numbered: the shuffler is tested by blocks of arrivals only"
            )
    else:
        plans = [numbered_plan()]
        if draws:
            n, delta = min(plan.n, 400), plan.guarantee.delta or 1e-9
            plans.append(plan_from(plan.schema, n, plan.protocol, delta=delta))
    count, found = _counter("shuffling", len(plans) * tried.shuffles, progress), []
    for one in plans:
        try:
            found += examine_shuffler(observe(shuffler, one, tried.shuffles, count), one)
        except WireError as error:
            found.append(_wire(error, "the shuffler"))
    return found


def _attack_pipeline(
    pairs: Sequence[attacking.Pair],
    client: Client,
    shuffler: Shuffler,
    runs: int,
    level: float,
    progress: Progress,
    cost: Callable[[Plan], float] = attacking.cost,
) -> list[Attack]:
    sizes = [int(min(runs, max(100, 400_000 // cost(pair.plan)))) for pair in pairs]
    count = _counter("attacking the pipeline", 2 * sum(sizes), progress)
    return [
        attack
        for pair, size in zip(pairs, sizes, strict=True)
        for attack in attacking.attack_pipeline(pair, client, shuffler, size, level, count)
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
