"""``randomize``, ``shuffle``, ``estimate``, ``joint``: the pipeline, file by file."""

import itertools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from hubbub.analyzer import achieved_guarantee, tally
from hubbub.analyzer import estimate as estimate_counts
from hubbub.analyzer import joint as joint_table
from hubbub.cli import screen
from hubbub.cli.options import json_option, output_option, plan_option
from hubbub.cli.values import ValuesOptions, values_options
from hubbub.client import randomize as randomize_block
from hubbub.errors import reject
from hubbub.estimates import Estimate
from hubbub.io.documents import read_plan
from hubbub.io.files import same_file
from hubbub.io.policy import Summary
from hubbub.io.reports import read_reports, same_batch, write_reports
from hubbub.pages import estimate_chart
from hubbub.plans import Plan
from hubbub.privacy import Guarantee
from hubbub.reports import Batch, BatchHeader, Tally
from hubbub.shuffler import shuffle_blocks

reports_argument = click.argument("reports", nargs=-1, required=True)


@click.command()
@click.argument("values")
@plan_option
@output_option("Write the reports to this .hub or .parquet file", required=True)
@values_options
@click.option("--fakes", type=int, help="Number of fakes to add here, if the plan fixes their total.")
@json_option
def randomize(
    values: str, plan_path: str, output: str, options: ValuesOptions, fakes: int | None, as_json: bool
) -> None:
    """Turn people's values into randomized reports.

    VALUES is CSV or TSV with a header (one column of labels, or a column of 0 and 1 or of true and false for each
    label), JSON lines (a label, or a list of labels), possibly compressed by gzip, or Parquet; - reads standard input.
    There is no seed: reproducible noise does not protect.

    What happens to invalid records is printed here, and is part of no file but that of --rejects.

    \b
    Example: hubbub randomize answers.csv --plan plan.json -o reports.hub
    """
    _check_destination(output, values, plan_path)
    options.check_rejects(output, values, plan_path)
    plan = read_plan(plan_path)
    first = itertools.chain([fakes], itertools.repeat(0 if plan.protocol.fixed_fakes else None))
    with options.reading(values, plan.schema) as (people, summary):
        shown = screen.counted(people, "randomizing", fraction=lambda: summary.fraction)
        blocks = (randomize_block(block, plan, fakes=share) for block, share in zip(shown, first, strict=False))
        header = write_reports(output, plan, blocks)
    options.explain(summary)
    _report_written(header, output, as_json, None if options.is_default else summary)


@click.command()
@reports_argument
@plan_option
@output_option("Write the shuffled batch to this .hub or .parquet file", required=True)
@click.option("--memory", type=click.IntRange(1, 1 << 20), default=256, help="Memory to use, in MiB.")
@json_option
def shuffle(reports: tuple[str, ...], plan_path: str, output: str, memory: int, as_json: bool) -> None:
    """Permute the reports of a batch and add the shuffler's fakes.

    Several files become one batch. A batch with fewer people than the plan needs is rejected, and nothing is written.

    \b
    Example: hubbub shuffle reports.hub --plan plan.json -o mixed.hub
    """
    _check_destination(output, *reports, plan_path)
    plan = read_plan(plan_path)
    batch = shuffle_blocks(_batches(reports, plan, "reading"), plan, tempfile.TemporaryFile, memory=memory << 20)
    blocks = screen.counted(batch.blocks, "shuffling", total=batch.header.messages)
    header = write_reports(output, plan, replace(batch, blocks=blocks))
    _report_written(header, output, as_json)


@click.command()
@reports_argument
@plan_option
@output_option("Also write the estimate to this file, as JSON")
@click.option("--level", type=float, default=0.95, help="Confidence level of the intervals.")
@click.option("--simultaneous", is_flag=True, help="Make the intervals hold for all labels at once.")
@click.option("--consistent", is_flag=True, help="Project onto possible counts: non-negative, with the right total.")
@click.option("--top", type=click.IntRange(1), default=20, help="Number of labels to print.")
@click.option("--plot", metavar="FILE", help="Draw bars with intervals, as SVG, PNG or PDF (needs the extra 'plot').")
@json_option
def estimate(
    reports: tuple[str, ...],
    plan_path: str,
    output: str | None,
    level: float,
    simultaneous: bool,
    consistent: bool,
    top: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Estimate how many people have each label, with error bars.

    Several shuffled batches of one plan are added.

    \b
    Example: hubbub estimate mixed.hub --plan plan.json
    """
    plan = read_plan(plan_path)
    total = _tally(reports, plan)
    counts = estimate_counts(total, plan)
    counts = counts.consistent() if consistent else counts
    low, high = counts.interval(level, simultaneous=simultaneous)
    with screen.waiting("computing the guarantee of this batch"):
        guarantee = achieved_guarantee(total, plan)
    record = _estimate_record(counts, plan, guarantee, level, low.tolist(), high.tolist())
    if plot:
        estimate_chart(counts, level=level, top=top, simultaneous=simultaneous).save(plot)
    if output:
        screen.write_json(output, record)
    if as_json:
        screen.print_json(record)
    elif output != "-":
        _show_estimate(counts, low.tolist(), high.tolist(), level, top, guarantee)


@click.command()
@reports_argument
@plan_option
@click.option("--labels", required=True, metavar="LABELS", help="Up to 20 labels, separated by commas.")
@click.option(
    "--given", multiple=True, metavar="LABEL=0|1", help="Show shares among people with (1) or without (0) this label."
)
@json_option
def joint(reports: tuple[str, ...], plan_path: str, labels: str, given: tuple[str, ...], as_json: bool) -> None:
    """Estimate how many people have each combination of labels.

    The plan must release whole records (`hubbub plan --joint`).

    \b
    Example: hubbub joint mixed.hub --plan plan.json --labels red,blue
    """
    plan = read_plan(plan_path)
    table = joint_table(_batches(reports, plan, "counting"), plan, labels.split(","))
    shown = table.conditional(_conditions(given)) if given else table
    rows = [
        {"with": [label for i, label in enumerate(shown.labels) if x >> i & 1], "value": value, "stderr": error}
        for x, (value, error) in enumerate(zip(shown.values.tolist(), shown.stderr.tolist(), strict=True))
    ]
    if as_json:
        unit = "share" if given else "people"
        screen.print_json({"plan": plan.id, "labels": list(shown.labels), "given": list(given), unit: rows})
        return
    digits = ".4f" if given else ",.0f"
    cells = [
        (" + ".join(row["with"]) or "none", *(f"{row[key]:{digits}}" for key in ("value", "stderr"))) for row in rows
    ]
    screen.console().print(screen.grid("", ["combination", "share" if given else "people", "± σ"], cells))


def _check_destination(output: str, *inputs: str) -> None:
    if output == "-" and sys.stdout.isatty():
        raise click.UsageError("reports are binary: give -o FILE, or redirect standard output")
    if any(same_file(output, name) for name in inputs):
        raise click.UsageError("the output would overwrite an input: give -o another name")


def _batches(paths: tuple[str, ...], plan: Plan, what: str) -> Iterator[Batch]:
    if paths.count("-") > 1:
        raise click.UsageError("standard input (-) can be given only once")
    # The same people counted twice would look like a larger batch.
    for one, two in itertools.combinations(paths, 2):
        if same_batch(one, two):
            reject("reports", f"be of different people, but {one} and {two} are the same batch")
    for path in paths:
        batch = read_reports(path, plan)
        yield replace(batch, blocks=screen.counted(batch.blocks, what, total=batch.header.messages))


def _tally(paths: tuple[str, ...], plan: Plan) -> Tally:
    total = sum(map(tally, _batches(paths, plan, "counting")), start=0)
    assert isinstance(total, Tally)
    if not total.batches:
        screen.note("these reports are not shuffled: anyone who sees them can link them to their senders")
    return total


def _report_written(header: BatchHeader, output: str, as_json: bool, summary: Summary | None = None) -> None:
    """Print what was written, unless standard output carries the reports themselves."""
    record: dict[str, Any] = {"plan": header.plan, "messages": header.messages, "people": header.n}
    record |= {"shuffled": header.shuffled} | ({} if summary is None else {"values": summary.to_document()})
    if as_json:
        screen.print_json(record, to_stderr=output == "-")
    elif output != "-":
        state = "shuffled" if header.shuffled else "not shuffled"
        click.echo(f"{header.messages:,} messages of {header.n:,} people, {state}, in {output}")


def _conditions(given: tuple[str, ...]) -> dict[str, bool]:
    pairs = [text.rpartition("=") for text in given]
    if any(value not in ("0", "1") or not label for label, _, value in pairs):
        raise click.UsageError("--given must be LABEL=0 or LABEL=1")
    return {label: value == "1" for label, _, value in pairs}


def _estimate_record(
    counts: Estimate, plan: Plan, guarantee: Guarantee, level: float, low: list[float], high: list[float]
) -> dict[str, Any]:
    columns = (counts.labels, counts.values.tolist(), counts.stderr.tolist(), low, high, counts.detectable.tolist())
    names = ("label", "value", "stderr", "low", "high", "detectable")
    return {
        "plan": plan.id,
        "people": counts.n,
        "level": level,
        "remark": counts.remark,
        "guarantee": guarantee.to_document(),
        "counts": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
    }


def _show_estimate(
    counts: Estimate, low: list[float], high: list[float], level: float, top: int, guarantee: Guarantee
) -> None:
    order = sorted(range(len(counts.labels)), key=lambda i: -counts.values[i])[:top]
    bars = screen.bars([counts.values[i] for i in order], [low[i] for i in order], [high[i] for i in order])
    rows = [
        (counts.labels[i], f"{counts.values[i]:,.0f}", f"{low[i]:,.0f} – {high[i]:,.0f}", bar)
        for i, bar in zip(order, bars, strict=True)
    ]
    table = screen.grid("", ["label", "people", f"{level:.0%} interval", ""], rows)
    table.columns[-1].justify = "left"
    view = screen.console()
    view.print(table)
    if len(counts.labels) > top:
        view.print(f"… and {len(counts.labels) - top:,} more labels (--top, --json)")
    view.print(
        f"{counts.n:,} people; this batch is ({guarantee.epsilon:.4g}, {guarantee.delta:.3g})-differentially private."
    )
