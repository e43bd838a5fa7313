"""``estimate``, ``joint`` and ``compare``: from shuffled reports to results."""

import contextlib
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.collect import read_batches, reports_argument
from hubbub.cli.engines import EngineOptions, engine_options
from hubbub.cli.options import json_option, output_option, plan_option
from hubbub.cli.outputs import HELP, check_result_file, write_result
from hubbub.cli.string_results import deliver_strings
from hubbub.cli.survey_results import (
    QUESTION_HELP,
    SurveyRequest,
    deliver_comparison,
    deliver_survey,
    mention_more,
    note_excess,
    show_counts,
)
from hubbub.io.documents import read_estimate, read_plan
from hubbub.io.files import naming, same_file
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import Tally
from hubbub.pipeline.tally import tally
from hubbub.report import comparison_page, estimate_page, joint_page, results
from hubbub.results.comparisons import compare as compare_estimates
from hubbub.results.counts import Estimate
from hubbub.results.estimate import estimate as estimate_counts
from hubbub.results.estimate import estimate_survey
from hubbub.results.estimate import joint as joint_table
from hubbub.results.frames import to_lines
from hubbub.results.joint import ConditionalTable, Joint, combination_name
from hubbub.results.strings import StringEstimate
from hubbub.results.surveys import SurveyEstimate

level_option = click.option("--level", type=float, default=0.95, help="Confidence level of the intervals.")
top_option = click.option("--top", type=click.IntRange(1), default=20, help="Number of rows to print and to draw.")


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
    given = {"--simultaneous": simultaneous, "--consistent": consistent, "--shrunk": shrunk}
    request = SurveyRequest(level=level, top=top, question=question, plot=plot, output=output, as_json=as_json)
    if plan.schema.text is not None:
        given["--question"] = question is not None
        deliver_strings(reports, plan, request, [name for name, chosen in given.items() if chosen])
        return
    if plan.schema.named:
        request.check(plan, [name for name, chosen in given.items() if chosen])
        deliver_survey(estimate_survey(_tally(reports, plan, engine), plan), request)
        return
    if question is not None:
        raise click.UsageError("--question needs a plan for a survey")
    counts = estimate_counts(_tally(reports, plan, engine), plan)
    counts = counts.consistent() if consistent else counts.shrunk() if shrunk else counts
    with screen.waiting("computing the guarantee of this batch"):
        counts.interval(level, simultaneous=simultaneous)
        text = ""
        if output or as_json:
            text = to_lines(counts.to_document(level, simultaneous=simultaneous), "counts")
    note_excess(counts)
    if plot:
        counts.plot(level=level, top=top, simultaneous=simultaneous).save(plot)
    if output:
        columns = counts.columns(level, simultaneous=simultaneous)
        write_result(
            output, columns, text, lambda: estimate_page(counts, level=level, top=top, simultaneous=simultaneous)
        )
    if as_json:
        click.echo(text)
    elif output != "-":
        show_counts(counts, level, top, simultaneous)
        screen.console().print(f"{counts.n:,} people; this batch is {results.private(counts)}.")


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
        write_result(output, file, text, lambda: joint_page(table, level=level, plan=plan.id))
    if as_json:
        click.echo(text)
    elif output != "-":
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
    one, two = read_estimate(a), read_estimate(b)
    if isinstance(one, StringEstimate) or isinstance(two, StringEstimate):
        raise click.UsageError("strings are not compared: how many people hold one that is not shown is not known")
    if isinstance(one, SurveyEstimate) or isinstance(two, SurveyEstimate):
        _compare_surveys((a, one), (b, two), question, output, level, holm, top, plot, as_json)
        return
    if question is not None:
        raise click.UsageError("--question needs two estimates of a survey")
    different = set(one.labels) != set(two.labels)
    with naming(b) if different else contextlib.nullcontext():
        found = compare_estimates(one, two, level=level, correction="holm" if holm else "none")
    if plot:
        found.plot(top=top).save(plot)
    if output:
        write_result(output, found.columns(), found.to_json(), lambda: comparison_page(found, top=top))
    if as_json:
        click.echo(found.to_json())
    elif output != "-":
        head, rows = results.comparison_rows(found, top=top)
        view = screen.console()
        view.print(screen.grid("", head, rows))
        mention_more(len(found), top, "labels")
        view.print(results.comparison_summary(found))


def _compare_surveys(
    a: tuple[str, Estimate | SurveyEstimate],
    b: tuple[str, Estimate | SurveyEstimate],
    question: str | None,
    output: str | None,
    level: float,
    holm: bool,
    top: int,
    plot: str | None,
    as_json: bool,
) -> None:
    one, two = a[1], b[1]
    if not isinstance(one, SurveyEstimate) or not isinstance(two, SurveyEstimate):
        raise click.UsageError(f"the estimates must both be of surveys or both of labels: {a[0]}, {b[0]}")
    if question is not None and question not in one:
        raise click.UsageError(f"--question must be a question of the survey: {', '.join(one)}")
    if question is None and plot:
        raise click.UsageError("--plot draws one question of a survey: give its name by --question")
    with naming(b[0]) if list(one) != list(two) else contextlib.nullcontext():
        found = compare_estimates(one, two, level=level, correction="holm" if holm else "none")
    deliver_comparison(found, output=output, top=top, question=question, plot=plot, as_json=as_json)


def _tally(paths: tuple[str, ...], plan: Plan, engine: EngineOptions) -> Tally:
    if engine.is_spark:
        total: Tally | int = engine.tally(paths, plan)
    else:
        total = sum(map(tally, read_batches(paths, plan, "counting")), start=0)
    assert isinstance(total, Tally)
    if total.unshuffled:
        who = f"the reports of {total.unshuffled:,} people" if total.batches else "these reports"
        screen.note(f"{who} are not shuffled: anyone who sees them can link them to their senders")
    return total


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
