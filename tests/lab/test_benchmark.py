"""The benchmark of studies runs on twenty different protocols."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.study import PROTOCOLS, plans

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_twenty_protocols() -> None:
    found = plans(10**4)
    assert len({plan.id for plan in found}) == PROTOCOLS
    assert {plan.protocol.release for plan in found} == {"records", "bits", "category"}
    assert {plan.schema.form for plan in found} == {"one_hot", "bits", "at_most"}


@pytest.mark.slow
def test_figures_are_flat() -> None:
    command = [sys.executable, "-m", "benchmarks.study", "--json", "--quick"]
    figures = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert {"counts_s", "records_s", "billion_s", "billion_worst_s"} < figures.keys()
    assert all(value > 0 for value in figures.values())
