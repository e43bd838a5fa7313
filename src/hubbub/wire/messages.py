"""Single messages: a header of 20 bytes and a payload whose size the plan fixes, so that the length reveals nothing.

0   3  magic "HBM"
3   1  version, 2
4  16  first 16 bytes of the plan's id
20  …  payload of ``plan.payload`` bytes

The plan determines whether the payload is a packed record or the index of a bit or category.
"""

from hubbub.errors import PlanMismatch, WireError
from hubbub.model.plans import HEADER, Plan

MAGIC = b"HBM"
VERSION = 2


def size(plan: Plan) -> int:
    """Return the bytes of every message of a plan."""
    return HEADER + plan.payload


def encode(payload: bytes, plan: Plan) -> bytes:
    """Return the message with the given payload; raise :class:`WireError` if the plan does not allow it.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plan = plan_from(Schema.one_hot(3), 1000, Protocol(0.1), delta=1e-6)
    >>> encode(bytes([4]), plan)[:4], decode(encode(bytes([4]), plan), plan)
    (b'HBM\\x02', b'\\x04')
    """
    return _header(plan) + plan.check_payload(payload)


def decode(message: bytes, plan: Plan) -> bytes:
    """Return the payload of a message; raise :class:`WireError` on bytes that :func:`encode` does not return."""
    if not isinstance(message, bytes):
        raise WireError(f"a message must be of type bytes, not {type(message).__name__}")
    if len(message) != size(plan):
        raise WireError(f"a message of this plan must have {size(plan)} bytes, got {len(message)}")
    if message[:3] != MAGIC:
        raise WireError(f'a message must start with "{MAGIC.decode()}"')
    if message[3] != VERSION:
        raise WireError(f"the version of a message must be {VERSION}, got {message[3]}")
    if message[:HEADER] != _header(plan):
        raise PlanMismatch("the message must be of this plan")
    return plan.check_payload(message[HEADER:])


def _header(plan: Plan) -> bytes:
    return MAGIC + bytes([VERSION]) + bytes.fromhex(plan.id)[:16]
