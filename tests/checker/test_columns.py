"""Blocks of single-bit crowds: their bound holds for every crowd in them, and few of them are needed."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.crude import chances, crude, summed

import hubbub as hb
from hubbub.checker import State, columns, crowds, verify
from hubbub.checker.columns import Block, Curve, bit_curve, envelope
from hubbub.checker.crowds import Bits
from hubbub.checker.fixed import Masses, binomial
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


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**12)), min_size=2, max_size=30))
def test_bounds_are_lowered_to_their_convex_hull(drawn: list[tuple[int, int]]) -> None:
    """A convex curve, lifted here and there: what is left is convex, below the bounds and above the curve."""
    points = powers(2**20 + 2**14, len(drawn), 20)[: len(drawn)]
    lines = [(height, Fraction(height, 2 * points[-1][1])) for height, _ in drawn]
    curve = [max(height - slope * x for height, slope in lines) for _, x in points]
    bounds = [-int(-value // 1) + lift for value, (_, lift) in zip(curve, drawn, strict=True)]
    found = columns.convex(bounds, points)
    assert all(exact <= value <= bound for exact, value, bound in zip(curve, found, bounds, strict=True))
    for i in range(1, len(found) - 1):
        (low, _), (x, _), (_, high) = points[i - 1 : i + 2]
        chord = found[i - 1] + Fraction((found[i + 1] - found[i - 1]) * (x - low), high - low)
        assert found[i] <= chord + 2 + Fraction(2**22, 2**14) or found[i] <= found[i + 1]


def test_the_odds_of_flipped_answers_are_confirmed() -> None:
    """Regression: bounds that were not convex made the distance of two answers 2 % larger than it is."""
    survey = hb.Schema.survey({"a": hb.Flag(), "b": hb.Choice(list("xyz"))})
    plan = hb.plan(survey, 10_000, hb.Budget(1, 1e-6))
    assert verify(plan.to_json()).state is State.CONFIRMED


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


def test_the_search_for_the_threshold_may_start_anywhere() -> None:
    # Entries of 0 are probabilities below the slack; next to them no sign is known, and the search goes on.
    q = [Fraction(0)] * 6 + chances(20, Fraction(1, 2)) + [Fraction(0)]
    p = [Fraction(0)] * 7 + chances(20, Fraction(1, 2))
    slack, bits = 2**10, 40
    low_p, low_q = ([max(0, int(mass * 2**bits) - slack // 2) for mass in row] for row in (p, q))
    points = powers(2**bits + 2**bits // 8, 20, bits)
    for mean in range(len(p)):
        found = Curve(low_p, low_q, slack, mean, bits).values(points)
        for (low, high), bound in zip(points, found, strict=True):
            exact = [sum(max(Fraction(0), a - Fraction(x, 2**bits) * b) for a, b in zip(p, q, strict=True)) * 2**bits
                     for x in (low, high)]  # fmt: skip
            assert exact[0] <= bound
            assert bound <= exact[1] + 3 * len(p) * slack or mean < 7


@given(st.integers(1, 40), st.sampled_from([Fraction(1, 50), Fraction(1, 5), Fraction(9, 20)]))
def test_a_block_keeps_no_more_than_its_moments_allow(messages: int, flip: Fraction) -> None:
    block = Block.create(messages, flip)
    if block is None:
        return
    for ones in (0, messages // 3, messages):
        row = summed(chances(ones, 1 - flip), chances(messages - ones, flip))
        mean = ones * (1 - flip) + (messages - ones) * flip
        second, fourth = (sum(chance * (i - mean) ** power for i, chance in enumerate(row)) for power in (2, 4))
        assert block.radius**2 >= 7 * second
        proven = second - (fourth + 2 * second * (1 - 2 * flip) ** 2) / (4 * block.radius**2)
        assert proven - Fraction(1, 2**20) <= Fraction(block.kept, 2**20) <= proven


def test_all_four_ends_that_are_left_out_are_added() -> None:
    # With fair flips the ends are alike, and each is as large as may be left out.
    problem = Bits(Fraction(1, 2), 1, 60, 1, BITS)
    cut = sum(binomial(30, problem.flip, BITS).low[:4])
    curve = bit_curve(problem, 30, 30, cut)
    assert len(curve.p) == 2 * (31 - 8) - 1 + 1
    assert sum(curve.p) < ONE - 3 * cut
    assert curve.tail(0, 0) >= ONE


@pytest.mark.parametrize("slacks", [(2**30, 2**10), (2**10, 2**30), (2**30, 2**30)])
def test_a_crowd_of_distributions_that_err_by_their_slack_is_allowed_for(
    slacks: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rough(n: int, chance: Fraction, bits: int) -> Masses:
        return crude(chances(n, chance), slacks[chance < Fraction(1, 2)], bits)

    monkeypatch.setattr(crowds, "binomial", rough)
    problem = Bits(Fraction(1, 5), 2, 12, 1, 60)
    crowd = summed(chances(7, Fraction(4, 5)), chances(5, Fraction(1, 5)))
    one, two = (summed(crowd, chances(2, chance)) for chance in (Fraction(4, 5), Fraction(1, 5)))
    curve = bit_curve(problem, 7, 5)
    x, y = problem.crowd(7, 5)
    for s, (low_p, low_q) in enumerate(zip(curve.p, curve.q, strict=True), x.first + y.first):
        for low, exact in ((low_p, one[s]), (low_q, two[s])):
            assert low <= exact * 2**60 <= low + curve.slack
    assert curve.tail(0, 0) >= 2**60
    points = powers(2**60 + 2**57, 20, 60)
    for (low, _), bound in zip(points, curve.values(points), strict=True):
        assert sum(max(Fraction(0), a * 2**60 - low * b) for a, b in zip(one, two, strict=True)) <= bound


def test_probabilities_below_the_precision_are_not_lost() -> None:
    slack, bits = 2**10, 40
    rare = [slack, slack, slack, slack]  # of P, and never of Q; the lists show neither
    curve = Curve([2**bits - sum(rare), 0, 0, 0, 0], [2**bits, 0, 0, 0, 0], slack, 0, bits)
    (bound,) = curve.values([(3 << bits - 1, 3 << bits - 1)])
    assert sum(rare) <= bound <= 8 * slack


@pytest.mark.parametrize(("ones", "zeros"), [(2, 0), (0, 2), (2, 2), (0, 0)])
def test_lists_that_lack_as_much_as_they_may_are_allowed_for(
    ones: int, zeros: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of 1/25, 8/25 and 16/25 the first lies outside of the list, and the others lack as much.
    bits, slack = 30, -(-(2**30) // 25)

    def rough(n: int, chance: Fraction, bits: int) -> Masses:
        low = [-(-int(mass * 25) * 2**bits // 25) - slack for mass in chances(n, chance) if mass * 25 > 1]
        return Masses(int(chance > Fraction(1, 2)), low, slack, bits) if n else Masses(0, [1 << bits], 0, bits)

    monkeypatch.setattr(crowds, "binomial", rough)
    curve = bit_curve(Bits(Fraction(1, 5), 3, ones + zeros, 1, bits), ones, zeros)
    assert 2**bits <= curve.tail(0, 0) <= 2**bits + (ones + zeros) * slack + 99
