"""Vectors of signed contracts that a client must accept or refuse."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.vectors.common import (
    ANALYZER,
    BY_TICKET,
    NOW,
    SHUFFLER,
    STRANGER,
    Edit,
    Json,
    Vector,
    at,
    error_of,
    fakes_plan,
    identified,
    small_plan,
    split_plan,
    without,
)

import hubbub as hb
from hubbub.accountant.overflow import min_slots
from hubbub.documents import canonical
from hubbub.errors import check_whole
from hubbub.model.plans import Plan
from hubbub.service.task import tokens
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract, Series, SignedContract

RFC_9578 = Path(__file__).parent.parent / "service" / "golden" / "rfc9578.json"


def token_key() -> rsa.RSAPrivateKey:
    """Return the private key of RFC 9578, appendix A.2."""
    pem = bytes.fromhex(json.loads(RFC_9578.read_text())["skS"])
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def contract_of(plan: Plan, **terms: Any) -> Contract:
    """Return a contract between the two fixed identities."""
    given: dict[str, Any] = {
        "min_batch_size": max(plan.n, 110),
        "slots": 1,
        "epoch": 3600,
        "task_start": NOW // 3600,
        "task_end": NOW // 3600 + 24,
        "suite": 1,
        "admission": BY_TICKET,
        "analyzer": ANALYZER.public,
        "shuffler": SHUFFLER.public,
    }
    return Contract(plan=plan, **{**given, **terms})


def signed_text(document: Json) -> str:
    """Return a contract with valid signatures of both operators, whatever its content."""
    body = canonical(document)
    both: Json = {"analyzer": ANALYZER.sign("contract", body).hex(), "shuffler": SHUFFLER.sign("contract", body).hex()}
    return canonical({"contract": document, "signatures": both}).decode()


def replanned(edit: Edit) -> Edit:
    """Return an edit of a contract's plan, whose id follows."""

    def change(document: Json) -> Json:
        document["plan"] = json.loads(identified(edit(document["plan"])))
        return document

    return change


def contracts() -> list[Vector]:
    """Signed contracts that a client must accept or refuse; clients refuse batches of fewer than 100 people."""
    key = tokens.encode_token_key(token_key().public_key())
    by_token = Admission("token", "issuer.example:8600", key)
    plan, split, fakes = small_plan(), split_plan(), fakes_plan()
    half = replace(plan, honest_fraction=0.5)
    series = Series(4, 6, hb.Budget(10.0, 1e-6))
    good: list[tuple[str, Contract]] = [
        ("by ticket", contract_of(plan)),
        ("open", contract_of(half, admission=Admission())),
        ("by token", contract_of(plan, admission=by_token)),
        ("a series", contract_of(plan, series=series)),
        ("suite 2", contract_of(plan, suite=2)),
        ("split bits", contract_of(split, slots=min_slots(split))),
        ("split bits with one slot more", contract_of(split, slots=min_slots(split) + 1)),
        ("Poisson fakes", contract_of(fakes, slots=min_slots(fakes))),
        ("with export", contract_of(plan, export=True)),
    ]
    found: list[Vector] = [
        {"why": why, "contract": signed_text(one.to_document()), "id": one.id, "error": None} for why, one in good
    ]
    documents = {why: one.to_document() for why, one in good}
    ticket = {"issuer": "accounts.example", "kind": "ticket"}
    names = [{"issuer": name} for name in ("Accounts", "", "a" * 201)]
    admissions: list[Json] = [
        *({"kind": "ticket"}, {**ticket, "key": ""}, {**ticket, "kind": "cookie"}, None, []),
        *({**ticket, **name} for name in names),
    ]
    unspoken: list[Json] = [False, None, 1, "true", []]
    edits: list[tuple[str, str, Edit]] = [
        ("by ticket", "format 1", at("format", "hubbub contract 1")),
        ("by ticket", "one key more", at("more", 1)),
        *[("by ticket", f"without {name}", without(name)) for name in ("series", "admission", "slots", "analyzer")],
        *[("by ticket", f"export = {value}", at("export", value)) for value in unspoken],
        ("with export", "one key more than export", at("more", 1)),
        ("with export", "export instead of series", without("series")),
        ("by ticket", "fewer people than the plan needs", at("min_batch_size", 99)),
        *[("by ticket", f"slots = {value}", at("slots", value)) for value in (0, 2, 2**16 + 1, 1.0)],
        *[("by ticket", f"epoch = {value}", at("epoch", value)) for value in (0, 10**9 + 1, "3600")],
        *[("by ticket", f"task_start = {value}", at("task_start", value)) for value in (-1, 2**40 + 1)],
        ("by ticket", "an end before the start", at("task_end", NOW // 3600)),
        *[("by ticket", f"suite {value}", at("suite", value)) for value in (0, 3, "1")],
        ("by ticket", "one operator in both roles", at("analyzer", SHUFFLER.public.hex())),
        ("by ticket", "an identity in capitals", at("analyzer", ANALYZER.public.hex().upper())),
        ("by ticket", "a short identity", at("analyzer", ANALYZER.public.hex()[2:])),
        ("by ticket", "open admission for a plan that needs others", at("admission", {"kind": "open"})),
        *[("by ticket", f"admission {value}", at("admission", value)) for value in admissions],
        ("open", "open with an issuer", at("admission", {"kind": "open", "issuer": "a"})),
        *[
            ("by token", f"token key {why}", at("admission.key", value))
            for why, value in (
                ("in capitals", key.hex().upper()),
                ("one byte short", key.hex()[:-2]),
                ("with the exponent 3", key.hex()[:-6] + "000003"),
                ("with an even modulus", key.hex()[:-12] + "00" + key.hex()[-10:]),
                ("with 2047 bits", key.hex()[:162] + "7f" + key.hex()[164:]),
                ("for SHA-256", key.hex().replace("0202a2", "0201a2", 1)),
                ("of another algorithm", key.hex().replace("2a864886f70d01010a", "2a864886f70d010101", 1)),
            )
        ],
        ("by token", "a series by token", lambda one: {**one, "series": documents["a series"]["series"]}),
        *[("a series", f"rounds = {value}", at("series.rounds", value)) for value in (0, 3, 5, 10_001)],
        *[("a series", f"round_epochs = {value}", at("series.round_epochs", value)) for value in (0, 5, 6.0)],
        *[("a series", f"ε of the total = {value}", at("series.total.epsilon", value)) for value in ("inf", -1, 0)],
        *[("a series", f"δ of the total = {value}", at("series.total.delta", value)) for value in (1, 0, -0.5)],
        ("a series", "a series is a list", at("series", [])),
        ("split bits", "too few slots", at("slots", min_slots(split) - 1)),
        ("split bits", "more slots than messages", at("slots", 21)),
        ("Poisson fakes", "too few slots among fakes", at("slots", min_slots(fakes) - 1)),
        ("Poisson fakes", "a bundle that is too large", at("slots", 2**16)),
        ("by ticket", "a plan with another id", at("plan.id", "0" * 64)),
        ("by ticket", "a plan that sends clear records", replanned(at("protocol.noise.0.flip", 0))),
        ("by ticket", "fakes that cannot be divided", replanned(at("protocol.noise.0.m", 150))),
        (
            "by ticket",
            "split bits among the shuffler's fakes",
            replanned(
                at(
                    "protocol",
                    {
                        "noise": [{"flip": 1, "m": {"distribution": "laplace", "scale": 2, "shift": 25}}],
                        "k": 1,
                        "release": "bits",
                    },
                )
            ),
        ),
    ]
    found += [_contract(why, signed_text(edit(copy.deepcopy(documents[base])))) for base, why, edit in edits]
    document = documents["by ticket"]
    body, text = canonical(document), signed_text(document)
    stranger = STRANGER.sign("contract", body).hex()
    right = json.loads(text)["signatures"]
    other_kind = ANALYZER.sign("receipt", body).hex()
    signatures: list[tuple[str, Json]] = [
        ("no signatures", {}),
        ("only the analyzer's signature", {"analyzer": right["analyzer"]}),
        ("only the shuffler's signature", {"shuffler": right["shuffler"]}),
        ("swapped signatures", {"analyzer": right["shuffler"], "shuffler": right["analyzer"]}),
        ("a stranger's signature", {**right, "analyzer": stranger}),
        ("a signature of another kind of document", {**right, "analyzer": other_kind}),
        ("a third signature", {**right, "issuer": stranger}),
        ("a short signature", {**right, "analyzer": right["analyzer"][2:]}),
        ("a signature in capitals", {**right, "analyzer": right["analyzer"].upper()}),
        ("signatures as a list", [right["analyzer"], right["shuffler"]]),
    ]
    found += [_contract(why, canonical({"contract": document, "signatures": one}).decode()) for why, one in signatures]
    changed = {**json.loads(text), "contract": {**document, "min_batch_size": 111}}
    small = contract_of(replace(plan, n=50, guarantee=replace(plan.guarantee, n=50)), min_batch_size=99)
    found += [
        _contract("changed after it was signed", canonical(changed).decode()),
        _contract("a crowd of 99", signed_text(small.to_document())),
        _contract("a duplicate key", text.replace('"epoch":3600,', '"epoch":3600,"epoch":3600,', 1)),
        _contract("spaces and another order of keys", json.dumps(dict(reversed(json.loads(text).items())), indent=1)),
        _contract("a contract without signatures", canonical(document).decode()),
    ]
    return found


def read_as_device(text: str, min_batch_size: int = 100) -> Contract:
    """Read a contract with the checks of :func:`load_contract` that do not recompute the guarantee."""
    contract = SignedContract.from_json(text).verify()
    check_whole("min_batch_size", contract.min_batch_size, min_batch_size)
    return contract


def _contract(why: str, text: str) -> Vector:
    error = error_of(read_as_device, text)
    return {"why": why, "contract": text, "id": None if error else read_as_device(text).id, "error": error}
