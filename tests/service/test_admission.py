"""Admission: who may send, what a ticket is worth, and that no account is counted twice, whatever fails."""

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service import reference
from tests.service.admissions import BY_TICKET, ISSUER, KEYS, TICKET_KEY, TOKEN_KEY, issued, new_ticket
from tests.service.samples import ANALYZER, SHUFFLER, contract
from tests.service.system import System, plan_of

from hubbub.errors import Infeasible, InvalidInput, Problem, WireError
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.runtime.http import problem_document
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler import uploads as uploads_module
from hubbub.service.shuffler.store import OpenedBundle
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.task import sealing
from hubbub.service.task.admission import Admission, TicketKey, Verifier, load_ticket_keys, verifier
from hubbub.service.task.contract import Contract, SignedContract, load_contract
from hubbub.service.task.tokens import challenge

TASK = bytes(range(16))
OPEN = Admission()
BY_TOKEN = Admission("token", "issuer.example", TOKEN_KEY.public)


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    url = {} if request.param == "sqlite" else {"url": request.getfixturevalue("postgres_url")}
    found = System(tmp_path, **url)
    yield found
    found.shut()


def accepted(system: System) -> int:
    return system.shuffler.totals(check=True)[system.contract.id].accepted


# the rule


def test_defect_15_open_admission_is_refused_where_the_guarantee_needs_a_crowd() -> None:
    """One sender filled a batch of 1,050 in half a second, and its one honest member had no crowd."""
    crowded = plan_of(n=400)
    assert crowded.guarantee.assumptions.honest == 400
    with pytest.raises(Infeasible, match=r"needs 400 honest users.*ticket or token.*honest_fraction < 1"):
        contract(crowded, admission=OPEN)
    document = SignedContract.sign(contract(crowded), ANALYZER, SHUFFLER).to_json()
    opened = document.replace(b'"admission":{"issuer":"tests","kind":"ticket"}', b'"admission":{"kind":"open"}')
    assert opened != document
    with pytest.raises(WireError, match="honest users"):
        load_contract(opened)


def test_open_admission_is_allowed_where_no_crowd_is_needed() -> None:
    half = plan_from(Schema.one_hot(8), 400, Protocol(0.1), delta=1e-6, honest_fraction=0.5)
    fakes = plan_from(Schema.one_hot(8), 400, Protocol(0, m=Fakes.laplace(4.0, shift=80)), delta=1e-6)
    assert fakes.guarantee.assumptions.honest == 1
    for plan in (half, fakes):
        assert contract(plan, admission=OPEN).layout.admission == 16


def test_one_account_cannot_fill_a_batch(system: System) -> None:
    ticket = new_ticket(system.contract.task)
    client = system.client
    system.upload(client.seal("0", ticket))
    for _ in range(110):
        with pytest.raises(Problem, match="token-spent"):
            system.upload(client.seal("0", ticket))
    assert accepted(system) == 1
    assert system.next_epoch() == []


# contracts


def test_the_length_of_a_bundle_depends_on_the_kind_only() -> None:
    plan = plan_from(Schema.one_hot(8), 400, Protocol(0.1), delta=1e-6, honest_fraction=0.5)
    sizes = {one.kind: contract(plan, admission=one).bundle_size for one in (OPEN, BY_TICKET, BY_TOKEN)}
    assert {kind: size - sizes["open"] for kind, size in sizes.items()} == {"open": 0, "ticket": 16, "token": 338}


@pytest.mark.parametrize("admission", [BY_TICKET, BY_TOKEN, Admission("ticket", "a.example:8600")])
def test_admissions_round_trip_and_are_part_of_the_task(admission: Admission) -> None:
    own = contract(plan_of(n=400), admission=admission)
    again = Contract.from_json(own.to_json())
    assert (again.admission, again.task) == (admission, own.task)
    assert own.task != contract(plan_of(n=400), admission=Admission("ticket", "other")).task


@pytest.mark.parametrize(
    "value",
    [
        None, [], "open", {}, {"kind": "closed"}, {"kind": 1}, {"kind": "open", "issuer": "a"}, {"kind": "ticket"},
        {"kind": "ticket", "issuer": ""}, {"kind": "ticket", "issuer": "../a"}, {"kind": "ticket", "issuer": "A"},
        {"kind": "ticket", "issuer": "a/b"}, {"kind": "ticket", "issuer": "é"}, {"kind": "ticket", "issuer": 1},
        {"kind": "ticket", "issuer": "a", "key": "00"}, {"kind": "token", "issuer": "a"},
        {"kind": "token", "issuer": "a", "key": ""}, {"kind": "token", "issuer": "a", "key": "00" * 342},
        {"kind": "token", "issuer": "a", "key": TOKEN_KEY.public.hex().upper()},
        {"kind": "token", "issuer": "a", "key": TOKEN_KEY.public.hex()[:-2]},
    ],
)  # fmt: skip
def test_invalid_admissions_are_refused(value: object) -> None:
    document = {**contract(plan_of(n=400)).to_document(), "admission": value}
    with pytest.raises(WireError):
        Contract.from_document(document)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given_",
    [
        ("open", "a"), ("open", "", b"x"), ("ticket",), ("ticket", "a", b"x"), ("token", "a"), ("token", "a", "text"),
        ("ticket", "a" * 201), ("ticket", "-a"), ("ticket", "a\n"), ("ticket", b"a"), ("other", "a"),
    ],
)  # fmt: skip
def test_invalid_terms_are_refused(given_: tuple[object, ...]) -> None:
    with pytest.raises(InvalidInput):
        Admission(*given_)  # type: ignore[arg-type]


# tickets


def admits(key: TicketKey, task: bytes, ticket: bytes) -> bool:
    return verifier(BY_TICKET, task, {BY_TICKET.issuer: key}).valid(ticket)


def test_a_verifier_goes_to_worker_processes() -> None:
    token = issued(TOKEN_KEY, challenge("issuer.example", TASK))
    for terms, admission in ((OPEN, bytes(16)), (BY_TICKET, new_ticket(TASK)), (BY_TOKEN, token)):
        own = verifier(terms, TASK, {BY_TICKET.issuer: TICKET_KEY})
        again = Verifier.from_bytes(own.to_bytes())
        assert (again, again.size) == (own, len(admission))
        assert again.valid(admission)
        assert not again.valid(admission + b"\0")
        assert len(again.token_id(admission)) == 16
        if terms.kind == "ticket":
            assert TICKET_KEY.mac_key.hex() not in repr(own)


def test_an_account_has_one_ticket_for_each_task() -> None:
    tickets = {TICKET_KEY.mint(task, name) for task in (TASK, bytes(16)) for name in ("ada", "bob", "ada")}
    assert len(tickets) == 4
    assert len({ticket[:16] for ticket in tickets}) == 4
    assert TICKET_KEY.mint(TASK, "ada") == TICKET_KEY.mint(TASK, b"ada")


def test_task_and_account_cannot_be_divided_differently() -> None:
    """The serial of (task, account) is not that of any other pair with the same concatenation."""
    assert TICKET_KEY.mint(TASK, TASK + b"x")[:16] != TICKET_KEY.mint(TASK[:15] + TASK[:1], TASK[1:] + b"x")[:16]


def test_a_ticket_of_another_task_or_key_or_with_a_changed_bit_is_refused() -> None:
    ticket = TICKET_KEY.mint(TASK, "ada")
    assert admits(TICKET_KEY, TASK, ticket)
    assert not admits(TICKET_KEY, bytes(16), ticket)
    assert not admits(TicketKey.generate(), TASK, ticket)
    for place in range(8 * len(ticket)):
        changed = bytearray(ticket)
        changed[place // 8] ^= 1 << place % 8
        assert not admits(TICKET_KEY, TASK, bytes(changed))


@given(st.binary(max_size=40))
def test_arbitrary_tickets_are_refused(data: bytes) -> None:
    assert not admits(TICKET_KEY, TASK, data)


@pytest.mark.parametrize("account", ["", b"", "x" * 1025])
def test_accounts_need_a_name(account: str | bytes) -> None:
    with pytest.raises(InvalidInput, match="account name"):
        TICKET_KEY.mint(TASK, account)
    with pytest.raises(InvalidInput, match="task must have 16 bytes"):
        TICKET_KEY.mint(TASK + b"x", "ada")


def test_ticket_keys_are_files_of_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.key"
    TICKET_KEY.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_ticket_keys(tmp_path)["shuffler"].mint(TASK, "ada") == TICKET_KEY.mint(TASK, "ada")
    assert load_ticket_keys(tmp_path / "none") == {}
    with pytest.raises(InvalidInput, match="not exist yet"):
        TICKET_KEY.save(path)
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="readable by its owner only"):
        load_ticket_keys(tmp_path)
    path.chmod(0o600)
    for text in (b"", b"hubbub ticket key 1\nzz\n", b"hubbub ticket key 1\n00\n", b"hubbub identity 1\n" + b"00" * 32):
        path.write_bytes(text)
        with pytest.raises(WireError, match="ticket key written by hubbub"):
            TicketKey.load(path)
    assert "a key that" not in repr(TICKET_KEY)
    with pytest.raises(InvalidInput, match="32 bytes"):
        TicketKey(bytes(31))


def test_a_shuffler_without_the_issuers_key_does_not_serve_the_contract(system: System) -> None:
    other = replace(system.contract, admission=Admission("ticket", "elsewhere"))
    signed = SignedContract.sign(other, *system.identities.values()).to_json()
    with pytest.raises(InvalidInput, match=r"no ticket key of the issuer 'elsewhere'.*elsewhere\.key"):
        system.shuffler.tasks.add_contract(signed)
    assert [task.contract.task for task in system.shuffler.tasks.all()] == [system.contract.task]


def test_only_open_tasks_need_the_issuers_key(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = system.client.seal("0")
    system.upload(bundle)
    core = system.shuffler
    monkeypatch.delitem(KEYS, ISSUER)
    with pytest.raises(InvalidInput, match="no ticket key"):
        TaskRegistry(system.shuffler.store, core._context, core._buckets, core.incidents)
    system.shuffler.close(system.contract.task)
    system.restart()
    system.upload(bundle)
    with pytest.raises(Problem, match="closed-task"):
        system.upload(system.client.seal("0"))
    assert not system.shuffler.tasks.find(system.contract.task).verifier.valid(new_ticket(system.contract.task))


# uploads


def bad_admissions(task: bytes) -> dict[str, bytes]:
    good = new_ticket(task)
    return {
        "zeros": bytes(32),
        "another task": TICKET_KEY.mint(bytes(16), "ada"),
        "another key": TicketKey.generate().mint(task, "ada"),
        "changed serial": bytes([good[0] ^ 1]) + good[1:],
        "changed MAC": good[:-1] + bytes([good[-1] ^ 1]),
        "parts of two": good[:16] + new_ticket(task)[16:],
    }


def upload_by_workers(system: System, *bundles: bytes) -> None:
    uploads = system.shuffler.uploads
    upload = uploads.prepare(system.contract.task, b"".join(bundles))
    with Workers(1) as workers:
        uploads.accept(uploads.opened(upload, [workers.open(job, data) for job, data in uploads.jobs(upload)]))


@pytest.mark.parametrize("send", [System.upload, upload_by_workers])
def test_invalid_admissions_are_refused_with_the_same_words(system: System, send: Callable[..., None]) -> None:
    client, documents = system.client, set()
    for admission in bad_admissions(system.contract.task).values():
        with pytest.raises(Problem) as caught:
            send(system, client.seal("0"), client.seal("0", admission))
        documents.add(problem_document(caught.value))
    assert documents == {
        b'{"index":1,"status":403,"title":"A bundle has no valid admission; it was not stored.",'
        b'"type":"urn:hubbub:problem:bad-token"}'
    }
    assert accepted(system) == 0
    send(system, client.seal("0"), client.seal("1"))
    assert accepted(system) == 2


def test_tokens_admit_once_and_only_to_their_task(tmp_path: Path) -> None:
    system = System(tmp_path, admission=BY_TOKEN)
    client, asked = system.client, challenge("issuer.example", system.contract.task)
    token = issued(TOKEN_KEY, asked)
    system.upload(client.seal("0", token))
    with pytest.raises(Problem, match="token-spent"):
        system.upload(client.seal("1", token))
    other = type(TOKEN_KEY).generate()
    wrong = [
        issued(TOKEN_KEY, challenge("issuer.example", bytes(16))),
        issued(TOKEN_KEY, challenge("other.example", system.contract.task)),
        issued(other, asked),
        b"\x00\x01" + token[2:],
        bytes(354),
        token[:-1] + bytes([token[-1] ^ 1]),
    ]
    documents = set()
    for admission in wrong:
        with pytest.raises(Problem) as caught:
            system.upload(client.seal("0", admission))
        documents.add(problem_document(caught.value))
    assert len(documents) == 1
    assert b"bad-token" in documents.pop()
    assert accepted(system) == 1
    system.shut()


def test_a_repeat_is_answered_before_its_admission_is_looked_at(system: System) -> None:
    """Two bundles with one key share are one bundle: the second gets the response of the first, whatever is in it."""
    client, layout = system.client, system.contract.layout
    slots, key = client.slots([bytes([1])]), client._public("shuffler")
    header = sealing.bundle_header(layout, key.id)
    info = sealing.bundle_info(layout, header[6:8])
    good, bad = (
        header + reference.seal(bytes(range(32)), key.public, admission + b"".join(slots), info)
        for admission in (new_ticket(layout.task), bytes(32))
    )
    with pytest.raises(Problem, match="bad-token"):
        system.upload(bad)
    system.upload(good)
    system.upload(bad)
    system.upload(good, bad)
    assert accepted(system) == 1


def test_spent_admissions_are_refused_with_their_place(system: System) -> None:
    client = system.client
    one, two = new_ticket(system.contract.task), new_ticket(system.contract.task)
    system.upload(client.seal("0", one))
    system.restart()
    for bundles, index in (
        ([client.seal("0"), client.seal("1", one)], 1),
        ([client.seal("0", two), client.seal("1"), client.seal("1", two)], 2),
    ):
        with pytest.raises(Problem) as caught:
            system.upload(*bundles)
        assert (caught.value.name, caught.value.index) == ("token-spent", index)
    assert accepted(system) == 1
    system.upload(client.seal("0", two))
    assert accepted(system) == 2


def test_outdated_keys_do_not_spend_the_admission(system: System) -> None:
    ticket = new_ticket(system.contract.task)
    bundle = system.client.seal("0", ticket)
    system.shuffler.keyring.rotate()
    system.clock.advance(2 * 10**5)
    system.shuffler.keyring.advance()
    with pytest.raises(Problem, match="outdated-keys"):
        system.upload(bundle)
    system.shuffler.fetch_keys(system.link)
    system.upload(system.client.seal("0", ticket))
    assert accepted(system) == 1


def test_admissions_of_two_tasks_are_spent_separately(system: System) -> None:
    other = replace(system.contract, task_end=system.contract.task_end + 1)
    system.serve(other)
    rows = {task.contract.task: task.row for task in system.shuffler.tasks.all()}
    serial = bytes(16)
    for one in (system.contract, other):
        system.shuffler.uploads.accept([opened(one, b"r" * 16, serial, rows[one.task].key_id)])
    system.shuffler.close(other.task, destroy=True)
    assert spent(system) == {(rows[system.contract.task].number, serial)}


# no interleaving, retry or kill stores two bundles of one admission, or loses a stored one


class Killed(BaseException):
    """The process died at a failpoint."""


def opened(contract: Contract, replay: bytes, token: bytes, key_id: int) -> OpenedBundle:
    slots = tuple((replay + token).ljust(contract.slot_size, b"\0") for _ in range(contract.slots))
    return OpenedBundle(contract.task, key_id, replay, slots, 1, token)


def spent(system: System) -> set[tuple[int, bytes]]:
    rows = system.shuffler.store.jobs.rows("SELECT task, token_id FROM spent_tokens")
    return {(number, bytes(token)) for number, token in rows}


ACTIONS = (
    "first", "second", "other", "both", "restart",
    "first dies at accept-spent", "first dies at accept-inserted", "second dies at accept-committed",
)  # fmt: skip


def test_every_interleaving_of_three_events_counts_an_account_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bundles of one account and one of another; all orders of uploads, repeats, deaths and restarts."""
    system = System(tmp_path)
    armed = ""

    def reach(name: str) -> None:
        if name == armed:
            raise Killed

    monkeypatch.setattr(uploads_module, "reach", reach)
    task = system.contract.task
    key_id = system.shuffler.tasks.find(task).row.key_id
    expected = 0
    for number, events in enumerate(itertools.product(ACTIONS, repeat=3)):
        serial = number.to_bytes(8, "big")
        bundles = {
            name: opened(system.contract, serial + bytes([place]) * 8, serial + account * 8, key_id)
            for place, (name, account) in enumerate({"first": b"a", "second": b"a", "other": b"b"}.items())
        }
        acknowledged: set[str] = set()
        for event in events:
            if event == "restart":
                if number % 8 == 0:  # a restart takes long, and tells apart only what is durable
                    system.restart()
                continue
            name, _, armed = event.partition(" dies at ")
            names = ["first", "second"] if name == "both" else [name]
            try:
                system.shuffler.uploads.accept([bundles[one] for one in names])
            except Killed:
                assert armed
            except Problem as problem:
                assert problem.name == "token-spent"
                assert {"first", "second"} & acknowledged or name == "both" or "dies" in " ".join(events)
            else:
                acknowledged |= set(names)
            armed = ""
        stored = system.shuffler.store.accepted(
            system.shuffler.tasks.find(task).row, [one.replay_id for one in bundles.values()]
        )
        kept = {name for name, one in bundles.items() if one.replay_id in stored}
        assert not {"first", "second"} <= kept, events
        assert acknowledged <= kept, events
        # A stored bundle is acknowledged again, and its admission is spent with it: both or neither.
        for name in kept:
            system.shuffler.uploads.accept([bundles[name]])
        tokens = {token for _, token in spent(system) if token.startswith(serial)}
        assert tokens == {bundles[name].token_id for name in kept}, events
        expected += len(kept)
    assert accepted(system) == expected
    system.shut()


def test_processes_that_race_for_an_admission_store_one_bundle(postgres_url: str, tmp_path: Path) -> None:
    system = System(tmp_path, url=postgres_url)
    replicas = [system.replica(worker=False) for _ in range(3)]
    row = system.shuffler.tasks.find(system.contract.task).row
    tokens = [number.to_bytes(16, "big") for number in range(20)]
    won: list[bytes] = []
    start = threading.Barrier(len(replicas))

    def race(place: int) -> None:
        for token in tokens:
            start.wait()
            try:
                one = opened(system.contract, bytes([place]) + token[1:], token, row.key_id)
                replicas[place].uploads.accept([one])
                won.append(token)
            except Problem as problem:
                assert problem.name == "token-spent"

    threads = [threading.Thread(target=race, args=(place,)) for place in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == tokens
    assert accepted(system) == len(tokens)
    for one in replicas:
        one.shut()
    system.shut()
