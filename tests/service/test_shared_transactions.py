"""Uploads that share a transaction: one that is refused costs the others next to nothing, and takes nobody down."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.admissions import new_ticket
from tests.service.asgi import Answer, ask
from tests.service.live import HEADERS
from tests.service.system import System

from hubbub.errors import Problem
from hubbub.service.runtime.http import PREFIX
from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.shuffler.http import UploadApp, Writer, documents_app
from hubbub.service.shuffler.store import OpenedBundle
from hubbub.service.shuffler.uploads import CONFIRMED_SECONDS, _View
from hubbub.service.task import sealing


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    built = System(tmp_path)
    yield built
    built.shut()


class Together:
    """Sends uploads at once, so that they share a transaction, and counts the transactions."""

    def __init__(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        self.system, self.transactions = system, 0
        store = system.shuffler.store
        begin = store.transaction

        def counted() -> AbstractContextManager[None]:
            self.transactions += 1
            return begin()

        monkeypatch.setattr(store, "transaction", counted)

    def send(self, uploads: Sequence[bytes]) -> list[str]:
        """Return the name of the problem of each upload, or ``stored``."""
        core, held, gate = self.system.shuffler, threading.Event(), threading.Event()
        writer = Writer(core.uploads.accept_all)
        path = f"/v1/tasks/{self.system.contract.id}/bundles"

        def hold() -> None:
            held.set()
            gate.wait()

        async def scenario(app: UploadApp) -> list[Answer | None]:
            writer.call(hold)
            await asyncio.to_thread(held.wait)
            told = [{**HEADERS, "content-length": str(len(one))} for one in uploads]
            sent = [
                asyncio.create_task(ask(app, "POST", path, body, headers))
                for body, headers in zip(uploads, told, strict=True)
            ]
            while writer._queue.qsize() + sum(task.done() for task in sent) < len(uploads):
                await asyncio.sleep(0.001)
            gate.set()
            return await asyncio.gather(*sent)

        with Workers(0) as workers:
            found = asyncio.run(scenario(UploadApp(core, writer, workers, documents_app(core.tasks))))
        writer.close()
        return [_outcome(answer) for answer in found]


def _outcome(answer: Answer | None) -> str:
    assert answer is not None
    return "stored" if answer.status == 201 else json.loads(answer.body)["type"].removeprefix(PREFIX)


@pytest.fixture
def together(system: System, monkeypatch: pytest.MonkeyPatch) -> Together:
    return Together(system, monkeypatch)


def test_a_ticket_of_two_bundles_of_an_upload_costs_no_transaction(together: Together) -> None:
    """Regression: the upload was rolled back with all others, never remembered, and worked again and again."""
    client, ticket = together.system.client, new_ticket(together.system.contract.task)
    twice = client.seal("0", ticket) + client.seal("1", ticket)
    assert together.send([twice] * 8) == ["token-spent"] * 8
    assert together.transactions == 0
    # Neither of them was stored: the ticket is not spent, and a copy of one bundle is no second bundle.
    one = client.seal("2", ticket)
    assert together.send([one + one]) == ["stored"]


def test_conflicting_uploads_cost_the_others_one_transaction(together: Together) -> None:
    """Regression: the shared transaction was repeated in halves, 75 times for 8 conflicts among 64 uploads."""
    client, task = together.system.client, together.system.contract.task
    tickets = [new_ticket(task) for _ in range(8)]
    assert together.send([client.seal("0", ticket) for ticket in tickets]) == ["stored"] * 8
    before = together.transactions
    uploads = [client.seal("1", tickets[n // 8]) if n % 8 == 3 else client.seal("1") for n in range(64)]
    assert together.send(uploads) == ["token-spent" if n % 8 == 3 else "stored" for n in range(64)]
    assert together.transactions - before == 2
    # What was spent before is remembered: sending it again costs nobody anything.
    again = [client.seal("2", ticket) for ticket in tickets]
    assert together.send(again) == ["token-spent"] * 8
    assert together.transactions - before == 2
    assert together.system.counts().accepted == 8 + 56


def test_the_same_ticket_in_many_uploads_is_spent_once(together: Together) -> None:
    client, ticket = together.system.client, new_ticket(together.system.contract.task)
    outcomes = together.send([client.seal("0", ticket) for _ in range(20)])
    assert sorted(outcomes) == ["stored"] + ["token-spent"] * 19
    assert together.transactions == 1


def test_a_refused_upload_takes_nothing_from_those_after_it(together: Together) -> None:
    """A chain: the first is refused, so that the ticket it shares with the second is free, and so on."""
    client, task = together.system.client, together.system.contract.task
    spent, shared, other = (new_ticket(task) for _ in range(3))
    assert together.send([client.seal("0", spent)]) == ["stored"]
    first = client.seal("0", shared) + client.seal("0", spent)
    second = client.seal("0", shared) + client.seal("0", other)
    third = client.seal("0", other)
    assert together.send([first, second, third]) == ["token-spent", "stored", "token-spent"]
    assert together.transactions == 3
    assert together.system.counts().accepted == 3


def test_a_repeated_bundle_is_stored_with_the_first_upload_that_is_not_refused(together: Together) -> None:
    client, spent = together.system.client, new_ticket(together.system.contract.task)
    assert together.send([client.seal("0", spent)]) == ["stored"]
    bundle = client.seal("1")
    refused = client.seal("2", spent) + bundle
    assert together.send([refused, bundle, bundle]) == ["token-spent", "stored", "stored"]
    assert together.system.counts().accepted == 2


def test_a_task_that_is_destroyed_meanwhile_takes_no_other_task_down(system: System) -> None:
    """Regression: its uploads were waiting for the writer, and all others of the transaction got ``unknown-task``."""
    other = system.new_contract(task_end=system.task_end + 1)
    system.serve(other)
    uploads = system.shuffler.uploads
    waiting = [
        uploads.open(uploads.prepare(one.task, system.client_of(one).seal("0"))) for one in (other, system.contract)
    ]
    system.shuffler.close(other.task, destroy=True)
    outcomes = [refusal and refusal.name for refusal in uploads.accept_all(waiting)]
    assert outcomes == ["closed-task", None]
    assert system.counts().accepted == 1


def test_uploads_are_answered_if_no_worker_can_be_asked(system: System) -> None:
    """Regression: they waited for ever, and so did what they had reserved of the queue."""

    class Exhausted(Workers):
        def submit_open(self, job: Job, data: bytes) -> "Future[tuple[bytes, bytes]]":
            raise RuntimeError("can't start new thread")

    core = system.shuffler
    bundles = b"".join(system.client.seal("0") for _ in range(8))
    path, told = f"/v1/tasks/{system.contract.id}/bundles", {**HEADERS, "content-length": str(len(bundles))}

    async def scenario(app: UploadApp) -> list[Answer | None]:
        sent = [asyncio.create_task(ask(app, "POST", path, bundles, told)) for _ in range(2)]
        await asyncio.wait(sent, timeout=30)
        for task in sent:
            task.cancel()
        return [task.result() for task in sent]

    writer = Writer(core.uploads.accept_all)
    with Exhausted(1) as workers:
        app = UploadApp(core, writer, workers, documents_app(core.tasks))
        assert [_outcome(one) for one in asyncio.run(scenario(app))] == ["unavailable"] * 2
    assert app.waiting == 0
    writer.close()


def test_bundles_of_another_key_or_round_or_of_a_restored_store_are_late(system: System) -> None:
    uploads, served = system.shuffler.uploads, system.shuffler.tasks.find(system.contract.task)
    view = _View(served, "open", 1, served.row.key_id, served.row.round, {7: "live", 8: "restored"})
    good = OpenedBundle(served.row.id, view.key_id, bytes(16), (), 7, round=view.number)
    restored, sealed = replace(good, shuffler_key_id=8), replace(good, key_id=good.key_id + 1)
    assert not view.late(good)
    assert replace(view, state="closed").late(good)
    for late in (restored, sealed, replace(good, round=good.round + 1), replace(good, shuffler_key_id=9)):
        assert view.late(late)
    assert [uploads._lateness(one, view).name for one in (restored, sealed)] == ["uncertain", "outdated-keys"]


def test_a_repeat_is_stored_although_another_upload_has_a_spent_token(system: System) -> None:
    uploads, (one, two) = system.shuffler.uploads, (new_ticket(system.contract.task) for _ in range(2))
    first = opened(system, one)
    uploads.accept(first)
    uploads.accept(opened(system, two))
    repeated, spent = uploads.accept_all([first, opened(system, two)])
    assert repeated is None
    assert spent is not None
    assert spent.name == "token-spent"
    assert system.counts().accepted == 2


def test_a_store_that_was_not_confirmed_for_a_minute_accepts_nothing(system: System) -> None:
    uploads, task = system.shuffler.uploads, system.contract.task
    opened = uploads.open(uploads.prepare(task, system.client.seal("1", new_ticket(task))))
    uploads._confirmed -= CONFIRMED_SECONDS + 1
    with pytest.raises(Problem) as raised:
        uploads.accept(opened)
    assert raised.value.name == "unavailable"
    uploads.confirm()
    uploads.accept(opened)
    assert system.counts().accepted == 1


def opened(system: System, ticket: bytes) -> list[OpenedBundle]:
    uploads, task = system.shuffler.uploads, system.contract.task
    return uploads.open(uploads.prepare(task, system.client.seal("1", ticket)))


def test_a_token_of_two_bundles_of_one_upload_stores_neither(system: System) -> None:
    ticket = new_ticket(system.contract.task)
    (refused,) = system.shuffler.uploads.accept_all([opened(system, ticket) + opened(system, ticket)])
    assert refused is not None
    assert refused.name == "token-spent"
    assert system.counts().accepted == 0


def test_a_repeat_that_is_late_is_stored(system: System) -> None:
    (first,) = opened(system, new_ticket(system.contract.task))
    system.shuffler.uploads.accept([first])
    assert system.shuffler.uploads.accept_all([[replace(first, key_id=first.key_id + 1)]]) == [None]


def test_a_bundle_for_another_key_of_the_analyzer_is_sealed_again(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "slot_key", lambda _: 99)
    with pytest.raises(Problem) as raised:
        opened(system, new_ticket(system.contract.task))
    assert raised.value.name == "outdated-keys"


def test_every_bucket_has_a_secret_of_its_own_and_nothing_is_stored_without(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads, task = system.shuffler.uploads, system.contract.task
    bundles = opened(system, new_ticket(task))
    monkeypatch.setattr(type(uploads._credentials), "read", lambda *_: bytes(32))
    assert uploads._cipher(task, 101) is not uploads._cipher(task, 102)
    monkeypatch.setattr(type(uploads._credentials), "read", lambda *_: None)
    with pytest.raises(Problem) as raised:
        uploads.accept(bundles)
    assert raised.value.name == "unavailable"
