"""``frontier``: compare all protocols that meet a budget, grouped by the trust they need."""

import math
from typing import Any

import click
from rich.table import Table

from hubbub import planner
from hubbub.cli import options, screen
from hubbub.cli.options import FRACTION
from hubbub.documents import spell
from hubbub.errors import POSITIVE, SHARE, Interval, check_real
from hubbub.io.documents import write_plan
from hubbub.mechanisms.chances import count_shown
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget, TrustModel
from hubbub.model.schema import Schema
from hubbub.planner.deadlines import deadline_of
from hubbub.planner.precision import percent
from hubbub.planner.search import preferred
from hubbub.report import plans_chart

DISHONEST = Interval(0.0, 1.0, open_high=True)
SHARE_HELP = "Show the relative error of a label held by this share of the population, sampling error included."
DISHONEST_HELP = "Also show ε if this fraction of users colludes with the analyzer."
PLOT_HELP = "Rank the protocols by error, as SVG, PNG or PDF (needs the extra 'plot')."
CHOOSE_HELP = f"Write the best plan of this family to --output: {', '.join(planner.FAMILIES)}."
DEADLINE_HELP = "Leave out protocols that are not certified within so many seconds."
CENTRAL = "trust: a server with all records, for reference"


@click.command()
@options.survey_options
@options.people_option
@options.budget_options
@options.trust_option(None)
@options.constraint_options
@click.option("--share", type=FRACTION, help=SHARE_HELP)
@click.option("--error", type=FRACTION, default=0.05, help="Relative error at which a share is measurable.")
@click.option("--dishonest", type=FRACTION, metavar="SHARE", help=DISHONEST_HELP)
@click.option("--plot", metavar="FILE", help=PLOT_HELP)
@click.option("--choose", type=click.Choice(list(planner.FAMILIES)), metavar="FAMILY", help=CHOOSE_HELP)
@click.option("--deadline", type=float, metavar="SECONDS", help=DEADLINE_HELP)
@options.output_option("Write the plan of --choose to this file, or the one that `hubbub plan` chooses")
@options.json_option
def frontier(
    schema: Schema,
    n: int,
    budget: Budget,
    trust: TrustModel | None,
    share: float | None,
    error: float,
    dishonest: float | None,
    plot: str | None,
    choose: str | None,
    deadline: float | None,
    output: str | None,
    as_json: bool,
    **constraints: Any,
) -> None:
    """Compare all protocols that meet a budget, by the trust that they need.

    Without --trust, shows plans for every kind of trust, also those that send records in the clear.

    \b
    Example: hubbub frontier --one-hot 12 -n 10000 --epsilon 1 --delta 1e-6
    """
    check_real("error", error, POSITIVE)
    check_real("dishonest", dishonest or 0.0, DISHONEST)
    check_real("share", 1.0 if share is None else share, SHARE)
    with screen.waiting("comparing protocols"):
        request = planner.Request.of(schema, n, budget, trust=trust or "shuffler-noise", **constraints)
        found = planner.Search.of(request, stop=deadline_of(deadline))
        plans = found.grouped
        chosen = _chosen(found, choose, trust, constraints["clear"])
        rows = [_row(plan, error, share, dishonest) for plan in plans]
    # A central mechanism for a survey would have a layout and an allocation of its own.
    central = planner.central_stderr(schema, budget, request.rounds) if not schema.named else None
    if plot:
        plans_chart(plans, central=central).save(plot)
    if output:
        write_plan(chosen, output)
    if as_json:
        reasons = {"infeasible": found.failures, "late": found.late}
        screen.print_json({"n": n, "central_stderr": central, "plans": rows, **reasons})
    elif output != "-":
        screen.console().print(frontier_table(plans, rows, central, error, share))
        if found.late:
            click.echo(f"not certified within {deadline:g} s: {', '.join(found.late)}", err=True)


def _chosen(found: planner.Search, choose: str | None, trust: TrustModel | None, clear: bool) -> Plan:
    """Return the plan of a family, or the best one under the trust that ``hubbub plan`` would assume."""
    if choose is not None:
        return found.plan_of(choose)
    best = found.best
    allowed = [
        one
        for one in found.plans.values()
        if not any(noise.shuffler_fakes for noise in one.protocol.noise) and (clear or not one.protocol.clear)
    ]
    return best if trust or not allowed else preferred(found.request, allowed)


def _row(one: Plan, error: float, share: float | None, dishonest: float | None) -> dict[str, Any]:
    row = {
        **screen.plan_record(one),
        "measurable_share": planner.measurable_share(one, error),
        "joint": one.protocol.sends_records,
    }
    if one.protocol.sends_strings:
        row["shown"] = {"half": count_shown(one, 0.5), "most": count_shown(one, 0.95)}
    if share is not None:
        row["relative_error"] = {"share": share, "error": planner.relative_error(one, share)}
    if dishonest is not None:
        left = planner.under_attack(one, 1 - dishonest)
        row["under_attack"] = {"dishonest": dishonest, "epsilon": spell(left.epsilon), "delta": left.delta}
    return row


LEGEND = (
    "error: standard error of one count, in people. ± of: smallest share of the batch that is measured within this "
    "relative error. messages, bytes: sealed upload of one user; not offered: the services cannot run this protocol. "
    "joint: joint tables can be estimated. collusion ε: guarantee if shuffler and analyzer collude."
)
SURVEY_LEGEND = "in people or ranges, as the root mean square over all questions"
SHOWN_LEGEND = "shown: people who must hold a string for it to be shown with this probability."
SHARE_LEGEND = "error of: relative error, at the 95% level, of a label held by this share of the population."


def frontier_table(
    plans: list[Plan], rows: list[dict[str, Any]], central: float | None, error: float, share: float | None = None
) -> Table:
    """Return the frontier as a table with a section for each kind of trust, and the central mechanism as last row."""
    measured = f"± {percent(error)} of" if share is None else f"error of {percent(share)}"
    head = ["protocol", "error", measured, "messages", "bytes", "joint", "collusion ε"]
    strings = bool(rows) and "shown" in rows[0]
    if strings:
        head[2:2] = ["shown 50%", "shown 95%"]
    attacked = bool(rows) and "under_attack" in rows[0]
    if attacked:
        head.append(f"ε, {rows[0]['under_attack']['dishonest']:.0%} dishonest")
    table = screen.grid("", head, [])
    last = ""
    for one, row in zip(plans, rows, strict=True):
        if (title := _title(one)) != last:
            _section(table, title, first=not last)
            last = title
        cells = [
            f"  {row['name']}",
            f"{one.stderr:,.4g}",
            *([f"{row['shown'][name]:,}" for name in ("half", "most")] if strings else []),
            _measured(row),
            *planner.cost(one).cells,
            "yes" if row["joint"] else "no",
            _epsilon(one.rounds * one.guarantee.assumptions.collusion_epsilon),
        ]
        if attacked:
            cells.append(_epsilon(float(row["under_attack"]["epsilon"])))
        table.add_row(*map(screen.plain, cells))
    if central is not None:
        _section(table, CENTRAL, first=not plans)
        table.add_row("  central mechanism", f"{central:,.4g}")
    for column in table.columns[1:]:
        column.no_wrap = True
    legend = LEGEND if share is None else f"{LEGEND} {SHARE_LEGEND}"
    if strings:
        legend = f"{legend} {SHOWN_LEGEND}"
    survey = any(one.schema.named for one in plans)
    if plans and plans[0].rounds > 1:
        legend = legend.replace("collude.", f"collude in all {plans[0].rounds:,} rounds.")
        legend = legend.replace("of one count", "per round of one count")
    table.caption = legend.replace("of one count, in people", SURVEY_LEGEND) if survey else legend
    table.caption_justify = "left"
    return table


def _epsilon(value: float) -> str:
    return "∞ (no protection)" if math.isinf(value) else f"{value:.3g}"


def _title(one: Plan) -> str:
    """Return the title of the group of a plan: the trust it needs, and the options that allow it."""
    trust = planner.FAMILIES[planner.family_key(one)].trust
    if trust == "shuffling":
        return f"trust: shuffling {'--allow-clear' if one.protocol.clear else '(default)'}"
    return f"trust: {trust}"


def _section(table: Table, title: str, *, first: bool) -> None:
    if not first:
        table.add_row()
    table.add_row(screen.plain(title), style="bold")


def _measured(row: dict[str, Any]) -> str:
    if "relative_error" in row:
        found = row["relative_error"]["error"]
        return f"±{percent(found)}" if found < 1 else "none"
    return f"{row['measurable_share']:.3g}" if row["measurable_share"] <= 1 else "none"
