"""The benchmark of the services: its figures, and the store that it fills without uploads."""

from pathlib import Path

import pytest
from benchmarks.services import fill
from benchmarks.services.__main__ import PARTS, QUICK, measure, selected
from tests.service.shuffler_system import System

from hubbub.service.task import sealing
from hubbub.service.task.keylist import KeyList

FIGURES = {
    *("sqlite_singles_per_s", "sqlite_hundreds_per_s", "sqlite_hundreds_vs_open_limit", "overload_share"),
    *("postgres_singles_per_s", "postgres_hundreds_per_s", "intake_2_cpu_ratio", "intake_2_latency_speedup"),
    *("release_p99_ratio", "batch_1e7_peak_gib", "cost_growth_1e5_1e7"),
}


def test_every_figure_can_be_measured_alone() -> None:
    assert {name for _, names in PARTS.values() for name in names} >= FIGURES
    assert all(len(selected(name)) == 1 for name in FIGURES)
    assert selected("") == [*PARTS]
    with pytest.raises(SystemExit, match="no_such_figure"):
        selected("overload_share,no_such_figure")


def test_slots_that_share_a_key_open_like_any_other(tmp_path: Path) -> None:
    system = System(tmp_path)
    contract, analyzer = system.contract, system.analyzer
    key = KeyList.read(analyzer.keys(), contract.analyzer, "analyzer").active(contract.suite)
    private = analyzer.keyring.opener(key.id)
    slots = [*fill._slots(50, contract, key)]
    opened = [sealing.open_slot(slot, contract.layout, private) for slot in slots]
    assert {len(slot) for slot in slots} == {contract.slot_size}
    assert all(payload is not None and len(payload) == contract.plan.payload for payload in opened)
    system.shut()


@pytest.mark.slow
def test_every_figure_is_measured(tmp_path: Path, postgres: str) -> None:
    """With tiny sizes, where the values mean nothing but nothing may be lost."""
    del postgres
    figures = measure([*PARTS], tmp_path, QUICK)
    assert figures.keys() >= FIGURES
    assert figures["acknowledged"] == figures["accepted"]
    assert figures["conservation_error"] == figures["other_statuses"] == 0
    assert figures["batch_1e7_people"] == figures["batch_1e7_slots"]
    assert all(isinstance(value, int | float) and value >= 0 for value in figures.values())
