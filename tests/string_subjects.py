"""Public callables of strings with legal arguments, and wrong ones with their messages, for the tests of bad input."""

from typing import Any

import numpy as np
from tests.survey_subjects import Subject, fields

import hubbub as hb
from hubbub.errors import HubbubError, InvalidInput, WireError

SCHEMA = hb.Schema.strings(8)
DRAWN = hb.Fakes.laplace(0.5, 9)
PLAN = hb.plan_from(SCHEMA, 40, hb.Protocol(0, m=DRAWN, release="strings"), epsilon=4.0)
OTHER = hb.plan_from(SCHEMA, 41, hb.Protocol(0, m=DRAWN, release="strings"), epsilon=4.0)
LISTED = hb.plan_from(hb.Schema.one_hot(3), 3, hb.Protocol(0.1), epsilon=9.0)
REPORTS = hb.shuffle(hb.randomize(hb.Collection.from_values(["oops"] * 40, SCHEMA), PLAN))
TALLY = hb.tally(REPORTS)
ESTIMATE: hb.StringView = hb.estimate(TALLY, PLAN).question
BODY = hb.Text(8).encode("oops")
MINE, THEIRS = f"{PLAN.id[:8]}… and {OTHER.id[:8]}…", "be one for strings that nobody listed, made for Schema.strings"
LEVEL = "level must be in (0, 1), got 2.0"

SUBJECTS: dict[str, Subject] = {
    "Schema.strings": Subject(hb.Schema.strings, {"max_bytes": 8, "cut": False}),
    "Text": Subject(hb.Text, {"max_bytes": 8, "cut": False}),
    "Text.encode": Subject(hb.Text(8).encode, {"value": "oops"}),
    "Text.decode": Subject(hb.Text(8).decode, {"body": BODY}),
    "Text.from_document": Subject(
        hb.Text.from_document, {"value": {"max_bytes": 8, "cut": False}, "what": "the schema"}
    ),
    "chance_shown": Subject(hb.chance_shown, {"plan": PLAN, "count": 3}),
    "count_shown": Subject(hb.count_shown, {"plan": PLAN, "probability": 0.5}),
    "StringView": Subject(hb.StringView, fields(ESTIMATE)),
    "StringView.interval": Subject(ESTIMATE.interval, {"level": 0.95}),
    "StringView.other": Subject(ESTIMATE.other, {"level": 0.95}),
    "StringView.columns": Subject(ESTIMATE.columns, {"level": 0.95}),
    "StringView.to_arrow": Subject(ESTIMATE.to_arrow, {"level": 0.95}),
    "StringView.to_pandas": Subject(ESTIMATE.to_pandas, {"level": 0.95}),
    "StringView.to_polars": Subject(ESTIMATE.to_polars, {"level": 0.95}),
    "StringView.plot": Subject(ESTIMATE.plot, {"level": 0.95, "top": 5}),
    "Plan.check_payload": Subject(PLAN.check_payload, {"payload": b"\1\0\0\0" + BODY}),
}

CASES: list[tuple[str, dict[str, Any], type[HubbubError], str]] = [
    ("Schema.strings", {"max_bytes": 0}, InvalidInput, "max_bytes must be a whole number in [1, 4,096], got 0"),
    ("Schema.strings", {"cut": 1}, InvalidInput, "cut must be True or False, got 1"),
    ("Text", {"max_bytes": 5000}, InvalidInput, "max_bytes must be a whole number in [1, 4,096], got 5000"),
    ("Text", {"cut": None}, InvalidInput, "cut must be True or False, got None"),
    ("Text.encode", {"value": 7}, InvalidInput, "the value must be a string, or None for nothing, not int"),
    (
        "Text.encode",
        {"value": "nine chars"},
        InvalidInput,
        "the value must have at most 8 bytes in UTF-8, got 10",
    ),
    ("Text.decode", {"body": b""}, WireError, "the body of a string must have 11 bytes"),
    (
        "Text.from_document",
        {"value": {"max_bytes": 0, "cut": False}},
        WireError,
        "in the schema: max_bytes must be a whole …",
    ),
    ("chance_shown", {"plan": LISTED}, InvalidInput, f"the plan must {THEIRS}"),
    ("chance_shown", {"count": -1}, InvalidInput, "count must be a whole number of at least 0, got -1"),
    ("count_shown", {"plan": LISTED}, InvalidInput, f"the plan must {THEIRS}"),
    ("count_shown", {"probability": 1.0}, InvalidInput, "probability must be in (0, 1), got 1.0"),
    ("StringView", {"n": 0}, InvalidInput, "n must be a whole number in [1, 1,000,000,000,000], got 0"),
    ("StringView", {"strings": ["oops"]}, InvalidInput, "strings must be a tuple of strings, not list"),
    ("StringView", {"cut": (1,)}, InvalidInput, "cut must be a tuple of True or False, one for each string"),
    (
        "StringView",
        {"numbers": np.array([41])},
        InvalidInput,
        "numbers must be at least 1 each, and at most n = 40 together",
    ),
    (
        "StringView",
        {"fakes": hb.Fakes.poisson(1.0)},
        InvalidInput,
        "fakes must be a distribution that the shuffler draws from",
    ),
    ("StringView.plot", {"level": 2.0}, InvalidInput, LEVEL),
    ("StringView.plot", {"top": 0}, InvalidInput, "top must be a whole number of at least 1, got 0"),
    ("Plan.check_payload", {"payload": b""}, WireError, "the length of the payload must be 15, got 0"),
]
CASES += [
    (f"StringView.{name}", {"level": 2.0}, InvalidInput, LEVEL)
    for name in ("interval", "other", "columns", "to_arrow", "to_pandas", "to_polars")
]
