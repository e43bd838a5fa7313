"""Failpoints kill exactly where they are armed; problem documents have one form."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hubbub.service
from hubbub.errors import Problem
from hubbub.io import files
from hubbub.service.runtime.failpoints import POINTS, VARIABLE
from hubbub.service.runtime.http import KINDS, headers, problem_document

FOLDER = Path(hubbub.service.__path__[0])


def visits(setting: str, *names: str) -> subprocess.CompletedProcess[str]:
    """Run a process that reaches points and prints each one it survives."""
    script = (
        "import sys; from hubbub.service.runtime.failpoints import reach\n"
        "for name in sys.argv[1:]: reach(name); print(name)"
    )
    return subprocess.run(
        [sys.executable, "-u", "-c", script, *names],
        env=os.environ | {VARIABLE: setting},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_at_least_twenty_points() -> None:
    assert len(POINTS) >= 20
    assert all(POINTS.values())


def test_an_armed_point_kills() -> None:
    result = visits("accept-inserted", "accept-begun", "accept-inserted", "accept-committed")
    assert result.returncode == -signal.SIGKILL
    assert result.stdout.split() == ["accept-begun"]


def test_the_third_visit_kills() -> None:
    result = visits("chunk-stored:3", *["chunk-stored"] * 4)
    assert result.returncode == -signal.SIGKILL
    assert result.stdout.split() == ["chunk-stored"] * 2


@pytest.mark.parametrize("setting", ["nowhere", "nowhere:2", "chunk-stored:0", "chunk-stored:x", "chunk-stored:-1"])
def test_an_invalid_setting_stops_the_program(setting: str) -> None:
    result = visits(setting, "chunk-stored")
    assert result.returncode == 1
    assert f"{VARIABLE} must" in result.stderr
    assert not result.stdout


def test_the_source_reaches_exactly_the_declared_points() -> None:
    reached = {
        name for path in FOLDER.rglob("*.py") for name in re.findall(r"\breach\(\"([^\"]*)\"\)", path.read_text())
    }
    steps = re.findall(r"\bstep\(\"([^\"]*)\"\)", Path(files.__file__).read_text())
    assert reached | {f"file-before-{step}" for step in steps} == POINTS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_problem_documents(name: str) -> None:
    content = json.loads(problem_document(Problem(name, "why", index=7)))
    assert content == {
        "type": f"urn:hubbub:problem:{name}",
        "title": KINDS[name].title,
        "status": KINDS[name].status,
        "detail": "why",
        "index": 7,
    }
    assert {"detail", "index"}.isdisjoint(json.loads(problem_document(Problem(name))))


def test_headers_of_problems() -> None:
    assert headers(Problem("unavailable", retry_after=5))["retry-after"] == "5"
    assert headers(Problem("unauthorized"))["www-authenticate"] == "Bearer"
    assert headers(Problem("malformed")) == {"content-type": "application/problem+json"}


def test_unknown_problem_names_are_rejected() -> None:
    with pytest.raises(KeyError, match="strange"):
        problem_document(Problem("strange"))
