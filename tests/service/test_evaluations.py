"""Evaluations: proofs that are checked, caps that survive a restart, keys that belong to one task and one key."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.admissions import ISSUER, TICKET_KEY, TOKEN_KEY
from tests.service.string_system import RELAY, DirectTransport, StringSystem

from hubbub.errors import FalseClaim, Infeasible, InvalidInput, NoResponse, Problem, WireError
from hubbub.model.privacy import Budget
from hubbub.oprf import Key, blind, finalize
from hubbub.planner import cost
from hubbub.service.analyzer.evaluations import Evaluations
from hubbub.service.runtime.database import open_database
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract, Series
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import TagKeys
from hubbub.service.task.strings import EvaluationRequest, StringTerms, default_group, read_evaluation, write_evaluation
from hubbub.service.transport import Response

GROUPS = ["ristretto255-SHA512", "P256-SHA256"]


def terms(**changes: Any) -> StringTerms:
    values: dict[str, Any] = {"group": default_group(), "relay": RELAY, "evaluations": 10**6, "per_client": 2}
    return StringTerms(**{**values, **changes})


@pytest.fixture
def system(tmp_path: Path) -> Iterator[StringSystem]:
    built = StringSystem(tmp_path, terms=terms())
    yield built
    built.shut()


def ask(system: StringSystem, *texts: bytes, account: str = "ada", key_id: int = 1) -> list[bytes]:
    """Return the outputs of an account's strings."""
    group = system.contract.strings.group  # type: ignore[union-attr]
    asked = [blind(group, text) for text in texts]
    ticket = TICKET_KEY.evaluation().mint(system.contract.task, account)
    request = EvaluationRequest(key_id, tuple(one.element for one in asked), (ticket,) * len(asked))
    answer = system.analyzer.evaluations.evaluate(system.contract.task, request.to_bytes())
    public = system.analyzer.evaluations.tag_keys(system.contract.task).keys[key_id]
    return finalize(asked, read_evaluation(answer, group, len(asked)), public)


@pytest.mark.parametrize("group", GROUPS)
def test_equal_strings_get_equal_outputs(tmp_path: Path, group: str) -> None:
    system = StringSystem(tmp_path, terms=terms(group=group))
    one, two = ask(system, b"crash", b"other")
    assert ask(system, b"crash", account="bob") == [one]
    assert one != two
    assert system.people(["crash"] * 3).stored == 3
    system.shut()


def test_other_tasks_and_keys_have_other_tags(system: StringSystem) -> None:
    first = system.analyzer.evaluations.tag_keys(system.contract.task).keys[1]
    other = system.new_contract(task_end=system.task_end + 1)
    system.serve(other)
    assert system.analyzer.evaluations.tag_keys(other.task).keys[1] != first
    before = ask(system, b"crash")
    system.analyzer.rotate()
    assert ask(system, b"crash", key_id=2) != before
    keys = system.analyzer.evaluations.tag_keys(system.contract.task).keys
    assert len(set(keys.values())) == len(keys) >= 2
    # The same key after a restart.
    system.restart()
    assert ask(system, b"crash", account="eve") == before


class Forger(DirectTransport):
    """Whoever stands between client and analyzer, and answers as it likes."""

    def __init__(self, owner: StringSystem, forge: str) -> None:
        super().__init__(owner)
        self._forge = forge
        self._kept: bytes | None = None

    def evaluate(self, task: str, body: bytes) -> Response:
        honest = super().evaluate(task, body)
        group = self.owner.contract.strings.group  # type: ignore[union-attr]
        size = self.owner.contract.admission.size
        request = EvaluationRequest.from_bytes(body, group, size)
        made = read_evaluation(honest.body, group, len(request.elements))
        if self._forge == "own key":
            return Response(
                200, body=write_evaluation(Key.derive(group, os.urandom(32), b"").evaluate(request.elements))
            )
        if self._forge == "swapped":
            return Response(200, body=b"".join(reversed(made.elements)) + made.proof)
        if self._forge == "repeated":
            self._kept = self._kept or honest.body
            return Response(200, body=self._kept)
        if self._forge == "altered":
            return Response(200, body=honest.body[:-1] + bytes([honest.body[-1] ^ 1]))
        return Response(200, body=honest.body[:-1])


@pytest.mark.parametrize("forge", ["own key", "swapped", "repeated", "altered", "short"])
def test_forged_evaluations_are_refused_and_nothing_is_sent(system: StringSystem, forge: str) -> None:
    forger = Forger(system, forge)
    if forge == "repeated":
        # A valid response to another request, as it was sent to somebody else.
        forger.owner.uploader(forger).prepare([], [])
        first = system.uploader(forger)
        first.prepare(["one", "two"], system.admissions(["a", "b"]))
        first.send()
    sender = system.uploader(forger)
    sender.prepare(["crash", "burn"], system.admissions(["ada", "bob"]))
    stored = system.counts().accepted
    with pytest.raises(WireError):
        sender.send()
    assert system.counts().accepted == stored
    assert sender.journal.states() == {"waiting": 2}
    # The journal is as it was: the honest way is open.
    sender.transport = system.transport()
    assert sender.send().stored == 2


def test_each_client_has_a_cap_and_repeats_are_free(system: StringSystem) -> None:
    group, task = default_group(), system.contract.task
    ticket = TICKET_KEY.evaluation().mint(task, "ada")
    requests = [EvaluationRequest(1, (blind(group, b"x").element,), (ticket,)).to_bytes() for _ in range(3)]
    evaluate = system.analyzer.evaluations.evaluate
    for _ in range(5):
        evaluate(task, requests[0])
    evaluate(task, requests[1])
    with pytest.raises(Problem, match="evaluation-limit"):
        evaluate(task, requests[2])
    system.restart()
    evaluate = system.analyzer.evaluations.evaluate
    with pytest.raises(Problem, match="evaluation-limit"):
        evaluate(task, requests[2])
    evaluate(task, requests[0])
    # Another account, and the next key, have caps of their own.
    ask(system, b"x", account="bob")
    system.analyzer.rotate()
    ask(system, b"x", key_id=2)


def test_the_cap_of_a_key_is_never_exceeded(tmp_path: Path) -> None:
    system = StringSystem(tmp_path, terms=terms(evaluations=5, per_client=100))
    ask(system, b"1", b"2", b"3")
    system.restart()
    with pytest.raises(Problem, match="evaluation-limit"):
        ask(system, b"4", b"5", b"6", account="bob")
    # Nothing of a refused request is recorded: it is refused again, and a smaller one passes.
    with pytest.raises(Problem, match="evaluation-limit"):
        ask(system, b"4", b"5", b"6", account="bob")
    ask(system, b"4", b"5", account="bob")
    with pytest.raises(Problem, match="evaluation-limit"):
        ask(system, b"6", account="eve")
    assert system.analyzer.evaluations.used(system.contract.task) == {1: 5}
    assert system.analyzer.evaluations.share([system.contract]) == 1.0
    system.shut()


def test_blocks_that_a_crash_forfeits_count_as_used(tmp_path: Path) -> None:
    system = StringSystem(tmp_path, admission=Admission(), terms=terms(evaluations=10_000))
    task, element = system.contract.task, blind(default_group(), b"x").element
    body = EvaluationRequest(1, (element,)).to_bytes()
    for number in range(4):
        system.analyzer.evaluations.evaluate(task, body)
        assert system.analyzer.evaluations.used(task) == {1: 10 * (number + 1)}
        system.restart()
    for _ in range(10):
        system.analyzer.evaluations.evaluate(task, body)
    assert system.analyzer.evaluations.used(task) == {1: 50}
    system.shut()


def test_a_client_that_is_told_to_wait_keeps_its_string(tmp_path: Path) -> None:
    system = StringSystem(tmp_path, terms=terms(evaluations=1))
    sender = system.uploader()
    sender.prepare(["crash", "burn"], system.admissions(["ada", "bob"]))
    with pytest.raises(NoResponse, match="evaluation-limit"):
        sender.send()
    # The key had one evaluation left, which the first of them got.
    assert sender.journal.states() == {"stored": 1, "waiting": 1}
    assert sender.journal.read(2).messages
    system.shut()


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"", "malformed"),
        (b"\0\1", "malformed"),
        (b"\0\1" + bytes(31), "malformed"),
        (b"\0\1" + bytes(64), "bad-token"),
    ],
)
def test_malformed_requests_are_refused(system: StringSystem, body: bytes, name: str) -> None:
    with pytest.raises(Problem, match=name):
        system.analyzer.evaluations.evaluate(system.contract.task, body)


def test_elements_and_keys_are_checked(system: StringSystem) -> None:
    ticket = TICKET_KEY.evaluation().mint(system.contract.task, "ada")
    task, evaluate = system.contract.task, system.analyzer.evaluations.evaluate
    for element in (bytes(32), b"\xff" * 32):
        with pytest.raises(Problem, match="malformed"):
            evaluate(task, EvaluationRequest(1, (element,), (ticket,)).to_bytes())
    good = blind(default_group(), b"x").element
    with pytest.raises(Problem, match="outdated-keys"):
        evaluate(task, EvaluationRequest(9, (good,), (ticket,)).to_bytes())
    with pytest.raises(Problem, match="unknown-task"):
        evaluate(bytes(16), EvaluationRequest(1, (good,), (ticket,)).to_bytes())
    # A ticket that the shuffler accepts is none for the analyzer, and the other way round.
    shufflers = TICKET_KEY.mint(task, "ada")
    with pytest.raises(Problem, match="bad-token"):
        evaluate(task, EvaluationRequest(1, (good,), (shufflers,)).to_bytes())
    eve = TICKET_KEY.evaluation().mint(task, "eve")
    sender = system.uploader()
    sender.prepare(["crash"], [eve + eve])
    assert sender.send().refused == {"bad-token": 1}


def test_one_refused_client_does_not_refuse_the_others(system: StringSystem) -> None:
    admissions = system.admissions(["ada", "bob", "eve"])
    assert admissions is not None
    admissions[1] = admissions[1][:32] + bytes(32)
    sender = system.uploader()
    sender.prepare(["crash", "crash", None], admissions)
    outcome = sender.send()
    assert (outcome.stored, outcome.refused) == (2, {"bad-token": 1})


def test_the_shuffler_pins_tag_keys(system: StringSystem) -> None:
    tasks, contract = system.shuffler.tasks, system.contract
    (served,) = tasks.all()
    analyzer, keys = system.identities["analyzer"], system.analyzer.evaluations.tag_keys(contract.task)
    changed = TagKeys(contract.task, keys.group, {1: Key.derive(keys.group, os.urandom(32), b"").public})
    with pytest.raises(FalseClaim, match="other bytes than before"):
        tasks.update_tag_keys(served, changed.sign(analyzer))
    with pytest.raises(FalseClaim, match="not signed"):
        tasks.update_tag_keys(served, keys.sign(Identity.generate()))
    with pytest.raises(FalseClaim, match="another task"):
        tasks.update_tag_keys(served, TagKeys(bytes(16), keys.group, keys.keys).sign(analyzer))
    other = next(group for group in GROUPS if group != keys.group)
    with pytest.raises(FalseClaim, match="another group"):
        tasks.update_tag_keys(served, TagKeys(contract.task, other, {}).sign(analyzer))
    # An older list without the key in use: clients wait.
    tasks.update_tag_keys(served, TagKeys(contract.task, keys.group, {}).sign(analyzer))
    with pytest.raises(Problem, match="tag keys are not known yet"):
        tasks.keys_document(contract.task)


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "P-256"}, {"group": None}, {"relay": ""}, {"relay": "Relay"}, {"relay": None}, {"evaluations": 0},
        {"evaluations": 10**13}, {"evaluations": 1.5}, {"per_client": 0}, {"per_client": 101}, {"per_client": "1"},
    ],
)  # fmt: skip
def test_terms_are_checked(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        terms(**changes)
    with pytest.raises(WireError):
        StringTerms.from_document({**terms().to_document(), **changes})


def test_contracts_for_strings(system: StringSystem, tmp_path: Path) -> None:
    contract = system.contract
    assert Contract.from_json(contract.to_json()) == contract
    assert contract.slot_size == 2 + 32 + 4 + 24 + 16
    # The planner states the size of what is sent.
    assert cost(system.plan).bytes == contract.bundle_size
    with pytest.raises(InvalidInput, match="strings must be the terms"):
        system.new_contract(strings=None)
    with pytest.raises(Infeasible, match="suite 1"):
        system.new_contract(suite=2)
    with pytest.raises(Infeasible, match="single round"):
        series = Series(2, 1, Budget(9, 1e-3))
        system.new_contract(series=series, task_end=contract.task_start + 2)
    with pytest.raises(InvalidInput, match="slots must be 1"):
        system.new_contract(slots=2)
    document = {**contract.to_document(), "strings": None}
    with pytest.raises(WireError):
        Contract.from_document(document)


def test_an_analyzer_without_the_evaluation_key_does_not_serve_tickets(tmp_path: Path) -> None:
    class Lacking(StringSystem):
        def context(self, role: str, credentials: Any) -> Any:
            found = super().context(role, credentials)
            return (
                type(found)(found.keyring, found.identity, found.clock, found.workers, 1)
                if role == "analyzer"
                else found
            )

    with pytest.raises(InvalidInput, match="there is no ticket key of the issuer 'tests'"):
        Lacking(tmp_path)


class TokenIssuer:
    """An issuer that signs every request blindly."""

    def request(self, body: bytes, code: str) -> Response:
        assert code.startswith("code")
        return Response(200, body=TOKEN_KEY.signer().sign(body[3:]))


def test_a_token_admits_to_both_services(tmp_path: Path) -> None:
    by_token = Admission("token", "issuer.example", TOKEN_KEY.public)
    system = StringSystem(tmp_path, admission=by_token, terms=terms(per_client=1))
    transport = system.transport()
    sender = system.uploader(transport, issuer=TokenIssuer())
    sender.prepare(["crash"] * 3 + [None], codes=[f"code {number}" for number in range(4)])
    outcome = sender.send()
    assert (outcome.stored, outcome.refused) == (4, {})
    # The same element again is free; the same token for another string is not.
    body = next(data for kind, data in transport.seen if kind == "evaluate")
    assert transport.evaluate(system.contract.id, body).status == 200
    request = EvaluationRequest.from_bytes(body, default_group(), 354)
    other = EvaluationRequest(1, (blind(default_group(), b"x").element,), request.admissions[:1])
    assert transport.evaluate(system.contract.id, other.to_bytes()).problem == "evaluation-limit"
    forged = EvaluationRequest(1, request.elements[:1], (bytes(354),))
    assert transport.evaluate(system.contract.id, forged.to_bytes()).problem == "bad-token"
    system.shut()


@pytest.mark.parametrize("lost", range(1, 7))
def test_a_client_that_dies_anywhere_counts_once(tmp_path: Path, lost: int) -> None:
    """The blind and the bundle are in the journal before they are sent: whatever is repeated asks for nothing new."""
    system = StringSystem(tmp_path, terms=terms(per_client=1))

    class Dying(DirectTransport):
        left = lost

        def _step(self) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

        def evaluate(self, task: str, body: bytes) -> Response:
            self._step()
            response = super().evaluate(task, body)
            self._step()
            return response

        def post(self, task: str, body: bytes) -> Response:
            self._step()
            response = super().post(task, body)
            self._step()
            return response

    path = tmp_path / "journal"
    sender = system.uploader(Dying(system), path)
    sender.prepare(["crash", None], system.admissions(["ada", "bob"]))
    try:
        sender.send()
    except KeyboardInterrupt:
        assert lost <= 4
    sender.journal.close()
    again = system.uploader(journal=path)
    # One evaluation for each client was enough.
    assert again.send().stored == 2
    assert b"crash" not in path.read_bytes()
    assert system.counts().accepted == 2
    again.journal.close()
    system.shut()


def test_an_analyzer_without_the_group_of_a_contract_does_not_serve_it(
    system: StringSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be found out by the first client, and the shuffler would wait for its tag keys for ever."""
    from hubbub.oprf import ristretto

    monkeypatch.setattr(ristretto, "available", lambda: False)
    evaluations = system.analyzer.evaluations
    evaluations.check(system.new_contract(strings=terms(group="P256-SHA256")))
    with pytest.raises(InvalidInput, match="needs libsodium on this machine"):
        evaluations.check(system.new_contract(strings=terms(group="ristretto255-SHA512")))


def test_an_account_at_its_limit_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    system = StringSystem(tmp_path, terms=terms(per_client=1))
    ask(system, b"lost journal", account="3")
    pauses: list[float] = []
    sender = system.uploader(pause=pauses.append)
    sender.prepare(["crash"] * 9, system.admissions(range(9)))
    with pytest.raises(NoResponse, match="evaluation-limit"):
        sender.send()
    assert sender.journal.states() == {"stored": 8, "waiting": 1}
    # It is asked for again with the next key.
    system.people(["other"] * 60, first=1000)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    system.next_epoch()
    assert sender.send().stored == 9
    assert system.counts().accepted == 69
    system.shut()


@pytest.mark.postgres
@pytest.mark.long
def test_two_replicas_share_the_cap_of_a_client(tmp_path: Path, postgres_url: str) -> None:
    """A transaction sees no uncommitted rows of another one: both would count themselves below the cap."""
    system = StringSystem(tmp_path, url=postgres_url, terms=terms(per_client=1))
    task, one = system.contract.task, system.analyzer.evaluations
    database = open_database(postgres_url.format(role="analyzer"))
    contract = system.contract
    two = Evaluations(database, system.analyzer.keyring, lambda _: contract, {ISSUER: TICKET_KEY.evaluation()})
    ticket = TICKET_KEY.evaluation().mint(task, "ada")
    requests = [EvaluationRequest(1, (blind(default_group(), b"x").element,), (ticket,)).to_bytes() for _ in range(2)]
    outcomes: list[str] = []

    def ask_other() -> None:
        try:
            two.evaluate(task, requests[1])
            outcomes.append("made")
        except Problem as problem:
            outcomes.append(problem.name)

    other = threading.Thread(target=ask_other)
    with one._database.transaction():
        one.evaluate(task, requests[0])
        other.start()
        other.join(0.5)
        # It waits for the transaction of the first, which is not over.
        assert outcomes == []
    other.join()
    assert outcomes == ["evaluation-limit"]
    # Other people do not wait for each other.
    with one._database.transaction():
        ask(system, b"x", account="bob")
        body = EvaluationRequest(
            1, (blind(default_group(), b"x").element,), (TICKET_KEY.evaluation().mint(task, "eve"),)
        )
        two._left[task, 1] = 1
        two.evaluate(task, body.to_bytes())
    database.close()
    system.shut()


def test_a_string_whose_second_evaluation_is_refused_is_settled(system: StringSystem) -> None:
    """The keys have changed, and the analyzer, or a relay in its name, does not evaluate the string again."""

    class Refusing(DirectTransport):
        refuses = False

        def evaluate(self, task: str, body: bytes) -> Response:
            return Response(403, "bad-token") if self.refuses else super().evaluate(task, body)

    transport = Refusing(system)
    sender = system.uploader(transport)
    sender.prepare(["crash", "burn"], system.admissions(["ada", "bob"]))
    sender.evaluate_strings()
    system.people(["other"] * 60, first=1000)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    system.next_epoch()
    transport.refuses = True
    outcome = sender.send()
    assert (outcome.stored, outcome.waiting, outcome.refused) == (0, 0, {"bad-token": 2})


def test_no_string_is_evaluated_again_for_keys_that_supersede_those_of_others_only(system: StringSystem) -> None:
    """One string was sealed to the keys in use, the other to none: the first must wait for later keys."""

    class Broken(DirectTransport):
        left = 1

        def evaluate(self, task: str, body: bytes) -> Response:
            self.left -= 1
            if self.left < 0:
                raise NoResponse("the connection is lost")
            return super().evaluate(task, body)

    transport = Broken(system)
    sender = system.uploader(transport, per_request=1)
    sender.prepare(["crash", "burn"], system.admissions(["ada", "bob"]))
    with pytest.raises(NoResponse, match="is lost"):
        sender.evaluate_strings()
    ((number, _),) = sender.journal.waiting(10)
    sender.journal.unseal(number, sender._new_blind())
    sender.per_request, transport.left = 100, 9
    with pytest.raises(NoResponse, match="keys changed"):
        sender.evaluate_strings()
    assert transport.left == 9
    assert sender.journal.waiting(10) == []


def test_what_is_no_element_uses_up_nothing(tmp_path: Path) -> None:
    """Regression: junk was counted before it was looked at, so that 172 requests stopped a collection for a week."""
    system = StringSystem(tmp_path, admission=Admission(), terms=terms(evaluations=64))
    evaluate, task = system.analyzer.evaluations.evaluate, system.contract.task
    size, good = len(blind(default_group(), b"x").element), blind(default_group(), b"x").element
    for junk in (bytes(size), b"\xff" * size):
        with pytest.raises(Problem, match="malformed"):
            evaluate(task, EvaluationRequest(1, (good,) * 63 + (junk,)).to_bytes())
    assert system.analyzer.evaluations.used(task) == {}
    evaluate(task, EvaluationRequest(1, (good,) * 64).to_bytes())
    assert system.analyzer.evaluations.used(task) == {1: 64}
    system.shut()


@pytest.mark.parametrize("restart", [False, True])
def test_the_evaluations_of_an_hour_do_not_stop_the_next(tmp_path: Path, restart: bool) -> None:
    """Regression: one device used up a key, and everybody else waited until the next one, seven days by default."""
    system = StringSystem(tmp_path, admission=Admission(), terms=terms(evaluations=100))
    task, good = system.contract.task, blind(default_group(), b"x").element
    body = EvaluationRequest(1, (good,) * 50).to_bytes()
    for _ in range(2):
        system.analyzer.evaluations.evaluate(task, body)
    with pytest.raises(Problem, match="evaluation-limit") as refused:
        system.analyzer.evaluations.evaluate(task, body)
    wait = refused.value.retry_after
    assert wait is not None
    assert 0 < wait <= 3600
    assert system.analyzer.evaluations.share([system.contract]) == 1.0
    system.clock.advance(wait - 1)
    with pytest.raises(Problem, match="evaluation-limit"):
        system.analyzer.evaluations.evaluate(task, body)
    system.clock.advance(1)
    if restart:
        system.restart()
    for _ in range(2):
        system.analyzer.evaluations.evaluate(task, body)
    with pytest.raises(Problem, match="evaluation-limit"):
        system.analyzer.evaluations.evaluate(task, body)
    system.shut()


@pytest.mark.parametrize("back", [1, 3600])
def test_a_clock_that_is_set_back_does_not_begin_an_hour_again(tmp_path: Path, back: int) -> None:
    """Regression: two clocks a second apart, or one that was set back, counted from 0 again at every full hour."""
    system = StringSystem(tmp_path, admission=Admission(), terms=terms(evaluations=64))
    task, good = system.contract.task, blind(default_group(), b"x").element
    evaluate, body = system.analyzer.evaluations.evaluate, EvaluationRequest(1, (good,) * 64).to_bytes()
    system.clock.advance(3600 - system.clock.now() % 3600)
    evaluate(task, body)
    for step in (-back, back, -back):
        system.clock.advance(step)
        with pytest.raises(Problem, match="evaluation-limit") as refused:
            evaluate(task, body)
        wait = refused.value.retry_after
    assert wait is not None
    # What a client is told is true, also by the clock that is behind.
    system.clock.advance(wait)
    evaluate(task, body)
    # A clock that was ahead by far does not stop the collection until then.
    system.clock.advance(10**7)
    evaluate(task, body)
    system.clock.advance(-(10**7))
    evaluate(task, body)
    system.shut()


def test_the_counts_of_an_admission_last_as_long_as_its_key(system: StringSystem) -> None:
    ask(system, b"one", b"two")
    system.analyzer.evaluations.forget()
    with pytest.raises(Problem) as raised:
        ask(system, b"three")
    assert raised.value.name == "evaluation-limit"


def test_admissions_are_held_before_their_evaluations_are_counted(
    system: StringSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas that count at once would not see each other's rows."""
    held = []
    database = system.analyzer.evaluations._database

    def hold(self: Any, names: list[bytes]) -> None:
        held.append((len(names), self.rows("SELECT COUNT(*) FROM evaluated")[0][0]))

    monkeypatch.setattr(type(database), "hold", hold)
    ask(system, b"crash")
    assert held == [(1, 0)]
