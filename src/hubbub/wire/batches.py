"""Batches of reports, the ``.hub`` format: a header of 88 bytes, the payloads of all messages, a SHA-256 of it all.

    0    4  "HUBB"
    4    1  version, 1
    5    1  kind: 1 packed records, 2 numbers of bits, 3 numbers of categories
    6    2  zero
    8    4  width: bits of a record
    12   4  bytes of a payload
    16  32  the plan's id
    48   8  messages
    56   8  n: contributors
    64   8  fakes among the messages, where the plan gives their number in total
    72   8  contributors of the shuffled batch; 0 if not shuffled
    80   8  zero
    88   …  the payloads, one after the other
    …   32  SHA-256 of everything before

The digest guards against damage, not against forgery. Nothing of one contributor stands beside his messages.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hubbub.errors import InvalidInput, PlanMismatch, WireError, reject
from hubbub.plans import Plan
from hubbub.reports import Reports, message_type
from hubbub.wire.messages import KINDS, VERSION

_MARK = b"HUBB"
_HEADER = struct.Struct("<4sBBHII32sQQQQQ")
HEADER_SIZE = _HEADER.size
DIGEST_SIZE = 32
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a batch says about itself; ``read_header`` needs no plan, so that any file can be inspected."""

    release: str
    width: int
    payload: int
    plan: str
    messages: int
    n: int
    fakes: int
    batch: int

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return HEADER_SIZE + self.messages * self.payload + DIGEST_SIZE

    def check(self, plan: Plan) -> None:
        """Raise unless this is the header of a batch of the plan."""
        if self.plan != plan.id:
            raise PlanMismatch(f"the batch must be of the plan {plan.id[:8]}…, got one of {self.plan[:8]}…")
        if (self.release, self.width, self.payload) != (plan.protocol.release, plan.schema.width, plan.payload):
            raise WireError("the kind and sizes of a batch must be those of its plan, got others")


def encode(reports: Reports) -> bytes:
    """The bytes of a ``.hub`` file.

    >>> import numpy as np
    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(3), 2, Protocol(0.1), delta=1e-6)
    >>> data = encode(Reports(own, np.array([[1], [4]], np.uint8), 2))
    >>> len(data), decode(data, own)
    (122, Reports(2 messages of 2 people, not shuffled, plan ...))
    """
    return b"".join(encode_blocks(reports))


def encode_blocks(reports: Reports) -> Iterator[bytes]:
    """The same in blocks, for files that should not be held in memory twice."""
    if not isinstance(reports, Reports):
        reject("reports", "be Reports", type(reports).__name__)
    header = write_header(reports.plan, len(reports), n=reports.n, fakes=reports.fakes, batch=reports.batch)
    digest = hashlib.sha256(header)
    yield header
    for start in range(0, len(reports), _BLOCK):
        data = reports.messages[start : start + _BLOCK].tobytes()
        digest.update(data)
        yield data
    yield digest.digest()


def write_header(plan: Plan, messages: int, *, n: int, fakes: int = 0, batch: int = 0) -> bytes:
    """The header of a file of so many messages, for whoever writes the payloads and the digest himself, in blocks."""
    return _HEADER.pack(
        _MARK,
        VERSION,
        KINDS[plan.protocol.release],
        0,
        plan.schema.width,
        plan.payload,
        bytes.fromhex(plan.id),
        messages,
        n,
        fakes,
        batch,
        0,
    )


def read_header(data: bytes) -> Header:
    """The header at the start of a ``.hub`` file, checked as far as it can be without its plan."""
    if len(data) < HEADER_SIZE:
        raise WireError(f"a batch must have at least {HEADER_SIZE} bytes, got {len(data)}")
    mark, version, kind, zero, width, payload, plan, messages, n, fakes, batch, more = _HEADER.unpack_from(data)
    if mark != _MARK:
        raise WireError('a batch must start with "HUBB", got something else')
    if version != VERSION:
        raise WireError(f"the version of a batch must be {VERSION}, got {version}")
    names = {number: name for name, number in KINDS.items()}
    if kind not in names:
        raise WireError(f"the kind of a batch must be 1, 2 or 3, got {kind}")
    if zero or more:
        raise WireError("the reserved bytes of a batch must be zero, got others")
    return Header(
        release=names[kind],
        width=width,
        payload=payload,
        plan=plan.hex(),
        messages=messages,
        n=n,
        fakes=fakes,
        batch=batch,
    )


def decode(data: bytes, plan: Plan) -> Reports:
    """The reports of a ``.hub`` file of this plan; raises :class:`WireError` on all that ``encode`` does not make."""
    if not isinstance(data, bytes):
        raise WireError(f"a batch must be bytes, got {type(data).__name__}")
    header = read_header(data)
    header.check(plan)
    if len(data) != header.size:
        raise WireError(f"a batch of {header.messages} messages must have {header.size} bytes, got {len(data)}")
    view = memoryview(data)
    if hashlib.sha256(view[:-DIGEST_SIZE]).digest() != data[-DIGEST_SIZE:]:
        raise WireError("a batch must end with the SHA-256 of its content, got another")
    return decode_messages(view[HEADER_SIZE:-DIGEST_SIZE], plan, n=header.n, fakes=header.fakes, batch=header.batch)


def decode_messages(payloads: bytes | memoryview, plan: Plan, *, n: int, fakes: int = 0, batch: int = 0) -> Reports:
    """The reports of payloads that follow one another, as in the middle of a ``.hub`` file or in a block of it."""
    messages = np.frombuffer(payloads, message_type(plan))
    if plan.protocol.sends_records:
        messages = messages.reshape(-1, plan.payload)
    try:
        return Reports(plan, messages, n, fakes, batch)
    except InvalidInput as error:
        raise WireError(f"the messages of a batch must be legal: {error}") from None
