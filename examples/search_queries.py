"""Search queries: which of 2²⁸ hashed queries are the most frequent?

Split bits of 2²⁸ labels would cost every person hundreds of messages. Instead, everyone is asked three times, for
longer and longer prefixes of the 28-bit hash of one query, and only frequent prefixes are extended. The plan is made
for three rounds: its guarantee covers all of them together, although the questions of a round depend on the answers of
the previous one.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from research.notes.formulas.estimation import count_stderr

from examples._collection import Simulation, simulate_counts, simulate_records
from examples._command import BLOCK, command
from examples._outcome import Outcome, Study
from examples._rules_2016 import Claim, Comparison
from hubbub import planner
from hubbub.accountant import Ledger
from hubbub.bits.entropy import Entropy, draw
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection

BITS, ROUNDS, PEOPLE = 28, 3, 100_000_000
QUERIES = 2**20
"""The number of different queries; the frequency of the i-th is proportional to 1/i."""
PRINTED_FLIP, PRINTED_ERROR = 0.075, 400
RECORDS = 5_000_000
"""The largest number of people for which every record is simulated; above it, counts are drawn."""
ELSE = "something else"
NARROW = 1000
"""The number of labels for which the planner is run."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The number of people with each hash."""

    hashes: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def zipf(cls, n: int, entropy: Entropy) -> "Population":
        """Return queries with counts proportional to 1/i and random hashes; the remainder goes to the last queries."""
        weights = 1 / np.arange(1, QUERIES + 1)
        counts = np.floor(n * weights / weights.sum()).astype(np.int64)
        short = n - int(counts.sum())
        counts[-short:] += 1
        hashes = draw(entropy, QUERIES, np.uint32).astype(np.int64) & (2**BITS - 1)
        found, place = np.unique(hashes, return_inverse=True)
        return cls(found, np.bincount(place, counts).astype(np.int64))

    def prefixes(self, bits: int) -> NDArray[np.int64]:
        """Return the first bits of every hash."""
        return self.hashes >> (BITS - bits)


def threshold(n: int) -> int:
    """The smallest number of people whose hash is to be found: one of 50,000, and at least a hundred."""
    return max(n // 50_000, 100)


def lengths(n: int) -> list[int]:
    """Return the lengths of the prefixes in the three rounds, in bits.

    The first is long enough that rare queries alone do not make a prefix frequent.
    """
    first = min(18, max(6, math.ceil(math.log2(5 * n / threshold(n)))))
    return [first, (first + BITS + 1) // 2, BITS]


def ask(people: Population, bits: int, candidates: NDArray[np.int64], plan: Plan, entropy: Entropy) -> Simulation:
    """Simulate one round: everyone reports the prefix of their hash if it is a candidate, else "something else"."""
    starts = people.prefixes(bits)
    place = np.minimum(np.searchsorted(candidates, starts), candidates.size - 1)
    label = np.where(candidates[place] == starts, place, candidates.size)
    truth = np.bincount(label, people.counts, minlength=plan.schema.width).astype(np.int64)
    if plan.n > RECORDS:
        return simulate_counts(truth, plan.n, plan, entropy=entropy)

    def blocks() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        answers = np.repeat(np.arange(truth.size), truth)
        for start in range(0, answers.size, BLOCK):
            part = answers[start : start + BLOCK]
            yield Collection.from_values(part, plan.schema), np.bincount(part, minlength=truth.size)

    return simulate_records(blocks(), plan, entropy=entropy)


def study(n: int, candidates: NDArray[np.int64], bits: int) -> Study:
    """Return the question of one round."""
    labels = [*(f"{start:0{-(-bits // 4)}x}" for start in candidates.tolist()), ELSE]
    question = (
        f"Which of 2²⁸ hashes does your last query have? Asked {ROUNDS} times, for prefixes of "
        f"{', then '.join(map(str, lengths(n)))} bits."
    )
    return Study("search_queries", "Search queries", question, Schema.one_hot(labels), n, rounds=ROUNDS)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Search queries: which of 2²⁸ hashed queries are the most frequent?"""
    people = Population.zipf(n, entropy)
    bits, candidates = lengths(n), np.arange(2 ** lengths(n)[0])
    # The guarantee of one answer among several does not depend on their number: a plan for a thousand holds for more.
    few = study(n, np.arange(NARROW), bits[0])
    best = planner.plan(few.schema, n, few.budget, rounds=ROUNDS, trust="shuffler-noise").protocol
    chosen = few.chosen().protocol
    sent, widths = 0, []
    for turn in range(ROUNDS):
        asked = study(n, candidates, bits[turn])
        plan = planner.plan_from(asked.schema, n, chosen, delta=asked.budget.delta)
        simulated = ask(people, bits[turn], candidates, plan, entropy)
        sent += simulated.messages
        widths.append(plan.schema.width)
        tell(n // ROUNDS)
        frequent = candidates[simulated.estimate.values[:-1] >= threshold(n) - 3 * plan.stderr]
        if turn < ROUNDS - 1:
            more = bits[turn + 1] - bits[turn]
            candidates = (frequent[:, None] << more | np.arange(2**more)).reshape(-1)
    rival = planner.plan_from(asked.schema, n, best, delta=asked.budget.delta)
    return _outcome(people, asked, [rival, plan], simulated, frequent, sent, widths)


def _outcome(
    people: Population,
    asked: Study,
    plans: list[Plan],
    simulated: Simulation,
    found: NDArray[np.int64],
    sent: int,
    widths: list[int],
) -> Outcome:
    n, q, plan, budget = asked.n, PRINTED_FLIP, plans[-1], asked.budget
    gain = (1 - 2 * q) ** 2
    own = (((1 - q) ** 3 + q**3) / gain) ** BITS - 1
    crowd = PEOPLE * (((1 - q) ** 2 + q * q) / (2 * gain)) ** BITS
    belongs = max((PRINTED_ERROR / 3) ** 2 - crowd, 0.0) / own
    frequent = people.hashes[people.counts >= threshold(n)]
    held = np.zeros(found.size, np.int64)
    known = np.isin(found, people.hashes)
    held[known] = people.counts[np.searchsorted(people.hashes, found[known])]
    missed, wrong = np.setdiff1d(frequent, found).size, int((held < threshold(n) - 6 * plan.stderr).sum())
    together = Ledger().charge_protocol(plan.protocol, Schema.one_hot(2), n, rounds=ROUNDS).epsilon(asked.budget.delta)
    return Outcome(
        study=asked,
        plan=plan,
        frontier=plans,
        simulated=simulated,
        comparisons=[
            Comparison(
                "the error of one count",
                f"± {PRINTED_ERROR}",
                f"± {3 * math.sqrt(own * 10_000 + crowd):,.0f}",
                f"three standard deviations for a query of 10,000 people: σ² = {own:.3g} for each of them, {crowd:.2g} "
                f"for all others; ± {PRINTED_ERROR} is the error for a query of {belongs:,.0f} people",
            ),
            Comparison(
                "the error of one bit of the hash",
                "none",
                f"± {3 * count_stderr(PEOPLE, q):,.0f}",
                "three standard deviations; counts of single bits do not identify hashes",
            ),
        ],
        claims=[
            Claim("Whole hashes of 28 bits", Protocol(q), Schema.bits(BITS), n, budget.epsilon, budget.delta),
        ],
        remarks=[
            f"A hash is unflipped with probability {(1 - q) ** BITS:.0%}, and has at most two flipped bits with "
            f"probability {_few(q, 2):.0%}. Among 2²⁸ hashes, hardly any other is that close, so a rare query is as "
            "good as sent in the clear.",
            f"Three rounds of {', '.join(f'{width:,}' for width in widths)} labels find {frequent.size - missed:,} of "
            f"the {frequent.size:,} hashes that at least {threshold(n):,} people have, and {wrong} that are far rarer. "
            f"Counts are good to ± {3 * plan.stderr:.0f} (three standard deviations).",
            f"A ledger of the three rounds proves ε = {together:.3g} for all of them together.",
            f"In a single round, split bits of 2²⁸ labels would cost {1 + 2**BITS * plan.protocol.q:,.0f} messages per "
            f"person; the three rounds cost {sent / n:.3g} in all.",
        ],
        people_of_2016=PEOPLE,
    )


def _few(q: float, most: int) -> float:
    return sum(math.comb(BITS, i) * q**i * (1 - q) ** (BITS - i) for i in range(most + 1))


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
