"""The messages of an honest client of a plan, the records that an audit sends, and the messages that come back."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hubbub.bits.counting import bit_counts
from hubbub.errors import WireError
from hubbub.lab.audit.commands import Client
from hubbub.lab.mechanisms import AnyFakes, UserFakes, fakes_of
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.numeric.rounding import up
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports
from hubbub.results.joint import fake_patterns

Floats = NDArray[np.float64]
LogLikelihood = Callable[[NDArray[Any]], Floats]  # maps messages to the logarithms of their probabilities

LOG_ZERO = -700.0
MAX_PATTERN = 12  # largest number of bits of which every pattern is counted


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A legal record that an audit sends many times."""

    name: str
    ones: tuple[int, ...]  # the set bits

    def bits(self, width: int) -> NDArray[np.uint8]:
        """Return the record as a row of 0 and 1."""
        row = np.zeros(width, np.uint8)
        row[list(self.ones)] = 1
        return row

    def differs(self, other: "Probe") -> list[int]:
        """Return the bits in which two records differ."""
        return sorted(set(self.ones) ^ set(other.ones))


@dataclass(frozen=True, slots=True)
class Bits:
    """Messages of bits, each of which is flipped by itself: packed records, or every set bit as a message of its own.

    Of split bits only the counts are known, because they do not show where a record begins or ends.
    """

    plan: Plan
    linked: bool = True
    """True if a message is a person's whole answer."""
    alike: ClassVar[bool] = True
    """True if all units are flipped by themselves and with the same probability."""
    unit: ClassVar[str] = "bit"

    @property
    def pairs(self) -> bool:
        """True if one message shows several bits, of which pairs are tested."""
        return self.linked

    @property
    def units(self) -> int:
        """Number of units of a record that are flipped independently."""
        return self.plan.schema.width

    def flip(self, *, was_set: bool) -> float:
        """Return the probability that a bit is shown as its opposite."""
        return self.plan.protocol.q

    def counts(self, messages: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of messages that show each bit."""
        width = self.plan.schema.width
        return bit_counts(messages, width) if self.linked else np.bincount(messages, minlength=width).astype(np.int64)

    def shown(self, messages: NDArray[Any], chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Return a row per message of which of these bits it shows."""
        return unpack(messages, chosen)

    def flips(self, messages: NDArray[Any], probe: Probe, chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Return a row per message of which of these bits were flipped."""
        truth = probe.bits(self.plan.schema.width)[list(chosen)].astype(np.bool_)
        return unpack(messages, chosen) ^ truth

    def noise(self, messages: NDArray[Any], probe: Probe) -> NDArray[np.uint8]:
        """Return the noise of each message as bytes."""
        packed = np.packbits(probe.bits(self.plan.schema.width), bitorder="little")
        return np.ascontiguousarray(messages ^ packed)

    def contrast(self, one: Probe, two: Probe) -> tuple[int, float, float]:
        """Return how many units tell two records apart, and the probability of each to show the first record.

        The two probabilities are those under the first and under the second record.
        """
        return len(one.differs(two)), 1 - self.plan.protocol.q, self.plan.protocol.q

    def agreement(self, messages: NDArray[Any], one: Probe, two: Probe) -> Floats:
        """Return for each message how many of the units of :meth:`contrast` show the first record."""
        differ = one.differs(two)
        return np.asarray((unpack(messages, differ) == np.isin(differ, one.ones)).sum(axis=1), np.float64)

    def patterns(self, messages: NDArray[Any], chosen: Sequence[int]) -> NDArray[np.int64] | None:
        """Return each message as a number, the pattern of few bits; None if there are too many."""
        return unpack(messages, chosen) @ (1 << np.arange(len(chosen))) if len(chosen) <= MAX_PATTERN else None

    def log_likelihood(self, probe: Probe) -> LogLikelihood:
        """Return ln of the probability of each message of a record."""
        q, width = self.plan.protocol.q, self.plan.schema.width
        packed = np.packbits(probe.bits(width), bitorder="little")
        by_distance = np.arange(width + 1) * _log(q) + np.arange(width, -1, -1) * math.log1p(-q)
        return lambda messages: np.asarray(by_distance[_weights(messages ^ packed)])


@dataclass(frozen=True, slots=True)
class Categories:
    """Messages that are one category each, which is flipped as a whole; the methods are those of :class:`Bits`."""

    plan: Plan
    linked: ClassVar[bool] = True
    pairs: ClassVar[bool] = False
    alike: ClassVar[bool] = False
    unit: ClassVar[str] = "category"
    units: ClassVar[int] = 1

    def flip(self, *, was_set: bool) -> float:
        """Return the probability that the indicator of a category is shown as its opposite."""
        return self.plan.protocol.q * (self.plan.schema.width - 1 if was_set else 1)

    def counts(self, messages: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of messages of each category."""
        return np.bincount(messages, minlength=self.plan.schema.width).astype(np.int64)

    def shown(self, messages: NDArray[Any], chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Return a row per message of which of these categories it shows."""
        return np.asarray(messages[:, None] == np.array(chosen)[None, :])

    def flips(self, messages: NDArray[Any], probe: Probe, chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Return one column: which messages show another category."""
        return np.asarray((messages != probe.ones[0])[:, None])

    def noise(self, messages: NDArray[Any], probe: Probe) -> NDArray[np.uint8]:
        """Return by how much each category moved, as bytes."""
        moved = (messages.astype(np.int64) - probe.ones[0]) % self.plan.schema.width
        return moved.astype("<u4")[:, None].view(np.uint8)

    def contrast(self, one: Probe, two: Probe) -> tuple[int, float, float]:
        """Return one unit, and its probability to show the first category under each."""
        return 1, 1 - self.flip(was_set=True), self.plan.protocol.q

    def agreement(self, messages: NDArray[Any], one: Probe, two: Probe) -> Floats:
        """Return 1 for each message that shows the first category."""
        return np.asarray(messages == one.ones[0], np.float64)

    def patterns(self, messages: NDArray[Any], chosen: Sequence[int]) -> NDArray[np.int64] | None:
        """Return each message as a number."""
        return messages.astype(np.int64)

    def log_likelihood(self, probe: Probe) -> LogLikelihood:
        """Return ln of the probability of each message of a category."""
        logs = np.full(self.plan.schema.width, math.log(self.plan.protocol.q))
        logs[probe.ones[0]] = math.log(1 - self.flip(was_set=True))
        return lambda messages: np.asarray(logs[messages])


Form = Bits | Categories
_FORMS: dict[str, Callable[[Plan], Form]] = {
    "records": Bits, "bits": functools.partial(Bits, linked=False), "category": Categories,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MessageModel:
    """The distribution of a client's messages under a plan of one column."""

    plan: Plan

    @property
    def form(self) -> Form:
        """The form of one message."""
        return _FORMS[self.plan.protocol.release](self.plan)

    @property
    def fakes(self) -> AnyFakes:
        """The fakes among the messages."""
        return fakes_of(self.plan.protocol.only)

    def with_flip(self, q: float) -> Plan:
        """Return the plan with another flip probability, for tests under an observed one; its guarantee is void."""
        return replace(self.plan, protocol=self.plan.protocol.changed(q=q))

    @property
    def has_user_fakes(self) -> bool:
        """True if users' fakes are among the messages."""
        return self.fakes.among

    @property
    def flipped(self) -> bool:
        """True if answers are flipped, not only hidden among fakes."""
        return self.plan.protocol.q > 0

    @property
    def linked(self) -> bool:
        """True if a message is a person's whole answer; split bits do not show where a record begins or ends."""
        return self.form.linked

    @property
    def attributable(self) -> bool:
        """True if every message is the flipped answer of a known record: neither split nor clear nor among fakes."""
        return self.linked and self.flipped and not self.has_user_fakes

    @property
    def message_flip(self) -> float:
        """Flip probability of the unit that is flipped independently: a bit, or the category as a whole."""
        return self.form.flip(was_set=True)

    def flip(self, *, was_set: bool) -> float:
        """Return the probability that a bit, or the indicator of a category, is shown as its opposite."""
        return self.form.flip(was_set=was_set)

    def shown(self, ones: Sequence[int]) -> Floats:
        """Return the probability that a message of a record with these set bits shows each bit.

        >>> from hubbub import Protocol, plan_from
        >>> MessageModel(plan_from(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6)).shown([1]).tolist()
        [0.25, 0.75, 0.25]
        """
        each = np.full(self.plan.schema.width, self.flip(was_set=False))
        each[list(ones)] = 1 - self.flip(was_set=True)
        return each

    def bit_name(self, j: int) -> str:
        """Return the name of a bit, or of a category, in a report."""
        return f"{self.form.unit} {j} ({self.plan.schema.labels[j] or 'blank'})"

    def unit_name(self, j: int) -> str:
        """Return the name of what is flipped by itself where bit j is tested."""
        return self.bit_name(j) if self.form.alike else "the category"

    def flips(self, sample: "Sample", chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Return a row per message of a sample of which units were flipped."""
        return self.form.flips(sample.messages, sample.probe, chosen)

    def noise(self, sample: "Sample") -> NDArray[np.uint8]:
        """Return the noise of each message of a sample as bytes: its flips, or by how much its category moved."""
        return self.form.noise(sample.messages, sample.probe)

    def repeat_log_probability(self, messages: int) -> float:
        """Return ln of the probability that two runs of this many messages are equal."""
        return messages * self.form.units * math.log1p(-2 * self.message_flip * (1 - self.message_flip))

    def pair_epsilon(self, one: Probe, two: Probe) -> float:
        """Return ε of one message for two records, rounded up: h·ln(p/q) for h units with chances p and q.

        >>> from hubbub import Protocol, plan_from
        >>> model = MessageModel(plan_from(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6))
        >>> round(model.pair_epsilon(Probe("a", (0,)), Probe("b", (1,))) / math.log(3), 9)
        2.0
        """
        units, p, q = self.form.contrast(one, two)
        return up(units * math.log(p / q), 1e-12)

    def moments(self, values: int, fakes: int) -> tuple[float, float, float]:
        """Return the mean that fakes add to each count, the variance of a count, and the covariance of two.

        Copies of records add k·n·pq to each variance. A fake shows a bit with probability v and two bits with v₂; F
        fakes add Fv(1 − v) and F(v₂ − v²), and if F is itself random, Var(F)·v² to both.
        """
        q, schema = self.plan.protocol.q, self.plan.schema
        number, spread, source = float(fakes), 0.0, self.fakes
        if isinstance(source, UserFakes) and not self.linked:  # split bits do not show how many there are
            number, spread = values * source.distribution.mean, values * source.distribution.variance
        own = self.plan.protocol.k * values * q * (1 - q)
        if not number:
            return 0.0, own, 0.0
        v = self.fake_bit
        both = fake_pair(schema, q) if schema.width > 1 else 0.0
        return number * v, own + number * v * (1 - v) + spread * v * v, number * (both - v * v) + spread * v * v

    @property
    def fake_bit(self) -> float:
        """Probability that a uniform fake shows a given bit after its flips."""
        q = self.plan.protocol.q
        return q + (1 - 2 * q) * self.plan.schema.density

    @property
    def expected_fakes(self) -> float:
        """Expected number of fakes in a batch of n people."""
        return self.fakes.expected(self.plan.n, self.plan.schema, self.plan.protocol.release)

    def fake_log_likelihood(self) -> LogLikelihood:
        """Return ln of the probability of each message of a fake.

        By the number w of its set bits: Σ over sizes i and overlaps o of C(w, o)·C(W − w, i − o)·q^(w + i − 2o)·
        p^(W − w − i + 2o), over the number of legal records; 2^−W if all records are legal.
        """
        schema, q = self.plan.schema, self.plan.protocol.q
        width = schema.width
        if schema.max_set - schema.min_set == width:
            return lambda messages: np.full(len(messages), -width * math.log(2))
        ones = np.arange(width + 1)
        parts: list[Floats] = []
        for i in range(schema.min_set, schema.max_set + 1):
            for o in range(i + 1):
                fits = (o <= ones) & (i - o <= width - ones)
                ways = _log_choose(ones, o) + _log_choose(width - ones, i - o)
                wrong = ones + i - 2 * o
                logs = ways + wrong * _log(q) + (width - wrong) * math.log1p(-q)
                parts.append(np.where(fits, logs, LOG_ZERO * width))
        table = np.logaddexp.reduce(parts) - math.log(schema.size)
        return lambda messages: np.asarray(table[_weights(messages)])


@functools.lru_cache(maxsize=8)
def fake_pair(schema: Schema, q: float) -> float:
    """Return the probability that a fake shows two given bits."""
    none, one, _, two = fake_patterns(schema, 2).tolist()
    return float(two * (1 - q) ** 2 + 2 * one * q * (1 - q) + none * q * q)


def unpack(messages: NDArray[Any], columns: Iterable[int]) -> NDArray[np.bool_]:
    """Return some bits of packed records, one column per bit.

    >>> unpack(np.array([[1], [6]], np.uint8), [0, 2]).tolist()
    [[True, False], [False, True]]
    """
    chosen = list(columns)
    if len(chosen) > 64:
        return np.unpackbits(messages, axis=1, bitorder="little")[:, chosen].astype(np.bool_)
    return np.column_stack([(messages[:, i >> 3] >> (i & 7) & 1).astype(np.bool_) for i in chosen])


def mix(hashes: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of pairs; they tell different pairs apart but resist no adversary."""
    values = hashes * np.uint64(0x9E3779B97F4A7C15) + more
    values = (values ^ (values >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(values ^ (values >> np.uint64(29)))


def row_hashes(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row of bytes or of small numbers.

    >>> row_hashes(np.array([[1, 2], [1, 3], [1, 2]], np.uint8)).argsort().tolist() in ([0, 2, 1], [1, 0, 2])
    True
    """
    flat = np.ascontiguousarray(rows).view(np.uint8)
    wide = np.zeros((len(flat), -(-flat.shape[1] // 8) * 8), np.uint8)
    wide[:, : flat.shape[1]] = flat
    hashes = np.zeros(len(flat), np.uint64)
    for column in wide.view("<u8").T:
        hashes = mix(hashes, column)
    return hashes


def _weights(messages: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(np.bitwise_count(messages).sum(axis=1), np.int64)


def _log(q: float) -> float:
    return math.log(q) if q else LOG_ZERO


def _log_choose(n: NDArray[np.int64], k: int) -> Floats:
    top = np.maximum(n, k)
    return np.asarray(gammaln(top + 1.0) - math.lgamma(k + 1) - gammaln(top - k + 1.0))


MISSING = frozenset(
    ["", "-", "?", "0", "n/a", "na", "nan", "nil", "none", "null", "missing", "other", "undefined", "unknown"]
)
"""Labels that programs tend to treat as a missing answer."""
MIN_CHANGES = 40  # expected changes between neighbouring messages from which on a run shows if messages are sorted
MAX_PROBES = 12  # largest number of probes of a one-hot schema


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sample:
    """The messages of a client for one record, in several runs of equal size."""

    probe: Probe
    n: int  # values per run
    counts: NDArray[np.int64]  # number of messages that show each bit or category: a row per run
    messages: NDArray[Any]
    """The messages of all runs in order; empty for split bits, which cannot be attributed to records."""
    fakes: NDArray[np.int64]  # users' fakes in each run: as declared, or the messages beyond those of the records
    repeats: int  # number of runs whose output equals that of the run before, byte for byte
    grouped: bool  # True if messages are sorted or grouped by content, so that their order shows nothing

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.counts)

    @property
    def values(self) -> int:
        """Number of values in all runs."""
        return self.n * self.runs


def _grouped(runs: list[NDArray[Any]]) -> bool:
    """Return True if every run that can tell lists equal messages together or in ascending or descending order."""
    verdicts = [_run_grouped(run.reshape(len(run), -1)[:: max(1, len(run) // 4000)]) for run in runs if len(run)]
    known = [verdict for verdict in verdicts if verdict is not None]
    return bool(known) and all(known)


def _run_grouped(run: NDArray[Any]) -> bool | None:
    """Return True if messages are sorted or grouped by content; None if they are too few or too alike to tell."""
    size = len(run)
    sizes = np.unique(row_hashes(run), return_counts=True)[1]
    # In random order, this many neighbours differ on average.
    if (1 - np.sum((sizes / size) ** 2)) * size < MIN_CHANGES:
        return None
    differ = run[1:] != run[:-1]
    if 4 * len(sizes) <= size:
        return bool(differ.any(axis=1).sum() == len(sizes) - 1)
    steps = run[1:].astype(np.int64) - run[:-1]
    for places in (np.argmax(differ, axis=1), differ.shape[1] - 1 - np.argmax(differ[:, ::-1], axis=1)):
        step = steps[np.arange(size - 1), places]
        if (step >= 0).all() or (step <= 0).all():
            return True
    return False


def probes(schema: Schema) -> list[Probe]:
    """Return the records to try: extreme legal records, and labels that a program may treat as a missing answer.

    >>> [probe.name for probe in probes(Schema.at_most(2, ["a", "b", "c"]))]
    ['nothing set', 'only a', 'only c', 'a to b', 'b to c', 'every second of a to c']
    >>> [probe.name for probe in probes(Schema.one_hot(["red", "", "blue"]))]
    ['only (blank)', 'only red', 'only blue']
    """
    width, most = schema.width, schema.max_set
    chosen: list[tuple[int, ...]]
    if schema.min_set:
        edges = [i for i, label in enumerate(schema.labels) if label.strip().lower() in MISSING]
        spaced = np.linspace(0, width - 1, MAX_PROBES, dtype=int).tolist()
        order = list(dict.fromkeys([*edges[: MAX_PROBES - 4], 0, width - 1, *spaced]))[:MAX_PROBES]
        chosen = [(i,) for i in (range(width) if width <= MAX_PROBES and not edges else order)]
    else:
        first, last = tuple(range(most)), tuple(range(width - most, width))
        corners = [(), (0,), (width - 1,), first, last, tuple(range(0, width, 2))[:most]]
        chosen = list(dict.fromkeys(corners))
    return [Probe(_name(ones, schema), ones) for ones in chosen]


def neighbours(found: list[Probe]) -> list[tuple[int, int]]:
    """Return the pairs to distinguish, in both orders: each probe and the next, and the two most different.

    >>> neighbours(probes(Schema.one_hot(3)))
    [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)]
    """
    count = len(found)
    far = max(itertools.combinations(range(count), 2), key=lambda pair: len(found[pair[0]].differs(found[pair[1]])))
    pairs = [(i, (i + 1) % count) for i in range(count)] + [far]
    return list(dict.fromkeys(itertools.chain.from_iterable((pair, pair[::-1]) for pair in pairs)))


def probe_collection(schema: Schema, probe: Probe, n: int) -> Collection:
    """Return a collection of n equal records."""
    single = Collection.from_values(probe.bits(schema.width)[None, :], schema)
    return Collection.concatenate([single] * n)


def sample(client: Client, plan: Plan, probe: Probe, n: int, runs: int, progress: Callable[[], None]) -> Sample:
    """Send one record n times in each of several runs.

    Raises :class:`WireError` on reports that an honest client cannot send.
    """
    model, collection = MessageModel(plan), probe_collection(plan.schema, probe, n)
    counts, fakes, last, repeats = [], [], b"", 0
    kept: list[NDArray[Any]] = []
    for _ in range(runs):
        reports = client(collection, plan)
        check_reports(reports, plan, n)
        counts.append(model.form.counts(reports.messages))
        fakes.append(number_of_fakes(reports, n))
        data = reports.messages.tobytes()
        repeats, last = repeats + (data == last), data
        kept.append(reports.messages if model.linked else reports.messages[:0])
        progress()
    seen, drawn = np.array(counts), np.array(fakes, np.int64)
    return Sample(
        probe=probe,
        n=n,
        counts=seen,
        messages=np.concatenate(kept),
        fakes=drawn,
        repeats=repeats,
        grouped=not drawn.any() and _grouped(kept),
    )


def check_reports(reports: Reports, plan: Plan, n: int) -> None:
    """Check that messages belong to the plan and that their number is one that n people can send."""
    if not isinstance(reports, Reports) or reports.plan.id != plan.id:
        raise WireError("a client must return reports of its plan")
    model, sent = MessageModel(plan), len(reports)
    if not model.linked:
        return
    legal, expected = model.fakes.legal(sent, plan.protocol.k * n, n, plan.n)
    if not legal:
        raise WireError(f"{n} people must send {expected} messages, got {sent}{_reason(sent, n, plan)}")


def _reason(sent: int, n: int, plan: Plan) -> str:
    """Return the number of copies or fakes that explains a wrong number of messages, if there is one."""
    k, source = plan.protocol.k, MessageModel(plan).fakes
    planned = source.fixed * n // plan.n
    if (sent - planned) % n == 0 and (sent - planned) // n not in (0, k):
        return f", as if each record were sent in {_copies((sent - planned) // n)} instead of {k}"
    if source.fixed and sent >= k * n:
        return f", that is {sent - k * n} fakes"
    return ""


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


def number_of_fakes(reports: Reports, n: int) -> int:
    """Return the users' fakes among the messages of n people."""
    model = MessageModel(reports.plan)
    if model.linked:
        return len(reports) - reports.plan.protocol.k * n
    # Split bits do not show the number of fakes: use the declared one, or each device's share.
    return reports.fakes or model.fakes.fixed * n // reports.plan.n if model.fakes.fixed else 0


def _name(ones: tuple[int, ...], schema: Schema) -> str:
    if not ones:
        return "nothing set"
    first, last = (schema.labels[i] if schema.labels[i].strip() else "(blank)" for i in (ones[0], ones[-1]))
    if len(ones) == 1:
        return f"only {first}"
    if len(ones) == schema.width:
        return "everything set"
    which = "" if ones == tuple(range(ones[0], ones[-1] + 1)) else "every second of "
    return f"{which}{first} to {last}"
