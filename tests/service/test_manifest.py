"""The documents of the link: signed, numbered, and parsed strictly."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.service.samples import ANALYZER, SHUFFLER

from hubbub.errors import FalseClaim, WireError
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Counter, Gap, KeysInUse, Manifest, Receipt, batch_id, claimed_task, digest

TASK = bytes(range(16))
MANIFEST = Manifest(
    task=TASK, bucket=9, epoch=77, round=2, key_id=3, key_list="ab" * 32, bundles=10, slots=30,
    chunks=("cd" * 32, "ef" * 32), sizes=(20, 10), gaps=(Gap(3, 5, 12, "restored"), Gap(7, 7, 3, "fenced")),
)  # fmt: skip


def test_a_manifest_survives_its_round_trip() -> None:
    document = SignedDocument.from_json(MANIFEST.sign(SHUFFLER))
    assert Manifest.read(document, SHUFFLER.public) == MANIFEST
    assert claimed_task(document) == TASK
    with pytest.raises(FalseClaim):
        Manifest.read(document, ANALYZER.public)


def test_the_id_of_a_batch_is_a_function_of_task_and_bucket() -> None:
    assert MANIFEST.batch == batch_id(TASK, 9)
    assert len({batch_id(task, bucket) for task in (TASK, bytes(16)) for bucket in (1, 2, 256)}) == 6


@pytest.mark.parametrize(
    "changes",
    [{"bucket": 0}, {"bucket": 2**53}, {"epoch": -1}, {"slots": 29}, {"sizes": [30]}, {"sizes": [30, 0]},
     {"sizes": [20.5, 9.5]}, {"sizes": [True, 29]}, {"chunks": ["cd" * 32, "xy"]}, {"key_list": "AB" * 32},
     {"batch": "00" * 16}, {"task": "00" * 15}, {"gaps": None}, {"gaps": [{}]},
     {"gaps": [{"first": 9, "last": 9, "bundles": 0, "reason": "restored"}]},
     {"gaps": [{"first": 2, "last": 1, "bundles": 0, "reason": "restored"}]},
     {"gaps": [{"first": 1, "last": 1, "bundles": -1, "reason": "restored"}]},
     {"gaps": [{"first": 1, "last": 1, "bundles": 0, "reason": "bored"}]}, {"more": 1}],
)  # fmt: skip
def test_malformed_manifests_are_rejected(changes: dict[str, Any]) -> None:
    body = json.loads(MANIFEST.sign(SHUFFLER))["body"] | changes
    with pytest.raises(WireError):
        Manifest.read(SignedDocument.sign(SHUFFLER, "manifest", body), SHUFFLER.public)


def test_receipts_name_bucket_state_and_manifest() -> None:
    text = MANIFEST.sign(SHUFFLER)
    receipt = Receipt(TASK, 9, "withheld", digest(text))
    read = Receipt.read(receipt.sign(ANALYZER), ANALYZER.public, TASK, 9)
    assert read == receipt
    read.check(text)
    with pytest.raises(FalseClaim, match="another manifest"):
        read.check(replace(MANIFEST, epoch=78).sign(SHUFFLER))
    for task, bucket in ((TASK, 8), (bytes(16), 9)):
        with pytest.raises(FalseClaim, match="another batch"):
            Receipt.read(receipt.sign(ANALYZER), ANALYZER.public, task, bucket)
    with pytest.raises(FalseClaim):
        Receipt.read(receipt.sign(SHUFFLER), ANALYZER.public, TASK, 9)
    with pytest.raises(WireError):
        Receipt.read(Receipt(TASK, 9, "lost", digest(text)).sign(ANALYZER), ANALYZER.public, TASK, 9)


def test_counters_and_statements() -> None:
    counter = Counter(TASK, 4)
    assert Counter.read(counter.sign(ANALYZER), ANALYZER.public, TASK) == counter
    with pytest.raises(FalseClaim):
        Counter.read(counter.sign(ANALYZER), ANALYZER.public, bytes(16))
    with pytest.raises(FalseClaim):
        Counter.read(counter.sign(SHUFFLER), ANALYZER.public, TASK)
    for number in (-1, 2**53):
        body = json.loads(counter.sign(ANALYZER))["body"] | {"bucket": number}
        with pytest.raises(WireError, match="in the counter: bucket must be a whole number in"):
            Counter.read(SignedDocument.sign(ANALYZER, "counter", body).to_json(), ANALYZER.public, TASK)
    statement = KeysInUse(TASK, 12, (1, 3))
    document = SignedDocument.from_json(statement.sign(SHUFFLER))
    assert KeysInUse.read(document, SHUFFLER.public) == statement
    with pytest.raises(FalseClaim):
        KeysInUse.read(document, ANALYZER.public)
    body = json.loads(statement.sign(SHUFFLER))["body"] | {"keys": ["1"]}
    with pytest.raises(WireError):
        KeysInUse.read(SignedDocument.sign(SHUFFLER, "keys in use", body), SHUFFLER.public)


def test_no_document_passes_for_another_kind() -> None:
    counter = SignedDocument.from_json(Counter(TASK, 4).sign(SHUFFLER))
    with pytest.raises(FalseClaim):
        KeysInUse.read(counter, SHUFFLER.public)


def test_every_digit_of_the_digest_in_a_receipt_counts() -> None:
    document = MANIFEST.sign(SHUFFLER)
    right = digest(document)
    Receipt(TASK, 9, "committed", right).check(document)
    for place, digit in enumerate(right):
        wrong = right[:place] + ("0" if digit != "0" else "1") + right[place + 1 :]
        with pytest.raises(FalseClaim, match="another manifest"):
            Receipt(TASK, 9, "committed", wrong).check(document)


def test_smallest_and_largest_numbers_are_read() -> None:
    """A counter before the first bucket, and a chunk of one slot."""
    for number in (0, 1, 2**53 - 1):
        assert Counter.read(Counter(TASK, number).sign(ANALYZER), ANALYZER.public, TASK).bucket == number
    small = replace(MANIFEST, sizes=(29, 1))
    assert Manifest.read(SignedDocument.from_json(small.sign(SHUFFLER)), SHUFFLER.public) == small
    with pytest.raises(WireError):
        replace(MANIFEST, sizes=(30, 0))
