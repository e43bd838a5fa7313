"""A client written from docs/wire.md alone reproduces the vectors bit by bit: the specification is complete."""

import hashlib
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import hubbub as hb
from hubbub.pipeline import device
from hubbub.vectors import wire_vectors

GOOD = wire_vectors()["good"]
Source = Callable[[int], bytes]


def counter() -> Source:
    stream = b"".join(hashlib.sha256(i.to_bytes(8, "little")).digest() for i in range(2000))
    place = 0

    def take(size: int) -> bytes:
        nonlocal place
        place += size
        return stream[place - size : place]

    return take


def coins(width: int, a: int, take: Source) -> int:
    digits = f"{a:048b}".rstrip("0")
    state: list[int | None] = [None] * width
    for start in range(0, len(digits), 10):
        noise = int.from_bytes(take((10 * width + 7) // 8), "little")
        for digit in digits[start : start + 10]:
            for i in range(width):
                random = noise >> i & 1
                if state[i] is None and (digit == "1") == (random == 1):
                    state[i] = random
            noise >>= width
        if None not in state:
            break
    return sum(1 << i for i, bit in enumerate(state) if bit)


def uniform(b: int, take: Source) -> int:
    bits = (b - 1).bit_length()
    while True:
        value = int.from_bytes(take(-(-bits // 8)), "little") % (1 << bits)
        if value < b:
            return value


def coin(a: int, take: Source) -> bool:
    return int.from_bytes(take(6), "little") < a


def shuffle(sent: list[int], take: Source) -> None:
    steps = list(range(len(sent) - 1, 0, -1))
    while steps:
        count = max(i for i in range(1, len(steps) + 1) if math.prod(j + 1 for j in steps[:i]) <= 2**48)
        u = uniform(math.prod(j + 1 for j in steps[:count]), take)
        for j in steps[:count]:
            u, other = divmod(u, j + 1)
            sent[j], sent[other] = sent[other], sent[j]
        steps = steps[count:]


def poisson(r: float, take: Source) -> int:
    inverse = sum(Fraction((-1) ** k, math.factorial(k)) for k in range(60))
    edges = [
        math.floor(2**128 * inverse * sum(Fraction(1, math.factorial(j)) for j in range(k + 1))) for k in range(40)
    ]
    whole = math.ceil(r)
    units = 0
    for _ in range(whole):
        u = int.from_bytes(take(16), "little")
        units += sum(u >= edge for edge in edges)
    keep = math.ceil(2**48 * Fraction(r) / whole)
    return units if keep == 2**48 or not units else coins(units, keep, take).bit_count()


def fake(kind: str, width: int, max_set: int, take: Source) -> int:
    if kind == "bits":
        return uniform(2**width, take)
    if kind == "one_hot":
        return 1 << uniform(width, take)
    sizes = [math.comb(width, i) for i in range(max_set + 1)]
    u = uniform(sum(sizes), take)
    size = next(i for i in range(max_set + 1) if u < sum(sizes[: i + 1]))
    record = 0
    for j in range(width - size, width):
        bit = uniform(j + 1, take)
        record |= 1 << (j if record >> bit & 1 else bit)
    return record


def number_of_fakes(m: Any, n: int, take: Source) -> int:
    if isinstance(m, int):
        return m // n
    if m["distribution"] == "binomial":
        return coins(m["shift"], math.ceil(Fraction(m["scale"]) * 2**48), take).bit_count()
    return poisson(m["scale"], take) if m["distribution"] == "poisson" else 0


def send(value: Any, plan: dict[str, Any], take: Source) -> list[bytes]:
    schema, protocol = plan["schema"], plan["protocol"]
    (noise,) = protocol["noise"]
    labels, release, flip_numerator = schema["labels"], protocol["release"], noise["flip"]
    width = len(labels)
    record = sum(1 << labels.index(label) for label in ([value] if schema["kind"] == "one_hot" else value))
    count = number_of_fakes(noise["m"], plan["n"], take)
    size = -(-width // 8) if release == "records" else 1 if width <= 2**8 else 2 if width <= 2**16 else 4
    if release == "category":
        sent = [labels.index(value)]
        if coin((width - 1) * flip_numerator, take):
            u = uniform(width - 1, take)
            sent = [u if u < sent[0] else u + 1]
    else:
        fakes = [fake(schema["kind"], width, schema["max_set"], take) for _ in range(count)]
        sent = [one ^ coins(width, flip_numerator, take) for one in [record] * protocol["k"] + fakes]
        if release == "bits":
            sent = [i for one in sent for i in range(width) if one >> i & 1]
        shuffle(sent, take)
    header = b"HBM" + bytes([2]) + bytes.fromhex(plan["id"])[:16]
    return [header + one.to_bytes(size, "little") for one in sent]


def batch(payloads: list[bytes], n: int, plan: dict[str, Any]) -> bytes:
    m, release = plan["protocol"]["noise"][0]["m"], plan["protocol"]["release"]
    sizes = len(plan["schema"]["labels"]), len(payloads[0])
    totals = len(payloads), n, m // plan["n"] * n if isinstance(m, int) else 0
    data = b"HUBB" + bytes([2, {"records": 1, "bits": 2, "category": 3}[release], 0, 0])
    data += b"".join(size.to_bytes(4, "little") for size in sizes) + bytes.fromhex(plan["id"])
    data += b"".join(total.to_bytes(8, "little") for total in totals) + b"".join(payloads)
    return data + hashlib.sha256(data).digest()


@pytest.mark.parametrize("vector", GOOD, ids=lambda vector: str(vector["name"]))
def test_specification_is_complete(vector: dict[str, Any]) -> None:
    take = counter()
    plan = json.loads(vector["plan"])
    sent = [send(value, plan, take) for value in vector["values"]]
    assert [[message.hex() for message in one] for one in sent] == vector["messages"]
    assert batch([message[20:] for one in sent for message in one], len(sent), plan).hex() == vector["batch"]


def test_the_answers_of_a_survey_are_encoded_as_one_bit_each() -> None:
    schema = hb.Schema.survey({"colour": hb.Choice(list("abc")), "dark": hb.Flag()})
    assert device.encode({"colour": "c", "dark": True}, schema) == 0b10100
