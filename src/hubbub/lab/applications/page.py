"""An application as one HTML page."""

import html
from collections.abc import Iterable, Sequence

import numpy as np

from hubbub import __version__, planner
from hubbub.lab.applications.outcome import Outcome
from hubbub.lab.charts import STYLE, Series, line_chart
from hubbub.lab.drawing import Bar, bar_chart, error_chart
from hubbub.lab.report import document

__all__ = ["page", "picture"]

REMARKS = " .remarks td:last-child, .remarks th:last-child { white-space: normal; text-align: left; }"


def page(shown: Outcome) -> str:
    """The whole page."""
    study, plan = shown.study, shown.plan
    low, high = shown.counted.estimate.interval(0.95)
    bars = [
        Bar(
            plan.schema.labels[i],
            float(shown.counted.truth[i]),
            float(shown.counted.estimate.values[i]),
            float(low[i]),
            float(high[i]),
        )
        for i in shown.shown()
    ]
    body = [
        f"<h1>{html.escape(study.title)}</h1>",
        f'<p class="lead">{html.escape(study.question)}</p>',
        _tiles(shown),
        "<h2>The plan</h2>",
        _table(
            ("protocol", "error", "messages", "bytes"),
            [(planner.family(p), f"{p.stderr:,.4g}", f"{p.messages:,.4g}", f"{p.upload:,.4g}") for p in shown.rivals],
            best=planner.family(plan),
        ),
        "<p>Every protocol that meets the budget; chosen is the best in which the users draw the noise themselves and "
        "no answer travels in the clear.</p>",
        "<h2>Truth against estimate</h2>",
        _figure(bar_chart(bars, "Counts"), "Bars: estimates. Upright lines: the truth."),
        _figure(error_chart(bars, "Errors"), "Estimate minus truth, in people, with 95 % intervals."),
        _figure(
            picture(shown),
            "Relative error of labels by their true share: what lies below the level line is as good as was asked for.",
        ),
        "<h2>The figures of 2016</h2>",
        _table(
            ("figure", "printed", "recomputed", "remark"),
            [(c.what, c.printed, c.recomputed, c.remark) for c in shown.comparisons],
            kind="remarks",
        ),
        "<ul>"
        + "".join(f"<li>{html.escape(t)}</li>" for t in [*(c.sentence() for c in shown.claims), *shown.remarks])
        + "</ul>",
        f"<footer>hubbub {__version__} · plan <code>{plan.id}</code> · simulated {html.escape(shown.counted.how)} · "
        "the people are synthetic.</footer>",
    ]
    return document(f"hubbub: {study.title}", "".join(body), STYLE + REMARKS)


def picture(shown: Outcome) -> str:
    """Relative errors by true share, thinned to at most some hundred labels of all sizes."""
    truth = shown.counted.truth.astype(np.float64)
    error = np.abs(shown.counted.estimate.values - truth)
    order = np.flatnonzero(truth > 0)
    order = order[np.argsort(-truth[order], kind="stable")]
    places = np.unique(np.geomspace(1, order.size, min(300, order.size)).round().astype(int)) - 1
    chosen = order[places]
    n = shown.plan.n
    dots = [(float(truth[i] / n), float(max(error[i] / truth[i], 1e-6))) for i in chosen]
    ends = (min(x for x, _ in dots), max(x for x, _ in dots))
    reach = [(x, 1.96 * shown.plan.stderr / (x * n)) for x in np.geomspace(*ends, 60).tolist()]
    return line_chart(
        [
            Series("one label", dots, "dots"),
            Series("95 of 100 labels lie below", reach),
            Series(f"{shown.study.error:.0%}", [(x, shown.study.error) for x in ends]),
        ],
        title="Relative error by share",
        x="true share of the people",
        y="relative error",
        log_x=True,
        log_y=True,
    )


def _figure(drawn: str, caption: str) -> str:
    return f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>"


def _tiles(shown: Outcome) -> str:
    plan, budget = shown.plan, shown.study.budget
    tiles: Iterable[tuple[str, str]] = (
        (f"{plan.n:,} people", f"{plan.schema.width:,} labels"),
        (f"ε = {budget.epsilon:g}", f"δ = {budget.delta:.2g}, proven for every person"),
        (f"{100 * shown.share:.3g} %", f"of the people: the least that is measured within {shown.study.error:.0%}"),
        (f"{plan.messages:.4g} messages", f"of each person, {plan.upload:.4g} bytes"),
    )
    cells = "".join(f'<div class="tile"><b>{a}</b><span>{b}</span></div>' for a, b in tiles)
    return f'<div class="tiles">{cells}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], best: str = "", kind: str = "plain") -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        ('<tr class="best">' if best and row[0] == best else "<tr>")
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    table = f'<table class="{kind}"><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'
