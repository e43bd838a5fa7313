"""Vectors of surveys: plans, answers, and the messages of devices."""

from dataclasses import replace
from typing import Any

from tests.vectors.common import Json, Vector, small_plan

import hubbub as hb
from hubbub.model.plans import Plan
from hubbub.model.protocol import Noise
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.pipeline import device
from hubbub.pipeline.reports import Reports, decode_payloads
from hubbub.vectors import Counter
from hubbub.wire import batches, messages

QUESTIONS: dict[str, Question] = {
    "colour": Choice(["red", "green", "blue"], missing=True),
    "dark mode": Flag(),
    "age": Scale(0, 100, buckets=10, levels=[5, 1], unit="years"),
    "delay": Scale(edges=[0, 1, 10, 100, 1000], missing=True, unit="ms"),
    "income": Number(0, 1000, digits=[4, 3], variance=True, missing=True),
    "share": Number(-1.5, 2.5, digits=[8]),
    "colour × dark mode": Cross("colour", "dark mode"),
}
ANSWERS: list[Json] = [
    {"colour": "blue", "dark mode": True, "age": 34, "delay": 12.5, "income": 333.25, "share": 0.1},
    {"dark mode": False, "age": -3, "delay": -5, "share": 99},
    {"colour": None, "dark mode": True, "age": 100, "delay": None, "income": 0, "share": -1.5},
]
AMBIGUOUS: dict[str, Question] = {
    "a: b": Choice(["x: y", "1 × 2", '"z"', "é"]),
    "a": Choice(["b: x", "\U0001f600"], missing=True),
    '"c" × d': Cross("a: b", "a"),
    "\U0001f600": Flag(),
    "～": Flag(),
    "both": Cross("\U0001f600", "～"),
}
"""Names and labels that contain the separators of the labels of a schema, which quotes them, or sort by code points."""


def survey_plan(noise: list[Noise], release: Any, schema: hb.Schema) -> Plan:
    """Return a plan of a survey, whose guarantee is stated and not computed: devices do not recompute it."""
    base = small_plan()
    return replace(base, schema=schema, protocol=hb.Protocol.survey(noise, release), stderr=1.0)


def surveys() -> list[Vector]:
    """Plans of surveys, answers, and the messages and the batch that devices encode with the counter stream."""
    schema = hb.Schema.survey(QUESTIONS, derived=["dark mode"])
    count = len(schema.attributes)
    users = [Noise(m=hb.Fakes.poisson(0.75)), Noise(m=hb.Fakes.binomial(3, 0.5)), Noise(0.05)]
    single = hb.Schema.survey({"dark mode": Flag(missing=True)})
    cases: list[tuple[str, Plan, list[Json]]] = [
        ("flipped answers", survey_plan([Noise(0.05)] * count, "bits", schema), ANSWERS),
        ("randomized response", survey_plan([Noise(0.02)] * count, "category", schema), ANSWERS),
        ("answers among users' fakes", survey_plan([users[i % 3] for i in range(count)], "bits", schema), ANSWERS),
        (
            "answers among the shuffler's fakes",
            survey_plan([Noise(m=hb.Fakes.laplace(2.0, 25))] * count, "bits", schema),
            ANSWERS,
        ),
        (
            "names and labels with separators",
            survey_plan([Noise(0.05)] * 4, "bits", hb.Schema.survey(AMBIGUOUS, derived=["\U0001f600", "～"])),
            [
                {"a: b": label, "a": other, "\U0001f600": True, "～": False}
                for label, other in (("1 × 2", "\U0001f600"), ('"z"', "b: x"), ("é", None))
            ],
        ),
        ("a single question", survey_plan([users[0]], "bits", single), [{"dark mode": True}, {}]),
    ]
    found = []
    for name, plan, values in cases:
        entropy = Counter()
        sent = [device.payloads(value, plan, entropy=entropy) for value in values]
        payloads = decode_payloads(b"".join(payload for one in sent for payload in one), plan)
        found.append(
            {
                "name": name,
                "plan": plan.to_json(),
                "id": plan.id,
                "values": values,
                "messages": [[messages.encode(payload, plan).hex() for payload in one] for one in sent],
                "batch": batches.encode(Reports(plan, payloads, len(values), 0)).hex(),
            }
        )
    return found
