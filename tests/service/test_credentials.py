"""The credential folder: secrets that are erased for good, and a fence that only grows."""

import shutil
import threading
from pathlib import Path

import pytest

from hubbub.errors import InvalidInput, StoreFailure, WireError
from hubbub.io.files import PARTIAL
from hubbub.service.runtime.credentials import Credentials, Fence, derive


def test_secrets_are_private_durable_and_distinct(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "c", "shuffler")
    first, second = credentials.create("seed-ab-1"), credentials.create("seed-ab-2")
    assert (len(first), first != second) == (32, True)
    assert Credentials(tmp_path / "c", "shuffler").read("seed-ab-1") == first == credentials.create("seed-ab-1")
    assert credentials.names("seed-") == ["seed-ab-1", "seed-ab-2"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "c").glob("seed-*")} == {0o600}
    credentials.erase("seed-ab-1")
    credentials.erase("seed-ab-1")
    assert credentials.read("seed-ab-1") is None
    assert credentials.create("seed-ab-1") != first


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", "fence", "lock", "a" * 200, "a.b", "-a"])
def test_names_of_secrets_are_checked(tmp_path: Path, name: str) -> None:
    credentials = Credentials(tmp_path, "shuffler")
    for use in (credentials.create, credentials.read, credentials.erase):
        with pytest.raises(InvalidInput):
            use(name)


def test_the_fence_only_grows(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, "shuffler")
    assert (credentials.exists, credentials.fence()) == (False, Fence(role="shuffler"))
    credentials.raise_fence(last_key=3, sealed={"ab": 7}, restores=1)
    credentials.raise_fence(last_key=2, sealed={"ab": 5, "cd": 1})
    expected = Fence(role="shuffler", id=credentials.fence().id, last_key=3, sealed={"ab": 7, "cd": 1}, restores=1)
    assert credentials.fence() == Credentials(tmp_path, "shuffler").fence() == expected
    assert credentials.exists


def test_concurrent_raises_lose_nothing(tmp_path: Path) -> None:
    def raise_all(task: str) -> None:
        credentials = Credentials(tmp_path, "shuffler")
        for number in range(1, 21):
            credentials.raise_fence(sealed={task: number})

    threads = [threading.Thread(target=raise_all, args=(task,)) for task in ("aa", "bb", "cc")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(Credentials(tmp_path, "shuffler").fence().sealed) == {"aa": 20, "bb": 20, "cc": 20}


def test_leftovers_of_a_crash_are_erased(tmp_path: Path) -> None:
    left = tmp_path / f"seed-ab-1.0011{PARTIAL}"
    left.write_bytes(b"secret")
    Credentials(tmp_path, "shuffler")
    assert not left.exists()


def test_a_folder_belongs_to_one_role(tmp_path: Path) -> None:
    Credentials(tmp_path, "shuffler").raise_fence()
    with pytest.raises(StoreFailure, match="belongs to the shuffler"):
        Credentials(tmp_path, "analyzer")
    with pytest.raises(InvalidInput):
        Credentials(tmp_path, "reader")


EMPTY = b'{"format":"hubbub fence 2","last_key":0,"restores":0,"role":"shuffler","sealed":{}}'


@pytest.mark.parametrize(
    "text", [b"", b"{}", EMPTY.replace(b"2", b"1"), EMPTY.replace(b"{}", b"[]"), EMPTY.replace(b"{}", b'{"a":"1"}')]
)
def test_a_damaged_fence_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "fence"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(WireError):
        Credentials(tmp_path, "shuffler")


def test_derived_keys_depend_on_secret_purpose_and_size() -> None:
    derived = {derive(bytes([n]) * 32, purpose) for n in (0, 1) for purpose in ("blocks", "fakes", "order")}
    assert len(derived) == 6
    assert derive(bytes(32), "blocks", 16) == derive(bytes(32), "blocks")[:16]


def test_a_fence_outside_shows_that_the_machine_was_rolled_back(tmp_path: Path) -> None:
    """Store and credential folder of a snapshot agree with each other; only what is elsewhere knows better."""
    inside, elsewhere, snapshot = tmp_path / "credentials", tmp_path / "elsewhere" / "fence", tmp_path / "snapshot"
    elsewhere.parent.mkdir()
    running = Credentials(inside, "shuffler", elsewhere)
    running.raise_fence(beat=1, sealed={"task": 3})
    shutil.copytree(inside, snapshot)
    # A crash between the two files, or a start without the setting, leaves the one outside behind: no alarm.
    Credentials(inside, "shuffler").raise_fence(beat=2)
    again = Credentials(inside, "shuffler", elsewhere)
    assert again.raise_fence().beat == 2
    again.raise_fence(beat=3, sealed={"task": 4})
    shutil.rmtree(inside)
    shutil.copytree(snapshot, inside)
    assert Credentials(inside, "shuffler").raise_fence().sealed == {"task": 3}
    with pytest.raises(StoreFailure, match="rolled back to a snapshot"):
        Credentials(inside, "shuffler", elsewhere)
    # A process that runs, with its memory, through a rollback of the volume notices as well.
    with pytest.raises(StoreFailure, match="rolled back to a snapshot"):
        running.raise_fence(beat=4)
    with pytest.raises(StoreFailure, match="or another one"):
        Credentials(tmp_path / "new", "shuffler", elsewhere)
    elsewhere.unlink()
    elsewhere.mkdir()
    with pytest.raises(StoreFailure, match="cannot be read"):
        running.raise_fence(beat=5)


def test_a_fence_outside_that_is_not_there_is_not_begun_again(tmp_path: Path) -> None:
    """Regression: a rollback was not noticed, and the fence written anew, if its volume was not mounted."""
    inside, elsewhere = tmp_path / "credentials", tmp_path / "elsewhere" / "fence"
    elsewhere.parent.mkdir()
    running = Credentials(inside, "shuffler", elsewhere)
    running.raise_fence(beat=1)
    elsewhere.unlink()
    with pytest.raises(StoreFailure, match="not there"):
        Credentials(inside, "shuffler", elsewhere)
    with pytest.raises(StoreFailure, match="not there"):
        running.raise_fence(beat=2)
    assert not elsewhere.exists()
    # An operator who begins to use the setting makes an empty file.
    elsewhere.touch()
    Credentials(inside, "shuffler", elsewhere).raise_fence(beat=3)
    assert Fence.from_json(elsewhere.read_bytes()).beat == 3


def test_no_number_of_the_fence_is_ever_lowered() -> None:
    old = Fence(
        role="shuffler", id="ab", last_key=5, sealed={"a": 3}, restores=2, beat=9, charged={"a": frozenset({1})}
    )
    new = old.raised(1, {"a": 1, "b": 2}, 1, 1, {"a": [2]})
    assert (new.last_key, new.restores, new.beat) == (5, 2, 9)
    assert dict(new.sealed) == {"a": 3, "b": 2}
    assert dict(new.charged) == {"a": frozenset({1, 2})}
    more = old.raised(6, {"a": 4}, 3, 10)
    assert (more.last_key, more.restores, more.beat, more.sealed["a"], more.charged["a"]) == (
        6,
        3,
        10,
        4,
        frozenset({1}),
    )
