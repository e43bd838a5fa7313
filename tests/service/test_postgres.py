"""PostgreSQL behind the same interface: the state machine on it, connections that are cut, and what it cannot do.

The tests of the cores in ``test_core`` run on it too.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.service.conftest import schemas
from tests.service.system import EPOCH, System
from tests.service.test_machine import FAST, MIN_BATCH_SIZE, PLAN, SHORT, Collection

from hubbub.errors import InvalidInput
from hubbub.service.runtime.database import StoreFailure, open_database
from hubbub.service.shuffler.store import Counts


@pytest.fixture
def system(tmp_path: Path, postgres_url: str) -> Iterator[System]:
    found = System(tmp_path, url=postgres_url)
    yield found
    found.shut()


class OnPostgres(Collection):
    """The same operations; backups are those of PostgreSQL's own tools, and not made here."""

    server: ClassVar[str]

    def __init__(self) -> None:
        self.stack = contextlib.ExitStack()
        super().__init__()

    def _system(self) -> System:
        return System(
            self.folder, plan=PLAN, min_batch_size=MIN_BATCH_SIZE, url=self.stack.enter_context(schemas(self.server))
        )

    back_up = None  # type: ignore[assignment]
    restore = None  # type: ignore[assignment]

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.stack.close()


def test_the_state_machine(postgres: str) -> None:
    OnPostgres.server = postgres
    run_state_machine_as_test(OnPostgres, settings=settings(SHORT, max_examples=5, stateful_step_count=15))


@pytest.mark.slow
def test_the_state_machine_at_length(postgres: str) -> None:
    OnPostgres.server = postgres
    run_state_machine_as_test(OnPostgres, settings=settings(SHORT, max_examples=100, stateful_step_count=40))


def cut(server: str) -> int:
    """End all other connections, as a restart of the server would; how many there were."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


def insist(work: Callable[[], object]) -> None:
    """Each of the four connections may fail once; then it must be as if nothing had been."""
    for _ in range(5):
        try:
            work()
        except StoreFailure:
            continue
        return
    raise AssertionError("the store did not come back")


def test_a_lost_connection_is_made_anew(system: System, postgres: str) -> None:
    client = system.client
    bundles = [client.seal(str(i % 8)) for i in range(120)]
    system.upload(*bundles[:50])
    assert cut(postgres) == 4
    with pytest.raises(StoreFailure, match="the store failed"):
        system.upload(*bundles[50:60])
    # Nothing of it was kept, and the next one is: first as a repeat of what failed, then the rest.
    system.upload(*bundles[50:60])
    system.upload(*bundles[60:])
    assert system.shuffler.totals(check=True)[system.contract.id] == Counts(120, 120, 0, 0, 0)
    system.clock.advance(EPOCH)

    def judge() -> None:
        assert system.shuffler.totals(check=True)[system.contract.id] == Counts(120, 0, 0, 120, 0)
        assert [result["people"] for result in system.results()] == [120]

    for work in (system.shuffler.tick, system.deliver, judge):
        cut(postgres)
        insist(work)


def test_a_connection_lost_within_a_transaction_undoes_it(system: System, postgres: str, postgres_url: str) -> None:
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


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreFailure):
        open_database(f"postgresql://postgres@/postgres?host={tmp_path}").rows("SELECT 1")


def test_backups_are_left_to_its_own_tools(system: System) -> None:
    folder = Path(tempfile.mkdtemp(dir=FAST))
    with pytest.raises(InvalidInput, match="pg_dump"):
        system.shuffler.backup(folder / "copy")
    shutil.rmtree(folder)
