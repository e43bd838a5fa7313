"""The import contracts hold, and each of them catches a planted violation."""

import itertools
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", script, "--config", "pyproject.toml", "--no-cache"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the sources in which a test may plant a violation."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(sources: Path, module: str, line: str) -> None:
    path = sources / "src" / Path(*module.split("."))
    target = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    before = target.read_text() if target.exists() else ""
    target.write_text(f"{before}\n{line}\n")


def test_contracts_hold(sources: Path) -> None:
    result = lint(sources)
    assert result.returncode == 0, result.stdout


LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
UPWARDS = [(lower.split(" | ")[0], upper.split(" | ")[-1]) for upper, lower in itertools.pairwise(LAYERS)]
SIDEWAYS = [pair for layer in LAYERS for pair in itertools.pairwise(layer.split(" | "))]
OUTSIDE = {
    "hubbub.numeric.rounding": ["os", "time", "secrets", "pathlib", "cryptography"],
    "hubbub.checker.fixed": [
        "numpy",
        "hubbub.accountant",
        "hubbub.errors",
        "hubbub.numeric.binomial",
        "hubbub.model.plans",
    ],
    "hubbub.lab.study": ["research", "examples", "tests", "docs"],
    "hubbub.documents": ["socket", "time", "sqlite3", "random"],
}


def test_every_contract_catches_a_planted_violation(sources: Path) -> None:
    """Every layer that imports the one above or beside it, and every module that a package must not use, are found."""
    planted = [(f"hubbub.{importer}", f"hubbub.{imported}") for importer, imported in UPWARDS + SIDEWAYS]
    planted += [(importer, module) for importer, modules in OUTSIDE.items() for module in modules]
    for importer, imported in planted:
        plant(sources, importer, f"import {imported}")
    result = lint(sources)
    assert result.returncode == 1
    found = " ".join(result.stdout.split())
    assert [pair for pair in planted if f"{pair[0]} -> {pair[1]} (" not in found] == []
    assert "Contracts: 0 kept, 5 broken." in found


def test_a_package_without_a_layer_is_found(sources: Path) -> None:
    (sources / "src" / "hubbub" / "elsewhere.py").write_text('"""A module that no layer names."""\n')
    result = lint(sources)
    assert result.returncode == 1
    assert "hubbub.elsewhere" in result.stdout


@pytest.mark.parametrize(
    "line", ["from scipy import stats", "import scipy.stats", "import numpy.random", "import random"]
)
def test_banned_modules(sources: Path, line: str) -> None:
    plant(sources, "hubbub.numeric.rounding", f"{line}  # noqa: F401")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "src"]
    result = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "TID251" in result.stdout
