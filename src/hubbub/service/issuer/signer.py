"""The raw private RSA operation, by OpenSSL: BlindSign of RFC 9474, section 4.3.

``cryptography`` offers no RSA operation without padding, so this module calls libcrypto, which computes in constant
time and blinds its input. There is no fallback: Python's integers leak the key through their running time, and a key
that signs for a whole population is not worth that. A wrong result of an RSA operation reveals the factors of the key,
so every result is checked before it leaves this module.
"""

import contextlib
import ctypes
import ctypes.util
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hubbub.errors import HubbubError, InvalidInput, WireError
from hubbub.service.runtime.credentials import read_secret, write_file
from hubbub.service.task.tokens import KEY_BITS, encode_token_key, load_token_key

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
