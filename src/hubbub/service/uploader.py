"""The client of a shuffler: randomize each answer once, seal it, and upload it until it is known to be stored.

Randomized messages and sealed bundles are written to a journal before the first attempt. A bundle is sent unchanged
until there is a response; only the problem ``outdated-keys``, if the signed key lists confirm it, makes the uploader
seal the same randomized messages again. Every bundle of an answer has the same ticket or token, or with open admission
the same random id, which the shuffler takes once. A lost response, a crash, a key rotation or a proxy that lies
therefore never counts an answer twice. The secrets of a token are written to the journal before it is requested, for
the same reason: an issuer answers only the same request again.

Refusals are not signed, so none of them makes the journal forget an answer before its round is over by the contract
and by this device's clock; but whoever can feign a success can also feign that another bundle of it is stored.

The client's side of an evaluation: blind a string, have it evaluated through the relay, check the proof, seal. The
blind is in the journal before the first request, so that a request that is repeated, after a lost response or a crash,
asks for nothing new.
"""

import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from hubbub.bits.exact import Buffered
from hubbub.documents import Fields, canonical, parse
from hubbub.errors import InvalidInput, NoResponse, WireError, reject
from hubbub.model.questions.text import NOTHING
from hubbub.model.releases import PEOPLE
from hubbub.oprf import Blinded, blind, finalize
from hubbub.pipeline.device import payloads, record_payloads
from hubbub.service.journal import STORED, UNCERTAIN, WAITING, Answer, Journal
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.keylist import KeyList, PublicKey, TagKeys
from hubbub.service.task.strings import MAX_EVALUATIONS, EvaluationRequest, read_evaluation
from hubbub.service.task.tokens import PendingToken, challenge
from hubbub.service.transport import Response
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


ATTEMPTS = 12
"""Attempts per request; afterwards the journal keeps the bundles for the next run."""
OUTDATED, SPENT = "outdated-keys", "token-spent"
LIMIT = "evaluation-limit"
"""The problem of an account, or of a key, whose evaluations are used up for now."""
LONGEST_PAUSE = 60.0
"""Longest pause between two attempts, in seconds, besides the wait that the service asks for."""
T = TypeVar("T")
Record = int | str | bytes | None
"""An encoded record; for strings, the string, its payload, or None."""


class Transport(Protocol):
    """A connection to a shuffler; raises :class:`NoResponse` if there is no response."""

    def keys(self, task: str) -> bytes:
        """Return the key document of a task."""

    def post(self, task: str, body: bytes) -> Response:
        """Upload bundles."""

    def evaluate(self, task: str, body: bytes) -> Response:
        """Ask for evaluations of blinded strings."""


class Issuer(Protocol):
    """A connection to an issuer of tokens; raises :class:`NoResponse` if there is no response."""

    def request(self, body: bytes, code: str) -> Response:
        """Send a TokenRequest for the account with this code."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of a run: answers stored, still waiting, uncertain, and refused by name of the problem.

    An uncertain answer was sent to a shuffler whose store was then restored from a backup: it may have been counted.
    """

    stored: int
    waiting: int
    refused: dict[str, int]
    uncertain: int = 0


@dataclass
class Uploader:
    """Sends the answers of a journal to the shuffler of a contract."""

    contract: Contract
    transport: Transport
    journal: Journal
    per_request: int = 100
    attempts: int = ATTEMPTS
    pause: Callable[[float], None] = time.sleep
    entropy: Callable[[int], bytes] = os.urandom
    now: Callable[[], float] = time.time
    issuer: Issuer | None = None
    retrying: Callable[[str, float], None] = lambda reason, seconds: None
    """Called before each pause with the reason for another attempt and the length of the pause."""

    def prepare(
        self,
        records: Iterable[Record],
        admissions: Iterable[bytes] | Callable[[], bytes] | None = None,
        *,
        codes: Iterable[str] | None = None,
    ) -> None:
        """Randomize encoded records, one bundle each, and store them in the journal.

        For a contract of strings, a record is a string, or None for nothing, or its payload; :meth:`send` asks for the
        evaluations, and a ticket is followed by the one for the analyzer.

        ``admissions`` are tickets or tokens, one per record, or a function that makes one. With ``codes``, :meth:`send`
        first requests a token per record from the issuer. A contract with open admission needs neither.
        """
        terms = self.contract.admission
        source = Buffered(self.entropy)
        if codes is not None:
            if terms.kind != "token" or self.issuer is None:
                raise InvalidInput("codes need a contract that admits by token, and the address of its issuer")
            self.journal.fill(self._pending(records, codes, source))
            return
        if admissions is None and terms.kind != "open":
            raise InvalidInput(f"the contract admits by {terms.kind}: each answer needs a {terms.kind}")
        if admissions is not None and terms.kind == "open":
            raise InvalidInput("the contract admits everyone: its answers have neither tickets nor tokens")
        strings = self.contract.strings is not None
        size = admissions_size(self.contract) if strings else terms.size
        keys = None if strings else self._retry(self._fetch_keys)

        def answers() -> Iterator[Answer]:
            for record, admission in paired(records, admissions or self._new_id, terms.kind):
                if len(admission) != size:
                    reject(f"an admission of kind {terms.kind!r}", f"have {size} bytes", len(admission))
                messages = self._randomize(record, source)
                if keys is None:
                    scalar = draw_blind(self.contract, entropy=self.entropy)
                    yield Answer(messages, admission, pending=scalar)
                else:
                    one = Answer(messages, admission)
                    yield replace(one, bundle=self._seal(one, keys))

        self.journal.fill(answers(), b"" if keys is None else keys.ids)

    def _new_id(self) -> bytes:
        """Draw the id of an answer, which stands where others have a ticket or token."""
        return self.entropy(self.contract.admission.size)

    def _pending(self, records: Iterable[Record], codes: Iterable[str], source: Buffered) -> Iterator[Answer]:
        """Yield answers with the secrets of the tokens that they wait for."""
        for record, code in paired(records, codes, "code"):
            pending = PendingToken.generate(self.contract.admission.key, entropy=self.entropy)
            yield Answer(self._randomize(record, source), pending=pending.to_bytes(), code=code.encode())

    def _randomize(self, record: Record, source: Buffered) -> bytes:
        if self.contract.strings is not None:
            plan = self.contract.plan
            return plan.check_payload(record) if isinstance(record, bytes) else b"".join(payloads(record, plan))
        if not isinstance(record, int):
            reject("a record", "be a number, as hubbub.pipeline.device.encode returns it")
        return b"".join(record_payloads(record, self.contract.plan, entropy=source)[: self.contract.slots])

    def fetch_tokens(self) -> None:
        """Request the tokens that answers wait for; without one, an answer is refused."""
        terms = self.contract.admission
        challenged = challenge(terms.issuer, self.contract.task)
        while requests := self.journal.requests(self.per_request):
            if self.issuer is None:
                raise InvalidInput("the journal has answers without tokens: name the issuer to request them from")
            for number, secrets, code in requests:
                pending = PendingToken.from_bytes(secrets)
                response = self._request_token(self.issuer, pending.request(terms.key, challenged), code)
                if response.refused:
                    self._refuse(number, response.problem)
                    continue
                token = pending.finalize(terms.key, challenged, response.body)
                self.journal.unseal(number, self._new_blind(), token)

    def _new_blind(self) -> bytes:
        """Draw the blind of a string; other answers need none."""
        return b"" if self.contract.strings is None else draw_blind(self.contract, entropy=self.entropy)

    def seal_answers(self) -> None:
        """Seal the answers that have their tokens, or had a bundle of an earlier version."""
        keys: ClientKeys | None = None
        while waiting := self.journal.unsealed(self.per_request):
            keys = keys or self._retry(self._fetch_keys)
            self.journal.seal([(number, self._seal(one, keys)) for number, one in waiting], keys.ids)

    def evaluate_strings(self, *, patient: bool = True) -> None:
        """Ask for the evaluations that strings wait for, and seal these strings; a refused request settles them.

        Unless ``patient``, those whose evaluations are used up are left for later.
        """
        keys: ClientKeys | None = None
        limit, passed = min(self.per_request, MAX_EVALUATIONS), 0
        for _ in range(self.attempts):
            while waiting := self.journal.unsealed(limit, passed):
                keys = keys or self._retry(self._fetch_keys)
                answers = [self._unsealed(*one) for one in waiting]
                if not all(keys.supersede(one.before) for one in answers):
                    keys = None
                    break
                body = evaluation_request(answers, self.contract, keys)
                ask = functools.partial(self.transport.evaluate, self.contract.id, body)
                response = self._retry(ask, 200, "" if patient else LIMIT)
                if response.problem == OUTDATED:
                    keys = None
                    break
                if response.problem and len(answers) > 1:
                    # One by one, they show which of them was refused.
                    limit = 1
                    continue
                if response.problem == LIMIT:
                    passed = answers[0].number
                    continue
                if response.refused:
                    self._refuse(answers[0].number, response.problem)
                    continue
                bundles = seal_strings(answers, response.body, self.contract, keys, entropy=self.entropy)
                self.journal.seal(zip((one.number for one in answers), bundles, strict=True), keys.ids)
            else:
                return
        raise NoResponse("the analyzer's keys changed during every attempt")

    def _unsealed(self, number: int, one: Answer) -> UnsealedString:
        if not one.pending:
            # It comes from a journal of an earlier version.
            self.journal.unseal(number, self._new_blind())
            one = self.journal.read(number)
        return UnsealedString(number, one.messages, one.admission, one.pending, self.journal.sealed_to(number))

    def _request_token(self, issuer: Issuer, body: bytes, code: str) -> Response:
        return self._retry(lambda: issuer.request(body, code), 200)

    def send(self, progress: Callable[[int], None] = lambda _: None) -> Sent:
        """Send all waiting answers until they are stored or refused; ``progress`` gets the number settled so far.

        Answers that an earlier run left refused are tried again.
        """
        self.journal.resume()
        self.fetch_tokens()
        settled = 0
        if self.contract.strings is None:
            self.seal_answers()
        else:
            # An account whose evaluations are used up must not keep the others waiting.
            self.evaluate_strings(patient=False)
            settled = self._send_sealed(progress, settled)
            self.evaluate_strings()
        self._send_sealed(progress, settled)
        states = self.journal.states()
        stored, left, uncertain = (states.pop(state, 0) for state in (STORED, WAITING, UNCERTAIN))
        return Sent(stored, left, states, uncertain)

    def _send_sealed(self, progress: Callable[[int], None], settled: int) -> int:
        """Send all bundles, and return the number settled so far."""
        while waiting := self.journal.waiting(self.per_request):
            problem = self._send(waiting)
            if problem is None:
                self.journal.settle([number for number, _ in waiting], STORED)
            elif len(waiting) > 1:
                # Sent one by one, they show which of them was refused.
                for one in waiting:
                    self._send_one(*one)
            else:
                self._settle_one(waiting[0][0], problem)
            settled += len(waiting)
            progress(settled)
        return settled

    def _send_one(self, number: int, bundle: bytes) -> None:
        problem = self._send([(number, bundle)])
        if problem is None:
            self.journal.settle([number], STORED)
        else:
            self._settle_one(number, problem)

    def _settle_one(self, number: int, problem: str) -> None:
        """Record a refusal, or seal again if the keys were outdated, which means that the bundle was not stored."""
        for attempt in range(self.attempts):
            if attempt == self.attempts - 1 and problem == OUTDATED:
                break
            if problem == SPENT and self.journal.sealed_again(number):
                # An earlier bundle of this answer was stored, although the client was told that it was not.
                self.journal.settle([number], STORED)
                return
            bundle = self._seal_again(number, attempt) if problem == OUTDATED else b""
            if not bundle:
                if problem != OUTDATED:
                    self._refuse(number, problem)
                return
            outcome = self._send([(number, bundle)])
            if outcome is None:
                self.journal.settle([number], STORED)
                return
            problem = outcome
        raise NoResponse("answers are refused for outdated keys, which the signed lists still have")

    def _refuse(self, number: int, problem: str) -> None:
        """Record a refusal, which nobody signed: the answer is forgotten only if its round is over by this clock."""
        if self.contract.over_at(self.now(), self.journal.round):
            self.journal.settle([number], problem)
        else:
            self.journal.refuse(number, problem)

    def _seal_again(self, number: int, attempt: int) -> bytes:
        """Return a bundle of the same answer for the current keys, which is in the journal; empty if it was refused."""
        answer = self.journal.read(number)
        if not answer.admission:
            # The shuffler's store was restored: the answer may be counted, and its ticket, token or id be forgotten.
            self.journal.refuse(number, UNCERTAIN)
            return b""
        keys = self._retry(self._fetch_keys)
        if not keys.supersede(self.journal.sealed_to(number)):
            # A proxy says so, and the signed lists do not: the bundle may be stored.
            self.pause(min(LONGEST_PAUSE, 0.25 * 2**attempt))
            return answer.bundle
        if self.contract.strings is None:
            self.journal.seal([(number, self._seal(answer, keys))], keys.ids)
        else:
            # Another key has other tags: the string is evaluated again, with another blind.
            self.journal.unseal(number, self._new_blind())
            self.evaluate_strings()
        return self.journal.read(number).bundle

    def _send(self, bundles: list[tuple[int, bytes]]) -> str | None:
        """Return None if the bundles are stored, or the name of the problem if they are refused."""
        body = b"".join(bundle for _, bundle in bundles)
        response = self._retry(lambda: self.transport.post(self.contract.id, body), 201)
        return response.problem if response.refused else None

    def _retry(self, call: Callable[[], T], success: int | None = None, final: str = "") -> T:
        """Call until there is a final result; pauses double, with full jitter, up to a minute.

        A :class:`Response` is final if it has the status of success, if a service of hubbub refuses the request, or if
        it has the problem ``final``.
        """
        last = self.attempts - 1
        for attempt in range(self.attempts):
            wait = 0.0
            try:
                result = call()
            except NoResponse as error:
                if attempt == last:
                    raise
                reason = str(error)
            else:
                if not isinstance(result, Response) or result.status == success or result.refused:
                    return result
                if final and result.problem == final:
                    return result
                wait, reason = result.retry_after, result.reason
                if attempt == last:
                    break
            share = int.from_bytes(self.entropy(4), "big") / 2**32
            seconds = wait + share * min(LONGEST_PAUSE, 0.25 * 2**attempt)
            self.retrying(reason, seconds)
            self.pause(seconds)
        raise NoResponse(f"the service accepted nothing in {self.attempts} attempts: {reason}")

    def _fetch_keys(self) -> ClientKeys:
        """Return the keys to seal with, each signed by its operator."""
        contract, now = self.contract, self.now()
        names = ("shuffler", "analyzer", "analyzer_key_id", *(("tags",) if contract.strings is not None else ()))
        text = self.transport.keys(contract.id)
        read = Fields(parse(text, "the key document"), "the key document", *names)
        analyzer = KeyList.read(canonical(read["analyzer"]), contract.analyzer, "analyzer", now=now)
        shuffler = KeyList.read(canonical(read["shuffler"]), contract.shuffler, "shuffler", now=now)
        used = analyzer.find(read.whole("analyzer_key_id"))
        if used is None or used.suite != contract.suite:
            raise WireError(
                "'analyzer_key_id' of the key document must name a key of the contract's suite in the analyzer's list"
            )
        tag = b""
        if contract.strings is not None:
            group = contract.strings.group
            tags = TagKeys.read(canonical(read["tags"]), contract.analyzer, contract.task, group)
            if used.id not in tags.keys:
                raise WireError("'tags' of the key document must have the tag key of the analyzer's key in use")
            tag = tags.keys[used.id]
        listed = frozenset(key.id for key in shuffler.keys)
        return ClientKeys(used, shuffler.active(contract.suite), listed, tag)

    def _seal(self, answer: Answer, keys: ClientKeys) -> bytes:
        layout = self.contract.layout_of(self.journal.round)
        inner, outer = (sealing.load_public(key.suite, key.public) for key in (keys.analyzer, keys.shuffler))
        messages = self.journal.messages(answer)
        filled: list[bytes | None] = [*messages, *[None] * (layout.slots - len(messages))]
        slots = [sealing.seal_slot(message, layout, keys.analyzer.id, inner) for message in filled]
        return sealing.seal_bundle(slots, layout, keys.shuffler.id, outer, answer.admission)


def paired(records: Iterable[Record], given: Iterable[T] | Callable[[], T], what: str) -> Iterator[tuple[Record, T]]:
    """Yield each record with its item, which a function makes or of which there must be equally many."""
    if callable(given):
        yield from ((record, given()) for record in records)
        return
    rest, count = iter(given), 0
    for count, record in enumerate(records, 1):
        try:
            item = next(rest)
        except StopIteration:
            message = f"there must be one {what} for each answer, but they end before answer {count:,}"
            raise InvalidInput(message) from None
        yield record, item
    for _ in rest:
        raise InvalidInput(f"there must be one {what} for each answer, but there are more than {count:,}")
