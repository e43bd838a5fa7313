"""``hubbub serve``: set up, run and administer the services."""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from hubbub.cli import admission as admissions
from hubbub.cli import screen
from hubbub.cli.errors import ReportingGroup
from hubbub.cli.options import WHOLE, combined, json_option, output_option, plan_option
from hubbub.io.documents import read_plan
from hubbub.io.files import naming, read_text, write_text
from hubbub.planner.recompute import verify
from hubbub.report.words import described_weight
from hubbub.service import provision
from hubbub.service.runtime.admin import COMMANDS, Command, command
from hubbub.service.runtime.certificates import request_fingerprint
from hubbub.service.runtime.settings import SHUFFLER_ROLES
from hubbub.service.task.contract import Contract, SignedContract, verify_series
from hubbub.service.task.identity import Identity

settings_argument = click.argument("settings", type=click.Path(exists=True, dir_okay=False, path_type=Path))
folder_argument = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
target_argument = click.argument("target", type=click.Path(exists=True, path_type=Path))
UNSAFE_HELP = "Allow batches too small to protect anyone. Never with people's data."
MIN_BATCH_SIZE_HELP = "People at which a bucket closes; default: 5 % of them may send unusable bundles."
ROUNDS_HELP = "Number of rounds; everyone answers once in each. Default: that of the plan."
TOTAL_HELP = "Largest ε that all rounds together may cost a person; default: what they cost."
TOTAL_DELTA_HELP = "δ of the total; default: that of the plan's total, or the sum of its δ over all rounds."
RELAY_HELP = "For strings: host name of the relay, which a third operator runs."
EVALUATIONS_HELP = "For strings: most evaluations an hour under one key; default: twice the plan's number of people."
SHUFFLER_ROLE_HELP = "Work that this process does; 'intake' and 'worker' need PostgreSQL. Default: as in the settings."
TIMES = {"created", "expires", "key_due"}
"""Entries that are times in seconds since 1970."""
DAY = 86_400
SOON = 30 * DAY
"""Time before the expiry of a certificate at which a warning is shown."""
unsafe_option = click.option("--unsafe-test", is_flag=True, help=UNSAFE_HELP)


@click.group(cls=ReportingGroup)
def serve() -> None:
    """Set up, run and administer a shuffler and an analyzer.

    "all" runs a whole system on this machine, to try it. In production, two operators each run "init" for one role,
    agree on a contract ("contract", "sign"), and run "shuffler" and "analyzer". Needs the extra 'serve'.

    \b
    Example: hubbub serve init here --plan plan.json
    """


contract_options = combined(
    click.option("--epoch", type=WHOLE, default=3600, help="Seconds between two releases."),
    click.option("--days", type=float, help="Days for which uploads are accepted; default: 30, or all rounds."),
    click.option("--rounds", type=WHOLE, help=ROUNDS_HELP),
    click.option("--round-epochs", type=WHOLE, help="Epochs per round; default: 1."),
    click.option("--total-epsilon", type=float, help=TOTAL_HELP),
    click.option("--total-delta", type=float, help=TOTAL_DELTA_HELP),
    click.option("--min-batch-size", type=WHOLE, help=MIN_BATCH_SIZE_HELP),
    click.option("--slots", type=WHOLE, help="Sealed messages per bundle; default: as few as the plan allows."),
    click.option("--relay", metavar="NAME", help=RELAY_HELP),
    click.option("--evaluations", type=WHOLE, help=EVALUATIONS_HELP),
    click.option("--per-client", type=WHOLE, help="For strings: most evaluations of one client under one key."),
    click.option("--suite", type=click.IntRange(1, 2), default=1, help="Cryptographic suite; 2 adds ML-KEM-768."),
    click.option("--export", is_flag=True, help="Let the analyzer keep the messages of counted batches in a folder."),
)
"""The options of a contract."""


@serve.command()
@folder_argument
@click.option("--role", type=click.Choice(["both", *provision.ROLES]), default="both", help="Role of the service.")
@click.option("--plan", "plan_path", metavar="FILE", help="With both roles: the plan of their contract.")
@click.option("--host", default="localhost", help="Host name of the analyzer's link.")
@unsafe_option
@admissions.admission_option
@contract_options
@json_option
def init(
    folder: Path,
    role: str,
    plan_path: str | None,
    host: str,
    unsafe_test: bool,
    admission: str,
    as_json: bool,
    **terms: Any,
) -> None:
    """Create the folder of one service or of both.

    A folder holds the service's identity, its key for the link and its settings. The shuffler's operator sends
    "link.csr" to the analyzer's operator, who certifies it ("certify").

    \b
    Example: hubbub serve init here --plan plan.json
    """
    if (role == "both") != (plan_path is not None):
        raise click.UsageError("--plan must be given with --role both, and only then")
    if role != "both":
        public = provision.provision_role(folder, "analyzer" if role == "analyzer" else "shuffler", host=host)
        created = {"folder": str(folder), "role": role, "identity": public.hex()}
        if role == "shuffler":
            request = folder / "link.csr"
            created |= {"request": str(request), "fingerprint": request_fingerprint(request.read_bytes())}
    else:
        terms["admission"] = admissions.admission_terms(admission)
        contract = provision.provision_all(folder, read_plan(str(plan_path)), terms, test=unsafe_test)
        created = {"folder": str(folder), "contract": str(folder / provision.CONTRACT), "task": contract.id}
        _note_first_round(contract)
    _show(created, as_json)


@serve.command()
@folder_argument
@click.argument("request", required=False)
@click.option("--days", type=click.IntRange(1, 3650), default=825, help="Days for which the certificate is valid.")
@json_option
def certify(folder: Path, request: str | None, days: int, as_json: bool) -> None:
    """Certify the shuffler's request, or renew the analyzer's own certificate.

    FOLDER is the analyzer's. REQUEST is the shuffler's file "link.csr"; compare the printed fingerprint with the one
    that "init" printed for the shuffler. The files in the subfolder "for-shuffler", none of which is secret, go to the
    shuffler's operator, who copies them into the shuffler's folder. Without REQUEST, the certificate of the analyzer's
    link is renewed. A service uses a new certificate after it restarts.

    \b
    Example: hubbub serve certify /var/lib/hubbub-analyzer link.csr
    """
    if request is None:
        _show({"renewed": str(provision.renew_link(folder, days=days)), "days": str(days)}, as_json)
        return
    with naming(request):
        text = read_text(request)
        fingerprint = request_fingerprint(text)
    passed = provision.certify(folder, text, days=days)
    _show({"files": str(passed), "fingerprint": fingerprint, "days": str(days)}, as_json)


@serve.command()
@plan_option
@click.option("--analyzer", required=True, metavar="HEX", help="Public identity of the analyzer's operator.")
@click.option("--shuffler", required=True, metavar="HEX", help="Public identity of the shuffler's operator.")
@output_option("File for the contract, which both operators then sign", required=True)
@admissions.admission_option
@admissions.issuer_name_option
@admissions.token_key_option
@contract_options
def contract(
    plan_path: str,
    analyzer: str,
    shuffler: str,
    output: str,
    admission: str,
    issuer: str,
    token_key_path: str | None,
    **terms: Any,
) -> None:
    """Draft a contract between two operators."""
    terms["admission"] = admissions.admission_terms(admission, issuer, token_key_path)
    one, two = _identity("--analyzer", analyzer), _identity("--shuffler", shuffler)
    draft = provision.draft_contract(read_plan(plan_path), analyzer=one, shuffler=two, **terms)
    write_text(output, SignedContract(draft, {}).to_json().decode() + "\n")
    _note_terms(draft)


@serve.command()
@click.argument("contract_path", metavar="CONTRACT")
@click.option("--identity", "identity_path", required=True, metavar="FILE", help="The operator's signing key.")
@output_option("File for the signed contract", required=True)
def sign(contract_path: str, identity_path: str, output: str) -> None:
    """Sign a contract after recomputing its claims; prints what is signed."""
    with naming(contract_path):
        signed = SignedContract.from_json(read_text(contract_path))
    with screen.waiting("recomputing the plan's claims"):
        verify(signed.contract.plan)
        verify_series(signed.contract)
    signed = signed.countersign(Identity.load(identity_path))
    write_text(output, signed.to_json().decode() + "\n")
    _note_terms(signed.contract)
    screen.note(f"signed by {' and '.join(sorted(signed.signatures))}")


@serve.command()
@settings_argument
@click.option("--role", type=click.Choice(SHUFFLER_ROLES), help=SHUFFLER_ROLE_HELP)
@unsafe_option
def shuffler(settings: Path, role: str | None, unsafe_test: bool) -> None:
    """Run the shuffler of a settings file until SIGTERM or Ctrl-C.

    With PostgreSQL, any number of processes with the roles "intake" and "worker" share one store and one
    credential folder; each has its own service folder.

    \b
    Example: hubbub serve shuffler /var/lib/hubbub-intake-1/settings.toml --role intake
    """
    changes: dict[str, object] = {"unsafe_test": True} if unsafe_test else {}
    provision.run_role("shuffler", settings, changes | ({"role": role} if role else {}))


@serve.command()
@settings_argument
@unsafe_option
def analyzer(settings: Path, unsafe_test: bool) -> None:
    """Run the analyzer of a settings file until SIGTERM or Ctrl-C."""
    provision.run_role("analyzer", settings, {"unsafe_test": True} if unsafe_test else None)


@serve.command("all")
@folder_argument
@click.option("--plan", "plan_path", metavar="FILE", help="The plan; required if the folder is new.")
@unsafe_option
@admissions.admission_option
@contract_options
@json_option
def all_(folder: Path, plan_path: str | None, unsafe_test: bool, admission: str, as_json: bool, **terms: Any) -> None:
    """Run a whole system on this machine, to try it.

    Starts both services, with a contract between them, and restarts a service that exits. Not for people's data: the
    owner of this machine controls both services.
    """
    if not (folder / provision.CONTRACT).exists():
        if plan_path is None:
            raise click.UsageError("--plan must be given for a new folder")
        terms["admission"] = admissions.admission_terms(admission)
        plan = read_plan(plan_path)
        if plan.protocol.sends_strings and terms["relay"] is None:
            # On one machine, everything has one operator.
            terms["relay"] = "localhost"
        provision.provision_all(folder, plan, terms, test=unsafe_test)
    agreed = SignedContract.from_json((folder / provision.CONTRACT).read_text()).contract
    # SIGTERM unwinds the stack as Ctrl-C does, which stops both services.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as stack:
        roles = provision.ROLES if agreed.strings is None else (*provision.ROLES, provision.RELAY)
        running = {role: stack.enter_context(provision.serve_role(folder, role)) for role in roles}
        uploads = running["shuffler"].addresses["uploads"]
        system = {
            "task": agreed.id,
            "contract": str(folder / provision.CONTRACT),
            "uploads": uploads if agreed.strings is None else running[provision.RELAY].addresses["requests"],
            "results": running["analyzer"].addresses["results"],
            "token": provision.reader_token(folder, running["analyzer"]),
        }
        if agreed.admission.kind == "ticket":
            system["ticket_key"] = str(provision.ticket_key_path(folder))
        _show(system, as_json)
        screen.note(
            f"a batch needs {agreed.min_batch_size:,} people and is released at the end of an epoch of {agreed.epoch} s"
        )
        _note_first_round(agreed)
        while True:
            for role, service in running.items():
                if service.process.poll() is not None:
                    screen.note(f"the {role} exited with status {service.process.returncode}; restarting it")
                    running[role] = stack.enter_context(provision.serve_role(folder, role))
            threading.Event().wait(0.2)


@serve.command()
@target_argument
@json_option
def status(target: Path, as_json: bool) -> None:
    """Show the state of a running service: counts of every task, keys, certificates, and warnings.

    TARGET is the service's folder, its settings file or its admin socket.

    \b
    Example: hubbub serve status here/shuffler
    """
    _show(command(target, "status"), as_json)


serve.add_command(admissions.ticket)
serve.add_command(admissions.key)
serve.add_command(admissions.evaluation_key)
serve.add_command(admissions.issuer)


@serve.command()
@settings_argument
def relay(settings: Path) -> None:
    """Run the relay of a settings file until SIGTERM or Ctrl-C.

    A collection of strings needs a relay, because equal strings have equal bytes: a shuffler that also sees addresses
    learns who sent equal strings. The relay passes requests on without addresses and without any header of the client,
    and stores nothing. Its operator is neither that of the shuffler nor that of the analyzer.

    \b
    Example: hubbub serve relay /var/lib/hubbub-relay/settings.toml
    """
    provision.run_role(provision.RELAY, settings)


@serve.group()
@target_argument
@click.pass_context
def admin(context: click.Context, target: Path) -> None:
    """Send a command to a running service.

    TARGET is the service's folder, its settings file or its admin socket.

    \b
    Example: hubbub serve admin here/shuffler status
    """
    context.obj = target


def _admin_command(one: Command) -> click.Command:
    """Return the subcommand of an admin command."""

    required = [parameter for parameter in one.parameters if parameter.default is None]
    options = [parameter for parameter in one.parameters if parameter.default is not None]

    @click.pass_obj
    def run(target: Path, /, as_json: bool, **given: str) -> None:
        values = [given.pop(parameter.name) for parameter in required]
        _show(command(target, one.name, *values, options=given), as_json)

    wrapped: Any = run
    for parameter in reversed(required):
        wrapped = click.argument(parameter.name)(wrapped)
    for parameter in options:
        text = f"{parameter.help[0].upper()}{parameter.help[1:]}."
        wrapped = click.option(f"--{parameter.name}", default=parameter.default, metavar="DAYS", help=text)(wrapped)
    about = one.help if len(one.roles) > 1 else f"{one.help} Only at the {one.roles[0]}."
    about += "".join(f"\n\n{parameter.name.upper()}: {parameter.help}." for parameter in required)
    return click.command(one.name, help=about)(json_option(wrapped))


for _one in COMMANDS.values():
    admin.add_command(_admin_command(_one))


def _note_terms(agreed: Contract) -> None:
    """Print the terms that an operator should compare before signing."""
    guarantee, admitted = agreed.plan.guarantee, agreed.admission
    screen.note(f"task {agreed.id}: bundles of {agreed.bundle_size} bytes")
    screen.note(
        f"a bucket closes at {agreed.min_batch_size:,} people, its guarantee needs {agreed.needed:,}: "
        f"{agreed.reserve:,} unusable bundles cost no result, more may"
    )
    if agreed.series is not None:
        spent, total = agreed.spending(agreed.rounds).epsilon, agreed.total
        screen.note(f"{total.rounds:,} rounds cost ε = {spent:.4g} of {total.epsilon:.4g} at δ = {total.delta:.3g}")
    once = " per round" if agreed.series is not None else ""
    screen.note(f"plan {agreed.plan.id}: ε = {guarantee.epsilon:.4g}, δ = {guarantee.delta:.3g}{once}")
    screen.note(f"needed: {guarantee.assumptions.needs}")
    screen.note(f"one device: {described_weight(agreed.plan, agreed.slots)}")
    issued = "" if admitted.kind == "open" else f" of {admitted.issuer}"
    screen.note(
        f"admission: {admitted.kind}{issued}; a release every {agreed.epoch:,} s, "
        f"from {_utc(agreed.task_start * agreed.epoch)} to {_utc(agreed.task_end * agreed.epoch)}"
    )
    if agreed.strings is not None and admitted.kind == "open":
        screen.note(
            f"warning: with open admission, a few devices can use up the {agreed.strings.evaluations:,} evaluations of "
            "every hour, and others wait; admit by ticket or token, or keep the relay's rate limit"
        )
    if agreed.export:
        screen.note("export: the analyzer keeps the shuffled messages of every counted batch in a folder")
    _note_first_round(agreed)


def _note_first_round(agreed: Contract) -> None:
    """Say when the first round of a series ends: it is under way, because epochs are fixed by the clock."""
    if agreed.series is not None:
        end = (agreed.task_start + agreed.series.round_epochs) * agreed.epoch
        screen.note(f"round 1 ends at {_utc(end)}")


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        screen.print_json(answer)
    elif answer:
        for part in described(answer):
            screen.console().print(part)
    else:
        screen.note("done")


def described(answer: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield what to print for the answer of a service: warnings first, then facts, then tables."""
    now = time.time()
    for text in warnings(answer, now):
        yield f"[red]{screen.plain(text)}[/]"
    plain = {name: value for name, value in answer.items() if not isinstance(value, dict | list)}
    if plain:
        yield screen.facts((name.replace("_", " "), _text(name, value, now)) for name, value in plain.items())
    for name, value in answer.items():
        if isinstance(value, dict):
            yield _table(name, [{name.rstrip("s"): key, **_entries(row)} for key, row in sorted(value.items())], now)
        elif isinstance(value, list):
            yield _table(name, [_entries(row) for row in value], now)


def warnings(answer: dict[str, Any], now: float) -> list[str]:
    """Return sentences about what an operator must do.

    >>> warnings({"good": False, "certificates": [{"file": "link_certificate", "expires": 1000}]}, now=2000.0)
    ['A bundle is lost or counted twice: stop the service and see the run book.', 'The link certificate has expired.']
    """
    found = []
    if answer.get("good") is False:
        found.append("A bundle is lost or counted twice: stop the service and see the run book.")
    for one in answer.get("certificates") or ():
        name, left = str(one["file"]).replace("_", " "), one["expires"] - now
        if left <= 0:
            found.append(f"The {name} has expired.")
        elif left < SOON:
            found.append(f"The {name} expires in {left / DAY:.0f} days: renew it.")
    if isinstance(answer.get("key_due"), int) and now - answer["key_due"] > DAY:
        found.append("The encryption key should have been replaced more than a day ago.")
    return found


def _entries(row: object) -> dict[str, Any]:
    return row if isinstance(row, dict) else {"": row}


def _table(name: str, rows: list[dict[str, Any]], now: float) -> RenderableType:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_text(column, row.get(column, ""), now) for column in columns] for row in rows]
    return screen.grid(name, columns, cells) if rows else f"{name}: none"


def _text(name: str, value: object, now: float) -> str:
    if name in TIMES and isinstance(value, int):
        return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(value))} UTC ({round((value - now) / DAY):+d} days)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _identity(option: str, text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise click.UsageError(f"{option} must be a public identity of 64 hexadecimal digits")
    return found
