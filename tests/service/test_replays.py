"""Replayed bundles: simultaneous, later, with slots in new bundles, and after a restore; none is counted twice."""

import random
import shutil
from pathlib import Path

import pytest
from tests.service.live import LiveSystem, wait_until
from tests.service.system import clear_plan

CONNECTIONS = 64


def lots(bundles: list[bytes], each: int, seed: int) -> list[list[bytes]]:
    """Return random requests for each connection; some carry several bundles."""
    mixed = random.Random(seed)
    found = []
    for _ in range(CONNECTIONS):
        sent = [mixed.choice(bundles) for _ in range(each)]
        steps = [mixed.choice((1, 1, 1, 9)) for _ in sent]
        cuts = [sum(steps[:i]) for i in range(len(steps)) if sum(steps[:i]) < each]
        found.append([b"".join(sent[at : at + step]) for at, step in zip(cuts, steps, strict=False)])
    return found


def replay(live: LiveSystem, bundles: list[bytes], each: int, seed: int) -> None:
    assert set(live.pour(lots(bundles, each, seed))) == {201}


def waiting(live: LiveSystem) -> tuple[int, int]:
    """Return the number of accepted bundles and of those in the open bucket."""
    counts = live.counts()
    return counts["accepted"], counts["open"]


def run(folder: Path, people: int, each: int) -> None:
    """Run seven rounds of 64 · ``each`` replays."""
    live = LiveSystem(folder, plan=clear_plan(max(1024, people), people - people // 10), min_batch_size=people)
    with live.running():
        slots = live.slots(range(people))
        bundles = live.wrap(slots)
        early, late = bundles[: people - 1], bundles[people - 1 :]

        # New and repeated at the same time: one transaction may hold a bundle from many connections.
        assert set(live.pour([early[n % len(early) :] + early[: n % len(early)] for n in (0, 1)])) == {201}
        replay(live, early, each, 1)
        assert waiting(live) == (people - 1, people - 1)

        # After SIGKILL, and after SIGTERM.
        for kill in (True, False):
            (live.kill if kill else live.stop)("shuffler")
            live.start("shuffler")
            replay(live, early, each // 2, 3 + kill)
        assert live.counts()["accepted"] == people - 1

        copy = folder / "copy.db"
        live.command("shuffler", "backup", str(copy))
        assert set(live.pour([late])) == {201}
        wait_until(lambda: live.counts()["committed"] == people)
        assert live.counted() == dict.fromkeys(range(people), 1)

        # After the release, also in new bundles: they form another batch, whose slots the analyzer recognises.
        replay(live, bundles, each, 5)
        assert live.counts()["accepted"] == people
        replay(live, live.wrap(slots), each, 6)
        assert set(live.pour([live.wrap(slots)])) == {201}
        wait_until(lambda: live.counts()["withheld"] >= people)
        assert live.counted() == dict.fromkeys(range(people), 1)

        # After restoring a backup from before the release: what it has was sealed before, and is discarded as fenced.
        # A bundle that it does not know may have been counted, and is refused for good.
        live.stop("shuffler")
        database = folder / "shuffler" / "shuffler.db"
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        shutil.copy(copy, database)
        live.start("shuffler")
        replay(live, early, each, 7)
        assert live.post(late[0]).status_code == 410
        wait_until(lambda: live.counts()["fenced"] == people - 1, "the bundles to be fenced")
        assert live.counted() == dict.fromkeys(range(people), 1)
        states = [result["state"] for result in live.results()]
        assert (states[0], set(states[1:])) == ("committed", {"withheld"})
        assert waiting(live) == (people - 1, 0)
        assert live.counts()["error"] == 0


@pytest.mark.long
def test_replays(tmp_path: Path) -> None:
    run(tmp_path, people=150, each=10)


@pytest.mark.slow
def test_a_hundred_thousand_replays(tmp_path: Path) -> None:
    run(tmp_path, people=2000, each=100_000 // (7 * CONNECTIONS) + 1)
