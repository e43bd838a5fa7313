"""Home pages: which of 50 000 sites does a browser open first?"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from examples._shared import blocks, command, percent, zipf
from hubbub.accountant import account
from hubbub.bits.entropy import Entropy
from hubbub.lab.applications import Claim, Comparison, Outcome, Study, walk
from hubbub.lab.applications.past import local_share, plain_flip, share_within, stand_out
from hubbub.numeric.estimation import count_stderr
from hubbub.protocol import Protocol
from hubbub.records import Collection
from hubbub.schema import Schema

SITES, PEOPLE = 50_000, 10_000_000
PRINTED_LIE = 0.00015


def study(n: int) -> Study:
    """What is asked; with fewer people there are fewer sites."""
    sites = min(SITES, max(100, n // 200))
    question = f"Which of {sites:,} sites does your browser open first? Everybody has exactly one."
    return Study("home_pages", "Home pages", question, Schema.one_hot([f"site {i + 1}" for i in range(sites)]), n)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Home pages: which of 50 000 sites does a browser open first?"""
    asked = study(n)
    plan, schema = asked.chosen(), asked.schema

    def people() -> Iterator[tuple[Collection, NDArray[np.int64]]]:
        for size in blocks(n):
            choices = zipf(size, schema.width, entropy)
            yield Collection.from_values(choices, schema), np.bincount(choices, minlength=schema.width)

    full = study(PEOPLE)  # figures of 2016 are recomputed for the people of 2016, whatever is simulated
    epsilon, delta, whole = full.budget.epsilon, full.budget.delta, Protocol(PRINTED_LIE)
    flip_probability = plain_flip(PEOPLE, 2, epsilon)
    seen = stand_out(PEOPLE, PRINTED_LIE, trials=4000, entropy=entropy)
    least = account(whole, full.schema, PEOPLE, delta=delta)
    promised = np.exp(epsilon) / (1 + np.exp(epsilon))
    return Outcome(
        study=asked,
        plan=plan,
        rivals=asked.rivals(),
        counted=walk(people(), plan, entropy=entropy, tell=tell),
        comparisons=[
            Comparison(
                "RAPPOR-style, q = 0.25",
                "1.8 %",
                percent(local_share(PEOPLE, 2, epsilon, asked.error)),
                f"ε = 2 for two differing bits is q = {1 / (1 + np.e):.4f}; three deviations [003 eq 4.2]",
            ),
            Comparison(
                "the same at q = 0.25 exactly",
                "1.8 %",
                percent(share_within(count_stderr(PEOPLE, 0.25), PEOPLE, asked.error)),
                "ε = 2 ln 3 = 2.2",
            ),
            Comparison(
                "the scheme of 2016: q",
                "0.00015",
                f"{flip_probability:.6f}",
                "1 + 3√((φ² − 1)/N) = e² [002 eq 4.36, 003 §5]",
            ),
            Comparison(
                "the scheme of 2016: share",
                "0.023 %",
                percent(share_within(count_stderr(PEOPLE, flip_probability), PEOPLE, asked.error)),
                "the figure is right, but protects nobody: see below",
            ),
        ],
        claims=[Claim("Whole records by the rule of 2016", whole, full.schema, PEOPLE, epsilon, delta)],
        remarks=[
            f"Why: if everybody else has a third site y, a message that shows x and not y comes from the crowd only "
            f"{PEOPLE * PRINTED_LIE**2:.2g} times, and from a person who has x almost surely. In {seen.alone:.0%} of "
            f"simulated collections nobody else's message looks like either of two suspected answers, and the attack "
            f"is right in {seen.right:.1%} (at least {seen.low:.1%}), where ε = 2 would allow {promised:.1%}.",
            f"At δ = {delta:.2g} those records have ε between {least.lower_bound:.3g} and {least.epsilon:.3g}.",
            f"Split bits show the analyzer no such combination: the same guarantee holds for everybody, at "
            f"± {1.96 * plan.stderr:.3g} people and {plan.payload_messages:.3g} messages: better than what was claimed in "
            "2016, and true.",
        ],
    )


main = command(run, PEOPLE)

if __name__ == "__main__":
    main()
