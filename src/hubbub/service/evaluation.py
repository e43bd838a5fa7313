"""The client's side of an evaluation: blind a string, have it evaluated through the relay, check the proof, seal.

The blind is in the journal before the first request, so that a request that is repeated, after a lost response or a
crash, asks for nothing new.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hubbub.errors import WireError
from hubbub.model.questions.text import NOTHING
from hubbub.model.releases import PEOPLE
from hubbub.oprf import Blinded, blind, finalize
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.evaluations import EvaluationRequest, read_evaluation
from hubbub.service.task.keylist import PublicKey
from hubbub.wire.strings import StringSlots, message

Source = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys that an answer is sealed with: those of both services, and for strings the analyzer's tag key."""

    analyzer: PublicKey
    shuffler: PublicKey
    listed: frozenset[int]
    """The ids of all keys that the shuffler has."""
    tag: bytes = b""
    """The public tag key of the analyzer's key; empty unless strings are collected."""

    @property
    def ids(self) -> bytes:
        """The ids of both keys, as the journal keeps them."""
        return self.analyzer.id.to_bytes(2, "big") + self.shuffler.id.to_bytes(2, "big")

    def supersede(self, before: bytes) -> bool:
        """Return True if the signed lists show that a bundle sealed to the keys ``before`` is not taken any more.

        The word of a proxy or relay is not enough: it could have an answer sealed as often as it likes. What is sealed
        again has the ticket, the token or the id of the first bundle, and is stored once, but nothing is sealed again
        without need.
        """
        if not before:
            return True
        analyzer, shuffler = int.from_bytes(before[:2], "big"), int.from_bytes(before[2:], "big")
        destroyed = shuffler not in self.listed and self.shuffler.id > shuffler
        return self.analyzer.id > analyzer or (self.analyzer.id == analyzer and destroyed)


@dataclass(frozen=True, slots=True)
class UnsealedString:
    """An answer of the journal that waits for its evaluation."""

    number: int
    payload: bytes
    """The payload of the plan: the string of one person, or nothing."""
    admission: bytes
    scalar: bytes
    """The blind."""
    before: bytes = b""
    """The keys of a bundle of this answer that was sent before."""


def draw_blind(contract: Contract, *, entropy: Source = os.urandom) -> bytes:
    """Draw the blind of an answer."""
    return blind(_group(contract), b"", entropy=entropy).scalar


def admissions_size(contract: Contract) -> int:
    """Return the bytes of an account's admission to a collection of strings.

    A ticket for the shuffler, which it verifies with a key that the analyzer must not have, comes with a second one for
    the analyzer; the same token is shown to both.
    """
    return contract.admission.size * (2 if contract.admission.kind == "ticket" else 1)


def blinded(one: UnsealedString, contract: Contract) -> Blinded:
    """Return the blinded string of an answer; a person who has nothing to say asks as everybody does."""
    body = one.payload[PEOPLE:]
    text = message(body) if body[0] != NOTHING else one.scalar
    return Blinded(_group(contract), text, one.scalar)


def evaluation_request(answers: Sequence[UnsealedString], contract: Contract, keys: ClientKeys) -> bytes:
    """Return the body of the request for the evaluations of some answers."""
    elements = tuple(blinded(one, contract).element for one in answers)
    size = contract.admission.shown
    admissions = tuple(one.admission[-size:] for one in answers) if size else ()
    return EvaluationRequest(keys.analyzer.id, elements, admissions).to_bytes()


def seal_strings(
    answers: Sequence[UnsealedString],
    response: bytes,
    contract: Contract,
    keys: ClientKeys,
    *,
    entropy: Source = os.urandom,
) -> list[bytes]:
    """Return the bundles of some answers from the response to their request; raise if its proof is not valid."""
    texts, group = contract.plan.schema.text, _group(contract)
    assert texts is not None
    asked = [blinded(one, contract) for one in answers]
    outputs = finalize(asked, read_evaluation(response, group, len(asked)), keys.tag)
    slots = StringSlots(strings=texts, task=contract.task, key_id=keys.analyzer.id, public=keys.analyzer.public)
    outer = sealing.load_public(keys.shuffler.suite, keys.shuffler.public)
    bundles = []
    for one, output in zip(answers, outputs, strict=True):
        body = one.payload[PEOPLE:]
        slot = slots.filler(entropy=entropy) if body[0] == NOTHING else slots.sealed(body, output)
        admission = one.admission[: contract.admission.size]
        bundles.append(sealing.seal_bundle([slot], contract.layout, keys.shuffler.id, outer, admission))
    return bundles


def _group(contract: Contract) -> str:
    if contract.strings is None:
        raise WireError("the contract must be one for strings")
    return contract.strings.group
