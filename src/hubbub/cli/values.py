"""Options of the commands that read people's values, and the summary of what was read."""

import contextlib
import csv
import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.options import FORMS, Command, R
from hubbub.errors import InvalidRecord
from hubbub.io.files import PIPE, check_destination, replacing, same_file
from hubbub.io.policy import OnError, Policy, Summary
from hubbub.io.values import BLOCK, Form, read_values
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection
from hubbub.report.sentences import numbered

_ACTIONS = {"missing": "became --missing", "other": "became --other", "skipped": "skipped", "failed": "not accepted"}
"""Words for what happened to a record, in the list of --rejects."""


@dataclass(frozen=True, slots=True)
class ValuesOptions:
    """The given options of a command that reads values."""

    form: Form | None
    column: str | None
    policy: Policy
    rejects: str | None

    @contextlib.contextmanager
    def reading(
        self, path: str, schema: Schema, *, block: int = BLOCK
    ) -> Iterator[tuple[Iterator[Collection], Summary]]:
        """Open a file of values and yield its blocks and their summary; writes the list of --rejects at the end."""
        with _listing(self.rejects) as listener:
            summary = Summary(listener=listener)
            blocks = read_values(
                path, schema, form=self.form, column=self.column, block=block, policy=self.policy, summary=summary
            )
            yield blocks, summary

    def check_rejects(self, *files: str) -> None:
        """Raise if the list of --rejects cannot be written, or would replace one of these files."""
        if self.rejects is None:
            return
        if self.rejects == PIPE:
            raise click.UsageError("--rejects must be a file; standard output is not supported")
        check_destination(self.rejects)
        if Path(self.rejects).exists() and not Path(self.rejects).is_file():
            raise click.UsageError("--rejects must be a regular file, because the file is replaced")
        for name in files:
            if same_file(self.rejects, name) or (name != PIPE and Path(self.rejects) == Path(name)):
                raise click.UsageError(f"--rejects would overwrite {name}: give it another name")

    @property
    def is_default(self) -> bool:
        """True if invalid records make the command fail, and no label replaces a value."""
        return self.policy == Policy()

    def explain(self, summary: Summary) -> None:
        """Print on standard error what happened to the records that were not used as they are."""
        if summary.clean:
            return
        policy, parts = self.policy, []
        if summary.missing:
            parts.append(f"{numbered(summary.missing, 'record')} without a value became {policy.missing!r}")
        if summary.other:
            parts.append(f"{numbered(summary.other, 'record')} with labels outside the schema became {policy.other!r}")
        if summary.bad:
            outcome = f"became {policy.missing!r}" if policy.missing is not None else "left out"
            numbers = ", ".join(f"{record:,}" for record in summary.first)
            more = ", …" if summary.bad > len(summary.first) else ""
            parts.append(f"{numbered(summary.bad, 'invalid record')} {outcome} (no. {numbers}{more})")
        if summary.clipped:
            verb = "is" if summary.clipped == 1 else "are"
            parts.append(f"{numbered(summary.clipped, 'number')} outside a question's bounds {verb} clipped")
        where = f"{self.rejects} lists them" if self.rejects else "--rejects FILE lists them"
        listed = f"; {where}" if summary.missing or summary.other or summary.bad else ""
        screen.note(f"{numbered(summary.rows, 'record')} read; {'; '.join(parts)}{listed}")
        screen.note("these counts depend on the raw values: do not pass them on with the reports")


def values_options(command: Command[R]) -> Command[R]:
    """Add the options of reading values; the command gets ``options``."""

    @click.option("--format", "form", type=FORMS, help="Format of VALUES; by default from the file name.")
    @click.option("--column", help="Column, or JSON key, that holds the labels.")
    @click.option(
        "--on-error",
        type=click.Choice(["fail", "skip"]),
        default="fail",
        help="Treatment of invalid records: fail, or skip them (they become --missing, or are left out).",
    )
    @click.option("--missing", metavar="LABEL", help="Label for records without a value.")
    @click.option("--other", metavar="LABEL", help="Label that replaces labels outside the schema.")
    @click.option(
        "--rejects", metavar="FILE", help="List the numbers of all such records, with reasons but no values, as CSV."
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        form: Form | None,
        column: str | None,
        on_error: OnError,
        missing: str | None,
        other: str | None,
        rejects: str | None,
        **rest: Any,
    ) -> R:
        return command(*args, options=ValuesOptions(form, column, Policy(on_error, missing, other), rejects), **rest)

    return wrapped


@contextlib.contextmanager
def _listing(path: str | None) -> Iterator[Any]:
    """Yield a function that lists records in a file which only its owner can read; complete even if reading fails."""
    if path is None:
        yield None
        return
    failure: InvalidRecord | None = None
    with replacing(Path(path), mode=0o600) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text)
        rows.writerow(("record", "action", "reason"))
        try:
            yield lambda record, what, reason: rows.writerow((record, _ACTIONS[what], reason))
        except InvalidRecord as error:
            failure = error
        finally:
            text.detach()
    if failure is not None:
        raise failure
