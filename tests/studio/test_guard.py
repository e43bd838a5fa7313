"""Requests of other sites, for other hosts and of other kinds are refused, and every answer has a strict policy."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.studio.conftest import INQUIRY, Inline

from hubbub.studio.app import create_app
from hubbub.studio.desk import Desk
from hubbub.studio.guard import LARGEST
from hubbub.studio.site import EXPLORE, NAVIGATION, Page, rendered

HOST = "127.0.0.1:8600"
OWN = {"host": HOST, "origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


def ask(method: str, path: str, *, raising: bool = True, **given: Any) -> httpx.Response:
    workers: Any = Inline()
    app: Any = create_app(workers, (HOST,))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=raising)

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, path, **given)

    return asyncio.run(answer())


def test_the_own_page_is_answered() -> None:
    assert ask("GET", "/", headers=OWN).status_code == 200
    assert ask("GET", "/static/explore.js", headers=OWN).status_code == 200
    answer = ask("POST", "/api/outline", headers=OWN, json=INQUIRY)
    assert answer.status_code == 200
    assert {one["family"] for one in answer.json()["families"]} >= {"split", "flip", "local-flip"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": f"{HOST}.evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/api/outline"), ("GET", "/static/explore.js")])
def test_others_are_refused(method: str, path: str, headers: dict[str, str], status: int) -> None:
    answer = ask(method, path, headers={**OWN, **headers}, json=INQUIRY)
    assert answer.status_code == status
    assert "families" not in answer.text
    assert "content-security-policy" in answer.headers


LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def followed(path: str, method: str = "GET", **changes: str) -> int:
    """Return the status for somebody who follows a link of another site, which has no origin."""
    headers = {"host": HOST, **LINK, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return ask(method, path, headers=headers).status_code


def test_a_link_in_another_page_opens_the_studio() -> None:
    assert followed("/") == followed("/live") == 200
    assert followed("/api/live/overview") == 403
    assert followed("/", "POST") == 403
    assert followed("/", sec_fetch_dest="iframe") == 403
    assert followed("/", sec_fetch_mode="no-cors") == 403
    assert followed("/", origin="http://evil.example") == 403
    assert followed("/", host="evil.example:8600") == 421


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_bodies_must_be_json(kind: str) -> None:
    answer = ask("POST", "/api/outline", headers={**OWN, "content-type": kind}, content=b"{}")
    assert answer.status_code == 415


async def chunks() -> AsyncIterator[bytes]:
    yield b"{}"


def test_bodies_are_limited() -> None:
    assert ask("POST", "/api/outline", headers=OWN, json={"x": "y" * LARGEST}).status_code == 413
    chunked = ask("POST", "/api/outline", headers={**OWN, "content-type": "application/json"}, content=chunks())
    assert chunked.status_code == 411


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *((one, 422) for one in (b"", b"[", b"{}", b'{"a": NaN}', b'{"a": 1, "a": 1}', b"\xff", b'{"n": 1e999}')),
        (b"[" * 100_000, 422),
        (b'{"a":' * 50_000, 422),
        (b"9" * 300_000, 422),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_json(body: bytes, status: int) -> None:
    answer = ask("POST", "/api/simulate", headers={**OWN, "content-type": "application/json"}, content=body)
    assert answer.status_code == status
    assert "must" in answer.json()["error"]


def test_a_fault_is_told_by_its_kind_and_place_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: object, body: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Desk, "solve", broken)
    broken.__name__ = "solve"
    answer = ask("POST", "/api/solve", headers=OWN, json={"a": "secret"}, raising=False)
    assert (answer.status_code, answer.json()) == (500, {"error": "internal error: KeyError"})
    assert "content-security-policy" in answer.headers
    assert "internal error: KeyError in test_guard.py" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_methods(method: str) -> None:
    assert ask(method, "/", headers=OWN).status_code == 405


@pytest.mark.parametrize("path", ["/static/../guard.py", "/static/%2e%2e/guard.py", "/api/nonesuch", "/etc/passwd"])
def test_nothing_else_is_served(path: str) -> None:
    assert ask("GET", path, headers=OWN).status_code == 404


def test_the_policy_is_strict() -> None:
    headers = ask("GET", "/", headers=OWN).headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert all("http" not in part and "*" not in part for part in policy.split("; "))
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_pages_share_a_navigation() -> None:
    other = Page("/other", "A & B", "explore.html")
    html = rendered(EXPLORE, (EXPLORE, other))
    assert NAVIGATION not in html
    assert html.count("aria-current") == 1
    assert '<a href="/other">A &amp; B</a>' in html
