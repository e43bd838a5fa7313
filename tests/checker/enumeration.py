"""Exact δ of tiny collections: every neighbouring pair, by listing all outcomes with their rational probabilities."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import comb

from hubbub.checker.document import Claim, Fakes

Record = tuple[int, ...]
Histogram = dict[tuple[int, ...], Fraction]
"""Probabilities of histograms of messages."""


def records(claim: Claim) -> list[Record]:
    """All legal records."""
    low = 1 if claim.kind == "one_hot" else 0
    return [r for r in itertools.product((0, 1), repeat=claim.width) if low <= sum(r) <= claim.max_set]


def convolve(parts: Iterable[Histogram]) -> Histogram:
    """The histogram of independent messages together."""
    total: Histogram | None = None
    for chances in parts:
        if total is None:
            total = chances
            continue
        sums: Histogram = {}
        for (a, p), (b, q) in itertools.product(total.items(), chances.items()):
            both = tuple(map(sum, zip(a, b, strict=True)))
            sums[both] = sums.get(both, Fraction(0)) + p * q
        total = sums
    assert total is not None
    return total


def message(claim: Claim, record: Record) -> Histogram:
    """The histogram of one message."""
    q = claim.flip
    if claim.release == "category":
        size, own = claim.width, record.index(1)
        cells = {one: 1 - (size - 1) * q if one == own else q for one in range(size)}
        return {tuple(int(i == one) for i in range(size)): p for one, p in cells.items() if p}
    chances: Histogram = {}
    for flips in itertools.product((0, 1), repeat=claim.width):
        sent = tuple(a ^ b for a, b in zip(record, flips, strict=True))
        chance = q ** sum(flips) * (1 - q) ** (claim.width - sum(flips))
        if claim.release == "records":
            place = int("".join(map(str, sent)), 2)
            sent = tuple(int(i == place) for i in range(2**claim.width))
        if chance:
            chances[sent] = chances.get(sent, Fraction(0)) + chance
    return chances


def mixture(parts: Iterable[tuple[Fraction, Histogram]]) -> Histogram:
    """A random choice of distributions."""
    total: Histogram = {}
    for weight, chances in parts:
        for outcome, p in chances.items():
            total[outcome] = total.get(outcome, Fraction(0)) + weight * p
    return total


def fakes(claim: Claim) -> Histogram | None:
    """The histogram of all fakes of the honest users; a Poisson number is cut off, which lowers δ."""
    legal = records(claim)
    one = mixture((Fraction(1, len(legal)), message(claim, r)) for r in legal)
    if isinstance(claim.fakes, int):
        return convolve([one] * claim.fixed_fakes) if claim.fixed_fakes else None
    assert claim.fakes.name == "binomial"
    trials, p = claim.users * claim.fakes.shift, claim.fakes.scale
    nothing: Histogram = {tuple(0 for _ in next(iter(one))): Fraction(1)}
    return mixture(
        (comb(trials, m) * p**m * (1 - p) ** (trials - m), convolve([nothing] + [one] * m)) for m in range(trials + 1)
    )


def hockey_stick(p: Histogram, q: Histogram, x: Fraction) -> Fraction:
    return sum(
        (max(Fraction(0), chance - x * q.get(outcome, Fraction(0))) for outcome, chance in p.items()), Fraction(0)
    )


def truth(claim: Claim, x: Fraction) -> Fraction:
    """The largest Σ (P − xQ)⁺ over all collections of the honest users and all pairs, in both orders."""
    legal = records(claim)
    own = {r: convolve([message(claim, r)] * claim.copies) for r in legal}
    added = fakes(claim)
    worst = Fraction(0)
    for others in _crowds(legal, claim.users - 1):
        background = [*(own[r] for r in others), *([added] if added else [])]
        parts = {r: convolve([own[r], *background]) for r in legal}
        for one, two in itertools.permutations(legal, 2):
            worst = max(worst, hockey_stick(parts[one], parts[two], x))
    return worst


def _crowds(legal: Sequence[Record], size: int) -> Iterator[tuple[Record, ...]]:
    return itertools.combinations_with_replacement(legal, size)


def claim(
    kind: str,
    width: int,
    max_set: int,
    n: int,
    flip: str,
    *,
    copies: int = 1,
    fakes: int | Fakes = 0,
    release: str = "records",
    epsilon: str = "1/2",
    delta: str = "1/1000000",
    honest: int | None = None,
    shuffler: bool = True,
) -> Claim:
    """A claim without a document."""
    return Claim(
        id="",
        kind=kind,
        width=width,
        max_set=max_set,
        n=n,
        honest_fraction=Fraction(1),
        flip=Fraction(flip),
        copies=copies,
        fakes=fakes,
        release=release,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        honest=n if honest is None else honest,
        shuffler=shuffler,
        may_use_shufflers_fakes=True,
        collusion_epsilon=None,
        count_epsilon=None,
        rounds=1,
        total_epsilon=None,
        total_delta=Fraction(1),
        curve=((Fraction(0), Fraction(1)),),
    )
