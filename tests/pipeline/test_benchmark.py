"""The benchmark runs, and the pipeline that it measures needs bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import pipeline_arrow

from hubbub.io.values import read_values

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_figures_are_flat_and_the_memory_bounded() -> None:
    command = [sys.executable, "-m", "benchmarks.pipeline", "--json", "--quick"]
    figures = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    peers = ["vs_numpy", "vs_pure_ldp", "vs_multi_freq_ldpy"]
    own = ["records_per_s", *peers, "peak_gib", "survey8_vs_bits40", "survey_device_us"]
    assert list(figures) == [*own, *pipeline_arrow.KEYS]
    assert figures["records_per_s"] > 10**5
    assert figures["peak_gib"] < 1
    assert figures["survey8_vs_bits40"] > 0.1
    assert figures["survey_device_us"] < 1000
    assert figures["decode_lists_rows_per_s"] > 10**5
    assert figures["pipeline_lists_rows_per_s"] > 10**4


@pytest.mark.parametrize("name", pipeline_arrow.SCHEMAS)
def test_all_contenders_do_the_same_job(name: str, tmp_path: Path) -> None:
    """Every bit is flipped with the same probability: the counts are n·q + (1 − 2q)·true, within 6 standard errors."""
    n, q = 20_000, pipeline_arrow.FLIP
    files = {one: tmp_path / f"{one}.parquet" for one in pipeline_arrow.SCHEMAS}
    pipeline_arrow.write_values(files, n)
    plan = pipeline_arrow.plan_for(name, n)
    true = sum(people.counts() for people in read_values(str(files[name]), plan.schema))
    found = {"hubbub": pipeline_arrow.count(files[name], plan)}
    for peer, jobs in (("duckdb", pipeline_arrow.DUCKDB), ("polars", pipeline_arrow.POLARS)):
        if name in jobs and pipeline_arrow.installed(peer):
            found[peer] = jobs[name](files[name])
    for peer, counts in found.items():
        error = counts - (n * q + (1 - 2 * q) * true)
        assert np.abs(error).max() < 6 * np.sqrt(n * q * (1 - q)), peer
        assert np.abs(error).max() > 0, peer
