"""``Collection``: people's raw records, which never leave the process that created them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.records import check_records
from hubbub.errors import check_memory, check_whole, reject
from hubbub.schema import Schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Collection:
    """Raw records of people, for ``randomize`` and nothing else: no wire form, no pickle, and a repr without data.

    Records of any bits are kept packed. Of one-hot records and of those with at most some bits set, the numbers of the
    set bits are kept, so that their size does not depend on the width.

    >>> Collection.from_values(["red", "blue", "red"], Schema.one_hot(["red", "green", "blue"]))
    Collection(3 records of Schema.one_hot(3 labels))
    """

    schema: Schema
    n: int
    data: NDArray[Any]
    """Packed records; or the set bits, numbered, of one record after the other."""
    ends: NDArray[np.int64] | None = None
    """Where the set bits of each record end, if records may have several."""

    def __post_init__(self) -> None:
        width = self.schema.width
        if self.schema.dense:
            legal = self.ends is None and len(check_records(self.data, width)) == self.n
        else:
            legal = self.data.dtype == np.uint32 and self.data.ndim == 1
            legal = legal and (not self.data.size or int(self.data.max()) < width)
            legal = legal and (self.ends is None) == (self.schema.exclusive)
            if legal and self.ends is None:
                legal = self.data.size == self.n
            elif legal and self.ends is not None:
                ones = np.diff(self.ends, prepend=0)
                legal = self.ends.size == self.n and int(ones.sum()) == self.data.size
                legal = legal and bool(((ones >= 0) & (ones <= self.schema.max_set)).all())
                cells = np.repeat(np.arange(self.n) * width, ones) + self.data if legal else np.zeros(2)
                legal = legal and bool((np.diff(cells) > 0).all())
        if not legal:
            reject("data", f"be legal records of {self.schema}", "others")

    @classmethod
    def from_values(cls, values: Iterable[Any] | NDArray[Any], schema: Schema) -> Self:
        """Encode values: for one-hot schemas a label each, otherwise the list of the labels that are set.

        An integer array holds the numbers of labels, for one-hot schemas; a two-dimensional array of 0 and 1, or of
        truth values, holds the bits, for all schemas. For a single bit, a list of truth values will do.

        >>> Collection.from_values([["a"], [], ["a", "b"]], Schema.bits(["a", "b"])).rows(0, 3).tolist()
        [[1], [0], [3]]
        """
        if not isinstance(schema, Schema):
            reject("schema", "be a Schema", type(schema).__name__)
        if isinstance(values, np.ndarray):
            if values.ndim == 1 and schema.exclusive:
                return cls._from_numbers(values, schema)
            if values.ndim == 1 and schema.width == 1 and values.dtype == np.bool_:
                return cls._from_bits(values[:, None], schema)
            return cls._from_bits(values, schema)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            reject("values", "be a list or an array", type(values).__name__)
        return cls._from_labels(values if isinstance(values, Sequence) else list(values), schema)

    @classmethod
    def from_packed(cls, records: NDArray[np.uint8], schema: Schema) -> Self:
        """Take packed records, C-ordered uint8 of ⌈width/8⌉ bytes a row, bit i in bit i mod 8 of byte i div 8."""
        if schema.dense:
            return cls(schema, len(records), _frozen(check_records(records, schema.width).copy()))
        ones = np.bitwise_count(check_records(records, schema.width)).sum(axis=1, dtype=np.int64)
        _check_ones(ones, schema)
        step = max(1, (1 << 22) // schema.width)
        parts = [
            np.nonzero(np.unpackbits(records[start : start + step], axis=1, bitorder="little", count=schema.width))[1]
            for start in range(0, len(records), step)
        ]
        return cls._sparse(np.concatenate([*parts, np.empty(0, np.int64)]), ones, schema)

    @classmethod
    def _from_numbers(cls, numbers: NDArray[Any], schema: Schema) -> Self:
        if numbers.dtype.kind not in "iu":
            reject("values", "be whole numbers of labels", str(numbers.dtype))
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < schema.width:
            reject("values", f"be in [0, {schema.width - 1}]", "others")
        return cls(schema, numbers.size, _frozen(numbers.astype(np.uint32)))

    @classmethod
    def _from_bits(cls, bits: NDArray[Any], schema: Schema) -> Self:
        if bits.ndim != 2 or bits.shape[1] != schema.width:
            reject("values", f"be an array of shape (n, {schema.width})", bits.shape)
        if bits.dtype.kind not in "biu" or (bits.dtype.kind != "b" and not ((bits == 0) | (bits == 1)).all()):
            reject("values", "be 0 and 1, or truth values", str(bits.dtype))
        return cls.from_packed(np.packbits(bits.astype(np.bool_), axis=1, bitorder="little"), schema)

    @classmethod
    def _from_labels(cls, values: Sequence[Any], schema: Schema) -> Self:
        number = {label: i for i, label in enumerate(schema.labels)}
        if schema.width == 1 and values and all(isinstance(value, bool | np.bool_) for value in values):
            return cls._from_bits(np.array(values, np.bool_)[:, None], schema)
        if schema.exclusive:
            try:
                return cls._from_numbers(np.fromiter(map(number.__getitem__, values), np.int64, len(values)), schema)
            except (KeyError, TypeError):
                _refuse(values, number, lists=False)
        if any(isinstance(value, str | bytes) for value in values):
            reject("values", "each be a list of labels", "a single string")
        try:
            chosen = [sorted(map(number.__getitem__, value)) for value in values]
        except (KeyError, TypeError):
            _refuse(values, number, lists=True)
        if any(a == b for row in chosen for a, b in itertools.pairwise(row)):
            reject("values", "name each label at most once", "one twice")
        ones = np.fromiter(map(len, chosen), np.int64, len(chosen))
        _check_ones(ones, schema)
        flat = np.fromiter((i for row in chosen for i in row), np.int64, int(ones.sum()))
        if not schema.dense:
            return cls._sparse(flat, ones, schema)
        return cls(schema, len(chosen), _frozen(_pack(flat, ones, schema.width)))

    @classmethod
    def _sparse(cls, flat: NDArray[np.int64], ones: NDArray[np.int64], schema: Schema) -> Self:
        ends = None if schema.exclusive else np.cumsum(ones)
        return cls(schema, ones.size, _frozen(flat.astype(np.uint32)), ends)

    def rows(self, start: int, stop: int) -> NDArray[np.uint8]:
        """The records from ``start`` to before ``stop``, packed."""
        stop = min(stop, self.n)
        if self.schema.dense:
            return np.ascontiguousarray(self.data[start:stop])
        flat, ones = self.ones(start, stop)
        return _pack(flat, ones, self.schema.width)

    def ones(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The set bits of the records from ``start`` to before ``stop``, one after the other, and how many each has."""
        stop = min(stop, self.n)
        if self.schema.dense:
            rows = np.unpackbits(self.data[start:stop], axis=1, bitorder="little", count=self.schema.width)
            return np.nonzero(rows)[1], rows.sum(axis=1, dtype=np.int64)
        if self.ends is None:
            return self.data[start:stop].astype(np.int64), np.ones(stop - start, np.int64)
        ends = self.ends[start:stop]
        first = int(self.ends[start - 1]) if start else 0
        return self.data[first : int(ends[-1]) if ends.size else first].astype(np.int64), np.diff(ends, prepend=first)

    def blocks(self, size: int) -> Iterator[Self]:
        """The collection in parts of at most ``size`` records, for streaming; no data are copied."""
        for start in range(0, self.n, check_whole("size", size, 1)):
            stop = min(start + size, self.n)
            if self.ends is None:
                yield replace(self, n=stop - start, data=self.data[start:stop])
            else:
                first = int(self.ends[start - 1]) if start else 0
                ends = self.ends[start:stop] - first
                yield replace(self, n=stop - start, data=self.data[first : first + int(ends[-1])], ends=ends)

    @classmethod
    def concatenate(cls, parts: Sequence["Collection"]) -> Self:
        """Return the records of several collections of one schema as one collection.

        >>> schema = Schema.one_hot(["red", "blue"])
        >>> Collection.concatenate([Collection.from_values([colour], schema) for colour in ("red", "blue")])
        Collection(2 records of Schema.one_hot(2 labels))
        """
        schema = parts[0].schema if parts else None
        if schema is None or any(part.schema is not schema and part.schema != schema for part in parts):
            reject("parts", "be one or more collections of one schema")
        sizes = np.array([part.data.shape[0] for part in parts])
        starts = (np.cumsum(sizes) - sizes).tolist()
        ends = [part.ends + start for part, start in zip(parts, starts, strict=True) if part.ends is not None]
        data = _frozen(np.concatenate([part.data for part in parts]))
        return cls(schema, sum(map(len, parts)), data, np.concatenate(ends) if ends else None)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Collection({self.n:,} records of {self.schema})"

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Collection has no wire form: randomize it first")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _check_ones(ones: NDArray[np.int64], schema: Schema) -> None:
    if schema.exclusive and (ones != 1).any():
        reject("values", "have exactly one bit set", "others")
    if (ones > schema.max_set).any():
        reject("values", f"have at most {schema.max_set} bits set", "more")


def _pack(flat: NDArray[np.int64], ones: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    size = -(-width // 8)
    check_memory(f"{ones.size} records of {width} bits", ones.size * size)
    records = np.zeros(ones.size * size, np.uint8)
    cells = np.repeat(np.arange(ones.size) * size, ones) + (flat >> 3)
    # Bits of a record are distinct, so that adding them is to set them.
    np.add.at(records, cells, np.left_shift(1, flat & 7).astype(np.uint8))
    return records.reshape(-1, size)


def _refuse(values: Sequence[Any], number: dict[str, int], *, lists: bool) -> NoReturn:
    """Name the place of the first value that is no label, never the value."""

    def legal(value: Any) -> bool:
        inner = value if lists and isinstance(value, Iterable) else [value]
        return all(isinstance(label, str) and label in number for label in inner)

    place = next(place for place, value in enumerate(values) if not legal(value))
    reject(f"value {place}", f"be {'a list of labels' if lists else 'a label'} of the schema", "something else")
