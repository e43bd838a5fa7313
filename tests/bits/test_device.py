"""Coins on a device are exact by enumeration and pass the statistics of the batch functions."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bits import statistics
from tests.bits.statistics import FALSE_POSITIVE_RATE

from hubbub.bits import device
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import EntropyFailure, InvalidInput

Q = round(0.1778 * 2**48)


def test_every_fraction_of_six_digits_is_compared_correctly() -> None:
    """64 bits hold all fractions of six digits, so exactly ``numerator`` of them must be ones."""
    rows = [sum((~lane >> 5 - digit & 1) << lane for lane in range(64)) for digit in range(6)]
    noise = b"".join(row.to_bytes(8, "little") for row in rows) + bytes(32)
    for numerator in range(64):
        assert device.coins(64, numerator << 42, entropy=lambda size: noise[:size]) == (1 << numerator) - 1


@given(st.integers(1, 100), st.integers(0, 2**48 - 1), st.integers(0, 1000))
def test_coins_agree_with_comparing_integers(width: int, numerator: int, seed: int) -> None:
    """All digits of all fractions, from the same bytes, as integers compared with ``<``."""
    source = SeededStreamNotForPeople(seed)
    size = (device._SLICES * width + 7) // 8
    digits: list[int] = []
    while len(digits) < 48:
        noise = int.from_bytes(source(size), "little")
        digits += [noise >> place * width & (1 << width) - 1 for place in range(device._SLICES)]
    fractions = [sum((~digits[i] >> lane & 1) << 47 - i for i in range(48)) for lane in range(width)]
    expected = sum((fraction < numerator) << lane for lane, fraction in enumerate(fractions))
    assert device.coins(width, numerator, entropy=SeededStreamNotForPeople(seed)) == expected


@pytest.mark.parametrize("width", [7, 40])
def test_flips_pass_all_statistics(width: int) -> None:
    source = SeededStreamNotForPeople(41)
    record = bytes(-(-width // 8))
    flipped = b"".join(device.flip(record, width, Q, entropy=source) for _ in range(60_000))
    records = np.frombuffer(flipped, np.uint8).reshape(60_000, -1)
    bits = np.unpackbits(records, axis=1, bitorder="little", count=width)
    for p in (statistics.position_p, statistics.pair_p, statistics.runs_p):
        assert p(bits, Q / 2**48) > FALSE_POSITIVE_RATE
    assert statistics.position_p(bits, 0.1778 * 1.05) < FALSE_POSITIVE_RATE
    bits[:, -1] = 0
    assert statistics.position_p(bits, Q / 2**48) < FALSE_POSITIVE_RATE


@given(st.integers(1, 100), st.data())
def test_flipping_twice_with_one_seed_restores_the_record(width: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, 2**width - 1))
    record = value.to_bytes(-(-width // 8), "little")
    once = device.flip(record, width, Q, entropy=SeededStreamNotForPeople(1))
    assert len(once) == len(record)
    assert device.flip(once, width, Q, entropy=SeededStreamNotForPeople(1)) == record


@pytest.mark.parametrize("below", [1, 2, 3, 100, 256, 257])
def test_uniform_integers(below: int) -> None:
    source = SeededStreamNotForPeople(42)
    values = np.array([device.uniform(below, entropy=source) for _ in range(30_000)])
    assert values.min() >= 0
    assert values.max() < below
    assert below == 1 or statistics.uniform_p(values, below) > FALSE_POSITIVE_RATE


def test_every_uniform_integer_has_the_same_number_of_words() -> None:
    words = iter([word.to_bytes(1) for word in range(256)])
    values = []
    while True:
        try:
            values.append(device.uniform(100, entropy=lambda size: next(words)))
        except StopIteration:
            break
    assert sorted(values) == sorted([*range(100)] * 2)


def test_short_entropy_is_detected() -> None:
    with pytest.raises(EntropyFailure, match="returned 49 of 50 bytes"):
        device.coins(40, Q, entropy=lambda size: bytes(size - 1))
    with pytest.raises(EntropyFailure, match="returned 0 of 1 bytes"):
        device.uniform(100, entropy=lambda size: b"")
    with pytest.raises(EntropyFailure, match="must return bytes, not NoneType"):
        device.uniform(100, entropy=lambda size: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(("record", "width"), [(bytes(4), 40), (bytes(6), 40), (b"\x08", 3)])
def test_records_of_another_layout_are_rejected(record: bytes, width: int) -> None:
    with pytest.raises(InvalidInput, match=r"^record must be"):
        device.flip(record, width, Q)


def test_domains() -> None:
    device.coins(1, 1)
    for width, numerator in ((0, 1), (True, 1), (1, -1), (1, 2**48), (1, True), (1.0, 1)):
        with pytest.raises(InvalidInput):
            device.coins(width, numerator)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        device.uniform(0)


def test_only_the_standard_library_is_needed() -> None:
    tree = ast.parse(Path(device.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names} == {"hubbub.errors"}


@pytest.mark.parametrize("chunk", [0, 1, 2, 3])
def test_bits_that_stay_undecided_are_decided_by_later_digits(chunk: int) -> None:
    """With all digits of the probability 1, a bit is undecided as long as its own digits are 1, too."""
    drawn = [0]

    def entropy(size: int) -> bytes:
        drawn[0] += 1
        return (b"\xff" if drawn[0] == chunk + 1 else b"\0") * size

    assert device.coins(7, 2**48 - 1, entropy=entropy) == 0b1111111
    assert drawn[0] == chunk + 1
