"""Plans that need fewer honest users are preferred, and the planner says so."""

import re
from pathlib import Path

import pytest

import hubbub as hb
from hubbub.model.privacy import Budget
from hubbub.planner import Constraints, Request, Search, family_key
from hubbub.planner.columns import plan_error
from hubbub.planner.margins import overall_margin
from hubbub.planner.search import FEWER_HONEST, preferred

BUDGET = Budget(1.0, 1e-6)
SURVEY = hb.Schema.survey({"a": hb.Flag(), "b": hb.Choice(list("xyz"))})


@pytest.mark.long
def test_a_series_does_not_trade_all_honest_users_for_little() -> None:
    """Regression: clear records among users' fakes, which need all 10,000 users to be honest, for little less error."""
    schema = hb.Schema.bits(1)
    found = Search.of(Request.of(schema, 10_000, BUDGET, trust="shuffler-noise", rounds=52), prune=True)
    least = next(iter(found.plans.values()))
    assert family_key(least) == "clear-user-fakes"
    assert least.guarantee.assumptions.honest == 10_000
    best = found.best
    assert family_key(best) == "clear-shuffler-fakes"
    assert best.guarantee.assumptions.honest == 1
    assert best.stderr <= FEWER_HONEST * least.stderr
    assert best == hb.plan(schema, 10_000, BUDGET, trust="shuffler-noise", rounds=52)
    assert f"error {best.stderr:.4g}, which needs {best.guarantee.assumptions.needs}, to" in found.preference
    assert "draws its fakes" in found.preference
    assert f"error {least.stderr:.4g}, which needs 10,000 honest users" in found.preference
    assert "up to 1.25 times" in found.preference


@pytest.mark.long
def test_the_rule_holds_for_surveys() -> None:
    request = Request.of(SURVEY, 10_000, BUDGET, trust="shuffler-noise", rounds=12)
    found = Search.of(request)
    users = found.plans["clear-user-fakes"]
    least = min(plan_error(request, one) for one in found.plans.values())
    assert plan_error(request, users) <= FEWER_HONEST * least
    assert found.best is found.plans["clear-shuffler-fakes"]
    assert preferred(request, [users, found.best]) is found.best
    assert Search.of(request, prune=True).best == found.best


@pytest.mark.long
def test_searches_for_a_precision_prefer_the_same_plans() -> None:
    """Regression: the searches took the plan with the smallest error, so that the preferred one had ±98, not ±85."""
    schema, terms = hb.Schema.one_hot(4), Constraints(trust="shuffler-noise", rounds=52)
    found = hb.solve(schema, 10_000, delta=1e-6, margin=85, **terms)
    assert found.guarantee.assumptions.honest == 1
    assert overall_margin(found) <= 85.001


def test_a_larger_difference_decides() -> None:
    request = Request.of(hb.Schema.bits(1), 1000, BUDGET, trust="shuffler-noise")
    found = Search.of(request)
    assert found.preference == ""
    assert found.best == next(iter(found.plans.values()))
    flip, local = found.plans["flip"], found.plans["local-flip"]
    assert local.stderr > FEWER_HONEST * flip.stderr
    assert preferred(request, [flip, local]) is flip


def test_pruning_keeps_what_may_be_preferred() -> None:
    """Few people gain little by shuffling, so that the plan that needs nobody is preferred."""
    request = Request.of(hb.Schema.one_hot(3), 10, BUDGET, honest_fraction=0.5)
    pruned, whole = Search.of(request, prune=True), Search.of(request)
    assert pruned.best == whole.best
    assert whole.best.guarantee.assumptions.trust == "nobody"


def test_the_studio_has_the_same_factor() -> None:
    script = (Path(hb.__file__).parent / "studio" / "static" / "explore.js").read_text()
    (factor,) = re.findall(r"const FEWER_HONEST = ([0-9.]+);", script)
    assert float(factor) == FEWER_HONEST
