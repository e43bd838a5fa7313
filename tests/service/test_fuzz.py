"""The parsers on the stored corpus, and on all that is one step away from it; ``make fuzz`` goes further."""

import random

import pytest
from fuzz.targets import CORPUS, TARGETS, seeds

STORED = [(name, path.name) for name in TARGETS for path in sorted((CORPUS / name).iterdir())]


def test_every_parser_has_a_corpus() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert {(name, label) for name, texts in seeds().items() for label in texts} <= set(STORED)


@pytest.mark.parametrize(("name", "label"), STORED, ids=lambda part: part)
def test_stored(name: str, label: str) -> None:
    data = (CORPUS / name / label).read_bytes()
    TARGETS[name](data)
    mixed = random.Random(f"{name} {label}")
    for text in [b"", data[1:], data[:-1], data + b"\0", data * 2, *(_changed(data, mixed) for _ in range(60))]:
        TARGETS[name](text)


def _changed(data: bytes, mixed: random.Random) -> bytes:
    """With a few bytes changed, cut out, or put in twice."""
    found = bytearray(data)
    for _ in range(mixed.randrange(1, 4)):
        place, length = mixed.randrange(len(found) + 1), mixed.choice((1, 1, 1, 4, 16))
        match mixed.randrange(4):
            case 0:
                found[place : place + 1] = mixed.randbytes(1)
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = found[place : place + length]
            case _:
                found[place : place + 1] = mixed.choice((b"0", b"9", b"-1", b"[", b'"', b"1e9", b"\xff", b"\\ud800"))
    return bytes(found)
