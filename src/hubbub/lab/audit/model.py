"""The messages that an honest client of a plan sends: everything in an audit that differs by release."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hubbub.bits.counting import bit_counts
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.rounding import up
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
class MessageModel:
    """The distribution of a client's messages under its plan."""

    plan: Plan

    def with_flip(self, q: float) -> Plan:
        """Return the plan with another flip probability, for tests under an observed one; its guarantee is void."""
        return replace(self.plan, protocol=self.plan.protocol.changed(q=q))

    @property
    def has_user_fakes(self) -> bool:
        """True if users' fakes are among the messages."""
        return self.plan.protocol.user_fakes is not None or self.plan.protocol.fixed_fakes > 0

    @property
    def linked(self) -> bool:
        """True if a message is a person's whole answer; split bits do not show where a record begins or ends."""
        return not self.plan.protocol.sends_bits

    @property
    def local(self) -> bool:
        """True if a single message is private by itself: neither split nor clear nor among users' fakes."""
        return self.linked and not self.plan.protocol.clear and not self.has_user_fakes

    @property
    def message_flip(self) -> float:
        """Flip probability of the unit that is flipped independently: a bit, or the category as a whole."""
        return self.flip(was_set=True)

    def flip(self, *, was_set: bool) -> float:
        """Return the probability that a bit, or the indicator of a category, is shown as its opposite."""
        protocol = self.plan.protocol
        return protocol.q * (self.plan.schema.width - 1 if protocol.sends_category and was_set else 1)

    def shown(self, ones: Sequence[int]) -> Floats:
        """Return the probability that a message of a record with these set bits shows each bit.

        >>> from hubbub import Protocol, plan_from
        >>> MessageModel(plan_from(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6)).shown([1]).tolist()
        [0.25, 0.75, 0.25]
        """
        chances = np.full(self.plan.schema.width, self.flip(was_set=False))
        chances[list(ones)] = 1 - self.flip(was_set=True)
        return chances

    def bit_name(self, j: int) -> str:
        """Return the name of a bit, or of a category, in a report."""
        what = "category" if self.plan.protocol.sends_category else "bit"
        return f"{what} {j} ({self.plan.schema.labels[j] or 'blank'})"

    def counts(self, messages: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of messages that show each bit."""
        width = self.plan.schema.width
        return (
            bit_counts(messages, width)
            if self.plan.protocol.sends_records
            else np.bincount(messages, minlength=width).astype(np.int64)
        )

    def flips(self, messages: NDArray[Any], probe: Probe, columns: Sequence[int]) -> NDArray[np.bool_]:
        """Return a row per message of which units were flipped: the given bits, or the category as a whole."""
        if self.plan.protocol.sends_category:
            return np.asarray((messages != probe.ones[0])[:, None])
        truth = probe.bits(self.plan.schema.width)[list(columns)].astype(np.bool_)
        return unpack(messages, columns) ^ truth

    def repeat_log_probability(self, messages: int) -> float:
        """Return ln of the probability that two runs of this many messages are equal."""
        units = 1 if self.plan.protocol.sends_category else self.plan.schema.width
        return messages * units * math.log1p(-2 * self.message_flip * (1 - self.message_flip))

    def contrast(self, one: Probe, two: Probe) -> tuple[int, float, float]:
        """Return how many units tell two records apart, and the probability of each to show the first record.

        The two probabilities are those under the first and under the second record.
        """
        if self.plan.protocol.sends_category:
            return 1, 1 - self.message_flip, self.plan.protocol.q
        return len(one.differs(two)), 1 - self.plan.protocol.q, self.plan.protocol.q

    def agreement(self, messages: NDArray[Any], one: Probe, two: Probe) -> Floats:
        """Return for each message how many of the units of :meth:`contrast` show the first record."""
        if self.plan.protocol.sends_category:
            return np.asarray(messages == one.ones[0], np.float64)
        differ = one.differs(two)
        agree = unpack(messages, differ) == np.isin(differ, one.ones)
        return np.asarray(agree.sum(axis=1), np.float64)

    def pair_epsilon(self, one: Probe, two: Probe) -> float:
        """Return ε of one message for two records, rounded up: h·ln(p/q) with h, p and q from :meth:`contrast`.

        >>> from hubbub import Protocol, plan_from
        >>> model = MessageModel(plan_from(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6))
        >>> round(model.pair_epsilon(Probe("a", (0,)), Probe("b", (1,))) / math.log(3), 9)
        2.0
        """
        units, p, q = self.contrast(one, two)
        return up(units * math.log(p / q), 1e-12)

    def patterns(self, messages: NDArray[Any], columns: Sequence[int]) -> NDArray[np.int64] | None:
        """Return each message as a number: its category, or the pattern of few bits; None if there are too many."""
        if self.plan.protocol.sends_category:
            return messages.astype(np.int64)
        return unpack(messages, columns) @ (1 << np.arange(len(columns))) if len(columns) <= MAX_PATTERN else None

    def moments(self, values: int, fakes: int) -> tuple[float, float, float]:
        """Return the mean that fakes add to each count, the variance of a count, and the covariance of two.

        Copies of records add k·n·pq to each variance. A fake shows a bit with probability v and two bits with v₂; F
        fakes add Fv(1 − v) and F(v₂ − v²), and if F is itself random, Var(F)·v² to both.
        """
        protocol, schema = self.plan.protocol, self.plan.schema
        q, drawn = protocol.q, protocol.user_fakes
        number, spread = float(fakes), 0.0
        if drawn is not None and not self.linked:
            number, spread = values * drawn.mean, values * drawn.variance
        own = protocol.k * values * q * (1 - q)
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
        protocol, schema = self.plan.protocol, self.plan.schema
        if protocol.user_fakes is not None:
            return protocol.user_fakes.mean * self.plan.n
        if protocol.shuffler_fakes is not None:
            return protocol.shuffler_fakes.mean * (schema.width if protocol.sends_bits else schema.size)
        return float(protocol.fixed_fakes)

    def fakes_with_bit(self) -> Distribution:
        """Return the distribution of the number of fakes in a batch of split bits that show one bit."""
        protocol, n, v = self.plan.protocol, self.plan.n, self.fake_bit
        if protocol.shuffler_fakes is not None:
            return Distribution(0, protocol.shuffler_fakes.pmf)
        if protocol.user_fakes is None:
            return binomial(protocol.fixed_fakes, v)
        if protocol.user_fakes.distribution == "binomial":
            return binomial(n * protocol.user_fakes.shift, protocol.user_fakes.scale * v)
        mean = n * protocol.user_fakes.scale * v
        number = np.arange(math.ceil(mean + 12 * math.sqrt(mean) + 40))
        return Distribution(0, np.exp(number * math.log(mean) - mean - gammaln(number + 1)))

    def log_likelihood(self, probe: Probe) -> LogLikelihood:
        """Return ln of the probability of each message of a record."""
        q, width = self.plan.protocol.q, self.plan.schema.width
        if self.plan.protocol.sends_category:
            logs = np.log(self.shown(probe.ones))
            return lambda messages: np.asarray(logs[messages])
        packed = np.packbits(probe.bits(width), bitorder="little")
        by_distance = np.arange(width + 1) * _log(q) + np.arange(width, -1, -1) * math.log1p(-q)
        return lambda messages: np.asarray(by_distance[_weights(messages ^ packed)])

    def fake_log_likelihood(self) -> LogLikelihood:
        """Return ln of the probability of each message of a fake.

        By the number w of its set bits: Σ over sizes i and overlaps o of C(w, o)·C(W − w, i − o)·q^(w + i − 2o)·
        p^(W − w − i + 2o), over the number of legal records.
        """
        schema, q = self.plan.schema, self.plan.protocol.q
        width = schema.width
        if schema.dense:
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
