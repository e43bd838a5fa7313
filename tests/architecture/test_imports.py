"""The house rules on imports hold, and each rule catches a planted violation."""

import itertools
import os
import shutil
import subprocess
import sys
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
def house(tmp_path: Path) -> Path:
    """A copy of the sources in which a test may plant a violation."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(house: Path, module: str, line: str) -> None:
    path = house / "src" / Path(*module.split("."))
    target = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    before = target.read_text() if target.exists() else ""
    target.write_text(f"{before}\n{line}\n")


def test_contracts_hold(house: Path) -> None:
    result = lint(house)
    assert result.returncode == 0, result.stdout


# (the importing room, what it must not import): every floor of the house, every pair of neighbours on one floor.
FLOORS = [
    ("cli",),
    ("serve", "lab", "vectors"),
    ("pages",),
    ("engine",),
    ("client", "shuffler", "analyzer", "wire", "planner"),
    ("accountant",),
    ("protocol",),
    ("data", "privacy"),
    ("bits",),
    ("numeric",),
    ("errors",),
]
UPWARDS = [(lower[0], upper[0]) for upper, lower in itertools.pairwise(FLOORS)]
SIDEWAYS = [(a, b) for floor in FLOORS for a, b in itertools.pairwise(floor)]


@pytest.mark.parametrize(("importer", "imported"), UPWARDS + SIDEWAYS)
def test_rooms_are_kept_apart(house: Path, importer: str, imported: str) -> None:
    plant(house, f"hubbub.{imported}", "")
    plant(house, f"hubbub.{importer}", f"import hubbub.{imported}")
    result = lint(house)
    assert result.returncode == 1
    assert "Rooms import downwards only" in result.stdout
    assert f"hubbub.{importer} -> hubbub.{imported}" in result.stdout


@pytest.mark.parametrize("module", ["os", "time", "secrets", "pathlib", "cryptography"])
def test_numeric_is_pure(house: Path, module: str) -> None:
    plant(house, "hubbub.numeric.rounding", f"import {module}")
    result = lint(house)
    assert result.returncode == 1
    assert f"hubbub.numeric.rounding -> {module}" in result.stdout


@pytest.mark.parametrize("module", ["socket", "time", "sqlite3", "random"])
def test_no_outside_world_below_the_services(house: Path, module: str) -> None:
    plant(house, "hubbub.errors", f"import {module}")
    result = lint(house)
    assert result.returncode == 1
    assert f"hubbub.errors -> {module}" in result.stdout


@pytest.mark.parametrize(
    "line", ["from scipy import stats", "import scipy.stats", "import numpy.random", "import random"]
)
def test_banned_modules(house: Path, line: str) -> None:
    plant(house, "hubbub.numeric.rounding", f"{line}  # noqa: F401")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "src"]
    result = subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "TID251" in result.stdout
