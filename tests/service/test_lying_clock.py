"""Clocks that skew: whatever time a shuffler or a device believes for a moment, no answer is lost."""

import contextlib
from pathlib import Path

import pytest
from tests.service.admissions import BY_TICKET, TICKET_KEY
from tests.service.system import EPOCH, START, System, clear_plan
from tests.service.test_uploader import Wire

from hubbub.errors import HubbubError
from hubbub.model.privacy import Budget
from hubbub.service.journal import Journal
from hubbub.service.task.contract import Series
from hubbub.service.uploader import Uploader

DAY, YEAR = 86_400, 365 * 86_400
ROUND_EPOCHS = 10
SERIES = Series(3, ROUND_EPOCHS, Budget(200.0, 1e-6))
ROUND = ROUND_EPOCHS * EPOCH


def systems(tmp_path: Path, *, rounds: bool) -> System:
    """Return a system in its second round, or far from both ends of its task."""
    plan = clear_plan(4, 100)
    if not rounds:
        system = System(tmp_path, plan=plan, task_end=START // EPOCH + 100)
    else:
        end = START // EPOCH + SERIES.epochs
        system = System(tmp_path, plan=plan, series=SERIES, task_end=end, lifetime=10**9)
    system.clock.advance(ROUND + EPOCH if rounds else EPOCH)
    system.shuffler.tick()
    system.shuffler.fetch_keys(system.link)
    return system


@pytest.mark.parametrize("rounds", [False, True], ids=["one round", "series"])
@pytest.mark.parametrize("wrong", [-DAY, YEAR, -YEAR, ROUND, -ROUND, 2 * ROUND])
def test_a_clock_of_the_shuffler_that_is_wrong_for_a_moment_loses_nothing(
    tmp_path: Path, wrong: float, rounds: bool
) -> None:
    system = systems(tmp_path, rounds=rounds)
    right, number = system.clock.now(), 2 if rounds else 1
    journal = Journal(tmp_path / "journal", system.contract, number)
    sender = Uploader(system.contract, Wire(system), journal, attempts=2, pause=lambda _: None, now=lambda: right)
    sender.prepare([1, 2], [TICKET_KEY.mint(system.contract.context_of(number), str(one)) for one in range(2)])
    system.clock.jump(wrong)
    system.shuffler.tick()
    with contextlib.suppress(HubbubError):
        refused = sender.send().refused
        # Nothing is refused for good while the store says that the task is open.
        assert refused == {}
    assert all(journal.read(one).bundle for one in (1, 2)) or journal.states() == {"stored": 2}
    system.clock.jump(-wrong)
    system.shuffler.tick()
    outcome = sender.send()
    assert (outcome.stored, outcome.waiting, outcome.refused) == (2, 0, {})
    assert system.counts().accepted == 2
    system.shut()


@pytest.mark.parametrize("wrong", [-DAY, YEAR, -YEAR, ROUND])
def test_a_clock_of_a_device_that_is_wrong_loses_nothing(tmp_path: Path, wrong: float) -> None:
    system = systems(tmp_path, rounds=False)
    skew = 0.0
    journal = Journal(tmp_path / "journal", system.contract)
    sender = Uploader(
        system.contract, Wire(system), journal, attempts=2, pause=lambda _: None, now=lambda: system.clock.now() + skew
    )
    assert system.contract.admission == BY_TICKET
    sender.prepare([1], [TICKET_KEY.mint(system.contract.task, "ada")])
    skew = wrong
    with contextlib.suppress(HubbubError):
        sender.send()
    skew = 0.0
    assert sender.send().stored == 1
    system.shut()


def test_an_answer_is_forgotten_only_after_the_end_by_the_contract_and_by_the_clock(tmp_path: Path) -> None:
    """The operator closes the task early; a device keeps the answer until the end that the contract names."""
    system = systems(tmp_path, rounds=False)
    journal = Journal(tmp_path / "journal", system.contract)
    sender = Uploader(system.contract, Wire(system), journal, attempts=2, now=system.clock.now)
    sender.prepare([1], [TICKET_KEY.mint(system.contract.task, "ada")])
    system.shuffler.close(system.contract.task)
    end = (system.contract.task_end + 1) * EPOCH + 300.0
    for time, kept in ((system.clock.now(), True), (end - 1, True), (end, False)):
        sender.now = lambda: time  # noqa: B023
        assert sender.send().refused == {"closed-task": 1}
        assert bool(journal.read(1).bundle) is kept
    system.shut()
