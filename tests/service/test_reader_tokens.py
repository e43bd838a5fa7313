"""Tokens of readers: named, expiring, revocable, and stored as hashes only."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.system import START, System

from hubbub.errors import InvalidInput
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.reader import ResultsClient
from hubbub.service.runtime.database import open_database
from hubbub.service.transport import HttpIssuer, HttpTransport
from hubbub.studio.live.source import LiveSource

ELSEWHERE = ["http://analyzer.example", "http://10.0.0.1:8501", "http://unix", "ftp://localhost", "x"]
HERE = ["https://analyzer.example/", "http://127.0.0.1:1", "http://localhost", "http://[::1]:1"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnalyzerStore]:
    found = AnalyzerStore(lambda: open_database(f"sqlite:{tmp_path / 'analyzer.db'}"))
    yield found
    found.shut()


def test_a_token_is_valid_until_it_expires(store: AnalyzerStore) -> None:
    token = store.add_token("dashboard", "read:*", now=100, expires=200)
    assert [store.scope(token, now=now) for now in (100, 199.9, 200, 1e9)] == ["read:*", "read:*", None, None]
    assert store.scope("wrong", now=100) is None


def test_a_token_is_revoked_by_name(store: AnalyzerStore) -> None:
    tokens = {name: store.add_token(name, "read:*", now=100, expires=200) for name in ("a", "b")}
    assert store.revoke_token("a", now=150)
    assert not store.revoke_token("a", now=151)
    assert not store.revoke_token("c", now=151)
    assert [store.scope(tokens[name], now=160) for name in ("a", "b")] == [None, "read:*"]


def test_tokens_are_listed_without_secrets(store: AnalyzerStore, tmp_path: Path) -> None:
    tokens = [store.add_token(name, "read:*", now=100, expires=200 + place) for place, name in enumerate("abc")]
    store.revoke_token("b", now=150)
    listed = store.reader_tokens(now=201)
    assert [(one.name, one.created, one.expires, one.state) for one in listed] == [
        ("a", 100, 200, "expired"),
        ("b", 100, 201, "revoked"),
        ("c", 100, 202, "valid"),
    ]
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for token in tokens:
        assert token not in repr(listed)
        assert token.encode() not in content


def test_a_name_is_used_by_one_valid_token(store: AnalyzerStore) -> None:
    first = store.add_token("a", "read:*", now=100, expires=200)
    with pytest.raises(InvalidInput, match="a token with the name a exists; revoke it first"):
        store.add_token("a", "read:*", now=150, expires=300)
    second = store.add_token("a", "read:*", now=200, expires=300)
    assert [store.scope(token, now=210) for token in (first, second)] == [None, "read:*"]
    store.revoke_token("a", now=220)
    third = store.add_token("a", "read:*", now=230, expires=300)
    assert [store.scope(token, now=240) for token in (first, second, third)] == [None, None, "read:*"]
    for name in ("", "two words", "a" * 65, "é", "a\n"):
        with pytest.raises(InvalidInput, match="the name of a token must have 1 to 64"):
            store.add_token(name, "read:*", now=100, expires=200)


def test_the_analyzer_checks_the_expiry_with_its_clock(tmp_path: Path) -> None:
    system = System(tmp_path)
    token = system.analyzer.store.add_token("a", "read:*", now=START, expires=START + 100)
    assert system.analyzer.authorize(token, system.contract.id)
    system.clock.advance(100)
    assert not system.analyzer.authorize(token, system.contract.id)
    assert system.analyzer.scope(token) is None
    system.shut()


@pytest.mark.parametrize("url", ELSEWHERE)
def test_no_token_is_sent_in_the_clear_to_another_machine(url: str) -> None:
    """Regression: the token of a reader, or the code of an account, went over http."""
    for client in (lambda: ResultsClient(url, "token"), lambda: HttpIssuer(url), lambda: HttpTransport(url)):
        with pytest.raises(InvalidInput, match=r"must be a URL https://"):
            client()
    with pytest.raises(InvalidInput):
        LiveSource(url=url, token="token")


@pytest.mark.parametrize("url", HERE)
def test_services_on_this_machine_need_no_https(url: str) -> None:
    ResultsClient(url, "token").close()
    HttpIssuer(url).close()
    HttpTransport(url).close()
    LiveSource(url=url, token="token")
