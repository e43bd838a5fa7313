"""Schema versions: new stores are stamped, supported ones are migrated, all others are rejected with a clear error."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.admissions import TICKET_KEY
from tests.service.conftest import schemas
from tests.service.system import START, System

from hubbub.errors import Problem, StoreFailure
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.database import Database, open_database
from hubbub.service.runtime.store import Store
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.store import ShufflerStore
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.identity import Identity

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


def test_an_analyzer_of_the_version_before_the_lake_and_strings_is_migrated(url: str) -> None:
    open_and_shut(AnalyzerStore, url)
    database = connect(url)
    for table in ("opened", "lakes", "evaluations", "evaluated"):
        database.run(f"DROP TABLE {table}")
    database.run("UPDATE schema_version SET version = 3")
    database.run("INSERT INTO tasks VALUES (?, ?)", b"task", b"contract")
    database.close()
    store = AnalyzerStore(lambda: connect(url))
    assert (store.waiting_exports(), store.tasks()) == ([], [b"task"])
    store.shut()
    assert rows(url, "SELECT version FROM schema_version") == [(5,)]
    assert rows(url, "SELECT * FROM evaluations") == rows(url, "SELECT * FROM evaluated") == []


def test_an_analyzer_with_caps_for_the_life_of_a_key_is_migrated(url: str) -> None:
    """Version 4 counted the evaluations of a key; the hours of version 5 begin anew, and nothing else is lost."""
    open_and_shut(AnalyzerStore, url)
    database = connect(url)
    database.run("DROP TABLE evaluations")
    database.create(["evaluations (task {blob}, key_id BIGINT, used BIGINT NOT NULL, PRIMARY KEY (task, key_id))"])
    database.run("INSERT INTO evaluations VALUES (?, 1, 5)", b"task")
    database.run("INSERT INTO evaluated VALUES (?, 1, ?, ?)", b"task", b"client", b"element")
    database.run("UPDATE schema_version SET version = 4")
    database.close()
    open_and_shut(AnalyzerStore, url)
    assert rows(url, "SELECT version FROM schema_version") == [(5,)]
    assert rows(url, "SELECT hour, used FROM evaluations") == []
    assert len(rows(url, "SELECT * FROM evaluated")) == 1


def test_a_shuffler_of_the_version_before_strings_is_migrated(url: str) -> None:
    open_and_shut(ShufflerStore, url)
    database = connect(url)
    for table in ("tag_pins", "tag_lists", "slot_counts"):
        database.run(f"DROP TABLE {table}")
    database.run("UPDATE schema_version SET version = 3")
    database.close()
    open_and_shut(ShufflerStore, url)
    assert rows(url, "SELECT version FROM schema_version") == [(5,)]
    assert rows(url, "SELECT * FROM slot_counts") == rows(url, "SELECT * FROM tag_pins") == []


class Upgraded(System):
    """A system on stores of version 4, with 60 bundles each under an open contract and one by ticket.

    The archive was written by the release that made such stores; its secrets are those of a test.
    """

    def __init__(self, folder: Path) -> None:
        with tarfile.open(GOLDEN) as archive:
            archive.extractall(folder, filter="data")
        self.folder, self.url, self.clock = folder, "sqlite:{folder}/{role}.db", MockClock(START)
        self.lifetime, self.grace, self.options, self.export, self.read = 10**6, 10**5, {}, False, {}
        self.workers = Workers(0)
        self.identities = {role: Identity.load(folder / f"{role}.identity") for role in ("shuffler", "analyzer")}
        signed = [SignedContract.from_json((folder / f"{name}.json").read_bytes()) for name in ("open", "ticket")]
        self.contract, self.by_ticket = (one.contract for one in signed)
        self.start()
        self.shuffler.fetch_keys(self.link)


def test_stores_of_the_previous_version_with_open_buckets_go_on(tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost, tickets stay spent, and bundles of that version are refused clearly."""
    system = Upgraded(tmp_path)
    assert rows(f"sqlite:{tmp_path}/shuffler.db", "SELECT version FROM schema_version") == [(5,)]
    bundles = json.loads((tmp_path / "bundles.json").read_text())
    for contract, name in ((system.contract, "open"), (system.by_ticket, "ticket")):
        assert system.counts(contract).open == 60
        with pytest.raises(Problem) as caught:
            # With open admission, the service refuses the length before it has the body.
            system.upload(bytes.fromhex(bundles[name]), contract=contract)
        assert caught.value.name == ("wrong-length" if name == "open" else "wrong-version")
        system.fill(40, contract)
    spent = TICKET_KEY.mint(system.by_ticket.task, "person 0")
    with pytest.raises(Problem, match="token-spent"):
        system.upload(system.client_of(system.by_ticket).seal("0", spent), contract=system.by_ticket)
    system.next_epoch()
    system.deliver()
    for contract in (system.contract, system.by_ticket):
        assert system.counts(contract).committed == 100
        (batch,) = system.analyzer.batches(contract.task)
        result = json.loads(system.analyzer.store.result(str(batch["batch"])))
        assert (result["people"], [round(value) for value in result["values"]]) == (100, [25] * 4)
    system.shut()


def test_a_store_without_a_version_is_rejected(url: str) -> None:
    database = connect(url)
    database.create(First.tables)
    database.close()
    with pytest.raises(StoreFailure, match="has no schema version: an older release or another program wrote it"):
        First(lambda: connect(url))
