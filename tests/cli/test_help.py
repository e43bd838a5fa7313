"""Every command has a summary, explained options and an example that works."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.cli import COMMANDS, SECTIONS, main


def command(name: str) -> click.Command:
    loaded = main.get_command(click.Context(main), name)
    assert loaded is not None
    return loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_list_and_help_agree(name: str) -> None:
    text = command(name).help
    assert text is not None
    assert text.splitlines()[0] == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    for parameter in command(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


NEED_SERVICES = {"send", "results"}
"""Commands that need a running service; test_send.py and test_results.py run them."""


ENDLESS = {"studio"}
"""Commands that run until they are stopped; the tests of the studio start and stop it."""


LONG = {"calibrate", "demo", "frontier", "plan", "study"}
"""Commands whose examples take long."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
        for name in COMMANDS
        if name not in NEED_SERVICES | ENDLESS
    ],
)
def test_example_works(name: str, folder: Path, run: Call) -> None:
    examples = re.findall(r"Example: (.*)", command(name).help or "")
    assert examples
    if name == "verify":  # the checker does not know the proof for whole records
        plan = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)
        (folder / "plan.json").write_text(plan.to_json())
    if name == "plan":
        (folder / "survey.toml").write_text('[questions.a]\nkind = "flag"\n[questions.b]\nkind = "flag"\n')
    if name == "compare":
        for file in ("before.json", "after.json"):
            assert run("estimate", "mixed.hub", "--plan", "plan.json", "-o", file).exit_code == 0
    if name == "report":
        assert run("estimate", "mixed.hub", "--plan", "plan.json", "-o", "estimate.json").exit_code == 0
    for example in examples:
        program, *words = shlex.split(example)
        result = run(*words)
        assert program == "hubbub"
        assert words[0] == name
        assert result.exit_code == 0, result.stderr
        assert folder.exists()


def test_help_lists_the_sections_and_exit_codes(run: Call) -> None:
    text = run("--help").stdout
    assert all(f"{title}:" in text for title in SECTIONS)
    for line in ("0    success", "2    invalid option", "3    infeasible", "4    a plan, batch", "5    a file, pipe"):
        assert line in text


def test_completion_is_offered() -> None:
    script = "from hubbub.cli import main; main(prog_name='hubbub')"
    environment = os.environ | {"_HUBBUB_COMPLETE": "bash_source"}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert "complete -o nosort -F _hubbub_completion hubbub" in result.stdout


def test_help_loads_no_heavy_module() -> None:
    script = (
        "import sys; from hubbub.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*{'matplotlib', 'numpy', 'rich', 'scipy'} & set(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stderr.split() == []
