"""The sample reverse proxies with a running shuffler: idle connections and stalled requests cost the others nothing."""

import contextlib
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.service.live import HEADERS, LiveSystem, wait_until

from hubbub.service.runtime.certificates import Authority

PROXIES = Path(__file__).parents[2] / "deploy" / "proxy"
IDLE, STALLED = 2000, 40
ADDRESSES = [f"127.0.1.{number}" for number in range(1, 41)]
"""Senders: a proxy allows a hundred connections from each."""

_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_CONTEXT.check_hostname, _CONTEXT.verify_mode = False, ssl.CERT_NONE


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def proxy(program: str, folder: Path, backend: str) -> Iterator[int]:
    """Run a sample proxy with its own certificate in front of an address; return its port."""
    issued = Authority.generate().issue("server", ["localhost"])
    (folder / "shuffler.key").write_bytes(issued.key)
    (folder / "shuffler.pem").write_bytes(issued.certificate + (issued.key if program == "haproxy" else b""))
    port = free_port()
    name = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}[program]
    text = (PROXIES / name).read_text().replace("127.0.0.1:8400", backend.removeprefix("http://"))
    text = text.replace("bind :443", f"bind 127.0.0.1:{port}").replace("listen 443", f"listen 127.0.0.1:{port}")
    text = text.replace(f"/etc/{program}", str(folder))
    config = folder / name
    if program == "haproxy":
        # The sample allows more connections than the limit of open files of an ordinary user.
        config.write_text(text.replace("maxconn 20000", "maxconn 5000"))
        command = ["haproxy", "-db", "-f", str(config)]
    else:
        paths = "".join(
            f"    {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        head = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nworker_rlimit_nofile 10000;\n"
        config.write_text(f"{head}events {{ worker_connections 8000; }}\nhttp {{\n{paths}{text}}}\n")
        command = ["nginx", "-c", str(config), "-p", str(folder)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: answers(port) or process.poll() is not None, "the proxy")
            assert process.poll() is None, (folder / "log").read_text()
            yield port
        finally:
            process.send_signal(signal.SIGKILL)


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def connect(port: int, number: int, sent: bytes) -> ssl.SSLSocket:
    """Open a TLS connection from one of many addresses and send some bytes."""
    source = (ADDRESSES[number % len(ADDRESSES)], 0)
    connection = _CONTEXT.wrap_socket(socket.create_connection(("127.0.0.1", port), 20, source_address=source))
    connection.sendall(sent)
    return connection


@pytest.mark.slow
@pytest.mark.parametrize("program", ["haproxy", "nginx"])
def test_idle_connections_and_stalled_bodies_behind_the_sample_proxy(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    live = LiveSystem(tmp_path / "live", width=1000, epoch=86_400)
    live.change("shuffler", {"address_header": "x-forwarded-for"})
    (tmp_path / "proxy").mkdir()
    with live.running(), proxy(program, tmp_path / "proxy", live.url) as port, contextlib.ExitStack() as stack:
        bundles = live.seal(range(100))
        url = f"https://127.0.0.1:{port}{live.path()}"
        client = stack.enter_context(httpx.Client(verify=False, trust_env=False, headers=HEADERS, timeout=30))

        def upload(some: list[bytes]) -> list[float]:
            found = []
            for one in some:
                begun = time.monotonic()
                assert client.post(url, content=one).status_code == 201
                found.append(time.monotonic() - begun)
            return found

        upload(bundles[:20])
        head = f"POST {live.path()} HTTP/1.1\r\nHost: x\r\nContent-Type: {HEADERS['content-type']}\r\n"
        stalled = f"{head}Content-Length: {100 * len(bundles[0])}\r\n\r\n".encode() + bundles[0]
        for number in range(IDLE):
            stack.enter_context(connect(port, number, b"" if number % 2 else head.encode()))
        for number in range(STALLED):
            stack.enter_context(connect(port, number, stalled))
        assert max(upload(bundles[20:])) < 5.0
        assert live.counts()["accepted"] == 100
        # The shuffler saw none of them: the proxy waits for whole requests.
        wait_until(lambda: live.ready("shuffler"), "the shuffler to be ready", 5)
