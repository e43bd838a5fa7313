"""Test vectors of the wire formats, good and bad, for clients in other languages; docs/wire.md explains their use.

They are stored rather than recomputed: a tighter guarantee would change the id of a plan, but every client must read
and write the stored vectors in the same way.
"""

import hashlib
import json
from importlib import resources
from typing import Any

import numpy as np

from hubbub import errors
from hubbub.accountant.charges import Charge
from hubbub.accountant.device_ledger import DeviceLedger
from hubbub.documents import parse
from hubbub.errors import InvalidInput, WireError
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.pipeline import device
from hubbub.pipeline.reports import Tally
from hubbub.results.estimate import estimate
from hubbub.results.numbers import NumberView
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
    """Return plans with the messages of devices under :class:`Counter`, bytes to reject, totals, and surveys.

    >>> {name: len(part) for name, part in wire_vectors().items() if name != "format"}
    {'good': 10, 'bad': 358, 'ledgers': 6, 'surveys': 3}
    """
    folder = resources.files(__name__)
    parts = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("good", "bad", "ledgers", "surveys")
    }
    return {"format": FORMAT, **parts}


def check_vectors(text: str | bytes) -> int:
    """Return the number of vectors in a file; raise :class:`WireError` on the first that this program disagrees with.

    >>> check_vectors(json.dumps(wire_vectors()))
    377
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
        for one in document["surveys"]:
            _check_survey(one)
        return sum(len(document[name]) for name in ("good", "bad", "ledgers", "surveys"))
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


def categories(record: int, plan: Plan) -> list[int]:
    """Return the category of every attribute of an encoded record of a survey."""
    parts = ((record >> one.start & (1 << one.size) - 1) for one in plan.schema.attributes)
    return [part.bit_length() - 1 for part in parts]


def counted(payloads: list[list[str]], plan: Plan) -> list[int]:
    """Return how many of the payloads, in hexadecimal digits by person, name each category."""
    counts = [0] * plan.schema.width
    for person in payloads:
        for payload in person:
            counts[int.from_bytes(bytes.fromhex(payload), "little")] += 1
    return counts


def estimated(counts: list[int], n: int, plan: Plan) -> dict[str, list[float]]:
    """Return the estimates of all questions from these counts of n people.

    People for each label, bucket or cell; for a number the sum of the shares of its range.
    """
    tally = Tally(
        plan=plan.id, n=n, fakes=0, messages=sum(counts), batches=1, smallest_batch=n, counts=np.array(counts, np.int64)
    )
    found = {}
    for name, one in estimate(tally, plan).views:
        found[name] = [one.total] if isinstance(one, NumberView) else one.values.reshape(-1).tolist()
    return found


def _check_survey(vector: dict[str, Any]) -> None:
    plan, entropy = Plan.from_json(vector["plan"]), Counter()
    encoded, sent = [], []
    for answers in vector["answers"]:
        record = device.encode(answers, plan.schema, entropy=entropy)
        encoded.append(categories(record, plan))
        sent.append([payload.hex() for payload in device.record_payloads(record, plan, entropy=entropy)])
    sizes = [one.size for one in plan.schema.attributes]
    same = (plan.id, sizes, encoded, sent) == tuple(vector[key] for key in ("id", "sizes", "categories", "payloads"))
    if not same or counted(sent, plan) != vector["counts"]:
        raise WireError(f"the categories or payloads of the survey {vector['name']!r} differ")
    found = estimated(vector["counts"], len(sent), plan)
    if found.keys() != vector["estimate"].keys() or not all(
        np.allclose(values, vector["estimate"][name], rtol=1e-9, atol=1e-9) for name, values in found.items()
    ):
        raise WireError(f"the estimates of the survey {vector['name']!r} differ")
