"""Batches of reports, the ``.hub`` format: a header of 72 bytes, the payloads of all messages, and a SHA-256.

    0    4  magic "HUBB"
    4    1  version, 2
    5    1  release: 1 records, 2 bits, 3 category, 4 strings
    6    1  shuffled: 0 or 1
    7    1  zero
    8    4  width: bits of a record, or bytes of the longest string
    12   4  bytes of a payload
    16  32  the plan's id
    48   8  messages
    56   8  n: contributors
    64   8  fakes among the messages, if the plan fixes their total number
    72   …  the payloads, one after another
    …   32  SHA-256 of everything before

The digest detects damage, not forgery. Nothing about a contributor is stored beside the messages.
"""

import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import legal
from hubbub.errors import WireError, reject
from hubbub.model.plans import Plan
from hubbub.model.releases import PAYLOAD_FORMATS
from hubbub.pipeline.reports import Batch, BatchHeader, Reports, decode_payloads

MAGIC = b"HUBB"
VERSION = 2
DIGEST_SIZE = 32
_HEADER = struct.Struct("<4sBBBBII32sQQQ")
HEADER_SIZE = _HEADER.size
_BLOCK = 1 << 20
_RELEASES = {form.code: release for release, form in PAYLOAD_FORMATS.items()}


def encode(reports: Reports | Batch) -> bytes:
    """Return the bytes of a ``.hub`` file.

    >>> import numpy as np
    >>> from hubbub.model.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(3), 2, Protocol(0.1), delta=1e-6)
    >>> data = encode(Reports(plan, np.array([[1], [4]], np.uint8), 2))
    >>> len(data), decode(data, plan)
    (106, Reports(2 messages of 2 people, not shuffled, plan ...))
    """
    return b"".join(encode_blocks(reports))


def encode_blocks(reports: Reports | Batch) -> Iterator[bytes]:
    """Yield the bytes of a ``.hub`` file in blocks: the header, the payloads and the digest."""
    if not isinstance(reports, Reports | Batch):
        reject("reports", f"be Reports or a Batch, not {type(reports).__name__}")
    header = encode_header(reports.header)
    digest = hashlib.sha256(header)
    yield header
    count = 0
    for block in payload_blocks(reports.blocks, _BLOCK, reports.header.payload):
        count += len(block) // reports.header.payload
        digest.update(block)
        yield block
    if count != len(reports):
        reject("the batch", f"have the {len(reports):,} messages of its header", count)
    yield digest.digest()


def payload_blocks(blocks: Iterable[NDArray[Any]], size: int, payload: int) -> Iterator[bytes]:
    """Yield the payloads of blocks of messages in blocks of ``size`` to ``2 * size`` bytes; the last may be smaller."""
    waiting = bytearray()
    step = max(1, size // payload)
    for block in blocks:
        for start in range(0, len(block), step):
            waiting += np.ascontiguousarray(block[start : start + step]).data.cast("B")
            if len(waiting) >= size:
                yield bytes(waiting)
                waiting.clear()
    if waiting:
        yield bytes(waiting)


def encode_header(header: BatchHeader) -> bytes:
    """Return the first bytes of a ``.hub`` file."""
    if header.certified or header.slots:
        # They weaken the guarantee: a file without them would claim too much.
        reject("a batch whose messages were checked by a service", "be kept in a directory, whose manifest says so")
    kind = (MAGIC, VERSION, PAYLOAD_FORMATS[header.release].code, header.shuffled, 0, header.width, header.payload)
    return _HEADER.pack(*kind, bytes.fromhex(header.plan), header.messages, header.n, header.fakes)


def decode_header(data: bytes) -> BatchHeader:
    """Return the header of a ``.hub`` file, checked as far as possible without its plan."""
    if len(data) < HEADER_SIZE:
        raise WireError(f"a batch must have at least {HEADER_SIZE} bytes, got {len(data)}")
    magic, version, release, shuffled, zero, width, payload, plan, messages, n, fakes = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f'a batch must start with "{MAGIC.decode()}"')
    if version != VERSION:
        raise WireError(f"the version of a batch must be {VERSION}, got {version}")
    if release not in _RELEASES:
        raise WireError(f"the release of a batch must be 1, 2, 3 or 4, got {release}")
    if shuffled > 1:
        raise WireError(f"the flag 'shuffled' of a batch must be 0 or 1, got {shuffled}")
    if zero:
        raise WireError("the reserved byte of a batch must be zero")
    if not width or payload != PAYLOAD_FORMATS[_RELEASES[release]].size(width):
        raise WireError(f"a batch of width {width} must have the payload size of its release, got {payload}")
    with legal("the header of a batch"):
        return BatchHeader(
            plan=plan.hex(),
            release=_RELEASES[release],
            width=width,
            payload=payload,
            messages=messages,
            n=n,
            fakes=fakes,
            shuffled=bool(shuffled),
        )


def file_size(header: BatchHeader) -> int:
    """Return the bytes of a whole ``.hub`` file."""
    return HEADER_SIZE + header.messages * header.payload + DIGEST_SIZE


def read_blocks(read: Callable[[int], bytes], block: int = _BLOCK) -> Iterator[bytes]:
    """Yield the header of a ``.hub`` file, then its payloads in blocks of about ``block`` bytes.

    ``read`` returns the next bytes, at most as many as its argument says. After the last block, the digest and the end
    of the file are checked.
    """
    start = _read_fully(read, HEADER_SIZE)
    header = decode_header(start)
    yield start
    expected = f"a batch of {header.messages:,} messages must have {file_size(header):,} bytes"
    digest = hashlib.sha256(start)
    step = max(1, block // header.payload) * header.payload
    left = header.messages * header.payload
    while left:
        data = _read_fully(read, min(step, left))
        if len(data) < min(step, left):
            raise WireError(f"{expected}, but it is shorter")
        digest.update(data)
        left -= len(data)
        yield data
    end = _read_fully(read, DIGEST_SIZE)
    if len(end) < DIGEST_SIZE:
        raise WireError(f"{expected}, but it is shorter")
    if end != digest.digest():
        raise WireError("a batch must end with the SHA-256 of its content")
    if read(1):
        raise WireError(f"{expected}, but it is longer")


def decode(data: bytes, plan: Plan) -> Reports:
    """Return the reports of a ``.hub`` file; raise :class:`WireError` on bytes that :func:`encode` does not return."""
    if not isinstance(data, bytes):
        raise WireError(f"a batch must be of type bytes, not {type(data).__name__}")
    header = decode_header(data)
    header.check(plan)
    _, *blocks = read_blocks(io.BytesIO(data).read, max(len(data), 1))
    messages = decode_payloads(b"".join(blocks), plan)
    return Reports(plan, messages, header.n, header.fakes, header.shuffled)


def _read_fully(read: Callable[[int], bytes], size: int) -> bytes:
    """Read ``size`` bytes, or fewer at the end of the file; a pipe may return them in pieces."""
    data = read(size)
    while len(data) < size and (more := read(size - len(data))):
        data += more
    return data
