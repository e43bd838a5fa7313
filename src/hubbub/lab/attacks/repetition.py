"""Repeated collection without a ledger: the same person, asked again and again with fresh noise."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hubbub.accountant import Ledger, calibrate
from hubbub.accountant.theorems.split import repeated
from hubbub.bits.entropy import Entropy
from hubbub.lab.attacks.evidence import (
    Attack,
    Reading,
    bits_shown,
    coins,
    log_ratio,
    rate_reading,
    simulated,
    tell_apart,
)
from hubbub.numeric.binomial import binomial_pmf
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.inversion import least_whole
from hubbub.pages import Axis, Series, chart
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.protocol import Protocol
from hubbub.schema import Schema

BUDGET, PEOPLE = Budget(1.0, 1e-6), 200
ALLOWED = 2.0
"""ε of everything that one person may be asked for, at the same δ."""
ROUNDS = (1, 2, 4, 8, 16, 32, 64)
SHUFFLED, LINKED = "simulated, shuffled", "simulated, linked to the person"


def exact(n: int, q: float, rounds: int) -> float:
    """How often the best guess after so many rounds is right, if all others have a one: ½(1 + δ(0)) of the composition.

    Errs downwards, by less than 0.002.

    >>> round(exact(200, 0.2, 1), 3), round(exact(200, 0.2, 64), 3)
    (0.521, 0.664)
    """
    zero, one = neighbours(n, n - 1, q)
    return 0.5 * (1 + repeated(one.pmf, zero.pmf, rounds).delta(0.0))


def averaging(q: float, rounds: int) -> float:
    """How often the majority of so many reports of one person is right; ties are decided by a coin.

    >>> averaging(0.2, 1), round(averaging(0.2, 3), 3)
    (0.8, 0.896)
    """
    return tell_apart(binomial_pmf(rounds, 1 - q), binomial_pmf(rounds, q))


def rounds_within(plan: Plan, epsilon: float, most: int) -> int:
    """How many collections of this plan a ledger admits before ε is exceeded at the plan's δ; at most ``most``."""
    once = Ledger().charge(plan.protocol, plan.schema, plan.n)
    first = least_whole(lambda r: r > most or _times(once, r).epsilon(plan.guarantee.delta) > epsilon, 1, most + 1)
    return first - 1


def _times(once: Ledger, rounds: int) -> Ledger:
    """The ledger of one collection, repeated: its cover, which takes longest, is made once."""
    return replace(
        once,
        losses=tuple((loss, rounds) for loss, _ in once.losses),
        analyses=tuple((analysis, pure, rounds) for analysis, pure, _ in once.analyses),
    )


def attack(plan: Plan, rounds: Iterable[int], *, trials: int, entropy: Entropy) -> list[Reading]:
    """Simulate the guesses after each number of rounds: from shuffled counts, and from reports linked to the person."""
    wanted = sorted(rounds)
    q, n, most = plan.protocol.q, plan.n, wanted[-1]
    answer = coins(trials, entropy)
    zero, one = neighbours(n, n - 1, q)
    table = log_ratio(one.pmf, zero.pmf)
    scores, own = np.zeros(trials), np.zeros(trials, np.int64)
    found: list[Reading] = []
    truth = np.ones((trials, n), np.bool_)
    truth[:, 0] = answer
    for turn in range(1, most + 1):
        shown = bits_shown(truth, plan, entropy)
        counts = shown.sum(axis=1, dtype=np.int64)
        scores += table[np.clip(counts, one.low, one.high) - one.low]
        own += shown[:, 0]
        if turn in wanted:
            tie = coins(trials, entropy)
            majority = np.where(2 * own == turn, tie, 2 * own > turn)
            found.append(rate_reading(SHUFFLED, turn, exact(n, q, turn), (scores > 0) == answer))
            found.append(rate_reading(LINKED, turn, averaging(q, turn), majority == answer))
    return found


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """One person in 64 collections of 200, each of which keeps its own promise."""
    schema = Schema.bits(1)
    plan = plan_from(schema, PEOPLE, calibrate(schema, PEOPLE, BUDGET).protocol, delta=BUDGET.delta)
    q = plan.protocol.q
    readings = attack(plan, ROUNDS, trials=trials, entropy=entropy)
    admitted = rounds_within(plan, ALLOWED, ROUNDS[-1])
    once = Ledger().charge(Protocol(q), schema, PEOPLE)
    bounds = {r: 0.5 * (1 + _times(once, r).delta(0.0)) for r in ROUNDS}
    curve = {r: exact(PEOPLE, q, r) for r in range(1, ROUNDS[-1] + 1)}
    stopped = [(r, curve[min(r, admitted)]) for r in curve]
    picture = chart(
        [
            Series(label="without a ledger, exact", points=list(curve.items())),
            Series(label="linked reports, averaged, exact", points=[(r, averaging(q, r)) for r in curve]),
            Series(label=f"with a ledger: not asked again after {admitted}", points=stopped),
            Series(label="what the ledger proves", points=list(bounds.items())),
            simulated("simulated", [r for r in readings if r.series == SHUFFLED], "one"),
            simulated("simulated, linked", [r for r in readings if r.series == LINKED], "two"),
        ],
        "How often a guess is right, by the number of collections",
        across=Axis("collections that the person took part in", log=True),
        up=Axis("guesses that are right"),
    )
    last = ROUNDS[-1]
    return Attack(
        name="repetition",
        title="The same person, again and again",
        sentences=(
            f"Each collection alone keeps ε = {BUDGET.epsilon:g}, but fresh noise averages out: a guess that is "
            f"right in {curve[1]:.1%} of all cases after one is right in {curve[last]:.1%} after {last}, and in "
            f"{averaging(q, 8):.1%} after only 8 if the reports can be linked.",
            f"A ledger adds up what was spent and, at ε = {ALLOWED:g} for everything, admits {admitted} of the {last}: "
            f"the guess stays at {curve[admitted]:.1%}.",
        ),
        x="collections",
        y="guesses that are right",
        readings=readings,
        pictures={"repetition": picture},
        captions={
            "repetition": "The attacker knows everybody else's bit in every round and multiplies the likelihood ratios."
        },
    )
