"""Which records an audit sends through a client, and what comes back: many answers to one record, run after run."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts
from hubbub.errors import WireError
from hubbub.lab.audit.commands import Client
from hubbub.plans import Plan
from hubbub.protocol import Fakes
from hubbub.records import Collection, SetBits
from hubbub.reports import Reports
from hubbub.schema import Schema

BLANKS = frozenset(
    ["", "-", "?", "0", "n/a", "na", "nan", "nil", "none", "null", "missing", "other", "undefined", "unknown"]
)
"""Labels that programs like to treat as no answer at all."""
MOST = 12
"""Probes of a one-hot schema with more labels than that."""


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A legal record that is sent many times."""

    name: str
    ones: tuple[int, ...]
    """Its set bits."""

    def bits(self, width: int) -> NDArray[np.uint8]:
        """The record as a row of 0 and 1."""
        row = np.zeros(width, np.uint8)
        row[list(self.ones)] = 1
        return row


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sample:
    """What a client made of one record in several runs of equal size."""

    probe: Probe
    n: int
    """Values of each run."""
    counts: NDArray[np.int64]
    """How often each bit, or category, was shown: a row for each run."""
    messages: NDArray[Any]
    """The messages of all runs, run after run; of split bits none, as they show nobody's beginning or end."""
    fakes: NDArray[np.int64]
    """Fakes of the users in each run: as declared, or as many as messages are more than people send."""
    repeats: int
    """How many runs were, to the byte, like the one before."""

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return len(self.counts)


def probes(schema: Schema) -> list[Probe]:
    """The records to try: the corners of what is legal, and whatever a program might take for no answer.

    >>> [probe.name for probe in probes(Schema.at_most(2, ["a", "b", "c"]))]
    ['nothing set', 'only a', 'only c', 'a to b', 'b to c', 'every second of a to c']
    >>> [probe.name for probe in probes(Schema.one_hot(["red", "", "blue"]))]
    ['only (blank)', 'only red', 'only blue']
    """
    labels, width, most = schema.labels, schema.width, schema.max_set
    if schema.exclusive:
        edges = [i for i, label in enumerate(labels) if label.strip().lower() in BLANKS]
        order = dict.fromkeys([*edges[: MOST - 4], 0, width - 1, *np.linspace(0, width - 1, MOST, dtype=int).tolist()])
        chosen = list(range(width)) if width <= MOST and not edges else list(order)[:MOST]
        return [Probe(f"only {_shown(labels[i])}", (i,)) for i in chosen]
    first, last = tuple(range(most)), tuple(range(width - most, width))
    sets = dict.fromkeys([(), (0,), (width - 1,), first, last, tuple(range(0, width, 2))[:most]])
    return [Probe(_named(ones, schema), ones) for ones in sets]


def neighbours(found: list[Probe]) -> list[tuple[int, int]]:
    """The pairs that are told apart, in both orders: each probe against the next, and the two that differ most.

    >>> neighbours(probes(Schema.one_hot(3)))
    [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)]
    """
    count = len(found)
    sets = [set(probe.ones) for probe in found]
    far = max(itertools.combinations(range(count), 2), key=lambda pair: len(sets[pair[0]] ^ sets[pair[1]]))
    pairs = [(i, (i + 1) % count) for i in range(count)] + [far]
    return list(dict.fromkeys(itertools.chain.from_iterable((pair, pair[::-1]) for pair in pairs)))


def drawn_by_users(plan: Plan) -> bool:
    """Whether people's messages come among fakes that they made themselves."""
    m = plan.protocol.m
    return m.by == "users" if isinstance(m, Fakes) else m > 0


def sample(client: Client, plan: Plan, probe: Probe, n: int, runs: int, tell: Callable[[], None]) -> Sample:
    """Send one record n times in each of several runs; raises :class:`WireError` on reports that no plan allows."""
    schema, release = plan.schema, plan.protocol.release
    ones = np.tile(np.array(probe.ones, np.int64), n)
    rows = np.zeros((n, schema.width), np.uint8) if schema.dense else None
    if rows is not None:
        rows[:, list(probe.ones)] = 1
        collection = Collection.from_values(rows, schema)
    elif schema.exclusive:
        collection = Collection.from_values(ones, schema)
    else:
        ends = np.arange(1, n + 1, dtype=np.int64) * len(probe.ones)
        collection = Collection(schema, SetBits(ones.astype(np.uint32), ends))
    counts, fakes, last, repeats = [], [], b"", 0
    kept: list[NDArray[Any]] = []
    for _ in range(runs):
        reports = client(collection, plan)
        _check(reports, plan, n)
        counts.append(_counts(reports))
        fakes.append(_fakes(reports, n))
        data = reports.messages.tobytes()
        repeats, last = repeats + (data == last), data
        if release != "bits":
            kept.append(reports.messages)
        tell()
    empty = np.empty((0, plan.payload), np.uint8) if release == "records" else np.empty(0, np.uint8)
    return Sample(
        probe=probe,
        n=n,
        counts=np.array(counts),
        messages=np.concatenate(kept) if kept else empty,
        fakes=np.array(fakes, np.int64),
        repeats=repeats,
    )


def unpack(messages: NDArray[Any], columns: Iterable[int]) -> NDArray[np.bool_]:
    """Some bits of packed records, a column each.

    >>> unpack(np.array([[1], [6]], np.uint8), [0, 2]).tolist()
    [[True, False], [False, True]]
    """
    chosen = list(columns)
    if len(chosen) > 64:
        return np.unpackbits(messages, axis=1, bitorder="little")[:, chosen].astype(np.bool_)
    return np.column_stack([(messages[:, i >> 3] >> (i & 7) & 1).astype(np.bool_) for i in chosen])


def _check(reports: Reports, plan: Plan, n: int) -> None:
    """Messages of the right plan, and as many as n people send, neither more nor fewer."""
    if not isinstance(reports, Reports) or reports.plan.id != plan.id:
        raise WireError("a client must return reports of the plan, got something else")
    protocol = plan.protocol
    own, m = protocol.k * n, protocol.m
    if protocol.sends_bits:
        return
    if isinstance(m, Fakes):
        least, most = own, (own + n * m.shift if m.distribution == "binomial" else 10**15) if m.by == "users" else own
        if not least <= len(reports) <= most:
            told = f"{own}" if most == own else f"at least {own}" if m.distribution == "poisson" else f"{own} to {most}"
            raise WireError(f"{n} people must send {told} messages, got {len(reports)}")
    elif len(reports) - own not in {m, m * n // plan.n, -(-m * n // plan.n)}:
        share = "" if not m else f" and {m * n // plan.n} or {m} fakes"
        raise WireError(f"{n} people must send {own} messages{share}, got {len(reports)} in all")


def _counts(reports: Reports) -> NDArray[np.int64]:
    width = reports.plan.schema.width
    if reports.plan.protocol.sends_records:
        return bit_counts(reports.messages, width)
    return np.bincount(reports.messages, minlength=width)


def _fakes(reports: Reports, n: int) -> int:
    plan, m = reports.plan, reports.plan.protocol.m
    if not plan.protocol.sends_bits:
        return len(reports) - plan.protocol.k * n
    # Split bits do not show it: as declared, or else each device's share.
    return 0 if isinstance(m, Fakes) else reports.fakes or m * n // plan.n


def _shown(label: str) -> str:
    return label if label.strip() else "(blank)"


def _named(ones: tuple[int, ...], schema: Schema) -> str:
    labels = schema.labels
    if not ones:
        return "nothing set"
    if len(ones) == schema.width:
        return "everything set" if schema.width > 1 else f"only {_shown(labels[0])}"
    if len(ones) == 1:
        return f"only {_shown(labels[ones[0]])}"
    which = "" if ones == tuple(range(ones[0], ones[-1] + 1)) else "every second of "
    return f"{which}{_shown(labels[ones[0]])} to {_shown(labels[ones[-1]])}"
