"""Repeated collection without a ledger: the same person reports many times with fresh noise."""

from collections.abc import Iterable
from functools import cache

import numpy as np

from hubbub.accountant import Ledger, calibrate
from hubbub.accountant.attained import repeated
from hubbub.bits.entropy import Entropy
from hubbub.lab.attacks import evidence
from hubbub.lab.attacks.evidence import Attack, Reading, simulated
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial_pmf
from hubbub.numeric.crowd import neighbours
from hubbub.planner import plan_from
from hubbub.report import Axis, Series, chart

BUDGET, PEOPLE = Budget(1.0, 1e-6), 200
ALLOWED = 2.0  # total ε per person, at the same δ
ROUNDS = (1, 2, 4, 8, 16, 32, 64)
SHUFFLED, LINKED = "simulated, shuffled", "simulated, linked to the person"


@cache
def exact(n: int, q: float, rounds: int) -> float:
    """Return the success rate of the best guess after several rounds if all others have a one: ½(1 + δ(0)).

    Rounded down by less than 0.002.

    >>> round(exact(200, 0.2, 1), 3), round(exact(200, 0.2, 64), 3)
    (0.521, 0.664)
    """
    zero, one = neighbours(n, n - 1, q)
    return 0.5 * (1 + repeated(one.pmf, zero.pmf, rounds).delta(0.0))


def averaging(q: float, rounds: int) -> float:
    """Return the success rate of the majority of a person's reports; a coin decides ties.

    >>> averaging(0.2, 1), round(averaging(0.2, 3), 3)
    (0.8, 0.896)
    """
    return evidence.tell_apart(binomial_pmf(rounds, 1 - q), binomial_pmf(rounds, q))


def rounds_within(plan: Plan, epsilon: float, most: int) -> int:
    """Return how many collections of this plan a ledger admits within ε at the plan's δ, at most ``most``."""
    return min(Ledger().remaining(plan, Budget(epsilon, plan.guarantee.delta)), most)


def attack(plan: Plan, rounds: Iterable[int], *, trials: int, entropy: Entropy) -> list[Reading]:
    """Simulate the guesses after each number of rounds, from shuffled counts and from linked reports."""
    evidence.check_no_survey(plan.schema)
    wanted = sorted(rounds)
    q, n, most = plan.protocol.q, plan.n, wanted[-1]
    truth = evidence.victims(trials, n, entropy)
    answer = truth[:, 0]
    scores, own = np.zeros(trials), np.zeros(trials, np.int64)
    found: list[Reading] = []
    for turn in range(1, most + 1):
        shown = evidence.bits_shown(truth, plan, entropy)
        counts = shown.sum(axis=1, dtype=np.int64)
        scores += evidence.count_scores(counts, n, q)
        own += shown[:, 0]
        if turn in wanted:
            tie = evidence.coins(trials, entropy)
            majority = np.where(2 * own == turn, tie, 2 * own > turn)
            found.append(evidence.rate_reading(SHUFFLED, turn, exact(n, q, turn), (scores > 0) == answer))
            found.append(evidence.rate_reading(LINKED, turn, averaging(q, turn), majority == answer))
    return found


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """Attack a person in 64 collections of 200 people, each of which meets its budget."""
    schema = Schema.bits(1)
    plan = plan_from(schema, PEOPLE, calibrate(schema, PEOPLE, BUDGET).protocol, delta=BUDGET.delta)
    q = plan.protocol.q
    readings = attack(plan, ROUNDS, trials=trials, entropy=entropy)
    admitted = rounds_within(plan, ALLOWED, ROUNDS[-1])
    bounds = {r: 0.5 * (1 + Ledger().charge(plan, rounds=r).delta(0.0)) for r in ROUNDS}
    curve = {r: exact(PEOPLE, q, r) for r in range(1, ROUNDS[-1] + 1)}
    stopped = [(r, curve[min(r, admitted)]) for r in curve]
    picture = chart(
        [
            Series(label="without a ledger, exact", points=list(curve.items())),
            Series(label="linked reports, averaged, exact", points=[(r, averaging(q, r)) for r in curve]),
            Series(label=f"with a ledger: no collection after {admitted}", points=stopped),
            Series(label="bound by the ledger", points=list(bounds.items())),
            simulated("simulated", [r for r in readings if r.series == SHUFFLED], "one"),
            simulated("simulated, linked", [r for r in readings if r.series == LINKED], "two"),
        ],
        "Success rate of the best guess, by number of collections",
        across=Axis("collections with the same person", log=True),
        up=Axis("success rate"),
    )
    last = ROUNDS[-1]
    return Attack(
        name="repetition",
        title="Repeated collections from the same people",
        sentences=(
            f"Each collection alone meets ε = {BUDGET.epsilon:g}, but fresh noise averages out: a guess that succeeds "
            f"in {curve[1]:.1%} of cases after one collection succeeds in {curve[last]:.1%} after {last}, and in "
            f"{averaging(q, 8):.1%} after only 8 if reports can be linked.",
            f"A ledger adds up what is spent and, with a total of ε = {ALLOWED:g}, admits {admitted} of {last} "
            f"collections: the guess stays at {curve[admitted]:.1%}.",
        ),
        x="collections",
        readings=readings,
        pictures={"repetition": picture},
        captions={
            "repetition": "The attacker knows all other bits in every round and multiplies the likelihood ratios."
        },
    )
