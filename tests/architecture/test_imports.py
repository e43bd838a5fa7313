"""The import contracts hold, and each of them catches a planted violation."""

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


# Every layer from top to bottom, with the packages that must not import each other.
LAYERS = [
    ("cli",),
    ("studio",),
    ("service", "lab", "spark", "vectors"),
    ("pages",),
    ("io",),
    ("client", "shuffler", "analyzer", "wire", "planner"),
    ("accountant",),
    ("records", "reports", "bundles"),
    ("encoding", "plans"),
    ("protocol",),
    ("schema", "privacy"),
    ("bits",),
    ("numeric", "checker"),
    ("errors",),
]
UPWARDS = [(lower[0], upper[0]) for upper, lower in itertools.pairwise(LAYERS)]
SIDEWAYS = [(a, b) for layer in LAYERS for a, b in itertools.pairwise(layer)]


@pytest.mark.parametrize(("importer", "imported"), UPWARDS + SIDEWAYS)
def test_layers_are_kept_apart(sources: Path, importer: str, imported: str) -> None:
    plant(sources, f"hubbub.{imported}", "")
    plant(sources, f"hubbub.{importer}", f"import hubbub.{imported}")
    result = lint(sources)
    assert result.returncode == 1
    assert "Imports point downwards" in result.stdout
    assert f"hubbub.{importer} -> hubbub.{imported}" in result.stdout


@pytest.mark.parametrize("module", ["os", "time", "secrets", "pathlib", "cryptography"])
def test_numeric_is_pure(sources: Path, module: str) -> None:
    plant(sources, "hubbub.numeric.rounding", f"import {module}")
    result = lint(sources)
    assert result.returncode == 1
    assert f"hubbub.numeric.rounding -> {module}" in result.stdout


@pytest.mark.parametrize("module", ["numpy", "hubbub.accountant", "hubbub.numeric.binomial", "hubbub.plans"])
def test_the_checker_is_separate(sources: Path, module: str) -> None:
    plant(sources, "hubbub.checker.fixed", f"import {module}")
    result = lint(sources)
    assert result.returncode == 1
    assert "shares no code with what it checks" in result.stdout
    assert f"hubbub.checker.fixed -> {module}" in result.stdout


@pytest.mark.parametrize("module", ["research.notes", "examples.clicks", "tests.conftest", "docs.generate"])
def test_the_package_stands_alone(sources: Path, module: str) -> None:
    plant(sources, "hubbub.lab.study", f"import {module}")
    result = lint(sources)
    assert result.returncode == 1
    assert f"hubbub.lab.study -> {module.split('.', maxsplit=1)[0]}" in result.stdout


@pytest.mark.parametrize("module", ["socket", "time", "sqlite3", "random"])
def test_no_outside_world_below_the_services(sources: Path, module: str) -> None:
    plant(sources, "hubbub.errors", f"import {module}")
    result = lint(sources)
    assert result.returncode == 1
    assert f"hubbub.errors -> {module}" in result.stdout


@pytest.mark.parametrize(
    "line", ["from scipy import stats", "import scipy.stats", "import numpy.random", "import random"]
)
def test_banned_modules(sources: Path, line: str) -> None:
    plant(sources, "hubbub.numeric.rounding", f"{line}  # noqa: F401")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "src"]
    result = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "TID251" in result.stdout
