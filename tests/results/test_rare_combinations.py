"""Joint tables of combinations that few people have, or nobody can: intervals are numbers, and cover."""

import warnings

import numpy as np
import pytest
from tests.results.simulated import plausible

import hubbub as hb

FLIPS = [(3, 1000, 0.02), (4, 100_000, 0.0196), (3, 100_000, 0.0196), (2, 5000, 0.01), (4, 1000, 0.1)]


def kernel(width: int, q: float) -> np.ndarray:
    """Return the probability of each message given each combination."""
    whole = np.ones((1, 1))
    for _ in range(width):
        whole = np.kron(whole, np.array([[1 - q, q], [q, 1 - q]]))
    return whole


def covered(width: int, n: int, q: float, truth: np.ndarray, times: int, *, simultaneous: bool = False) -> np.ndarray:
    """Return in which repetitions the interval of each combination held."""
    rng = np.random.default_rng(3)
    chances, found = kernel(width, q), []
    nothing = np.zeros(1 << width)
    for _ in range(times):
        counts = sum(rng.multinomial(people, row) for people, row in zip(truth, chances, strict=True))
        shown, labels = np.asarray(counts, np.int64), tuple("abcdef"[:width])
        table = hb.Joint(labels=labels, counts=shown, n=n, q=q, k=1, fakes=nothing, spread=None)
        low, high = table.interval(simultaneous=simultaneous)
        found.append((low <= truth) & (truth <= high))
    return np.array(found)


@pytest.mark.parametrize(("width", "n", "q"), FLIPS)
@pytest.mark.parametrize("few", [0, 3])
def test_combinations_that_few_have_are_covered(width: int, n: int, q: float, few: int) -> None:
    """Regression: where no message shows a combination, the interval had no width, and 63 % of them held."""
    truth = np.zeros(1 << width, np.int64)
    truth[0], truth[-1] = n - few, few
    held = covered(width, n, q, truth, 1200)
    for cell in range(1 << width):
        assert plausible(held[:, cell]), cell
        assert held[:, cell].mean() >= 0.93, cell


def test_all_combinations_hold_at_once() -> None:
    truth = np.zeros(16, np.int64)
    truth[0] = 20_000
    assert covered(4, 20_000, 0.02, truth, 1200, simultaneous=True).all(axis=1).mean() >= 0.95


@pytest.mark.parametrize("m", [300, hb.Fakes.poisson(3.0), hb.Fakes.laplace(1.0, 9)])
def test_impossible_combinations_have_an_interval(m: int | hb.Fakes) -> None:
    """Regression: the interval was NaN, with a warning of a division by zero."""
    schema = hb.Schema.one_hot(["a", "b", "c", "d"])
    plan = hb.plan_from(schema, 100, hb.Protocol(0, m=m), epsilon=1.0)
    reports = hb.shuffle(hb.randomize(hb.Collection.from_values(["a"] * 60 + ["b"] * 40, schema), plan))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = hb.joint(reports, plan, ["a", "b"])
        for simultaneous in (False, True):
            low, high = table.interval(simultaneous=simultaneous)
            assert (low <= high).all()
        assert table["a", "b"].interval() == (0.0, 0.0)
