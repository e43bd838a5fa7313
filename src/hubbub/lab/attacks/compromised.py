"""An analyzer who owns a part of the users, knows what they sent, and subtracts it."""

import numpy as np

from hubbub.accountant import account
from hubbub.accountant.accounting import honest_users
from hubbub.analyzer import tally
from hubbub.bits.entropy import Entropy
from hubbub.bits.exact import Buffered
from hubbub.client import randomize
from hubbub.lab.attacks import small_batches
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
from hubbub.planner import family_name, frontier, plan_from
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.protocol import Fakes
from hubbub.records import Collection
from hubbub.reports import Reports, message_type
from hubbub.schema import Schema
from hubbub.shuffler import shuffle

BUDGET, PEOPLE = Budget(1.0, 1e-6), 1000
SHARES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
FLIPS, DRAWN = "flips of the users", "fakes of the shuffler"


def attack_flips(plan: Plan, share: float, *, trials: int, entropy: Entropy) -> Reading:
    """Simulate the guess of one honest person's bit from the count, less what the attacker's own users sent.

    Those send a plain one each, without a coin. The honest others have a one, which the attacker knows too.
    """
    q, honest = plan.protocol.q, honest_users(plan.n, 1 - share)
    truth = np.ones((trials, honest), np.bool_)
    truth[:, 0] = coins(trials, entropy)
    own = np.ones((trials, plan.n - honest), np.uint8)
    batch = np.concatenate([bits_shown(truth, plan, entropy), own], axis=1)
    left = batch.sum(axis=1, dtype=np.int64) - own.shape[1]
    zero, one = neighbours(honest, honest - 1, q)
    scores = log_ratio(one.pmf, zero.pmf)[np.clip(left, one.low, one.high) - one.low]
    return rate_reading(FLIPS, share, small_batches.exact(honest, q), (scores > 0) == truth[:, 0])


def exact_fakes(fakes: Fakes) -> float:
    """How often the best guess is right if a clear bit is hidden by fakes that the shuffler draws, whoever is owned.

    ½(1 + δ(0)) of their law and of the same law one higher.

    >>> round(exact_fakes(Fakes.laplace(1.0, 14)), 4)
    0.7311
    """
    distribution = fakes.pmf
    return tell_apart(np.append(0.0, distribution), np.append(distribution, 0.0))


def attack_fakes(plan: Plan, share: float, *, trials: int, entropy: Entropy) -> Reading:
    """Simulate the same guess for clear bits among the shuffler's fakes, batch by batch through the real shuffler."""
    fakes, honest = plan.protocol.m, honest_users(plan.n, 1 - share)
    assert isinstance(fakes, Fakes)
    truth = coins(trials, entropy)
    source = Buffered(entropy)
    own = np.zeros(plan.n - honest, message_type(plan))  # each says that its one bit is set
    left = np.empty(trials, np.int64)
    for trial, answer in enumerate(truth):
        people = np.ones((honest, 1), np.bool_)
        people[0] = answer
        sent = randomize(Collection.from_values(people, plan.schema), plan, entropy=source)
        batch = Reports(plan, np.concatenate([sent.messages, own]), plan.n)
        left[trial] = tally(shuffle(batch, entropy=source)).counts[0] - own.size - (honest - 1)
    scores = log_ratio(np.append(0.0, fakes.pmf), np.append(fakes.pmf, 0.0))[np.clip(left, 0, fakes.pmf.size)]
    return rate_reading(DRAWN, share, exact_fakes(fakes), (scores > 0) == truth)


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """A thousand people, of whom the analyzer owns none, half, or all but one."""
    schema = Schema.bits(1)
    plans = frontier(schema, PEOPLE, BUDGET)
    flips = next(plan for plan in plans if plan.protocol.q > 0 and plan.guarantee.assumptions.shuffler)
    flips = plan_from(schema, PEOPLE, flips.protocol, delta=BUDGET.delta)
    drawn = next(plan for plan in plans if isinstance(plan.protocol.m, Fakes) and plan.protocol.m.by == "shuffler")
    readings = [attack_flips(flips, share, trials=trials, entropy=entropy) for share in SHARES]
    readings += [
        attack_fakes(drawn, share, trials=max(100, trials // 4), entropy=entropy) for share in (0.0, 0.9, 0.999)
    ]
    grid = sorted({*np.linspace(0, 0.98, 29).tolist(), *(1 - np.geomspace(0.02, 1 / PEOPLE, 8)).tolist()})

    def left(plan: Plan, share: float) -> float:
        return account(
            plan.protocol, schema, PEOPLE, delta=BUDGET.delta, honest_fraction=max(1 - share, 1 / PEOPLE)
        ).epsilon

    shuffled = [plan for plan in plans if plan.guarantee.assumptions.shuffler]
    epsilons = chart(
        [Series(label=family_name(plan), points=[(share, left(plan, share)) for share in grid]) for plan in shuffled],
        "The guarantee that is left, by the share that the analyzer owns",
        across=Axis("share of the users whom the analyzer owns"),
        up=Axis(f"ε proven at δ = {BUDGET.delta:g}"),
    )
    q = flips.protocol.q
    curve = [(share, small_batches.exact(honest_users(PEOPLE, max(1 - share, 1 / PEOPLE)), q)) for share in grid]
    flat = exact_fakes(drawn.protocol.m) if isinstance(drawn.protocol.m, Fakes) else 0.0
    guesses = chart(
        [
            Series(label="flips of the users, exact", points=curve),
            Series(label="fakes of the shuffler, exact", points=[(0.0, flat), (1.0, flat)]),
            *(
                simulated(f"simulated, {name}", [r for r in readings if r.series == name], colour)
                for name, colour in ((FLIPS, "one"), (DRAWN, "two"))
            ),
        ],
        "How often a guess is right, by the share that the analyzer owns",
        across=Axis("share of the users whom the analyzer owns"),
        up=Axis("guesses that are right"),
    )
    return Attack(
        name="owned",
        title="An analyzer who owns a part of the users",
        sentences=(
            f"Owned users hide nobody, because what they sent is known and subtracted: with flips, ε grows from "
            f"{left(flips, 0.0):.2f} to {left(flips, 0.5):.2f} if half of {PEOPLE:,} are owned and to "
            f"{left(flips, 0.99):.2f} if 99 % are; plans for fewer honest users (honest_fraction) are noisier.",
            f"Fakes that the shuffler draws do not depend on the users: ε stays {left(drawn, 0.99):.2f}, at the "
            f"price of records in the clear and of a better guess ({flat:.1%}) from the start.",
        ),
        x="share owned",
        y="guesses that are right",
        readings=readings,
        pictures={"owned-epsilon": epsilons, "owned-guesses": guesses},
        captions={
            "owned-epsilon": "The three protocols that meet ε = 1 with a shuffler. Steps are real: counts are whole."
            " Where a curve ends, nothing is left.",
            "owned-guesses": "The attacker knows everybody else's bit as well.",
        },
    )
