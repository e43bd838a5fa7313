"""``audit``: attack a client, or a shuffler, as a black box."""

import shlex

import click

from hubbub.cli import screen
from hubbub.cli.errors import VIOLATION
from hubbub.cli.options import json_option, output_option, plan_option
from hubbub.io.documents import read_plan
from hubbub.io.files import check_destination, write_text
from hubbub.lab.audit import page
from hubbub.lab.audit.commands import Client, Command, CommandShuffler, ShufflerProgram, own_client
from hubbub.lab.audit.trial import LIMITS, Audit
from hubbub.lab.audit.trial import audit as run_audit
from hubbub.pages import load_matplotlib
from hubbub.shuffler import shuffle


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@plan_option
@click.option("--shuffler", metavar="COMMAND", help="A mix to audit: reads a .hub batch, writes a shuffled one.")
@click.option("--runs", type=click.IntRange(100), metavar="N", help="How often each test value is sent; else enough.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="That an honest program passes.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="That one run of a command may take.",
)
@output_option("Also write a report there, as HTML")
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    command: tuple[str, ...],
    plan_path: str,
    shuffler: str | None,
    runs: int | None,
    confidence: float,
    seconds: float,
    output: str | None,
    as_json: bool,
) -> None:
    """Attack a client as a black box, and hold what it shows against its plan.

    COMMAND, after --, reads values as CSV and writes reports, as messages or a .hub batch. Without one, hubbub's own
    client and shuffler are audited. Leaves with code 6 if there is a violation.

    \b
    Example: hubbub audit --plan plan.json --runs 1000 -o audit.html
    """
    if output:
        check_destination(output)
        load_matplotlib()  # fails before the work rather than after it
    plan = read_plan(plan_path)
    client: Client | None = Command(command, seconds) if command else None if shuffler else own_client
    mix: ShufflerProgram | None = (
        CommandShuffler(tuple(shlex.split(shuffler)), seconds) if shuffler else None if command else shuffle
    )
    with screen.progressing() as tell:
        found = run_audit(plan, client, mix, runs=runs, confidence=confidence, tell=tell)
    if output:
        write_text(output, page.page(found))
    if as_json:
        screen.print_json(page.record(found), to_stderr=output == "-")
    elif output != "-":
        _show(found)
    ctx.exit(0 if found.passed else VIOLATION)


def _show(found: Audit) -> None:
    rows = [
        (
            one.part,
            one.name,
            one.where,
            f"{'≥ ' if one.bound else ''}{one.observed:.4g}",
            f"{'≤ ' if one.bound else ''}{one.allowed:.4g}",
            "" if one.bound else f"{one.p:.2g}",
            "VIOLATED" if one.violates(found.level) else "ok",
        )
        for one in found.findings
    ]
    view = screen.console()
    view.print(screen.grid("", ["of", "test", "worst at", "observed", "allowed", "p", ""], rows, left=3))
    view.print(screen.plain(found.sentence()) + ".")
    view.print(f"\nAn honest program passes with probability {found.confidence:g}. What an audit can not show:")
    for line in (*LIMITS, *found.notes):
        view.print(f"  • {screen.plain(line)}")
