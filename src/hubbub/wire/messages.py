"""Single messages: 20 bytes of header and a payload whose size the plan fixes, so that length says nothing.

0   2  "HB"
2   1  version, 1
3   1  kind: 1 a packed record, 2 the number of a bit, 3 the number of a category
4  16  the first 16 bytes of the plan's id
20  …  payload of ``plan.payload`` bytes
"""

from hubbub.errors import PlanMismatch, WireError, reject
from hubbub.plans import HEADER, Plan

VERSION = 1
KINDS = {"records": 1, "bits": 2, "category": 3}
_MARK = b"HB"


def size(plan: Plan) -> int:
    """Bytes of every message of a plan."""
    return HEADER + plan.payload


def encode(payload: bytes, plan: Plan) -> bytes:
    """The message with this payload; raises on a payload that the plan does not allow.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> from hubbub.schema import Schema
    >>> own = plan_from(Schema.one_hot(3), 1000, Protocol(0.1), delta=1e-6)
    >>> encode(bytes([4]), own)[:4], decode(encode(bytes([4]), own), own)
    (b'HB\\x01\\x01', b'\\x04')
    """
    if not isinstance(payload, bytes):
        reject("the payload", "be bytes", type(payload).__name__)
    return _header(plan) + _check_payload(payload, plan)


def decode(message: bytes, plan: Plan) -> bytes:
    """The payload of a message; raises :class:`WireError` on everything that :func:`encode` does not make."""
    if not isinstance(message, bytes):
        raise WireError(f"a message must be bytes, got {type(message).__name__}")
    if len(message) != size(plan):
        raise WireError(f"a message of this plan must have {size(plan)} bytes, got {len(message)}")
    header = _header(plan)
    if message[:2] != header[:2]:
        raise WireError('a message must start with "HB", got something else')
    if message[2] != VERSION:
        raise WireError(f"the version of a message must be {VERSION}, got {message[2]}")
    if message[4:HEADER] != header[4:]:
        raise PlanMismatch("the message must be of this plan, got one of another")
    if message[3] != header[3]:
        raise WireError(f"the kind of a message of this plan must be {header[3]}, got {message[3]}")
    return _check_payload(message[HEADER:], plan)


def _header(plan: Plan) -> bytes:
    return _MARK + bytes([VERSION, KINDS[plan.protocol.release]]) + bytes.fromhex(plan.id)[:16]


def _check_payload(payload: bytes, plan: Plan) -> bytes:
    if len(payload) != plan.payload:
        raise WireError(f"a payload of this plan must have {plan.payload} bytes, got {len(payload)}")
    value, width = int.from_bytes(payload, "little"), plan.schema.width
    if plan.protocol.sends_records:
        if value >> width:
            raise WireError("a payload must have zero padding bits, got ones")
    elif value >= width:
        raise WireError(f"a payload must be a number below {width}, got another")
    return payload
