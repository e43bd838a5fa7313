"""``hubbub ledger``: create, charge, forecast, show and recover."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.io.documents import write_plan

PLAN = hb.plan_from(hb.Schema.bits(1), 10_000, hb.Protocol(0.1), delta=1e-8, rounds=12, total_delta=1e-6)


def expect(run: Call, *words: str, code: int = 0) -> str:
    """Return the output of a command that exits with this code."""
    result = run(*words)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a plan."""
    write_plan(PLAN, str(tmp_path / "plan.json"))
    return tmp_path


def test_a_year_within_a_budget(run: Call, folder: Path) -> None:
    file, plan = str(folder / "people.ledger"), str(folder / "plan.json")
    expect(run, "ledger", "create", file, "--epsilon", "0.5", "--delta", "1e-6")
    ahead = json.loads(expect(run, "ledger", "forecast", file, "--plan", plan, "--rounds", "12", "--json"))
    assert ahead["total"]["epsilon"] == pytest.approx(PLAN.total.epsilon, rel=1e-8)
    weeks = ahead["remaining"]
    charge = ("ledger", "charge", file, "--plan", plan)
    kept = json.loads(expect(run, *charge, "--collection", "weeks", "--rounds", str(weeks), "--json"))
    assert 0.45 < kept["total"]["epsilon"] <= 0.5
    assert kept["charges"] == [{"name": f"{PLAN.id}/weeks", "rounds": weeks}]
    assert expect(run, *charge, "--collection", "one more", code=3).count("\n") == 2
    expect(run, *charge, "--collection", "weeks", code=3)
    expect(run, *charge, "--collection", "weeks", "--rounds", str(weeks), "--again")
    shown = expect(run, "ledger", "show", file)
    assert f"{weeks} rounds, plan {PLAN.id[:8]}…" in shown
    assert "(0.5, 1e-06)" in shown


def test_a_rewound_ledger_is_refused_and_recovered(run: Call, folder: Path) -> None:
    path, plan = folder / "people.ledger", str(folder / "plan.json")
    expect(run, "ledger", "create", str(path), "--epsilon", "0.5", "--delta", "1e-6")
    older = path.read_bytes()
    expect(run, "ledger", "charge", str(path), "--plan", plan, "--collection", "week 1")
    path.write_bytes(older)
    assert "older copy" in expect(run, "ledger", "show", str(path), code=4)
    expect(run, "ledger", "recover", str(path), "--lost", plan, "--rounds", "1")
    assert json.loads(expect(run, "ledger", "show", str(path), "--json"))["charges"][0]["rounds"] == 1


def test_the_plan_shows_its_rounds(run: Call, folder: Path) -> None:
    shown = expect(run, "inspect", str(folder / "plan.json"))
    assert f"({PLAN.total.epsilon:.4g}, 1e-06)-differential privacy for all 12 rounds together" in shown
    record = json.loads(expect(run, "inspect", str(folder / "plan.json"), "--json"))
    assert (record["rounds"], record["total"]["delta"]) == (12, 1e-6)
