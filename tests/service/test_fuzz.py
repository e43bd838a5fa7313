"""The fuzz targets on the stored corpus and on small mutations of it; ``make fuzz`` goes further."""

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
    generator = random.Random(f"{name} {label}")
    for text in [b"", data[1:], data[:-1], data + b"\0", data * 2, *(_mutated(data, generator) for _ in range(60))]:
        TARGETS[name](text)


def _mutated(data: bytes, generator: random.Random) -> bytes:
    """Return the data with a few bytes changed, removed or repeated."""
    found = bytearray(data)
    for _ in range(generator.randrange(1, 4)):
        place, length = generator.randrange(len(found) + 1), generator.choice((1, 1, 1, 4, 16))
        match generator.randrange(4):
            case 0:
                found[place : place + 1] = generator.randbytes(1)
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = found[place : place + length]
            case _:
                found[place : place + 1] = generator.choice(
                    (b"0", b"9", b"-1", b"[", b'"', b"1e9", b"\xff", b"\\ud800")
                )
    return bytes(found)
