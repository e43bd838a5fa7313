"""Crash signatures: which strings do many of a million people hold? Beside STAR and Nebula with their parameters."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople, system
from hubbub.cli import screen
from hubbub.io.files import write_text
from hubbub.lab.populations import Rng, generator
from hubbub.numeric.binomial import binomial_pmf
from hubbub.pipeline.records import Bodies, Collection
from hubbub.report import result_page

PEOPLE = 1_000_000
SIGNATURES = 10**7
EXPONENT = 1.05
BUDGET = hb.Budget(1.0, 1e-8)
STAR_THRESHOLD = 50
"""K of STAR (Davidson et al. 2022) as Brave uses it: a value is revealed if at least K clients sent it."""
NEBULA_SHARE, NEBULA_THRESHOLD = 0.105, 20
"""Nebula (Shamsabadi et al. 2024) as Brave uses it: clients send with this probability, and K reveal a value."""
COUNTS = 400
"""Counts up to which the δ of sampling with a threshold is searched; it is largest just above the threshold."""
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The findings of one method among the same people."""

    name: str
    found: int
    share: float
    """Part of the people who hold a string that is found."""
    error: float
    """Root mean square error of the counts of the strings that are found, in people."""
    half: int
    most: int
    """Numbers of holders from which on a string is found with probability 50 % and 95 %."""
    delta: float
    """δ at ε = 1, if one person more holds a string; 1 if exact counts are released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The methods side by side, and the estimate of hubbub."""

    n: int
    signatures: int
    methods: list[Method]
    covered: float
    """Part of the strings whose interval contains the truth."""
    result: hb.Result
    plan: hb.Plan

    def record(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        methods = [asdict(one) for one in self.methods]
        return {"people": self.n, "signatures": self.signatures, "covered": self.covered, "methods": methods}


def signatures(n: int, rng: Rng) -> Numbers:
    """Draw how many of n people hold each signature: the i-th with probability proportional to i^−1.05."""
    weights = np.arange(1, SIGNATURES + 1) ** -EXPONENT
    counts = rng.multinomial(n, weights / weights.sum())
    return np.asarray(counts[counts > 0], np.int64)


def sampled_delta(share: float, threshold: int, epsilon: float) -> float:
    """Return the δ of sampling with a threshold, exactly, for one more holder of a string: the largest over all counts.

    >>> sampled_delta(0.105, 20, 1.0) < 1e-13
    True
    """
    factor, largest = math.exp(epsilon), 0.0
    for count in range(threshold - 1, COUNTS):
        more, less = (_thresholded(count + extra, share, threshold) for extra in (1, 0))
        less = np.append(less, 0.0)
        largest = max(
            largest,
            float(np.clip(more - factor * less, 0, None).sum()),
            float(np.clip(less - factor * more, 0, None).sum()),
        )
    return largest


def _thresholded(count: int, share: float, threshold: int) -> NDArray[np.float64]:
    """Return the distribution of the sampled number, 0 below the threshold."""
    pmf = binomial_pmf(count, share)
    return np.concatenate([[pmf[:threshold].sum()], np.zeros(threshold - 1), pmf[threshold:]])


def sampled_count(probability: float) -> int:
    """Return the smallest number of holders that Nebula's parameters reveal with at least this probability."""
    count = NEBULA_THRESHOLD
    while 1 - float(binomial_pmf(count, NEBULA_SHARE)[:NEBULA_THRESHOLD].sum()) < probability:
        count += 1
    return count


def _method(name: str, truth: Numbers, values: NDArray[np.float64], shown: NDArray[np.bool_], **figures: Any) -> Method:
    error = math.sqrt(float(np.mean((values[shown] - truth[shown]) ** 2))) if shown.any() else 0.0
    share = float(truth[shown].sum() / truth.sum())
    return Method(name=name, found=int(shown.sum()), share=share, error=error, **figures)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Crash signatures: which strings do many of a million people hold? Beside STAR and Nebula."""
    rng = generator(entropy)
    truth = signatures(n, rng)
    plan = hb.plan(hb.Schema.strings(32), n, BUDGET, trust="shuffler-noise")
    strings = plan.schema.text
    assert strings is not None
    names = [f"signature {place}" for place in range(truth.size)]
    bodies = b"".join(strings.encode(name) * int(count) for name, count in zip(names, truth, strict=True))
    people = Collection(plan.schema, Bodies(np.frombuffer(bodies, np.uint8).reshape(-1, strings.size)))
    mixed = hb.shuffle(hb.randomize(people, plan), entropy=entropy)
    result = hb.estimate(hb.tally(mixed), plan)
    estimate = result.question
    tell(n)
    held = dict(zip(names, truth.tolist(), strict=True))
    place = {name: i for i, name in enumerate(names)}
    values, shown = np.zeros(truth.size), np.zeros(truth.size, np.bool_)
    for name, value in zip(estimate.strings, estimate.values, strict=True):
        values[place[name]], shown[place[name]] = value, True
    low, high = estimate.interval()
    inside = [a <= held[name] <= b for name, a, b in zip(estimate.strings, low, high, strict=True)]
    sampled = rng.binomial(truth, NEBULA_SHARE)
    methods = [
        _method(
            "hubbub", truth, values, shown, half=hb.count_shown(plan), most=hb.count_shown(plan, 0.95),
            delta=plan.guarantee.delta,
        ),
        _method(
            f"Nebula, {NEBULA_SHARE:.1%} send, K = {NEBULA_THRESHOLD}", truth, sampled / NEBULA_SHARE,
            sampled >= NEBULA_THRESHOLD, half=sampled_count(0.5), most=sampled_count(0.95),
            delta=sampled_delta(NEBULA_SHARE, NEBULA_THRESHOLD, 1.0),
        ),
        _method(
            f"STAR, K = {STAR_THRESHOLD}", truth, truth.astype(np.float64), truth >= STAR_THRESHOLD,
            half=STAR_THRESHOLD, most=STAR_THRESHOLD, delta=1.0,
        ),
    ]  # fmt: skip
    covered = float(np.mean(inside)) if inside else 1.0
    return Outcome(n=n, signatures=truth.size, methods=methods, covered=covered, result=result, plan=plan)


@click.command(help=run.__doc__)
@click.option("--people", "n", type=click.IntRange(1000, 10**7), default=PEOPLE, show_default=True)
@click.option("--seed", type=click.IntRange(0), help="Make the run reproducible; the people are synthetic.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML page with charts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def main(n: int, seed: int | None, output: str | None, as_json: bool) -> None:
    """Run the example."""
    shown = run(n, system if seed is None else SeededStreamNotForPeople(seed))
    if output is not None:
        write_text(output, result_page(shown.result))
    if as_json:
        screen.print_json(shown.record())
        return
    view = screen.console()
    view.print(f"{shown.n:,} people with {shown.signatures:,} different signatures, ε = 1, δ = {BUDGET.delta:g}\n")
    rows = [
        (
            one.name, f"{one.found:,}", f"{one.share:.1%}", f"{one.error:,.3g}", f"{one.half:,}", f"{one.most:,}",
            "none" if one.delta == 1 else f"{one.delta:.2g}",
        )
        for one in shown.methods
    ]  # fmt: skip
    view.print(screen.grid("", ["method", "found", "people", "error", "50%", "95%", "δ(1)"], rows))
    view.print(f"{shown.covered:.1%} of hubbub's intervals contain the truth.")


if __name__ == "__main__":
    main()
