"""``serve``: the services, from their first folder to their last command."""

import contextlib
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.options import json_option, output_option, plan_option
from hubbub.io.documents import read_plan
from hubbub.io.files import read_text, write_text
from hubbub.service.provision import CONTRACT, Role, draw_up, found, provision_all, run_role, serve_role
from hubbub.service.runtime.admin_client import COMMANDS, command
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity

settings_argument = click.argument("settings", type=click.Path(exists=True, dir_okay=False, path_type=Path))
folder_argument = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
unsafe_option = click.option(
    "--unsafe-test", is_flag=True, help="Serve crowds too small to hide in. Never with people's data."
)


@click.group()
def serve() -> None:
    """Run a shuffler and an analyzer as services, or set them up.

    "all" runs a whole system on this machine, for trying out. In earnest, two operators run "init" for one role each,
    agree on a contract ("contract", "sign"), and run "shuffler" and "analyzer". Needs the extra 'serve'.

    \b
    Example: hubbub serve init here --plan plan.json
    """


def terms(function: Any) -> Any:
    """The options of a contract."""
    for option in (
        click.option("--suite", type=click.IntRange(1, 2), default=1, show_default=True, help="2 adds ML-KEM-768."),
        click.option("--slots", type=int, help="Sealed messages of a bundle; else as few as suffice."),
        click.option("--least", type=int, help="Fewest people in a batch; else 5 % more than the plan needs."),
        click.option("--days", type=float, default=30.0, show_default=True, help="For which it is open."),
        click.option("--epoch", type=int, default=3600, show_default=True, help="Seconds between two releases."),
    ):
        function = option(function)
    return function


@serve.command()
@folder_argument
@click.option(
    "--role",
    type=click.Choice(["both", "analyzer", "shuffler"]),
    default="both",
    show_default=True,
    help="Whose folder to make.",
)
@click.option("--plan", "plan_path", metavar="FILE", help="With both roles: the plan of their contract.")
@click.option("--host", default="localhost", show_default=True, help="The analyzer's name on the link.")
@unsafe_option
@terms
@json_option
def init(
    folder: Path, role: str, plan_path: str | None, host: str, unsafe_test: bool, as_json: bool, **given: Any
) -> None:
    """Make the folder of a service, or of both: identity, certificates of the link, settings.

    The analyzer's "for-shuffler" goes to the operator of the shuffler, whose folder it belongs into.

    \b
    Example: hubbub serve init here --plan plan.json
    """
    if (role == "both") != (plan_path is not None):
        raise click.UsageError("--plan is for both roles together, and needed there")
    if role != "both":
        public = found(folder, "analyzer" if role == "analyzer" else "shuffler", host=host)
        told = {"folder": str(folder), "role": role, "identity": public.hex()}
    else:
        contract = provision_all(folder, read_plan(str(plan_path)), given, test=unsafe_test)
        told = {"folder": str(folder), "contract": str(folder / CONTRACT), "task": contract.id}
    screen.print_json(told) if as_json else screen.console().print(screen.facts(told.items()))


@serve.command()
@plan_option
@click.option("--analyzer", required=True, metavar="HEX", help="Public identity of the analyzer's operator.")
@click.option("--shuffler", required=True, metavar="HEX", help="Public identity of the shuffler's operator.")
@output_option("Where the contract goes, for both to sign", required=True)
@terms
def contract(plan_path: str, analyzer: str, shuffler: str, output: str, **given: Any) -> None:
    """Draw up a contract for two operators."""
    drawn = draw_up(read_plan(plan_path), analyzer=_identity(analyzer), shuffler=_identity(shuffler), **given)
    write_text(output, SignedContract(drawn, {}).to_json().decode() + "\n")
    screen.note(
        f"task {drawn.id}: bundles of {drawn.bundle_size} bytes, batches of at least {drawn.min_batch_size:,} people"
    )


@serve.command()
@click.argument("contract_path", metavar="CONTRACT")
@click.option("--identity", "identity_path", required=True, metavar="FILE", help="The operator's signing key.")
@output_option("Where the signed contract goes", required=True)
def sign(contract_path: str, identity_path: str, output: str) -> None:
    """Sign a contract as one of its operators, after everything it claims was recomputed."""
    signed = SignedContract.from_json(read_text(contract_path))
    with screen.waiting("recomputing what the plan claims"):
        _verify(signed.contract)
    signed = signed.countersign(Identity.load(identity_path))
    write_text(output, signed.to_json().decode() + "\n")
    screen.note(f"signed by {' and '.join(sorted(signed.signatures))}")


@serve.command()
@settings_argument
@unsafe_option
def shuffler(settings: Path, unsafe_test: bool) -> None:
    """Run the shuffler of a file of settings, until SIGTERM or Ctrl-C."""
    run_role("shuffler", settings, {"unsafe_test": True} if unsafe_test else None)


@serve.command()
@settings_argument
@unsafe_option
def analyzer(settings: Path, unsafe_test: bool) -> None:
    """Run the analyzer of a file of settings, until SIGTERM or Ctrl-C."""
    run_role("analyzer", settings, {"unsafe_test": True} if unsafe_test else None)


@serve.command("all")
@folder_argument
@click.option("--plan", "plan_path", metavar="FILE", help="The plan, if the folder is new.")
@unsafe_option
@terms
@json_option
def all_(folder: Path, plan_path: str | None, unsafe_test: bool, as_json: bool, **given: Any) -> None:
    """Run a whole system on this machine, for trying out: both services, and a contract between them.

    It is not for people's data: who owns this machine owns both services.
    """
    if not (folder / CONTRACT).exists():
        if plan_path is None:
            raise click.UsageError("a new folder needs --plan")
        provision_all(folder, read_plan(plan_path), given, test=unsafe_test)
    agreed = SignedContract.from_json((folder / CONTRACT).read_text()).contract
    # SIGTERM must unwind as Ctrl-C does: both services are stopped then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as stack:
        roles: tuple[Role, ...] = ("analyzer", "shuffler")
        running = {role: stack.enter_context(serve_role(folder, role)) for role in roles}
        told = {
            "task": agreed.id,
            "contract": str(folder / CONTRACT),
            "uploads": running["shuffler"].places["uploads"],
            "results": running["analyzer"].places["results"],
            "token": command(running["analyzer"].socket, "token", "read:*")["token"],
        }
        screen.print_json(told) if as_json else screen.console().print(screen.facts(told.items()))
        screen.note(
            f"a batch needs {agreed.min_batch_size:,} people, and is released at the end of an epoch of {agreed.epoch} s"
        )
        while True:
            for role, service in running.items():
                if service.process.poll() is not None:
                    screen.note(f"the {role} ended (status {service.process.returncode}); it is started again")
                    running[role] = stack.enter_context(serve_role(folder, role))
            threading.Event().wait(0.2)


@serve.command()
@click.argument("socket", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("name", metavar="COMMAND", type=click.Choice(list(COMMANDS)))
@click.argument("value", default="")
@json_option
def admin(socket: Path, name: str, value: str, as_json: bool) -> None:
    """Give a command to a running service, through its socket.

    \b
    Commands: status, check, rotate, drain, add CONTRACT, close TASK, destroy TASK, backup PATH, token SCOPE,
    revoke TOKEN.
    """
    answer = command(socket, name, value)
    if as_json or not answer:
        screen.print_json(answer) if as_json else screen.note("done")
        return
    screen.console().print(screen.facts((key, str(entry)) for key, entry in answer.items()))


def _identity(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise click.UsageError("an identity is 64 hexadecimal digits") from None


def _verify(drawn: Contract) -> None:
    from hubbub.planner.recompute import verify  # noqa: PLC0415

    verify(drawn.plan)
