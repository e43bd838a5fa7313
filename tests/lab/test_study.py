"""Grids give the same rows in one process or two, resume anywhere, and never reuse rows of another grid."""

import json
import multiprocessing
import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pipeline.points import N, plan_of
from tests.report.structure import check_page

import hubbub as hb
from hubbub.errors import HubbubError, Infeasible, InvalidInput, WireError
from hubbub.lab import study
from hubbub.lab.cells import Cell, Row, measure
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.lab.study import HEADER, Grid, Results, names, run, study_page, verdict

PLANS = tuple(plan_of("one_hot", name) for name in ("flip", "split", "category", "clear among Laplace fakes"))
GRID = Grid(plans=PLANS, populations=(Population(), Population(exponent=1.0)), repetitions=20, level="counts")


def figures(rows: list[Row]) -> list[dict[str, Any]]:
    return [{name: value for name, value in asdict(row).items() if name != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run(GRID)


class Counter:
    """Counts the cells that are run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        monkeypatch.setattr(study, "measure", self)

    def __call__(self, cell: Cell) -> Row:
        self.calls += 1
        return measure(cell)


def test_rows_are_in_grid_order(rows: list[Row]) -> None:
    assert [(row.plan, row.population) for row in rows] == [
        (plan.id, population.name) for plan in PLANS for population in GRID.populations
    ]


@pytest.mark.long
def test_grid_of_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = hb.Budget(1.0, 1e-6)
    grid = Grid(schemas=(hb.Schema.bits(2),), sizes=(500, 700, 500), budgets=(budget,), repetitions=20, level="counts")
    path, calls, plans = tmp_path / "results.jsonl", [], []

    def planned(schema: hb.Schema, n: int, asked: hb.Budget) -> list[hb.Plan]:
        assert (schema, asked) == (hb.Schema.bits(2), budget)
        found = hb.frontier(schema, n, asked)
        plans.extend(found)
        return found

    monkeypatch.setattr(study, "frontier", planned)
    found = run(grid, Results.open(path), progress=lambda *words: calls.append(words))
    assert sorted({plan.n for plan in plans}) == [500, 700]
    assert [row.plan for row in found] == [plan.id for plan in plans]
    assert calls[0] == ("planning", 0, 2)
    assert calls[-1] == ("simulating", len(found), len(found))
    # Plans are stored too.
    monkeypatch.setattr(study, "frontier", None)
    assert figures(run(grid, Results.open(path))) == figures(found)
    assert len(grid.references()) == 2


def test_nothing_is_run_twice(tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    counter, path = Counter(monkeypatch), tmp_path / "results.jsonl"
    first = run(GRID, Results.open(path))
    assert counter.calls == 8
    assert run(GRID, Results.open(path)) == first
    assert counter.calls == 8
    assert figures(first) == figures(rows)
    run(GRID, Results.open(path, fresh=True))
    assert counter.calls == 16


@pytest.mark.parametrize("missing", [1, 20, 700])
def test_truncated_file_is_resumed(
    missing: int, tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.jsonl"
    run(GRID, Results.open(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-missing])
    kept = whole[:-missing].count(b"\n") - 1
    counter = Counter(monkeypatch)
    assert figures(run(GRID, Results.open(path))) == figures(rows)
    assert counter.calls == 8 - kept
    assert 0 < counter.calls < 3
    assert path.read_bytes().count(b"\n") == whole.count(b"\n")
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


@pytest.mark.parametrize("length", range(0, len(HEADER) + 1, 7))
def test_file_truncated_in_its_header_counts_as_empty(length: int, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(HEADER[:length])
    Results.open(path).add("key", 1)
    assert Results.open(path)["key"] == 1


def test_other_grids_do_not_share_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.jsonl"
    run(GRID, Results.open(path))
    for changed in (replace(GRID, seed=1), replace(GRID, repetitions=21), replace(GRID, level="records")):
        counter = Counter(monkeypatch)
        run(changed, Results.open(path))
        assert counter.calls == 8
    counter = Counter(monkeypatch)
    more = replace(GRID, populations=(*GRID.populations, Population(exponent=2.0)))
    assert len(run(more, Results.open(path))) == 12
    assert counter.calls == 4


@pytest.mark.parametrize("content", [b"colour\nred\n", b'{"format":"other"}\n', HEADER[:-1] + b" \n", b"\n"])
@pytest.mark.parametrize("fresh", [True, False])
def test_foreign_files_are_not_changed(content: bytes, fresh: bool, tmp_path: Path) -> None:
    path = tmp_path / "values.csv"
    path.write_bytes(content)
    with pytest.raises(WireError, match="must begin with"):
        Results.open(path, fresh=fresh)
    assert path.read_bytes() == content


@pytest.mark.parametrize("line", [b"{", b"[]", b"1", b'{"key": "a"}', b"\xff", b"[" * 10**5])
def test_damage_in_the_middle_is_an_error(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(HEADER + line + b'\n{"key":"a","value":1}\n')
    with pytest.raises(WireError, match="line 2 of the results file"):
        Results.open(path)


@pytest.mark.long
def test_two_processes_interrupted_and_resumed(tmp_path: Path, rows: list[Row]) -> None:
    path = tmp_path / "results.jsonl"

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(GRID, Results.open(path), jobs=2, progress=interrupt)
    for child in multiprocessing.active_children():
        child.join(600)
    assert not multiprocessing.active_children()
    assert path.read_bytes().count(b"\n") == 4
    assert figures(run(GRID, Results.open(path), jobs=2)) == figures(rows)


def test_dead_worker_is_reported() -> None:
    with pytest.raises(HubbubError, match="worker process was killed"), study._workers(2) as each:
        list(each(os._exit, [3, 3, 3]))


def test_given_people_stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    people = hb.Collection.from_values(np.arange(N) % 4, PLANS[0].schema)
    grid = replace(GRID, populations=(GivenPopulation.of(people),), level="records")
    counter = Counter(monkeypatch)
    found = run(grid, jobs=2)
    assert counter.calls == len(found) == 4
    alone = replace(grid, level="counts").cells([])
    assert all(isinstance(cell.population, GivenPopulation) and cell.population.records is None for cell in alone)


@pytest.mark.parametrize(
    "wrong",
    [
        {"plans": ()},
        {"schemas": (hb.Schema.bits(2),), "sizes": (10,), "budgets": (hb.Budget(1.0, 1e-6),)},
        {"populations": ()},
        {"seed": -1},
    ],
)
def test_invalid_grids(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(GRID, **wrong)


def test_no_protocol_is_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "frontier", lambda *_: [])
    with pytest.raises(Infeasible):
        run(Grid(schemas=(hb.Schema.bits(2),), sizes=(10,), budgets=(hb.Budget(1.0, 1e-6),)))


def test_page_is_self_contained(rows: list[Row]) -> None:
    page = study_page(rows, central={(rows[0].schema, N, rows[0].epsilon): 2.0})
    check_page(page, 5)
    assert page.count("<tr") == 9
    assert "nothing contradicts a prediction" in page
    assert 'class="alarm"' not in page


def test_family_names_are_unique(rows: list[Row]) -> None:
    flip, split = rows[0], rows[2]
    assert names([flip, split]) == ["local flips", "split bits"]
    assert names([flip, replace(flip, population="other")]) == ["local flips"] * 2
    assert names([flip, replace(flip, release="bits")]) == ["local flips, records", "local flips, bits"]


def test_page_shows_contradictions(rows: list[Row]) -> None:
    bad = [replace(rows[0], p_error=1e-9, family="<b>flip"), *rows[1:]]
    page = study_page(bad)
    assert "1 of 32 predictions are contradicted" in page
    assert "<b>flip" not in page
    assert page.count('class="alarm"') == 2  # a sentence and a row
    assert len(re.findall(r"<title>[^<]*&lt;b&gt;flip", page)) == 8  # a dot in each of four charts, in two widths
    assert page.count("contradicts the prediction<") == 8
    assert "error: <b>flip" in verdict(bad)[1]


@pytest.mark.long
def test_extreme_values_are_drawn(rows: list[Row]) -> None:
    same = [replace(rows[0], observed=0.0, ratio=1e-9, coverage=1.0, coverage_low=1.0, coverage_high=1.0)]
    for page in (study_page(same), study_page([replace(rows[0], predicted=1e12, observed=1e12)])):
        check_page(page, 5)
