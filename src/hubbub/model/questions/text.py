"""A question whose answer is a string that nobody listed, and the fixed-size body that holds one.

    0   1  kind: 0 nothing, 1 a whole string, 2 the beginning of a longer one
    1   2  bytes of the string, big-endian
    3   …  the string in UTF-8, then zeros up to ``max_bytes``

All bodies of a collection have one length, so that it reveals nothing. Devices use this module, which needs no numpy.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hubbub.documents import Document, Whole
from hubbub.errors import WireError, kind_of, reject
from hubbub.model.questions.answers import Rule

MAX_BYTES = 4096
PREFIX = 3
"""Bytes of a body before the string."""
NOTHING, WHOLE, CUT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Text(Document):
    """A string that nobody listed: its largest number of bytes in UTF-8, and whether longer ones are cut or refused."""

    kind: ClassVar[str] = "text"
    rule: ClassVar[Rule] = "text"
    max_bytes: Annotated[int, Whole(1, MAX_BYTES)]
    cut: bool = False

    @property
    def unit(self) -> str:
        """The unit of its results."""
        return "people"

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """Labels of its only column: none."""
        return ((),)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels of its only column."""
        return (0,)

    @property
    def max_set(self) -> int:
        """Largest number of strings of one person."""
        return 1

    @property
    def size(self) -> int:
        """Bytes of a body."""
        return PREFIX + self.max_bytes

    def encode(self, value: object) -> bytes:
        """Return the body of a string, or of nothing for None; equal strings have equal bodies.

        A string that is too long is refused, or cut after the last whole character that fits; what is cut differs from
        the shorter string of the same characters. Strings are compared byte by byte: normalize them before.

        >>> Text(4).encode("né"), Text(4, cut=True).encode("naïve"), Text(2).encode(None)
        (b'\\x01\\x00\\x03n\\xc3\\xa9\\x00', b'\\x02\\x00\\x04na\\xc3\\xaf', b'\\x00\\x00\\x00\\x00\\x00')
        """
        if value is None:
            return bytes(self.size)
        if not isinstance(value, str):
            reject("the value", f"be a string, or None for nothing, not {kind_of(value)}")
        try:
            data = value.encode()
        except UnicodeEncodeError:
            reject("the value", "be valid Unicode text, without lone surrogates")
        kind = WHOLE
        if len(data) > self.max_bytes:
            if not self.cut:
                reject("the value", f"have at most {self.max_bytes:,} bytes in UTF-8, got {len(data):,}")
            kind, data = CUT, data[: self.max_bytes].decode(errors="ignore").encode()
        return bytes([kind]) + len(data).to_bytes(2, "big") + data + bytes(self.max_bytes - len(data))

    def decode(self, body: bytes) -> tuple[str, bool] | None:
        """Return the string of a body, and whether it was cut; None for nothing.

        Raises :class:`WireError` on bytes that :meth:`encode` does not return.

        >>> Text(4).decode(b"\\x01\\x00\\x02no\\x00\\x00")
        ('no', False)
        """
        if not isinstance(body, bytes) or len(body) != self.size:
            raise WireError(f"the body of a string must have {self.size:,} bytes")
        kind, length = body[0], int.from_bytes(body[1:PREFIX], "big")
        if kind > CUT or (kind == CUT and not self.cut):
            raise WireError("the kind of a string must be one that its schema allows")
        if length > self.max_bytes or any(body[PREFIX + length :]) or (kind == NOTHING and length):
            raise WireError("a string must be followed by zeros")
        # UTF-8 has up to four bytes a character, so that a cut leaves at most three bytes unused.
        if kind == CUT and length < self.max_bytes - 3:
            raise WireError("a string that was cut must fill its body")
        if kind == NOTHING:
            return None
        try:
            return body[PREFIX : PREFIX + length].decode(), kind == CUT
        except UnicodeDecodeError:
            raise WireError("a string must be valid UTF-8") from None
