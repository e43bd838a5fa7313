"""Packed bits: entropy streams, exact coins, flipping, counting and permutations at memory speed.

The room below all data: it knows bits and records, but no schema, plan or privacy. Everything random takes ``entropy``
as an argument; every probability is a whole numerator over 2⁴⁸; every routine states its peak memory. Only numpy and
``cryptography`` are needed; ``device`` needs neither.
"""
