"""Schema versions: new stores are stamped, supported ones are migrated, all others are rejected with a clear error."""

import functools
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.conftest import schemas

from hubbub.errors import StoreFailure
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.runtime.database import Database, Store, open_database
from hubbub.service.shuffler.store import ShufflerStore

GOLDEN = Path(__file__).parent / "golden" / "store4.tar.xz"


class First(Store):
    """The first version of a store."""

    role = "shuffler"
    tables = ("things (name TEXT PRIMARY KEY) {clustered}",)


class Second(First):
    """The second version, with a column more."""

    version = 2
    tables = ("things (name TEXT PRIMARY KEY, size BIGINT NOT NULL) {clustered}",)
    migrations = {1: ("ALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 0",)}  # noqa: RUF012


class Fourth(Second):
    """A version to which no migration leads."""

    version = 4


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'store.db'}"
        return
    with schemas(request.getfixturevalue("postgres")) as found:
        yield found.format(role="shuffler")


def connect(url: str) -> Database:
    return open_database(url)


def open_and_shut(kind: type[Store], url: str) -> None:
    kind(lambda: connect(url)).shut()


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    database = connect(url)
    try:
        return database.rows(statement)
    finally:
        database.close()


def test_a_new_store_is_stamped_and_opens_again(url: str) -> None:
    for _ in range(2):
        open_and_shut(Second, url)
        assert rows(url, "SELECT role, version FROM schema_version") == [("shuffler", 2)]


def test_an_older_store_is_migrated_and_keeps_its_rows(url: str) -> None:
    store = First(lambda: connect(url))
    store._writer.run("INSERT INTO things VALUES (?)", "kept")
    store.shut()
    open_and_shut(Second, url)
    assert rows(url, "SELECT name, size FROM things") == [("kept", 0)]
    assert rows(url, "SELECT version FROM schema_version") == [(2,)]


@pytest.mark.parametrize(
    ("written", "opened", "words"),
    [
        (
            Second,
            First,
            r"has schema version 2; this release of hubbub supports version 1\. Run a release that supports",
        ),
        (First, Fourth, "has schema version 1; this release of hubbub supports version 4"),
        (
            ShufflerStore,
            AnalyzerStore,
            "the store belongs to the shuffler, not to the analyzer; check the entry 'store'",
        ),
    ],
)
def test_unsupported_stores_are_rejected(url: str, written: type[Store], opened: type[Store], words: str) -> None:
    open_and_shut(written, url)
    before = rows(url, "SELECT * FROM schema_version")
    with pytest.raises(StoreFailure, match=words):
        opened(lambda: connect(url))
    assert rows(url, "SELECT * FROM schema_version") == before


def test_stores_of_the_previous_plans_are_refused_as_they_are(tmp_path: Path) -> None:
    """Version 4, with 60 bundles in open buckets: an operator reads what to do, and the release before can go on."""
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    for store in (ShufflerStore, AnalyzerStore):
        url = f"sqlite:{tmp_path}/{store.role}.db"
        before = rows(url, "SELECT version FROM schema_version"), rows(url, "SELECT * FROM tasks")
        with pytest.raises(StoreFailure, match="version 4 until all tasks have ended, then start this one with an"):
            store(functools.partial(connect, url))
        assert before == (rows(url, "SELECT version FROM schema_version"), rows(url, "SELECT * FROM tasks"))
        assert before[0] == [(4,)]
        assert len(before[1]) == 2


def test_a_store_without_a_version_is_rejected(url: str) -> None:
    database = connect(url)
    database.create(First.tables)
    database.close()
    with pytest.raises(StoreFailure, match="has no schema version: an older release or another program wrote it"):
        First(lambda: connect(url))
