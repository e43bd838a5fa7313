"""The life cycle of keys: a crash at any point leaves a usable keyring, and no key id is used twice."""

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.service.samples import ANALYZER, SHUFFLER

from hubbub.bundles import BundleLayout
from hubbub.errors import FalseClaim, Infeasible, InvalidInput, WireError
from hubbub.io.files import PARTIAL
from hubbub.service.runtime.clock import MockClock
from hubbub.service.task import keys as module
from hubbub.service.task.identity import SignedDocument, document_format
from hubbub.service.task.keys import Keyring, PublicKey, active_key, read_key_list
from hubbub.service.task.sealing import load_private, load_public, open_slot, seal_slot


def ring_in(folder: Path, clock: MockClock, *, suite: int = 1, role: str = "analyzer") -> Keyring:
    return Keyring(folder, role, suite, clock, lifetime=100, grace=10)


def states(ring: Keyring) -> list[tuple[int, str]]:
    return [(key.id, key.state) for key in ring.public_keys()]


def test_the_life_cycle_of_a_key(tmp_path: Path) -> None:
    clock = MockClock(1000.0)
    ring = ring_in(tmp_path, clock)
    with pytest.raises(Infeasible, match="active key"):
        _ = ring.active
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
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "analyzer-00001.json", "analyzer-00002.json", "analyzer-00002.secret",
    ]  # fmt: skip
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


@pytest.mark.parametrize("suite", [1, 2])
def test_keys_open_slots_until_they_are_destroyed(tmp_path: Path, suite: int) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock, suite=suite)
    ring.advance()
    first = ring.active
    layout = BundleLayout(bytes(16), suite, 1, 1, 256)
    sealed = seal_slot(b"\x07", layout, first.id, load_public(suite, first.public))
    assert ring.rotate() == 2
    assert (ring.active.id, states(ring)[0]) == (2, (1, "expired"))
    again = ring_in(tmp_path, clock, suite=suite)
    for one in (ring, again):
        opener, secret = one.opener(1), one.private(1)
        assert opener is not None
        assert secret is not None
        assert open_slot(sealed, layout, opener) == open_slot(sealed, layout, load_private(suite, secret)) == b"\x07"
    clock.advance(10)
    ring.advance()
    assert ring.private(1) is None
    assert ring_in(tmp_path, clock, suite=suite).private(1) is None


def test_a_scheduled_key_is_activated_no_later_than_the_lifetime(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    assert ring.rotate(at=1e9) == 2
    assert states(ring) == [(1, "active"), (2, "pending")]
    clock.advance(99)
    ring.advance()
    assert ring.active.id == 1
    clock.advance(1)
    ring.advance()
    assert ring.active.id == 2


def test_clock_jumps_revert_nothing_and_destroy_nothing_immediately(tmp_path: Path) -> None:
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
    assert ring.active.id == 3


class Machine(RuleBasedStateMachine):
    """Random operations, restarts and clock jumps, checked against the list of all published keys."""

    @initialize(folder=st.integers(0, 2**60))
    def start(self, folder: int) -> None:
        self.folder = Path(os.environ["KEYRING_TEST"]) / str(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.clock = MockClock(1000.0)
        self.ring = ring_in(self.folder, self.clock)
        self.ring.advance()
        self.published: dict[int, bytes] = {}
        self.progress: dict[int, int] = {}

    @rule(seconds=st.sampled_from([-500.0, 1.0, 9.0, 10.0, 50.0, 99.0, 100.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.ring.advance()

    @rule()
    def rotate(self) -> None:
        before = self.ring.active.id
        assert self.ring.rotate() > before
        assert self.ring.active.id > before

    @rule()
    def announce(self) -> None:
        before = self.ring.active.id
        self.ring.rotate(at=self.clock.now() + 30)
        assert [key.state for key in self.ring.public_keys()].count("pending") <= 1
        assert self.ring.active.id >= before

    @rule()
    def restart(self) -> None:
        before = self.ring.public_keys()
        self.ring = ring_in(self.folder, self.clock)
        assert self.ring.public_keys() == before

    @invariant()
    def holds(self) -> None:
        keys = self.ring.public_keys()
        order = {"pending": 0, "active": 1, "expired": 2}
        assert [key.state for key in keys].count("active") == 1
        assert [order[key.state] for key in keys] == sorted((order[key.state] for key in keys), reverse=True)
        for key in keys:
            assert self.published.setdefault(key.id, key.public) == key.public
            assert self.progress.get(key.id, 0) <= order[key.state]
            self.progress[key.id] = order[key.state]
            secret = self.ring.private(key.id)
            assert secret is not None
            opener = self.ring.opener(key.id)
            assert isinstance(opener, X25519PrivateKey)
            assert (opener.private_bytes_raw(), opener.public_key().public_bytes_raw()) == (secret, key.public)
        gone = self.published.keys() - {key.id for key in keys}
        for number in gone:
            self.progress[number] = 3
            assert self.ring.private(number) is None
            assert not (self.folder / f"analyzer-{number:05d}.secret").exists()


def test_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYRING_TEST", str(tmp_path))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    case = Machine.TestCase
    case.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
    case("runTest").runTest()


class Handle(io.RawIOBase):
    """An open file that writes through :func:`os.write`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return os.write(self._handle, data)

    def fileno(self) -> int:
        return self._handle

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._handle)


class Crashes:
    """Copies the folder after every file operation, as a process that dies there would leave it.

    A second copy of each lacks the data that was written but not synced, as after a power cut.
    """

    def __init__(self, folder: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.copies, self.count = folder, copies, 0
        self.handles: dict[int, Path] = {}
        self.unsynced: set[Path] = set()
        for name in ("open", "write", "fsync"):
            monkeypatch.setattr(os, name, getattr(self, name)(getattr(os, name)))
        monkeypatch.setattr(os, "fdopen", lambda handle, _: io.BufferedWriter(Handle(handle)))
        for name in ("replace", "unlink"):
            monkeypatch.setattr(Path, name, getattr(self, name)(getattr(Path, name)))

    def replace(self, real: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
        def run(source: Path, target: Path) -> Path:
            result = real(source, target)
            self.unsynced = {target if path == source else path for path in self.unsynced}
            self.copy()
            return result

        return run

    def unlink(self, real: Callable[[Path, bool], None]) -> Callable[[Path, bool], None]:
        def run(path: Path, missing_ok: bool = False) -> None:
            real(path, missing_ok)
            self.copy()

        return run

    def open(self, real: Callable[..., int]) -> Callable[..., int]:
        def run(path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
            handle = real(path, flags, mode, **kwargs)
            self.handles.pop(handle, None)
            if flags & os.O_WRONLY and Path(path).parent == self.folder:
                self.handles[handle] = Path(path)
                self.unsynced.add(Path(path))
                self.copy()
            return handle

        return run

    def write(self, real: Callable[..., int]) -> Callable[..., int]:
        def run(handle: int, data: Any) -> int:
            if handle not in self.handles:
                return real(handle, data)
            # In parts, so that a process can die in between.
            written = real(handle, data[: max(1, len(data) // 2)])
            self.copy()
            return written

        return run

    def fsync(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def run(handle: int) -> None:
            real(handle)
            if handle in self.handles:
                self.unsynced.discard(self.handles[handle])
            self.copy()

        return run

    def copy(self) -> None:
        for lost in (False, True):
            target = self.copies / f"{self.count:04d}-{lost}"
            target.mkdir()
            for path in self.folder.iterdir():
                data = b"" if lost and path in self.unsynced else path.read_bytes()
                (target / path.name).write_bytes(data)
                (target / path.name).chmod(0o600)
        self.count += 1


def test_a_crash_at_any_point_leaves_a_usable_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rotations and a destruction: every copy loads, keeps all published keys, and completes the operation."""
    folder, copies = tmp_path / "keys", tmp_path / "copies"
    folder.mkdir()
    copies.mkdir()
    clock = MockClock(1000.0)
    ring = ring_in(folder, clock)
    ring.advance()
    before = {key.id: key.public for key in ring.public_keys()}
    with pytest.MonkeyPatch.context() as patch:
        crashes = Crashes(folder, copies, patch)
        ring.rotate()
        clock.advance(10)
        ring.rotate()
    after = {key.id: key.public for key in ring.public_keys()}
    assert (sorted(before), sorted(after)) == ([1], [2, 3])
    # Per key: open, writes, sync, rename and folder sync of two files, and again for each change of state.
    assert crashes.count > 80
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for copy in sorted(copies.iterdir()):
        clock_here = MockClock(1010.0)
        left = ring_in(copy, clock_here)
        found = {key.id: key.public for key in left.public_keys()}
        assert all(public == (before | after)[number] for number, public in found.items())
        was = left.active.id
        assert not list(copy.glob(f"*{PARTIAL}"))
        living = {f"analyzer-{number:05d}.secret" for number in found}
        assert {path.name for path in copy.glob("*.secret")} == living
        fresh = left.rotate()
        assert fresh > was
        assert left.active.id == fresh
        clock_here.advance(10)
        left.advance()
        assert states(left) == [(fresh, "active")]
        assert states(ring_in(copy, clock_here)) == [(fresh, "active")]


def test_secrets_are_overwritten_before_removal(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    ring.rotate()
    secret = tmp_path / "analyzer-00001.secret"
    keeper = tmp_path / "another name of the same bytes"
    keeper.hardlink_to(secret)
    assert keeper.read_bytes() == ring.private(1)
    clock.advance(10)
    ring.advance()
    assert not secret.exists()
    assert keeper.read_bytes() == bytes(32)


def test_missing_secrets_and_foreign_files_are_reported(tmp_path: Path) -> None:
    clock = MockClock()
    ring_in(tmp_path, clock).advance()
    secret, record = tmp_path / "analyzer-00001.secret", tmp_path / "analyzer-00001.json"
    secret.chmod(0o640)
    with pytest.raises(InvalidInput, match="owner only"):
        ring_in(tmp_path, clock)
    secret.chmod(0o600)
    with pytest.raises(WireError, match="suite 2, got 1"):
        ring_in(tmp_path, clock, suite=2)
    assert states(ring_in(tmp_path, clock, role="shuffler")) == []
    content = record.read_bytes()
    for text in (b"", b"{}", content.replace(b"live", b"dead"), content.replace(b'"id":1', b'"id":2')):
        record.write_bytes(text)
        with pytest.raises(WireError):
            ring_in(tmp_path, clock)
    record.write_bytes(content)
    secret.write_bytes(b"short")
    with pytest.raises(WireError, match="32 bytes"):
        ring_in(tmp_path, clock)
    secret.unlink()
    with pytest.raises(WireError, match="secret of key 1"):
        ring_in(tmp_path, clock)


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    clock = MockClock()
    for changes in ({"role": "reader"}, {"suite": 3}, {"lifetime": 0}, {"grace": -1}, {"grace": float("nan")}):
        arguments: dict[str, Any] = {"role": "analyzer", "suite": 1, "lifetime": 1, "grace": 1, **changes}
        with pytest.raises(InvalidInput):
            Keyring(tmp_path, clock=clock, **arguments)


def test_key_lists_are_signed_and_parsed_strictly(tmp_path: Path) -> None:
    clock = MockClock()
    ring = ring_in(tmp_path, clock)
    ring.advance()
    ring.rotate()
    ring.rotate(at=50)
    text = ring.public_list(ANALYZER)
    keys = read_key_list(text, ANALYZER.public, "analyzer")
    assert keys == read_key_list(text, ANALYZER.public) == ring.public_keys()
    assert active_key(keys) == ring.active == PublicKey(2, 1, ring.active.public, "active")
    assert all(secret is None or secret.hex() not in text.decode() for secret in map(ring.private, range(4)))
    with pytest.raises(FalseClaim):
        read_key_list(text, SHUFFLER.public)
    with pytest.raises(WireError, match="shuffler"):
        read_key_list(text, ANALYZER.public, "shuffler")
    clock.advance(10)
    ring.advance()
    assert [key.id for key in read_key_list(ring.public_list(ANALYZER), ANALYZER.public)] == [2, 3]


KEY = {"id": 1, "suite": 1, "public": "00" * 32, "state": "active"}


def signed_list(keys: Any) -> bytes:
    body = {"format": document_format("key list"), "role": "analyzer", "keys": keys}
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
    text = signed_list(keys)
    with pytest.raises(WireError):
        read_key_list(text, ANALYZER.public)


def test_key_lists_without_an_active_key() -> None:
    text = json.dumps(json.loads(signed_list([])) | {"signature": "00" * 64})
    with pytest.raises(FalseClaim):
        read_key_list(text, ANALYZER.public)
    with pytest.raises(WireError, match="active"):
        active_key(read_key_list(signed_list([]), ANALYZER.public))


@pytest.mark.parametrize("body", [{"role": "analyzer", "keys": []}, {"format": "hubbub key list 1"}, []])
def test_key_lists_of_another_format_are_rejected(body: Any) -> None:
    for changes in ({}, {"role": "analyzer", "keys": []}):
        changed = body | changes if isinstance(body, dict) else body
        with pytest.raises(WireError, match="key list"):
            read_key_list(SignedDocument.sign(ANALYZER, "key list", changed).to_json(), ANALYZER.public)
