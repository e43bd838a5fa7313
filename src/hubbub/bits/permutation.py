"""Secure uniform permutations: under the given entropy, all orders of a batch are exactly equally likely.

Three algorithms: sorting by random keys (numpy); scattering into random buckets and shuffling each (compiled, the extra
``fast``); scattering into files and shuffling each (batches larger than memory). They use entropy differently, so one
seed gives three permutations; the choice of the algorithm never depends on what is installed.
"""

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw, fill, system
from hubbub.errors import check_memory, check_whole, load_extra, reject

_BUCKETS = 64
"""A power of two; with more, the scattered writes would miss the cache or open too many files."""
_WIDTH = 10
"""Binary digits of numbers that leave enough of 16 and 32 bits for random ones."""
_FEW = 1 << 16
"""Numbers whose keys of 4 bytes fit into the cache of a core."""


def permutation(n: int, *, entropy: Entropy = system, fast: bool = False) -> NDArray[np.int64]:
    """Return a uniform permutation of 0 … n−1.

    The order of independent uniform binary fractions, of which as many digits are drawn as are needed to distinguish
    them: a 64-bit word holds the first digits and the index, and ties are resolved by 64 further digits until none are
    left. ``fast`` scatters into 64 buckets (Rao 1961; Sandelius 1962) and runs Fisher–Yates in each with Lemire's
    unbiased bounded integers (2019); it needs the extra ``fast``, and a second to compile.
    Memory: 17 bytes per entry with either algorithm.

    >>> sorted(permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    n = check_whole("n", n)
    check_memory(f"the permutation of {n:,} records", 17 * n)
    if fast:
        return _scatter(np.arange(n, dtype=np.uint64), entropy).view(np.int64)
    return _sort(n, 64, entropy)


def shuffle(records: NDArray[Any], *, entropy: Entropy = system, fast: bool = False) -> NDArray[Any]:
    """Return a copy of the records, the rows of an array, in uniform random order.

    By :func:`permutation`; ``fast`` moves records of up to 8 bytes directly, which makes it worthwhile.
    Memory: the copy and 17 bytes per record.

    >>> np.sort(shuffle(np.array([[3, 4], [1, 2]]))[:, 0]).tolist()
    [1, 3]
    """
    if not isinstance(records, np.ndarray) or records.ndim == 0:
        reject("records", "be an array of rows")
    size = records[:1].nbytes
    if fast and 0 < size <= 8:
        rows = np.ascontiguousarray(records).reshape(-1).view(f"V{size}")
        cell = np.dtype({"names": ["row"], "formats": [f"V{size}"], "itemsize": 8})
        words = rows.view(cell) if size == 8 else np.zeros(len(rows), cell)
        if size < 8:
            words["row"] = rows
        mixed = _scatter(words.view(np.uint64), entropy).view(cell)["row"]
        return np.ascontiguousarray(mixed).view(records.dtype).reshape(records.shape)
    if not fast and (width := _small(records)) is not None:
        return _sort_small(records, width, entropy)
    return np.take(records, permutation(len(records), entropy=entropy, fast=fast), axis=0)


def shuffle_external(
    blocks: Iterable[NDArray[Any]],
    scratch: Callable[[], BinaryIO],
    *,
    memory: int = 1 << 28,
    entropy: Entropy = system,
    fast: bool = False,
) -> Iterator[NDArray[Any]]:
    """Yield the rows of all blocks together in uniform random order, as new blocks.

    ``scratch`` opens an empty file for writing and reading, such as ``tempfile.TemporaryFile``; it is called 64 times,
    and 64 more times for each bucket that is too large; all files are closed at the end. Each row goes to a uniform
    random file, each file is shuffled in memory, or recursively if it is too large, and the files are concatenated:
    uniform for any sizes of the files (Rao 1961; Sandelius 1962).
    Memory: ``memory`` bytes in addition to the current block.

    >>> import tempfile
    >>> blocks = (np.arange(i, i + 10) for i in range(0, 50, 10))
    >>> np.sort(np.concatenate(list(shuffle_external(blocks, tempfile.TemporaryFile)))).tolist() == list(range(50))
    True
    """
    memory = check_whole("memory", memory, 1 << 16)
    sample: NDArray[Any] | None = None
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(scratch()) for _ in range(_BUCKETS)]
        sizes = np.zeros(_BUCKETS, np.int64)
        step = 1
        for block in blocks:
            if sample is None:
                sample = block[:0].copy()
                step = _rows(sample, memory)
            if block.dtype != sample.dtype or block.shape[1:] != sample.shape[1:]:
                must = f"all have rows of {sample.dtype} and shape {sample.shape[1:]}"
                reject("blocks", f"{must}, not {block.dtype} and {block.shape[1:]}")
            for start in range(0, len(block), step):
                sizes += _spread(block[start : start + step], files, entropy)
        for file, size in zip(files, sizes.tolist(), strict=True):
            if sample is None or not size:
                continue
            file.seek(0)
            if size <= step:
                yield shuffle(_read(file, size, sample), entropy=entropy, fast=fast)
            else:
                parts = (_read(file, min(step, size - start), sample) for start in range(0, size, step))
                yield from shuffle_external(parts, scratch, memory=memory, entropy=entropy, fast=fast)
            file.close()


def _rows(sample: NDArray[Any], memory: int) -> int:
    """Return the number of rows that fit into memory twice, together with a permutation of them."""
    size = sample.dtype.itemsize * int(np.prod(sample.shape[1:]))
    rows = memory // (2 * size + 17)
    if rows < 2 * _BUCKETS:
        reject("memory", f"hold at least {2 * _BUCKETS} records of {size} bytes", memory)
    return rows


def _spread(rows: NDArray[Any], files: list[BinaryIO], entropy: Entropy) -> NDArray[np.int64]:
    bucket = _buckets(len(rows), entropy)
    if (width := _small(rows)) is not None:
        # The order within a bucket does not matter, so the rows themselves are a part of what is sorted.
        keys = np.left_shift(bucket, width, dtype=np.uint16)
        keys |= rows
        keys.sort()
        keys &= np.uint16((1 << width) - 1)
        rows = keys.astype(rows.dtype)
    else:
        rows = np.take(rows, np.argsort(bucket, kind="stable"), axis=0)
    sizes = np.bincount(bucket, minlength=_BUCKETS)
    for file, part in zip(files, np.split(rows, np.cumsum(sizes)[:-1]), strict=True):
        file.write(part.tobytes())
    return sizes


def _buckets(n: int, entropy: Entropy) -> NDArray[np.uint8]:
    bucket = draw(entropy, n, np.uint8)
    bucket &= _BUCKETS - 1
    return bucket


def _read(file: BinaryIO, rows: int, sample: NDArray[Any]) -> NDArray[Any]:
    array = np.empty((rows, *sample.shape[1:]), sample.dtype)
    data = file.read(array.nbytes)
    if len(data) != array.nbytes:
        reject("scratch", f"return the {array.nbytes:,} bytes written to it", len(data))
    return np.frombuffer(data, sample.dtype).reshape(array.shape)


def _sort(n: int, bits: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return the order of n random keys; key and index share ``bits`` bits, so that fewer bits make more ties."""
    low = np.uint64(max(1, (n - 1).bit_length()))
    keys = draw(entropy, n)
    keys >>= np.uint64(64 - bits) + low
    keys <<= low
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    order = (keys & ((np.uint64(1) << low) - np.uint64(1))).view(np.int64)
    keys >>= low
    _repair(order, keys, entropy)
    return order


def _small(records: NDArray[Any]) -> int | None:
    """Return the binary digits of the largest of many small numbers, or None if the records are anything else."""
    if records.ndim != 1 or records.dtype not in (np.uint8, np.uint16) or len(records) < _FEW:
        return None
    width = int(records.max()).bit_length()
    return width if width <= _WIDTH else None


def _sort_small(records: NDArray[Any], width: int, entropy: Entropy) -> NDArray[Any]:
    """Return small numbers in uniform random order: sorted by random digits in front of their own.

    Short keys sort fastest, and so do few of them: each number goes to a uniform random bucket first, and each bucket
    is put into uniform order (Rao 1961; Sandelius 1962). Numbers with the same random digits have new ones drawn.
    """
    mixed, sizes = _bucketed(records, width, entropy)
    whole, most, ties = 255 if records.itemsize == 1 else (1 << width) - 1, int(sizes.max()), []
    keys, differences, tied = np.empty(most, "<u4"), np.empty(most, "<u4"), np.empty(most, np.bool_)
    end = 0
    for size in sizes.tolist():
        start, end = end, end + size
        own = keys[:size]
        fill(entropy, own)
        if records.itemsize == 1:
            own.view(np.uint8)[::4] = mixed[start:end]  # the lowest byte
        else:
            own &= np.uint32(0xFFFFFFFF - whole)
            own |= mixed[start:end]
        own.sort()
        mixed[start:end] = own  # the lowest byte, or two
        pairs = slice(max(size - 1, 0))
        np.bitwise_xor(own[1:], own[:-1], out=differences[pairs])
        np.less_equal(differences[pairs], np.uint32(whole), out=tied[pairs])
        ties.append(np.flatnonzero(tied[pairs]) + start)
    if whole < np.iinfo(mixed.dtype).max:
        mixed &= mixed.dtype.type(whole)
    _resolve(mixed, np.concatenate(ties), entropy)
    return mixed


def _bucketed(records: NDArray[Any], width: int, entropy: Entropy) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return small numbers in uniform random buckets, sorted within each, and the sizes of the buckets."""
    levels = min(16 - width, (len(records) // _FEW).bit_length())
    counts = np.zeros(1 << levels + width, np.int64)
    kind: Any = np.uint8 if levels <= 8 else np.uint16
    buckets: NDArray[Any] = np.empty(4 * _FEW, kind)
    keys = np.empty(4 * _FEW, np.uint16)
    for start in range(0, len(records), 4 * _FEW):
        part = records[start : start + 4 * _FEW]
        bucket, key = buckets[: part.size], keys[: part.size]
        fill(entropy, bucket)
        bucket >>= kind(8 * bucket.itemsize - levels)
        np.left_shift(bucket, width, out=key, dtype=np.uint16)
        key |= part
        counts += np.bincount(key, minlength=counts.size)
    numbers = np.tile(np.arange(1 << width, dtype=records.dtype), 1 << levels)
    return np.repeat(numbers, counts), counts.reshape(1 << levels, -1).sum(axis=1)


def _repair(order: NDArray[Any], keys: NDArray[Any], entropy: Entropy) -> None:
    """Put each run of equal sorted keys into uniform order, by further digits for its members."""
    _resolve(order, np.flatnonzero(keys[1:] == keys[:-1]), entropy)


def _resolve(order: NDArray[Any], ties: NDArray[np.int64], entropy: Entropy) -> None:
    """Put each run of ties into uniform order; a tie i has the same key at i and i + 1."""
    if not ties.size:
        return
    where = np.union1d(ties, ties + 1)
    run, further = np.cumsum(~np.isin(where - 1, ties)), draw(entropy, where.size)
    by = np.lexsort((further, run))
    run, further = run[by], further[by]
    tied = order[where[by]]
    _repair(tied, np.cumsum(np.r_[True, (run[1:] != run[:-1]) | (further[1:] != further[:-1])]), entropy)
    order[where] = tied


def _scatter(records: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.uint64]:
    load_extra("numba", "fast", "Fast shuffling")
    loops = importlib.import_module("hubbub.bits.compiled")
    mixed = np.empty_like(records)
    ends = loops.scatter(records, _buckets(records.size, entropy), mixed, _BUCKETS)
    for start, end in zip([0, *ends], ends, strict=False):
        left = end - start
        while left > 1:
            # A few more words than a bucket needs on average: a word is rejected with probability below left/2³².
            left = loops.fisher_yates(mixed[start:end], left, draw(entropy, left + 8, np.uint32))
    return mixed
