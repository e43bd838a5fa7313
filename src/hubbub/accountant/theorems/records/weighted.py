"""Theorem 1F of slot exchange with weights: bit vectors among fakes, where no event is lost.

n others have μ_i ≥ γω, and m ≥ 1 fakes have the distribution ω. Every other user is covered with probability γ; B is
the set of covered users, K their number. For any a_k in [0, 1/k], the victim's message takes the place of each covered
user I with probability a_K (1−γ)ρ_I/μ_I, and otherwise joins the pool of fakes and covered messages
(``docs/theory/slot-exchange.md``, (8)). With G_f = (μ_x − e^ε μ_x')/ω,

    δ ≤ E[( γ a_{K+1} Σ_{i∉B} G_i(s_i) + 1/(K+m+1) Σ_{j≤K+m} {γ a_K Σ_{I∈B} G_I + (1 − K a_K) G_f}(u_j) )⁺].

A user's score varies more than a fake's, so users get a smaller weight θ: a_{k+1} = θ(1 − (1−γ)k a_k)/(γ(k+m+1)).
Named messages then have the weight θW_K, pooled ones W_K = γ a_{K+1}/θ = (1 − (1−γ)K a_K)/(K+m+1), and the pool holds
θK + e_K scores G_I, e_K = θK(a_K/a_{K+1} − 1), and scores G_f otherwise. If 0 ≤ e_K ≤ θ, give the pool's messages at
random to K places of score H_I = θG_I + (1−θ)G_f, to m places of score G_f, and to one of score H_a, a uniform in B,
with probability e_K/θ, else G_f: every message has the right mean score, and Jensen's inequality applies. Hence with

    R_i = E_{μ_i} e^{θzG_i} − γ E_ω e^{θzG_i},    V_i = E_ω e^{zH_i},    U = E_ω e^{zG_f},

W_K ≤ A/(K + c) = A ∫₀^∞ e^{−r(K+c)} dr, and for the last place
``|U + (e_K/θ) mean_a(V_a − U)| ≤ |U| + max_y |V_y − U|``::

    δ ≤ P[K outside a window] + A ∫₀^∞ e^{−cr} (1/π)∫₀^∞ e^{η²(t²−w²)/2}/(t²+w²)
        |U|^m { |U| Π_i |R_i + e^{−r}γV_i| + max_y |V_y − U| Π_i (|R_i| + e^{−r}γ|V_i|) } dw dr.

For a given crowd every product is convex in r and, between chords, in w. The sum over nodes is convex in the
composition of the crowd, so that it is largest for a crowd of one kind. θ = 0 is the pool of
:mod:`~hubbub.accountant.theorems.records.fakes`, and θ = 1 gives all messages one weight.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.records.contour import Contour, along, contour, falling
from hubbub.accountant.theorems.records.kinds import UNIT, pmf
from hubbub.numeric import portable

Floats = NDArray[np.float64]

MAX_WIDTH = 6
MAX_STEPS = 100_000  # numbers of covered users that are looked at
REACH = 30.0  # standard deviations of their number
THETAS = (0.4, 0.7, 1.0, 1.5)  # multiples of the ratio of variances


@dataclass(frozen=True, slots=True, eq=False)
class _Joint:
    """The atoms of one kind of user on whole messages: likelihood ratios to μ_y and to ω, and probabilities."""

    first: Floats
    second: Floats
    pooled_first: Floats
    pooled_second: Floats
    mu: Floats
    omega: Floats


@lru_cache(maxsize=64)
def _kinds(width: int, q: float, h: int) -> tuple[_Joint, ...]:
    """Return all kinds of users for pairs at distance h; the first positions only x, then only x', then both differ."""
    ratio, base = bit.log_odds(q), width * math.log(2 * q)
    made = []
    for A in range(h + 1):
        B = h - A
        for C in range(width - h + 1):
            D = width - h - C
            a, b, c, d = (
                v.ravel() for v in np.meshgrid(*(np.arange(size + 1) for size in (A, B, C, D)), indexing="ij")
            )
            mu, omega = (
                np.multiply.outer(
                    np.multiply.outer(pmf(A, p, 1 - p), pmf(B, p, 1 - p)),
                    np.multiply.outer(pmf(C, p, 1 - p), pmf(D, p, 1 - p)),
                ).ravel()
                for p in (q, 0.5)
            )
            x, other = a + (B - b) + c + (D - d), (A - a) + b + c + (D - d)  # agreements with x and x'
            made.append(
                _Joint(
                    portable.exp(ratio * (2.0 * a - A + 2 * c - C)),
                    portable.exp(ratio * (2.0 * b - B + 2 * c - C)),
                    portable.exp(ratio * x + base),
                    portable.exp(ratio * other + base),
                    mu,
                    omega,
                )
            )
    return tuple(made)


@dataclass(frozen=True, slots=True)
class _Weights:
    """W_K ≤ ``factor``/(K + ``shift``) in a window of K, W_K ≤ ``most``, and ln P[K outside]."""

    factor: float
    shift: float
    most: float
    lost: float


@lru_cache(maxsize=512)
def weights(n: int, m: int, gamma: float, theta: float) -> _Weights | None:
    """Return the weights of the pool's messages, or None if they cannot be bounded.

    >>> found = weights(50, 40, 0.1, 0.2)
    >>> 1 / 41 <= found.most <= 1.001 / 41, found.lost < -100
    (True, True)
    """
    mean = n * gamma
    reach = REACH * math.sqrt(mean) + 40.0
    low, high = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + 2 * reach))
    if high - low > MAX_STEPS:
        return None
    slope = 1.0 + theta * (1.0 - gamma) / gamma
    shift = (m + 1) / slope
    now = theta / (gamma * (m + 1 + slope * (low - 1))) if low else 0.0
    factor = most = 0.0
    last = low - 1
    for k in range(low, high + 1):
        pooled = (1.0 - (1.0 - gamma) * k * now) / (k + m + 1)
        after = theta * pooled / gamma
        share = k * (now / after - 1.0) if after > 0 else -1.0
        if not (0.0 < after <= 1.0 / (k + 1) and (k == 0 or (0.0 <= share <= 1.0 and now <= 1.0 / k))):
            break
        factor, most, last, now = max(factor, pooled * (k + shift)), max(most, pooled), k, after
    if last < low:
        return None
    tails = []
    if last < n:
        tails.append(_upper_tail(n, gamma, last + 1))
    if low > 0:
        tails.append(-((mean - low) ** 2) / (2 * mean))
    lost = float(np.logaddexp.reduce(tails)) + 1e-9 if tails else -math.inf
    return _Weights(factor * (1 + 1e-9), shift, most * (1 + 1e-9), min(lost, 0.0))


def _upper_tail(n: int, gamma: float, k: int) -> float:
    """Return a bound on ln P[Bin(n, γ) ≥ k] (Chernoff)."""
    if k <= n * gamma:
        return 0.0
    x = k / n
    rest = (1 - x) * math.log((1 - x) / (1 - gamma)) if x < 1 else 0.0
    return -n * (x * math.log(x / gamma) + rest) * (1 - 1e-9) + 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """One kind at one θ: scores of named and of pooled messages, and what their rounding errors are relative to."""

    joint: _Joint
    named: Floats
    pooled: Floats
    fake: Floats
    named_size: Floats
    pooled_size: Floats
    fake_size: Floats


def _scores(joint: _Joint, epsilon: float, theta: float) -> _Scores:
    grow = math.exp(epsilon)
    own, fake = joint.first - grow * joint.second, joint.pooled_first - grow * joint.pooled_second
    own_size, fake_size = joint.first + grow * joint.second, joint.pooled_first + grow * joint.pooled_second
    return _Scores(
        joint,
        theta * own,
        theta * own + (1 - theta) * fake,
        fake,
        theta * own_size,
        theta * own_size + (1 - theta) * fake_size,
        fake_size,
    )


def _real(one: _Scores, gamma: float, t: float) -> tuple[float, float, float]:
    """Return R + γV − 1, V − 1 and U − 1 at t."""
    mu, omega = one.joint.mu, one.joint.omega
    with np.errstate(over="ignore"):
        named, pooled, fake = (portable.expm1(t * score) for score in (one.named, one.pooled, one.fake))
    v = float(portable.dot(omega, pooled))
    return (
        float(portable.dot(mu, named)) - gamma * float(portable.dot(omega, named)) + gamma * v,
        v,
        float(portable.dot(omega, fake)),
    )


def weighted(width: int, q: float, n: int, m: int, epsilon: float, gamma: float) -> float:
    """Return ln δ(ε) of one flipped bit vector among n others and m fakes; ∞ if it proves nothing. Errs upwards.

    ``gamma`` must be at most (2q)^width.

    >>> weighted(2, 0.25, 50, 40, 0.5, 0.2499) < 0
    True
    """
    if width > MAX_WIDTH or n < 1 or m < 1 or not 0.0 < gamma < 1.0 or 3 * width * bit.log_odds(q) > 300:
        return math.inf
    worst = -math.inf
    with np.errstate(all="ignore"):
        for h in range(width, 0, -1):
            value = _at_distance(_kinds(width, q, h), n, m, epsilon, gamma, worst, _units(width, q))
            if not value < 0.0:
                return math.inf
            worst = max(worst, value)
    return worst


def _units(width: int, q: float) -> tuple[float, float]:
    """Return the rounding errors relative to sizes of scores, and to scores: as for :class:`.kinds.Family`, doubled."""
    return 2 * UNIT * (8 * width * abs(math.log(q)) + 16), 2 * UNIT * (6 * 2**width + 4 * width + 100)


def _at_distance(
    kinds: tuple[_Joint, ...], n: int, m: int, epsilon: float, gamma: float, worst: float, units: tuple[float, float]
) -> float:
    """Return the bound for one class of pairs, or one that does not exceed ``worst``."""
    found = _choose(kinds, n, m, epsilon, gamma)
    if found is None:
        return math.inf
    rough, theta, t, pool = found
    scores = [_scores(joint, epsilon, theta) for joint in kinds]
    if float(np.logaddexp(rough, pool.lost)) <= worst:
        return float(np.logaddexp(rough, pool.lost))
    return float(np.logaddexp(_integral(scores, n, m, gamma, t, pool, units), pool.lost)) + 1e-9


def _choose(
    kinds: tuple[_Joint, ...], n: int, m: int, epsilon: float, gamma: float
) -> tuple[float, float, float, _Weights] | None:
    """Return Chernoff's bound on ln δ, and the θ and t of the least one. A choice: every θ and t gives a bound."""
    plain = [_scores(joint, epsilon, 1.0) for joint in kinds]
    user = max(float(portable.dot(one.joint.mu, one.named**2)) for one in plain)
    fake = float(portable.dot(plain[0].joint.omega, plain[0].fake ** 2))
    best: tuple[float, float, float, _Weights] | None = None
    for multiple in THETAS:
        theta = min(1.0, multiple * fake / user)
        pool = weights(n, m, gamma, theta)
        if pool is None:
            continue
        scores = [_scores(joint, epsilon, theta) for joint in kinds]
        top = max(float(max(one.named.max(), one.pooled.max(), one.fake.max())) for one in scores)
        deviation = math.sqrt(n * theta**2 * user + (m + 1) * fake)
        low, high = math.log(0.05 / deviation), math.log(min(100.0 / deviation, 600.0 / max(top, 1e-9)))
        for points in (9, 7, 7):
            grid = np.linspace(min(low, high - 1e-3), high, points)
            values = [_chernoff(scores, n, m, gamma, math.exp(x)) + math.log(pool.most) for x in grid]
            at = int(np.argmin(values))
            low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, points - 1)])
            if math.isfinite(values[at]) and (best is None or values[at] < best[0]):
                best = (values[at], theta, math.exp(float(grid[at])), pool)
    return best


def _chernoff(scores: list[_Scores], n: int, m: int, gamma: float, t: float) -> float:
    """Return a bound on ln E S⁺ for every crowd: E S⁺ ≤ E e^{tS}/(et)."""
    real = [_real(one, gamma, t) for one in scores]
    exponent = max(n * math.log1p(mass) for mass, _, _ in real)
    last = max(max(v, u) for _, v, u in real)
    value = exponent + m * math.log1p(real[0][2]) + math.log1p(last) - 1 - math.log(t)
    return (value if math.isfinite(value) else math.inf) + 1e-9 * (1 + abs(exponent))


def _noise(one: _Scores, gamma: float, t: float, units: tuple[float, float]) -> float:
    """Return a bound on the rounding errors of all transforms of one kind, per unit of |z|."""
    total = 0.0
    for chances, score, size_ in (
        (one.joint.mu, one.named, one.named_size),
        (one.joint.omega, one.pooled, one.pooled_size),
        (one.joint.omega, one.fake, one.fake_size),
    ):
        grow = portable.exp(t * score)
        total += float(
            portable.dot(chances, (units[0] * grow * size_ + units[1] * np.maximum(grow, 1.0) * np.abs(score)))
        )
    return total


def _nodes(decay: float) -> tuple[Floats, Floats]:
    """Return nodes in r for an integrand that falls like e^{−r·decay}, and the weights of the trapezoid rule.

    Their number and their places in units of 1/decay are always the same.
    """
    places, step = [0.0], 0.2
    while places[-1] < 80.0:
        places.append(places[-1] + step)
        step *= 1.0 if places[-1] < 4 else 1.25
    nodes = np.array(places) / decay
    weight = np.zeros(len(nodes))
    weight[:-1] += np.diff(nodes) / 2
    weight[1:] += np.diff(nodes) / 2
    return nodes, weight


def _integral(
    scores: list[_Scores], n: int, m: int, gamma: float, t: float, pool: _Weights, units: tuple[float, float]
) -> float:
    real = [_real(one, gamma, t) for one in scores]
    lead = int(np.argmax([mass for mass, _, _ in real]))
    noise = max(_noise(one, gamma, t, units) for one in scores)
    if not (n + m) * noise * t < 0.1:
        return math.inf
    line = contour(t, _variance(scores[lead], n, m, gamma, t))
    decay = pool.shift + n * gamma * (1 + real[lead][1]) / (1 + real[lead][0])
    r, trapezoid = _nodes(decay)
    bend = np.diff(line.w) ** 2 / 8
    error = noise * (line.t + line.w[1:])
    lines = [_Along.of(one, gamma, line) for one in scores]
    fake = tuple(
        end + error
        for end in falling(portable.modulus(lines[0].fake), lines[0].fake_curve * bend, np.asarray(math.inf))
    )
    apart = [falling(one.apart, one.apart_curve * bend, np.asarray(math.inf)) for one in lines]
    last = tuple(np.max([ends[i] for ends in apart], axis=0) + 2 * error for i in (0, 1))
    top_error = noise * line.t
    top_fake = 1 + real[0][2] + top_error
    # Beyond the last node every factor is at most its value at w = 0.
    top_last = max(v for _, v, _ in real) + 1 + top_fake + top_error
    zeta = portable.exp(-r)[:, None]
    damp = trapezoid * portable.exp(-pool.shift * r)
    damp[-1] += math.exp(-pool.shift * float(r[-1])) / pool.shift
    best = -math.inf
    for one, (mass, v, _) in zip(lines, real, strict=True):
        exact = portable.modulus(one.named + zeta * one.covered)
        ends = falling(exact, one.curve * bend, np.asarray(math.inf))
        split = [falling(portable.modulus(part), curve * bend, np.asarray(math.inf)) for part, curve in one.parts]
        top = n * portable.log1p(
            np.maximum(mass - gamma * (1 + v) * (1 - portable.exp(-r)), -1 + 1e-300) + 2 * top_error
        )
        reference = n * math.log1p(mass + 2 * top_error) + m * math.log(top_fake)
        whole = line.beyond * (top_fake + top_last) * portable.exp(top + m * math.log(top_fake) - reference)
        for i, weight in enumerate((line.left, line.right)):
            rising = np.maximum.accumulate(ends[i][::-1] + 2 * error)[::-1]  # must not fall in ζ
            labels = split[0][i] + zeta * split[1][i] + 2 * error
            pooled = m * portable.log(fake[i]) - reference
            terms = fake[i] * portable.exp(n * portable.log(rising) + pooled) + last[i] * portable.exp(
                n * portable.log(labels) + pooled
            )
            whole = whole + portable.dot(terms, weight)
        value = reference + math.log(float(portable.dot(whole, damp)))
        best = max(best, value if not math.isnan(value) else math.inf)
    return best + math.log(pool.factor) + 1e-9


def _variance(one: _Scores, n: int, m: int, gamma: float, t: float) -> float:
    """Return about the variance of the tilted sum for a crowd of one kind."""

    def of(chances: Floats, score: Floats) -> float:
        tilted = chances * portable.exp(t * score)
        tilted = tilted / tilted.sum()
        return float(portable.dot(tilted, (score - float(portable.dot(tilted, score))) ** 2))

    mu, omega = one.joint.mu, one.joint.omega
    both = of(np.concatenate([mu - gamma * omega, gamma * omega]), np.concatenate([one.named, one.pooled]))
    return n * both + (m + 1) * of(omega, one.fake)


@dataclass(frozen=True, slots=True, eq=False)
class _Along:
    """The transforms of one kind along a contour, and bounds on −d²|·|/dw²."""

    named: NDArray[np.complex128]
    covered: NDArray[np.complex128]
    curve: float
    parts: tuple[tuple[NDArray[np.complex128], float], tuple[NDArray[np.complex128], float]]
    fake: NDArray[np.complex128]
    fake_curve: float
    apart: Floats
    apart_curve: float

    @classmethod
    def of(cls, one: _Scores, gamma: float, line: Contour) -> "_Along":
        """Return the transforms of R, γV, R + γV (whose curve bounds that of R + ζγV), U, and |V − U|."""
        mu, omega = one.joint.mu, one.joint.omega
        left = np.maximum(mu - gamma * omega, 0.0)
        zero = np.zeros_like(left)
        chances = np.stack([np.append(left, zero), np.append(zero, gamma * omega), np.append(left, gamma * omega)])
        both = along(np.append(one.named, one.pooled), chances, line)
        sums = chances.sum(axis=1)
        alone = along(one.fake, omega[None, :], line)
        named, covered = both.transform[0] + sums[0], both.transform[1] + sums[1]
        fake = alone.transform[0] + 1.0
        squares = float(
            portable.dot(
                omega,
                (one.pooled**2 * portable.exp(line.t * one.pooled) + one.fake**2 * portable.exp(line.t * one.fake)),
            )
        )
        return cls(
            named,
            covered,
            float(both.curve[2]),
            ((named, float(both.curve[0])), (covered, float(both.curve[1]))),
            fake,
            float(alone.curve[0]),
            portable.modulus(covered / gamma - fake),
            squares * (1 + 1e-9),
        )
