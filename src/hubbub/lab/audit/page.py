"""An audit as JSON and as one HTML page."""

import math
from typing import Any

from hubbub.documents import spell
from hubbub.lab.audit.distinguishers import Attack
from hubbub.lab.audit.flips import Rate
from hubbub.lab.audit.model import MessageModel
from hubbub.lab.audit.results import LIMITS, Audit
from hubbub.lab.audit.statistics import max_true_positive_rate
from hubbub.report import Axis, Bar, Facts, Figure, Report, Section, Series, Table, chart, error_chart, render

ROWS = 24  # the most bits in the chart


def record(found: Audit) -> dict[str, Any]:
    """Return all findings for machines."""
    names = ("part", "name", "where", "observed", "allowed", "p")
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
        "diagnoses": [
            {"kind": one.kind, "text": one.text, "harm": one.harm, "p": _number(one.p)} for one in found.diagnoses
        ],
        "violations": [f"{one.name}: {one.where}" for one in found.violations],
        "tests": [
            {**{name: _number(getattr(one, name)) for name in names}, "passed": not one.violates(found.level)}
            for one in found.findings
        ],
        "attacks": [
            {
                "pair": one.name,
                "event": one.event,
                "hits": list(one.hits),
                "trials": list(one.trials),
                "delta": one.delta,
                "epsilon": _number(max(one.epsilon, 0.0)),
                "claimed": _number(one.claimed),
            }
            for one in found.attacks
        ],
        "rates": [
            {"label": one.label, "set": one.set, "rate": one.flips / one.trials, "low": one.low, "high": one.high}
            for one in found.rates
        ],
        "notes": found.notes,
        "limits": list(LIMITS),
    }


def _number(value: Any) -> Any:
    return spell(value) if isinstance(value, float) else value


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
    rows, marks = [], []
    for one in found.findings:
        bad = one.violates(found.level)
        at_least, at_most, chance = ("≥ ", "≤ ", "") if one.bound else ("", "", f"{one.p:.2g}")
        figures = (f"{at_least}{one.observed:.4g}", f"{at_most}{one.allowed:.4g}", chance)
        rows.append((f"{one.part}: {one.name}", one.where, *figures, "violated" if bad else "ok"))
        marks.append("alarm" if bad else "")
    return Table(("test", "worst at", "observed", "expected", "p", "result"), rows, marks)


def _rates(found: Audit) -> list[Section]:
    if not found.rates or found.plan.protocol.clear:
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
