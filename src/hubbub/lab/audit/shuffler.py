"""Tests of a shuffler: all orders equally likely, no message lost, and fakes from the planned distribution.

Of any multiset, all orders must be equally likely, so the tests by blocks also hold with the shuffler's fakes among
the messages. Messages carry the position of their arrival: a number each if the plan has enough different messages;
otherwise one tag marks a block of neighbouring arrivals.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts, histogram
from hubbub.bits.records import one_hot
from hubbub.errors import WireError
from hubbub.lab.audit.columns import resized, starts
from hubbub.lab.audit.commands import Shuffler
from hubbub.lab.audit.model import MessageModel
from hubbub.lab.audit.statistics import Finding, chi_square_p, finding, normal_p, poisson_p, worst
from hubbub.lab.mechanisms import ShufflerFakes, kinds_of
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.reports import Reports, message_type
from hubbub.planner import plan_from

LINKED_NAME = "answers of one person kept together"
LINKED_BATCH = 200  # people in the batches that show if the answers of one person stay together
BLOCKS = 8  # number of blocks of arrivals and of departures
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Orders:
    """The output of a shuffler: the tags in their new order, one array per run."""

    tags: Numbers  # the tags of the input batch
    shuffled: list[Numbers]
    added: Numbers  # by run, the number of messages added to each category: the shuffler's fakes


def observe(shuffler: Shuffler, plan: Plan, runs: int, progress: Callable[[], None]) -> Orders:
    """Send one batch through a shuffler several times; raises :class:`WireError` if messages are lost or added."""
    (reports, tags), form = arrivals(plan), tagging(plan)
    kinds = int(tags.max()) + 1
    before, draws = np.bincount(tags, minlength=kinds), isinstance(MessageModel(plan).fakes, ShufflerFakes)
    shuffled, added = [], []
    for _ in range(runs):
        messages = shuffler(reports).messages
        after = form.decode(messages)
        counts = np.bincount(after[after < kinds], minlength=kinds)
        if (counts < before).any() or (not draws and after.size != tags.size):
            own = " and its own fakes" if draws else ""
            raise WireError(f"a shuffler must return the {tags.size} messages of the batch{own}, got {after.size}")
        shuffled.append(after)
        extra = form.kinds(messages) - form.kinds(reports.messages) if draws else np.zeros(1)
        added.append(extra.astype(np.int64))
        progress()
    return Orders(tags=tags, shuffled=shuffled, added=np.array(added))


def examine_shuffler(orders: Orders, plan: Plan) -> list[Finding]:
    """Run all tests that the tags allow."""
    found, source = [_blocks(orders)], MessageModel(plan).fakes
    if isinstance(source, ShufflerFakes):
        found += _fakes(orders, plan, source.distribution)
    elif np.unique(orders.tags).size == orders.tags.size > 3:
        shuffled = np.array(orders.shuffled)
        found += _permutations(shuffled, np.argsort(shuffled, axis=1))
    return [*found, _repeated(orders)]


def _blocks(orders: Orders) -> Finding:
    """Test a table of input blocks against output blocks, over all runs.

    Given its margins, the table of a random order has Σ(O − E)²/E of mean (r − 1)(c − 1)·N/(N − 1).
    """
    name = "input block against output block"
    total, degrees, seen, expected = 0.0, 0, None, None
    most = max(2, min(BLOCKS, math.isqrt(orders.tags.size // 10)))
    for row in orders.shuffled:
        groups = np.unique(row, return_inverse=True)[1].reshape(-1)
        kinds = int(groups.max()) + 1
        groups = groups * min(kinds, most) // kinds
        parts = min(most, row.size)
        cells = np.zeros((min(kinds, most), parts))
        np.add.at(cells, (groups, np.arange(row.size) * parts // row.size), 1)
        mean = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / row.size
        total += float(((cells - mean) ** 2 / mean).sum()) * (row.size - 1) / row.size
        degrees += (cells.shape[0] - 1) * (cells.shape[1] - 1)
        seen = cells if seen is None or seen.shape != cells.shape else seen + cells
        expected = mean if expected is None or expected.shape != mean.shape else expected + mean
    if not degrees or seen is None or expected is None:
        return finding("shuffler", name, "all messages are equal", 0.0, 0.0, 1.0)
    i, j = np.unravel_index(int(np.argmax(np.abs(seen - expected) / np.sqrt(expected))), seen.shape)
    where = f"from block {i + 1} of {seen.shape[0]} to block {j + 1} of {seen.shape[1]}"
    size, p = seen.sum(), float(chi_square_p(total, degrees))
    return finding("shuffler", name, where, seen[i, j] / size, expected[i, j] / size, p)


def _permutations(shuffled: Numbers, places: Numbers) -> list[Finding]:
    """Test full orders; ``shuffled`` holds the arrival at each place, ``places`` the place of each arrival."""
    runs, n = shuffled.shape
    centre = (n - 1) / 2
    rho = ((shuffled - centre) * (np.arange(n) - centre)).sum(axis=1) / (n * (n * n - 1) / 12)
    # Spearman's correlation has variance 1/(n − 1); ascents have mean (n − 1)/2 and variance (n + 1)/12.
    order = float(normal_p(rho.sum() * math.sqrt(n - 1) / math.sqrt(runs)))
    steps = np.diff(shuffled, axis=1)
    ascents = int((steps > 0).sum())
    rising = float(normal_p((ascents - runs * (n - 1) / 2) / math.sqrt(runs * (n + 1) / 12)))
    fixed = int((shuffled == np.arange(n)).sum())
    adjacent = [int((steps == 1).sum()), int((steps == -1).sum())]
    (side,), together = worst([poisson_p(count, runs * (n - 1) / n) for count in adjacent])
    where = ("in order", "in reverse order")[side]
    return [
        finding("shuffler", "correlation with arrival", "all positions", rho.mean(), 0.0, order),
        finding("shuffler", "ascents", "all positions", ascents / (runs * (n - 1)), 0.5, rising),
        finding("shuffler", "fixed points", "all positions", fixed / runs, 1.0, float(poisson_p(fixed, runs))),
        finding("shuffler", "neighbours kept together", where, adjacent[side] / runs, (n - 1) / n, together),
        _ends(shuffled, places),
        _distances(places),
    ]


def _ends(shuffled: Numbers, places: Numbers) -> Finding:
    """Test the destinations of the first and last arrival and the origins of the first and last departure."""
    runs, n = shuffled.shape
    parts = max(2, min(BLOCKS, runs // 10))
    names = ("destination of the first", "destination of the last", "origin of the first", "origin of the last")
    edges = np.arange(n) * parts // n
    share = np.bincount(edges, minlength=parts) / n
    p, far = [], []
    for values in (places[:, 0], places[:, -1], shuffled[:, 0], shuffled[:, -1]):
        counts = np.bincount(edges[values], minlength=parts)
        p.append(_fit(counts, runs * share, parts - 1))
        far.append(float(counts.max() / runs))
    (place,), smallest = worst(p)
    return finding("shuffler", "first and last message", names[place], far[place], share.max(), smallest)


def _fit(counts: Numbers, expected: NDArray[Any], degrees: int) -> float:
    return float(chi_square_p(((counts - expected) ** 2 / expected).sum(), degrees, both=False))


def _distances(places: Numbers) -> Finding:
    """Test the distance of two former neighbours: d with probability 2(n − d)/(n(n − 1)), over disjoint pairs."""
    n = places.shape[1]
    apart = np.abs(places[:, 1 : n // 2 * 2 : 2] - places[:, 0 : n // 2 * 2 : 2]).reshape(-1)
    pmf = np.zeros(n)
    pmf[1:] = 2 * (n - np.arange(1, n)) / (n * (n - 1))
    bins = np.minimum((np.cumsum(pmf) - pmf / 2) * BLOCKS, BLOCKS - 1).astype(np.int64)
    share = np.bincount(bins, weights=pmf, minlength=BLOCKS)
    counts = np.bincount(bins[apart], minlength=BLOCKS)
    usable = share > 0
    place = int(np.argmax(np.where(usable, np.abs(counts / apart.size - share), 0)))
    where = f"{max(int(np.flatnonzero(bins == place)[0]), 1)} positions or more"
    p = _fit(counts[usable], apart.size * share[usable], int(usable.sum()) - 1)
    return finding("shuffler", "distance between former neighbours", where, counts[place] / apart.size, share[place], p)


def _repeated(orders: Orders) -> Finding:
    """Find equal orders if there are too many possible orders for a coincidence."""
    repeated = len(orders.shuffled) - len({row.tobytes() for row in orders.shuffled})
    ways = math.lgamma(orders.tags.size + 1) - sum(math.lgamma(int(c) + 1) for c in np.bincount(orders.tags))
    pairs = math.comb(len(orders.shuffled), 2)
    impossible = repeated > 0 and math.log(max(pairs, 1)) - ways < math.log(1e-12)
    return finding("shuffler", "repeated orders", "all runs", repeated, 0.0, 0.0 if impossible else 1.0)


def _fakes(orders: Orders, plan: Plan, fakes: Fakes) -> list[Finding]:
    """Test the mean and the distribution of the shuffler's fakes in each category."""
    added = orders.added.astype(np.float64)
    runs, kinds = added.shape
    # Flips hide the category of a fake, which leaves only the total.
    share = kinds_of(plan.schema, plan.protocol.release) if kinds == 1 else 1
    mean, variance = share * fakes.mean, share * fakes.variance
    z = (added.sum(axis=0) - runs * mean) / math.sqrt(runs * variance)
    (place,), smallest = worst(normal_p(z))
    total = float(normal_p(z.sum() / math.sqrt(kinds)))
    name = "number of shuffler fakes"
    found = [
        finding("shuffler", name, f"category {place}", added[:, place].mean(), mean, smallest),
        finding("shuffler", name, "all categories", added.mean(), mean, total),
    ]
    if share == 1:
        pmf = fakes.pmf
        edges = np.minimum(np.cumsum(pmf) * BLOCKS, BLOCKS - 1e-9).astype(np.int64)
        expected = np.bincount(edges, weights=pmf, minlength=BLOCKS) * added.size
        outside = (added < 0) | (added >= pmf.size)
        counts = np.bincount(edges[added[~outside].astype(np.int64)], minlength=BLOCKS)
        usable = expected > 5
        degrees = int(usable.sum()) - bool(usable.all() or not expected[~usable].any())
        p = 0.0 if outside.any() else _fit(counts[usable], expected[usable], max(1, degrees))
        place = int(np.argmax(np.abs(counts - expected)))
        observed, allowed = counts[place] / added.size, expected[place] / added.size
        found.append(finding("shuffler", "distribution of shuffler fakes", f"octile {place + 1}", observed, allowed, p))
    return found


def numbered_plan(n: int = 4000) -> Plan:
    """Return a plan whose messages can carry the number of their arrival, for shufflers that accept any plan.

    >>> numbered_plan(100).schema.width
    16
    """
    return plan_from(Schema.bits(16), n, Protocol(0.25), delta=1e-6, trust="nobody")


def batch_size(plan: Plan) -> int:
    """Return the number of messages that reach the shuffler in a batch of whole records or categories."""
    return plan.protocol.k * plan.n + plan.protocol.fixed_fakes


@dataclass(frozen=True, slots=True)
class Tags:
    """A way in which messages carry the position of their arrival."""

    distinct: int
    """Number of different messages, at most 2^40."""
    encode: Callable[[Numbers], NDArray[Any]]
    decode: Callable[[NDArray[Any]], Numbers]
    """Returns the tags; a message without one, such as a fake, gets a number that is no tag."""
    kinds: Callable[[NDArray[Any]], Numbers]
    """Returns the messages of each category that the shuffler draws fakes for, or their total if it cannot be told."""


def tagging(plan: Plan) -> Tags:
    """Return the tags of a plan: numbers, records with one bit if records are clear, or records of binary digits.

    >>> tagging(numbered_plan()).distinct
    65536
    """
    model, width = MessageModel(plan), plan.schema.width
    if not model.form.pairs:
        kind = message_type(plan)
        return Tags(
            width, lambda tags: tags.astype(kind), lambda messages: messages.astype(np.int64), model.form.counts
        )
    if not model.flipped:
        clear = functools.partial(_single_bits, width=width)
        return Tags(
            width, lambda tags: one_hot(tags, width), clear, functools.partial(_clear_kinds, schema=plan.schema)
        )
    digits = functools.partial(_digits, size=plan.payload)
    return Tags(1 << min(width, 40), digits, _number, lambda messages: np.array([len(messages)]))


def _single_bits(messages: NDArray[Any], width: int) -> Numbers:
    bits = np.unpackbits(messages, axis=1, bitorder="little", count=width)
    return np.where(bits.sum(axis=1) == 1, bits.argmax(axis=1), width)


def _clear_kinds(messages: NDArray[Any], schema: Schema) -> Numbers:
    """Return how often each legal record occurs, or the number of all if there are too many of them."""
    if schema.max_set == schema.min_set == 1:
        return bit_counts(messages, schema.width)
    if schema.width > 12:
        return np.array([len(messages)])
    counts = histogram(messages, schema.width)
    return counts[np.bitwise_count(np.arange(counts.size)) <= schema.max_set]


def _digits(tags: Numbers, size: int) -> NDArray[np.uint8]:
    rows = np.zeros((tags.size, max(size, 8)), np.uint8)
    rows[:, :8] = tags.astype("<u8")[:, None].view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(rows[:, :size])


def _number(messages: NDArray[Any]) -> Numbers:
    rows = np.zeros((len(messages), 8), np.uint8)
    size = min(7, messages.shape[1])
    rows[:, :size] = messages[:, :size]
    beyond = messages[:, size:].any(axis=1)
    return np.where(beyond, 1 << 41, np.minimum(rows.view("<i8")[:, 0], 1 << 41))


def arrivals(plan: Plan) -> tuple[Reports, Numbers]:
    """Return a batch of the planned size with tags that rise with the position of arrival."""
    count, form = batch_size(plan), tagging(plan)
    tags = np.arange(count) if form.distinct >= count else np.arange(count) * min(form.distinct, BLOCKS) // count
    return Reports(plan, form.encode(tags), plan.n, plan.protocol.fixed_fakes), tags


def linked_answers(shuffler: Shuffler, plan: Plan, runs: int, progress: Callable[[], None]) -> Finding:
    """Test that the answers of one person do not stay together.

    Of every second person, all answers are the first category, of the others the last. Two neighbouring messages are
    alike if they are answers to different attributes and agree in that. In a random order of N messages, of which
    message v is like d_v others, the number A of alike neighbours has the mean Σd/N, and

        E[A²] = Σd/N + 2·Σd(d − 1)/(N(N − 1)) + ((Σd)² − 2Σd − 4Σd(d − 1))/(N(N − 1)).
    """
    survey = resized(plan, min(plan.n, LINKED_BATCH))
    schema, n = survey.schema, survey.n
    last = np.array([one.size - 1 for one in schema.attributes], np.int64)
    rows = np.where(np.arange(n)[:, None] % 2 == 0, 0, last) + starts(schema)
    batch = Reports(survey, rows.reshape(-1).astype(message_type(survey)), n)
    place = np.repeat(np.arange(last.size), [one.size for one in schema.attributes])
    side = np.full(schema.width, -1)
    side[starts(schema)], side[starts(schema) + last] = 0, 1
    off = variance = seen = expected = 0.0
    for _ in range(runs):
        messages = shuffler(batch).messages.astype(np.int64)
        kinds, sides, size = place[messages], side[messages], float(messages.size)
        alike = (kinds[1:] != kinds[:-1]) & (sides[1:] == sides[:-1]) & (sides[1:] >= 0)
        table = np.zeros((2, last.size))
        np.add.at(table, (sides[sides >= 0], kinds[sides >= 0]), 1)
        like = table.sum(axis=1, keepdims=True) - table  # d of a message, by side and attribute
        total, paths = float((table * like).sum()), float((table * like * (like - 1)).sum())
        mean = total / size
        square = mean + (2 * paths + total**2 - 2 * total - 4 * paths) / (size * (size - 1))
        seen, expected = seen + int(alike.sum()), expected + mean
        off, variance = off + int(alike.sum()) - mean, variance + max(square - mean**2, 0.0)
        progress()
    p = float(normal_p(off / math.sqrt(variance))) if variance else 1.0
    return finding("shuffler", LINKED_NAME, "all attributes", seen / runs, expected / runs, p)
