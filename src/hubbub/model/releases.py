"""The releases of a shuffler: whole records, single bits, categories or strings, and how messages are encoded."""

from dataclasses import dataclass
from typing import Literal

from hubbub.errors import WireError
from hubbub.model.questions.text import PREFIX, Text

Release = Literal["records", "bits", "category", "strings"]
PEOPLE = 4
"""Bytes of the number of people, little-endian, before the body of a string."""


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """The encoding of one message of a release: a packed record, the index of a bit or category, or a string."""

    code: int
    """Identifies the release on the wire."""
    is_index: bool
    is_string: bool = False

    def size(self, width: int) -> int:
        """Return the bytes of a payload, fixed so that its length reveals nothing.

        For strings, ``width`` is the largest number of bytes; the payload is the number of people and the body.

        >>> PAYLOAD_FORMATS["records"].size(12), PAYLOAD_FORMATS["bits"].size(300), PAYLOAD_FORMATS["strings"].size(64)
        (2, 2, 71)
        """
        if self.is_string:
            return PEOPLE + PREFIX + width
        if not self.is_index:
            return -(-width // 8)
        return 1 if width <= 2**8 else 2 if width <= 2**16 else 4

    def check(self, payload: bytes, width: int) -> bytes:
        """Return the payload if it is one that a client can send: the right size, zero padding, an index below width.

        >>> PAYLOAD_FORMATS["bits"].check(bytes([3]), 3)
        Traceback (most recent call last):
        hubbub.errors.WireError: the payload must be an index below 3
        """
        if len(payload) != self.size(width):
            raise WireError(f"the length of the payload must be {self.size(width)}, got {len(payload)}")
        if self.is_string:
            if int.from_bytes(payload[:PEOPLE], "little") != 1:
                raise WireError("the payload must be the string of one person")
            Text(width, cut=True).decode(payload[PEOPLE:])
        elif int.from_bytes(payload, "little") >= self.limit(width):
            raise WireError(
                f"the payload must be an index below {width}"
                if self.is_index
                else "the payload must have zero padding bits"
            )
        return payload

    def limit(self, width: int) -> int:
        """Return the exclusive upper bound of a payload read as a little-endian integer."""
        return width if self.is_index else 1 << width


PAYLOAD_FORMATS: dict[Release, PayloadFormat] = {
    "records": PayloadFormat(code=1, is_index=False),
    "bits": PayloadFormat(code=2, is_index=True),
    "category": PayloadFormat(code=3, is_index=True),
    "strings": PayloadFormat(code=4, is_index=False, is_string=True),
}
