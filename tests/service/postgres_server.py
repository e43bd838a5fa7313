"""A private PostgreSQL server on a Unix socket, for tests that start, stop and kill it."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []
"""The programs of every installed release; empty if there is no server."""
_START_SECONDS = 60.0


class PostgresServer:
    """A server whose data and socket are in a new folder; it never syncs, because only processes die in tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755, parents=True)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        self._data = folder / "data"
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres", "--no-sync")

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @contextlib.contextmanager
    def running(self) -> Iterator["PostgresServer"]:
        """Run the server until the end of the block."""
        self.start()
        try:
            yield self
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.stop()

    def start(self) -> None:
        """Start the server and wait until it accepts connections; processes of a killed one may still have to end."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=100"
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._run("pg_ctl", "-w", "-D", str(self._data), "-l", str(self.folder / "log"), "-o", options, "start")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server without a checkpoint: all connections break, and the next start recovers."""
        self._run("pg_ctl", "-w", "-D", str(self._data), "-m", "immediate", "stop")

    def kill(self) -> None:
        """Send SIGKILL to the server's main process; the others end when they notice."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def execute(self, statement: str) -> None:
        """Execute a statement outside of a transaction."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def create(self, database: str) -> None:
        """Create an empty database."""
        self.execute(f"CREATE DATABASE {database}")

    def rename(self, database: str, name: str) -> None:
        """Rename a database, whose connections are ended."""
        self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.execute(f"ALTER DATABASE {database} RENAME TO {name}")
                return
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def dump(self, database: str, path: Path) -> None:
        """Back up a database while it is in use, as the run book tells."""
        with path.open("wb") as file:
            self._run("pg_dump", "--format=custom", f"--dbname={self.url(database)}", output=file.fileno())

    def restore(self, database: str, path: Path) -> None:
        """Restore a backup into an empty database."""
        with path.open("rb") as file:
            words = ("pg_restore", "--exit-on-error", f"--dbname={self.url(database)}")
            self._run(*words, source=file.fileno())

    def _run(
        self, program: str, *words: str, source: int = subprocess.DEVNULL, output: int = subprocess.DEVNULL
    ) -> None:
        """Run a program of PostgreSQL, which refuses to run as root."""
        user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*user, str(BINARIES[-1] / program), *words]
        subprocess.run(
            command, check=True, stdin=source, stdout=output, stderr=subprocess.DEVNULL, timeout=300, cwd="/"
        )
