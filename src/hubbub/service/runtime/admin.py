"""Administrative commands: one table from which the socket's routes, the client and the command line are derived.

Each service listens for commands on a Unix socket. Requests are not authenticated: access is controlled by the socket's
permissions (mode 0600). The handler of a command is the method of the same name on the service's command object.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from hubbub.canonical import Fields, Json, canonical, parse
from hubbub.errors import Problem, WireError, reject
from hubbub.service.runtime.http import App, Endpoint, body_of, hex_id, routed

LARGEST_CONTRACT = 16 << 20
"""Largest signed contract, in bytes."""
_LARGEST_BODY = 2 * LARGEST_CONTRACT + (1 << 16)  # a contract in a JSON string, its quotes escaped

ROLES = ("shuffler", "analyzer")
Handler = Callable[..., dict[str, Json] | None]


@dataclass(frozen=True, slots=True)
class Parameter:
    """The parameter of a command: how the client sends it and how the service reads it."""

    name: str
    kind: Literal["text", "task", "input file", "new file"]
    help: str

    def encode(self, value: str) -> str:
        """Return what the client sends: a path as absolute, and for an input file its content."""
        if self.kind == "input file":
            try:
                return Path(value).read_text("utf-8")
            except UnicodeDecodeError:
                raise WireError(f"{Path(value).name} must be {self.help}: JSON in UTF-8") from None
        return str(Path(value).absolute()) if self.kind == "new file" else value

    def decode(self, text: str) -> str | bytes | Path:
        """Return the argument of the handler."""
        match self.kind:
            case "task":
                return hex_id(text, "unknown-task")
            case "input file":
                return text.encode()
            case "new file":
                return _new_file(text)
        return text


@dataclass(frozen=True, slots=True)
class Command:
    """An administrative command."""

    name: str
    help: str
    parameter: Parameter | None = None
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

    def body(self, value: str) -> bytes:
        """Return the body of the request, or raise if the parameter is missing or not expected."""
        if self.parameter is None:
            if value:
                reject(f"the command {self.name}", "be given without a parameter")
            return b""
        if not value:
            reject(f"the command {self.name}", f"be followed by {self.parameter.name.upper()}: {self.parameter.help}")
        return canonical({self.parameter.name: self.parameter.encode(value)})


_TASK = Parameter("task", "task", "the task id, 32 hexadecimal digits")
_CONTRACT = Parameter("contract", "input file", "a signed contract")
_PATH = Parameter("path", "new file", "a file that does not exist")
_SCOPE = Parameter("scope", "text", "read:* for all tasks, or read:TASK")
_TOKEN = Parameter("token", "text", "the token")
_CLOSE = "Stop accepting uploads for a task; bundles still waiting expire."
_COMMANDS = (
    Command("status", "Show the exact counts of every task.", reads=True),
    Command("check", "Recount the store and verify that every bundle is accounted for.", reads=True),
    Command("add", "Serve a signed contract.", _CONTRACT),
    Command("close", _CLOSE, _TASK, roles=("shuffler",)),
    Command("destroy", "Close a task and delete its replay ids.", _TASK, roles=("shuffler",)),
    Command("rotate", "Replace the service's encryption key by a new one."),
    Command("drain", "Refuse new uploads and batches until the service restarts."),
    Command("backup", "Copy the store to a new file.", _PATH),
    Command("token", "Create a bearer token for reading results.", _SCOPE, roles=("analyzer",)),
    Command("revoke", "Revoke a bearer token.", _TOKEN, roles=("analyzer",)),
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
        if command.parameter is not None:
            content = parse(await body_of(request, _LARGEST_BODY), "the command's body")
            text = Fields(content, "the command's body", command.parameter.name).text(command.parameter.name)
            arguments.append(command.parameter.decode(text))
        answer = await asyncio.to_thread(handler, *arguments)
        return Response(canonical(answer or {}), media_type="application/json")

    return endpoint


def _new_file(text: str) -> Path:
    """Create an empty file of mode 0600 and return its path."""
    path = Path(text)
    if not path.is_absolute() or path.exists():
        reject("the path of a backup", "be absolute and not exist yet", path.name)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path
