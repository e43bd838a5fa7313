"""Tallies of surveys drawn from the exact distributions of the noise, without the messages themselves."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.model.questions import Number, Question
from hubbub.model.releases import Release
from hubbub.numeric.binomial import clopper_pearson
from hubbub.results.answers import answer_counts

Rng = np.random.Generator
Counts = NDArray[np.int64]
_ANY = hb.plan_from(hb.Schema.bits(1), 1, hb.Protocol(0.25), delta=1e-6)

NOISE: dict[str, tuple[hb.Noise, Release]] = {
    "Laplace fakes": (hb.Noise(m=hb.Fakes.laplace(2.0, 25)), "bits"),
    "few Laplace fakes": (hb.Noise(m=hb.Fakes.laplace(0.3, 6)), "bits"),
    "many Laplace fakes": (hb.Noise(m=hb.Fakes.laplace(25.0, 400)), "bits"),
    "Gaussian fakes": (hb.Noise(m=hb.Fakes.gaussian(6.0, 34)), "bits"),
    "users' fakes": (hb.Noise(m=hb.Fakes.poisson(0.15)), "bits"),
    "flipped bits": (hb.Noise(0.03), "bits"),
    "response": (hb.Noise(0.03), "category"),
}


def survey_plan(
    questions: Mapping[str, Question], noise: Sequence[hb.Noise] | str, derived: Sequence[str] = ()
) -> hb.Plan:
    """Return a plan with the given noise, whose guarantee is not computed: estimates do not depend on it."""
    schema = hb.Schema.survey(questions, derived=derived)
    release: Release = "bits"
    if isinstance(noise, str):
        one, release = NOISE[noise]
        noise = [one] * len(schema.attributes)
    return replace(_ANY, schema=schema, protocol=hb.Protocol.survey(noise, release))


@functools.cache
def _cdf(fakes: hb.Fakes) -> NDArray[np.float64]:
    return np.asarray(np.cumsum(fakes.pmf) / fakes.pmf.sum())


def messages(truth: Counts, noise: hb.Noise, release: str, rng: Rng, batches: int = 1) -> Counts:
    """Return the number of messages of every category of an attribute, given how many people have each."""
    n, size = int(truth.sum()), truth.size
    if noise.shuffler_fakes is not None:
        drawn = np.searchsorted(_cdf(noise.shuffler_fakes), rng.random((batches, size)))
        return np.asarray(truth + drawn.sum(axis=0))
    if noise.user_fakes is not None:
        return truth + rng.multinomial(rng.poisson(n * noise.user_fakes.mean), np.full(size, 1 / size))
    if release == "category":
        chances = np.full((size, size), noise.q) + np.eye(size) * (1 - size * noise.q)
        return np.asarray(sum(rng.multinomial(count, row) for count, row in zip(truth, chances, strict=True)))
    return rng.binomial(truth, 1 - noise.q) + rng.binomial(n - truth, noise.q)


def rounded(values: NDArray[np.float64], question: Number, rng: Rng) -> list[Counts]:
    """Return the true counts of every attribute of a number; NaN is a missing answer."""
    given = values[~np.isnan(values)]
    share = (np.clip(given, question.low, question.high) - question.low) / (question.high - question.low)
    found = [np.array([given.size, values.size - given.size])] if question.missing else []
    for one in (share, (2 * share - 1) ** 2) if question.variance else (share,):
        place = one * (question.levels - 1)
        level = (np.floor(place) + (rng.random(given.size) < place % 1)).astype(np.int64)
        for radix in question.radices:
            counts = np.bincount(level % radix, minlength=radix)
            counts[0] += values.size - given.size
            found.append(counts)
            level //= radix
    return found


def levels(buckets: Counts, question: hb.Scale) -> list[Counts]:
    """Return the true counts of every level of a scale; one bucket more than there are counts missing answers."""
    inside = np.zeros(question.padded, np.int64)
    inside[: question.buckets] = buckets[: question.buckets]
    rest = buckets[question.buckets :]
    return [np.r_[inside.reshape(-1, width).sum(axis=1), rest] for width in question.widths]


def tally_of(plan: hb.Plan, truth: Sequence[Counts], rng: Rng, batches: int = 1) -> hb.Tally:
    """Return a tally of messages drawn from the true counts of every attribute."""
    noise, release = plan.protocol.noise, plan.protocol.release
    drawn = [messages(one, each, release, rng, batches) for one, each in zip(truth, noise, strict=True)]
    counts, n = np.concatenate(drawn), int(truth[0].sum())
    counts.setflags(write=False)
    return hb.Tally(
        plan=plan.id, n=n, fakes=0, messages=int(counts.sum()), batches=batches, smallest_batch=n, counts=counts
    )


def estimate(plan: hb.Plan, truth: Sequence[Counts], rng: Rng, batches: int = 1) -> hb.Result:
    """Return the estimate of a simulated tally."""
    return hb.estimate(tally_of(plan, truth, rng, batches), plan)


def one_label(plan: hb.Plan, draw: Callable[[], Counts], times: int, rng: Rng) -> tuple[hb.LabelView, Counts]:
    """Return the first label of a single choice, estimated repeatedly, as labels of one estimate, and the truth."""
    truth = [draw() for _ in range(times)]
    found = [answer_counts(tally_of(plan, [one], rng), plan)[0] for one in truth]
    values = np.array([one.values[0] for one in found])
    noise = found[0].noise
    stderr = np.sqrt(noise.variance + noise.growth * np.clip(values, 0, truth[0].sum()))
    repeated = hb.LabelView(
        labels=tuple(map(str, range(times))), values=values, stderr=stderr, n=int(truth[0].sum()), one_choice=False,
        unbiased=values, noise=noise,
    )  # fmt: skip
    return repeated, np.array([one[0] for one in truth])


def enough(held: Sequence[bool] | NDArray[np.bool_], level: float = 0.95) -> bool:
    """Return True if a coverage is proven to be at most 1 % below the level, with 99.9 % confidence."""
    return float(clopper_pearson(int(np.sum(held)), len(held), 0.001)[0]) >= level - 0.01


def plausible(held: Sequence[bool] | NDArray[np.bool_], level: float = 0.95) -> bool:
    """Return True unless a coverage is proven to be below the level, with 99.9 % confidence."""
    return float(clopper_pearson(int(np.sum(held)), len(held), 0.001)[1]) >= level
