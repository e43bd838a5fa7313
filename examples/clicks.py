"""Clicks: on which of 50 advertisements did somebody click last?"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from examples._shared import blocks, command, percent, zipf
from hubbub.bits.entropy import Entropy
from hubbub.lab.applications import Claim, Comparison, Outcome, Study, walk
from hubbub.lab.applications.past import local_share, plain_flip, ratio_flip, share_within
from hubbub.numeric.estimation import count_stderr
from hubbub.protocol import Protocol
from hubbub.records import Collection
from hubbub.schema import Schema

ADS, PEOPLE, ERROR = 50, 50_000, 0.25


def study(n: int) -> Study:
    """What is asked: one of 50, of whom the first is none at all."""
    labels = ["none", *(f"ad {i}" for i in range(1, ADS))]
    question = f"On which of {ADS - 1} advertisements did you click last? One, or none."
    return Study("clicks", "Clicks", question, Schema.one_hot(labels), n, ERROR)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Clicks: on which of 50 advertisements did somebody click last?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            choices = zipf(size, ADS, entropy)
            yield Collection.from_values(choices, schema), np.bincount(choices, minlength=ADS)

    full = study(PEOPLE)  # figures of 2016 are recomputed for the people of 2016, whatever is simulated
    epsilon, delta = full.budget.epsilon, full.budget.delta
    plain, ratio = plain_flip(PEOPLE, 2, epsilon), ratio_flip(PEOPLE, 2, epsilon)

    def within(q: float) -> str:
        return percent(share_within(count_stderr(PEOPLE, q), PEOPLE, ERROR))

    return Outcome(
        study=asked,
        plan=plan,
        rivals=asked.rivals(),
        counted=walk(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style",
                "16 %",
                percent(local_share(PEOPLE, 6, epsilon, ERROR)),
                "if 6 bits differ, as with 3 hash functions of a Bloom filter, which is our guess; "
                f"plain one-hot records would have {percent(local_share(PEOPLE, 2, epsilon, ERROR))}",
            ),
            Comparison("the scheme of 2016, from", "0.2 %", within(plain), "1 + 3√((φ² − 1)/N) = e² [002 eq 4.36]"),
            Comparison("the scheme of 2016, to", "0.3 %", within(ratio), "[003 eq 3.15]"),
        ],
        claims=[
            Claim("Whole records by the first rule", Protocol(plain), schema, PEOPLE, epsilon, delta),
            Claim("Whole records by the second", Protocol(ratio), schema, PEOPLE, epsilon, delta),
        ],
        remarks=[
            "The claimed shares rest on whole records that hide nobody: with a proof, those are three times as noisy. "
            "Split bits are better than what was claimed, and their guarantee holds for everybody."
        ],
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
