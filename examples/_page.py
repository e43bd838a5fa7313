"""An example as one HTML page."""

import html

import numpy as np

from examples._outcome import Outcome
from examples._rules_2016 import percent
from hubbub import planner
from hubbub.report import (
    Axis,
    Chart,
    Series,
    bar_chart,
    bars_of,
    bullets,
    chart,
    document,
    error_chart,
    figure,
    footer,
    table,
    tiles,
)


def page(shown: Outcome) -> str:
    """Return the page."""
    study, plan = shown.study, shown.plan
    bars = bars_of(shown.simulated.estimate, shown.simulated.truth, shown.shown())
    body = [
        f"<h1>{html.escape(study.title)}</h1>",
        f'<p class="lead">{html.escape(study.question)}</p>',
        _tiles(shown),
        "<h2>The plan</h2>",
        table(
            ("protocol", "error", "messages", "bytes"),
            [(planner.family_name(p), f"{p.stderr:,.4g}", *planner.cost(p).cells) for p in shown.frontier],
            marks=["best" if planner.family_key(p) == planner.family_key(plan) else "" for p in shown.frontier],
        ),
        "<p>Every protocol that meets the budget. The highlighted one is the best in which the users draw the noise "
        "and no answer is sent in the clear.</p>",
        "<h2>True and estimated counts</h2>",
        figure(bar_chart(bars, "Counts"), "Bars: estimates. Vertical lines: true counts."),
        figure(error_chart(bars, "Errors"), "Estimate minus truth, in people, with 95 % intervals."),
        figure(
            picture(shown),
            "Relative error of labels by their true share. Below the horizontal line the target is met.",
        ),
        f"<h2>The figures of 2016, for {shown.people_of_2016:,} people</h2>",
        table(
            ("figure", "printed", "recomputed", "remark"),
            [(c.what, c.printed, c.recomputed, c.remark) for c in shown.comparisons],
        ),
        f"<h2>With {plan.n:,} people</h2>",
        bullets([shown.accuracy(), *(c.sentence() for c in shown.claims), *shown.remarks]),
        footer(f"Simulated {shown.simulated.how}; the people are synthetic.", plan.id),
    ]
    return document(f"hubbub: {study.title}", body)


def picture(shown: Outcome) -> Chart:
    """Draw relative errors by true share, for at most 300 labels of all sizes."""
    truth = shown.simulated.truth.astype(np.float64)
    error = np.abs(shown.simulated.estimate.values - truth)
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
            Series(label="95 of 100 labels lie below this", points=reach),
            Series(label=percent(shown.study.error), points=[(x, shown.study.error) for x in ends]),
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
            (
                percent(shown.share) if shown.share < 1 else "none",
                f"of the people: the smallest share measured within {percent(shown.study.error)}",
            ),
            (f"{planner.cost(plan).cells[0]} messages", f"per person, {planner.cost(plan).cells[1]} bytes sealed"),
        ]
    )
