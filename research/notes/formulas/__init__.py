"""Formulas of the notes that hubbub itself does not use: ratios, closed-form bounds, tails and estimators."""
