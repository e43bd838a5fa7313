"""Results of surveys on the screen and in files, and tables of counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hubbub.cli import screen
from hubbub.cli.outputs import write_result
from hubbub.io.files import PIPE
from hubbub.model.plans import Plan
from hubbub.report import results, survey_comparison_page, survey_page
from hubbub.report.survey_results import cross_rows, difference_rows, measure_rows, survey_summary
from hubbub.report.words import printable
from hubbub.results.comparisons import Comparison, SurveyComparison
from hubbub.results.counts import Estimate, excess_note
from hubbub.results.cross import CrossEstimate
from hubbub.results.numbers import NumberEstimate
from hubbub.results.scales import ScaleEstimate
from hubbub.results.surveys import SurveyEstimate

QUESTION_HELP = (
    "One question of a survey: print it, draw it with --plot, and write its details (all edges of a scale) to a "
    ".csv or .parquet file."
)
Result = Estimate | ScaleEstimate | NumberEstimate | CrossEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyRequest:
    """The options of ``hubbub estimate`` that apply to a survey."""

    level: float
    top: int
    question: str | None
    plot: str | None
    output: str | None
    as_json: bool

    def check(self, plan: Plan, refused: Sequence[str]) -> None:
        """Raise if options do not fit a survey, before anything is computed."""
        questions = plan.schema.questions
        if refused:
            raise click.UsageError(f"{refused[0]} must not be given for a survey")
        if self.question is not None and self.question not in questions.names:
            raise click.UsageError(f"--question must be a question of the plan: {', '.join(questions.names)}")
        if self.question is None and self.plot:
            raise click.UsageError("--plot draws one question of a survey: give its name by --question")
        whole = self.output is not None and (
            self.output == PIPE or Path(self.output).suffix.lower() in (".json", ".html")
        )
        if self.question is not None and (whole or self.as_json):
            raise click.UsageError("--question must not be given for JSON and HTML, which have all questions")


def deliver_survey(found: SurveyEstimate, request: SurveyRequest) -> None:
    """Print the results of a survey, and write them to the files of the request."""
    level, output = request.level, request.output
    shown = found.results if request.question is None else ((request.question, found[request.question]),)
    with screen.waiting("computing the guarantee of this batch"):
        text = found.to_json(level) if output or request.as_json else ""
        private = results.private(found)
    note_excess(found)
    if request.plot and request.question is not None:
        found.plot(request.question, level=level).save(request.plot)
    if output:
        columns = found.columns(level) if request.question is None else found[request.question].columns(level)
        write_result(output, columns, text, lambda: survey_page(found, level=level, top=request.top))
    if request.as_json:
        click.echo(text)
    elif output != PIPE:
        for name, result in shown:
            _show(name, result, level, request.top)
        screen.console().print(f"{found.n:,} people; this batch is {private}.")


def deliver_comparison(
    found: SurveyComparison, *, output: str | None, top: int, question: str | None, plot: str | None, as_json: bool
) -> None:
    """Print the comparison of two surveys, and write it to files."""
    shown = found.results if question is None else ((question, found[question]),)
    if plot and question is not None:
        found[question].plot().save(plot)
    if output:
        write_result(output, found.columns(), found.to_json(), lambda: survey_comparison_page(found, top=top))
    if as_json:
        click.echo(found.to_json())
    elif output != PIPE:
        view = screen.console()
        for name, one in shown:
            rows = results.comparison_rows(one, top=top) if isinstance(one, Comparison) else difference_rows(one)
            view.print(screen.plain(name), style="bold")
            view.print(screen.grid("", *rows))
            if isinstance(one, Comparison):
                mention_more(len(one), top, "labels")
        view.print(survey_summary(found))


def _show(name: str, result: Result, level: float, top: int) -> None:
    view = screen.console()
    view.print(screen.plain(name), style="bold")
    if isinstance(result, ScaleEstimate | NumberEstimate):
        view.print(screen.grid("", *measure_rows(result.measures(), level=level)))
    elif isinstance(result, CrossEstimate):
        view.print(screen.grid("", *cross_rows(result)))
    else:
        show_counts(result, level, top)


def show_counts(counts: Estimate, level: float, top: int, simultaneous: bool = False) -> None:
    """Print the largest counts of an estimate with bars."""
    head, rows = results.estimate_rows(counts, level=level, top=top, simultaneous=simultaneous)
    order = results.ranked(counts.values, top)
    low, high = (end[order].tolist() for end in counts.interval(level, simultaneous=simultaneous))
    bars = screen.bars(counts.values[order].tolist(), low, high)
    table = screen.grid("", [*head, ""], [[*row, bar] for row, bar in zip(rows, bars, strict=True)])
    table.columns[-1].justify = "left"
    screen.console().print(table)
    mention_more(len(counts.labels), top, "labels")


def note_excess(found: Estimate | SurveyEstimate) -> None:
    """Warn of counts above the number of people."""
    if note := excess_note(found.excess):
        screen.note(printable(note))


def mention_more(count: int, top: int, what: str) -> None:
    """Say how many rows of a table are not printed."""
    if count > top:
        left = count - top
        screen.console().print(f"… and {left:,} more {what if left > 1 else what[:-1]} (--top, --json, -o)")
