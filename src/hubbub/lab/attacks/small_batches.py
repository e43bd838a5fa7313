"""Small batches: what an analyzer learns from fewer people than the plan promises."""

import math

import numpy as np

from hubbub.accountant import account, calibrate
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
from hubbub.numeric.crowd import neighbours
from hubbub.pages import Axis, Series, chart
from hubbub.planner import plan_from
from hubbub.privacy import Budget
from hubbub.protocol import Protocol
from hubbub.schema import Schema

BUDGET, PLANNED = Budget(1.0, 1e-6), 1000
SIZES = (1, 2, 5, 10, 30, 100, 300, PLANNED)


def exact(n: int, q: float) -> float:
    """How often the best guess of one person's bit is right, if the attacker knows that the n − 1 others have a one.

    ½(1 + δ(0)) of the two neighbouring counts; 1 − q for a batch of one.

    >>> round(exact(1, 0.1), 9)
    0.9
    """
    zero, one = neighbours(n, n - 1, q)
    return tell_apart(one.pmf, zero.pmf)


def attack(n: int, q: float, *, trials: int, entropy: Entropy) -> Reading:
    """Simulate the guess: the person's bit is a fair coin, the batch goes through the client, the count is judged."""
    plan = plan_from(Schema.bits(1), n, Protocol(q), delta=BUDGET.delta)
    truth = np.ones((trials, n), np.bool_)
    truth[:, 0] = coins(trials, entropy)
    counts = bits_shown(truth, plan, entropy).sum(axis=1, dtype=np.int64)
    zero, one = neighbours(n, n - 1, plan.protocol.q)
    scores = log_ratio(one.pmf, zero.pmf)[np.clip(counts, one.low, one.high) - one.low]
    return rate_reading("simulated attack", n, exact(n, plan.protocol.q), (scores > 0) == truth[:, 0])


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """Batches from one person to the planned thousand."""
    schema = Schema.bits(1)
    q = calibrate(schema, PLANNED, BUDGET).protocol.q
    readings = [attack(n, q, trials=trials, entropy=entropy) for n in SIZES]
    grid = sorted({round(x) for x in np.geomspace(1, PLANNED, 40)})
    proven = {n: account(Protocol(q), schema, n, epsilon=0.0).delta for n in grid}
    epsilons = {n: account(Protocol(q), schema, n, delta=BUDGET.delta).epsilon for n in grid}
    local = math.log((1 - q) / q)
    guesses = chart(
        [
            Series(label="exact, all others have a one", points=[(n, exact(n, q)) for n in grid]),
            Series(label="proven bound, whatever the others have", points=[(n, (1 + proven[n]) / 2) for n in grid]),
            simulated("simulated", readings, "one"),
        ],
        "How often a guess is right, by the size of the batch",
        across=Axis("people in the batch", log=True),
        up=Axis("guesses that are right"),
    )
    budget = chart(
        [
            Series(label=f"ε proven at δ = {BUDGET.delta:g}", points=list(epsilons.items())),
            Series(
                label=f"what one message gives away by itself, ln(p/q) = {local:.2f}",
                points=[(1, local), (PLANNED, local)],
            ),
            Series(label="what was promised", points=[(1, BUDGET.epsilon), (PLANNED, BUDGET.epsilon)]),
        ],
        "The guarantee that is left, by the size of the batch",
        across=Axis("people in the batch", log=True),
        up=Axis("ε", log=True),
    )
    tenth = exact(10, q)
    return Attack(
        name="batches",
        title="Batches that are too small",
        sentences=(
            f"A lie probability of {q:.3f} hides a person among {PLANNED:,}, where the best guess of a bit is right in "
            f"{exact(PLANNED, q):.1%} of all cases, but not among 10, where it is right in {tenth:.1%}.",
            f"Alone in a batch, nothing but the person's own coin protects: {1 - q:.1%}, ε = {local:.2f} instead of "
            f"{BUDGET.epsilon:g}; the shuffler therefore releases no batch below the planned size.",
        ),
        x="people",
        y="guesses that are right",
        readings=readings,
        pictures={"batches-guesses": guesses, "batches-epsilon": budget},
        captions={
            "batches-guesses": "The attacker knows everybody else's bit and guesses the last one from the count.",
            "batches-epsilon": "The same protocol, accounted for smaller batches.",
        },
    )
