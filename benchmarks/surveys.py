"""Errors and planning times of surveys: ``python -m benchmarks.surveys [--json]``.

All errors are those of certified plans at (1, 10⁻⁶) and n = 10⁵, from the noise alone, with the shuffler's fakes unless
said:

- ``sum_ranges``: the sum of numbers of 256 levels in ranges, with 4 messages; ``sum_ranges_users`` by randomized
  response, with exactly 8 messages;
- ``cdf64_rms``, ``cdf256_rms``, ``cdf1024_rms``: people below an edge, root mean square over all edges;
- ``ten_questions``: one count of ten choices of five answers; ``forty_flags``: one count of forty flags.

``…_messages`` is the number of messages of every user. Each error has two figures of other trust models beside it, by
the formulas of the literature:

- ``…_central``: a trusted curator with the same budget, who adds Laplace or Gaussian noise, whichever is better; for
  distribution functions the square-root factorization (Fichtenberger, Henzinger and Upadhyay 2023) with Gaussian noise;
- ``…_local``: local differential privacy with ε = 1, where everybody answers one question or one level of a tree: the
  hybrid mechanism for sums (Wang et al. 2019), optimal unary encoding or randomized response for counts (Wang et al.
  2017). Sampling of the question is not included. ``…_local_plan`` is that of hubbub's own plan without any trust, in
  which everybody answers everything.

``plan_max_s`` is the longest processor time that ``hubbub.plan`` took for one of them.

The throughput of surveys is in ``benchmarks.pipeline``.
"""

import argparse
import itertools
import json
import math
import time
from typing import Unpack

import numpy as np

import hubbub as hb
from hubbub.mechanisms.design import mean_square, own_effects
from hubbub.numeric.divergences import gaussian_signal
from hubbub.planner.request import Constraints

Figures = dict[str, float]

BUDGET = hb.Budget(1.0, 1e-6)
N = 100_000
SUM = hb.Schema.survey({"x": hb.Number(0, 1, digits=[4] * 4)})
BITS = hb.Schema.survey({"x": hb.Number(0, 1, digits=[2] * 8)})
SURVEYS = {
    "cdf64_rms": hb.Schema.survey({"x": hb.Scale(0, 64, buckets=64)}),
    "cdf256_rms": hb.Schema.survey({"x": hb.Scale(0, 256, buckets=256)}),
    "cdf1024_rms": hb.Schema.survey({"x": hb.Scale(0, 1024, buckets=1024)}),
    "ten_questions": hb.Schema.survey({f"question {i}": hb.Choice(list("abcde")) for i in range(10)}),
    "forty_flags": hb.Schema.survey({f"flag {i}": hb.Flag() for i in range(40)}),
}


def noise_error(plan: hb.Plan) -> float:
    """Return the error of the noise without the rounding of numbers."""
    errors = hb.question_errors(plan)
    question = plan.schema.questions
    assert question is not None
    first = question[errors[0].question]
    people = errors[0].people
    if isinstance(first, hb.Number):
        people = math.sqrt(people**2 - plan.n / 4 / (first.levels - 1) ** 2)
    return people


def central_gaussian(sensitivity: float) -> float:
    return sensitivity / gaussian_signal(BUDGET.epsilon, BUDGET.delta)


def central_cdf(buckets: int) -> float:
    """Return the root mean square error of the square-root factorization, with the sum of all buckets known.

    The matrix of all prefix sums is the square of the lower triangular one of the coefficients of (1 − x)^(−1/2), of
    which a change of one record moves two columns.
    """
    row = np.cumprod(np.r_[1.0, (2 * np.arange(1, buckets) - 1) / (2 * np.arange(1, buckets))])
    root = np.array([np.r_[row[i::-1], np.zeros(buckets - 1 - i)] for i in range(buckets)])
    moved = max(float(np.linalg.norm(root[:, i] - root[:, j])) for i in (0,) for j in range(1, buckets))
    errors = np.linalg.norm(root, axis=1)[:-1]
    return central_gaussian(moved) * math.sqrt(float((errors**2).mean()))


CENTRAL = {
    "sum_ranges": math.sqrt(2.0),
    "cdf64_rms": central_cdf(64),
    "cdf256_rms": central_cdf(256),
    "cdf1024_rms": central_cdf(1024),
    "ten_questions": central_gaussian(math.sqrt(20 * 0.8)),
    "forty_flags": central_gaussian(math.sqrt(80 * 0.5)),
}


def local_cdf(buckets: int) -> float:
    """Return the root mean square error of a tree of which everybody answers one level, with the best fan-out."""
    e = math.exp(BUDGET.epsilon)
    found = []
    for fanout in (2, 4, 8, 16, 64):
        widths = [fanout**i for i in range(20) if fanout**i < buckets and buckets % fanout**i == 0][::-1]
        if any(wide % fine for wide, fine in itertools.pairwise([buckets, *widths])):
            continue
        question = hb.Scale(0, buckets, buckets=buckets, levels=widths)
        precision = 1 / (len(widths) * N * 4 * e / (e - 1) ** 2)
        parts = own_effects("x", question, range(len(widths)))
        found.append(mean_square(parts, [precision] * len(widths))["x"])
    return math.sqrt(min(found))


def local_count(questions: int, answers: int) -> float:
    e = math.exp(BUDGET.epsilon)
    return math.sqrt(questions * N * min(answers - 2 + e, 4 * e)) / (e - 1)


def local_sum() -> float:
    """Return the error of a sum by the hybrid mechanism for ε above 0.61, at its largest, in ranges."""
    root, e = math.exp(BUDGET.epsilon / 2), math.exp(BUDGET.epsilon)
    piecewise = (root + 3) / (3 * root * (root - 1))
    return math.sqrt(N * (piecewise + (e + 1) ** 2 / (root * (e - 1) ** 2))) / 2


LOCAL = {
    "sum_ranges": local_sum(),
    "cdf64_rms": local_cdf(64),
    "cdf256_rms": local_cdf(256),
    "cdf1024_rms": local_cdf(1024),
    "ten_questions": local_count(10, 5),
    "forty_flags": local_count(40, 2),
}


class Clock:
    """Plans, and the longest processor time of one of them."""

    def __init__(self) -> None:
        self.longest = 0.0

    def plan(self, schema: hb.Schema, **constraints: Unpack[Constraints]) -> hb.Plan:
        start = time.process_time()
        plan = hb.plan(schema, N, BUDGET, **constraints)
        self.longest = max(self.longest, time.process_time() - start)
        return plan


def errors() -> Figures:
    found: Figures = {}
    clock = Clock()
    for name, schema in {"sum_ranges": SUM, **SURVEYS}.items():
        plan = clock.plan(schema, trust="shuffler-noise")
        found[name] = noise_error(plan)
        found[f"{name}_central"] = CENTRAL[name]
        found[f"{name}_local"] = LOCAL[name]
        found[f"{name}_local_plan"] = noise_error(clock.plan(schema, trust="nobody"))
        found[f"{name}_messages"] = float(hb.cost(plan).messages or 0)
    users = clock.plan(BITS, max_messages=8)
    found["sum_ranges_users"] = noise_error(users)
    found["sum_ranges_users_messages"] = float(hb.cost(users).messages or 0)
    flags = clock.plan(SURVEYS["forty_flags"], max_messages=40)
    found["forty_flags_users"] = noise_error(flags)
    found["plan_max_s"] = clock.longest
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    figures = errors()
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:28} {value:.4g}")


if __name__ == "__main__":
    main()
