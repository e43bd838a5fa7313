"""Tiles: which of 1,650 sites are among the ten tiles of a new tab?"""

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
    ratio_flip,
    share_of_flips,
    share_within,
)
from hubbub.bits.entropy import Entropy
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection, SetBits

SITES, TILES, PEOPLE = 1650, 10, 10_000_000


def study(n: int) -> Study:
    """Return the question: at most ten of 1,650 bits are set."""
    question = f"Which of {SITES:,} sites are among the {TILES} tiles of your new tab? At most {TILES}."
    return Study("tiles", "Tiles", question, Schema.at_most(TILES, [f"site {i + 1}" for i in range(SITES)]), n)


def chosen_tiles(size: int, entropy: Entropy) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Draw the sites of ``size`` people, in rising order per person, and the end of each person's sites."""
    rows = np.sort(zipf((size, TILES), SITES, entropy), axis=1)
    fresh = np.ones(rows.shape, np.bool_)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return rows[fresh].astype(np.uint32), np.cumsum(fresh.sum(axis=1))


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Tiles: which of 1,650 sites are among the ten tiles of a new tab?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            flat, ends = chosen_tiles(size, entropy)
            yield Collection(schema, SetBits(flat, ends)), np.bincount(flat, minlength=SITES)

    epsilon, effective = asked.budget.epsilon, 2 * TILES
    q = ratio_flip(n, effective, epsilon)
    reached = compare_shares(share_within(plan.stderr, n, asked.error), share_of_flips(n, q, asked.error))
    return Outcome(
        study=asked,
        plan=plan,
        frontier=asked.frontier(),
        simulated=simulate_records(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style",
                "18 %",
                percent(local_share(PEOPLE, effective, epsilon, asked.error)),
                f"at most {TILES} set bits are {effective} effective bits; close, but not equal",
            ),
            Comparison(
                "the scheme of 2016",
                "none",
                percent(share_of_flips(PEOPLE, ratio_flip(PEOPLE, effective, epsilon), asked.error)),
                "[003 eq 3.15] for 20 bits, under the rule of [003 §5], which is wrong",
            ),
        ],
        claims=[Claim("Whole records under that rule", Protocol(q), schema, n, epsilon, asked.budget.delta)],
        remarks=[
            f"Split bits, which meet the target for everyone, measure {reached}.",
            f"They send each of a person's up to {TILES} tiles, and random other sites, as separate messages: at most "
            f"{plan.payload_messages:.4g} on average. The number of messages depends on the record, so uploads must be "
            "padded to a fixed number.",
        ],
        people_of_2016=PEOPLE,
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
