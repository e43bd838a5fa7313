"""A client written from docs/wire.md alone reproduces the vectors of surveys, and changed vectors are refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.pipeline.test_other_client import Source, coins, counter, number_of_fakes, uniform
from tests.vectors import write

from hubbub.errors import WireError
from hubbub.vectors import check_vectors, wire_vectors

SURVEYS: list[dict[str, Any]] = wire_vectors()["surveys"]


def coin(a: int, take: Source) -> bool:
    return int.from_bytes(take(6), "little") < a


def shuffle(messages: list[int], take: Source) -> None:
    j = len(messages) - 1
    while j > 0:
        steps, product = [], 1
        while j > 0 and product * (j + 1) <= 2**48:
            steps.append(j)
            product *= j + 1
            j -= 1
        u = uniform(product, take)
        for step in steps:
            other, u = u % (step + 1), u // (step + 1)
            messages[step], messages[other] = messages[other], messages[step]


def level(x: float, size: int, take: Source) -> int:
    y = x * (size - 1)
    a = int((y - int(y)) * 2**48)
    return int(y) + (coin(a, take) if a > 0 else 0)


def digits(value: int, radices: list[int]) -> list[int]:
    found = []
    for radix in radices:
        found.append(value % radix)
        value //= radix
    return found


def number(one: dict[str, Any], answer: Any, take: Source) -> list[int]:
    radices = one["digits"] or [4, 4, 4, 4]
    size = 1
    for radix in radices:
        size *= radix
    if answer is None:
        return [1] + [0] * (len(radices) * (1 + one["variance"]))
    x = (min(max(float(answer), one["low"]), one["high"]) - one["low"]) / (one["high"] - one["low"])
    found = digits(level(x, size, take), radices)
    if one["variance"]:
        found += digits(level((2 * x - 1) * (2 * x - 1), size, take), radices)
    return ([0] if one["missing"] else []) + found


def scale(one: dict[str, Any], answer: Any) -> tuple[list[int], int]:
    edges, count = one["edges"], one["buckets"]
    if not edges:
        low, high = float(one["low"]), float(one["high"])
        edges = [low + (high - low) * i / count for i in range(count)] + [high]
    count, widths = len(edges) - 1, one["levels"] or [1]
    whole = -(-count // widths[0]) * widths[0]
    bucket = whole if answer is None else min(max(sum(edge <= answer for edge in edges) - 1, 0), count - 1)
    return [bucket // width for width in widths], whole + one["missing"]


def encode(schema: dict[str, Any], answers: dict[str, Any], take: Source) -> list[int]:
    own: dict[str, tuple[list[int], int]] = {}
    for one in schema["questions"]:
        answer = answers.get(one["name"])
        match one["kind"]:
            case "choice":
                place = len(one["labels"]) if answer is None else one["labels"].index(answer)
                own[one["name"]] = [place], len(one["labels"]) + one["missing"]
            case "flag":
                own[one["name"]] = [2 if answer is None else int(answer)], 2 + one["missing"]
            case "scale":
                own[one["name"]] = scale(one, answer)
            case "number":
                own[one["name"]] = number(one, answer, take), 0
    found: list[int] = []
    for one in schema["questions"]:
        if one["kind"] == "cross":
            cell = 0
            for name in one["names"]:
                categories, size = own[name]
                cell = cell * size + categories[-1]
            found.append(cell)
        elif one["name"] not in schema["derived"]:
            found += own[one["name"]][0]
    return found


def send(categories: list[int], sizes: list[int], protocol: dict[str, Any], take: Source) -> list[int]:
    sent, start = [], 0
    for category, d, noise in zip(categories, sizes, protocol["noise"], strict=True):
        flip = noise["flip"]
        if protocol["release"] == "category":
            if coin((d - 1) * flip, take):
                u = uniform(d - 1, take)
                sent.append(start + (u if u < category else u + 1))
            else:
                sent.append(start + category)
        elif not flip:
            sent.append(start + category)
            sent += [start + uniform(d, take) for _ in range(number_of_fakes(noise["m"], 1, take))]
        else:
            shown = (1 << category) ^ coins(d, flip, take)
            sent += [start + i for i in range(d) if shown >> i & 1]
        start += d
    shuffle(sent, take)
    return sent


@pytest.mark.parametrize("vector", SURVEYS, ids=lambda vector: str(vector["name"]))
def test_specification_is_complete(vector: dict[str, Any]) -> None:
    take, plan = counter(), json.loads(vector["plan"])
    for answers, categories, payloads in zip(vector["answers"], vector["categories"], vector["payloads"], strict=True):
        assert encode(plan["schema"], answers, take) == categories
        assert [
            one.to_bytes(1, "little").hex() for one in send(categories, vector["sizes"], plan["protocol"], take)
        ] == payloads
    assert sum(vector["sizes"]) == len(vector["counts"]) <= 256
    for name, values in vector["estimate"].items():
        kind = next(one["kind"] for one in plan["schema"]["questions"] if one["name"] == name)
        answered = sum(person.get(name, "") is not None for person in vector["answers"])
        # The last category of labels counts people without an answer; buckets leave them out.
        people = answered if kind == "scale" else len(vector["answers"])
        assert kind == "number" or sum(values) == pytest.approx(people)


def test_vectors_are_current() -> None:
    """Tighter guarantees may change ids, but not what devices send for a survey."""
    for old, new in zip(SURVEYS, write.surveys(), strict=True):
        for key in ("name", "sizes", "answers", "categories", "payloads", "counts"):
            assert old[key] == new[key]


def test_vectors_cover_every_kind_of_question_and_noise() -> None:
    plans = [json.loads(vector["plan"]) for vector in SURVEYS]
    kinds = {one["kind"] for plan in plans for one in plan["schema"]["questions"]}
    assert kinds == {"choice", "flag", "scale", "number", "cross"}
    noise = [one for plan in plans for one in plan["protocol"]["noise"]]
    assert {one["m"]["distribution"] for one in noise if one["m"]} == {"gaussian", "poisson", "binomial"}
    assert {plan["protocol"]["release"] for plan in plans} == {"bits", "category"}
    assert any(answer is None for vector in SURVEYS for person in vector["answers"] for answer in person.values())


def _first_category(vector: dict[str, Any]) -> None:
    vector["categories"][0][0] += 1


def _last_payload(vector: dict[str, Any]) -> None:
    vector["payloads"][-1][-1] = "00" if vector["payloads"][-1][-1] != "00" else "01"


def _count(vector: dict[str, Any]) -> None:
    vector["counts"][0] += 1


def _estimate(vector: dict[str, Any]) -> None:
    vector["estimate"]["colour"][0] += 1e-3


def _size(vector: dict[str, Any]) -> None:
    vector["sizes"][0] += 1


@pytest.mark.parametrize("change", [_first_category, _last_payload, _count, _estimate, _size])
def test_changed_vectors_are_refused(change: Callable[[dict[str, Any]], None]) -> None:
    document = wire_vectors()
    change(document["surveys"][1])
    with pytest.raises(WireError, match='of the survey "users\' noise" differ'):
        check_vectors(json.dumps({**document, "bad": [], "ledgers": []}))
