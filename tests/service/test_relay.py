"""The relay: it passes on what a service needs, nothing about the sender, and only the requests of clients."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.service.asgi import Answer, ask
from tests.service.sockets import served

from hubbub.errors import InvalidInput, WireError
from hubbub.oprf import Evaluation
from hubbub.service.provision import serve_role
from hubbub.service.relay import MAX_RESPONSE, MAX_UPLOAD, ROUTES, connection, relay_app
from hubbub.service.runtime.http import PREFIX, RateLimiter, Receive, Scope, Send
from hubbub.service.runtime.server import Listener
from hubbub.service.runtime.settings import RelayConfig, read_config, settings_file
from hubbub.service.task.strings import (
    EVALUATION_TYPE,
    MAX_EVALUATIONS,
    MAX_REQUEST_SIZE,
    EvaluationRequest,
    read_evaluation,
    write_evaluation,
)
from hubbub.service.transport import MEDIA_TYPE

TASK = "00112233445566778899aabbccddeeff"
PATHS = {(one.method, one.path.format(task=TASK)): one for one in ROUTES}
SETTINGS = 'shuffler = "http://127.0.0.1:1"\nanalyzer = "http://127.0.0.1:2"\n'


class Upstream:
    """Two services that record what they get."""

    def __init__(self, respond: Callable[[httpx.Request], httpx.Response] | None = None) -> None:
        self.seen: list[tuple[str, httpx.Request]] = []
        self._respond = respond or (lambda request: httpx.Response(200, json={}))

    def client(self, name: str) -> httpx.AsyncClient:
        def handle(request: httpx.Request) -> httpx.Response:
            self.seen.append((name, request))
            return self._respond(request)

        made = connection(f"https://{name}.example", None)
        return httpx.AsyncClient(
            transport=httpx.MockTransport(handle), base_url=made.base_url, headers={"user-agent": ""}, trust_env=False
        )

    def ask(self, method: str, path: str, body: bytes = b"", **told: str) -> Answer:
        app = relay_app({name: self.client(name) for name in ("shuffler", "analyzer")})
        return answered(app, method, path, body, told)


def answered(app: object, method: str, path: str, body: bytes, told: dict[str, str], client: str = "") -> Answer:
    headers = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in told.items()}}
    found = asyncio.run(ask(app, method, path, body, headers, client or "192.0.2.1"))  # type: ignore[arg-type]
    assert found is not None
    return found


def problem(answer: Answer) -> str:
    return str(json.loads(answer.body)["type"]).removeprefix(PREFIX)


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_nothing_about_the_sender_is_passed_on(method: str, path: str) -> None:
    route, upstream = PATHS[method, path], Upstream()
    told = {
        "user_agent": "Phone 7",
        "cookie": "id=7",
        "authorization": "Bearer 7",
        "x_forwarded_for": "192.0.2.1",
        "forwarded": "for=192.0.2.1",
        "accept_language": "nds",
        "if_none_match": '"7"',
        "origin": "https://example.org",
        "referer": "https://example.org/7",
    }
    body = b"sealed" if route.media_type else b""
    bare = {"content_type": route.media_type} if route.media_type else {}
    for headers in (bare, bare | told):
        assert upstream.ask(method, path, body, **headers).status == 200
    (name, first), (again, second) = upstream.seen
    assert name == again == route.service
    assert (first.method, first.url.path, first.url.query) == (method, path, b"")
    # Whatever the client says about itself, the service gets the same bytes.
    assert first.headers.raw == second.headers.raw
    assert first.content == second.content == body
    assert b"7" not in b"".join(value for _, value in second.headers.raw)


def test_a_response_keeps_only_what_clients_need() -> None:
    told = {"set-cookie": "id=7", "etag": '"7"', "retry-after": "9", "x-id": "7", "content-type": "application/json"}
    upstream = Upstream(lambda _: httpx.Response(429, headers=told, content=b"{}"))
    answer = upstream.ask("GET", f"/v1/tasks/{TASK}/keys")
    assert (answer.status, answer.body) == (429, b"{}")
    assert answer.headers == {"content-type": "application/json", "retry-after": "9", "content-length": "2"}
    page = Upstream(lambda _: httpx.Response(200, headers={"content-type": "text/html", "retry-after": "soon"}))
    assert page.ask("GET", f"/v1/tasks/{TASK}/keys").headers == {"content-length": "0"}


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "name"),
    [
        ("GET", "/v1/tasks", b"", "", "not-found"),
        ("GET", f"/v1/tasks/{TASK}/bundles", b"", "", "method-not-allowed"),
        ("GET", f"/v1/tasks/{TASK}/counter", b"", "", "not-found"),
        ("PUT", f"/v1/batches/{TASK}", b"{}", "application/json", "not-found"),
        ("GET", f"/v1/tasks/{TASK[:-1]}/keys", b"", "", "unknown-task"),
        ("GET", f"/v1/tasks/{TASK.upper()}/keys", b"", "", "unknown-task"),
        ("POST", f"/v1/tasks/{TASK}/bundles", b"x", "text/plain", "wrong-media-type"),
        ("POST", f"/v1/tasks/{TASK}/evaluations", b"x", MEDIA_TYPE, "wrong-media-type"),
        ("POST", f"/v1/tasks/{TASK}/bundles", bytes(MAX_UPLOAD + 1), MEDIA_TYPE, "too-large"),
        ("POST", f"/v1/tasks/{TASK}/evaluations", bytes(MAX_REQUEST_SIZE + 1), EVALUATION_TYPE, "too-large"),
    ],
)
def test_other_requests_are_refused(method: str, path: str, body: bytes, kind: str, name: str) -> None:
    upstream = Upstream()
    answer = upstream.ask(method, path, body, **({"content_type": kind} if kind else {}))
    assert problem(answer) == name
    assert not upstream.seen


def test_a_service_that_fails_or_floods_is_unavailable() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused by 192.0.2.9", request=request)

    for respond in (fail, lambda _: httpx.Response(200, content=bytes(MAX_RESPONSE + 1))):
        answer = Upstream(respond).ask("GET", f"/v1/tasks/{TASK}/keys")
        assert (answer.status, problem(answer), answer.headers["retry-after"]) == (503, "unavailable", "5")
        assert b"192.0.2.9" not in answer.body


def test_one_address_does_not_get_the_evaluations_of_all(tmp_path: Path) -> None:
    """Regression: the relay limited nobody by default, and an evaluation counted as one request, whatever its size."""
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS)
    config = read_config(path, RelayConfig)
    upstream = Upstream()
    clients = {name: upstream.client(name) for name in ("shuffler", "analyzer")}
    limiter = RateLimiter(rate=config.rate, burst=config.burst, header=config.address_header)
    assert config.rate > 0
    app = relay_app(clients, limiter)
    body = EvaluationRequest(1, (bytes(32),) * MAX_EVALUATIONS).to_bytes()
    told, place = {"content_type": EVALUATION_TYPE}, f"/v1/tasks/{TASK}/evaluations"
    statuses = [answered(app, "POST", place, body, told, "192.0.2.1").status for _ in range(20)]
    assert statuses == [200] + [429] * 19
    small = EvaluationRequest(1, (bytes(32),)).to_bytes()
    assert answered(app, "POST", place, small, told, "192.0.2.2").status == 200
    assert answered(app, "GET", f"/v1/tasks/{TASK}", b"", {}, "192.0.2.1").status == 200


def test_an_address_that_sends_too_much_is_told_to_wait() -> None:
    upstream = Upstream()
    clients = {name: upstream.client(name) for name in ("shuffler", "analyzer")}
    app = relay_app(clients, RateLimiter(rate=0.001, burst=2))
    path = f"/v1/tasks/{TASK}/keys"
    assert [answered(app, "GET", path, b"", {}).status for _ in range(3)] == [200, 200, 429]
    assert answered(app, "GET", path, b"", {}, client="198.51.100.7").status == 200
    assert len(upstream.seen) == 3


def test_the_program_forwards_to_both_services(tmp_path: Path) -> None:
    seen: list[tuple[str, str, dict[str, str]]] = []

    def service(name: str) -> Listener:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            seen.append((name, scope["path"], headers))
            length = [(b"content-length", b"2"), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": length})
            await send({"type": "http.response.body", "body": b"{}"})

        return Listener(name, app, "127.0.0.1:0")

    folder = tmp_path / "relay"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(served(service(name))) for name in ("shuffler", "analyzer")}
        text = settings_file("relay", {**urls, "listen": "127.0.0.1:0", "operations": "127.0.0.1:0"})
        (folder / "settings.toml").write_text(text)
        running = stack.enter_context(serve_role(tmp_path, "relay"))
        client = httpx.Client(
            base_url=running.addresses["requests"], trust_env=False, headers={"cookie": "canary"}, timeout=600
        )
        stack.enter_context(client)
        for (method, path), route in PATHS.items():
            headers = {"content-type": route.media_type} if route.media_type else {}
            response = client.request(method, path, content=b"x" if route.media_type else None, headers=headers)
            assert (response.status_code, response.content) == (200, b"{}")
        assert httpx.get(running.addresses["operations"] + "/readyz", trust_env=False, timeout=600).status_code == 200
        assert (
            b"hubbub_draining 0.0"
            in httpx.get(running.addresses["operations"] + "/metrics", trust_env=False, timeout=600).content
        )
        # Killed, it leaves nothing behind that the next one would need.
        running.process.kill()
        running.process.wait()
        again = stack.enter_context(serve_role(tmp_path, "relay"))
        path = f"/v1/tasks/{TASK}/keys"
        assert httpx.get(again.addresses["requests"] + path, trust_env=False, timeout=600).status_code == 200
    assert [(name, path) for name, path, _ in seen[:-1]] == [(one.service, path) for (_, path), one in PATHS.items()]
    allowed = {"host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"}
    assert all(set(headers) <= allowed for _, _, headers in seen)
    assert {path.name for path in folder.iterdir()} == {"settings.toml", "lock"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('shuffler = ""\nanalyzer = "https://b"', "shuffler must be the URL of the service"),
        ('shuffler = "https://a"\nanalyzer = "http://b.example:1"', "analyzer must be the URL of the service"),
        ('shuffler = "https://a"\nanalyzer = "https://a"', "must be different services"),
        (SETTINGS + "rate = -1", "rate must be"),
        (SETTINGS + "burst = 0", "burst must be"),
        (SETTINGS + 'origins = ["example"]', "origins must be web origins"),
        (SETTINGS + 'listen = "0.0.0.0:1"', "open address without TLS"),
    ],
)
def test_settings_are_checked(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_config(tmp_path / "settings.toml", RelayConfig)


@pytest.mark.parametrize(("suite", "size"), [("ristretto255-SHA512", 32), ("P256-SHA256", 33)])
def test_evaluations_on_the_wire(suite: str, size: int) -> None:
    elements = tuple(bytes([number]) * size for number in range(3))
    plain = EvaluationRequest(9, elements)
    assert EvaluationRequest.from_bytes(plain.to_bytes(), suite) == plain
    admitted = EvaluationRequest(9, elements, tuple(bytes([number]) * 354 for number in range(3)))
    assert EvaluationRequest.from_bytes(admitted.to_bytes(), suite, 354) == admitted
    most = EvaluationRequest(9, (bytes(33),) * MAX_EVALUATIONS, (bytes(354),) * MAX_EVALUATIONS)
    assert len(most.to_bytes()) == MAX_REQUEST_SIZE
    answer = Evaluation(elements, bytes(64))
    assert read_evaluation(write_evaluation(answer), suite, 3) == answer
    bodies = (b"", b"\0", bytes(2), bytes(2 + size), b"\0\1" + bytes(size - 1), b"\0\1" + bytes(size * 65))
    for body in bodies:
        with pytest.raises(WireError):
            EvaluationRequest.from_bytes(body, suite)
    for body in (b"", bytes(3 * size + 63), bytes(3 * size + 65)):
        with pytest.raises(WireError, match="must have"):
            read_evaluation(body, suite, 3)
    for wrong in ((0, elements), (1, ()), (2**16, elements)):
        with pytest.raises(InvalidInput):
            EvaluationRequest(*wrong)
    with pytest.raises(InvalidInput, match="as many as the elements"):
        EvaluationRequest(1, elements, (b"",))
