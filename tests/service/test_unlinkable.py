"""Nothing identifies a sender: not lengths, not the order of output or of storage, not metrics, not stored data.

Planted canaries are searched for everywhere.
"""

import base64
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.service.bundles import seal_bundles
from tests.service.live import MEDIA_TYPE, LiveSystem, exchange, http, key_share, wait_until
from tests.service.simulation import FAST
from tests.service.system import System, clear_plan
from tests.service.test_core import POINTS

from hubbub.model.plans import Plan
from hubbub.service.provision import ROLES
from hubbub.service.runtime.metrics import Metrics, TaskMetrics
from hubbub.service.runtime.workers import seal_reports, slot_job
from hubbub.service.task import sealing
from hubbub.service.task.keylist import PublicKey
from hubbub.service.task.keys import Keyring
from hubbub.wire.bundles import HEADER_SIZE

# canaries

ADDRESS, CLAIMED = "127.77.13.201", "203.0.113.77"
WORDS = {
    "the sender's address": ADDRESS,
    "the address in a header": CLAIMED,
    "the user agent": "CanaryBrowser/77.13 (planted)",
    "a header": "canary-header-5d0c9a1e",
    "the name of a header": "x-canary-name-88a1",
    "a cookie": "canary-cookie-1f2e3d4c",
    "the query": "canary-query-99aa",
    "the referer": "canary.example/referer",
    "the credentials": "canary-credentials-7b7b",
}


def forms(data: bytes) -> Iterator[bytes]:
    """Yield the bytes, their hexadecimal digits, and their base64 at each of its three offsets."""
    yield data
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for offset in range(3):
        # The neighbouring bytes change the first and last digits, so these are left out.
        text = base64.b64encode(bytes(offset) + data)[4 if offset else 0 :]
        text = text[: 4 * ((len(data) + offset) // 3) - (4 if offset else 0)]
        yield text
        yield text.replace(b"+", b"-").replace(b"/", b"_")


def places(live: LiveSystem) -> dict[str, bytes]:
    """Return everything that the services store, log and show."""
    found = {str(path.relative_to(live.folder)): path.read_bytes() for path in live.folder.rglob("*") if path.is_file()}
    for role in ROLES:
        metrics = live.address(role, "operations") + "/metrics"
        found[f"metrics of the {role}"] = http.get(metrics).content
        for name in ("status", "check"):
            found[f"{name} of the {role}"] = json.dumps(live.command(role, name)).encode()
    found["results"] = json.dumps(live.results()).encode()
    return found


def sightings(everything: dict[str, bytes], canaries: dict[str, bytes]) -> set[tuple[str, str]]:
    """Return the canaries that were found, and where."""
    return {
        (name, place)
        for name, canary in canaries.items()
        for form in forms(canary)
        for place, data in everything.items()
        if form in data
    }


def request(live: LiveSystem, bundle: bytes) -> bytes:
    """Return an upload with everything that a browser might reveal about a person."""
    head = (
        f"POST {live.path()}?q={WORDS['the query']} HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(bundle)}\r\nUser-Agent: {WORDS['the user agent']}\r\nX-Test: {WORDS['a header']}\r\n"
        f"{WORDS['the name of a header']}: 1\r\nCookie: id={WORDS['a cookie']}\r\nX-Forwarded-For: {CLAIMED}\r\n"
        f"Forwarded: for={CLAIMED}\r\nReferer: https://{WORDS['the referer']}\r\n"
        f"Authorization: Bearer {WORDS['the credentials']}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + bundle


def scrape(live: LiveSystem) -> list[str]:
    """Return the shuffler's metrics, except those that count the runs of its periodic tasks."""
    lines = http.get(live.address("shuffler", "operations") + "/metrics").text.splitlines()
    loops = ("hubbub_tick_", "hubbub_fetching_", "hubbub_shuffling_", "hubbub_delivery")
    return [line for line in lines if not line.startswith(loops)]


@pytest.mark.long
def test_canaries(tmp_path: Path) -> None:
    people = 40
    live = LiveSystem(tmp_path, plan=clear_plan(64, people - 5), min_batch_size=people)
    with live.running():
        slots = live.slots(range(people))
        bundles = live.wrap(slots)
        sealed = {f"slot {i}": row.tobytes()[-40:] for i, row in enumerate(slots)}
        canaries = {name: word.encode() for name, word in WORDS.items()}
        canaries |= {f"enc {i}": key_share(bundle, live.contract) for i, bundle in enumerate(bundles)}
        canaries |= {f"bundle {i}": bundle[-40:] for i, bundle in enumerate(bundles)}
        replays = {f"replay {i}": sealing.replay_id(bundle, live.contract.layout) for i, bundle in enumerate(bundles)}

        def send(bundle: bytes, status: int = 201) -> None:
            assert exchange(live.url, request(live, bundle), source=ADDRESS) == [status]

        # Regression: metrics of the process (open files, CPU seconds) revealed a single connection.
        wait_until(lambda: any(line.startswith("hubbub_bundles{") for line in scrape(live)))
        before = scrape(live)
        with httpx.Client(verify=False, trust_env=False, timeout=600) as client:
            told = client.post(live.url + live.path(), content=bundles[0], headers={"content-type": MEDIA_TYPE})
            assert told.status_code == 201
            assert scrape(live) == before
        for bundle in bundles[1:-1]:
            send(bundle)
        # Rejected and unparseable requests leave no trace either.
        send(bundles[0][:-1], 400)
        send(b"XX" + bundles[0][2:], 400)
        assert exchange(live.url, request(live, bundles[0]).replace(b"POST", b"GET"), source=ADDRESS) == [405]
        assert exchange(live.url, b"\0" + request(live, bundles[0]), source=ADDRESS) == [400]
        assert live.counts()["open"] == people - 1

        def look(sent: int) -> None:
            everything = places(live)
            assert sightings(everything, canaries) == set()
            # Only the shuffler's store has the digest of the key share, by which it recognises repeats.
            where = sightings(everything, replays)
            assert {place for _, place in where} <= {f"shuffler/shuffler.db{more}" for more in ("", "-wal")}
            assert {name for name, _ in where} == {f"replay {i}" for i in range(sent)}

        look(people - 1)
        # Waiting slots are encrypted.
        assert sightings(places(live), sealed) == set()
        send(bundles[-1])
        wait_until(lambda: live.counts()["committed"] == people)
        look(people)
        for role in ("shuffler", "analyzer"):
            assert (tmp_path / f"{role}.log").stat().st_size > 0
        live.stop("shuffler")
        live.stop("analyzer")
        left = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert sightings(left, canaries | sealed) == set()
        # Control: the search finds the task.
        found = sightings(left, {"task": live.contract.task})
        assert {Path(place).name for _, place in found} >= {"shuffler.db", "analyzer.db"}


@pytest.mark.parametrize("canary", [b"a", b"ab", b"abc", b"abcd", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9"])
def test_the_search_finds_canaries(canary: bytes) -> None:
    longer = canary * 8
    for before in (b"", b"x", b"xy", b"xyz"):
        text = before + longer + b"tail"
        for place in (text, text.hex().encode(), base64.b64encode(text), base64.urlsafe_b64encode(text)):
            assert sightings({"there": place}, {"it": longer})
    assert not sightings({"there": b"something else"}, {"it": longer})


# lengths


@pytest.mark.parametrize("plan", POINTS)
def test_one_length(plan: Plan, tmp_path: Path) -> None:
    """Uploads have one length, for any answer and any number of messages."""
    system = System(tmp_path, plan=plan)
    client, schema = system.client, plan.schema
    names = schema.labels[:3]
    values: list[object] = [*names] if schema.exclusive else [[], [names[0]], [*names][: schema.max_set]]
    bundles = [client.seal(value) for value in values for _ in range(3)]
    assert {len(bundle) for bundle in bundles} == {system.contract.bundle_size}
    assert {bundle[:HEADER_SIZE] for bundle in bundles} == {bundles[0][:HEADER_SIZE]}
    system.shut()


# order


def spearman(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return Spearman's rank correlation of two orders of the same items."""
    one, other = (np.argsort(np.argsort(order)).astype(np.float64) for order in (first, second))
    return float(np.corrcoef(one, other)[0, 1])


def active_key(keyring: Keyring) -> PublicKey:
    return next(key for key in keyring.public_keys() if key.state == "active")


def check_order(n: int) -> None:
    """Upload n bundles in the order of their values, and check that no stored or released order follows it."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        system = System(Path(folder), plan=clear_plan(n, n - n // 10), min_batch_size=n)
        contract, size = system.contract, system.contract.plan.payload
        inner, outer = (active_key(core.keyring) for core in (system.analyzer, system.shuffler))
        values = np.arange(n, dtype="<u8").view(np.uint8).reshape(n, 8)[:, :size]
        slots = seal_reports(np.ascontiguousarray(values), contract.layout, inner, system.workers)
        bundles = [row.tobytes() for row in seal_bundles(slots, contract.layout, outer, system.workers)]
        for start in range(0, n, 100):
            system.upload(*bundles[start : start + 100])

        allowed = 4 / math.sqrt(n)
        arrival = np.arange(n)
        # While they wait, the file has no slot in clear; a block has those of one upload, ordered by their bytes.
        copy = Path(folder) / "copy.db"
        system.shuffler.store.backup(copy)
        file = copy.read_bytes()
        assert not any(row[8:48].tobytes() in file for row in slots[:2000])

        system.next_epoch()
        (bucket,) = system.shuffler._deliveries._waiting()
        assert bucket.manifest is not None
        parts = len(json.loads(bucket.manifest)["body"]["chunks"])
        chunks = [system.shuffler.store.chunk(bucket, part) for part in range(parts)]
        data = b"".join(chunk for chunk in chunks if chunk is not None)
        private = system.analyzer.keyring.private(inner.id)
        assert private is not None
        texts, good = system.workers.open(slot_job(contract.layout, inner.id, private), data)
        assert good == b"\1" * n
        opened = np.frombuffer(texts, np.uint8).reshape(n, 2 + size)[:, 2:]
        out = np.zeros((n, 8), np.uint8)
        out[:, :size] = opened
        order = out.view("<u8")[:, 0].astype(np.int64)
        assert sorted(order) == list(range(n))
        assert abs(spearman(arrival, order)) < allowed
        # Nor do neighbours, or the bundles of one upload, stay together.
        assert abs(spearman(order[1:] // 100, order[:-1] // 100)) < allowed
        assert np.count_nonzero(np.abs(np.diff(order)) == 1) < 2 + 6 * math.sqrt(2)
        system.shut()


def test_order() -> None:
    check_order(2000)


@pytest.mark.slow
def test_the_order_of_a_hundred_thousand() -> None:
    check_order(100_000)


def test_the_correlation_detects_order() -> None:
    n = 2000
    still = np.arange(n)
    nearly = np.argsort(still + np.random.default_rng(1).normal(0, n, n))
    assert spearman(still, still) == pytest.approx(1)
    assert abs(spearman(still, nearly)) > 4 / math.sqrt(n)


# metrics


def test_a_step_hides_one_arrival() -> None:
    """Even across an epoch, one arrival changes no metric unless it completes a step of 100."""
    for total in (0, 150, 298):
        seen = []
        for more in (0, 1):
            metrics = Metrics()
            figures = TaskMetrics(epoch=1, min_batch_size=100, bundles={"open": total + more}, error=0)
            metrics.update({"aa": figures}, {("uploads", "taken"): total + more})
            seen.append([str(family.samples) for family in metrics.collect()])
        assert seen[0] == seen[1]
