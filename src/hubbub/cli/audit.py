"""``hubbub audit``: test a client or a shuffler as a black box."""

import shlex

import click

from hubbub.cli import screen
from hubbub.cli.errors import VIOLATION
from hubbub.cli.options import json_option, output_option, plan_option
from hubbub.io.documents import read_plan
from hubbub.io.files import check_destination, write_text
from hubbub.lab.audit.commands import Client, ClientCommand, Shuffler, ShufflerCommand, library_client
from hubbub.lab.audit.results import LIMITS, Audit, headline, page, record
from hubbub.lab.audit.trial import audit as run_audit
from hubbub.pipeline.shuffle import shuffle
from hubbub.report import load_matplotlib

RUNS_HELP = "Copies of each test value.  [default: enough to find a q that is 5 % too small]"
SEEDS_HELP = (
    "Short runs that search for repeated noise.  [default: enough to find a seed of 20 bits, or of 16 bits in COMMAND]"
)


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@plan_option
@click.option(
    "--shuffler", metavar="COMMAND", help="Audit this shuffler, which reads a .hub batch and writes it shuffled."
)
@click.option("--runs", type=click.IntRange(100), metavar="N", help=RUNS_HELP)
@click.option("--seed-runs", type=click.IntRange(0), metavar="N", help=SEEDS_HELP)
@click.option("--confidence", type=float, default=0.99, help="Probability that an honest program passes.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=60.0, help="Timeout per run, in seconds.")
@output_option("Also write an HTML report to this file")
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    command: tuple[str, ...],
    plan_path: str,
    shuffler: str | None,
    runs: int | None,
    seed_runs: int | None,
    confidence: float,
    seconds: float,
    output: str | None,
    as_json: bool,
) -> None:
    """Test a client or a shuffler against its plan as a black box.

    COMMAND, after --, reads values as CSV and writes reports as consecutive messages or as a .hub batch. Without
    COMMAND and --shuffler, hubbub's own client and shuffler are audited. Exits with code 6 if the program does not
    follow its plan, also if it only adds more noise than planned.

    \b
    Example: hubbub audit --plan plan.json --runs 1000 -o audit.html
    """
    if output:
        check_destination(output)
        load_matplotlib()  # fails before the work rather than after it
    plan = read_plan(plan_path)
    client: Client | None = ClientCommand(command, seconds) if command else None
    audited: Shuffler | None = ShufflerCommand(tuple(shlex.split(shuffler)), seconds) if shuffler else None
    if client is None and audited is None:
        client, audited = library_client, shuffle
    with screen.progressing() as progress:
        found = run_audit(
            plan, client, audited, runs=runs, seed_runs=seed_runs, confidence=confidence, progress=progress
        )
    if output:
        write_text(output, page(found))
    if as_json:
        screen.print_json(record(found), to_stderr=output == "-")
    elif output != "-":
        _show(found)
    ctx.exit(0 if found.passed else VIOLATION)


def _show(found: Audit) -> None:
    rows = [
        (one.part, one.name, one.where, *one.figures, "VIOLATED" if one.violates(found.level) else "ok")
        for one in found.findings
    ]
    view = screen.console()
    view.print(screen.grid("", ["part", "test", "worst at", "observed", "expected", "p", ""], rows, left=3))
    if len(found.diagnoses) > 1:
        kind = "more noise than planned; estimates would be biased, but no loss of privacy was found"
        view.print(f"FAIL: {kind if found.private else f'{len(found.diagnoses)} defects'}:")
        for one in found.diagnoses:
            view.print(f"  • {screen.plain(one.text)}")
        if found.best is not None:
            view.print(f"Best attack: {screen.plain(headline(found.best))}.")
    else:
        view.print(screen.plain(found.sentence()) + ".")
    view.print(f"\nAn honest program passes with probability {found.confidence:g}. What an audit cannot show:")
    for line in (*LIMITS, *found.notes):
        view.print(f"  • {screen.plain(line)}")
