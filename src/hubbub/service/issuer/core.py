"""The issuer without sockets: it knows accounts, records their requests and signs them blindly."""

import base64
import hashlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hubbub.documents import canonical
from hubbub.errors import InvalidInput, Problem, WireError, reject
from hubbub.service.issuer.signer import Signer, TokenKey
from hubbub.service.issuer.store import IssuerStore
from hubbub.service.runtime.secretfiles import read_secret
from hubbub.service.task.contract import Contract
from hubbub.service.task.tokens import parse_request, truncated_key_id

MIN_CODE = 16
"""Fewest characters of an account code: it must not be guessed."""
MAX_CODE = 256


@dataclass(frozen=True, slots=True)
class IssuedTask:
    """A task and the private operation of its key."""

    task: bytes
    key: bytes
    signer: Signer


def issued_tasks(contracts: Iterable[Contract], keys: Iterable[TokenKey]) -> dict[int, IssuedTask]:
    """Return the tasks whose key the issuer holds, by truncated key id; raise if one of the contracts lacks its key."""
    own = {key.public: key for key in keys}
    tasks: dict[int, IssuedTask] = {}
    for contract in contracts:
        admission = contract.admission
        if admission.kind != "token" or admission.key not in own:
            reject("a contract of the issuer", "admit by a token of one of the keys in the issuer's folder")
        name = truncated_key_id(admission.key)
        if name in tasks and tasks[name].task != contract.task:
            # One key for two tasks would let an account spend the token of one task's quota on the other.
            raise InvalidInput(
                "two contracts of the issuer must not share a key, or the last byte of a key id: "
                "create another key with 'hubbub serve token-key' for one of them"
            )
        tasks[name] = IssuedTask(contract.task, admission.key, own[admission.key].signer())
    return tasks


def read_codes(path: Path) -> frozenset[bytes]:
    """Return the digests of the account codes in a file of mode 0600, one code per line."""
    try:
        codes = [line.strip() for line in read_secret(path).decode("ascii").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise WireError(f"{path.name} must contain one account code per line, in ASCII") from None
    for number, code in enumerate(codes, 1):
        if not MIN_CODE <= len(code) <= MAX_CODE or any(character.isspace() for character in code):
            raise WireError(f"{path.name}: code {number:,} must have {MIN_CODE} to {MAX_CODE} characters, no spaces")
    digests = frozenset(_digest(code) for code in codes)
    if len(digests) != len(codes):
        raise WireError(f"{path.name} contains a code twice")
    return digests


class Issuer:
    """Signs one request per account and task; ``codes`` are the digests of the accounts that exist."""

    def __init__(
        self, store: IssuerStore, tasks: Mapping[int, IssuedTask], codes: frozenset[bytes] | None = None
    ) -> None:
        self._store, self._tasks, self._codes = store, tasks, codes
        self._lock = threading.Lock()

    def account_of_code(self, code: str) -> str:
        """Return the account of a code; raise a problem if there is none."""
        digest = _digest(code)
        if self._codes is None or digest not in self._codes:
            raise Problem("unauthorized")
        return digest.hex()

    def issue(self, account: str, body: bytes) -> bytes:
        """Return the response to a TokenRequest of an account; the same request always gets the same response."""
        try:
            name, blinded = parse_request(body)
        except WireError as error:
            raise Problem("malformed", str(error)) from None
        task = self._tasks.get(name)
        if task is None:
            raise Problem("unknown-issuer-key")
        if self._store.issued_another(task.task, account, body):
            # Before anything is signed: a signature costs far more than a query.
            raise Problem("already-issued")
        try:
            # Before it is recorded: a number that cannot be signed must not use up the account's token.
            response = task.signer.sign(blinded)
        except WireError as error:
            raise Problem("malformed", str(error)) from None
        with self._lock:
            if not self._store.claim(task.task, account, body):
                raise Problem("already-issued")
        return response

    def directory(self) -> bytes:
        """Return the issuer directory of RFC 9578, section 4."""
        keys = [base64.urlsafe_b64encode(task.key).decode() for task in self._tasks.values()]
        return canonical(
            {
                "issuer-request-uri": "/token-request",
                "token-keys": [{"token-type": 2, "token-key": key} for key in keys],
            }
        )

    def ready(self) -> bool:
        """Return True if tokens can be issued now."""
        return bool(self._tasks) and self._store.writable()

    def close(self) -> None:
        """Free the keys."""
        for task in self._tasks.values():
            task.signer.close()


def _digest(code: str) -> bytes:
    return hashlib.sha256(b"hubbub/2 account code" + code.encode()).digest()
