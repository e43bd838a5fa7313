"""Strings on the command line: contracts, tickets for both services, and a whole collection by running services."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.service.live import wait_until
from tests.service.string_deaths import StringLive, plain_plan

from hubbub.service.task.admission import TicketKey
from hubbub.service.task.contract import SignedContract

HEX = ["--analyzer", "11" * 32, "--shuffler", "22" * 32]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(plain_plan(100).to_json())
    return path


def test_a_contract_for_strings_names_its_relay(plan: Path, tmp_path: Path, run: Call) -> None:
    draft = tmp_path / "draft.json"
    words = ["serve", "contract", "--plan", str(plan), *HEX, "-o", str(draft)]
    refused = run(*words)
    assert refused.exit_code == 2
    assert "needs a relay" in refused.stderr
    made = run(*words, "--relay", "relay.example", "--evaluations", "5000", "--per-client", "3")
    assert made.exit_code == 0, made.stderr
    terms = SignedContract.from_json(draft.read_bytes()).contract.strings
    assert terms is not None
    assert (terms.relay, terms.evaluations, terms.per_client) == ("relay.example", 5000, 3)
    assert "warning" not in made.stderr
    warned = run(*words, "--relay", "relay.example", "--evaluations", "5000", "--admission", "open")
    assert "warning: with open admission, a few devices can use up the 5,000 evaluations of every hour" in warned.stderr
    for wrong in (["--relay", "Relay"], ["--relay", "r", "--evaluations", "0"], ["--relay", "r", "--per-client", "0"]):
        assert run(*words, *wrong).exit_code == 2


def test_tickets_of_strings_are_for_both_services(plan: Path, tmp_path: Path, run: Call) -> None:
    draft, key, tickets = tmp_path / "draft.json", tmp_path / "shuffler.key", tmp_path / "tickets.txt"
    run("serve", "contract", "--plan", str(plan), *HEX, "--relay", "relay.example", "-o", str(draft))
    TicketKey.generate().save(key)
    (tmp_path / "accounts.txt").write_text("ada\nbob\n")
    words = ["serve", "ticket", str(tmp_path / "accounts.txt"), "--contract", str(draft), "--key", str(key)]
    made = run(*words, "-o", str(tickets))
    assert made.exit_code == 0, made.stderr
    derived = tmp_path / "evaluation.key"
    assert run("serve", "evaluation-key", "--key", str(key), "-o", str(derived)).exit_code == 0
    assert derived.stat().st_mode & 0o777 == 0o600
    task = SignedContract.from_json(draft.read_bytes()).contract.task
    first = bytes.fromhex(tickets.read_text().splitlines()[0])
    assert first == TicketKey.load(key).mint(task, "ada") + TicketKey.load(derived).mint(task, "ada")


@pytest.mark.long
def test_send_and_read_strings(tmp_path: Path, run: Call) -> None:
    live = StringLive(tmp_path / "live", min_batch_size=60)
    values = tmp_path / "crashes.csv"
    values.write_text("crash\n" + "\n".join(["=1+1"] * 40 + ["köln"] * 30 + ["canary"]) + "\n")
    with live.running():
        live.keys()
        tickets = tmp_path / "tickets.txt"
        tickets.write_text("".join(f"{one.hex()}\n" for one in live.admissions(range(71))))
        words = ["send", str(values), "--contract", str(live.paths[0]), "--to", live.relay, "--unsafe-test", "--json"]
        sent = run(*words, "--journal", str(tmp_path / "sent.journal"), "--tickets", str(tickets))
        assert sent.exit_code == 0, sent.stderr
        assert json.loads(sent.stdout)["stored"] == 71
        assert b"canary" not in (tmp_path / "sent.journal").read_bytes()
        wait_until(lambda: bool(live.results()), "a result")
        (tmp_path / "token").write_text(live.command("analyzer", "token", "cli", "read:*", expires="10")["token"])
        read = run(
            "results", live.address("analyzer", "results"), "--token", str(tmp_path / "token"), "--format", "csv"
        )
        assert read.exit_code == 0, read.stderr
        rows = list(csv.DictReader(read.stdout.splitlines()))
        assert {row["item"]: round(float(row["value"])) for row in rows} == {"=1+1": 40, "köln": 30}
        table = run("results", live.address("analyzer", "results"), "--token", str(tmp_path / "token"))
        assert "köln" in table.stdout


@pytest.mark.long
def test_serve_all_runs_a_relay(tmp_path: Path, plan: Path) -> None:
    words = [sys.executable, "-m", "hubbub", "serve", "all", "here", "--plan", str(plan), "--unsafe-test", "--json"]
    if not any((Path(folder) / "hubbub" / "__main__.py").exists() for folder in sys.path):
        program = 'from hubbub.cli import main; main(prog_name="hubbub")'
        words = [sys.executable, "-c", program, *words[3:]]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, env=os.environ, text=True) as process:
        assert process.stdout is not None
        try:
            text = ""
            while "}" not in text:
                text += process.stdout.readline()
            system = json.loads(text)
            contract = SignedContract.from_json(Path(tmp_path / system["contract"]).read_bytes()).contract
            assert contract.strings is not None
            assert contract.strings.relay == "localhost"
            values = tmp_path / "values.csv"
            values.write_text("crash\n" + "oops\n" * 5)
            program = 'from hubbub.cli import main; main(prog_name="hubbub")'
            key = ["--ticket-key", str(tmp_path / system["ticket_key"])]
            sent = subprocess.run(
                [sys.executable, "-c", program, "send", str(values), "--contract", str(tmp_path / system["contract"]),
                 "--to", system["uploads"], "--journal", str(tmp_path / "j"), *key, "--unsafe-test", "--json"],
                capture_output=True, text=True, check=False, timeout=600,
            )  # fmt: skip
            assert sent.returncode == 0, sent.stderr
            assert json.loads(sent.stdout)["stored"] == 5
        finally:
            process.terminate()
            process.wait(600)
