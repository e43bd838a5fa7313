"""The statements of [003] (December 2017): sufficient privacy, the ratio of the homogeneous pair, noise, precision."""

from research.notes.statements import note003_noise, note003_ratio
from research.notes.statements.catalogue import Statement

STATEMENTS: tuple[Statement, ...] = (*note003_ratio.STATEMENTS, *note003_noise.STATEMENTS)
