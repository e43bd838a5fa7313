"""``plan``, ``frontier``, ``account``, ``calibrate``: choose a protocol and compute its guarantee."""

import math
from typing import Any

import click
from rich.table import Table

from hubbub import accountant, planner
from hubbub.canonical import spell
from hubbub.cli import options, screen
from hubbub.errors import POSITIVE, Infeasible, Interval, check_real
from hubbub.io.documents import write_plan
from hubbub.pages import plans_chart, words
from hubbub.plans import Plan
from hubbub.privacy import TRUST_MODELS, Assumptions, Budget, TrustModel
from hubbub.protocol import Fakes, Protocol, Release
from hubbub.schema import Schema

DISHONEST = Interval(0.0, 1.0, open_high=True)
TRUST_HELP = "Rely on nobody, on a shuffler that shuffles, or on one that also draws its fakes as planned."
PRECISION_HELP = "Instead of -n: find the smallest batch whose standard error is at most this share of it."
STDERR_HELP = "Instead of --epsilon: find the smallest ε with at most this standard error."
DISHONEST_HELP = "Also show ε if this fraction of users colludes with the analyzer."
PLOT_HELP = "Rank the protocols by error, as SVG, PNG or PDF (needs the extra 'plot')."
CHOOSE_HELP = f"Write the best plan of this family to --output: {', '.join(planner.FAMILIES)}."

trust_option = click.option(
    "--trust", type=click.Choice(TRUST_MODELS), default="shuffler-noise", show_default=True, help=TRUST_HELP
)


@click.command()
@options.schema_options
@options.people_option
@click.option("--epsilon", type=float, help="Solve for δ at this ε.")
@click.option("--delta", type=float, help="Solve for ε at this δ.")
@options.protocol_options
@options.honest_option
@trust_option
@click.option("--rigorous", is_flag=True, help="Confirm in ball arithmetic (single bits; needs the extra 'rigorous').")
@options.output_option("Also write the plan with these parameters")
@options.json_option
def account(
    schema: Schema,
    n: int,
    epsilon: float | None,
    delta: float | None,
    q: float | None,
    k: int,
    m: int | Fakes | None,
    release: Release,
    honest_fraction: float,
    trust: TrustModel,
    rigorous: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Compute the guarantee of given parameters.

    \b
    Example: hubbub account --bits 5 -n 20000 --q 0.1 --delta 1e-6
    """
    protocol = Protocol(q or 0.0, k, m or 0, release)
    request: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "honest_fraction": honest_fraction,
        "trust": trust,
    }
    with screen.waiting("accounting"):
        guarantee = accountant.account(protocol, schema, n, rigorous=rigorous, **request)
        if output:
            write_plan(planner.plan_from(schema, n, protocol, **request), output)
    if as_json:
        screen.print_json(guarantee.to_document())
    elif output != "-":
        screen.console().print(screen.facts(words.described_guarantee(guarantee)))


@click.command()
@options.schema_options
@click.option("-n", "n", type=int, metavar="PEOPLE", help="Minimum batch size; if omitted, the smallest is found.")
@options.budget_options
@options.protocol_options
@options.honest_option
@trust_option
@click.option("--max-q", type=float, default=0.5, help="Largest flip probability to consider.")
@options.output_option("Also write the plan with the parameters found")
@options.json_option
def calibrate(
    schema: Schema,
    n: int | None,
    budget: Budget,
    q: float | None,
    k: int,
    m: int | Fakes | None,
    release: Release,
    honest_fraction: float,
    trust: TrustModel,
    max_q: float,
    output: str | None,
    as_json: bool,
) -> None:
    """Find the least noise, or the smallest batch, that meets a budget.

    Without --q, finds the smallest flip probability; with --q and without --m, the smallest number of fakes; with both
    and without -n, the smallest batch.

    \b
    Example: hubbub calibrate --bits 5 -n 20000 --epsilon 1 --delta 1e-6
    """
    if q is None and n is None:
        raise click.UsageError("give -n or --q: only one of them can be found")
    m = m if m is not None or (q is not None and n is not None) else 0
    terms: dict[str, Any] = {"honest_fraction": honest_fraction, "trust": trust}
    with screen.waiting("calibrating"):
        calibrated = accountant.calibrate(schema, n, budget, q=q, k=k, m=m, release=release, max_q=max_q, **terms)
        result = planner.plan_from(schema, calibrated.n, calibrated.protocol, epsilon=budget.epsilon, **terms)
    _deliver(result, output, as_json)


def _deliver(result: Plan, output: str | None, as_json: bool) -> None:
    """Write the plan to a file and print it; with --json, print the plan file itself."""
    if output:
        write_plan(result, output)
    if as_json:
        click.echo(result.to_json())
    elif output != "-":
        screen.console().print(screen.facts(words.described_plan(result)))


_BY_USERS: dict[str, Any] = {"flag_value": False, "default": True, "show_default": False}


def _limit(name: str, default: float, text: str) -> Any:
    return click.option(name, type=float, default=default, show_default=False, metavar="NUMBER", help=text)


constraint_options = options.combined(
    options.honest_option,
    click.option("--no-shuffler-fakes", "shuffler_fakes", **_BY_USERS, help="Only users add noise."),
    click.option("--joint", is_flag=True, help="Require whole records, which joint tables need."),
    _limit("--max-messages", math.inf, "Largest number of messages per user, as sealed by the services."),
    _limit("--max-bytes", math.inf, "Largest upload per user in bytes, as sealed by the services."),
    _limit("--min-q", 0.0, "Smallest flip probability that a policy allows."),
    click.option("--rounds", type=int, default=1, help="Number of collections that share the budget."),
)
"""The constraints of ``plan`` and ``frontier``, which get them as ``**constraints``."""


@click.command()
@options.schema_options
@click.option("-n", "n", type=int, metavar="PEOPLE", help="Minimum batch size.")
@click.option("--epsilon", type=float, help="Privacy budget ε.")
@click.option("--delta", type=float, required=True, help="Failure probability δ.")
@click.option("--precision", type=float, metavar="SHARE", help=PRECISION_HELP)
@click.option("--stderr", type=float, metavar="PEOPLE", help=STDERR_HELP)
@constraint_options
@options.output_option("Write the plan to this file")
@options.json_option
def plan(
    schema: Schema,
    n: int | None,
    epsilon: float | None,
    delta: float,
    precision: float | None,
    stderr: float | None,
    output: str | None,
    as_json: bool,
    **constraints: Any,
) -> None:
    """Choose the protocol with the smallest error that meets a budget.

    Also solves backwards: --precision finds the smallest batch, --stderr the smallest ε.

    \b
    Example: hubbub plan --one-hot red,green,blue -n 1000 --epsilon 1 --delta 1e-6 -o plan.json
    Example: hubbub plan --one-hot red,green,blue --precision 0.001 --epsilon 1 --delta 1e-6
    Example: hubbub plan --one-hot red,green,blue -n 1000 --stderr 5 --delta 1e-6
    """
    with screen.waiting("comparing protocols"):
        match n, epsilon, precision, stderr:
            case int(), float(), None, None:
                result = planner.plan(schema, n, Budget(epsilon, delta), **constraints)
            case None, float(), float(), None:
                result = planner.smallest_n(schema, Budget(epsilon, delta), precision, **constraints)
            case int(), None, None, float():
                result = planner.best_epsilon(schema, n, delta, stderr, **constraints)
            case _:
                raise click.UsageError("give -n and --epsilon, --epsilon and --precision, or -n and --stderr")
    _deliver(result, output, as_json)


@click.command()
@options.schema_options
@options.people_option
@options.budget_options
@constraint_options
@click.option("--error", type=float, default=0.05, help="Relative error at which a share is measurable.")
@click.option("--dishonest", type=float, metavar="SHARE", help=DISHONEST_HELP)
@click.option("--plot", metavar="FILE", help=PLOT_HELP)
@click.option("--choose", type=click.Choice(list(planner.FAMILIES)), metavar="FAMILY", help=CHOOSE_HELP)
@options.output_option("Write the best plan, or that of --choose, to this file")
@options.json_option
def frontier(
    schema: Schema,
    n: int,
    budget: Budget,
    error: float,
    dishonest: float | None,
    plot: str | None,
    choose: str | None,
    output: str | None,
    as_json: bool,
    **constraints: Any,
) -> None:
    """Compare all protocols that meet a budget.

    \b
    Example: hubbub frontier --one-hot 12 -n 10000 --epsilon 1 --delta 1e-6
    """
    check_real("error", error, POSITIVE)
    check_real("dishonest", dishonest or 0.0, DISHONEST)
    with screen.waiting("comparing protocols"):
        comparison = planner.compare(planner.Request.of(schema, n, budget, **constraints))
        plans = list(comparison.plans.values())
        chosen = comparison.best if choose is None else comparison.plans.get(choose)
        if chosen is None and choose:
            reason = comparison.failures.get(choose, "it does not apply to this schema and these constraints")
            raise Infeasible(f"no protocol of the family {choose} meets the request: {reason}")
        rows = [_row(plan, error, dishonest) for plan in plans]
    central = planner.central_stderr(schema, budget)
    if plot:
        plans_chart(plans, central=central).save(plot)
    if output and chosen:
        write_plan(chosen, output)
    if as_json:
        screen.print_json({"n": n, "central_stderr": central, "plans": rows, "infeasible": comparison.failures})
    elif output != "-":
        screen.console().print(frontier_table(plans, rows, central, error))


def _row(one: Plan, error: float, dishonest: float | None) -> dict[str, Any]:
    row = {
        "family": planner.family_key(one),
        "name": planner.family_name(one),
        "measurable_share": planner.measurable_share(one, error),
        "joint": one.protocol.sends_records,
        "trust": _trusted(one.guarantee.assumptions),
        **screen.plan_record(one),
    }
    if dishonest is not None:
        left = planner.under_attack(one, 1 - dishonest)
        row["under_attack"] = {"dishonest": dishonest, "epsilon": spell(left.epsilon), "delta": left.delta}
    return row


LEGEND = (
    "error: standard error of one count, in people. ± of: smallest share of the people that is measured within this "
    "relative error. messages, bytes: sealed upload of one user; not offered: the services cannot run this protocol. "
    "joint: joint tables can be estimated. collusion ε: guarantee if shuffler and analyzer collude. trust: who must be "
    "honest."
)


def frontier_table(plans: list[Plan], rows: list[dict[str, Any]], central: float, error: float) -> Table:
    """Return the frontier as a table, best first, with the central mechanism as the last row."""
    head = ["protocol", "error", f"± {error:.0%} of", "messages", "bytes", "joint", "collusion ε", "trust"]
    cells: list[tuple[str, ...]] = [
        (
            row["name"],
            f"{one.stderr:,.4g}",
            f"{row['measurable_share']:.3g}" if row["measurable_share"] <= 1 else "none",
            *planner.cost(one).cells,
            "yes" if row["joint"] else "no",
            _epsilon(one.guarantee.assumptions.collusion_epsilon),
            row["trust"],
        )
        for one, row in zip(plans, rows, strict=True)
    ]
    reference = ("central mechanism, for reference", f"{central:,.4g}", "", "", "", "", "", "server")
    if "under_attack" in rows[0]:
        head.append(f"ε, {rows[0]['under_attack']['dishonest']:.0%} dishonest")
        attacked = [_epsilon(float(row["under_attack"]["epsilon"])) for row in rows]
        cells = [(*cell, text) for cell, text in zip(cells, attacked, strict=True)]
    table = screen.grid("", head, [*cells, reference])
    for column in table.columns[1:]:
        column.no_wrap = True
    table.caption, table.caption_justify = LEGEND, "left"
    return table


def _epsilon(value: float) -> str:
    return "∞ (no protection)" if math.isinf(value) else f"{value:.3g}"


def _trusted(assumptions: Assumptions) -> str:
    if not assumptions.shuffler:
        return "nobody"
    return "shuffler" if assumptions.honest == 1 else "shuffler, users"
