"""Comparisons of identical populations: ``python -m benchmarks.unchanged [--json] [--pairs 2000]``.

- ``named_survey``: share of the pairs of surveys in which *anything* is called different, by the sentence about
  questions or in the row of a label, cell, number or scale: a choice of 60 labels, a flag, a scale, a number, and 120
  cells;
- ``named_labels``: the same for as many pairs of collections of 200 labels, most of them rare; ``named_flips`` and so
  on for a fifth of them, by their protocol;
- ``found_survey``: share of a tenth as many pairs in which a flag that rose from 20 % to 23 % is named, and
  ``wrong_survey`` in which something else is.

Both batches have different sizes. Messages are drawn from their exact distributions, and estimated by the package. The
rates promised are at most 5 %.
"""

import argparse
import functools
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.numeric.population import CountNoise

Rng = np.random.Generator
Counts = NDArray[np.int64]
_ANY = hb.plan_from(hb.Schema.bits(1), 1, hb.Protocol(0.25), delta=1e-6)
SIZES = 6000, 9000
LABELS = hb.Schema.one_hot(200)
SCALE = Scale(0, 16, buckets=16, levels=[4, 1])
NUMBER = Number(0, 100, digits=[4, 4])
SURVEY: dict[str, Question] = {
    "country": Choice([f"country {place}" for place in range(60)]),
    "dark mode": Flag(),
    "load time": SCALE,
    "memory": NUMBER,
    "system": Choice([f"system {place}" for place in range(6)]),
    "theme": Choice([f"theme {place}" for place in range(20)]),
    "system by theme": Cross("system", "theme"),
}
NOISE = {
    "fakes": hb.Noise(m=hb.Fakes.laplace(4.0, 60)),
    "users": hb.Noise(m=hb.Fakes.poisson(0.5)),
    "flips": hb.Noise(0.004),
}
PROTOCOLS = {
    "flips": hb.Protocol(0.002, release="bits"),
    "copies": hb.Protocol(0.001, 3, release="bits"),
    "users": hb.Protocol(0.0, m=hb.Fakes.poisson(0.2)),
    "fakes": hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 35)),
    "response": hb.Protocol(0.0005, release="category"),
}


def falling(size: int) -> NDArray[np.float64]:
    """Return shares like those of countries: some frequent labels, many rare ones."""
    shares = np.arange(1, size + 1) ** -1.3
    return np.asarray(shares / shares.sum())


def survey_plan(noise: str) -> hb.Plan:
    """Return a plan whose guarantee is not computed: results do not depend on it."""
    schema = hb.Schema.survey(SURVEY)
    return replace(_ANY, schema=schema, protocol=hb.Protocol.survey([NOISE[noise]] * len(schema.attributes)))


def people(n: int, rng: Rng, flag: float) -> list[Counts]:
    """Return how many of n people drawn from the population are in each category of every attribute of the survey."""
    cells = rng.multinomial(n, np.multiply.outer(falling(6), falling(20)).ravel()).reshape(6, 20)
    buckets = rng.multinomial(n, falling(16))
    level = rng.binomial(15, 0.3, n)
    yes = rng.binomial(n, flag)
    return [
        rng.multinomial(n, falling(60)),
        np.array([yes, n - yes]),
        *(buckets.reshape(-1, width).sum(axis=1) for width in SCALE.widths),
        *(np.bincount(digit, minlength=4) for digit in (level % 4, level // 4)),
        cells.sum(axis=1),
        cells.sum(axis=0),
        cells.ravel(),
    ]


def messages(truth: Counts, noise: hb.Noise, rng: Rng) -> Counts:
    """Return the number of messages of every category of an attribute."""
    n, size = int(truth.sum()), truth.size
    if noise.shuffler_fakes is not None:
        return truth + drawn(noise.shuffler_fakes, size, rng)
    if noise.user_fakes is not None:
        return truth + rng.multinomial(rng.poisson(n * noise.user_fakes.mean), np.full(size, 1 / size))
    return rng.binomial(truth, 1 - noise.q) + rng.binomial(n - truth, noise.q)


def drawn(fakes: hb.Fakes, size: int, rng: Rng) -> Counts:
    """Return draws of the shuffler's fakes."""
    return np.searchsorted(np.cumsum(fakes.pmf) / fakes.pmf.sum(), rng.random(size))


def tally(plan: hb.Plan, n: int, counts: Counts, fakes: int = 0) -> hb.Tally:
    """Return the tally of one batch."""
    counts.setflags(write=False)
    sent = plan.protocol.own_messages * n + fakes
    return hb.Tally(plan=plan.id, n=n, fakes=0, messages=sent, batches=1, smallest_batch=n, counts=counts)


def surveyed(plan: hb.Plan, n: int, rng: Rng, flag: float = 0.2) -> hb.Result:
    """Return the estimate of n people."""
    truth = people(n, rng, flag)
    assert [one.size for one in truth] == [one.size for one in plan.schema.attributes]
    sent = [messages(one, noise, rng) for one, noise in zip(truth, plan.protocol.noise, strict=True)]
    return hb.estimate(tally(plan, n, np.concatenate(sent)), plan)


def counted(plan: hb.Plan, n: int, rng: Rng) -> hb.LabelView:
    """Return the estimate of 200 labels of n people."""
    protocol, size = plan.protocol, LABELS.width
    truth, fakes = rng.multinomial(n, falling(size)), 0
    if protocol.sends_category:
        moved = rng.binomial(truth, size * protocol.q)
        sent = truth - moved + rng.multinomial(int(moved.sum()), np.full(size, 1 / size))
    elif protocol.user_fakes:
        fakes = int(rng.poisson(n * protocol.user_fakes.mean))
        sent = truth + rng.multinomial(fakes, np.full(size, 1 / size))
    elif protocol.shuffler_fakes:
        sent = truth + drawn(protocol.shuffler_fakes, size, rng)
    else:
        k, q = protocol.k, protocol.q
        sent = rng.binomial(k * truth, 1 - q) + rng.binomial(k * (n - truth), q)
    found: hb.LabelView = hb.estimate(tally(plan, n, sent.astype(np.int64), fakes), plan).question
    return found


def names(found: hb.Comparison) -> set[str]:
    """Return the questions that are called different, by the sentence or by a row."""
    rows = {name for name, one in found.questions if np.any(one.significant)}
    return rows | set(found.significant)


def pair_of_surveys(noise: str, seed: int, flag: float = 0.2) -> set[str]:
    """Return the questions that are named if a flag is set by 20 % of one population and another share of the other."""
    rng, plan = np.random.default_rng([seed, *noise.encode()]), survey_plan(noise)
    return names(hb.compare(surveyed(plan, SIZES[0], rng), surveyed(plan, SIZES[1], rng, flag)))


def pair_of_labels(name: str, seed: int) -> bool:
    """Return True if any label of two batches of the same population is called different."""
    rng = np.random.default_rng([seed, *name.encode()])
    plan = replace(_ANY, schema=LABELS, protocol=PROTOCOLS[name])
    a, b = (counted(plan, n, rng) for n in SIZES)
    if not plan.protocol.user_fakes:  # the same noise every time: what is computed from it is kept
        a, b = (replace(one, noise=_noise(name, one.n, one.noise)) for one in (a, b))
    return bool(hb.compare(a, b).significant.any())


@functools.cache
def _kept() -> dict[tuple[str, int], CountNoise]:
    return {}


def _noise(name: str, n: int, noise: CountNoise) -> CountNoise:
    found = _kept().setdefault((name, n), noise)
    assert (found.variance, found.gain, found.flip) == (noise.variance, noise.gain, noise.flip)
    return found


def figures(pairs: int, workers: int = 1) -> dict[str, float]:
    """Return all rates; surveys take the kinds of noise in turn, users' fakes, which differ every time, seldom."""
    kinds = ["users" if place % 20 == 19 else ("fakes", "flips")[place % 2] for place in range(pairs)]
    with ProcessPoolExecutor(workers) as pool:
        same = list(pool.map(pair_of_surveys, kinds, range(pairs), chunksize=20))
        changed = list(pool.map(pair_of_surveys, kinds[::10], range(pairs, 2 * pairs, 10), [0.23] * pairs))
        labels = {
            name: list(pool.map(pair_of_labels, [name] * pairs, range(0, pairs, len(PROTOCOLS)), chunksize=10))
            for name in PROTOCOLS
        }
    return {
        "pairs": pairs,
        "named_survey": float(np.mean([bool(one) for one in same])),
        "named_labels": float(np.mean([one for found in labels.values() for one in found])),
        **{f"named_{name}": float(np.mean(found)) for name, found in labels.items()},
        "found_survey": float(np.mean(["dark mode" in one for one in changed])),
        "wrong_survey": float(np.mean([bool(one - {"dark mode"}) for one in changed])),
    }


def lines(found: dict[str, float]) -> Iterator[str]:
    """Return the figures as text."""
    return (f"{name:20} {value:g}" for name, value in found.items())


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Comparisons of identical populations.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--pairs", type=int, default=2000, help="number of pairs of every kind")
    options = parser.parse_args()
    found = figures(options.pairs, os.cpu_count() or 1)
    print(json.dumps(found) if options.json else "\n".join(lines(found)))


if __name__ == "__main__":
    main()
