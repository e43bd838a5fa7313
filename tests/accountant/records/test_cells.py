"""Theorem 5: both cells count, the envelopes satisfy (6), and what is not resolved is bounded without phases."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from tests.accountant.records.exact import Floats

from hubbub.accountant.theorems.records import cells
from hubbub.accountant.theorems.records.cells import TRIED, Cell, Half, Problem, cell_tilt, evaluate
from hubbub.accountant.theorems.records.contour import (
    Complexes,
    Contour,
    Line,
    along,
    integral,
    integral_without_phases,
)
from hubbub.accountant.theorems.records.kinds import family
from hubbub.accountant.theorems.records.labels import ROUNDING
from hubbub.model.schema import Schema
from hubbub.numeric import portable

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


def test_sums_that_err_by_their_rounding_are_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    of = problem(*CASES[0])
    one, two = halves(of)
    truth = float(np.logaddexp(one.plain, two.plain).max()) + 2 * math.log(of.family.gamma)

    def lower(found: Floats) -> Floats:
        return found - 0.9 * ROUNDING

    monkeypatch.setattr(cells, "WORK", 0)
    monkeypatch.setattr(cells, "integral", lambda *given: lower(integral(*given)))
    monkeypatch.setattr(cells, "integral_without_phases", lambda *given: lower(integral_without_phases(*given)))
    assert truth <= evaluate(of)[0]


Change = Callable[[Complexes], Complexes]


def coarse(swap: bool) -> Cell:
    """Return a cell of probabilities that err by a millionth instead of some units in the last place."""
    exact = problem(*CASES[1])
    of = Problem(replace(exact.family, units=(1e-6, 1e-6)), exact.n, exact.epsilon, exact.cut, exact.h)
    return Cell(of, swap, cell_tilt(exact, swap))


def stated(cell: Cell) -> float:
    """Return what the transforms of single kinds may err by."""
    of = cell.problem
    return of.family.masses(cell.t, of.epsilon, of.cut, [of.h]).noise


def lowered(z: Complexes, noise: float, line: Contour) -> Complexes:
    """Return numbers whose modulus is smaller by this noise, per unit of the argument t + iw."""
    return z - 0.9 * noise * np.hypot(line.t, line.w) * z / np.abs(z)


@pytest.mark.parametrize("swap", [False, True])
def test_the_transform_of_both_matched_kinds_may_err_by_its_noise(swap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    true = coarse(swap)
    of, t, line = true.problem, true.t, true.line
    pair = of.pairs[swap]
    score, noise = pair.scores(of.epsilon, of.cut), cells.pair_noise(pair, of.epsilon, of.cut, t, of.family.units)
    exact = 1.0 + along(score, pair.omega[None], line).transform

    def rough(score: Floats, chances: Floats, line: Contour) -> Line:
        return Line(lowered(exact, noise, line) - 1.0, np.zeros(1))

    def dot(one: Floats, two: Floats) -> Floats:
        return np.asarray(portable.dot(one, two) - (0.9 * noise * t if one is pair.omega else 0.0))

    monkeypatch.setattr(cells, "along", rough)
    monkeypatch.setattr(cells, "portable", SimpleNamespace(**{**vars(portable), "dot": dot}))
    monkeypatch.setattr(cells, "pair_noise", lambda *_: noise)
    cell = Cell(of, swap, t)
    size = np.abs(exact[0])
    assert (cell.both[0] >= size[:-1]).all()
    assert (cell.both[1] >= size[1:]).all()
    assert cell.matched * (1.0 + cell.u[cell.own]) >= size[0] ** 2


@pytest.mark.parametrize("swap", [False, True])
def test_the_transforms_of_kinds_may_err_by_their_noise(swap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = coarse(swap)
    of, line, gamma, noise = cell.problem, cell.line, cell.problem.family.gamma, stated(cell)
    places = [cell.own, cell.other, 0]
    kinds = [of.family.kind(int(of.rows[place])) for place in places]
    exact = [along(kind.scores(of.epsilon, of.cut), np.stack([kind.mu, kind.omega]), line).transform for kind in kinds]
    rest = np.array([np.abs(1.0 - gamma + m - gamma * u) - (1.0 - gamma) for m, u in exact])
    covered = np.array([np.abs(1.0 + u) - 1.0 for _, u in exact])

    def errs(transforms: Complexes) -> Complexes:
        """Lower the modulus of what is uncovered, by the errors of both of its terms."""
        m, u = transforms
        turn = 1.0 - gamma + m - gamma * u
        error = turn - lowered(turn, noise, line)
        return np.array([m - error, u + error / gamma])

    def lacks(transforms: Complexes) -> Complexes:
        """Lower the modulus of what is covered."""
        m, u = transforms
        return np.array([m, lowered(1.0 + u, noise / gamma, line) - 1.0])

    for change in (errs, lacks):
        cell.known.clear()

        def rough(score: Floats, chances: Floats, line: Contour, change: Change = change) -> Line:
            return Line(change(along(score, chances[:2], line).transform), np.zeros(3))

        monkeypatch.setattr(cells, "along", rough)
        found = cell.tables(places)
        ends, truth = (found.rest, rest) if change is errs else (found.covered, covered)
        assert (ends[0] >= truth[:, :-1]).all()
        assert (ends[1] >= truth[:, 1:]).all()


@pytest.mark.parametrize("side", [-1, 1])
def test_real_transforms_may_err_by_their_noise(side: int) -> None:
    exact, cell = coarse(False), coarse(False)
    error, gamma, s = stated(cell) * cell.t, cell.problem.family.gamma, cell.grid.s
    cell.m = exact.m - error
    cell.u = exact.u + side * error / gamma
    cell.matched = exact.matched  # has an allowance of its own
    half = Half(cell, TRIED[0][1][0])
    v = exact.u.copy()
    v[exact.other] = exact.matched - 1.0
    mass = 1.0 + (exact.m - gamma * exact.u)[:, None] + gamma * ((1.0 - s) * v[:, None] - s)
    assert (np.exp(half.log) >= mass).all()
    assert (half.weight * np.exp(half.log) >= ((1.0 + exact.u) * (1.0 + v))[:, None]).all()
