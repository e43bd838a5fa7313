"""Preliminary plans: certified, about two percent noisier than the best one of a family, and found by few certificates.

A page that follows a slider shows them until the search ends. The noise is that at which crowds who all hold the same
bits meet the budget (:func:`likely_log_delta`), with what a certificate usually adds; the certificate is a preliminary
one, on coarser grids. The estimate certifies nothing: a certificate of split bits
(:mod:`hubbub.accountant.theorems.split`) needs one or two percent more noise, and costs a hundred times as much.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant import Calibrated
from hubbub.accountant.accounting import honest_users, prove
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial, binomial_pmf
from hubbub.numeric.inversion import falling_root, gaussian_tail
from hubbub.planner.certify import Candidate, first_budget
from hubbub.planner.deadlines import check_time
from hubbub.planner.recompute import with_rounds
from hubbub.planner.request import Request

Floats = NDArray[np.float64]

RESOLVED = 1e-13  # smallest δ that is told apart from rounding errors
FAINT = 46.0  # outcomes of a probability below e^−46 are left out
CYCLE = 2**13  # grid points of the loss of all positions together; beyond them, losses count at the other end
GRAIN = (60.0, 10.0, CYCLE / 24)  # points per standard deviation: at least, times √(number of positions), at most
CERTIFICATES = 3  # certificates after which there is no quick way
USUAL = (0.62, 0.8)  # amount by which ln δ of a preliminary certificate usually lies above the estimate: for
# one round, and for several
SPARE = 0.03  # the same of a further certificate, above what the last one has shown
ENOUGH = 1.06  # multiple of the variances that seem to be needed at which no further certificate is tried
FEWEST = 200  # honest users below whom certificates cost little, and preliminary ones are no guide to others
MOST = 64.0  # largest multiple of the variances of a Gaussian mechanism that is searched
CLOSE = 2e-3  # relative distance within which it is found


def preliminary_plan(request: Request, candidate: Candidate) -> Plan | None:
    """Return a certified plan of a family that is close to its best one; None if there is no quick way to one."""
    budget, make = request.budget, candidate.scaled
    own = replace(request, schema=candidate.schema or request.schema)
    honest = honest_users(own.n, own.honest_fraction)
    if make is None or budget.delta < RESOLVED or honest < FEWEST or request.needs_flips:
        return None  # where a policy requires more flips than privacy, the search takes one certificate as well
    goal = math.log(budget.delta)

    def likely(factor: float, epsilon: float) -> float:
        """Return the approximate ln δ of all rounds together."""
        positions = split_positions(make(factor), own.schema, honest)
        return likely_log_delta([(n, q, k, times * own.rounds) for n, q, k, times in positions], epsilon)

    def smallest(aim: float, guess: float) -> float:
        """Return the smallest factor at which ln δ is likely to be at most ``aim``; ∞ if there is none."""
        return falling_root(
            lambda x: likely(x, budget.epsilon) - aim, guess, MOST, relative=CLOSE, bend=gaussian_tail(aim)
        )[1]

    best: Plan | None = None
    factor, above = 1.0, USUAL[own.rounds > 1]
    for _ in range(CERTIFICATES):
        factor = smallest(goal - above, factor)
        if math.isinf(factor):
            break
        found = _certified(own, candidate, make(factor))
        total = found.total
        meets = total.epsilon <= budget.epsilon and total.delta <= budget.delta
        best = found if meets else best
        above = math.log(total.delta) - likely(factor, total.epsilon) + SPARE
        if not math.isfinite(above) or (meets and likely(factor / ENOUGH, budget.epsilon) + above > goal):
            break
    return best


def _certified(request: Request, candidate: Candidate, protocol: Protocol) -> Plan:
    """Return the plan of a protocol with a preliminary certificate, which need not meet the budget."""
    check_time()
    schema, n, share, rounds = request.schema, request.n, request.honest_fraction, request.rounds
    epsilon = first_budget(request).epsilon
    proven = prove(protocol, schema, n, epsilon=epsilon, honest_fraction=share, trust=candidate.trust, preliminary=True)
    plan = candidate.constrained(request, Calibrated(protocol, n, proven))
    return with_rounds(plan, rounds, request.budget.delta if rounds > 1 else None, preliminary=True)


@lru_cache(maxsize=256)
def _position(n: int, q: float, k: int) -> tuple[Floats, Floats]:
    """Return the probabilities and losses of the outcomes of one position, in its worse order."""
    crowd = binomial(k * (n - 1), 1 - q, tail=FAINT + 10)
    first, second = (portable.convolve(crowd.pmf, binomial_pmf(k, chance)) for chance in (1 - q, q))
    likely = (first > math.exp(-FAINT)) & (second > 0)
    # What was cut off the crowd is missing in the first and last outcomes.
    likely[: k if crowd.low > 0 else 0] = False
    likely[len(likely) - (k if crowd.low + crowd.pmf.size <= k * (n - 1) else 0) :] = False
    return first[likely], portable.log(first[likely]) - portable.log(second[likely])


def likely_log_delta(positions: Sequence[tuple[int, float, int, int]], epsilon: float) -> float:
    """Return the approximate ln δ(ε) of positions (n, q, k, times) together; −∞ far below what is resolved.

    Losses are put on a grid, which keeps their mean, and convolved.

    >>> round(math.exp(likely_log_delta([(5000, 0.1964, 1, 2)], 0.1132)) * 1e6, 2)  # the certificate is 1.13
    1.12
    """
    found = [(*_position(n, q, k), times) for n, q, k, times in positions]
    moments = [(float((mass * loss).sum()), float((mass * loss * loss).sum()), times) for mass, loss, times in found]
    mean = math.fsum(times * first for first, _, times in moments)
    variance = math.fsum(times * (second - first * first) for first, second, times in moments)
    count = sum(times for _, _, times in found)
    step = math.sqrt(variance) / min(max(GRAIN[0], GRAIN[1] * math.sqrt(count)), GRAIN[2])
    low = round(mean / step) - CYCLE // 2
    product = np.ones(CYCLE // 2 + 1, dtype=np.complex128)
    shift = 0
    for mass, loss, times in found:
        place = np.floor(loss / step)
        rest, start = loss / step - place, int(place.min())
        index = (place - start).astype(np.intp) % CYCLE
        row = np.bincount(index, mass * (1 - rest), CYCLE) + np.bincount((index + 1) % CYCLE, mass * rest, CYCLE)
        product = portable.times(product, portable.power(np.fft.rfft(row), times))
        shift += times * start
    total = np.roll(np.fft.irfft(product, CYCLE), shift - low)
    losses = step * (low + np.arange(CYCLE))
    above = losses > epsilon
    delta = float((total[above] * -portable.expm1(epsilon - losses[above])).sum())
    return math.log(min(delta, 1.0)) if delta > 0.0 else -math.inf


def split_positions(protocol: Protocol, schema: Schema, honest: int) -> list[tuple[int, float, int, int]]:
    """Return the positions of split bits in which two records may differ, as :func:`likely_log_delta` takes them.

    >>> split_positions(Protocol(0.125, release="bits"), Schema.one_hot(9), 1000)
    [(1000, 0.125, 1, 2)]
    """
    if len(protocol.noise) == 1:
        return [(honest, protocol.q, protocol.k, schema.distance)]
    return [(honest, noise.q, 1, 2) for noise in protocol.noise]
