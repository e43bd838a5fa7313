"""Values in Parquet: how fast the local engine decodes and counts them, beside DuckDB and Polars on the same files.

A part of ``python -m benchmarks.pipeline``. Three files have the same number of people, with 40 labels: one label each
(strings), 40 boolean columns, and lists of three labels on average. All figures are CPU time of the whole process.

- ``decode_*``: from the file to records, nothing else.
- ``pipeline_lists``: from the file through randomize → shuffle → tally → estimate, with reports in files.
- ``vs_*``: how many times cheaper the same job is with hubbub: read the file, flip every bit of every record with
  probability q, and count; no report is written. The peers flip with the statistical randomness that they have: DuckDB
  with its own ``random()``; Polars reads the file, and numpy draws 32-bit floats. Each has one thread.
"""

import importlib.util
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.io.reports import read_reports, write_reports
from hubbub.io.values import read_values
from hubbub.pipeline.shuffle import shuffle_blocks

Figures = dict[str, float | None]
Job = Callable[[Path], NDArray[np.int64]]

FLIP = 0.1778
WIDTH = 40
MEAN = 3
BLOCK = 1 << 19
LABELS = [f"label {i:02}" for i in range(WIDTH)]
SCHEMAS = {
    "one_hot": hb.Schema.one_hot(LABELS),
    "booleans": hb.Schema.bits(LABELS),
    "lists": hb.Schema.bits(LABELS),
}
KEYS = (
    "decode_one_hot_rows_per_s",
    "decode_booleans_rows_per_s",
    "decode_lists_rows_per_s",
    "pipeline_lists_rows_per_s",
    "vs_duckdb_one_hot",
    "vs_duckdb_booleans",
    "vs_duckdb_lists",
    "vs_polars_one_hot",
    "vs_polars_booleans",
)


def measure(n: int) -> Figures:
    """Return the figures of this module; null for what needs a package that is not installed."""
    if not installed("pyarrow"):
        return dict.fromkeys(KEYS)
    os.environ["POLARS_MAX_THREADS"] = "1"  # read when Polars is imported
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        files = {name: Path(scratch, f"{name}.parquet") for name in SCHEMAS}
        write_values(files, n)
        for name, file in files.items():
            figures[f"decode_{name}_rows_per_s"] = n / cpu([lambda f=file, s=name: decode(f, SCHEMAS[s])])[0]  # type: ignore[misc]
        plan = plan_for("lists", n)
        figures["pipeline_lists_rows_per_s"] = n / cpu([lambda: pipeline(files["lists"], plan, Path(scratch))])[0]
        for peer, jobs in (("duckdb", DUCKDB), ("polars", POLARS)):
            for name, job in jobs.items():
                figures[f"vs_{peer}_{name}"] = ratio(files[name], name, job, n) if installed(peer) else None
    assert tuple(figures) == KEYS
    return figures


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def cpu(work: list[Callable[[], object]], repetitions: int = 3) -> list[float]:
    """CPU seconds of each contender, the best of some repetitions in turn."""
    found = [math.inf] * len(work)
    for _ in range(repetitions):
        for place, one in enumerate(work):
            start = time.process_time()
            one()
            found[place] = min(found[place], time.process_time() - start)
    return found


def plan_for(name: str, n: int) -> hb.Plan:
    return hb.plan_from(SCHEMAS[name], n, hb.Protocol(FLIP), epsilon=100.0)


def write_values(files: dict[str, Path], n: int) -> None:
    """Write the three files, by pyarrow with its own settings, in row groups of half a million people."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator, text = np.random.default_rng(1), pa.array(LABELS)
    schemas = {
        "one_hot": pa.schema({"label": pa.string()}),
        "booleans": pa.schema(dict.fromkeys(LABELS, pa.bool_())),
        "lists": pa.schema({"labels": pa.list_(pa.string())}),
    }
    writers = {name: pq.ParquetWriter(file, schemas[name]) for name, file in files.items()}
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        chosen = generator.random((size, WIDTH), np.float32) < MEAN / WIDTH
        ends = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int32)
        columns = {
            "one_hot": [text.take(pa.array(generator.integers(0, WIDTH, size)))],
            "booleans": [pa.array(column) for column in np.ascontiguousarray(generator.random((WIDTH, size)) < 0.5)],
            "lists": [pa.ListArray.from_arrays(pa.array(ends), text.take(pa.array(np.nonzero(chosen)[1])))],
        }
        for name, writer in writers.items():
            writer.write_table(pa.Table.from_arrays(columns[name], schema=schemas[name]))
    for writer in writers.values():
        writer.close()


def decode(file: Path, schema: hb.Schema) -> int:
    return sum(len(people) for people in read_values(str(file), schema))


def randomized(file: Path, plan: hb.Plan) -> Iterator[hb.Reports]:
    for people in read_values(str(file), plan.schema):
        yield hb.randomize(people, plan)


def count(file: Path, plan: hb.Plan) -> NDArray[np.int64]:
    """Randomize and count, without any report outside of this process."""
    total = sum(map(hb.tally, randomized(file, plan)), start=0)
    assert isinstance(total, hb.Tally)
    return total.counts


def pipeline(file: Path, plan: hb.Plan, scratch: Path) -> hb.LabelView:
    """From values to an estimate, with the reports and the shuffled batch in files."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        reports, mixed = f"{folder}/reports.hub", f"{folder}/mixed.hub"
        write_reports(reports, plan, randomized(file, plan))
        write_reports(mixed, plan, shuffle_blocks(read_reports(reports, plan), plan, tempfile.TemporaryFile))
        found: hb.LabelView = hb.estimate(hb.tally(read_reports(mixed, plan)), plan).question
        return found


def ratio(file: Path, name: str, job: Job, n: int) -> float:
    """CPU time of a peer over that of hubbub, after checking that both did the same job."""
    plan = plan_for(name, n)
    found: list[NDArray[np.int64]] = []
    own, other = cpu([lambda: found.append(count(file, plan)), lambda: found.append(job(file))])
    spread = math.sqrt(n * FLIP * (1 - FLIP))
    assert all(np.abs(one - found[0]).max() < 12 * spread for one in found), "the peer did another job"
    return other / own


def by_duckdb(bit: str) -> Job:
    """Return the job in SQL; ``bit`` is the expression of one true bit, with ``{label}`` in it."""

    def job(file: Path) -> NDArray[np.int64]:
        import duckdb

        sums = ", ".join(f"count_if({bit.format(label=label)} != (random() < {FLIP}))" for label in LABELS)
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            return np.array(connection.execute(f"SELECT {sums} FROM '{file}'").fetchone(), np.int64)

    return job


def polars_one_hot(file: Path) -> NDArray[np.int64]:
    import polars as pl

    generator, counts = np.random.default_rng(), np.zeros(WIDTH, np.int64)
    codes = pl.read_parquet(file)["label"].cast(pl.Enum(LABELS)).to_physical().to_numpy()
    for start in range(0, len(codes), BLOCK):
        part = codes[start : start + BLOCK]
        for label in range(WIDTH):
            flips = generator.random(len(part), np.float32) < FLIP
            counts[label] += np.count_nonzero((part == label) ^ flips)
    return counts


def polars_booleans(file: Path) -> NDArray[np.int64]:
    import polars as pl

    generator, counts = np.random.default_rng(), np.zeros(WIDTH, np.int64)
    frame = pl.read_parquet(file)
    for place, label in enumerate(LABELS):
        bits = frame[label].to_numpy()
        for start in range(0, len(bits), BLOCK):
            part = bits[start : start + BLOCK]
            counts[place] += np.count_nonzero(part ^ (generator.random(len(part), np.float32) < FLIP))
    return counts


DUCKDB: dict[str, Job] = {
    "one_hot": by_duckdb("(label = '{label}')"),
    "booleans": by_duckdb('"{label}"'),
    "lists": by_duckdb("list_contains(labels, '{label}')"),
}
POLARS: dict[str, Job] = {"one_hot": polars_one_hot, "booleans": polars_booleans}
