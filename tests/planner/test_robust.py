"""Requests from the whole domain: the planner raises only errors of hubbub, and its plans state true assumptions."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hubbub as hb
from hubbub.accountant.accounting import honest_users
from hubbub.model.privacy import TRUST_MODELS
from hubbub.planner import FAMILIES, Search, verify
from hubbub.planner.request import Request
from hubbub.planner.search import protecting

SCHEMAS = st.sampled_from(
    [
        hb.Schema.bits(1), hb.Schema.bits(2), hb.Schema.bits(4), hb.Schema.bits(1000), hb.Schema.one_hot(2),
        hb.Schema.one_hot(4), hb.Schema.one_hot(1000), hb.Schema.at_most(1, 3), hb.Schema.at_most(2, 3),
    ]
)  # fmt: skip


def logarithmic(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


BUDGETS = st.builds(
    hb.Budget,
    logarithmic(1e-3, 10.0) | st.sampled_from([0.0, 10.0]),
    logarithmic(1e-300, 1e-3) | st.sampled_from([0.0, 1e-300]),
)
PEOPLE = logarithmic(1.0, 1e10).map(math.floor)


def requests(*rounds: int) -> st.SearchStrategy[Request]:
    """Requests for one of these numbers of rounds."""
    return st.builds(
        Request,
        schema=SCHEMAS,
        n=PEOPLE,
        budget=BUDGETS,
        rounds=st.sampled_from(rounds),
        trust=st.sampled_from(TRUST_MODELS),
        clear=st.booleans(),
        max_collusion_epsilon=st.sampled_from([math.inf, math.inf, 20.0, 1.0]),
        min_q=st.sampled_from([0.0, 0.05, 0.49]),
        honest_fraction=st.sampled_from([1.0, 0.5, 1e-9]),
    )


KINDS = st.sampled_from(["q", "copies", "bits", "category", "m", "shift", "max_q", "local"])
SOME = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def judge_family(key: str, request: Request) -> None:
    """Search one family: it raises an error of hubbub, or finds a plan that meets the budget."""
    try:
        candidate = FAMILIES[key].candidate(request)
        if candidate is None:
            return
        found = protecting(request, candidate.best(request))
    except hb.FalseClaim:
        raise
    except hb.HubbubError:
        return
    assert found.n == request.n
    assert math.isfinite(found.stderr)
    if request.rounds == 1:
        assert found.guarantee.meets(request.budget)


@SOME
@given(st.sampled_from([*FAMILIES]), requests(1))
def test_families_raise_only_errors_of_hubbub(key: str, request: Request) -> None:
    judge_family(key, request)


@pytest.mark.slow
@pytest.mark.parametrize("key", FAMILIES)
@settings(MANY, max_examples=35)
@given(asked=requests(1, 1, 30, 365))
def test_families_raise_only_errors_of_hubbub_in_many_requests(key: str, asked: Request) -> None:
    judge_family(key, asked)


def judge_calibration(schema: hb.Schema, n: int, budget: hb.Budget, kind: str) -> None:
    """Calibrate one parameter: it raises an error of hubbub, or finds a value that meets the budget."""
    try:
        if kind == "copies":
            found = hb.calibrate(schema, n, budget, k=7)
        elif kind == "bits":
            found = hb.calibrate(schema, n, budget, release="bits")
        elif kind == "category":
            found = hb.calibrate(schema, n, budget, release="category")
        elif kind == "m":
            found = hb.calibrate(schema, n, budget, q=0.0, m=None)
        elif kind == "shift":
            found = hb.calibrate(schema, n, budget, q=0.0, m=hb.Fakes.laplace(20.0, 0))
        elif kind == "max_q":
            found = hb.calibrate(schema, n, budget, max_q=0.01)
        else:
            found = hb.calibrate(schema, n, budget, trust="nobody" if kind == "local" else "shuffler-noise")
    except hb.HubbubError:
        return
    assert found.guarantee.meets(budget)


@FEW
@given(SCHEMAS, PEOPLE, BUDGETS, KINDS)
def test_calibrations_raise_only_errors_of_hubbub(schema: hb.Schema, n: int, budget: hb.Budget, kind: str) -> None:
    judge_calibration(schema, n, budget, kind)


@pytest.mark.slow
@MANY
@given(SCHEMAS, PEOPLE, BUDGETS, KINDS)
def test_calibrations_raise_only_errors_of_hubbub_in_many_settings(
    schema: hb.Schema, n: int, budget: hb.Budget, kind: str
) -> None:
    judge_calibration(schema, n, budget, kind)


def test_s6_rounds_that_leave_the_budget_unused() -> None:
    """A round whose δ covers everything spends ε = 0, by which the search once divided."""
    request = Request.of(hb.Schema.bits(1000), 10**7, hb.Budget(0.2, 1e-9), rounds=30, clear=True)
    candidate = FAMILIES["local-flip"].propose(request)
    assert candidate is not None
    found = candidate.best(request)
    spent = hb.Ledger().charge_protocol(found.protocol, found.schema, found.n, rounds=30, trust="nobody").epsilon(1e-9)
    assert 0.9 * 0.2 < spent <= 0.2, "flips next to 1/2 are resolved as finely as small ones"


def test_s7_an_impossible_flip_probability_is_reported_soon() -> None:
    start = time.process_time()
    with pytest.raises(hb.Infeasible, match=r"above 0\.001"):
        hb.calibrate(hb.Schema.bits(4), 1000, hb.Budget(1.0, 1e-9), max_q=1e-3)
    assert time.process_time() - start < 2.0


@pytest.mark.long
@pytest.mark.parametrize("min_q", [0.0, 0.1])
def test_s1_plans_state_the_assumptions_of_their_theorem(min_q: float) -> None:
    """The figure of every plan is proven with the honest users that it names, and no others."""
    request = Request.of(hb.Schema.one_hot(10), 10**5, hb.Budget(1.0, 1e-6), min_q=min_q, trust="shuffler-noise")
    plans = Search.of(request).plans
    assert len(plans) >= 5
    for plan in plans.values():
        verify(plan)
        claim = plan.guarantee
        named = claim.assumptions
        share = float(Fraction(named.honest, plan.n))
        assert honest_users(plan.n, share) == named.honest
        again = hb.account(
            plan.protocol, plan.schema, plan.n, epsilon=claim.epsilon, honest_fraction=share, trust=named.trust
        )
        assert again.delta <= claim.delta * (1 + 1e-6)
        assert again.assumptions.honest <= named.honest
        assert again.assumptions.fakes <= named.fakes


@pytest.mark.parametrize("n", [90, 100, 110])
def test_a_plan_whose_bound_depends_unevenly_on_epsilon_is_verified(n: int) -> None:
    """At n = 100 the certificate at the raised ε was above that at the ε which the search had found."""
    made = hb.plan_from(hb.Schema.one_hot(2), n, hb.Protocol(0.2), delta=1e-6)
    assert hb.load_plan(made.to_json()) == made
