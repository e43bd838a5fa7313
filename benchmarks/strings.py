"""Strings that nobody listed: ``python -m benchmarks.strings [--json]``.

- ``found_zipf_1e6``: strings that are shown of 10⁶ people who hold Zipf-distributed ones (exponent 1.05 among 10⁷) at
  (1, 10⁻⁸), the median of five draws; ``rms_zipf_1e6`` the error of their counts in people;
- ``release_us_per_row``: time of the shuffler for every counted string, with the exact sampler;
- ``counted_people_per_s``: people whose rows are counted in memory;
- ``evaluations_per_s``: evaluations of the oblivious function with proofs on all cores, one process each, by processor
  time, with libsodium (``evaluations_per_s_p256`` with ``cryptography`` alone);
- ``blind_us``, ``finalize_us``, ``slot_us``, ``open_us``: what a device does, and what the analyzer does for every
  string that is shown;
- ``stored_people_per_s``, ``service_release_us_per_row``: the shuffler's counters on SQLite (``string_store``).

Times are those of the processor, the best of several repetitions, so that other load has little influence; only people
are stored by the clock.
"""

import argparse
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import hubbub as hb
from benchmarks.string_store import measure_store
from hubbub.oprf import SUITES, Key, blind, finalize
from hubbub.pipeline.rows import counted, one_person
from hubbub.pipeline.threshold import subtracted
from hubbub.wire.strings import StringOpener, StringSlots, derive_tag_key, message

PEOPLE, STRINGS, EXPONENT = 10**6, 10**7, 1.05
BUDGET = hb.Budget(1.0, 1e-8)
VALUE = "https://example.org/checkout"
Figures = dict[str, float]


def best(call: Callable[[], object], times: int, repetitions: int = 5) -> float:
    """Return the seconds of processor time of one call: the best of several repetitions."""
    found = []
    for _ in range(repetitions):
        start = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - start) / times)
    return min(found)


def zipf() -> np.ndarray:
    """Draw how many people hold each string."""
    rng = np.random.default_rng(11)
    weights = np.arange(1, STRINGS + 1) ** -EXPONENT
    counts = rng.multinomial(PEOPLE, weights / weights.sum())
    return np.asarray(counts[counts > 0])


def release() -> Figures:
    """Figure what a release shows, and how long it takes."""
    plan = hb.plan(hb.Schema.strings(64), PEOPLE, BUDGET, trust="shuffler-noise")
    drawn, strings = plan.protocol.shuffler_fakes, plan.schema.text
    assert drawn is not None
    assert strings is not None
    truth = zipf()
    held = dict(enumerate(truth.tolist()))
    found, errors, seconds = [], [], []
    for _ in range(5):
        start = time.process_time()
        shown = dict(subtracted(held.items(), drawn))
        seconds.append(time.process_time() - start)
        found.append(len(shown))
        errors.append(np.sqrt(np.mean([(number + drawn.mean - held[place]) ** 2 for place, number in shown.items()])))
    bodies = b"".join(strings.encode(f"string {place}") * count for place, count in held.items())
    rows = one_person(np.frombuffer(bodies, np.uint8).reshape(-1, strings.size))
    counting: list[Counter[bytes]] = []
    took = best(lambda: counting.append(counted([rows])), 1, 3)
    return {
        "found_zipf_1e6": statistics.median(found),
        "rms_zipf_1e6": float(statistics.median(errors)),
        "release_us_per_row": 1e6 * min(seconds) / len(held),
        "counted_people_per_s": PEOPLE / took,
        "shown_half": hb.count_shown(plan),
        "shown_most": hb.count_shown(plan, 0.95),
        "stderr": plan.stderr,
    }


def _evaluate(suite: str, times: int) -> float:
    """Return the seconds that one process needs for this many evaluations with proofs."""
    key = Key.derive(suite, bytes(32), b"benchmark")
    element = blind(suite, b"x").element
    key.evaluate([element])
    start = time.process_time()
    for _ in range(times):
        key.evaluate([element])
    return time.process_time() - start


def evaluations(suite: str, times: int) -> float:
    """Return evaluations per second on all cores."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores) as pool:
        seconds = list(pool.map(_evaluate, [suite] * cores, [times] * cores))
    return sum(times / one for one in seconds)


def slots() -> Figures:
    """Figure a device and the analyzer."""
    suite = next(name for name, group in SUITES.items() if group.available())
    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    form = StringSlots(strings=hb.Text(64), task=bytes(16), key_id=1, public=public)
    key = derive_tag_key(suite, os.urandom(32), form.task, 1)
    body = form.strings.encode(VALUE)
    asked = blind(suite, message(body))
    given, output = key.evaluate([asked.element]), key.output(message(body))
    slot, opener = form.sealed(body, output), StringOpener(form, private.private_bytes_raw(), key)
    return {
        "blind_us": 1e6 * best(lambda: blind(suite, message(body)), 200),
        "finalize_us": 1e6 * best(lambda: finalize([asked], given, key.public), 100),
        "slot_us": 1e6 * best(lambda: form.sealed(body, output), 200),
        "open_us": 1e6 * best(lambda: opener.open(slot), 100),
    }


def measure() -> Figures:
    """Return all figures."""
    figures = {**release(), **slots(), **measure_store()}
    for name, suite, times in (("", "ristretto255-SHA512", 2000), ("_p256", "P256-SHA256", 300)):
        if SUITES[suite].available():
            figures[f"evaluations_per_s{name}"] = evaluations(suite, times)
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    found = measure()
    if asked.json:
        print(json.dumps({name: round(value, 4) for name, value in found.items()}))
        return
    for name, value in found.items():
        print(f"{name:24s} {value:,.4g}")


if __name__ == "__main__":
    main()
