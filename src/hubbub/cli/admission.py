"""Commands and options of admission: the terms in a contract, tickets, and the issuer of tokens."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.options import json_option
from hubbub.errors import WireError, check_whole
from hubbub.io.files import check_destination, read_text
from hubbub.report.sentences import numbered
from hubbub.service import provision
from hubbub.service.runtime.admin import SETTINGS
from hubbub.service.runtime.credentials import write_file
from hubbub.service.task.admission import KINDS, Admission, TicketKey
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.tokens import KEY_SIZE

ADMISSION_HELP = "How clients are admitted; 'open' needs a plan that does not assume that all users are honest."
admission_option = click.option("--admission", type=click.Choice(KINDS[:2]), default="ticket", help=ADMISSION_HELP)
issuer_name_option = click.option(
    "--issuer", default=provision.TICKET_ISSUER, metavar="NAME", help="Name of the issuer."
)
token_key_option = click.option(
    "--token-key", "token_key_path", metavar="FILE", help="The issuer's public key; clients are then admitted by token."
)
ISSUER_SETTINGS = 'contracts = ["contract.json"]\ncodes = "codes"\n'
"""The settings of a new issuer."""


def admission_terms(kind: str, issuer: str = provision.TICKET_ISSUER, token_key_path: str | None = None) -> Admission:
    """Return the admission that the options describe."""
    if token_key_path is not None:
        return Admission("token", issuer, _public_key(token_key_path))
    return Admission() if kind == "open" else Admission("ticket", issuer)


def minting(agreed: Contract, number: int, key: TicketKey) -> Callable[[str | bytes], bytes]:
    """Return the function that mints the ticket of an account for a round; for strings, also that for evaluations."""
    context, keys = agreed.context_of(number), [key] if agreed.strings is None else [key, key.evaluation()]
    return lambda account: b"".join(one.mint(context, account) for one in keys)


def read_hex_lines(path: str, what: str) -> Iterator[bytes]:
    """Yield the values of a file of hexadecimal digits, one value per line."""
    for number, line in enumerate(read_lines(path, what), 1):
        try:
            yield bytes.fromhex(line)
        except ValueError:
            raise WireError(f"{Path(path).name}: line {number:,} must be a {what} in hexadecimal digits") from None


def read_lines(path: str, what: str) -> list[str]:
    """Return the lines of a text file without empty ones."""
    try:
        return [line.strip() for line in read_text(path).decode().splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise WireError(f"{Path(path).name} must contain one {what} per line, in UTF-8") from None


@click.command()
@click.argument("accounts")
@click.option("--contract", "contract_path", required=True, metavar="FILE", help="The contract.")
@click.option("--key", "key_path", required=True, metavar="FILE", help="The issuer's ticket key.")
@click.option("--round", "number", type=click.IntRange(1), help="Round of the series; default: the current one.")
@click.option("-o", "--output", required=True, metavar="FILE", help="New file for the tickets, of mode 0600.")
def ticket(accounts: str, contract_path: str, key_path: str, number: int | None, output: str) -> None:
    """Mint the tickets of accounts for a contract, or for one round of it.

    ACCOUNTS is a file with one account name per line; the tickets are in the same order. An account gets the same
    ticket whenever it is minted, and its ticket admits one bundle. In a series, every round has its own tickets. For
    strings, a ticket for evaluations follows on the same line; the analyzer verifies it with the key that
    "serve evaluation-key" makes.

    \b
    Example: hubbub serve ticket accounts.txt --contract contract.json --key shuffler.key -o tickets.txt
    """
    agreed = SignedContract.from_json(read_text(contract_path)).contract
    if agreed.admission.kind != "ticket":
        raise click.UsageError(f"the contract's admission is {agreed.admission.kind!r}, not by ticket")
    current = agreed.round_of(agreed.epoch_at(time.time()))
    number = check_whole("round", current if number is None else number, 1, agreed.rounds)
    names = read_lines(accounts, "account name")
    if len(set(names)) != len(names):
        raise click.UsageError(f"{Path(accounts).name} must name every account once")
    mint = minting(agreed, number, TicketKey.load(key_path))
    write_file(Path(output), "".join(f"{mint(name).hex()}\n" for name in names).encode())
    where = "" if agreed.series is None else f", round {number} of {agreed.rounds}"
    screen.note(f"{numbered(len(names), 'ticket')} for task {agreed.id}{where}")


@click.command("evaluation-key")
@click.option("--key", "key_path", required=True, metavar="FILE", help="The issuer's ticket key.")
@click.option("-o", "--output", required=True, metavar="FILE", help="New file for the analyzer's folder of tickets.")
def evaluation_key(key_path: str, output: str) -> None:
    """Derive the key with which the analyzer verifies tickets for evaluations of strings.

    It cannot mint tickets for the shuffler. The analyzer's operator puts it into the folder "tickets" as NAME.key.

    \b
    Example: hubbub serve evaluation-key --key shuffler.key -o evaluation.key
    """
    TicketKey.load(key_path).evaluation().save(output)
    screen.note(f"{Path(output).name} verifies tickets for evaluations; it is secret")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("-o", "--output", metavar="FILE", help="New file for the public key, as 'serve contract' reads it.")
@json_option
def key(folder: Path, output: str | None, as_json: bool) -> None:
    """Create an issuer's key for one task.

    FOLDER is the folder of the issuer, which is set up if it is new. Every contract needs its own key, because the
    issuer signs blindly and cannot see for which task.

    \b
    Example: hubbub serve key issuer -o token.key
    """
    from hubbub.service.issuer import add_key  # noqa: PLC0415 (loads the HTTP server)

    if output is not None:
        # Before anything is created: a key whose public part was not written would be left behind.
        check_destination(output)
        if Path(output).exists():
            raise click.UsageError(f"-o must be a new file, but {output} exists")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / SETTINGS).exists():
        write_file(folder / SETTINGS, ISSUER_SETTINGS.encode())
    public = add_key(folder / "token-keys").public
    created: dict[str, Any] = {"folder": str(folder), "key": public.hex()}
    if output is not None:
        write_file(Path(output), public.hex().encode() + b"\n")
        created["key"] = output
    screen.show(created, created.items(), as_json=as_json)


@click.command()
@click.argument("settings", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--unsafe-test", is_flag=True, help="Issue for contracts whose batches are too small to protect anyone.")
def issuer(settings: Path, unsafe_test: bool) -> None:
    """Run the issuer of a settings file until SIGTERM or Ctrl-C.

    It gives every account one blindly signed token per contract.
    """
    provision.run_role(provision.ISSUER, settings, {"unsafe_test": True} if unsafe_test else None)


def _public_key(path: str) -> bytes:
    found = list(read_hex_lines(path, "public key"))
    if len(found) != 1 or len(found[0]) != KEY_SIZE:
        raise WireError(f"{Path(path).name} must be a public key written by 'hubbub serve key'")
    return found[0]
