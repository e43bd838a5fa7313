"""The list of mutants does not rot: each can be planted, and names tests that exist; the driver tells what it saw."""

import argparse
import re
from collections import Counter
from pathlib import Path

import pytest
from tools.mutants import KINDS, ROOT, Mutant, load
from tools.mutants.__main__ import Jobs, table

MUTANTS = load()


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_every_mutant_can_be_planted(file: str) -> None:
    """If this fails for a line that you changed, the message says what to do."""
    for mutant in MUTANTS:
        if mutant.file == file:
            compile(mutant.mutated(), file, "exec")


def test_a_line_that_changed_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "src" / "hubbub" / "bits" / "coins.py"
    path.parent.mkdir(parents=True)
    mutant = Mutant(area="tests/bits", file="bits/coins.py", old="a < b", new="a <= b", kind="material", tests=("t",))
    for text, count in (("a > b", 0), ("a < b or a < b", 2)):
        path.write_text(text)
        with pytest.raises(LookupError, match=f"(?s)has {count} times.*bits.toml.*a < b.*--only bits/coins.py"):
            mutant.mutated(tmp_path)
    path.write_text("x = 1\nc = a < b\n")
    assert (mutant.name(tmp_path), mutant.mutated(tmp_path)) == ("bits/coins.py:2", "x = 1\nc = a <= b\n")


def test_there_are_enough_mutants_of_every_part() -> None:
    assert len(MUTANTS) >= 200
    areas = Counter(Path(mutant.area).name for mutant in MUTANTS)
    areas["pipeline"] += areas["bits"]
    assert min(areas[area] for area in ("accountant", "checker", "pipeline", "service")) >= 40
    assert Counter(mutant.kind for mutant in MUTANTS)["material"] >= 200
    assert {mutant.kind for mutant in MUTANTS} <= set(KINDS)


@pytest.mark.parametrize("area", sorted({mutant.area for mutant in MUTANTS}))
def test_the_tests_that_mutants_name_exist(area: str) -> None:
    assert (ROOT / area).is_dir()
    for mutant in MUTANTS:
        for test in mutant.tests if mutant.area == area else ():
            path, _, name = test.partition("::")
            assert (ROOT / path).exists(), f"{mutant.name()}: there is no {path}"
            name = re.sub(r"\[.*", "", name, flags=re.DOTALL)
            if name and path.startswith("tests"):
                assert f"def {name}(" in (ROOT / path).read_text(), f"{mutant.name()}: {path} has no {name}"


def test_lists_are_checked(tmp_path: Path) -> None:
    good = "[[mutant]]\nfile = 'a.py'\nold = 'x'\nnew = 'y'\nkind = 'material'\ntests = ['t']\n"
    (tmp_path / "bits.toml").write_text(good)
    assert load(tmp_path)[0].area == "tests/bits"
    for bad, reason in (
        (good.replace("'material'", "'odd'"), "kind is one of"),
        (good.replace("'material'", "'equivalent'"), "a reason belongs to"),
        (good.replace("new = 'y'", "new = 'x'"), "changes its line"),
        (good.replace("['t']", "[]"), "names tests"),
        (good + good, "listed twice"),
    ):
        (tmp_path / "bits.toml").write_text(bad)
        with pytest.raises(ValueError, match=reason):
            load(tmp_path)


def test_the_driver_tells_killed_mutants_from_survivors(tmp_path: Path) -> None:
    """And leaves the sources as they were."""
    source = tmp_path / "src" / "hubbub" / "sign.py"
    source.parent.mkdir(parents=True)
    (source.parent / "__init__.py").write_text("")
    (tmp_path / "tests").mkdir()
    source.write_text("def sign(x):\n    return 1 if x > 0 else -1\n")
    text = "from hubbub.sign import sign\n\ndef test_sign():\n    assert (sign(2), sign(-2)) == (1, -1)\n"
    (tmp_path / "tests" / "test_sign.py").write_text(text)
    jobs = Jobs([tmp_path], argparse.Namespace(timeout=60, area_timeout=60, named=True))
    seen = []
    for old, new in (("x > 0", "x < 0"), ("x > 0", "x >= 0")):
        mutant = Mutant(
            area="tests", file="sign.py", old=old, new=new, kind="material", tests=("tests/test_sign.py::test_sign",)
        )
        seen.append(jobs.attempt(mutant))
    assert [one["state"] for one in seen] == ["killed", "survived"]
    assert seen[0]["test"] == "tests/test_sign.py::test_sign"
    assert source.read_text().count("x > 0") == 1
    late = {**seen[0], "state": "timeout"}
    assert table([*seen, late]).splitlines()[-1].split() == ["all", "1/3", "-", "-", "-"]
