"""Records of CSV, TSV and JSON lines, plain or compressed by gzip."""

import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from hubbub.errors import InvalidRecord, WireError
from hubbub.io.files import PIPE, reading

T = TypeVar("T")
MAGIC = b"\x1f\x8b"
"""The first bytes of a file compressed by gzip."""
QUOTING = "must be properly quoted"


@contextlib.contextmanager
def opened(path: str) -> Iterator[tuple[BinaryIO, Callable[[], float | None]]]:
    """Open a file or standard input, decompress it if it is gzip, and yield it with the fraction read so far."""
    with reading(path) as file:
        # Standard input may be any binary stream, where a program replaces it.
        source = cast("io.BufferedReader", file)
        if not hasattr(file, "peek"):
            source = io.BufferedReader(cast("io.RawIOBase", file))
        size = 0 if path == PIPE else Path(path).stat().st_size

        def fraction() -> float | None:
            return min(1.0, file.tell() / size) if size else None

        try:
            packed = source.peek(2)[:2] == MAGIC
            yield cast("BinaryIO", gzip.GzipFile(fileobj=source)) if packed else source, fraction
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise WireError("the compressed file is damaged or cut off") from None
        finally:
            if source is not file:
                source.detach()  # so that standard input stays open


def batches(rows: Iterable[T], block: int) -> Iterator[list[T]]:
    """Yield the rows in lists of at most ``block``."""
    source = iter(rows)
    while part := list(itertools.islice(source, block)):
        yield part


class _Lines:
    """Lines of a file, of which the reader of CSV can give some back."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._again = lines, list[str]()
        self.taken: list[str] = []

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._again.pop() if self._again else next(self._lines)
        self.taken.append(line)
        return line

    def give_back(self) -> None:
        """Return all lines but the first to the ones that come next."""
        self._again.extend(reversed(self.taken[1:]))


def csv_rows(
    file: BinaryIO, delimiter: str, spans: Callable[[list[str]], bool]
) -> Generator[list[str] | InvalidRecord]:
    """Yield the rows of CSV, the header first; a row that is not properly quoted ends with its line.

    An unbalanced quotation mark takes the following lines for a part of its cell. ``spans`` decides if a row of several
    lines may be one; if not, its first line is an invalid record, and reading goes on with the second.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        lines = _Lines(text)
        rows = csv.reader(lines, strict=True, delimiter=delimiter)
        number = -1  # the header is not a record
        while True:
            lines.taken.clear()
            number += 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error:
                lines.give_back()
                yield InvalidRecord(number, QUOTING)
                continue
            if len(lines.taken) > 1 and not spans(row):
                lines.give_back()
                yield InvalidRecord(number, QUOTING)
                continue
            yield row
    finally:
        text.detach()  # the wrapper would close the file


def json_line(line: bytes, number: int) -> Any:
    """Return the value of a line of JSON, None for an empty line, or the problem of the record."""
    if not line.strip():
        return None
    try:
        return json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return InvalidRecord(number, "must be a line of JSON in UTF-8")
