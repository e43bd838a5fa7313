"""Packed bits: entropy streams, exact coins, flipping, counting and permutations at memory speed.

This package knows bits and records, but no schema, plan or privacy. Everything random takes ``entropy`` as an argument;
every probability is an integer numerator over 2⁴⁸; every function states its peak memory. It needs only numpy and
``cryptography``; ``device`` and ``exact`` need neither.
"""
