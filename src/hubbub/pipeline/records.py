"""``Collection``: people's raw records, which never leave the process that created them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts
from hubbub.bits.entropy import Entropy, check_entropy, system
from hubbub.bits.records import check_records
from hubbub.errors import InvalidRecord, check_memory, check_type, check_whole, kind_of, reject
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.answers import encode_answers
from hubbub.pipeline.encoding.columns import encode_columnar, is_columnar
from hubbub.pipeline.encoding.encoded import Encoded, limit_text
from hubbub.pipeline.encoding.sequences import encode_array, encode_sequence
from hubbub.pipeline.encoding.strings import encode_strings, listed

_CELLS = 1 << 22
"""Bits that are unpacked at a time, one byte each."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Packed:
    """Records stored as rows of ⌈width/8⌉ bytes; bit i is bit i mod 8 of byte i div 8."""

    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> "Packed":
        """Return the records from ``start`` to before ``stop``, without copying."""
        return Packed(self.rows[start:stop])

    def set_bits(self, width: int) -> "SetBits":
        """Return the same records as lists of set bits."""
        step = max(1, _CELLS // width)
        parts = [
            np.nonzero(np.unpackbits(self.rows[start : start + step], axis=1, bitorder="little", count=width))[1]
            for start in range(0, len(self), step)
        ]
        indices = np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.uint32)
        return SetBits(indices, np.cumsum(np.bitwise_count(self.rows).sum(axis=1, dtype=np.int64)))

    def check(self, schema: Schema) -> None:
        """Raise unless the schema allows all records."""
        if not schema.dense:
            reject("records", f"be stored as SetBits for {schema}")
        check_records(self.rows, schema.width)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetBits:
    """Records stored as the ascending indices of their set bits, so that their size does not depend on the width."""

    indices: NDArray[np.uint32]
    ends: NDArray[np.int64] | None = None
    """End of each record in ``indices``; None if every record has exactly one bit set."""

    def __len__(self) -> int:
        return len(self.indices if self.ends is None else self.ends)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of set bits of each record."""
        return np.ones(len(self), np.int64) if self.ends is None else np.diff(self.ends, prepend=0)

    def part(self, start: int, stop: int) -> "SetBits":
        """Return the records from ``start`` to before ``stop``, without copying the indices."""
        if self.ends is None:
            return SetBits(self.indices[start:stop])
        first = int(self.ends[start - 1]) if start else 0
        ends = self.ends[start:stop] - first
        return SetBits(self.indices[first : first + int(ends[-1])] if ends.size else self.indices[:0], ends)

    def pack(self, width: int) -> NDArray[np.uint8]:
        """Return the same records as packed rows."""
        size = -(-width // 8)
        check_memory(f"{len(self):,} records of {width:,} bits", len(self) * size)
        rows = np.zeros(len(self) * size, np.uint8)
        cells = np.repeat(np.arange(len(self)) * size, self.sizes) + (self.indices >> 3)
        # The bits of a record are distinct, so adding them sets them.
        np.add.at(rows, cells, np.left_shift(1, self.indices & 7).astype(np.uint8))
        return rows.reshape(-1, size)

    def check(self, schema: Schema) -> None:
        """Raise unless the schema allows all records."""
        if schema.dense:
            reject("records", f"be stored as Packed for {schema}")
        if self.indices.dtype != np.uint32 or self.indices.ndim != 1:
            reject("indices", "be a vector of type uint32")
        if self.indices.size and int(self.indices.max()) >= schema.width:
            reject("indices", f"be below {schema.width:,}")
        if (self.ends is None) != schema.exclusive:
            reject("ends", "be None for one-hot schemas, and only for those")
        if self.ends is None:
            return
        if schema.named:
            self._check_answers(schema)
            return
        sizes = self.sizes
        if (sizes < 0).any() or int(sizes.sum()) != self.indices.size:
            reject("ends", "ascend to the number of indices")
        check_sizes(sizes, schema)
        cells = np.repeat(np.arange(len(self)) * schema.width, sizes) + self.indices
        if (np.diff(cells) <= 0).any():
            reject("indices", "ascend within each record")

    def _check_answers(self, schema: Schema) -> None:
        """Raise unless every record has exactly one category of every attribute of a survey, in their order."""
        assert self.ends is not None
        count = len(schema.attributes)
        if self.indices.size != count * len(self) or not np.array_equal(
            self.ends, np.arange(count, self.indices.size + 1, count)
        ):
            reject("ends", f"give every record one category of each of {count:,} attributes")
        answers = self.indices.reshape(-1, count)
        starts = np.array([one.start for one in schema.attributes], np.uint32)
        sizes = np.array([one.size for one in schema.attributes], np.uint32)
        # A category before the start becomes a large number by the unsigned subtraction.
        wrong = (answers - starts >= sizes).any(axis=1)
        if wrong.any():
            raise InvalidRecord(int(wrong.argmax()) + 1, "must have exactly one category of every attribute")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bodies:
    """Records stored as the bodies of one string each, or of nothing."""

    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> "Bodies":
        """Return the records from ``start`` to before ``stop``, without copying."""
        return Bodies(self.rows[start:stop])

    def check(self, schema: Schema) -> None:
        """Raise unless the schema allows all records."""
        size = schema.text.size if schema.text is not None else 0
        if self.rows.dtype != np.uint8 or self.rows.ndim != 2 or self.rows.shape[1] != size:
            reject("records", f"be bodies of {size:,} bytes for {schema}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Collection:
    """Raw records of people, accepted by ``randomize``; has no wire format, no pickle, and a repr without data.

    >>> Collection.from_values(["red", "blue", "red"], Schema.one_hot(["red", "green", "blue"]))
    Collection(3 records of Schema.one_hot(3 labels))
    """

    schema: Schema
    records: Packed | SetBits | Bodies
    """Packed for schemas in which any bits may be set, bodies for strings, otherwise lists of set bits."""

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        if not isinstance(self.records, Packed | SetBits | Bodies):
            reject("records", f"be Packed or SetBits, not {kind_of(self.records)}; use Collection.from_values")
        if isinstance(self.records, Bodies) != (self.schema.text is not None):
            reject("records", f"be stored as {'Bodies' if self.schema.text else 'Packed or SetBits'} for {self.schema}")
        self.records.check(self.schema)

    @classmethod
    def from_values(cls, values: Any, schema: Schema, *, entropy: Entropy = system) -> Self:
        """Encode values: one label each for one-hot schemas, otherwise the list of the labels that are set.

        Lists, numpy arrays of strings or objects, Arrow arrays, and series of pandas, polars and others hold labels, or
        lists of labels. A frame or table has one such column, or a column of 0 and 1, or of booleans, for every label.
        A numpy array of integers holds the indices of labels (one-hot schemas only), and a two-dimensional one of 0 and
        1, or of booleans, the bits. Schemas of a single bit also accept booleans. Arrow and frames need the extra
        ``frames``. A survey takes a frame, a table or a mapping with a column for every question, or a list of mappings
        from questions to answers; its numbers are rounded at random, which is what ``entropy`` is for. A schema of
        strings takes a list, an array, a series or a frame of one column; None stands for a person without a string.

        >>> Collection.from_values([["a"], [], ["a", "b"]], Schema.bits(["a", "b"])).rows(0, 3).tolist()
        [[1], [0], [3]]
        """
        check_type("schema", schema, Schema)
        check_entropy(entropy)
        if schema.text is not None:
            encoded = encode_strings(listed(values), schema.text)
        elif schema.named:
            encoded = encode_answers(values, schema, entropy=entropy)
        elif isinstance(values, np.ndarray):
            encoded = encode_array(values, schema)
        elif is_columnar(values):
            encoded = encode_columnar(values, schema)
        elif isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            reject("values", f"be a list, an array, a series or a data frame, not {kind_of(values)}")
        else:
            encoded = encode_sequence(values if isinstance(values, Sequence) else list(values), schema)
        return cls(schema, stored(encoded, schema))

    @classmethod
    def from_packed(cls, rows: NDArray[np.uint8], schema: Schema) -> Self:
        """Copy packed records: C-ordered uint8 rows of ⌈width/8⌉ bytes, bit i in bit i mod 8 of byte i div 8."""
        if check_type("schema", schema, Schema).text is not None:
            reject("schema", f"have labels, got {schema}; use Collection.from_values")
        packed = Packed(check_records(rows, schema.width, "rows"))
        if schema.dense:
            return cls(schema, Packed(_frozen(rows.copy())))
        records = packed.set_bits(schema.width)
        check_sizes(records.sizes, schema)
        return cls(schema, _sparse(records, schema))

    @classmethod
    def concatenate(cls, parts: Sequence["Collection"]) -> Self:
        """Return all records of the parts, which must have one schema, in their order.

        >>> schema = Schema.one_hot(["red", "blue"])
        >>> Collection.concatenate([Collection.from_values([colour], schema) for colour in ("red", "blue")])
        Collection(2 records of Schema.one_hot(2 labels))
        """
        if not isinstance(parts, Sequence) or not all(isinstance(part, Collection) for part in parts):
            reject("parts", "be a list of collections")
        if not parts or any(part.schema is not parts[0].schema and part.schema != parts[0].schema for part in parts):
            reject("parts", "be at least one collection, all of the same schema")
        schema, records = parts[0].schema, [part.records for part in parts]
        if schema.text is not None:
            return cls(schema, Bodies(np.concatenate([one.rows for one in records if isinstance(one, Bodies)])))
        if schema.dense:
            return cls(schema, Packed(np.concatenate([one.rows for one in records if isinstance(one, Packed)])))
        lists = [one for one in records if isinstance(one, SetBits)]
        indices = np.concatenate([one.indices for one in lists])
        ends = None if schema.exclusive else np.cumsum(np.concatenate([one.sizes for one in lists]))
        return cls(schema, SetBits(indices, ends))

    def rows(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the records from ``start`` to before ``stop`` as packed rows."""
        part = self.records.part(check_whole("start", start), check_whole("stop", stop))
        return part.pack(self.schema.width) if isinstance(part, SetBits) else np.ascontiguousarray(part.rows)

    def ones(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the set bits, and their number, of the records from ``start`` to before ``stop``."""
        part = self.records.part(check_whole("start", start), check_whole("stop", stop))
        if isinstance(part, Bodies):
            reject("the schema", "have labels, but its strings are not listed")
        lists = part.set_bits(self.schema.width) if isinstance(part, Packed) else part
        return lists.indices.astype(np.int64), lists.sizes

    def counts(self) -> NDArray[np.int64]:
        """Return the number of records with each label."""
        if isinstance(self.records, Bodies):
            reject("the schema", "have labels, but its strings are not listed")
        if isinstance(self.records, Packed):
            return bit_counts(self.records.rows, self.schema.width)
        return np.bincount(self.records.indices, minlength=self.schema.width).astype(np.int64)

    def blocks(self, size: int) -> Iterator[Self]:
        """Yield the collection in parts of at most ``size`` records, without copying."""
        for start in range(0, len(self), check_whole("size", size, 1)):
            yield type(self)(self.schema, self.records.part(start, start + size))

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"Collection({len(self):,} records of {self.schema})"

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Collection has no wire format: randomize it first")


def stored(encoded: Encoded, schema: Schema) -> Packed | SetBits | Bodies:
    """Return encoded records in the form that the schema needs; raises the first of their problems."""
    if encoded.problems:
        raise encoded.problems[0]
    if schema.text is not None:
        assert encoded.rows is not None
        return Bodies(_frozen(encoded.rows))
    if encoded.rows is not None:
        return Packed(_frozen(encoded.rows))
    assert encoded.indices is not None
    indices = _frozen(encoded.indices.astype(np.uint32, copy=False))
    if schema.exclusive:
        return SetBits(indices)
    sizes = np.ones(encoded.n, np.int64) if encoded.sizes is None else encoded.sizes
    records = SetBits(indices, np.cumsum(sizes))
    return Packed(_frozen(records.pack(schema.width))) if schema.dense else records


def check_sizes(sizes: NDArray[np.int64], schema: Schema) -> None:
    """Raise :class:`InvalidRecord` unless the schema allows records with these numbers of set bits."""
    bad = np.flatnonzero((sizes < schema.min_set) | (sizes > schema.max_set))
    if bad.size:
        raise InvalidRecord(int(bad[0]) + 1, limit_text(schema))


def _sparse(records: SetBits, schema: Schema) -> SetBits:
    return SetBits(_frozen(records.indices), None if schema.exclusive else records.ends)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
