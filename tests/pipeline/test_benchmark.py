"""The benchmark runs, and the pipeline that it measures needs bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_figures_are_flat_and_the_memory_bounded() -> None:
    command = [sys.executable, "-m", "benchmarks.pipeline", "--json", "--quick"]
    figures = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    peers = ["vs_numpy", "vs_pure_ldp", "vs_multi_freq_ldpy"]
    assert list(figures) == ["records_per_s", *peers, "peak_gib", "survey8_vs_bits40", "survey_device_us"]
    assert figures["records_per_s"] > 10**5
    assert figures["peak_gib"] < 1
    assert figures["survey8_vs_bits40"] > 0.1
    assert figures["survey_device_us"] < 1000
