"""Pure functions of numbers and arrays: distributions, divergences, estimators, inversion, rounding.

This package has no randomness and no I/O, which import-linter checks. Every function states its formula, its source
and, if the value certifies something, in which direction it errs.
"""
