"""``ledger``: keep the total of repeated collections in a file."""

from pathlib import Path

import click

from hubbub.accountant import Ledger
from hubbub.cli import screen
from hubbub.cli.errors import ReportingGroup
from hubbub.cli.options import combined, json_option
from hubbub.documents import spell
from hubbub.errors import check_whole
from hubbub.io.chains import FileAnchor
from hubbub.io.documents import read_plan
from hubbub.io.files import naming
from hubbub.io.ledgers import LedgerFile
from hubbub.model.plans import MAX_ROUNDS
from hubbub.model.privacy import Budget, Total
from hubbub.report.sentences import numbered

ANCHOR_HELP = "File for the number and hash of the last charge, outside the backups of FILE; default: FILE.anchor."
ROUNDS_HELP = "Number of rounds."
LOST_HELP = "A plan whose rounds may be missing; repeat it, and give --rounds for each."

ledger_argument = click.argument("file")
anchor_option = click.option("--anchor", metavar="FILE", help=ANCHOR_HELP)
charged_options = combined(
    click.option("--plan", "plan_path", required=True, metavar="FILE", help="Plan of the collection."),
    click.option("--rounds", type=int, default=1, show_default=True, help=ROUNDS_HELP),
)


@click.group(cls=ReportingGroup)
def ledger() -> None:
    """Keep the total of repeated collections in a file, within a budget.

    A ledger is a file to which lines are only added, each bound to those before it. Charge a collection before people
    are asked. Charges exit with code 3 beyond the budget, and 4 if lines are missing or were changed.

    \b
    Example: hubbub ledger create people.ledger --epsilon 2 --delta 1e-6
    """


@ledger.command()
@ledger_argument
@click.option("--epsilon", type=float, required=True, help="Largest ε of all collections together.")
@click.option("--delta", type=float, required=True, help="δ of the total.")
@anchor_option
@json_option
def create(file: str, epsilon: float, delta: float, anchor: str | None, as_json: bool) -> None:
    """Create the file of a new ledger with a budget."""
    budget = Budget(epsilon, delta)
    with naming(file):
        _show(_file(file, anchor).create(budget), as_json)


@ledger.command()
@ledger_argument
@anchor_option
@json_option
def show(file: str, anchor: str | None, as_json: bool) -> None:
    """Check a ledger and show its charges, its total and its budget."""
    with naming(file):
        _show(_file(file, anchor).read(), as_json)


@ledger.command()
@ledger_argument
@charged_options
@click.option("--collection", required=True, metavar="NAME", help="Name that this collection of the plan has once.")
@click.option("--again", is_flag=True, help="Accept that exactly this collection is charged already, after a retry.")
@anchor_option
@json_option
def charge(
    file: str, plan_path: str, rounds: int, collection: str, again: bool, anchor: str | None, as_json: bool
) -> None:
    """Charge a collection before people are asked.

    \b
    Example: hubbub ledger charge people.ledger --plan weekly.json --collection "week 7"
    """
    plan = read_plan(plan_path)
    with naming(file):
        _show(_file(file, anchor).charge(plan, collection=collection, rounds=rounds, again=again), as_json)


@ledger.command()
@ledger_argument
@charged_options
@anchor_option
@json_option
def forecast(file: str, plan_path: str, rounds: int, anchor: str | None, as_json: bool) -> None:
    """Show the total after more rounds of a plan, and the number of rounds that the budget allows."""
    plan = read_plan(plan_path)
    with naming(file):
        kept = _file(file, anchor).read()
    after, remaining = kept.forecast(plan, rounds), kept.remaining(plan)
    record = {"rounds": rounds, "total": after.to_document(), "remaining": remaining}
    beyond = ", beyond the budget" if remaining < rounds else ""
    rows = [("now", _figures(kept.total())), (f"after {rounds:,} more", _figures(after) + beyond)]
    rows += [("budget", _budget(kept)), ("remaining rounds", f"{remaining:,}")]
    screen.show(record, rows, as_json=as_json)


@ledger.command()
@ledger_argument
@click.option("--lost", "lost_paths", multiple=True, metavar="PLAN", help=LOST_HELP)
@click.option("--rounds", type=int, multiple=True, help="Number of rounds of the plan at the same place.")
@anchor_option
@json_option
def recover(file: str, lost_paths: tuple[str, ...], rounds: tuple[int, ...], anchor: str | None, as_json: bool) -> None:
    """Continue a ledger that was damaged or restored from a backup.

    Charges every round that may be missing from the file. Without --lost, an unknown collection is charged, after which
    no further one fits any budget. The damaged file is kept beside it.

    \b
    Example: hubbub ledger recover people.ledger --lost weekly.json --rounds 4
    """
    if len(lost_paths) != len(rounds):
        raise click.UsageError("--rounds must be given once for each --lost")
    for count in rounds:
        check_whole("rounds", count, 1, MAX_ROUNDS)
    lost = [(read_plan(path), count) for path, count in zip(lost_paths, rounds, strict=True)]
    with naming(file):
        _show(_file(file, anchor).recover(lost), as_json)


def _file(path: str, anchor: str | None) -> LedgerFile[Ledger]:
    return LedgerFile(path, Ledger, anchor=FileAnchor(Path(anchor)) if anchor else None)


def _show(kept: Ledger, as_json: bool) -> None:
    total = kept.total()
    charges = [{"name": one.name, "rounds": one.rounds} for one in kept.charges]
    budget = None if kept.budget is None else kept.budget.to_document()
    rows = []
    for one in kept.charges:
        plan, _, name = one.name.partition("/")
        rounds = numbered(one.rounds, "round")
        rows.append((name or "unnamed", f"{rounds}, plan {plan[:8]}…"))
    rows += [("total", _figures(total)), ("budget", _budget(kept))]
    screen.show({"budget": budget, "total": total.to_document(), "charges": charges}, rows, as_json=as_json)


def _figures(total: Total) -> str:
    epsilon = spell(total.epsilon)
    return f"({'∞' if epsilon == 'inf' else f'{total.epsilon:.4g}'}, {total.delta:.3g})-differential privacy"


def _budget(kept: Ledger) -> str:
    assert kept.budget is not None, "a ledger in a file has a budget"
    return _figures(Total(kept.budget.epsilon, kept.budget.delta))
