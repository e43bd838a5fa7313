"""Errors, planning times and throughput of surveys: ``python -m benchmarks.surveys [--json] [--quick]``.

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

- ``plan_max_s``: the longest processor time that ``hubbub.plan`` took for one of them;
- ``survey_vs_bits``: records per second of a survey of 8 attributes through the local pipeline, over those of 40 bits;
- ``device_us``: processor time of one record of that survey on a device.
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable
from typing import Unpack

import numpy as np

import hubbub as hb
from hubbub import device
from hubbub.numeric.divergences import gaussian_signal
from hubbub.planner.request import Constraints
from hubbub.surveys.design import mean_square, own_effects

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
EIGHT = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue", "black", "white"]),
        "plan": hb.Choice(["free", "paid", "trial"]),
        "dark mode": hb.Flag(),
        "logged in": hb.Flag(),
        "load time": hb.Scale(0, 4096, buckets=64, levels=[8, 1]),
        "memory": hb.Number(0, 65_536, digits=[16, 16]),
    }
)


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


def best_of(work: Callable[[], object], times: int = 3) -> float:
    found = math.inf
    for _ in range(times):
        start = time.process_time()
        work()
        found = min(found, time.process_time() - start)
    return found


def throughput(n: int) -> Figures:
    rng = np.random.default_rng(1)
    survey = hb.plan(EIGHT, n, BUDGET, trust="shuffler-noise")
    bits = hb.plan_from(hb.Schema.bits(40), n, hb.Protocol(0.1778), epsilon=1.0)
    columns = {
        "colour": rng.choice(["red", "green", "blue", "black", "white"], n),
        "plan": rng.choice(["free", "paid", "trial"], n),
        "dark mode": rng.random(n) < 0.3,
        "logged in": rng.random(n) < 0.9,
        "load time": rng.lognormal(6.0, 0.8, n),
        "memory": rng.gamma(2.0, 8000.0, n),
    }
    answers = hb.Collection.from_values(columns, survey.schema)
    records = hb.Collection.from_packed(rng.integers(0, 256, (n, 5), np.uint8), bits.schema)
    own = best_of(lambda: hb.estimate_survey(hb.tally(hb.shuffle(hb.randomize(answers, survey))), survey))
    peer = best_of(lambda: hb.estimate(hb.tally(hb.shuffle(hb.randomize(records, bits))), bits))
    one = {name: column[0].item() for name, column in columns.items()}
    one["colour"], one["plan"] = str(columns["colour"][0]), str(columns["plan"][0])
    times = 2000
    spent = best_of(lambda: [device.payloads(one, survey) for _ in range(times)])
    return {"survey_vs_bits": peer / own, "device_us": 1e6 * spent / times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    given = parser.parse_args()
    figures = {**errors(), **throughput(100_000 if given.quick else 1_000_000)}
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:28} {value:.4g}")


if __name__ == "__main__":
    main()
