"""The statements of [000] (May 2016): the law of shuffled bit vectors, their ratios, and single bits in closed form."""

from research.notes.statements import note000_law, note000_limits, note000_ratio, note000_single, note000_steps
from research.notes.statements.catalogue import Statement

STATEMENTS: tuple[Statement, ...] = (
    *note000_law.STATEMENTS,
    *note000_ratio.STATEMENTS,
    *note000_steps.STATEMENTS,
    *note000_single.STATEMENTS,
    *note000_limits.STATEMENTS,
)
