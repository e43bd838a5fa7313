"""The records that an audit sends through a client, and the messages that come back."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import WireError
from hubbub.lab.audit.commands import Client
from hubbub.lab.audit.model import MessageModel, Probe, row_hashes
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports

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
        counts.append(model.counts(reports.messages))
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
    protocol = plan.protocol
    if protocol.sends_bits:
        return
    own, drawn, m, sent = protocol.k * n, protocol.user_fakes, protocol.fixed_fakes, len(reports)
    if drawn is not None:
        most = own + n * drawn.shift if drawn.distribution == "binomial" else None
        legal = sent >= own and (most is None or sent <= most)
        expected = f"at least {own}" if most is None else f"{own} to {most}"
    else:
        legal = sent - own in {m, m * n // plan.n, -(-m * n // plan.n)}
        expected = f"{own}" if not m else f"{own} and {m * n // plan.n} or {m} fake"
    if not legal:
        raise WireError(f"{n} people must send {expected} messages, got {sent}{_reason(sent, n, plan)}")


def _reason(sent: int, n: int, plan: Plan) -> str:
    """Return the number of copies or fakes that explains a wrong number of messages, if there is one."""
    k, planned = plan.protocol.k, plan.protocol.fixed_fakes * n // plan.n
    if (sent - planned) % n == 0 and (sent - planned) // n not in (0, k):
        return f", as if each record were sent in {_copies((sent - planned) // n)} instead of {k}"
    if plan.protocol.fixed_fakes and sent >= k * n:
        return f", that is {sent - k * n} fakes"
    return ""


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


def number_of_fakes(reports: Reports, n: int) -> int:
    """Return the users' fakes among the messages of n people."""
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
