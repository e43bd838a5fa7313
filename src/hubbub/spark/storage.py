"""Batches in directories that Spark writes and reads; the format is that of :mod:`hubbub.io.directories`.

Paths are those of Hadoop, such as ``hdfs://`` or ``s3a://``. A session of Spark Connect has no Hadoop of its own, so
that its paths must be of a file system that client and server share.
"""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from hubbub.errors import HubbubError, WireError, check_type, kind_of, reject
from hubbub.io.directories import MANIFEST, Manifest, Part
from hubbub.io.files import naming, write_atomic
from hubbub.io.parquet import MESSAGE, MESSAGES, PLAN_KEY
from hubbub.model.plans import Plan
from hubbub.spark.columns import functions
from hubbub.spark.problems import unwrapping
from hubbub.spark.sessions import is_connect

OPTIONS = {
    "compression": "uncompressed",
    "parquet.enable.dictionary": "false",
    "parquet.column.statistics.enabled": "false",
    "parquet.page.write-checksum.enabled": "true",
    # Rows are large: the sizes of pages and groups are looked at after each of them, not after a hundred.
    "parquet.page.size.row.check.min": "1",
    "parquet.block.size.row.check.min": "1",
}
PART_ROWS = 64
"""Rows of one part, blocks of about 1 MiB: the reader of Spark holds as many in memory at a time."""


class Files(Protocol):
    """The few operations on a file system that a batch needs."""

    def exists(self, path: str) -> bool:
        """Return True if there is anything of this name."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""

    def read(self, path: str) -> bytes:
        """Return all bytes of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Write a new small file, atomically where the file system can rename."""

    def remove(self, path: str) -> None:
        """Remove a directory and everything in it."""


@dataclass(frozen=True, slots=True)
class Local:
    """Files that this process sees."""

    def exists(self, path: str) -> bool:
        """Return True if there is anything of this name."""
        return _local(path).exists()

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        return [one.name for one in _local(path).iterdir()]

    def read(self, path: str) -> bytes:
        """Return all bytes of a small file."""
        return _local(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a new small file atomically."""
        write_atomic(_local(path), data)

    def remove(self, path: str) -> None:
        """Remove a directory and everything in it."""
        shutil.rmtree(_local(path))


@dataclass(frozen=True, slots=True)
class Hadoop:
    """Files of any file system of Hadoop, through the JVM of a session."""

    spark: Any

    def _open(self, path: str) -> tuple[Any, Any]:
        place = self.spark._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()), place

    def exists(self, path: str) -> bool:
        """Return True if there is anything of this name."""
        files, place = self._open(path)
        return bool(files.exists(place))

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        files, place = self._open(path)
        return [str(one.getPath().getName()) for one in files.listStatus(place)]

    def read(self, path: str) -> bytes:
        """Return all bytes of a small file."""
        files, place = self._open(path)
        stream = files.open(place)
        try:
            return bytes(self.spark._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        """Write a new small file under another name, and rename it."""
        folder, _, name = path.rpartition("/")
        files, beside = self._open(f"{folder}/.{name}.new")
        stream = files.create(beside, True)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()
        if not files.rename(beside, self._open(path)[1]):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def remove(self, path: str) -> None:
        """Remove a directory and everything in it."""
        files, place = self._open(path)
        files.delete(place, True)


def _local(path: str) -> Path:
    return Path(re.sub(r"^file:(//)?(?=/)", "", path))


def file_system(spark: Any, path: str) -> Files:
    """Return the file system of a path."""
    if not is_connect(spark):
        return Hadoop(spark)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) and not path.startswith("file:"):
        reject("path", "be on a file system that client and server share, because Spark Connect has no other", path)
    return Local()


def check_path(name: str, path: str | PathLike[str], spark: Any) -> str:
    """Return the path of a directory as text, without a slash at the end; absolute for Spark Connect."""
    if not isinstance(path, str | PathLike):
        reject(name, f"be the path of a directory, not {kind_of(path)}")
    text = os.fspath(path)
    check_type(name, text, str)
    if not text.rstrip("/"):
        reject(name, "be the path of a directory", text)
    if re.search(r"[*?\[\]{}\\]", text):
        reject(name, "have none of the characters * ? [ ] { } \\, which Spark takes for patterns", text)
    return str(Path(text).absolute()) if is_connect(spark) and ":" not in text else text.rstrip("/")


def check_new(spark: Any, path: str) -> None:
    """Raise :class:`FileExistsError` if there is anything of this name, finished or not."""
    if file_system(spark, path).exists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def write_parts(frame: Any, plan: Plan, path: str, *, rows: bool = False) -> None:
    """Write rows of messages to a new directory, committed by Spark: each task once, whatever is repeated."""
    column = MESSAGE if rows else MESSAGES
    writer = frame.withMetadata(column, {PLAN_KEY.decode(): plan.id}).write.mode("error").options(**OPTIONS)
    if not rows:
        writer = writer.option("maxRecordsPerFile", PART_ROWS)
    try:
        with unwrapping():
            writer.parquet(path)
    except (HubbubError, KeyboardInterrupt):
        # Nothing was of this name before, so that a directory without parts is what is left of this attempt.
        with contextlib.suppress(Exception):
            files = file_system(frame.sparkSession, path)
            if not _visible(files, path):
                files.remove(path)
        raise


def committed(spark: Any, path: str, *, declared: bool, rows: bool = False) -> tuple[list[Part], int, int]:
    """Return the parts of a directory that Spark has written, and the people and fakes that its rows declare."""
    sql = functions()
    schema = ", ".join([*(["n long", "fakes long"] if declared else []), f"{MESSAGE} binary" if rows else "count long"])
    people = [sql.sum("n"), sql.sum("fakes")] if declared else [sql.lit(0), sql.lit(0)]
    messages = sql.count(sql.lit(1)) if rows else sql.sum("count")
    with unwrapping():
        frame = spark.read.schema(schema).parquet(path).groupBy(sql.col("_metadata.file_name"))
        found = frame.agg(sql.count(sql.lit(1)), messages, *people).collect()
    counted: Mapping[str, Any] = {row[0]: row for row in found}
    parts = []
    for name in sorted(_visible(file_system(spark, path), path)):
        row = counted.get(name, (name, 0, 0, 0, 0))
        parts.append(Part(name=name, rows=row[1], messages=row[2]))
    if missing := counted.keys() - {part.name for part in parts}:
        raise WireError(f"a batch must have all parts that were written, but {len(missing):,} are missing")
    return parts, sum(row[3] for row in found), sum(row[4] for row in found)


def _visible(files: Files, path: str) -> set[str]:
    """Return the names in a directory that Spark and Hadoop do not ignore."""
    return {name for name in files.names(path) if not name.startswith(("_", "."))}


def finish(spark: Any, path: str, manifest: Manifest) -> None:
    """Write the manifest, after which the directory is a batch."""
    place = f"{path}/{MANIFEST}"
    files = file_system(spark, path)
    if files.exists(place):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
    with unwrapping():
        files.write(place, manifest.to_json().encode())


def read_manifest(spark: Any, path: str, plan: Plan) -> Manifest:
    """Return the manifest of a batch of the plan, after checking that the directory has exactly its parts."""
    files = file_system(spark, path)
    with naming(path), unwrapping():
        if not files.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not files.exists(f"{path}/{MANIFEST}"):
            raise WireError(f"a batch in a directory must have the manifest {MANIFEST}, which is written last")
        manifest = Manifest.from_json(files.read(f"{path}/{MANIFEST}"))
        manifest.header.check(plan)
        found = _visible(files, path)
        listed = {part.name for part in manifest.parts}
        if listed != found:
            lost, extra = len(listed - found), len(found - listed)
            raise WireError(
                f"a batch must have the parts of its manifest, but {lost:,} are missing, {extra:,} not in it"
            )
    return manifest


def read_parts(spark: Any, path: str, manifest: Manifest) -> Any:
    """Return the messages of a batch as a data frame with one column of messages or of blocks of messages."""
    if not manifest.parts:
        return spark.createDataFrame([], f"{manifest.column} binary")
    return spark.read.schema(f"{manifest.column} binary").parquet(path)
