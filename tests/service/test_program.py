"""The shuffler as a program: its roles, its start while the database is down, and its commands."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.conftest import schemas
from tests.service.live import install_ticket_key
from tests.service.shuffler_system import EPOCH, START, Client, System, clear_plan

from hubbub.errors import InvalidInput, StoreFailure
from hubbub.service.provision import TICKETS
from hubbub.service.runtime import process
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.database import Postgres
from hubbub.service.runtime.settings import Common, ShufflerConfig
from hubbub.service.shuffler.app import ShufflerProgram, _ShufflerCommands
from hubbub.service.task.contract import SignedContract

PLAN = clear_plan(16, 10)


class Deployment:
    """Programs of one shuffler, all with the same store and credentials, and a fake analyzer."""

    def __init__(self, folder: Path, store: str) -> None:
        (folder / "system").mkdir()
        self.folder, self.store = folder, store
        self.clock = MockClock(START)
        self.system = System(folder / "system", plan=PLAN, min_batch_size=10, clock=self.clock)
        self.contract = self.system.contract
        # The system only provides keys and identities; its own shuffler takes no part.
        self.system.analyzer.statements.clear()
        signed = SignedContract.sign(self.contract, *self.system.identities.values()).to_json()
        (folder / "contract.json").write_bytes(signed)
        identity = self.system.identities["shuffler"]
        identity.save(folder / "identity")
        (folder / TICKETS).mkdir()
        install_ticket_key(folder)
        self.programs: list[ShufflerProgram] = []

    def start(self, role: str, **changes: Any) -> ShufflerProgram:
        folder = self.folder / f"{role}{len(self.programs)}"
        common = Common(
            folder=folder,
            store=self.store,
            identity=self.folder / "identity",
            credentials=self.folder / "credentials",
            contracts=(self.folder / "contract.json",),
            unsafe_test=True,
            workers=0,
        )
        config = ShufflerConfig(
            common=common, analyzer="http://127.0.0.1:1", tickets=self.folder / TICKETS, role=role, **changes
        )
        program = ShufflerProgram(config, self.clock)
        program._clients = [self.system.analyzer, self.system.analyzer]
        self.programs.append(program)
        return program

    def upload(self, program: ShufflerProgram, count: int) -> None:
        core = program.core
        client = Client(self.contract, core.tasks.keys_document(self.contract.task), self.clock.now())
        for _ in range(count):
            core.uploads.accept(core.uploads.open(core.uploads.prepare(self.contract.task, client.seal("0"))))

    def shut(self) -> None:
        for program in self.programs:
            program._clients = []
            program.close()
        self.system.shut()


@pytest.fixture(params=["sqlite", "postgres"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    if request.param == "sqlite":
        found = Deployment(tmp_path, "")
        yield found
        found.shut()
        return
    with schemas(request.getfixturevalue("postgres")) as url:
        found = Deployment(tmp_path, url.format(role="shuffler"))
        yield found
        found.shut()


def turn(program: ShufflerProgram) -> None:
    """Run every periodic task once."""

    async def run() -> None:
        for loop in program.loops():
            await loop._work()

    asyncio.run(run())


def test_one_process_does_everything(deployment: Deployment) -> None:
    program = deployment.start("all")
    assert [one.name for one in program.listeners()] == ["uploads", "operations", "admin"]
    turn(program)
    assert program.ready()
    deployment.upload(program, 12)
    deployment.clock.advance(EPOCH)
    for _ in range(2):
        turn(program)
    commands = _ShufflerCommands(program)
    check: Any = commands.check()
    assert check["good"]
    assert check["tasks"][deployment.contract.id]["committed"] == 12
    deployment.upload(program, 3)
    assert commands.close(deployment.contract.task) == {"released": None, "expired": 3}
    assert program._live()["alarms_restored"] == 0


def test_intake_and_workers_share_one_store(tmp_path: Path, postgres: str) -> None:
    with schemas(postgres) as url:
        deployment = Deployment(tmp_path, url.format(role="shuffler"))
        worker, intake, other = (deployment.start(role) for role in ("worker", "intake", "intake"))
        assert "uploads" not in [one.name for one in worker.listeners()]
        assert [loop.name for loop in intake.loops()] == ["tick"]
        for program in (worker, intake, other):
            turn(program)
        assert intake.ready()
        deployment.upload(intake, 6)
        deployment.upload(other, 6)
        deployment.clock.advance(EPOCH)
        turn(worker)
        turn(intake)
        deployment.upload(intake, 1)
        turn(worker)
        counts = worker.core.totals(check=True)[deployment.contract.id]
        assert (counts.committed, counts.open, counts.error) == (12, 1, 0)
        deployment.shut()


def test_a_service_waits_for_its_database(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "DATABASE_SECONDS", 0.01)
    connect, attempts = Postgres._connect, [0]

    def unreachable(database: Postgres) -> Any:
        attempts[0] += 1
        if attempts[0] <= 3:
            import psycopg

            raise psycopg.OperationalError("the server is starting")
        return connect(database)

    with schemas(postgres) as url:
        deployment = Deployment(tmp_path, url.format(role="shuffler"))
        monkeypatch.setattr(Postgres, "_connect", unreachable)
        built = process._build(lambda: deployment.start("all"))
        assert isinstance(built, ShufflerProgram)
        turn(built)
        assert caplog.text.count("waiting for the database") == 1
        deployment.shut()


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, f"sqlite:{tmp_path}/missing/store.db")
    with pytest.raises(StoreFailure):
        deployment.start("all")
    deployment.shut()


def test_sqlite_is_for_one_process(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, "")
    with pytest.raises(InvalidInput, match="role must be all unless the store is PostgreSQL"):
        deployment.start("intake")
    with pytest.raises(InvalidInput, match="role"):
        deployment.start("everything")
    deployment.shut()
