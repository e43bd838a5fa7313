"""Studies of a million and a billion people: ``python -m benchmarks.study [--json] [--quick]``.

Twenty protocols that meet ε = 1, δ = 10⁻⁶ for schemas of all three kinds, each simulated fifty times on a Zipf
population as ``hubbub study`` does, with one process per processor:

- ``records_s``: a million people through the whole pipeline, every record randomized, shuffled and counted;
- ``counts_s``: the same with counts drawn from their distribution, including the start of processes;
- ``records_cpu_s``, ``counts_cpu_s``: processor time of all processes, which depends less on other load;
- ``plan_s``: time of the planner, for comparison;
- ``billion_s`` and ``billion_worst_s``: a billion people by counts in this process, mean and maximum over the plans,
  including the statistics.

Protocols have at most four copies: 32 copies of a million people are 32 million records, and fifty repetitions of them
take minutes (``copies_s`` is one repetition of one such plan on one processor).
"""

import argparse
import itertools
import json
import resource
import time
from collections.abc import Callable

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.lab.cells import Cell, Level, measure
from hubbub.lab.populations import Population
from hubbub.lab.simulation import tallies_by_records
from hubbub.lab.study import Grid, processors, run

Figures = dict[str, float]

PROTOCOLS, REPETITIONS = 20, 50
SCHEMAS = (hb.Schema.one_hot(12), hb.Schema.bits(8), hb.Schema.at_most(2, 12))
BUDGET = hb.Budget(1.0, 1e-6)
PEOPLE = Population(exponent=1.0)


def plans(n: int) -> tuple[hb.Plan, ...]:
    """Return protocols of all schemas in turn."""
    found = [hb.frontier(schema, n, BUDGET) for schema in SCHEMAS]
    chosen = [
        plan
        for row in itertools.zip_longest(*found)
        for plan in row
        if plan is not None and plan.protocol.k <= 4 and plan.payload_messages <= 8
    ]
    assert len(chosen) >= PROTOCOLS, len(chosen)
    return tuple(chosen[:PROTOCOLS])


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spent() -> float:
    """Return the processor time of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def one_copied(n: int) -> float:
    """Time one repetition of 32 copies."""
    plan = hb.plan_from(SCHEMAS[1], n, hb.Protocol(0.45, 32), epsilon=5.0)
    people = PEOPLE.people(plan.schema, n, entropy=SeededStreamNotForPeople(1))
    return timed(lambda: list(tallies_by_records(people, plan, 1, entropy=SeededStreamNotForPeople(2))))


def measure_all(n: int, large: int, repetitions: int) -> Figures:
    start = time.perf_counter()
    chosen = plans(n)
    planning = time.perf_counter() - start

    def study(level: Level) -> tuple[float, float]:
        grid = Grid(plans=chosen, populations=(PEOPLE,), repetitions=repetitions, level=level)
        before = spent()
        wall = timed(lambda: run(grid, jobs=processors()))
        return wall, spent() - before

    counts, records = study("counts"), study("records")
    cells = [
        Cell(plan=plan, population=PEOPLE, n=large, repetitions=repetitions, level="counts", seed=0)
        for plan in plans(large)
    ]
    billion = [timed(lambda cell=cell: measure(cell)) for cell in cells]  # type: ignore[misc]
    return {
        "processors": processors(),
        "plan_s": planning,
        "counts_s": counts[0],
        "counts_cpu_s": counts[1],
        "records_s": records[0],
        "records_cpu_s": records[1],
        "records_per_s": len(chosen) * repetitions * n / records[0],
        "copies_s": one_copied(n),
        "billion_s": sum(billion) / len(billion),
        "billion_worst_s": max(billion),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one flat object instead of lines")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the people and ten repetitions")
    asked = parser.parse_args()
    figures = measure_all(10**4, 10**7, 10) if asked.quick else measure_all(10**6, 10**9, REPETITIONS)
    if asked.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20} {value:.4g}")


if __name__ == "__main__":
    main()
