"""Send administrative commands to a running service through its Unix socket."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from hubbub.errors import CommandFailure, CommandRefused, WireError, check_choice
from hubbub.service.runtime.admin import COMMANDS

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
