"""Trees and cross-tables against dense least squares."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.model.protocol import Fakes
from hubbub.numeric.effects import Factorial
from hubbub.numeric.trees import Tree, mean_square_prefix

pytestmark = pytest.mark.numeric
Floats = NDArray[np.float64]


def solved(rows: Floats, precisions: Floats, values: Floats, n: float) -> tuple[Floats, Floats]:
    """Return least squares under the constraint that all unknowns add up to n, and its covariance."""
    size = rows.shape[1]
    # Unknowns are the mean plus a vector without a component along the ones.
    basis = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:]
    normal = basis.T @ rows.T @ (precisions[:, None] * rows) @ basis
    inverse = np.linalg.pinv(normal)
    residual = values - rows @ np.full(size, n / size)
    found = n / size + basis @ inverse @ basis.T @ rows.T @ (precisions * residual)
    return found, basis @ inverse @ basis.T


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("buckets", "widths", "precisions"),
    [(12, (6, 2, 1), (0.3, 0.7, 0.2)), (8, (1,), (0.5,)), (9, (3, 1), (1.0, 0.01)), (16, (8, 4, 2, 1), (1, 2, 3, 4))],
)
def test_trees(buckets: int, widths: tuple[int, ...], precisions: tuple[float, ...], missing: bool) -> None:
    tree = Tree(buckets, widths, tuple(map(float, precisions)), missing)
    size = buckets + missing
    rows, weights = [], []
    for width, precision in zip(widths, precisions, strict=True):
        blocks = np.repeat(np.eye(buckets // width), width, axis=1)
        level = np.zeros((len(blocks) + missing, size))
        level[: len(blocks), :buckets] = blocks
        if missing:
            level[-1, -1] = 1
        rows.append(level)
        weights.append(np.full(len(level), float(precision)))
    chance = np.random.default_rng(buckets)
    values = [chance.normal(5, 3, len(level)) for level in rows]
    found, covariance = solved(np.concatenate(rows), np.concatenate(weights), np.concatenate(values), 40)
    leaves, absent = tree.leaves(values, 40)
    assert np.allclose(leaves, found[:buckets])
    assert leaves.sum() + absent == pytest.approx(40)
    for right in range(1, buckets + 1):
        query = np.r_[np.ones(right), np.zeros(size - right)]
        assert tree.prefix_variance(right) == pytest.approx(query @ covariance @ query, abs=1e-9)
        assert tree.linear_variance(query[:buckets]) == pytest.approx(query @ covariance @ query, abs=1e-9)
    assert tree.bucket_variance() == pytest.approx(covariance[0, 0])
    if missing:
        assert absent == pytest.approx(found[-1])
        assert tree.absent_variance() == pytest.approx(covariance[-1, -1])


def test_golden_values_of_a_tree() -> None:
    variance = Fakes.laplace(4.0, 50).variance
    tree = Tree(256, (16, 1), (1 / variance, 1 / variance))
    expected = [11.590394, 5.299475, 14.281569, 10.946549]
    assert np.sqrt(tree.prefix_variance([8, 16, 100, 128])) == pytest.approx(expected, rel=1e-6)
    assert mean_square_prefix(tree) ** 0.5 == pytest.approx(12.652324, rel=1e-6)
    assert np.sqrt(tree.prefix_variance(np.arange(1, 256)).max()) == pytest.approx(15.465633, rel=1e-6)


SIZES = {"a": 3, "b": 2, "c": 4}


@pytest.mark.parametrize(
    "precisions",
    [
        {("a",): 0.5, ("a", "b"): 0.2, ("c", "b"): 0.7, ("a", "b", "c"): 0.1},
        {("a", "b", "c"): 2.0},
        {("a", "b"): 1.0, ("b", "c"): 1.0, ("a", "c"): 1.0},
        {("a",): 1.0, ("b",): 2.0, ("c",): 3.0},
    ],
)
def test_cross_tables(precisions: dict[tuple[str, ...], float]) -> None:
    model = Factorial(SIZES, precisions)
    names = tuple(SIZES)
    people = list(itertools.product(*map(range, SIZES.values())))

    def margins(table: Sequence[str]) -> Floats:
        cells = itertools.product(*(range(SIZES[name]) for name in table))
        return np.array(
            [
                [float(all(x[names.index(name)] == c for name, c in zip(table, cell, strict=True))) for x in people]
                for cell in cells
            ]
        )

    chance = np.random.default_rng(1)
    counts = {table: chance.normal(10, 4, [SIZES[name] for name in table]) for table in precisions}
    rows = np.concatenate([margins(table) for table in precisions])
    weights = np.concatenate([np.full(counts[table].size, u) for table, u in precisions.items()])
    values = np.concatenate([counts[table].ravel() for table in precisions])
    found, covariance = solved(rows, weights, values, 100)
    for count in (1, 2, 3):
        for table in itertools.permutations(names, count):
            if not any(set(table) <= set(other) for other in precisions):
                assert model.cell_variance(table) == np.inf
                continue
            query = margins(table)
            assert np.allclose(model.estimate(counts, table, 100).ravel(), query @ found)
            assert model.cell_variance(table) == pytest.approx((query @ covariance @ query.T)[0, 0])
