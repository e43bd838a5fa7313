"""Flipped whole records of several bits: slot exchange and privacy blankets, and group privacy over copies."""

import math

from hubbub.accountant.analysis import Analysis, Curve, non_increasing
from hubbub.accountant.gaussian_limit import information
from hubbub.accountant.theorems import attacks
from hubbub.accountant.theorems.records.exchange import bound
from hubbub.accountant.theorems.records.fakes import Companions, bound_with_fakes
from hubbub.accountant.theorems.records.local import group_steps, local
from hubbub.model.privacy import Basis
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema

UNEVEN = 1e-3
"""Amount by which ln δ of a guarantee lies above its certificate.

The numbers of quadrature nodes depend on ε, so certificates at neighbouring ε, or on two machines, differ by up to half
of that; every one of them is a bound. With the margin, one evaluation at the ε of a guarantee confirms it.
"""


def record_analysis(
    protocol: Protocol, schema: Schema, honest: int, fakes: int, drawn: Fakes | None = None
) -> Analysis:
    """Return the analysis of whole records of several bits among fakes, fixed or drawn by each user.

    >>> record_analysis(Protocol(0.1, 2), Schema.bits(3), 1000, 0).method
    'slot exchange and privacy blankets of one copy, and group privacy over 2 copies'
    """
    q, k = protocol.q, protocol.k
    companions = Companions(fakes, drawn, honest)
    guess = 5 * math.sqrt(min(information(protocol, schema) / (k * honest + companions.mean), 1.0))
    method = "slot exchange and privacy blankets"
    if companions.mean:
        method += " of users and fakes" + (", averaged over the number of fakes" if drawn else "")
    if k > 1:
        method += f" of one copy, and group privacy over {k} copies"
    certified = _certified(schema, q, k, honest, companions)
    if k > 1:
        certified = non_increasing(certified)

    def lower(epsilon: float) -> float:
        if drawn:
            return attacks.drawn_column_attack(schema, q, honest, epsilon, k, drawn)
        if fakes:
            return attacks.column_attack(schema, q, honest, epsilon, k, fakes)
        if k > 1:
            return attacks.copies_attack(schema, q, honest, epsilon, k)
        return attacks.attack(schema, q, honest, epsilon)

    return Analysis(
        upper=lambda epsilon: min(certified(epsilon) + UNEVEN, 0.0),
        lower=lower,
        honest=honest,
        basis=Basis.PROVEN,
        method=method,
        guess=guess,
        decide=lambda epsilon, delta: certified(epsilon) <= math.log(delta),
    )


def _certified(schema: Schema, q: float, k: int, n: int, companions: Companions) -> Curve:
    if companions.mean:
        return lambda epsilon: bound_with_fakes(schema, q, n, epsilon, companions, k)
    if k == 1:
        return lambda epsilon: bound(schema, q, n, epsilon)

    def copies(epsilon: float) -> float:
        """Replace the copies one at a time: each step replaces one message among kn, whatever the others hold."""
        step = bound(schema, q, k * n, epsilon / k)
        return min(group_steps(epsilon, k) + step, local(schema, q, epsilon, k), 0.0)

    return copies
