"""``inspect`` and ``vectors``: what a file holds, and what other clients must reproduce."""

import json

import click

from hubbub.cli import screen
from hubbub.cli.options import json_option, output_option
from hubbub.io.documents import read_plan
from hubbub.io.files import first_bytes, naming, read_text, write_text
from hubbub.io.reports import inspect_reports
from hubbub.reports import BatchHeader
from hubbub.vectors import check_vectors, wire_vectors
from hubbub.wire.batches import MAGIC, file_size


@click.command()
@click.argument("file")
@click.option("--plan", "plan_path", metavar="FILE", help="The plan of the reports, to check every message.")
@json_option
def inspect(file: str, plan_path: str | None, as_json: bool) -> None:
    """Say what a plan or a file of reports holds, and check it.

    Of a plan, everything that it claims is recomputed. Of reports, all bytes are checked against their digest, and
    with their plan all messages; none is shown.

    \b
    Example: hubbub inspect plan.json
    """
    if first_bytes(file, 4) in (MAGIC, b"PAR1"):
        header = inspect_reports(file, read_plan(plan_path) if plan_path else None)
        _show_header(header, as_json, checked=plan_path is not None)
        return
    with screen.waiting("recomputing what the plan claims"):
        plan = read_plan(file)
    if as_json:
        screen.print_json({"file": "plan", **screen.plan_record(plan)})
    else:
        screen.console().print(screen.facts([*screen.described_plan(plan), ("checked", "all of it, just now")]))


def _show_header(header: BatchHeader, as_json: bool, *, checked: bool) -> None:
    record = {
        "file": "reports",
        "plan": header.plan,
        "release": header.release,
        "width": header.width,
        "messages": header.messages,
        "people": header.n,
        "fakes": header.fakes,
        "shuffled": header.shuffled,
        "bytes": file_size(header),
    }
    if as_json:
        screen.print_json(record)
        return
    rows = [(name, f"{value:,}" if type(value) is int else str(value)) for name, value in record.items()]
    told = "bytes and messages" if checked else "bytes; give --plan to check the messages"
    screen.console().print(screen.facts([*rows, ("checked", told)]))


@click.command()
@output_option("Where the vectors go")
@click.option("--check", metavar="FILE", help="A file of vectors that must agree with this program.")
@json_option
def vectors(output: str | None, check: str | None, as_json: bool) -> None:
    """Print the test vectors of the wire format, or check a file of them.

    Plans with their ids, messages and batches that every client must write and read alike, and bad ones that it must
    refuse; all as JSON, bytes in hexadecimal.

    \b
    Example: hubbub vectors -o vectors.json
    """
    if check is None:
        write_text(output or "-", json.dumps(wire_vectors(), ensure_ascii=False, indent=1) + "\n")
        return
    with naming(check):
        count = check_vectors(read_text(check))
    if as_json:
        screen.print_json({"agree": count})
    else:
        click.echo(f"all {count} vectors agree")
