"""The source of a live page: a folder of running services, or an analyzer's address with a token.

The token stays in this process: it is in no command line, no message and no response.
"""

import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from hubbub.errors import CommandFailure, InvalidInput, WireError, check_type, reject
from hubbub.service.provision import CONTRACT, TOKEN
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.transport import service_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of the services at this moment; a service without an operations address has None."""

    results: str
    token: str = field(repr=False)
    analyzer: str | None = None
    shuffler: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSource:
    """A collection to follow, by exactly one of ``folder`` and ``url``; a folder names everything else by itself."""

    folder: Path | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    authority: Path | None = None
    contract: Path | None = None
    analyzer_operations: str | None = None
    shuffler_operations: str | None = None

    def __post_init__(self) -> None:
        if (self.folder is None) == (self.url is None):
            raise InvalidInput("a live page reads either a folder or an analyzer's address")
        if self.folder is not None and not self.folder.is_dir():
            reject("live", "be a folder that exists, or a URL")
        for name in ("url", "analyzer_operations", "shuffler_operations"):
            if getattr(self, name) is not None:
                _check_url(name, getattr(self, name))
        if self.token is not None:
            check_token(self.token)
        for name in ("token_file", "authority", "contract"):
            if getattr(self, name) is not None:
                check_type(name, getattr(self, name), Path)
        if self.url is not None and self.token is None and self.token_file is None:
            raise InvalidInput(
                "an analyzer's address needs a token: give token_file (--token-file), or set the variable HUBBUB_TOKEN"
            )

    @property
    def name(self) -> str:
        """The name of the source on the page."""
        return str(self.folder) if self.folder is not None else str(self.url)

    def check(self) -> None:
        """Raise if a file that the source names cannot be used; services may be started later."""
        self.contracts()
        trusted(self.authority)
        if self.folder is None or self.token_file is not None:
            self._token(None)

    def locate(self) -> Addresses:
        """Return the addresses of now: services that restart may get other ports, and tokens may be replaced."""
        if self.folder is None:
            assert self.url is not None
            operations = {"analyzer": self.analyzer_operations, "shuffler": self.shuffler_operations}
            return Addresses(results=self.url.rstrip("/"), token=self._token(None), **operations)
        analyzer = self._listeners("analyzer")
        if "results" not in analyzer:
            raise CommandFailure("no analyzer runs in the folder: start both services with 'hubbub serve all FOLDER'")
        return Addresses(
            results=analyzer["results"],
            token=self._token(self.folder / TOKEN),
            analyzer=self.analyzer_operations or analyzer.get("operations"),
            shuffler=self.shuffler_operations or self._listeners("shuffler").get("operations"),
        )

    def contracts(self) -> dict[str, Contract]:
        """Return the contracts that the source names, by task; they say how many people a batch needs."""
        path = self.contract
        if path is None and self.folder is not None and (self.folder / CONTRACT).exists():
            path = self.folder / CONTRACT
        if path is None:
            return {}
        contract = SignedContract.from_json(path.read_bytes()).contract
        return {contract.id: contract}

    def _listeners(self, role: str) -> dict[str, str]:
        """Return the addresses of a service by listener; the folder may be that of the analyzer alone."""
        assert self.folder is not None
        places = [self.folder / role / ADDRESSES, *([self.folder / ADDRESSES] if role == "analyzer" else [])]
        for path in places:
            try:
                found = json.loads(path.read_text("utf-8"))
            except (OSError, ValueError):
                continue
            if isinstance(found, dict):
                return {str(name): str(value) for name, value in found.items()}
        return {}

    def _token(self, path: Path | None) -> str:
        if self.token_file is not None:
            path = self.token_file
        elif self.token is not None:
            return self.token
        assert path is not None
        if self.token_file is None and not path.exists():
            raise CommandFailure(
                f"there is no token in {path}: make one with 'hubbub serve admin FOLDER/analyzer token studio read:*'"
            )
        try:
            return check_token(path.read_text("ascii").strip())
        except (UnicodeDecodeError, WireError):
            raise WireError(f"the file {path} must hold a token and nothing else") from None


def trusted(authority: Path | None) -> ssl.SSLContext:
    """Return the TLS configuration that trusts an authority; without one, those of the system."""
    if authority is not None:
        authority.open("rb").close()
    try:
        return ssl.create_default_context(cafile=authority)
    except ssl.SSLError:
        raise WireError(f"{authority} must be a certificate in PEM") from None


def check_token(token: str) -> str:
    """Return a bearer token; raise if it is not one line of printable ASCII."""
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise WireError("the token must be one line of printable ASCII characters")
    return token


def _check_url(name: str, text: object) -> None:
    try:
        place = httpx.URL(text) if isinstance(text, str) else httpx.URL()
    except httpx.InvalidURL:
        place = httpx.URL()
    if place.scheme not in ("http", "https") or not place.host or place.userinfo or place.query or place.fragment:
        # The page shows the address; what follows "?" may be a secret, and no path can be added to it.
        reject(name, "be a URL http://… or https://…, without a user, '?' and '#'")
    if name == "url":
        # It gets the bearer token.
        service_url(name, str(text))
