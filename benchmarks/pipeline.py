"""A whole collection, streamed: ``python -m benchmarks.pipeline [--json] [--quick]``.

Ten million records of 40 bits go through randomize → shuffle → tally → estimate in blocks, the shuffle through files;
``records_per_s`` is by the clock on the wall, ``peak_gib`` the largest memory that the process ever had. The peers do
the same per record, on fewer of them, with statistical instead of secure randomness: plain numpy on bytes, and the
unary encoding of two libraries with one record at a time, summed up and estimated. Ratios of CPU time say how many
times faster hubbub is. A peer that is not installed gives ``null``; nothing is ever installed from here.

``survey8_vs_bits40`` compares a survey of eight questions with five answers each, in the clear among the shuffler's
fakes, with a record of 40 bits: records per second of CPU time through randomize → shuffle → tally in memory, in one
run. ``survey_device_us`` is the CPU time of one record of eight attributes on a device, in microseconds: the larger of
answers in the clear and randomized response.

``decode_*``, ``pipeline_lists`` and ``vs_duckdb_*``, ``vs_polars_*`` are about values in Parquet:
:mod:`benchmarks.pipeline_arrow`.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import hubbub as hb
from benchmarks import pipeline_arrow
from benchmarks.bits import multi_freq_flip, pure_ldp_flip
from hubbub.bits.records import uniform_records
from hubbub.pipeline import device
from hubbub.pipeline.records import SetBits
from hubbub.pipeline.shuffle import shuffle_blocks

Figures = dict[str, float | None]

FLIP = 0.1778
WIDTH = 40
BLOCK = 1 << 19


def pipeline(plan: hb.Plan) -> hb.LabelView:
    """The pipeline in blocks; what the people hold is drawn as it goes."""
    schema, n = plan.schema, plan.n

    def reports() -> Iterator[hb.Reports]:
        for start in range(0, n, BLOCK):
            records = uniform_records(min(BLOCK, n - start), WIDTH)
            yield hb.randomize(hb.Collection.from_packed(records, schema), plan)

    found: hb.LabelView = hb.estimate(hb.tally(shuffle_blocks(reports(), plan, tempfile.TemporaryFile)), plan).question
    return found


def by_numpy(n: int) -> None:
    generator = np.random.default_rng(1)
    records = generator.random((n, WIDTH)) < 0.5
    flipped = records ^ (generator.random((n, WIDTH)) < FLIP)
    counts = flipped[generator.permutation(n)].sum(axis=0)
    (counts - n * FLIP) / (1 - 2 * FLIP)


def one_by_one(client: Callable[[int], object], n: int) -> None:
    rows = np.array([client(item % WIDTH) for item in range(n)])
    (rows[np.random.default_rng(1).permutation(n)].sum(axis=0) - n * FLIP) / (1 - 2 * FLIP)


def cpu(work: Callable[[], object], units: int, repetitions: int = 3) -> float:
    """Seconds of CPU time per unit, the best of some repetitions."""
    found = math.inf
    for _ in range(repetitions):
        start = time.process_time()
        work()
        found = min(found, time.process_time() - start)
    return found / units


def in_memory(collection: hb.Collection, plan: hb.Plan) -> None:
    hb.tally(hb.shuffle(hb.randomize(collection, plan)))


def survey_ratio(n: int) -> float:
    """Records per second of a survey of eight attributes, divided by those of 40 bits."""
    bits = hb.plan_from(hb.Schema.bits(WIDTH), n, hb.Protocol(FLIP), epsilon=100.0)
    survey = hb.Schema.survey({f"question {i}": hb.Choice([f"answer {j}" for j in range(5)]) for i in range(8)})
    plan = hb.plan(survey, n, hb.Budget(1.0, 1e-6), trust="shuffler-noise")
    assert (len(plan.schema.attributes), plan.schema.width) == (8, WIDTH)
    answers = np.random.default_rng(1).integers(0, 5, (n, 8), np.uint32) + 5 * np.arange(8, dtype=np.uint32)
    packed = hb.Collection.from_packed(uniform_records(n, WIDTH), bits.schema)
    listed = hb.Collection(plan.schema, SetBits(answers.reshape(-1), np.arange(8, 8 * n + 1, 8)))
    own, other = math.inf, math.inf
    for _ in range(5):  # in turn, so that a busy machine slows both down
        own = min(own, cpu(lambda: in_memory(listed, plan), n, 1))
        other = min(other, cpu(lambda: in_memory(packed, bits), n, 1))
    return other / own


def device_us() -> float:
    """Microseconds of one record of eight attributes on a device."""
    survey = hb.Schema.survey(
        {
            "colour": hb.Choice(["red", "green", "blue", "black", "white"]),
            "dark mode": hb.Flag(),
            "load time": hb.Scale(0, 4096, buckets=64, levels=[8, 1]),
            "memory": hb.Number(0, 65_536, digits=[4, 4, 4]),
            "language": hb.Choice(["C", "C++", "Java", "JavaScript", "Python", "Rust"]),
        }
    )
    answers = {"colour": "blue", "dark mode": True, "load time": 1234.5, "memory": 5000.25, "language": "Rust"}
    clear = hb.Protocol.survey([hb.Noise(m=hb.Fakes.gaussian(17.0, 100))] * 8)
    response = hb.Protocol.survey([hb.Noise(0.004)] * 8, "category")
    plans = [hb.plan_from(survey, 100, protocol, epsilon=9.0) for protocol in (clear, response)]
    assert len(survey.attributes) == 8
    return 1e6 * max(cpu(lambda p=plan: send(answers, p), 2000, 5) for plan in plans)  # type: ignore[misc]


def send(answers: dict[str, object], plan: hb.Plan) -> None:
    for _ in range(2000):
        device.payloads(answers, plan)


def measure(n: int) -> Figures:
    plan = hb.plan_from(hb.Schema.bits(WIDTH), n, hb.Protocol(FLIP), epsilon=100.0)
    started, spent = time.perf_counter(), time.process_time()
    pipeline(plan)
    wall, own = time.perf_counter() - started, (time.process_time() - spent) / n
    # Not the maximum of getrusage: Linux lets a new process begin with that of its parent.
    status = Path("/proc/self/status").read_text()
    peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 2**20
    few = min(n, 20_000)
    clients = {"vs_pure_ldp": pure_ldp_flip(), "vs_multi_freq_ldpy": multi_freq_flip()}
    figures: Figures = {"records_per_s": n / wall, "vs_numpy": cpu(lambda: by_numpy(n // 20), n // 20) / own}
    for name, client in clients.items():
        figures[name] = None if client is None else cpu(lambda c=client: one_by_one(c, few), few) / own  # type: ignore[misc]
    surveys = {"survey8_vs_bits40": survey_ratio(n // 4), "survey_device_us": device_us()}
    return figures | {"peak_gib": peak} | surveys | pipeline_arrow.measure(n // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one flat object instead of lines")
    parser.add_argument("--quick", action="store_true", help="a million records instead of ten")
    asked = parser.parse_args()
    figures = measure(10**6 if asked.quick else 10**7)
    if asked.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:28} {'not installed' if value is None else f'{value:.4g}'}")


if __name__ == "__main__":
    main()
