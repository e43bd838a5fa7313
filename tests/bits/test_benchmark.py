"""The benchmark runs without its peers and prints all its figures."""

import json
import subprocess
import sys
from pathlib import Path

FIGURES = [
    "randomize_vs_numpy",
    "randomize_keystream_fraction",
    "randomize_vs_multi_freq_ldpy",
    "randomize_vs_pure_ldp",
    "randomize_vs_opendp",
    "threads_2_speedup",
    "sparse_vs_dense",
    "counts64_vs_unpackbits",
    "counts1024_vs_unpackbits",
    "inverse20_vs_butterfly",
    "permute_ns_plain",
    "permute_ns_fast",
    "permute_ns_insecure",
    "single_us",
    "single_vs_opendp",
]
LIMITS = [
    "limit_aes_ctr_gb_s",
    "limit_threads_2_speedup",
    "limit_memcpy_gb_s",
    "limit_read_gb_s",
    "limit_urandom_gb_s",
]
PEERS = {"randomize_vs_multi_freq_ldpy", "randomize_vs_pure_ldp", "randomize_vs_opendp", "single_vs_opendp"}


def benchmark(*options: str) -> str:
    command = [sys.executable, "-m", "benchmarks.bits", "--quick", *options]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def test_json_is_one_flat_object() -> None:
    figures = json.loads(benchmark("--json"))
    assert sorted(figures) == sorted(FIGURES + LIMITS)
    for name, value in figures.items():
        assert value is None if value is None and name in PEERS else value > 0


def test_table() -> None:
    table = benchmark()
    assert all(name in table for name in FIGURES)
