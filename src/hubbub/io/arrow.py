"""Parquet files of values and of reports; needs the extra ``frames``.

Reports are written without compression, dictionary and statistics: the minimum and maximum of a row group are messages
of single people, and the sizes of compressed pages depend on the messages in them.
"""

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from hubbub.errors import WireError, reject
from hubbub.extras import load_extra
from hubbub.io.files import PIPE

COLUMN = "message"


def _parquet() -> Any:
    return load_extra("pyarrow.parquet", "frames", "Parquet")


def _file(path: str) -> Any:
    if path == PIPE:
        reject("a Parquet file", "be a file rather than standard input, because it is read from its end")
    parquet = _parquet()
    with open(path, "rb"):  # noqa: PTH123 (so that a missing file raises OSError)
        pass
    try:
        return parquet.ParquetFile(path, memory_map=False)
    except _errors():
        raise WireError("the Parquet file is damaged or not a Parquet file") from None


@functools.cache
def _errors() -> tuple[type[Exception], ...]:
    library = importlib.import_module("pyarrow")
    return (library.ArrowException, OSError)


def read_columns(path: str, choose: Callable[[list[str]], list[str]], block: int) -> Iterator[tuple[list[str], Any]]:
    """Yield the columns that ``choose`` selects from all names, together with their names, in blocks of rows."""
    with _file(path) as file:
        names = choose(list(file.schema_arrow.names))
        try:
            for batch in file.iter_batches(block, columns=names):
                yield names, [batch.column(name) for name in names]
        except _errors():
            raise WireError("the Parquet file is damaged or not a Parquet file") from None


def number_of_rows(path: str) -> int:
    """Return the number of rows of a Parquet file."""
    with _file(path) as file:
        return int(file.metadata.num_rows)


def message_column(names: list[str]) -> list[str]:
    """Select the column of a batch of reports, for :func:`read_columns`."""
    if names != [COLUMN]:
        raise WireError(f"a Parquet file of reports must have the single column {COLUMN!r}")
    return names


def read_metadata(path: str) -> bytes:
    """Return the encoded header of a batch of reports from the metadata of the file."""
    with _file(path) as file:
        metadata = file.schema_arrow.metadata or {}
    if b"hubbub" not in metadata:
        raise WireError("a Parquet file of reports must have the header of a batch in its metadata")
    try:
        return bytes.fromhex(metadata[b"hubbub"].decode())
    except ValueError:
        raise WireError("the header of a batch in Parquet must be hexadecimal") from None


def write_payloads(file: BinaryIO, header: bytes, payload: int, blocks: Iterable[bytes]) -> None:
    """Write payloads as a column of fixed-size binary values of ``payload`` bytes, one row group per block."""
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
    """Return the concatenated bytes of a column of fixed-size binary values."""
    if str(values.type) != f"fixed_size_binary[{payload}]" or values.null_count:
        raise WireError(f"messages in Parquet must be binary values of length {payload}")
    start = values.offset * payload
    return np.frombuffer(values.buffers()[1], np.uint8)[start : start + len(values) * payload].tobytes()
