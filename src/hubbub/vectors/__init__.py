"""Test vectors of the wire format, good and bad, for clients in other languages; docs/wire.md tells how to use them.

They are stored, not made anew: a guarantee may be sharpened one day and change the id of a plan, but what stands here
must be read and written alike by every client and for ever.
"""

import hashlib
import json
from importlib import resources
from typing import Any

from hubbub import device, errors
from hubbub.canonical import parse
from hubbub.errors import InvalidInput, WireError
from hubbub.plans import Plan
from hubbub.wire import batches, messages

__all__ = ["Counter", "check_vectors", "wire_vectors"]

FORMAT = "hubbub wire vectors 1"


class Counter:
    """The entropy of the vectors: block i is SHA-256 of i as eight little-endian bytes, for i = 0, 1, …

    >>> Counter()(4).hex()
    'af5570f5'
    """

    __slots__ = ("block", "data")

    def __init__(self) -> None:
        self.data, self.block = b"", 0

    def __call__(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        while len(self.data) < size:
            self.data += hashlib.sha256(self.block.to_bytes(8, "little")).digest()
            self.block += 1
        taken, self.data = self.data[:size], self.data[size:]
        return taken


def wire_vectors() -> dict[str, Any]:
    """Plans with what devices make of values under the counter stream, and what a decoder must refuse, with the error.

    >>> {name: len(part) for name, part in wire_vectors().items() if name != "format"}
    {'good': 10, 'bad': 288}
    """
    folder = resources.files(__name__)
    parts = {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("good", "bad")}
    return {"format": FORMAT, **parts}


def check_vectors(text: str | bytes) -> int:
    """How many vectors of a file there are; raises :class:`WireError` on the first that this program sees otherwise.

    >>> check_vectors(json.dumps(wire_vectors()))
    298
    """
    document: Any = parse(text, "a file of vectors")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise WireError(f"a file of vectors must be of the format {FORMAT!r}, got another")
    try:
        plans = {one["name"]: _check_good(one) for one in document["good"]}
        for one in document["bad"]:
            _check_bad(one, plans[one["plan"]])
        return len(document["good"]) + len(document["bad"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError("a file of vectors must have the entries of the format, got others") from None


def _check_good(vector: dict[str, Any]) -> Plan:
    plan = Plan.from_json(vector["plan"])
    entropy = Counter()
    made = [
        [messages.encode(payload, plan).hex() for payload in device.payloads(value, plan, entropy=entropy)]
        for value in vector["values"]
    ]
    batch = bytes.fromhex(vector["batch"])
    reports = batches.decode(batch, plan)
    sent = b"".join(messages.decode(bytes.fromhex(one), plan) for user in vector["messages"] for one in user)
    same = plan.id == vector["id"] and made == vector["messages"]
    if not (same and batches.encode(reports) == batch and reports.messages.tobytes() == sent):
        raise WireError("a vector must have the messages and the batch of its values, got others")
    return plan


def _check_bad(vector: dict[str, Any], plan: Plan) -> None:
    decode = {"message": messages.decode, "batch": batches.decode}[vector["what"]]
    expected = getattr(errors, vector["error"])
    try:
        decode(bytes.fromhex(vector["data"]), plan)
    except InvalidInput as error:
        if isinstance(error, expected):
            return
    raise WireError("a bad vector must be refused with its error, but it was not")
