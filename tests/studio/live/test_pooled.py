"""The pool of a round: one bad result costs none of the others their place, and a page is told what it draws."""

import json
from typing import Any
from unittest.mock import Mock

import pytest
from tests.studio.live.services import PEOPLE, committed

from hubbub.results.pool import pool
from hubbub.studio.live.pooled import SHOWN_SHARES, RoundPool


def _with(name: str, **entries: Any) -> dict[str, Any]:
    """Return changes of some entries of an object of a result."""
    result = committed(1)
    return {name: {**result, **result["counts"][0]}[name] | entries}


UNPOOLED: list[dict[str, Any]] = [
    *(_with("noise", **{name: 10**400}) for name in ("variance", "gain", "flip", "centre", "slack", "growth")),
    _with("noise", growth=1e308),
    _with("noise", gain=1e-300),
    _with("guarantee", lower_bound=10**400),
    *(
        _with("guarantee", assumptions=committed(1)["guarantee"]["assumptions"] | {name: 10**400})
        for name in ("collusion_epsilon", "count_epsilon")
    ),
    {"values": [1.7e308] * 5},
    {"stderr": [1e200] * 5},
    {"labels": list("abcde")},
]


@pytest.mark.parametrize("changes", UNPOOLED, ids=lambda one: str(one)[:60])
def test_a_result_that_cannot_be_pooled_is_left_out_alone(changes: dict[str, Any]) -> None:
    good = [committed(one) for one in range(1, 6)]
    bad = [committed(one, **changes) for one in (6, 7)]
    alone = RoundPool(1).plus(good).to_document("")
    orders = [[*good, *bad], [good[0], *bad, *good[1:]]]
    for order in orders if "labels" in changes else [*orders, [*bad, *good]]:
        whole, stepwise = RoundPool(1).plus(order), RoundPool(1)
        for one in order:
            stepwise = stepwise.plus([one])
        for found in (whole, stepwise):
            assert (found.batches, found.people, found.left_out) == (5, 5 * PEOPLE, 2)
            assert [row["value"] for row in found.to_document("")["rows"]] == pytest.approx(
                [row["value"] for row in alone["rows"]]
            )
            json.dumps(found.to_document(""), allow_nan=False)


def test_good_results_are_pooled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=pool)
    monkeypatch.setattr("hubbub.studio.live.pooled.pool", counted)
    assert RoundPool(1).plus([committed(one) for one in range(1, 65)]).batches == 64
    assert counted.call_count == 1


def test_only_the_largest_shares_of_a_pool_are_told() -> None:
    many = [float(one) for one in range(1000)]
    figures: dict[str, Any] = {"labels": [str(one) for one in range(1000)], "values": many, "stderr": [1.0] * 1000}
    rows = RoundPool(1).plus([committed(1, **figures)]).to_document("")["rows"]
    assert [row["label"] for row in rows] == [str(one) for one in range(1000 - SHOWN_SHARES, 1000)]
