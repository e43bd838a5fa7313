"""Admission on the command line: tickets, keys of issuers, and a collection with tokens by running services."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.service.live import LiveSystem, wait_until

from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.issuer import add_key
from hubbub.service.provision import provision_all, ticket_key_path
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.task.admission import Admission, TicketKey
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity

PEOPLE = 210
SUBJECTS = Schema.bits(["news", "mail"])


def plan(honest_fraction: float = 1.0) -> Plan:
    return plan_from(SUBJECTS, 200, Protocol(0.2), delta=1e-6, honest_fraction=honest_fraction)


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    (tmp_path / "plan.json").write_text(plan().to_json())
    (tmp_path / "half.json").write_text(plan(0.5).to_json())
    return tmp_path


def read(path: Path) -> Contract:
    return SignedContract.from_json(path.read_bytes()).contract


def identities() -> list[str]:
    return ["--analyzer", Identity.generate().public.hex(), "--shuffler", Identity.generate().public.hex()]


@pytest.mark.long
def test_contracts_admit_by_ticket_unless_told_otherwise(plans: Path, run: Call) -> None:
    output = plans / "contract.json"
    result = run("serve", "contract", "--plan", str(plans / "plan.json"), *identities(), "-o", str(output))
    assert result.exit_code == 0, result.stderr
    assert read(output).admission == Admission("ticket", "shuffler")
    named = ["--issuer", "accounts.example", "-o", str(output)]
    result = run("serve", "contract", "--plan", str(plans / "plan.json"), *identities(), *named)
    assert read(output).admission == Admission("ticket", "accounts.example")
    opened = ["--admission", "open", "-o", str(output)]
    result = run("serve", "contract", "--plan", str(plans / "plan.json"), *identities(), *opened)
    assert result.exit_code == 3
    assert "one sender can fill a batch" in result.stderr
    result = run("serve", "contract", "--plan", str(plans / "half.json"), *identities(), *opened)
    assert result.exit_code == 0, result.stderr
    assert read(output).admission == Admission()


@pytest.mark.long
def test_init_refuses_open_admission_that_needs_a_crowd(plans: Path, run: Call) -> None:
    result = run("serve", "init", str(plans / "here"), "--plan", str(plans / "plan.json"), "--admission", "open")
    assert result.exit_code == 3
    result = run("serve", "init", str(plans / "there"), "--plan", str(plans / "plan.json"))
    assert result.exit_code == 0, result.stderr
    assert read(plans / "there" / "contract.json").admission.kind == "ticket"
    assert stat.S_IMODE(ticket_key_path(plans / "there").stat().st_mode) == 0o600


def test_tickets_of_accounts(tmp_path: Path, run: Call) -> None:
    agreed = provision_all(tmp_path / "here", plan(), {"min_batch_size": 200})
    accounts, tickets = tmp_path / "accounts.txt", tmp_path / "tickets.txt"
    accounts.write_text("ada\nbob\n\nzoë\n")
    contract, key = str(tmp_path / "here" / "contract.json"), str(ticket_key_path(tmp_path / "here"))
    words = ["serve", "ticket", str(accounts), "--contract", contract, "--key", key, "-o"]
    result = run(*words, str(tickets))
    assert result.exit_code == 0, result.stderr
    assert stat.S_IMODE(tickets.stat().st_mode) == 0o600
    found = [bytes.fromhex(line) for line in tickets.read_text().splitlines()]
    assert found == [TicketKey.load(key).mint(agreed.task, name) for name in ("ada", "bob", "zoë")]
    again = run(*words, str(tmp_path / "again.txt"))
    assert again.exit_code == 0
    assert (tmp_path / "again.txt").read_text() == tickets.read_text()
    assert run(*words, str(tickets)).exit_code == 2
    accounts.write_text("ada\nada\n")
    result = run(*words, str(tmp_path / "new.txt"))
    assert result.exit_code == 2
    assert "every account once" in result.stderr
    accounts.write_bytes(b"\xff\n")
    assert run(*words, str(tmp_path / "new.txt")).exit_code == 4
    assert not (tmp_path / "new.txt").exists()
    token = add_key(tmp_path / "keys").public
    other = provision_all(tmp_path / "other", plan(), {"admission": Admission("token", "a", token)})
    words[words.index(contract)] = str(tmp_path / "other" / "contract.json")
    accounts.write_text("ada\n")
    result = run(*words, str(tmp_path / "new.txt"))
    assert (result.exit_code, other.admission.kind) == (2, "token")
    assert "not by ticket" in result.stderr


def test_tickets_of_a_round(tmp_path: Path, run: Call) -> None:
    agreed = provision_all(tmp_path / "here", plan(), {"min_batch_size": 200, "rounds": 3, "epoch": 10**9})
    (tmp_path / "accounts.txt").write_text("ada\n")
    contract, key = str(tmp_path / "here" / "contract.json"), str(ticket_key_path(tmp_path / "here"))
    words = ["serve", "ticket", str(tmp_path / "accounts.txt"), "--contract", contract, "--key", key]
    for options, number in (([], 1), (["--round", "1"], 1), (["--round", "3"], 3)):
        path = tmp_path / f"tickets{len(options)}{number}.txt"
        result = run(*words, *options, "-o", str(path))
        assert result.exit_code == 0, result.stderr
        assert f"round {number} of 3" in result.stderr
        assert bytes.fromhex(path.read_text()) == TicketKey.load(key).mint(agreed.context_of(number), "ada")
    result = run(*words, "--round", "4", "-o", str(tmp_path / "none.txt"))
    assert result.exit_code == 2
    assert "--round must be a whole number in [1, 3]" in result.stderr


def test_keys_of_an_issuer(plans: Path, run: Call) -> None:
    folder, public = plans / "issuer", plans / "token.key"
    result = run("serve", "key", str(folder), "-o", str(public))
    assert result.exit_code == 0, result.stderr
    shown = json.loads(run("serve", "key", str(folder), "--json").stdout)
    assert shown["key"] != public.read_text().strip()
    assert len(list((folder / "token-keys").iterdir())) == 2
    output = plans / "contract.json"
    words = ["serve", "contract", "--plan", str(plans / "plan.json"), *identities(), "--issuer", "a.example"]
    result = run(*words, "--token-key", str(public), "-o", str(output))
    assert result.exit_code == 0, result.stderr
    assert read(output).admission == Admission("token", "a.example", bytes.fromhex(public.read_text()))
    for text in ("", "00\n", "zz\n", public.read_text() * 2):
        (plans / "bad.key").write_text(text)
        result = run(*words, "--token-key", str(plans / "bad.key"), "-o", str(plans / "none.json"))
        assert result.exit_code == 4
        assert not (plans / "none.json").exists()


@pytest.mark.long
def test_send_needs_the_admission_of_the_contract(tmp_path: Path, run: Call) -> None:
    provision_all(tmp_path / "here", plan(), {"min_batch_size": 200})
    values, tickets = tmp_path / "answers.csv", tmp_path / "tickets.txt"
    values.write_text("sites\nnews\n")
    words = ["send", str(values), "--contract", str(tmp_path / "here" / "contract.json"), "--to", "http://127.0.0.1:9"]
    words += ["--journal", str(tmp_path / "journal")]
    result = run(*words)
    assert result.exit_code == 2
    assert "the contract admits by ticket: give --tickets" in result.stderr
    tickets.write_text("00\n")
    for extra, code in (
        (["--tickets", str(tickets), "--ticket-key", str(tickets)], 2),
        (["--tickets", str(tickets), "--issuer", "http://127.0.0.1:9"], 2),
        (["--codes", str(tickets)], 2),
        (["--issuer", "ftp://x", "--codes", str(tickets)], 2),
        (["--issuer", "http://127.0.0.1:9", "--codes", str(tickets)], 2),
        (["--tickets", str(tmp_path / "none")], 5),
    ):
        assert run(*words, *extra).exit_code == code, extra


@pytest.fixture
def issuing(tmp_path: Path) -> Iterator[tuple[LiveSystem, str, Path]]:
    """Both services and an issuer, whose URL and folder of codes are returned."""
    folder = tmp_path / "issuer"
    folder.mkdir(mode=0o700)
    public = add_key(folder / "token-keys").public
    terms = Admission("token", "issuer.example", public)
    codes = folder / "codes"
    codes.write_text("".join(f"{os.urandom(16).hex()}\n" for _ in range(PEOPLE)))
    codes.chmod(0o600)
    with LiveSystem(tmp_path / "here", plan=plan(), min_batch_size=200, admission=terms).running() as live:
        settings = folder / "settings.toml"
        settings.write_text(f'contracts = ["{live.paths[0]}"]\ncodes = "codes"\nlisten = "127.0.0.1:0"\n')
        command = [sys.executable, "-m", "hubbub.service", "issuer", str(settings)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until((folder / ADDRESSES).exists, "the issuer")
                yield live, json.loads((folder / ADDRESSES).read_text())["tokens"], codes
            finally:
                process.terminate()
                assert process.wait(600) == 0


@pytest.mark.long
def test_a_collection_with_tokens(issuing: tuple[LiveSystem, str, Path], tmp_path: Path, run: Call) -> None:
    live, url, codes = issuing
    values = tmp_path / "answers.csv"
    values.write_text("sites\n" + "news;mail\n" * (PEOPLE // 2) + "news\n" * (PEOPLE // 2))
    words = ["send", str(values), "--contract", str(live.paths[0]), "--to", live.url, "--issuer", url]
    for _ in range(2):
        result = run(*words, "--codes", str(codes), "--journal", str(tmp_path / "journal"), "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == {"stored": PEOPLE, "waiting": 0, "refused": {}, "uncertain": 0}
    # The same accounts with a new journal: they have had their tokens.
    result = run(*words, "--codes", str(codes), "--journal", str(tmp_path / "second"), "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout) == {
        "stored": 0,
        "waiting": 0,
        "refused": {"already-issued": PEOPLE},
        "uncertain": 0,
    }
    wait_until(lambda: bool(live.results()), "the batch")
    assert live.results()[0]["people"] == PEOPLE


@pytest.mark.long
def test_tickets_can_be_minted_while_sending(tmp_path: Path, run: Call) -> None:
    with LiveSystem(
        tmp_path / "here", plan=plan(), min_batch_size=200, admission=Admission("ticket", "shuffler")
    ).running() as live:
        values = tmp_path / "answers.csv"
        values.write_text("sites\n" + "news\n" * 5)
        words = ["send", str(values), "--contract", str(live.paths[0]), "--to", live.url, "--unsafe-test"]
        key = ["--ticket-key", str(ticket_key_path(tmp_path / "here"))]
        for name in ("first", "second"):
            result = run(*words, *key, "--journal", str(tmp_path / name), "--json")
            assert json.loads(result.stdout) == {"stored": 5, "waiting": 0, "refused": {}, "uncertain": 0}, (
                result.stderr
            )
        assert live.counts()["accepted"] == 10
