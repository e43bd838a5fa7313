"""Flipped single bits, and flipped records split into bits: every position is a collection of single bits."""

import math
from collections.abc import Callable
from dataclasses import replace

from hubbub.accountant.analysis import Analysis, log
from hubbub.accountant.gaussian_limit import information
from hubbub.accountant.theorems import attacks, bit, split
from hubbub.privacy import Basis
from hubbub.protocol import Protocol
from hubbub.schema import Schema


def position_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: int) -> Analysis:
    """Return the analysis of single or split bits: every position is a collection of single bits."""
    q, k = protocol.q, protocol.k
    # A fake is one message; leaving out up to k − 1 of each value makes whole users of k copies. Counting fewer fakes
    # than there are only raises the bound.
    crowd = min(honest + max(0, (fakes - 2 * (k - 1)) // k), bit.MAX_CROWD)
    positions = schema.distance
    guess = 5 * math.sqrt(information(protocol, schema) / crowd)  # five standard deviations of the privacy loss
    base = _bit_analysis(q, k, crowd, guess) if positions == 1 else _split_analysis(q, k, crowd, positions, guess)
    if fakes == 0:
        return base
    return replace(
        base,
        honest=honest,
        lower=lambda epsilon: attacks.column_attack(schema, q, honest, epsilon, k, fakes),
        basis=Basis.PROVEN,
        method=f"{base.method}, with fakes counted as users",
        solve=None,
    )


def bit_decision(crowd: int, q: float, k: int = 1) -> Callable[[float, float], bool]:
    """Return the test of (ε, δ) for single bits: a branch and bound that ends once all collections are below δ.

    >>> bit_decision(1000, 0.1)(0.378, 1e-6), bit_decision(1000, 0.1)(0.377, 1e-6)
    (True, False)
    """

    def decide(epsilon: float, delta: float) -> bool:
        goal = math.log(delta)
        return bit.supremum(crowd, q, epsilon, k, limit=goal).upper <= goal

    return decide


def _bit_analysis(q: float, k: int, crowd: int, guess: float) -> Analysis:
    return Analysis(
        upper=lambda epsilon: bit.supremum(crowd, q, epsilon, k, tolerance=3e-3).upper,
        lower=lambda epsilon: bit.supremum(crowd, q, epsilon, k, tolerance=3e-3).lower,
        honest=crowd,
        basis=Basis.EXACT,
        method="branch and bound over all collections",
        guess=guess,
        solve=lambda delta: bit.certified_epsilon(crowd, q, delta, k),
        decide=bit_decision(crowd, q, k),
    )


def _split_analysis(q: float, k: int, crowd: int, positions: int, guess: float) -> Analysis:
    return Analysis(
        upper=lambda epsilon: log(split.positions(crowd, q, k, positions).delta(epsilon)),
        lower=lambda epsilon: log(split.attack(crowd, q, k, positions).delta(epsilon)),
        honest=crowd,
        basis=Basis.PROVEN,
        method=f"composition of the certified single-bit curve over {positions} positions",
        guess=guess,
    )
