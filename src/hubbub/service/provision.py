"""Set up services: identities, certificates of the link, settings and a contract; start them as processes."""

import contextlib
import json
import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import httpx

from hubbub.accountant.overflow import min_slots
from hubbub.errors import CommandFailure, HubbubError, Interval, InvalidInput, check_choice, check_real, check_whole
from hubbub.model.plans import Plan
from hubbub.model.privacy import BUDGET_DELTA, Budget
from hubbub.service.runtime.admin import SETTINGS, command
from hubbub.service.runtime.certificates import Authority, Request
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.credentials import read_secret, write_file
from hubbub.service.runtime.process import ADDRESSES, run
from hubbub.service.runtime.settings import (
    AnalyzerConfig,
    IssuerConfig,
    RelayConfig,
    ShufflerConfig,
    read_config,
    settings_file,
)
from hubbub.service.task.admission import KEY_SUFFIX, Admission, TicketKey
from hubbub.service.task.contract import MAX_SERIES, MIN_BATCH_SIZE, Contract, Series, SignedContract, verify_series
from hubbub.service.task.identity import Identity
from hubbub.service.task.strings import PER_CLIENT, StringTerms, default_group

Role = Literal["analyzer", "shuffler", "relay"]
ROLES: tuple[Role, ...] = ("analyzer", "shuffler")
ISSUER = "issuer"
"""The role that only contracts with admission by token need."""
RELAY: Role = "relay"
"""The role that only contracts for strings need."""

CONTRACT = "contract.json"
"""Name of the contract in the folder of a whole system."""
TOKEN = "token"
"""Name of the reader's bearer token in the folder of a whole system."""
LAKE = "lake"
"""Name of the folder of exported batches in the analyzer's folder of a whole system."""
TICKETS = "tickets"
"""Name of the folder of ticket keys in the shuffler's folder."""
TICKET_ISSUER = "shuffler"
"""Issuer name of the ticket key that the shuffler's operator gets."""
BY_TICKET = Admission("ticket", TICKET_ISSUER)
"""The default admission: by tickets of the shuffler's operator."""
EVALUATIONS_PER_PERSON = 2
"""Evaluations of an hour under one key by default, for each of the plan's people: all may come at once, and again."""
MAX_TOTAL = 1e6
"""Largest total ε of a series."""
_TOKEN_NAME = "serve-all"
STOP_SECONDS = 6.0
"""Time after which a service that was told to stop is killed."""


SPOILED = 5
"""Per cent of the clients of a batch that may spoil their slots, by default, without costing the others the result."""


def draft_contract(
    plan: Plan,
    *,
    analyzer: bytes,
    shuffler: bytes,
    epoch: int = 3600,
    days: float | None = None,
    min_batch_size: int | None = None,
    slots: int | None = None,
    suite: int = 1,
    admission: Admission = BY_TICKET,
    rounds: int | None = None,
    round_epochs: int | None = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    export: bool = False,
    relay: str | None = None,
    evaluations: int | None = None,
    per_client: int | None = None,
    clock: Clock | None = None,
) -> Contract:
    """Return a contract that starts now, by default with the fewest slots, and a reserve of clients.

    Rounds and total are by default those of the plan. With a single round, everyone answers once in ``days``, by
    default 30; with several, once in each round of ``round_epochs`` epochs. For another number of rounds than the
    plan's, the total is by default what all rounds cost at the sum of their δ.

    A plan for strings needs the host name of its ``relay``, and has caps of evaluations: by default two an hour for
    each of the plan's people under one key, and a few for each client.
    """
    strings = _string_terms(plan, relay, evaluations, per_client)
    if rounds is None and plan.rounds > 1:
        rounds = plan.rounds
        total_delta = plan.total.delta if total_delta is None else total_delta
    check_whole("epoch", epoch, 1)
    now = int((clock or SystemClock()).now() // epoch)
    series = None
    if rounds is None:
        if (round_epochs, total_epsilon, total_delta) != (None, None, None):
            raise InvalidInput("round_epochs, total_epsilon and total_delta must not be given without rounds")
        length = check_real("days", 30.0 if days is None else days, Interval(0, 36_500, open_low=True))
        epochs = 1 + int(length * 86_400 / epoch)
    elif days is not None:
        raise InvalidInput("days must not be given together with rounds: a series lasts as long as all its rounds")
    else:
        check_whole("rounds", rounds, 1, MAX_SERIES)
        summed = min(rounds * plan.guarantee.delta, 0.5)
        delta = check_real("total_delta", summed if total_delta is None else total_delta, BUDGET_DELTA)
        # Without a given ε, the total is what the rounds cost.
        most = Interval(0, MAX_TOTAL)
        epsilon = check_real("total_epsilon", MAX_TOTAL if total_epsilon is None else total_epsilon, most)
        series = Series(rounds, 1 if round_epochs is None else round_epochs, Budget(epsilon, delta))
        epochs = series.epochs
    contract = Contract(
        plan=plan,
        min_batch_size=closing_size(plan) if min_batch_size is None else min_batch_size,
        slots=min_slots(plan) if slots is None else slots,
        epoch=epoch,
        task_start=now,
        task_end=now + epochs,
        suite=suite,
        admission=admission,
        analyzer=analyzer,
        shuffler=shuffler,
        series=series,
        export=export,
        strings=strings,
    )
    verify_series(contract)
    if series is None or total_epsilon is not None:
        return contract
    spent = contract.spending(series.rounds).epsilon
    return replace(contract, series=replace(series, total=Budget(_round_up(spent), series.total.delta)))


def _string_terms(plan: Plan, relay: str | None, evaluations: int | None, per_client: int | None) -> StringTerms | None:
    if not plan.protocol.sends_strings:
        if (relay, evaluations, per_client) != (None, None, None):
            raise InvalidInput("relay, evaluations and per_client must not be given without a plan for strings")
        return None
    if relay is None:
        raise InvalidInput("a plan for strings needs a relay, run by a third operator: give its host name (--relay)")
    return StringTerms(
        group=default_group(),
        relay=relay,
        evaluations=EVALUATIONS_PER_PERSON * plan.n if evaluations is None else evaluations,
        per_client=PER_CLIENT if per_client is None else per_client,
    )


def _round_up(epsilon: float) -> float:
    """Return an ε rounded up to four digits, so that a machine that rounds differently confirms it."""
    if epsilon == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return float(f"{math.ceil(epsilon / unit * (1 + 1e-9)) * unit:.4g}")


def closing_size(plan: Plan) -> int:
    """Return the number of clients at which a bucket closes by default: ⌈h/0.95⌉, at least the plan's n and 100.

    h are the people that the certificate needs. 5 % of the clients of a batch may therefore spoil their slots; a batch
    of exactly h would be withheld because of a single one.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> closing_size(plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6))
    1053
    """
    needed = plan.guarantee.assumptions.honest
    return max(MIN_BATCH_SIZE, plan.n, -(-needed * 100 // (100 - SPOILED)))


def provision_role(
    folder: Path, role: Role, entries: Mapping[str, object] | None = None, *, host: str = "localhost"
) -> bytes:
    """Create the folder of one service, with its identity, link key and settings, and return the public identity.

    The analyzer's folder also holds the certificate authority of the link. The shuffler's folder holds ``link.csr``,
    the request that the analyzer's operator certifies with :func:`certify`; no private key ever leaves its folder.
    It also holds a key for tickets.
    """
    identity = Identity.generate()
    authority = Authority.generate()
    server = authority.issue("server", [host])
    # Everything that can fail has been done: a folder is never left half written.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity.save(folder / "identity")
    if role == "analyzer":
        authority.save(folder)
        server.save(folder, "link")
    else:
        Request.generate().save(folder, "link")
        (folder / TICKETS).mkdir(mode=0o700)
        TicketKey.generate().save(folder / TICKETS / f"{TICKET_ISSUER}{KEY_SUFFIX}")
    given = {"analyzer": f"https://{host}:8500"} if role == "shuffler" else {}
    if role == "analyzer" and host == "localhost":
        given["link"] = "127.0.0.1:8500"
    write_file(folder / SETTINGS, settings_file(role, given | dict(entries or {})).encode())
    return identity.public


def certify(folder: Path, request: bytes, *, days: int = 825) -> Path:
    """Certify the shuffler's request with the authority in the analyzer's folder, and return the folder of the result.

    The subfolder ``for-shuffler`` then holds the shuffler's certificate and that of the authority, both public.
    """
    authority = Authority.load(folder)
    certificate = authority.certify(request, ["shuffler"], days=days)
    result = folder / "for-shuffler"
    result.mkdir(mode=0o700, exist_ok=True)
    write_file(result / "link.pem", certificate, replace=True)
    write_file(result / "authority.pem", authority.certificate, replace=True)
    return result


def renew_link(folder: Path, *, days: int = 825) -> Path:
    """Renew the certificate of the analyzer's link, for the same key and names, and return its file."""
    path = folder / "link.pem"
    write_file(path, Authority.load(folder).renew(path.read_bytes(), days=days), replace=True)
    return path


def provision_all(folder: Path, plan: Plan, terms: Mapping[str, Any] | None = None, *, test: bool = False) -> Contract:
    """Create both services on one machine and a contract of these terms signed by both: not for people's data."""
    # Invalid terms are rejected before anything is written.
    draft = draft_contract(plan, analyzer=bytes(32), shuffler=bytes([1] * 32), **(terms or {}))
    link = free_port()
    common = {"contracts": [f"../{CONTRACT}"], "operations": "127.0.0.1:0", "unsafe_test": test}
    analyzer, shuffler = folder / "analyzer", folder / "shuffler"
    places = {"link": f"127.0.0.1:{link}", "read": f"127.0.0.1:{free_port()}"}
    if draft.strings is not None:
        places["evaluate"] = f"127.0.0.1:{free_port()}"
    if draft.export:
        places["lake"] = LAKE
    provision_role(analyzer, "analyzer", {**places, **common})
    address = f"https://127.0.0.1:{link}"
    uploads = f"127.0.0.1:{free_port()}"
    provision_role(shuffler, "shuffler", {"listen": uploads, "analyzer": address, **common})
    if draft.strings is not None:
        _provision_relay(folder, uploads, places["evaluate"])
    passed = certify(analyzer, (shuffler / "link.csr").read_bytes())
    for name in ("link.pem", "authority.pem"):
        write_file(shuffler / name, (passed / name).read_bytes())
    both = [Identity.load(one / "identity") for one in (analyzer, shuffler)]
    contract = draft_contract(plan, analyzer=both[0].public, shuffler=both[1].public, **(terms or {}))
    write_file(folder / CONTRACT, SignedContract.sign(contract, *both).to_json())
    return contract


def _provision_relay(folder: Path, uploads: str, evaluate: str) -> None:
    """Create the relay's folder, and give the analyzer the key with which it verifies tickets for evaluations."""
    relay, name = folder / RELAY, f"{TICKET_ISSUER}{KEY_SUFFIX}"
    relay.mkdir(mode=0o700)
    entries = {"listen": f"127.0.0.1:{free_port()}", "operations": "127.0.0.1:0"}
    urls = {"shuffler": f"http://{uploads}", "analyzer": f"http://{evaluate}"}
    write_file(relay / SETTINGS, settings_file(RELAY, {**urls, **entries}).encode())
    (folder / "analyzer" / TICKETS).mkdir(mode=0o700)
    TicketKey.load(ticket_key_path(folder)).evaluation().save(folder / "analyzer" / TICKETS / name)


def ticket_key_path(folder: Path) -> Path:
    """Return the path of the ticket key in a folder of :func:`provision_all`."""
    return folder / "shuffler" / TICKETS / f"{TICKET_ISSUER}{KEY_SUFFIX}"


def free_port() -> int:
    """Return a TCP port of this machine that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_role(
    role: str, settings: Path, changes: Mapping[str, object] | None = None, *, parent_pipe: bool = False
) -> None:
    """Run the service of a settings file until SIGTERM or SIGINT; ``changes`` override entries of the file."""
    check_choice("role", role, (*ROLES, ISSUER, RELAY))
    # Each role imports only its own modules: the shuffler starts without the mathematics.
    if role == "shuffler":
        from hubbub.service.shuffler.app import ShufflerProgram  # noqa: PLC0415

        run(lambda: ShufflerProgram(read_config(settings, ShufflerConfig, changes)), parent_pipe=parent_pipe)
    elif role == ISSUER:
        from hubbub.service.issuer import IssuerProgram  # noqa: PLC0415

        run(lambda: IssuerProgram(read_config(settings, IssuerConfig, changes)), parent_pipe=parent_pipe)
    elif role == RELAY:
        from hubbub.service.relay import RelayProgram  # noqa: PLC0415

        run(lambda: RelayProgram(read_config(settings, RelayConfig, changes)), parent_pipe=parent_pipe)
    else:
        from hubbub.service.analyzer.app import AnalyzerProgram  # noqa: PLC0415

        run(lambda: AnalyzerProgram(read_config(settings, AnalyzerConfig, changes)), parent_pipe=parent_pipe)


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service running as a child process, and its addresses by the names of its listeners."""

    process: "subprocess.Popen[bytes]"
    addresses: Mapping[str, str]

    @property
    def socket(self) -> Path:
        """The admin socket."""
        return Path(self.addresses["admin"].removeprefix("unix:"))


def start_process(folder: Path, role: Role, **options: Any) -> "subprocess.Popen[bytes]":
    """Start a service of a folder of :func:`provision_all`; it stops when this process ends, however it ends."""
    (folder / role / ADDRESSES).unlink(missing_ok=True)
    arguments = [sys.executable, "-m", "hubbub.service", role, str(folder / role / SETTINGS), "--stop-with-parent"]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, **options)


def wait_for_addresses(
    folder: Path, role: str, process: "subprocess.Popen[bytes]", *, seconds: float = 60.0
) -> dict[str, str]:
    """Wait until a service is listening and return its addresses; raise if it exits or takes too long."""
    path = folder / role / ADDRESSES
    end = time.monotonic() + seconds
    while not path.exists():
        if process.poll() is not None or time.monotonic() > end:
            reason = "did not start in time" if process.returncode is None else f"exited ({process.returncode})"
            raise HubbubError(f"the {role} {reason}; its messages are above, or in its log")
        time.sleep(0.02)
    addresses: dict[str, str] = json.loads(path.read_text())
    return addresses


@contextlib.contextmanager
def serve_role(folder: Path, role: Role) -> Iterator[RunningService]:
    """Start one service of a folder of :func:`provision_all` as a child process, and stop it at the end."""
    with start_process(folder, role) as process:
        try:
            yield RunningService(process, wait_for_addresses(folder, role, process))
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def reader_token(folder: Path, analyzer: RunningService) -> str:
    """Return a bearer token that reads all results: the one stored in the folder if it is valid, else a new one."""
    path = folder / TOKEN
    if path.exists():
        token = read_secret(path).decode()
        headers = {"authorization": f"Bearer {token}"}
        if httpx.get(analyzer.addresses["results"] + "/v1/tasks", headers=headers, trust_env=False).status_code == 200:
            return token
    with contextlib.suppress(CommandFailure):
        command(analyzer.socket, "revoke", _TOKEN_NAME)
    token = str(command(analyzer.socket, "token", _TOKEN_NAME, "read:*")["token"])
    write_file(path, token.encode(), replace=True)
    return token
