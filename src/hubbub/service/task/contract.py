"""What devices, shuffler and analyzer agree on before the first report: a plan and how it is run, signed by both.

The task, 16 bytes of the SHA-256 of its canonical JSON, is bound into everything that is sealed. A report made for a
crowd of 10 000 does not open under a contract that says 100, because that contract has another task.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from hubbub.canonical import Json, as_text, as_whole, canonical, fields, parse
from hubbub.errors import FalseClaim, Infeasible, InvalidInput, TooLarge, WireError, check_whole, reject
from hubbub.plans import Plan
from hubbub.service.task.identity import PUBLIC_SIZE, SIGNATURE_SIZE, Identity, as_bytes, verify
from hubbub.service.task.sealing import SUITES, TASK_SIZE, BundleLayout
from hubbub.service.task.slots import check_slots, overflow

FORMAT = "hubbub contract 1"
ROLES = ("analyzer", "shuffler")
MIN_BATCH_SIZE = 100
"""The smallest batch that services accept, except in tests."""
LARGEST = 16 * 2**20
"""Bytes of a contract's JSON."""
LARGEST_BUNDLE = 2**20
"""Bytes of a bundle."""
FARTHEST = 2**40
"""The last epoch that has a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One collection: who is asked what, in which crowd, when, and who runs it."""

    plan: Plan
    min_batch_size: int
    """The fewest clients in a batch; what exceeds ``plan.n`` is a reserve against slots that turn out bad."""
    slots: int
    """Sealed slots of a bundle, fillers included."""
    epoch: int
    """Seconds between two ticks; nothing finer is kept."""
    task_start: int
    """The first epoch, ⌊time/epoch⌋, in which bundles are taken."""
    task_end: int
    """The first epoch in which they are no longer taken."""
    suite: int
    """The algorithms of both seals, a key of :data:`hubbub.service.task.sealing.SUITES`."""
    analyzer: bytes
    """Public identity of the analyzer's operator."""
    shuffler: bytes
    """Public identity of the shuffler's operator."""
    task: bytes = field(init=False, compare=False)
    """16 bytes that name the contract."""
    shape: BundleLayout = field(init=False, compare=False, repr=False)
    """What sealing needs of it."""

    def __post_init__(self) -> None:
        if not isinstance(self.plan, Plan):
            reject("plan", "be a Plan", type(self.plan).__name__)
        for name, low, high in (
            ("min_batch_size", self.plan.n, 10**10),
            ("slots", 1, 2**16),
            ("epoch", 1, 10**9),
            ("task_start", 0, FARTHEST),
            ("suite", min(SUITES), max(SUITES)),
        ):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), low, high))
        object.__setattr__(self, "task_end", check_whole("task_end", self.task_end, self.task_start + 1, FARTHEST))
        for role in ROLES:
            key = getattr(self, role)
            if not isinstance(key, bytes) or len(key) != PUBLIC_SIZE:
                reject(f"the identity of the {role}", f"have {PUBLIC_SIZE} bytes", type(key).__name__)
        if self.analyzer == self.shuffler:
            raise InvalidInput("analyzer and shuffler must be two operators, got one identity for both")
        check_slots(self.plan, self.slots)
        object.__setattr__(self, "task", hashlib.sha256(canonical(self._document())).digest()[:TASK_SIZE])
        plan = self.plan
        limit = 1 << plan.schema.width if plan.protocol.sends_records else plan.schema.width
        object.__setattr__(self, "shape", BundleLayout(self.task, self.suite, self.slots, plan.payload, limit))
        if self.bundle_size > LARGEST_BUNDLE:
            raise TooLarge(f"a bundle must have at most {LARGEST_BUNDLE} bytes, got {self.bundle_size}")

    @property
    def id(self) -> str:
        """The task in hexadecimal digits, as in addresses."""
        return self.task.hex()

    @property
    def slot_size(self) -> int:
        """Bytes of a sealed slot."""
        return self.shape.slot_size

    @property
    def bundle_size(self) -> int:
        """Bytes of a bundle."""
        return self.shape.bundle_size

    @property
    def overflow(self) -> float:
        """What is to be added to δ because a client may have more messages than there are slots."""
        return overflow(self.plan, self.slots)

    def epoch_at(self, time: float) -> int:
        """The number of the epoch of a moment."""
        return int(time // self.epoch)

    def takes(self, time: float) -> bool:
        """Whether bundles are taken at this moment."""
        return self.task_start <= self.epoch_at(time) < self.task_end

    def sign(self, identity: Identity) -> bytes:
        """An operator's signature."""
        return identity.sign("contract", canonical(self._document()))

    def to_json(self) -> str:
        """The canonical JSON."""
        return canonical(self._document()).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a contract, refusing any other form and any illegal value; see :func:`load_contract`."""
        return cls._read(_parse(text, "a contract"))

    @classmethod
    def _read(cls, value: Json) -> Self:
        key = as_bytes(PUBLIC_SIZE)
        read = fields(
            value,
            "a contract",
            {
                "format": as_text,
                "plan": lambda plan: Plan.from_json(canonical(plan)),
                "min_batch_size": as_whole,
                "slots": as_whole,
                "epoch": as_whole,
                "task_start": as_whole,
                "task_end": as_whole,
                "suite": as_whole,
                "analyzer": key,
                "shuffler": key,
            },
        )
        if read.pop("format") != FORMAT:
            raise WireError(f"a contract must be of the format {FORMAT!r}, got another")
        try:
            return cls(**read)  # type: ignore[arg-type]
        except (InvalidInput, Infeasible) as error:
            raise WireError(f"a contract must have legal values: {error}") from None

    def _document(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "plan": parse(self.plan.to_json(), "a plan"),
            "min_batch_size": self.min_batch_size,
            "slots": self.slots,
            "epoch": self.epoch,
            "task_start": self.task_start,
            "task_end": self.task_end,
            "suite": self.suite,
            "analyzer": self.analyzer.hex(),
            "shuffler": self.shuffler.hex(),
        }


@dataclass(frozen=True, slots=True)
class SignedContract:
    """A contract with the signatures of its operators, by role."""

    contract: Contract
    signatures: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if not self.signatures.keys() <= set(ROLES):
            raise WireError("signatures must be those of analyzer and shuffler, got others")
        object.__setattr__(self, "signatures", MappingProxyType(dict(self.signatures)))

    @classmethod
    def sign(cls, contract: Contract, *identities: Identity) -> Self:
        """Sign with the identities of one or both operators."""
        names = {contract.analyzer: "analyzer", contract.shuffler: "shuffler"}
        for identity in identities:
            if identity.public not in names:
                reject("an identity that signs", "be one of the contract's operators", identity)
        return cls(contract, {names[identity.public]: contract.sign(identity) for identity in identities})

    def countersign(self, identity: Identity) -> Self:
        """The same with one more signature."""
        other = type(self).sign(self.contract, identity)
        return type(self)(self.contract, {**self.signatures, **other.signatures})

    def verify(self) -> Contract:
        """The contract, if both operators signed it; raises :class:`FalseClaim` otherwise."""
        contract = self.contract
        body = canonical(contract._document())
        for role in ROLES:
            if role not in self.signatures:
                raise FalseClaim(f"the contract must be signed by its {role}, got no signature")
            verify(getattr(contract, role), "contract", body, self.signatures[role])
        return contract

    def to_json(self) -> bytes:
        """Canonical JSON: ``{"contract": …, "signatures": {"analyzer": hex, "shuffler": hex}}``."""
        signatures: dict[str, Json] = {role: signature.hex() for role, signature in self.signatures.items()}
        return canonical({"contract": self.contract._document(), "signatures": signatures})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the form, with one signature or both; :meth:`verify` judges them."""
        read = fields(
            _parse(text, "a signed contract"),
            "a signed contract",
            {"contract": Contract._read, "signatures": _signatures},
        )
        return cls(**read)  # type: ignore[arg-type]


def load_contract(text: str | bytes, *, min_batch_size: int = MIN_BATCH_SIZE) -> SignedContract:
    """Read a signed contract and check all that can be checked: form, sizes, both signatures, the plan's guarantee.

    Whoever loads it compares the operators' identities with those he expects: anybody can sign with his own.
    """
    signed = SignedContract.from_json(text)
    contract = signed.verify()
    if contract.min_batch_size < min_batch_size:
        reject(
            "min_batch_size",
            f"be at least {min_batch_size}, the minimum of this service",
            contract.min_batch_size,
        )
    from hubbub.planner.recompute import verify as verify_plan  # noqa: PLC0415 (devices have no numpy)

    verify_plan(contract.plan)
    return signed


def _parse(text: str | bytes, what: str) -> Json:
    if len(text) > LARGEST:
        raise TooLarge(f"{what} must have at most {LARGEST} bytes, got {len(text)}")
    return parse(text, what)


def _signatures(value: Json) -> dict[str, bytes]:
    if not isinstance(value, dict):
        raise TypeError
    read = as_bytes(SIGNATURE_SIZE)
    return {role: read(signature) for role, signature in value.items()}
