"""A private PostgreSQL server on a Unix socket for the tests that run on both databases."""

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.service.postgres_server import BINARIES, PostgresServer

from hubbub.service.runtime.database import Postgres

_numbers = itertools.count()
DATABASE_CLOCK = Postgres.clock


@pytest.fixture(autouse=True)
def simulated_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases on PostgreSQL end by the simulated clock of a test, as if it were the database's."""
    monkeypatch.setattr(Postgres, "clock", None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a private server and return the URL of its database."""
    with private_postgres() as server:
        yield server.url()


@contextlib.contextmanager
def private_postgres() -> Iterator[PostgresServer]:
    """Run a server in a folder that its user can reach, which the folders of tests are not."""
    if not BINARIES:
        missing("a PostgreSQL server")
    pytest.importorskip("psycopg")
    place = Path(tempfile.mkdtemp(prefix="hubbub-postgres-"))
    place.chmod(0o755)
    try:
        with PostgresServer(place / "server").running() as server:
            yield server
    finally:
        shutil.rmtree(place)


@pytest.fixture
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server that the test may stop and kill."""
    with private_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """Return the URL that :class:`tests.service.system.System` takes, with a new schema for each role."""
    with schemas(postgres) as url:
        yield url


class schemas:
    """New schemas for both roles, dropped at the end."""

    def __init__(self, server: str) -> None:
        self._server, self._name = server, f"t{next(_numbers)}"

    def __enter__(self) -> str:
        self._each(lambda name: f"CREATE SCHEMA {name}")
        return f"{self._server}&options=-csearch_path%3D{self._name}_{{role}}"

    def __exit__(self, *_: object) -> None:
        self._each(lambda name: f"DROP SCHEMA {name} CASCADE")

    def _each(self, statement: Callable[[str], str]) -> None:
        import psycopg

        with psycopg.connect(self._server, autocommit=True) as connection:
            for role in ("shuffler", "analyzer"):
                connection.execute(statement(f"{self._name}_{role}").encode())
