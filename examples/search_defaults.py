"""Search defaults: to which of 13 search engines has somebody switched?"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from examples._shared import blocks, command, percent
from hubbub.accountant import calibrate
from hubbub.bits.coins import coins
from hubbub.bits.entropy import Entropy
from hubbub.lab.applications import Claim, Comparison, Outcome, Study, walk
from hubbub.lab.applications.past import local_share, plain_flip, ratio_flip, share_within
from hubbub.numeric.estimation import count_stderr
from hubbub.protocol import GRID, Protocol
from hubbub.records import Collection
from hubbub.schema import Schema

BITS, PEOPLE = 13, 10_000_000
SHARES = tuple(0.2 * 0.6**i for i in range(BITS))
"""How many people have switched to each engine: from 20 % down to 0.04 %."""
LIKELY = 3_440_000
"""The number of people at which the formulas do give the printed 21 %."""


def study(n: int) -> Study:
    """What is asked: any of 13 bits may be set."""
    question = f"To which of {BITS} search engines have you switched in the last month? None, one or several."
    schema = Schema.bits([f"engine {i + 1}" for i in range(BITS)])
    return Study("search_defaults", "Search defaults", question, schema, n)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Search defaults: to which of 13 search engines has somebody switched?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            columns = [coins(size, round(share * GRID), entropy=entropy) for share in SHARES]
            bits = np.array([np.unpackbits(row, bitorder="little", count=size) for row in columns])
            packed = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
            yield Collection.from_packed(packed, schema), bits.sum(axis=1, dtype=np.int64)

    def within(people: int, q: float, k: int = 1) -> str:
        return percent(share_within(count_stderr(people, q, k=k), people, asked.error))

    full = study(PEOPLE)  # figures of 2016 are recomputed for the people of 2016, whatever is simulated
    epsilon, delta = full.budget.epsilon, full.budget.delta
    one, four = ratio_flip(PEOPLE, BITS, epsilon), plain_flip(PEOPLE, BITS, epsilon, 4)
    certified = {k: calibrate(schema, PEOPLE, full.budget, k=k).protocol.q for k in (1, 4)}
    split = full.chosen().protocol.q
    return Outcome(
        study=asked,
        plan=plan,
        rivals=asked.rivals(),
        counted=walk(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style",
                "21 %",
                percent(local_share(PEOPLE, BITS, epsilon, asked.error)),
                f"not reproduced: 13 bits at ε = 2, three deviations; {LIKELY:,} people would give "
                f"{percent(local_share(LIKELY, BITS, epsilon, asked.error))}",
            ),
            Comparison(
                "the scheme of 2016",
                "2.1 %",
                within(PEOPLE, one),
                f"not reproduced [003 eq 3.15]; {within(LIKELY, ratio_flip(LIKELY, BITS, epsilon))} or, without the "
                f"mean [002], {within(LIKELY, plain_flip(LIKELY, BITS, epsilon))} for {LIKELY:,} people",
            ),
            Comparison(
                "the same with k = 4 copies",
                "1.4 %",
                within(PEOPLE, four, 4),
                f"not reproduced [002 eq 5.24 for 13 bits]; {within(LIKELY, plain_flip(LIKELY, BITS, epsilon, 4), 4)} "
                f"for {LIKELY:,} people",
            ),
            Comparison("one copy, with a proof", "", within(PEOPLE, certified[1]), f"q = {certified[1]:.4f}"),
            Comparison("four copies, with a proof", "", within(PEOPLE, certified[4], 4), f"q = {certified[4]:.4f}"),
            Comparison("split bits, with a proof", "", within(PEOPLE, split), f"q = {split:.3g}"),
        ],
        claims=[
            Claim("One copy by the rule of 2016", Protocol(one), schema, PEOPLE, epsilon, delta),
            Claim("Four copies by its rule", Protocol(four, k=4), schema, PEOPLE, epsilon, delta),
        ],
        remarks=[
            "Copies of whole records do gain for 13 bits, and they keep joint tables; split bits gain far more, but "
            "show no combinations, and the number of messages depends on the record: uploads must be padded.",
        ],
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
