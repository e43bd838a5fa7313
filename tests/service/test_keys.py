"""The life cycle of keys: replicas agree, a crash leaves a usable keyring, no id is used twice, no backup revives."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.service.samples import ANALYZER, SHUFFLER

from hubbub.errors import FalseClaim, Infeasible, InvalidInput, StoreFailure, WireError
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Database, open_database
from hubbub.service.task import keys as module
from hubbub.service.task.identity import SignedDocument, document_format
from hubbub.service.task.keylist import ExpiredKeys, KeyList
from hubbub.service.task.keys import KEY_TABLES, Keyring
from hubbub.service.task.sealing import generate, load_private, load_public, open_slot, seal_slot
from hubbub.wire.bundles import BundleLayout


def store_at(place: str) -> Database:
    store = open_database(place)
    store.create(KEY_TABLES)
    return store


def ring_in(folder: Path, clock: MockClock, *, suites: tuple[int, ...] = (1,), role: str = "analyzer") -> Keyring:
    folder.mkdir(exist_ok=True)
    store, credentials = store_at(f"sqlite:{folder / role}.db"), Credentials(folder / f"{role}-credentials", role)
    return Keyring(store, credentials, clock, lifetime=100, grace=10, suites=suites)


def states(ring: Keyring) -> list[tuple[int, str]]:
    return [(key.id, key.state) for key in ring.public_keys()]


def secrets(folder: Path) -> list[str]:
    return Credentials(folder / "analyzer-credentials", "analyzer").names("key-")


def test_the_life_cycle_of_a_key(tmp_path: Path) -> None:
    clock = MockClock(1000.0)
    ring = ring_in(tmp_path, clock)
    with pytest.raises(Infeasible, match="active key"):
        ring.active(1)
    ring.advance()
    seen = [states(ring)]
    for step in (89, 1, 10, 9, 1):
        clock.advance(step)
        ring.advance()
        seen.append(states(ring))
    assert seen == [
        [(1, "active")],
        [(1, "active")],
        [(1, "active"), (2, "pending")],
        [(1, "expired"), (2, "active")],
        [(1, "expired"), (2, "active")],
        [(2, "active")],
    ]
    assert ring.private(1) is None is ring.opener(1)
    assert secrets(tmp_path) == ["key-00002-1"]


@pytest.mark.parametrize("suite", [1, 2])
def test_keys_open_slots_until_they_are_destroyed(tmp_path: Path, suite: int) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock, suites=(suite,))
    ring.advance()
    first = ring.active(suite)
    layout = BundleLayout(bytes(16), suite, 1, 1, 256)
    sealed = seal_slot(b"\x07", layout, first.id, load_public(suite, first.public))
    ring.rotate()
    assert (ring.active(suite).id, states(ring)[0]) == (2, (1, "expired"))
    again = ring_in(tmp_path, clock, suites=(suite,))
    for one in (ring, again):
        opener, secret = one.opener(1), one.private(1)
        assert opener is not None
        assert secret is not None
        assert open_slot(sealed, layout, opener) == open_slot(sealed, layout, load_private(suite, secret)) == b"\x07"
    clock.advance(10)
    ring.advance()
    assert ring.private(1) is None
    again.refresh()
    assert again.private(1) is None
    assert ring_in(tmp_path, clock, suites=(suite,)).private(1) is None


def test_both_suites_have_an_active_key_under_different_ids(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, MockClock(), suites=(1, 2))
    ring.advance()
    assert (ring.active(1).suite, ring.active(2).suite) == (1, 2)
    ring.rotate()
    assert states(ring) == [(1, "expired"), (2, "expired"), (3, "active"), (4, "active")]
    listed = KeyList.read(ring.public_list().sign(ANALYZER), ANALYZER.public, "analyzer")
    assert (listed.active(1).id, listed.active(2).id) == (3, 4)


def test_a_suite_can_be_added_later(tmp_path: Path) -> None:
    ring = ring_in(tmp_path, MockClock())
    ring.advance()
    ring.support(2)
    ring.advance()
    assert (ring.active(1).id, ring.active(2).id) == (1, 2)


def test_held_keys_are_not_destroyed(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    ring.rotate()
    clock.advance(1000)
    ring.advance(held={1})
    assert ring.private(1) is not None
    ring.rotate(held={1})
    assert ring.private(1) is not None
    ring.advance()
    assert ring.private(1) is None


def test_clock_jumps_revert_nothing_and_stall_nothing(tmp_path: Path) -> None:
    clock = MockClock(1000.0)
    ring = ring_in(tmp_path, clock)
    ring.advance()
    clock.advance(1e9)
    ring.advance()
    assert states(ring) == [(1, "expired"), (2, "active")]
    clock.advance(-1e9)
    ring.advance()
    assert states(ring) == states(ring_in(tmp_path, clock)) == [(1, "expired"), (2, "active")]
    assert ring.private(1) is not None
    for _ in range(3):
        clock.advance(60)
        ring.advance()
    assert ring.active(1).id > 2


def test_key_ids_run_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEY_ID", 3)
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    for _ in range(2):
        ring.rotate()
        clock.advance(50)
        ring.advance()
    assert states(ring) == [(3, "active")]
    with pytest.raises(Infeasible, match="all 3 key ids"):
        ring.rotate()
    assert ring.active(1).id == 3


def backup(folder: Path) -> Path:
    copy = folder / "backup.db"
    copy.unlink(missing_ok=True)
    open_database(f"sqlite:{folder / 'analyzer.db'}").backup(copy)
    return copy


def restore(folder: Path, copy: Path) -> None:
    for name in ("analyzer.db", "analyzer.db-wal", "analyzer.db-shm"):
        (folder / name).unlink(missing_ok=True)
    shutil.copy(copy, folder / "analyzer.db")


def test_a_restored_store_revives_no_destroyed_key(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    copy = backup(tmp_path)
    ring.rotate()
    clock.advance(10)
    ring.advance()
    restore(tmp_path, copy)
    again = ring_in(tmp_path, clock)
    assert again.private(1) is None
    assert states(again) == [(2, "active")]


def test_a_restored_store_keeps_the_keys_made_after_the_backup(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    copy = backup(tmp_path)
    ring.rotate()
    published = {key.id: key.public for key in ring.public_keys()}
    restore(tmp_path, copy)
    again = ring_in(tmp_path, clock)
    assert {key.id: key.public for key in again.public_keys()} == published
    again.rotate()
    assert again.active(1).id == 3


def test_an_id_never_gets_other_bytes_after_a_restore(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    copy = backup(tmp_path)
    for _ in range(3):
        ring.rotate()
        clock.advance(10)
        ring.advance()
    restore(tmp_path, copy)
    again = ring_in(tmp_path, clock)
    again.rotate()
    assert again.active(1).id == 5


def test_abandoned_keys_are_gone_but_remembered(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    copy = backup(tmp_path)
    ring.rotate()
    clock.advance(10)
    ring.advance()
    ring.rotate()
    restore(tmp_path, copy)
    again = ring_in(tmp_path, clock)
    again.abandon()
    again.advance()
    assert states(again) == [(4, "active")]
    assert [again.restored(key_id) for key_id in (2, 3, 4, 5)] == [True, True, False, False]
    assert secrets(tmp_path) == ["key-00004-1"]


def test_replicas_share_the_keys_of_one_store(tmp_path: Path) -> None:
    clock = MockClock()
    rings = [ring_in(tmp_path, clock) for _ in range(3)]
    for ring in rings:
        ring.advance()
    assert {tuple(states(ring)) for ring in rings} == {((1, "active"),)}
    rings[0].rotate()
    rings[1].advance()
    assert states(rings[1]) == [(1, "expired"), (2, "active")]


@pytest.mark.postgres
def test_replicas_on_postgres(tmp_path: Path, postgres_url: str) -> None:
    clock, credentials = MockClock(), Credentials(tmp_path, "analyzer")
    url = postgres_url.format(role="analyzer")
    with contextlib.closing(store_at(url)) as first, contextlib.closing(store_at(url)) as second:
        rings = [Keyring(store, credentials, clock, lifetime=100, grace=10) for store in (first, second)]
        for ring in rings:
            ring.advance()
        rings[0].rotate()
        clock.advance(10)
        rings[1].advance()
        rings[0].refresh()
        assert states(rings[0]) == states(rings[1]) == [(2, "active")]


class Machine(RuleBasedStateMachine):
    """Random operations, restarts, restores and clock jumps, checked against the list of all published keys."""

    @initialize(folder=st.integers(0, 2**60))
    def start(self, folder: int) -> None:
        self.folder = Path(os.environ["KEYRING_TEST"]) / str(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.clock = MockClock(1000.0)
        self.ring = ring_in(self.folder, self.clock)
        self.ring.advance()
        self.published: dict[int, bytes] = {}
        self.gone: set[int] = set()
        self.copy: Path | None = None

    @rule(seconds=st.sampled_from([-500.0, 1.0, 9.0, 10.0, 50.0, 99.0, 100.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.ring.advance()

    @rule()
    def rotate(self) -> None:
        before = self.ring.active(1).id
        self.ring.rotate()
        assert self.ring.active(1).id > before

    @rule()
    def restart(self) -> None:
        before = self.ring.public_keys()
        self.ring = ring_in(self.folder, self.clock)
        assert self.ring.public_keys() == before

    @rule()
    def back_up(self) -> None:
        self.copy = backup(self.folder)

    @rule(abandon=st.booleans())
    def restore(self, abandon: bool) -> None:
        if self.copy is not None:
            restore(self.folder, self.copy)
            self.ring = ring_in(self.folder, self.clock)
            if abandon:
                self.ring.abandon()
            self.ring.advance()

    @invariant()
    def holds(self) -> None:
        keys = self.ring.public_keys()
        assert [key.state for key in keys].count("active") == 1
        for key in keys:
            assert self.published.setdefault(key.id, key.public) == key.public
            private = self.ring.private(key.id)
            assert private is not None
            assert generate(1, entropy=lambda _, value=private: value)[1] == key.public  # type: ignore[misc]
        self.gone |= self.published.keys() - {key.id for key in keys}
        for key_id in self.gone:
            assert self.ring.private(key_id) is None
        assert secrets(self.folder) == [f"key-{key.id:05d}-1" for key in keys]


def test_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYRING_TEST", str(tmp_path))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    case = Machine.TestCase
    case.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
    case("runTest").runTest()


class Died(BaseException):
    """The process dies at a failpoint."""


@pytest.mark.parametrize(
    "point",
    ["rotate-after-secret", "rotate-after-record", "rotate-after-activation", "destroy-after-record", "fence-raised",
     "secret-created", "destroy-after-erasure", "secret-erased"],
)  # fmt: skip
@pytest.mark.parametrize("visit", [1, 2])
def test_a_crash_leaves_a_usable_keyring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, visit: int
) -> None:
    clock = MockClock(1000.0)
    ring = ring_in(tmp_path, clock)
    ring.advance()
    published = {key.id: key.public for key in ring.public_keys()}
    left = visit

    def reach(name: str) -> None:
        nonlocal left
        left -= name == point
        if left == 0:
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr("hubbub.service.task.keys.reach", reach)
        patch.setattr("hubbub.service.runtime.credentials.reach", reach)
        with pytest.raises(Died):
            for _ in range(3):
                ring.rotate()
                published |= {key.id: key.public for key in ring.public_keys()}
                clock.advance(10)
                ring.advance()
    again = ring_in(tmp_path, clock)
    assert all(published.get(key.id, key.public) == key.public for key in again.public_keys())
    before = again.active(1).id
    again.rotate()
    assert again.active(1).id > max(before, *published)
    clock.advance(10)
    again.advance()
    assert len(states(again)) == 1
    assert secrets(tmp_path) == [f"key-{again.active(1).id:05d}-1"]


def test_secrets_are_overwritten_before_removal(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    ring.rotate()
    secret = tmp_path / "analyzer-credentials" / "key-00001-1"
    keeper = tmp_path / "another name of the same bytes"
    keeper.hardlink_to(secret)
    assert any(keeper.read_bytes())
    clock.advance(10)
    ring.advance()
    assert not secret.exists()
    assert keeper.read_bytes() == bytes(32)


def test_a_store_without_its_credential_folder_does_not_start(tmp_path: Path) -> None:
    clock = MockClock()
    ring_in(tmp_path, clock).advance()
    shutil.move(tmp_path / "analyzer-credentials", tmp_path / "elsewhere")
    with pytest.raises(StoreFailure, match="credential folder"):
        ring_in(tmp_path, clock)
    other = Credentials(tmp_path / "analyzer-credentials", "analyzer")
    other.raise_fence()
    with pytest.raises(StoreFailure, match="another or older store"):
        ring_in(tmp_path, clock)


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    clock = MockClock()
    ring_in(tmp_path, clock).advance()
    (tmp_path / "analyzer-credentials" / "key-00001-1").chmod(0o640)
    with pytest.raises(InvalidInput, match="owner only"):
        ring_in(tmp_path, clock).private(1)


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    store, credentials = store_at("sqlite::memory:"), Credentials(tmp_path, "analyzer")
    for changes in ({"suites": {3}}, {"lifetime": 0}, {"grace": -1}, {"grace": float("nan")}, {"list_lifetime": 0}):
        arguments: dict[str, Any] = {"lifetime": 1, "grace": 1, **changes}
        with pytest.raises(InvalidInput):
            Keyring(store, credentials, MockClock(), **arguments)


def test_key_lists_are_signed_dated_and_parsed_strictly(tmp_path: Path) -> None:
    clock = MockClock(10**6)
    ring = ring_in(tmp_path, clock)
    ring.advance()
    ring.rotate()
    text = ring.public_list().sign(ANALYZER)
    listed = KeyList.read(text, ANALYZER.public, "analyzer")
    assert list(listed.keys) == ring.public_keys()
    assert listed.active(1) == ring.active(1) == listed.find(2)
    assert (listed.issued, listed.expires) == (10**6, 10**6 + 86_400)
    assert all(secret is None or secret.hex() not in text.decode() for secret in map(ring.private, range(4)))
    with pytest.raises(FalseClaim):
        KeyList.read(text, SHUFFLER.public, "analyzer")
    with pytest.raises(WireError, match="shuffler"):
        KeyList.read(text, ANALYZER.public, "shuffler")


@pytest.mark.parametrize(("now", "valid"), [(10**6, True), (10**6 + 86_399, True), (10**6 + 86_400, False),
                                            (10**6 - 86_400, True), (10**6 - 86_401, False)])  # fmt: skip
def test_defect_12_key_lists_expire(now: float, valid: bool) -> None:
    text = KeyList("analyzer", 10**6, 10**6 + 86_400, ()).sign(ANALYZER)
    if valid:
        KeyList.read(text, ANALYZER.public, "analyzer", now=now)
    else:
        with pytest.raises(ExpiredKeys):
            KeyList.read(text, ANALYZER.public, "analyzer", now=now)


KEY = {"id": 1, "suite": 1, "public": "00" * 32, "state": "active"}
DATES = {"issued": 5, "expires": 6}


def signed_list(keys: Any, **changes: Any) -> bytes:
    body = {"format": document_format("key list"), "role": "analyzer", **DATES, "keys": keys, **changes}
    return SignedDocument.sign(ANALYZER, "key list", body).to_json()


@pytest.mark.parametrize(
    "keys",
    [
        None, {}, [None], [{}], [{**KEY, "id": -1}], [{**KEY, "id": 65536}], [{**KEY, "id": "1"}],
        [{**KEY, "suite": 2}], [{**KEY, "suite": True}], [{**KEY, "suite": [1]}],
        [{**KEY, "state": "destroyed"}], [{**KEY, "public": "00"}],
        [{**KEY, "more": 1}], [KEY, KEY], [KEY, {**KEY, "id": 2}],
    ],
)  # fmt: skip
def test_malformed_key_lists_are_rejected(keys: Any) -> None:
    with pytest.raises(WireError):
        KeyList.read(signed_list(keys), ANALYZER.public, "analyzer")


@pytest.mark.parametrize(
    "dates", [{"issued": -1}, {"expires": 5}, {"issued": "5"}, {"expires": 2**60}, {"issued": 5.5}]
)
def test_key_lists_without_sensible_dates_are_rejected(dates: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        KeyList.read(signed_list([KEY], **dates), ANALYZER.public, "analyzer")


def test_key_lists_without_an_active_key() -> None:
    with pytest.raises(WireError, match="active"):
        KeyList.read(signed_list([]), ANALYZER.public, "analyzer").active(1)


def test_an_empty_store_gives_no_key_an_id_that_was_published(tmp_path: Path) -> None:
    Credentials(tmp_path / "credentials", "analyzer").raise_fence(last_key=7)
    store = open_database("sqlite::memory:")
    store.create(KEY_TABLES)
    ring = Keyring(store, Credentials(tmp_path / "credentials", "analyzer"), MockClock(0.0), lifetime=100, grace=10)
    ring.advance()
    assert states(ring) == [(8, "active")]


def test_destroyed_keys_are_abandoned_too(tmp_path: Path) -> None:
    """Bundles may have been accepted under them between the backup and their end."""
    clock = MockClock(0.0)
    ring = ring_in(tmp_path, clock)
    ring.advance()
    ring.rotate()
    clock.advance(20)
    ring.advance()
    assert states(ring) == [(2, "active")]
    assert not ring.restored(1)
    ring.abandon()
    assert ring.restored(1)
    assert ring.restored(2)
