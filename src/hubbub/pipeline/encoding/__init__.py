"""Encoding of values as records: lists, numpy arrays, Arrow data and data frames become label indices or packed bits.

Every encoder finds all invalid records of its input, so that callers may raise the first problem, or repair all.
"""
