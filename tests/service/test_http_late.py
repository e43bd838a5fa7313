"""Bundles that were opened in time but reach the writer too late are not accepted."""

from pathlib import Path

import pytest
from tests.service.system import EPOCH, System, plan_of

from hubbub.errors import Problem


def test_a_task_that_closes_between_opening_and_commit(tmp_path: Path) -> None:
    system = System(tmp_path)
    task = system.contract.task
    bundles = [system.client.seal("1") for _ in range(2)]
    system.upload(bundles[0])
    opened = [system.shuffler.uploads.open(system.shuffler.uploads.prepare(task, one)) for one in bundles]
    system.clock.advance(EPOCH * (system.contract.task_end - system.contract.task_start))
    system.shuffler.tick()
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    with pytest.raises(Problem) as caught:
        system.shuffler.uploads.accept([*opened[0], *opened[1]])
    assert caught.value.name == "closed-task"
    # A bundle that was accepted before gets the same response again.
    system.shuffler.uploads.accept(opened[0])
    counts = system.shuffler.totals(check=True)[system.contract.id]
    assert (counts.accepted, counts.open, counts.expired, counts.error) == (1, 0, 1, 0)


def test_a_key_that_is_replaced_between_opening_and_commit(tmp_path: Path) -> None:
    system = System(tmp_path, min_batch_size=2, plan=plan_of(n=2))
    client, uploads = system.client, system.shuffler.uploads
    opened = [uploads.open(uploads.prepare(system.contract.task, client.seal("1"))) for _ in range(3)]
    system.analyzer.keyring.rotate()
    system.shuffler.fetch_keys(system.link)
    # The open bucket keeps its key until it is released.
    uploads.accept([*opened[0], *opened[1]])
    assert system.next_epoch()
    with pytest.raises(Problem) as caught:
        uploads.accept(opened[2])
    assert caught.value.name == "outdated-keys"
    assert system.counts().accepted == 2
    uploads.accept(opened[0])
    system.upload(system.client.seal("1"))
    assert (system.counts().accepted, system.counts().open) == (3, 1)


def test_an_envelope_key_that_is_destroyed_between_opening_and_commit(tmp_path: Path) -> None:
    """The first attempt waits for the writer and loses its connection; the second must be sealed again: one counts."""
    system = System(tmp_path)
    bundle = system.client.seal("1")
    opened = system.shuffler.uploads.open(system.shuffler.uploads.prepare(system.contract.task, bundle))
    system.shuffler.keyring.rotate()
    system.clock.advance(2 * 10**5)
    system.shuffler.keyring.advance()
    with pytest.raises(Problem) as caught:
        system.upload(bundle)
    assert caught.value.name == "outdated-keys"
    with pytest.raises(Problem) as caught:
        system.shuffler.uploads.accept(opened)
    assert caught.value.name == "outdated-keys"
    system.shuffler.fetch_keys(system.link)
    system.upload(system.client.seal("1"))
    assert system.counts().accepted == 1
