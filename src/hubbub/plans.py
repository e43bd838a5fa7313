"""``Plan``: the agreement between all parties on schema, batch size, protocol and guarantee, and its JSON.

Devices read plans too, so this module works without numpy.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Self

from hubbub.canonical import Fields, Json, canonical, legal, parse
from hubbub.errors import SHARE, Interval, WireError, check_real, check_type, check_whole, kind_of, reject
from hubbub.privacy import Basis, Guarantee
from hubbub.protocol import Protocol, check_fakes
from hubbub.schema import Schema

HEADER = 20
"""Bytes of a message before its payload: magic, version, release, and 16 bytes of the plan's id."""
FORMAT = "hubbub plan 2"
MAX_PEOPLE = 10**10
STDERR = Interval(0.0, 1e300, open_low=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The agreement between all parties: schema, batch size, protocol, and the guarantee that results.

    Created by :func:`hubbub.plan` and :func:`hubbub.plan_from`. The ``id``, the SHA-256 of the canonical JSON, is part
    of every message. :meth:`from_json` checks the format and the id only, which is all a device can do;
    :func:`hubbub.load_plan` also recomputes the claimed guarantee.
    """

    schema: Schema
    n: int
    """Minimum batch size, in users."""
    protocol: Protocol
    guarantee: Guarantee
    stderr: float
    """Predicted standard error of one count in a batch of n; the maximum over all data where it depends on them."""
    honest_fraction: float = 1.0
    """Fraction of users that must follow the protocol for the guarantee to hold."""
    id: str = field(init=False, compare=False)
    """SHA-256 of the canonical JSON, as 64 hexadecimal digits."""

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        check_type("protocol", self.protocol, Protocol)
        check_type("guarantee", self.guarantee, Guarantee)
        object.__setattr__(self, "n", check_whole("n", self.n, 1, MAX_PEOPLE))
        object.__setattr__(self, "stderr", check_real("stderr", self.stderr, STDERR))
        object.__setattr__(self, "honest_fraction", check_real("honest_fraction", self.honest_fraction, SHARE))
        if self.guarantee.n != self.n:
            reject("the guarantee", f"be for n = {self.n:,}", self.guarantee.n)
        if self.guarantee.basis not in (Basis.EXACT, Basis.PROVEN):
            reject("the guarantee", "rest on a theorem", self.guarantee.basis.value)
        if self.protocol.sends_category:
            if not self.schema.exclusive:
                reject("schema", f"be one-hot if a category is released, got {self.schema}")
            if self.protocol.q * self.schema.width >= 1:
                reject("q", f"be below 1/{self.schema.width} for {self.schema.width} categories", self.protocol.q)
        object.__setattr__(self, "id", hashlib.sha256(canonical(self._document())).hexdigest())

    @property
    def payload(self) -> int:
        """Bytes of the fixed-size payload of one message."""
        return self.protocol.payload_format.size(self.schema.width)

    @property
    def payload_messages(self) -> float:
        """Expected messages of one user, including fakes but not fillers; for a user with the most bits set.

        :func:`hubbub.cost` gives the fixed number of messages that the services send instead.
        """
        protocol, schema = self.protocol, self.schema
        q = protocol.q
        own = protocol.k * (schema.max_set * (1 - 2 * q) + schema.width * q if protocol.sends_bits else 1)
        fakes = protocol.user_fakes.mean if protocol.user_fakes else protocol.fixed_fakes / self.n
        return own + fakes * (schema.width * (q + (1 - 2 * q) * schema.density) if protocol.sends_bits else 1)

    @property
    def payload_bytes(self) -> float:
        """Expected bytes of the bare payloads of one user; :func:`hubbub.cost` gives the size of a sealed bundle."""
        return self.payload_messages * self.payload

    def to_json(self) -> str:
        """Return the canonical JSON, including the id."""
        return canonical({**self._document(), "id": self.id}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a plan, and check its format, its values and its id, but not the guarantee it claims.

        :func:`hubbub.load_plan` recomputes the guarantee as well.
        """
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of a plan as str or bytes, not {kind_of(text)}")
        keys = ("format", "id", "schema", "n", "honest_fraction", "protocol", "guarantee", "stderr")
        read = Fields(parse(text, "the plan"), "the plan", *keys)
        if read.text("format") != FORMAT:
            raise WireError(f"the format of the plan must be {FORMAT!r}")
        with legal("the plan"):
            plan = cls(
                schema=Schema.from_document(read["schema"], "the schema of the plan"),
                n=read.whole("n"),
                honest_fraction=read.real("honest_fraction"),
                protocol=Protocol.from_document(read["protocol"], "the protocol of the plan"),
                guarantee=Guarantee.from_document(read["guarantee"], "the guarantee of the plan"),
                stderr=read.real("stderr"),
            )
        if read.text("id") != plan.id:
            raise WireError("the id of the plan must be the digest of its content")
        return plan

    def _document(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "schema": self.schema.to_document(),
            "n": self.n,
            "honest_fraction": self.honest_fraction,
            "protocol": self.protocol.to_document(),
            "guarantee": self.guarantee.to_document(),
            "stderr": self.stderr,
        }

    def __str__(self) -> str:
        try:
            from hubbub.pages import plan_text  # noqa: PLC0415 (an upward import: words are loaded if needed)
        except ImportError:  # devices run without numpy
            return repr(self)
        return plan_text(self)

    def _repr_html_(self) -> str:
        from hubbub.pages import plan_table  # noqa: PLC0415

        return plan_table(self)

    def __repr__(self) -> str:
        return f"Plan({self.id[:8]}…: {self.schema}, n={self.n:,}, {self.protocol}, stderr={self.stderr:.4g})"


def check_share(plan: Plan, people: int, number: object) -> int:
    """Return the number of fakes that ``people`` users of a plan add: a part of the fixed total, and no small one.

    A plan for ``honest_fraction`` < 1 counts on ⌊m/n⌋ fakes of every honest user, so that no user may add fewer.

    >>> from hubbub.planner import plan_from
    >>> plan = plan_from(Schema.bits(1), 3, Protocol(0.1, m=9), delta=1e-6, honest_fraction=0.5)
    >>> check_share(plan, 1, 3)
    3
    """
    count, total = check_fakes(plan.protocol, number), plan.protocol.fixed_fakes
    least = min(total, people * (total // plan.n))
    if plan.honest_fraction < 1 and count < least:
        users = f"{people:,} user{'' if people == 1 else 's'}"
        why = f"because the plan counts on an equal share of the {total:,} fakes from every honest user"
        reject("fakes", f"be at least {least:,} for {users}, {why}", count)
    return count
