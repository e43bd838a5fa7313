"""The statements of [002] (December 2015): single bits, the rule of three deviations, and k copies."""

from research.notes.statements import note002_copies, note002_proofs, note002_rule
from research.notes.statements.catalogue import Statement

STATEMENTS: tuple[Statement, ...] = (*note002_proofs.STATEMENTS, *note002_rule.STATEMENTS, *note002_copies.STATEMENTS)
