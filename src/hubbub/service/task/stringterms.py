"""The terms of a contract for strings: the group of their tags, who relays, and how many evaluations an hour has."""

from dataclasses import dataclass
from typing import Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import check_choice, check_whole, reject
from hubbub.oprf import SUITES, p256, ristretto
from hubbub.service.task.admission import check_issuer

MAX_EVALUATIONS = 10**12
"""Largest number of evaluations of one key in an hour."""
MAX_PER_CLIENT = 100
PER_CLIENT = 4
"""Default number of evaluations of one client and key: the answer, and a few lost ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StringTerms:
    """The agreement of operators and clients on a collection of strings, besides the plan.

    Every evaluation lets whoever asks test one string against all slots of a key. The caps bound what a dictionary
    attack can test: ``evaluations`` for everybody together in an hour, ``per_client`` for each admission.
    """

    group: str
    """The suite of RFC 9497: ristretto255-SHA512, or P256-SHA256 where the analyzer has no libsodium."""
    relay: str
    """The host name of the relay, whose operator is neither the analyzer's nor the shuffler's."""
    evaluations: int
    """Most evaluations under one key of the analyzer within an hour."""
    per_client: int = PER_CLIENT
    """Most evaluations of one ticket or token under one key; with open admission, nothing tells clients apart."""

    def __post_init__(self) -> None:
        check_choice("group", self.group, tuple(SUITES))
        if not isinstance(self.relay, str):
            reject("relay", "be a host name")
        check_issuer(self.relay)
        object.__setattr__(self, "evaluations", check_whole("evaluations", self.evaluations, 1, MAX_EVALUATIONS))
        object.__setattr__(self, "per_client", check_whole("per_client", self.per_client, 1, MAX_PER_CLIENT))

    def to_document(self) -> dict[str, Json]:
        """Return the terms as a JSON object."""
        caps: dict[str, Json] = {"evaluations": self.evaluations, "per_client": self.per_client}
        return {"group": self.group, "relay": self.relay, **caps}

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read terms from a JSON object."""
        what = "the terms of strings"
        fields = Fields(value, what, "group", "relay", "evaluations", "per_client")
        with legal(what):
            return cls(
                group=fields.text("group"),
                relay=fields.text("relay"),
                evaluations=fields.whole("evaluations"),
                per_client=fields.whole("per_client"),
            )


def default_group() -> str:
    """Return the group that this machine computes in: ristretto255 with libsodium, P-256 without it."""
    return str(ristretto.NAME if ristretto.available() else p256.NAME)
