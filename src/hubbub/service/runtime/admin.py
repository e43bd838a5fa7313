"""Administrative commands: one table, from which the routes of the socket, the client and the command line are derived.

Each service listens for commands on a Unix socket. Requests are not authenticated: access is controlled by the socket's
permissions (mode 0600). The handler of a command is the method of the same name on the service's command object.
"""

import asyncio
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import httpx
from starlette.requests import Request
from starlette.responses import Response

from hubbub.documents import Fields, Json, canonical, parse
from hubbub.errors import CommandFailure, CommandRefused, Problem, WireError, check_choice, reject
from hubbub.service.runtime.http import App, Endpoint, body_of, hex_id, routed

LARGEST_CONTRACT = 16 << 20
"""Largest signed contract, in bytes."""
_LARGEST_BODY = 2 * LARGEST_CONTRACT + (1 << 16)  # a contract in a JSON string, its quotes escaped

_LONGEST_DAYS = 3650
ROLES = ("shuffler", "analyzer")
Handler = Callable[..., dict[str, Json] | None]


@dataclass(frozen=True, slots=True)
class Parameter:
    """The parameter of a command: how the client sends it and how the service reads it."""

    name: str
    kind: Literal["text", "task", "input file", "new file", "days"]
    help: str
    default: str | None = None
    """On the command line, a parameter with a default is an option."""

    def encode(self, value: str) -> str:
        """Return what the client sends: a path as absolute, and for an input file its content."""
        if self.kind == "input file":
            try:
                return Path(value).read_text("utf-8")
            except UnicodeDecodeError:
                raise WireError(f"{Path(value).name} must be {self.help}: JSON in UTF-8") from None
        return str(Path(value).absolute()) if self.kind == "new file" else value

    def decode(self, text: str) -> str | bytes | float | Path:
        """Return the argument of the handler."""
        match self.kind:
            case "task":
                return hex_id(text, "unknown-task")
            case "input file":
                return text.encode()
            case "new file":
                return _new_file(text)
            case "days":
                return _seconds(self.name, text)
        return text


@dataclass(frozen=True, slots=True)
class Command:
    """An administrative command."""

    name: str
    help: str
    parameters: tuple[Parameter, ...] = ()
    roles: tuple[str, ...] = ROLES
    reads: bool = False
    """True if the command changes nothing; it is then a GET request."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "GET" if self.reads else "POST"

    @property
    def path(self) -> str:
        """The path on the socket."""
        return f"/{self.name}"

    def body(self, values: Sequence[str], options: Mapping[str, str] | None = None) -> bytes:
        """Return the body of the request, or raise if a parameter is missing or not expected."""
        required = [one for one in self.parameters if one.default is None]
        if len(values) > len(required):
            number = "without a parameter" if not required else f"with {len(required)} parameters at most"
            reject(f"the command {self.name}", f"be given {number}")
        given = {one.name: one.default for one in self.parameters if one.default is not None} | dict(options or {})
        for one, value in zip_longest(required, values, fillvalue=""):
            assert isinstance(one, Parameter)
            if not value:
                reject(f"the command {self.name}", f"be followed by {one.name.upper()}: {one.help}")
            given[one.name] = one.encode(str(value))
        return canonical({**given}) if given else b""


_TASK = Parameter("task", "task", "the task id, 32 hexadecimal digits")
_CONTRACT = Parameter("contract", "input file", "a signed contract")
_PATH = Parameter("path", "new file", "a file that does not exist")
_SCOPE = Parameter("scope", "text", "read:* for all tasks, or read:TASK")
_NAME = Parameter("name", "text", "the name of the token")
_EXPIRES = Parameter("expires", "days", "days after which the token expires", default="90")
_CLOSE = "Stop accepting uploads for a task, and release its open bucket; below the minimum batch size, it expires."
_COMMANDS = (
    Command("status", "Show the exact counts of every task, its rounds, and the keys and certificates.", reads=True),
    Command("check", "Recount the store and verify that every bundle is accounted for.", reads=True),
    Command("add", "Serve a signed contract.", (_CONTRACT,)),
    Command("close", _CLOSE, (_TASK,), roles=("shuffler",)),
    Command(
        "destroy", "Close a task and forget which bundles and admissions it accepted.", (_TASK,), roles=("shuffler",)
    ),
    Command("rotate", "Replace the service's encryption key by a new one."),
    Command("drain", "Refuse new uploads and batches until the service restarts."),
    Command("backup", "Copy the store to a new file.", (_PATH,)),
    Command("token", "Create a bearer token for reading results.", (_NAME, _SCOPE, _EXPIRES), roles=("analyzer",)),
    Command("tokens", "List the bearer tokens.", roles=("analyzer",), reads=True),
    Command("revoke", "Revoke a bearer token.", (_NAME,), roles=("analyzer",)),
)
COMMANDS = {command.name: command for command in _COMMANDS}
"""All commands, by name."""


def admin_app(role: str, handlers: object) -> App:
    """Return the application behind the admin socket of a service."""
    return routed((one.method, one.path, _endpoint(one, role, handlers)) for one in COMMANDS.values())


def _endpoint(command: Command, role: str, handlers: object) -> Endpoint:
    handler: Handler | None = getattr(handlers, command.name) if role in command.roles else None

    async def endpoint(request: Request) -> Response:
        if handler is None:
            raise Problem("malformed", f"'{command.name}' is a command of the {command.roles[0]}; this is the {role}")
        arguments = []
        if command.parameters:
            content = parse(await body_of(request, _LARGEST_BODY), "the command's body")
            fields = Fields(content, "the command's body", *(one.name for one in command.parameters))
            arguments = [one.decode(fields.text(one.name)) for one in command.parameters]
        answer = await asyncio.to_thread(handler, *arguments)
        return Response(canonical(answer or {}), media_type="application/json")

    return endpoint


def _seconds(name: str, text: str) -> float:
    """Return a number of days in seconds.

    >>> _seconds("expires", "0.5")
    43200.0
    """
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 < days <= _LONGEST_DAYS:
        reject(name, f"be a number of days above 0 and up to {_LONGEST_DAYS:,}", text)
    return days * 86_400.0


def _new_file(text: str) -> Path:
    """Create an empty file of mode 0600 and return its path."""
    path = Path(text)
    if not path.is_absolute() or path.exists():
        reject("the path of a backup", "be absolute and not exist yet", path.name)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


SOCKET = "admin.sock"
"""Default name of the socket in a service's folder."""
SETTINGS = "settings.toml"
"""Name of the settings file in a service's folder."""


def command(
    target: Path, name: str, *values: str, options: Mapping[str, str] | None = None, seconds: float = 600.0
) -> dict[str, Any]:
    """Send a command and its parameters to the service at ``target``: its socket, its settings file or its folder."""
    check_choice("the command", name, tuple(COMMANDS))
    one = COMMANDS[name]
    body = one.body(values, options)
    socket = admin_socket(target)
    if not socket.is_socket():
        raise CommandFailure(f"no service is listening at {socket}; start it, or name its socket, settings or folder")
    try:
        # There is no TLS on a Unix socket; without verify=False, httpx would load all certificate authorities first.
        transport = httpx.HTTPTransport(uds=str(socket), verify=False)
        with httpx.Client(transport=transport, timeout=seconds, trust_env=False) as client:
            response = client.request(one.method, f"http://service{one.path}", content=body)
    except httpx.HTTPError as error:
        raise CommandFailure(f"the service at {socket} did not answer: {type(error).__name__}") from None
    answer: dict[str, Any] = response.json()
    if not response.is_success:
        raise CommandRefused(str(answer.get("detail") or answer["title"]))
    return answer


def admin_socket(target: Path) -> Path:
    """Return the socket that a settings file, a service's folder or the socket's own path stands for."""
    if target.is_dir():
        settings = target / SETTINGS
        return admin_socket(settings) if settings.exists() else target / SOCKET
    if target.suffix != ".toml":
        return target
    try:
        entries = tomllib.loads(target.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise WireError(f"{target.name} must be a TOML file in UTF-8") from None
    configured = str(entries.get("admin", ""))
    if configured:
        return target.parent / configured.removeprefix("unix:")
    return target.parent / str(entries.get("folder", ".")) / SOCKET
