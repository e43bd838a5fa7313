"""Settings of a service: one TOML file per role, every entry checked, unknown ones rejected, all described.

Paths are relative to the folder of the file. An address is ``host:port`` or ``unix:path``; an empty string disables the
listener.

The reference of all settings, and the commented file that ``hubbub serve init`` writes, are generated from the fields
of the configuration classes, so they name every entry with its current default.
"""

import dataclasses
import ipaddress
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints
from urllib.parse import urlsplit

from hubbub.errors import Interval, InvalidInput, WireError, check_choice, check_real, check_whole, reject
from hubbub.service.task.contract import MIN_BATCH_SIZE

DAY = 86_400.0
SHUFFLER_ROLES = ("all", "intake", "worker")
"""The parts of the shuffler's work that one process can do."""
T = TypeVar("T")


def entry(default: T, text: str) -> T:
    """Return the field of an entry: its default, and the sentence that describes it in the reference."""
    return dataclasses.field(default=default, metadata={"text": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Entries of both roles."""

    folder: Path = entry(Path(), "Folder of the store and the sockets; every process needs a separate one.")
    store: str = entry("", "`sqlite:FILE` or `postgresql://…`; by default an SQLite file in `folder`.")
    credentials: Path = entry(
        Path("credentials"),
        "Folder of the secrets, shared by all processes of a role; keep it out of the backups of the store.",
    )
    fence: Path | None = entry(
        None,
        "File on another machine, shared by all processes of a role, that shows that this one was rolled back; "
        "a service that has run without it needs an empty one.",
    )
    identity: Path = entry(Path("identity"), "The operator's signing key.")
    contracts: tuple[Path, ...] = entry((), "Files of signed contracts to serve.")
    admin: str = entry("unix:admin.sock", "Unix socket for administrative commands; it gets mode 0600.")
    insecure_http: bool = entry(False, "Allow listeners without TLS on addresses that other machines can reach.")
    unsafe_test: bool = entry(
        False, "Serve contracts whose batches are too small to protect anyone. Never with people's data."
    )
    workers: int = entry(2, "Number of processes that open and seal bundles and slots.")
    connections: int = entry(2000, "Maximum number of simultaneous connections per listener.")
    suite: int = entry(
        1, "Cryptographic suite of this service's keys, besides those of its contracts; 2 adds ML-KEM-768."
    )
    key_lifetime: float = entry(7 * DAY, "Seconds after which a key is replaced.")
    key_grace: float = entry(1 * DAY, "Seconds after which a replaced key is destroyed, unless it is still needed.")
    key_list_lifetime: float = entry(1 * DAY, "Seconds after which clients reject a signed list of keys as outdated.")
    lease: float = entry(30.0, "Seconds after which another process takes over the work of one that has died.")

    def __post_init__(self) -> None:
        check_whole("workers", self.workers, 0, 256)
        check_whole("connections", self.connections, 1, 1_000_000)
        check_whole("suite", self.suite, 1, 2)
        check_real("key_lifetime", self.key_lifetime, Interval(1, 1e10))
        check_real("key_grace", self.key_grace, Interval(0, 1e10))
        check_real("lease", self.lease, Interval(1, 3600))
        check_real("key_list_lifetime", self.key_list_lifetime, Interval(60, 1e10))
        if self.store and self.store.partition(":")[0] not in ("sqlite", "postgresql", "postgres"):
            reject("store", "be sqlite:FILE or postgresql://…")
        if self.admin and not self.admin.startswith("unix:"):
            reject("admin", "be a Unix socket such as unix:admin.sock", self.admin)

    @property
    def min_batch_size(self) -> int:
        """The smallest minimum batch size of a contract that the service accepts."""
        return 1 if self.unsafe_test else MIN_BATCH_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShufflerConfig:
    """Settings of the shuffler."""

    common: Common
    analyzer: str = entry("", "URL of the analyzer's link, https://host:port. Required.")
    listen: str = entry("127.0.0.1:8400", "Address for uploads from devices or their proxy.")
    operations: str = entry("127.0.0.1:9464", "Address of /livez, /readyz and /metrics.")
    certificate: Path | None = entry(None, "With `certificate_key`: TLS for `listen`.")
    certificate_key: Path | None = entry(None, "The private key of `certificate`.")
    link_certificate: Path = entry(Path("link.pem"), "The shuffler's client certificate for the link.")
    link_key: Path = entry(Path("link.key"), "The private key of `link_certificate`.")
    link_authority: Path = entry(Path("authority.pem"), "The certificate authority of the link.")
    tickets: Path = entry(
        Path("tickets"), "Folder with the keys of ticket issuers, one file NAME.key of mode 0600 for each issuer."
    )
    role: str = entry(
        "all",
        "`intake` accepts uploads, `worker` releases, shuffles and delivers, `all` does both (always with SQLite).",
    )
    max_batch_size: int = entry(2_000_000, "Bundles at which a batch is released before the epoch ends.")
    queue: int = entry(10_000, "Bundles waiting for the store, above which uploads are answered with 429.")
    rate: float = entry(0.0, "Bundles per second that an address may send; 0 means no limit.")
    burst: float = entry(1000.0, "Bundles that an address may send at once.")
    address_header: str = entry("", "Header in which a proxy names the sender's address, for `rate`.")
    origins: tuple[str, ...] = entry((), "Web origins whose pages may upload, such as https://example.org (CORS).")
    free_disk: float = entry(
        0.05, "Share of the disk that must stay free; below it, uploads are refused and shuffles wait."
    )

    def __post_init__(self) -> None:
        check_whole("max_batch_size", self.max_batch_size, 1, 1_000_000_000)
        check_whole("queue", self.queue, 256)
        check_real("rate", self.rate, Interval(0, 1e9))
        check_real("burst", self.burst, Interval(256, 1e9))
        check_real("free_disk", self.free_disk, Interval(0, 0.9))
        check_choice("role", self.role, SHUFFLER_ROLES)
        if self.role != "all" and not self.common.store.startswith("postgres"):
            reject("role", "be all unless the store is PostgreSQL", self.role)
        for origin in self.origins:
            _check_origin(origin)
        _check_address("operations", self.operations)
        _check_listener("listen", self.listen, self.certificate, self.certificate_key, self.common.insecure_http)
        if not self.analyzer.startswith(("https://", "http://")):
            reject("analyzer", "be the URL of the analyzer's link, https://host:port", self.analyzer)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerConfig:
    """Settings of the analyzer."""

    common: Common
    link: str = entry(
        "0.0.0.0:8500", "Address for batches from the shuffler; always TLS with certificates on both sides."
    )
    link_certificate: Path = entry(Path("link.pem"), "The analyzer's server certificate for the link.")
    link_key: Path = entry(Path("link.key"), "The private key of `link_certificate`.")
    link_authority: Path = entry(
        Path("authority.pem"), "The certificate authority of the link; use it for nothing else."
    )
    read: str = entry("127.0.0.1:8501", "Address for reading results.")
    evaluate: str = entry("", "Address for evaluations, which the relay of a contract for strings forwards.")
    tickets: Path = entry(
        Path("tickets"), "Folder with the evaluation keys of ticket issuers, one file NAME.key for each issuer."
    )
    operations: str = entry("127.0.0.1:9465", "Address of /livez, /readyz and /metrics.")
    certificate: Path | None = entry(None, "With `certificate_key`: TLS for `read` and `evaluate`.")
    certificate_key: Path | None = entry(None, "The private key of `certificate`.")
    lake: Path | None = entry(
        None, "Folder to which opened batches are exported, if the contracts say `export`; without it, none may."
    )

    def __post_init__(self) -> None:
        _check_address("link", self.link)
        _check_listener("evaluate", self.evaluate, self.certificate, self.certificate_key, self.common.insecure_http)
        _check_address("operations", self.operations)
        _check_listener("read", self.read, self.certificate, self.certificate_key, self.common.insecure_http)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerConfig:
    """Settings of the issuer of tokens."""

    common: Common
    operations: str = entry("127.0.0.1:9466", "Address of /livez, /readyz and /metrics.")
    listen: str = entry("127.0.0.1:8600", "Address for token requests.")
    certificate: Path | None = entry(None, "With `certificate_key`: TLS for `listen`.")
    certificate_key: Path | None = entry(None, "The private key of `certificate`.")
    token_keys: Path = entry(Path("token-keys"), "Folder of the private keys, one for each task.")
    codes: Path | None = entry(None, "File of mode 0600 with the codes of the accounts, one per line.")
    account_header: str = entry(
        "", "Header in which a front end names the account it has authenticated; it must remove the client's own."
    )
    origins: tuple[str, ...] = entry(
        (), "Web origins whose pages may request tokens, such as https://example.org (CORS)."
    )

    def __post_init__(self) -> None:
        for origin in self.origins:
            _check_origin(origin)
        _check_address("operations", self.operations)
        _check_listener("listen", self.listen, self.certificate, self.certificate_key, self.common.insecure_http)
        if (self.codes is None) == (not self.account_header):
            raise InvalidInput("the issuer must know its accounts: set either codes or account_header")
        if self.account_header and not is_local(self.listen, "listen") and not self.common.insecure_http:
            raise InvalidInput(
                "account_header trusts everyone who can reach listen: use a local address or a Unix socket, or set "
                "insecure_http = true if only the front end can reach it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """Settings of the relay."""

    common: Common
    shuffler: str = entry("", "URL of the shuffler's uploads, https://host:port. Required.")
    analyzer: str = entry("", "URL of the analyzer's evaluations, https://host:port. Required.")
    authority: Path | None = entry(
        None, "Certificate authority of both services; by default those that the machine trusts."
    )
    listen: str = entry("127.0.0.1:8700", "Address for requests from devices or their proxy.")
    operations: str = entry("127.0.0.1:9467", "Address of /livez, /readyz and /metrics.")
    certificate: Path | None = entry(None, "With `certificate_key`: TLS for `listen`.")
    certificate_key: Path | None = entry(None, "The private key of `certificate`.")
    rate: float = entry(1.0, "Requests per second that an address may send, elements counted; 0 means no limit.")
    burst: float = entry(100.0, "Requests that an address may send at once.")
    address_header: str = entry("", "Header in which a proxy names the sender's address, for `rate`.")
    origins: tuple[str, ...] = entry((), "Web origins whose pages may send, such as https://example.org (CORS).")

    def __post_init__(self) -> None:
        check_real("rate", self.rate, Interval(0, 1e9))
        check_real("burst", self.burst, Interval(64, 1e9))
        for origin in self.origins:
            _check_origin(origin)
        _check_address("operations", self.operations)
        _check_listener("listen", self.listen, self.certificate, self.certificate_key, self.common.insecure_http)
        for name in ("shuffler", "analyzer"):
            url = getattr(self, name)
            local = url.startswith("http://") and is_local(url.removeprefix("http://").rstrip("/"), name)
            if not url.startswith("https://") and not local:
                reject(name, "be the URL of the service, https://host:port, or http:// on this machine", url)
        if self.shuffler == self.analyzer:
            raise InvalidInput("shuffler and analyzer must be different services, but have the same URL")


Config = ShufflerConfig | AnalyzerConfig | IssuerConfig | RelayConfig
C = TypeVar("C", ShufflerConfig, AnalyzerConfig, IssuerConfig, RelayConfig)


def read_config(path: Path, kind: type[C], changes: Mapping[str, Any] | None = None) -> C:
    """Read a settings file; ``changes`` override its entries."""
    try:
        entries = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise WireError(f"{path.name} must be valid TOML: {error}") from None
    except UnicodeDecodeError:
        raise WireError(f"{path.name} must be a TOML file in UTF-8") from None
    entries = {"folder": ".", **entries, **(changes or {})}
    known = sorted((_names(Common) | _names(kind)) - {"common"})
    unknown = sorted(set(entries) - set(known))
    if unknown:
        raise InvalidInput(f"{path.name} has unknown entries: {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        folder = path.parent / _read("folder", entries["folder"], str, Path())
        common = Common(**_entries(Common, entries, path.parent, folder))
        return kind(common=common, **_entries(kind, entries, path.parent, folder))
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error}") from None


def _names(kind: type) -> set[str]:
    return {one.name for one in dataclasses.fields(kind)}


def _entries(kind: type, entries: Mapping[str, Any], base: Path, folder: Path) -> dict[str, Any]:
    """Return the values of all fields except ``common``; default paths are relative to the service's folder."""
    types = get_type_hints(kind)
    result = {}
    for one in dataclasses.fields(kind):
        if one.name in entries:
            result[one.name] = _read(one.name, entries[one.name], types[one.name], base)
        elif one.name != "common":
            result[one.name] = folder / one.default if isinstance(one.default, Path) else _rooted(one.default, folder)
    return result


_PATH = ("path", "a path in quotes")
_TYPES: dict[Any, tuple[str, str]] = {
    Path: _PATH,
    Path | None: _PATH,
    tuple[Path, ...]: ("list of paths", 'a list of paths, such as ["contract.json"]'),
    tuple[str, ...]: ("list of texts", 'a list of texts, such as ["https://example.org"]'),
    float: ("number", "a number"),
    int: ("whole number", "a whole number"),
    bool: ("true or false", "true or false"),
    str: ("text", "a text in quotes"),
}
"""The types of entries: in the reference, and in error messages."""


def _read(name: str, value: object, wanted: Any, base: Path) -> Any:
    if wanted in (Path, Path | None) and isinstance(value, str):
        return (base / value) if value else None
    if wanted == tuple[Path, ...] and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(base / one for one in value)
    if wanted == tuple[str, ...] and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if wanted in (str, int, bool) and type(value) is wanted:
        return _rooted(value, base)
    return reject(name, f"be {_TYPES[wanted][1]}", value)


def _rooted(value: Any, folder: Path) -> Any:
    if isinstance(value, str) and value.startswith("unix:"):
        return f"unix:{folder / value.removeprefix('unix:')}"
    return value


def split_address(text: str, name: str = "an address") -> tuple[str, int]:
    """Return host and port.

    >>> split_address("[::1]:80")
    ('::1', 80)
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        reject(name, "be host:port with a port up to 65535, or unix:path", text)
    return host.strip("[]"), int(port)


def is_local(address: str, name: str = "an address") -> bool:
    """Return True if only this machine can reach an address.

    >>> is_local("127.0.0.1:80"), is_local("0.0.0.0:80"), is_local("unix:/run/x")
    (True, False, True)
    """
    if address.startswith("unix:"):
        return True
    host = split_address(address, name)[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if parts.scheme not in ("https", "http") or not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}":
        reject("origins", "be web origins such as https://example.org, without a path", origin)


def _check_address(name: str, address: str) -> None:
    if address and not address.startswith("unix:"):
        split_address(address, name)


def _check_listener(name: str, address: str, certificate: Path | None, key: Path | None, insecure: bool) -> None:
    if (certificate is None) != (key is None):
        raise InvalidInput("certificate and certificate_key must be given together")
    if address and not is_local(address, name) and certificate is None and not insecure:
        raise InvalidInput(
            f"{name} is an open address without TLS, {address!r}: add certificate and certificate_key, "
            "use a local address, or set insecure_http = true behind a proxy that terminates TLS"
        )


CONFIGS: dict[str, type[Config]] = {
    "shuffler": ShufflerConfig,
    "analyzer": AnalyzerConfig,
    "relay": RelayConfig,
}
"""The configuration class of each role."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a settings file."""

    name: str
    type: str
    default: str
    """The default in TOML."""
    text: str
    """The sentence that describes the entry."""


def entries(kind: type[Config] | type[Common]) -> list[Entry]:
    """Return the entries that a configuration class defines, without those of ``common``."""
    types = get_type_hints(kind)
    return [
        Entry(one.name, _TYPES[types[one.name]][0], to_toml(one.default), one.metadata["text"])
        for one in dataclasses.fields(kind)
        if one.name != "common"
    ]


def to_toml(value: object) -> str:
    """Return a value of a setting in TOML.

    >>> to_toml(Path("link.pem")), to_toml(None), to_toml(("a", "b")), to_toml(False), to_toml(2_000_000)
    ('"link.pem"', '""', '["a", "b"]', 'false', '2_000_000')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:_}"
    # For texts and truth values, JSON is also TOML.
    return json.dumps("" if value is None else str(value) if isinstance(value, Path) else value)


def settings_file(role: str, given: Mapping[str, object]) -> str:
    """Return a settings file with every entry: those given are set, all others are comments with their defaults."""
    known = [*entries(CONFIGS[role]), *entries(Common)]
    unknown = sorted(set(given) - {one.name for one in known})
    if unknown:
        raise InvalidInput(f"the {role} has no settings {', '.join(unknown)}")
    lines = [
        f"# Settings of the {role}. A line that begins with '#' and a name shows a default.",
        "# Paths are relative to the folder of this file.",
    ]
    for one in known:
        setting = f"{one.name} = {to_toml(given[one.name])}" if one.name in given else f"# {one.name} = {one.default}"
        lines += ["", f"# {one.text}", setting]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Return the tables of all entries in Markdown."""
    parts = []
    kinds = (("All roles", Common), ("Shuffler", ShufflerConfig), ("Analyzer", AnalyzerConfig), ("Relay", RelayConfig))
    for title, kind in kinds:
        rows = [f"| `{one.name}` | {one.type} | `{one.default}` | {one.text} |" for one in entries(kind)]
        parts += [f"## {title}", "", "| entry | type | default | |", "|---|---|---|---|", *rows, ""]
    return "\n".join(parts)
