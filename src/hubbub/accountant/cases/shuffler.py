"""The shuffler's fakes: their exact distribution, or a composition over counts."""

from hubbub.accountant.analysis import Analysis, log, unknown
from hubbub.accountant.cases.counts import composed
from hubbub.accountant.theorems import fakes
from hubbub.numeric.distributions import Distribution
from hubbub.privacy import Basis
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema


def shuffler_fakes_analysis(protocol: Protocol, schema: Schema, drawn: Fakes) -> Analysis:
    """Return the analysis of fakes drawn by the shuffler for every legal record, or for every bit if bits are released.

    Flips only add privacy. Whole fake records are flipped like all others, so the released messages are a function of
    clear records among clear fakes. Fake bits are not flipped; given which positions were, the same counts change, each
    up or down, and both directions are covered.

    >>> shuffler_fakes_analysis(Protocol(0, m=Fakes.laplace(2.0, 25)), Schema.one_hot(9), Fakes.laplace(2.0, 25)).method
    "the exact laplace distribution of the shuffler's fakes"
    """
    if protocol.sends_records or (schema.exclusive and protocol.clear):
        return Analysis(
            upper=lambda epsilon: log(fakes.swap_delta(drawn, epsilon)),
            lower=(lambda epsilon: log(fakes.swap_delta(drawn, epsilon)) - 1e-6) if protocol.clear else unknown,
            basis=Basis.EXACT if protocol.clear else Basis.PROVEN,
            method=f"the exact {drawn.distribution} distribution of the shuffler's fakes",
            honest=1,
            fakes=True,
            guess=1.0,
        )
    before, after = Distribution(0, drawn.pmf), Distribution(1, drawn.pmf)
    method = f"the {drawn.distribution} distribution of the shuffler's fakes"
    if not schema.dense and protocol.clear and 2 * schema.max_set <= schema.width:
        both = fakes.change_loss(drawn, 1, 1)  # a legal change lowers and raises at most max_set counts each
        return composed(1, before, after, both, schema.max_set, Basis.PROVEN, method, fakes=True)
    return composed(1, before, after, fakes.either_loss(drawn), schema.distance, Basis.PROVEN, method, fakes=True)
