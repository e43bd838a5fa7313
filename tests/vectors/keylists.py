"""Vectors of key documents that a client must accept or refuse."""

import hashlib
import json
from typing import Any

from tests.vectors.common import ANALYZER, NOW, SHUFFLER, STRANGER, Json, Vector, error_of, small_plan
from tests.vectors.contracts import contract_of

from hubbub.documents import canonical
from hubbub.service.task import sealing
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.keylist import KeyList, PublicKey
from hubbub.service.uploader import Uploader


def public_key(suite: int, number: int, state: Any = "active") -> PublicKey:
    """Return a key with an id; its private part follows from the id."""
    seed = hashlib.sha256(b"hubbub vectors" + bytes([suite, number])).digest()
    return PublicKey(number, suite, sealing.generate(suite, entropy=lambda size: seed[:size])[1], state)


def key_document(
    analyzer: Json = None,
    shuffler: Json = None,
    used: Json = 1,
    *,
    signers: tuple[Identity, Identity] = (ANALYZER, SHUFFLER),
) -> Json:
    """Return a key document of these two lists, by default with one active key each."""
    one = analyzer or key_list("analyzer", public_key(1, 1))
    two = shuffler or key_list("shuffler", public_key(1, 7))
    lists = [
        json.loads(SignedDocument.sign(signer, "key list", body).to_json())
        for signer, body in zip(signers, (one, two), strict=True)
    ]
    return {"analyzer": lists[0], "shuffler": lists[1], "analyzer_key_id": used}


def key_list(role: str, *keys: PublicKey, issued: int = NOW, expires: int = NOW + 86_400) -> Json:
    """Return the body of a key list."""
    return KeyList(role, issued, expires, keys).to_document()


def keylists() -> list[Vector]:
    """Key documents that a client must accept or refuse at the time ``now`` for the contract 'by ticket'."""
    body, other = key_list("analyzer", public_key(1, 1)), key_list("shuffler", public_key(1, 7))
    two = public_key(2, 9)
    day = 86_400
    documents: list[tuple[str, Json]] = [
        ("one key each", key_document()),
        (
            "several keys",
            key_document(
                key_list("analyzer", public_key(1, 3, "expired"), public_key(1, 4), public_key(1, 5, "pending")),
                key_list("shuffler", public_key(1, 6, "pending"), public_key(1, 8), two),
                4,
            ),
        ),
        (
            "an analyzer key that is not active",
            key_document(key_list("analyzer", public_key(1, 3, "expired"), public_key(1, 4)), used=3),
        ),
        ("a key id that is not in the list", key_document(used=2)),
        ("a key id that is a string", key_document(used="1")),
        ("a key of another suite", key_document(key_list("analyzer", two), used=9)),
        ("no active key of the shuffler", key_document(shuffler=key_list("shuffler", public_key(1, 7, "pending")))),
        ("an active key of another suite only", key_document(shuffler=key_list("shuffler", two))),
        ("no keys", key_document({**body, "keys": []})),
        ("lists of swapped roles", key_document(key_list("shuffler", public_key(1, 1)))),
        ("signed by a stranger", key_document(signers=(STRANGER, SHUFFLER))),
        ("signed by the other operator", key_document(signers=(SHUFFLER, SHUFFLER))),
        ("format 1", key_document({**body, "format": "hubbub key list 1"})),
        ("a list with one key more", key_document({**body, "more": 1})),
        ("a key with one entry more", key_document({**body, "keys": [{**body["keys"][0], "more": 1}]})),
        ("equal ids", key_document({**body, "keys": body["keys"] * 2})),
        (
            "two active keys",
            key_document(shuffler={**other, "keys": [*other["keys"], {**other["keys"][0], "id": 8}]}),
        ),
        ("suite 3", key_document({**body, "keys": [{**body["keys"][0], "suite": 3}]})),
        ("key id 65536", key_document({**body, "keys": [{**body["keys"][0], "id": 65536}]}, used=65536)),
        ("a short key", key_document({**body, "keys": [{**body["keys"][0], "public": "00" * 31}]})),
        ("an unknown state", key_document({**body, "keys": [{**body["keys"][0], "state": "old"}]})),
        ("expires before it is issued", key_document({**body, "expires": NOW})),
        ("issued in the future", key_document({**body, "issued": NOW + 2 * day, "expires": NOW + 3 * day})),
        ("issued a little in the future", key_document({**body, "issued": NOW + day - 60, "expires": NOW + 2 * day})),
        ("expired", key_document({**body, "issued": NOW - 2 * day, "expires": NOW})),
        ("the shuffler's list is expired", key_document(shuffler={**other, "issued": NOW - 2 * day, "expires": NOW})),
        ("about to expire", key_document({**body, "issued": NOW - 2 * day, "expires": NOW + 61})),
    ]
    changed = key_document()
    changed["analyzer"]["body"]["expires"] += 1
    missing = {key: value for key, value in key_document().items() if key != "analyzer"}
    documents += [("changed after it was signed", changed), ("without the analyzer's list", missing)]
    found = []
    for why, document in documents:
        text = canonical(document).decode()
        error = error_of(read_keys, text)
        ids = None if error else [key.id for key in read_keys(text)]
        found.append({"why": why, "keys": text, "now": NOW + 60, "ids": ids, "error": error})
    return found


def read_keys(text: str) -> tuple[PublicKey, PublicKey]:
    """Read a key document as :class:`hubbub.service.uploader.Uploader` does."""

    class Fixed:
        def keys(self, task: str) -> bytes:
            return text.encode()

    reader = Uploader(contract_of(small_plan()), Fixed(), None, now=lambda: NOW + 60)  # type: ignore[arg-type]
    found = reader._fetch_keys()
    return found.analyzer, found.shuffler
