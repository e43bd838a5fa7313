"""The wire against golden files, valid and invalid; the writer reproduces their bytes."""

import json
from dataclasses import replace

import pytest
from tests.service.admissions import TICKET_KEY
from tests.service.golden import write
from tests.service.samples import ANALYZER, SHUFFLER, pair

from hubbub.errors import FalseClaim, SealError
from hubbub.service.task.contract import load_contract
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.sealing import bundle_key, open_bundle, open_slot, parse_upload, replay_id, slot_id, slot_key

GOLDEN = json.loads(write.FILE.read_text())
SIGNED = load_contract(json.dumps(GOLDEN["contract"]))
LAYOUT = SIGNED.contract.layout
SLOTS = [bytes.fromhex(slot["hex"]) for slot in GOLDEN["slots"]]
BUNDLE = bytes.fromhex(GOLDEN["bundle"]["hex"])


def test_the_contract_has_the_golden_task_and_bytes() -> None:
    assert SIGNED.contract.id == GOLDEN["task"]
    assert json.loads(SIGNED.to_json()) == GOLDEN["contract"]


def test_the_writer_reproduces_the_files() -> None:
    assert write.good(LAYOUT.task) == (SLOTS, BUNDLE)
    assert write.bad(LAYOUT.task) == GOLDEN["bad"]
    assert write.documents(LAYOUT.task) == GOLDEN["documents"]
    assert {role: pair(1, role).secret.hex() for role in ("analyzer", "shuffler")} == GOLDEN["secrets"]


def test_valid_bytes_open() -> None:
    assert parse_upload(BUNDLE, LAYOUT) == [BUNDLE]
    assert bundle_key(BUNDLE) == write.SHUFFLER_KEY
    assert replay_id(BUNDLE, LAYOUT).hex() == GOLDEN["bundle"]["replay"]
    content = open_bundle(BUNDLE, LAYOUT, pair(1, "shuffler").private)
    assert content.slots == SLOTS
    assert content.admission == TICKET_KEY.mint(LAYOUT.task, "bundle")
    assert [slot_key(slot) for slot in SLOTS] == [write.ANALYZER_KEY] * 3
    assert [slot_id(slot).hex() for slot in SLOTS] == [slot["id"] for slot in GOLDEN["slots"]]
    opened = [open_slot(slot, LAYOUT, pair(1, "analyzer").private) for slot in SLOTS]
    assert [payload and payload.hex() for payload in opened] == GOLDEN["payloads"]


def test_suite_2_opens() -> None:
    two = GOLDEN["suite 2"]
    layout = replace(LAYOUT, task=bytes.fromhex(two["task"]), suite=2)
    bundle = bytes.fromhex(two["bundle"])
    assert replay_id(bundle, layout).hex() == two["replay"]
    slots = open_bundle(bundle, layout, pair(2, "shuffler").private).slots
    assert [open_slot(slot, layout, pair(2, "analyzer").private) for slot in slots] == write.REPORTS


@pytest.mark.parametrize("case", GOLDEN["bad"], ids=lambda case: case["name"])
def test_invalid_bytes_are_rejected(case: dict[str, str]) -> None:
    data = bytes.fromhex(case["hex"])
    with pytest.raises(SealError) as caught:
        if case["what"] == "slot":
            open_slot(data, LAYOUT, pair(1, "analyzer").private)
        else:
            open_bundle(data, LAYOUT, pair(1, "shuffler").private)
    assert caught.value.reason == case["reason"]


@pytest.mark.parametrize(("kind", "signer"), [("manifest", SHUFFLER), ("receipt", ANALYZER)])
def test_documents_are_signed_for_their_kind_only(kind: str, signer: Identity) -> None:
    document = SignedDocument.from_json(json.dumps(GOLDEN["documents"][kind]))
    assert document.verify(signer.public, kind) == GOLDEN["documents"][kind]["body"]
    for public, other in ((signer.public, "key list"), (bytes(32), kind), (b"", kind)):
        with pytest.raises(FalseClaim):
            document.verify(public, other)
