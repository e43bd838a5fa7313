"""Compromised users: an analyzer who knows what they sent and subtracts it."""

from functools import cache

import numpy as np

from hubbub.accountant import account
from hubbub.accountant.accounting import honest_users
from hubbub.bits.entropy import Entropy
from hubbub.bits.exact import Buffered
from hubbub.lab.attacks import evidence, small_batches
from hubbub.lab.attacks.evidence import Attack, Reading, simulated
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes
from hubbub.model.schema import Schema
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports, message_type
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally
from hubbub.planner import family_name, frontier, plan_from
from hubbub.report import Axis, Series, chart

BUDGET, PEOPLE = Budget(1.0, 1e-6), 1000
SHARES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
FLIPS, DRAWN = "users' flips", "shuffler's fakes"


def attack_flips(plan: Plan, share: float, *, trials: int, entropy: Entropy) -> Reading:
    """Simulate the guess of an honest person's bit from the count without the compromised users' messages.

    Each of those sends an unflipped one. All other honest people have a one, which the attacker knows.
    """
    evidence.check_no_survey(plan.schema)
    q, honest = plan.protocol.q, honest_users(plan.n, 1 - share)
    truth = evidence.victims(trials, honest, entropy)
    own = np.ones((trials, plan.n - honest), np.uint8)
    batch = np.concatenate([evidence.bits_shown(truth, plan, entropy), own], axis=1)
    left = batch.sum(axis=1, dtype=np.int64) - own.shape[1]
    scores = evidence.count_scores(left, honest, q)
    return evidence.rate_reading(FLIPS, share, small_batches.exact(honest, q), (scores > 0) == truth[:, 0])


def exact_fakes(fakes: Fakes) -> float:
    """Return the success rate of the best guess of a clear bit among the shuffler's fakes.

    ½(1 + δ(0)) of their distribution and of the same shifted by one, for any number of compromised users.

    >>> round(exact_fakes(Fakes.laplace(1.0, 14)), 4)
    0.7311
    """
    return evidence.tell_apart(np.append(0.0, fakes.pmf), np.append(fakes.pmf, 0.0))


def attack_fakes(plan: Plan, share: float, *, trials: int, entropy: Entropy) -> Reading:
    """Simulate the same guess for clear bits among the shuffler's fakes, batch by batch through the real shuffler."""
    evidence.check_no_survey(plan.schema)
    fakes, honest = plan.protocol.shuffler_fakes, honest_users(plan.n, 1 - share)
    assert fakes is not None
    truth = evidence.coins(trials, entropy)
    source = Buffered(entropy)
    own = np.zeros(plan.n - honest, message_type(plan))  # each shows its only bit
    left = np.empty(trials, np.int64)
    for trial, answer in enumerate(truth):
        people = np.ones((honest, 1), np.bool_)
        people[0] = answer
        sent = randomize(Collection.from_values(people, plan.schema), plan, entropy=source)
        batch = Reports(plan, np.concatenate([sent.messages, own]), plan.n)
        left[trial] = tally(shuffle(batch, entropy=source)).counts[0] - own.size - (honest - 1)
    scores = evidence.log_ratio(np.append(0.0, fakes.pmf), np.append(fakes.pmf, 0.0))[np.clip(left, 0, fakes.pmf.size)]
    return evidence.rate_reading(DRAWN, share, exact_fakes(fakes), (scores > 0) == truth)


@cache
def left(plan: Plan, share: float) -> float:
    """Return the ε that remains if a fraction of the users is compromised."""
    honest = max(1 - share, 1 / plan.n)
    return account(plan.protocol, plan.schema, plan.n, delta=BUDGET.delta, honest_fraction=honest).epsilon


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """Attack a thousand people of whom none to all but one are compromised."""
    schema = Schema.bits(1)
    plans = frontier(schema, PEOPLE, BUDGET)
    flips = next(plan for plan in plans if not plan.protocol.clear and plan.guarantee.assumptions.shuffler)
    flips = plan_from(schema, PEOPLE, flips.protocol, delta=BUDGET.delta)
    drawn, fakes = next((plan, fakes) for plan in plans if (fakes := plan.protocol.shuffler_fakes) is not None)
    readings = [attack_flips(flips, share, trials=trials, entropy=entropy) for share in SHARES]
    readings += [
        attack_fakes(drawn, share, trials=max(100, trials // 4), entropy=entropy) for share in (0.0, 0.9, 0.999)
    ]
    grid = sorted({*np.linspace(0, 0.98, 29).tolist(), *(1 - np.geomspace(0.02, 1 / PEOPLE, 8)).tolist()})
    shuffled = [plan for plan in plans if plan.guarantee.assumptions.shuffler]
    epsilons = chart(
        [Series(label=family_name(plan), points=[(share, left(plan, share)) for share in grid]) for plan in shuffled],
        "Remaining guarantee, by fraction of compromised users",
        across=Axis("fraction of compromised users"),
        up=Axis(f"ε proven at δ = {BUDGET.delta:g}"),
    )
    q = flips.protocol.q
    curve = [(share, small_batches.exact(honest_users(PEOPLE, max(1 - share, 1 / PEOPLE)), q)) for share in grid]
    flat = exact_fakes(fakes)
    guesses = chart(
        [
            Series(label="users' flips, exact", points=curve),
            Series(label="shuffler's fakes, exact", points=[(0.0, flat), (1.0, flat)]),
            *(
                simulated(f"simulated, {name}", [r for r in readings if r.series == name], colour)
                for name, colour in ((FLIPS, "one"), (DRAWN, "two"))
            ),
        ],
        "Success rate of the best guess, by fraction of compromised users",
        across=Axis("fraction of compromised users"),
        up=Axis("success rate"),
    )
    return Attack(
        name="compromised",
        title="Compromised users",
        x="fraction compromised",
        readings=readings,
        sentences=(
            f"Compromised users protect no one, because the analyzer subtracts what they sent: with flips, ε grows "
            f"from {left(flips, 0.0):.2f} to {left(flips, 0.5):.2f} if half of {PEOPLE:,} are compromised and to "
            f"{left(flips, 0.99):.2f} if 99 % are; plans for fewer honest users (honest_fraction) add more noise.",
            f"The shuffler's fakes do not depend on users: ε stays {left(drawn, 0.99):.2f}, but records travel in the "
            f"clear and the guess succeeds more often ({flat:.1%}) from the start.",
        ),
        pictures={"compromised-epsilon": epsilons, "compromised-guesses": guesses},
        captions={
            "compromised-epsilon": "The protocols that meet ε = 1 with a shuffler. The steps come from whole numbers "
            "of users; a curve ends where no finite ε holds.",
            "compromised-guesses": "The attacker also knows all other bits.",
        },
    )
