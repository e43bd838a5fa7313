"""The bytes between the parts: single messages (``messages``) and batches of reports in ``.hub`` files (``batches``).

Both are versioned and of fixed size, and there is one encoding of each value: decoders refuse every other. All numbers
are little-endian. The format is described in docs/wire.md, with test vectors for clients in other languages.
``messages`` needs no numpy.
"""
