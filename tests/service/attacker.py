"""An attacker with everything that the analyzer sees, who tries to tell the shuffler's fakes from people.

:class:`LyingAnalyzer` keeps every byte that it receives, and sends false receipts, counters and keys.
:class:`Campaign` runs buckets against it, and restores backups of the shuffler at any stage. :func:`best_guess` learns
from one half of the buckets to tell a fake from a person with the same record, and is judged on the other half: if the
labels are exchangeable given all that was seen, every pair is a fair coin.
"""

import contextlib
import dataclasses
import hashlib
import random
from collections import Counter as Multiset
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.service.fake_analyzer import FakeAnalyzer
from tests.service.shuffler_system import EPOCH, System

from hubbub.errors import HubbubError, Problem
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.task import sealing
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.keylist import KeyList
from hubbub.service.task.manifest import Counter, Manifest, Receipt, digest

PEOPLE = 10
PLAN = plan_from(Schema.one_hot(2), PEOPLE, Protocol(0, m=Fakes.laplace(1.0, shift=6)), delta=1e-3)
MOODS = ("honest", "withhold", "again", "piecemeal", "silent", "forge", "fence", "high", "low", "keys")
"""Behaviours of the analyzer, all but the first dishonest."""
STAGES = ("", "open", "sealed", "shuffled", "sent")
"""Stages of a bucket at which a backup is made that is restored later; none at the first."""
FEATURES = (
    *("place", "chunk", "place in chunk", "distance from the middle", "rank of the id", "rank of the bytes"),
    *("first byte", "last byte", "ones", "size", "key", "arrival", "deliveries", "copies", "other batches"),
)


@dataclass
class Delivery:
    """A batch as announced once, with the chunks that were sent, in the order of their arrival."""

    document: bytes
    manifest: Manifest
    chunks: dict[int, bytes] = field(default_factory=dict)
    copies: Multiset[int] = field(default_factory=Multiset)


class LyingAnalyzer:
    """An analyzer that behaves as its mood says and remembers everything."""

    def __init__(self, analyzer: FakeAnalyzer, shuffler: bytes, chance: random.Random) -> None:
        self._analyzer, self._shuffler, self._chance = analyzer, shuffler, chance
        self.mood = "honest"
        self.seen: dict[str, list[Delivery]] = {}

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        known = self.seen.setdefault(batch, [])
        found = next((one for one in known if one.document == document), None)
        if found is None:
            manifest = Manifest.read(SignedDocument.from_json(document), self._shuffler)
            found = Delivery(document, manifest)
            known.append(found)
        if self.mood == "fence":
            raise Problem("fenced")
        missing = [index for index in range(len(found.manifest.chunks)) if index not in found.chunks]
        if self.mood == "again" and max(found.copies.values(), default=0) < 3:
            return self._chance.sample(range(len(found.manifest.chunks)), len(found.manifest.chunks))
        if missing:
            return missing[:1] if self.mood == "piecemeal" else missing
        if self.mood == "silent":
            return []
        identity = Identity.generate() if self.mood == "forge" else self._analyzer.identity
        state = "withheld" if self.mood == "withhold" else "committed"
        return Receipt(found.manifest.task, found.manifest.bucket, state, digest(document)).sign(identity)

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        found = self.seen[batch][-1]
        assert hashlib.sha256(data).hexdigest() == found.manifest.chunks[index]
        found.chunks[index] = data
        found.copies[index] += 1

    def manifest(self, batch: str) -> bytes | None:
        known = self.seen.get(batch)
        return None if known is None or self.mood == "fence" else self._chance.choice(known).document

    def counter(self, task: str) -> bytes:
        highest = max((one[0].manifest.bucket for one in self.seen.values()), default=0)
        number = {"high": highest + self._chance.randint(1, 3), "low": 0}.get(self.mood, highest)
        return Counter(bytes.fromhex(task), number).sign(self._analyzer.identity)

    def keys(self) -> bytes:
        honest = self._analyzer.keys()
        if self.mood != "keys":
            return honest
        listed = KeyList.read(honest, self._analyzer.identity.public, "analyzer")
        false = tuple(dataclasses.replace(key, public=sealing.generate(key.suite)[1]) for key in listed.keys)
        return dataclasses.replace(listed, keys=false).sign(self._analyzer.identity)

    def tag_keys(self, task: str) -> bytes:
        raise Problem("unknown-task", f"no strings are collected for {task}")

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        self._analyzer.put_keys_in_use(task, document)


class Campaign:
    """Buckets of a few people each, some of them restored; remembers which slots are those of people."""

    def __init__(
        self, folder: Path, seed: int, stages: tuple[str, ...] = STAGES, moods: tuple[str, ...] = MOODS
    ) -> None:
        self._chance, self._stages, self._moods = random.Random(seed), stages, moods
        self.system = System(folder, plan=PLAN, min_batch_size=PEOPLE)
        contract = self.system.contract
        self.analyzer = LyingAnalyzer(self.system.analyzer, contract.shuffler, self._chance)
        self.people: dict[bytes, bytes] = {}

    def run(self, buckets: int) -> None:
        """Run buckets until that many batches have arrived."""
        while len(self.batches()) < buckets:
            self._run_bucket()

    def _run_bucket(self) -> None:
        system, chance = self.system, self._chance
        self.analyzer.mood = "honest"
        self._try(lambda: system.shuffler.fetch_keys(self.analyzer))
        stage, backup = chance.choice(self._stages), None
        steps: list[tuple[str, Callable[[], object]]] = [
            ("open", self._fill),
            ("sealed", self._release),
            ("shuffled", system.shuffler.shuffle),
            ("sent", self._deliver),
        ]
        for name, step in steps:
            step()
            if name == stage:
                backup = system.back_up()
        if backup is not None:
            self._deliver()
            system.restore(backup)
            self._release()
            self._try(system.shuffler.shuffle)
            self._deliver()
        self.analyzer.mood = "honest"
        self._try(lambda: system.shuffler.deliver(self.analyzer))
        self._try(lambda: system.shuffler.deliver(self.analyzer))

    def _fill(self) -> None:
        client, chance = self.system.client, self._chance
        count = PEOPLE + chance.randrange(4)
        made = []
        for person in range(count):
            payload = bytes([1 << (person % 2)])
            slots = client.slots([payload])
            self.people |= dict.fromkeys(slots, payload)
            made.append(client.bundle(slots))
        while made:
            some = made[: 1 + chance.randrange(5)]
            del made[: len(some)]
            self.system.upload(*some)

    def _release(self) -> None:
        self.system.clock.advance(EPOCH)
        self._try(self.system.shuffler.tick)

    def _deliver(self) -> None:
        self.analyzer.mood = self._chance.choice(self._moods)
        self._try(lambda: self.system.shuffler.fetch_keys(self.analyzer))
        for _ in range(self._chance.randint(1, 3)):
            self._try(lambda: self.system.shuffler.deliver(self.analyzer))

    def _try(self, step: Callable[[], object]) -> None:
        # A lie is often answered by an error; what left the shuffler before counts.
        with contextlib.suppress(HubbubError):
            step()

    def batches(self) -> list[list[Delivery]]:
        """Return all deliveries of every bucket of which anything arrived."""
        return [known for known in self.analyzer.seen.values() if any(one.chunks for one in known)]

    # what was seen

    def pairs(self) -> list[NDArray[np.float64]]:
        """Return, for every batch, the features of pairs of a fake and a person with the same record, fake first."""
        size, found = self.system.contract.slot_size, []
        slots_of = [_slots(known, size) for known in self.batches()]
        everywhere = Multiset(slot for slots in slots_of for slot in slots)
        for known, slots in zip(self.batches(), slots_of, strict=True):
            features = _features(known, slots, size, everywhere)
            fakes, people = defaultdict(list), defaultdict(list)
            for slot in self._chance.sample(slots, len(slots)):
                if slot in self.people:
                    people[self.people[slot]].append(slot)
                else:
                    fakes[self._open(slot)].append(slot)
            rows = [
                (features[fake], features[person])
                for payload in fakes
                for fake, person in zip(fakes[payload], people[payload], strict=False)
            ]
            found.append(np.array(rows, np.float64).reshape(-1, 2, len(FEATURES)))
        return found

    def _open(self, slot: bytes) -> bytes:
        private = self.system.analyzer.keyring.opener(sealing.slot_key(slot))
        payload = sealing.open_slot(slot, self.system.contract.layout, private)
        assert payload is not None
        return payload


def _slots(known: list[Delivery], size: int) -> list[bytes]:
    """Return all distinct slots of the deliveries of a bucket, in the order of their arrival."""
    texts = [data for one in known for data in one.chunks.values()]
    return [*dict.fromkeys(text[start : start + size] for text in texts for start in range(0, len(text), size))]


def _features(
    known: list[Delivery], slots: list[bytes], size: int, everywhere: Multiset[bytes]
) -> dict[bytes, tuple[float, ...]]:
    """Return the features of every slot of a bucket, in the order of :data:`FEATURES`."""
    first = next(one for one in known if one.chunks)
    places: dict[bytes, tuple[int, int, int]] = {}
    deliveries, copies = Multiset[bytes](), Multiset[bytes]()
    for one in known:
        for index, text in one.chunks.items():
            start = sum(one.manifest.sizes[:index])
            for place in range(len(text) // size):
                slot = text[place * size : (place + 1) * size]
                deliveries[slot] += 1
                copies[slot] += one.copies[index]
                places.setdefault(slot, (start + place, index, place))
    count = first.manifest.slots
    ids = {slot: rank for rank, slot in enumerate(sorted(slots, key=sealing.slot_id))}
    ranks = {slot: rank for rank, slot in enumerate(sorted(slots))}
    arrival = {slot: rank for rank, slot in enumerate(slots)}
    return {
        slot: (
            *(places[slot][0] / count, places[slot][1], places[slot][2]),
            abs(places[slot][0] / count - 0.5),
            *(ids[slot] / count, ranks[slot] / count, slot[2], slot[-1]),
            *(sum(byte.bit_count() for byte in slot), len(slot), sealing.slot_key(slot)),
            *(arrival[slot] / count, deliveries[slot], copies[slot], everywhere[slot]),
        )
        for slot in slots
    }


# the classifier


@dataclass(frozen=True)
class Guess:
    """The best classifier on one half of the batches, and how it does on the other half."""

    name: str
    right: int
    pairs: int

    @property
    def share(self) -> float:
        """Share of the pairs in which it finds the fake."""
        return self.right / self.pairs


def best_guess(batches: list[NDArray[np.float64]], seed: int = 0) -> Guess:
    """Choose the best classifier on every other batch, and judge it on the others.

    Candidates: every feature in both directions, and a logistic regression on all of them and their squares.
    """
    training, test = np.concatenate(batches[::2]), np.concatenate(batches[1::2])
    mean, spread = training.mean(axis=(0, 1)), training.std(axis=(0, 1))
    spread[spread == 0] = 1.0

    def differences(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = (pairs - mean) / spread
        both = np.concatenate([scaled, scaled**2], axis=2)
        return np.asarray(both[:, 0] - both[:, 1])

    seen, unseen = differences(training), differences(test)
    candidates: list[tuple[str, NDArray[np.float64]]] = [("all", _regression(seen))]
    for place, name in enumerate(FEATURES):
        one = np.zeros(seen.shape[1])
        one[place] = 1.0
        candidates += [(name, one), (name, -one)]
    name, weights = max(candidates, key=lambda one: _score(seen @ one[1]))
    coins = np.random.default_rng(seed).random(len(unseen)) < 0.5
    scores = unseen @ weights
    right = np.where(np.abs(scores) < 1e-9, coins, scores > 0)
    return Guess(name, int(right.sum()), len(right))


def _score(scores: NDArray[np.float64]) -> float:
    return float(np.mean((scores > 1e-9) + 0.5 * (np.abs(scores) <= 1e-9)))


def _regression(differences: NDArray[np.float64], ridge: float = 1.0) -> NDArray[np.float64]:
    """Return the weights of a logistic regression without intercept on pairs that all have the fake first."""
    weights = np.zeros(differences.shape[1])
    for _ in range(20):
        chances = 1 / (1 + np.exp(-np.clip(differences @ weights, -30, 30)))
        gradient = differences.T @ (1 - chances) - ridge * weights
        curvature = (differences * (chances * (1 - chances))[:, None]).T @ differences + ridge * np.eye(len(weights))
        weights += np.linalg.solve(curvature, gradient)
    return weights
