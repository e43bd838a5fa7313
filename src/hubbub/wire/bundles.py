"""Sizes of the sealed bundles that clients upload: pure arithmetic, which planner and services share.

A bundle has a fixed number of slots, and every slot a fixed size, so that an upload's length reveals nothing. A slot is
one message sealed to the analyzer, or a filler; the slots of one client are sealed together to the shuffler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hubbub.errors import reject

TASK_SIZE, TAG_SIZE = 16, 16
ADMISSION_SIZES: Mapping[str, int] = MappingProxyType({"open": 16, "ticket": 32, "token": 354})
"""Bytes at the start of a bundle's plaintext that are spent with it, by the kind of admission: a ticket or token, or
with open admission the random id of the answer."""
DEFAULT_ADMISSION = "ticket"
KEY_ID_SIZE = 2
HEADER_SIZE = 24
"""Bytes before the sealed part of a bundle: magic, version, suite, key id, reserved bytes and the task."""
SLOT_PREFIX = 2
"""Bytes before the payload inside a slot: version and kind."""
ENCAPSULATED_KEY_SIZES: Mapping[int, int] = MappingProxyType({1: 32, 2: 1120})
"""Bytes of an HPKE encapsulated key, by suite: 1 is X25519, 2 is X-Wing (ML-KEM-768 and X25519)."""
DEFAULT_SUITE = 1
MAX_SLOTS = 2**16
MAX_BUNDLE_SIZE = 2**20
"""Bytes of the largest bundle that a service accepts."""


def slot_size(payload: int, suite: int = DEFAULT_SUITE) -> int:
    """Return the bytes of a sealed slot with a payload of the given size.

    >>> slot_size(1), slot_size(1, suite=2)
    (53, 1141)
    """
    return KEY_ID_SIZE + ENCAPSULATED_KEY_SIZES[suite] + SLOT_PREFIX + payload + TAG_SIZE


def bundle_size(
    slots: int, payload: int, suite: int = DEFAULT_SUITE, admission: int = ADMISSION_SIZES[DEFAULT_ADMISSION]
) -> int:
    """Return the bytes of a bundle, which is the body of an upload per client; ``admission`` is in bytes.

    >>> bundle_size(1, 1), bundle_size(21, 1), bundle_size(1, 1, suite=2), bundle_size(1, 1, admission=16)
    (157, 1217, 2333, 141)
    """
    return HEADER_SIZE + ENCAPSULATED_KEY_SIZES[suite] + admission + slots * slot_size(payload, suite) + TAG_SIZE


@dataclass(frozen=True, slots=True)
class BundleLayout:
    """Everything that sealing needs to know about a contract; small enough to send to worker processes."""

    task: bytes
    suite: int
    slots: int
    payload: int
    """Bytes of a payload."""
    limit: int
    """Exclusive upper bound of a payload read as a little-endian integer."""
    admission: int = ADMISSION_SIZES["open"]
    """Bytes of admission in a bundle, a value of :data:`ADMISSION_SIZES`."""
    slot_size: int = field(init=False)
    """Bytes of a sealed slot."""
    bundle_size: int = field(init=False)
    """Bytes of a bundle."""

    def __post_init__(self) -> None:
        if len(self.task) != TASK_SIZE:
            reject("task", f"have {TASK_SIZE} bytes, not {len(self.task)}")
        if self.suite not in ENCAPSULATED_KEY_SIZES:
            reject("suite", "be 1 or 2", self.suite)
        if self.admission not in ADMISSION_SIZES.values():
            reject("admission", "have 16, 32 or 354 bytes", self.admission)
        object.__setattr__(self, "slot_size", slot_size(self.payload, self.suite))
        size = bundle_size(self.slots, self.payload, self.suite, self.admission)
        object.__setattr__(self, "bundle_size", size)
