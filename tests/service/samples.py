"""Contracts, keys and identities for tests."""

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

from tests.pipeline.points import POINTS, PROTOCOLS, SCHEMAS
from tests.service.admissions import BY_TICKET

import hubbub as hb
from hubbub.accountant.overflow import min_slots
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import Identity
from hubbub.service.task.sealing import Private, Public, generate, load_private, load_public

ANALYZER, SHUFFLER = Identity(bytes([1]) * 32), Identity(bytes([2]) * 32)


def claimed(
    schema: hb.Schema, protocol: hb.Protocol, n: int = 100, epsilon: float = 1.0, delta: float = 1e-6
) -> hb.Plan:
    """Return a plan with a claimed guarantee, which is fast to make and which :func:`load_contract` rejects."""
    assumptions = hb.Assumptions(
        honest=n, shuffler=True, fakes=False, view="nothing", collusion_epsilon=0.0, count_epsilon=0.0
    )
    guarantee = hb.Guarantee(
        epsilon=epsilon,
        delta=delta,
        lower_bound=0.0,
        solved="delta",
        basis=hb.Basis.PROVEN,
        method="claim",
        n=n,
        assumptions=assumptions,
    )
    return hb.Plan(schema=schema, n=n, protocol=protocol, guarantee=guarantee, stderr=1.0)


def contract(plan: hb.Plan, **changes: Any) -> Contract:
    """Return a contract of a plan, by default with the fewest slots it allows."""
    values = {
        "plan": plan,
        "min_batch_size": plan.n,
        "slots": changes.get("slots") or min_slots(plan),
        "epoch": 3600,
        "task_start": 400_000,
        "task_end": 500_000,
        "suite": 1,
        "admission": BY_TICKET,
        "analyzer": ANALYZER.public,
        "shuffler": SHUFFLER.public,
    }
    return Contract(**{**values, **changes})


@functools.cache
def simple(suite: int = 1, min_batch_size: int = 100) -> Contract:
    """Return a contract for three copies of a record of three bits."""
    return contract(claimed(SCHEMAS["bits"], PROTOCOLS["copies"]), suite=suite, min_batch_size=min_batch_size)


@functools.cache
def of_point(kind: str, name: str, suite: int = 1) -> Contract:
    """Return a contract of one point of the protocol family, for 100 users."""
    return contract(claimed(SCHEMAS[kind], PROTOCOLS[name]), suite=suite)


def _hides_fillers(kind: str, name: str) -> bool:
    protocol = PROTOCOLS[name]
    fixed_count = protocol.sends_records or (kind == "one_hot" and protocol.clear)
    return protocol.shuffler_fakes is None or fixed_count


SERVABLE = [point for point in POINTS if _hides_fillers(*point)]
"""The points of the protocol family that contracts allow: all but those whose fillers would reveal a sum."""


@dataclass(frozen=True)
class Pair:
    """A key pair, as bytes and as objects."""

    secret: bytes
    bytes: bytes
    private: Private
    public: Public


@functools.cache
def pair(suite: int, name: str) -> Pair:
    """Return a key pair that depends only on the suite and the name."""
    secret, public = generate(suite, entropy=lambda size: hashlib.sha256(name.encode()).digest()[:size])
    return Pair(secret, public, load_private(suite, secret), load_public(suite, public))
