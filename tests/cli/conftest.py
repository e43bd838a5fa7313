"""A folder with the files of one small collection, and a function that runs the program."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hubbub as hb
from hubbub.cli import main
from hubbub.io.documents import write_plan

Call = Callable[..., Result]


def call(*words: str, input: bytes | None = None) -> Result:
    """Run the program inside this process."""
    return CliRunner().invoke(main, list(words), input=input, prog_name="hubbub")


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that every test copies."""
    folder = tmp_path_factory.mktemp("collection")
    labels = ["red", "green", "blue"]
    write_plan(hb.plan_from(hb.Schema.one_hot(labels), 1000, hb.Protocol(0.1), delta=1e-6), str(folder / "plan.json"))
    write_plan(hb.plan_from(hb.Schema.one_hot(labels), 900, hb.Protocol(0.1), delta=1e-6), str(folder / "other.json"))
    split = hb.Protocol(0.1, release="bits")
    write_plan(hb.plan_from(hb.Schema.bits(["a", "b"]), 10, split, delta=1e-6), str(folder / "split.json"))
    answers = "".join(f"{labels[i % 4 % 3]}\n" for i in range(1000))
    (folder / "answers.csv").write_text("colour\n" + answers)
    for words in (
        ("randomize", "answers.csv", "--plan", "plan.json", "-o", "reports.hub"),
        ("shuffle", "reports.hub", "--plan", "plan.json", "-o", "mixed.hub"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert call(*words).exit_code == 0
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test."""
    place = tmp_path / "work"
    shutil.copytree(original, place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return place


@pytest.fixture
def run() -> Call:
    return call
