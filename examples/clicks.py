"""Clicks: which of 49 advertisements did people click last, if any?"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from examples._collection import simulate_records
from examples._command import blocks, command, zipf
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
from hubbub.bits.entropy import Entropy
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection

ADS, PEOPLE, ERROR = 50, 50_000, 0.25


def study(n: int) -> Study:
    """Return the question: one of 50 answers, the first of which is none."""
    labels = ["none", *(f"ad {i}" for i in range(1, ADS))]
    question = f"Which of {ADS - 1} advertisements did you click last, if any?"
    return Study("clicks", "Clicks", question, Schema.one_hot(labels), n, ERROR)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Clicks: which of 49 advertisements did people click last, if any?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            choices = zipf(size, ADS, entropy)
            yield Collection.from_values(choices, schema), np.bincount(choices, minlength=ADS)

    epsilon, delta = asked.budget.epsilon, asked.budget.delta
    plain, ratio = plain_flip(n, 2, epsilon), ratio_flip(n, 2, epsilon)
    claimed, proven = (share_of_flips(n, q, ERROR) for q in (ratio, calibrate(schema, n, asked.budget).protocol.q))
    reached = compare_shares(share_within(plan.stderr, n, ERROR), claimed)

    return Outcome(
        study=asked,
        plan=plan,
        frontier=asked.frontier(),
        simulated=simulate_records(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style",
                "16 %",
                percent(local_share(PEOPLE, 6, epsilon, ERROR)),
                "if 6 bits differ, as with 3 hash functions of a Bloom filter, which is a guess; "
                f"plain one-hot records have {percent(local_share(PEOPLE, 2, epsilon, ERROR))}",
            ),
            Comparison(
                "the scheme of 2016, from",
                "0.2 %",
                percent(share_of_flips(PEOPLE, plain_flip(PEOPLE, 2, epsilon), ERROR)),
                "1 + 3√((φ² − 1)/N) = e² [002 eq 4.36]",
            ),
            Comparison(
                "the scheme of 2016, to",
                "0.3 %",
                percent(share_of_flips(PEOPLE, ratio_flip(PEOPLE, 2, epsilon), ERROR)),
                "[003 eq 3.15]",
            ),
        ],
        claims=[
            Claim("Whole records under the first rule", Protocol(plain), schema, n, epsilon, delta),
            Claim("Whole records under the second rule", Protocol(ratio), schema, n, epsilon, delta),
        ],
        remarks=[
            f"With a proof, whole records are {proven / claimed:.2g} times as noisy as under the second rule.",
            f"Split bits, which meet the target for everyone, measure {reached}.",
        ],
        people_of_2016=PEOPLE,
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
