"""Options of the commands that run on this machine or on Spark."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hubbub.cli.options import Command, R
from hubbub.errors import InvalidRecord, MissingExtra, load_extra
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import BatchHeader, Tally

ENGINES = click.Choice(["local", "spark"])
FORMS = {"parquet": {}, "csv": {"header": "true"}, "tsv": {"header": "true", "sep": "\t"}}
KEY_BYTES = 32
RECORD_HINT = "correct the record, or leave it out of the file: Spark takes no --on-error; records are counted from 1"
QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engine that a command runs on, and how to reach it."""

    name: str
    master: str | None
    settings: tuple[str, ...]

    @property
    def is_spark(self) -> bool:
        """True if Spark does the work."""
        return self.name == "spark"

    def check(self, others: dict[str, bool]) -> None:
        """Raise on options of the other engine, given as the names of options and if they are used."""
        if not self.is_spark and (self.master is not None or self.settings):
            raise click.UsageError("--master and --set must come with --engine spark")
        for option, used in others.items():
            if used:
                raise click.UsageError(f"{option} must not be used with --engine {self.name}")

    @contextlib.contextmanager
    def session(self) -> Iterator[tuple[Any, Any]]:
        """Open a session of Spark, and yield the engine and the session."""
        chosen = dict(QUIET)
        for text in self.settings:
            name, equals, value = text.partition("=")
            if not equals or not name.startswith("spark."):
                raise click.UsageError("--set must be a setting of Spark, such as spark.executor.memory=2g")
            chosen[name] = value
        load_extra("pyspark", "spark", "The Spark engine")
        engine: Any = load_extra("hubbub.spark", "spark", "The Spark engine")
        try:
            opened = engine.session(self.master, chosen)
        except MissingExtra:
            raise
        except Exception as error:
            # Of many kinds, with texts of many lines: no Java, no such master, a refused connection.
            about = f"{type(error).__name__}; check --master, and that Java is installed"
            raise click.UsageError(f"no session of Spark could be opened: {about}") from None
        try:
            yield engine, opened
        finally:
            opened.stop()

    def randomize(
        self, values: str, plan: Plan, output: str, *, form: str | None, column: str | None, key: str | None
    ) -> BatchHeader:
        """Randomize the values in files that Spark reads."""
        kind = form or (Path(values.rstrip("/")).suffix.lower().removeprefix("."))
        kind = kind if kind in FORMS else "parquet"
        secret = read_key(key)
        with self.session() as (engine, spark):
            read = spark.read.options(**FORMS[kind]).format("csv" if kind == "tsv" else kind)
            try:
                with load_extra("hubbub.spark.problems", "spark", "The Spark engine").unwrapping():
                    frame = read.load(values)
            except FileNotFoundError as error:
                raise FileNotFoundError(error.errno, error.strerror, values) from None
            try:
                header: BatchHeader = engine.randomize(frame, plan, output, column=column, key=secret)
            except InvalidRecord as error:
                error.add_note(RECORD_HINT)
                raise
        return header

    def shuffle(self, reports: Sequence[str], plan: Plan, output: str, *, rows: bool, key: str | None) -> BatchHeader:
        """Shuffle the reports in directories."""
        secret = read_key(key)
        with self.session() as (engine, spark):
            header: BatchHeader = engine.shuffle(spark, list(reports), plan, output, rows=rows, key=secret)
        return header

    def tally(self, reports: Sequence[str], plan: Plan) -> Tally:
        """Count the messages of batches in directories."""
        if len({path.rstrip("/") for path in reports}) != len(reports):
            raise click.UsageError("the reports must be of different people, but a directory is given twice")
        with self.session() as (engine, spark):
            total = sum((engine.tally(spark, path, plan) for path in reports), start=0)
        assert isinstance(total, Tally)
        return total


def read_key(path: str | None) -> bytes | None:
    """Return the key in a file, which has exactly 32 bytes."""
    if path is None:
        return None
    with Path(path).open("rb") as file:
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise click.UsageError(f"--key must be a file of {KEY_BYTES} secret bytes")
    return key


def engine_options(command: Command[R]) -> Command[R]:
    """Add the options of the engine; the command gets ``engine``."""

    @click.option("--engine", "chosen", type=ENGINES, default="local", help="Where to run (spark needs the extra).")
    @click.option("--master", metavar="URL", help="Spark: the master, such as local[2] or spark://host:7077.")
    @click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Spark: a setting; may be repeated.")
    @functools.wraps(command)
    def wrapped(*args: Any, chosen: str, master: str | None, settings: tuple[str, ...], **rest: Any) -> R:
        return command(*args, engine=EngineOptions(chosen, master, settings), **rest)

    return wrapped


key_option = click.option(
    "--key", metavar="FILE", help="Spark: 32 secret bytes, to resume a run that failed; delete it afterwards."
)
