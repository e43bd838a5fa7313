"""Tests of a client and of a shuffler of strings.

A client must send one row for every person: that of its string, or of nothing. A shuffler is given strings that many,
some and single people hold; what it subtracts from counts that are always shown must have the planned distribution,
strings near the threshold must be shown as often as planned, those of a single person hardly ever, and nothing else may
appear.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import InvalidInput, WireError
from hubbub.lab.audit.commands import Client, Shuffler, ShufflerCommand
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.statistics import Diagnosis, Finding, chi_square_p, finding, normal_p, poisson_p
from hubbub.mechanisms.chances import chance_shown, count_shown, drawn_by
from hubbub.model.plans import Plan
from hubbub.model.questions.text import NOTHING
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports
from hubbub.pipeline.rows import bodies, one_person, people

MANY, SOME, SINGLE = 40, 40, 200  # strings that are always, sometimes and hardly ever shown
SHUFFLES, SHUFFLES_COMMAND = 60, 10
LARGEST = 2 * 10**6  # people in the largest batch that is made for an audit
COPIES = 3
BINS = 8
TEXTS = ("a", "signature", "naïve ☃", "a,b;c", "two words")
NOTE = "a client of strings adds no noise: the shuffler's draws are what the guarantee rests on"


@dataclass(slots=True)
class Shown:
    """The rows that a shuffler showed of a batch, over all runs."""

    subtracted: list[list[int]] = field(default_factory=list)
    """By run, what was subtracted from each string that is always shown."""
    some: int = 0
    single: int = 0
    foreign: int = 0
    """Rows that no shuffler may send: of strings that nobody holds, of nothing, or of more people than hold one."""
    unsorted: int = 0


def audit_strings(
    plan: Plan,
    client: Client | None,
    shuffler: Shuffler | None,
    *,
    runs: int | None,
    confidence: float,
    progress: Callable[[str, int, int], None],
) -> Audit:
    """Audit a client, a shuffler, or both against a plan for strings."""
    findings, notes, shuffles = [], [NOTE], 0
    if client is not None:
        findings += examine_client(client, plan)
    if shuffler is not None:
        if plan.n > LARGEST:
            notes.append(f"the shuffler was not tested: a batch of {plan.n:,} people is too large for an audit")
        else:
            usual = SHUFFLES_COMMAND if isinstance(shuffler, ShufflerCommand) else SHUFFLES
            shuffles = usual if runs is None else min(usual, max(5, runs // 20))
            findings += examine_shuffler(shuffler, plan, shuffles, progress)
    level = (1 - confidence) / max(1, len(findings))
    return Audit(
        plan=plan,
        confidence=confidence,
        level=level,
        effort=Effort(values=COPIES, runs=int(client is not None), shuffles=shuffles, pipeline=0),
        probes=len(probes(plan)) if client is not None else 0,
        findings=findings,
        notes=notes,
        diagnoses=[_diagnosis(one) for one in findings if one.violates(level)],
    )


def probes(plan: Plan) -> list[str | None]:
    """Return the strings that a client is given: short and long ones, several alphabets, and nothing."""
    strings = plan.schema.text
    assert strings is not None
    longest = "x" * strings.max_bytes
    fitting = [text for text in TEXTS if len(text.encode()) <= strings.max_bytes]
    return [*fitting, longest, *([longest + "y"] if strings.cut else []), None]


def examine_client(client: Client, plan: Plan) -> list[Finding]:
    """Compare the rows that a client sends with those of its strings; the order of people is theirs to keep or not."""
    collection = Collection.from_values(probes(plan) * COPIES, plan.schema)
    expected = Counter(bodies(one_person(collection.rows(0, len(collection)))))
    try:
        sent = client(collection, plan)
    except (WireError, InvalidInput) as error:
        return [finding("wire", str(error), "all strings", 1.0, 0.0, 0.0)]
    wrong = sum(((expected - (found := Counter(bodies(sent.messages)))) + (found - expected)).values())
    several = int((people(sent.messages) != 1).sum()) if len(sent.messages) else 0
    return [
        finding("client", "rows that differ", "all strings", wrong, 0.0, 0.0 if wrong else 1.0),
        finding("client", "rows of several people", "all strings", several, 0.0, 0.0 if several else 1.0),
    ]


def examine_shuffler(
    shuffler: Shuffler, plan: Plan, times: int, progress: Callable[[str, int, int], None]
) -> list[Finding]:
    """Send one batch through a shuffler several times, and test what it shows."""
    counts = _counts(plan)
    reports, found = _batch(plan, counts), Shown()
    for done in range(times):
        progress("shuffling strings", done, times)
        try:
            _observe(shuffler(reports), counts, found)
        except WireError as error:
            return [finding("wire", str(error), "shuffled strings", 1.0, 0.0, 0.0)]
    return _tests(found, plan, times)


def _counts(plan: Plan) -> dict[bytes, int]:
    """Return the strings of the batch, with the numbers of people who hold them."""
    strings = plan.schema.text
    assert strings is not None
    always, half = drawn_by(plan).pmf.size, count_shown(plan, 0.5)
    numbers = [always] * MANY + [half] * SOME + [1] * SINGLE
    texts = [np.base_repr(i + 1000, 36)[-strings.max_bytes :] for i in range(len(numbers))]
    if len(set(texts)) != len(texts):  # strings of a single byte: fewer of them
        texts, numbers = [chr(33 + i) for i in range(90)], [always] * 30 + [half] * 30 + [1] * 30
    return {strings.encode(text): number for text, number in zip(texts, numbers, strict=True)}


def _batch(plan: Plan, counts: dict[bytes, int]) -> Reports:
    """Return a batch of people who hold these strings, and of others who hold none, in a fixed order."""
    assert plan.schema.text is not None
    held = np.frombuffer(b"".join(body * number for body, number in counts.items()), np.uint8)
    held = held.reshape(-1, plan.schema.text.size)
    rest = np.zeros((max(plan.n - len(held), 10), plan.schema.text.size), np.uint8)
    rows = np.concatenate([held, rest])
    return Reports(plan, one_person(rows), len(rows))


def _observe(shuffled: Reports, counts: dict[bytes, int], found: Shown) -> None:
    rows = bodies(shuffled.messages)
    shown = dict(zip(rows, people(shuffled.messages).tolist(), strict=True))
    always, half = max(counts.values()), sorted(set(counts.values()))[-2]
    found.unsorted += rows != sorted(rows)
    found.foreign += len(rows) - len(shown)
    found.foreign += sum(number > counts.get(body, 0) or body[0] == NOTHING for body, number in shown.items())
    found.subtracted.append([count - shown.get(body, 0) for body, count in counts.items() if count == always])
    found.some += sum(counts.get(body) == half for body in shown)
    found.single += sum(counts.get(body) == 1 for body in shown)


def _tests(found: Shown, plan: Plan, times: int) -> list[Finding]:
    drawn, half = drawn_by(plan), count_shown(plan, 0.5)
    numbers = np.array(found.subtracted, np.int64)
    z = (numbers.mean() - drawn.mean) / np.sqrt(drawn.variance / numbers.size)
    many = len([one for one in _counts(plan).values() if one == half])
    trials, chance = times * many, chance_shown(plan, half)
    spread = np.sqrt(max(trials * chance * (1 - chance), 1e-9))
    lone = times * len([one for one in _counts(plan).values() if one == 1])
    expected = lone * chance_shown(plan, 1)
    repeated = times - len({row.tobytes() for row in numbers})
    lost = float(poisson_p(found.single, expected)) if found.single > expected else 1.0
    return [
        finding(
            "shuffler", "mean of what is subtracted", "frequent strings", numbers.mean(), drawn.mean, float(normal_p(z))
        ),
        _fit(numbers.reshape(-1), drawn.pmf),
        finding(
            "shuffler", "strings shown near the threshold", f"{half:,} holders", found.some / trials, chance,
            float(normal_p((found.some - trials * chance) / spread)),
        ),
        finding("shuffler", "strings of one person shown", "single holders", found.single, expected, lost),
        finding("shuffler", "rows that nobody sent", "all runs", found.foreign, 0.0, 0.0 if found.foreign else 1.0),
        finding("shuffler", "order of the rows", "all runs", found.unsorted, 0.0, 0.0 if found.unsorted else 1.0),
        finding("shuffler", "repeated draws", "all runs", repeated, 0.0, 0.0 if repeated else 1.0),
    ]  # fmt: skip


def _fit(numbers: NDArray[np.int64], pmf: NDArray[np.float64]) -> Finding:
    """Test the distribution of what is subtracted, in bins of about equal probability."""
    cumulative = np.cumsum(pmf)
    edges = np.unique(np.searchsorted(cumulative, np.arange(1, BINS) / BINS))
    place = np.searchsorted(edges, np.arange(pmf.size), side="left")
    share = np.bincount(place, weights=pmf)
    counts = np.bincount(np.searchsorted(edges, numbers, side="left"), minlength=share.size)
    mean = numbers.size * share / share.sum()
    value = float(((counts - mean) ** 2 / mean).sum())
    worst = int(np.argmax(np.abs(counts - mean) / np.sqrt(mean)))
    p = float(chi_square_p(value, share.size - 1, both=False)) if share.size > 1 else 1.0
    where = f"part {worst + 1} of {share.size}"
    return finding(
        "shuffler", "distribution of what is subtracted", where, counts[worst] / numbers.size, share[worst], p
    )


def _diagnosis(one: Finding) -> Diagnosis:
    """Return the defect that a violated test shows."""
    figures = f"observed {one.observed:.4g}, expected {one.allowed:.4g}"
    if one.part == "wire":
        return Diagnosis("illegal messages", f"illegal messages: {one.name}", one.p)
    if one.part == "client":
        return Diagnosis("other", f"the client does not send the strings it is given: {one.name}, {figures}", one.p)
    if "subtracted" in one.name or "shown" in one.name:
        return Diagnosis(
            "distribution of fakes", f"the shuffler does not subtract as planned: {one.name}, {figures}", one.p
        )
    return Diagnosis("shuffler", f"the shuffler shows what it must hide: {one.name}, {figures}", one.p)
