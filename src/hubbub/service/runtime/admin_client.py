"""Giving commands to a running service, through the unix socket that only its owner may open."""

import json
from pathlib import Path
from typing import Any

import httpx

from hubbub.errors import HubbubError, reject

COMMANDS = {
    "status": ("GET", "/status", ""),
    "check": ("GET", "/check", ""),
    "add": ("POST", "/tasks", "CONTRACT"),
    "close": ("POST", "/tasks/{}/close", "TASK"),
    "destroy": ("POST", "/tasks/{}/destroy", "TASK"),
    "rotate": ("POST", "/rotate", ""),
    "drain": ("POST", "/drain", ""),
    "backup": ("POST", "/backup", "PATH"),
    "token": ("POST", "/tokens", "SCOPE"),
    "revoke": ("POST", "/tokens/revoke", "TOKEN"),
}
"""What can be asked of a service: the route of each command, and what it needs."""


class CommandFailure(HubbubError):
    """The service refused a command, or did not answer."""


def command(socket: Path, name: str, value: str = "", *, seconds: float = 600.0) -> dict[str, Any]:
    """Give a command to the service behind a socket; ``value`` is what it needs, for ``add`` the name of a file."""
    if name not in COMMANDS:
        reject("the command", f"be one of {', '.join(COMMANDS)}", name)
    method, route, needs = COMMANDS[name]
    if bool(value) != bool(needs):
        reject(f"the command {name}", f"have {needs or 'nothing'} behind it", "something" if value else "nothing")
    content = b""
    if needs == "CONTRACT":
        content = Path(value).read_bytes()
    elif needs in ("PATH", "SCOPE", "TOKEN"):
        content = json.dumps({needs.lower(): str(Path(value).absolute()) if needs == "PATH" else value}).encode()
    if not socket.is_socket():
        raise CommandFailure(f"no service answers at {socket.name}")
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=seconds) as client:
            answer = client.request(method, "http://service" + route.format(value), content=content)
    except httpx.HTTPError:
        raise CommandFailure(f"no service answers at {socket.name}") from None
    found: dict[str, Any] = answer.json()
    if not answer.is_success:
        raise CommandFailure(str(found.get("detail") or found["title"]))
    return found
