"""Batches of reports in files, ``.hub`` or Parquet, in blocks: a batch may be larger than memory."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from hubbub.errors import WireError
from hubbub.io import arrow
from hubbub.io.files import PIPE, reading, same_file, writing
from hubbub.plans import Plan
from hubbub.reports import Reports, check_plan
from hubbub.wire import batches as wire

BLOCK = 1 << 23
"""About so many bytes of payloads at a time."""
SPOOL = 1 << 26
"""Payloads beyond so many bytes wait on disk until their number is known."""
ALIKE = 256
"""Files up to so many bytes may have the same content and yet be of different people."""


def read_reports(path: str, plan: Plan) -> Iterator[Reports]:
    """The reports of a file in blocks, of which the first declares all people and fakes.

    The digest stands at the end of a file: nobody should rely on a block before the iterator has ended.
    """
    if _is_parquet(path):
        yield from _read_parquet(path, plan)
        return
    with reading(path) as file:
        header, start = _read_header(file)
        header.check(plan)
        people, fakes = header.n, header.fakes
        for payloads in _payloads(file, header, start):
            yield wire.decode_messages(payloads, plan, n=people, fakes=fakes, batch=header.batch)
            people = fakes = 0


def write_reports(path: str, plan: Plan, blocks: Iterable[Reports]) -> wire.Header:
    """Write one batch from its blocks, and return its header.

    The header comes first and tells the number of messages, so that payloads wait in a temporary file.
    """
    messages = n = fakes = batch = 0
    with tempfile.SpooledTemporaryFile(SPOOL) as spool:
        for block in blocks:
            check_plan(plan.id, block.plan.id)
            spool.write(block.messages.tobytes())
            messages, n, fakes = messages + len(block), n + block.n, fakes + block.fakes
            batch = max(batch, block.batch)
        spool.seek(0)
        header = wire.write_header(plan, messages, n=n, fakes=fakes, batch=batch)
        size = max(1, BLOCK // plan.payload) * plan.payload
        parts = iter(lambda: spool.read(size), b"")
        with writing(path) as file:
            if _is_parquet(path):
                arrow.write_payloads(file, header, plan.payload, parts)
            else:
                _write_hub(file, header, parts)
    return wire.read_header(header)


def inspect_reports(path: str, plan: Plan | None = None) -> wire.Header:
    """Read a batch to its end: header and digest, and with its plan also whether all messages are legal."""
    if _is_parquet(path):
        header = wire.read_header(arrow.read_metadata(path))
        for _ in _read_parquet(path, plan) if plan is not None else ():
            pass
        return header
    with reading(path) as file:
        header, start = _read_header(file)
        if plan is not None:
            header.check(plan)
        for payloads in _payloads(file, header, start):
            if plan is not None:
                wire.decode_messages(payloads, plan, n=header.n)
    return header


def same_batch(one: str, two: str) -> bool:
    """Whether two names are of one file, or of two with the same content; a few messages may be alike by chance."""
    if same_file(one, two):
        return True
    paths = Path(one), Path(two)
    if PIPE in (one, two) or not all(path.is_file() and path.stat().st_size > ALIKE for path in paths):
        return False
    ends = []
    for path in paths:
        with path.open("rb") as file:
            file.seek(-wire.DIGEST_SIZE, os.SEEK_END)
            ends.append((path.stat().st_size, file.read()))
    return ends[0] == ends[1]


def _is_parquet(path: str) -> bool:
    return path != PIPE and Path(path).suffix.lower() == ".parquet"


def _write_hub(file: BinaryIO, header: bytes, parts: Iterable[bytes]) -> None:
    digest = hashlib.sha256(header)
    file.write(header)
    for part in parts:
        digest.update(part)
        file.write(part)
    file.write(digest.digest())


def _read_header(file: BinaryIO) -> tuple[wire.Header, bytes]:
    start = _read(file, wire.HEADER_SIZE)
    return wire.read_header(start), start


def _payloads(file: BinaryIO, header: wire.Header, start: bytes) -> Iterator[bytes]:
    """The payloads in blocks, at least one; raises in the end if the file is not exactly what its digest says."""
    digest = hashlib.sha256(start)
    size = max(1, BLOCK // max(header.payload, 1)) * header.payload
    left = header.messages * header.payload
    while True:
        block = _read(file, min(size, left))
        if len(block) < min(size, left):
            raise WireError(f"a batch of {header.messages} messages must have {header.size} bytes, got fewer")
        digest.update(block)
        left -= len(block)
        yield block
        if not left:
            break
    if _read(file, wire.DIGEST_SIZE) != digest.digest():
        raise WireError("a batch must end with the SHA-256 of its content, got another")
    if file.read(1):
        raise WireError(f"a batch of {header.messages} messages must have {header.size} bytes, got more")


def _read(file: BinaryIO, size: int) -> bytes:
    """So many bytes or as many as there are; a pipe may give them in pieces."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _read_parquet(path: str, plan: Plan) -> Iterator[Reports]:
    header = wire.read_header(arrow.read_metadata(path))
    header.check(plan)
    people, fakes, seen = header.n, header.fakes, 0
    for _, columns in arrow.read_columns(path, arrow.message_column, max(1, BLOCK // plan.payload)):
        data = arrow.payloads(columns[0], plan.payload)
        yield wire.decode_messages(data, plan, n=people, fakes=fakes, batch=header.batch)
        people, fakes, seen = 0, 0, seen + len(columns[0])
    if not seen:
        yield wire.decode_messages(b"", plan, n=people, fakes=fakes, batch=header.batch)
    if seen != header.messages:
        raise WireError(f"a batch must have the {header.messages} messages of its header, got {seen}")
