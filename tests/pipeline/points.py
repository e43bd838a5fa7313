"""Every point of the protocol family with every kind of schema, small enough for a thousand repetitions."""

import functools

import numpy as np
from numpy.typing import NDArray

import hubbub as hb

N = 400

SCHEMAS = {
    "one_hot": hb.Schema.one_hot(["red", "green", "blue", "other"]),
    "bits": hb.Schema.bits(["a", "b", "c"]),
    "at_most": hb.Schema.at_most(2, ["v", "w", "x", "y", "z"]),
}

PROTOCOLS = {
    "flip": hb.Protocol(0.2),
    "copies": hb.Protocol(0.25, 3),
    "clear among fakes": hb.Protocol(0.0, m=300),
    "fake and flip": hb.Protocol(0.1, m=400),
    "copies among fakes": hb.Protocol(0.2, 2, 200),
    "split": hb.Protocol(0.15, release="bits"),
    "split copies among fakes": hb.Protocol(0.2, 2, 400, "bits"),
    "clear among binomial fakes": hb.Protocol(0.0, m=hb.Fakes.binomial(3, 0.3)),
    "flip among Poisson fakes": hb.Protocol(0.1, m=hb.Fakes.poisson(1.3)),
    "split among binomial fakes": hb.Protocol(0.1, m=hb.Fakes.binomial(2, 0.4), release="bits"),
    "split among Poisson fakes": hb.Protocol(0.1, m=hb.Fakes.poisson(0.8), release="bits"),
    "clear among Laplace fakes": hb.Protocol(0.0, m=hb.Fakes.laplace(4.0, 60)),
    "flip among Laplace fakes": hb.Protocol(0.1, m=hb.Fakes.laplace(2.5, 20)),
    "split clear among Gaussian fakes": hb.Protocol(0.0, m=hb.Fakes.gaussian(6.3, 40), release="bits"),
    "split among Laplace fakes": hb.Protocol(0.05, m=hb.Fakes.laplace(6.0, 60), release="bits"),
    "category": hb.Protocol(0.1, release="category"),
}

POINTS = [(kind, name) for kind in SCHEMAS for name in PROTOCOLS if kind == "one_hot" or name != "category"]


@functools.cache
def plan_of(kind: str, name: str, n: int = N) -> hb.Plan:
    """Return the plan of a point; its guarantee does not matter here."""
    return hb.plan_from(SCHEMAS[kind], n, PROTOCOLS[name], epsilon=3.0)


def population(schema: hb.Schema, n: int) -> NDArray[np.uint8]:
    """Return fixed records as rows of bits: the first labels are frequent, the last one is absent."""
    bits = np.zeros((n, schema.width), np.uint8)
    people = np.arange(n)
    if schema.exclusive:
        bits[people, np.minimum(people * 7 % 10 // 4, schema.width - 2)] = 1
    else:
        for label in range(schema.width - 1):
            bits[people % (label + 2) == 0, label] = 1
        bits[bits.cumsum(axis=1) > schema.max_set] = 0
    return bits


def collection(schema: hb.Schema, n: int) -> hb.Collection:
    return hb.Collection.from_values(population(schema, n), schema)
