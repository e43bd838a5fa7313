"""The accounts after a crash test: what was acknowledged is counted once, or named by a gap or an uncertain answer."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.service.live import LiveSystem, counted

from hubbub.service.runtime.database import open_database
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Gap


@dataclass(frozen=True, slots=True)
class Entry:
    """The bundles of one task in a store: all that were ever accepted, and those of buckets that are not delivered."""

    accepted: int = 0
    undelivered: int = 0


Books = dict[str, Entry]
"""The entries of a store by task."""


def read_books(url: str) -> Books:
    """Return the books of a shuffler's store that no process uses."""
    with contextlib.closing(open_database(url)) as database:
        numbers = {number: bytes(task).hex() for number, task in database.rows("SELECT number, id FROM tasks")}
        accepted = dict(database.rows("SELECT task, COUNT(*) FROM accepted_bundles GROUP BY task"))
        query = "SELECT task, CAST(SUM(bundles) AS BIGINT) FROM {} GROUP BY task"
        waiting = dict(database.rows(query.format("counts")))
        states = "(SELECT * FROM buckets WHERE state IN ('sealed', 'shuffled')) b"
        sealed = dict(database.rows(query.format(states)))
    return {
        task: Entry(accepted.get(number, 0), waiting.get(number, 0) + sealed.get(number, 0))
        for number, task in numbers.items()
    }


def read_gaps(url: str, contract: Contract) -> list[Gap]:
    """Return the gaps of a task in a shuffler's store, whose signatures must be the shuffler's."""
    query = "SELECT g.document FROM gaps g JOIN tasks t ON t.number = g.task WHERE t.id = ? ORDER BY g.first"
    with contextlib.closing(open_database(url)) as database:
        documents = [bytes(row[0]) for row in database.rows(query, contract.task)]
    found = []
    for document in documents:
        names = ("task", "first", "last", "bundles", "reason")
        fields = SignedDocument.from_json(document).read(contract.shuffler, "gap", *names)
        assert fields.text("task") == contract.id
        found.append(Gap(fields.whole("first"), fields.whole("last"), fields.whole("bundles"), fields.text("reason")))
    return found


@dataclass
class Figures:
    """The figures of all tasks together."""

    lost: int = 0
    """Acknowledged values that were not counted, and that no restore explains."""
    doubled: int = 0
    in_gaps: int = 0
    """Acknowledged values, and padding, that a restored store lost; their tasks have signed gaps."""
    gap_bundles: int = 0
    """Bundles that signed gaps name as discarded: a part of them was counted before the restore."""
    uncertain: int = 0
    uncertain_counted: int = 0
    conservation_error: int = 0
    batches: int = 0


def audit(
    system: LiveSystem,
    said: Mapping[str, Any],
    each: int,
    tasks: int,
    spares: int,
    restores: Sequence[tuple[Books, Books]],
) -> dict[str, Any]:
    """Compare results, stores and clients; return the figures, or fail.

    Without a restore, every value is counted once, and the shuffler accepted exactly what the clients were told. A
    restore may lose what was acknowledged before it and not delivered, but nothing of that silently.
    """
    figures = Figures()
    checked = system.command("shuffler", "check")["tasks"]
    for number in range(tasks):
        contract = system.contracts[number]
        mine = [(before[contract.id], after[contract.id]) for before, after in restores]
        _audit_task(system, contract, said, number, each, checked[contract.id], mine, figures)
    for contract in system.contracts[tasks : tasks + spares]:
        where = checked[contract.id]
        # A restored store may know neither that the task was closed nor its bundles.
        assert where["expired"] + where["fenced"] == where["accepted"] == 10 or restores, where
        assert system.results(contract) == []
    figures.conservation_error = sum(abs(one["error"]) for one in checked.values())
    assert (figures.lost, figures.doubled, figures.conservation_error) == (0, 0, 0), figures
    clients = {name: count for name, count in said.items() if isinstance(count, int) and name != "uncertain"}
    return {**vars(figures), **{f"clients_{name}": count for name, count in clients.items()}}


def _audit_task(
    system: LiveSystem,
    contract: Contract,
    said: Mapping[str, Any],
    number: int,
    each: int,
    where: Mapping[str, int],
    restores: Sequence[tuple[Entry, Entry]],
    figures: Figures,
) -> None:
    results = system.results(contract)
    total = counted(results, each + 1)
    states = np.frombuffer(said["states"][number].encode(), "S1")
    assert len(states) == each
    assert not np.any(states == b"o"), "a report was never settled"
    never = total[:each] == 0
    missing_values = int(np.count_nonzero(never & (states == b"b")))
    figures.lost += int(np.count_nonzero(never & (states == b"a")))
    figures.doubled += int(np.count_nonzero(total[:each] > 1))
    doubtful = states == b"u"
    uncertain = int(np.count_nonzero(doubtful)) + said["doubtful"][number]
    figures.uncertain += uncertain
    figures.uncertain_counted += int(np.count_nonzero(doubtful & ~never))
    figures.batches += len(results)
    assert where["outbox"] == where["sealed"] == where["expired"] == where["withheld"] == 0, where
    # The books: everything that was ever accepted, in any life of the store, is counted, open or missing.
    accepted = where["accepted"] + sum(before.accepted - after.accepted for before, after in restores)
    acknowledged = int(np.count_nonzero(~doubtful)) + said["padded"][number]
    assert acknowledged <= accepted <= acknowledged + uncertain, "other bundles were accepted than sent"
    missing = accepted - int(total.sum()) - where["open"]
    assert 0 <= missing <= sum(before.undelivered for before, _ in restores), "more is missing than was in transit"
    assert missing_values <= missing, "counted and missing values do not add up"
    figures.in_gaps += missing
    gaps = read_gaps(system.store_url(), contract)
    assert sum(gap.bundles for gap in gaps) == where["fenced"], (gaps, where)
    figures.gap_bundles += where["fenced"]
    if restores:
        assert any(gap.reason == "restored" for gap in gaps), "a restore is not named"
    else:
        assert gaps == []
        assert int(total[each]) + where["open"] == said["padded"][number], "padding was lost or duplicated"
