"""Blocks of single-bit crowds: their bound holds for every crowd in them, and few of them are needed."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.checker import State, columns, verify
from hubbub.checker.columns import Block, Curve, bit_curve, envelope
from hubbub.checker.crowds import Bits
from hubbub.checker.losses import powers

BITS = 120
ONE = 1 << BITS
NEGLIGIBLE = ONE >> 50


def grid(problem: Bits) -> list[tuple[int, int]]:
    ratio, steps = columns.grid(problem, 8)
    return powers(ratio, min(steps, 60), BITS)


@given(
    st.sampled_from([Fraction(1, 20), Fraction(1, 5), Fraction(2, 5)]),
    st.integers(0, 400),
    st.integers(0, 400),
    st.integers(20, 200),
    st.sampled_from([(1, 1, 0), (2, 2, 0), (3, 1, 0), (1, 1, 50)]),
)
def test_the_bound_of_a_block_holds_for_all_its_crowds(
    flip: Fraction, ones: int, zeros: int, width: int, kind: tuple[int, int, int]
) -> None:
    copies, unit, fair = kind
    problem = Bits(flip, copies, ones + width + zeros, unit, BITS, fair)
    points = grid(problem)
    common = bit_curve(problem, ones, zeros)
    bounds = common.values(points, Block.create(unit * width, flip), [0] * len(points))
    for more in range(0, width + 1, max(1, width // 9)):
        crowd = bit_curve(problem, ones + more, zeros + width - more)
        for bound, (_, high) in zip(bounds, points, strict=True):
            assert crowd.attained(high) <= bound


def test_a_block_is_sharper_than_leaving_its_messages_out() -> None:
    problem = Bits(Fraction(1, 20), 1, 20_000, 1, BITS)
    points = grid(problem)[:24]
    crowds = [bit_curve(problem, ones, 20_000 - ones).values(points) for ones in (10_000, 10_100, 10_200)]
    common = bit_curve(problem, 10_000, 9_800)
    without, within = common.values(points), common.values(points, Block.create(200, problem.flip), [0] * 24)
    for known, loose, sharp in zip(zip(*crowds, strict=True), without, within, strict=True):
        assert max(known) <= sharp
        assert sharp - max(known) < (loose - max(known)) / 2


def test_a_parabola_that_is_not_above_the_curve_is_not_used() -> None:
    # The control: with a larger variance than the messages have, the bound falls below the crowds.
    problem = Bits(Fraction(1, 20), 1, 20_000, 1, BITS)
    points = grid(problem)[:24]
    crowd = bit_curve(problem, 10_100, 9_900)
    false = bit_curve(problem, 10_000, 9_800).values(points, Block.create(600, problem.flip), [0] * 24)
    assert any(crowd.attained(high) > bound for bound, (_, high) in zip(false, points, strict=True))


@given(st.integers(0, 60), st.sampled_from([Fraction(1, 50), Fraction(1, 10), Fraction(2, 5)]), st.integers(1, 3))
def test_the_envelope_is_above_every_crowd(others: int, flip: Fraction, copies: int) -> None:
    problem = Bits(flip, copies, others, copies, BITS)
    points = grid(problem)
    bounds = envelope(problem, points, 128, NEGLIGIBLE)
    curves = [bit_curve(problem, ones, others - ones) for ones in range(others + 1)]
    for bound, (_, high) in zip(bounds, points, strict=True):
        assert max(curve.attained(high) for curve in curves) <= bound
    assert all(first >= second for first, second in pairwise(bounds))


def test_what_is_left_out_is_added() -> None:
    problem = Bits(Fraction(1, 10), 1, 3_000, 1, BITS)
    points = grid(problem)
    whole, cut = bit_curve(problem, 2_000, 1_000), bit_curve(problem, 2_000, 1_000, ONE >> 40)
    assert len(cut.p) < len(whole.p)
    for (_, high), bound in zip(points, cut.values(points), strict=True):
        known = whole.attained(high)
        assert known <= bound
        assert bound < known + known // 1000 or known < ONE >> 28


def telemetry() -> hb.Plan:
    """The survey of a browser, asked every week of a year."""
    schema = hb.Schema.survey(
        {
            "country": hb.Choice([str(i) for i in range(60)]),
            "system": hb.Choice([str(i) for i in range(7)]),
            "dark mode": hb.Flag(),
            "load time": hb.Scale(0, 8192, buckets=128, unit="ms"),
            "tabs": hb.Number(0, 100),
        }
    )
    return hb.plan(schema, 200_000, hb.Budget(1, 1e-6), rounds=52)


@pytest.mark.long
def test_a_survey_of_many_rounds_is_confirmed_with_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    entries, told = 0, []

    def counted(*arguments: object) -> Curve:
        nonlocal entries
        curve = bit_curve(*arguments)  # type: ignore[arg-type]
        entries += len(curve.p)
        return curve

    monkeypatch.setattr(columns, "bit_curve", counted)
    verdict = verify(telemetry().to_json(), watch=lambda done, total: told.append((done, total)))
    parts = {part.name: part.state for part in verdict.parts}
    assert parts["guarantee"] is State.CONFIRMED
    assert entries < 3_000_000  # a few hundred crowds
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
