"""A driver for the tests on a cluster: ``python cluster_driver.py '{"verb": …}'``; its tasks wait where they are told.

Messages are the numbers of the people, so that lost and doubled ones are found. A gate is a file with a number: the
task of a partition waits until the number is larger than that of the partition. Functions of this file are sent to
the workers by value, those of hubbub by name.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hubbub as hb
from hubbub import spark as hs
from hubbub.spark import blocks, engine, storage, tasks

PEOPLE = 40_000
PARTITIONS = 24


def plan() -> hb.Plan:
    """Return a plan that practically keeps every answer."""
    return hb.plan_from(hb.Schema.one_hot(PEOPLE), 1000, hb.Protocol(2**-40, release="bits"), delta=1e-6)


def wait(folder: str, patient: bool) -> None:
    """Wait at the gate of this partition; a speculative attempt passes unless it is told to be patient."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    name = f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}"
    Path(folder, f"waiting-{name}").write_text(str(os.getppid()))
    while int(Path(folder, "gate").read_text() or 0) <= context.partitionId():
        if not patient and context.attemptNumber() > 0:
            break
        time.sleep(0.05)
    Path(folder, f"passed-{name}").write_text("")


def gated_rows(folder: str, patient: bool, batches: Iterable[Any]) -> Iterator[Any]:
    """Pass the first batch on, wait, and pass on the rest, so that a killed task is in the middle of its work."""
    for number, batch in enumerate(batches):
        yield batch
        if number == 0:
            wait(folder, patient)


def gated_mix(folder: str, patient: bool, text: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Wait before anything is read from the shuffle."""
    wait(folder, patient)
    yield from tasks.mix(text, False, batches)


def fresh_spread(text: str, files: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Assign messages to files that every attempt draws afresh: the control that must lose people."""
    own = tasks.plan_of(text)
    for batch in batches:
        found = blocks.messages_of(batch.column(0), own)
        chosen = np.frombuffer(os.urandom(2 * len(found)), np.uint16) % files
        yield tasks.by_file(found, chosen.astype(np.uint16), files, own.payload)


def randomize(spark: Any, job: dict[str, Any]) -> None:
    """Randomize people behind a gate."""
    frame = spark.range(0, PEOPLE, 1, PARTITIONS).selectExpr("id as answer")
    rows = functools.partial(gated_rows, job["gates"], job["patient"])
    hs.randomize(frame.mapInArrow(rows, "answer long"), plan(), job["out"], key=bytes.fromhex(job["key"]))


def shuffle(spark: Any, job: dict[str, Any]) -> None:
    """Shuffle a batch as the engine does, with the files behind a gate."""
    own = plan()
    text, key = own.to_json(), bytes.fromhex(job["key"])
    manifest = storage.read_manifest(spark, job["path"], own)
    spread = (
        functools.partial(fresh_spread, text, PARTITIONS)
        if job["fresh"]
        else functools.partial(tasks.spread, text, key, PARTITIONS)
    )
    mix = functools.partial(gated_mix, job["gates"], job["patient"], text)
    source = storage.read_parts(spark, job["path"], manifest)
    storage.write_parts(engine.exchange(source, spread, mix, files=PARTITIONS, rows=False), own, job["out"])
    parts, _, _ = storage.committed(spark, job["out"], declared=False)
    Path(job["out"], "_parts.json").write_text(json.dumps([part.messages for part in parts]))


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    opened = hs.session(job["master"], job["settings"])
    {"randomize": randomize, "shuffle": shuffle}[job["verb"]](opened, job)
    opened.stop()
