"""``plan``, ``account``, ``calibrate``: choose a protocol and compute its guarantee."""

from typing import Any

import click

from hubbub import accountant, planner
from hubbub.cli import options, screen
from hubbub.cli.options import FRACTION, WHOLE
from hubbub.errors import SHARE, check_real
from hubbub.io.documents import write_plan
from hubbub.model.plans import Plan
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.planner import Goal
from hubbub.planner.precision import LEVEL
from hubbub.report import explanation, words

USED_HELP = "Use no theorem that needs more trust than this."
POINTS_HELP = "Instead of -n or --epsilon: find the smallest one at which a count is within this share of n."
MARGIN_HELP = "Instead of --epsilon: find the smallest ε at which a count is within so many people."
PRECISION_HELP = "Instead of -n or --epsilon: find the smallest one whose standard error is at most this share of n."
STDERR_HELP = "Instead of --epsilon: find the smallest ε with at most this standard error."
SHARE_HELP = "Share of the population that holds a label, such as 0.1%; the precision is given for it."
WITHIN_HELP = "Relative error, such as 10%, within which that label is to be measured, sampling error included."
LEVEL_HELP = "Probability that the error is within --within, --points or --margin."
CHOOSE_HELP = f"Plan with this family instead of the best one: {', '.join(planner.FAMILIES)}."

used_trust_option = click.option(
    "--trust", type=click.Choice(TRUST_MODELS), default="shuffler-noise", show_default=True, help=USED_HELP
)


@click.command()
@options.schema_options
@options.people_option
@click.option("--epsilon", type=float, help="Solve for δ at this ε.")
@click.option("--delta", type=float, help="Solve for ε at this δ.")
@options.protocol_options
@options.honest_option
@used_trust_option
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
    output: str | None,
    as_json: bool,
) -> None:
    """Compute the guarantee of given parameters, and the trust that it needs.

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
        guarantee = accountant.account(protocol, schema, n, **request)
        if output:
            write_plan(planner.plan_from(schema, n, protocol, **request), output)
    if as_json:
        screen.print_json({**guarantee.to_document(), "trust": guarantee.assumptions.trust})
    elif output != "-":
        screen.console().print(screen.facts(words.described_guarantee(guarantee)))


@click.command()
@options.schema_options
@click.option("-n", "n", type=WHOLE, metavar="PEOPLE", help="Minimum batch size; if omitted, the smallest is found.")
@options.budget_options
@options.protocol_options
@options.honest_option
@used_trust_option
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


def _deliver(
    result: Plan,
    output: str | None,
    as_json: bool,
    goal: Goal | None = None,
    share: float | None = None,
    *,
    explain: bool = False,
) -> None:
    """Write the plan to a file and print it with its warnings; with --json, print the plan file itself."""
    if output:
        write_plan(result, output)
    if as_json:
        click.echo(result.to_json())
    elif explain and output != "-":
        for heading, sentences in explanation.explain(result):
            lines = [words.printable(line.replace("\u00a0", " ")) for line in sentences]
            click.echo(f"{heading}\n" + "".join(f"  {line}\n" for line in lines))
    elif output != "-":
        screen.console().print(screen.facts(words.described_plan(result, goal, share)))
    screen.warn(result, goal)


@click.command()
@options.survey_options
@click.option("-n", "n", type=WHOLE, metavar="PEOPLE", help="Minimum batch size.")
@click.option("--epsilon", type=float, help="Privacy budget ε.")
@click.option("--delta", type=float, required=True, help="Failure probability δ.")
@click.option("--share", type=FRACTION, help=SHARE_HELP)
@click.option("--within", type=FRACTION, help=WITHIN_HELP)
@click.option("--level", type=FRACTION, default=LEVEL, help=LEVEL_HELP)
@click.option("--points", type=FRACTION, metavar="SHARE", help=POINTS_HELP)
@click.option("--margin", type=float, metavar="PEOPLE", help=MARGIN_HELP)
@click.option("--precision", type=FRACTION, metavar="SHARE", help=PRECISION_HELP)
@click.option("--stderr", type=float, metavar="PEOPLE", help=STDERR_HELP)
@options.trust_option("shuffling")
@options.constraint_options
@click.option("--choose", type=click.Choice(list(planner.FAMILIES)), metavar="FAMILY", help=CHOOSE_HELP)
@click.option("--explain", is_flag=True, help="Explain the plan in plain words instead: see also `hubbub report`.")
@options.output_option("Write the plan to this file")
@options.json_option
def plan(
    schema: Schema,
    n: int | None,
    epsilon: float | None,
    delta: float,
    share: float | None,
    within: float | None,
    level: float,
    points: float | None,
    margin: float | None,
    precision: float | None,
    stderr: float | None,
    choose: str | None,
    explain: bool,
    output: str | None,
    as_json: bool,
    **constraints: Any,
) -> None:
    """Choose the protocol with the smallest error that meets a budget.

    By default every record is randomized on its device, and the shuffler is trusted to mix and no further; --trust
    changes that. Also solves backwards, without -n for the number of people, without --epsilon for the smallest ε: for
    a label held by a --share of the population that is to be measured --within a relative error, or for an error in
    percentage --points.

    \b
    Example: hubbub plan --one-hot red,green,blue -n 1000 --epsilon 1 --delta 1e-6 -o plan.json
    Example: hubbub plan --one-hot 12 --share 0.1% --within 10% --epsilon 1 --delta 1e-8
    Example: hubbub plan --one-hot 12 -n 1e6 --share 0.1% --within 10% --delta 1e-8
    Example: hubbub plan --strings 64 -n 1e6 --epsilon 1 --delta 1e-8 --trust shuffler-noise
    Example: hubbub plan --survey survey.toml -n 10000 --epsilon 1 --delta 1e-6 --trust shuffler-noise -o plan.json
    """
    check_real("share", 1.0 if share is None else share, SHARE)
    if share is None and within is not None:
        raise click.UsageError("give --share with --within: the share of the people that holds a label")
    goal = None if share is None or within is None else Goal(share, within, level)
    if choose is not None and (n is None or epsilon is None):
        raise click.UsageError("give -n and --epsilon with --choose")
    preference = ""
    wanted = {"margin": margin, "points": points, "precision": precision, "stderr": stderr}
    goals = sum(value is not None for value in wanted.values()) + (goal is not None)
    with screen.waiting("comparing protocols"):
        if n is not None and epsilon is not None and goals == (goal is not None):
            budget = Budget(epsilon, delta)
            if choose is not None:
                result = planner.plan(schema, n, budget, family=choose, **constraints)
            else:
                found = planner.Search.of(planner.Request.of(schema, n, budget, **constraints), prune=True)
                result, preference = found.best, found.preference
        elif (n is None) != (epsilon is None) and goals == 1:
            terms: dict[str, Any] = {
                **wanted,
                **({"share": share, "within": within} if goal is not None else {}),
                "level": level,
            }
            result = planner.solve(schema, n, epsilon=epsilon, delta=delta, **terms, **constraints)
        else:
            raise click.UsageError(
                "give -n and --epsilon; or one goal (--share and --within, --points, or --precision) and --epsilon, to "
                "find the number of people; or one goal (also --margin or --stderr) and -n, to find ε"
            )
    _deliver(result, output, as_json, goal, share, explain=explain)
    if preference:
        screen.note(preference)
