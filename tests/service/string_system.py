"""Both services and clients of a collection of strings in one process with a simulated clock."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service import system
from tests.service.admissions import BY_TICKET, ISSUER, KEYS, TICKET_KEY

from hubbub.errors import Problem
from hubbub.model.fakes import Fakes
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.journal import Journal
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.http import status_of
from hubbub.service.task.contract import Contract
from hubbub.service.task.strings import StringTerms, default_group
from hubbub.service.transport import Response
from hubbub.service.uploader import Uploader

MAX_BYTES = 24
SHIFT = 9
RELAY = "relay.example"


@functools.cache
def strings_plan(n: int = 60, scale: float = 0.5, shift: int = SHIFT) -> Plan:
    """Return a plan that hides strings of up to about ``shift`` people."""
    protocol = Protocol(0, m=Fakes.laplace(scale, shift), release="strings")
    return plan_from(Schema.strings(MAX_BYTES), n, protocol, epsilon=4.0)


class DirectTransport:
    """The connection of a client without a network; ``seen`` are all bodies that passed."""

    def __init__(self, owner: "StringSystem") -> None:
        self.owner = owner
        self.seen: list[tuple[str, bytes]] = []

    def keys(self, task: str) -> bytes:
        found = self.owner.shuffler.tasks.keys_document(bytes.fromhex(task))
        self.seen.append(("keys", found))
        return found

    def post(self, task: str, body: bytes) -> Response:
        self.seen.append(("post", body))
        uploads = self.owner.shuffler.uploads
        try:
            uploads.accept(uploads.open(uploads.prepare(bytes.fromhex(task), body)))
        except Problem as problem:
            return Response(status_of(problem), problem.name)
        return Response(201)

    def evaluate(self, task: str, body: bytes) -> Response:
        self.seen.append(("evaluate", body))
        try:
            answer = self.owner.analyzer.evaluations.evaluate(bytes.fromhex(task), body)
        except Problem as problem:
            return Response(status_of(problem), problem.name)
        self.seen.append(("evaluated", answer))
        return Response(200, body=answer)


@dataclass
class StringSystem(system.System):
    """Both services with a contract for strings."""

    plan: Plan = field(default_factory=strings_plan)
    min_batch_size: int = 60
    terms: StringTerms | None = None

    def new_contract(self, **changes: Any) -> Contract:
        terms = self.terms or StringTerms(group=default_group(), relay=RELAY, evaluations=10**6)
        return super().new_contract(**{"strings": terms, **changes})

    def context(self, role: str, credentials: Credentials) -> ServiceContext:
        found = super().context(role, credentials)
        if role == "shuffler":
            return found
        keys = {ISSUER: KEYS[ISSUER].evaluation()}
        return ServiceContext(found.keyring, found.identity, found.clock, found.workers, 1, keys)

    def transport(self) -> DirectTransport:
        return DirectTransport(self)

    def uploader(self, transport: Any = None, journal: Path | str = ":memory:", **options: Any) -> Uploader:
        """Return a client with a journal."""
        values = {"attempts": 3, "pause": lambda _: None, "now": self.clock.now, **options}
        return Uploader(self.contract, transport or self.transport(), Journal(journal, self.contract), **values)

    def admissions(self, accounts: Iterable[object]) -> list[bytes] | None:
        """Return the tickets of accounts for both services; None with open admission."""
        task = self.contract.task
        names = [str(one) for one in accounts]
        if self.contract.admission != BY_TICKET:
            return None
        return [TICKET_KEY.mint(task, name) + TICKET_KEY.evaluation().mint(task, name) for name in names]

    def people(self, values: Sequence[str | None], first: int = 0) -> Any:
        """Let one person for each value send it, and return the outcome."""
        sender = self.uploader()
        sender.prepare(values, self.admissions(range(first, first + len(values))))
        return sender.send()
