"""PostgreSQL behind the same interface: the simulation, interrupted connections, unsupported operations.

The tests in ``test_core`` run on PostgreSQL too.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.service.conftest import schemas
from tests.service.simulation import FAST, Simulation
from tests.service.system import EPOCH, System

from hubbub.errors import InvalidInput, StoreFailure
from hubbub.service.runtime.database import open_database
from hubbub.service.shuffler.store import Counts


@pytest.fixture
def system(tmp_path: Path, postgres_url: str) -> Iterator[System]:
    found = System(tmp_path, url=postgres_url)
    yield found
    found.shut()


def test_the_simulation(postgres: str) -> None:
    """The same operations without backups, which PostgreSQL's own tools make."""
    for seed in range(2):
        with schemas(postgres) as url:
            Simulation(seed, url).run(20)


@pytest.mark.slow
def test_the_simulation_at_length(postgres: str) -> None:
    for seed in range(100):
        with schemas(postgres) as url:
            Simulation(seed, url).run(40)


def cut(server: str) -> int:
    """Close all other connections, as a restart of the server would, and return their number."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


def insist(work: Callable[[], object]) -> None:
    """Repeat work until it succeeds: each of the six connections may fail once."""
    for _ in range(7):
        try:
            work()
        except StoreFailure:
            continue
        return
    raise AssertionError("the store did not recover")


def test_a_lost_connection_is_reopened(system: System, postgres: str) -> None:
    client = system.client
    bundles = [client.seal(str(i % 8)) for i in range(120)]
    system.upload(*bundles[:50])
    assert cut(postgres) == 6
    with pytest.raises(StoreFailure, match="the store failed"):
        system.upload(*bundles[50:60])
    # Nothing of the failed upload was stored; its repetition is, and then the rest.
    system.upload(*bundles[50:60])
    system.upload(*bundles[60:])
    assert system.counts() == Counts(accepted=120, open=120)
    system.clock.advance(EPOCH)

    def judge() -> None:
        assert system.counts() == Counts(accepted=120, committed=120)
        assert [result["people"] for result in system.results()] == [120]

    for work in (system.shuffler.tick, system.shuffler.shuffle, system.deliver, judge):
        cut(postgres)
        insist(work)


def test_a_connection_lost_within_a_transaction_rolls_it_back(system: System, postgres: str, postgres_url: str) -> None:
    del system
    database = open_database(postgres_url.format(role="shuffler"))
    database.create(["things (name TEXT PRIMARY KEY, data {blob}) {clustered}"])
    with pytest.raises(StoreFailure), database.transaction():
        database.run("INSERT INTO things VALUES (?, ?)", "first", b"\0")
        cut(postgres)
        database.run("INSERT INTO things VALUES (?, ?)", "second", b"\0")
    assert database.rows("SELECT * FROM things") == []
    with pytest.raises(StoreFailure), database.transaction():
        database.run("INSERT INTO things VALUES (?, ?)", "third", b"\0")
        cut(postgres)
    assert database.rows("SELECT * FROM things") == []
    with pytest.raises(KeyError), database.transaction():
        database.run("INSERT INTO things VALUES (?, ?)", "fourth", b"\0")
        raise KeyError
    assert database.rows("SELECT * FROM things") == []
    with database.transaction():
        database.insert("things", [("fifth", b"\1"), ("sixth", b"\2")])
    assert len(database.rows("SELECT * FROM things")) == 2
    database.close()


def test_an_unreachable_server_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreFailure):
        open_database(f"postgresql://postgres@/postgres?host={tmp_path}").rows("SELECT 1")


def test_backups_are_left_to_pg_dump(system: System) -> None:
    folder = Path(tempfile.mkdtemp(dir=FAST))
    with pytest.raises(InvalidInput, match="pg_dump"):
        system.shuffler.store.backup(folder / "copy")
    shutil.rmtree(folder)
