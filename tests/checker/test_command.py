"""``hubbub-verify`` says what ``hubbub verify`` says, with the same exit codes."""

import io
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.checker.plans import forged, scaled

import hubbub as hb
from hubbub import cli
from hubbub.checker import State
from hubbub.checker.__main__ import main
from hubbub.cli.errors import CORRUPT, UNCONFIRMED

BIT = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)
SPLIT = hb.plan_from(hb.Schema.bits(3), 60, hb.Protocol(0.1, release="bits"), delta=1e-6)
TEXTS = {
    "confirmed": BIT.to_json(),
    "not confirmed here": scaled(SPLIT, 0.999),
    "false": scaled(BIT, 0.999),
    "empty": forged(BIT, lambda one: one["guarantee"].update(epsilon="inf")),
    "damaged": BIT.to_json()[:-9],
    "no plan": "[]",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_both_commands_say_the_same(
    text: str, options: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plan.json").write_text(text)
    expected = CliRunner().invoke(cli.main, ["verify", "plan.json", *options], prog_name="hubbub")
    code = main(["plan.json", *options])
    said = capsys.readouterr()
    assert (said.out, said.err, code) == (expected.stdout, expected.stderr, expected.exit_code)


def test_exit_codes() -> None:
    assert {state: state.code for state in State} == {
        State.CONFIRMED: 0,
        State.NOT_CONFIRMED: UNCONFIRMED,
        State.FALSE: CORRUPT,
    }


def test_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    expected = CliRunner().invoke(cli.main, ["verify", "none.json"], prog_name="hubbub")
    assert main(["none.json"]) == expected.exit_code == 5
    assert capsys.readouterr().err == expected.stderr


@pytest.mark.parametrize(
    ("text", "code", "start"), [(BIT.to_json(), 0, ""), ("{", 4, "error: standard input: the plan must be JSON")]
)
def test_standard_input(
    text: str, code: int, start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["-"]) == code
    assert capsys.readouterr().err.startswith(start)


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--fast", "a"]])
def test_wrong_options(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert hint == "hint: see `hubbub-verify --help`"
