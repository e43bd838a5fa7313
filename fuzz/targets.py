"""One function per parser: it takes arbitrary bytes, and raises only if the parser misbehaves.

A parser may accept the bytes or raise its documented error; anything else is a bug. Accepted input must round-trip.
Where a signature or digest would reject nearly everything, the target corrects it first.
"""

import contextlib
import functools
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hubbub.documents import Json, canonical, parse
from hubbub.errors import FalseClaim, InvalidInput, PlanMismatch, Problem, SealError, WireError
from hubbub.model.plans import HEADER, Plan
from hubbub.model.protocol import Protocol
from hubbub.model.questions import Text
from hubbub.model.schema import Schema
from hubbub.oprf import Blinded, Key, finalize
from hubbub.pipeline.reports import Reports, legal_payloads
from hubbub.pipeline.rows import legal_rows
from hubbub.planner import plan_from
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.slots import Verdict, judge
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.http import status_of
from hubbub.service.runtime.workers import Workers
from hubbub.service.task import sealing
from hubbub.service.task.admission import Admission, TicketKey, check_ticket
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity, SignedDocument, document_format
from hubbub.service.task.keylist import KeyList, TagKeys
from hubbub.service.task.keys import Keyring
from hubbub.service.task.manifest import batch_id
from hubbub.service.task.strings import EvaluationRequest, StringTerms, read_evaluation, write_evaluation
from hubbub.service.task.tokens import (
    TOKEN_TYPE,
    TokenVerifier,
    encode_token_key,
    load_token_key,
    parse_request,
)
from hubbub.wire import batches, hpke, messages
from hubbub.wire.strings import StringOpener, StringSlots, derive_tag_key
from hubbub.wire.strings import message as string_message

__all__ = ["CORPUS", "TARGETS", "seeds"]

CORPUS = Path(__file__).parent / "corpus"
SECRET = bytes(range(32))
TICKET_KEY = TicketKey(SECRET)
OPERATORS = {"analyzer": Identity(bytes([1] * 32)), "shuffler": Identity(bytes([2] * 32))}


@functools.cache
def _plan() -> Plan:
    return plan_from(Schema.one_hot(9), 100, Protocol(0.1, k=2), delta=1e-6)


@functools.cache
def _contract() -> Contract:
    keys = {role: one.public for role, one in OPERATORS.items()}
    return Contract(
        plan=_plan(),
        min_batch_size=100,
        slots=2,
        epoch=60,
        task_start=0,
        task_end=10,
        suite=1,
        admission=Admission("ticket", "fuzz"),
        analyzer=keys["analyzer"],
        shuffler=keys["shuffler"],
    )


def _batch() -> str:
    """Return the id of the batch of bucket 1."""
    return batch_id(_contract().task, 1)


@functools.cache
def _tokens() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CORPUS.parents[1] / "tests/service/golden/rfc9578.json").read_text())
    return found


@functools.cache
def _public() -> sealing.Public:
    return sealing.load_public(1, sealing.generate(1, entropy=lambda size: SECRET[:size])[1])


@functools.cache
def _analyzer() -> Analyzer:
    folder = Path(tempfile.mkdtemp(prefix="hubbub-fuzz-"))
    clock = MockClock(0.0)
    url, credentials = f"sqlite:{folder / 'analyzer.db'}", Credentials(folder / "credentials", "analyzer")
    store = AnalyzerStore(lambda: open_database(url))
    keyring = Keyring(open_database(url), credentials, clock, lifetime=1e9, grace=1.0)
    context = ServiceContext(keyring=keyring, identity=OPERATORS["analyzer"], clock=clock, workers=Workers(0))
    analyzer = Analyzer(store, context, credentials)
    analyzer.add_contract(SignedContract.sign(_contract(), *OPERATORS.values()).to_json())
    analyzer.advance()
    return analyzer


def fuzz_upload(data: bytes) -> None:
    """The headers of the bundles of an upload."""
    layout = _contract().layout
    try:
        found = sealing.parse_upload(data, layout)
    except SealError as error:
        assert error.reason in sealing.REASONS
        return
    assert b"".join(found) == data
    assert all(bundle.startswith(sealing.bundle_header(layout, sealing.bundle_key(bundle))) for bundle in found)


def fuzz_bundle(data: bytes) -> None:
    """A bundle; only a holder of its key can make one that opens."""
    contract = _contract()
    try:
        found = sealing.open_bundle(data, contract.layout, sealing.load_private(1, SECRET))
    except SealError as error:
        assert error.reason in sealing.REASONS
        return
    assert len(found.admission) == contract.admission.size
    assert len(found.slots) == contract.slots
    assert {len(slot) for slot in found.slots} == {contract.slot_size}


def fuzz_inside(data: bytes) -> None:
    """The plaintext of a bundle, which must be rejected or come out unchanged."""
    layout = _contract().layout
    size = layout.admission + layout.slots * layout.slot_size
    inner = data[:size].ljust(size, b"\0")
    text = sealing.SUITES[1].hpke.encrypt(inner, _public(), sealing.BUNDLE_INFO + layout.task + b"\0\1")
    try:
        found = sealing.open_bundle(sealing.bundle_header(layout, 1) + text, layout, sealing.load_private(1, SECRET))
    except SealError as error:
        assert error.reason == "malformed"
        return
    assert found.admission + b"".join(found.slots) == inner


def fuzz_slot(data: bytes) -> None:
    """The plaintext of a slot, on which both implementations must agree."""
    layout, size = _contract().layout, _contract().plan.payload + 2
    plain = data[:size].ljust(size, b"\0")
    sealed = b"\0\1" + sealing.SUITES[1].hpke.encrypt(plain, _public(), sealing.SLOT_INFO + layout.task + b"\0\1")
    (verdict,) = judge(np.frombuffer(plain, np.uint8).reshape(1, size), _contract().plan)
    try:
        found = sealing.open_slot(sealed, layout, sealing.load_private(1, SECRET))
    except SealError as error:
        assert error.reason.replace("-", "_") == Verdict(verdict).name
        return
    # Every client of this plan has two messages: a filler is rejected.
    assert verdict == (Verdict.missing_report if found is None else Verdict.report)
    assert found in (None, plain[2:])


def fuzz_sealed_slot(data: bytes) -> None:
    """Bytes that claim to be a sealed slot."""
    try:
        sealing.open_slot(data, _contract().layout, sealing.load_private(1, SECRET))
    except SealError as error:
        assert error.reason in sealing.REASONS


def fuzz_plan(data: bytes) -> None:
    """A plan, as it comes and with its id recomputed."""
    _round(data, lambda text: Plan.from_json(text).to_json())
    body = _body(data)
    if isinstance(body, dict) and "id" in body:
        # The id is a digest of the rest; with a correct id, the parser gets further.
        rest = {name: value for name, value in body.items() if name != "id"}
        try:
            good = hashlib.sha256(canonical(rest)).hexdigest()
        except InvalidInput:
            return
        _round(canonical({**rest, "id": good}), lambda text: Plan.from_json(text).to_json())


def fuzz_contract(data: bytes) -> None:
    """A contract."""
    _round(data, lambda text: Contract.from_json(text).to_json())


def fuzz_signed_contract(data: bytes) -> None:
    """A contract with signatures."""
    _round(data, lambda text: SignedContract.from_json(text).to_json())
    with contextlib.suppress(InvalidInput, FalseClaim):
        SignedContract.from_json(data).verify()


def fuzz_signed_document(data: bytes) -> None:
    """Any document with a signature."""
    _round(data, lambda text: SignedDocument.from_json(text).to_json())


def fuzz_key_list(data: bytes) -> None:
    """A key list, signed whatever it contains."""
    text = _signed(data, OPERATORS["analyzer"], "key list")
    try:
        found = KeyList.read(text, OPERATORS["analyzer"].public, "analyzer")
    except (InvalidInput, FalseClaim):
        return
    assert len({key.id for key in found.keys}) == len(found.keys)


def fuzz_tag_keys(data: bytes) -> None:
    """The tag keys of a task, signed whatever they contain."""
    analyzer = OPERATORS["analyzer"]
    try:
        found = TagKeys.read(_signed(data, analyzer, "tag keys"), analyzer.public, bytes(16), "P256-SHA256")
    except (InvalidInput, FalseClaim):
        return
    assert TagKeys.read(found.sign(analyzer), analyzer.public, bytes(16), "P256-SHA256") == found


def fuzz_evaluation_request(data: bytes) -> None:
    """A request for evaluations, without and with admissions."""
    for admission in (0, 32):
        with contextlib.suppress(InvalidInput):
            found = EvaluationRequest.from_bytes(data, "ristretto255-SHA512", admission)
            assert found.to_bytes() == data


def fuzz_evaluation(data: bytes) -> None:
    """The response to a request, whose proof is verified."""
    key, asked = Key.derive("P256-SHA256", SECRET, b""), Blinded("P256-SHA256", b"x", bytes(31) + b"\2")
    with contextlib.suppress(InvalidInput):
        outputs = finalize([asked], read_evaluation(data, "P256-SHA256", 1), key.public)
        assert outputs == [key.output(b"x")]


def fuzz_string_terms(data: bytes) -> None:
    """The terms of strings in a contract."""
    with contextlib.suppress(InvalidInput):
        found = StringTerms.from_document(parse(data, "the terms"))
        assert StringTerms.from_document(found.to_document()) == found


def fuzz_manifest(data: bytes) -> None:
    """A manifest, signed whatever it contains."""
    analyzer = _analyzer()
    try:
        answer = analyzer.put_manifest(_batch(), _signed(data, OPERATORS["shuffler"], "manifest"))
    except Problem as refusal:
        assert status_of(refusal) < 500
        return
    assert answer == list(range(len(answer)))
    arrival = analyzer.store.find(_batch())
    assert arrival is not None
    assert arrival.bundles >= _contract().min_batch_size
    for table in ("batches", "gaps"):
        analyzer.store._writer.run(f"DELETE FROM {table}")


def fuzz_message(data: bytes) -> None:
    """A single message, as it comes and behind a good header."""
    good = messages.encode(b"\1\0", _plan())[:HEADER]
    for text in (data, good + data):
        try:
            payload = messages.decode(text, _plan())
        except (WireError, PlanMismatch):
            continue
        assert messages.encode(payload, _plan()) == text
        rows = np.frombuffer(payload, np.uint8).reshape(1, -1)
        assert legal_payloads(rows, _plan()).all()


def fuzz_batch(data: bytes) -> None:
    """A ``.hub`` file, with and without a correct digest."""
    for text in (data, data + hashlib.sha256(data).digest()):
        try:
            found = batches.decode(text, _plan())
        except (WireError, PlanMismatch):
            continue
        assert batches.encode(found) == text


def fuzz_admission(data: bytes) -> None:
    """The terms of admission in a contract."""
    _round(data, lambda text: canonical(Admission.from_document(parse(text, "the admission")).to_document()))


def fuzz_ticket(data: bytes) -> None:
    """A ticket; only a holder of the key can make one that is accepted."""
    task = _contract().task
    assert check_ticket(TICKET_KEY.mac_key, task, data) == (data == TICKET_KEY.mint(task, "ada"))


def fuzz_token(data: bytes) -> None:
    """A token; the only valid one is that of the vector."""
    vector = _tokens()["vectors"][0]
    verifier = TokenVerifier(bytes.fromhex(_tokens()["pkS"]), bytes.fromhex(vector["token_challenge"]))
    assert verifier.valid(data) == (data.hex() == vector["token"])


def fuzz_token_request(data: bytes) -> None:
    """A request for a token."""
    try:
        name, blinded = parse_request(data)
    except WireError:
        return
    assert TOKEN_TYPE + bytes([name]) + blinded == data


def fuzz_token_key(data: bytes) -> None:
    """An issuer's public key, which has one encoding."""
    try:
        found = load_token_key(data)
    except WireError:
        return
    assert encode_token_key(found) == data


def fuzz_string(data: bytes) -> None:
    """The body of a string, whole or cut, and the rows that hold it."""
    strings = Text(8, cut=True)
    body = data[: strings.size].ljust(strings.size, b"\0")
    row = np.frombuffer(b"\1\0\0\0" + body, np.uint8).reshape(1, -1)
    try:
        found = strings.decode(body)
    except WireError:
        return
    assert legal_rows(row, strings).all()
    text = None if found is None else found[0] + "\U0001d11e" * found[1]
    assert strings.encode(text) == body


def fuzz_string_slot(data: bytes) -> None:
    """Bytes that claim to be the slot of a string, and plaintexts inside one."""
    slots, opener = _strings()
    inside = data[: slots.strings.size + 1].ljust(slots.strings.size + 1, b"\0")
    sealed = b"\0\1" + hpke.seal(inside, slots.public, slots.info, SECRET)
    for slot in (data, sealed):
        with contextlib.suppress(SealError):
            body = opener.open(slot)
            assert body is None or slots.sealed(body, opener.tag_key.output(string_message(body))) == slot


@functools.cache
def _strings() -> tuple[StringSlots, StringOpener]:
    public = X25519PrivateKey.from_private_bytes(SECRET).public_key().public_bytes_raw()
    slots = StringSlots(strings=Text(8), task=bytes(16), key_id=1, public=public)
    return slots, StringOpener(slots, SECRET, derive_tag_key("P256-SHA256", SECRET, slots.task, 1))


TARGETS: dict[str, Callable[[bytes], None]] = {
    name.removeprefix("fuzz_"): one for name, one in sorted(globals().items()) if name.startswith("fuzz_")
}
"""The targets by name; each has a folder of that name in the corpus."""


def seeds() -> dict[str, dict[str, bytes]]:
    """Return the seed corpus: valid inputs for every parser, and near misses."""
    contract, plan, layout = _contract(), _plan(), _contract().layout
    slot = sealing.seal_slot(b"\1\0", layout, 1, _public())
    filler = sealing.seal_slot(None, layout, 1, _public())
    ticket = TICKET_KEY.mint(contract.task, "ada")
    bundle = sealing.seal_bundle([slot, filler], layout, 1, _public(), ticket)
    keys: Json = [
        {"id": 1, "suite": 1, "public": "07" * 32, "state": "expired"},
        {"id": 2, "suite": 2, "public": "09" * 1216, "state": "active"},
    ]
    manifest: dict[str, Json] = {
        "format": document_format("manifest"),
        "batch": _batch(),
        "task": contract.id,
        "bucket": 1,
        "epoch": 1,
        "key_id": 1,
        "key_list": "ab" * 32,
        "bundles": 100,
        "slots": 200,
        "sizes": [200],
        "gaps": [],
    }
    key_list: dict[str, Json] = {"format": document_format("key list"), "role": "analyzer", "keys": keys}
    key_list |= {"issued": 0, "expires": 86_400}
    key, asked = Key.derive("P256-SHA256", SECRET, b""), Blinded("P256-SHA256", b"x", bytes(31) + b"\2")
    tags: dict[str, Json] = {"format": document_format("tag keys"), "task": "00" * 16, "group": "P256-SHA256"}
    tags["keys"] = [{"id": 1, "public": key.public.hex()}]
    request = EvaluationRequest(7, (bytes(32),))
    terms = StringTerms(group="P256-SHA256", relay="relay.example", evaluations=1000)
    whole = SignedContract.sign(contract, *OPERATORS.values())
    other = plan_from(Schema.bits(["a", "b"]), 100, Protocol(0.2, m=100), delta=1e-6)
    reports = Reports(plan, np.array([[1, 0], [2, 0], [0, 1], [4, 1]], np.uint8), 2)
    document = SignedDocument.sign(OPERATORS["shuffler"], "receipt", {"batch": _batch(), "x": [1, 2.5, None, "é"]})
    return {
        "upload": {"one": bundle, "three": bundle * 3, "short": bundle[:-1]},
        "bundle": {"good": bundle, "header": bundle[:24]},
        "inside": {"good": ticket + slot + filler, "two-keys": ticket + slot + b"\0\2" + filler[2:]},
        "slot": {"report": b"\2\1\1\0", "filler": b"\2\0\0\0", "padded": b"\2\1\0\2", "full": b"\2\0\1\0"},
        "sealed_slot": {"report": slot, "filler": filler},
        "plan": {"one-hot": plan.to_json().encode(), "bits": other.to_json().encode()},
        "admission": {
            "open": canonical(Admission().to_document()),
            "ticket": canonical(contract.admission.to_document()),
            "token": canonical(Admission("token", "fuzz", bytes.fromhex(_tokens()["pkS"])).to_document()),
        },
        "ticket": {"good": ticket, "long": ticket + b"\0"},
        "token": {"good": bytes.fromhex(_tokens()["vectors"][0]["token"])},
        "token_request": {"good": bytes.fromhex(_tokens()["vectors"][0]["token_request"])},
        "token_key": {"good": bytes.fromhex(_tokens()["pkS"])},
        "contract": {"good": contract.to_json().encode()},
        "signed_contract": {"both": whole.to_json(), "none": SignedContract(contract, {}).to_json()},
        "signed_document": {"receipt": document.to_json()},
        "tag_keys": {"good": canonical(tags), "empty": canonical({**tags, "keys": []})},
        "evaluation_request": {"one": request.to_bytes(), "no-key": bytes(34), "two": request.to_bytes() + bytes(32)},
        "evaluation": {"good": write_evaluation(key.evaluate([asked.element]))},
        "string_terms": {"good": canonical(terms.to_document())},
        "key_list": {"good": canonical(key_list), "empty": canonical({**key_list, "keys": []})},
        "manifest": {
            "good": canonical({**manifest, "chunks": ["00" * 32]}),
            "digits": canonical({**manifest, "key_id": 10**18, "chunks": ["00" * 32]}),
        },
        "batch": {"good": batches.encode(reports), "open": batches.encode(reports)[:-32]},
        "string": {
            "whole": Text(8).encode("é"),
            "cut": Text(8, cut=True).encode("much longer"),
            "none": bytes(11),
        },
        "string_slot": {"good": _string_slot(), "filler": b"\2" + bytes(11), "bare": b"\2" + Text(8).encode("a")},
        "message": {"good": messages.encode(b"\1\0", plan), "payload": b"\1\0"},
    }


def _string_slot() -> bytes:
    slots, opener = _strings()
    body = slots.strings.encode("crash")
    return slots.sealed(body, opener.tag_key.output(string_message(body)))


def _body(data: bytes) -> Json:
    try:
        return parse(data, "a document")
    except InvalidInput:
        return None


def _signed(data: bytes, who: Identity, kind: str) -> bytes:
    """Return the signed document, or the data unchanged if it is not JSON."""
    try:
        return SignedDocument.sign(who, kind, parse(data, "a document")).to_json()
    except InvalidInput:
        return data


def _round(data: bytes, there_and_back: Callable[[bytes], str | bytes]) -> None:
    """Check that accepted input is written in a form that reads back the same."""
    try:
        text = there_and_back(data)
    except InvalidInput:
        return
    again = text.encode() if isinstance(text, str) else text
    assert there_and_back(again) == text
    assert json.loads(again) is not None
