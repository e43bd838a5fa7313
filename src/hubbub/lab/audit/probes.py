"""The records that an audit sends through a client, and the messages that come back."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import WireError
from hubbub.lab.audit.commands import Client
from hubbub.lab.audit.model import MessageModel, Probe
from hubbub.plans import Plan
from hubbub.records import Collection
from hubbub.reports import Reports
from hubbub.schema import Schema

MISSING = frozenset(
    ["", "-", "?", "0", "n/a", "na", "nan", "nil", "none", "null", "missing", "other", "undefined", "unknown"]
)
"""Labels that programs tend to treat as a missing answer."""
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

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.counts)

    @property
    def values(self) -> int:
        """Number of values in all runs."""
        return self.n * self.runs


def probes(schema: Schema) -> list[Probe]:
    """Return the records to try: extreme legal records, and labels that a program may treat as a missing answer.

    >>> [probe.name for probe in probes(Schema.at_most(2, ["a", "b", "c"]))]
    ['nothing set', 'only a', 'only c', 'a to b', 'b to c', 'every second of a to c']
    >>> [probe.name for probe in probes(Schema.one_hot(["red", "", "blue"]))]
    ['only (blank)', 'only red', 'only blue']
    """
    width, most = schema.width, schema.max_set
    chosen: list[tuple[int, ...]]
    if schema.exclusive:
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


def sample(client: Client, plan: Plan, probe: Probe, n: int, runs: int, progress: Callable[[], None]) -> Sample:
    """Send one record n times in each of several runs.

    Raises :class:`WireError` on reports that an honest client cannot send.
    """
    model = MessageModel(plan)
    single = Collection.from_values(probe.bits(plan.schema.width)[None, :], plan.schema)
    collection = Collection.concatenate([single] * n)
    counts, fakes, last, repeats = [], [], b"", 0
    kept: list[NDArray[Any]] = []
    for _ in range(runs):
        reports = client(collection, plan)
        _check(reports, plan, n)
        counts.append(model.counts(reports.messages))
        fakes.append(_fakes(reports, n))
        data = reports.messages.tobytes()
        repeats, last = repeats + (data == last), data
        kept.append(reports.messages if model.linked else reports.messages[:0])
        progress()
    seen, drawn = np.array(counts), np.array(fakes, np.int64)
    return Sample(probe=probe, n=n, counts=seen, messages=np.concatenate(kept), fakes=drawn, repeats=repeats)


def _check(reports: Reports, plan: Plan, n: int) -> None:
    """Check that messages belong to the plan and that their number is one that n people can send."""
    if not isinstance(reports, Reports) or reports.plan.id != plan.id:
        raise WireError("a client must return reports of its plan")
    protocol = plan.protocol
    if protocol.sends_bits:
        return
    own, drawn, m = protocol.k * n, protocol.user_fakes, protocol.fixed_fakes
    if drawn is not None:
        most = own + n * drawn.shift if drawn.distribution == "binomial" else None
        legal = len(reports) >= own and (most is None or len(reports) <= most)
        expected = f"at least {own}" if most is None else f"{own} to {most}"
    else:
        legal = len(reports) - own in {m, m * n // plan.n, -(-m * n // plan.n)}
        expected = f"{own}" if not m else f"{own} and {m * n // plan.n} or {m} fake"
    if not legal:
        raise WireError(f"{n} people must send {expected} messages, got {len(reports)}")


def _fakes(reports: Reports, n: int) -> int:
    plan = reports.plan
    if not plan.protocol.sends_bits:
        return len(reports) - plan.protocol.k * n
    # Split bits do not show the number of fakes: use the declared one, or each device's share.
    return 0 if not plan.protocol.fixed_fakes else reports.fakes or plan.protocol.fixed_fakes * n // plan.n


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
