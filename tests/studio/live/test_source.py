"""The source of the live page: folders of services that restart, addresses, tokens that stay secret."""

import json
from pathlib import Path
from typing import Any

import pytest

import hubbub as hb
from hubbub.errors import CommandFailure, InvalidInput, WireError
from hubbub.service.provision import provision_all
from hubbub.studio.live.source import LiveSource

URL = "https://results.test:8501/"


def test_an_address_needs_a_token_and_keeps_it_to_itself(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret-1\n")
    source = LiveSource(url=URL, token_file=file, shuffler_operations="http://127.0.0.1:9464")
    source.check()
    found = source.locate()
    assert (found.results, found.token, found.shuffler, found.analyzer) == (
        "https://results.test:8501",
        "secret-1",
        "http://127.0.0.1:9464",
        None,
    )
    file.write_text("secret-2\n")
    assert source.locate().token == "secret-2", "a token that was replaced is read again"
    given = LiveSource(url=URL, token="secret-3")
    assert given.locate().token == "secret-3"
    assert "secret" not in repr((source, found, given, given.locate())) + source.name


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"url": URL},
        {"url": URL, "folder": Path(), "token": "t"},
        {"url": "results.test", "token": "t"},
        {"url": "ftp://results.test", "token": "t"},
        {"url": "https://name:password@results.test", "token": "t"},
        {"url": "https://results.test/?token=password", "token": "t"},
        {"url": "https://results.test/#password", "token": "t"},
        {"url": URL, "token": "t", "shuffler_operations": "http://s.test?key=password"},
        {"url": URL, "token": "two words"},
        {"url": URL, "token": ""},
        {"url": URL, "token": "t", "shuffler_operations": "localhost:9464"},
        {"url": URL, "token": "t", "analyzer_operations": 9465},
        {"url": URL, "token": "t", "contract": "contract.json"},
        {"folder": Path("no-such-folder")},
    ],
)
def test_other_sources_are_refused_without_naming_the_token(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        LiveSource(**given)
    assert "two words" not in str(caught.value)
    assert "password" not in str(caught.value)


def test_a_folder_follows_its_services(tmp_path: Path) -> None:
    plan = hb.plan_from(hb.Schema.one_hot(3), 100, hb.Protocol(0.2), delta=1e-4)
    contract = provision_all(tmp_path, plan, {"epoch": 5})
    source = LiveSource(folder=tmp_path)
    source.check()
    assert source.contracts() == {contract.id: contract}
    with pytest.raises(CommandFailure, match="no analyzer runs in the folder"):
        source.locate()
    for port in (1, 2):
        addresses = {"results": f"http://127.0.0.1:{port}", "operations": f"http://127.0.0.1:{port + 10}"}
        (tmp_path / "analyzer" / "addresses.json").write_text(json.dumps(addresses))
        if port == 1:
            with pytest.raises(CommandFailure, match="there is no token in"):
                source.locate()
            (tmp_path / "token").write_text("secret")
        found = source.locate()
        assert (found.results, found.analyzer) == (addresses["results"], addresses["operations"])
        assert (found.token, found.shuffler) == ("secret", None)
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(WireError, match="must hold a token"):
        source.locate()


def test_the_folder_of_the_analyzer_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "addresses.json").write_text('{"results": "http://127.0.0.1:7"}')
    (tmp_path / "mine").write_text("secret")
    source = LiveSource(folder=tmp_path, token_file=tmp_path / "mine", shuffler_operations="http://127.0.0.1:9464")
    found = source.locate()
    assert (found.results, found.token, found.shuffler) == ("http://127.0.0.1:7", "secret", "http://127.0.0.1:9464")
    assert source.contracts() == {}
    (tmp_path / "addresses.json").write_text("{")
    with pytest.raises(CommandFailure):
        source.locate()
