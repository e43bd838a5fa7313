"""Workflow files are legal, run what contributors run, and can neither write nor publish by accident."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAJOR = re.compile(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)")


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(path)
    return document


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        *map(str, files),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_workflows_meet_their_schema() -> None:
    assert {path.stem for path in WORKFLOWS} == {"build", "check", "docs", "tests"}
    result = check(*WORKFLOWS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_wrong_workflow_is_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs:\n  one:\n    runs-on: ubuntu-latest\n    step: []\n")
    assert check(wrong).returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_rights_are_least(path: Path) -> None:
    document = load(path)
    assert document["permissions"] == {"contents": "read"}
    for name, job in document["jobs"].items():
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            if "uses" in step:
                assert MAJOR.fullmatch(step["uses"]), step["uses"]
        if name == "publish":
            assert job["environment"] == "pypi"
            assert job["permissions"] == {"id-token": "write"}
            assert "refs/tags/v" in job["if"]
        else:
            assert "permissions" not in job


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_targets_of_the_makefile(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step.get("run", "") for job in load(path)["jobs"].values() for step in job["steps"]]
    called = re.findall(r"\bmake ([a-z-]+)", "\n".join(steps))
    assert called
    assert set(called) <= targets


def test_every_supported_python_is_tested() -> None:
    matrix = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13"]


def test_hooks_are_local() -> None:
    document = load(ROOT / ".pre-commit-config.yaml")
    assert [repository["repo"] for repository in document["repos"]] == ["local"]
    assert all(hook["entry"].startswith(".venv/bin/") for hook in document["repos"][0]["hooks"])
