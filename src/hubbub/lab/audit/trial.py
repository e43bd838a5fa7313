"""``audit``: all tests and attacks on a client and a shuffler, and the verdict."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from hubbub.errors import Interval, WireError, check_real, check_whole
from hubbub.lab.audit import flips, independence, pipeline, seeds, sequence
from hubbub.lab.audit.commands import Client, ClientCommand, Shuffler, ShufflerCommand
from hubbub.lab.audit.diagnosis import diagnose
from hubbub.lab.audit.distinguishers import Attack, attack_bits, attack_pairs
from hubbub.lab.audit.faults import Diagnosis
from hubbub.lab.audit.flips import Rate
from hubbub.lab.audit.model import MessageModel
from hubbub.lab.audit.probes import Sample, neighbours, probes, sample
from hubbub.lab.audit.shuffler import batch_size, distinct, examine_shuffler, numbered_plan, observe
from hubbub.lab.audit.statistics import Finding, finding
from hubbub.planner import plan_from
from hubbub.plans import Plan

Progress = Callable[[str, int, int], None]
"""Called with the current activity, the finished steps and the total number of steps."""

LIMITS = (
    "An audit can reveal violations but not rule them out: a client that behaves only while it is audited, or only on "
    "the tested values, passes.",
    "It sees outputs only, not timing, memory, logs, keys, network addresses or anything else that leaves a device.",
    "Randomness that is predictable but looks random, such as that of a weak seed, is found only if it repeats within "
    "the audit, so only short seeds are.",
    "A lower bound on ε proves no privacy: it is what these attacks achieved. The guarantee is that of the plan.",
)
"""The limits of an audit, for its reports."""

SEED_BITS, SEED_BITS_COMMAND = 20, 16  # seeds that are found with probability 95 %, in a callable and in a command
MIN_MIXED, MAX_MIXED = 50, 20_000
WANTED_FLIPS = 14_000  # flips of unset bits that reveal, with probability 95 %, a q that is 5 % too small


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The number of repetitions of each part of an audit."""

    values: int  # copies of each probe in one run
    runs: int  # runs of each probe
    shuffles: int
    pipeline: int  # runs of the pipeline on each of two neighbouring collections; 0 skips it
    mixed: int = 0  # records of mixed values in one run; 0 skips it
    short: int = 0  # short runs that search for a weak seed; 0 skips them


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The results of an audit, and the verdict."""

    plan: Plan
    confidence: float
    level: float  # significance level of each test: (1 − confidence) divided by the number of tests
    effort: Effort
    probes: int
    findings: list[Finding]
    attacks: list[Attack]
    rates: list[Rate]
    power: float | None
    """Relative shortfall of q on all bits that is found with probability 95 %; None if nothing is flipped."""
    power_bit: float | None  # the same for a shortfall on one bit only
    notes: list[str]  # the parts that were skipped, with reasons
    diagnoses: list[Diagnosis]  # the defects that explain the violations
    search: seeds.Search | None  # the search for a weak seed

    @property
    def violations(self) -> list[Finding]:
        """The tests that reject the plan, in the order of testing."""
        return [one for one in self.findings if one.violates(self.level)]

    @property
    def passed(self) -> bool:
        """True if no test rejects the plan."""
        return not self.violations

    @property
    def private(self) -> bool:
        """True if no test shows less privacy than planned: the audit passes, or finds only more noise than planned."""
        return self.passed or (bool(self.diagnoses) and all(one.harm == "estimates" for one in self.diagnoses))

    @property
    def best(self) -> Attack | None:
        """The attack of the headline and of the chart: largest bound on ε relative to the claim, on a pair of records.

        An attack on a single bit takes its place only if it exceeds its claim.
        """
        shown = [one for one in self.attacks if one.of_records or one.epsilon > one.claimed]
        return max(shown, key=lambda one: one.epsilon / one.claimed if one.claimed else 0.0, default=None)

    def sentence(self) -> str:
        """Return the verdict in words."""
        if not self.passed:
            return self._failure()
        parts = ["PASS: no violation found"]
        if self.best is not None and self.best.epsilon > 0:
            parts.append(headline(self.best))
        if self.power is not None and self.power < 1:
            text = f"a q that is {100 * self.power:.2g} % too small would have been found with 95 % probability"
            if self.power_bit is not None:
                alone = f"{100 * self.power_bit:.2g} %" if self.power_bit < 1 else "not even q = 0"
                text += f" (on a single bit: {alone})"
            parts.append(text)
        elif self.power is not None:
            parts.append("the runs are too few to find a q that is too small")
        if self.search is not None and self.search.seed_bits:
            bits = self.search.seed_bits
            parts.append(f"a seed of up to {bits} bits per run would have been found with 95 % probability")
        return "; ".join(parts)

    def _failure(self) -> str:
        reasons = "; ".join(one.text for one in self.diagnoses[:5])
        more = len(self.diagnoses) - 5
        reasons += f"; and {more} more" if more > 0 else ""
        if self.private:
            return (
                f"FAIL: more noise than planned: {reasons}; estimates would be biased, but no loss of privacy was found"
            )
        if self.best is not None and self.best.epsilon > self.best.claimed:
            reasons += f"; {headline(self.best)}"
        return f"FAIL: {reasons}"


def headline(best: Attack) -> str:
    """Return the bound on ε that an attack shows, with its claim and its pair of inputs."""
    return f"empirical ε ≥ {best.epsilon:.4g}, claimed ≤ {best.claimed:.4g} ({best.name})"


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
        short = seeds.runs_needed(SEED_BITS_COMMAND if slow else SEED_BITS)
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
    tried = tried or effort(plan, client, shuffler, runs=runs, seed_runs=seed_runs)
    model = MessageModel(plan)
    notes: list[str] = []
    findings: list[Finding] = []
    samples = _send(client, plan, tried, progress, findings) if client is not None else []
    if samples:
        findings += [*flips.examine(samples, plan), *independence.examine(samples, plan)]
        findings += seeds.stretches(samples, plan)
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
    crowds = pipeline.crowds(plan) if tried.pipeline and not broken else []
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
    power, power_bit = flips.power(samples, plan, level)
    violations = [one for one in findings if one.violates(level)]
    return Audit(
        plan=plan,
        confidence=confidence,
        level=level,
        effort=tried,
        probes=len(samples),
        findings=findings,
        attacks=attacks,
        rates=flips.rates(samples, plan, 1 - confidence) if samples else [],
        power=power,
        power_bit=power_bit,
        notes=notes,
        diagnoses=diagnose(violations, samples, plan, 1 - confidence, search),
        search=search,
    )


def _mix(client: Client, plan: Plan, samples: list[Sample], n: int, notes: list[str]) -> list[Finding]:
    """Test a run of mixed values."""
    if not n:
        return []
    try:
        found, in_order = sequence.examine(sequence.send_mixed(client, plan, [one.probe for one in samples], n), plan)
    except WireError as error:
        return [_wire(error, "mixed values")]
    if in_order is False:
        notes.append("messages are not in the order of the records: dependence on other values is tested in total only")
    return found


def _search(
    client: Client, plan: Plan, samples: list[Sample], runs: int, progress: Progress, notes: list[str]
) -> seeds.Search | None:
    """Search for a weak seed in many short runs."""
    if any(one.grouped for one in samples):
        return None
    count = _counter("searching for a weak seed", runs, progress)
    found = seeds.search(client, plan, samples[0].probe, runs, count)
    if found is None and runs:
        notes.append("no weak seed was searched for: a short run of this plan has too little noise to be recognized")
    return found


def _wire(error: WireError, where: str) -> Finding:
    return finding("wire", str(error), where, 1.0, 0.0, 0.0)


def _send(client: Client, plan: Plan, tried: Effort, progress: Progress, findings: list[Finding]) -> list[Sample]:
    """Return the samples of all probes, and add a finding for each probe whose reports are illegal."""
    found = probes(plan.schema)
    count, samples = _counter("sending probes", len(found) * tried.runs, progress), []
    for probe in found:
        try:
            samples.append(sample(client, plan, probe, tried.values, tried.runs, count))
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
    pairs: list[pipeline.Neighbours], client: Client, shuffler: Shuffler, runs: int, level: float, progress: Progress
) -> list[Attack]:
    sizes = [int(min(runs, max(100, 400_000 // pipeline.cost(pair.plan)))) for pair in pairs]
    count = _counter("attacking the pipeline", 2 * sum(sizes), progress)
    return [
        attack
        for pair, size in zip(pairs, sizes, strict=True)
        for attack in pipeline.attack_pipeline(pair, client, shuffler, size, level, count)
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
