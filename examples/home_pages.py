"""Home pages: which of 50,000 sites do browsers open first?"""

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
    share_of_flips,
    share_within,
    stand_out,
)
from hubbub.accountant import account
from hubbub.bits.entropy import Entropy
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection

SITES, PEOPLE = 50_000, 10_000_000
PRINTED_FLIP = 0.00015


def study(n: int) -> Study:
    """Return the question; with fewer people there are fewer sites."""
    sites = min(SITES, max(100, n // 200))
    question = f"Which of {sites:,} sites does your browser open first? Everyone has exactly one."
    return Study("home_pages", "Home pages", question, Schema.one_hot([f"site {i + 1}" for i in range(sites)]), n)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Home pages: which of 50,000 sites do browsers open first?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            choices = zipf(size, schema.width, entropy)
            yield Collection.from_values(choices, schema), np.bincount(choices, minlength=schema.width)

    epsilon, delta = asked.budget.epsilon, asked.budget.delta
    q = PRINTED_FLIP if n == PEOPLE else plain_flip(n, 2, epsilon)
    whole, printed = Protocol(q), plain_flip(PEOPLE, 2, epsilon)
    seen = stand_out(n, q, trials=4000, entropy=entropy)
    given = account(whole, schema, n, delta=delta)
    allowed = np.exp(epsilon) / (1 + np.exp(epsilon))
    reached = compare_shares(share_within(plan.stderr, n, asked.error), share_of_flips(n, q, asked.error))
    return Outcome(
        study=asked,
        plan=plan,
        frontier=asked.frontier(),
        simulated=simulate_records(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style, q = 0.25",
                "1.8 %",
                percent(local_share(PEOPLE, 2, epsilon, asked.error)),
                f"ε = 2 for two differing bits is q = {1 / (1 + np.e):.4f}; three standard deviations [003 eq 4.2]",
            ),
            Comparison(
                "the same at q = 0.25 exactly",
                "1.8 %",
                percent(share_of_flips(PEOPLE, 0.25, asked.error)),
                "ε = 2 ln 3 = 2.2",
            ),
            Comparison(
                "the scheme of 2016: q", "0.00015", f"{printed:.6f}", "1 + 3√((φ² − 1)/N) = e² [002 eq 4.36, 003 §5]"
            ),
            Comparison(
                "the scheme of 2016: share",
                "0.023 %",
                percent(share_of_flips(PEOPLE, printed, asked.error)),
                "the figure is reproduced, but the protocol does not protect its users: see below",
            ),
        ],
        claims=[Claim("Whole records under the rule of 2016", whole, schema, n, epsilon, delta)],
        remarks=[
            f"The attack: if everyone else has a third site y, on average {n * q**2:.2g} of their messages show x but "
            f"not y, while the message of a person who has x does so almost surely. In {seen.alone:.0%} of the trials "
            f"no other message looks like either of two suspected answers; overall, the attacker is right in "
            f"{seen.right:.1%} of the trials (at least {seen.low:.1%}), where ε = 2 allows {allowed:.1%}.",
            f"At δ = {delta:.2g}, those records have ε between {given.lower_bound:.3g} and {given.epsilon:.3g}.",
            f"Split bits do not show such combinations. They meet the target for everyone, with counts good to "
            f"± {1.96 * plan.stderr:.3g} people and {plan.payload_messages:.3g} messages per person, and measure "
            f"{reached}.",
        ],
        people_of_2016=PEOPLE,
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
