"""Search for weak seeds: noise that repeats although the plan's entropy makes a repetition impossible.

A generator with a seed of s bits repeats itself among R independent runs with probability 1 − exp(−R(R − 1)/2^(s + 1)),
the birthday bound. A seed per run is found by many short runs, a seed per record or a short period by equal stretches
of noise within the long runs.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.commands import Client
from hubbub.lab.audit.model import MessageModel, Probe, mix, row_hashes
from hubbub.lab.audit.probes import Sample, probe_collection
from hubbub.lab.audit.statistics import Finding, finding
from hubbub.model.plans import Plan
from hubbub.numeric.binomial import binomial_pmf

CERTAIN = math.log(1e-9)  # expected repetitions of an honest client, in logarithms
MAX_VALUES = 20_000  # most values of a short run
MAX_WINDOWS = 1 << 20  # most messages that are searched for equal stretches
SEARCH_SECONDS = 20.0  # the search by short runs ends after this time
RUNS_NAME, NOISE_NAME = "repeated short runs", "repeated stretches of noise"


@dataclass(frozen=True, slots=True)
class Search:
    """The outcome of many short runs."""

    runs: int
    values: int  # values of each run
    repeats: int  # runs whose output equals that of an earlier run, byte for byte
    log_expected: float  # logarithm of a bound on the expected number of equal pairs of an honest client's runs

    @property
    def seed_bits(self) -> int:
        """The largest seed in bits that these runs find with probability 95 %; 0 if none.

        >>> Search(628, 10, 0, -50.0).seed_bits, Search(2600, 10, 0, -50.0).seed_bits
        (16, 20)
        """
        return max(0, math.floor(math.log2(max(1.0, self.runs * (self.runs - 1) / (2 * math.log(20))))))

    def finding(self) -> Finding:
        """Return the search as a test: by Markov's inequality, p is at most the expected number of equal pairs."""
        p = math.exp(min(0.0, self.log_expected)) if self.repeats else 1.0
        return finding("client", RUNS_NAME, f"{self.runs:,} runs of {self.values:,} values", self.repeats, 0.0, p)


def runs_needed(seed_bits: int) -> int:
    """Return the number of runs that find a seed of this size with probability 95 %.

    >>> [runs_needed(bits) for bits in (16, 20, 24, 32)]
    [628, 2507, 10027, 160417]
    """
    return math.ceil(0.5 + math.sqrt(0.25 + 2 * math.log(20) * 2**seed_bits))


def run_values(plan: Plan, runs: int) -> int | None:
    """Return the values per run that rule out equal runs of an honest client; None if there is too little noise."""
    target = CERTAIN - 2 * math.log(max(runs, 2))
    n = 1
    while n <= MAX_VALUES:
        if _log_repeat(plan, n) <= target:
            return n
        n = math.ceil(n * 1.3)
    return None


def search(client: Client, plan: Plan, probe: Probe, runs: int, progress: Callable[[], None]) -> Search | None:
    """Send one record in many short runs and look for equal outputs; None if the plan has too little noise."""
    n = run_values(plan, runs) if runs else None
    if n is None:
        return None
    collection, start = probe_collection(plan.schema, probe, n), time.monotonic()
    seen: set[bytes] = set()
    done = 0
    while done < runs and (done < 2 or time.monotonic() - start < SEARCH_SECONDS):
        seen.add(client(collection, plan).messages.tobytes())
        done += 1
        progress()
    expected = math.log(done * (done - 1) / 2) + _log_repeat(plan, n)
    return Search(done, n, done - len(seen), expected)


def _log_repeat(plan: Plan, n: int) -> float:
    """Return ln of an upper bound on the probability that two runs on n equal records write the same messages.

    Messages of whole records and categories are independent. Split bits may be written in any order, so only their
    counts are compared; each is a sum of kn flips and of independent fakes, which can only lower Σ P(s)².
    """
    model, protocol = MessageModel(plan), plan.protocol
    if protocol.clear or (model.linked and model.has_user_fakes):
        return 0.0
    if model.linked:
        return model.repeat_log_probability(n * protocol.k)
    pmf = binomial_pmf(n * protocol.k, protocol.q)
    return plan.schema.width * math.log(float(pmf @ pmf))


def stretches(samples: Sequence[Sample], plan: Plan, log_repeat: float | None = None) -> list[Finding]:
    """Look for stretches of noise that occur twice, as those of a short period or of a weak seed per record do.

    Two stretches of w messages are equal with probability c^w, and at most c^((w + 1)/2) if they overlap, where c is
    the probability that two messages are equal, under the plan unless its logarithm is given. w is chosen so that none
    is expected among all pairs.
    """
    model = MessageModel(plan)
    if not model.linked or model.has_user_fakes or plan.protocol.clear or any(one.grouped for one in samples):
        return []
    share = MAX_WINDOWS // len(samples)
    rows = np.concatenate([noise(one, model)[:share] for one in samples])
    c = model.repeat_log_probability(1) if log_repeat is None else log_repeat
    pairs, w = 2 * math.log(len(rows)), 1
    while pairs + (w if w == 1 else (w + 1) / 2) * c > CERTAIN and w < len(rows):
        w *= 2
    if 4 * w > len(rows):
        return []
    found = _equal_windows(rows, w)
    p = math.exp(pairs + (w if w == 1 else (w + 1) / 2) * c) if found is not None else 1.0
    where = f"{w:,} messages" if w > 1 else "1 message"
    if found is not None:
        where += f", again after {found[1] - found[0]:,}"
    return [finding("client", NOISE_NAME, where, float(found is not None), 0.0, p)]


def noise(sample: Sample, model: MessageModel) -> NDArray[np.uint8]:
    """Return the noise of each message as bytes: its flips, or by how much its category moved."""
    if model.plan.protocol.sends_category:
        width = model.plan.schema.width
        moved = (sample.messages.astype(np.int64) - sample.probe.ones[0]) % width
        return moved.astype("<u4")[:, None].view(np.uint8)
    packed = np.packbits(sample.probe.bits(model.plan.schema.width), bitorder="little")
    return np.ascontiguousarray(sample.messages ^ packed)


def _equal_windows(rows: NDArray[Any], w: int) -> tuple[int, int] | None:
    """Return the positions of two equal windows of w rows (a power of two), or None."""
    hashes = row_hashes(rows)
    step = 1
    while step < w:
        hashes = mix(hashes[:-step], hashes[step:])
        step *= 2
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    for place in same[:16]:
        first, second = int(order[place]), int(order[place + 1])
        if (rows[first : first + w] == rows[second : second + w]).all():
            return first, second
    return None
