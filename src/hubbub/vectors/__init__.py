"""Test vectors of the wire formats, good and bad, for clients in other languages; docs/wire.md explains their use.

They are stored rather than recomputed: a tighter guarantee would change the id of a plan, but every client must read
and write the stored vectors in the same way.
"""

import hashlib
import json
from importlib import resources
from typing import Any

from hubbub import device, errors
from hubbub.canonical import parse
from hubbub.charges import Charge
from hubbub.device_ledger import DeviceLedger
from hubbub.errors import InvalidInput, WireError
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.wire import batches, messages

FORMAT = "hubbub wire vectors 2"


class Counter:
    """Entropy source of the vectors: block i is the SHA-256 of i as eight little-endian bytes, for i = 0, 1, …

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
    """Return plans with the messages of devices under :class:`Counter`, bytes to reject, and totals of repeated plans.

    >>> {name: len(part) for name, part in wire_vectors().items() if name != "format"}
    {'good': 10, 'bad': 358, 'ledgers': 6}
    """
    folder = resources.files(__name__)
    parts = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("good", "bad", "ledgers")
    }
    return {"format": FORMAT, **parts}


def check_vectors(text: str | bytes) -> int:
    """Return the number of vectors in a file; raise :class:`WireError` on the first that this program disagrees with.

    >>> check_vectors(json.dumps(wire_vectors()))
    374
    """
    document: Any = parse(text, "the file of vectors")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise WireError(f"the format of the file of vectors must be {FORMAT!r}")
    try:
        plans = {one["name"]: _check_good(one) for one in document["good"]}
        for one in document["bad"]:
            _check_bad(one, plans[one["plan"]])
        for one in document["ledgers"]:
            _check_ledger(one, plans)
        return len(document["good"]) + len(document["bad"]) + len(document["ledgers"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"the file of vectors does not have the entries of the format {FORMAT!r}") from None


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
        raise WireError(f"the messages or the batch of the good vector {vector['name']!r} differ")
    return plan


def _check_ledger(vector: dict[str, Any], plans: dict[str, Plan]) -> None:
    ledger = DeviceLedger(Budget(1e300, vector["delta"]))
    for part in vector["history"]:
        ledger = ledger.add(Charge.of(plans[part["plan"]], rounds=part["rounds"]))
    if not vector["at_least"] <= ledger.total().epsilon <= vector["at_most"]:
        raise WireError(f"the total of the history {vector['history']!r} is not within its bounds")


def _check_bad(vector: dict[str, Any], plan: Plan) -> None:
    decode = {"message": messages.decode, "batch": batches.decode}[vector["what"]]
    expected = getattr(errors, vector["error"])
    try:
        decode(bytes.fromhex(vector["data"]), plan)
    except InvalidInput as error:
        if isinstance(error, expected):
            return
    raise WireError(f"the bad vector {vector['why']!r} of {vector['plan']!r} must raise {vector['error']}")
