"""``randomize`` and ``shuffle``: from values to shuffled reports, file by file."""

import itertools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace

import click

from hubbub.cli import screen
from hubbub.cli.options import FORMS, WHOLE, json_option, output_option, plan_option
from hubbub.client import randomize as randomize_block
from hubbub.errors import reject
from hubbub.io.documents import read_plan
from hubbub.io.files import same_file
from hubbub.io.reports import read_reports, same_batch, write_reports
from hubbub.io.values import Form, read_values
from hubbub.plans import Plan
from hubbub.reports import Batch, BatchHeader
from hubbub.shuffler import shuffle_blocks

reports_argument = click.argument("reports", nargs=-1, required=True)


@click.command()
@click.argument("values")
@plan_option
@output_option("Write the reports to this .hub or .parquet file", required=True)
@click.option("--format", "form", type=FORMS, help="Format of VALUES; by default from the file name.")
@click.option("--column", help="Column, or JSON key, that holds the labels.")
@click.option("--fakes", type=WHOLE, help="Number of fakes to add here, if the plan fixes their total.")
@json_option
def randomize(
    values: str, plan_path: str, output: str, form: Form | None, column: str | None, fakes: int | None, as_json: bool
) -> None:
    """Turn people's values into randomized reports.

    VALUES is CSV with a header (one column of labels, or a column of 0 and 1 for each label), JSON lines (a label, or
    a list of labels), or Parquet; - reads standard input. There is no seed: reproducible noise does not protect.

    \b
    Example: hubbub randomize answers.csv --plan plan.json -o reports.hub
    """
    _check_destination(output, values, plan_path)
    plan = read_plan(plan_path)
    first = itertools.chain([fakes], itertools.repeat(0 if plan.protocol.fixed_fakes else None))
    blocks = (
        randomize_block(block, plan, fakes=share)
        for block, share in zip(read_values(values, plan.schema, form=form, column=column), first, strict=False)
    )
    header = write_reports(output, plan, screen.counted(blocks, "randomizing"))
    _report_written(header, output, as_json)


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
    batch = shuffle_blocks(read_batches(reports, plan, "reading"), plan, tempfile.TemporaryFile, memory=memory << 20)
    header = write_reports(output, plan, replace(batch, blocks=screen.counted(batch.blocks, "shuffling")))
    _report_written(header, output, as_json)


def _check_destination(output: str, *inputs: str) -> None:
    if output == "-" and sys.stdout.isatty():
        raise click.UsageError("reports are binary: give -o FILE, or redirect standard output")
    if any(same_file(output, name) for name in inputs):
        raise click.UsageError("the output would overwrite an input: give -o another name")


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
        yield replace(batch, blocks=screen.counted(batch.blocks, what))


def _report_written(header: BatchHeader, output: str, as_json: bool) -> None:
    """Print what was written, unless standard output carries the reports themselves."""
    record = {"plan": header.plan, "messages": header.messages, "people": header.n, "shuffled": header.shuffled}
    if as_json:
        screen.print_json(record, to_stderr=output == "-")
    elif output != "-":
        state = "shuffled" if header.shuffled else "not shuffled"
        click.echo(f"{header.messages:,} messages of {header.n:,} people, {state}, in {output}")
