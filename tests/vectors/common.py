"""Operators, plans and edits of documents that the vectors of the services share."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hubbub as hb
from hubbub import vectors
from hubbub.documents import canonical
from hubbub.errors import HubbubError
from hubbub.model.curves import PrivacyCurve
from hubbub.model.plans import Plan
from hubbub.service.task.admission import Admission
from hubbub.service.task.identity import Identity

FOLDER = Path(vectors.__file__).parent
ANALYZER, SHUFFLER, STRANGER = (Identity(bytes([number] * 32)) for number in (1, 2, 3))
BY_TICKET = Admission("ticket", "accounts.example")
NOW = 1_900_000_000
Vector = dict[str, Any]
Json = Any


def small_plan() -> Plan:
    """Return a plan with a short curve, so that the vectors stay small."""
    plan = hb.plan_from(hb.Schema.one_hot(["red", "green", "blue"]), 100, hb.Protocol(0.1), epsilon=3.0)
    return short_curve(plan)


def short_curve(plan: Plan) -> Plan:
    """Return the plan with a curve of a single point."""
    return replace(plan, curve=PrivacyCurve(((plan.guarantee.epsilon, plan.guarantee.delta),)))


def split_plan() -> Plan:
    """Return a plan whose clients send a random number of messages."""
    schema, protocol = hb.Schema.one_hot(20), hb.Protocol(0.02, release="bits")
    return short_curve(hb.plan_from(schema, 1000, protocol, delta=1e-6))


def fakes_plan() -> Plan:
    """Return a plan with Poisson fakes."""
    protocol = hb.Protocol(0.1, m=hb.Fakes.poisson(0.5))
    return short_curve(hb.plan_from(hb.Schema.one_hot(4), 1000, protocol, delta=1e-6))


Edit = Callable[[Json], Json]


def at(path: str, value: Json) -> Edit:
    """Return an edit that sets the entry at a dotted path."""

    def edit(document: Json) -> Json:
        *parents, last = [int(one) if one.isdigit() else one for one in path.split(".")]
        place = document
        for one in parents:
            place = place[one]
        place[last] = value
        return document

    return edit


def without(path: str) -> Edit:
    """Return an edit that removes the entry at a dotted path."""

    def edit(document: Json) -> Json:
        *parents, last = [int(one) if one.isdigit() else one for one in path.split(".")]
        place = document
        for one in parents:
            place = place[one]
        del place[last]
        return document

    return edit


def identified(document: Json) -> str:
    """Return a plan as text, with the digest of its content as its id: only its content can be wrong."""
    content = {key: value for key, value in document.items() if key != "id"}
    return json.dumps({**document, "id": hashlib.sha256(canonical(content)).hexdigest()}, ensure_ascii=False)


def error_of(read: Callable[[Any], object], text: object) -> str | None:
    """Return the name of the error that reading raises; None if it raises none."""
    try:
        read(text)
    except HubbubError as error:
        return type(error).__name__
    return None
