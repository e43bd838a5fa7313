"""Slots of strings: everybody who holds a string sends the same bytes, which only the analyzer can open.

    message = kind u8 | string                                  what the function of RFC 9497 is applied to
    output  = VOPRF(tag key of the task and key id, message)
    info    = "hubbub/2 string" | task 16 | key id u16
    plain   = 2 | body                                          the body of :class:`hubbub.model.questions.Text`
    coins   = HMAC-SHA256(output, info | public key of the analyzer | plain)
    slot    = key id u16 | seal(plain; info, coins)             :mod:`hubbub.wire.hpke`

The shuffler counts equal slots and learns nothing else from them. Only somebody who knows a string and had it evaluated
can make its slot, so that nobody tests dictionaries without asking for every word. Task, key id, public key and
plaintext enter the coins: no ephemeral key, and so no nonce, is ever used for two of them. A person who has nothing to
say has random bytes evaluated, and sends a filler with random coins, which equals no other slot.
"""

import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hubbub.bits.device import take
from hubbub.errors import SealError, WireError, check_type, check_whole, reject
from hubbub.model.questions.text import NOTHING, PREFIX, Text
from hubbub.oprf import Evaluation, Key, blind, finalize
from hubbub.wire import hpke

VERSION = 2
INFO, TAG_INFO = b"hubbub/2 string", b"hubbub/2 tags"
KEY_ID_SIZE, TASK_SIZE = 2, 16
MAX_KEY_ID = 2**16 - 1
Source = Callable[[int], bytes]
Evaluate = Callable[[Sequence[bytes]], Evaluation]
"""Sends blinded elements to whoever holds the tag key, and returns the evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StringSlots:
    """The slots of one task under one key of the analyzer."""

    strings: Text
    task: bytes
    key_id: int
    public: bytes
    """The analyzer's X25519 key, to which slots are sealed."""
    info: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_type("strings", self.strings, Text)
        for name, size in (("task", TASK_SIZE), ("public", hpke.KEY_SIZE)):
            value = getattr(self, name)
            if not isinstance(value, bytes) or len(value) != size:
                reject(name, f"have {size} bytes")
        check_whole("key_id", self.key_id, 0, MAX_KEY_ID)
        object.__setattr__(self, "info", INFO + self.task + self._key_bytes)

    @property
    def _key_bytes(self) -> bytes:
        return self.key_id.to_bytes(KEY_ID_SIZE, "big")

    @property
    def size(self) -> int:
        """Bytes of a slot.

        >>> StringSlots(strings=Text(64), task=bytes(16), key_id=1, public=bytes(32)).size
        118
        """
        return KEY_ID_SIZE + hpke.OVERHEAD + 1 + self.strings.size

    def make(
        self, value: str | None, suite: str, tag_public: bytes, evaluate: Evaluate, *, entropy: Source = os.urandom
    ) -> bytes:
        """Return the slot of a string, after one evaluation whose proof is checked against the published tag key.

        A person without a string asks for an evaluation too, of random bytes, and sends a filler. Otherwise the number
        of evaluations would be the number of people who have a string.
        """
        body = self.strings.encode(value)
        asked = blind(suite, take(entropy, 32) if value is None else message(body))
        output = finalize([asked], evaluate([asked.element]), tag_public)[0]
        return self.filler(entropy=entropy) if value is None else self.sealed(body, output)

    def sealed(self, body: bytes, output: bytes) -> bytes:
        """Return the slot of a body, given the output of the pseudorandom function for its message."""
        plain = bytes([VERSION]) + body
        coins = hmac.digest(output, self.info + self.public + plain, "sha256")
        return self._key_bytes + hpke.seal(plain, self.public, self.info, coins)

    def filler(self, *, entropy: Source = os.urandom) -> bytes:
        """Return the slot of a person who has nothing to say: it opens to nothing, and no other slot equals it."""
        plain = bytes([VERSION]) + self.strings.encode(None)
        return self._key_bytes + hpke.seal(plain, self.public, self.info, take(entropy, 32))


@dataclass(frozen=True, slots=True)
class StringOpener:
    """Opens slots, and refuses those that are not the only slot of their string."""

    slots: StringSlots
    private: bytes = field(repr=False)
    tag_key: Key
    _private: X25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_type("slots", self.slots, StringSlots)
        check_type("tag_key", self.tag_key, Key)
        if not isinstance(self.private, bytes) or len(self.private) != hpke.KEY_SIZE:
            reject("private", f"have {hpke.KEY_SIZE} bytes")
        key = X25519PrivateKey.from_private_bytes(self.private)
        if key.public_key().public_bytes_raw() != self.slots.public:
            reject("private", "be the private key of the slots' public key")
        object.__setattr__(self, "_private", key)

    def open(self, slot: bytes) -> bytes | None:
        """Return the body of a slot, or None for a filler; raise :class:`SealError` with a reason otherwise.

        The slot of the string is made again and compared: a slot sealed with other coins would split the people who
        hold a string into several rows.
        """
        if not isinstance(slot, bytes) or len(slot) != self.slots.size:
            raise SealError("wrong-length")
        if int.from_bytes(slot[:KEY_ID_SIZE], "big") != self.slots.key_id:
            raise SealError("cannot-open")
        plain = hpke.unseal(slot[KEY_ID_SIZE:], self._private, self.slots.info)
        if plain[0] != VERSION:
            raise SealError("bad-version")
        body = plain[1:]
        try:
            if self.slots.strings.decode(body) is None:
                return None
        except WireError:
            raise SealError("bad-string") from None
        if not hmac.compare_digest(self.slots.sealed(body, self.tag_key.output(message(body))), slot):
            raise SealError("not-canonical")
        return body


def message(body: bytes) -> bytes:
    """Return what the pseudorandom function is applied to: the kind and the string of a body, without its padding.

    >>> message(Text(8).encode("crash"))
    b'\\x01crash'
    """
    if body[0] == NOTHING:
        reject("the body", "hold a string; a person without one sends a filler")
    return body[:1] + body[PREFIX : PREFIX + int.from_bytes(body[1:PREFIX], "big")]


def derive_tag_key(suite: str, seed: bytes, task: bytes, key_id: int) -> Key:
    """Return the tag key of a task and a key id: those of two tasks, or of two keys, cannot be linked.

    >>> one, two = (derive_tag_key("P256-SHA256", bytes(32), bytes(16), key_id) for key_id in (1, 2))
    >>> one.public == two.public
    False
    """
    if not isinstance(task, bytes) or len(task) != TASK_SIZE:
        reject("task", f"have {TASK_SIZE} bytes")
    check_whole("key_id", key_id, 0, MAX_KEY_ID)
    return Key.derive(suite, seed, TAG_INFO + task + key_id.to_bytes(KEY_ID_SIZE, "big"))
