"""``hubbub send``: randomize and seal values as devices would, and upload them to a running shuffler."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator

import click

from hubbub.cli import screen
from hubbub.cli.options import FORMS, json_option
from hubbub.errors import InvalidInput, NoResponse
from hubbub.io.files import read_text
from hubbub.io.values import Form, read_values
from hubbub.records import Collection
from hubbub.service.task.contract import MIN_BATCH_SIZE, load_contract
from hubbub.service.journal import Journal
from hubbub.service.uploader import HttpTransport, Uploader


@click.command()
@click.argument("values", required=False)
@click.option("--contract", "contract_path", required=True, metavar="FILE", help="Signed contract.")
@click.option("--to", "url", required=True, metavar="URL", help="URL of the shuffler.")
@click.option(
    "--journal", "journal_path", required=True, metavar="FILE", help="Journal of this upload; needed to resume it."
)
@click.option("--format", "form", type=FORMS, help="Format of VALUES; default: by file name.")
@click.option("--column", help="Column, or JSON key, that holds the labels.")
@click.option("--per-request", type=click.IntRange(1, 256), default=100, help="Bundles per request.")
@click.option("--unsafe-test", is_flag=True, help="Accept contracts whose batches are too small to protect anyone.")
@json_option
def send(
    values: str | None,
    contract_path: str,
    url: str,
    journal_path: str,
    form: Form | None,
    column: str | None,
    per_request: int,
    unsafe_test: bool,
    as_json: bool,
) -> None:
    """Randomize values, seal them, and upload them to a shuffler.

    Each person's bundle is created once and kept in the journal until the shuffler has stored it. Repeating the
    command, with or without VALUES, uploads the rest and never counts anyone twice. The journal never contains raw
    values.

    \b
    Example: hubbub send answers.csv --contract contract.json --to http://127.0.0.1:8401 --journal sent.journal
    """
    minimum = 1 if unsafe_test else MIN_BATCH_SIZE
    contract = load_contract(read_text(contract_path), min_batch_size=minimum).contract
    with (
        contextlib.closing(Journal(journal_path, contract)) as journal,
        contextlib.closing(HttpTransport(url)) as transport,
    ):
        uploader = Uploader(contract, transport, journal, per_request=per_request, pause=_pause)
        before = journal.states().get("stored", 0)
        people = read_values(values, contract.plan.schema, form=form, column=column) if values else None
        try:
            if len(journal):
                _check_same(people, len(journal))
            elif people is None:
                raise InvalidInput("VALUES must be given, because the journal is empty")
            else:
                uploader.prepare(_records(screen.counted(people, "sealing")))
            with screen.progressing() as progress:
                result = uploader.send(lambda done: progress("sending", done, len(journal)))
        except NoResponse as error:
            raise click.ClickException(f"{error}; repeat the command to send the rest of the journal") from None
    if as_json:
        screen.print_json(dataclasses.asdict(result))
        return
    sent = result.stored - before
    screen.console().print(f"{sent:,} answers sent, {result.stored:,} stored by the shuffler in total.")
    for problem, count in result.refused.items():
        screen.console().print(f"[red]{count:,} refused: {problem}[/]")


def _pause(seconds: float) -> None:
    screen.note(f"no response, or the shuffler is busy; retrying in {seconds:.1f} s")
    time.sleep(seconds)


def _check_same(people: Iterator[Collection] | None, known: int) -> None:
    """Raise if VALUES has another number of people than the journal in use, whose answers would be left out."""
    count = known if people is None else sum(map(len, people))
    if count != known:
        raise InvalidInput(
            f"VALUES has {count:,} people and the journal {known:,}: resume with the same values, or use a new journal"
        )


def _records(blocks: Iterator[Collection]) -> Iterator[int]:
    """Yield encoded records one by one; bit i stands for label i."""
    for block in blocks:
        flat, ones = block.ones(0, len(block))
        start = 0
        for count in ones.tolist():
            yield sum(1 << i for i in flat[start : start + count].tolist())
            start += count
