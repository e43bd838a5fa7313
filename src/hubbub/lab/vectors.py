"""Test vectors of the wire format, good and bad, for clients in other languages."""

from typing import Any

import numpy as np

from hubbub.batches import Reports, message_type
from hubbub.canonical import parse
from hubbub.data import Schema
from hubbub.errors import InvalidInput, WireError, reject
from hubbub.planner import adopt
from hubbub.protocol import Fakes, Plan, Protocol
from hubbub.wire import batches, messages

__all__ = ["check_vectors", "wire_vectors"]

FORMAT = "hubbub wire vectors 1"

_POINTS = (
    (Schema.one_hot(["red", "green", "blue"]), Protocol(0.125)),
    (Schema.bits(["a", "b", "c", "d", "e", "f", "g", "h", "i"]), Protocol(0.25, k=2)),
    (Schema.at_most(2, [f"é{i}" for i in range(300)]), Protocol(0.0625, release="bits")),
    (Schema.one_hot(5), Protocol(0.03125, release="category")),
    (Schema.one_hot(4), Protocol(0.0, m=Fakes.laplace(2.0, 25))),
)


def wire_vectors() -> dict[str, Any]:
    """Plans, and for each its legal messages and batches and some that must be refused, with the reason.

    >>> sorted(wire_vectors())
    ['format', 'vectors']
    """
    plans = [adopt(schema, 1000, protocol, epsilon=3.0) for schema, protocol in _POINTS]
    return {"format": FORMAT, "vectors": [_vectors(plan) for plan in plans]}


def _vectors(plan: Plan) -> dict[str, Any]:
    payloads = _payloads(plan)
    good = messages.encode(payloads[-1], plan)
    rows = np.frombuffer(b"".join(payloads), message_type(plan))
    reports = Reports(plan, rows.reshape(-1, plan.payload) if plan.protocol.release == "records" else rows, 2)
    batch = batches.encode(reports)
    full = b"\xff" * plan.payload
    return {
        "plan": plan.to_json(),
        "messages": [{"payload": one.hex(), "message": messages.encode(one, plan).hex()} for one in payloads],
        "bad_messages": [
            {"why": "cut short", "message": good[:-1].hex()},
            {"why": "too long", "message": (good + b"\0").hex()},
            {"why": "another mark", "message": (b"hb" + good[2:]).hex()},
            {"why": "another version", "message": (good[:2] + b"\x02" + good[3:]).hex()},
            {"why": "another plan", "message": (good[:4] + bytes(16) + good[20:]).hex()},
            {"why": "an illegal payload", "message": (good[:20] + full).hex()},
        ],
        "batches": [{"people": 2, "payloads": [one.hex() for one in payloads], "batch": batch.hex()}],
        "bad_batches": [
            {"why": "cut short", "batch": batch[:-1].hex()},
            {"why": "too long", "batch": (batch + b"\0").hex()},
            {"why": "another digest", "batch": (batch[:-1] + bytes([batch[-1] ^ 1])).hex()},
            {"why": "another header", "batch": (batch[:80] + b"\x01" + batch[81:]).hex()},
        ],
    }


def _payloads(plan: Plan) -> list[bytes]:
    """The least and the greatest legal payload and one in between."""
    width = plan.schema.width
    most = (1 << width) - 1 if plan.protocol.release == "records" else width - 1
    return [value.to_bytes(plan.payload, "little") for value in (0, most // 3, most)]


def check_vectors(text: str | bytes) -> int:
    """How many vectors of a file there are; raises :class:`WireError` on the first that this program sees otherwise.

    >>> import json
    >>> check_vectors(json.dumps(wire_vectors()))
    75
    """
    document: Any = parse(text, "a file of vectors")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise WireError(f"a file of vectors must be of the format {FORMAT!r}, got another")
    try:
        return sum(_check(one) for one in document["vectors"])
    except (KeyError, TypeError, AttributeError):
        raise WireError("a file of vectors must have the entries of the format, got others") from None


def _check(vector: dict[str, Any]) -> int:
    plan = Plan.from_json(vector["plan"])
    for one in vector["messages"]:
        data, payload = _bytes(one["message"]), _bytes(one["payload"])
        if messages.encode(payload, plan) != data or messages.decode(data, plan) != payload:
            raise WireError("a vector must have the message of its payload, got another")
    for one in vector["batches"]:
        data = _bytes(one["batch"])
        payloads = b"".join(map(_bytes, one["payloads"]))
        again = batches.decode_messages(payloads, plan, n=one["people"])
        if batches.encode(again) != data or batches.decode(data, plan).messages.tobytes() != payloads:
            raise WireError("a vector must have the batch of its payloads, got another")
    for one in vector["bad_messages"]:
        _must_refuse(lambda data: messages.decode(data, plan), _bytes(one["message"]))
    for one in vector["bad_batches"]:
        _must_refuse(lambda data: batches.decode(data, plan), _bytes(one["batch"]))
    return 1 + sum(len(vector[name]) for name in ("messages", "batches", "bad_messages", "bad_batches"))


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        reject("bytes in a vector", "be hexadecimal", "something else")


def _must_refuse(decode: Any, data: bytes) -> None:
    try:
        decode(data)
    except InvalidInput:
        return
    raise WireError("a bad vector must be refused, but it was read")
