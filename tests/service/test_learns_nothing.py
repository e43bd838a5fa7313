"""The lying analyzer and the restored backup learn nothing: the best classifier cannot tell fakes from people."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.service.attacker import Campaign, Guess, best_guess

from hubbub.service.shuffler import shuffle
from hubbub.service.shuffler.delivery import Deliveries
from hubbub.service.shuffler.store import Bucket

CONFIDENCE = 1 - 1e-6
"""Of the exact interval; an attacker at chance is found guilty once in a million runs."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks per batch, so that their order could reveal something."""
    monkeypatch.setattr(shuffle, "CHUNK_BYTES", 400)


def attack(folder: Path, buckets: int, seed: int, **options: Any) -> Guess:
    campaign = Campaign(folder, seed, **options)
    try:
        campaign.run(buckets)
        return best_guess(campaign.pairs())
    finally:
        campaign.system.shut()


def interval(guess: Guess) -> tuple[float, float]:
    """Return the exact interval of the share of pairs in which the fake is found (Clopper and Pearson 1934)."""
    found = stats.binomtest(guess.right, guess.pairs).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)


@pytest.mark.parametrize("buckets", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_fakes_cannot_be_told_from_people(tmp_path: Path, buckets: int) -> None:
    guess = attack(tmp_path, buckets, seed=1)
    assert guess.pairs >= 4 * buckets
    low, high = interval(guess)
    assert low <= 0.5 <= high, guess


def test_fakes_at_the_end_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A positive control: without the permutation, and with the fakes last, the classifier finds them."""

    def last(number: int) -> bytes:
        return b"\xff" * 12 + number.to_bytes(4, "big")

    def as_stored(blocks: Iterable[NDArray[np.uint8]], *_: object, **options: object) -> Iterator[NDArray[np.uint8]]:
        yield from blocks

    monkeypatch.setattr(shuffle, "fake_block_id", last)
    monkeypatch.setattr(shuffle, "shuffle_external", as_stored)
    guess = attack(tmp_path, 10, seed=2, stages=("",))
    assert interval(guess)[0] > 0.5, guess


def test_fakes_sealed_again_after_a_restore_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A positive control: if a bucket may leave as two batches, the fakes are those that are in one of them only."""

    def may_leave(self: Deliveries, bucket: Bucket) -> bool:
        return bucket.state == "shuffled"

    monkeypatch.setattr(Deliveries, "_may_leave", may_leave)
    guess = attack(tmp_path, 10, seed=3, stages=("sealed",), moods=("silent",))
    assert interval(guess)[0] > 0.5, guess
