"""Theorem 5: both cells count, the envelopes satisfy (6), and what is not resolved is bounded without phases."""

import math
from functools import cache

import numpy as np
import pytest

from hubbub.accountant.theorems.records import cells
from hubbub.accountant.theorems.records.cells import TRIED, Cell, Half, Problem, cell_tilt, evaluate
from hubbub.accountant.theorems.records.kinds import family
from hubbub.schema import Schema

CASES = [(2, 0.35, 60, 0.3, 2), (3, 0.3, 300, 0.25, 3), (3, 0.4, 200, 0.1, 2)]  # width, q, other users, ε, distance


@cache
def problem(width: int, q: float, n: int, epsilon: float, h: int) -> Problem:
    found = family(Schema.bits(width), q)
    assert found is not None
    return Problem(found, n, epsilon, 1e9, h)


def halves(of: Problem) -> tuple[Half, Half]:
    """Return both cells with the choices of an evaluation."""
    choice = evaluate(of)[1]
    one, two = (Half(Cell(of, swap, t), v) for swap, (t, v) in ((False, choice.first), (True, choice.second)))
    return one, two


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_the_bound_is_the_sum_of_both_cells(case: tuple[int, float, int, float, int]) -> None:
    of = problem(*case)
    one, two = halves(of)
    sums = [np.logaddexp(one.values([place]), two.values([place]))[0] for place in range(len(of.rows))]
    plain = np.logaddexp(one.plain, two.plain)
    of.work = 0
    truth = float(np.minimum(sums, plain).max()) + 2 * math.log(of.family.gamma)
    found = evaluate(of)[0]
    assert truth <= found <= truth + 1e-6
    assert min(one.plain.max(), two.plain.max()) > plain.max() - 3, "the control: neither cell is negligible"


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_kinds_that_are_not_resolved_count_with_both_cells(
    case: tuple[int, float, int, float, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    of = problem(*case)
    one, two = halves(of)
    monkeypatch.setattr(cells, "WORK", 0)
    truth = float(np.logaddexp(one.plain, two.plain).max()) + 2 * math.log(of.family.gamma)
    assert truth <= evaluate(of)[0] <= truth + 1e-6


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_envelopes_satisfy_their_condition_on_every_interval(
    case: tuple[int, float, int, float, int], swap: bool
) -> None:
    """(6): V_I ≥ |U_I| and V_I·V_J ≥ |U_IJ|², between the ends too where V_J is constant there."""
    of = problem(*case)
    cell = Cell(of, swap, cell_tilt(of, swap))
    own = cell.tables([cell.own]).covered
    for envelope in {one for tried in TRIED for one in tried[1]}:
        v_own, v_other = cell.covered(envelope)
        for end in (0, 1):
            assert (v_own[end] >= own[end][0]).all()
            assert ((1 + v_own[end]) * (1 + v_other[end]) >= cell.both[end] ** 2 * (1 - 1e-13)).all()
        if not envelope.constant:
            assert ((1 + v_own[1]) * (1 + v_other[0]) >= cell.both[0] ** 2 * (1 - 1e-13)).all()


@pytest.mark.parametrize("name", ["own", "other"])
def test_the_envelope_of_both_matched_kinds_counts(name: str) -> None:
    """A larger V of a kind makes the bound for crowds with it larger."""
    of = problem(*CASES[1])
    half = halves(of)[0]
    place = getattr(half.cell, name)
    before = half.values([place])[0]
    ends = getattr(half, f"v_{name}")
    setattr(half, f"v_{name}", (ends[0] + 0.2, ends[1] + 0.2))
    assert half.values([place])[0] > before + 0.01
