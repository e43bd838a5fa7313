"""Independent counts, each hidden by noise of a known distribution."""

from collections.abc import Callable, Sequence
from functools import cache

from hubbub.accountant.analysis import Analysis, log, unknown
from hubbub.accountant.attained import Attained
from hubbub.accountant.composition import Loss
from hubbub.model.privacy import Basis


def composed(
    covers: Callable[[], Sequence[Loss]],
    attacks: Callable[[], Sequence[Attained]] | None,
    *,
    honest: int,
    basis: Basis,
    method: str,
    fakes: bool = False,
    reached: bool = True,
) -> Analysis:
    """Return the analysis of counts that change together: the worst of all covers, and the best of some attacks.

    Covers and attacks are computed when they are first needed: a search for parameters needs only the covers.
    """
    upper, lower = cache(lambda: tuple(covers())), cache(lambda: tuple(attacks()) if attacks else ())
    return Analysis(
        upper=lambda epsilon: log(max(loss.delta(epsilon) for loss in upper())),
        lower=(lambda epsilon: log(max(loss.delta(epsilon) for loss in lower()))) if attacks else unknown,
        basis=basis,
        method=method,
        guess=1.0,
        honest=honest,
        fakes=fakes,
        reached=reached,
        solve=lambda delta: (
            max((loss.epsilon(delta) for loss in lower()), default=0.0),
            max(loss.epsilon(delta) for loss in upper()),
        ),
    )
