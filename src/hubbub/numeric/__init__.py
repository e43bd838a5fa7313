"""Pure functions of numbers and arrays: distributions, divergences, estimators, inversion, rounding.

No randomness and no I/O live here; import-linter holds that. Every function states its formula, where the formula
comes from, and, if its value certifies something, in which direction it errs.
"""
