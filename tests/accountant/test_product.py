"""Flipped whole records among the shuffler's fakes: the product of both bounds holds, and gains over their minimum."""

import json
import math

import pytest
from tests.accountant.enumeration.reference import Model, compare
from tests.checker.plans import rehashed

import hubbub as hb
from hubbub.accountant import account, curve
from hubbub.accountant.analysis import Analysis
from hubbub.errors import FalseClaim
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema


def product(protocol: Protocol, schema: Schema, n: int) -> Analysis:
    return next(one for one in curve(protocol, schema, n).options if one.method.startswith("the product"))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("schema", "q", "noise"),
    [
        (Schema.bits(1), 0.05, Fakes.laplace(0.25, 1)),
        (Schema.bits(1), 0.02, Fakes.gaussian(2.0, 9)),
        (Schema.one_hot(2), 0.02, Fakes.gaussian(0.25, 1)),
        (Schema.one_hot(2), 0.05, Fakes.gaussian(0.5, 2)),
        (Schema.one_hot(3), 0.1, Fakes.gaussian(0.125, 1)),
        (Schema.bits(2), 0.1, Fakes.gaussian(0.25, 1)),
        (Schema.at_most(1, 2), 0.2, Fakes.gaussian(0.25, 1)),
    ],
    ids=str,
)
def test_every_collection_is_below_the_product(schema: Schema, q: float, noise: Fakes, n: int) -> None:
    protocol = Protocol(q, 1, noise)
    model, bound = Model(protocol, schema, n, 0), product(protocol, schema, n)
    pure = schema.distance * math.log((1 - q) / q)
    assert (bound.honest, bound.fakes, bound.shuffler) == (n, True, True)
    for epsilon in (0.1, math.log(2), 0.7, 0.9, 1.5, 0.6 * pure, 0.9 * pure, pure * (1 - 1e-6)):
        claimed = bound.delta(epsilon)
        assert compare(model, epsilon, claimed, above=True).holds is not False, (epsilon, claimed)
        if claimed < 1:
            assert bound.certifies(epsilon, claimed)


GAINS = [
    (Schema.bits(3), 1000, 0.1, Fakes.laplace(1.0, 6), 0.8),
    (Schema.bits(5), 1000, 0.2, Fakes.laplace(1.2, 8), 0.4),
    (Schema.at_most(2, 6), 1000, 0.1, Fakes.laplace(1.5, 8), 0.7),
    (Schema.one_hot(20), 10**4, 0.02, Fakes.gaussian(1.5, 5), 0.95),
]


@pytest.mark.parametrize(("schema", "n", "q", "noise", "share"), GAINS, ids=str)
def test_the_product_gains_over_both(schema: Schema, n: int, q: float, noise: Fakes, share: float) -> None:
    both = account(Protocol(q, 1, noise), schema, n, delta=1e-6)
    flips = account(Protocol(q, 1, noise), schema, n, delta=1e-6, trust="shuffling")
    fakes = account(Protocol(0, 1, noise), schema, n, delta=1e-6)
    assert both.epsilon < share * min(flips.epsilon, fakes.epsilon)
    assert both.assumptions.fakes
    assert both.assumptions.honest == n


def test_the_product_needs_both_assumptions() -> None:
    """A plan that rests on both kinds of noise is refused if either of them is not assumed."""
    schema, n, q, noise, _ = GAINS[0]
    plan = hb.plan_from(schema, n, Protocol(q, 1, noise), delta=1e-6)
    assert hb.load_plan(plan.to_json()).id == plan.id
    for weaker in ({"honest": n - 1}, {"honest": 1}, {"fakes": False}, {"shuffler": False}):
        document = json.loads(plan.to_json())
        document["guarantee"]["assumptions"].update(weaker)
        with pytest.raises(FalseClaim):
            hb.load_plan(rehashed(document))


def test_the_product_says_nothing_up_to_ln_2() -> None:
    bound = product(Protocol(0.3, 1, Fakes.laplace(2.0, 25)), Schema.bits(2), 100)
    assert bound.delta(math.log(2)) == 1.0
    assert not bound.certifies(0.5, 0.99)
    assert bound.delta(1.2) < 1e-9
