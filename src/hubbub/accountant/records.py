"""Whole records in one flipped copy: what is proven for every collection, and the worst collection known.

A flipped message s of record y has the law μ_y(s) = Π_j (p if s_j = y_j else q); write ρ = p/q. The engine needs atoms
G(s) = (μ_x(s) − e^ε μ_x'(s))/w(s) for one pair x, x' and a density w.

**Blankets** (w below every legal user's law) prove:

- *uniform*: w(s) = q^L for records of L bits. With a = agreements of s with x among the h positions in which x and x'
  differ, G = ρ^a − e^ε ρ^(h−a) times ρ^c for the c agreements elsewhere. *Opposite records, h = L, are the worst pair.*
  Proof: let one more position differ. Given all other bits of s, G goes from c(A − B) to cA − (2 − c)B, in units where
  the bit's likelihood c is 2p or 2q with equal probability, A, B ≥ 0. Both have the mean A − B, and the two values
  lie (p−q)|A − B| and (p−q)(A + B) from it: G grows in the convex order, sums of independent G keep that order, and
  (·)⁺ is convex.
- *product*: w(s) = (q/p)^K μ_0(s) for records with at most K set bits. With u, v the set bits of s on the ones of x and
  x', G = ρ^(2u) − e^ε ρ^(2v). *Disjoint records with K ones each are the worst pair.* Proof: a position where both hold
  a one contributes ℓA − ℓB with one ℓ of mean 1; with two positions it is ℓ₁A − ℓ₂B. ℓA and −ℓB are counter-monotonic,
  so their sum is the least of all couplings in the convex order. And a further one multiplies A (or B) by an independent
  ℓ of mean 1, which is larger in the convex order. Where d < 2K the disjoint pair is not legal, but covers all the same.
- *least*: w(s) = min_y μ_y(s), enumerated for short records; every pair up to symmetry is tried.

**Backgrounds** (w = μ_y, all others hold y) are exact for that collection, hence attacks: positions fall into A where
only x differs from y, B where only x' does, C where both do, and G = ρ^(2c−C)(ρ^(2a−A) − e^ε ρ^(2b−B)) with a, b, c
independent binomials of probability q. The notes look at C = A = 0 [003 §2–3]; a third category is worse.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hubbub.accountant import bit
from hubbub.accountant.engine import Bracket, positive_mean
from hubbub.data import Schema

__all__ = ["attack", "blanket", "category_attack", "category_blanket", "copies_attack", "local"]

Atoms = tuple[NDArray[np.float64], NDArray[np.float64]]

OVERFLOW = 600.0  # ln of the largest likelihood ratio that atoms may hold
ENUMERATED = 2**13  # most entries of the table messages × legal records for the least blanket


def _binomial(n: int, prob: float) -> NDArray[np.float64]:
    """The probabilities of Bin(n, prob) for small n, by logarithms."""
    if prob == 0.0:
        return np.eye(1, n + 1)[0]
    s = np.arange(n + 1)
    choose = gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)
    return np.asarray(np.exp(choose + s * math.log(prob) + (n - s) * math.log1p(-prob)))


def local(schema: Schema, q: float, epsilon: float, k: int = 1) -> float:
    """ln δ(ε) of what one user sends in k copies, without any crowd: an upper bound for every protocol.

    Two records at distance h are told apart by Bin(kh, p) against Bin(kh, q).

    >>> local(Schema.bits(1), 0.25, 1.2)  # beyond ln 3 nothing is left
    -inf
    """
    return float(bit.log_delta([0], [0], q, epsilon, k * schema.distance)[0])


def _uniform(width: int, q: float, epsilon: float) -> Atoms:
    ratio = math.log1p(-q) - math.log(q)
    a = np.arange(width + 1)
    return np.exp(ratio * a) - np.exp(epsilon + ratio * (width - a)), _binomial(width, 0.5) * (2 * q) ** width


def _product(ones: int, q: float, epsilon: float) -> Atoms:
    ratio = 2 * (math.log1p(-q) - math.log(q))
    law = _binomial(ones, q)
    power = np.exp(ratio * np.arange(ones + 1))
    values = power[:, None] - math.exp(epsilon) * power[None, :]
    return values.ravel(), (np.outer(law, law) * (q / (1 - q)) ** ones).ravel()


def _least(schema: Schema, q: float, epsilon: float) -> Iterator[Atoms]:
    """The atoms of every pair of legal records, up to a permutation of the bits."""
    width = schema.width
    messages = np.array(list(itertools.product((0, 1), repeat=width)))
    weight = messages.sum(axis=1)
    legal = messages[weight == 1] if schema.kind == "one_hot" else messages[weight <= schema.max_set]
    distance = (messages[:, None, :] != legal[None, :, :]).sum(axis=2)
    law = q**distance * (1 - q) ** (width - distance)
    least = law.min(axis=1)
    seen = set()
    for i, j in itertools.permutations(range(len(legal)), 2):
        kind = (legal[i].sum(), legal[j].sum(), (legal[i] & legal[j]).sum())
        if kind not in seen:
            seen.add(kind)
            yield (law[:, i] - math.exp(epsilon) * law[:, j]) / least, least


def blanket(schema: Schema, q: float, n: int, epsilon: float) -> float:
    """ln δ(ε) proven for every collection of n flipped whole records of which n are honest; errs upwards.

    >>> round(math.exp(blanket(Schema.bits(5), 0.2446, 1000, math.log(2))), 4)
    0.019
    """
    ratio = math.log1p(-q) - math.log(q)
    bounds = [local(schema, q, epsilon), 0.0]
    messages = schema.size << schema.width if schema.width < 16 else math.inf
    if schema.kind != "bits" and messages <= ENUMERATED:
        bounds.append(max(positive_mean(*atoms, n).upper for atoms in _least(schema, q, epsilon)))
    elif schema.kind != "bits" and 2 * schema.max_set * ratio < OVERFLOW:
        bounds.append(positive_mean(*_product(schema.max_set, q, epsilon), n).upper)
    if 2 * schema.max_set >= schema.width and schema.width * ratio < OVERFLOW:
        bounds.append(positive_mean(*_uniform(schema.width, q, epsilon), n).upper)
    return min(bounds)


def _backgrounds(schema: Schema) -> list[tuple[int, int, int]]:
    """(A, B, C) of the collections in which all others hold one record."""
    width, ones = schema.width, schema.max_set
    if schema.kind == "one_hot":
        return [(2, 0, 0), (0, 2, 0)] + ([(1, 1, 1)] if width > 2 else [])
    if schema.kind == "bits" or width < 2 * ones:
        if width <= 5:
            kinds = itertools.product(range(width + 1), repeat=3)
            return [(a, b, c) for a, b, c in kinds if 0 < a + b <= a + b + c <= width]
        return [(width, 0, 0), (0, width, 0), (width - 1, 1, 0), (1, width - 1, 0), (width // 2, width - width // 2, 0)]
    third = min(ones, width - 2 * ones)
    return [(2 * ones, 0, 0), (0, 2 * ones, 0), (ones, ones, third), (ones, ones, 0)]


def _background(kind: tuple[int, int, int], q: float, epsilon: float) -> Atoms:
    ratio = math.log1p(-q) - math.log(q)
    laws = [_binomial(size, q) for size in kind]
    a, b, c = (np.exp(ratio * (2 * np.arange(size + 1) - size)) for size in kind)
    values = c * (a[:, None, None] - math.exp(epsilon) * b[None, :, None])
    weights = laws[0][:, None, None] * laws[1][None, :, None] * laws[2]
    return values.ravel(), weights.ravel()


def attack(schema: Schema, q: float, n: int, epsilon: float) -> float:
    """ln δ(ε) of the worst collection known in which all others hold one record; errs downwards.

    >>> one_hot, eps = Schema.one_hot(3), 0.35071
    >>> 5 < math.exp(attack(one_hot, 0.1, 10**4, eps)) / 1e-6 < 40  # the notes' own case has 10⁻⁶ here
    True
    """
    ratio = math.log1p(-q) - math.log(q)
    if 3 * schema.distance * ratio > OVERFLOW:
        return copies_attack(schema, q, n, epsilon, 1)
    found = [positive_mean(*_background(kind, q, epsilon), n).lower for kind in _backgrounds(schema)]
    return max(max(found), copies_attack(schema, q, n, epsilon, 1))


def copies_attack(schema: Schema, q: float, n: int, epsilon: float, k: int) -> float:
    """ln δ(ε) for an analyzer who counts one single bit of k copies: a weak attack on anything; errs downwards.

    >>> copies_attack(Schema.bits(3), 0.1, 100, 0.5, 2) == copies_attack(Schema.one_hot(9), 0.1, 100, 0.5, 2)
    True
    """
    crowds = bit.log_delta([n - 1, 0], [0, n - 1], q, epsilon, k)
    return float(crowds.max()) - 1e-6


def _categories(d: int, q: float) -> float:
    return 1.0 - (d - 1) * q


def category_blanket(d: int, q: float, n: int, epsilon: float) -> float:
    """ln δ(ε) of d-ary randomized response, each wrong category with probability q, for every collection.

    w is uniform, q for each category. Errs upwards; for d ≥ 3 by less than 0.1 % in practice, and exact for d = 2.

    >>> eps0 = 1.0; q = 1 / (math.exp(eps0) + 3)
    >>> math.exp(category_blanket(4, q, 2, 0.77)) >= 0.028042  # published code says 0.01708
    True
    """
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).upper
    p, e = _categories(d, q), math.exp(epsilon)
    return min(0.0, positive_mean([p / q - e, 1 - e * p / q, 1 - e], [q, q, (d - 2) * q], n).upper)


def category_attack(d: int, q: float, n: int, epsilon: float) -> float:
    """ln δ(ε) of d-ary randomized response where all others hold a third category (d = 2: the worst); errs downwards."""
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).lower
    p, e = _categories(d, q), math.exp(epsilon)
    values, weights = [(p - e * q) / q, (q - e * p) / q, (q - e * q) / p], [q, q, p]
    if d > 3:
        values, weights = [*values, 1 - e], [*weights, (d - 3) * q]
    return positive_mean(values, weights, n).lower
