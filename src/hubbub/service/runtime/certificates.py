"""The private certificate authority of the link between shuffler and analyzer, and the certificates of its two ends.

It serves mutual TLS on this one link: only holders of its certificates can connect, and it is trusted for nothing else.
Each end makes its own key; the shuffler sends a request (PKCS #10, RFC 2986), which the authority certifies. Keys are
on P-256, which every proxy supports.
"""

import datetime
import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hubbub.errors import WireError, check_whole, reject
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.credentials import read_secret, write_file

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of the local machine, included in every server certificate."""
_USES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes

    def save(self, folder: Path | str, name: str) -> None:
        """Write ``name.pem`` and ``name.key`` with mode 0600; never overwrite existing files."""
        write_file(Path(folder) / f"{name}.key", self.key)
        write_file(Path(folder) / f"{name}.pem", self.certificate)

    def __repr__(self) -> str:
        return "Issued(certificate and key)"


class Authority:
    """A certificate authority for one link.

    >>> authority = Authority.generate()
    >>> server = authority.issue("server", ["analyzer.example"])
    >>> x509.load_pem_x509_certificate(server.certificate).issuer.rfc4514_string()
    'CN=hubbub link'
    """

    __slots__ = ("_certificate", "_key")

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        if certificate.public_key() != key.public_key():
            reject("the key of an authority", "match its certificate")
        self._certificate, self._key = certificate, key

    @classmethod
    def generate(cls, *, days: int = 3650, clock: Clock | None = None) -> Self:
        """Generate a key and a self-signed certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hubbub link")])
        usage = _usage(certificates=True)
        builder = _builder(name, name, key.public_key(), days, clock).add_extension(usage, critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read ``authority.pem`` and ``authority.key``; raise if anyone but the owner can read the key."""
        certificate_pem = (Path(folder) / "authority.pem").read_bytes()
        key_pem = read_secret(Path(folder) / "authority.key")
        try:
            certificate, key = x509.load_pem_x509_certificate(certificate_pem), load_pem_private_key(key_pem, None)
        except (ValueError, TypeError):
            raise WireError("authority.pem and authority.key must be a certificate and its key in PEM") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            reject("the key of an authority", "be on the curve P-256")
        return cls(certificate, key)

    @property
    def certificate(self) -> bytes:
        """The certificate that both ends trust, in PEM."""
        return self._certificate.public_bytes(Encoding.PEM)

    def save(self, folder: Path | str) -> None:
        """Write ``authority.pem`` and ``authority.key`` with mode 0600; never overwrite existing files."""
        Issued(self.certificate, _pem(self._key)).save(folder, "authority")

    def issue(
        self, use: Literal["server", "client"], names: Sequence[str], *, days: int = 825, clock: Clock | None = None
    ) -> Issued:
        """Issue a certificate and its key for host names or addresses; a server's also names the local machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Issued(self._sign(key.public_key(), use, names, days, clock), _pem(key))

    def certify(self, request: bytes, names: Sequence[str], *, days: int = 825, clock: Clock | None = None) -> bytes:
        """Return the client certificate of a request in PEM; of the request, only its key is used.

        Raise if the request is not signed with the key that it contains.
        """
        return self._sign(_read_request(request), "client", names, days, clock)

    def renew(self, certificate: bytes, *, days: int = 825, clock: Clock | None = None) -> bytes:
        """Return a new server certificate in PEM, for the key and the names of an earlier one of this authority."""
        try:
            old = x509.load_pem_x509_certificate(certificate)
            old.verify_directly_issued_by(self._certificate)
            names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            raise WireError("the certificate must be one of this authority, in PEM") from None
        hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
        return self._sign(_curve_key(old.public_key()), "server", hosts, days, clock)

    def _sign(
        self, key: ec.EllipticCurvePublicKey, use: str, names: Sequence[str], days: int, clock: Clock | None
    ) -> bytes:
        if use not in _USES:
            reject("use", "be 'server' or 'client'", use)
        subjects = dict.fromkeys([*names, *(LOCAL if use == "server" else ())])
        if not subjects:
            reject("names", "contain at least one name")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"hubbub {use}")])
        issuer = self._certificate.subject
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(subject, issuer, key, days, clock)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_USES[use]]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_name(name) for name in subjects]), critical=False)
            .add_extension(authority, critical=False)
        )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a certificate and its private key, both in PEM; only the request leaves the machine."""

    request: bytes
    key: bytes

    @classmethod
    def generate(cls) -> Self:
        """Generate a key, and a request that is signed with it."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hubbub client")])
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        return cls(request.public_bytes(Encoding.PEM), _pem(key))

    def save(self, folder: Path | str, name: str) -> None:
        """Write ``name.csr`` and ``name.key`` with mode 0600; never overwrite existing files."""
        write_file(Path(folder) / f"{name}.key", self.key)
        write_file(Path(folder) / f"{name}.csr", self.request)

    def __repr__(self) -> str:
        return "Request(request and key)"


def request_fingerprint(request: bytes) -> str:
    """Return the SHA-256 of the public key of a request, which two operators compare over a trusted channel."""
    key = _read_request(request).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


def expiry(certificate: Path) -> float:
    """Return the time at which the first certificate of a PEM file expires, in seconds since 1970."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        raise WireError(f"{certificate.name} must be a certificate in PEM") from None
    return found.not_valid_after_utc.timestamp()


def _read_request(request: bytes) -> ec.EllipticCurvePublicKey:
    try:
        found = x509.load_pem_x509_csr(request)
        valid = found.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise WireError("the request must be a certificate signing request (PKCS #10) in PEM") from None
    if not valid:
        raise WireError("the request must be signed with the key that it contains")
    return _curve_key(found.public_key())


def _curve_key(key: object) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        reject("the key of a certificate", "be on the curve P-256")
    return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int, clock: Clock | None
) -> x509.CertificateBuilder:
    start = datetime.datetime.fromtimestamp((clock or SystemClock()).now(), datetime.UTC)
    length = datetime.timedelta(days=check_whole("days", days, 1, 36500))
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Valid from an hour ago, because clocks differ.
        .not_valid_before(start - datetime.timedelta(hours=1))
        .not_valid_after(start + length)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        reject("host", "be a host name in ASCII or an address", name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
