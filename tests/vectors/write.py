"""Write the test vectors: ``python -m tests.vectors.write``. Run it only when the version of a format changes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hubbub as hb
from hubbub import vectors
from hubbub.model.plans import HEADER
from hubbub.model.protocol import Noise
from hubbub.pipeline import device
from hubbub.pipeline.reports import decode_payloads
from hubbub.vectors import Counter
from hubbub.wire import batches, messages

FOLDER = Path(vectors.__file__).parent

CASES: list[tuple[str, hb.Schema, hb.Protocol, list[Any]]] = [
    ("flip", hb.Schema.one_hot(["red", "green", "blue"]), hb.Protocol(0.1), ["red", "blue"]),
    ("copies", hb.Schema.bits([str(i) for i in range(13)]), hb.Protocol(0.25, 3), [["0", "12"], []]),
    ("split", hb.Schema.at_most(2, 300), hb.Protocol(0.01, release="bits"), [["7", "299"], []]),
    ("category", hb.Schema.one_hot(5), hb.Protocol(0.1, release="category"), ["4", "0"]),
    ("clear among fakes", hb.Schema.one_hot(9), hb.Protocol(0.0, m=300), ["8", "1"]),
    ("fake and flip", hb.Schema.at_most(3, 11), hb.Protocol(0.2, m=200), [["0", "5", "10"], ["3"]]),
    ("binomial fakes", hb.Schema.one_hot(4), hb.Protocol(0.0, m=hb.Fakes.binomial(4, 0.5)), ["2", "3"]),
    ("Poisson fakes", hb.Schema.bits(8), hb.Protocol(0.1, m=hb.Fakes.poisson(1.5)), [["1", "7"], ["0"]]),
    ("shuffler's fakes", hb.Schema.one_hot(4), hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25)), ["1", "2"]),
    ("labels", hb.Schema.one_hot(["é", '"', "\\", "\n", "日本"]), hb.Protocol(0.1), ["日本", "\n"]),
]


def good() -> list[dict[str, Any]]:
    """Plans, values, and the messages and the batch that devices encode with the counter stream."""
    found = []
    for name, schema, protocol, values in CASES:
        plan = hb.plan_from(schema, 100, protocol, epsilon=3.0)
        entropy = Counter()
        sent = [device.payloads(value, plan, entropy=entropy) for value in values]
        share = protocol.fixed_fakes // plan.n
        payloads = decode_payloads(b"".join(payload for one in sent for payload in one), plan)
        reports = hb.Reports(plan, payloads, len(values), share * len(values))
        found.append(
            {
                "name": name,
                "plan": plan.to_json(),
                "id": plan.id,
                "values": values,
                "messages": [[messages.encode(payload, plan).hex() for payload in one] for one in sent],
                "batch": batches.encode(reports).hex(),
            }
        )
    return found


def bad() -> list[dict[str, Any]]:
    """Messages and batches that a decoder must reject, with the class of the error."""
    found: list[dict[str, Any]] = []
    for vector in good():
        plan = hb.Plan.from_json(vector["plan"])
        message = bytes.fromhex(next(one for one in vector["messages"] if one)[0])
        batch = bytes.fromhex(vector["batch"])
        width, records = plan.schema.width, plan.protocol.sends_records
        top = (1 << width if records and width % 8 else width).to_bytes(plan.payload, "little")

        def add(what: str, why: str, data: bytes, error: str = "WireError", name: str = vector["name"]) -> None:
            found.append({"plan": name, "what": what, "why": why, "data": data.hex(), "error": error})

        def edit(data: bytes, place: int, new: bytes) -> bytes:
            return data[:place] + new + data[place + len(new) :]

        def with_digest(data: bytes) -> bytes:
            return data[:-32] + hashlib.sha256(data[:-32]).digest()

        add("message", "empty", b"")
        add("message", "one byte short", message[:-1])
        add("message", "one byte long", message + b"\0")
        add("message", "wrong magic", edit(message, 0, b"hbm"))
        add("message", "magic of a batch", edit(message, 0, b"HUB"))
        add("message", "version 0", edit(message, 3, b"\0"))
        add("message", "version 1", edit(message, 3, b"\1"))
        add("message", "version 3", edit(message, 3, b"\3"))
        add("message", "wrong plan", edit(message, 4, bytes(16)), "PlanMismatch")
        add("message", "wrong end of the plan id", edit(message, 19, bytes([message[19] ^ 1])), "PlanMismatch")
        if not records or width % 8:
            add("message", "payload out of range", edit(message, HEADER, top))
            changed = edit(batch, batches.HEADER_SIZE, top)
            add("batch", "payload out of range", with_digest(changed))
        add("batch", "empty", b"")
        add("batch", "header only", batch[: batches.HEADER_SIZE])
        add("batch", "one byte short", batch[:-1])
        add("batch", "one byte long", batch + b"\0")
        add("batch", "wrong magic", with_digest(edit(batch, 0, b"HUBC")))
        add("batch", "version 1", with_digest(edit(batch, 4, b"\1")))
        add("batch", "version 3", with_digest(edit(batch, 4, b"\3")))
        add("batch", "release 0", with_digest(edit(batch, 5, b"\0")))
        add("batch", "release 9", with_digest(edit(batch, 5, b"\x09")))
        add("batch", "wrong release", with_digest(edit(batch, 5, bytes([batch[5] % 3 + 1]))))
        add("batch", "shuffled 2", with_digest(edit(batch, 6, b"\2")))
        add("batch", "shuffled without people", with_digest(edit(edit(batch, 6, b"\1"), 56, bytes(8))))
        add("batch", "reserved byte", with_digest(edit(batch, 7, b"\1")))
        add("batch", "wrong width", with_digest(edit(batch, 8, (width + 1).to_bytes(4, "little"))))
        add("batch", "width 0", with_digest(edit(batch, 8, bytes(4))))
        add("batch", "wrong payload size", with_digest(edit(batch, 12, b"\x09")))
        add("batch", "wrong plan", with_digest(edit(batch, 16, bytes(32))), "PlanMismatch")
        add("batch", "one message too many", with_digest(edit(batch, 48, bytes([batch[48] + 1]))))
        add("batch", "one message too few", with_digest(edit(batch, 48, bytes([batch[48] - 1]))))
        add("batch", "2^64 − 1 messages", with_digest(edit(batch, 48, b"\xff" * 8)))
        add("batch", "2^64 − 1 people", with_digest(edit(batch, 56, b"\xff" * 8)))
        add("batch", "2^64 − 1 fakes", with_digest(edit(batch, 64, b"\xff" * 8)))
        add("batch", "damaged message", edit(batch, batches.HEADER_SIZE, bytes([batch[batches.HEADER_SIZE] ^ 1])))
        add("batch", "wrong digest", batch[:-32] + bytes(32))
    return found


HISTORIES: list[tuple[list[tuple[str, int]], float]] = [
    ([("flip", 1)], 1e-6),
    ([("flip", 52)], 1e-6),
    ([("category", 365)], 1e-4),
    ([("copies", 1), ("category", 7), ("flip", 1)], 1e-6),
    ([("clear among fakes", 3)], 1e-2),
    ([("shuffler's fakes", 12), ("flip", 2)], 1e-4),
]


def ledgers() -> list[dict[str, Any]]:
    """Histories of good plans, with bounds on the ε of all rounds together: the composition, and 3 % more."""
    plans = {vector["name"]: hb.Plan.from_json(vector["plan"]) for vector in good()}
    found: list[dict[str, Any]] = []
    for history, delta in HISTORIES:
        ledger = hb.Ledger()
        for name, rounds in history:
            ledger = ledger.charge(plans[name], rounds=rounds)
        epsilon = ledger.epsilon(delta)
        charged = [{"plan": name, "rounds": count} for name, count in history]
        found.append({"history": charged, "delta": delta, "at_least": 0.999 * epsilon, "at_most": 1.03 * epsilon})
    return found


SURVEYS: list[tuple[str, dict[str, Any], list[str], list[Noise] | Noise, str]] = [
    (
        "every question",
        {
            "colour": hb.Choice(["red", "green", "blue"], missing=True),
            "dark mode": hb.Flag(),
            "logged in": hb.Flag(missing=True),
            "load time": hb.Scale(0, 8, buckets=16, levels=[8, 2, 1]),
            "distance": hb.Scale(edges=[-5, 0, 0.1, 2, 100], missing=True, unit="km"),
            "size": hb.Scale(1, 1000, buckets=5, log=True),
            "memory": hb.Number(-1, 2, digits=[4, 4], missing=True, variance=True),
            "share": hb.Number(0, 1),
            "colour × dark mode": hb.Cross("colour", "dark mode"),
            "colour × distance × dark mode": hb.Cross("colour", "distance", "dark mode"),
        },
        ["dark mode"],
        Noise(m=hb.Fakes.gaussian(20.0, 120)),
        "bits",
    ),
    (
        "users' noise",
        {"colour": hb.Choice(["red", "green", "blue"]), "dark mode": hb.Flag(), "memory": hb.Number(0, 8, digits=[8])},
        [],
        [Noise(0.125), Noise(m=hb.Fakes.poisson(1.5)), Noise(m=hb.Fakes.binomial(3, 0.5))],
        "bits",
    ),
    (
        "randomized response",
        {
            "colour": hb.Choice(["red", "green", "blue"]),
            "dark mode": hb.Flag(),
            "memory": hb.Number(0, 8, digits=[2] * 3),
        },
        [],
        [Noise(0.1), Noise(0.25), Noise(0.25), Noise(0.125), Noise(0.0625)],
        "category",
    ),
]
ANSWERS: dict[str, list[Any]] = {
    "colour": ["red", "green", "blue", None],
    "dark mode": [True, False, False],
    "logged in": [True, None, False],
    "load time": [-1, 0, 0.499, 0.5, 3.5, 4, 7, 7.25, 7.999, 8, 1e300],
    "distance": [-6, -5, -0.001, 0, 0.1, 1.999, None, 2, 101],
    "size": [0.5, 1, 3.9, 4, 63, 64, 999, 1000],
    "memory": [-2, -1, -0.5, 0.5, None, 1.7, 2, 3],
    "share": [0, 0.001, 0.25, 0.5, 0.999, 1],
}
"""Answers in turn: at edges, between and beyond them, and missing."""
PEOPLE = 24


def surveys() -> list[dict[str, Any]]:
    """Surveys with answers, their categories, the messages of devices with the counter stream, and the estimates.

    The tally counts these messages alone, as if the shuffler had drawn no fake.
    """
    found = []
    for name, questions, derived, noise, release in SURVEYS:
        schema = hb.Schema.survey(questions, derived=derived)
        each = [noise] * len(schema.attributes) if isinstance(noise, Noise) else noise
        protocol = hb.Protocol.survey(each, release)  # type: ignore[arg-type]
        plan = hb.plan_from(schema, PEOPLE, protocol, epsilon=3.0)
        asked = dict(schema.questions.asked)
        answers = [{key: _answer(key, place, one.missing) for key, one in asked.items()} for place in range(PEOPLE)]
        entropy, categories, sent = Counter(), [], []
        for one in answers:
            record = device.encode(one, schema, entropy=entropy)
            categories.append(vectors.categories(record, plan))
            sent.append([payload.hex() for payload in device.record_payloads(record, plan, entropy=entropy)])
        counts = vectors.counted(sent, plan)
        found.append(
            {
                "name": name,
                "plan": plan.to_json(),
                "id": plan.id,
                "sizes": [one.size for one in schema.attributes],
                "answers": answers,
                "categories": categories,
                "payloads": sent,
                "counts": counts,
                "estimate": vectors.estimated(counts, PEOPLE, plan),
            }
        )
    return found


def _answer(name: str, place: int, missing: bool) -> Any:
    choices = [one for one in ANSWERS[name] if one is not None or missing]
    return choices[place % len(choices)]


WRITERS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "good": good,
    "bad": bad,
    "ledgers": ledgers,
    "surveys": surveys,
}


if __name__ == "__main__":
    for name, make in WRITERS.items():
        (FOLDER / f"{name}.json").write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
