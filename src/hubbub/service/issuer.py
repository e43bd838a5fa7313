"""The issuer of tokens: it knows accounts, records the request of each, and signs it blindly.

:class:`Signer` is the raw RSA operation, by OpenSSL: BlindSign of RFC 9474, section 4.3. ``cryptography`` offers
no RSA operation without padding, so it calls libcrypto, which computes in constant time and blinds its input. There is
no fallback: Python's integers leak the key through their running time, and a key that signs for a whole population is
not worth that. A wrong result of an RSA operation reveals the factors of the key, so every result is checked before it
is returned.

The store is a permanent record of the request that was answered for each account, so that none gets two tokens. A row
holds digests only: of the account and of the request. The token itself never passes through the issuer.
"""

import asyncio
import base64
import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.requests import Request
from starlette.responses import Response

from hubbub.documents import canonical
from hubbub.errors import HubbubError, InvalidInput, Problem, WireError, reject
from hubbub.service.program import public_context
from hubbub.service.runtime.credentials import read_secret, write_file
from hubbub.service.runtime.database import Store, open_database
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import App, allow_origins, body_of, routed, stored
from hubbub.service.runtime.metrics import Metrics, disk_free, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.server import Listener
from hubbub.service.runtime.settings import IssuerConfig
from hubbub.service.task.contract import Contract, load_contract
from hubbub.service.task.tokens import (
    KEY_BITS,
    REQUEST_SIZE,
    encode_token_key,
    load_token_key,
    parse_request,
    truncated_key_id,
)

_NO_PADDING = 3
_OLDEST = 0x30000000
_SIGNATURES = {
    "OpenSSL_version_num": (ctypes.c_ulong, []),
    "d2i_AutoPrivateKey": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]),
    "EVP_PKEY_free": (None, [ctypes.c_void_p]),
    "EVP_PKEY_CTX_new": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]),
    "EVP_PKEY_CTX_free": (None, [ctypes.c_void_p]),
    "EVP_PKEY_decrypt_init": (ctypes.c_int, [ctypes.c_void_p]),
    "EVP_PKEY_CTX_set_rsa_padding": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "EVP_PKEY_decrypt": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
}


class Signer:
    """The private key of one task."""

    def __init__(self, private: rsa.RSAPrivateKey) -> None:
        self._library = _library()
        numbers = private.public_key().public_numbers()
        self._modulus, self._exponent = numbers.n, numbers.e
        self._size = -(-private.key_size // 8)
        self.public = private.public_key()
        data = private.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        buffer = ctypes.create_string_buffer(data, len(data))
        place = ctypes.c_void_p(ctypes.addressof(buffer))
        self._key = self._library.d2i_AutoPrivateKey(None, ctypes.byref(place), len(data))
        ctypes.memset(buffer, 0, len(data))
        if not self._key:
            raise WireError("OpenSSL cannot read the private key of the issuer")

    def sign(self, blinded: bytes) -> bytes:
        """Return the blind signature of a blinded message; it depends on nothing else."""
        message = int.from_bytes(blinded, "big")
        if len(blinded) != self._size or not 0 < message < self._modulus:
            raise WireError(f"a blinded message must be a positive number of {self._size} bytes below the modulus")
        result = self._power(blinded)
        if pow(int.from_bytes(result, "big"), self._exponent, self._modulus) != message:
            raise HubbubError("the private operation failed its check; the result was not released")
        return result

    def _power(self, blinded: bytes) -> bytes:
        """Return the private power of a number of the modulus's size."""
        library = self._library
        output, size = ctypes.create_string_buffer(self._size), ctypes.c_size_t(self._size)
        with self._context() as context:
            good = (
                library.EVP_PKEY_decrypt_init(context) == 1
                and library.EVP_PKEY_CTX_set_rsa_padding(context, _NO_PADDING) == 1
                and library.EVP_PKEY_decrypt(context, output, ctypes.byref(size), blinded, self._size) == 1
            )
        if not good:
            raise HubbubError("OpenSSL refused the private operation")
        return output.raw[: size.value].rjust(self._size, b"\0")

    @contextlib.contextmanager
    def _context(self) -> Iterator[int]:
        context = self._library.EVP_PKEY_CTX_new(self._key, None)
        if not context:
            raise HubbubError("OpenSSL has no memory for the private operation")
        try:
            yield context
        finally:
            self._library.EVP_PKEY_CTX_free(context)

    def close(self) -> None:
        """Free the key."""
        key, self._key = self._key, None
        if key:
            self._library.EVP_PKEY_free(key)


class TokenKey:
    """An issuer's key for one task, with its public form as in the contract."""

    def __init__(self, private: rsa.RSAPrivateKey) -> None:
        self._private = private
        self.public = encode_token_key(private.public_key())
        load_token_key(self.public)

    @classmethod
    def generate(cls) -> "TokenKey":
        """Generate a key."""
        return cls(rsa.generate_private_key(65537, KEY_BITS))

    @classmethod
    def load(cls, path: Path) -> "TokenKey":
        """Read a private key in PEM; raises if anyone but its owner may read it."""
        text = read_secret(path)
        try:
            private = serialization.load_pem_private_key(text, None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, rsa.RSAPrivateKey):
            raise WireError(f"{path.name} must be a private RSA key in PEM, without a password")
        return cls(private)

    def save(self, path: Path) -> None:
        """Write the private key to a new file of mode 0600."""
        form = serialization.PrivateFormat.PKCS8
        write_file(path, self._private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))

    def signer(self) -> Signer:
        """Return the private operation."""
        return Signer(self._private)

    def __repr__(self) -> str:
        return f"TokenKey({self.public.hex()[-8:]})"


def _candidates() -> Iterator[str | None]:
    """Yield the libraries that may contain OpenSSL: the one that Python itself uses first."""
    with contextlib.suppress(ImportError):
        import _hashlib  # noqa: PLC0415 (some builds lack it)

        yield getattr(_hashlib, "__file__", None)
    yield ctypes.util.find_library("crypto")


@functools.cache
def _library() -> ctypes.CDLL:
    return load_library(_candidates)


def load_library(candidates: Callable[[], Iterator[str | None]]) -> ctypes.CDLL:
    """Return the first library that contains OpenSSL 3 or later; raise if there is none."""
    for name in candidates():
        if not name:
            continue
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(name)
            for function, (result, arguments) in _SIGNATURES.items():
                bound = getattr(library, function)
                bound.restype, bound.argtypes = result, arguments
            if library.OpenSSL_version_num() >= _OLDEST:
                return library
    raise InvalidInput(
        "the issuer needs the shared library libcrypto of OpenSSL 3 or later, and found none: install it "
        "(Debian: libssl3), or let another Privacy Pass issuer sign"
    )


_TABLES = (
    """issued (task {blob}, account {blob}, request {blob} NOT NULL, PRIMARY KEY (task, account)) {clustered}""",
)
_ID_SIZE = 16
_REQUEST = "SELECT request FROM issued WHERE task = ? AND account = ?"


class IssuerStore(Store):
    """The requests that were answered."""

    role = "issuer"
    version = 1
    tables = _TABLES

    def claim(self, task: bytes, account: str, request: bytes) -> bool:
        """Record that an account's token is issued for a request; return False if it was issued for another one.

        Durable on return. The same request may be answered again: its signature is the same.
        """
        owner, digest = _owner(account), hashlib.sha256(request).digest()
        with self._writer.transaction():
            statement = "INSERT INTO issued VALUES (?, ?, ?) ON CONFLICT (task, account) DO NOTHING"
            self._writer.run(statement, task, owner, digest)
            known = bytes(self._writer.rows(_REQUEST, task, owner)[0][0])
            reach("issue-recorded")
        reach("issue-committed")
        return known == digest

    def issued_another(self, task: bytes, account: str, request: bytes) -> bool:
        """Return True if an account's token was issued for another request."""
        rows = self._reader.rows(_REQUEST, task, _owner(account))
        return bool(rows) and bytes(rows[0][0]) != hashlib.sha256(request).digest()

    def issued(self) -> int:
        """Return the number of tokens issued."""
        return int(self._reader.rows("SELECT COUNT(*) FROM issued")[0][0])


def _owner(account: str) -> bytes:
    return hashlib.sha256(b"hubbub/2 issuer account" + account.encode()).digest()[:_ID_SIZE]


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


REQUEST_TYPE = "application/private-token-request"
RESPONSE_TYPE = "application/private-token-response"
DIRECTORY_TYPE = "application/private-token-issuer-directory"
DIRECTORY_PATH = "/.well-known/private-token-issuer-directory"
_MAX_ACCOUNT = 256


def issuer_app(issuer: Issuer, account_header: str = "") -> App:
    """Serve token requests.

    The account is the value of ``account_header``, which a trusted front sets, or that of the code in
    ``Authorization: Bearer CODE``.
    """

    def account(request: Request) -> str:
        if account_header:
            values = request.headers.getlist(account_header)
            if len(values) != 1 or not 0 < len(values[0]) <= _MAX_ACCOUNT:
                # Two values would leave it open which of them the front has set.
                raise Problem("unauthorized")
            return values[0]
        scheme, _, code = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Problem("unauthorized")
        return issuer.account_of_code(code.strip())

    async def token_request(request: Request) -> Response:
        if request.headers.get("content-type") != REQUEST_TYPE:
            raise Problem("wrong-media-type", f"the media type must be {REQUEST_TYPE}")
        name = account(request)
        body = await body_of(request, REQUEST_SIZE)
        return Response(await asyncio.to_thread(issuer.issue, name, body), media_type=RESPONSE_TYPE)

    async def directory(request: Request) -> Response:
        return stored(request, issuer.directory(), DIRECTORY_TYPE)

    return routed([("POST", "/token-request", token_request), ("GET", DIRECTORY_PATH, directory)])


KEY_PATTERN = "*.pem"
CORS_HEADERS = "authorization, content-type"
"""Headers of a token request that a page of another origin may set; the code of the account is in the first."""


def load_keys(folder: Path) -> list[TokenKey]:
    """Return the token keys in a folder."""
    return [TokenKey.load(path) for path in sorted(folder.glob(KEY_PATTERN))]


def add_key(folder: Path) -> TokenKey:
    """Generate a key for one more task and store it in a folder of token keys.

    The last byte of its id differs from those of the folder's other keys, because requests name a key by that byte.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    taken = {truncated_key_id(key.public) for key in load_keys(folder)}
    if len(taken) == 256:
        raise InvalidInput("an issuer can have at most 256 keys; remove those of finished tasks")
    while True:
        key = TokenKey.generate()
        if truncated_key_id(key.public) not in taken:
            break
    key.save(folder / f"{truncated_key_id(key.public):02x}.pem")
    return key


class IssuerProgram:
    """The issuer with the given settings."""

    def __init__(self, config: IssuerConfig) -> None:
        self.config, self.common = config, config.common
        common = self.common
        self._folder = ServiceFolder(common.folder, "issuer")
        minimum = common.min_batch_size
        contracts = [load_contract(path.read_bytes(), min_batch_size=minimum).contract for path in common.contracts]
        tasks = issued_tasks(contracts, load_keys(config.token_keys))
        url = common.store or f"sqlite:{common.folder / 'issuer'}.db"
        try:
            self._store = IssuerStore(lambda: open_database(url))
        except BaseException:
            self._folder.close()
            raise
        self.issuer = Issuer(self._store, tasks, read_codes(config.codes) if config.codes else None)
        self._draining = False

    def listeners(self) -> list[Listener]:
        """Return the listeners for token requests and for operators."""
        config, common = self.config, self.common
        public = public_context(config.certificate, config.certificate_key)
        app = allow_origins(issuer_app(self.issuer, config.account_header), config.origins, CORS_HEADERS)
        metrics = Metrics(lambda: {"disk_free": disk_free(common.folder)})
        return [
            Listener("tokens", app, config.listen, context=public, connections=common.connections),
            Listener("operations", operations_app(metrics, self.ready), config.operations),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Return no periodic tasks."""
        return []

    def ready(self) -> bool:
        """Return True if tokens are issued."""
        return not self._draining and self.issuer.ready()

    def drain(self) -> None:
        """Report that no more requests are wanted."""
        self._draining = True

    def close(self) -> None:
        """Close the store and free the keys."""
        self._store.shut()
        self.issuer.close()
        self._folder.close()
