"""Plans of every kind of protocol, and forged versions of them."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import hubbub as hb
from hubbub import Fakes, Protocol, Schema
from hubbub.documents import canonical

Setting = tuple[str, Schema, int, Protocol, dict[str, Any]]

SHORT: list[Setting] = [
    ("bit", Schema.bits(1), 1000, Protocol(0.1), {"delta": 1e-6}),
    ("bit, given epsilon", Schema.bits(1), 1000, Protocol(0.1), {"epsilon": 0.5}),
    ("bit, half honest", Schema.bits(1), 1000, Protocol(0.1), {"delta": 1e-6, "honest_fraction": 0.5}),
    ("bit, copies", Schema.bits(1), 300, Protocol(0.2, 3), {"delta": 1e-8}),
    ("bit, small delta", Schema.bits(1), 10**5, Protocol(0.01), {"delta": 1e-12}),
    ("bit, many users", Schema.bits(1), 10**9, Protocol(1e-7), {"delta": 1e-6}),
    ("bit, three users", Schema.bits(1), 3, Protocol(0.2), {"delta": 1e-2}),
    ("bit, fixed fakes", Schema.bits(1), 300, Protocol(0.1, 1, 900), {"delta": 1e-6}),
    ("bit, copies and fakes", Schema.bits(1), 300, Protocol(0.2, 3, 900), {"delta": 1e-8}),
    ("bit, fakes, half honest", Schema.bits(1), 300, Protocol(0.1, 1, 900), {"delta": 1e-6, "honest_fraction": 0.5}),
    ("bit, mostly fakes", Schema.bits(1), 100, Protocol(0.01, 1, 10**6), {"epsilon": 5e-3}),
    ("split one-hot", Schema.one_hot(9), 200, Protocol(0.1, release="bits"), {"delta": 1e-6}),
    ("split, copies", Schema.bits(5), 40, Protocol(0.2, 2, release="bits"), {"delta": 1e-6}),
    ("split, half honest", Schema.bits(3), 400, Protocol(0.1, release="bits"), {"delta": 1e-6, "honest_fraction": 0.5}),
    ("split, fakes", Schema.bits(3), 60, Protocol(0.1, 1, 60, "bits"), {"delta": 1e-6}),
    ("split, copies and fakes", Schema.bits(3), 60, Protocol(0.1, 2, 300, "bits"), {"delta": 1e-6}),
    ("split, fakes as users", Schema.at_most(2, 5), 60, Protocol(0.05, 1, 100, "bits"), {"delta": 1e-6}),
    ("split, fakes alone", Schema.one_hot(3), 60, Protocol(0.01, 1, 600, "bits"), {"delta": 1e-6}),
    ("two categories", Schema.one_hot(2), 500, Protocol(0.1, release="category"), {"delta": 1e-6}),
    ("five categories", Schema.one_hot(5), 150, Protocol(0.05, release="category"), {"delta": 1e-6}),
    ("clear, fixed fakes", Schema.one_hot(10), 1000, Protocol(0, 1, 422), {"delta": 1e-6}),
    ("clear, half honest", Schema.one_hot(10), 1000, Protocol(0, 1, 2000), {"delta": 1e-6, "honest_fraction": 0.5}),
    ("clear, binomial fakes", Schema.one_hot(10), 1000, Protocol(0, 1, Fakes.binomial(3, 0.3)), {"delta": 1e-6}),
    ("clear, Poisson fakes", Schema.bits(3), 1000, Protocol(0, 1, Fakes.poisson(1.0)), {"delta": 1e-8}),
    ("clear bits", Schema.bits(3), 1000, Protocol(0, 1, 500, "bits"), {"delta": 1e-6}),
    ("Laplace", Schema.one_hot(3), 1000, Protocol(0, 1, Fakes.laplace(2.0, 25)), {"epsilon": 1.0}),
    ("Laplace bits", Schema.bits(5), 1000, Protocol(0, 1, Fakes.laplace(4.0, 80), "bits"), {"delta": 1e-6}),
    ("Gaussian", Schema.one_hot(30), 1000, Protocol(0, 1, Fakes.gaussian(6.0, 60), "bits"), {"delta": 1e-6}),
    ("Gaussian bits", Schema.bits(20), 1000, Protocol(0, 1, Fakes.gaussian(20.0, 200), "bits"), {"delta": 1e-6}),
    ("Gaussian few", Schema.at_most(3, 20), 1000, Protocol(0, 1, Fakes.gaussian(20.0, 200), "bits"), {"delta": 1e-6}),
    ("local", Schema.bits(3), 100, Protocol(0.3), {"delta": 1e-3, "trust": "nobody"}),
    ("local, copies", Schema.one_hot(3), 100, Protocol(0.3, 5), {"epsilon": 1.0, "trust": "nobody"}),
    ("pure", Schema.bits(3), 100, Protocol(0.3, 2), {"delta": 0.0}),
    ("pure category", Schema.one_hot(7), 100, Protocol(0.1, release="category"), {"delta": 0.0}),
]
LONG: list[Setting] = [
    ("split, 1,000 users", Schema.bits(5), 1000, Protocol(0.1, 2, release="bits"), {"delta": 1e-6}),
    ("sixteen categories", Schema.one_hot(16), 10**4, Protocol(0.005, release="category"), {"delta": 1e-6}),
    ("bit, small epsilon", Schema.bits(1), 10**6, Protocol(0.1), {"delta": 1e-6}),
    ("bit, sixteen copies", Schema.bits(1), 1000, Protocol(0.2258, 16), {"delta": 1e-6}),
    ("bit, many fakes", Schema.bits(1), 10**5, Protocol(0.1, 1, 10**5), {"delta": 1e-6}),
    ("bit, tiny delta", Schema.bits(1), 10**6, Protocol(1e-3), {"delta": 1e-60}),
    ("split, forty bits", Schema.bits(40), 10**7, Protocol(1.4e-4, release="bits"), {"delta": 1e-6}),
    ("split, 200 bits", Schema.bits(200), 10**6, Protocol(1e-3, release="bits"), {"delta": 1e-8}),
    ("split, mostly fakes", Schema.bits(20), 1000, Protocol(0.05, 1, 10**4, "bits"), {"delta": 1e-6}),
    ("split, few", Schema.at_most(3, 20), 5000, Protocol(0.05, 2, release="bits"), {"delta": 1e-6}),
    ("split, small epsilon", Schema.one_hot(100), 10**6, Protocol(0.003, release="bits"), {"delta": 1e-6}),
    ("hundred categories", Schema.one_hot(100), 10**5, Protocol(1e-3, release="category"), {"delta": 1e-6}),
    ("ten categories", Schema.one_hot(10), 10**7, Protocol(1e-4, release="category"), {"delta": 1e-8}),
    ("clear, many fakes", Schema.one_hot(1000), 10**6, Protocol(0, 1, 10**7), {"delta": 1e-9}),
    ("Laplace, wide", Schema.one_hot(10**4), 10**6, Protocol(0, 1, Fakes.laplace(200.0, 4000)), {"delta": 1e-6}),
    ("Gaussian, 200 bits", Schema.bits(200), 1000, Protocol(0, 1, Fakes.gaussian(80.0, 900), "bits"), {"delta": 1e-8}),
    ("local, wide", Schema.bits(1000), 10, Protocol(0.45), {"delta": 1e-6, "trust": "nobody"}),
]
UNKNOWN: list[Setting] = [
    ("whole records", Schema.one_hot(4), 1000, Protocol(0.1), {"delta": 1e-6}),
]
"""Plans proven by theorems that the checker does not implement."""


def make(setting: Setting) -> hb.Plan:
    """The plan of a setting."""
    _, schema, n, protocol, options = setting
    return hb.plan_from(schema, n, protocol, **options)


def forged(plan: hb.Plan, change: Callable[[dict[str, Any]], object]) -> str:
    """The plan with a change, under a matching id."""
    document = json.loads(plan.to_json())
    change(document)
    return rehashed(document)


def rehashed(document: dict[str, Any]) -> str:
    body = {key: value for key, value in document.items() if key != "id"}
    return canonical({**body, "id": hashlib.sha256(canonical(body)).hexdigest()}).decode()


def scaled(plan: hb.Plan, factor: float) -> str:
    """The plan with its ε scaled."""
    return forged(plan, lambda one: one["guarantee"].update(epsilon=one["guarantee"]["epsilon"] * factor))
