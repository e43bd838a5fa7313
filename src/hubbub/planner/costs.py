"""The cost of a plan for one user: the sealed bundle that the services send, and the bare payloads inside it."""

from dataclasses import dataclass, replace

from hubbub.accountant.overflow import min_slots
from hubbub.errors import NON_NEGATIVE, Infeasible, InvalidInput, check_real, check_type, check_whole
from hubbub.model.plans import Plan
from hubbub.wire.bundles import DEFAULT_SUITE, ENCAPSULATED_KEY_SIZES, MAX_BUNDLE_SIZE, MAX_SLOTS, bundle_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The upload of one user in one collection.

    ``messages`` and ``bytes`` describe the sealed bundle, which is the same for every user; both are None if the
    services do not offer the plan, and ``not_offered`` then says why.
    """

    messages: int | None
    """Slots of the sealed bundle, fillers included."""
    bytes: int | None
    """Size of the sealed bundle, the body of the upload."""
    payload_messages: float
    """Expected number of messages, fakes included, without fillers."""
    payload_bytes: float
    """Expected size of the payloads of these messages, before sealing."""
    not_offered: str = ""
    """Why the services do not offer the plan; empty if they do."""

    def __post_init__(self) -> None:
        for name in ("messages", "bytes"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        for name in ("payload_messages", "payload_bytes"):
            check_real(name, getattr(self, name), NON_NEGATIVE)
        check_type("not_offered", self.not_offered, str)

    @property
    def cells(self) -> tuple[str, str]:
        """Messages and bytes as table cells."""
        if self.messages is None or self.bytes is None:
            return "–", "not offered"
        return f"{self.messages:,}", f"{self.bytes:,}"

    def __str__(self) -> str:
        number = self.payload_messages if self.messages is None else self.messages
        text = f"{number:,.4g} message{'' if number == 1 else 's'} per user"
        if self.messages is None:
            return f"{text}; the services do not offer this plan"
        return f"{text}, sealed in {self.bytes:,} bytes"


def cost(plan: Plan, *, suite: int = DEFAULT_SUITE) -> Cost:
    """Return what one user sends under a plan, with a ticket, sealed with an HPKE suite: 1 is X25519, 2 is X-Wing.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> split = plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6)
    >>> upload = cost(split)
    >>> upload.messages, upload.bytes, round(upload.payload_messages, 2), round(upload.payload_bytes, 2)
    (21, 1217, 2.96, 2.96)
    """
    check_type("plan", plan, Plan)
    check_whole("suite", suite, min(ENCAPSULATED_KEY_SIZES), max(ENCAPSULATED_KEY_SIZES))
    bare = Cost(messages=None, bytes=None, payload_messages=plan.payload_messages, payload_bytes=plan.payload_bytes)
    try:
        slots = min_slots(plan)
    except (Infeasible, InvalidInput) as error:
        return replace(bare, not_offered=str(error))
    size = bundle_size(slots, plan.slot_payload, suite)
    if slots > MAX_SLOTS or size > MAX_BUNDLE_SIZE:
        limits = f"the limits are {MAX_SLOTS:,} and {MAX_BUNDLE_SIZE:,}"
        return replace(bare, not_offered=f"a bundle would have {slots:,} slots and {size:,} bytes; {limits}")
    return replace(bare, messages=slots, bytes=size)
