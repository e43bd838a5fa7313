"""The uploader: whatever happens on the way, every answer is stored once or reported as refused."""

import functools
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import httpx
import pytest
from tests.service.admissions import new_ticket
from tests.service.system import System

from hubbub.errors import InvalidInput, NoResponse, Problem, WireError
from hubbub.service.journal import Journal
from hubbub.service.runtime.http import KINDS, PREFIX, status_of
from hubbub.service.task.contract import ROUND_GRACE
from hubbub.service.transport import HttpTransport, Response, read_problem
from hubbub.service.uploader import Record, Uploader


class Wire:
    """A transport to a system in this process; ``fault`` is called before and after every upload."""

    def __init__(self, system: System, fault: Callable[[str], None] = lambda _: None) -> None:
        self.system, self.fault, self.uploads = system, fault, 0

    def keys(self, task: str) -> bytes:
        return self.system.shuffler.tasks.keys_document(bytes.fromhex(task))

    def evaluate(self, task: str, body: bytes) -> Response:
        raise AssertionError(f"no strings are collected for {task}, got {len(body)} bytes")

    def post(self, task: str, body: bytes) -> Response:
        self.fault("before")
        self.uploads += 1
        try:
            upload = self.system.shuffler.uploads.prepare(bytes.fromhex(task), body)
            self.system.shuffler.uploads.accept(self.system.shuffler.uploads.open(upload))
        except Problem as problem:
            return Response(status_of(problem), problem.name)
        self.fault("after")
        return Response(201)


class Sender(Uploader):
    """An uploader that has a ticket for every answer."""

    def prepare(
        self,
        records: Iterable[Record],
        admissions: Iterable[bytes] | Callable[[], bytes] | None = None,
        *,
        codes: Iterable[str] | None = None,
    ) -> None:
        if admissions is None and codes is None:
            admissions = functools.partial(new_ticket, self.contract.task)
        super().prepare(records, admissions, codes=codes)


def uploader(system: System, wire: Wire, path: Path, per_request: int = 100) -> Uploader:
    journal = Journal(path, system.contract)
    return Sender(system.contract, wire, journal, pause=lambda _: None, per_request=per_request, now=system.clock.now)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def accepted(system: System) -> int:
    return system.shuffler.totals(check=True)[system.contract.id].accepted


def test_all_are_stored_once(system: System, tmp_path: Path) -> None:
    one = uploader(system, Wire(system), tmp_path / "journal", per_request=7)
    one.prepare([1 << i % 8 for i in range(50)])
    assert one.send().stored == 50
    assert accepted(system) == 50


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_requests_and_lost_responses(system: System, tmp_path: Path, when: str) -> None:
    calls = 0

    def fault(moment: str) -> None:
        nonlocal calls
        calls += 1
        if moment == when and calls % 3:
            raise NoResponse("cut")

    one = uploader(system, Wire(system, fault), tmp_path / "journal", per_request=5)
    one.prepare([1] * 40)
    assert one.send().stored == 40
    assert accepted(system) == 40


def test_a_crash_resumes_with_the_same_bundles(system: System, tmp_path: Path) -> None:
    class Crash(Exception):
        pass

    def fault(moment: str) -> None:
        if moment == "after" and wire.uploads == 3:
            raise Crash

    wire = Wire(system, fault)
    first = uploader(system, wire, tmp_path / "journal", per_request=5)
    first.prepare([1] * 40)
    with pytest.raises(Crash):
        first.send()
    first.journal.close()
    assert accepted(system) == 15
    second = uploader(system, Wire(system), tmp_path / "journal")
    assert second.send().stored == 40
    assert accepted(system) == 40
    with pytest.raises(InvalidInput, match="must be empty"):
        second.prepare([1])


def test_rotation_after_a_lost_response_counts_nobody_twice(system: System, tmp_path: Path) -> None:
    """The case in which repeats must be recognised before keys are checked."""

    def fault(moment: str) -> None:
        if moment == "after" and wire.uploads == 1:
            system.shuffler.keyring.rotate()
            system.clock.advance(2 * 10**5)
            system.shuffler.keyring.advance()
            system.shuffler.fetch_keys(system.link)
            raise NoResponse("cut")

    wire = Wire(system, fault)
    one = uploader(system, wire, tmp_path / "journal", per_request=10)
    one.prepare([1] * 30)
    result = one.send()
    assert (result.stored, result.refused) == (30, {})
    assert accepted(system) == 30


def test_refusals_are_recorded_by_problem_name(system: System, tmp_path: Path) -> None:
    one = uploader(system, Wire(system), tmp_path / "journal", per_request=10)
    one.prepare([1] * 30)
    system.shuffler.close(system.contract.task)
    result = one.send()
    assert (result.stored, result.waiting, result.refused) == (0, 0, {"closed-task": 30})


class Refusing(Wire):
    """A transport on which somebody refuses every upload with this problem, while there is one."""

    problem = ""

    def post(self, task: str, body: bytes) -> Response:
        if not self.problem:
            return super().post(task, body)
        self.uploads += 1
        return Response(KINDS[self.problem].status, self.problem)


def test_the_ticket_of_an_answer_that_was_sealed_once_is_not_spent_by_it(system: System, tmp_path: Path) -> None:
    wire = Refusing(system)
    wire.problem = "token-spent"
    one = uploader(system, wire, tmp_path / "journal")
    one.prepare([1])
    result = one.send()
    assert (result.stored, result.refused) == (0, {"token-spent": 1})
    wire.problem = ""
    assert one.send().stored == accepted(system) == 1


@pytest.mark.parametrize("over", [False, True])
def test_an_answer_is_forgotten_once_its_round_is_over(system: System, tmp_path: Path, over: bool) -> None:
    wire = Refusing(system)
    wire.problem = "closed-task"
    one = uploader(system, wire, tmp_path / "journal")
    one.prepare([1])
    one.seal_answers()
    end = (system.contract.task_end + 1) * system.contract.epoch + ROUND_GRACE
    one.now = lambda: end if over else end - 1
    assert one.send().refused == {"closed-task": 1}
    assert one.send().refused == {"closed-task": 1}
    assert wire.uploads == (1 if over else 2)
    assert any(one.journal.read(1).bundle) is not over


def test_busy_keeps_everything_in_the_journal(system: System, tmp_path: Path) -> None:
    waits: list[float] = []
    wire = Wire(system)
    wire.post = lambda task, body: Response(429, "busy", 2.0)  # type: ignore[method-assign]
    one = uploader(system, wire, tmp_path / "journal")
    reasons: list[str] = []
    one.pause = waits.append
    one.retrying = lambda reason, seconds: reasons.append(reason)
    one.prepare([1] * 3)
    busy = "status 429, busy: The service is overloaded; try again later."
    with pytest.raises(NoResponse, match=f"^the service accepted nothing in 12 attempts: {busy}$"):
        one.send()
    # Regression: there was a pause after the last attempt as well.
    assert reasons == [busy] * (one.attempts - 1)
    assert len(waits) == one.attempts - 1
    assert min(waits) >= 2
    assert max(waits) <= 62
    assert one.journal.states() == {"waiting": 3}


def test_the_reason_of_a_service_is_shown_without_control_characters() -> None:
    """Regression: the reason of a refusal was hidden while the uploader retried."""
    content = {"type": f"{PREFIX}busy", "detail": "the queue\x1b[2J is full" + "!" * 1000}
    refuse = httpx.MockTransport(lambda _: httpx.Response(503, json=content, headers={"retry-after": "7"}))
    transport = HttpTransport("https://shuffler.example", client=httpx.Client(transport=refuse))
    response = transport.post("task", b"")
    assert (response.status, response.problem, response.retry_after, response.transient) == (503, "busy", 7.0, True)
    assert response.reason.startswith("status 503, busy: the queue�[2J is full!")
    assert len(response.reason) < 250
    with pytest.raises(NoResponse, match=r"^the shuffler returned no keys: status 503, busy: the queue"):
        transport.keys("task")
    transport.close()
    empty = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    transport = HttpTransport("https://shuffler.example", client=httpx.Client(transport=empty))
    assert transport.post("task", b"").reason == "status 502"
    transport.close()


@pytest.mark.parametrize(("status", "text"), [(200, "<html>sign in</html>"), (404, "<html>"), (403, ""), (302, "")])
def test_a_page_of_another_network_settles_nothing(system: System, tmp_path: Path, status: int, text: str) -> None:
    """Regression: an answer was settled as refused with ``status 200`` by the page of a captive portal."""
    wire = Wire(system)
    portal = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(status, text=text)))
    http = HttpTransport("https://shuffler.example", client=portal)
    one = uploader(system, wire, tmp_path / "journal")
    one.prepare([1] * 3)
    one.transport = http
    with pytest.raises(NoResponse, match=f"status {status}"):
        one.send()
    with pytest.raises(NoResponse, match="no keys"):
        http.keys(system.contract.id)
    assert one.journal.states() == {"waiting": 3}
    one.transport = wire
    assert one.send().stored == 3
    http.close()


def test_a_problem_cannot_name_a_state_of_the_journal() -> None:
    """Regression: a problem named ``stored`` or ``waiting`` was taken for that state of the answer."""
    for name in ("stored", "waiting", "Uncertain", "a\nb", ""):
        assert not read_problem(httpx.Response(409, json={"type": f"{PREFIX}{name}"})).refused
    for kind in (["malformed"], None, 7, {"a": 1}):
        assert not read_problem(httpx.Response(409, json={"type": kind})).refused
    assert read_problem(httpx.Response(410, json={"type": f"{PREFIX}uncertain"})).refused


def test_an_endless_response_and_an_endless_pause() -> None:
    """Regression: a service could fill the memory of a client, or stop it by a pause that no clock can hold."""
    endless = httpx.MockTransport(lambda _: httpx.Response(200, content=itertools.repeat(b"{" * 65_536)))
    transport = HttpTransport("https://shuffler.example", client=httpx.Client(transport=endless))
    with pytest.raises(NoResponse, match="longer than"):
        transport.keys("task")
    with pytest.raises(NoResponse, match="longer than"):
        transport.post("task", b"")
    transport.close()
    assert read_problem(httpx.Response(503, headers={"retry-after": "9" * 400})).retry_after == 3600


def test_the_journal_is_private_and_belongs_to_one_contract(system: System, tmp_path: Path) -> None:
    one = uploader(system, Wire(system), tmp_path / "journal")
    one.prepare([1])
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600
    one.journal.close()
    (tmp_path / "other").mkdir()
    other = System(tmp_path / "other")
    with pytest.raises(WireError, match="belongs to another contract"):
        Journal(tmp_path / "journal", other.contract)


def test_keys_of_another_operator_are_rejected(system: System, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    wire = Wire(System(tmp_path / "other"))
    wire.keys = lambda task: wire.system.shuffler.tasks.keys_document(wire.system.contract.task)  # type: ignore[method-assign]
    with pytest.raises(Exception, match="signed by its operator"):
        uploader(system, wire, tmp_path / "journal").prepare([1])
