"""``randomize`` and ``shuffle``: from values to shuffled reports, file by file."""

import itertools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.engines import EngineOptions, engine_options, key_option
from hubbub.cli.options import WHOLE, json_option, output_option, plan_option
from hubbub.cli.values import ValuesOptions, values_options
from hubbub.errors import reject
from hubbub.io.directories import is_directory
from hubbub.io.documents import read_plan
from hubbub.io.files import check_new_directory, same_file
from hubbub.io.policy import Summary
from hubbub.io.reports import read_reports, same_batch, write_reports
from hubbub.model.plans import Plan
from hubbub.pipeline.randomize import randomize as randomize_block
from hubbub.pipeline.reports import Batch, BatchHeader
from hubbub.pipeline.shuffle import shuffle_blocks
from hubbub.report.sentences import numbered

reports_argument = click.argument("reports", nargs=-1, required=True)


@click.command()
@click.argument("values")
@plan_option
@output_option(
    "Write the reports to this .hub or .parquet file, or to this new directory of Parquet if it ends with /",
    required=True,
)
@values_options
@click.option("--fakes", type=WHOLE, help="Number of fakes to add here, if the plan fixes their total.")
@engine_options
@key_option
@json_option
def randomize(
    values: str,
    plan_path: str,
    output: str,
    options: ValuesOptions,
    fakes: int | None,
    engine: EngineOptions,
    key: str | None,
    as_json: bool,
) -> None:
    """Turn people's values into randomized reports.

    VALUES is CSV or TSV with a header (one column of labels, or a column of 0 and 1 or of true and false for each
    label), JSON lines (a label, or a list of labels), possibly compressed by gzip, or Parquet; - reads standard input.
    For a survey: one column, or JSON key, per question. There is no seed: reproducible noise does not protect.

    What happens to invalid records is printed here, and is part of no file but that of --rejects.

    With --engine spark, VALUES is Parquet, CSV or TSV that the cluster reads, and the output is a directory there.

    \b
    Example: hubbub randomize answers.csv --plan plan.json -o reports.hub
    """
    if engine.is_spark:
        changed = options.rejects is not None or not options.is_default
        engine.check(
            {
                "--fakes": fakes is not None,
                "--on-error, --missing, --other and --rejects": changed,
                "--format jsonl": options.form == "jsonl",
                "standard output": output == "-",
                "standard input": values == "-",
            }
        )
        header = engine.randomize(
            values, read_plan(plan_path), output, form=options.form, column=options.column, key=key
        )
        _report_written(header, output, as_json)
        return
    engine.check({"--key": key is not None})
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
@output_option(
    "Write the batch to this .hub or .parquet file, or to this new directory of Parquet if it ends with /",
    required=True,
)
@click.option("--rows", is_flag=True, help="In a directory: one message in each row, for SQL, instead of blocks.")
@click.option("--memory", type=click.IntRange(1, 1 << 20), default=256, help="Memory to use, in MiB.")
@engine_options
@key_option
@json_option
def shuffle(
    reports: tuple[str, ...],
    plan_path: str,
    output: str,
    rows: bool,
    memory: int,
    engine: EngineOptions,
    key: str | None,
    as_json: bool,
) -> None:
    """Permute the reports of a batch and add the shuffler's fakes.

    Several files or directories become one batch. A batch with fewer people than the plan needs is rejected, and
    nothing is written.

    \b
    Example: hubbub shuffle reports.hub --plan plan.json -o mixed.hub
    """
    if engine.is_spark:
        engine.check({"standard output": output == "-", "standard input": "-" in reports})
        header = engine.shuffle(reports, read_plan(plan_path), output, rows=rows, key=key)
        _report_written(header, output, as_json)
        return
    engine.check({"--key": key is not None})
    _check_destination(output, *reports, plan_path)
    if rows and not is_directory(output):
        raise click.UsageError("--rows needs a directory: give -o a name that ends with /")
    plan = read_plan(plan_path)
    batch = shuffle_blocks(read_batches(reports, plan, "reading"), plan, tempfile.TemporaryFile, memory=memory << 20)
    blocks = screen.counted(batch.blocks, "shuffling", total=batch.header.messages)
    header = write_reports(output, plan, replace(batch, blocks=blocks), rows=rows)
    _report_written(header, output, as_json)


def _check_destination(output: str, *inputs: str) -> None:
    if output == "-" and sys.stdout.isatty():
        raise click.UsageError("reports are binary: give -o FILE, or redirect standard output")
    if any(same_file(output, name) for name in inputs):
        raise click.UsageError("the output would overwrite an input: give -o another name")
    if is_directory(output):
        check_new_directory(output)


def read_batches(paths: tuple[str, ...], plan: Plan, what: str) -> Iterator[Batch]:
    """Yield the batches of several files, which must be different ones, with a running count."""
    if paths.count("-") > 1:
        raise click.UsageError("standard input (-) can be given only once")
    # The same people counted twice would look like a larger batch.
    for one, two in itertools.combinations(paths, 2):
        if same_batch(one, two):
            reject("reports", f"be of different people, but {one} and {two} are the same batch")
    for path in paths:
        batch = read_reports(path, plan)
        yield replace(batch, blocks=screen.counted(batch.blocks, what, total=batch.header.messages))


def _report_written(header: BatchHeader, output: str, as_json: bool, summary: Summary | None = None) -> None:
    """Print what was written, unless standard output carries the reports themselves."""
    record: dict[str, Any] = {"plan": header.plan, "messages": header.messages, "people": header.n}
    record |= {"shuffled": header.shuffled} | ({} if summary is None else {"values": summary.to_document()})
    if as_json:
        screen.print_json(record, to_stderr=output == "-")
    elif output != "-":
        state = "shuffled" if header.shuffled else "not shuffled"
        messages = numbered(header.messages, "message")
        click.echo(f"{messages} of {header.n:,} people, {state}, in {output}")
