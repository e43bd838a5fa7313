"""Expansion of messages into uniform bytes, ``expand_message_xmd`` of RFC 9380 §5.3.1."""

import hashlib


def expand(message: bytes, tag: bytes, size: int, hash_name: str) -> bytes:
    """Return ``size`` uniform bytes of a message under a domain separation tag.

    >>> expand(b"", b"QUUX-V01-CS02-with-expander-SHA256-128", 32, "sha256").hex()
    '68a985b87eb6b46952128911f2a4412bbc302a9d759667f87f7a21d803f07235'
    """
    block, width = hashlib.new(hash_name).block_size, hashlib.new(hash_name).digest_size
    suffix = tag + bytes([len(tag)])
    first = hashlib.new(hash_name, bytes(block) + message + size.to_bytes(2, "big") + b"\0" + suffix).digest()
    parts = [hashlib.new(hash_name, first + b"\1" + suffix).digest()]
    while width * len(parts) < size:
        mixed = bytes(a ^ b for a, b in zip(first, parts[-1], strict=True))
        parts.append(hashlib.new(hash_name, mixed + bytes([len(parts) + 1]) + suffix).digest())
    return b"".join(parts)[:size]
