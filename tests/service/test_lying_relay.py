"""A relay that lies: whatever it answers, drops or keeps, it makes nobody count twice under a key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.admissions import BY_TICKET
from tests.service.string_system import DirectTransport, StringSystem
from tests.service.test_string_batches import open_counts

from hubbub.errors import NoResponse
from hubbub.service.task.admission import Admission
from hubbub.service.task.keylist import PublicKey
from hubbub.service.transport import Response
from hubbub.service.uploader import ClientKeys

OUTDATED = Response(409, "outdated-keys")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[StringSystem]:
    built = StringSystem(tmp_path, admission=Admission())
    yield built
    built.shut()


class Denying(DirectTransport):
    """Forwards every bundle, and says of each that its keys are outdated; may show the first key document for ever."""

    def __init__(self, owner: StringSystem, frozen: bool = False) -> None:
        super().__init__(owner)
        self._first: bytes | None = None
        self._frozen = frozen

    def keys(self, task: str) -> bytes:
        found = super().keys(task)
        self._first = self._first or found
        return self._first if self._frozen else found

    def post(self, task: str, body: bytes) -> Response:
        super().post(task, body)
        return OUTDATED


def test_a_relay_that_denies_what_is_stored_makes_nobody_count_twice(system: StringSystem) -> None:
    """With open admission only the sameness of the bundle protects: a lone string would be shown after a few lies."""
    sender = system.uploader(Denying(system), attempts=12)
    sender.prepare(["lone"])
    for _ in range(3):
        with pytest.raises(NoResponse):
            sender.send()
    assert [people for _, people in open_counts(system)] == [1]
    assert system.counts().accepted == 1
    # An honest relay ends it.
    sender.transport = system.transport()
    assert sender.send().stored == 1
    assert system.counts().accepted == 1


def test_many_denied_answers_count_once_each(system: StringSystem) -> None:
    sender = system.uploader(Denying(system))
    sender.prepare(["one", "two", None])
    with pytest.raises(NoResponse):
        sender.send()
    assert system.counts().accepted == 3


def test_a_client_never_returns_to_an_older_key(system: StringSystem) -> None:
    """The relay waits for a new key, has the string sealed to it, and shows the old key document again."""
    relay = Denying(system)
    sender = system.uploader(relay)
    sender.prepare(["lone"])
    with pytest.raises(NoResponse):
        sender.send()
    system.people(["other"] * 60)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    system.next_epoch()
    with pytest.raises(NoResponse):
        sender.send()
    # Once for all keys, in whatever bucket.
    assert system.counts().accepted == 61
    relay._frozen = True
    asked = len(relay.seen)
    with pytest.raises(NoResponse):
        sender.send()
    assert system.counts().accepted == 61
    assert "evaluate" not in [kind for kind, _ in relay.seen[asked:]]


@pytest.mark.parametrize("admission", [Admission(), BY_TICKET], ids=["open", "ticket"])
def test_a_relay_gains_nothing_by_waiting_until_the_shuffler_destroys_its_key(
    tmp_path: Path, admission: Admission
) -> None:
    """The bucket is open all the time. A bundle for the shuffler's next key would count the same person in it again."""
    system = StringSystem(tmp_path, admission=admission)
    sender = system.uploader(Denying(system))
    sender.prepare(["lone"], system.admissions(["ada"]))
    ring = system.shuffler.keyring
    for _ in range(3):
        with pytest.raises(NoResponse):
            sender.send()
        ring.rotate()
        system.clock.advance(ring.lifetime + ring.grace)
        system.shuffler.tick()
        system.shuffler.fetch_keys(system.link)
    assert 1 not in {key.id for key in ring.public_keys()}
    assert [people for _, people in open_counts(system)] == [1]
    assert system.counts().accepted == 1
    system.shut()


def test_an_answer_that_waits_for_its_second_evaluation_keeps_its_keys(system: StringSystem) -> None:
    sender = system.uploader(Denying(system))
    sender.prepare(["lone"])
    with pytest.raises(NoResponse):
        sender.send()
    # As after a crash between the decision to seal again and the evaluation.
    journal = sender.journal
    journal.unseal(1, bytes(31) + b"\x01")
    with pytest.raises(NoResponse):
        sender.send()
    assert system.counts().accepted == 1
    journal.settle([1], "stored")
    assert journal.sealed_to(1) == b""


def keys(analyzer: int, shuffler: int, *listed: int) -> ClientKeys:
    one, two = (PublicKey(key_id, 1, bytes(32), "active") for key_id in (analyzer, shuffler))
    return ClientKeys(one, two, frozenset({shuffler, *listed}))


@pytest.mark.parametrize(
    ("now", "superseded"),
    [
        # The shuffler's next key is active, and the old one still opens bundles.
        (keys(2, 5, 4), False),
        (keys(2, 5), True),
        (keys(3, 4), True),
        (keys(1, 4), False),
        # A list from before the key existed.
        (keys(2, 3), False),
        # An older key of the analyzer, although the shuffler's is gone.
        (keys(1, 5), False),
    ],
)
def test_keys_supersede_others_only_by_signed_lists(now: ClientKeys, superseded: bool) -> None:
    before = keys(2, 4).ids
    assert now.supersede(before) is superseded
    assert now.supersede(b"")
