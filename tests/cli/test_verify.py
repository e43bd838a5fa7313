"""``hubbub verify``: its output, its JSON and its exit codes."""

import json
from pathlib import Path

from tests.checker.plans import forged, scaled
from tests.cli.conftest import Call

import hubbub as hb

BIT = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)
SPLIT = hb.plan_from(hb.Schema.bits(3), 60, hb.Protocol(0.1, release="bits"), delta=1e-6)


def test_a_confirmed_plan(folder: Path, run: Call) -> None:
    (folder / "bit.json").write_text(BIT.to_json())
    result = run("verify", "bit.json")
    assert result.exit_code == 0
    assert "confirmed: δ ≤ 9.9" in result.stdout
    assert "with 1,000 honest users and an honest shuffler" in result.stdout
    assert "not checked" in result.stdout


def test_json(folder: Path, run: Call) -> None:
    (folder / "bit.json").write_text(BIT.to_json())
    found = json.loads(run("verify", "bit.json", "--json").stdout)
    assert found["plan"] == BIT.id
    assert found["verdict"] == "confirmed"
    assert 0.98e-6 < found["bound"] <= 1e-6
    assert found["assumptions"] == {"honest": 1000, "shuffler": True, "fakes": False}
    assert {part["verdict"] for part in found["parts"].values()} == {"confirmed"}


def test_standard_input(run: Call) -> None:
    assert run("verify", "-", input=BIT.to_json().encode()).exit_code == 0


def test_a_false_claim(folder: Path, run: Call) -> None:
    (folder / "false.json").write_text(scaled(BIT, 0.999))
    result = run("verify", "false.json")
    assert result.exit_code == 4
    assert "false: an attack attains δ ≥ 1.00" in result.stdout


def test_an_infinite_claim(folder: Path, run: Call) -> None:
    (folder / "empty.json").write_text(forged(BIT, lambda one: one["guarantee"].update(epsilon="inf")))
    result = run("verify", "empty.json", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["epsilon"] == "inf"


def test_a_claim_that_cannot_be_confirmed(folder: Path, run: Call) -> None:
    text = scaled(SPLIT, 0.999)
    (folder / "unclear.json").write_text(text)
    result = run("verify", "unclear.json")
    assert result.exit_code == 7
    assert "not confirmed here: the best bound found is δ ≤ " in result.stdout


def test_a_damaged_plan(folder: Path, run: Call) -> None:
    (folder / "cut.json").write_text(BIT.to_json()[:-9])
    result = run("verify", "cut.json")
    assert result.exit_code == 4
    assert result.stderr.startswith("error: cut.json: the plan must be JSON in UTF-8")
