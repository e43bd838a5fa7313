"""The verbs of the pipeline on Spark.

``randomize`` writes reports to a directory, ``shuffle`` reads directories and writes a batch, ``tally`` counts a batch,
and ``simulate`` does all of it in one pass that stores nothing. The verbs take and return paths rather than lazy data
frames: what was randomized once and committed is never randomized again.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from hubbub.errors import WireError, check_type, check_whole, load_extra, reject
from hubbub.io.directories import Manifest
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import BatchHeader, Reports, Tally
from hubbub.pipeline.shuffle import check_batch
from hubbub.pipeline.tally import counted_batch
from hubbub.pipeline.tally import tally as tally_reports
from hubbub.spark import blocks, storage, tasks
from hubbub.spark.coins import run_key, run_name, shuffle_key
from hubbub.spark.columns import check_frame, check_people, select
from hubbub.spark.problems import unwrapping
from hubbub.spark.sessions import check_session

FILE_MESSAGES, FILE_BYTES = 1 << 21, 1 << 26
"""Largest expected number of messages, and of their bytes, in one file of a shuffled batch."""
MAX_FILES = 1 << 16
Task = Callable[[Iterable[Any]], Iterable[Any]]


def randomize(
    frame: Any,
    plan: Plan,
    path: str | PathLike[str],
    *,
    column: str | None = None,
    person: str | None = None,
    key: bytes | None = None,
) -> BatchHeader:
    """Randomize the people of a data frame, one in each row, and write their reports to a new directory.

    ``column`` has a label, or a list of labels, in each row; see :func:`hubbub.io.kernels.collection` for frames with
    other columns. ``person`` is a column that must differ in every row. ``key``, of 32 secret bytes, resumes a run that
    failed: the same rows, in the same partitions, make the same reports. A key is for one run: with other rows it would
    show which blocks are equal, and add the same fixed fakes, which then hide nobody. Without one, it is fresh and
    never stored; whoever has a key and the reports can remove all noise.
    """
    spark = _checked(frame, plan)
    place = storage.check_path("path", path, spark)
    secret = run_key(key)
    with unwrapping():
        storage.check_new(spark, place)
        if person is not None:
            check_people(frame, person)
        made = reports_of(frame, plan, column, secret)
    storage.write_parts(made, plan, place)
    parts, n, fakes = storage.committed(spark, place, declared=True)
    if not n:
        storage.file_system(spark, place).remove(place)
        reject("the data frame", "have a row for at least one person")
    manifest = Manifest.of(plan, parts, n=n, fakes=fakes, run=run_name(secret, plan))
    storage.finish(spark, place, manifest)
    return manifest.header


def reports_of(frame: Any, plan: Plan, column: str | None, key: bytes) -> Any:
    """Return a lazy data frame with the reports of all people and the users' fakes; evaluated twice, it is the same."""
    text, chosen = plan.to_json(), select(frame, plan.schema, column)
    task = functools.partial(tasks.randomize_people, text, chosen.column, chosen.packed, key)
    made = chosen.frame.mapInArrow(task, blocks.REPORTS)
    if number := -(-tasks.other_fakes(plan) // tasks.FAKES):
        numbers = frame.sparkSession.range(0, number, 1, number)
        made = made.union(numbers.mapInArrow(functools.partial(tasks.fixed_fakes, text, key), blocks.REPORTS))
    return made


def shuffle(
    spark: Any,
    path: str | PathLike[str] | Sequence[str],
    plan: Plan,
    out: str | PathLike[str],
    *,
    files: int | None = None,
    rows: bool = False,
    key: bytes | None = None,
) -> BatchHeader:
    """Put the reports of one or several directories into uniform random order, with the fakes of the shuffler.

    Writes a new directory of ``files`` files, by default as many as each fit into the memory of a worker. Raises
    :class:`hubbub.BatchTooSmall` before anything is written. ``rows`` writes one message in each row, for SQL. ``key``
    resumes a run that failed, with the same fakes; the order is always fresh. With other reports, it gives other fakes.
    """
    _check(spark, plan)
    check_type("rows", rows, bool)
    place, secret = storage.check_path("out", out, spark), run_key(key)
    paths = [storage.check_path("path", one, spark) for one in _listed(path)]
    if files is not None:
        check_whole("files", files, 1, MAX_FILES)
    with unwrapping():
        storage.check_new(spark, place)
        manifests = [storage.read_manifest(spark, one, plan) for one in paths]
        header = _joined(plan, manifests)
        check_batch(plan, header)
        secret = shuffle_key(secret, plan, manifests)
        fakes = len(tasks.draw_shuffler_fakes(plan, secret))
        total = replace(header, messages=header.messages + fakes, shuffled=True)
        source = [storage.read_parts(spark, one, found) for one, found in zip(paths, manifests, strict=True)]
        if fakes:
            task = functools.partial(tasks.shuffler_fakes, plan.to_json(), secret)
            source.append(spark.range(0, 1, 1, 1).mapInArrow(task, "messages binary"))
        number = files or number_of_files(total)
        everything = functools.reduce(lambda one, two: one.union(two), source)
        text = plan.to_json()
        mixed = exchange(
            everything,
            functools.partial(tasks.spread, text, secret, number),
            functools.partial(tasks.mix, text, rows),
            files=number,
            rows=rows,
        )
    storage.write_parts(mixed, plan, place, rows=rows)
    parts, _, _ = storage.committed(spark, place, declared=False, rows=rows)
    manifest = Manifest.of(plan, parts, n=total.n, fakes=total.fakes, shuffled=True, rows=rows)
    if manifest.header.messages != total.messages:
        got = f"{manifest.header.messages:,} of {total.messages:,}"
        raise WireError(f"the shuffled batch must have all messages, but {got} were written; it has no manifest")
    storage.finish(spark, place, manifest)
    return manifest.header


def exchange(source: Any, spread: Task, mix: Task, *, files: int, rows: bool) -> Any:
    """Return the messages that ``spread`` assigns to files, each file mixed by ``mix``, as a lazy data frame."""
    assigned = source.mapInArrow(spread, "file int, messages binary")
    return assigned.repartitionById(files, "file").mapInArrow(mix, blocks.ROWS if rows else blocks.BLOCKS)


def number_of_files(header: BatchHeader) -> int:
    """Return the number of files of a shuffled batch: a worker holds one of them in memory.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plan = plan_from(Schema.bits(40), 10, Protocol(0.1), delta=1e-6)
    >>> [number_of_files(BatchHeader.of(plan, messages=10**power, n=10)) for power in (2, 7, 9)]
    [1, 5, 477]
    """
    needed = max(-(-header.messages // FILE_MESSAGES), -(-header.messages * header.payload // FILE_BYTES), 1)
    return min(needed, MAX_FILES)


def tally(spark: Any, path: str | PathLike[str], plan: Plan) -> Tally:
    """Count the messages of a batch in a directory, shuffled or not: equal to the tally of the local engine."""
    _check(spark, plan)
    place = storage.check_path("path", path, spark)
    with unwrapping():
        manifest = storage.read_manifest(spark, place, plan)
        messages = storage.read_parts(spark, place, manifest)
        task = functools.partial(tasks.count_messages, plan.to_json())
        counted = _total(messages.mapInArrow(task, tasks.COUNTS), plan)
    header = manifest.header
    if counted.messages != header.messages:
        got = f"{header.messages:,} messages of its manifest, got {counted.messages:,}"
        raise WireError(f"a batch must have the {got}")
    return counted_batch(header, counted.messages, counted.counts)


def simulate(frame: Any, plan: Plan, *, column: str | None = None, person: str | None = None) -> Tally:
    """Return the tally of a shuffled batch of the people of a data frame, in one pass that stores no report.

    Safe where nothing but the tally leaves: whoever runs this sees the records. Raises :class:`hubbub.BatchTooSmall` as
    :func:`shuffle` does. The fakes of the shuffler are included.
    """
    spark, text, secret = _checked(frame, plan), plan.to_json(), run_key(None)
    with unwrapping():
        if person is not None:
            check_people(frame, person)
        chosen = select(frame, plan.schema, column)
        task = functools.partial(tasks.randomize_and_count, text, chosen.column, chosen.packed, secret)
        partial = chosen.frame.mapInArrow(task, tasks.COUNTS)
        if number := -(-tasks.other_fakes(plan) // tasks.FAKES):
            fakes = functools.partial(tasks.fixed_fakes, text, secret)
            made = spark.range(0, number, 1, number).mapInArrow(fakes, blocks.REPORTS)
            partial = partial.union(made.mapInArrow(functools.partial(tasks.count_reports, text), tasks.COUNTS))
        counted = _total(partial, plan)
    check_batch(plan, BatchHeader.of(plan, messages=counted.messages, n=counted.n, fakes=counted.fakes))
    added = tally_reports(Reports(plan, tasks.draw_shuffler_fakes(plan, secret), 0))
    total = counted + added
    header = BatchHeader.of(plan, messages=total.messages, n=total.n, fakes=total.fakes, shuffled=True)
    return counted_batch(header, total.messages, total.counts)


def _total(partial: Any, plan: Plan) -> Tally:
    """Return the sum of partial tallies, which is formed on the workers first where there are many counts."""
    if plan.schema.width > tasks.SLICE:
        partial = partial.groupBy("slice").applyInArrow(tasks.add_slices, tasks.COUNTS)
    found = partial.toArrow()
    counts = np.zeros(plan.schema.width, np.int64)
    for number, data in zip(found.column("slice").to_pylist(), found.column("counts"), strict=True):
        start = number * tasks.SLICE
        counts[start : start + tasks.SLICE] += np.frombuffer(data.as_buffer(), np.int64)
    counts.setflags(write=False)
    n, fakes, messages = (sum(found.column(name).to_pylist()) for name in ("n", "fakes", "messages"))
    return Tally(plan=plan.id, n=n, fakes=fakes, messages=messages, batches=0, smallest_batch=0, counts=counts)


def _joined(plan: Plan, manifests: Sequence[Manifest]) -> BatchHeader:
    headers = [one.header for one in manifests]
    if any(one.shuffled for one in headers):
        reject("the reports", "not be shuffled yet")
    runs = [one.run for one in manifests if one.run is not None]
    if len(set(runs)) != len(runs):
        reject("the reports", "be of different runs; two directories are of the same run, or of one key")
    if len(set(manifests)) != len(manifests):
        reject("the reports", "be of different people in every directory")
    n, fakes, messages = (sum(getattr(one, name) for one in headers) for name in ("n", "fakes", "messages"))
    return BatchHeader.of(plan, messages=messages, n=n, fakes=fakes)


def _listed(path: str | PathLike[str] | Sequence[str]) -> list[Any]:
    if isinstance(path, str | PathLike):
        return [path]
    if not isinstance(path, Sequence) or not path:
        reject("path", "be the path of a directory, or a list of at least one")
    return list(path)


def _checked(frame: Any, plan: Plan) -> Any:
    """Return the session of a data frame, after checking it and the plan."""
    load_extra("pyspark", "spark", "The Spark engine")
    check_frame(frame)
    _check(frame.sparkSession, plan)
    return frame.sparkSession


def _check(spark: Any, plan: Plan) -> None:
    load_extra("pyspark", "spark", "The Spark engine")
    load_extra("pyarrow", "spark", "The Spark engine")
    if check_type("plan", plan, Plan).protocol.sends_strings:
        reject("the plan", "not be one for strings, which the Spark engine does not count")
    check_session(spark)
