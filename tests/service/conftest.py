"""A private PostgreSQL server on a Unix socket for the tests that run on both databases."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import missing

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []
_numbers = itertools.count()


def _run(*words: str) -> None:
    """Run a program of PostgreSQL, which refuses to run as root."""
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    subprocess.run([*user, *words], check=True, capture_output=True, timeout=120, cwd="/")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a private server and return the URL of its database."""
    if not BINARIES:
        missing("a PostgreSQL server")
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="hubbub-postgres-"))
    binaries = BINARIES[-1]
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    try:
        _run(str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=50"
        _run(str(binaries / "pg_ctl"), "-w", "-D", str(data), "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            _run(str(binaries / "pg_ctl"), "-w", "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


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
