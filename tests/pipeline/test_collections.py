"""All encodings of values give the same records, and blocks are parts of the whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import hubbub as hb
from hubbub.pipeline import device

Bits = NDArray[np.bool_]


@st.composite
def populations(draw: st.DrawFn) -> tuple[hb.Schema, Bits]:
    width = draw(st.integers(2, 40))
    kind = draw(st.sampled_from(["bits", "one_hot", "at_most"]))
    if kind == "at_most":
        schema = hb.Schema.at_most(draw(st.integers(1, width)), width)
    else:
        schema = hb.Schema.bits(width) if kind == "bits" else hb.Schema.one_hot(width)
    sets = st.sets(st.integers(0, width - 1), min_size=schema.min_set, max_size=schema.max_set)
    chosen = draw(st.lists(sets, max_size=12))
    bits = np.zeros((len(chosen), width), np.bool_)
    for row, ones in zip(bits, chosen, strict=True):
        row[list(ones)] = True
    return schema, bits


def unpack(people: hb.Collection) -> Bits:
    rows = people.rows(0, len(people))
    return np.unpackbits(rows, axis=1, bitorder="little", count=people.schema.width).astype(np.bool_)


@given(populations())
def test_all_encodings_agree(population: tuple[hb.Schema, Bits]) -> None:
    schema, bits = population
    labels = [[schema.labels[i] for i in np.flatnonzero(row)[::-1]] for row in bits]
    ways: list[hb.Collection] = [
        hb.Collection.from_values(bits, schema),
        hb.Collection.from_values(bits.astype(np.int8), schema),
        hb.Collection.from_packed(np.packbits(bits, axis=1, bitorder="little"), schema),
        hb.Collection.from_values([one[0] for one in labels] if schema.exclusive else labels, schema),
        hb.Collection.from_values(iter([one[0] for one in labels] if schema.exclusive else labels), schema),
    ]
    for people in ways:
        assert np.array_equal(unpack(people), bits)
        flat, ones = people.ones(0, len(people))
        assert flat.tolist() == np.nonzero(bits)[1].tolist()
        assert ones.tolist() == bits.sum(axis=1).tolist()
    for one, row in zip(labels, bits, strict=True):
        number = device.encode(one[0] if schema.exclusive else one, schema)
        assert [bool(number >> i & 1) for i in range(schema.width)] == row.tolist()


@given(populations(), st.integers(1, 13))
def test_blocks_are_parts(population: tuple[hb.Schema, Bits], size: int) -> None:
    schema, bits = population
    people = hb.Collection.from_values(bits, schema)
    parts = list(people.blocks(size))
    assert all(len(part) <= size for part in parts)
    assert np.array_equal(np.concatenate([unpack(part) for part in parts] or [bits]), bits)
    if parts:
        assert np.array_equal(unpack(hb.Collection.concatenate(parts)), bits)
    assert people.counts().tolist() == bits.sum(axis=0).tolist()


@given(populations(), st.integers(0, 5), st.integers(0, 5))
def test_slices_are_parts(population: tuple[hb.Schema, Bits], start: int, length: int) -> None:
    schema, bits = population
    people = hb.Collection.from_values(bits, schema)
    start = min(start, len(people))
    rows = people.rows(start, start + length)
    wanted = np.packbits(bits[start : start + length], axis=1, bitorder="little")
    assert np.array_equal(rows, wanted)
