"""Packed records: a batch is a ``uint8`` array in C order with ⌈width/8⌉ bytes per row and zero padding bits.

Bit i of a record is bit i mod 8, least significant first, of byte i div 8 of its row; as a little-endian number, a
record is the sum of 2^i over its set bits. All of hubbub uses this layout.
"""

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.coins import flip_bits
from hubbub.bits.device import GRID_BITS
from hubbub.bits.entropy import Entropy, draw, system
from hubbub.errors import check_memory, check_whole, kind_of, reject


def check_records(records: NDArray[np.uint8], width: int, name: str = "records") -> NDArray[np.uint8]:
    """Return ``records`` if it is a batch of packed records of ``width`` bits.

    Memory: two bytes per record while the padding is checked.

    >>> check_records(np.zeros((2, 2), np.uint8), 40)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: records must be a C-contiguous uint8 array of shape (n, 5), not uint8 of shape (2, 2)
    """
    size = -(-check_whole("width", width, 1) // 8)
    must = f"be a C-contiguous uint8 array of shape (n, {size})"
    if not isinstance(records, np.ndarray):
        reject(name, f"{must}, not {kind_of(records)}")
    if records.dtype != np.uint8 or records.shape[1:] != (size,) or not records.flags.c_contiguous:
        reject(name, f"{must}, not {records.dtype} of shape {records.shape}")
    if width % 8 and (records[:, -1] >> (width % 8)).any():
        reject(name, "have zero padding bits")
    return records


def flip(records: NDArray[np.uint8], width: int, numerator: int, *, entropy: Entropy = system) -> NDArray[np.uint8]:
    """Return the records with every bit flipped independently with probability exactly numerator/2⁴⁸.

    By :func:`hubbub.bits.coins.flip_bits`, which releases the interpreter lock most of the time, so that threads can
    flip different rows in parallel. Memory: the result and at most 9 MiB.

    >>> flip(np.array([[1, 2]], np.uint8), 10, 0).tolist()
    [[1, 2]]
    """
    flipped = check_records(records, width).copy()
    numerator = check_whole("numerator", numerator, 0, (1 << GRID_BITS) - 1)
    flip_bits(flipped.reshape(-1), numerator, entropy)
    return _clear_padding(flipped, width)


def uniform_records(n: int, width: int, *, entropy: Entropy = system) -> NDArray[np.uint8]:
    """Return ``n`` independent records, each uniform among all 2^width. Memory: the result.

    >>> uniform_records(2, 3, entropy=lambda size: bytes([255] * size)).tolist()
    [[7], [7]]
    """
    n, size = check_whole("n", n), -(-check_whole("width", width, 1) // 8)
    check_memory(f"{n:,} records of {width:,} bits", n * size)
    return _clear_padding(draw(entropy, (n, size), np.uint8), width)


def uniform_categories(n: int, categories: int, *, entropy: Entropy = system) -> NDArray[np.int64]:
    """Return ``n`` independent integers, each uniform on [0, categories), by rejection: no modulo bias.

    Draws ⌈log₂ categories⌉ bits and redraws integers that are too large. Memory: 24 bytes per integer.

    >>> uniform_categories(3, 1).tolist()
    [0, 0, 0]
    """
    n, categories = check_whole("n", n), check_whole("categories", categories, 1, 2**62)
    check_memory(f"{n:,} categories", 24 * n)
    bits = (categories - 1).bit_length()
    kind = np.uint32 if bits <= 32 else np.uint64
    # A shift by all 32 bits of a word is undefined; a single category needs no randomness.
    if bits == 0:
        return np.zeros(n, np.int64)
    shift = kind(8 * kind().itemsize - bits)
    values = (draw(entropy, n, kind) >> shift).astype(np.int64)
    while (again := np.flatnonzero(values >= categories)).size:
        values[again] = draw(entropy, again.size, kind) >> shift
    return values


def one_hot(categories: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return packed records with only bit ``categories[i]`` set in row i. Memory: the result and 25 bytes per row.

    >>> one_hot(np.array([0, 9]), 10).tolist()
    [[1, 0], [0, 2]]
    """
    width = check_whole("width", width, 1)
    categories = np.asarray(categories)
    if categories.ndim != 1 or categories.dtype.kind not in "iu":
        reject("categories", f"be a list of whole numbers, not {categories.dtype} of shape {categories.shape}")
    if categories.size and not 0 <= categories.min() <= categories.max() < width:
        reject("categories", f"be in [0, {width - 1:,}]")
    check_memory(f"{categories.size:,} records of {width:,} bits", categories.size * -(-width // 8))
    records = np.zeros((categories.size, -(-width // 8)), np.uint8)
    records[np.arange(categories.size), categories >> 3] = np.left_shift(1, categories & 7)
    return records


def _clear_padding(records: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    if width % 8:
        records[:, -1] &= (1 << width % 8) - 1
    return records
