"""Leases: one holder at a time, and a holder that was overtaken cannot write."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.service.conftest import DATABASE_CLOCK

from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.database import LEASE_TABLE, Leases, LostLease, Postgres, open_database

Replicas = Callable[..., list[Leases]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Replicas]:
    """Return a function that makes the leases of several replicas of one store."""
    url = f"sqlite:{tmp_path}/store.db"
    if request.param == "postgres":
        url = str(request.getfixturevalue("postgres_url")).format(role="shuffler")
    with contextlib.ExitStack() as stack:

        def made(clock: MockClock, count: int = 2) -> list[Leases]:
            stores = [stack.enter_context(contextlib.closing(open_database(url))) for _ in range(count)]
            stores[0].create([LEASE_TABLE])
            return [Leases(store, clock, seconds=10) for store in stores]

        yield made


def test_one_replica_holds_a_lease_until_it_ends(replicas: Replicas) -> None:
    clock = MockClock(100.0)
    one, two = replicas(clock)
    lease = one.acquire("job")
    assert lease is not None
    assert two.acquire("job") is None
    assert two.acquire("other") is not None
    clock.advance(9)
    one.confirm(lease)
    clock.advance(9)
    assert two.acquire("job") is None
    clock.advance(2)
    taken = two.acquire("job")
    assert taken is not None
    assert taken.token > lease.token
    with pytest.raises(LostLease, match="another replica"):
        one.confirm(lease)
    two.confirm(taken)
    one.release(lease)
    assert one.acquire("job") is None
    two.release(taken)
    assert one.acquire("job") is not None


def test_a_holder_can_acquire_again_and_loses_its_older_token(replicas: Replicas) -> None:
    (one,) = replicas(MockClock(), 1)
    first, second = one.acquire("job"), one.acquire("job")
    assert first is not None
    assert second is not None
    with pytest.raises(LostLease):
        one.confirm(first)
    one.confirm(second)


def test_a_lease_written_by_a_clock_that_was_ahead_does_not_stall(replicas: Replicas) -> None:
    clock = MockClock(10**6)
    one, two = replicas(clock)
    assert one.acquire("job") is not None
    clock.advance(-3 * 86_400)
    assert two.acquire("job") is not None


def test_a_lost_lease_rolls_the_transaction_back(tmp_path: Path) -> None:
    clock = MockClock()
    store, other = open_database(f"sqlite:{tmp_path}/s.db"), open_database(f"sqlite:{tmp_path}/s.db")
    store.create([LEASE_TABLE, "work (no BIGINT PRIMARY KEY)"])
    one, two = Leases(store, clock, seconds=10), Leases(other, clock, seconds=10)
    lease = one.acquire("job")
    assert lease is not None
    clock.advance(11)
    assert two.acquire("job") is not None
    with pytest.raises(LostLease), store.transaction():
        store.run("INSERT INTO work VALUES (1)")
        one.confirm(lease)
    assert store.rows("SELECT * FROM work") == []


@pytest.mark.postgres
def test_leases_end_by_the_clock_of_the_database(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: replicas whose clocks differed by more than a lease took each other's jobs at every try."""
    monkeypatch.setattr(Postgres, "clock", DATABASE_CLOCK)
    url = postgres_url.format(role="shuffler")
    with contextlib.closing(open_database(url)) as first, contextlib.closing(open_database(url)) as second:
        first.create([LEASE_TABLE])
        # The first machine is right, the second 120 seconds ahead, and a third two hours behind.
        now = float(first.rows(str(DATABASE_CLOCK))[0][0])
        one, two = Leases(first, MockClock(now), seconds=60), Leases(second, MockClock(now + 120), seconds=60)
        three = Leases(second, MockClock(now - 7200), seconds=60)
        lease = one.acquire("job")
        assert lease is not None
        assert two.acquire("job") is None
        assert three.acquire("job") is None
        one.confirm(lease)
        one.release(lease)
        taken = two.acquire("job")
        assert taken is not None
        assert one.acquire("job") is None
        # The end is by the database's clock: a lease that ended is free, whatever a machine thinks.
        second.run("UPDATE leases SET until = until - 61")
        assert three.acquire("job") is not None
