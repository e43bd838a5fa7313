"""Sockets: certificates on both sides of the link, file modes, and the exact bytes of a response."""

import asyncio
import contextlib
import inspect
import os
import re
import socket
import ssl
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import uvicorn
from tests.service.sockets import served
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hubbub.errors import AnalyzerUnreachable, InvalidInput, Problem
from hubbub.service.runtime import server as connection
from hubbub.service.runtime.certificates import Authority
from hubbub.service.runtime.http import Receive, Scope, Send, UnsignalledServer, answer, read_body
from hubbub.service.runtime.server import (
    Listener,
    Server,
    address_of,
    bind,
    check_private,
    client_context,
    server_context,
)
from hubbub.service.shuffler.delivery import MAX_RESPONSE_SIZE, HttpsAnalyzerClient


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with 201 and no body."""
    await answer(send, 201, [(b"content-length", b"0")])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write certificates: ``server`` and ``client`` of one authority, ``stranger`` and ``impostor`` of another."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority.generate()
    authority.save(folder)
    authority.issue("server", ["analyzer"]).save(folder, "server")
    authority.issue("client", ["shuffler"]).save(folder, "client")
    other = Authority.generate()
    (folder / "other").mkdir()
    other.save(folder / "other")
    other.issue("client", ["shuffler"]).save(folder, "stranger")
    other.issue("server", ["analyzer"]).save(folder, "impostor")
    return folder


def linked(certificates: Path, who: str = "server") -> Listener:
    context = server_context(certificates / f"{who}.pem", certificates / f"{who}.key", certificates / "authority.pem")
    return Listener(name="link", app=keys, address="127.0.0.1:0", context=context)


async def keys(scope: Scope, receive: Receive, send: Send) -> None:
    """Play the analyzer's side of the link."""
    if scope["method"] == "PUT":
        await read_body(receive, int(dict(scope["headers"])[b"content-length"]), 10)
    path = scope["path"]
    body = {
        "/v1/keys": b"keys",
        "/v1/batches/receipt": b"receipt",
        "/v1/batches/parts": b'{"missing":[1,2]}',
        "/v1/batches/strange": b'{"missing":[true]}',
        "/v1/batches/conflict": b'{"type":"urn:hubbub:problem:conflict"}',
        "/v1/batches/fenced": b'{"type":"urn:hubbub:problem:fenced"}',
    }.get(path, b"")
    statuses = {"parts": 202, "strange": 202, "conflict": 409, "fenced": 409}
    status = statuses.get(path.rpartition("/")[2], 200)
    if "chunks" in path:
        status = 204
    if path == "/v1/batches/endless":
        body = bytes(MAX_RESPONSE_SIZE + 1)
    await answer(send, status, [(b"content-length", str(len(body)).encode())] if status != 204 else [], body)


def reach(
    address: str, certificates: Path, who: str = "client", authority: str = "authority.pem"
) -> contextlib.closing[HttpsAnalyzerClient]:
    context = client_context(certificates / f"{who}.pem", certificates / f"{who}.key", certificates / authority)
    return connect(address, context)


def connect(address: str, context: ssl.SSLContext) -> contextlib.closing[HttpsAnalyzerClient]:
    return contextlib.closing(HttpsAnalyzerClient(address, context, seconds=600))


def test_the_link_accepts_certificates_of_its_authority(certificates: Path) -> None:
    with served(linked(certificates)) as address, reach(address, certificates) as link:
        assert address.startswith("https://")
        assert link.keys() == b"keys"
        assert link.put_manifest("receipt", b"m") == b"receipt"
        assert link.put_manifest("parts", b"m") == [1, 2]
        link.put_chunk("parts", 1, b"data" * 1000)
        with pytest.raises(AnalyzerUnreachable, match=r"409 \(conflict\)"):
            link.put_manifest("conflict", b"m")
        with pytest.raises(Problem, match="fenced"):
            link.put_manifest("fenced", b"m")
        with pytest.raises(AnalyzerUnreachable, match="analyzer"):
            link.put_manifest("strange", b"m")
        with pytest.raises(AnalyzerUnreachable, match="analyzer"):
            link.put_manifest("endless", b"m")


def test_the_link_rejects_everyone_else(certificates: Path) -> None:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(certificates / "authority.pem")
    with served(linked(certificates)) as address:
        with connect(address, trusting) as nobody, pytest.raises(AnalyzerUnreachable, match="analyzer"):
            nobody.keys()
        with reach(address, certificates, "stranger") as stranger, pytest.raises(AnalyzerUnreachable, match="analyzer"):
            stranger.keys()
        # A server certificate is not a client certificate, and TLS before 1.3 is not supported.
        with reach(address, certificates, "server") as wrong, pytest.raises(AnalyzerUnreachable, match="analyzer"):
            wrong.keys()
        old = client_context(certificates / "client.pem", certificates / "client.key", certificates / "authority.pem")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
        with connect(address, old) as past, pytest.raises(AnalyzerUnreachable, match="analyzer"):
            past.keys()
        with pytest.raises(httpx.HTTPError):
            httpx.get(address.replace("https", "http") + "/v1/keys", trust_env=False)


def test_the_shuffler_rejects_an_impostor(certificates: Path) -> None:
    with (
        served(linked(certificates, "impostor")) as address,
        reach(address, certificates) as link,
        pytest.raises(AnalyzerUnreachable, match="analyzer"),
    ):
        link.keys()


def test_an_unreachable_analyzer_is_an_error(certificates: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{probe.getsockname()[1]}"
        with reach(address, certificates) as link, pytest.raises(AnalyzerUnreachable, match=r"analyzer.*ConnectError"):
            link.keys()


def test_keys_that_others_can_read_are_rejected(certificates: Path, tmp_path: Path) -> None:
    key = tmp_path / "open.key"
    key.write_bytes((certificates / "server.key").read_bytes())
    key.chmod(0o640)
    for call in (
        lambda: check_private(key),
        lambda: server_context(certificates / "server.pem", key),
        lambda: client_context(certificates / "server.pem", key, certificates / "authority.pem"),
    ):
        _refused(call)


def test_systemd_credentials_may_have_group_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "link.key"
    key.touch()
    key.chmod(0o440)
    _refused(lambda: check_private(key))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert check_private(key) == key
    key.chmod(0o444)
    _refused(lambda: check_private(key))


def _refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match="readable by its owner only"):
        call()


def test_the_bytes_of_an_answer() -> None:
    listener = Listener(name="uploads", app=hello, address="127.0.0.1:0")
    with served(listener) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=600) as way:
            seen = set()
            for _ in range(3):
                way.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                seen.add(way.recv(4096))
    assert seen == {b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"}


def test_too_many_connections_get_503() -> None:
    listener = Listener(name="uploads", app=hello, address="127.0.0.1:0", connections=2)
    with served(listener) as address, contextlib.ExitStack() as stack:
        host, port = address.removeprefix("http://").split(":")
        for _ in range(2):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=600))
        statuses = {httpx.get(address, trust_env=False, timeout=600).status_code for _ in range(3)}
    assert statuses == {503}


def test_a_unix_socket_is_private_and_replaces_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "s"
    address = f"unix:{path}"
    before = os.umask(0)
    try:
        bind(address).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with bind(address) as bound:
        assert address_of(Listener(name="admin", app=hello, address=address), bound) == address
        with pytest.raises(OSError, match="in use"):
            bind(address)
    assert path.is_socket()


def test_a_file_that_is_not_a_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        bind(f"unix:{path}")
    assert path.read_text() == "precious"


def test_the_error_names_an_address_in_use() -> None:
    with bind("127.0.0.1:0") as bound, pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
        bind(f"127.0.0.1:{bound.getsockname()[1]}")
    assert caught.value.filename is not None


def test_a_request_head_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the parser accepted headers without end and waited for them forever."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)

    async def talk(*parts: bytes) -> bytes:
        with bind("127.0.0.1:0") as bound:
            server = Server(Listener(name="x", app=hello, address=""))
            serving = asyncio.create_task(server.serve([bound]))
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0.01)
            said = await asyncio.wait_for(reader.read(), 600)
            writer.close()
            server.should_exit = True
            await serving
        return said

    begun = b"GET / HTTP/1.1\r\nHost: x\r\n"
    assert asyncio.run(talk(begun)) == b""
    assert asyncio.run(talk()) == b""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 600.0)  # what follows is refused for its size
    for much in ([b"X: "] + [b"y" * 9000] * 8, [b"X: y\r\n" * 11_000], [b"y" * 70_000]):
        assert asyncio.run(talk(begun, *much)).startswith(b"HTTP/1.1 431 ")
    assert asyncio.run(talk(b"GET /" + b"a" * 70_000)).startswith(b"HTTP/1.1 431 ")
    whole = begun + b"X: " + b"y" * 60_000 + b"\r\nConnection: close\r\n\r\n"
    assert asyncio.run(talk(whole[:30_000], whole[30_000:])).startswith(b"HTTP/1.1 201 ")


OVERRIDES = {
    HttpToolsProtocol: {
        "connection_made": ["self", "transport"],
        "connection_lost": ["self", "exc"],
        "data_received": ["self", "data"],
        "on_message_begin": ["self"],
        "on_url": ["self", "url"],
        "on_header": ["self", "name", "value"],
        "on_headers_complete": ["self"],
        "on_message_complete": ["self"],
        "send_400_response": ["self", "msg"],
    },
    uvicorn.Server: {"capture_signals": ["self"]},
}
"""The overridden methods of uvicorn and their parameters."""


def test_the_overridden_internals_of_uvicorn_exist() -> None:
    """Fails when a new release of uvicorn renames or changes a method that the services override."""
    for base, methods in OVERRIDES.items():
        found = {name: list(inspect.signature(getattr(base, name)).parameters) for name in methods}
        assert found == methods
    overriding = (connection.Connection, UnsignalledServer)
    own = {name for cls in overriding for name, value in vars(cls).items() if callable(value) and name[0] != "_"}
    assert own == {name for methods in OVERRIDES.values() for name in methods}
    source = inspect.getsource(HttpToolsProtocol)
    assert "self.transport" in source
    assert "self.loop" in source


def test_uvicorn_is_bounded_above() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (requirement,) = [one for one in project["optional-dependencies"]["serve"] if one.startswith("uvicorn")]
    low, high = re.fullmatch(r"uvicorn>=0\.(\d+),<0\.(\d+)", requirement).groups()  # type: ignore[union-attr]
    assert int(low) <= int(uvicorn.__version__.split(".")[1]) < int(high)
