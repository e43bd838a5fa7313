"""Exact coverage of the results of labels: ``python -m benchmarks.detection [--json]``.

Of the default plans for 10², 10⁴ and 10⁶ labels at ε = 1 and ε = 5 (keys end in ``_1e6_eps5``, for example):

- ``flagged``: probability that ``LabelView.detectable`` flags some label that nobody has, if all have the first one;
- ``covered``: probability that all simultaneous 95 % intervals hold, the least of three populations: everybody has one
  label; every label is as frequent; each label is half as frequent as the one before.

Nothing is simulated: every number of messages that has a probability above 10⁻¹⁶ is estimated by the package, and the
probabilities of those that it flags, or whose intervals miss the truth, are added up. They come from ``scipy.stats``,
which the package does not use. Labels are taken as independent: that their counts add up to n correlates two of them
by −1/(d − 1).
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binom, poisson

import hubbub as hb
from hubbub.mechanisms.noise import known_total

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Spread = tuple[int, Floats]
"""The smallest number of messages, and the probabilities of all from there on."""
SIZES = ((100, 10**5, 1e-6), (10**4, 10**6, 1e-8), (10**6, 10**7, 1e-8))
BEYOND = 1e-16


def spread(frozen: object) -> Spread:
    """Return a distribution of ``scipy.stats`` without its negligible tails."""
    low, high = int(frozen.ppf(BEYOND)), int(frozen.isf(BEYOND))  # type: ignore[attr-defined]
    return low, frozen.pmf(np.arange(low, high + 1))  # type: ignore[attr-defined]


def plus(one: Spread, two: Spread) -> Spread:
    """Return the distribution of the sum of two independent numbers."""
    return one[0] + two[0], np.convolve(one[1], two[1])


def shown(plan: hb.Plan, n: int, held: int, fakes: int) -> Spread:
    """Return the distribution of the messages that show a label which ``held`` people have."""
    schema, protocol = plan.schema, plan.protocol
    q, k = protocol.q, protocol.k
    truth = 1 - (schema.width - 1) * q if protocol.sends_category else 1 - q
    found = plus(spread(binom(k * held, truth)), spread(binom(k * (n - held), q)))
    fake = q + (1 - 2 * q) * schema.density
    users, drawn = protocol.user_fakes, protocol.shuffler_fakes
    if drawn is not None:
        assert protocol.clear or protocol.sends_bits
        return plus(found, (0, drawn.pmf))
    if users is not None and protocol.sends_bits and not (protocol.clear and schema.exclusive):
        number = poisson(n * users.scale * fake)
        return plus(
            found, spread(number if users.distribution == "poisson" else binom(n * users.shift, users.scale * fake))
        )
    return plus(found, spread(binom(fakes, fake))) if fakes else found


def estimates(plan: hb.Plan, n: int, messages: Counts, fakes: int) -> Iterator[tuple[hb.LabelView, slice]]:
    """Estimate any numbers of messages, as many at a time as the plan has labels."""
    width, own = plan.schema.width, plan.protocol.own_messages
    for first in range(0, messages.size, width):
        part = messages[first : first + width]
        counts = np.zeros(width, np.int64)
        counts[: part.size] = part
        counts.setflags(write=False)
        tally = hb.Tally(
            plan=plan.id, n=n, fakes=0 if plan.protocol.user_fakes else fakes, messages=own * n + fakes,
            batches=1, smallest_batch=n, counts=counts,
        )  # fmt: skip
        yield hb.estimate(tally, plan).question, slice(first, first + part.size)


def shown_by_others(plan: hb.Plan, n: int, held: int) -> Spread:
    """Return the distribution of the messages that show any other label than one which ``held`` people have.

    Fakes of users are taken as independent of those that show the label, as Poisson numbers of them are.
    """
    schema, protocol = plan.schema, plan.protocol
    q, k, d = protocol.q, protocol.k, schema.width
    flips = spread(binom(k * ((d - 1) * held + (d - 2) * (n - held)), q))
    found = plus(spread(binom(k * (n - held), 1 - q)), flips)
    users, drawn = protocol.user_fakes, protocol.shuffler_fakes
    if drawn is not None:
        size = 1 << math.ceil(math.log2((d - 1) * drawn.pmf.size))
        return plus(found, (0, np.maximum(np.fft.irfft(np.fft.rfft(drawn.pmf, size) ** (d - 1), size), 0.0)))
    if users is not None:
        each = (d - 1) * (q + (1 - 2 * q) / d)
        return plus(found, spread(poisson(n * users.mean * each)))
    return found


def outcome(plan: hb.Plan, n: int, held: int, fakes: int = 0, *, simultaneous: bool = True) -> Floats:
    """Return the probabilities that a label of ``held`` of n people is flagged, and that its interval misses it."""
    low, pmf = shown(plan, n, held, fakes)
    flagged, missed = np.zeros(pmf.size), np.zeros(pmf.size)
    clear = plan.protocol.clear and plan.protocol.shuffler_fakes is None
    if known_total(plan.schema, plan.protocol) and clear:
        return _of_clear_bits(plan, n, held, (low, pmf), fakes, simultaneous=simultaneous)
    if known_total(plan.schema, plan.protocol):
        return _of_total(plan, n, held, (low, pmf), simultaneous=simultaneous)
    for found, place in estimates(plan, n, low + np.arange(pmf.size), fakes):
        size = place.stop - place.start
        first, last = (end[:size] for end in found.interval(simultaneous=simultaneous))
        flagged[place], missed[place] = found.detectable[:size], (first > held) | (last < held)
    return np.array([pmf @ flagged, pmf @ missed])


def _of_clear_bits(plan: hb.Plan, n: int, held: int, own: Spread, fakes: int, *, simultaneous: bool) -> Floats:
    """Return the same for clear bits among a number of fakes that all messages reveal: T̂ = S − fakes/d."""
    counts = np.zeros(plan.schema.width, np.int64)
    one, _ = next(estimates(plan, n, counts, fakes))
    half = float(one.interval(simultaneous=simultaneous)[1][0] - one.values[0])
    critical = float(one.detection_limit[0] - ndtri(0.95) * one.stderr[0])
    found = own[0] + np.arange(own[1].size) - fakes / plan.schema.width
    return np.array([own[1] @ (found > critical + 1e-9), own[1] @ (np.abs(found - held) > half + 1e-9)])


def _of_total(plan: hb.Plan, n: int, held: int, own: Spread, *, simultaneous: bool) -> Floats:
    """Return the same if counts add up to n: T̂ = (S − (S + R)/d)/g + n/d, R messages that show other labels.

    The ends of intervals and the critical count are at the same distance of every estimate.
    """
    d, gain = plan.schema.width, plan.protocol.k * (1 - 2 * plan.protocol.q)
    one, _ = next(estimates(plan, n, np.full(d, n // d), 0))
    half = float(one.interval(simultaneous=simultaneous)[1][0] - one.values[0])
    critical = float(one.detection_limit[0] - ndtri(0.95) * one.stderr[0])
    first, others = shown_by_others(plan, n, held)
    below = np.r_[0.0, np.minimum(others.cumsum(), 1.0)]

    def fewer(count: float, *, equal: bool) -> Floats:
        """Return P[R < r], or P[R ≤ r], at which a label with so many messages has this estimated count."""
        r = (own[0] + np.arange(own[1].size)) * (d - 1) - d * gain * (count - n / d)
        place = (np.floor(r + 1e-6) + 1 if equal else np.ceil(r - 1e-6)) - first
        return np.asarray(below[np.clip(place, 0, others.size).astype(np.int64)])

    above = fewer(held + half, equal=False)  # fewer others, a larger count
    under = 1 - fewer(held - half, equal=True)
    return np.array([own[1] @ fewer(critical, equal=False), own[1] @ (above + under)])


def any_of(probabilities: Floats, times: Floats, *, independent: bool) -> float:
    """Return the probability of at least one of independent events, or its bound for others."""
    if independent:
        return -math.expm1(float(times @ np.log1p(-np.minimum(probabilities, 1 - 1e-15))))
    return float(times @ probabilities)


def populations(d: int, n: int) -> dict[str, tuple[Counts, Counts]]:
    """Return the numbers of people with a label that occur in each population, and how many labels have each."""
    halves = [n >> place for place in range(1, min(d, n.bit_length()))]
    rest = d - len(halves) - 1
    return {
        "one label": (np.array([n, 0]), np.array([1, d - 1])),
        "equal": (np.array([n // d]), np.array([d])),
        "halves": (np.array([*halves, n - sum(halves), 0]), np.array([1] * len(halves) + [1, max(rest, 0)])),
    }


def table(plan: hb.Plan, n: int, fakes: int = 0, *, independent: bool = True) -> tuple[float, float]:
    """Return the probability of a flagged empty label, and the least simultaneous coverage of all populations."""
    d, cases = plan.schema.width, populations(plan.schema.width, n).values()
    found = {held: outcome(plan, n, held, fakes) for held in {one for counts, _ in cases for one in counts.tolist()}}
    flagged = any_of(found[0][:1], np.array([d - 1.0]), independent=independent)
    missed = [
        any_of(np.array([found[one][1] for one in counts.tolist()]), times.astype(np.float64), independent=independent)
        for counts, times in cases
    ]
    return flagged, 1 - max(missed)


def figures(sizes: Sequence[tuple[int, int, float]] = SIZES) -> dict[str, float]:
    """Return the table of the default plans."""
    found: dict[str, float] = {}
    for d, n, delta in sizes:
        for epsilon in (1, 5):
            flagged, covered = table(hb.plan(hb.Schema.one_hot(d), n, hb.Budget(epsilon, delta)), n)
            key = f"1e{round(math.log10(d))}_eps{epsilon}"
            found |= {f"flagged_{key}": round(flagged, 5), f"covered_{key}": round(covered, 5)}
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Exact coverage of detectable and of simultaneous intervals.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = figures()
    print(json.dumps(found) if options.json else "\n".join(f"{name:24} {value:.5f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
