"""Flipped whole records of several bits: privacy blankets, and group privacy over copies."""

import math

from hubbub.accountant.analysis import Analysis
from hubbub.accountant.gaussian_limit import information
from hubbub.accountant.theorems import attacks, records
from hubbub.numeric.divergences import gaussian_delta
from hubbub.privacy import Basis
from hubbub.protocol import Protocol
from hubbub.schema import Schema


def record_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: int) -> Analysis:
    """Return the analysis of whole records of several bits."""
    q, k = protocol.q, protocol.k
    known = information(protocol, schema)
    guess = 5 * math.sqrt(min(known / (k * honest + fakes), 1.0))

    def column(epsilon: float) -> float:
        return attacks.column_attack(schema, q, honest, epsilon, k, fakes)

    if k > 1:
        return Analysis(
            upper=lambda epsilon: records.copies(schema, q, honest, epsilon, k, fakes),
            lower=column if fakes else lambda epsilon: attacks.copies_attack(schema, q, honest, epsilon, k),
            honest=honest,
            basis=Basis.PROVEN,
            method=f"the privacy blanket of one copy and group privacy over {k} copies",
            guess=guess,
        )
    if not fakes:
        return Analysis(
            upper=lambda epsilon: records.blanket(schema, q, honest, epsilon),
            lower=lambda epsilon: attacks.attack(schema, q, honest, epsilon, near=guess),
            honest=honest,
            basis=Basis.PROVEN,
            method="the privacy blanket",
            guess=guess,
        )

    def upper(epsilon: float) -> float:
        bound = records.fake_blanket(schema, q, fakes, epsilon)
        # The blanket of users and fakes may take seconds. It is skipped where the Gaussian limit already shows that
        # it proves less than the fakes alone: leaving it out can only raise the bound.
        signal = math.sqrt(known / (honest + fakes))
        crowd = gaussian_delta(min(max(signal, 1e-9), 100.0), epsilon)
        return min(bound, records.blanket(schema, q, honest + fakes, epsilon)) if crowd < math.exp(bound) else bound

    return Analysis(
        upper=upper,
        lower=column,
        honest=honest,
        basis=Basis.PROVEN,
        method="the better of the fakes' distribution and the privacy blanket of users and fakes",
        guess=guess,
    )
