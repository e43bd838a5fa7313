"""Vectors of uploads: replies of a shuffler, the requests of a client, and the state of its journal."""

from tests.vectors.common import NOW, Json, Vector, small_plan
from tests.vectors.contracts import contract_of
from tests.vectors.keylists import key_document, key_list, public_key

from hubbub.documents import canonical
from hubbub.service.task.admission import TicketKey

KEYS, NEW_KEYS = 0, 1
STORED: Json = {"status": 201}
PAGE = "<!doctype html><title>Sign in to the network</title>"
"""The page of a captive portal."""
OUTDATED: Json = {"status": 409, "problem": "outdated-keys"}
SPENT: Json = {"status": 409, "problem": "token-spent"}


def uploads() -> list[Vector]:
    """Replies of a shuffler to one answer, the requests that a client must make, and the state of its journal.

    ``replies`` are given in order: a key document (``keys`` is its number), no response (``lost``), a death of the
    client while it waits for the response (``crash``), or a status with the name of a problem or with any ``body``.
    ``requests`` name what the client asks for; bundles are numbered in the order in which they first appear, so that
    equal numbers mean equal bytes. ``pauses`` are the shortest and longest pause after each reply that is repeated, in
    seconds; a service cannot ask for more than an hour.
    """
    documents = [
        canonical(key_document()).decode(),
        canonical(
            key_document(key_list("analyzer", public_key(1, 2)), key_list("shuffler", public_key(1, 8)), 2)
        ).decode(),
    ]
    terminal = ("closed-task", "closed-round", "series-ended", "bad-token", "token-spent", "malformed", "cannot-open")
    status = {"closed-task": 403, "closed-round": 403, "series-ended": 403, "bad-token": 403, "token-spent": 409}
    cases: list[tuple[str, list[Json], list[str], str]] = [
        ("stored at once", [STORED], ["bundle 1"], "stored"),
        ("a lost response", [{"lost": True}, STORED], ["bundle 1", "bundle 1"], "stored"),
        (
            "an overloaded service",
            [{"status": 429, "problem": "busy", "retry_after": 7}, STORED],
            ["bundle 1"] * 2,
            "stored",
        ),
        ("a service that is stopping", [{"status": 503, "problem": "unavailable"}, STORED], ["bundle 1"] * 2, "stored"),
        ("a gateway without a service", [{"status": 502}, STORED], ["bundle 1"] * 2, "stored"),
        ("a slow body", [{"status": 408, "problem": "timeout"}, STORED], ["bundle 1"] * 2, "stored"),
        ("a crash while waiting", [{"crash": True}, STORED], ["bundle 1"] * 2, "stored"),
        (
            "two crashes and a lost response",
            [{"crash": True}, {"lost": True}, {"crash": True}, STORED],
            ["bundle 1"] * 4,
            "stored",
        ),
        ("outdated keys", [OUTDATED, {"keys": NEW_KEYS}, STORED], ["bundle 1", "keys", "bundle 2"], "stored"),
        (
            "outdated keys after a lost response",
            [{"lost": True}, OUTDATED, {"keys": NEW_KEYS}, {"lost": True}, STORED],
            ["bundle 1", "bundle 1", "keys", "bundle 2", "bundle 2"],
            "stored",
        ),
        (
            "a crash after sealing again",
            [OUTDATED, {"keys": NEW_KEYS}, {"crash": True}, STORED],
            ["bundle 1", "keys", "bundle 2", "bundle 2"],
            "stored",
        ),
        (
            "outdated keys that the signed lists still have",
            [OUTDATED, {"keys": KEYS}, OUTDATED, {"keys": NEW_KEYS}, STORED],
            ["bundle 1", "keys", "bundle 1", "keys", "bundle 2"],
            "stored",
        ),
        (
            "keys that are never outdated",
            [*[OUTDATED, {"keys": KEYS}] * 2, OUTDATED],
            [*["bundle 1", "keys"] * 2, "bundle 1"],
            "waiting",
        ),
        (
            "a bundle that was stored although it was refused",
            [OUTDATED, {"keys": NEW_KEYS}, SPENT],
            ["bundle 1", "keys", "bundle 2"],
            "stored",
        ),
        (
            "keys that cannot be fetched at first",
            [OUTDATED, {"lost": True}, {"status": 503, "problem": "unavailable"}, {"keys": NEW_KEYS}, STORED],
            ["bundle 1", "keys", "keys", "keys", "bundle 2"],
            "stored",
        ),
        ("a restored store", [{"status": 410, "problem": "uncertain"}], ["bundle 1"], "uncertain"),
        *[
            (f"refused: {name}", [{"status": status.get(name, 400), "problem": name}], ["bundle 1"], name)
            for name in terminal
        ],
        (
            "refused after a crash",
            [{"crash": True}, SPENT],
            ["bundle 1"] * 2,
            "token-spent",
        ),
        *[
            (f"not from the service: {why}", [reply, STORED], ["bundle 1"] * 2, "stored")
            for why, reply in (
                ("a page of success", {"status": 200, "body": PAGE}),
                ("a refusing page", {"status": 403, "body": PAGE}),
                ("an empty page", {"status": 404}),
                ("a redirect", {"status": 302}),
                ("a problem of another service", {"status": 403, "body": '{"type":"about:blank","status":403}'}),
                ("JSON that is no object", {"status": 400, "body": "[]"}),
                ("a problem that is no text", {"status": 400, "body": '{"type":["urn:hubbub:problem:malformed"]}'}),
                ("a problem with a name in capitals", {"status": 400, "problem": "Malformed"}),
                ("a problem with an endless name", {"status": 400, "problem": "x" * 41}),
                ("a problem in a successful response", {"status": 200, "problem": "closed-task"}),
                ("a problem named like an answer that is stored", {"status": 409, "problem": "stored"}),
                ("a problem named like an answer that waits", {"status": 409, "problem": "waiting"}),
            )
        ],
        (
            "a page instead of keys",
            [OUTDATED, {"status": 200, "body": PAGE}, {"status": 404, "body": PAGE}, {"keys": NEW_KEYS}, STORED],
            ["bundle 1", "keys", "keys", "keys", "bundle 2"],
            "stored",
        ),
        (
            "a pause of years",
            [{"status": 503, "problem": "unavailable", "retry_after": 10**12}, STORED],
            ["bundle 1"] * 2,
            "stored",
        ),
        ("unavailable to the end", [{"status": 503, "problem": "unavailable"}] * 3, ["bundle 1"] * 3, "waiting"),
        ("no response at all", [{"lost": True}] * 3, ["bundle 1"] * 3, "waiting"),
    ]
    ticket = TicketKey(bytes(32)).mint(contract_of(small_plan()).task, "ada")
    return [
        {
            "name": name,
            "attempts": 3,
            "ticket": ticket.hex(),
            "now": NOW + 60,
            "documents": documents,
            "replies": [{"keys": KEYS}, *replies],
            "requests": ["keys", *requests],
            "pauses": list(_pauses(replies)),
            "state": state,
        }
        for name, replies, requests, state in cases
    ]


def _pauses(replies: list[Json]) -> list[list[float]]:
    """Return the bounds of all pauses: the wait that the service asks for, and up to 0.25·2^attempt s more.

    After keys that are not new, the pause is 0.25·2^attempt s.
    """
    found, attempt, same = [], 0, 0
    for reply in replies:
        foreign = reply.get("status") in (200, 302, 404) or "body" in reply
        unknown = reply.get("problem") in ("Malformed", "x" * 41, "stored", "waiting")
        if reply.get("lost") or reply.get("status") in (408, 429, 502, 503) or foreign or unknown:
            attempt += 1
            if attempt < 3:
                wait = min(float(reply.get("retry_after", 0)), 3600.0)
                found.append([wait, wait + 0.25 * 2 ** (attempt - 1)])
        else:
            attempt = 0
        if reply.get("keys") == KEYS:
            found.append([0.25 * 2**same] * 2)
            same += 1
    return found
