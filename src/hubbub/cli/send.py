"""``hubbub send``: randomize and seal values as devices would, and upload them to a running shuffler."""

import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from hubbub.cli import screen
from hubbub.cli.admission import minting, read_hex_lines, read_lines
from hubbub.cli.options import json_option
from hubbub.cli.values import ValuesOptions, values_options
from hubbub.errors import InvalidInput, NoResponse
from hubbub.io.files import read_text
from hubbub.io.policy import Policy, Summary
from hubbub.pipeline.records import Bodies, Collection
from hubbub.pipeline.rows import one_person
from hubbub.report.sentences import numbered
from hubbub.service.journal import Journal
from hubbub.service.runtime.http import KINDS
from hubbub.service.task.admission import TicketKey
from hubbub.service.task.contract import MIN_BATCH_SIZE, Contract, load_contract
from hubbub.service.transport import HttpIssuer, HttpTransport, printable
from hubbub.service.uploader import Record, Sent, Uploader

BLOCK = 1 << 10
"""Records that are read at a time: sealing is slow, and progress is shown after each block."""
WAYS = {
    "ticket": "the contract admits by ticket: give --tickets, or --ticket-key to mint them",
    "token": "the contract admits by token: give --issuer with --codes, or --tickets",
}
"""The options that admit answers, by kind of admission."""
REASONS = {
    "bad-token": "not valid for this contract and round: made with another key, or for another contract or round",
    "token-spent": "the accounts have answered this contract, or this round of it, before",
    "closed-task": "the contract has not begun, has ended, or was closed",
    "closed-round": "the round of this journal is over; use a new journal for the current round",
    "series-ended": "all rounds of the contract are over",
}
"""The meaning of refusals for the sender, by name of the problem."""


@click.command()
@click.argument("values", required=False)
@click.option("--contract", "contract_path", required=True, metavar="FILE", help="Signed contract.")
@click.option("--to", "url", required=True, metavar="URL", help="URL of the shuffler; for strings, of the relay.")
@click.option(
    "--journal", "journal_path", required=True, metavar="FILE", help="Journal of this upload; needed to resume it."
)
@values_options
@click.option("--tickets", "tickets_path", metavar="FILE", help="Tickets or tokens, in hexadecimal, one per person.")
@click.option("--ticket-key", "key_path", metavar="FILE", help="Ticket key; for tests: mints a ticket for each person.")
@click.option("--issuer", "issuer_url", metavar="URL", help="URL of the token issuer.")
@click.option("--codes", "codes_path", metavar="FILE", help="Codes for the token issuer, one per person.")
@click.option("--per-request", type=click.IntRange(1, 256), default=100, help="Bundles per request.")
@click.option("--unsafe-test", is_flag=True, help="Accept contracts whose batches are too small to protect anyone.")
@json_option
def send(
    values: str | None,
    contract_path: str,
    url: str,
    journal_path: str,
    options: ValuesOptions,
    tickets_path: str | None,
    key_path: str | None,
    issuer_url: str | None,
    codes_path: str | None,
    per_request: int,
    unsafe_test: bool,
    as_json: bool,
) -> None:
    """Randomize values, seal them, and upload them to a shuffler.

    Each person's bundle is created once and kept in the journal until the shuffler has stored it. Repeating the
    command, with or without VALUES, uploads the rest and never counts anyone twice. The journal never contains raw
    values, except strings that nobody listed, until they are stored.

    In a series, a journal is for one round: the current one when the journal is new. Give each round its own journal.

    A contract may require admission: tickets ("--tickets", or "--ticket-key" to mint them), or tokens ("--issuer" with
    "--codes", or "--tickets" if they were issued before).

    The command fails if the shuffler refuses an answer, and prints how many it refused and why.

    \b
    Example: hubbub send answers.csv --contract contract.json --to http://127.0.0.1:8401 --journal sent.journal
      --tickets tickets.txt
    """
    _check_combination(options.policy, tickets_path, key_path, issuer_url, codes_path)
    options.check_rejects(*(name for name in (values, contract_path, journal_path, tickets_path, codes_path) if name))
    minimum = 1 if unsafe_test else MIN_BATCH_SIZE
    contract = load_contract(read_text(contract_path), min_batch_size=minimum).contract
    number = contract.round_of(contract.epoch_at(time.time()))
    if codes_path is not None and contract.admission.kind != "token":
        raise click.UsageError(f"--codes needs a contract that admits by token, not {contract.admission.kind!r}")
    admissions = _admissions(contract, number, tickets_path, key_path)
    codes = read_lines(codes_path, "code") if codes_path else None
    with contextlib.ExitStack() as stack:
        issuer = stack.enter_context(contextlib.closing(HttpIssuer(issuer_url))) if issuer_url else None
        transport = stack.enter_context(contextlib.closing(HttpTransport(url)))
        people, summary = None, Summary()
        if values:
            blocks, summary = stack.enter_context(options.reading(values, contract.plan.schema, block=BLOCK))
            people = _started(blocks)
        journal = stack.enter_context(_journal(journal_path, contract, number))
        uploader = Uploader(contract, transport, journal, per_request=per_request, issuer=issuer, retrying=_retrying)
        before = journal.states().get("stored", 0)
        try:
            if len(journal):
                _check_same(people, len(journal))
            elif people is None:
                raise InvalidInput(f"VALUES must be given, because --journal {journal_path} is empty")
            elif admissions is None and codes is None and contract.admission.kind != "open":
                raise InvalidInput(WAYS[contract.admission.kind])
            else:
                shown = screen.counted(people, "sealing", fraction=lambda: summary.fraction)
                uploader.prepare(_records(shown), admissions, codes=codes)
            with screen.progressing() as progress:
                result = uploader.send(lambda done: progress("sending", done, len(journal)))
        except NoResponse as error:
            raise click.ClickException(f"{error}; repeat the command to send the rest of the journal") from None
    options.explain(summary)
    if as_json:
        counts = {} if options.is_default or not values else {"values": summary.to_document()}
        screen.print_json(dataclasses.asdict(result) | counts)
    else:
        _show(result, before)
    if result.refused:
        total = sum(result.refused.values())
        reasons = "; ".join(_refusal(problem, count) for problem, count in result.refused.items())
        raise click.ClickException(f"{total:,} of {_answers(result)} were refused: {reasons}")


def _check_combination(
    policy: Policy, tickets_path: str | None, key_path: str | None, issuer_url: str | None, codes_path: str | None
) -> None:
    if sum(path is not None for path in (tickets_path, key_path, issuer_url)) > 1:
        raise click.UsageError("give at most one of --tickets, --ticket-key and --issuer")
    if codes_path is not None and issuer_url is None:
        raise click.UsageError("--codes needs --issuer")
    if not policy.keeps_all and (tickets_path or codes_path):
        # A record that is left out would give its ticket or code to the next person.
        raise click.UsageError(
            "--on-error skip with --tickets or --codes needs --missing, so that no record is left out"
        )


def _show(result: Sent, before: int) -> None:
    sent = result.stored - before
    screen.console().print(f"{numbered(sent, 'answer')} sent, {result.stored:,} stored by the shuffler in total.")
    if result.uncertain:
        screen.console().print(
            f"[yellow]{result.uncertain:,} uncertain: the shuffler's store was restored, so these answers may or may "
            "not be counted; they are not sent again.[/]"
        )


def _answers(result: Sent) -> str:
    total = result.stored + result.waiting + result.uncertain + sum(result.refused.values())
    return numbered(total, "answer")


def _refusal(problem: str, count: int) -> str:
    reason = REASONS.get(problem) or (KINDS[problem].title.rstrip(".") if problem in KINDS else "")
    return f"{count:,} {printable(problem)}" + (f" ({reason})" if reason else "")


def _admissions(
    contract: Contract, number: int, tickets_path: str | None, key_path: str | None
) -> list[bytes] | Callable[[], bytes] | None:
    """Return the admissions of a file, or a function that mints tickets of new accounts; None if neither is given."""
    if tickets_path is not None:
        return list(read_hex_lines(tickets_path, contract.admission.kind))
    if key_path is None:
        return None
    if contract.admission.kind != "ticket":
        raise InvalidInput(f"--ticket-key needs a contract that admits by ticket, not {contract.admission.kind!r}")
    mint = minting(contract, number, TicketKey.load(key_path))
    return lambda: mint(os.urandom(16))


@contextlib.contextmanager
def _journal(path: str, contract: Contract, number: int) -> Iterator[Journal]:
    """Open a journal; delete the file again if it is new and no answer was stored in it."""
    new = not Path(path).exists()
    with contextlib.closing(Journal(path, contract, number)) as journal:
        try:
            yield journal
        finally:
            if new and not len(journal):
                Path(path).unlink()


def _started(blocks: Iterator[Collection]) -> Iterator[Collection]:
    """Read the first block at once, so that an unusable file is reported before anything is created."""
    first = list(itertools.islice(blocks, 1))
    return itertools.chain(first, blocks)


def _retrying(reason: str, seconds: float) -> None:
    screen.note(f"{reason}; retrying in {seconds:.1f} s")


def _check_same(people: Iterator[Collection] | None, known: int) -> None:
    """Raise if VALUES has another number of people than the journal in use, whose answers would be left out."""
    count = known if people is None else sum(map(len, people))
    if count != known:
        raise InvalidInput(
            f"VALUES has {count:,} people and the journal {known:,}: resume with the same values, or use a new journal"
        )


def _records(blocks: Iterator[Collection]) -> Iterator[Record]:
    """Yield encoded records one by one; bit i stands for label i, and a string is its payload."""
    for block in blocks:
        if isinstance(block.records, Bodies):
            yield from (row.tobytes() for row in one_person(block.records.rows))
            continue
        flat, ones = block.ones(0, len(block))
        start = 0
        for count in ones.tolist():
            yield sum(1 << i for i in flat[start : start + count].tolist())
            start += count
