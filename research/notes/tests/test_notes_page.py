"""The figures of the notes, and the page that holds them."""

import math
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from research.notes.figures import DRAWN, Figure, precision_by_crowd
from research.notes.formulas.bounds import (
    simple_three_sigma_flip,
    three_sigma_bit_flip,
    three_sigma_copies_flip,
    three_sigma_flip,
)
from research.notes.formulas.estimation import count_stderr
from research.notes.page import page
from research.notes.readings import Reading
from research.notes.statements.catalogue import Evidence, Statement, Status
from research.notes.statements.everything import Verdict

from hubbub.accountant import calibrate, quadrature
from hubbub.accountant.theorems import attacks, bit, records
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema

LN2 = math.log(2)


@pytest.mark.parametrize(
    "draw", [pytest.param(draw, marks=pytest.mark.slow) if draw is precision_by_crowd else draw for draw in DRAWN]
)
def test_figures_are_drawn(draw: Callable[[], Figure]) -> None:
    figure = draw()
    root = ElementTree.fromstring(figure.picture.standalone())
    curves = [element for element in root.iter("{http://www.w3.org/2000/svg}path") if element.get("clip-path")]
    assert len(curves) >= 4
    assert not any(re.search(r"nan|inf", element.get("d", "")) for element in curves)
    assert figure.title
    assert len(figure.caption) > 80


def test_names_are_unique() -> None:
    assert len({draw.__name__ for draw in DRAWN}) == len(DRAWN)


class TestCaptions:
    """What the captions say is so."""

    @pytest.mark.long
    def test_copies_gain_more_for_longer_records_and_less_than_the_root(self) -> None:
        gains = []
        for width, n in ((2, 1000), (5, 10**4), (10, 10**5)):
            one, many = (
                count_stderr(n, calibrate(Schema.bits(width), n, Budget(LN2, 1e-3), k=k).protocol.q, k=k)
                for k in (1, 16)
            )
            gains.append(one / many)
        assert 1.5 < gains[0] < gains[1] < gains[2] < 4

    def test_the_formula_for_copies_buys_privacy_instead(self) -> None:
        worst = [
            bit.supremum(1000, three_sigma_copies_flip(1000, LN2, k), LN2, k, tolerance=0.01).upper
            for k in (1, 2, 4, 16)
        ]
        assert worst == sorted(worst, reverse=True)
        assert worst[0] > worst[-1] + math.log(10)

    def test_the_third_category_is_alike_in_both_orders_and_worse(self) -> None:
        for n, epsilon in ((1000, LN2), (10**5, 2.0)):
            q = simple_three_sigma_flip(n, 2, epsilon)
            notes, reverse, third = (
                quadrature.positive_mean(*attacks.background(kind, q, epsilon), n).upper
                for kind in ((2, 0, 0), (0, 2, 0), (1, 1, 1))
            )
            assert third > reverse > notes + math.log(10)
            assert third <= records.blanket(Schema.one_hot(3), q, n, epsilon)

    def test_the_rule_of_three_deviations(self) -> None:
        for n in (100, 10**4, 10**6):
            q = three_sigma_bit_flip(n, 2.0)
            assert float(bit.log_delta([n - 1], [0], q, 2.0)[0]) > math.log(0.75)
        orders = {}
        for n in (1000, 10**6):
            q = three_sigma_flip(n, 5, LN2)
            forward, reverse = (
                quadrature.positive_mean(*attacks.background(kind, q, LN2), n).upper for kind in ((5, 0, 0), (0, 5, 0))
            )
            orders[n] = forward > reverse
        assert orders == {1000: True, 10**6: False}


def test_page() -> None:
    right = Statement("003-a", "1 < 2", Status.CONFIRMED, "Yes & no.", lambda: Evidence(True, "1"))
    false = Statement("004-b", "2 < 1", Status.WRONG, "No.", lambda: Evidence(False, "<2>"))
    reading = Reading(
        epsilon=LN2,
        n=5000,
        printed_q=0.1778,
        q=0.1963,
        printed_eta=0.0045,
        eta=0.0427,
        forward=5e-3,
        reverse=2e-3,
        proven=0.06,
    )
    text = page([Verdict(one, one.check()) for one in (right, false)], [reading], [])
    assert "1 of them disagree" in text
    assert "DISAGREES: &lt;2&gt;" in text
    assert "Yes &amp; no." in text
    assert text.count("<td class=off>") == 2
    assert 'id="003"' in text
    assert 'id="000"' not in text
    assert "every computation bears its status out" in page([Verdict(right, right.check())], [], [])
