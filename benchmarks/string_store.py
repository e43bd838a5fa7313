"""The shuffler's counters of strings on SQLite: how many people are stored per second, and the time of a release.

People hold Zipf-distributed strings, and every transaction is synced. The writer commits all uploads that wait, so that
a transaction grows with the load: 1,000 people share one, and 200 in the figure that ends with ``_by_200``.
Storing includes the replay ids and the encryption of the slots. Rates of storing are by the clock, because syncing is a
part of it; that by processor time is beside them.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from hubbub.model.fakes import Fakes
from hubbub.service.runtime.database import open_database
from hubbub.service.shuffler.blocks import SlotCipher, Subtraction, read_slots, shown_slots
from hubbub.service.shuffler.store import ShufflerStore, TaskRow

SLOT = 118
PER_TRANSACTION = 1000
TASK = TaskRow(1, bytes(16), b"", "open", 1, -1, 1)


def measure_store() -> dict[str, float]:
    """Return all figures, and the rate with smaller transactions."""
    slower = store_people(50_000, 200)["stored_people_per_s"]
    return {**store_people(200_000, PER_TRANSACTION), "stored_people_per_s_by_200": slower}


def store_people(people: int, together: int) -> dict[str, float]:
    """Store slots of people, ``together`` in each transaction, release the bucket, and return the figures."""
    rng = np.random.default_rng(5)
    weights = np.arange(1, 10**6 + 1) ** -1.05
    held = rng.choice(10**6, size=people, p=weights / weights.sum())
    places = {int(place): os.urandom(SLOT) for place in np.unique(held)}
    sent = [places[int(place)] for place in held]
    cipher, drawn = SlotCipher(os.urandom(32)), Fakes.laplace(2.0, 35)
    with tempfile.TemporaryDirectory() as folder:
        store = ShufflerStore(lambda: open_database(f"sqlite:{Path(folder) / 'shuffler.db'}"))
        clock, processor = time.perf_counter(), time.process_time()
        for start in range(0, people, together):
            some = sent[start : start + together]
            with store.transaction():
                store.insert_replay_ids(TASK, [os.urandom(16) for _ in some])
                store.insert_slots(TASK, 1, some, cipher)
        stored, worked = time.perf_counter() - clock, time.process_time() - processor
        processor = time.process_time()
        shown = shown_slots(read_slots(store.jobs, 1, 1), cipher, Subtraction(os.urandom(32), drawn), people)
        released = time.process_time() - processor
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        store.shut()
    return {
        "stored_people_per_s": people / stored,
        "stored_people_per_cpu_s": people / worked,
        "stored_bytes_per_person": size / people,
        "service_release_us_per_row": 1e6 * released / len(places),
        "service_shown": len(shown),
    }
