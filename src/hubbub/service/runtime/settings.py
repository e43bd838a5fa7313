"""How a service is set up: one TOML file for each role, every entry checked, unknown ones refused.

Paths are meant from the folder of the file. An address is ``host:port`` or ``unix:path``; none is an empty string.
"""

import dataclasses
import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from hubbub.errors import Interval, InvalidInput, WireError, check_real, check_whole, reject

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What both roles have."""

    folder: Path
    """Where the store, the keys and the sockets are; of one role and one process."""
    store: str = ""
    """``sqlite:FILE`` or ``postgresql://…``; by default a file in the folder."""
    identity: Path = Path("identity")
    """The operator's signing key."""
    contracts: tuple[Path, ...] = ()
    """Signed contracts that are served from the start."""
    operations: str = "127.0.0.1:0"
    """Where /livez, /readyz and /metrics are."""
    admin: str = "unix:admin.sock"
    """The socket for commands: a unix socket, of mode 0600."""
    insecure_http: bool = False
    """Allows listeners without TLS on addresses that others reach."""
    unsafe_test: bool = False
    """Serves contracts with crowds too small to hide in. Never with people's data."""
    workers: int = 2
    """Processes that open and seal."""
    connections: int = 2000
    """At one listener at once."""
    suite: int = 1
    """The algorithms of this service's keys."""
    key_lifetime: float = 7 * DAY
    """Seconds after which a key is replaced."""
    key_grace: float = 1 * DAY
    """Seconds after which a replaced key is destroyed."""

    def __post_init__(self) -> None:
        check_whole("workers", self.workers, 0, 256)
        check_whole("connections", self.connections, 1, 1_000_000)
        check_whole("suite", self.suite, 1, 2)
        check_real("key_lifetime", self.key_lifetime, Interval(1, 10000000000.0))
        check_real("key_grace", self.key_grace, Interval(0, 10000000000.0))
        if self.admin and not self.admin.startswith("unix:"):
            reject("admin", "be a unix socket", self.admin)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShufflerConfig:
    """The shuffler's entries."""

    common: Common
    listen: str = "127.0.0.1:8400"
    """Where devices, or their proxy, send to."""
    certificate: Path | None = None
    """With ``certificate_key``: TLS for ``listen``."""
    certificate_key: Path | None = None
    analyzer: str = ""
    """The address of the analyzer's link, https://host:port."""
    link_certificate: Path = Path("link.pem")
    """Who this shuffler is to the analyzer's link."""
    link_key: Path = Path("link.key")
    link_authority: Path = Path("authority.pem")
    """Who says so of the analyzer."""
    queue: int = 10_000
    """Bundles on their way to the store, beyond which senders are asked to wait."""
    rate: float = 0.0
    """Bundles a second of one address; 0 does not count."""
    burst: float = 1000.0
    """Bundles that an address may send at once."""
    address_header: str = ""
    """The header in which a proxy says whose request it passes on."""
    free_disk: float = 0.05
    """The part of the disk that must be free."""

    def __post_init__(self) -> None:
        check_whole("queue", self.queue, 256)
        check_real("rate", self.rate, Interval(0, 1000000000.0))
        check_real("burst", self.burst, Interval(256, 1000000000.0))
        check_real("free_disk", self.free_disk, Interval(0, 0.9))
        _check_listener("listen", self.listen, self.certificate, self.certificate_key, self.common.insecure_http)
        if not self.analyzer.startswith(("https://", "http://")):
            reject("analyzer", "be an address https://host:port", self.analyzer)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerConfig:
    """The analyzer's entries."""

    common: Common
    link: str = "127.0.0.1:8500"
    """Where the shuffler hands batches over; always TLS with certificates on both sides."""
    link_certificate: Path = Path("link.pem")
    link_key: Path = Path("link.key")
    link_authority: Path = Path("authority.pem")
    """Whose certificates are let in: an authority for this link and nothing else."""
    read: str = "127.0.0.1:8501"
    """Where results are read."""
    certificate: Path | None = None
    """With ``certificate_key``: TLS for ``read``."""
    certificate_key: Path | None = None

    def __post_init__(self) -> None:
        _check_listener("read", self.read, self.certificate, self.certificate_key, self.common.insecure_http)


C = TypeVar("C", ShufflerConfig, AnalyzerConfig)


def read_config(path: Path, kind: type[C], changes: Mapping[str, Any] | None = None) -> C:
    """Read a file of settings; ``changes`` override what it says."""
    try:
        entries = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise WireError(f"{path.name} must be TOML in UTF-8, got something else") from None
    entries = {"folder": ".", **entries, **(changes or {})}
    unknown = sorted(set(entries) - _names(Common) - _names(kind) | {"common"} & set(entries))
    if unknown:
        raise InvalidInput(f"{path.name} must have known entries only, got {', '.join(unknown)}")
    folder = path.parent / str(entries["folder"])
    common = Common(**_entries(Common, entries, path.parent, folder))
    return kind(common=common, **_entries(kind, entries, path.parent, folder))


def _names(kind: type) -> set[str]:
    return {one.name for one in dataclasses.fields(kind)}


def _entries(kind: type, entries: Mapping[str, Any], base: Path, folder: Path) -> dict[str, Any]:
    """The values of all fields of a class but ``common``; a default path is meant from the service's folder."""
    types = get_type_hints(kind)
    result = {}
    for one in dataclasses.fields(kind):
        if one.name in entries:
            result[one.name] = _read(one.name, entries[one.name], types[one.name], base)
        elif one.name != "common":
            result[one.name] = _rooted(one.default, folder)
    return result


def _read(name: str, value: object, wanted: Any, base: Path) -> Any:
    if wanted in (Path, Path | None) and isinstance(value, str):
        return (base / value) if value else None
    if wanted == tuple[Path, ...] and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(base / one for one in value)
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if wanted in (str, int, bool) and type(value) is wanted:
        if isinstance(value, str) and value.startswith("unix:"):
            return f"unix:{base / value.removeprefix('unix:')}"
        return value
    raise InvalidInput(f"the entry {name} must be of another type, got {type(value).__name__}")


def _rooted(value: Any, folder: Path) -> Any:
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, str) and value.startswith("unix:"):
        return f"unix:{folder / value.removeprefix('unix:')}"
    return value


def split_address(text: str) -> tuple[str, int]:
    """Host and port.

    >>> split_address("[::1]:80")
    ('::1', 80)
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        reject("an address", "be host:port or unix:path", text)
    return host.strip("[]"), int(port)


def is_local(address: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_local("127.0.0.1:80"), is_local("0.0.0.0:80"), is_local("unix:/run/x")
    (True, False, True)
    """
    if address.startswith("unix:"):
        return True
    host = split_address(address)[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_listener(name: str, address: str, certificate: Path | None, key: Path | None, insecure: bool) -> None:
    if (certificate is None) != (key is None):
        raise InvalidInput("certificate and certificate_key must be given together, got one of them")
    if address and certificate is None and not is_local(address) and not insecure:
        raise InvalidInput(
            f"{name} must have a certificate, be local, or insecure_http be true, got an open address without TLS"
        )
