"""``estimate``, ``joint`` and ``compare``: from shuffled reports to results."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.collect import read_batches, reports_argument
from hubbub.cli.engines import EngineOptions, engine_options
from hubbub.cli.options import json_option, output_option, plan_option
from hubbub.cli.outputs import HELP, check_result_file, write_columns, write_result
from hubbub.io.documents import read_plan, read_result
from hubbub.io.files import PIPE, naming, same_file
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.pipeline.reports import Tally
from hubbub.pipeline.tally import tally
from hubbub.report import comparison_page, joint_page, result_page, results
from hubbub.report.words import printable
from hubbub.results.compare import LabelComparison
from hubbub.results.compare import compare as compare_results
from hubbub.results.estimate import estimate as estimate_result
from hubbub.results.estimate import joint as joint_table
from hubbub.results.frames import to_lines
from hubbub.results.joint import ConditionalTable, Joint, combination_name
from hubbub.results.labels import LabelView
from hubbub.results.result import Result, View
from hubbub.results.strings import StringView

QUESTION_HELP = (
    "One question of a survey: print it, draw it with --plot, and write its details (all edges of a scale) to a "
    ".csv or .parquet file."
)
level_option = click.option("--level", type=float, default=0.95, help="Confidence level of the intervals.")
top_option = click.option("--top", type=click.IntRange(1), default=20, help="Number of rows to print and to draw.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of ``hubbub estimate`` that say what is shown of a result, and where it is written."""

    level: float
    top: int
    question: str | None
    plot: str | None
    output: str | None
    as_json: bool
    simultaneous: bool

    def check(self, schema: Schema, refused: Sequence[str]) -> None:
        """Raise if options do not fit what was asked, before anything is computed; ``refused`` fit labels only."""
        if not schema.named:
            if schema.text is None and self.question is not None:
                raise click.UsageError("--question needs a plan for a survey")
            given = [*refused, *(["--question"] if self.question is not None else [])]
            if schema.text is not None and given:
                raise click.UsageError(f"{given[0]} must not be given for strings")
            return
        if refused:
            raise click.UsageError(f"{refused[0]} must not be given for a survey")
        if self.question is not None and self.question not in schema.questions.names:
            raise click.UsageError(f"--question must be a question of the plan: {', '.join(schema.questions.names)}")
        if self.question is None and self.plot:
            raise click.UsageError("--plot draws one question of a survey: give its name by --question")
        whole = self.output is not None and (
            self.output == PIPE or Path(self.output).suffix.lower() in (".json", ".html")
        )
        if self.question is not None and (whole or self.as_json):
            raise click.UsageError("--question must not be given for JSON and HTML, which have all questions")


@click.command()
@reports_argument
@plan_option
@output_option(HELP)
@level_option
@click.option("--simultaneous", is_flag=True, help="Make the intervals hold for all labels at once.")
@click.option("--consistent", is_flag=True, help="Project onto possible counts: non-negative, with the right total.")
@click.option("--shrunk", is_flag=True, help="Move the counts towards their mean (James–Stein).")
@top_option
@click.option("--question", metavar="NAME", help=QUESTION_HELP)
@click.option("--plot", metavar="FILE", help="Draw bars with intervals, as SVG, PNG or PDF (needs the extra 'plot').")
@engine_options
@json_option
def estimate(
    reports: tuple[str, ...],
    plan_path: str,
    output: str | None,
    level: float,
    simultaneous: bool,
    consistent: bool,
    shrunk: bool,
    top: int,
    question: str | None,
    plot: str | None,
    engine: EngineOptions,
    as_json: bool,
) -> None:
    """Estimate how many people have each label, with error bars.

    Several shuffled batches of one plan are added. The interval of a count covers the people who answered. The
    interval of a share covers the population that they are a random sample of. `hubbub compare` reads the JSON.

    For a survey, every question is estimated in its own terms: counts, quantiles, means, cross-tables; --question NAME
    shows one of them in detail. For strings that nobody listed, those that many people hold are shown.

    \b
    Example: hubbub estimate mixed.hub --plan plan.json -o counts.csv
    """
    check_result_file(output)
    if consistent and shrunk:
        raise click.UsageError("give at most one of --consistent and --shrunk")
    engine.check({"standard input": engine.is_spark and "-" in reports})
    plan = read_plan(plan_path)
    request = Request(
        level=level, top=top, question=question, plot=plot, output=output, as_json=as_json, simultaneous=simultaneous
    )
    given = {"--simultaneous": simultaneous, "--consistent": consistent, "--shrunk": shrunk}
    request.check(plan.schema, [name for name, chosen in given.items() if chosen])
    found = estimate_result(_tally(reports, plan, engine), plan)
    deliver(found.consistent() if consistent else found.shrunk() if shrunk else found, request)


@click.command()
@reports_argument
@plan_option
@click.option("--labels", required=True, metavar="LABELS", help="Up to 20 labels, separated by commas.")
@click.option(
    "--given", multiple=True, metavar="LABEL=0|1", help="Show shares among people with (1) or without (0) this label."
)
@output_option(HELP)
@level_option
@top_option
@click.option("--plot", metavar="FILE", help="Draw a heat map, as SVG, PNG or PDF (needs the extra 'plot').")
@json_option
def joint(
    reports: tuple[str, ...],
    plan_path: str,
    labels: str,
    given: tuple[str, ...],
    output: str | None,
    level: float,
    top: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Estimate how many people have each combination of labels.

    The plan must release whole records (`hubbub plan --joint`).

    \b
    Example: hubbub joint mixed.hub --plan plan.json --labels red,blue
    """
    check_result_file(output)
    conditions = _conditions(given)
    plan = read_plan(plan_path)
    if plan.schema.named:
        raise click.UsageError("--plan must not be for a survey, whose joint tables are questions of the kind cross")
    table = joint_table(read_batches(reports, plan, "counting"), plan, labels.split(","))
    shown = table.conditional(conditions) if given else table
    low, high = shown.interval(level)
    columns = _columns(shown, low, high)
    unit = "share" if given else "people"
    rows = [
        {"with": [label for i, label in enumerate(shown.labels) if x >> i & 1], **dict(zip(columns, row, strict=True))}
        for x, row in enumerate(zip(*(column.tolist() for column in columns.values()), strict=True))
    ]
    record = {"plan": plan.id, "labels": list(shown.labels), "given": list(given), "level": level, unit: rows}
    text = to_lines(record, unit)
    if plot:
        table.plot().save(plot)
    if output:
        names = [combination_name(shown.labels, x) for x in range(len(rows))]
        file = table.columns(level) if not given else {"combination": names, **columns}
        write_columns(output, file, text, lambda: joint_page(table, level=level, plan=plan.id))
    if as_json:
        click.echo(text)
    elif output != PIPE:
        _show_joint(table, shown, columns, level, top)


@click.command()
@click.argument("a")
@click.argument("b")
@output_option(HELP)
@click.option("--level", type=float, default=0.95, help="Confidence level; p-values up to 1 − level are marked.")
@click.option("--holm/--no-holm", default=True, help="Adjust the p-values for everything that is compared (Holm).")
@top_option
@click.option("--question", metavar="NAME", help="One question of a survey: print it, and draw it with --plot.")
@click.option("--plot", metavar="FILE", help="Draw the differences, as SVG, PNG or PDF (needs the extra 'plot').")
@json_option
def compare(
    a: str,
    b: str,
    output: str | None,
    level: float,
    holm: bool,
    top: int,
    question: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Test whether two batches of different people differ, label by label.

    A and B are estimates that `hubbub estimate -o FILE.json` wrote, of the same labels. Differences are those of the
    shares in the populations that the batches are random samples of. Surveys are compared question by question: shares,
    quantiles, means.

    \b
    Example: hubbub compare before.json after.json
    """
    check_result_file(output)
    if same_file(a, b):
        raise click.UsageError(f"the estimates must be of different people, but {a} and {b} are the same file")
    one, two = read_result(a), read_result(b)
    different = _check_comparison(a, b, one, two, question, plot)
    with naming(b) if different else contextlib.nullcontext():
        found = compare_results(one, two, level=level, correction="holm" if holm else "none")
    shown = found.questions if question is None else ((question, found[question]),)
    if plot:
        shown[0][1].plot(top=top).save(plot)
    if output:
        write_result(output, found, found.to_json(), lambda: comparison_page(found, top=top))
    if as_json:
        click.echo(found.to_json())
    elif output != PIPE:
        view = screen.console()
        for name, part in shown:
            if name:
                view.print(screen.plain(name), style="bold")
            view.print(screen.grid("", *results.difference_rows(part, top=top)))
            if isinstance(part, LabelComparison):
                mention_more(len(part), top, "labels")
        view.print(results.summary(found))


def _check_comparison(a: str, b: str, one: Result, two: Result, question: str | None, plot: str | None) -> bool:
    """Raise if options do not fit two results; return True if they have different labels or questions."""
    if any(isinstance(view, StringView) for found in (one, two) for _, view in found.views):
        raise click.UsageError("strings are not compared: how many people hold one that is not shown is not known")
    if not any(one) or not any(two):
        if any(one) or any(two):
            raise click.UsageError(f"the results must both be of surveys or both of labels: {a}, {b}")
        if question is not None:
            raise click.UsageError("--question needs two results of a survey")
        return set(one.question.labels) != set(two.question.labels)
    if question is not None and question not in one:
        raise click.UsageError(f"--question must be a question of the survey: {', '.join(one)}")
    if question is None and plot:
        raise click.UsageError("--plot draws one question of a survey: give its name by --question")
    return list(one) != list(two)


def _tally(paths: tuple[str, ...], plan: Plan, engine: EngineOptions) -> Tally:
    if plan.schema.text is not None and len(paths) != 1:
        raise click.UsageError("give one shuffled batch: a string that another batch does not show has no count there")
    if engine.is_spark:
        total: Tally | int = engine.tally(paths, plan)
    else:
        total = sum(map(tally, read_batches(paths, plan, "counting")), start=0)
    assert isinstance(total, Tally)
    if total.unshuffled:
        who = f"the reports of {total.unshuffled:,} people" if total.batches else "these reports"
        screen.note(f"{who} are not shuffled: anyone who sees them can link them to their senders")
    return total


def deliver(found: Result, request: Request) -> None:
    """Print a result, and write it to the files of the request."""
    level, top, output, held = request.level, request.top, request.output, request.simultaneous
    shown = found.views if request.question is None else ((request.question, found[request.question]),)
    with screen.waiting("computing the guarantee of this batch"):
        text = found.to_json(level, simultaneous=held) if output or request.as_json else ""
        private = results.private(found)
    for note in found.notes:
        screen.note(printable(note))
    if request.plot:
        shown[0][1].plot(level=level, top=top, simultaneous=held).save(request.plot)
    if output:
        columns = found.columns(level, simultaneous=held) if request.question is None else shown[0][1].columns(level)
        write_columns(
            output,
            columns,
            text,
            lambda: result_page(found, level=level, top=top, simultaneous=held),
            found.about() if request.question is None else {},
        )
    if request.as_json:
        click.echo(text)
    elif output != PIPE:
        for name, view in shown:
            if name:
                screen.console().print(screen.plain(name), style="bold")
            _show(view, request)
        screen.console().print(f"{found.n:,} people; this batch is {private}.")


def _show(view: View, request: Request) -> None:
    level, top, console = request.level, request.top, screen.console()
    head, rows = results.view_rows(view, level=level, top=top, simultaneous=request.simultaneous)
    if isinstance(view, LabelView):
        order = results.ranked(view.values, top)
        low, high = (end[order].tolist() for end in view.interval(level, simultaneous=request.simultaneous))
        bars = screen.bars(view.values[order].tolist(), low, high)
        table = screen.grid("", [*head, ""], [[*row, bar] for row, bar in zip(rows, bars, strict=True)])
        table.columns[-1].justify = "left"
        console.print(table)
        mention_more(len(view), top, "labels")
        return
    console.print(screen.grid("", head, rows))
    if isinstance(view, StringView):
        mention_more(len(view), top, "strings")
        console.print(results.strings_summary(view, level=level))


def mention_more(count: int, top: int, what: str) -> None:
    """Say how many rows of a table are not printed."""
    if count > top:
        left = count - top
        screen.console().print(f"… and {left:,} more {what if left > 1 else what[:-1]} (--top, --json, -o)")


def _conditions(given: tuple[str, ...]) -> dict[str, bool]:
    pairs = [text.rpartition("=") for text in given]
    if any(value not in ("0", "1") or not label for label, _, value in pairs):
        raise click.UsageError("--given must be LABEL=0 or LABEL=1")
    return {label: value == "1" for label, _, value in pairs}


def _columns(shown: Joint | ConditionalTable, low: Any, high: Any) -> dict[str, Any]:
    return {"value": shown.values, "stderr": shown.stderr, "low": low, "high": high}


def _show_joint(table: Joint, shown: Joint | ConditionalTable, columns: dict[str, Any], level: float, top: int) -> None:
    view = screen.console()
    if shown is table and (cells := results.grid_rows(table)) is not None:
        view.print(screen.grid("", *cells))
    digits = ",.0f" if shown is table else ".4f"
    values, low, high = (columns[name] for name in ("value", "low", "high"))
    order = range(values.size) if values.size <= top else results.ranked(values, top)
    rows = [
        (combination_name(shown.labels, x), f"{values[x]:{digits}}", f"{low[x]:{digits}} – {high[x]:{digits}}")
        for x in order
    ]
    unit = "people" if shown is table else "share"
    view.print(screen.grid("", ["combination", unit, f"{100 * level:g}% interval"], rows))
    mention_more(values.size, top, "combinations")
