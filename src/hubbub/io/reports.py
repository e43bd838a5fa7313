"""Batches of reports in files, ``.hub`` or Parquet, or in directories of Parquet.

They are read and written in blocks: a batch may be larger than memory.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from numpy.typing import NDArray

from hubbub.errors import WireError, reject
from hubbub.io import parquet
from hubbub.io.directories import (
    Manifest,
    is_directory,
    open_directory,
    read_directory,
    read_payloads,
    write_directory,
)
from hubbub.io.files import PIPE, naming, reading, same_file, writing
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import Batch, BatchHeader, Joined, Reports, Source, check_plan, decode_payloads
from hubbub.wire import batches

BLOCK = 1 << 23
"""Approximate bytes of payloads that are read or written at a time."""
SPOOL = 1 << 26
"""Bytes of payloads that are held in memory, rather than on disk, until their number is known."""
SAMPLE = 256
"""Files of at most this many bytes may be equal by chance."""


def read_reports(path: str, plan: Plan) -> Batch:
    """Open a file or directory of reports and check its header; its blocks, each checked, are read on iteration."""
    if is_directory(path):
        return read_directory(path, plan)
    with naming(path):
        chunks = _chunks(path)
        header = batches.decode_header(next(chunks))
        header.check(plan)
    return Batch(header, _messages(path, chunks, plan))


def _messages(path: str, chunks: Iterator[Any], plan: Plan) -> Iterator[NDArray[Any]]:
    with naming(path):
        for chunk in chunks:
            yield decode_payloads(chunk, plan)


def write_reports(path: str, plan: Plan, source: Source, *, rows: bool = False) -> BatchHeader:
    """Write reports, a batch, or the parts of one batch to a file or a new directory, and return the header.

    A name that ends with a slash is a directory (:mod:`hubbub.io.directories`), in which ``rows`` asks for one message
    in each row. Everything is written once, but a pipe: the header of a batch of several parts is known at the end,
    and a pipe must begin with it.
    """
    if is_directory(path):
        return write_directory(path, plan, source, rows=rows).header
    if rows:
        reject("rows", "be False unless the reports are written to a directory")
    with writing(path) as file:
        if _is_parquet(path):
            return _write_parquet(file, plan, source)
        if isinstance(source, Reports | Batch):
            check_plan(plan.id, source.header.plan)
            file.writelines(batches.encode_blocks(source))
            return source.header
        if file.seekable() and file.readable():
            return _write_parts(file, plan, source)
        with tempfile.SpooledTemporaryFile(SPOOL) as spool:
            header = _write_parts(spool, plan, source)
            spool.seek(0)
            shutil.copyfileobj(spool, file, BLOCK)
    return header


def _write_parquet(file: BinaryIO, plan: Plan, source: Source) -> BatchHeader:
    batch = Joined(source, plan)
    with parquet.MessageWriter(file, plan.payload, rows=True) as writer:
        for block in batches.payload_blocks(batch.blocks(), BLOCK, plan.payload):
            writer.write([block])
        writer.describe({parquet.HEADER_KEY: batches.encode_header(batch.header).hex().encode()})
    return batch.header


def _write_parts(file: IO[bytes], plan: Plan, source: Source) -> BatchHeader:
    """Write the payloads after a gap, then the header into the gap, and the digest of both at the end."""
    batch = Joined(source, plan)
    file.write(bytes(batches.HEADER_SIZE))
    file.writelines(batches.payload_blocks(batch.blocks(), BLOCK, plan.payload))
    file.seek(0)
    file.write(batches.encode_header(batch.header))
    file.seek(0)
    digest = hashlib.sha256()
    while data := file.read(BLOCK):
        digest.update(data)
    file.write(digest.digest())
    return batch.header


def inspect_reports(path: str, plan: Plan | None = None) -> BatchHeader:
    """Read a file or directory of reports to its end, checking its digests and, if the plan is given, all messages."""
    if plan is not None:
        batch = read_reports(path, plan)
        for _ in batch.blocks:
            pass
        return batch.header
    with naming(path):
        if is_directory(path):
            manifest = open_directory(path)
            for _ in read_payloads(path, manifest):
                pass
            return manifest.header
        chunks = _chunks(path)
        header = batches.decode_header(next(chunks))
        for _ in chunks:
            pass
    return header


def same_batch(one: str, two: str) -> bool:
    """Return True if two names refer to one batch, or to two of one run or of equal content.

    Short batches may have equal content by chance.
    """
    if same_file(one, two):
        return True
    paths = Path(one), Path(two)
    if PIPE not in (one, two) and all(path.is_dir() for path in paths):
        found = []
        for path in paths:
            with naming(str(path)):
                found.append(Manifest.read(path))
        if found[0].run is not None and found[0].run == found[1].run:
            return True
        size = found[0].header.messages * found[0].header.payload
        return paths[0].samefile(paths[1]) or (found[0] == found[1] and size > SAMPLE)
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


def _chunks(path: str) -> Iterator[Any]:
    """Yield the encoded header of a file of reports, then its payloads in blocks."""
    if _is_parquet(path):
        yield from _parquet_chunks(path)
        return
    with reading(path) as file:
        yield from batches.read_blocks(file.read, BLOCK)


def _parquet_chunks(path: str) -> Iterator[Any]:
    start = parquet.read_header(path)
    header = batches.decode_header(start)
    yield start
    messages = 0
    for _, columns in parquet.read_columns(path, parquet.message_column, max(1, BLOCK // header.payload)):
        messages += len(columns[0])
        yield parquet.payloads(columns[0], header.payload)
    if messages != header.messages:
        raise WireError(f"a batch must have the {header.messages:,} messages of its header, got {messages:,}")
