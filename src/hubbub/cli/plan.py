"""``plan``, ``frontier``, ``account``, ``calibrate``: from a question to a defended choice."""

import math
from typing import Any

import click

from hubbub import accountant, planner
from hubbub.canonical import spell
from hubbub.cli import screen
from hubbub.cli.options import (
    budget_options,
    honest_option,
    json_option,
    output_option,
    people_option,
    protocol_options,
    schema_options,
)
from hubbub.errors import Infeasible
from hubbub.io.documents import write_plan
from hubbub.pages import plans_chart
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.protocol import Fakes, Protocol, Release
from hubbub.schema import Schema

local_option = click.option("--local", is_flag=True, help="Without a shuffler: what holds if everybody else colludes.")


@click.command()
@schema_options
@people_option
@click.option("--epsilon", type=float, help="Solve for delta at this epsilon.")
@click.option("--delta", type=float, help="Solve for epsilon at this delta.")
@protocol_options
@honest_option
@local_option
@click.option("--rigorous", is_flag=True, help="Confirm in ball arithmetic (single bits; extra 'rigorous').")
@output_option("Also write the plan that adopts these parameters")
@json_option
def account(
    schema: Schema,
    n: int,
    epsilon: float | None,
    delta: float | None,
    q: float | None,
    k: int,
    m: int | Fakes | None,
    release: Release,
    honest: float,
    local: bool,
    rigorous: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Compute the guarantee that given parameters give.

    \b
    Example: hubbub account --bits 5 -n 20000 --q 0.1 --delta 1e-6
    """
    protocol = Protocol(q or 0.0, k, m or 0, release)
    with screen.waiting("accounting"):
        found = accountant.account(
            protocol,
            schema,
            n,
            epsilon=epsilon,
            delta=delta,
            honest_fraction=honest,
            shuffler=not local,
            rigorous=rigorous,
        )
        if output:
            solved = {"epsilon": epsilon, "delta": delta}
            own = planner.plan_from(schema, n, protocol, honest_fraction=honest, shuffler=not local, **solved)
            write_plan(own, output)
    if as_json:
        screen.print_json(found.to_document())
    elif output != "-":
        screen.console().print(screen.facts(screen.described_guarantee(found)))


@click.command()
@schema_options
@click.option("-n", "n", type=int, metavar="PEOPLE", help="Size of the smallest batch; without it, the least is found.")
@budget_options
@protocol_options
@honest_option
@local_option
@click.option("--max-q", type=float, default=0.5, show_default=True, help="The largest lie probability to consider.")
@output_option("Also write the plan that adopts what was found")
@json_option
def calibrate(
    schema: Schema,
    n: int | None,
    budget: Budget,
    q: float | None,
    k: int,
    m: int | Fakes | None,
    release: Release,
    honest: float,
    local: bool,
    max_q: float,
    output: str | None,
    as_json: bool,
) -> None:
    """Find the least noise, or the least crowd, that meets a budget.

    Without --q the least lie probability is found; with --q and without --m the least number of fakes; with both, and
    without -n, the least crowd.

    \b
    Example: hubbub calibrate --bits 5 -n 20000 --epsilon 1 --delta 1e-6
    """
    m = m if m is not None or (q is not None and n is not None) else 0
    with screen.waiting("calibrating"):
        found = accountant.calibrate(
            schema,
            n,
            budget,
            q=q,
            k=k,
            m=m,
            release=release,
            honest_fraction=honest,
            shuffler=not local,
            max_q=max_q,
        )
        own = planner.plan_from(
            schema, found.n, found.protocol, epsilon=budget.epsilon, honest_fraction=honest, shuffler=not local
        )
    _deliver(own, output, as_json)


def _deliver(own: Plan, output: str | None, as_json: bool) -> None:
    """Write the plan if asked to, and say what it is: as JSON the plan itself, so that a pipe is a file."""
    if output:
        write_plan(own, output)
    if as_json:
        click.echo(own.to_json())
    elif output != "-":
        screen.console().print(screen.facts(screen.described_plan(own)))


def constraint_options(command: Any) -> Any:
    """What ``plan`` and ``frontier`` take beside the question and the budget."""
    options = (
        honest_option,
        click.option("--no-shuffler-fakes", is_flag=True, help="Only users add noise."),
        click.option("--joint", is_flag=True, help="Whole records, as joint tables need them."),
        click.option("--max-messages", type=float, default=math.inf, metavar="NUMBER", help="Most messages of a user."),
        click.option("--max-bytes", type=float, default=math.inf, metavar="NUMBER", help="Most bytes of a user."),
        click.option("--min-q", type=float, default=0.0, metavar="CHANCE", help="Least lie probability, as a policy."),
        click.option("--rounds", type=int, default=1, show_default=True, help="Collections that share the budget."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    """The options of :func:`constraint_options` under the names of the planner."""
    shuffler_fakes = not options.pop("no_shuffler_fakes")
    return {"honest_fraction": options.pop("honest"), "shuffler_fakes": shuffler_fakes, **options}


@click.command()
@schema_options
@click.option("-n", "n", type=int, metavar="PEOPLE", help="Size of the smallest batch.")
@click.option("--epsilon", type=float, help="What one person may lose.")
@click.option("--delta", type=float, required=True, help="The chance that it is more.")
@click.option("--precision", type=float, metavar="SHARE", help="Instead of -n: find the least crowd for this error.")
@click.option("--stderr", type=float, metavar="PEOPLE", help="Instead of --epsilon: find the least for this error.")
@constraint_options
@output_option("Where the plan goes")
@json_option
def plan(
    schema: Schema,
    n: int | None,
    epsilon: float | None,
    delta: float,
    precision: float | None,
    stderr: float | None,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Choose the protocol with the smallest error that meets a budget.

    Solves backwards too: --precision finds the least crowd, --stderr the least epsilon.

    \b
    Example: hubbub plan --one-hot red,green,blue -n 1000 --epsilon 1 --delta 1e-6 -o plan.json
    Example: hubbub plan --one-hot red,green,blue --precision 0.001 --epsilon 1 --delta 1e-6
    Example: hubbub plan --one-hot red,green,blue -n 1000 --stderr 5 --delta 1e-6
    """
    limits = _asked(options)
    with screen.waiting("weighing all protocols"):
        match n, epsilon, precision, stderr:
            case int(), float(), None, None:
                own = planner.plan(schema, n, Budget(epsilon, delta), **limits)
            case None, float(), float(), None:
                own = planner.smallest_n(schema, Budget(epsilon, delta), precision, **limits)
            case int(), None, None, float():
                own = planner.best_epsilon(schema, n, delta, stderr, **limits)
            case _:
                raise click.UsageError("give -n and --epsilon, or one of them with --precision or --stderr")
    _deliver(own, output, as_json)


@click.command()
@schema_options
@people_option
@budget_options
@constraint_options
@click.option("--error", type=float, default=0.05, show_default=True, help="Relative error of a measurable share.")
@click.option(
    "--dishonest", type=float, metavar="SHARE", help="Also show epsilon if this share of users is not honest."
)
@click.option("--plot", metavar="FILE", help="Rank the protocols by error, as SVG, PNG or PDF (extra 'plot').")
@click.option("--choose", metavar="FAMILY", help="Write the best plan of this family to --output.")
@output_option("Where the best plan, or that of --choose, goes")
@json_option
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
    **options: Any,
) -> None:
    """Show every protocol that meets a budget, side by side.

    \b
    Example: hubbub frontier --one-hot 12 -n 10000 --epsilon 1 --delta 1e-6
    """
    with screen.waiting("weighing all protocols"):
        plans = planner.frontier(schema, n, budget, **_asked(options))
        rows = [_row(one, schema, error, dishonest) for one in plans]
    if not plans:
        raise Infeasible(f"no protocol meets {budget} for {schema} at n = {n:,} within these constraints")
    central = planner.central_stderr(schema, budget)
    if plot:
        plans_chart(plans, central=central).save(plot)
    if output:
        write_plan(_chosen(plans, rows, choose), output)
    if as_json:
        screen.print_json({"n": n, "central_stderr": central, "plans": rows})
    elif output != "-":
        screen.console().print(frontier_table(rows, central, error))


def _row(one: Plan, schema: Schema, error: float, dishonest: float | None) -> dict[str, Any]:
    attacked = {}
    if dishonest is not None:
        left = planner.under_attack(one, 1 - dishonest)
        attacked = {"under_attack": {"dishonest": dishonest, "epsilon": spell(left.epsilon), "delta": left.delta}}
    return {
        "family": planner.family(one, schema),
        "share": planner.measurable_share(one, error),
        "joint": one.protocol.sends_records,
        **screen.plan_record(one),
        **attacked,
    }


def _chosen(plans: list[Plan], rows: list[dict[str, Any]], choose: str | None) -> Plan:
    for one, row in zip(plans, rows, strict=True):
        if choose in (None, row["family"]):
            return one
    raise Infeasible(f"no protocol of the family {choose!r} meets the budget")


LEGEND = (
    "error: standard error of one count, in people. ± of: the smallest share of the people that is measured that well. "
    "msgs, bytes: of one user. joint: whether joint tables can be estimated. collusion: the ε that is left if shuffler "
    "and analyzer collude. trusts: who must be honest. bad: the ε that is left if so many users are not."
)


def frontier_table(rows: list[dict[str, Any]], central: float, error: float) -> Any:
    """The frontier as text, best first, the central mechanism below."""
    head = ["protocol", "error", f"± {error:.0%} of", "msgs", "bytes", "joint", "collusion", "assumptions"]
    cells: list[tuple[str, ...]] = [
        (
            row["family"],
            f"{row['stderr']:,.4g}",
            f"{row['share']:.3g}",
            f"{row['messages']:.4g}",
            f"{row['bytes']:,.4g}",
            "yes" if row["joint"] else "no",
            _colluding(row["guarantee"]["assumptions"]["collusion"]),
            _needed(row["guarantee"]["assumptions"]),
        )
        for row in rows
    ]
    reference = ("central Laplace or Gaussian", f"{central:,.4g}", "", "", "", "", "nothing", "server")
    if rows and "under_attack" in rows[0]:
        head.append(f"{rows[0]['under_attack']['dishonest']:.0%} bad")
        cells = [(*cell, _colluding(row["under_attack"]["epsilon"])) for cell, row in zip(cells, rows, strict=True)]
    table = screen.grid("", head, [*cells, reference])
    for column in table.columns[1:]:
        column.no_wrap = True
    table.caption = LEGEND
    table.caption_justify = "left"
    return table


def _colluding(pure: float | str) -> str:
    return "nothing" if pure == "inf" else f"{pure:.3g}"


def _needed(assumptions: dict[str, Any]) -> str:
    if not assumptions["shuffler"]:
        return "nobody"
    return "mix" if assumptions["honest"] == 1 else "mix, users"
