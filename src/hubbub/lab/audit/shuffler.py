"""Whether a shuffler mixes: every order equally likely, nothing lost, and its own fakes by their law.

Messages are tagged by their place of arrival, as finely as the messages of the plan can tell: a number each where
there are enough different ones, otherwise blocks of neighbours. Of any multiset, all orders must be equally likely, so
that the tests by blocks hold with the shuffler's own fakes among the messages too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts, histogram
from hubbub.bits.records import one_hot
from hubbub.errors import WireError
from hubbub.lab.audit.commands import ShufflerProgram
from hubbub.lab.audit.findings import Finding, worst
from hubbub.lab.audit.statistics import chi_square_p, normal_p, poisson_p
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Fakes, Protocol
from hubbub.reports import Reports, message_type
from hubbub.schema import Schema

BLOCKS = 8
"""Parts into which arrivals and departures are sorted."""
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Orders:
    """What came out of a mix: the tags in their new order, a row for each run."""

    tags: Numbers
    """Of the batch that went in."""
    mixed: list[Numbers]
    added: NDArray[np.int64]
    """How many more of each tag came out than went in, by run: the shuffler's fakes."""


def numbered_plan(n: int = 4000) -> Plan:
    """A plan whose messages can carry the number of their arrival: for mixes that take any plan.

    >>> numbered_plan(100).schema.width
    16
    """
    return plan_from(Schema.bits(16), n, Protocol(0.25), delta=1e-6, shuffler=False)


def distinct(plan: Plan) -> int:
    """How many different messages there are, as far as they are needed.

    >>> distinct(numbered_plan())
    65536
    """
    width = plan.schema.width
    return width if not plan.protocol.sends_records or plan.protocol.q == 0 else 1 << min(width, 40)


def arrivals(plan: Plan) -> tuple[Reports, Numbers]:
    """A batch as large as the plan demands, every message with a tag that rises with its place."""
    m = plan.protocol.m
    fakes = m if isinstance(m, int) else 0
    count = plan.protocol.k * plan.n + fakes
    tags = np.arange(count) if distinct(plan) >= count else np.arange(count) * min(distinct(plan), BLOCKS) // count
    return Reports(plan, _messages(tags, plan), plan.n, fakes), tags


def observe(mix: ShufflerProgram, plan: Plan, runs: int, tell: Callable[[], None]) -> Orders:
    """Send one batch through a mix several times; raises :class:`WireError` if messages are lost or others added."""
    reports, tags = arrivals(plan)
    kinds = int(tags.max()) + 1
    before = np.bincount(tags, minlength=kinds)
    drawn = isinstance(plan.protocol.m, Fakes) and plan.protocol.m.by == "shuffler"
    mixed, added = [], []
    for _ in range(runs):
        messages = mix(reports).messages
        after = _tags(messages, plan)
        counts = np.bincount(after[after < kinds], minlength=kinds)
        if (counts < before).any():
            raise WireError("a mix must return all messages that it got, got fewer of some")
        if not drawn and after.size != tags.size:
            raise WireError(f"a mix must return the {tags.size} messages that it got, got {after.size}")
        mixed.append(after)
        added.append(_kinds(messages, plan) - _kinds(reports.messages, plan) if drawn else np.zeros(1, np.int64))
        tell()
    return Orders(tags=tags, mixed=mixed, added=np.array(added))


def examine_shuffler(orders: Orders, plan: Plan) -> list[Finding]:
    """All tests that the tags allow."""
    found = [_blocks(orders)]
    drawn = isinstance(plan.protocol.m, Fakes) and plan.protocol.m.by == "shuffler"
    if not drawn and np.unique(orders.tags).size == orders.tags.size > 3:
        places = np.array([np.argsort(row) for row in orders.mixed])
        found += _permutations(np.array(orders.mixed), places)
    if drawn:
        found += _drawn(orders, plan)
    return [*found, _same(orders)]


def _finding(name: str, where: str, observed: float, allowed: float, p: float) -> Finding:
    return Finding(part="mix", name=name, where=where, observed=observed, allowed=allowed, p=p)


def _blocks(orders: Orders) -> Finding:
    """Where each part of the arrivals went: chi-square of a table of arrivals and departures, over all runs.

    Given its margins a table of a random order has Σ(O − E)²/E of mean (r − 1)(c − 1)·N/(N − 1).
    """
    total, degrees, seen, expected = 0.0, 0, None, None
    most = max(2, min(BLOCKS, math.isqrt(orders.tags.size // 10)))
    for row in orders.mixed:
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
        return _finding("arrival against departure", "nothing to tell apart", 0.0, 0.0, 1.0)
    i, j = np.unravel_index(int(np.argmax(np.abs(seen - expected) / np.sqrt(expected))), seen.shape)
    where = f"from part {i + 1} of {seen.shape[0]} to part {j + 1} of {seen.shape[1]}"
    size = seen.sum()
    p = float(chi_square_p(total, degrees))
    return _finding("arrival against departure", where, float(seen[i, j] / size), float(expected[i, j] / size), p)


def _permutations(mixed: Numbers, places: Numbers) -> list[Finding]:
    """Tests of full orders: ``mixed`` has the arrival at each place, ``places`` the place of each arrival."""
    runs, n = mixed.shape
    centre = (n - 1) / 2
    rho = ((mixed - centre) * (np.arange(n) - centre)).sum(axis=1) / (n * (n * n - 1) / 12)
    # Spearman's correlation has variance 1/(n − 1); rises have mean (n − 1)/2 and variance (n + 1)/12.
    order = float(normal_p(rho.sum() * math.sqrt(n - 1) / math.sqrt(runs)))
    rises = (np.diff(mixed, axis=1) > 0).sum()
    rising = float(normal_p((rises - runs * (n - 1) / 2) / math.sqrt(runs * (n + 1) / 12)))
    steps = np.diff(mixed, axis=1)
    fixed = int((mixed == np.arange(n)).sum())
    chances = [int((steps == 1).sum()), int((steps == -1).sum())]
    neighbours = [float(poisson_p(count, runs * (n - 1) / n)) for count in chances]
    (side,), together = worst(neighbours)
    return [
        _finding("correlation with arrival", "all places", float(rho.mean()), 0.0, order),
        _finding("rises between neighbours", "all places", float(rises / (runs * (n - 1))), 0.5, rising),
        _finding("messages left in place", "all places", fixed / runs, 1.0, float(poisson_p(fixed, runs))),
        _finding(
            "neighbours kept together",
            ("in order", "in reverse order")[side],
            chances[side] / runs,
            (n - 1) / n,
            together,
        ),
        _ends(mixed, places),
        _distances(places),
    ]


def _ends(mixed: Numbers, places: Numbers) -> Finding:
    """Where the first and the last to arrive went, and who left first and last: each uniform over parts."""
    runs, n = mixed.shape
    parts = max(2, min(BLOCKS, runs // 10))
    names = ("where the first went", "where the last went", "who left first", "who left last")
    edges = np.arange(n) * parts // n
    share = np.bincount(edges, minlength=parts) / n
    p, far = [], []
    for values in (places[:, 0], places[:, -1], mixed[:, 0], mixed[:, -1]):
        counts = np.bincount(edges[values], minlength=parts)
        p.append(float(chi_square_p(((counts - runs * share) ** 2 / (runs * share)).sum(), parts - 1, both=False)))
        far.append(float(counts.max() / runs))
    (place,), least = worst(p)
    return _finding("the first and the last", names[place], far[place], float(share.max()), least)


def _distances(places: Numbers) -> Finding:
    """How far apart two neighbours of the arrival went: d with probability 2(n − d)/(n(n − 1)), over disjoint pairs."""
    n = places.shape[1]
    apart = np.abs(places[:, 1 : n // 2 * 2 : 2] - places[:, 0 : n // 2 * 2 : 2]).reshape(-1)
    distribution = np.zeros(n)
    distribution[1:] = 2 * (n - np.arange(1, n)) / (n * (n - 1))
    bins = np.minimum((np.cumsum(distribution) - distribution / 2) * BLOCKS, BLOCKS - 1).astype(np.int64)
    share = np.bincount(bins, weights=distribution, minlength=BLOCKS)
    counts = np.bincount(bins[apart], minlength=BLOCKS).astype(np.float64)
    usable = share > 0
    excess = ((counts - apart.size * share)[usable] ** 2 / (apart.size * share[usable])).sum()
    worst_bin = int(np.argmax(np.where(usable, np.abs(counts / apart.size - share), 0)))
    least = int(np.flatnonzero(bins == worst_bin)[0])
    return _finding(
        "distance of former neighbours",
        f"{max(least, 1)} places and more",
        float(counts[worst_bin] / apart.size),
        float(share[worst_bin]),
        float(chi_square_p(excess, int(usable.sum()) - 1, both=False)),
    )


def _same(orders: Orders) -> Finding:
    """Runs that came out in one order, where there are far too many orders for that."""
    rows = {row.tobytes() for row in orders.mixed}
    counts = np.bincount(orders.tags)
    ways = math.lgamma(orders.tags.size + 1) - sum(math.lgamma(int(c) + 1) for c in counts)
    again = len(orders.mixed) - len(rows)
    pairs = math.comb(len(orders.mixed), 2)
    impossible = again > 0 and math.log(max(pairs, 1)) - ways < math.log(1e-12)
    return _finding("runs in the same order", "all runs", float(again), 0.0, 0.0 if impossible else 1.0)


def _drawn(orders: Orders, plan: Plan) -> list[Finding]:
    """The shuffler's fakes: their mean and spread for each kind, by run."""
    m = plan.protocol.m
    assert isinstance(m, Fakes)
    added = orders.added.astype(np.float64)
    runs, kinds = added.shape
    # Where kinds cannot be told, only how many there are in all.
    share = plan.schema.size if plan.protocol.sends_records and kinds == 1 else 1
    mean, variance = share * m.mean, share * m.variance
    z = (added.sum(axis=0) - runs * mean) / math.sqrt(runs * variance)
    (place,), least = worst(normal_p(z))
    found = [
        _finding("fakes of the shuffler", f"kind {place}", float(added[:, place].mean()), mean, least),
        _finding(
            "fakes of the shuffler", "all kinds", float(added.mean()), mean, float(normal_p(z.sum() / math.sqrt(kinds)))
        ),
    ]
    if share == 1:
        pmf = m.pmf
        edges = np.minimum(np.cumsum(pmf) * BLOCKS, BLOCKS - 1e-9).astype(np.int64)
        distribution = np.bincount(edges, weights=pmf, minlength=BLOCKS)
        outside = (added < 0) | (added >= pmf.size)
        counts = np.bincount(edges[added[~outside].astype(np.int64)], minlength=BLOCKS)
        usable = distribution * added.size > 5
        excess = ((counts - added.size * distribution)[usable] ** 2 / (added.size * distribution[usable])).sum()
        degrees = int(usable.sum()) - bool(usable.all() or not distribution[~usable].any())
        p = 0.0 if outside.any() else float(chi_square_p(excess, max(1, degrees), both=False))
        part = int(np.argmax(np.abs(counts - added.size * distribution)))
        found.append(
            _finding(
                "law of the fakes", f"eighth {part + 1}", float(counts[part] / added.size), float(distribution[part]), p
            )
        )
    return found


def _messages(tags: Numbers, plan: Plan) -> NDArray[Any]:
    """Tags as messages: numbers; where records are clear, records with one bit, which every schema allows."""
    if not plan.protocol.sends_records:
        return tags.astype(message_type(plan))
    if plan.protocol.q == 0:
        return one_hot(tags, plan.schema.width)
    rows = np.zeros((tags.size, max(plan.payload, 8)), np.uint8)
    rows[:, :8] = tags.astype("<u8")[:, None].view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(rows[:, : plan.payload])


def _tags(messages: NDArray[Any], plan: Plan) -> Numbers:
    """The tags back; what is none of ours, as a fake may be, has the number of no tag."""
    if not plan.protocol.sends_records:
        return messages.astype(np.int64)
    if plan.protocol.q == 0:
        bits = np.unpackbits(messages, axis=1, bitorder="little", count=plan.schema.width)
        return np.where(bits.sum(axis=1) == 1, bits.argmax(axis=1), plan.schema.width)
    rows = np.zeros((len(messages), 8), np.uint8)
    size = min(7, messages.shape[1])
    rows[:, :size] = messages[:, :size]
    beyond = messages[:, size:].any(axis=1)
    return np.where(beyond, 1 << 41, np.minimum(rows.view("<i8")[:, 0], 1 << 41))


def _kinds(messages: NDArray[Any], plan: Plan) -> Numbers:
    """How many there are of each kind that the shuffler draws fakes for; in all, where they cannot be told."""
    protocol, schema = plan.protocol, plan.schema
    if protocol.sends_bits:
        return np.bincount(messages, minlength=schema.width)
    if protocol.q == 0 and schema.exclusive:
        return bit_counts(messages, schema.width)
    if protocol.q > 0 or schema.width > 12:
        return np.array([len(messages)])
    counts = histogram(messages, schema.width)
    return counts[np.bitwise_count(np.arange(counts.size)) <= schema.max_set]
