"""``hubbub send`` as its help shows it, to running services."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.service.admissions import new_ticket
from tests.service.live import LiveSystem, wait_until

from hubbub.cli.send import _retrying, send
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.provision import CONTRACT, provision_all
from hubbub.service.transport import Response

PEOPLE = 240


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveSystem]:
    plan = plan_from(Schema.bits(["news", "mail", "maps"]), 200, Protocol(0.2), delta=1e-6)
    with LiveSystem(tmp_path / "here", plan=plan, min_batch_size=200).running() as system:
        yield system


@pytest.mark.long
def test_the_example_sends_everyone_once(live: LiveSystem, tmp_path: Path, run: Call) -> None:
    values = tmp_path / "answers.csv"
    values.write_text("sites\n" + "news;mail\n" * (PEOPLE // 2) + '""\n' * (PEOPLE // 2))
    (example,) = re.findall(r"Example: hubbub send (.*\n.*)", send.help or "")
    tickets = tmp_path / "tickets.txt"
    tickets.write_text("".join(f"{new_ticket(live.contract.task).hex()}\n" for _ in range(PEOPLE)))
    words = [
        {
            "answers.csv": str(values),
            "contract.json": str(tmp_path / "here" / CONTRACT),
            "sent.journal": str(tmp_path / "sent.journal"),
            "tickets.txt": str(tickets),
        }.get(word, live.url if word.startswith("http") else word)
        for word in shlex.split(example)
    ]
    for arguments in (words, words, words[1:]):
        result = run("send", *arguments, "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == {"stored": PEOPLE, "waiting": 0, "refused": {}, "uncertain": 0}
    values.write_text("sites\nnews\n")
    result = run("send", *words)
    assert result.exit_code == 2
    assert "VALUES has 1 people and the journal 240" in result.stderr
    wait_until(lambda: bool(live.results()), "the batch")
    found = live.results()[0]
    assert found["people"] >= 200
    assert found["table"]["item"] == ["news", "mail", "maps"]
    assert abs(found["table"]["value"][2]) < 6 * found["table"]["stderr"][2]


@pytest.mark.long
def test_refused_answers_make_the_command_fail(live: LiveSystem, tmp_path: Path, run: Call) -> None:
    """Regression: the exit code was 0 although the shuffler refused every answer."""
    values, tickets = tmp_path / "answers.csv", tmp_path / "tickets.txt"
    values.write_text("sites\nnews\nmail\nmaps\n")
    admissions = [new_ticket(live.contract.task).hex() for _ in range(4)]
    words = ["send", str(values), "--contract", str(tmp_path / "here" / CONTRACT), "--to", live.url]
    words += ["--tickets", str(tickets), "--per-request", "2"]
    tickets.write_text("\n".join(admissions[:3]) + "\n")
    assert run(*words, "--journal", str(tmp_path / "first")).exit_code == 0
    reason = "token-spent (the accounts have answered this contract, or this round of it, before)"
    for journal in ("second", "second"):  # repeating the command does not hide the refusals
        result = run(*words, "--journal", str(tmp_path / journal))
        assert result.exit_code == 5
        assert result.stdout == "0 answers sent, 0 stored by the shuffler in total.\n"
        assert result.stderr == f"error: 3 of 3 answers were refused: 3 {reason}\n"
    tickets.write_text("\n".join(admissions[1:]) + "\n")
    result = run(*words, "--journal", str(tmp_path / "third"), "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout) == {"stored": 1, "waiting": 0, "refused": {"token-spent": 2}, "uncertain": 0}
    assert result.stderr == f"error: 2 of 3 answers were refused: 2 {reason}\n"


@pytest.mark.long
def test_invalid_records_are_sent_as_the_missing_label(live: LiveSystem, tmp_path: Path, run: Call) -> None:
    values, tickets = tmp_path / "answers.csv", tmp_path / "tickets.txt"
    values.write_text("sites\nnews\nsport\nmaps,mail\n")
    tickets.write_text("".join(f"{new_ticket(live.contract.task).hex()}\n" for _ in range(3)))
    words = ["send", str(values), "--contract", str(tmp_path / "here" / CONTRACT), "--to", live.url]
    words += ["--tickets", str(tickets), "--journal", str(tmp_path / "journal"), "--on-error", "skip"]
    refused = run(*words)
    assert refused.exit_code == 2
    assert "--on-error skip with --tickets or --codes needs --missing, so that no record is left out" in refused.stderr
    result = run(*words, "--missing", "maps", "--json", "--rejects", str(tmp_path / "list.csv"))
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["stored"] == 3
    assert shown["values"] == {
        "rows": 3,
        "missing": 0,
        "other": 0,
        "bad": 2,
        "dropped": 0,
        "clipped": 0,
        "first": [2, 3],
    }
    assert "2 invalid records became 'maps' (no. 2, 3)" in result.stderr
    assert len((tmp_path / "list.csv").read_text().splitlines()) == 3


def test_the_reason_of_a_retry_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _retrying(Response(503, "unavailable").reason, 1.25)
    shown = "status 503, unavailable: The service cannot store anything at this time; try again later."
    assert capsys.readouterr().err == f"note: {shown}; retrying in 1.2 s\n"


def test_clear_errors(tmp_path: Path, run: Call) -> None:
    plan = plan_from(Schema.one_hot(3), 200, Protocol(0.2), delta=1e-6)
    provision_all(tmp_path / "here", plan, {"epoch": 1, "min_batch_size": 200})
    contract = str(tmp_path / "here" / CONTRACT)
    common = ("--to", "http://127.0.0.1:9", "--journal", str(tmp_path / "journal"))
    result = run("send", "--contract", contract, *common)
    assert result.exit_code == 2
    assert "VALUES must be given" in result.stderr
    result = run("send", "--contract", str(tmp_path / "none.json"), *common)
    assert result.exit_code == 5
    result = run(
        "send", str(tmp_path), "--contract", contract, "--to", "ftp://x", "--journal", str(tmp_path / "journal")
    )
    assert result.exit_code == 2
    assert "address must be a URL http" in result.stderr
    foreign = tmp_path / "foreign"
    foreign.write_text("no journal\n" * 100)
    result = run("send", "--contract", contract, "--to", "http://127.0.0.1:9", "--journal", str(foreign))
    assert result.exit_code == 4
    assert "must be a file written by hubbub send" in result.stderr
    assert foreign.read_text().startswith("no journal")
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(Path(contract).read_bytes().replace(b'"min_batch_size":200', b'"min_batch_size":201'))
    result = run("send", "--contract", str(damaged), *common)
    assert result.exit_code == 4
    assert "signed" in result.stderr
