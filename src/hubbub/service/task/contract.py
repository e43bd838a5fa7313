"""Contracts: a plan and the terms under which devices, shuffler and analyzer run it, signed by both operators.

The task, the first 16 bytes of the SHA-256 of the contract's canonical JSON, is bound into everything that is sealed. A
report sealed for batches of at least 10,000 clients does not open under a contract that allows 100, because that
contract has another task.

Series: contracts that the same people answer once in every round, under one total guarantee. A round is a fixed number
of epochs, so everyone derives it from the clock. Everything that is sealed or admitted for a round is bound to the
round's *context*, 16 bytes that take the place of the task: a bundle or a ticket of one round is worth nothing in
another, and a slot opens only in a batch of its own round.
"""

import functools
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Self

from hubbub.accountant.overflow import check_slots, overflow, with_overflow
from hubbub.documents import Document, Fields, Json, Whole, canonical, hex_bytes, legal, parse, spell
from hubbub.errors import (
    PROBABILITY,
    FalseClaim,
    Infeasible,
    InvalidInput,
    TooLarge,
    WireError,
    check_type,
    check_whole,
    reject,
)
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.model.privacy import LIMIT, Budget, Guarantee
from hubbub.service.task.admission import Admission
from hubbub.service.task.identity import PUBLIC_SIZE, SIGNATURE_SIZE, Identity, document_format, verify
from hubbub.service.task.sealing import SUITES
from hubbub.service.task.strings import StringTerms
from hubbub.wire.bundles import MAX_BUNDLE_SIZE, MAX_SLOTS, TASK_SIZE, BundleLayout

MAX_SERIES = 10_000
"""Most rounds of a series."""
_LABEL = b"hubbub/2 round"


@dataclass(frozen=True, slots=True)
class Series(Document):
    """The rounds of a contract, the length of a round, and the total that all rounds together must not exceed."""

    rounds: Annotated[int, Whole(1, MAX_SERIES)]
    round_epochs: Annotated[int, Whole(1, 10**9)]
    """Epochs per round."""
    total: Budget

    @property
    def epochs(self) -> int:
        """The number of epochs of all rounds."""
        return self.rounds * self.round_epochs


@dataclass(frozen=True, slots=True)
class Spending(Document):
    """The privacy that a number of rounds of a contract has cost each person at most."""

    rounds: Annotated[int, Whole()]
    epsilon: Annotated[float, LIMIT]
    delta: Annotated[float, PROBABILITY]


@dataclass(frozen=True, slots=True)
class RoundStatus:
    """The current round of a task, what its rounds have cost each person so far, and the most they may."""

    round: int
    spent: Spending
    total: Spending

    def to_document(self) -> dict[str, Json]:
        """Return columns for operators: the round of all rounds, ε spent and allowed, and δ."""
        return {
            "round": f"{self.round} of {self.total.rounds}",
            "spent_epsilon": spell(self.spent.epsilon),
            "total_epsilon": spell(self.total.epsilon),
            "total_delta": self.total.delta,
        }


def round_context(task: bytes, number: int) -> bytes:
    """Return the 16 bytes to which everything of one round is bound.

    >>> round_context(bytes(16), 1).hex()[:8]
    'f482d353'
    """
    return hashlib.sha256(_LABEL + task + number.to_bytes(4, "big")).digest()[:TASK_SIZE]


@functools.lru_cache(maxsize=1024)
def round_layout(layout: BundleLayout, number: int) -> BundleLayout:
    """Return the layout of one round of a series."""
    return replace(layout, task=round_context(layout.task, number))


@functools.lru_cache(maxsize=64)
def round_contexts(task: bytes, rounds: int) -> Mapping[bytes, int]:
    """Return the rounds of a series by their contexts."""
    return MappingProxyType({round_context(task, number): number for number in range(1, rounds + 1)})


ROLES = ("analyzer", "shuffler")
MIN_BATCH_SIZE = 100
"""The smallest batch size that a service accepts in a contract, except in tests."""
MAX_CONTRACT_SIZE = 16 << 20
"""Largest contract, in bytes of JSON."""
MAX_EPOCH = 2**40
"""Largest epoch number."""
ROUND_GRACE = 300.0
"""Maximum seconds of real time after the end of a round until what is left of it is given up."""
STRINGS = "strings"
EXPORT = "export"
"""The optional term of a contract that lets opened batches leave the analyzer's store; absence means no."""
MESSAGE_VIEWS = ("whole records", "the number of messages for each bit", "categories")
"""Views of a guarantee from which all messages of a batch follow, up to their order.

Indices follow from their counts, records only from themselves. A guarantee for any other view, such as the counts of
the bits of whole records, says nothing about the messages, which must then not leave the analyzer.
"""
PEOPLE_SIZE = 8
"""Bytes of the number of people after the slot of a string in a chunk, big-endian."""
_TERMS = ("min_batch_size", "slots", "epoch", "task_start", "task_end", "suite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One collection: its plan, batch size, time span, encryption suite, admission and operators."""

    plan: Plan
    min_batch_size: int
    """Number of clients at which a bucket may close; the excess over ``needed`` is a reserve against rejected slots."""
    slots: int
    """Sealed slots per bundle, including fillers."""
    epoch: int
    """Length of an epoch in seconds; no finer time is stored."""
    task_start: int
    """The first epoch, ⌊time/epoch⌋, in which bundles are accepted."""
    task_end: int
    """The first epoch in which bundles are no longer accepted."""
    suite: int
    """The encryption algorithms, a key of :data:`hubbub.service.task.sealing.SUITES`."""
    admission: Admission
    """The proof that a client may send a bundle."""
    analyzer: bytes
    """Public identity of the analyzer's operator."""
    shuffler: bytes
    """Public identity of the shuffler's operator."""
    series: Series | None = None
    """The rounds in which people answer again; None if everyone answers once."""
    export: bool = False
    """True if the analyzer writes the messages of every batch it counted to a folder of its operator."""
    strings: StringTerms | None = None
    """The terms of a plan for strings; None for every other plan."""
    task: bytes = field(init=False, compare=False)
    """16 bytes that identify the contract."""
    layout: BundleLayout = field(init=False, compare=False, repr=False)
    """The sizes that sealing needs, of a contract without a series; see :meth:`layout_of`."""

    def __post_init__(self) -> None:
        plan = check_type("plan", self.plan, Plan)
        for name, low, high in (
            ("min_batch_size", plan.n, MAX_PEOPLE),
            ("slots", 1, MAX_SLOTS),
            ("epoch", 1, 10**9),
            ("task_start", 0, MAX_EPOCH),
            ("suite", min(SUITES), max(SUITES)),
        ):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), low, high))
        object.__setattr__(self, "task_end", check_whole("task_end", self.task_end, self.task_start + 1, MAX_EPOCH))
        for role in ROLES:
            key = getattr(self, role)
            if not isinstance(key, bytes) or len(key) != PUBLIC_SIZE:
                reject(f"the identity of the {role}", f"have {PUBLIC_SIZE} bytes")
        if self.analyzer == self.shuffler:
            raise InvalidInput("analyzer and shuffler must be different operators, but have the same identity")
        check_type("admission", self.admission, Admission)
        _check_crowd(plan, self.admission)
        self._check_series()
        if check_type("export", self.export, bool) and plan.guarantee.assumptions.view not in MESSAGE_VIEWS:
            covers = "the plan's guarantee covers less than the messages of a batch"
            raise Infeasible(f"{covers}, so that a contract must not export them: leave out export")
        self._check_strings()
        check_slots(plan, self.slots)
        object.__setattr__(self, "task", hashlib.sha256(canonical(self.to_document())).digest()[:TASK_SIZE])
        layout = BundleLayout(self.task, self.suite, self.slots, *_payload(plan), self.admission.size)
        object.__setattr__(self, "layout", layout)
        if self.bundle_size > MAX_BUNDLE_SIZE:
            raise TooLarge(f"a bundle must have at most {MAX_BUNDLE_SIZE:,} bytes, got {self.bundle_size:,}")

    def _check_series(self) -> None:
        if self.series is None:
            return
        series = check_type("series", self.series, Series)
        if self.task_end - self.task_start != series.epochs:
            length = self.task_end - self.task_start
            reject("task_end", f"be {series.epochs:,} epochs after task_start, as many as all rounds have", length)
        if self.admission.kind == "token":
            # It signs blindly: an account could save the tokens of many rounds, and spend them all in one.
            raise Infeasible(
                "an issuer of tokens cannot see for which round it signs: a series must admit by ticket or be open, "
                "or each round be a contract of its own"
            )

    def _check_strings(self) -> None:
        if (self.strings is not None) != self.plan.protocol.sends_strings:
            reject("strings", "be the terms of strings for a plan for strings, and None for every other plan")
        if self.strings is None:
            return
        check_type("strings", self.strings, StringTerms)
        if self.suite != 1:
            # Nobody can seal equal strings to equal bytes with ML-KEM: libraries draw its coins themselves.
            raise Infeasible("strings need suite 1: tags are not post-quantum, and suite 2 would only pretend")
        if self.series is not None:
            raise Infeasible("a contract for strings has a single round: agree on one contract for each round")

    @property
    def id(self) -> str:
        """The task in hexadecimal digits, as in URLs."""
        return self.task.hex()

    @property
    def slot_size(self) -> int:
        """Bytes of a sealed slot."""
        return self.layout.slot_size

    @property
    def bundle_size(self) -> int:
        """Bytes of a bundle."""
        return self.layout.bundle_size

    @property
    def row_size(self) -> int:
        """Bytes of a row of a chunk: a slot, for strings with the number of people that the shuffler passes on."""
        return self.slot_size + (0 if self.strings is None else PEOPLE_SIZE)

    @property
    def overflow(self) -> float:
        """The addition to the plan's δ for clients that have more messages than a bundle has slots."""
        return overflow(self.plan, self.slots)

    def with_overflow(self, achieved: Guarantee) -> Guarantee:
        """Return the guarantee of a batch with the price of overflow, at its own ε and number of honest clients."""
        return with_overflow(achieved, self.plan, self.slots)

    @property
    def needed(self) -> int:
        """The people without whom the plan's certificate does not hold: with fewer, the result of a batch is withheld.

        They are the honest people that the theorem used counts on: all of them or a fraction where people hide each
        other, a single one where the shuffler's fakes do.
        """
        return self.plan.guarantee.assumptions.honest

    @property
    def reserve(self) -> int:
        """The clients of a smallest batch that may spoil all their slots without costing the others the result."""
        return self.min_batch_size - self.needed

    def epoch_at(self, time: float) -> int:
        """Return the number of the epoch that contains a time."""
        return int(time // self.epoch)

    def accepts_at(self, time: float) -> bool:
        """Return True if bundles are accepted at this time."""
        return self.task_start <= self.epoch_at(time) < self.task_end

    def over_at(self, time: float, number: int) -> bool:
        """Return True if a round has been over for longer than any service waits for a clock that is wrong."""
        end = self.task_end if self.series is None else self.task_start + number * self.series.round_epochs
        return time >= (end + 1) * self.epoch + ROUND_GRACE

    @property
    def round_grace(self) -> float:
        """Real time after which what is left of a round that is over is given up: a tenth of a round at most.

        The clock of a service may have jumped, and return; until then, the next round waits.
        """
        epochs = self.series.round_epochs if self.series else 1
        return min(ROUND_GRACE, epochs * self.epoch / 10)

    @property
    def rounds(self) -> int:
        """The number of rounds; 1 without a series."""
        return 1 if self.series is None else self.series.rounds

    def round_of(self, epoch: int) -> int:
        """Return the number of the round that contains an epoch; epochs outside the task belong to the nearest round.

        Rounds are counted from 1. Without a series, all epochs are round 1.
        """
        if self.series is None:
            return 1
        return min(max((epoch - self.task_start) // self.series.round_epochs + 1, 1), self.series.rounds)

    def round_span(self, number: int) -> tuple[int, int]:
        """Return when a round begins and ends, in seconds since 1970; without a series, it is the time of the task."""
        if self.series is None:
            return self.task_start * self.epoch, self.task_end * self.epoch
        first = self.task_start + (number - 1) * self.series.round_epochs
        return first * self.epoch, (first + self.series.round_epochs) * self.epoch

    def layout_of(self, number: int) -> BundleLayout:
        """Return the layout of bundles and slots of a round, which are bound to that round."""
        return self.layout if self.series is None else round_layout(self.layout, number)

    def context_of(self, number: int) -> bytes:
        """Return the 16 bytes to which tickets of a round are bound: the task, or in a series those of the round."""
        return self.layout_of(number).task

    @property
    def contexts(self) -> Mapping[bytes, int]:
        """The rounds by their contexts."""
        return {self.task: 1} if self.series is None else round_contexts(self.task, self.series.rounds)

    def spending(self, rounds: int) -> Spending:
        """Return what ``rounds`` rounds cost a person who answers once in each of them, at the δ of the total.

        Without a series there is one round, whose cost is the plan's guarantee with the price of overflow.
        """
        if rounds == 0:
            return Spending(0, 0.0, 0.0)
        if self.series is None:
            guarantee = self.with_overflow(self.plan.guarantee)
            return Spending(rounds, guarantee.epsilon, guarantee.delta)
        from hubbub.accountant.repeated import repeated_epsilon  # noqa: PLC0415 (devices have no numpy)

        delta = self.series.total.delta
        return Spending(rounds, repeated_epsilon(self.plan, rounds, delta, self.slots), delta)

    @property
    def total(self) -> Spending:
        """The most that all rounds together may cost a person."""
        if self.series is None:
            return self.spending(1)
        return Spending(self.series.rounds, self.series.total.epsilon, self.series.total.delta)

    def sign(self, identity: Identity) -> bytes:
        """Return an operator's signature of the contract."""
        return identity.sign("contract", canonical(self.to_document()))

    def to_json(self) -> str:
        """Return the canonical JSON."""
        return canonical(self.to_document()).decode()

    def to_document(self) -> dict[str, Json]:
        """Return the contract as a JSON object."""
        return {
            "format": document_format("contract"),
            "plan": parse(self.plan.to_json(), "the plan"),
            **{name: getattr(self, name) for name in _TERMS},
            "admission": self.admission.to_document(),
            "series": None if self.series is None else self.series.to_document(),
            **({EXPORT: True} if self.export else {}),
            **{role: getattr(self, role).hex() for role in ROLES},
            **({} if self.strings is None else {STRINGS: self.strings.to_document()}),
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a contract and check its values, but not its guarantee; see :func:`load_contract`."""
        return cls.from_document(_parse(text, "the contract"))

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read a contract from a JSON object."""
        optional = [name for name in (EXPORT, STRINGS) if isinstance(value, dict) and name in value]
        fields = Fields(value, "the contract", "format", "plan", "admission", "series", *_TERMS, *ROLES, *optional)
        if EXPORT in optional and not fields.truth(EXPORT):
            raise WireError("'export' of the contract must be true or left out")
        if fields.text("format") != document_format("contract"):
            raise WireError(f"the format of the contract must be {document_format('contract')!r}")
        try:
            with legal("the contract"):
                plan = Plan.from_json(canonical(fields["plan"]))
                terms = {name: fields.whole(name) for name in _TERMS}
                keys = {role: hex_bytes(fields.text(role), PUBLIC_SIZE, f"the {role}'s identity") for role in ROLES}
                admission = Admission.from_document(fields["admission"])
                series = None if fields["series"] is None else Series.from_document(fields["series"])
                return cls(
                    plan=plan,
                    admission=admission,
                    series=series,
                    export=EXPORT in optional,
                    strings=StringTerms.from_document(fields[STRINGS]) if STRINGS in optional else None,
                    analyzer=keys["analyzer"],
                    shuffler=keys["shuffler"],
                    **terms,
                )
        except Infeasible as error:
            raise WireError(f"the contract is invalid: {error}") from None


@dataclass(frozen=True, slots=True)
class SignedContract:
    """A contract with the signatures of its operators, by role."""

    contract: Contract
    signatures: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if not self.signatures.keys() <= set(ROLES):
            raise WireError("only the analyzer and the shuffler may sign a contract")
        object.__setattr__(self, "signatures", MappingProxyType(dict(self.signatures)))

    @classmethod
    def sign(cls, contract: Contract, *identities: Identity) -> Self:
        """Sign with the identities of one or both operators."""
        names = {contract.analyzer: "analyzer", contract.shuffler: "shuffler"}
        for identity in identities:
            if identity.public not in names:
                reject("the signing identity", "be one of the contract's operators")
        return cls(contract, {names[identity.public]: contract.sign(identity) for identity in identities})

    def countersign(self, identity: Identity) -> Self:
        """Return the contract with one more signature."""
        other = type(self).sign(self.contract, identity)
        return type(self)(self.contract, {**self.signatures, **other.signatures})

    def verify(self) -> Contract:
        """Return the contract if both operators signed it; raise :class:`FalseClaim` otherwise."""
        for role in ROLES:
            if role not in self.signatures:
                raise FalseClaim(f"the contract has no signature of its {role}")
        self.verified_roles()
        return self.contract

    def verified_roles(self) -> tuple[str, ...]:
        """Return the roles that signed; raise :class:`FalseClaim` if a signature is not valid."""
        body = canonical(self.contract.to_document())
        for role, signature in self.signatures.items():
            verify(getattr(self.contract, role), "contract", body, signature)
        return tuple(self.signatures)

    def to_json(self) -> bytes:
        """Return canonical JSON: ``{"contract": …, "signatures": {"analyzer": hex, "shuffler": hex}}``."""
        signatures: dict[str, Json] = {role: signature.hex() for role, signature in self.signatures.items()}
        return canonical({"contract": self.contract.to_document(), "signatures": signatures})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a contract with up to two signatures, without verifying them."""
        value = _parse(text, "the signed contract")
        fields = Fields(value, "the signed contract", "contract", "signatures")
        contract, roles = Contract.from_document(fields["contract"]), fields["signatures"]
        if not isinstance(roles, dict):
            raise WireError("'signatures' of the signed contract must be an object")
        read = Fields(roles, "the signatures", *roles)
        return cls(contract, {role: hex_bytes(read.text(role), SIGNATURE_SIZE, "a signature") for role in roles})


def load_contract(text: str | bytes, *, min_batch_size: int = MIN_BATCH_SIZE) -> SignedContract:
    """Parse a signed contract, verify both signatures, and recompute the guarantee of the plan and of all rounds.

    The caller compares the operators' identities with those it expects: anyone can sign with an identity of their own.
    """
    signed = SignedContract.from_json(text)
    contract = signed.verify()
    check_whole("min_batch_size", contract.min_batch_size, min_batch_size)
    from hubbub.planner.recompute import verify as verify_plan  # noqa: PLC0415 (devices have no numpy)

    verify_plan(contract.plan)
    verify_series(contract)
    return signed


def verify_series(contract: Contract) -> None:
    """Raise :class:`Infeasible` if all rounds of a contract together cost more than its total allows."""
    if contract.series is None:
        return
    total, spent = contract.total, contract.spending(contract.rounds).epsilon
    if spent > total.epsilon:
        found = "no bound is proven" if math.isinf(spent) else f"they cost ε = {spent:.6g}"
        raise Infeasible(
            f"all {total.rounds:,} rounds together must cost at most the total of the series, ε = {total.epsilon:.6g} "
            f"at δ = {total.delta:.3g}, but {found}: plan for this number of rounds (hubbub plan --rounds), agree on "
            "fewer rounds, or allow a larger total"
        )


def load_served_contract(text: bytes, role: str, identity: Identity, min_batch_size: int) -> Contract:
    """Load a contract that a service is asked to serve; it must name the service's own identity in its role."""
    contract = load_contract(text, min_batch_size=min_batch_size).contract
    if getattr(contract, role) != identity.public:
        raise FalseClaim(f"the contract names another {role}")
    return contract


def _check_crowd(plan: Plan, admission: Admission) -> None:
    """Raise if the guarantee needs other honest users while anyone may send all the other bundles of a batch.

    An attacker who sends all bundles but one leaves its sender without a crowd. Admission bounds the number of bundles
    by the number of accounts; a plan for fewer honest users bounds what the others take away.
    """
    if admission.kind == "open" and plan.guarantee.assumptions.honest > 1 and plan.honest_fraction == 1:
        raise Infeasible(
            f"the plan's guarantee needs {plan.guarantee.assumptions.honest:,} honest users, but with open admission "
            "one sender can fill a batch: admit by ticket or token, or plan with honest_fraction < 1 (--honest)"
        )


def _payload(plan: Plan) -> tuple[int, int]:
    """Return the bytes of a slot's payload, and an upper bound of it as a number; a string has any bytes."""
    if plan.schema.text is not None:
        return plan.slot_payload, 256**plan.slot_payload
    return plan.slot_payload, plan.protocol.payload_format.limit(plan.schema.width)


def _parse(text: str | bytes, what: str) -> Json:
    if len(text) > MAX_CONTRACT_SIZE:
        raise TooLarge(f"{what} must have at most {MAX_CONTRACT_SIZE:,} bytes, got {len(text):,}")
    return parse(text, what)
