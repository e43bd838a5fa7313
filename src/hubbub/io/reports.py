"""Batches of reports in files, ``.hub`` or Parquet, read and written in blocks: a batch may be larger than memory."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from hubbub.errors import WireError, reject
from hubbub.io import arrow
from hubbub.io.files import PIPE, naming, reading, same_file, writing
from hubbub.plans import Plan
from hubbub.reports import Batch, BatchHeader, Reports, Source, check_plan, decode_payloads, parts
from hubbub.wire import batches

BLOCK = 1 << 23
"""Approximate bytes of payloads that are read or written at a time."""
SPOOL = 1 << 26
"""Bytes of payloads that are held in memory, rather than on disk, until their number is known."""
SAMPLE = 256
"""Files of at most this many bytes may be equal by chance."""


def read_reports(path: str, plan: Plan) -> Batch:
    """Open a file of reports and check its header; its blocks, each checked, are read on iteration."""
    with naming(path):
        chunks = _chunks(path)
        header = batches.decode_header(next(chunks))
        header.check(plan)
    return Batch(header, _messages(path, chunks, plan))


def _messages(path: str, chunks: Iterator[bytes], plan: Plan) -> Iterator[NDArray[Any]]:
    with naming(path):
        for chunk in chunks:
            yield decode_payloads(chunk, plan)


def write_reports(path: str, plan: Plan, source: Source) -> BatchHeader:
    """Write reports, a batch, or the parts of one batch to a file, and return the header.

    The header is at the start of the file, so the payloads of several parts are first spooled to a temporary file.
    """
    with tempfile.SpooledTemporaryFile(SPOOL) as spool:
        batch = source if isinstance(source, Reports | Batch) else _spooled(source, plan, spool)
        check_plan(plan.id, batch.header.plan)
        with writing(path) as file:
            if _is_parquet(path):
                header = batches.encode_header(batch.header)
                arrow.write_payloads(file, header, plan.payload, batches.payload_blocks(batch, BLOCK))
            else:
                file.writelines(batches.encode_blocks(batch))
    return batch.header


def inspect_reports(path: str, plan: Plan | None = None) -> BatchHeader:
    """Read a file of reports to its end, checking its digest and, if the plan is given, all messages."""
    if plan is not None:
        batch = read_reports(path, plan)
        for _ in batch.blocks:
            pass
        return batch.header
    with naming(path):
        chunks = _chunks(path)
        header = batches.decode_header(next(chunks))
        for _ in chunks:
            pass
    return header


def same_batch(one: str, two: str) -> bool:
    """Return True if two names refer to one file, or to two of equal content; short files may be equal by chance."""
    if same_file(one, two):
        return True
    paths = Path(one), Path(two)
    if PIPE in (one, two) or not all(path.is_file() and path.stat().st_size > SAMPLE for path in paths):
        return False
    ends = []
    for path in paths:
        with path.open("rb") as file:
            file.seek(-batches.DIGEST_SIZE, os.SEEK_END)
            ends.append((path.stat().st_size, file.read()))
    return ends[0] == ends[1]


def _is_parquet(path: str) -> bool:
    return path != PIPE and Path(path).suffix.lower() == ".parquet"


def _spooled(source: Iterable[Reports | Batch], plan: Plan, spool: IO[bytes]) -> Batch:
    messages = n = fakes = 0
    for part in parts(source):
        header = part.header
        check_plan(plan.id, header.plan)
        if header.shuffled:
            # Two shuffled batches, one after the other, are not a shuffled batch of all people.
            reject("the parts of a batch", "not be shuffled yet")
        for block in part.blocks:
            spool.write(block.tobytes())
        messages, n, fakes = messages + header.messages, n + header.n, fakes + header.fakes
    spool.seek(0)
    size = max(1, BLOCK // plan.payload) * plan.payload
    blocks = (decode_payloads(data, plan) for data in iter(lambda: spool.read(size), b""))
    return Batch(BatchHeader.of(plan, messages=messages, n=n, fakes=fakes), blocks)


def _chunks(path: str) -> Iterator[bytes]:
    """Yield the encoded header of a file of reports, then its payloads in blocks."""
    if _is_parquet(path):
        yield from _parquet_chunks(path)
        return
    with reading(path) as file:
        yield from batches.read_blocks(file.read, BLOCK)


def _parquet_chunks(path: str) -> Iterator[bytes]:
    start = arrow.read_metadata(path)
    header = batches.decode_header(start)
    yield start
    messages = 0
    for _, columns in arrow.read_columns(path, arrow.message_column, max(1, BLOCK // header.payload)):
        messages += len(columns[0])
        yield arrow.payloads(columns[0], header.payload)
    if messages != header.messages:
        raise WireError(f"a batch must have the {header.messages:,} messages of its header, got {messages:,}")
