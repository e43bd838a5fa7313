"""The results of an audit: effort, tests, attacks and the verdict in words, as JSON and as one HTML page."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from hubbub.documents import spell
from hubbub.lab.audit.attacks import Attack
from hubbub.lab.audit.client import Rate, Search
from hubbub.lab.audit.model import MessageModel
from hubbub.lab.audit.statistics import Diagnosis, Finding, max_true_positive_rate
from hubbub.model.plans import Plan
from hubbub.report import Axis, Bar, Facts, Figure, Report, Section, Series, Table, chart, error_chart, render

LIMITS = (
    "An audit can reveal violations but not rule them out: a client that behaves only while it is audited, or only on "
    "the tested values, passes.",
    "It sees outputs only, not timing, memory, logs, keys, network addresses or anything else that leaves a device.",
    "Randomness that is predictable but looks random, such as that of a weak seed, is found only if it repeats within "
    "the audit, so only short seeds are.",
    "A lower bound on ε proves no privacy: it is what these attacks achieved. The guarantee is that of the plan.",
)
"""The limits of an audit, for its reports."""


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
    attacks: list[Attack] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)
    power: float | None = None
    """Relative shortfall of q on all bits that is found with probability 95 %; None if nothing is flipped."""
    power_bit: float | None = None  # the same for a shortfall on one bit only
    notes: list[str]  # the parts that were skipped, with reasons
    diagnoses: list[Diagnosis]  # the defects that explain the violations
    search: Search | None = None  # the search for a weak seed

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


ROWS = 24  # the most bits in the chart


def record(found: Audit) -> dict[str, Any]:
    """Return all findings for machines."""
    return {
        "plan": found.plan.id,
        "verdict": "PASS" if found.passed else "FAIL",
        "sentence": found.sentence(),
        "confidence": found.confidence,
        "level": found.level,
        "values": found.probes * found.effort.values * found.effort.runs,
        "power": {
            "all_bits": found.power,
            "one_bit": found.power_bit,
            "seed_bits": found.search.seed_bits if found.search is not None else None,
        },
        "headline": found.attacks.index(found.best) if found.best is not None else None,
        "privacy": "PASS" if found.private else "FAIL",
        "diagnoses": [_row(one) for one in found.diagnoses],
        "violations": [f"{one.name}: {one.where}" for one in found.violations],
        "tests": [_row(one, "bound", passed=not one.violates(found.level)) for one in found.findings],
        "attacks": [
            _row(one, "name", "curve", "of_records", pair=one.name, epsilon=max(one.epsilon, 0.0))
            for one in found.attacks
        ],
        "rates": [_row(one, "flips", "trials", rate=one.flips / one.trials) for one in found.rates],
        "notes": found.notes,
        "limits": list(LIMITS),
    }


def _row(one: Any, *left_out: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a result but some, and more."""
    values = {name: value for name, value in asdict(one).items() if name not in left_out} | more
    return {name: spell(value) if isinstance(value, float) else value for name, value in values.items()}


def page(found: Audit) -> str:
    """Return the whole page."""
    text = f"An honest program passes all of them with probability {found.confidence:.4g}: each is made at level "
    text += f"{found.level:.2g}."
    return render(
        Report(
            title=f"hubbub: an audit of {found.plan.id[:8]}",
            heading=_heading(found),
            lede=f"{found.sentence()}." if found.passed else f"{found.sentence().split(':')[0]}: see the diagnosis.",
            tiles=_tiles(found),
            sections=[
                *_diagnosis(found),
                *_rates(found),
                *map(_trade, _chosen(found)),
                Section("All tests", [text, _table(found)]),
                Section("What an audit cannot show", [Facts((*LIMITS, *found.notes))]),
            ],
            note="this page loads and sends nothing.",
            plan=found.plan.id,
        )
    )


def _heading(found: Audit) -> str:
    if found.passed:
        return "No violation found"
    return "More noise than planned" if found.private else "Violation found"


def _diagnosis(found: Audit) -> list[Section]:
    if not found.diagnoses:
        return []
    harms = {"privacy": "privacy", "estimates": "estimates only: more noise than planned"}
    rows = [(one.kind, one.text, harms[one.harm], f"{one.p:.2g}") for one in found.diagnoses]
    marks = ["alarm" if one.harm == "privacy" else "" for one in found.diagnoses]
    text = f"A program that follows its plan gets any diagnosis with probability at most {1 - found.confidence:.2g}."
    return [Section("Diagnosis", [text, Table(("defect", "evidence", "concerns", "p"), rows, marks)])]


def _tiles(found: Audit) -> list[tuple[str, str]]:
    shown = [
        ("PASS" if found.passed else "FAIL", f"{len(found.findings)} tests, {len(found.violations)} violations"),
        (f"{found.probes * found.effort.values * found.effort.runs:,}", f"values sent, of {found.probes} kinds"),
    ]
    if found.best is not None:
        reached, claimed = max(found.best.epsilon, 0.0), found.best.claimed
        shown.append((f"ε ≥ {reached:.3g}", f"by the best attack, {found.best.name}; claimed ≤ {claimed:.3g}"))
    if found.power is not None:
        shown.append((f"{100 * found.power:.2g} %", "the deficit of q that is found 19 times out of 20"))
    if found.search is not None and found.search.seed_bits:
        shown.append((f"{found.search.seed_bits} bits", "the seed per run that is found 19 times out of 20"))
    return shown


def _table(found: Audit) -> Table:
    bad = [one.violates(found.level) for one in found.findings]
    rows = [
        (f"{one.part}: {one.name}", one.where, *one.figures, "violated" if wrong else "ok")
        for one, wrong in zip(found.findings, bad, strict=True)
    ]
    marks = ["alarm" if wrong else "" for wrong in bad]
    return Table(("test", "worst at", "observed", "expected", "p", "result"), rows, marks)


def _rates(found: Audit) -> list[Section]:
    if not found.rates or not MessageModel(found.plan).flipped:
        return []
    q = found.plan.protocol.q
    model = MessageModel(found.plan)
    bars = []
    for one in found.rates[:ROWS]:
        planned, ends = model.flip(was_set=one.set), (one.flips / one.trials, one.low, one.high)
        bars.append(Bar(_label(one), 0.0, *(100 * (x / planned - 1) for x in ends)))
    rest = f" The first of {len(found.plan.schema.labels):,} labels." if len(found.rates) > ROWS else ""
    caption = (
        f"Difference of each bit's observed flip probability from q = {q:.4g}, in per cent, with intervals that hold "
        f"simultaneously at {found.confidence:.4g}.{rest}"
    )
    drawn = error_chart(
        bars, "Flip probability of each bit", centre="as planned", name="difference from plan, per cent"
    )
    return [Section("Flip probabilities", [Figure(drawn, caption)])]


def _label(one: Rate) -> str:
    name = one.label if one.label.strip() else "(blank)"
    return f"{name[:14]}, {'set' if one.set else 'not set'}"


def _chosen(found: Audit) -> list[Attack]:
    """Return the attacks to draw: that of the headline, and the best of the other kind, on messages or on batches."""
    best = found.best
    if best is None:
        return []
    others = [one for one in found.attacks if one.of_records and _on_batch(one) is not _on_batch(best)]
    drawn = [best, *sorted(others, key=lambda one: -one.epsilon / one.claimed)[:1]]
    return [one for one in drawn if one.curve and math.isfinite(one.claimed)]


def _on_batch(one: Attack) -> bool:
    return one.name.startswith("n = ")


def _trade(one: Attack) -> Section:
    """Return the true against the false positive rate of an attack, and the limit of (ε,δ)-differential privacy."""
    shares = sorted({i / 200 for i in range(201)} | {10 ** (-i / 10) for i in range(61)})
    drawn = chart(
        [
            Series(label="the attack, as observed", points=one.curve),
            Series(
                label=f"the event of the bound ε ≥ {max(one.epsilon, 0):.3g}",
                points=[(one.hits[1] / max(one.trials[1], 1), one.hits[0] / max(one.trials[0], 1))],
                kind="dots",
            ),
            Series(
                label=f"the limit of ε = {one.claimed:.3g}, δ = {one.delta:.2g}",
                points=[(x, max_true_positive_rate(x, one.claimed, one.delta)) for x in shares],
                stroke="thin",
            ),
            Series(label="guessing", points=[(0, 0), (1, 1)], colour="quiet", stroke="thin dashed"),
        ],
        one.name,
        across=Axis("false positive rate", 0, 1),
        up=Axis("true positive rate", 0, 1),
    )
    caption = (
        f"{one.name}: by {one.event}. The bound ε ≥ {max(one.epsilon, 0):.3g} comes from {one.hits[0]:,} of "
        f"{one.trials[0]:,} against {one.hits[1]:,} of {one.trials[1]:,}."
    )
    return Section("True against false positive rate", [Figure(drawn, caption)])
