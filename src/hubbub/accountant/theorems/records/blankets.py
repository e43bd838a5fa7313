"""Whole records in flipped copies: what is proven for every collection, by privacy blankets.

A flipped message s of record y has the distribution μ_y(s) = Π_j (p if s_j = y_j else q); write ρ = p/q. A *blanket* is
a sub-density w below the message distribution of every legal record. :mod:`hubbub.accountant.quadrature` needs the
atoms G(s) = (μ_x(s) − e^ε μ_x'(s))/w(s) of the worst pair x, x'.

- *Uniform*: w(s) = q^L for records of L bits. With a = agreements of s with x among the h positions in which x and x'
  differ, G = ρ^a − e^ε ρ^(h−a) times ρ^c for the c agreements elsewhere. *Opposite records, h = L, are the worst pair.*
  Proof: let one more position differ. Given all other bits of s, G goes from c(A − B) to cA − (2 − c)B, in units where
  the bit's likelihood c is 2p or 2q with equal probability, A, B ≥ 0. Both have the mean A − B, and the two values
  lie (p−q)|A − B| and (p−q)(A + B) from it: G grows in the convex order, sums of independent G keep that order, and
  (·)⁺ is convex.
- *Product*: w(s) = (q/p)^K μ_0(s) for records with at most K set bits. With u, v the set bits of s on the ones of x and
  x', G = ρ^(2u) − e^ε ρ^(2v). *Disjoint records with K ones each are the worst pair.* Proof: a position where both hold
  a one contributes ℓA − ℓB with one ℓ of mean 1; with two positions it is ℓ₁A − ℓ₂B. ℓA and −ℓB are
  counter-monotonic, so their sum is the smallest of all couplings in the convex order. And a further one multiplies A
  (or B) by an independent ℓ of mean 1, which is larger in the convex order. Where d < 2K the disjoint pair is not
  legal, but covers all legal ones.
- *Largest*: w(s) = min_y μ_y(s), by listing all messages of short one-hot records, all of whose pairs are alike.

Attacks on the same protocols are in :mod:`hubbub.accountant.theorems.attacks`.
"""

import itertools
import math
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.quadrature import difference, positive_mean
from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.records.local import group_steps, local, weight_error
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial_pmf

Floats = NDArray[np.float64]

Atoms = tuple[Floats, Floats]  # values and their probabilities

bracket = partial(positive_mean, tolerance=2e-3)
"""The quadrature at a width that costs a tenth of its default and moves a calibrated q by less than 10⁻⁴."""

OVERFLOW = 600.0  # logarithm of the largest likelihood ratio that atoms may hold
ATOMS = 200  # of the messages of a one-hot fake that agree in two bits, beyond which they are merged
RARE = 1e-22  # weight below which their atoms are omitted
MERGED = 1e-13  # above the relative error of merged values
FAKES = 1e-10  # above four times the relative error of the probabilities of flipped fakes
ENUMERATED = 8  # largest number of bits for which the largest blanket is computed by listing all messages


def _below(weights: Floats, bits: int, q: float) -> Floats:
    """Return weights lowered by their error: a blanket must lie below the distribution of every message."""
    return weights * (1 - weight_error(bits, q))


def uniform_blanket(width: int, q: float, epsilon: float) -> Atoms:
    """Return the atoms of opposite records under the uniform blanket of all bit vectors; they err upwards.

    >>> values, weights = uniform_blanket(2, 0.25, 0.0)
    >>> values.round(9).tolist(), weights.round(9).tolist()  # ρ^a − ρ^(L−a), and q^L for each of the C(L, a) messages
    ([-8.0, 0.0, 8.0], [0.0625, 0.125, 0.0625])
    """
    weights = _below(binomial_pmf(width, 0.5) * (2 * q) ** width, width, q)
    return _opposite(width, q, epsilon, 0.0), weights


def _opposite(width: int, q: float, epsilon: float, base: float) -> Floats:
    """Return e^base·(ρ^a − e^ε ρ^(L−a)) for a = 0 … L; errs upwards, also with the lowered weights."""
    ratio, a = bit.log_odds(q), np.arange(width + 1)
    size = epsilon + width * ratio + 2 * abs(base)
    return difference(
        base + ratio * a, base + (epsilon + ratio * (width - a)), size, relative=3 * weight_error(width, q)
    )


def _product_blanket(ones: int, q: float, epsilon: float) -> Atoms:
    weights = binomial_pmf(ones, q)
    powers = 2 * bit.log_odds(q) * np.arange(ones + 1)
    size, relative = epsilon + 2 * float(powers[-1]), 6 * weight_error(ones, q)
    values = difference(powers[:, None], epsilon + powers[None, :], size, relative=relative)
    return values.ravel(), _below(np.outer(weights, weights) * (q / (1 - q)) ** ones, 2 * ones, q).ravel()


def _largest_blanket(width: int, q: float, epsilon: float) -> Atoms:
    messages = np.array(list(itertools.product((0, 1), repeat=width)))
    distance = 1 + messages.sum(axis=1)[:, None] - 2 * messages  # of every message from every one-hot record
    most = distance.max(axis=1)
    first, second = (bit.log_odds(q) * (most - distance[:, own]) for own in (0, 1))
    size, relative = epsilon + 2 * float(first.max()), 3 * weight_error(width, q)
    chances = _below(np.array([q**i * (1 - q) ** (width - i) for i in range(width + 1)]), width, q)
    return difference(first, epsilon + second, size, relative=relative), chances[most]


def blanket(schema: Schema, q: float, n: int, epsilon: float) -> float:
    """Return ln δ(ε) proven for every collection of n honest users' flipped whole records; errs upwards.

    If fewer than one of the n messages is expected to come from a blanket, there is no crowd to hide in, and that
    blanket is not tried.

    >>> round(math.exp(blanket(Schema.bits(5), 0.2446, 1000, math.log(2))), 4)
    0.019
    """
    size = math.log(n)
    bounds = [local(schema, q, epsilon), 0.0]
    if epsilon + schema.distance * bit.log_odds(q) > OVERFLOW or bounds[0] == -math.inf:
        return min(bounds)
    if schema.exclusive and schema.width <= ENUMERATED:
        bounds.append(bracket(*_largest_blanket(schema.width, q, epsilon), n).upper)
    elif not schema.dense and size > schema.max_set * bit.log_odds(q):
        bounds.append(bracket(*_product_blanket(schema.max_set, q, epsilon), n).upper)
    if 2 * schema.max_set >= schema.width and size > -schema.width * math.log(2 * q):
        bounds.append(bracket(*uniform_blanket(schema.width, q, epsilon), n).upper)
    return min(bounds)


def copies(schema: Schema, q: float, n: int, epsilon: float, k: int, m: int = 0) -> float:
    """Return ln δ(ε) proven for k unlinked copies of whole records of n honest users and m fakes, by group privacy.

    Replace the copies one at a time: each step replaces one message among kn + m, whatever the others hold, so
    δ(ε) ≤ Σ_{i<k} e^{iε/k} δ₁(ε/k) with the certificate δ₁ for one copy. In the Gaussian regime the k steps have
    nearly the same optimal event, and the sum is tight to second order. Errs upwards.

    >>> copies(Schema.bits(13), 0.3063, 10**6, math.log(2), 4) < math.log(1e-6)
    True
    """
    return min(group_steps(epsilon, k) + blanket(schema, q, k * n + m, epsilon / k), local(schema, q, epsilon, k))


def fake_blanket(schema: Schema, q: float, m: int, epsilon: float) -> float:
    """Return ln δ(ε) proven by m flipped uniform fakes alone, whatever the real users do; ∞ if not known.

    w is the distribution of one flipped fake: uniform for all bit vectors, (1/d)·Σ_r μ_{e_r} for one-hot records
    [004 §6], which depends on s only through the number of its set bits. Errs upwards.

    >>> round(math.exp(fake_blanket(Schema.one_hot(100), 0.01, 10**4, 0.452)) * 1e6, 2)
    1.0
    """
    if epsilon > OVERFLOW:
        return math.inf
    if schema.dense and schema.width * bit.log_odds(q) < OVERFLOW:
        base = -schema.width * math.log1p((1 - 2 * q) / (2 * q))  # ln (2q)^L
        weights = _below(binomial_pmf(schema.width, 0.5), schema.width, q)
        return bracket(_opposite(schema.width, q, epsilon, base), weights, m + 1).upper
    return _one_hot_fake_blanket(schema.width, q, m, epsilon) if schema.exclusive else math.inf


def _one_hot_fake_blanket(d: int, q: float, m: int, epsilon: float) -> float:
    ratio, omitted = bit.log_odds(q), 0.0
    values: list[Floats] = []
    weights: list[Floats] = []
    for (one, two), share, weight, rare in _one_hot_fakes(d, q):
        gain = difference(ratio * (2 * one - 1), epsilon + ratio * (2 * two - 1), epsilon + 2 * ratio, relative=FAKES)
        values.append(gain * share)
        weights.append(weight)
        omitted += max(float(gain), 0.0) * rare  # omitting an atom lowers E S⁺/n by no more than this
    value = np.concatenate(values)
    bound = bracket(value + MERGED * np.abs(value), np.concatenate(weights), m + 1).upper
    return float(np.logaddexp(bound, math.log(omitted))) if omitted > 0 else bound


@lru_cache(maxsize=64)
def _one_hot_fakes(d: int, q: float) -> tuple[tuple[tuple[int, int], Floats, Floats, float], ...]:
    """Return the messages of a flipped uniform one-hot fake, for both values of the bits of two categories.

    Each has the atoms of μ_0/f, their weights under f, and Σ f·μ_0/f over messages of next to no weight, which have
    none.
    """
    ratio, rest = bit.log_odds(q), np.arange(d - 1)
    near = binomial_pmf(d - 2, q)  # set bits among the other d − 2 categories if the fake is one of the two
    far = np.zeros(d - 1)  # and if the fake is one of those d − 2
    if d > 2:
        far[:-1] += q * binomial_pmf(d - 3, q)
        far[1:] += (1 - q) * binomial_pmf(d - 3, q)
    chance = ((1 - q, q), (q, 1 - q))
    found = []
    for one, two in itertools.product((0, 1), repeat=2):
        # P(first bit = one, second = two) for a fake of the first, of the second, of neither of the two categories
        first, second = chance[1][one] * chance[0][two], chance[0][one] * chance[1][two]
        weight = ((first + second) * near + (d - 2) * chance[0][one] * chance[0][two] * far) / d * (1 - FAKES / 4)
        total = rest + one + two
        share = d / (total * math.exp(ratio) + (d - total) * math.exp(-ratio))
        rare = weight < RARE
        found.append(
            ((one, two), *_merged(share[~rare], weight[~rare]), float(portable.dot(weight[rare], share[rare])))
        )
    return tuple(found)


def _merged(values: Floats, weights: Floats) -> Atoms:
    """Return at most ``ATOMS`` atoms in place of many, given in the order of their values.

    The weight of every other atom is divided between the two kept ones around it such that its mean stays the same:
    the sum of independent draws becomes larger in the convex order, and E S⁺ does not fall.

    >>> values, weights = _merged(np.linspace(0.0, 1.0, 1001), np.full(1001, 1 / 1001))
    >>> len(values) <= ATOMS, round(float(values @ weights), 12), round(float(weights.sum()), 12)
    (True, 0.5, 1.0)
    """
    if len(values) <= ATOMS:
        return values, weights
    kept = np.unique(np.linspace(0, len(values) - 1, ATOMS).round().astype(np.int64))
    after = np.clip(np.searchsorted(kept, np.arange(len(values)), side="right"), 1, len(kept) - 1)
    low, high = values[kept[after - 1]], values[kept[after]]
    same = high == low  # as next to q = 1/2
    width = np.where(same, 1.0, high - low)
    # Both shares are quotients: 1 − share would lose the small one, and with it the mean, where low is far above high.
    before = np.where(same, 1.0, np.clip((high - values) / width, 0.0, 1.0))
    beyond = np.where(same, 0.0, np.clip((values - low) / width, 0.0, 1.0))
    mass = np.bincount(after - 1, weights * before, len(kept)) + np.bincount(after, weights * beyond, len(kept))
    return values[kept], mass.astype(np.float64)
