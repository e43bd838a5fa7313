"""Packed bits against the machine's limits and other packages: ``python -m benchmarks.bits [--json] [--quick]``.

All contenders of a figure alternate in one run, and the best repetition of each counts: CPU time of the process for a
single thread, so that other load matters little; wall time for two threads. Ratios say how many times faster hubbub is.
A package that is not installed gives ``null``; nothing is installed.
"""

import argparse
import importlib.util
import json
import math
import os
import sys
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hubbub.bits import device
from hubbub.bits.coins import coins, positions
from hubbub.bits.counting import bit_counts
from hubbub.bits.device import GRID_BITS
from hubbub.bits.entropy import system
from hubbub.bits.permutation import shuffle
from hubbub.bits.records import flip, uniform_records
from hubbub.numeric.vectors import unflip_histogram

Work = Callable[[], object]
Figures = dict[str, float | None]

FLIP = 0.1778
NUMERATOR = round(FLIP * 2**GRID_BITS)
WIDTH = 40

TARGETS = {
    "randomize_vs_numpy": 10.0,
    "randomize_keystream_fraction": 0.4,
    "randomize_vs_multi_freq_ldpy": 50.0,
    "randomize_vs_pure_ldp": 500.0,
    "randomize_vs_opendp": 1000.0,
    "threads_2_speedup": 1.7,
    "sparse_vs_dense": 100.0,
    "counts64_vs_unpackbits": 10.0,
    "counts1024_vs_unpackbits": 10.0,
    "inverse20_vs_butterfly": 4.0,
    "permute_ns_plain": -100.0,
    "permute_ns_fast": -15.0,
    "single_us": -5.0,
    "single_vs_opendp": 20.0,
}
"""Lower bounds; a negative target is an upper bound."""


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def best(
    contenders: dict[str, tuple[Work, int]], repetitions: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Return the seconds per unit of each contender, given as a function and its number of units."""
    seconds = dict.fromkeys(contenders, math.inf)
    for _ in range(repetitions):
        for name, (work, units) in contenders.items():
            start = clock()
            work()
            seconds[name] = min(seconds[name], (clock() - start) / units)
    return seconds


def ratio(seconds: dict[str, float], peer: str, own: str = "own") -> float | None:
    return seconds[peer] / seconds[own] if peer in seconds else None


def keystream(size: int) -> Work:
    """Return raw AES-256-CTR of ``cryptography`` into a buffer that stays in the cache."""
    zeros, target = bytes(1 << 17), bytearray(1 << 17)
    cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()

    def work() -> None:
        for _ in range(size >> 17):
            cipher.update_into(zeros, target)

    return work


def opendp_flip() -> Callable[[bytes], bytes] | None:
    if not installed("opendp"):
        return None
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.bitvector_domain(max_weight=WIDTH), dp.discrete_distance()
    return dp.m.make_randomized_response_bitvec(*space, f=2 * FLIP)  # type: ignore[no-any-return]


def pure_ldp_flip() -> Callable[[int], object] | None:
    spec = importlib.util.find_spec("pure_ldp")
    if spec is None or not spec.submodule_search_locations or not installed("statsmodels"):
        return None
    # Its package of oracles imports scikit-learn, an undeclared dependency, for an oracle that is not measured.
    oracles = types.ModuleType("pure_ldp.frequency_oracles")
    oracles.__path__ = [str(Path(next(iter(spec.submodule_search_locations))) / "frequency_oracles")]
    sys.modules.setdefault(oracles.__name__, oracles)
    from pure_ldp.frequency_oracles.unary_encoding.ue_client import UEClient

    client = UEClient(2 * math.log((1 - FLIP) / FLIP), WIDTH, index_mapper=lambda item: item)
    return client.privatise  # type: ignore[no-any-return]


def multi_freq_flip() -> Callable[[int], object] | None:
    if not (installed("multi_freq_ldpy") and installed("numba")):
        return None
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client

    epsilon = 2 * math.log((1 - FLIP) / FLIP)
    return lambda item: UE_Client(item, WIDTH, epsilon, optimal=False)


def keystream_of(work: Callable[[Callable[[int], bytes]], object]) -> int:
    drawn = 0

    def counting(size: int) -> bytes:
        nonlocal drawn
        drawn += size
        return system(size)

    work(counting)
    return drawn


def randomizing(scale: int, repetitions: int) -> Figures:
    n = 10**6 // scale
    generator = np.random.default_rng(1)
    records = uniform_records(n, WIDTH)
    few = min(n, 20_000)
    blob = records[: min(n, 10_000)].tobytes()

    def insecure() -> NDArray[np.uint8]:
        return records ^ np.packbits(generator.random((n, WIDTH)) < FLIP, axis=1)

    contenders: dict[str, tuple[Work, int]] = {
        "own": (lambda: flip(records, WIDTH, NUMERATOR), n),
        "numpy": (insecure, n),
        "keystream": (keystream(1 << 26), 1 << 26),
    }
    if (opendp := opendp_flip()) is not None:
        contenders["opendp"] = (lambda: opendp(blob), len(blob) * 8 // WIDTH)
    if (pure_ldp := pure_ldp_flip()) is not None:
        contenders["pure_ldp"] = (lambda: [pure_ldp(item % WIDTH) for item in range(few)], few)
    if (multi_freq := multi_freq_flip()) is not None:
        multi_freq(0)
        contenders["multi_freq_ldpy"] = (lambda: [multi_freq(item % WIDTH) for item in range(few)], few)
    seconds = best(contenders, repetitions)
    drawn = keystream_of(lambda entropy: flip(records, WIDTH, NUMERATOR, entropy=entropy)) / n
    return {
        "randomize_vs_numpy": ratio(seconds, "numpy"),
        "randomize_keystream_fraction": drawn / seconds["own"] * seconds["keystream"],
        "randomize_vs_multi_freq_ldpy": ratio(seconds, "multi_freq_ldpy"),
        "randomize_vs_pure_ldp": ratio(seconds, "pure_ldp"),
        "randomize_vs_opendp": ratio(seconds, "opendp"),
        "limit_aes_ctr_gb_s": 1e-9 / seconds["keystream"],
    }


def threading(scale: int, repetitions: int) -> Figures:
    """Two threads with half of the work each against one with all of it, with the raw keystream as the limit."""
    records = uniform_records(8 * 10**6 // scale, WIDTH)
    half = len(records) // 2
    size = (1 << 27) // scale
    with ThreadPoolExecutor(2) as pool:

        def two(first: Work, second: Work) -> None:
            for done in [pool.submit(first), pool.submit(second)]:
                done.result()

        one_stream, first_stream, second_stream = keystream(size), keystream(size // 2), keystream(size // 2)
        contenders: dict[str, tuple[Work, int]] = {
            "one": (lambda: flip(records, WIDTH, NUMERATOR), 1),
            "two": (
                lambda: two(
                    lambda: flip(records[:half], WIDTH, NUMERATOR), lambda: flip(records[half:], WIDTH, NUMERATOR)
                ),
                1,
            ),
            "one stream": (one_stream, 1),
            "two streams": (lambda: two(first_stream, second_stream), 1),
        }
        # Many repetitions, to find moments in which both processors are free.
        seconds = best(contenders, 8 * repetitions, time.perf_counter)
    return {
        "threads_2_speedup": ratio(seconds, "one", "two"),
        "limit_threads_2_speedup": ratio(seconds, "one stream", "two streams"),
    }


def sparse(scale: int, repetitions: int) -> Figures:
    """Records of 10⁵ bits with q = 10⁻⁵; dense coins cost the same for all their probabilities."""
    width, numerator, dense = 10**5, round(1e-5 * 2**GRID_BITS), round(2**GRID_BITS / 200)
    many, few = 10_000 // scale, 100
    contenders: dict[str, tuple[Work, int]] = {
        "own": (lambda: positions(many * width, numerator), many),
        "dense": (lambda: coins(few * width, dense), few),
    }
    return {"sparse_vs_dense": ratio(best(contenders, repetitions), "dense")}


def counting(scale: int, repetitions: int) -> Figures:
    figures: Figures = {}
    for width, n in ((64, 10**6 // scale), (1024, 10**5 // scale)):
        records = uniform_records(n, width)

        def own(records: NDArray[np.uint8] = records, width: int = width) -> object:
            return bit_counts(records, width)

        def unpacking(records: NDArray[np.uint8] = records) -> object:
            return np.unpackbits(records, axis=1).sum(axis=0)

        contenders: dict[str, tuple[Work, int]] = {"own": (own, n), "unpackbits": (unpacking, n)}
        figures[f"counts{width}_vs_unpackbits"] = ratio(best(contenders, repetitions), "unpackbits")
    return figures


def butterfly(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the textbook inverse, one pass over the histogram per bit."""
    values = counts.astype(np.float64)
    share = FLIP / (1 - 2 * FLIP)
    for bit in range(values.size.bit_length() - 1):
        pairs = values.reshape(-1, 2, 1 << bit)
        shift = share * (pairs[:, 0] - pairs[:, 1])
        pairs[:, 0] += shift
        pairs[:, 1] -= shift
    return values


def inverting(scale: int, repetitions: int) -> Figures:
    """The inverse transform of ``hubbub.joint`` against the textbook butterfly."""
    counts = np.arange(2**20 if scale == 1 else 2**16)
    contenders: dict[str, tuple[Work, int]] = {
        "own": (lambda: unflip_histogram(counts, FLIP), 1),
        "butterfly": (lambda: butterfly(counts), 1),
    }
    return {"inverse20_vs_butterfly": ratio(best(contenders, repetitions), "butterfly")}


def permuting(scale: int, repetitions: int) -> Figures:
    n = 10**7 // scale
    records = np.arange(n, dtype=np.uint64)
    generator = np.random.default_rng(1)
    own = records.copy()
    contenders: dict[str, tuple[Work, int]] = {
        "plain": (lambda: shuffle(records), n),
        "insecure": (lambda: generator.shuffle(own), n),
    }
    if installed("numba"):
        shuffle(records[:1000], fast=True)
        contenders["fast"] = (lambda: shuffle(records, fast=True), n)
    seconds = best(contenders, repetitions)
    return {
        f"permute_ns_{way}": 1e9 * seconds[way] if way in seconds else None for way in ("plain", "fast", "insecure")
    }


def one_record(scale: int, repetitions: int) -> Figures:
    record, n = bytes(range(5)), 20_000 // scale
    contenders: dict[str, tuple[Work, int]] = {
        "own": (lambda: [device.flip(record, WIDTH, NUMERATOR) for _ in range(n)], n)
    }
    if (opendp := opendp_flip()) is not None:
        contenders["opendp"] = (lambda: [opendp(record) for _ in range(n // 10)], n // 10)
    seconds = best(contenders, repetitions)
    return {"single_us": 1e6 * seconds["own"], "single_vs_opendp": ratio(seconds, "opendp")}


def memory_limits(scale: int, repetitions: int) -> Figures:
    source = np.ones(1 << (27 if scale == 1 else 20), np.uint8)
    target = np.zeros_like(source)
    words = source.view(np.uint64)
    contenders: dict[str, tuple[Work, int]] = {
        "memcpy": (lambda: np.copyto(target, source), source.size),
        "read": (words.sum, source.size),
        "urandom": (lambda: os.urandom(1 << 22), 1 << 22),
    }
    return {f"limit_{name}_gb_s": 1e-9 / s for name, s in best(contenders, repetitions).items()}


def measure(*, quick: bool = False) -> Figures:
    """Return all figures; ``quick`` only shows that everything runs."""
    scale, repetitions = (100, 1) if quick else (1, 9)
    parts = (randomizing, threading, sparse, counting, inverting, permuting, one_record, memory_limits)
    figures: Figures = {}
    for part in parts:
        figures |= part(scale, repetitions)
    return figures


def show(figures: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "measured", "target", "")
    for name, value in figures.items():
        target = TARGETS.get(name)
        shown = "" if target is None else f"{'≤' if target < 0 else '≥'} {abs(target):g}"
        if value is None:
            table.add_row(name, "peer not installed", shown, "")
            continue
        met = target is None or (value <= -target if target < 0 else value >= target)
        table.add_row(name, f"{value:.4g}", shown, "" if target is None else "met" if met else "[bold]missed")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of hubbub.bits against limits and peers.")
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repetition: only shows that it runs")
    options = parser.parse_args()
    figures = measure(quick=options.quick)
    if options.json:
        print(
            json.dumps({name: None if value is None else round(value, 4) for name, value in figures.items()}, indent=2)
        )
    else:
        show(figures)


if __name__ == "__main__":
    main()
