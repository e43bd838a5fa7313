"""A diagnosis: a defect of a client or a shuffler in the terms of the protocol."""

from dataclasses import dataclass
from typing import Literal

from hubbub.numeric.binomial import clopper_pearson

Kind = Literal[
    "illegal messages",
    "clear records",
    "constant output",
    "deterministic output",
    "weak seed",
    "equal copies",
    "reused noise",
    "dependent records",
    "correlated bits",
    "flip probability",
    "biased flips",
    "number of copies",
    "categories after a flip",
    "number of fakes",
    "distribution of fakes",
    "distinguishable values",
    "shuffler",
    "other",
]
Harm = Literal["privacy", "estimates"]
INTERVAL = 0.001  # confidence intervals in texts hold with 99.9 %


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A defect in words, with a bound on the probability that a program without this defect gives this evidence."""

    kind: Kind
    text: str
    p: float
    harm: Harm = "privacy"  # "estimates": there is more noise than planned, which biases estimates and reveals nothing


def rate_text(count: float, trials: int, planned: float) -> str:
    """Return an observed frequency beside the planned one.

    >>> rate_text(0, 12_000, 0.272)
    'expected 27.2 %, observed 0 of 12,000 (0 %; 99.9 % interval 0 to 0.0633 %)'
    """
    whole = min(max(round(count), 0), trials)
    low, high = (100 * float(end) for end in clopper_pearson(whole, trials, INTERVAL / 2))
    share = f"{100 * whole / trials:.4g} %; 99.9 % interval {low:.3g} to {high:.3g} %"
    return f"expected {100 * planned:.4g} %, observed {whole:,} of {trials:,} ({share})"
