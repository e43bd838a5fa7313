"""``hubbub send`` as its help shows it, to services that run."""

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import Result

from hubbub.cli.send import send
from hubbub.planner import plan_from
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.provision import CONTRACT, Service, provision_all, serve_all
from hubbub.service.runtime.admin_client import command

Call = Callable[..., Result]
PEOPLE = 240


@pytest.fixture
def services(tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    plan = plan_from(Schema.bits(["news", "mail", "maps"]), 200, Protocol(0.2), delta=1e-6)
    provision_all(tmp_path / "here", plan, {"epoch": 1, "least": 200})
    with serve_all(tmp_path / "here") as both:
        yield both


def test_the_example_sends_everybody_once(services: tuple[Service, Service], tmp_path: Path, run: Call) -> None:
    analyzer, shuffler = services
    values = tmp_path / "answers.csv"
    values.write_text("sites\n" + "news;mail\n" * (PEOPLE // 2) + '""\n' * (PEOPLE // 2))
    (example,) = re.findall(r"Example: hubbub send (.*)", send.help or "")
    words = [
        {
            "answers.csv": str(values),
            "contract.json": str(tmp_path / "here" / CONTRACT),
            "sent.journal": str(tmp_path / "sent.journal"),
        }.get(word, shuffler.places["uploads"] if word.startswith("http") else word)
        for word in shlex.split(example)
    ]
    for arguments in (words, words, words[1:]):
        result = run("send", *arguments, "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == {"stored": PEOPLE, "waiting": 0, "refused": {}}
    values.write_text("sites\nnews\n")
    result = run("send", *words)
    assert result.exit_code == 2
    assert "got '1 people'" in result.stderr
    token = command(analyzer.socket, "token", "read:*")["token"]
    with httpx.Client(
        base_url=analyzer.places["results"], headers={"authorization": f"Bearer {token}"}, trust_env=False
    ) as reader:
        (task,) = reader.get("/v1/tasks").json()["tasks"]
        end = time.monotonic() + 60
        while not (batches := reader.get(f"/v1/tasks/{task}/batches").json()["batches"]):
            assert time.monotonic() < end
            time.sleep(0.1)
        found = reader.get(f"/v1/batches/{batches[0]['batch']}").json()
    assert found["people"] >= 200
    assert found["labels"] == ["news", "mail", "maps"]
    assert abs(found["values"][2]) < 6 * found["stderr"][2]


def test_clear_errors(tmp_path: Path, run: Call) -> None:
    plan = plan_from(Schema.one_hot(3), 200, Protocol(0.2), delta=1e-6)
    provision_all(tmp_path / "here", plan, {"epoch": 1, "least": 200})
    contract = str(tmp_path / "here" / CONTRACT)
    common = ("--to", "http://127.0.0.1:9", "--journal", str(tmp_path / "journal"))
    result = run("send", "--contract", contract, *common)
    assert result.exit_code == 2
    assert "values must be given" in result.stderr
    result = run("send", "--contract", str(tmp_path / "none.json"), *common)
    assert result.exit_code == 5
    result = run(
        "send", str(tmp_path), "--contract", contract, "--to", "ftp://x", "--journal", str(tmp_path / "journal")
    )
    assert result.exit_code == 2
    assert "address must be http" in result.stderr
    foreign = tmp_path / "foreign"
    foreign.write_text("no journal\n" * 100)
    result = run("send", "--contract", contract, "--to", "http://127.0.0.1:9", "--journal", str(foreign))
    assert result.exit_code == 4
    assert "must be one of hubbub send" in result.stderr
    assert foreign.read_text().startswith("no journal")
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(Path(contract).read_bytes().replace(b'"least":200', b'"least":201'))
    result = run("send", "--contract", str(damaged), *common)
    assert result.exit_code == 4
    assert "signed" in result.stderr
