"""Surveys: several attributes, each with one message and a noise of its own, which nothing links.

Records are tuples (x₁, …, x_J); the analyzer sees, for each attribute, how many messages name each of its categories.

**Theorem 1 (fakes).** Let the fakes of attribute j be a random vector F_j over its categories, *exchangeable*,
independent of the records and of the other attributes. Then the supremum of δ(ε) over all collections, all pairs of
tuples and both orders is that of the product over all j of the pairs F_j + e_a against F_j + e_b, a ≠ b. It is reached
by every pair of tuples that differ in all attributes, whatever n is and whatever the others hold.
*Proof.* The others' messages are constants and cancel. Attributes that do not change have equal distributions and drop
out; the others are independent, so the pair is a product. Exchanging a and b maps either distribution to the other, so
both orders give the same, and by exchangeability so do all a and b. Fewer changed attributes are a marginal, of which δ
is at most as large. ∎

It covers the shuffler's independent fakes of one distribution for all categories of an attribute
(:mod:`hubbub.accountant.theorems.fakes`), and the users' uniform fakes (:mod:`.uniform`).

**Corollary (Laplace fakes).** With scales b_j, δ(ε) = 1 − ∏_j (1 − P_j(0)) exactly for every ε ≥ Σ_j 2/b_j.
*Proof.* A finite loss of attribute j is at most 2/b_j; it is infinite if the other tuple's category has no fake. ∎
On a grid that does not divide all 1/b_j, the composition would put mass just above such an ε.

**Theorem 2 (any independent noise).** If μ_j covers attribute j for all columns of n values, all changes and both
orders (:mod:`hubbub.accountant.composition`), then μ₁∗…∗μ_J covers the survey.
*Proof.* Given the records, the attributes are independent; compositions of covers cover the product. A cover also
covers an attribute that does not change: μ[x] ≥ (1 − x)⁺. ∎

Split bits change two positions of an attribute (:mod:`.split`), a category by randomized response is a single bit if
there are two of them, and otherwise has a uniform blanket (:mod:`hubbub.accountant.theorems.category`).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.attained import Attained, Pair, together
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import category, fakes, split
from hubbub.accountant.theorems.laplace import Atoms, atoms
from hubbub.accountant.theorems.uniform import COARSE, attacked_pair, user_loss
from hubbub.model.protocol import Noise
from hubbub.model.releases import Release
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial, binomial_pmf
from hubbub.numeric.rounding import up

Floats = NDArray[np.float64]

GRAIN = (150.0, 60.0, 1000.0)  # grid points per standard deviation of the loss of all attributes: at least, times √J,
STEP = 1e-3  # at most; and their largest distance
ROUGH = 100.0  # the same of preliminary covers
NODES = (4, 16)  # grid points per standard deviation of the curve of one attribute with users' noise
FAINT = 1e-13  # δ of one attribute down to which that curve is precise
LEAST = 0.05  # smallest share of the variance by which the precision of users' fakes is reduced
REACH = 14.0  # standard deviations of the loss of one attribute by randomized response that its curve spans
POSITIONS = 2048  # attributes that an attack uses at most; with fewer it is weaker, but still an attack


@dataclass(frozen=True, slots=True)
class Answers:
    """One attribute of a survey: its number of categories, its noise, and how many attributes are like it."""

    size: int
    noise: Noise
    times: int = 1


def grouped(sizes: Sequence[int], noise: Sequence[Noise]) -> tuple[Answers, ...]:
    """Return the attributes of a survey with equal ones counted; the order does not matter for privacy.

    Only users' noise depends on the number of categories.

    >>> [one.times for one in grouped([2, 5, 2], [Noise(0.1), Noise(0.1), Noise(0.1)])]
    [2, 1]
    """
    found = Counter((size if one.shuffler_fakes is None else 2, one) for size, one in zip(sizes, noise, strict=True))
    return tuple(Answers(size, one, times) for (size, one), times in found.items())


@lru_cache(maxsize=64)
def cover(attributes: tuple[Answers, ...], release: Release, honest: int, *, preliminary: bool = False) -> Loss:
    """Return a loss that covers any change of all attributes, among ``honest`` users; errs upwards. Theorems 1 and 2.

    Flips are ``preliminary`` as in :data:`.split.PRELIMINARY`.

    >>> from hubbub.model.protocol import Fakes
    >>> one = Answers(5, Noise(m=Fakes.gaussian(19.0, 110)), 10)
    >>> round(cover((one,), "bits", 1).delta(1.0) * 1e7, 4)
    9.009
    """
    signal, count = _signal(attributes, release, honest), sum(one.times for one in attributes)
    step = (
        signal / ROUGH if preliminary else min(signal / min(max(GRAIN[0], GRAIN[1] * math.sqrt(count)), GRAIN[2]), STEP)
    )
    parts = []
    for one in attributes:
        share = one.times * information(one, release, honest) / signal**2
        loss = _attribute(one, release, honest, step, share, alone=len(attributes) == 1, preliminary=preliminary)
        parts.append(loss.power(one.times))
    if len(parts) == 1:
        return parts[0]
    parts = [part if part.step == step else part.regrid(step) for part in parts]
    parts.sort(key=lambda loss: loss.masses.size)
    result = parts[0]
    for part in parts[1:]:
        result = result.compose(part)
    return result


def _signal(attributes: Sequence[Answers], release: Release, honest: int) -> float:
    """Return about the standard deviation of the loss of all attributes together."""
    return math.sqrt(sum(one.times * information(one, release, honest) for one in attributes))


def information(one: Answers, release: Release, honest: int) -> float:
    """Return about the variance of the loss of one attribute: 2/σ² for two counts that change by one under noise of σ.

    >>> from hubbub.model.protocol import Fakes
    >>> information(Answers(5, Noise(m=Fakes.gaussian(20.0, 110))), "bits", 1)
    0.005
    """
    drawn, users, q = one.noise.shuffler_fakes, one.noise.user_fakes, one.noise.q
    if drawn is not None:
        return 2 / drawn.scale**2
    if users is not None:
        return 2 * one.size / max(honest * users.mean, 1.0)
    if release == "category" and one.size > 2:
        return 2 * (1 - one.size * q) ** 2 / (honest * q)
    return (1 if release == "category" else 2) * split.spread(honest, q, 1) ** 2


def _attribute(
    one: Answers, release: Release, honest: int, step: float, share: float, *, alone: bool, preliminary: bool
) -> Loss:
    """Return a cover of one attribute, less precise if it has a small share of the variance of the loss.

    Chords between the nodes of a curve widen its loss by a share of its variance, and so do intervals of fakes.
    """
    noise = one.noise
    if noise.shuffler_fakes is not None:
        return fakes.change_loss(noise.shuffler_fakes, 1, 1, step=None if alone else step)
    if noise.user_fakes is not None:
        return user_loss(noise.user_fakes, honest, one.size, step, COARSE / max(share, LEAST))
    nodes = min(max(NODES[0], math.ceil(NODES[1] * math.sqrt(share))), NODES[1])
    if release == "category" and one.size > 2:
        return _response(one.size, noise.q, honest, nodes)
    at = split.PRELIMINARY if preliminary else split.Resolution(nodes, split.TOLERANCE * (split.GRAIN / nodes))
    position = split.cover(honest, noise.q, 1, at, faint=FAINT)
    return position if release == "category" else position.power(2)


@lru_cache(maxsize=256)
def _response(categories: int, q: float, honest: int, nodes: int) -> Loss:
    """Return a cover of one attribute by randomized response, from its blanket, which holds in both orders."""
    pure = category.pure_epsilon(categories, q)
    top = min(pure, REACH * math.sqrt(2 / (honest * q)) * (1 - categories * q))
    count = math.ceil(REACH * nodes)
    step = top / count
    curve = split.sampled(lambda i: category.blanket(categories, q, honest, step * i), count, step, faint=FAINT)
    if top == pure:
        curve[-1] = 0.0  # as for split bits: the pure ε is rounded up by more than the last node is rounded down
    return Loss.from_envelope(curve, step)


def largest_loss(attributes: Sequence[Answers]) -> tuple[Fraction, float] | None:
    """Return Σ 2/b and an upper bound on δ from there on, if all fakes are the shuffler's Laplace ones. The corollary.

    >>> from hubbub.model.protocol import Fakes
    >>> bound, delta = largest_loss([Answers(2, Noise(m=Fakes.laplace(2.0, 25)))])
    >>> bound, round(delta * 1e7, 6)
    (Fraction(1, 1), 9.127282)
    """
    bound, stays = Fraction(0), 0.0
    for one in attributes:
        drawn = one.noise.shuffler_fakes
        if drawn is None or drawn.distribution != "laplace":
            return None
        bound += 2 * one.times / Fraction(drawn.scale)
        # At an ε above 2/b all of δ is P(0).
        nothing = fakes.swap_delta(drawn, math.nextafter(2 / drawn.scale, math.inf))
        stays += one.times * (math.log1p(-nothing) if nothing < 1 else -math.inf)
    return bound, min(1.0, up(-math.expm1(stays), 1e-12))


@lru_cache(maxsize=64)
def laplace_cover(attributes: tuple[Answers, ...]) -> Atoms | None:
    """Return the loss of attributes that have different scales and are all among the shuffler's Laplace fakes."""
    drawn = [(one.noise.shuffler_fakes, one.times) for one in attributes]
    groups = [(fakes, times) for fakes, times in drawn if fakes is not None and fakes.distribution == "laplace"]
    return atoms(groups) if 1 < len(groups) == len(attributes) else None


@lru_cache(maxsize=64)
def attack(attributes: tuple[Answers, ...], release: Release, honest: int) -> Attained | None:
    """Return the loss if all attributes change of which an attack is known; errs downwards, None if there is none.

    All others hold the same tuple.

    >>> from hubbub.model.protocol import Fakes
    >>> one = (Answers(5, Noise(m=Fakes.gaussian(19.0, 110)), 10),)
    >>> 0.98 < attack(one, "bits", 1).delta(1.0) / cover(one, "bits", 1).delta(1.0) <= 1
    True
    """
    pairs: list[Pair] = []
    left = POSITIONS
    for one in attributes:
        times = min(one.times, left)
        left -= times
        pairs += [(first, second, times) for first, second in _attacked(one, release, honest)]
    return together(pairs) if pairs else None


def _attacked(one: Answers, release: Release, honest: int) -> list[tuple[Floats, Floats]]:
    noise = one.noise
    if noise.shuffler_fakes is not None:
        pmf = noise.shuffler_fakes.pmf
        likely = np.maximum(pmf, fakes.NOTHING)  # a probability that underflows is not 0
        return [(pmf, np.append(0.0, likely[:-1])), (pmf[:-1], likely[1:])]
    if noise.user_fakes is not None:
        return [attacked_pair(noise.user_fakes, honest, one.size)]
    if release == "category" and one.size > 2:
        return []
    # The loss of a position is that of a crowd which all hold the same bit, in the worse order.
    crowd = binomial(honest - 1, 1 - noise.q, tail=split.CUT)
    first, second = (
        portable.convolve(crowd.pmf, binomial_pmf(1, probability)) for probability in (1 - noise.q, noise.q)
    )
    lacking = 0.0 if crowd.pmf.size == honest else 4 * math.exp(-split.CUT)
    pair = np.where(first > lacking, first, 0.0), second + lacking
    return [pair] if release == "category" else [pair, pair]
