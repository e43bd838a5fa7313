"""A small web server for the browser client: its modules under a strict policy, and a relay to a shuffler.

The relay passes on the path, the media type and the body, and neither address, cookies nor any other header: the
shuffler sees the address of the relay only. For demonstrations and tests; docs/howto/browser.md has the settings of
nginx for production.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

TYPES = {".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".css": "text/css"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; connect-src 'self'"
"""Neither inline scripts nor ``eval``."""
RELAYED = ("content-type", "retry-after")
MAX_BODY = 1 << 21
Content = Callable[[], bytes]


class PageServer:
    """Serves folders by their prefix, documents by their path, and ``/relay`` and ``/issuer`` as relays."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        documents: Mapping[str, Content] | None = None,
        relays: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        connect: str = "",
    ) -> None:
        self.folders, self.documents, self.relays = dict(folders), dict(documents or {}), dict(relays or {})
        self.policy = f"{POLICY} {connect}".strip()
        # Certificate authorities are loaded only if a relay needs them.
        encrypted = any(url.startswith("https:") for url in self.relays.values())
        self._client = httpx.Client(headers={"user-agent": ""}, verify=encrypted, trust_env=False, timeout=30.0)
        self.statuses: Counter[int] = Counter()
        """Responses of the relays by status."""
        page_server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                page_server.answer(self, b"")

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                if length > MAX_BODY:
                    self.close_connection = True
                    page_server.send(self, 413, b"", {})
                    return
                page_server.answer(self, self.rfile.read(length))

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: requests tell who answers when."""

        self._server = _Server(("127.0.0.1", port), Handler)

    @property
    def origin(self) -> str:
        """The origin of the pages."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer a request."""
        path = request.path.partition("?")[0]
        for prefix, url in self.relays.items():
            if path.startswith(prefix + "/"):
                self._relay(request, url + path[len(prefix) :], body)
                return
        if path in self.documents:
            self.send(request, 200, self.documents[path](), {"content-type": "application/json"})
            return
        for prefix, folder in self.folders.items():
            file = (folder / path[len(prefix) :].lstrip("/")).resolve()
            if path.startswith(prefix) and file.is_relative_to(folder.resolve()) and file.is_file():
                kind = TYPES.get(file.suffix, "application/octet-stream")
                self.send(request, 200, file.read_bytes(), {"content-type": kind})
                return
        self.send(request, 404, b"", {})

    def _relay(self, request: BaseHTTPRequestHandler, url: str, body: bytes) -> None:
        names = ("content-type", "authorization") if request.command == "POST" else ()
        headers = {name: value for name in names if (value := request.headers.get(name))}
        try:
            response = self._client.request(request.command, url, content=body, headers=headers)
        except httpx.HTTPError:
            self.send(request, 502, b"", {})
            return
        self.statuses[response.status_code] += 1
        kept = {name: response.headers[name] for name in RELAYED if name in response.headers}
        self.send(request, response.status_code, response.content, kept)

    def send(self, request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a response."""
        request.send_response(status)
        for name, value in {**headers, "content-security-policy": self.policy, "cache-control": "no-store"}.items():
            request.send_header(name, value)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        with contextlib.suppress(ConnectionError):
            request.wfile.write(body)

    @contextlib.contextmanager
    def running(self) -> Iterator["PageServer"]:
        """Serve in a thread until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._client.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that break: tabs are closed at any time."""


def as_json(value: object) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value).encode()
