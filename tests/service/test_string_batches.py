"""Strings through both services in one process: exact counts inside, differences outside, equal bytes, one draw."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.crashes import killed_at
from tests.service.string_system import StringSystem

from hubbub import Result
from hubbub.bits.exact import Buffered
from hubbub.mechanisms.draws import draw_number
from hubbub.service.runtime.credentials import derive
from hubbub.service.shuffler.blocks import SlotCipher, read_slots, seed_secret

VALUES = ["crash at 0x1f"] * 40 + ["out of memory"] * 25 + ["canary-of-one-holder"] + [None] * 4
SYSTEMS = [pytest.param("sqlite"), pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.long])]


@pytest.fixture(params=SYSTEMS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., StringSystem]]:
    """Make systems on each kind of store."""
    with contextlib.ExitStack() as stack:

        def build(**options: Any) -> StringSystem:
            if request.param == "postgres":
                options["url"] = request.getfixturevalue("postgres_url")
            built = StringSystem(tmp_path, **options)
            stack.callback(built.shut)
            return built

        yield build


def numbers(result: dict[str, Any]) -> dict[str, int]:
    """Return the numbers of people that a result shows, after the subtraction."""
    return dict(zip(result["counts"][0]["strings"], result["counts"][0]["numbers"], strict=True))


def drawn(system: StringSystem, bucket: int, slot: bytes) -> int:
    """Return the draw of a slot by another implementation of the same derivation."""
    import hmac

    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    seed = system.credentials.read(seed_secret(system.contract.task, bucket))
    assert seed is not None
    key = hmac.digest(derive(seed, "subtracted"), slot, "sha256")
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    fakes = system.plan.protocol.shuffler_fakes
    assert fakes is not None
    return draw_number(fakes, entropy=Buffered(lambda size: stream.update(bytes(size))))


def test_strings_pass_both_services(make: Callable[..., StringSystem]) -> None:
    system = make()
    sent = system.people(VALUES)
    assert (sent.stored, sent.waiting, sent.refused) == (len(VALUES), 0, {})
    assert system.counts().open == len(VALUES)
    (batch,) = system.next_epoch()
    seed_slots = dict(released(system, batch))
    system.deliver()
    (result,) = system.results()
    assert (result["state"], result["people"], result["bundles"]) == ("committed", len(VALUES), len(VALUES))
    shown = numbers(result)
    assert set(shown) == {"crash at 0x1f", "out of memory"}
    held = Counter(VALUES)
    assert all(held[string] - number >= 0 for string, number in shown.items())
    assert sorted(seed_slots.values()) == sorted(shown.values())
    estimate = Result.from_json(json.dumps(result)).question
    assert estimate.strings == tuple(result["table"]["item"])
    assert result["table"]["value"] == estimate.values.tolist()
    for one in estimate:
        low, high = one.interval()
        assert low <= held[one.name] <= high
    assert result["guarantee"] == {**system.plan.guarantee.to_document(), "n": len(VALUES)}
    assert result["rejected"] == {}
    found = system.counts()
    assert (found.committed, found.open, found.accepted) == (len(VALUES), 0, len(VALUES))


def released(system: StringSystem, batch: str) -> list[tuple[bytes, int]]:
    """Return the rows in the shuffler's outbox."""
    size, data = system.contract.row_size, b""
    for (chunk,) in system.shuffler.store.jobs.rows("SELECT data FROM outbox ORDER BY bucket, chunk"):
        data += bytes(chunk)
    rows = [data[start : start + size] for start in range(0, len(data), size)]
    return [(row[:-8], int.from_bytes(row[-8:], "big")) for row in rows]


def test_every_count_has_one_draw_of_the_seed(make: Callable[..., StringSystem]) -> None:
    system = make()
    system.people(VALUES)
    counts = dict(open_counts(system))
    assert sorted(counts.values()) == sorted([40, 25, 1, 1, 1, 1, 1])
    (batch,) = system.next_epoch()
    rows = released(system, batch)
    assert rows == sorted((slot, people - drawn(system, 1, slot)) for slot, people in counts.items() if people > 20)
    assert all(people <= drawn(system, 1, slot) for slot, people in counts.items() if people == 1)


def open_counts(system: StringSystem, bucket: int = 1) -> list[tuple[bytes, int]]:
    secret = system.credentials.read(f"bucket-{system.contract.id}-{bucket}")
    assert secret is not None
    cipher = SlotCipher(secret)
    found = read_slots(system.shuffler.store.jobs, 1, bucket)
    return [(cipher.open(name, data), people) for name, people, data in found]


def test_replicas_count_in_shards_of_their_own(make: Callable[..., StringSystem]) -> None:
    system = make()
    system.people(VALUES[:30])
    system.shuffler.shut()
    system.shuffler.keyring.close()
    # Another process draws another shard.
    system.shuffler = system.replica()
    system.people(VALUES[30:], first=30)
    rows = system.shuffler.store.jobs.rows("SELECT shard, people FROM slot_counts")
    assert len({shard for shard, _ in rows}) == 2
    assert sorted(people for _, people in open_counts(system)) == [1, 1, 1, 1, 1, 25, 40]
    system.next_epoch()
    system.deliver()
    assert set(numbers(system.results()[0])) == {"crash at 0x1f", "out of memory"}


def test_a_repeated_upload_counts_once(make: Callable[..., StringSystem]) -> None:
    system = make()
    transport = system.transport()
    sender = system.uploader(transport)
    sender.prepare(VALUES, system.admissions(range(len(VALUES))))
    sender.send()
    for kind, body in list(transport.seen):
        if kind == "post":
            assert transport.post(system.contract.id, body).status == 201
    assert sum(people for _, people in open_counts(system)) == len(VALUES)
    assert system.counts().accepted == len(VALUES)


def test_the_key_changes_with_the_bucket(make: Callable[..., StringSystem]) -> None:
    system = make()
    system.people(VALUES)
    before = dict(open_counts(system))
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    # The open bucket keeps its key; the next one has the new key, and other bytes for the same strings.
    system.people(["crash at 0x1f"] * 5, first=100)
    assert sorted(dict(open_counts(system)).values())[-1] == 45
    system.next_epoch()
    system.deliver()
    system.people(VALUES, first=200)
    after = dict(open_counts(system, 2))
    assert sorted(after.values()) == sorted(before.values())
    assert not set(before) & set(after)
    system.next_epoch()
    system.deliver()
    first, second = system.results()
    assert set(numbers(first)) == set(numbers(second)) == {"crash at 0x1f", "out of memory"}


def test_a_client_evaluates_again_when_its_keys_are_outdated(make: Callable[..., StringSystem]) -> None:
    system = make()
    sender = system.uploader()
    sender.prepare(VALUES, system.admissions(range(len(VALUES))))
    sender.evaluate_strings()
    # Everything is sealed to a key of a bucket that is over when it arrives.
    system.people(["other"] * 60, first=1000)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    system.next_epoch()
    outcome = sender.send()
    assert (outcome.stored, outcome.refused) == (len(VALUES), {})
    system.next_epoch()
    system.deliver()
    assert set(numbers(system.results()[1])) == {"crash at 0x1f", "out of memory"}


def test_a_batch_in_which_nothing_is_shown_is_delivered(make: Callable[..., StringSystem]) -> None:
    system = make()
    system.people([f"string {number}" for number in range(70)])
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert (result["state"], result["table"]["item"], result["people"]) == ("committed", [], 70)
    assert system.counts().committed == 70


def test_slots_of_malicious_clients_are_rejected_one_by_one(make: Callable[..., StringSystem]) -> None:
    system = make()
    system.people(VALUES)
    client = system.client
    garbage = bytes.fromhex(f"{client._public('analyzer').id:04x}") + bytes(system.contract.slot_size - 2)
    for number in range(20):
        given = system.admissions([f"malicious {number}"]) or [bytes(16)]
        system.upload(client.bundle([garbage], given[0][:32]))
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert (result["state"], result["people"], result["charged"]) == ("committed", 90, 0)
    assert result["rejected"] == {"cannot_open": 1}
    assert set(numbers(result)) == {"crash at 0x1f", "out of memory"}


POINTS = ("accept-begun", "accept-inserted", "accept-committed", "release-begun", "release-sealed", "release-committed",
          "shuffle-fenced", "shuffle-subtracted", "shuffle-chunk", "shuffle-signed", "shuffle-committed")  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_a_shuffler_that_is_killed_draws_once(tmp_path: Path, point: str) -> None:
    system = StringSystem(tmp_path)
    sender = system.uploader()
    sender.prepare(VALUES, system.admissions(range(len(VALUES))))
    with killed_at(system, point) as reached:
        sender.send()
        system.next_epoch()
    assert reached == [True]
    system.shuffler = system.replica()
    system.shuffler.fetch_keys(system.link)
    assert sender.send().stored == len(VALUES)
    system.next_epoch()
    system.shuffler.shuffle()
    system.deliver()
    (result,) = system.results()
    assert result["people"] == len(VALUES)
    assert set(numbers(result)) == {"crash at 0x1f", "out of memory"}
    assert system.counts().committed == len(VALUES)
    system.shut()
