"""Whole records among fakes: slot exchange with companions of one known distribution.

A fake is a uniform legal record, flipped: its message has the distribution f = mean of all μ_y, which is at least γω
like every μ_y. Slot exchange applies to the users' and the fakes' messages together (Theorem 4 of
``docs/theory/slot-exchange.md``), with one difference: of the fakes it is known what they send. So the maximum over
crowds concerns the users only, and the fakes enter as *companions* of the kind f, M of them, fixed or random. Lost is
the event that at most one of all messages is covered, P[Bin(n + M, γ) ≤ 1].

The score of a fake, G_f = (μ_x − e^ε μ_x')/f, depends on the pair:

- *bits*: f is uniform; with j agreements of the message with x among the h positions in which x and x' differ and c
  agreements elsewhere, μ_x/f = (2q)^L ρ^(j+c) and μ_x'/f = (2q)^L ρ^(h−j+c). Every h has kinds and a companion.
- *one-hot*: μ_r/μ_0 = ρ if the message sets bit r, 1/ρ if not, so that f/μ_0 = (Tρ + (d − T)/ρ)/d for T set bits [004
  §6]. All pairs are alike.
- *at most K ones*: no companions; fakes count as users, or alone (:mod:`~hubbub.accountant.theorems.records.sparse`).

Where fakes hide more than users, messages should not count alike: :func:`pool` counts users only as far as they send
fakes, and :mod:`~hubbub.accountant.theorems.records.weighted` gives users a smaller weight.

**Random numbers.** M is independent of all records, and the analyzer may as well see it: δ = E δ_M
(:mod:`hubbub.accountant.theorems.numbers`). The bound for M fakes at a given t and C₀ is a sum of exponentials in M, so
that its mean is a value of the generating function of M: one evaluation, and no number of fakes is discarded.

**Copies.** Replacing the k copies one at a time, each step replaces one message among kn + M, the others being of legal
kinds: δ(ε) ≤ Σ_{i<k} e^{iε/k} δ₁(ε/k).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.gaussian_limit import information
from hubbub.accountant.theorems import bit, numbers
from hubbub.accountant.theorems.records import sparse
from hubbub.accountant.theorems.records.blankets import fake_blanket
from hubbub.accountant.theorems.records.contour import Crowd
from hubbub.accountant.theorems.records.exchange import FEW, bound, choose
from hubbub.accountant.theorems.records.kinds import Family, Kind, family, pmf
from hubbub.accountant.theorems.records.labels import evaluate
from hubbub.accountant.theorems.records.local import group_steps, local
from hubbub.accountant.theorems.records.weighted import weighted
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import log_binomial_pmf
from hubbub.numeric.divergences import gaussian_delta

Floats = NDArray[np.float64]

CLASSES = 200  # classes of the number of set bits, beyond which one-hot messages with similar numbers are merged
QUICK = 3  # most bits for which the weighted bound is averaged over a random number of fakes
GAIN = 0.01  # of ln δ that is worth a long evaluation
WEAK = math.log(0.5)  # ln δ above which a bound need not be tight
FEWER = 0.01  # probability of a smaller number of fakes than a bound that need not be tight counts on
SLACK = 1.0  # by which the Gaussian limit of ln δ may be too large
LARGEST = 690.0  # exponents up to which e^x does not overflow
WINDOW = 40.0  # standard deviations of that number beyond which all messages are merged


@dataclass(frozen=True, slots=True)
class Companions:
    """The fakes among a collection: ``fixed`` many, or as many as ``honest`` users draw from ``drawn``."""

    fixed: int = 0
    drawn: Fakes | None = None
    honest: int = 0

    @property
    def mean(self) -> float:
        """The expected number."""
        return float(self.fixed) if self.drawn is None else self.honest * self.drawn.mean

    def log_pgf(self, x: Floats) -> Floats:
        """Return ln E e^{Mx}."""
        if self.drawn is None:
            return np.asarray(self.fixed * x)
        if self.drawn.distribution == "poisson":
            return np.asarray(self.mean * portable.expm1(x))
        return np.asarray(self.honest * self.drawn.shift * portable.log1p(self.drawn.scale * portable.expm1(x)))

    def log_lost(self, n: int, gamma: float) -> float:
        """Return ln P[Bin(n + M, γ) ≤ 1]; errs upwards.

        With z = 1 − γ and P(z) = E z^M it is zⁿ P(z) (1 + (γ/z)(n + zP'(z)/P(z))).

        >>> round(math.exp(Companions(fixed=4).log_lost(6, 0.5)) * 1024, 6)
        11.0
        """
        if gamma >= 1.0:
            return 0.0
        stay = math.log1p(-gamma)
        if self.drawn is None:
            none, one = self.fixed * stay, float(self.fixed)
        elif self.drawn.distribution == "poisson":
            none, one = -self.mean * gamma, self.mean * (1.0 - gamma)
        else:
            chance = self.drawn.scale
            none = self.honest * self.drawn.shift * math.log1p(-chance * gamma)
            one = self.mean * (1.0 - gamma) / (1.0 - chance * gamma)
        exponent = n * stay + none
        return min(0.0, exponent + math.log1p((n + one) * gamma / (1.0 - gamma)) + 1e-15 * abs(exponent) + 1e-10)


@lru_cache(maxsize=256)
def companion(schema: Schema, q: float, h: int, *, uniform: bool) -> Kind | None:
    """Return the kind of a flipped uniform fake for the pairs at distance h, or None if the schema has no such kind.

    ``uniform`` says which ω the probabilities are for. Where one-hot messages are merged, μ_x/f is their largest and
    μ_x'/f their smallest value, which raises the score.

    >>> kind = companion(Schema.bits(2), 0.25, 1, uniform=True)
    >>> [round(float(row @ kind.mu), 12) for row in (kind.first, kind.second)]  # both are densities
    [1.0, 1.0]
    """
    if schema.dense:
        return _dense(schema.width, q, h)
    return _one_hot(schema.width, q, uniform=uniform) if schema.exclusive and schema.width > 1 else None


def _dense(width: int, q: float, h: int) -> Kind:
    ratio, rest = bit.log_odds(q), width - h
    j, c = np.arange(h + 1)[:, None], np.arange(rest + 1)[None, :]
    first, second = (portable.exp(ratio * power + width * math.log(2 * q)).ravel() for power in (j + c, h - j + c))
    chances = np.outer(pmf(h, 0.5, 0.5), pmf(rest, 0.5, 0.5)).ravel()
    return Kind(first, second, chances, chances)


def _one_hot(d: int, q: float, *, uniform: bool) -> Kind:
    p, ratio = 1.0 - q, bit.log_odds(q)
    share = 0.5 if uniform else q
    chance = ((p, q), (q, p))  # of a clear or set bit, for a record that does not or does have it
    rest = np.arange(d - 1)
    near, blank = (portable.exp(log_binomial_pmf(rest, d - 2, prob)) for prob in (q, share))
    far = np.zeros(d - 1)  # set bits elsewhere, for a fake of another category
    if d > 2:
        other = portable.exp(log_binomial_pmf(rest[:-1], d - 3, q))
        far[:-1] += q * other
        far[1:] += p * other
    classes = _classes(d, q, share)
    parts: list[tuple[Floats, Floats, Floats, Floats]] = []
    for one in (0, 1):
        for two in (0, 1):
            held = chance[1][one] * chance[0][two] + chance[0][one] * chance[1][two]
            mu = (held * near + (d - 2) * chance[0][one] * chance[0][two] * far) / d
            omega = (share if one else 1.0 - share) * (share if two else 1.0 - share) * blank
            total = rest + one + two
            mean = (total * math.exp(ratio) + (d - total) * math.exp(-ratio)) / d  # f/μ_0 rises in the number
            first, second = math.exp(ratio * (2 * one - 1)) / mean, math.exp(ratio * (2 * two - 1)) / mean
            ends = np.append(classes[1:], d - 1) - 1
            parts.append((first[classes], second[ends], np.add.reduceat(mu, classes), np.add.reduceat(omega, classes)))
    first, second, mu, omega = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Kind(first, second, np.maximum(mu, 1e-300), omega)


def _classes(d: int, q: float, share: float) -> NDArray[np.int64]:
    """Return the first number of set bits of every class: single ones, or at most ``CLASSES`` around the means."""
    if d - 1 <= 2 * CLASSES:
        return np.arange(d - 1)
    starts = [np.zeros(1, np.int64)]
    for prob in {q, share}:
        centre, spread = d * prob, math.sqrt(d * prob * (1 - prob)) + 1.0
        grid = centre + spread * np.concatenate(
            [np.linspace(-WINDOW, -8, 9), np.linspace(-8, 8, CLASSES // 2), [12.0, 20.0, WINDOW]]
        )
        starts.append(np.unique(np.clip(np.round(grid), 0, d - 2)).astype(np.int64))
    return np.unique(np.concatenate(starts))


def exchange_with_fakes(
    schema: Schema,
    q: float,
    n: int,
    epsilon: float,
    *,
    fixed: int = 0,
    drawn: Fakes | None = None,
    honest: int | None = None,
    k: int = 1,
) -> float:
    """Return ln δ(ε) proven by slot exchange for n honest users' records in k copies among fakes; ∞ if nothing is.

    The fakes are ``fixed`` many, or as many as the ``honest`` users (n by default) draw from ``drawn``. Errs upwards.

    >>> few, many = (exchange_with_fakes(Schema.bits(3), 0.2, 1000, 0.5, fixed=m) for m in (10, 1000))
    >>> many < few < 0
    True
    """
    companions = Companions(fixed, drawn, n if honest is None else honest)
    if k == 1:
        return _exchange(schema, q, n - 1, epsilon, companions)
    return group_steps(epsilon, k) + _exchange(schema, q, k * n - 1, epsilon / k, companions)


def weight_of_fakes(schema: Schema, q: float) -> float:
    """Return the largest γ with μ_y ≥ γf for every record y, rounded down; 0 if f is not known.

    (2q)^L for bits; for one-hot records μ_y/f is least where y's bit is clear and all others are set.

    >>> round(weight_of_fakes(Schema.bits(2), 0.25), 9), round(weight_of_fakes(Schema.one_hot(2), 0.25), 9)
    (0.25, 0.2)
    """
    if schema.dense:
        gamma = math.exp(schema.width * math.log(2 * q))
    elif schema.exclusive:
        gamma = schema.width / ((schema.width - 1) * math.exp(2 * bit.log_odds(q)) + 1.0)
    else:
        return sparse.weight(schema, q) if sparse.known(schema, q) else 0.0
    return min(1.0, gamma) * (1 - (schema.width + 64) * 2.0**-50) if schema.width < 2**40 else 0.0


def pool(schema: Schema, q: float, n: int, epsilon: float, companions: "Companions", useful: float = math.inf) -> float:
    """Return ln δ(ε) of one message among n others and fakes, proven by the fakes and the users' share of f.

    Every μ_y is at least γf, so a user's message is a further fake with probability γ. Show the analyzer which ones are
    not, and their messages: one message remains among J = Bin(n, γ) + M fakes, J independent of all records, and δ is
    at most the mean of :func:`fake_blanket` over J. It is (8) of ``docs/theory/slot-exchange.md`` with a = 0, and
    loses no event. Errs upwards; ∞ if f is not known, or if it takes long and proves no less than ``useful``.

    >>> alone = fake_blanket(Schema.bits(5), 0.25, 100, 0.7)
    >>> pool(Schema.bits(5), 0.25, 1000, 0.7, Companions(fixed=100)) < alone - 1
    True
    """
    if schema.dense or schema.exclusive:
        return numbers.average(_pool_size(schema, q, n, companions), lambda j: fake_blanket(schema, q, j, epsilon))
    if not sparse.known(schema, q):
        return math.inf
    size = _pool_size(schema, q, n, companions)
    farthest = sparse.farthest_blanket(schema, q, size[0][0], epsilon)  # other pairs and numbers prove less
    if farthest >= useful - GAIN:
        return math.inf
    if farthest > WEAK:
        size = numbers.merged(size, FEWER)
    return numbers.average(size, lambda j: sparse.sparse_fake_blanket(schema, q, j, epsilon))


@lru_cache(maxsize=64)
def _pool_size(schema: Schema, q: float, n: int, companions: "Companions") -> numbers.Blocks:
    gamma = weight_of_fakes(schema, q)
    covered = numbers.number(Fakes.binomial(1, gamma), n) if gamma > 0 and n > 0 else None
    step = 0.02 if schema.dense or schema.exclusive else numbers.COARSE
    if companions.drawn is None:
        made = [(companions.fixed, 1.0)]
    else:
        base = 0.0 if covered is None else covered.mean
        made = numbers.blocks(numbers.number(companions.drawn, companions.honest), step=step, base=base)
    if covered is None:
        return made
    return numbers.plus(made, numbers.blocks(covered, step=step, base=companions.mean), step)


def _exchange(
    schema: Schema, q: float, others: int, epsilon: float, companions: Companions, useful: float = math.inf
) -> float:
    """Return the bound of slot exchange for one message among others and fakes; ∞ if it is not below ``useful``."""
    found = family(schema, q)
    if found is None or others < 1 or (others + companions.mean) * found.gamma < FEW:
        return math.inf
    alone = local(schema, q, epsilon)
    if not math.isfinite(alone):
        return math.inf
    lost = companions.log_lost(others, found.gamma) + alone
    worst, chosen = -math.inf, None
    with np.errstate(all="ignore"):
        for h in sorted(set(found.triples[:, :2].sum(axis=1).tolist()), reverse=True):
            guest, pairs = companion(schema, q, h, uniform=found.uniform), found.at_distance(h)
            if guest is None:
                return math.inf
            crowd = Crowd(others, guest, companions.log_pgf)
            # The farthest pairs are the worst ones as a rule: what was chosen for them shows that others are below.
            value = math.inf if chosen is None else _at_distance(pairs, crowd, epsilon, *chosen, worst)
            if not value <= worst:
                chosen = choose(pairs, crowd, epsilon)
                if chosen is None:
                    return math.inf
                value = min(value, _at_distance(pairs, crowd, epsilon, *chosen, worst))
            worst = max(worst, value)
            if max(worst, lost) >= useful:
                return math.inf
    total = float(np.logaddexp(worst, lost)) + 1e-12
    return total if total < 0.0 else math.inf  # also for NaN


def _at_distance(pairs: Family, crowd: Crowd, epsilon: float, cut: float, t: float, enough: float) -> float:
    """Return the bound for pairs at one distance without the lost event, not resolved below ``enough``.

    It holds for every cut and every t; ∞ if scores are too large for this t.
    """
    assert crowd.companion is not None
    if not t * min(pairs.largest(epsilon), cut) <= LARGEST:
        return math.inf
    cost = -math.inf
    if cut < math.inf:
        cost = math.log(max(pairs.excess(epsilon, cut), crowd.companion.excess(epsilon, cut)) + 1e-300)
    left = enough + math.log(-math.expm1(cost - enough)) if cost < enough else -math.inf
    value = float(np.logaddexp(evaluate(pairs, crowd, epsilon, cut, t, enough=left).max(), cost))
    return math.inf if math.isnan(value) else value


def bound_with_fakes(schema: Schema, q: float, n: int, epsilon: float, companions: Companions, k: int = 1) -> float:
    """Return ln δ(ε) proven for n honest users' whole records in k copies among fakes: the least known bound.

    Bounds that take long are skipped where the Gaussian limit shows that they prove less than is known already; that
    can only raise the result. Errs upwards.

    >>> few = Companions(fixed=3)
    >>> bound_with_fakes(Schema.bits(2), 0.25, 4, 0.5, few) < bound(Schema.bits(2), 0.25, 7, 0.5)
    True
    """
    whole = local(schema, q, epsilon, k)
    if whole == -math.inf:
        return whole
    messages, each = k * n, epsilon / k
    steps = group_steps(epsilon, k) if k > 1 else 0.0
    known = local(schema, q, each)
    best = min(pool(schema, q, messages - 1, each, companions, min(known, -steps)), known)
    signals = _signals(schema, q, messages, companions.mean)
    if _limit(signals[0], each) < best:
        best = min(best, _weighted(schema, q, messages - 1, each, companions))
    if _limit(signals[1], each) < best:
        best = min(best, _exchange(schema, q, messages - 1, each, companions, best))
    if _limit(signals[2], each) < best:
        best = min(best, _as_users(schema, q, messages, each, companions))
    return min(whole, steps + best, 0.0)


def _weighted(schema: Schema, q: float, n: int, epsilon: float, companions: Companions) -> float:
    """Return the bound with a weight for users, and another for fakes; ∞ if it is not known."""
    if not schema.dense:
        return math.inf
    gamma = weight_of_fakes(schema, q)

    def given(fixed: int) -> float:
        return weighted(schema.width, q, n, fixed, epsilon, gamma)

    if companions.drawn is None:
        return given(companions.fixed)
    if schema.width > QUICK:
        return math.inf
    drawn = numbers.number(companions.drawn, companions.honest)
    return numbers.average(numbers.few_blocks(drawn), given)


def _as_users(schema: Schema, q: float, messages: int, epsilon: float, companions: Companions) -> float:
    """Return the bound that counts every fake as a user of an unknown record."""
    if companions.drawn is None:
        return bound(schema, q, messages + companions.fixed, epsilon)
    drawn = numbers.few_blocks(numbers.number(companions.drawn, companions.honest))
    return numbers.average(drawn, lambda fixed: bound(schema, q, messages + fixed, epsilon))


def _signals(schema: Schema, q: float, n: int, m: float) -> tuple[float, float, float]:
    """Return about the signals of n users and m fakes in the best weights and in equal ones, and of n + m users."""
    user = max(information(Protocol(q), schema), 1e-300)
    p = 1.0 - q
    fake = user
    if schema.dense:
        power = math.exp(min(300.0, schema.width * math.log(2 * (p * p + q * q))))  # also for thousands of bits
        fake = 2 * (power - (4 * p * q) ** schema.width)
    elif schema.exclusive:
        shown = q + (p - q) / schema.width
        fake = 2 * (p - q) ** 2 / (shown * (1 - shown))
    fake = max(fake, 1e-300)
    return math.sqrt(1 / (n / user + m / fake)), math.sqrt(n * user + m * fake) / (n + m), math.sqrt(user / (n + m))


def _limit(signal: float, epsilon: float) -> float:
    """Return about ln δ(ε) in the Gaussian limit."""
    return math.log(max(gaussian_delta(min(max(signal, 1e-9), 100.0), epsilon), 1e-300)) - SLACK
