"""``report``: one page about a plan and its results, for a lawyer, an analyst and an engineer."""

import math
from pathlib import Path

import click

from hubbub import __version__, checker, planner
from hubbub.cli import screen, verdicts
from hubbub.cli.options import output_option
from hubbub.errors import FalseClaim, PlanMismatch
from hubbub.io.documents import read_plan, read_result
from hubbub.io.files import check_destination, naming, read_text, write_text
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.numeric.inversion import least_real
from hubbub.report import load_matplotlib, render
from hubbub.report.plan_report import Agreement, Background, plan_report
from hubbub.results.result import Result

QUESTION_HELP = "The question that people are asked, as the heading."
STATEMENT_HELP = "A statement of the operators, such as the legal basis or a contact; may be repeated."
SECOND = "A second, independent implementation in integer arithmetic"
CONTRACT_HELP = "The signed contract of the services: adds operators, period, admission and signatures."


@click.command()
@click.argument("plan_path", metavar="PLAN")
@click.argument("estimates", nargs=-1)
@click.option("--question", default="", metavar="TEXT", help=QUESTION_HELP)
@click.option("--contract", "contract_path", metavar="FILE", help=CONTRACT_HELP)
@click.option("--statement", "statements", multiple=True, metavar="TEXT", help=STATEMENT_HELP)
@click.option("--no-check", is_flag=True, help="Leave out the second, independent check; the page says so.")
@output_option("Write the page to this file", required=True)
def report(
    plan_path: str,
    estimates: tuple[str, ...],
    question: str,
    contract_path: str | None,
    statements: tuple[str, ...],
    no_check: bool,
    output: str,
) -> None:
    """Write one page about a plan and its results, for a lawyer, an analyst and an engineer.

    PLAN is a plan, and ESTIMATES are files that `hubbub estimate -o estimate.json` wrote. The page says what is asked,
    what leaves a device, who learns what, the odds, the precision, the alternatives, the assumptions and how they were
    checked. It is self-contained HTML, which prints on two sheets of A4. The verdict of the second implementation is
    kept by plan, and the page says when it was reached; `hubbub verify` always computes it again.

    \b
    Example: hubbub report plan.json estimate.json --question "Which colour do you prefer?" -o report.html
    """
    check_destination(output)
    if estimates:
        load_matplotlib()  # fails before the work rather than after it
    with screen.waiting("recomputing the claims of the plan"):
        plan = read_plan(plan_path)
    checks = [
        f"All claims of the plan were recomputed when this page was made, by hubbub {__version__}.",
        f"{SECOND} was not run for this page." if no_check else _second(plan),
    ]
    held = plan.guarantee
    # The alternatives for a survey depend on its weights, which are not part of the plan.
    protected = (
        not plan.schema.named
        and math.isfinite(held.epsilon)
        and math.isfinite(plan.total.epsilon)
        and plan.total.delta < 1
    )
    with screen.waiting("comparing protocols"):
        rivals = list(planner.Search.of(_request(plan)).plans.values()) if protected else []
        total = Budget(plan.total.epsilon, plan.total.delta) if protected else None
        central = planner.central_margin(plan.schema, total, plan.rounds) if total else None
    with screen.waiting("writing the page"):
        background = Background(
            question=question,
            alternatives=rivals,
            central=central,
            checks=checks,
            agreement=_agreement(contract_path, plan) if contract_path else None,
            statements=statements,
            estimates={Path(path).stem: _result(path, plan) for path in estimates},
        )
        write_text(output, render(plan_report(plan, background)))
    if output != "-":
        click.echo(f"wrote {output}")


def _second(plan: Plan) -> str:
    verdict, day = verdicts.known(plan.to_json(), plan.id)
    if verdict.state is checker.State.CONFIRMED:
        return f"{SECOND} confirms the whole privacy claim (checked on {day})."
    if verdict.state is checker.State.FALSE:
        raise FalseClaim(f"{SECOND} contradicts the plan: {_parts(verdict, checker.State.FALSE)}")
    confirmed = [part.name for part in verdict.parts if part.state is checker.State.CONFIRMED]
    checked = f"confirms: {', '.join(confirmed)}; it" if confirmed else "was run as well; it"
    return f"{SECOND} {checked} cannot decide about: {_parts(verdict, checker.State.NOT_CONFIRMED)} (checked on {day})."


def _parts(verdict: verdicts.Known, state: checker.State) -> str:
    return "; ".join(f"{part.name} ({part.reason})" for part in verdict.parts if part.state is state)


def _request(plan: Plan) -> planner.Request:
    """Return the request that all alternatives meet: the cost of one round at the δ of the total, with any trust.

    A search for the total of many rounds would take minutes; protocols with the same cost of one round at that δ
    compose alike.
    """
    return planner.Request.of(
        plan.schema, plan.n, _budget(plan), trust="shuffler-noise", honest_fraction=plan.honest_fraction
    )


def _budget(plan: Plan) -> Budget:
    if plan.rounds == 1:
        return Budget(plan.guarantee.epsilon, plan.guarantee.delta)
    delta = plan.total.delta
    return Budget(least_real(lambda x: plan.curve.delta(x) <= delta, 0.0, plan.guarantee.epsilon), delta)


def _result(path: str, plan: Plan) -> Result:
    found = read_result(path)
    with naming(path):
        if found.plan not in (None, plan.id) or found.schema != plan.schema:
            raise PlanMismatch("the result must be of a collection under the plan of the report")
        return found


def _agreement(path: str, plan: Plan) -> Agreement:
    from hubbub.cli.agreements import agreement_of  # noqa: PLC0415 (needs the extra 'serve')
    from hubbub.service.task.contract import SignedContract  # noqa: PLC0415

    with naming(path):
        signed = SignedContract.from_json(read_text(path))
        if signed.contract.plan.id != plan.id:
            raise PlanMismatch("the contract must be for the plan of the report")
        return agreement_of(signed)
