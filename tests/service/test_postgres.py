"""PostgreSQL behind the same interface: the simulation, interrupted connections, unsupported operations.

The tests in ``test_core`` run on PostgreSQL too.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.service.accounts import read_gaps
from tests.service.conftest import schemas
from tests.service.live import TIMEOUT, LiveSystem, http, wait_until
from tests.service.postgres_server import PostgresServer
from tests.service.simulation import FAST, Simulation
from tests.service.system import EPOCH, System

from hubbub.errors import InvalidInput, Problem, StoreFailure
from hubbub.service.provision import wait_for_addresses
from hubbub.service.runtime.database import LEASE_SECONDS, open_database
from hubbub.service.shuffler.store import Counts


@pytest.fixture
def system(tmp_path: Path, postgres_url: str) -> Iterator[System]:
    found = System(tmp_path, url=postgres_url)
    yield found
    found.shut()


@pytest.mark.long
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
    """Repeat work until it succeeds: each of the seven connections may fail once."""
    for _ in range(8):
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
    assert cut(postgres) == 7
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


@pytest.mark.long
def test_a_database_that_is_lost_during_the_start(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Regression: the service exited if its database went away after it had answered once."""
    server = postgres_server
    live = LiveSystem(tmp_path, entries={"shuffler": {"workers": 0}}, server=server, replicas=(1, 0))
    with contextlib.closing(open_database(server.url("shuffler"))) as other, other.setting_up():
        process = live.launch("intake-1")
        query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: bool(other.rows(query)), "the start to wait for the lock")
        server.stop()
        wait_until(lambda: "waiting for the database" in live.log("intake-1"), "the log line")
        server.start()
    try:
        wait_for_addresses(live.folder, "intake-1", process, seconds=TIMEOUT)
        ready = live.address("intake-1", "operations") + "/readyz"
        wait_until(lambda: http.get(ready).status_code == 200, "the service to be ready")
        server.stop()
        assert http.get(ready).status_code == 503
        assert "not ready: StoreUnreachable" in live.log("intake-1")
        server.start()
        wait_until(lambda: http.get(ready).status_code == 200, "the service to be ready again")
        assert process.poll() is None
    finally:
        live.kill("intake-1")


def test_a_restored_dump_is_detected_at_once(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Regression: bundles accepted between a dump and the next beat were lost without a word when it was restored."""
    for role in ("shuffler", "analyzer"):
        postgres_server.create(role)
    system = System(tmp_path / "system", url=postgres_server.url("{role}"))
    known = system.client.seal("1")
    system.upload(known)
    postgres_server.dump("shuffler", tmp_path / "dump")
    lost = system.client.seal("1")
    system.upload(lost)
    system.kill()
    postgres_server.rename("shuffler", "replaced")
    postgres_server.create("shuffler")
    postgres_server.restore("shuffler", tmp_path / "dump")
    system.shuffler = system.replica()
    # The dump has the lease of a process that has ended: nothing is accepted until another one can take it.
    with pytest.raises(Problem) as problem:
        system.upload(lost)
    assert problem.value.name == "unavailable"
    system.clock.advance(2 * LEASE_SECONDS)
    system.shuffler.refresh()
    system.upload(known)
    with pytest.raises(Problem) as problem:
        system.upload(lost)
    assert problem.value.name == "uncertain"
    assert len(read_gaps(postgres_server.url("shuffler"), system.contract)) == 1
    assert system.counts() == Counts(accepted=1, open=1)
    assert system.credentials.fence().restores == 1
    # Repaired once: a restart is no restore.
    system.restart()
    system.shuffler.tick()
    assert system.credentials.fence().restores == 1
    system.shut()
