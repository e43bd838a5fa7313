"""Encoding of single messages (``messages``) and of batches of reports in ``.hub`` files (``batches``).

Both formats are versioned and have a magic number of their own. Every value has exactly one encoding; decoders reject
all other bytes. All numbers are little-endian. docs/wire.md specifies the formats, and ``hubbub.vectors`` has test
vectors for clients in other languages. ``messages`` does not need numpy.
"""
