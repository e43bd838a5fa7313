"""Simulated collections have the errors that the frontier predicts; a wrong prediction is detected."""

import zlib

import numpy as np
import pytest

from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally
from hubbub.planner import family_key, frontier
from hubbub.results.estimate import estimate

RUNS = 60
N = 1500
CLOSE = 0.13
"""More than four standard errors of a standard deviation of 60 runs × 9 labels."""


def population(schema: Schema) -> np.ndarray:
    """Return a population in which one label has 10 % of the people and one has none."""
    generator = np.random.default_rng(6)
    if schema.exclusive:
        chance = np.full(schema.width, 0.9 / (schema.width - 2))
        chance[:2] = 0.1, 0.0
        table = np.zeros((N, schema.width), bool)
        table[np.arange(N), generator.choice(schema.width, N, p=chance)] = True
        return table
    return generator.random((N, schema.width)) < np.linspace(0.0, 0.5, schema.width)


def errors(plan: Plan, table: np.ndarray, runs: int = RUNS) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of simulated collections and the standard errors that the estimates state."""
    people, truth = Collection.from_values(table, plan.schema), table.sum(axis=0)
    entropy = SeededStreamNotForPeople(zlib.crc32(f"{plan.schema} {family_key(plan)}".encode()))
    found = [
        estimate(tally(shuffle(randomize(people, plan, entropy=entropy), entropy=entropy)), plan).question
        for _ in range(runs)
    ]
    return np.array([one.values - truth for one in found]), np.array([one.stderr for one in found])


@pytest.mark.parametrize(
    "schema",
    [Schema.one_hot(9), Schema.one_hot(70), Schema.bits(5), pytest.param(Schema.bits(9), marks=pytest.mark.slow)],
    ids=str,
)
def test_predicted_errors_are_observed(schema: Schema) -> None:
    table = population(schema)
    plans = frontier(schema, N, Budget(1.0, 1e-6))
    assert len(plans) >= 6
    for plan in plans:
        if plan.protocol.sends_category:
            # The prediction is the maximum over all data, attained by a label that everybody has.
            everybody = np.eye(1, schema.width, dtype=bool).repeat(N, 0)
            wrong, stated = (array[:, [0]] for array in errors(plan, everybody, 10 * RUNS))
        else:
            wrong, stated = errors(plan, table)
        observed = float(np.sqrt((wrong**2).mean()))
        tolerance = CLOSE if wrong.shape[1] > 1 else 4 / np.sqrt(2 * len(wrong))
        assert abs(observed / plan.stderr - 1) < tolerance, (family_key(plan), observed, plan.stderr)
        assert abs(float(stated.mean()) / plan.stderr - 1) < 0.06, family_key(plan)
        assert abs(wrong.mean()) < 5 * plan.stderr / np.sqrt(len(wrong)), family_key(plan)
        assert abs(observed / (1.25 * plan.stderr) - 1) > 0.06  # a wrong prediction would be noticed
