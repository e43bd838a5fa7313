"""Search defaults: to which of 13 search engines have people switched?"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from research.notes.formulas.estimation import count_stderr

from examples._collection import simulate_records
from examples._command import blocks, command
from examples._outcome import Outcome, Study
from examples._rules_2016 import (
    Claim,
    Comparison,
    compare_shares,
    local_share,
    percent,
    plain_flip,
    ratio_flip,
    share_of_flips,
    share_within,
)
from hubbub.accountant import calibrate
from hubbub.bits.coins import coins
from hubbub.bits.entropy import Entropy
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection

BITS, PEOPLE = 13, 10_000_000
SHARES = tuple(0.2 * 0.6**i for i in range(BITS))
"""The share of people who have switched to each engine: from 20 % down to 0.04 %."""
LIKELY = 3_440_000
"""The number of people for which the formulas give the printed 21 %."""


def study(n: int) -> Study:
    """Return the question: any of 13 bits may be set."""
    question = f"To which of {BITS} search engines have you switched in the last month? Choose any number."
    schema = Schema.bits([f"engine {i + 1}" for i in range(BITS)])
    return Study("search_defaults", "Search defaults", question, schema, n)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Search defaults: to which of 13 search engines have people switched?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            columns = [coins(size, round(share * GRID), entropy=entropy) for share in SHARES]
            bits = np.array([np.unpackbits(row, bitorder="little", count=size) for row in columns])
            packed = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
            yield Collection.from_packed(packed, schema), bits.sum(axis=1, dtype=np.int64)

    def within(people: int, q: float, k: int = 1) -> str:
        return percent(share_of_flips(people, q, asked.error, k))

    full, epsilon = study(PEOPLE), asked.budget.epsilon
    certified = {k: calibrate(schema, PEOPLE, full.budget, k=k).protocol.q for k in (1, 4)}
    split = full.chosen().protocol.q
    one, four = ratio_flip(n, BITS, epsilon), plain_flip(n, BITS, epsilon, 4)
    proven = certified if n == PEOPLE else {k: calibrate(schema, n, asked.budget, k=k).protocol.q for k in (1, 4)}
    stderrs = {k: count_stderr(n, q, k=k) for k, q in proven.items()}
    reached = compare_shares(share_within(plan.stderr, n, asked.error), share_of_flips(n, one, asked.error))
    return Outcome(
        study=asked,
        plan=plan,
        frontier=asked.frontier(),
        simulated=simulate_records(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style",
                "21 %",
                percent(local_share(PEOPLE, BITS, epsilon, asked.error)),
                f"not reproduced: 13 bits at ε = 2; {LIKELY:,} people would give "
                f"{percent(local_share(LIKELY, BITS, epsilon, asked.error))}",
            ),
            Comparison(
                "the scheme of 2016",
                "2.1 %",
                within(PEOPLE, ratio_flip(PEOPLE, BITS, epsilon)),
                f"not reproduced [003 eq 3.15]; {within(LIKELY, ratio_flip(LIKELY, BITS, epsilon))} or, without the "
                f"mean [002], {within(LIKELY, plain_flip(LIKELY, BITS, epsilon))} for {LIKELY:,} people",
            ),
            Comparison(
                "the same with k = 4 copies",
                "1.4 %",
                within(PEOPLE, plain_flip(PEOPLE, BITS, epsilon, 4), 4),
                f"not reproduced [002 eq 5.24 for 13 bits]; {within(LIKELY, plain_flip(LIKELY, BITS, epsilon, 4), 4)} "
                f"for {LIKELY:,} people",
            ),
            Comparison("one copy, with a proof", "", within(PEOPLE, certified[1]), f"q = {certified[1]:.4f}"),
            Comparison("four copies, with a proof", "", within(PEOPLE, certified[4], 4), f"q = {certified[4]:.4f}"),
            Comparison("split bits, with a proof", "", within(PEOPLE, split), f"q = {split:.3g}"),
        ],
        claims=[
            Claim("One copy under the rule of 2016", Protocol(one), schema, n, epsilon, asked.budget.delta),
            Claim("Four copies under its rule", Protocol(four, k=4), schema, n, epsilon, asked.budget.delta),
        ],
        remarks=[
            f"With a proof, four copies of whole records have {stderrs[4] / stderrs[1]:.2g} times the error of one "
            f"copy, and split bits {plan.stderr / stderrs[1]:.2g} times. Whole records allow joint tables; split bits "
            "do not, and their number depends on the record, so uploads must be padded.",
            f"Split bits measure {reached}.",
        ],
        people_of_2016=PEOPLE,
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
