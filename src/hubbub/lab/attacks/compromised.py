"""Compromised users: an analyzer who knows what they sent and subtracts it.

With strings, they send the string of a target as well. The shuffler passes on strings with numbers of people, and users
who send the target's string raise its count by a number that the analyzer knows, which changes nothing. If the shuffler
passed on people's own sealed values instead, c − Z of c, the analyzer would recognize those of its users, and would see
all honest ones but a share of Z.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import numpy as np

from hubbub.accountant import account
from hubbub.accountant.accounting import honest_users
from hubbub.bits.entropy import Entropy
from hubbub.bits.exact import Buffered
from hubbub.errors import check_epsilon, check_whole
from hubbub.lab.attacks import evidence, small_batches
from hubbub.lab.attacks.evidence import Attack, Reading, simulated
from hubbub.mechanisms.chances import drawn_by
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


def counts_delta(plan: Plan, compromised: int, epsilon: float) -> float:
    """Return the δ(ε) of the analyzer with this many users who send the target's string: numbers are passed on.

    The target holds the string, or another one that nobody else holds.

    >>> from hubbub import Fakes, Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.strings(), 2000, Protocol(0, m=Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0)
    >>> counts_delta(plan, 100, 1.0) <= plan.guarantee.delta
    True
    """
    own, pmf = check_whole("compromised", compromised), drawn_by(plan).pmf.tolist()
    rows: list[dict[tuple[int, int], float]] = []
    for ours, other in ((own + 1, 0), (own, 1)):
        one, two = _left_of(ours, pmf), _left_of(other, pmf)
        rows.append({(i, j): p * q for i, p in one.items() for j, q in two.items()})
    return _largest(rows[0], rows[1], check_epsilon(epsilon))


def values_delta(plan: Plan, compromised: int, epsilon: float) -> float:
    """Return the same δ(ε) if the shuffler passed on c − Z of the people's own sealed values: the control.

    >>> from hubbub import Fakes, Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.strings(), 2000, Protocol(0, m=Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0)
    >>> round(values_delta(plan, 100, 1.0), 2)
    0.65
    """
    own, pmf = check_whole("compromised", compromised), drawn_by(plan).pmf.tolist()
    return _largest(_chosen(1, own, pmf), _chosen(0, own, pmf), check_epsilon(epsilon))


def _left_of(count: int, pmf: list[float]) -> dict[int, float]:
    """Return the distribution of max(0, count − Z)."""
    found: dict[int, float] = defaultdict(float)
    for number, probability in enumerate(pmf):
        found[max(0, count - number)] += probability
    return found


def _chosen(honest: int, own: int, pmf: list[float]) -> dict[tuple[int, int], float]:
    """Return the distribution of the honest and the recognized values among c − Z of c that are chosen uniformly."""
    count = honest + own
    found: dict[tuple[int, int], float] = defaultdict(float)
    for number, probability in enumerate(pmf[:count]):
        left = count - number
        for one in range(max(0, left - own), min(honest, left) + 1):
            ways = math.comb(honest, one) * math.comb(own, left - one) / math.comb(count, left)
            found[one, left - one] += probability * ways
    found[0, 0] += math.fsum(pmf[count:])
    return found


def _largest(first: Mapping[tuple[int, int], float], second: Mapping[tuple[int, int], float], epsilon: float) -> float:
    """Return the larger of both orders of Σ (P − e^ε·Q)⁺."""
    factor, outcomes = math.exp(epsilon), {*first, *second}

    def gain(one: Mapping[tuple[int, int], float], two: Mapping[tuple[int, int], float]) -> float:
        return math.fsum(max(0.0, one.get(key, 0.0) - factor * two.get(key, 0.0)) for key in outcomes)

    return max(gain(first, second), gain(second, first))
