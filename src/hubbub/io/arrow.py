"""Parquet, through the extra ``arrow``: values in, reports in and out.

Reports are written without compression, dictionary and statistics: the least and greatest of a row group are messages
of single people, and the sizes of compressed pages tell about the messages in them.
"""

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from hubbub.errors import MissingExtra, WireError, reject
from hubbub.io.files import PIPE

COLUMN = "message"


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("frames", "Parquet") from None


def _file(path: str) -> Any:
    if path == PIPE:
        reject("a Parquet file", "be a file, as it is read from its end", "a pipe")
    parquet = _parquet()
    with open(path, "rb"):  # noqa: PTH123 (for the operating system's own complaint)
        pass
    try:
        return parquet.ParquetFile(path, memory_map=False)
    except _mistakes():
        raise WireError("a Parquet file must be whole and legal, got another") from None


@functools.cache
def _mistakes() -> tuple[type[Exception], ...]:
    library = importlib.import_module("pyarrow")
    return (library.ArrowException, OSError)


def read_columns(path: str, choose: Callable[[list[str]], list[str]], block: int) -> Iterator[tuple[list[str], Any]]:
    """The columns that ``choose`` takes from the names of all, with these names, in blocks of rows."""
    with _file(path) as file:
        names = choose(list(file.schema_arrow.names))
        try:
            for batch in file.iter_batches(block, columns=names):
                yield names, [batch.column(name) for name in names]
        except _mistakes():
            raise WireError("a Parquet file must be whole and legal, got another") from None


def message_column(names: list[str]) -> list[str]:
    """The one column of a batch of reports, for :func:`read_columns`."""
    if names != [COLUMN]:
        raise WireError(f"a Parquet file of reports must have the one column {COLUMN!r}, got others")
    return names


def read_metadata(path: str) -> bytes:
    """The header of a batch of reports, which stands in the metadata of the file."""
    with _file(path) as file:
        metadata = file.schema_arrow.metadata or {}
    if b"hubbub" not in metadata:
        raise WireError("a Parquet file of reports must have the header of a batch in its metadata, got another")
    try:
        return bytes.fromhex(metadata[b"hubbub"].decode())
    except ValueError:
        raise WireError("the header of a batch in Parquet must be hexadecimal, got something else") from None


def write_payloads(file: BinaryIO, header: bytes, payload: int, blocks: Iterable[bytes]) -> None:
    """Payloads of so many bytes each as one column of fixed-size binary values, one row group for each block."""
    parquet, library = _parquet(), importlib.import_module("pyarrow")
    kind = library.binary(payload)
    schema = library.schema([library.field(COLUMN, kind, nullable=False)], metadata={"hubbub": header.hex()})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": True}
    with parquet.ParquetWriter(file, schema, **options) as writer:
        for block in blocks:
            buffers = [None, library.py_buffer(block)]
            array = library.Array.from_buffers(kind, len(block) // payload, buffers)
            writer.write_table(library.table([array], schema=schema))


def payloads(values: Any, payload: int) -> bytes:
    """The bytes of a column of fixed-size binary values, one after the other."""
    if str(values.type) != f"fixed_size_binary[{payload}]" or values.null_count:
        raise WireError(f"messages in Parquet must have {payload} bytes each, got others")
    start = values.offset * payload
    return np.frombuffer(values.buffers()[1], np.uint8)[start : start + len(values) * payload].tobytes()
