"""An application as one HTML page."""

import html

import numpy as np

from hubbub import planner
from hubbub.lab.applications.outcome import Outcome
from hubbub.lab.drawing import Axis, Series, bar_chart, bars_of, chart, error_chart
from hubbub.lab.pages import bullets, document, figure, footer, table, tiles


def page(shown: Outcome) -> str:
    """The whole page."""
    study, plan = shown.study, shown.plan
    bars = bars_of(shown.counted.estimate, shown.counted.truth, shown.shown())
    body = [
        f"<h1>{html.escape(study.title)}</h1>",
        f'<p class="lead">{html.escape(study.question)}</p>',
        _tiles(shown),
        "<h2>The plan</h2>",
        table(
            ("protocol", "error", "messages", "bytes"),
            [(planner.family_name(p), f"{p.stderr:,.4g}", *planner.cost(p).cells) for p in shown.rivals],
            marks=["best" if planner.family_name(p) == planner.family_name(plan) else "" for p in shown.rivals],
        ),
        "<p>Every protocol that meets the budget; chosen is the best in which the users draw the noise themselves and "
        "no answer travels in the clear.</p>",
        "<h2>Truth against estimate</h2>",
        figure(bar_chart(bars, "Counts"), "Bars: estimates. Upright lines: the truth."),
        figure(error_chart(bars, "Errors"), "Estimate minus truth, in people, with 95 % intervals."),
        figure(
            picture(shown),
            "Relative error of labels by their true share: what lies below the level line is as good as was asked for.",
        ),
        "<h2>The figures of 2016</h2>",
        table(
            ("figure", "printed", "recomputed", "remark"),
            [(c.what, c.printed, c.recomputed, c.remark) for c in shown.comparisons],
            kind="remarks",
        ),
        bullets([*(c.sentence() for c in shown.claims), *shown.remarks]),
        footer(f"simulated {shown.counted.how} · the people are synthetic.", plan.id),
    ]
    return document(f"hubbub: {study.title}", body)


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
    return chart(
        [
            Series(label="one label", points=dots, kind="dots"),
            Series(label="95 of 100 labels lie below", points=reach),
            Series(label=f"{shown.study.error:.0%}", points=[(x, shown.study.error) for x in ends]),
        ],
        "Relative error by share",
        across=Axis("true share of the people", log=True),
        up=Axis("relative error", log=True),
    )


def _tiles(shown: Outcome) -> str:
    plan, budget = shown.plan, shown.study.budget
    return tiles(
        [
            (f"{plan.n:,} people", f"{plan.schema.width:,} labels"),
            (f"ε = {budget.epsilon:g}", f"δ = {budget.delta:.2g}, proven for every person"),
            (f"{100 * shown.share:.3g} %", f"of the people: the least that is measured within {shown.study.error:.0%}"),
            (f"{planner.cost(plan).cells[0]} messages", f"of each person, {planner.cost(plan).cells[1]} bytes sealed"),
        ]
    )
