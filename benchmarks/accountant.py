"""Tightness and speed of the accountant: ``python -m benchmarks.accountant [--json]``.

Prints one flat object. Times are the smallest of three runs, in CPU time of the process, so that other load does not
count.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from benchmarks.grid import clear_caches, settings
from hubbub.accountant import account, calibrate, quadrature
from hubbub.accountant.theorems import attacks, bit, fakes, records, split
from hubbub.checker import verify
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from

DELTA = 1e-6
BUDGET = Budget(1.0, DELTA)
Result = TypeVar("Result")


def seconds(job: Callable[[], Result], runs: int = 3) -> tuple[float, Result]:
    """Return the smallest CPU time of several runs, and the last result."""
    spent = []
    for _ in range(runs):
        start = time.process_time()
        result = job()
        spent.append(time.process_time() - start)
    return min(spent), result


def single_bits() -> dict[str, float]:
    """Certified ε over all collections, for n = 10³ … 10⁹ and q = 0.001 … 0.45."""
    gaps, times = [], []
    for n in (10**exponent for exponent in range(3, 10)):
        for q in (0.001, 0.01, 0.1, 0.25, 0.333, 0.45):
            spent, (lower, upper) = seconds(lambda n=n, q=q: bit.certified_epsilon(n, q, DELTA))  # type: ignore[misc]
            gaps.append(upper / lower - 1)
            times.append(1e3 * spent)
    return {"bit_gap_max": max(gaps), "bit_median_ms": statistics.median(times), "bit_max_ms": max(times)}


def copies() -> dict[str, float]:
    """sup δ to 1 % for k copies at five standard deviations."""
    times = []
    for n, k in ((10**3, 5), (10**6, 10), (10**9, 20)):
        epsilon = 5 * math.sqrt(k / (n * 0.09)) * 0.8
        times.append(seconds(lambda n=n, k=k, e=epsilon: bit.supremum(n, 0.1, e, k, tolerance=0.01))[0])  # type: ignore[misc]
    return {"copies_max_ms": 1e3 * max(times)}


def clear_fakes() -> dict[str, float]:
    """Exact δ of clear records among uniform fakes, up to d = 10⁵ and m = 10⁷."""
    cases = [(d, m) for d in (2, 10, 1000, 10**5) for m in (10**3, 10**5, 10**7)]
    times = [seconds(lambda d=d, m=m: fakes.uniform_delta(1.0, m, d))[0] for d, m in cases]  # type: ignore[misc]
    return {"clear_fake_max_ms": 1e3 * max(times)}


def quadratures() -> dict[str, float]:
    """Width and cost of the brackets: blankets and backgrounds of up to 8 bits, and 40 bits at N = 10⁷."""
    gaps, times = [], []
    for width in range(1, 9):
        for n, q in ((10**3, 0.25), (10**4, 0.2), (10**6, 0.1), (10**8, 0.05)):
            kind = (width, 0, 0)
            atoms = [attacks.background(kind, q, 0.5), attacks.background(kind[::-1], q, 0.5)]
            for values, weights in [*atoms, records.uniform_blanket(width, q, 0.5)]:
                spent, found = seconds(lambda v=values, w=weights, n=n: quadrature.positive_mean(v, w, n))  # type: ignore[misc]
                if found.lower > -math.inf:
                    gaps.append(math.expm1(found.upper - found.lower))
                    times.append(1e3 * spent)
    heavy = [
        seconds(lambda q=q, e=e: quadrature.positive_mean(*records.uniform_blanket(40, q, e), 10**7), 1)[0]  # type: ignore[misc]
        for q, e in ((0.351, 2.0), (0.3835, math.log(2)), (0.393, math.log(2)))
    ]
    return {
        "engine_gap_max": max(gaps),
        "engine_median_ms": statistics.median(times),
        "engine_40_bits_s": max(heavy),
    }


def split_bits() -> dict[str, float]:
    """Certified ε of split one-hot records, with empty caches."""

    def fresh(n: int, q: float) -> float:
        clear_caches()
        return split.positions(n, q, 1, 2).epsilon(DELTA)

    cases = ((10**4, 0.1), (10**5, 5e-4), (10**6, 0.01), (10**7, 5e-6))
    times = [seconds(lambda n=n, q=q: fresh(n, q), 2)[0] for n, q in cases]  # type: ignore[misc]
    return {"split_one_hot_s": max(times)}


def calibrations() -> dict[str, float]:
    """The smallest noise at (1, 10⁻⁶) for every protocol and kind of schema, including the final account."""
    one_hot, bits, few = Schema.one_hot(100), Schema.bits(13), Schema.at_most(10, 1650)
    jobs: list[Callable[[], object]] = []
    for schema, n in ((Schema.bits(1), 10**6), (one_hot, 10**5), (bits, 10**6), (Schema.bits(40), 10**7), (few, 10**7)):
        for k in (1, 4):
            jobs.append(lambda s=schema, n=n, k=k: calibrate(s, n, BUDGET, k=k))  # type: ignore[misc]
            jobs.append(lambda s=schema, n=n, k=k: calibrate(s, n, BUDGET, k=k, release="bits"))  # type: ignore[misc]
        jobs.append(lambda s=schema, n=n: calibrate(s, n, BUDGET, m=1000))  # type: ignore[misc]
        jobs.append(lambda s=schema, n=n: calibrate(s, n, BUDGET, trust="nobody"))  # type: ignore[misc]
    jobs += [
        lambda: calibrate(one_hot, 10**5, BUDGET, release="category"),
        lambda: calibrate(one_hot, 10**5, BUDGET, q=0, m=None),
        lambda: calibrate(Schema.one_hot(10**5), 10**5, BUDGET, q=0, m=None),
        lambda: calibrate(bits, 10**5, BUDGET, q=0, m=None, release="bits"),
        lambda: calibrate(one_hot, 10**5, BUDGET, q=0.01, m=None),
        lambda: calibrate(one_hot, 10**5, BUDGET, m=Fakes.poisson(0.01)),
        lambda: calibrate(one_hot, 10**5, BUDGET, q=0, m=Fakes.laplace(2.0, 0)),
        lambda: calibrate(bits, 10**5, BUDGET, q=0, m=Fakes.gaussian(16.0, 0), release="bits"),
        lambda: calibrate(one_hot, None, BUDGET, q=0.01),
        lambda: calibrate(one_hot, None, BUDGET, q=0.001, release="bits"),
    ]
    times = []
    for job in jobs:
        clear_caches()
        times.append(seconds(job, 1)[0])
    return {"calibrate_max_s": max(times)}


RECORDS = (
    (Schema.bits(5), 10**3, 0.2446),
    (Schema.bits(5), 10**5, 0.1467),
    (Schema.bits(3), 2 * 10**4, 0.15),
    (Schema.bits(8), 10**7, 0.1493),
    (Schema.bits(13), 10**6, 0.2842),
    (Schema.bits(40), 10**7, 0.3835),
    (Schema.at_most(3, 40), 10**5, 0.1932),
    (Schema.one_hot(40), 10**3, 0.25),
)
"""Whole records: schema, people and flip probability."""
CONTRACTS: tuple[tuple[Schema, int, Protocol], ...] = (
    (Schema.bits(1), 1000, Protocol(0.1)),
    (Schema.one_hot(2), 1000, Protocol(0.1, release="category")),
    (Schema.one_hot(20), 1000, Protocol(0.02, release="category")),
    (Schema.one_hot(20), 1000, Protocol(0.05, release="bits")),
    (Schema.bits(2), 20, Protocol(0.2)),
    (Schema.one_hot(10), 1000, Protocol(0.0, m=500)),
    (Schema.one_hot(10), 1000, Protocol(0.0, m=Fakes.binomial(4, 0.25))),
    (Schema.one_hot(10), 1000, Protocol(0.0, m=Fakes.laplace(2.0, 25))),
    (Schema.bits(4), 1000, Protocol(0.0, m=Fakes.gaussian(16.0, 100), release="bits")),
)
"""One plan for every protocol whose claim the independent checker confirms."""


def whole_records() -> dict[str, float]:
    """Certified ε of whole records at δ = 10⁻⁶, relative to the ε of the worst homogeneous crowd."""
    found = [account(Protocol(q), schema, n, delta=DELTA) for schema, n, q in RECORDS]
    return {"records_ratio_max": max(one.epsilon / one.lower_bound for one in found)}


def grid() -> dict[str, float]:
    """The slowest settings of the stored grid: everything but wide whole records, and those."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for setting in settings():
        times[setting.wide].append(setting.seconds())
    return {"grid_max_s": max(times[False]), "grid_wide_max_s": max(times[True])}


def verifications() -> dict[str, float]:
    """The independent checker on one plan of every kind that it confirms."""
    plans = [plan_from(schema, n, protocol, delta=DELTA) for schema, n, protocol in CONTRACTS]
    return {"verify_max_s": max(seconds(lambda one=one: verify(one.to_json()), 1)[0] for one in plans)}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one flat JSON object instead of a table")
    options = parser.parse_args()
    found: dict[str, float] = {}
    parts = (
        single_bits,
        copies,
        clear_fakes,
        quadratures,
        split_bits,
        calibrations,
        whole_records,
        grid,
        verifications,
    )
    for part in parts:
        found |= part()
    if options.json:
        print(json.dumps({name: float(f"{value:.4g}") for name, value in found.items()}, indent=1))
    else:
        for name, value in found.items():
            print(f"{name:20s} {value:.4g}")


if __name__ == "__main__":
    main()
