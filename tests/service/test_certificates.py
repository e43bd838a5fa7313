"""Both ends of the link authenticate with certificates of one authority; everyone else is rejected."""

import ssl
import subprocess
from pathlib import Path

import pytest

from hubbub.errors import HubbubError, InvalidInput, WireError
from hubbub.service.provision import certify, provision_role, renew_link
from hubbub.service.runtime.certificates import Authority, Issued, Request, expiry, request_fingerprint
from hubbub.service.runtime.clock import MockClock


def context(purpose: ssl.Purpose, folder: Path, authority: Authority, own: Issued | None) -> ssl.SSLContext:
    made = ssl.create_default_context(purpose, cadata=authority.certificate.decode())
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    if own is not None:
        folder.mkdir()
        own.save(folder, "own")
        made.load_cert_chain(folder / "own.pem", folder / "own.key")
    return made


def connect(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> None:
    """Do a handshake in memory and send a byte each way: in TLS 1.3 a rejected client notices at the first byte."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up, server_hostname=name)]
    done = [False, False]
    for _ in range(6):
        for i, end in enumerate(ends):
            if not done[i]:
                try:
                    end.do_handshake()
                    done[i] = True
                except ssl.SSLWantReadError:
                    pass
    assert all(done)
    ends[1].write(b"a")
    assert ends[0].read(1) == b"a"
    ends[0].write(b"b")
    assert ends[1].read(1) == b"b"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.generate()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "analyzer.example"])
def test_the_two_ends_connect(tmp_path: Path, authority: Authority, name: str) -> None:
    server, client = authority.issue("server", ["analyzer.example"]), authority.issue("client", ["shuffler"])
    connect(
        context(ssl.Purpose.CLIENT_AUTH, tmp_path / "a", authority, server),
        context(ssl.Purpose.SERVER_AUTH, tmp_path / "b", authority, client),
        name,
    )


def test_all_other_pairs_are_rejected(tmp_path: Path, authority: Authority) -> None:
    other = Authority.generate()
    server, client = authority.issue("server", []), authority.issue("client", ["shuffler"])
    old = authority.issue("client", ["shuffler"], days=1, clock=MockClock(1e9))
    pairs = [
        (server, None, "localhost"),
        (server, other.issue("client", ["shuffler"]), "localhost"),
        (other.issue("server", []), client, "localhost"),
        (server, old, "localhost"),
        (server, server, "localhost"),
        (client, client, "shuffler"),
        (server, client, "elsewhere.example"),
    ]
    for number, (one, two, name) in enumerate(pairs):
        ends = (
            context(ssl.Purpose.CLIENT_AUTH, tmp_path / f"{number}a", authority, one),
            context(ssl.Purpose.SERVER_AUTH, tmp_path / f"{number}b", authority, two),
        )
        with pytest.raises(ssl.SSLError):
            connect(*ends, name)


def test_authorities_are_saved_and_loaded(tmp_path: Path, authority: Authority) -> None:
    authority.save(tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "authority.pem": 0o600,
        "authority.key": 0o600,
    }
    again = Authority.load(tmp_path)
    assert again.certificate == authority.certificate
    assert b"PRIVATE" not in again.certificate
    with pytest.raises(InvalidInput, match="not exist"):
        Authority.generate().save(tmp_path)
    assert "BEGIN" not in repr(authority.issue("server", []))
    (tmp_path / "authority.key").chmod(0o644)
    with pytest.raises(InvalidInput, match="owner only"):
        Authority.load(tmp_path)


def test_invalid_files_and_arguments(tmp_path: Path, authority: Authority) -> None:
    authority.save(tmp_path)
    key = tmp_path / "authority.key"
    good = key.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    Authority.generate().save(other)
    for content, error in ((b"", WireError), ((other / "authority.key").read_bytes(), InvalidInput)):
        key.write_bytes(content)
        with pytest.raises(error):
            Authority.load(tmp_path)
    key.write_bytes(good)
    (tmp_path / "authority.pem").write_bytes(b"nothing")
    with pytest.raises(WireError):
        Authority.load(tmp_path)
    for use, names, days in (("client", [], 5), ("both", ["a"], 5), ("server", ["é"], 5), ("server", ["a"], 0)):
        with pytest.raises(HubbubError):
            authority.issue(use, names, days=days)  # type: ignore[arg-type]


def test_a_certified_request_connects(tmp_path: Path, authority: Authority) -> None:
    made = Request.generate()
    client = Issued(authority.certify(made.request, ["shuffler"]), made.key)
    connect(
        context(ssl.Purpose.CLIENT_AUTH, tmp_path / "a", authority, authority.issue("server", [])),
        context(ssl.Purpose.SERVER_AUTH, tmp_path / "b", authority, client),
    )
    assert b"PRIVATE" not in made.request
    assert "BEGIN" not in repr(made)
    # It is a client's certificate only, whatever the request asks for.
    with pytest.raises(ssl.SSLError):
        connect(
            context(ssl.Purpose.CLIENT_AUTH, tmp_path / "c", authority, client),
            context(ssl.Purpose.SERVER_AUTH, tmp_path / "d", authority, client),
            "shuffler",
        )


def test_requests_that_are_refused(tmp_path: Path, authority: Authority) -> None:
    one, two = Request.generate(), Request.generate()
    assert request_fingerprint(one.request) != request_fingerprint(two.request)
    body = bytearray(one.request)
    # Another key in a signed request: the signature no longer holds.
    place = body.index(b"\n", 90) - 5
    body[place] = ord("A") if body[place] != ord("A") else ord("B")
    openssl = ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", "/dev/null"]
    rsa = subprocess.run(openssl, capture_output=True, check=True).stdout
    for request in (b"", one.key, authority.certificate, bytes(body), rsa):
        with pytest.raises(InvalidInput):
            authority.certify(request, ["shuffler"])


def test_a_request_made_by_openssl(authority: Authority) -> None:
    """The run book replaces a link key with these options."""
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=shuffler"]
    made = subprocess.run(["openssl", "req", "-new", *options, "-keyout", "/dev/null"], capture_output=True, check=True)
    assert authority.certify(made.stdout, ["shuffler"]).startswith(b"-----BEGIN CERTIFICATE")


def test_certificates_are_renewed(tmp_path: Path) -> None:
    analyzer, shuffler = tmp_path / "analyzer", tmp_path / "shuffler"
    provision_role(analyzer, "analyzer", host="analyzer.example")
    provision_role(shuffler, "shuffler", host="analyzer.example")
    request = (shuffler / "link.csr").read_bytes()
    passed = certify(analyzer, request, days=10)
    assert renew_link(analyzer, days=20) == analyzer / "link.pem"
    before = [expiry(passed / "link.pem"), expiry(analyzer / "link.pem")]
    # The request stays valid: the same file is certified again.
    certify(analyzer, request, days=30)
    renew_link(analyzer, days=40)
    after = [expiry(passed / "link.pem"), expiry(analyzer / "link.pem")]
    assert [round((b - a) / 86_400) for a, b in zip(before, after, strict=True)] == [20, 20]
    (shuffler / "link.pem").write_bytes((passed / "link.pem").read_bytes())
    authority = Authority.load(analyzer)
    ends = []
    for folder, purpose in ((analyzer, ssl.Purpose.CLIENT_AUTH), (shuffler, ssl.Purpose.SERVER_AUTH)):
        end = context(purpose, tmp_path, authority, None)
        end.load_cert_chain(folder / "link.pem", folder / "link.key")
        ends.append(end)
    for name in ("analyzer.example", "localhost"):
        connect(ends[0], ends[1], name)
    with pytest.raises(WireError, match="one of this authority"):
        authority.renew(Authority.generate().issue("server", ["x"]).certificate)
    (tmp_path / "text.pem").write_text("nothing")
    with pytest.raises(WireError, match=r"text\.pem must be a certificate"):
        expiry(tmp_path / "text.pem")
