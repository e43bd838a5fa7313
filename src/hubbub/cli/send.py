"""``hubbub send``: people's values, each randomized and sealed as its device would, to a running shuffler."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator

import click

from hubbub.cli import screen
from hubbub.cli.options import json_option
from hubbub.errors import InvalidInput, reject
from hubbub.io.files import read_text
from hubbub.io.values import Form, read_values
from hubbub.records import Collection
from hubbub.service.task.contract import allowed_batch_size, load_contract
from hubbub.service.uploader import Http, Journal, Lost, Sender


@click.command()
@click.argument("values", required=False)
@click.option("--contract", "contract_path", required=True, metavar="FILE", help="The signed contract.")
@click.option("--to", "url", required=True, metavar="URL", help="The shuffler.")
@click.option("--journal", "journal_path", required=True, metavar="FILE", help="What is on its way; for resuming.")
@click.option("--format", "form", type=click.Choice(["csv", "jsonl", "parquet"]), help="Of the values; else by name.")
@click.option("--column", help="The column, or entry, that holds the labels.")
@click.option("--per-request", type=click.IntRange(1, 256), default=100, show_default=True, help="Bundles at a time.")
@click.option("--unsafe-test", is_flag=True, help="Take contracts with crowds too small to hide in.")
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
    """Randomize people's values, seal them, and send them to a shuffler.

    Every person's bundle is made once and kept in the journal until the shuffler has stored it: the same command again,
    or one without VALUES, sends what is left and never counts anybody twice. Raw values do not reach the journal.

    \b
    Example: hubbub send answers.csv --contract contract.json --to http://127.0.0.1:8401 --journal sent.journal
    """
    contract = load_contract(
        read_text(contract_path), min_batch_size=allowed_batch_size(unsafe_test=unsafe_test)
    ).contract
    with contextlib.closing(Journal(journal_path, contract)) as journal, contextlib.closing(Http(url)) as transport:
        sender = Sender(contract, transport, journal, per_request=per_request, pause=_pause)
        before = journal.states().get("stored", 0)
        people = read_values(values, contract.plan.schema, form=form, column=column) if values else None
        try:
            if len(journal):
                _check_same(people, len(journal))
            elif people is None:
                raise InvalidInput("values must be given where the journal is empty, got none")
            else:
                sender.prepare(_records(screen.counted(people, "sealing")))
            with screen.progressing() as tell:
                result = sender.send(lambda done: tell("sending", done, len(journal)))
        except Lost as error:
            raise click.ClickException(f"{error}; what was not taken stays in the journal") from None
    if as_json:
        screen.print_json(dataclasses.asdict(result))
        return
    screen.console().print(
        f"{result.stored - before:,} people's answers were sent now; {result.stored:,} are stored by the shuffler."
    )
    for problem, count in result.refused.items():
        screen.console().print(f"[red]{count:,} were refused: {problem}[/]")


def _pause(seconds: float) -> None:
    screen.note(f"no answer, or not yet; trying again in {seconds:.1f} s")
    time.sleep(seconds)


def _check_same(people: Iterator[Collection] | None, known: int) -> None:
    """Raise if a journal in use is given with other people: theirs would be left out without a word."""
    count = known if people is None else sum(map(len, people))
    if count != known:
        reject(
            "values", f"be those of the {known:,} people in the journal, or the journal another", f"{count:,} people"
        )


def _records(blocks: Iterator[Collection]) -> Iterator[int]:
    """Encoded records one by one, bit i of label i."""
    for block in blocks:
        flat, ones = block.ones(0, len(block))
        start = 0
        for count in ones.tolist():
            yield sum(1 << i for i in flat[start : start + count].tolist())
            start += count
