"""The statements of [004] (May 2020): single bits in a mix-net, clear records among fakes, and flipped ones."""

from research.notes.statements import note004_bits, note004_fakes, note004_zeros
from research.notes.statements.catalogue import Statement

STATEMENTS: tuple[Statement, ...] = (
    *note004_bits.STATEMENTS,
    *note004_zeros.STATEMENTS,
    *note004_fakes.STATEMENTS,
)
