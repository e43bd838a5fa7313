"""The shuffler's fakes: their exact distribution, or a composition over counts."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hubbub.accountant.analysis import Analysis, unknown
from hubbub.accountant.attained import Attained, together
from hubbub.accountant.cases.counts import composed
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import drawn as combined
from hubbub.accountant.theorems import fakes
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema

CHANGES = 4  # kinds of changes up to which each is composed, instead of one cover for all
POSITIONS = 2048  # positions that an attack uses at most; with fewer it is weaker, but still an attack


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
            upper=lambda epsilon: fakes.swap_bounds(drawn, epsilon)[1],
            lower=(lambda epsilon: fakes.swap_bounds(drawn, epsilon)[0]) if protocol.clear else unknown,
            basis=Basis.EXACT if protocol.clear else Basis.PROVEN,
            method=f"the exact {drawn.distribution} distribution of the shuffler's fakes",
            honest=1,
            fakes=True,
            guess=1.0,
            solve=lambda delta: (
                fakes.swap_epsilon(drawn, delta)[0] if protocol.clear else 0.0,
                fakes.swap_epsilon(drawn, delta)[1],
            ),
        )
    changes = legal_changes(schema)
    each = protocol.clear and len(changes) <= CHANGES

    def attacks() -> Sequence[Attained]:
        tried = changes if each else [changes[0], changes[-1]]
        return [_attack(drawn, min(falls, POSITIONS), min(rises, POSITIONS)) for falls, rises in tried]

    return composed(
        lambda: covers(drawn, tuple(changes) if each else (), schema.distance),
        attacks if protocol.clear else None,
        honest=1,
        basis=Basis.PROVEN,
        method=(
            f"composition of the {drawn.distribution} distribution of the shuffler's fakes "
            f"over {schema.distance} counts"
        ),
        fakes=True,
    )


@lru_cache(maxsize=16)
def covers(drawn: Fakes, changes: tuple[tuple[int, int], ...], distance: int) -> Sequence[Loss]:
    """Return a loss that covers each of the changes, or if there are none one that covers any ``distance`` counts.

    >>> len(covers(Fakes.laplace(2.0, 25), ((2, 0), (1, 1), (0, 2)), 2)), len(covers(Fakes.laplace(2.0, 25), (), 2))
    (3, 1)
    """
    if changes:
        return [fakes.change_loss(drawn, falls, rises) for falls, rises in changes]
    return [fakes.either_loss(drawn).power(distance)]


def combined_analysis(protocol: Protocol, schema: Schema, drawn: Fakes, honest: int) -> Analysis | None:
    """Return the analysis of flipped bits among the shuffler's fakes that counts both kinds of noise.

    None where only one of them matters, and for whole records, whose fakes are flipped as well. Where there are more
    honest users than it can count, it rests on fewer of them, and the attack is not one on all of them.

    >>> protocol = Protocol(0.1, m=Fakes.laplace(2.0, 25), release="bits")
    >>> combined_analysis(protocol, Schema.one_hot(9), Fakes.laplace(2.0, 25), 1000).honest
    1000
    """
    if not protocol.sends_bits or not (users := combined.counted(honest, protocol.q, drawn)):
        return None
    falls, rises = (min(number, POSITIONS) for number in legal_changes(schema)[0])
    return composed(
        lambda: [combined.positions(users, protocol.q, drawn, schema.distance)],
        lambda: [combined.attack(users, protocol.q, drawn, falls, rises)],
        honest=users,
        basis=Basis.PROVEN,
        method=(
            f"composition of the flips and the {drawn.distribution} distribution of the shuffler's fakes "
            f"over {schema.distance} counts"
        ),
        fakes=True,
        # A count of 0 shows that a bit is 0 as surely as the bit alone does. Large counts show that it is 1, but beyond
        # its shift a Laplace distribution falls by a constant factor, so that the loss stays below ln(p/q).
        reached=schema.dense or drawn.distribution == "gaussian",
    )


def _attack(drawn: Fakes, falls: int, rises: int) -> Attained:
    """Return the loss of ``falls`` counts that fall by one and ``rises`` others that rise; errs downwards."""
    pmf = drawn.pmf
    likely = np.maximum(pmf, fakes.NOTHING)  # a probability that underflows is not 0
    fall = pmf, np.append(0.0, likely[:-1]), falls
    return together([fall, (pmf[:-1], likely[1:], rises)])


def legal_changes(schema: Schema) -> list[tuple[int, int]]:
    """Return the numbers of counts that (fall, rise) if one legal record replaces another, the largest only.

    At most ``max_set`` of each, and together at most all positions. One-hot records exchange one label for another.

    >>> legal_changes(Schema.at_most(2, 3)), legal_changes(Schema.at_most(2, 9)), legal_changes(Schema.bits(2))
    ([(2, 1), (1, 2)], [(2, 2)], [(2, 0), (1, 1), (0, 2)])
    """
    total, most = schema.distance, schema.max_set
    return [(falls, total - falls) for falls in range(most, total - most - 1, -1)]
