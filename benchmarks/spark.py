"""The Spark engine, per core: ``python -m benchmarks.spark [--json] [--rows N]``.

Three Parquet files have the people of :mod:`benchmarks.pipeline_arrow`, with 40 labels: one label each (strings),
40 boolean columns, and lists of three labels on average. Spark runs as ``local[2]``; figures are CPU seconds of the
driver, its JVM and all Python workers, after a first run of the same job, the best of two. The ratios are of jobs that
take turns, three times after a first one: otherwise those that come late find more of Spark's own code compiled.

- ``randomize_tally_rows_per_core_s``: randomize and count in one pass, nothing stored; the slowest of the three inputs.
- ``pipeline_rows_per_core_s``: randomize, shuffle and tally with both batches in directories; the slowest input.
- ``vs_spark_rand``: how many times cheaper the first job is than the same one in Spark's own SQL, with its statistical
  ``rand() < q`` for each of the 40 booleans and sums.
- ``vs_spark_sums``: its cost relative to the sums of the 40 booleans alone, without any noise.
- ``python_worker_mb``: the largest memory that a Python worker ever had; ``heap_mb`` is that of the heap of the JVM,
  which here is driver and executor together, and may grow to what it is given.
"""

import argparse
import functools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.pipeline_arrow import FLIP, LABELS, plan_for, write_values

Figures = dict[str, float | None]
TICKS = os.sysconf("SC_CLK_TCK")
REPETITIONS, TURNS = 2, 3


def tree() -> dict[int, list[str]]:
    """Return the fields of /proc/PID/stat, after the name, of this process and all its descendants."""
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stats[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    own = {os.getpid()}
    while more := {pid for pid, fields in stats.items() if int(fields[1]) in own} - own:
        own |= more
    return {pid: stats[pid] for pid in own if pid in stats}


def cpu_seconds() -> float:
    """CPU seconds of this process and its descendants, including those that have ended and were waited for."""
    return sum(sum(map(int, fields[11:15])) for fields in tree().values()) / TICKS


def peak_worker_mb() -> float:
    """The largest memory that one of the Python workers ever had."""
    found = 0.0
    for pid in tree():
        try:
            if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes() and pid != os.getpid():
                lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
                if "python" in lines["Name"]:
                    found = max(found, int(lines["VmHWM"].split()[0]) / 1024)
        except (OSError, KeyError):
            continue
    return found


def measured(name: str, work: Callable[[], object]) -> float:
    """CPU seconds of a job, the best of some repetitions after a first one; said on standard error as it goes."""
    work()
    best = math.inf
    for _ in range(REPETITIONS):
        start = cpu_seconds()
        work()
        best = min(best, cpu_seconds() - start)
    print(f"{name}: {best:.2f} CPU s", file=sys.stderr, flush=True)
    return best


def in_turns(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """CPU seconds of jobs that take turns after a first one of each, the best of some; said on standard error."""
    for work in jobs.values():
        work()
    best = dict.fromkeys(jobs, math.inf)
    for _ in range(TURNS):
        for name, work in jobs.items():
            start = cpu_seconds()
            work()
            best[name] = min(best[name], cpu_seconds() - start)
    for name, seconds in best.items():
        print(f"{name}, in turns: {seconds:.2f} CPU s", file=sys.stderr, flush=True)
    return best


def spark_sums(frame: Any, *, noise: bool) -> None:
    """Count 40 booleans in Spark's own SQL, without noise or with a statistical one."""
    from pyspark.sql import functions as sql

    columns = [sql.col(f"`{label}`") for label in LABELS]
    if noise:  # below the aggregate, which Spark requires of what is random
        flipped = [(column != (sql.rand() < FLIP)).alias(f"bit{i}") for i, column in enumerate(columns)]
        frame, columns = frame.select(*flipped), [sql.col(f"bit{i}") for i in range(len(LABELS))]
    frame.agg(*[sql.sum(column.cast("long")) for column in columns]).collect()


def pipeline(engine: Any, spark: Any, frame: Any, plan: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine.randomize(frame, plan, f"{folder}/reports")
        engine.shuffle(spark, f"{folder}/reports", plan, f"{folder}/batch")
        engine.tally(spark, f"{folder}/batch", plan)


def measure(n: int) -> Figures:
    """Return all figures."""
    from hubbub import spark as engine

    settings = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g"}
    settings |= {"spark.sql.shuffle.partitions": "2"}
    spark = engine.session("local[2]", settings)
    figures: Figures = {"rows": n}
    with tempfile.TemporaryDirectory() as scratch:
        files = {name: Path(scratch, f"{name}.parquet") for name in ("one_hot", "booleans", "lists")}
        write_values(files, n)
        frames = {name: spark.read.parquet(str(file)) for name, file in files.items()}
        one_pass: dict[str, float] = {}
        whole: dict[str, float] = {}
        job: Callable[[], object]
        for name, frame in frames.items():
            job = functools.partial(engine.simulate, frame, plan_for(name, n))
            one_pass[name] = measured(f"one pass, {name}", job)
            figures[f"randomize_tally_{name}_rows_per_core_s"] = n / one_pass[name]
        for name, frame in frames.items():
            job = functools.partial(pipeline, engine, spark, frame, plan_for(name, n))
            whole[name] = measured(f"pipeline, {name}", job)
            figures[f"pipeline_{name}_rows_per_core_s"] = n / whole[name]
        figures["randomize_tally_rows_per_core_s"] = n / max(one_pass.values())
        figures["pipeline_rows_per_core_s"] = n / max(whole.values())
        figures["python_worker_mb"] = peak_worker_mb()
        found = in_turns(
            {
                "one pass": functools.partial(engine.simulate, frames["booleans"], plan_for("booleans", n)),
                "Spark's sums": lambda: spark_sums(frames["booleans"], noise=False),
                "Spark's rand": lambda: spark_sums(frames["booleans"], noise=True),
            }
        )
        figures["vs_spark_rand"] = found["Spark's rand"] / found["one pass"]
        figures["vs_spark_sums"] = found["one pass"] / found["Spark's sums"]
        runtime = spark._jvm.java.lang.Runtime.getRuntime()
        figures["heap_mb"] = runtime.totalMemory() / 2**20
    spark.stop()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rows", type=int, default=10**7, help="number of people (default: ten million)")
    options = parser.parse_args()
    figures = measure(options.rows)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:45} {value:,.2f}")


if __name__ == "__main__":
    main()
