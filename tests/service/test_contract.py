"""Contracts: one canonical text, one task, two signatures; every change is detected."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.samples import ANALYZER, SERVABLE, SHUFFLER, claimed, contract, of_point, simple

import hubbub as hb
from hubbub.errors import FalseClaim, InvalidInput, TooLarge, WireError
from hubbub.service.task import contract as module
from hubbub.service.task.contract import Contract, SignedContract, load_contract
from hubbub.service.task.identity import Identity

PLAN = hb.plan_from(hb.Schema.bits(["a", "b", "c"]), 400, hb.Protocol(0.25, 3), epsilon=3.0)
OWN = contract(PLAN)
SIGNED = SignedContract.sign(OWN, ANALYZER, SHUFFLER)
TEXT = SIGNED.to_json()


def altered(path: str, value: object) -> bytes:
    """Return the signed contract with one value replaced."""
    document: Any = json.loads(TEXT)
    *way, last = path.split("/")
    place = document
    for key in way:
        place = place[key]
    place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(("kind", "name"), SERVABLE)
def test_contracts_round_trip(kind: str, name: str) -> None:
    own = of_point(kind, name)
    again = Contract.from_json(own.to_json())
    assert (again, again.task, again.layout, again.to_json()) == (own, own.task, own.layout, own.to_json())
    signed = SignedContract.sign(own, ANALYZER, SHUFFLER)
    read = SignedContract.from_json(signed.to_json())
    assert (read, read.verify()) == (signed, own)


def test_loading_verifies_and_returns_the_contract() -> None:
    loaded = load_contract(TEXT)
    assert loaded == SIGNED
    assert loaded.contract.id == OWN.task.hex()
    spaced = json.dumps(json.loads(TEXT), indent=3, sort_keys=False)
    assert load_contract(spaced).contract.task == OWN.task


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("min_batch_size", 401), ("min_batch_size", 10_000), ("epoch", 60), ("task_start", 0), ("task_end", 400_001),
        ("suite", 2), ("analyzer", "00" * 32), ("shuffler", "00" * 32), ("plan/honest_fraction", 0.5),
    ],
)  # fmt: skip
def test_every_term_is_signed(term: str, value: object) -> None:
    """Changing a term changes the task, so the signatures are no longer valid."""
    if term == "plan/honest_fraction":
        document = json.loads(TEXT)["contract"]
        document["plan"]["honest_fraction"] = value
        with pytest.raises(WireError, match="digest"):
            Contract.from_json(json.dumps(document))
        return
    text = altered(f"contract/{term}", value)
    assert SignedContract.from_json(text).contract.task != OWN.task
    with pytest.raises(FalseClaim, match="not signed by its operator"):
        load_contract(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("contract/format", "hubbub contract 1"), ("contract/min_batch_size", 399), ("contract/min_batch_size", 400.0),
        ("contract/min_batch_size", True), ("contract/min_batch_size", 10**11), ("contract/slots", 2),
        ("contract/slots", 4), ("contract/slots", 0), ("contract/epoch", 0), ("contract/epoch", -5),
        ("contract/task_start", -1), ("contract/task_end", 400_000), ("contract/task_end", 2**60),
        ("contract/suite", 0), ("contract/suite", 3),
        ("contract/analyzer", "00"), ("contract/analyzer", "zz" * 32), ("contract/analyzer", "AA" * 32),
        ("contract/analyzer", SHUFFLER.public.hex()), ("contract/plan", {}), ("contract/plan", None),
        ("contract/more", 1), ("signatures/other", "00" * 64), ("signatures/analyzer", "00" * 63),
        ("signatures/analyzer", 5), ("signatures", []), ("contract", 7), ("more", 1),
    ],
)  # fmt: skip
def test_invalid_values_raise_wire_errors(path: str, value: object) -> None:
    with pytest.raises(WireError):
        SignedContract.from_json(altered(path, value))


@given(st.data())
def test_damaged_texts_raise_only_documented_errors(data: st.DataObject) -> None:
    """With any byte replaced, the text is rejected or spells the same contract."""
    place, byte = data.draw(st.integers(0, len(TEXT) - 1)), data.draw(st.integers(0, 255))
    text = TEXT[:place] + bytes([byte]) + TEXT[place + 1 :]
    try:
        assert SignedContract.from_json(text).verify() == OWN
    except (WireError, FalseClaim):
        assert text != TEXT


@pytest.mark.parametrize(
    "text", [b"", b"null", b"{", b"[" * 100_000, b"\xff", b'{"contract":' * 900, b'"' + b"a" * 100]
)
def test_texts_that_are_not_contracts(text: bytes) -> None:
    with pytest.raises(WireError):
        load_contract(text)


def test_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONTRACT_SIZE", len(TEXT) - 1)
    with pytest.raises(TooLarge):
        load_contract(TEXT)


def test_both_operators_must_sign() -> None:
    half = SignedContract.sign(OWN, ANALYZER)
    with pytest.raises(FalseClaim, match="shuffler"):
        load_contract(half.to_json())
    assert load_contract(SignedContract.from_json(half.to_json()).countersign(SHUFFLER).to_json()) == SIGNED
    swapped = SignedContract(
        OWN, {"analyzer": SIGNED.signatures["shuffler"], "shuffler": SIGNED.signatures["analyzer"]}
    )
    with pytest.raises(FalseClaim):
        load_contract(swapped.to_json())
    with pytest.raises(InvalidInput, match="operators"):
        SignedContract.sign(OWN, Identity.generate())
    with pytest.raises(InvalidInput):
        SignedContract(OWN, {"client": bytes(64)})


def test_signatures_of_another_kind_are_invalid() -> None:
    body = OWN.to_json().encode()
    forged = SignedContract(OWN, {"analyzer": ANALYZER.sign("keys", body), "shuffler": SHUFFLER.sign("contract", body)})
    with pytest.raises(FalseClaim):
        forged.verify()


def test_batches_below_the_minimum_are_for_tests_only() -> None:
    small = contract(hb.plan_from(hb.Schema.bits(1), 5, hb.Protocol(0.4), delta=0.1))
    text = SignedContract.sign(small, ANALYZER, SHUFFLER).to_json()
    with pytest.raises(InvalidInput, match="min_batch_size must be a whole number of at least 100"):
        load_contract(text)
    assert load_contract(text, min_batch_size=1).contract == small


def test_false_guarantees_are_rejected_even_if_signed() -> None:
    dishonest = contract(claimed(PLAN.schema, PLAN.protocol, 400, epsilon=0.01, delta=1e-9))
    with pytest.raises(FalseClaim, match="claims"):
        load_contract(SignedContract.sign(dishonest, ANALYZER, SHUFFLER).to_json())


def test_the_operators_must_differ() -> None:
    with pytest.raises(InvalidInput, match="different operators"):
        contract(PLAN, analyzer=SHUFFLER.public)


def test_bundles_are_limited_to_the_size_of_an_upload() -> None:
    wide = claimed(hb.Schema.bits(2000), hb.Protocol(0.2, 4000))
    with pytest.raises(TooLarge, match="bundle"):
        contract(wide)


@given(st.floats(-1e9, 4e9))
def test_time_is_counted_in_epochs(time: float) -> None:
    own = simple()
    epoch = own.epoch_at(time)
    assert epoch * own.epoch <= time < (epoch + 1) * own.epoch
    assert own.accepts_at(time) == (400_000 * 3600 <= time < 500_000 * 3600)


@pytest.mark.parametrize(
    "term", ["plan", "min_batch_size", "slots", "epoch", "task_start", "task_end", "suite", "analyzer", "shuffler"]
)
@pytest.mark.parametrize("value", ["text", 1.5, None])
def test_wrong_types_are_rejected(term: str, value: object) -> None:
    terms = {name: getattr(OWN, name) for name in OWN.__dataclass_fields__ if name not in ("task", "layout")}
    assert Contract(**terms) == OWN
    with pytest.raises(InvalidInput):
        Contract(**{**terms, term: value})


def test_devices_need_no_numpy() -> None:
    """A device reads contracts and key lists and seals bundles with only the standard library and ``cryptography``."""
    task = "hubbub.service.task"
    modules = f"hubbub.pipeline.device, {task}.contract, {task}.keys, {task}.sealing"
    script = f"import sys, {modules}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_single_collection_has_one_round() -> None:
    terms = simple()
    assert dict(terms.contexts) == {terms.task: 1}
