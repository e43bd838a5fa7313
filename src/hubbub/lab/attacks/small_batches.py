"""Small batches: what an analyzer learns from fewer people than planned."""

import math
from functools import cache

import numpy as np

from hubbub.accountant import account, calibrate
from hubbub.bits.entropy import Entropy
from hubbub.lab.attacks import evidence
from hubbub.lab.attacks.evidence import Attack, Reading, simulated
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import neighbours
from hubbub.planner import plan_from
from hubbub.report import Axis, Series, chart

BUDGET, PLANNED = Budget(1.0, 1e-6), 1000
SIZES = (1, 2, 5, 10, 30, 100, 300, PLANNED)


def exact(n: int, q: float) -> float:
    """Return the success rate of the best guess of a bit by an attacker who knows that the n − 1 others have a one.

    ½(1 + δ(0)) of the two neighbouring counts; 1 − q for a batch of one.

    >>> round(exact(1, 0.1), 9)
    0.9
    """
    zero, one = neighbours(n, n - 1, q)
    return evidence.tell_apart(one.pmf, zero.pmf)


def attack(n: int, q: float, *, trials: int, entropy: Entropy) -> Reading:
    """Simulate the guess: the bit is a fair coin, the batch goes through the client, and the count is judged."""
    plan = plan_from(Schema.bits(1), n, Protocol(q), delta=BUDGET.delta)
    truth = evidence.victims(trials, n, entropy)
    counts = evidence.bits_shown(truth, plan, entropy).sum(axis=1, dtype=np.int64)
    scores = evidence.count_scores(counts, n, plan.protocol.q)
    return evidence.rate_reading("simulated attack", n, exact(n, plan.protocol.q), (scores > 0) == truth[:, 0])


@cache
def _guarantee(n: int, q: float) -> tuple[float, float]:
    """Return δ at ε = 0, and ε at the δ of the budget."""
    protocol, schema = Protocol(q), Schema.bits(1)
    delta = account(protocol, schema, n, epsilon=0.0).delta
    return delta, account(protocol, schema, n, delta=BUDGET.delta).epsilon


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """Attack batches from one person to the planned thousand."""
    schema = Schema.bits(1)
    q = calibrate(schema, PLANNED, BUDGET).protocol.q
    readings = [attack(n, q, trials=trials, entropy=entropy) for n in SIZES]
    grid = sorted({round(x) for x in np.geomspace(1, PLANNED, 40)})
    proven, epsilons = {n: _guarantee(n, q)[0] for n in grid}, {n: _guarantee(n, q)[1] for n in grid}
    local = math.log((1 - q) / q)
    guesses = chart(
        [
            Series(label="exact, all others have a one", points=[(n, exact(n, q)) for n in grid]),
            Series(label="proven bound, for any other records", points=[(n, (1 + proven[n]) / 2) for n in grid]),
            simulated("simulated", readings, "one"),
        ],
        "Success rate of the best guess, by batch size",
        across=Axis("people in the batch", log=True),
        up=Axis("success rate"),
    )
    budget = chart(
        [
            Series(label=f"ε proven at δ = {BUDGET.delta:g}", points=list(epsilons.items())),
            Series(label=f"one message alone, ln(p/q) = {local:.2f}", points=[(1, local), (PLANNED, local)]),
            Series(label="planned", points=[(1, BUDGET.epsilon), (PLANNED, BUDGET.epsilon)]),
        ],
        "Remaining guarantee, by batch size",
        across=Axis("people in the batch", log=True),
        up=Axis("ε", log=True),
    )
    tenth = exact(10, q)
    return Attack(
        name="batches",
        title="Batches that are too small",
        sentences=(
            f"A flip probability of {q:.3f} hides a person among {PLANNED:,}, where the best guess of a bit succeeds "
            f"in {exact(PLANNED, q):.1%} of cases, but not among 10, where it succeeds in {tenth:.1%}.",
            f"Alone in a batch, a person is protected only by their own randomization: {1 - q:.1%}, ε = {local:.2f} "
            f"instead of {BUDGET.epsilon:g}; the shuffler therefore releases no batch below the planned size.",
        ),
        x="people",
        readings=readings,
        pictures={"batches-guesses": guesses, "batches-epsilon": budget},
        captions={
            "batches-guesses": "The attacker knows all other bits and guesses the last one from the count.",
            "batches-epsilon": "The same protocol, accounted for smaller batches.",
        },
    )
