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
  a one contributes ℓA − ℓB with one ℓ of mean 1; with two positions it is ℓ₁A − ℓ₂B. ℓA and −ℓB are
  counter-monotonic, so their sum is the least of all couplings in the convex order. And a further one multiplies A
  (or B) by an independent ℓ of mean 1, which is larger in the convex order. Where d < 2K the disjoint pair is not
  legal, but covers all the same.
- *least*: w(s) = min_y μ_y(s), listed for short one-hot records, all of whose pairs are alike.

**Backgrounds** (w = μ_y, all others hold y) are exact for that collection, hence attacks: positions fall into A where
only x differs from y, B where only x' does, C where both do, and G = ρ^(2c−C)(ρ^(2a−A) − e^ε ρ^(2b−B)) with a, b, c
independent binomials of probability q. The notes look at C = A = 0 [003 §2–3]; a third category is worse.
"""

import itertools
import math
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.quadrature import positive_mean
from hubbub.accountant.theorems import bit
from hubbub.numeric.binomial import binomial, binomial_pmf
from hubbub.numeric.divergences import hockey_stick
from hubbub.schema import Schema

Floats = NDArray[np.float64]

Atoms = tuple[Floats, Floats]

bracket = partial(positive_mean, tolerance=2e-3)
"""The engine, at a width that costs a tenth of its narrowest and moves a calibrated q by less than 10⁻⁴."""

OVERFLOW = 600.0  # ln of the largest likelihood ratio that atoms may hold
ENUMERATED = 8  # most bits for which the least blanket is made by listing all messages


def local(schema: Schema, q: float, epsilon: float, k: int = 1) -> float:
    """ln δ(ε) of what one user sends in k copies, without any crowd: an upper bound for every protocol.

    Two records at distance h are told apart by Bin(kh, p) against Bin(kh, q).

    >>> local(Schema.bits(1), 0.25, 1.2)  # beyond ln 3 nothing is left
    -inf
    """
    bits = k * schema.distance
    if epsilon >= bits * (math.log1p(-q) - math.log(q)):
        return -math.inf
    truth, flips = (binomial_pmf(bits, chance) for chance in (1 - q, q))
    # Next to the pure ε the difference of the two laws cancels; each is known to better than 10⁻¹².
    wide = truth > flips * math.exp(min(epsilon, 700.0)) * (1 - 1e-12)
    return math.log(max(hockey_stick(truth, flips, epsilon) + 2e-12 * float(truth[wide].sum()), 5e-324)) + 1e-10


def uniform_blanket(width: int, q: float, epsilon: float) -> Atoms:
    """The atoms of opposite records under the uniform blanket of all bit vectors.

    >>> values, weights = uniform_blanket(2, 0.25, 0.0)
    >>> values.round(9).tolist(), weights.round(9).tolist()  # ρ^a − ρ^(L−a), and q^L for each of the C(L, a) messages
    ([-8.0, 0.0, 8.0], [0.0625, 0.125, 0.0625])
    """
    ratio = math.log1p(-q) - math.log(q)
    a = np.arange(width + 1)
    return np.exp(ratio * a) - np.exp(epsilon + ratio * (width - a)), binomial_pmf(width, 0.5) * (2 * q) ** width


def _product(ones: int, q: float, epsilon: float) -> Atoms:
    ratio = 2 * (math.log1p(-q) - math.log(q))
    distribution = binomial_pmf(ones, q)
    power = np.exp(ratio * np.arange(ones + 1))
    values = power[:, None] - math.exp(epsilon) * power[None, :]
    return values.ravel(), (np.outer(distribution, distribution) * (q / (1 - q)) ** ones).ravel()


def _least(width: int, q: float, epsilon: float) -> Atoms:
    """The least of all blankets for short one-hot records: all their pairs are alike."""
    messages = np.array(list(itertools.product((0, 1), repeat=width)))
    distance = 1 + messages.sum(axis=1)[:, None] - 2 * messages  # of every message from every one-hot record
    distribution = q**distance * (1 - q) ** (width - distance)
    least = distribution.min(axis=1)
    return (distribution[:, 0] - math.exp(epsilon) * distribution[:, 1]) / least, least


def blanket(schema: Schema, q: float, n: int, epsilon: float) -> float:
    """ln δ(ε) proven for every collection of n honest users' flipped whole records; errs upwards.

    Where fewer than one of the n messages is expected to come from the blanket, no crowd is there to hide in, and only
    the local bound is given.

    >>> round(math.exp(blanket(Schema.bits(5), 0.2446, 1000, math.log(2))), 4)
    0.019
    """
    ratio = math.log1p(-q) - math.log(q)
    size = math.log(n)
    bounds = [local(schema, q, epsilon), 0.0]
    if schema.exclusive and schema.width <= ENUMERATED:
        bounds.append(bracket(*_least(schema.width, q, epsilon), n).upper)
    elif not schema.dense and size > schema.max_set * ratio:
        bounds.append(bracket(*_product(schema.max_set, q, epsilon), n).upper)
    if 2 * schema.max_set >= schema.width and size > -schema.width * math.log(2 * q):
        bounds.append(bracket(*uniform_blanket(schema.width, q, epsilon), n).upper)
    return min(bounds)


def backgrounds(schema: Schema) -> list[tuple[int, int, int]]:
    """(A, B, C) of the collections in which all others hold one record: where only x, only x', or both differ from it.

    >>> backgrounds(Schema.one_hot(3))  # x', x and a third category
    [(2, 0, 0), (0, 2, 0), (1, 1, 1)]
    """
    width, ones = schema.width, schema.max_set
    if schema.exclusive:
        return [(2, 0, 0), (0, 2, 0)] + ([(1, 1, 1)] if width > 2 else [])
    if schema.dense or width < 2 * ones:
        if width <= 5:
            kinds = itertools.product(range(width + 1), repeat=3)
            return [(a, b, c) for a, b, c in kinds if 0 < a + b <= a + b + c <= width]
        return [(width, 0, 0), (0, width, 0), (width - 1, 1, 0), (1, width - 1, 0), (width // 2, width - width // 2, 0)]
    third = min(ones, width - 2 * ones)
    return [(2 * ones, 0, 0), (0, 2 * ones, 0), (ones, ones, third), (ones, ones, 0)]


def likelihoods(kind: tuple[int, int, int], q: float) -> tuple[Floats, ...]:
    """μ_x/μ_y, μ_x'/μ_y and the probabilities under μ_y of the kinds of messages in a crowd that holds y.

    >>> x, other, distribution = likelihoods((1, 1, 1), 0.1)
    >>> [round(float(row @ distribution), 12) for row in (x, other)]  # both are densities
    [1.0, 1.0]
    """
    ratio = math.log1p(-q) - math.log(q)
    a_distribution, b_distribution, c_distribution = (binomial_pmf(size, q) for size in kind)
    a, b, c = (np.exp(ratio * (2 * np.arange(size + 1) - size)) for size in kind)
    shape = tuple(size + 1 for size in kind)
    x, other = a[:, None, None] * c, b[None, :, None] * c
    distribution = a_distribution[:, None, None] * b_distribution[None, :, None] * c_distribution
    return tuple(np.broadcast_to(row, shape).ravel() for row in (x, other, distribution))


def background(kind: tuple[int, int, int], q: float, epsilon: float) -> Atoms:
    """The atoms of a pair of records in a crowd of one kind: values G and their probabilities among the others.

    >>> values, distribution = background((1, 1, 1), 0.1, 1.0)
    >>> abs(float(values @ distribution) + math.expm1(1.0)) < 1e-12  # E G = 1 − e^ε
    True
    """
    x, other, distribution = likelihoods(kind, q)
    return x - math.exp(epsilon) * other, distribution


def attack(schema: Schema, q: float, n: int, epsilon: float, *, near: float | None = None) -> float:
    """ln δ(ε) of the worst collection known in which all others hold one record; errs downwards.

    The search for that record is done once, at ε = ``near`` if it is given.

    >>> one_hot, eps = Schema.one_hot(3), 0.35071
    >>> 5 < math.exp(attack(one_hot, 0.1, 10**4, eps)) / 1e-6 < 40  # the notes' own case has 10⁻⁶ here
    True
    """
    kind = _worst_background(schema, q, n, epsilon if near is None else near)
    found = bracket(*background(kind, q, epsilon), n).lower if kind else -math.inf
    return max(found, copies_attack(schema, q, n, epsilon, 1))


@lru_cache(maxsize=256)
def _worst_background(schema: Schema, q: float, n: int, epsilon: float) -> tuple[int, int, int] | None:
    if 3 * schema.distance * (math.log1p(-q) - math.log(q)) > OVERFLOW:
        return None
    return max(backgrounds(schema), key=lambda kind: bracket(*background(kind, q, epsilon), n).lower)


def copies(schema: Schema, q: float, n: int, epsilon: float, k: int, m: int = 0) -> float:
    """ln δ(ε) proven for k unlinked copies of whole records of n honest users and m fakes, by group privacy.

    Replace the copies one at a time: each step replaces one message among kn + m, of which the others hold anything, so
    that δ(ε) ≤ Σ_{i<k} e^{iε/k} δ₁(ε/k) with the certificate δ₁ for one copy. In the Gaussian regime the k steps have
    nearly one optimal event, and the sum is tight to second order. Errs upwards.

    >>> copies(Schema.bits(13), 0.3063, 10**6, math.log(2), 4) < math.log(1e-6)
    True
    """
    steps = math.log(math.expm1(epsilon) / math.expm1(epsilon / k)) if epsilon > 0 else math.log(k)
    return min(steps + blanket(schema, q, k * n + m, epsilon / k), local(schema, q, epsilon, k))


def fake_blanket(schema: Schema, q: float, m: int, epsilon: float) -> float:
    """ln δ(ε) proven by m flipped uniform fakes alone, whatever the real users do; errs upwards, ∞ if not known.

    w is the law of one flipped fake: uniform for all bit vectors, (1/d)·Σ_r μ_{e_r} for one-hot records [004 §6], which
    depends on s only through its weight.

    >>> round(math.exp(fake_blanket(Schema.one_hot(100), 0.01, 10**4, 0.452)) * 1e6, 2)
    1.0
    """
    ratio = math.log1p(-q) - math.log(q)
    if schema.dense and schema.width * ratio < OVERFLOW:
        likelihood = uniform_blanket(schema.width, q, epsilon)[0] * (2 * q) ** schema.width
        return bracket(likelihood, binomial_pmf(schema.width, 0.5), m + 1).upper
    if not schema.exclusive:
        return math.inf
    d = schema.width
    rest = np.arange(d - 1)
    near = binomial_pmf(d - 2, q)  # set bits among the other d − 2 if the fake is at one of the two categories
    far = np.zeros(d - 1)  # and if it is at one of those d − 2
    if d > 2:
        far[:-1] += q * binomial_pmf(d - 3, q)
        far[1:] += (1 - q) * binomial_pmf(d - 3, q)
    values: list[Floats] = []
    weights: list[Floats] = []
    chance = ((1 - q, q), (q, 1 - q))
    for one, two in itertools.product((0, 1), repeat=2):
        # P(first bit = one, second = two) for a fake at the first, at the second, at neither of the two categories
        first, second = chance[1][one] * chance[0][two], chance[0][one] * chance[1][two]
        weights.append(((first + second) * near + (d - 2) * chance[0][one] * chance[0][two] * far) / d)
        total = rest + one + two
        mean = (total * math.exp(ratio) + (d - total) * math.exp(-ratio)) / d
        values.append((math.exp(ratio * (2 * one - 1)) - math.exp(epsilon + ratio * (2 * two - 1))) / mean)
    value, weight = np.concatenate(values), np.concatenate(weights)
    rare = weight < 1e-22
    lost = float(weight[rare] @ np.maximum(value[rare], 0.0))  # leaving an atom out lowers E S⁺/n by no more than this
    found = bracket(value[~rare], weight[~rare], m + 1).upper
    return float(np.logaddexp(found, math.log(lost))) if lost > 0 else found


def copies_attack(schema: Schema, q: float, n: int, epsilon: float, k: int) -> float:
    """ln δ(ε) for an analyzer who counts the messages of one suspicious kind among k copies; errs downwards.

    All others hold one record; the kind is a set of messages that x sends more often than x', by their likelihoods, and
    the count is Bin(k, ·) of the person's copies on top of Bin(k(n−1), ·). An attack, not the best one.

    >>> schema, q, n, k = Schema.bits(13), 0.3063, 10**6, 4
    >>> copies_attack(schema, q, n, 0.3, k) < copies(schema, q, n, 0.3, k)
    True
    """
    found = float(bit.log_delta([n - 1, 0], [0, n - 1], q, epsilon, k).max()) - bit.allowance(n)
    if 3 * schema.distance * (math.log1p(-q) - math.log(q)) > OVERFLOW:
        return found
    for kind in backgrounds(schema):
        x, other, distribution = likelihoods(kind, q)
        order = np.argsort(other - x)
        crowd, own, twin = (
            np.cumsum(row[order])[:-1] for row in (distribution, distribution * x, distribution * other)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            signal = np.nan_to_num((own - twin) ** 2 / (crowd * (1 - crowd)), posinf=0.0)
        best = int(signal.argmax())
        chances = [float(np.clip(row[best], 0.0, 1.0)) for row in (crowd, own, twin)]
        base = _central(binomial(k * (n - 1), chances[0]).pmf)
        one, two = (np.convolve(base, binomial_pmf(k, chance)) for chance in chances[1:])
        value = max(hockey_stick(one, two, epsilon), hockey_stick(two, one, epsilon))
        found = max(found, math.log(value - 1e-13) if value > 2e-13 else -math.inf)
    return found


def column_attack(schema: Schema, q: float, n: int, epsilon: float, k: int, m: int) -> float:
    """ln δ(ε) for an analyzer who counts one single bit of k copies of n records and m fakes; errs downwards.

    All others hold a one there, or all a zero; the fakes show it with probability v = q + (p − q)·density.

    >>> abs(column_attack(Schema.bits(1), 0.1, 100, 0.5, 1, 0) - copies_attack(Schema.bits(1), 0.1, 100, 0.5, 1)) < 1e-3
    True
    """
    shown = binomial(m, q + (1 - 2 * q) * schema.density)
    found = 0.0
    for common in (1 - q, q):
        crowd = _central_convolution(binomial(k * (n - 1), common).pmf, shown.pmf)
        one, zero = (np.convolve(crowd, binomial_pmf(k, own)) for own in (1 - q, q))
        found = max(found, hockey_stick(one, zero, epsilon), hockey_stick(zero, one, epsilon))
    return math.log(found - 1e-13) if found > 2e-13 else -math.inf


def _central(distribution: Floats) -> Floats:
    """A law without its far tails."""
    return distribution[distribution > 1e-20]


def _central_convolution(one: Floats, two: Floats) -> Floats:
    """The convolution of two laws without their far tails."""
    one, two = _central(one), _central(two)
    if len(one) * len(two) < 2**22:
        return np.convolve(one, two)
    size = 1 << (len(one) + len(two) - 1).bit_length()
    return np.maximum(np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(two, size), size), 0.0)


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
    return min(0.0, bracket([p / q - e, 1 - e * p / q, 1 - e], [q, q, (d - 2) * q], n).upper)


def category_attack(d: int, q: float, n: int, epsilon: float) -> float:
    """ln δ(ε) of d-ary randomized response where all others hold a third category; errs downwards."""
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).lower
    p, e = _categories(d, q), math.exp(epsilon)
    values, weights = [(p - e * q) / q, (q - e * p) / q, (q - e * q) / p], [q, q, p]
    if d > 3:
        values, weights = [*values, 1 - e], [*weights, (d - 3) * q]
    return bracket(values, weights, n).lower
