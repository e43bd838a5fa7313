"""Estimates of strings on the screen and in files."""

import click

from hubbub.cli import screen
from hubbub.cli.collect import read_batches
from hubbub.cli.outputs import write_result
from hubbub.cli.survey_results import SurveyRequest, mention_more
from hubbub.model.plans import Plan
from hubbub.pipeline.string_tallies import tally_strings
from hubbub.report import strings_page
from hubbub.report.strings import strings_rows, strings_summary
from hubbub.results.strings import estimate_strings


def deliver_strings(paths: tuple[str, ...], plan: Plan, request: SurveyRequest, refused: list[str]) -> None:
    """Estimate the strings of one batch, print them, and write them to the files of the request."""
    if refused:
        raise click.UsageError(f"{refused[0]} must not be given for strings")
    if len(paths) != 1:
        raise click.UsageError("give one shuffled batch: a string that another batch does not show has no count there")
    (batch,) = read_batches(paths, plan, "counting")
    found = estimate_strings(tally_strings(batch, plan), plan)
    level, top, output = request.level, request.top, request.output
    with screen.waiting("computing the guarantee of this batch"):
        text = found.to_json(level)
    if request.plot:
        found.plot(level=level, top=top).save(request.plot)
    if output:
        write_result(output, found.columns(level), text, lambda: strings_page(found, level=level, top=top))
    if request.as_json:
        click.echo(text)
    elif output != "-":
        view, achieved = screen.console(), found.guarantee
        view.print(screen.grid("", *strings_rows(found, level=level, top=top)))
        mention_more(len(found), top, "strings")
        view.print(strings_summary(found, level=level))
        assert achieved is not None
        view.print(f"This batch is ({achieved.epsilon:.4g}, {achieved.delta:.3g})-differentially private.")
