"""A simulation of the whole system: random operations of clients, operators, attackers, the network and the clock.

Every report carries a distinct value with practically no noise: a count of 2 is a replay, and an acknowledged report
that is not counted must be in a bucket that waits, was withheld, fenced, expired by a command, or is named in a gap.
"""

import contextlib
import dataclasses
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.service.admissions import new_ticket
from tests.service.simulated_series import ACCOUNTS, OVER, ROUND_EPOCHS, SimulatedSeries
from tests.service.system import EPOCH, START, Client, DirectClient, System, plan_of

from hubbub.errors import FalseClaim, Infeasible, Problem, StoreFailure
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline import device
from hubbub.planner import plan_from
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.database import LEASE_SECONDS
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract, SignedContract, load_served_contract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import ExpiredKeys, KeyList
from hubbub.service.task.manifest import Counter as SignedCounter
from hubbub.service.task.manifest import batch_id
from hubbub.service.task.sealing import generate

WIDTH, PEOPLE, MIN_BATCH_SIZE, COPIES = 256, 5, 7, 2
PLAN = plan_from(Schema.one_hot(WIDTH), PEOPLE, Protocol(2**-34, k=COPIES), epsilon=100)
CROWD = plan_of()
"""A plan whose guarantee rests on many honest users."""
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
DAY = 86_400


class ConnectionBroken(Exception):
    """The connection to the analyzer broke."""


class Link(DirectClient):
    """A connection that may break before or after a request; it records every slot that leaves the shuffler."""

    def __init__(self, simulation: "Simulation", breaks: int = 0) -> None:
        super().__init__(simulation.system.analyzer)
        self.simulation, self.breaks = simulation, breaks

    def _moment(self) -> None:
        self.breaks -= 1
        if self.breaks == 0:
            raise ConnectionBroken

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        self._moment()
        answer = super().put_manifest(batch, document)
        self._moment()
        return answer

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        self._moment()
        self.simulation.sent(batch, index, data)
        super().put_chunk(batch, index, data)
        self._moment()


class LyingKeys(DirectClient):
    """An analyzer that signs other public bytes under the ids of its keys."""

    def __init__(self, system: System) -> None:
        super().__init__(system.analyzer)
        self.system = system

    def keys(self) -> bytes:
        identity = self.system.identities["analyzer"]
        honest = KeyList.read(super().keys(), identity.public, "analyzer")
        forged = tuple(dataclasses.replace(key, public=generate(key.suite)[1]) for key in honest.keys)
        return dataclasses.replace(honest, keys=forged).sign(identity)


class OldKeys(DirectClient):
    """An analyzer that replays a key list it signed before."""

    def __init__(self, system: System, text: bytes) -> None:
        super().__init__(system.analyzer)
        self.text = text

    def keys(self) -> bytes:
        return self.text


class RewoundCounter(DirectClient):
    """An analyzer whose signed counter goes back to 0."""

    def __init__(self, system: System) -> None:
        super().__init__(system.analyzer)
        self.system = system

    def counter(self, task: str) -> bytes:
        return SignedCounter(bytes.fromhex(task), 0).sign(self.system.identities["analyzer"])


@dataclasses.dataclass
class Report:
    """A report of an honest client."""

    value: int
    contract: Contract
    ticket: bytes
    bundle: bytes
    slots: list[bytes]
    stored: int = 0
    """The bucket of the present store that its bundle is or was in, with or without an answer; 0 if it never was."""
    bucket: int = 0
    """The bucket that it was stored in when it was acknowledged; 0 before."""
    uncertain: bool = False
    """It was acknowledged but a restored store does not know it, or its client was told so."""


Stored = dict[int, tuple[bytes, int]]
"""The bundles of reports in a store and their buckets, by the value of the report."""


class Simulation:
    """A system with two tasks, one of each suite, and everything that happens to it."""

    def __init__(self, seed: int, url: str = "sqlite:{folder}/{role}.db") -> None:
        self.random = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(dir=FAST))
        # Not at the start of the task, so that a clock that is set back is still within it.
        self.system = System(
            self.folder,
            plan=PLAN,
            min_batch_size=MIN_BATCH_SIZE,
            url=url,
            clock=MockClock(START + 30 * DAY),
            lifetime=2.0 * DAY,
            grace=DAY / 4,
        )
        self.backups = url.startswith("sqlite")
        self.contracts = [self.system.contract, self.system.new_contract(suite=2)]
        self.system.serve(self.contracts[1])
        self.series = SimulatedSeries(self.system, self.random)
        self.failing: bytes | None = None
        self._watch(self.system.shuffler)
        self.reports: list[Report] = []
        self.malicious: Counter[bytes] = Counter()
        self.chunks: dict[tuple[str, int], bytes] = {}
        self.homes: dict[bytes, str] = {}
        self.analyzer_backup: Path | None = None
        self.shuffler_backups: list[tuple[Path, Stored]] = []
        """The backups of the shuffler, and the reports that each of them has."""
        self.restored = False
        self.old_list = (self.system.link.keys(), self.system.clock.now())
        self.old_keys = self.system.shuffler.tasks.keys_document(self.contracts[0].task)
        self.identities = 0
        self.made: Counter[str] = Counter()

    def run(self, steps: int) -> None:
        """Make random steps, check after each, and account for every report at the end."""
        names = [name for name in dir(self) if name.startswith("step_")]
        weights = [WEIGHTS.get(name.removeprefix("step_"), 1) for name in names]
        try:
            for name in self.random.choices(names, weights, k=steps):
                self.made[name.removeprefix("step_")] += 1
                getattr(self, name)()
                self.check()
            self.finish()
        finally:
            with contextlib.suppress(Exception):
                self.system.shut()
            shutil.rmtree(self.folder)

    # -- helpers --

    def _watch(self, shuffler: Shuffler) -> None:
        """Let the releases of a chosen task fail."""
        release = shuffler._buckets.release

        def failing(task: Any, *arguments: Any) -> str | None:
            if task.id == self.failing:
                raise StoreFailure("this task only")
            return release(task, *arguments)

        shuffler._buckets.release = failing  # type: ignore[method-assign,assignment]

    def _client(self, contract: Contract) -> Client:
        with contextlib.suppress(ExpiredKeys, Problem):
            return self.system.client_of(contract)
        self._fetch()
        return self.system.client_of(contract)

    def _fetch(self) -> None:
        self.system.analyzer.advance()
        try:
            self.system.shuffler.fetch_keys(self.system.link)
        except Problem as problem:
            # Statements are numbered by the clock: one of a restored store may be refused until time has passed, and
            # the analyzer holds its keys meanwhile.
            if problem.name != "conflict" or not self.restored:
                raise

    def _seal(self, report: Report) -> None:
        client = self._client(report.contract)
        report.slots = client.slots(device.payloads(str(report.value), PLAN))
        report.bundle, report.stored = client.bundle(report.slots, report.ticket), 0

    def _new(self, contract: Contract) -> Report:
        report = Report(len(self.reports), contract, new_ticket(contract.task), b"", [])
        self._seal(report)
        self.reports.append(report)
        return report

    def _store(self, report: Report) -> None:
        self.system.shuffler.tasks.refresh()
        report.stored = report.stored or self.system.shuffler.tasks.find(report.contract.task).row.bucket

    def _acknowledge(self, report: Report) -> None:
        self._store(report)
        report.bucket = report.stored

    def _acknowledged(self) -> list[Report]:
        return [report for report in self.reports if report.bucket]

    def _open(self, contract: Contract) -> int:
        return self.system.shuffler.totals()[contract.id].open

    def sent(self, batch: str, index: int, data: bytes) -> None:
        """Check that a batch has the same bytes whenever it is sent, and no slot of another batch."""
        assert self.chunks.setdefault((batch, index), data) == data, "a batch was drawn twice"
        for size in {contract.slot_size for contract in self.contracts if len(data) % contract.slot_size == 0}:
            for start in range(0, len(data), size):
                slot = data[start : start + size]
                assert self.homes.setdefault(slot, batch) == batch, "two batches have people in common"

    # -- clients --

    def step_upload(self) -> None:
        contract = self.random.choice(self.contracts)
        count = min(self.random.randrange(1, 9), WIDTH - len(self.reports))
        reports = [self._new(contract) for _ in range(count)]
        if self.random.random() < 0.85:
            self.system.upload(*(report.bundle for report in reports), contract=contract)
            for report in reports:
                self._store(report)
            if self.random.random() < 0.8:
                for report in reports:
                    self._acknowledge(report)

    def step_retry(self) -> None:
        """Send every unanswered bundle again; ``outdated-keys`` means that it was never accepted."""
        for report in self.reports:
            if report.bucket or report.uncertain:
                continue
            for _ in range(2):
                try:
                    self.system.upload(report.bundle, contract=report.contract)
                    self._acknowledge(report)
                except Problem as problem:
                    if problem.name == "uncertain":
                        report.uncertain = True
                        break
                    assert problem.name == "outdated-keys", problem.name
                    self._seal(report)
                    continue
                break

    def step_replay(self) -> None:
        """Repeat acknowledged bundles: they get the same response, whatever happened to their keys."""
        for report in self.random.sample(self._acknowledged(), min(3, len(self._acknowledged()))):
            try:
                self.system.upload(*[report.bundle] * 2, contract=report.contract)
            except Problem as problem:
                assert (problem.name, report.uncertain) == ("uncertain", True), problem.name

    def step_reuse_a_ticket(self) -> None:
        """One account tries to fill a batch."""
        contract = self.random.choice(self.contracts)
        known = [report for report in self._acknowledged() if report.contract is contract and not report.uncertain]
        if known:
            client, ticket = self._client(contract), self.random.choice(known).ticket
            before = self._open(contract)
            for _ in range(2):
                problem = refusal(lambda: self.system.upload(client.seal("0", ticket), contract=contract))
                assert problem == "token-spent", f"a ticket admitted two bundles: {problem}"
            assert self._open(contract) == before

    def step_malicious(self) -> None:
        """Clients none of whose slots opens."""
        contract = self.random.choice(self.contracts)
        client = self._client(contract)
        for _ in range(self.random.randrange(1, 4)):
            slots = client.slots(device.payloads("0", PLAN))
            bad = [slot[:-1] + bytes([slot[-1] ^ 1]) for slot in slots]
            self.system.upload(client.bundle(bad), contract=contract)
            self.malicious[contract.task] += 1

    def step_malicious_minority(self) -> None:
        """As many malicious clients as a batch has beyond the plan's n: they cost nobody else anything."""
        self.step_malicious()
        contract = self.random.choice(self.contracts)
        for _ in range(min(PEOPLE, WIDTH - len(self.reports))):
            report = self._new(contract)
            self.system.upload(report.bundle, contract=contract)
            self._acknowledge(report)
        client = self._client(contract)
        slots = [client.slots(device.payloads("0", PLAN)) for _ in range(MIN_BATCH_SIZE - PEOPLE)]
        for pair in slots:
            self.system.upload(client.bundle([slot[:-1] + bytes([slot[-1] ^ 1]) for slot in pair]), contract=contract)
            self.malicious[contract.task] += 1
        self.step_tick()
        self.system.shuffler.shuffle()
        self._deliver(self.system.shuffler)
        self.system.count()

    def step_stale_client(self) -> None:
        """A device that was offline refuses the key lists it has kept for too long."""
        listed = KeyList.read(self.old_list[0], self.system.contract.analyzer, "analyzer")
        if self.system.clock.now() >= listed.expires:
            with expect(ExpiredKeys, "a device sealed to keys of an expired list"):
                Client(self.contracts[0], self.old_keys, self.system.clock.now())

    def step_open_admission(self) -> None:
        """A contract that anybody may flood is refused where the guarantee needs a crowd."""
        with expect(Infeasible, "a contract with open admission was served"):
            contract = self.system.new_contract(plan=CROWD, slots=1, min_batch_size=100, admission=Admission("open"))
            signed = SignedContract.sign(contract, *self.system.identities.values()).to_json()
            load_served_contract(signed, "shuffler", self.system.identities["shuffler"], 1)

    # -- a series --

    def step_answer_in_the_round(self) -> None:
        """Some people answer in the current round, as they did in earlier ones."""
        if not self.series.is_open:
            return
        client = self._client(self.series.contract)
        for account in self.random.sample(range(ACCOUNTS), self.random.randrange(5, ACCOUNTS)):
            problem = self.series.answer(client, account)
            assert problem in ("", "outdated-keys", "unavailable", "uncertain", *OVER), problem

    def step_round_ends(self) -> None:
        """Let the clock reach the next round; too few people expire with their round."""
        contract, clock = self.series.contract, self.system.clock
        epoch = contract.task_start + self.series.number * ROUND_EPOCHS
        clock.advance(max(epoch * EPOCH - clock.now(), EPOCH))
        self._tick()
        if self.random.random() < 0.7:
            clock.advance(EPOCH)
            self._tick()
        if self.random.random() < 0.6:
            self.system.shuffler.shuffle()
            self._deliver(self.system.shuffler)
            self.system.count()

    def step_answer_again(self) -> None:
        if not self.series.is_open:
            return
        client = self._client(self.series.contract)
        if not self.restored:
            self.series.repeat(client)
        self.series.late(client)

    def step_forge_a_round(self) -> None:
        self.series.forge()

    # -- operators, the clock and the network --

    def step_tick(self) -> None:
        """Let time pass and release; a task that fails does not keep the others from being released."""
        self.system.clock.advance(self.random.choice([1, EPOCH, EPOCH, EPOCH, 50 * EPOCH, DAY / 3]))
        self._tick()

    def _tick(self) -> None:
        if self.random.random() < 0.15:
            self.failing = self.random.choice(self.contracts).task
        due = {}
        for contract in self.contracts:
            row = self.system.shuffler.tasks.find(contract.task).row
            changed = contract.epoch_at(self.system.clock.now()) != row.last_epoch
            if changed and self._open(contract) >= MIN_BATCH_SIZE and contract.task != self.failing:
                due[contract] = row.bucket
        with contextlib.suppress(StoreFailure) if self.failing else contextlib.nullcontext():
            self.system.shuffler.tick()
        self.failing = None
        self.system.shuffler.tasks.refresh()
        for contract, bucket in due.items():
            row = self.system.shuffler.tasks.find(contract.task).row
            assert row.bucket > bucket, "a bucket that was due was not released"

    def step_jump(self) -> None:
        """Set the clock wrong, and perhaps right again."""
        ahead = self.random.choice([3 * DAY, 3 * DAY, -DAY / 2, 10 * EPOCH, -10 * EPOCH])
        self.system.clock.jump(ahead)
        self._tick()
        if ahead > DAY or self.random.random() < 0.5:
            self.system.clock.jump(-ahead)

    def step_shuffle(self) -> None:
        self.system.shuffler.shuffle()

    def step_deliver(self) -> None:
        self._deliver(self.system.shuffler, self.random.choice([0, 0, 1, 2, 3, 4, 5]))

    def _deliver(self, shuffler: Shuffler, breaks: int = 0) -> bool:
        try:
            return shuffler.deliver(Link(self, breaks))
        except ConnectionBroken:
            return True
        except Problem as problem:
            if problem.name != "conflict" or not self.restored:
                raise
            return True

    def step_count(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.system.analyzer.work()

    def step_rotate(self) -> None:
        self.random.choice([self.system.analyzer.rotate, self.system.shuffler.keyring.rotate])()

    def step_fetch(self) -> None:
        self._fetch()
        if self.random.random() < 0.2:
            self.old_list = (self.system.link.keys(), self.system.clock.now())

    def step_foreign_task(self) -> None:
        """A task of another analyzer, which may have ended, does not disturb the key lists of this one."""
        if self.identities < 2:
            self.identities += 1
            other = Identity.generate()
            contract = self.system.new_contract(analyzer=other.public)
            signed = SignedContract.sign(contract, other, self.system.identities["shuffler"]).to_json()
            self.system.shuffler.tasks.add_contract(signed)
            self.system.shuffler.close(contract.task, destroy=self.random.random() < 0.5)
            self._fetch()

    def step_restart(self) -> None:
        self.system.restart()
        self._watch(self.system.shuffler)

    def step_wait_under_an_old_key(self) -> None:
        """Reports wait longer than their key would live."""
        report = self._new(self.random.choice(self.contracts))
        self.system.upload(report.bundle, contract=report.contract)
        self._acknowledge(report)
        self._fetch()
        self.system.analyzer.rotate()
        self.system.clock.advance(DAY / 2)
        self._fetch()

    # -- two shufflers --

    def step_two_shufflers(self) -> None:
        """Another process takes over in the middle of this one's work, which must then write nothing."""
        other = self.system.replica()
        first = self.system.shuffler
        database, left = first.store.jobs, self.random.randrange(1, 12)
        begin = database.transaction

        def interrupted() -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                self.system.clock.advance(3 * LEASE_SECONDS)
                for work in (other.tick, other.shuffle, lambda: self._deliver(other), self.system.count):
                    work()
                self._deliver(other)
            return begin()

        database.transaction = interrupted  # type: ignore[method-assign]
        try:
            self.system.clock.advance(EPOCH)
            first.tick()
            first.shuffle()
            self._deliver(first)
        finally:
            database.transaction = begin  # type: ignore[method-assign]
            other.shut()
        self.system.clock.advance(3 * LEASE_SECONDS)

    # -- backups --

    def step_back_up(self) -> None:
        if not self.backups:
            return
        role = self.random.choice(["shuffler", "analyzer"])
        if role == "analyzer":
            self.analyzer_backup = self.folder / "analyzer-backup.db"
            self.analyzer_backup.unlink(missing_ok=True)
            self.system.analyzer.store.backup(self.analyzer_backup)
        else:
            name = f"shuffler-{len(self.shuffler_backups)}.db"
            self.shuffler_backups.append((self.system.back_up(name), self._stored()))

    def _stored(self) -> Stored:
        """Return the reports that are or were in the present store, acknowledged or not."""
        return {report.value: (report.bundle, report.stored) for report in self.reports if report.stored}

    def step_restore_the_shuffler(self) -> None:
        """Restore a backup: the last one, or one that may be older or newer than the one that was restored before."""
        if self.shuffler_backups:
            self._restore(*self.random.choice([self.shuffler_backups[-1], *self.shuffler_backups[-3:]]))

    def _restore(self, backup: Path, stored: Stored) -> None:
        for report in self.reports:
            bundle, bucket = stored.get(report.value, (b"", 0))
            report.stored = bucket if bundle == report.bundle else 0
            if report.bucket:
                # Clients of the others learn it when they retry.
                report.uncertain = not report.stored
        self.restored = True
        self.system.restore(backup)
        self._watch(self.system.shuffler)
        self._fetch()

    def step_restore_after_a_release(self) -> None:
        """A bundle that the backup does not know, and that was counted, is not accepted a second time."""
        if not self.backups:
            return
        contract = self.random.choice(self.contracts)
        backup, before = self.system.back_up("short.db"), self._stored()
        reports = [self._new(contract) for _ in range(min(8, WIDTH - len(self.reports)))]
        for report in reports:
            self.system.upload(report.bundle, contract=contract)
            self._acknowledge(report)
        self.step_tick()
        self.system.shuffler.shuffle()
        for _ in range(2):
            self._deliver(self.system.shuffler)
            self.system.count()
        self.check()
        self._restore(backup, before)
        for report in reports[:2]:
            found = refusal(lambda report=report: self.system.upload(report.bundle, contract=contract))  # type: ignore[misc]
            assert found == "uncertain", f"a restored store accepted a bundle that may have been counted: {found}"

    def step_restore_the_analyzer(self) -> None:
        if self.analyzer_backup is None:
            return
        self.system.results()
        self.system.shut_analyzer()
        for suffix in ("", "-wal", "-shm"):
            (self.folder / f"analyzer.db{suffix}").unlink(missing_ok=True)
        shutil.copy(self.analyzer_backup, self.folder / "analyzer.db")
        self.system.start_analyzer()

    # -- a lying analyzer --

    def step_show_other_keys(self) -> None:
        with expect(FalseClaim, "the shuffler accepted other bytes under a known key id"):
            self.system.shuffler.fetch_keys(LyingKeys(self.system))

    def step_replay_an_old_list(self) -> None:
        text, _ = self.old_list
        listed = KeyList.read(text, self.system.contract.analyzer, "analyzer")
        if self.system.clock.now() >= listed.expires:
            with expect(ExpiredKeys, "the shuffler accepted an expired key list"):
                self.system.shuffler.fetch_keys(OldKeys(self.system, text))

    def step_rewind_the_counter(self) -> None:
        if not self.restored:
            self.system.shuffler.fetch_keys(RewoundCounter(self.system))
        self._fetch()

    # -- checks --

    def check(self) -> None:
        """Check that no value counts twice, that batches are large enough, and that every bundle has one state."""
        counted = self.counted()
        assert max(counted.values(), default=0) <= 1, "a value was counted twice"
        for contract in self.contracts:
            counts = self.system.shuffler.totals(check=True)[contract.id]
            assert counts.error == 0, counts
            assert counts.expired == 0, "acknowledged reports expired"
        for result in self.system.read.values():
            assert set(result["rejected"]) <= {"cannot_open"}, result["rejected"]
        self.series.check()

    def counted(self) -> Counter[tuple[str, int]]:
        """Return how often each value was counted in each task, by all results ever published."""
        found: Counter[tuple[str, int]] = Counter()
        for contract in self.contracts:
            for batch in self.system.analyzer.batches(contract.task):
                name = str(batch["batch"])
                if name not in self.system.read:
                    text = self.system.analyzer.store.result(name)
                    assert text is not None
                    self.system.read[name] = {**parsed(text), "task": contract.id}
        bad = Counter[str]()
        for result in self.system.read.values():
            rejected = sum(result["rejected"].values())
            bad[result["task"]] += rejected
            if result["state"] == "committed":
                for value, count in enumerate(result["table"]["value"]):
                    if count > 0.5:
                        found[result["task"], value] += round(count)
            else:
                people = result["bundles"] - -(-rejected // COPIES)
                assert people < PEOPLE, f"a batch of {people} good people was withheld"
        for contract in self.contracts:
            assert bad[contract.id] <= COPIES * self.malicious[contract.task], "reports of honest people were rejected"
        return found

    def finish(self) -> None:
        """Close a task, drain the other, and account for every acknowledged report."""
        system = self.system
        self._fetch()
        closed, drained = self.contracts
        before = self._open(closed)
        closing = system.shuffler.close(closed.task)
        assert (closing.released is None) == (before < MIN_BATCH_SIZE), "a bucket was destroyed by close"
        assert closing.expired == (before if before < MIN_BATCH_SIZE else 0)
        system.clock.advance(EPOCH)
        self.random.seed(1)
        self._tick()
        assert self._open(drained) < MIN_BATCH_SIZE, "a full bucket was not released"
        for _ in range(20):
            system.shuffler.shuffle()
            if not self._deliver(system.shuffler):
                break
            system.count()
        for contract in self.contracts:
            counts = system.shuffler.totals(check=True)[contract.id]
            assert (counts.error, counts.sealed, counts.outbox) == (0, 0, 0), counts
        counted = self.counted()
        assert max(counted.values(), default=0) <= 1, "a value was counted twice"
        for report in self._acknowledged():
            if not counted[report.contract.id, report.value]:
                assert self._accounted(report), f"report {report.value} of bucket {report.bucket} is lost"

    def _accounted(self, report: Report) -> bool:
        """Return True if the bucket of a report explains why it is not counted.

        A report that the restored store does not know is not in any of its buckets, even if one has the same number:
        only a gap explains its loss.
        """
        system, contract = self.system, report.contract
        row = system.shuffler.tasks.rows()
        task = next(one for one in row.values() if one.id == contract.task)
        if not report.uncertain:
            result = system.read.get(batch_id(contract.task, report.bucket))
            if result is not None and result["state"] == "withheld":
                return True
            bucket = system.shuffler.store.bucket(task, report.bucket)
            if bucket is not None and bucket.state in ("open", "fenced", "expired"):
                return True
        gaps = [parsed(document)["body"] for document in system.shuffler.store.gaps(task)]
        gaps += system.analyzer.gaps(contract.task)
        return any(gap["first"] <= report.bucket <= gap["last"] for gap in gaps)


def parsed(text: bytes) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(text)
    return found


def refusal(call: Callable[[], None]) -> str:
    """Return the name of the problem that a call raises, empty if it raises none."""
    try:
        call()
    except Problem as problem:
        return problem.name
    return ""


@contextlib.contextmanager
def expect(error: type[Exception], message: str) -> Any:
    """Fail with a message unless the block raises an error."""
    try:
        yield
    except error:
        return
    raise AssertionError(message)


WEIGHTS = {
    "upload": 8,
    "tick": 6,
    "shuffle": 3,
    "deliver": 5,
    "count": 4,
    "retry": 3,
    "fetch": 2,
    "back_up": 2,
    "malicious": 2,
    "answer_in_the_round": 4,
    "round_ends": 2,
}
