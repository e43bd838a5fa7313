"""Tiles: which of 1 650 sites stand among the ten tiles of a new tab?"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from examples._shared import blocks, command, percent, zipf
from hubbub.bits.entropy import Entropy
from hubbub.lab.applications import Claim, Comparison, Outcome, Study, walk
from hubbub.lab.applications.past import local_share, ratio_flip, share_within
from hubbub.numeric.estimation import count_stderr
from hubbub.protocol import Protocol
from hubbub.records import Collection, SetBits
from hubbub.schema import Schema

SITES, TILES, PEOPLE = 1650, 10, 10_000_000


def study(n: int) -> Study:
    """What is asked: at most ten of 1 650 bits are set."""
    question = f"Which of {SITES:,} sites are among the {TILES} tiles of your new tab? At most {TILES}."
    return Study("tiles", "Tiles", question, Schema.at_most(TILES, [f"site {i + 1}" for i in range(SITES)]), n)


def chosen_tiles(size: int, entropy: Entropy) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The sites of so many people, person after person in rising order, and where those of each end."""
    rows = np.sort(zipf((size, TILES), SITES, entropy), axis=1)
    fresh = np.ones(rows.shape, np.bool_)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return rows[fresh].astype(np.uint32), np.cumsum(fresh.sum(axis=1))


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Tiles: which of 1 650 sites stand among the ten tiles of a new tab?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            flat, ends = chosen_tiles(size, entropy)
            yield Collection(schema, SetBits(flat, ends)), np.bincount(flat, minlength=SITES)

    full = study(PEOPLE)  # figures of 2016 are recomputed for the people of 2016, whatever is simulated
    epsilon, effective = full.budget.epsilon, 2 * TILES
    flip_probability = ratio_flip(PEOPLE, effective, epsilon)
    return Outcome(
        study=asked,
        plan=plan,
        rivals=asked.rivals(),
        counted=walk(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style",
                "18 %",
                percent(local_share(PEOPLE, effective, epsilon, asked.error)),
                f"at most {TILES} set bits are {effective} effective ones, ε = 2, three deviations; near, not equal",
            ),
            Comparison(
                "the scheme of 2016",
                "none",
                percent(share_within(count_stderr(PEOPLE, flip_probability), PEOPLE, asked.error)),
                "[003 eq 3.15] for 20 bits, by the rule of [003 §5], which is wrong; a tenth of the printed figure",
            ),
        ],
        claims=[
            Claim("Whole records by that rule", Protocol(flip_probability), schema, PEOPLE, epsilon, full.budget.delta)
        ],
        remarks=[
            f"Split bits send each of a person's {TILES} tiles, and few others, as messages of their own: "
            f"{plan.messages:.4g} of {plan.payload} bytes and a header. The number of messages depends on the record: "
            "uploads must be padded to a fixed number.",
        ],
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
