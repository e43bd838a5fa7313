"""``Collection``: people's raw records, which never leave the process that created them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts
from hubbub.bits.records import check_records
from hubbub.errors import InvalidRecord, check_memory, check_type, check_whole, kind_of, reject
from hubbub.schema import Schema

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
        sizes = self.sizes
        if (sizes < 0).any() or int(sizes.sum()) != self.indices.size:
            reject("ends", "ascend to the number of indices")
        check_sizes(sizes, schema)
        cells = np.repeat(np.arange(len(self)) * schema.width, sizes) + self.indices
        if (np.diff(cells) <= 0).any():
            reject("indices", "ascend within each record")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Collection:
    """Raw records of people, accepted by ``randomize``; has no wire format, no pickle, and a repr without data.

    >>> Collection.from_values(["red", "blue", "red"], Schema.one_hot(["red", "green", "blue"]))
    Collection(3 records of Schema.one_hot(3 labels))
    """

    schema: Schema
    records: Packed | SetBits
    """Packed for schemas in which any bits may be set, otherwise lists of set bits."""

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        if not isinstance(self.records, Packed | SetBits):
            reject("records", f"be Packed or SetBits, not {kind_of(self.records)}; use Collection.from_values")
        self.records.check(self.schema)

    @classmethod
    def from_values(cls, values: Iterable[Any] | NDArray[Any], schema: Schema) -> Self:
        """Encode values: one label each for one-hot schemas, otherwise the list of the labels that are set.

        An integer array holds the indices of labels (one-hot schemas only). A two-dimensional array of 0 and 1, or of
        booleans, holds the bits. Schemas of a single bit also accept a list of booleans.

        >>> Collection.from_values([["a"], [], ["a", "b"]], Schema.bits(["a", "b"])).rows(0, 3).tolist()
        [[1], [0], [3]]
        """
        check_type("schema", schema, Schema)
        if isinstance(values, np.ndarray):
            if values.ndim == 1 and schema.exclusive:
                return cls._from_indices(values, schema)
            if values.ndim == 1 and schema.width == 1 and values.dtype == np.bool_:
                return cls._from_bits(values[:, None], schema)
            return cls._from_bits(values, schema)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            reject("values", f"be a list or an array, not {kind_of(values)}")
        return cls._from_labels(values if isinstance(values, Sequence) else list(values), schema)

    @classmethod
    def from_packed(cls, rows: NDArray[np.uint8], schema: Schema) -> Self:
        """Copy packed records: C-ordered uint8 rows of ⌈width/8⌉ bytes, bit i in bit i mod 8 of byte i div 8."""
        check_type("schema", schema, Schema)
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
        if schema.dense:
            return cls(schema, Packed(np.concatenate([one.rows for one in records if isinstance(one, Packed)])))
        lists = [one for one in records if isinstance(one, SetBits)]
        indices = np.concatenate([one.indices for one in lists])
        ends = None if schema.exclusive else np.cumsum(np.concatenate([one.sizes for one in lists]))
        return cls(schema, SetBits(indices, ends))

    @classmethod
    def _from_indices(cls, indices: NDArray[Any], schema: Schema) -> Self:
        if indices.dtype.kind not in "iu":
            reject("values", f"be an integer array of label indices, not of type {indices.dtype}")
        if (bad := np.flatnonzero((indices < 0) | (indices >= schema.width))).size:
            raise InvalidRecord(int(bad[0]) + 1, f"has an index outside [0, {schema.width - 1}]")
        return cls(schema, SetBits(_frozen(indices.astype(np.uint32))))

    @classmethod
    def _from_bits(cls, bits: NDArray[Any], schema: Schema) -> Self:
        if bits.ndim != 2 or bits.shape[1] != schema.width:
            reject("values", f"be an array of shape (n, {schema.width})", bits.shape)
        if bits.dtype.kind not in "biu":
            reject("values", f"be an array of 0 and 1 or of booleans, not of type {bits.dtype}")
        if bits.dtype.kind != "b" and (bad := np.flatnonzero(((bits != 0) & (bits != 1)).any(axis=1))).size:
            raise InvalidRecord(int(bad[0]) + 1, "has a value other than 0 and 1")
        return cls.from_packed(np.packbits(bits.astype(np.bool_), axis=1, bitorder="little"), schema)

    @classmethod
    def _from_labels(cls, values: Sequence[Any], schema: Schema) -> Self:
        index = {label: i for i, label in enumerate(schema.labels)}
        if schema.width == 1 and values and all(isinstance(value, bool | np.bool_) for value in values):
            return cls._from_bits(np.array(values, np.bool_)[:, None], schema)
        if schema.exclusive:
            try:
                return cls._from_indices(np.fromiter(map(index.__getitem__, values), np.int64, len(values)), schema)
            except (KeyError, TypeError):
                _refuse_label(values, schema)
        try:
            if any(isinstance(value, str | bytes) for value in values):
                _refuse_list(values, schema)
            chosen = [sorted(map(index.__getitem__, value)) for value in values]
        except (KeyError, TypeError):
            _refuse_list(values, schema)
        for place, row in enumerate(chosen):
            if any(a == b for a, b in itertools.pairwise(row)):
                raise InvalidRecord(place + 1, "has a label twice")
        sizes = np.fromiter(map(len, chosen), np.int64, len(chosen))
        check_sizes(sizes, schema)
        flat = np.fromiter(itertools.chain.from_iterable(chosen), np.uint32, int(sizes.sum()))
        records = SetBits(flat, np.cumsum(sizes))
        if schema.dense:
            return cls(schema, Packed(_frozen(records.pack(schema.width))))
        return cls(schema, _sparse(records, schema))

    def rows(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the records from ``start`` to before ``stop`` as packed rows."""
        part = self.records.part(check_whole("start", start), check_whole("stop", stop))
        return np.ascontiguousarray(part.rows) if isinstance(part, Packed) else part.pack(self.schema.width)

    def ones(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the set bits, and their number, of the records from ``start`` to before ``stop``."""
        part = self.records.part(check_whole("start", start), check_whole("stop", stop))
        lists = part.set_bits(self.schema.width) if isinstance(part, Packed) else part
        return lists.indices.astype(np.int64), lists.sizes

    def counts(self) -> NDArray[np.int64]:
        """Return the number of records with each label."""
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


def check_sizes(sizes: NDArray[np.int64], schema: Schema) -> None:
    """Raise :class:`InvalidRecord` unless the schema allows records with these numbers of set bits."""
    bad = np.flatnonzero((sizes < schema.min_set) | (sizes > schema.max_set))
    if bad.size:
        many = f"has more labels than max_set = {schema.max_set:,} allows"
        problem = "must have exactly one label" if schema.exclusive else many
        raise InvalidRecord(int(bad[0]) + 1, problem)


def _sparse(records: SetBits, schema: Schema) -> SetBits:
    return SetBits(_frozen(records.indices), None if schema.exclusive else records.ends)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _refuse_label(values: Sequence[Any], schema: Schema) -> NoReturn:
    known = set(schema.labels)
    place = next(i for i, value in enumerate(values) if not isinstance(value, str) or value not in known)
    if isinstance(values[place], str):
        raise InvalidRecord(place + 1, f"has a label that is not in the schema ({schema.label_summary})")
    raise InvalidRecord(place + 1, f"must be a label, not {kind_of(values[place])}")


def _refuse_list(values: Sequence[Any], schema: Schema) -> NoReturn:
    known = set(schema.labels)
    for place, value in enumerate(values):
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise InvalidRecord(place + 1, f"must be a list of labels, not {kind_of(value)}")
        if not all(isinstance(label, str) and label in known for label in value):
            raise InvalidRecord(place + 1, f"has a label that is not in the schema ({schema.label_summary})")
    reject("values", f"each be a list of labels of the schema ({schema.label_summary})")
