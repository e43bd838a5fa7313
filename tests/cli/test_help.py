"""Every command explains itself, by an example that works, and quickly."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Call

from hubbub.cli import COMMANDS, main


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


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


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "send"])  # which test_send.py tries
def test_example_works(name: str, folder: Path, run: Call) -> None:
    examples = re.findall(r"Example: (.*)", command(name).help or "")
    assert examples
    for example in examples:
        program, *words = shlex.split(example)
        result = run(*words)
        assert program == "hubbub"
        assert words[0] == name
        assert result.exit_code == 0, result.stderr
        assert folder.exists()


def test_help_tells_the_exit_codes(run: Call) -> None:
    text = run("--help").stdout
    for line in ("0  done", "2  a wrong option", "3  infeasible", "4  a plan or a batch", "5  a file or pipe"):
        assert line in text


def test_completion_is_offered() -> None:
    script = "from hubbub.cli import main; main(prog_name='hubbub')"
    asked = os.environ | {"_HUBBUB_COMPLETE": "bash_source"}
    result = subprocess.run([sys.executable, "-c", script], env=asked, capture_output=True, text=True, check=False)
    assert "complete -o nosort -F _hubbub_completion hubbub" in result.stdout


def test_help_is_fast() -> None:
    script = (
        "import sys, time; from hubbub.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert 'numpy' not in sys.modules and 'rich' not in sys.modules\n"
        "print(time.process_time(), file=sys.stderr)"
    )
    spent = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr)
        for _ in range(3)
    ]
    assert min(spent) < 0.3
