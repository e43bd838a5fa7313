"""Parquet files of values and of reports; needs the extra ``frames``.

Reports are written without compression, dictionary and statistics: the minimum and maximum of a row group are messages
of single people, and the sizes of compressed pages depend on the messages in them. Every page has a checksum, which is
verified when it is read.
"""

import contextlib
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import WireError, load_extra, reject
from hubbub.io.files import PIPE

MESSAGE, MESSAGES = "message", "messages"
"""Names of a column with one message in each row, and of one with a block of messages in each row."""
HEADER_KEY, PLAN_KEY = b"hubbub", b"hubbub_plan"
"""Keys of the metadata of a file with the header of its batch, and of a column with the id of the plan."""
SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
"""Key under which Spark stores the metadata of its columns."""
OPTIONS = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}


def _parquet() -> Any:
    return load_extra("pyarrow.parquet", "frames", "Parquet")


@contextlib.contextmanager
def _opened(path: str, dictionaries: Sequence[str] = ()) -> Iterator[Any]:
    """Open a Parquet file, and turn the errors of damaged ones into :class:`WireError`.

    Strings in the columns ``dictionaries`` are read as indices of the dictionary that the file has for them.
    """
    if path == PIPE:
        reject("a Parquet file", "be a file rather than standard input, because it is read from its end")
    parquet = _parquet()
    with open(path, "rb"):  # noqa: PTH123 (so that a missing file raises OSError)
        pass
    options = {"memory_map": False, "pre_buffer": False, "page_checksum_verification": True}
    try:
        with parquet.ParquetFile(path, read_dictionary=list(dictionaries), **options) as file:
            yield file
    except _errors() as error:
        if dictionaries and isinstance(error, NotImplementedError):
            raise _TwoDictionariesError from None
        raise WireError("the Parquet file is damaged or not a Parquet file") from None


class _TwoDictionariesError(Exception):
    """Arrow cannot read lists as indices if the dictionary of their column ends within a row group."""


@functools.cache
def _errors() -> tuple[type[Exception], ...]:
    library = importlib.import_module("pyarrow")
    # The names of columns in a damaged file need not be UTF-8.
    return (library.ArrowException, OSError, UnicodeDecodeError)


def read_columns(
    path: str, choose: Callable[[list[str]], list[str]], block: int, *, indexed: Sequence[str] = ("STRING",)
) -> Iterator[tuple[list[str], Any]]:
    """Yield the columns that ``choose`` selects from all names, together with their names, in blocks of rows.

    Values of the logical types ``indexed`` are read as indices of a dictionary; ``NONE`` is that of bytes.
    """
    with _opened(path) as file:
        names = choose(list(file.schema_arrow.names))
        leaves = [file.schema.column(place) for place in range(len(file.schema))]
    kinds = [leaf for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in indexed]
    texts = [leaf.path for leaf in kinds if leaf.path.startswith(tuple(names))]
    done = 0
    with contextlib.suppress(_TwoDictionariesError), _opened(path, texts) as file:
        for batch in file.iter_batches(block, columns=names):
            yield names, [batch.column(name) for name in names]
            done += batch.num_rows
        return
    with _opened(path) as file:
        for batch in file.iter_batches(block, columns=names):
            rest = batch.slice(min(done, batch.num_rows))
            done -= batch.num_rows - rest.num_rows
            if rest.num_rows:
                yield names, [rest.column(name) for name in names]


def number_of_rows(path: str) -> int:
    """Return the number of rows of a Parquet file."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def group_size(path: str, column: str) -> tuple[int, bool]:
    """Return the bytes of a column in the largest row group, uncompressed, and whether a dictionary repeats values.

    A file that is small on disk may stand for far more: reading a row group takes at least this memory.
    """
    largest, repeated = 0, False
    with _opened(path) as file:
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        for chunk in (group.column(place) for group in groups for place in range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] == column:
                largest = max(largest, int(chunk.total_uncompressed_size))
                repeated = repeated or bool(chunk.has_dictionary_page)
    return largest, repeated


def message_column(names: list[str]) -> list[str]:
    """Select the column of a file of reports, for :func:`read_columns`."""
    if names != [MESSAGE]:
        raise WireError(f"a Parquet file of reports must have the single column {MESSAGE!r}")
    return names


def read_header(path: str) -> bytes:
    """Return the encoded header of a batch of reports from the metadata of the file."""
    with _opened(path) as file:
        metadata = file.metadata.metadata or {}
    if HEADER_KEY not in metadata:
        raise WireError("a Parquet file of reports must have the header of a batch in its metadata")
    try:
        return bytes.fromhex(metadata[HEADER_KEY].decode())
    except ValueError:
        raise WireError("the header of a batch in Parquet must be hexadecimal") from None


def column_plan(path: str, column: str) -> str:
    """Return the id of the plan in the metadata of a column, as Arrow or Spark store it; empty if there is none."""
    with _opened(path) as file:
        schema, metadata = file.schema_arrow, file.metadata.metadata or {}
    if column not in schema.names:
        raise WireError(f"a part of a batch must have the column {column!r}")
    found: Mapping[bytes, bytes] = schema.field(column).metadata or {}
    if PLAN_KEY in found:
        return found[PLAN_KEY].decode(errors="replace")
    try:
        fields = json.loads(metadata.get(SPARK_KEY, b"{}"))["fields"]
        return str(next(one["metadata"][PLAN_KEY.decode()] for one in fields if one["name"] == column))
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return ""


class MessageWriter:
    """Writes payloads to a Parquet file: one message in each row, or one block of messages in each row.

    ``metadata`` is that of the column. Each call of :meth:`write` makes a row group.
    """

    def __init__(
        self, file: BinaryIO, payload: int, *, rows: bool, metadata: Mapping[bytes, bytes] | None = None
    ) -> None:
        parquet, self._library = _parquet(), importlib.import_module("pyarrow")
        self._payload, self._rows = payload, rows
        kind = self._library.binary(payload) if rows else self._library.binary()
        name = MESSAGE if rows else MESSAGES
        self._schema = self._library.schema([self._library.field(name, kind, nullable=False, metadata=metadata)])
        self._writer = parquet.ParquetWriter(file, self._schema, **OPTIONS)

    def write(self, blocks: Iterable[bytes]) -> int:
        """Write blocks of concatenated payloads, and return the number of rows."""
        library = self._library
        listed = list(blocks)
        kind = self._schema.field(0).type
        if self._rows:
            data = listed[0] if len(listed) == 1 else b"".join(listed)
            array = library.Array.from_buffers(kind, len(data) // self._payload, [None, library.py_buffer(data)])
        else:
            array = library.array(listed, kind)
        self._writer.write_table(library.Table.from_arrays([array], schema=self._schema))
        return len(array)

    def describe(self, metadata: Mapping[bytes, bytes]) -> None:
        """Add metadata of the whole file, which is written at its end."""
        self._writer.add_key_value_metadata(dict(metadata))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the end of the file; the file of a failure is given up, but Arrow must not try again later."""
        if kind is None:
            self._writer.close()
            return
        with contextlib.suppress(Exception):
            self._writer.close()
        self._writer.is_open = False


def payloads(values: Any, payload: int, *, rows: bool = False) -> NDArray[np.uint8]:
    """Return the concatenated bytes of a column of blocks of messages, or of messages if ``rows``, without copying."""
    library = importlib.import_module("pyarrow")
    types, kind = library.types, values.type
    if not len(values):
        return np.empty(0, np.uint8)
    if values.null_count:
        raise WireError("messages in Parquet must not be null")
    if types.is_binary_view(kind):
        return payloads(values.cast(library.large_binary()), payload, rows=rows)
    if types.is_dictionary(kind) and types.is_binary(kind.value_type):
        # Checked before it is decoded: a long value may be repeated in every row.
        payloads(values.dictionary, payload, rows=rows)
        return payloads(values.dictionary_decode(), payload, rows=rows)
    if types.is_fixed_size_binary(kind):
        if kind.byte_width != payload:
            raise WireError(f"messages in Parquet must be binary values of length {payload}")
        ends = np.array([values.offset, values.offset + len(values)], np.int64) * payload
    elif types.is_binary(kind) or types.is_large_binary(kind):
        offsets = np.frombuffer(values.buffers()[1], np.int64 if types.is_large_binary(kind) else np.int32)
        ends = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
        sizes = np.diff(ends)
        if rows and (sizes != payload).any():
            raise WireError(f"messages in Parquet must be binary values of length {payload}")
        if (sizes % payload).any():
            raise WireError(f"blocks of messages in Parquet must have a multiple of {payload} bytes")
    else:
        raise WireError("messages in Parquet must be binary values")
    data = values.buffers()[-1]
    return np.frombuffer(b"" if data is None else data, np.uint8)[int(ends[0]) : int(ends[-1])]
