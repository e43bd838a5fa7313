"""``inspect``, ``survey`` and ``vectors``: check files, and print an example and the test vectors for other clients."""

import json
import re

import click

from hubbub.cli import screen
from hubbub.cli.options import json_option, output_option
from hubbub.errors import WireError
from hubbub.io.directories import is_directory
from hubbub.io.documents import read_plan
from hubbub.io.files import first_bytes, naming, read_text, write_text
from hubbub.io.reports import inspect_reports
from hubbub.io.surveys import STARTER, Survey, read_survey
from hubbub.pipeline.reports import BatchHeader
from hubbub.planner import load_plan
from hubbub.report import words
from hubbub.vectors import check_vectors, wire_vectors
from hubbub.wire.batches import MAGIC, file_size


@click.command()
@click.argument("file")
@click.option("--plan", "plan_path", metavar="FILE", help="Plan of the reports, to check every message.")
@json_option
def inspect(file: str, plan_path: str | None, as_json: bool) -> None:
    """Describe and check a plan, a contract or a file of reports.

    Recomputes every claim of a plan, and of the plan and the rounds of a contract, and verifies the signatures of a
    contract. Checks the digests of a file or directory of reports and, given their plan, every message; prints
    no message.

    \b
    Example: hubbub inspect plan.json
    """
    if is_directory(file) or first_bytes(file, 4) in (MAGIC, b"PAR1"):
        header = inspect_reports(file, read_plan(plan_path) if plan_path else None)
        _show_header(header, as_json, checked=plan_path is not None)
        return
    text = read_text(file)
    declared = _format(text)
    if declared.startswith("hubbub contract "):
        with naming(file):
            _show_contract(text, as_json)
        return
    if declared and not declared.startswith("hubbub plan "):
        raise WireError(f"{file} must be a plan, a contract or a file of reports, but its format is {declared!r}")
    with naming(file), screen.waiting("recomputing the claims of the plan"):
        plan = load_plan(text)
    rows = [*words.described_plan(plan), ("checked", "all claims recomputed")]
    screen.show({"file": "plan", **screen.plan_record(plan)}, rows, as_json=as_json)
    if not as_json:
        screen.warn(plan)


def _show_contract(text: bytes, as_json: bool) -> None:
    from hubbub.cli import agreements  # noqa: PLC0415 (needs the extra 'serve')
    from hubbub.service.task.contract import SignedContract  # noqa: PLC0415

    signed = SignedContract.from_json(text)
    with screen.waiting("recomputing the claims of the contract"):
        plan = load_plan(signed.contract.plan.to_json())
        rows, record = agreements.described_contract(signed), agreements.contract_record(signed)
    checked = "all claims recomputed; compare the operators' identities with those you expect"
    rows = [*rows, *words.described_plan(plan), ("checked", checked)]
    screen.show({"file": "contract", **record}, rows, as_json=as_json)


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
    rows = [(name, f"{value:,}" if type(value) is int else str(value)) for name, value in record.items()]
    extent = "digest and messages" if checked else "digest only; give --plan to check the messages"
    screen.show(record, [*rows, ("checked", extent)], as_json=as_json)


def _format(text: bytes) -> str:
    """Return the format that a JSON document, or the document it signs, declares; empty if there is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for key in ("contract", "body"):
        document = document.get(key, document) if isinstance(document, dict) else None
    name = document.get("format") if isinstance(document, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"hubbub [a-z ]{1,40} \d{1,4}", name) else ""


@click.command()
@output_option("Write the vectors to this file")
@click.option("--check", metavar="FILE", help="Check that this file of vectors agrees with this program.")
@json_option
def vectors(output: str | None, check: str | None, as_json: bool) -> None:
    """Print the test vectors of the wire format, or check a file of them.

    The vectors are plans with their ids, the messages and batches that every client must write and read, and invalid
    ones that it must reject: one JSON document, with bytes in hexadecimal.

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


@click.command()
@click.argument("file", required=False)
@output_option("Write the example to this file")
@json_option
def survey(file: str | None, output: str | None, as_json: bool) -> None:
    """Write a starter survey file, or check one.

    Without FILE, writes a commented example with every kind of question. With FILE, checks it and lists its questions.

    \b
    Example: hubbub survey -o survey.toml
    Example: hubbub survey survey.toml
    """
    if file is None:
        if as_json:
            raise click.UsageError("give FILE with --json: the example is TOML")
        write_text(output or "-", STARTER)
        return
    if output is not None:
        raise click.UsageError("give FILE or -o: only the example can be written")
    found = read_survey(file)
    if as_json:
        screen.print_json({"schema": found.schema.to_document(), "weights": dict(found.weights)})
    else:
        _show_survey(found)


def _show_survey(found: Survey) -> None:
    questions = found.schema.questions
    rows = [(name, repr(one), f"{found.weights.get(name, 1):g}") for name, one in questions.items]
    screen.console().print(screen.grid("", ["question", "kind", "weight"], rows, left=2))
