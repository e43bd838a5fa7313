"""Random plans and answers: Python and JavaScript send the same messages and accept the same numbers of slots."""

import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.vectors.common import small_plan

from hubbub.accountant.overflow import check_slots
from hubbub.errors import HubbubError, InvalidInput
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.model.schema import Schema
from hubbub.pipeline import device
from hubbub.vectors import Counter

PROGRAM = Path(__file__).parents[2] / "clients" / "js" / "test" / "differential.js"
SLOTS = [1, 2, 3, 4, 5, 8, 13, 21, 34, 80, 200, 1000]


def random_question(choice: random.Random) -> Question:
    missing, low = choice.random() < 0.4, choice.uniform(-100, 100)
    match choice.randrange(5):
        case 0:
            return Choice([f"label {i}" for i in range(choice.randint(2, 9))], missing=missing)
        case 1:
            return Flag(missing=missing)
        case 2:
            levels = choice.choice([[], [2, 1]])
            return Scale(low, low + choice.uniform(0.1, 1e4), buckets=2 * choice.randint(2, 20), levels=levels)
        case 3:
            inner = {round(choice.uniform(-50, 1000), choice.randint(0, 6)) for _ in range(choice.randint(1, 20))}
            return Scale(edges=sorted(inner | {0, 1, 7.5}), missing=missing)
        case _:
            digits = choice.choice([(), (2,), (4, 3), (16, 16, 16), (1024, 7)])
            high, variance = low + 10 ** choice.uniform(-3, 6), choice.random() < 0.3
            return Number(low, high, digits=digits, variance=variance, missing=missing)


def random_answer(question: Question, choice: random.Random) -> Any:
    if getattr(question, "missing", False) and choice.random() < 0.3:
        return None
    match question:
        case Choice():
            return choice.choice(question.labels)
        case Flag():
            return choice.random() < 0.5
        case Scale():
            inside = choice.uniform(question.edges[0] - 5, question.edges[-1] + 5)
            return choice.choice([inside, choice.choice(question.edges), choice.randint(-10, 10)])
        case Number():
            return choice.choice([choice.uniform(question.low - 1, question.high + 1), question.low, question.high])
    raise AssertionError


def random_survey(choice: random.Random) -> tuple[Schema, Protocol, list[Any]]:
    questions = {f"question {i}": random_question(choice) for i in range(choice.randint(1, 5))}
    counted = [name for name, one in questions.items() if not isinstance(one, Number)]
    derived = []
    if len(counted) > 1 and choice.random() < 0.5:
        names = choice.sample(counted, 2)
        questions["table"] = Cross(*names)
        derived = [name for name in names if isinstance(questions[name], Choice | Flag) and choice.random() < 0.4]
    schema = Schema.survey(questions, derived=derived)
    noise = [
        Noise(choice.uniform(1e-9, 0.499)),
        Noise(m=Fakes.poisson(choice.uniform(0.01, 3))),
        Noise(m=Fakes.binomial(choice.randint(1, 9), choice.uniform(0.01, 1))),
        Noise(m=Fakes.laplace(2.0, 9)),
    ]
    if choice.random() < 0.5:
        sizes = [one.size for one in schema.attributes]
        protocol = Protocol.survey([Noise(choice.uniform(1e-6, 0.9 / size) / 2) for size in sizes], "category")
    else:
        protocol = Protocol.survey([choice.choice(noise) for _ in schema.attributes])
    asked = {name: one for name, one in questions.items() if not isinstance(one, Cross)}
    return schema, protocol, [{name: random_answer(one, choice) for name, one in asked.items()} for _ in range(2)]


def random_records(choice: random.Random) -> tuple[Schema, Protocol, list[Any]]:
    width = choice.randint(2, 40)
    schema = choice.choice([Schema.one_hot(width), Schema.bits(width), Schema.at_most(choice.randint(1, width), width)])
    if schema.exclusive and choice.random() < 0.3:
        protocol = Protocol(choice.uniform(1e-6, 0.9 / width) / 2, release="category")
    else:
        drawn: list[int | Fakes] = [
            Fakes.poisson(choice.uniform(0.01, 4)),
            Fakes.binomial(choice.randint(1, 20), choice.uniform(0.01, 1)),
        ]
        fakes: int | Fakes = choice.choice([0, 100 * choice.randint(1, 4), *drawn])
        protocol = Protocol(
            choice.uniform(1e-9, 0.49), choice.randint(1, 3), fakes, "records" if choice.random() < 0.5 else "bits"
        )
    if schema.exclusive:
        return schema, protocol, [choice.choice(schema.labels) for _ in range(2)]
    return schema, protocol, [choice.sample(schema.labels, choice.randint(0, schema.max_set)) for _ in range(2)]


def random_cases(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield plans whose guarantee is stated and not computed: devices do not recompute it."""
    choice, base = random.Random(seed), small_plan()
    while count:
        try:
            schema, protocol, values = (random_survey if choice.random() < 0.6 else random_records)(choice)
        except InvalidInput:
            continue
        guarantee = replace(base.guarantee, epsilon=choice.uniform(0.1, 5), delta=10 ** -choice.uniform(2, 9))
        plan = replace(base, schema=schema, protocol=protocol, stderr=1.0, guarantee=guarantee)
        entropy = Counter()
        sent = [[one.hex() for one in device.payloads(value, plan, entropy=entropy)] for value in values]
        allowed = [slots for slots in SLOTS if accepts(plan, slots)]
        yield {"plan": plan.to_json(), "id": plan.id, "values": values, "sent": sent, "allowed": allowed}
        count -= 1


def accepts(plan: Plan, slots: int) -> bool:
    try:
        check_slots(plan, slots)
    except HubbubError:
        return False
    return True


def compare(node: str, cases: list[dict[str, Any]]) -> dict[str, Any]:
    given = json.dumps({"slots": SLOTS, "cases": cases})
    done = subprocess.run([node, str(PROGRAM)], input=given, capture_output=True, text=True, check=True, timeout=300)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_both_clients_send_the_same(node: str, seed: int) -> None:
    found = compare(node, list(random_cases(seed, 25)))
    assert found == {"cases": 25, "different": []}


def test_a_difference_is_found(node: str) -> None:
    (case,) = random_cases(8, 1)
    assert compare(node, [{**case, "allowed": [*case["allowed"], 0]}])["different"]
    assert compare(node, [{**case, "sent": [case["sent"][1], case["sent"][0]]}])["different"]
