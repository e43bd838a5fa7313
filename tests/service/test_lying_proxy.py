"""A proxy that lies: whatever it does with uploads and answers, an honest person is counted at most once."""

import contextlib
from pathlib import Path

import pytest
from tests.service.admissions import BY_TICKET, TICKET_KEY, TOKEN_KEY, issued
from tests.service.proxy import Deceiver, LyingTransport
from tests.service.system import System, clear_plan
from tests.service.test_uploader import Wire

from hubbub.errors import HubbubError, NoResponse
from hubbub.service.journal import Journal
from hubbub.service.runtime.http import KINDS
from hubbub.service.task.admission import Admission
from hubbub.service.task.tokens import challenge
from hubbub.service.transport import Response
from hubbub.service.uploader import Uploader

OPEN, BY_TOKEN = Admission(), Admission("token", "issuer.example", TOKEN_KEY.public)
DECEPTIONS = [
    *(("store", name) for name in ("outdated-keys", "token-spent", "uncertain", "closed-task")),
    *(("drop", name) for name in ("outdated-keys", "closed-round")),
    *((act, "outdated-keys") for act in ("delay", "swap", "freeze")),
    *((act, None) for act in ("lose", "repeat", "swap", "claim")),
]
OTHERS = [("store", name) for name in KINDS if ("store", name) not in DECEPTIONS]
"""Every other problem, which a proxy states although it has stored the answer."""
CASES = [
    *((act, name, admission) for act, name in DECEPTIONS for admission in (OPEN, BY_TICKET, BY_TOKEN)),
    *((act, name, OPEN) for act, name in OTHERS),
    ("reroute", "outdated-keys", OPEN),
    ("reroute", None, BY_TICKET),
]
PEOPLE = 2


def admissions(system: System) -> list[bytes] | None:
    task = system.contract.task
    match system.contract.admission.kind:
        case "open":
            return None
        case "ticket":
            return [TICKET_KEY.mint(task, str(person)) for person in range(PEOPLE)]
        case _:
            return [issued(TOKEN_KEY, challenge("issuer.example", task)) for _ in range(PEOPLE)]


def rotate(system: System) -> None:
    """Let all keys of both services be replaced, those of the shuffler until the old ones are destroyed."""
    ring = system.shuffler.keyring
    ring.rotate()
    system.analyzer.rotate()
    system.clock.advance(ring.lifetime + ring.grace)
    system.shuffler.tick()
    system.analyzer.advance()
    system.shuffler.fetch_keys(system.link)


@pytest.mark.parametrize(
    ("act", "refusal", "admission"), CASES, ids=[f"{act}-{name}-{one.kind}" for act, name, one in CASES]
)
def test_whatever_a_proxy_does_everybody_counts_once(
    tmp_path: Path, act: str, refusal: str | None, admission: Admission
) -> None:
    """Several runs of a client, with new keys between them, through a proxy that lies; the last run is honest."""
    system = System(tmp_path, plan=clear_plan(PEOPLE, 100), admission=admission)
    wire, path = Wire(system), tmp_path / "journal"
    deceiver = LyingTransport(wire, Deceiver(act, refusal))
    given = admissions(system)
    for run in range(3):
        journal = Journal(path, system.contract)
        sender = Uploader(system.contract, deceiver, journal, attempts=4, pause=lambda _: None, now=system.clock.now)
        if not len(journal):
            sender.prepare([1 << person for person in range(PEOPLE)], given)
        with contextlib.suppress(HubbubError):
            sender.send()
        assert system.counts().accepted <= PEOPLE
        journal.close()
        if run:
            rotate(system)
        deceiver.release(system.contract.id)
    others = 0
    if act == "reroute":
        # The answer is sealed to a key of a later bucket, and waits for it.
        others = len(system.fill(100))
        system.next_epoch()
    sender = Uploader(system.contract, wire, Journal(path, system.contract), attempts=4, now=system.clock.now)
    outcome = sender.send()
    # What is stored is reported as stored, and nothing is lost, unless a proxy said that it had stored what it had not.
    lost = PEOPLE if act == "claim" else 0
    assert (outcome.stored, outcome.refused, outcome.uncertain) == (PEOPLE, {}, 0)
    assert system.counts().accepted == PEOPLE - lost + others
    system.shut()


def test_what_no_signed_list_confirms_is_sent_unchanged(tmp_path: Path) -> None:
    """A proxy says that keys are outdated which are not: the bundle may be stored, and no other one follows it."""
    system = System(tmp_path, plan=clear_plan(PEOPLE, 100), admission=OPEN)
    deceiver = Deceiver("delay", "outdated-keys")
    journal = Journal(tmp_path / "journal", system.contract)
    transport = LyingTransport(Wire(system), deceiver)
    sender = Uploader(system.contract, transport, journal, attempts=4, pause=lambda _: None, now=system.clock.now)
    sender.prepare([1])
    with pytest.raises(NoResponse):
        sender.send()
    assert len(deceiver.held) > 1
    assert len(set(deceiver.held)) == 1
    system.shut()


@pytest.mark.parametrize("name", ["token-spent", "uncertain", "closed-task", "series-ended", "bad-token", "malformed"])
def test_two_refusals_are_taken_at_their_word_as_a_success_is(tmp_path: Path, name: str) -> None:
    """A proxy that drops an answer, and says that another bundle of it is stored, or that it may be counted."""
    system = System(tmp_path, plan=clear_plan(2, 100), admission=OPEN)
    refusals = iter(["outdated-keys", name])

    class Denier(Wire):
        def post(self, task: str, body: bytes) -> Response:
            told = next(refusals)
            return Response(KINDS[told].status, told)

    journal = Journal(tmp_path / "journal", system.contract)
    sender = Uploader(system.contract, Denier(system), journal, attempts=4, pause=lambda _: None, now=system.clock.now)
    sender.prepare([1])
    rotate(system)
    sender.send()
    rotate(system)
    sender.transport = Wire(system)
    outcome = sender.send()
    assert (outcome.stored, outcome.uncertain, outcome.refused) == ((0, 1, {}) if name == "uncertain" else (1, 0, {}))
    assert system.counts().accepted == (0 if name in ("token-spent", "uncertain") else 1)
    system.shut()
