"""Write the golden files of the wire: ``python -m tests.service.golden.write``, only when a version changes.

The reference implementation seals suite 1 with fixed ephemeral keys, so these bytes are reproducible. The library
accepts no fixed randomness for suite 2, so those bytes differ in every run.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.service import reference
from tests.service.admissions import TICKET_KEY
from tests.service.samples import ANALYZER, SHUFFLER, contract, pair

import hubbub as hb
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.manifest import Counter, Gap, KeysInUse, Manifest, Receipt, digest
from hubbub.service.task.sealing import replay_id, seal_bundle, seal_slot, slot_id

FILE = Path(__file__).parent / "wire3.json"
ANALYZER_KEY, SHUFFLER_KEY = 0x0102, 0x0304
REPORTS: list[bytes | None] = [bytes([0b101]), None, bytes([0b111])]


def sealed(name: str, to: str, plain: bytes, info: bytes) -> bytes:
    """Seal with suite 1 and the ephemeral key of this name."""
    return reference.seal(hashlib.sha256(name.encode()).digest(), pair(1, to).bytes, plain, info)


def slot(name: str, plain: bytes, task: bytes, key: int = ANALYZER_KEY) -> bytes:
    number = key.to_bytes(2, "big")
    return number + sealed(name, "analyzer", plain, b"hubbub/2 slot" + task + number)


def bundle(name: str, slots: list[bytes], task: bytes, *, bound: bytes | None = None, key: int = SHUFFLER_KEY) -> bytes:
    """Seal a bundle; ``bound`` is the task in ``info`` if it differs from the task in the header."""
    number = key.to_bytes(2, "big")
    inner = TICKET_KEY.mint(task, name) + b"".join(slots)
    body = sealed(name, "shuffler", inner, b"hubbub/3 bundle" + (bound or task) + number)
    return b"HBB3\x01\0" + number + task + body


def older(slots: list[bytes], task: bytes) -> bytes:
    """Seal a bundle of version 2 under the magic of version 3."""
    number = SHUFFLER_KEY.to_bytes(2, "big")
    inner = TICKET_KEY.mint(task, "older") + b"".join(slots)
    return b"HBB3\x01\0" + number + task + sealed("older", "shuffler", inner, b"hubbub/2 bundle" + task + number)


def good(task: bytes) -> tuple[list[bytes], bytes]:
    """Return the slots of :data:`REPORTS` and their bundle."""
    plain = [b"\x02\0\0" if report is None else b"\x02\x01" + report for report in REPORTS]
    slots = [slot(f"slot {i}", one, task) for i, one in enumerate(plain)]
    return slots, bundle("bundle", slots, task)


def bad(task: bytes) -> list[dict[str, str]]:
    """Return slots and bundles that are rejected, and the reasons."""
    slots, whole = good(task)
    other = bytes(16)
    tampered = bytearray(whole)
    tampered[-1] ^= 1
    cases = {
        "slot of version 1": ("slot", slot("a", b"\x01\x01\x05", task), "bad-version"),
        "slot of kind 2": ("slot", slot("b", b"\x02\x02\x05", task), "bad-kind"),
        "filler with a payload": ("slot", slot("c", b"\x02\0\x01", task), "bad-padding"),
        "record with a padding bit": ("slot", slot("d", b"\x02\x01\x08", task), "bad-padding"),
        "slot of another task": ("slot", slot("e", b"\x02\x01\x05", other), "cannot-open"),
        "slot under another key id": ("slot", b"\x01\x03" + slots[0][2:], "cannot-open"),
        "slot for the shuffler": (
            "slot",
            slots[0][:2] + sealed("f", "shuffler", b"\x02\x01\x05", b"hubbub/2 slot" + task + slots[0][:2]),
            "cannot-open",
        ),
        "slot sealed as a bundle": (
            "slot",
            slots[0][:2] + sealed("g", "analyzer", b"\x02\x01\x05", b"hubbub/3 bundle" + task + slots[0][:2]),
            "cannot-open",
        ),
        "slot with a zero key share": ("slot", slots[0][:2] + bytes(32) + slots[0][34:], "cannot-open"),
        "slot one byte short": ("slot", slots[0][:-1], "wrong-length"),
        "slot one byte long": ("slot", slots[0] + b"\0", "wrong-length"),
        "empty slot": ("slot", b"", "wrong-length"),
        "bundle with another magic": ("bundle", b"HBC3" + whole[4:], "malformed"),
        "bundle that starts like a message": ("bundle", b"HB\x02\x01" + whole[4:], "malformed"),
        "bundle of version 2": ("bundle", b"HBB2" + whole[4:], "bad-version"),
        "bundle of version 2 with a new magic": ("bundle", older(slots, task), "cannot-open"),
        "bundle of suite 2": ("bundle", whole[:4] + b"\x02" + whole[5:], "cannot-open"),
        "bundle under another key id": ("bundle", whole[:6] + b"\x03\x05" + whole[8:], "cannot-open"),
        "bundle with reserved bits": ("bundle", whole[:5] + b"\x01" + whole[6:], "malformed"),
        "bundle with another task in its header": ("bundle", whole[:8] + other + whole[24:], "cannot-open"),
        "bundle bound to another task": ("bundle", bundle("h", slots, task, bound=other), "cannot-open"),
        "bundle with a wrong tag": ("bundle", bytes(tampered), "cannot-open"),
        "bundle with slots of two keys": (
            "bundle",
            bundle("i", [*slots[:2], slot("j", b"\x02\x01\x05", task, 9)], task),
            "malformed",
        ),
        "bundle of two slots": ("bundle", bundle("k", slots[:2], task), "wrong-length"),
        "bundle of four slots": ("bundle", bundle("l", [*slots, slots[0]], task), "wrong-length"),
        "empty bundle": ("bundle", b"", "wrong-length"),
    }
    return [
        {"name": name, "what": what, "hex": data.hex(), "reason": reason}
        for name, (what, data, reason) in cases.items()
    ]


def documents(task: bytes) -> dict[str, Any]:
    """Return signed documents by kind."""
    manifest = Manifest(
        task=task,
        bucket=7,
        epoch=1_000_000,
        round=1,
        key_id=1,
        key_list="cd" * 32,
        bundles=400,
        slots=1200,
        chunks=("ab" * 32, "ef" * 32),
        sizes=(1000, 200),
        gaps=(Gap(3, 4, 25, "restored"),),
    )
    signed = manifest.sign(SHUFFLER)
    receipt = Receipt(task, 7, "committed", digest(signed))
    return {
        "manifest": json.loads(signed),
        "receipt": json.loads(receipt.sign(ANALYZER)),
        "counter": json.loads(Counter(task, 7).sign(ANALYZER)),
        "keys in use": json.loads(KeysInUse(task, 12, (1, 2)).sign(SHUFFLER)),
    }


def suite_two(own: Contract) -> dict[str, Any]:
    keys = pair(2, "analyzer"), pair(2, "shuffler")
    slots = [seal_slot(report, own.layout, ANALYZER_KEY, keys[0].public) for report in REPORTS]
    whole = seal_bundle(slots, own.layout, SHUFFLER_KEY, keys[1].public, TICKET_KEY.mint(own.task, "bundle"))
    return {"task": own.id, "bundle": whole.hex(), "replay": replay_id(whole, own.layout).hex()}


def main() -> None:
    plan = hb.plan_from(hb.Schema.bits(["a", "b", "c"]), 400, hb.Protocol(0.25, 3), epsilon=3.0)
    own = contract(plan)
    slots, whole = good(own.task)
    content = {
        "contract": json.loads(SignedContract.sign(own, ANALYZER, SHUFFLER).to_json()),
        "task": own.id,
        "secrets": {role: pair(1, role).secret.hex() for role in ("analyzer", "shuffler")},
        "payloads": [report and report.hex() for report in REPORTS],
        "slots": [{"hex": one.hex(), "id": slot_id(one).hex()} for one in slots],
        "bundle": {"hex": whole.hex(), "replay": replay_id(whole, own.layout).hex()},
        "bad": bad(own.task),
        "documents": documents(own.task),
        "suite 2": suite_two(contract(plan, suite=2)),
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
