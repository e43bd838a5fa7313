"""Web pages may upload from configured origins, and from no others."""

import asyncio
from pathlib import Path

import pytest
from tests.service.admissions import TOKEN_KEY
from tests.service.asgi import Answer, ask
from tests.service.live import LiveSystem
from tests.service.samples import ANALYZER, SHUFFLER
from tests.service.test_http_uploads import HEADERS, PATH, SIZE, TASK, Service, bundle, service
from tests.service.test_issuer import AGREED, CHALLENGE, CODES, write_codes

from hubbub.service.issuer import CORS_HEADERS, REQUEST_TYPE, IssuerProgram
from hubbub.service.runtime.http import App, allow_origins
from hubbub.service.runtime.settings import Common, IssuerConfig, ShufflerConfig, read_config
from hubbub.service.shuffler.app import ShufflerProgram
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.tokens import PendingToken

__all__ = ["service"]
PAGE, OTHER = "https://survey.example", "https://other.example"
DOCUMENTS = [f"/v1/tasks/{TASK.hex()}", f"/v1/tasks/{TASK.hex()}/keys"]
CORS = "access-control-"


def send(app: App, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    found = asyncio.run(ask(app, method, path, body, told))
    assert found is not None
    return found


def preflight(app: App, path: str, origin: str, method: str = "POST") -> Answer:
    wanted = {"access_control_request_method": method, "access_control_request_headers": "content-type"}
    return send(app, "OPTIONS", path, b"", origin=origin, **wanted)


@pytest.mark.parametrize("path", [PATH, *DOCUMENTS])
def test_preflights_of_configured_origins(service: Service, path: str) -> None:
    app = allow_origins(service.app(), [PAGE])
    allowed = preflight(app, path, PAGE)
    assert (allowed.status, allowed.body) == (204, b"")
    assert allowed.headers["access-control-allow-origin"] == PAGE
    assert allowed.headers["access-control-allow-methods"] == "GET, POST"
    assert "content-type" in allowed.headers["access-control-allow-headers"]
    assert allowed.headers["vary"] == "origin"
    for origin in (OTHER, PAGE + "/", "null", PAGE.upper()):
        refused = preflight(app, path, origin)
        assert refused.status == 405
        assert not [name for name in refused.headers if name.startswith(CORS)]


@pytest.mark.parametrize("path", [PATH, *DOCUMENTS])
def test_no_origin_is_allowed_by_default(service: Service, path: str) -> None:
    app = service.app()
    assert allow_origins(app, ShufflerConfig(common=Common(), analyzer="https://a:1").origins) is app
    refused = preflight(app, path, PAGE)
    assert refused.status == 405
    assert not [name for name in refused.headers if name.startswith(CORS)]


def test_responses_name_the_origin_that_asked(service: Service) -> None:
    app = allow_origins(service.app(), [PAGE, OTHER])
    upload = {"content_type": HEADERS["content-type"], "content_length": str(SIZE)}
    for origin in (PAGE, OTHER):
        stored = send(app, "POST", PATH, bundle(origin), origin=origin, **upload)
        assert (stored.status, stored.headers["access-control-allow-origin"]) == (201, origin)
        # A page must be able to read why an upload was rejected, and when to try again.
        refused = send(app, "POST", PATH, bundle("x"), origin=origin, **upload)
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (400, origin)
        assert "retry-after" in refused.headers["access-control-expose-headers"]
        document = send(app, "GET", DOCUMENTS[0], origin=origin)
        assert (document.status, document.headers["access-control-allow-origin"]) == (200, origin)
    stranger = send(app, "POST", PATH, bundle("s"), origin="https://evil.example", **upload)
    assert (stranger.status, stranger.headers) == (201, {"content-length": "0", "vary": "origin"})
    assert send(app, "OPTIONS", PATH, origin=PAGE).status == 405


def test_the_shuffler_serves_its_origins(tmp_path: Path) -> None:
    live = LiveSystem(tmp_path, entries={"shuffler": {"origins": [PAGE], "workers": 0}})
    program = ShufflerProgram(read_config(tmp_path / "shuffler" / "settings.toml", ShufflerConfig))
    try:
        (uploads,) = [one.app for one in program.listeners() if one.name == "uploads"]
        assert preflight(uploads, live.path(), PAGE).status == 204
        assert preflight(uploads, live.path(), OTHER).status == 405
    finally:
        program.close()


def test_the_issuer_serves_its_origins(tmp_path: Path) -> None:
    """Regression: pages had no way to request tokens but a relay."""
    (tmp_path / "contract.json").write_bytes(SignedContract.sign(AGREED, ANALYZER, SHUFFLER).to_json())
    (tmp_path / "token-keys").mkdir()
    TOKEN_KEY.save(tmp_path / "token-keys" / "00.pem")
    write_codes(tmp_path / "codes", CODES)
    settings = 'contracts = ["contract.json"]\ncodes = "codes"\n'
    pending = PendingToken.generate(TOKEN_KEY.public).request(TOKEN_KEY.public, CHALLENGE)
    told = {"authorization": f"Bearer {CODES[0]}", "content_type": REQUEST_TYPE, "content_length": str(len(pending))}
    for origins in ([], [PAGE]):
        (tmp_path / "settings.toml").write_text(f"{settings}origins = {origins}\n")
        program = IssuerProgram(read_config(tmp_path / "settings.toml", IssuerConfig))
        try:
            (app,) = [one.app for one in program.listeners() if one.name == "tokens"]
            asked = preflight(app, "/token-request", PAGE)
            assert asked.status == (204 if origins else 405)
            assert asked.headers.get("access-control-allow-headers") == (CORS_HEADERS if origins else None)
            assert preflight(app, "/token-request", OTHER).status == 405
            issued = send(app, "POST", "/token-request", pending, origin=PAGE, **told)
            assert (issued.status, len(issued.body)) == (200, 256)
            assert issued.headers.get("access-control-allow-origin") == (PAGE if origins else None)
            refused = send(app, "POST", "/token-request", pending, origin=PAGE, content_type=REQUEST_TYPE)
            assert refused.status == 401
            assert refused.headers.get("access-control-allow-origin") == (PAGE if origins else None)
        finally:
            program.close()
