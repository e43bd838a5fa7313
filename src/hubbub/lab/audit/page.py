"""An audit as JSON and as one HTML page, in the style of all reports."""

import html
import math
from typing import Any

from hubbub.canonical import spell
from hubbub.lab.audit.distinguishers import Attack
from hubbub.lab.audit.flips import Rate
from hubbub.lab.audit.statistics import max_true_positive_rate
from hubbub.lab.audit.trial import LIMITS, Audit
from hubbub.lab.drawing import Axis, Bar, Series, chart, error_chart
from hubbub.lab.pages import bullets, document, figure, footer, table, tiles

ROWS = 24
"""Bits that are drawn."""


def record(found: Audit) -> dict[str, Any]:
    """Everything that was found, for machines."""
    names = ("part", "name", "where", "observed", "allowed", "p")
    return {
        "plan": found.plan.id,
        "verdict": "PASS" if found.passed else "FAIL",
        "sentence": found.sentence(),
        "confidence": found.confidence,
        "level": found.level,
        "values": found.probes * found.effort.values * found.effort.runs,
        "power": {"all_bits": found.power, "one_bit": found.power_bit},
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
    """The whole page."""
    parts = [
        f"<h1>{'No violation found' if found.passed else 'Violation found'}</h1>",
        f'<p class="lead">{html.escape(found.sentence())}.</p>',
        _tiles(found),
        _rates(found),
        *map(_trade, _chosen(found)),
        "<h2>All tests</h2>",
        f"<p>An honest program passes them all with probability {found.confidence:.4g}: each is made at "
        f"{found.level:.2g}.</p>",
        _table(found),
        "<h2>What an audit can not show</h2>",
        bullets((*LIMITS, *found.notes)),
        footer("nothing on this page comes from elsewhere, and nothing is sent.", found.plan.id),
    ]
    return document(f"hubbub: an audit of {found.plan.id[:8]}", parts)


def _tiles(found: Audit) -> str:
    shown = [
        ("PASS" if found.passed else "FAIL", f"{len(found.findings)} tests, {len(found.violations)} violations"),
        (f"{found.probes * found.effort.values * found.effort.runs:,}", f"values sent, of {found.probes} kinds"),
    ]
    if found.best is not None:
        reached, claimed = max(found.best.epsilon, 0.0), found.best.claimed
        shown.append((f"ε ≥ {reached:.3g}", f"by the best attack; claimed ≤ {claimed:.3g}"))
    if found.power is not None:
        shown.append((f"{100 * found.power:.2g} %", "by so much too small a q would have been found, 19 times of 20"))
    return tiles(shown)


def _table(found: Audit) -> str:
    rows, marks = [], []
    for one in found.findings:
        bad = one.violates(found.level)
        at_least, at_most, chance = ("≥ ", "≤ ", "") if one.bound else ("", "", f"{one.p:.2g}")
        figures = (f"{at_least}{one.observed:.4g}", f"{at_most}{one.allowed:.4g}", chance)
        rows.append((f"{one.part}: {one.name}", one.where, *figures, "violated" if bad else "ok"))
        marks.append("alarm" if bad else "")
    return table(("test", "worst at", "observed", "allowed", "p", ""), rows, marks=marks, kind="tests")


def _rates(found: Audit) -> str:
    q = found.plan.protocol.q
    if not found.rates or not q:
        return ""
    shown = found.rates[:ROWS]
    bars = [Bar(_label(one), 0.0, *(100 * (x / _allowed(one, found) - 1) for x in _around(one))) for one in shown]
    rest = f" Of {len(found.plan.schema.labels):,} labels the first ones." if len(found.rates) > ROWS else ""
    caption = (
        f"How much more or less often than q = {q:.4g} each bit lied, in per cent, with intervals that hold "
        f"all at once at {found.confidence:.4g}.{rest}"
    )
    return "<h2>How often bits lie</h2>" + figure(error_chart(bars, "Lies of each bit", centre="as planned"), caption)


def _allowed(one: Rate, found: Audit) -> float:
    q, width = found.plan.protocol.q, found.plan.schema.width
    return q * (width - 1) if found.plan.protocol.sends_category and one.set else q


def _around(one: Rate) -> tuple[float, float, float]:
    return one.flips / one.trials, one.low, one.high


def _label(one: Rate) -> str:
    name = one.label if one.label.strip() else "(blank)"
    return f"{name[:14]}, {'set' if one.set else 'not set'}"


def _chosen(found: Audit) -> list[Attack]:
    """The attacks to draw: the one that came nearest to its claim, on single messages and on batches."""
    drawn = [one for one in found.attacks if one.curve and math.isfinite(one.claimed)]
    parts = [[one for one in drawn if one.name.startswith("n = ") is batch] for batch in (False, True)]
    return [max(part, key=lambda one: one.epsilon / one.claimed) for part in parts if part]


def _trade(one: Attack) -> str:
    """True against false alarms of an attack, below the line that (ε,δ)-differential privacy allows."""
    shares = sorted({i / 200 for i in range(201)} | {10 ** (-i / 10) for i in range(61)})
    drawn = chart(
        [
            Series(label="the attack, as observed", points=one.curve),
            Series(
                label=f"the limit of ε = {one.claimed:.3g}, δ = {one.delta:.2g}",
                points=[(x, max_true_positive_rate(x, one.claimed, one.delta)) for x in shares],
                stroke="thin",
            ),
            Series(label="guessing", points=[(0, 0), (1, 1)], colour="quiet", stroke="thin dashed"),
        ],
        one.name,
        across=Axis("false alarms", 0, 1),
        up=Axis("true alarms", 0, 1),
    )
    return "<h2>True against false alarms</h2>" + figure(
        drawn,
        f"{one.name}: by {one.event}. The bound ε ≥ {max(one.epsilon, 0):.3g} comes from {one.hits[0]:,} of "
        f"{one.trials[0]:,} against {one.hits[1]:,} of {one.trials[1]:,}.",
    )
