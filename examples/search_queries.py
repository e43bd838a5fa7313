"""Search queries: which of 2²⁸ hashed queries are asked most?

Split bits of 2²⁸ labels would cost every person hundreds of messages. Instead, everybody is asked three times, for
ever longer beginnings of the 28-bit hash of one query, and only beginnings that were frequent are asked about again.
The plan is one for three rounds: its guarantee covers all of them together, whatever the answers of one round make of
the next.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from examples._shared import BLOCK, command
from hubbub import planner
from hubbub.accountant import Ledger
from hubbub.bits.entropy import Entropy, draw
from hubbub.lab.applications import Claim, Comparison, Counted, Outcome, Study, guarantee_of_2016, split_counts, walk
from hubbub.numeric.estimation import count_stderr
from hubbub.plans import Plan
from hubbub.protocol import Protocol
from hubbub.records import Collection
from hubbub.schema import Schema

BITS, ROUNDS, PEOPLE = 28, 3, 100_000_000
QUERIES = 2**20
"""Different queries, the i-th asked in proportion to 1/i."""
PRINTED_LIE, PRINTED_ERROR = 0.075, 400
RECORDS = 5_000_000
"""People up to which every record is simulated; beyond, the law of their counts."""
ELSE = "something else"
NARROW = 1000
"""Labels for which the planner is asked."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """How many people asked each hash."""

    hashes: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def zipf(cls, n: int, entropy: Entropy) -> "Population":
        """Queries with counts in proportion to 1/i, and random hashes; what is left over goes to the last ones."""
        weights = 1 / np.arange(1, QUERIES + 1)
        counts = np.floor(n * weights / weights.sum()).astype(np.int64)
        short = n - int(counts.sum())
        counts[-short:] += 1
        hashes = draw(entropy, QUERIES, np.uint32).astype(np.int64) & (2**BITS - 1)
        found, place = np.unique(hashes, return_inverse=True)
        return cls(found, np.bincount(place, counts).astype(np.int64))

    def beginnings(self, bits: int) -> NDArray[np.int64]:
        """The first bits of every hash."""
        return self.hashes >> (BITS - bits)


def worth(n: int) -> int:
    """The least number of people for whom a hash is worth finding: one of 50 000, and at least a hundred."""
    return max(n // 50_000, 100)


def lengths(n: int) -> list[int]:
    """Bits of the beginnings in the three rounds: so many in the first that rare queries alone do not make one."""
    first = min(18, max(6, math.ceil(math.log2(5 * n / worth(n)))))
    return [first, (first + BITS + 1) // 2, BITS]


def ask(people: Population, bits: int, candidates: NDArray[np.int64], plan: Plan, entropy: Entropy) -> Counted:
    """One round: everybody tells the beginning of the hash if it is a candidate, and something else if not."""
    starts = people.beginnings(bits)
    place = np.minimum(np.searchsorted(candidates, starts), candidates.size - 1)
    label = np.where(candidates[place] == starts, place, candidates.size)
    truth = np.bincount(label, people.counts, minlength=plan.schema.width).astype(np.int64)
    if plan.n > RECORDS:
        return split_counts(truth, plan.n, plan, entropy=entropy)

    def blocks() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        answers = np.repeat(np.arange(truth.size), truth)
        for start in range(0, answers.size, BLOCK):
            part = answers[start : start + BLOCK]
            yield Collection.from_values(part, plan.schema), np.bincount(part, minlength=truth.size)

    return walk(blocks(), plan, entropy=entropy)


def study(n: int, candidates: NDArray[np.int64], bits: int) -> Study:
    """What is asked in one round."""
    labels = [*(f"{start:0{-(-bits // 4)}x}" for start in candidates.tolist()), ELSE]
    question = (
        f"Which of 2²⁸ hashes has your last query? Asked {ROUNDS} times, for ever longer beginnings, "
        f"{' then '.join(map(str, lengths(n)))} bits."
    )
    return Study("search_queries", "Search queries", question, Schema.one_hot(labels), n, rounds=ROUNDS)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Search queries: which of 2²⁸ hashed queries are asked most?"""
    people = Population.zipf(n, entropy)
    bits, candidates = lengths(n), np.arange(2 ** lengths(n)[0])
    # What protects one answer of several does not depend on their number: a protocol for a thousand holds for more.
    few = study(n, np.arange(NARROW), bits[0])
    best, chosen = planner.plan(few.schema, n, few.budget, rounds=ROUNDS).protocol, few.chosen().protocol
    sent, widths = 0, []
    for turn in range(ROUNDS):
        asked = study(n, candidates, bits[turn])
        plan = planner.plan_from(asked.schema, n, chosen, delta=asked.budget.delta)
        counted = ask(people, bits[turn], candidates, plan, entropy)
        sent += counted.messages
        widths.append(plan.schema.width)
        tell(n // ROUNDS)
        frequent = candidates[counted.estimate.values[:-1] >= worth(n) - 3 * plan.stderr]
        if turn < ROUNDS - 1:
            more = bits[turn + 1] - bits[turn]
            candidates = (frequent[:, None] << more | np.arange(2**more)).reshape(-1)
    rival = planner.plan_from(asked.schema, n, best, delta=asked.budget.delta)
    return _outcome(people, asked, [rival, plan], counted, frequent, sent, widths)


def _outcome(
    people: Population,
    asked: Study,
    plans: list[Plan],
    counted: Counted,
    found: NDArray[np.int64],
    sent: int,
    widths: list[int],
) -> Outcome:
    n, q, plan, full = asked.n, PRINTED_LIE, plans[-1], guarantee_of_2016(PEOPLE)
    gain = (1 - 2 * q) ** 2
    own = (((1 - q) ** 3 + q**3) / gain) ** BITS - 1
    crowd = PEOPLE * (((1 - q) ** 2 + q * q) / (2 * gain)) ** BITS
    belongs = max((PRINTED_ERROR / 3) ** 2 - crowd, 0.0) / own
    frequent = people.hashes[people.counts >= worth(n)]
    held = np.zeros(found.size, np.int64)
    known = np.isin(found, people.hashes)
    held[known] = people.counts[np.searchsorted(people.hashes, found[known])]
    missed, wrong = np.setdiff1d(frequent, found).size, int((held < worth(n) - 6 * plan.stderr).sum())
    together = Ledger().charge(plan.protocol, Schema.one_hot(2), n, rounds=ROUNDS).epsilon(asked.budget.delta)
    return Outcome(
        study=asked,
        plan=plan,
        rivals=plans,
        counted=counted,
        comparisons=[
            Comparison(
                "the error of one count",
                f"± {PRINTED_ERROR}",
                f"± {3 * math.sqrt(own * 10_000 + crowd):,.0f}",
                f"three deviations for a query of 10,000 people: σ² = {own:.3g} for each of them, {crowd:.2g} for all "
                f"others; ± {PRINTED_ERROR} belongs to a query of {belongs:,.0f} people",
            ),
            Comparison(
                "the error of one bit of the hash",
                "none",
                f"± {3 * count_stderr(PEOPLE, q):,.0f}",
                "three deviations: counts of single bits are no way to hashes",
            ),
        ],
        claims=[
            Claim("Whole hashes of 28 bits", Protocol(q), Schema.bits(BITS), PEOPLE, full.epsilon, full.delta),
        ],
        remarks=[
            f"Why: a hash passes unflipped with probability {(1 - q) ** BITS:.0%}, and with at most two flipped bits "
            f"with {_few(q, 2):.0%}. Among 2²⁸ hashes almost nobody else is near, so that a rare query is as good as "
            "sent in the clear.",
            f"Asked in three rounds of {', '.join(f'{width:,}' for width in widths)} labels instead: of the "
            f"{frequent.size:,} hashes that at least {worth(n):,} people have, {frequent.size - missed:,} were found, "
            f"and {wrong} that are far rarer; counts are good to ± {3 * plan.stderr:.0f} (three deviations).",
            f"A ledger of the three rounds proves ε = {together:.3g} for all of them together.",
            f"All at once, split bits of 2²⁸ labels would cost {1 + 2**BITS * plan.protocol.q:,.0f} messages of each "
            f"person; the three rounds cost {sent / n:.3g} together.",
        ],
    )


def _few(q: float, most: int) -> float:
    return sum(math.comb(BITS, i) * q**i * (1 - q) ** (BITS - i) for i in range(most + 1))


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
