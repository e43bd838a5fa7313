"""Several rounds: few ledgers find the noise of one round, and a ledger accepts it."""

import pytest

import hubbub as hb
from hubbub.accountant import Ledger
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import FAMILIES, certify
from hubbub.planner.request import Request


def search(key: str, request: Request) -> hb.Plan:
    candidate = FAMILIES[key].propose(request)
    assert candidate is not None
    return candidate.best(request)


@pytest.fixture
def ledgers(monkeypatch: pytest.MonkeyPatch) -> list[Protocol]:
    """Return the protocols that enter a ledger."""
    charged: list[Protocol] = []

    plain = certify._total

    def counted(request: Request, trial: hb.Calibrated) -> float:
        charged.append(trial.protocol)
        return plain(request, trial)

    monkeypatch.setattr(certify, "_total", counted)
    return charged


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "schema", "n"),
    [("flip", Schema.one_hot(100), 10**6), ("copies", Schema.one_hot(4), 20_000), ("split", Schema.bits(5), 10**5)],
)
def test_estimates_leave_one_or_two_ledgers(ledgers: list[Protocol], key: str, schema: Schema, n: int) -> None:
    """The accepted plan uses 99 % of the budget by its own ledger; every trial once entered one."""
    budget = hb.Budget(1.0, 1e-6)
    found = search(key, Request.of(schema, n, budget, rounds=12))
    assert len(ledgers) <= 2
    spent = Ledger().charge_protocol(found.protocol, schema, n, rounds=12).epsilon(budget.delta)
    assert 0.99 * budget.epsilon < spent <= budget.epsilon


def test_a_required_flip_probability_ends_the_search(ledgers: list[Protocol]) -> None:
    """A larger ε per round does not change flips that a policy requires: six equal ledgers were once computed."""
    request = Request.of(Schema.one_hot(3), 10**6, hb.Budget(1.0, 1e-6), rounds=30, min_q=0.2)
    assert search("flip", request).protocol.q == pytest.approx(0.2)
    assert len(ledgers) == 1


def test_an_oscillating_search_narrows_down(ledgers: list[Protocol]) -> None:
    """With two users the total jumps with the noise of one round; doubling once led back to more noise than enough."""
    budget = hb.Budget(0.16, 4e-8)
    request = Request.of(Schema.bits(40), 2, budget, rounds=365, min_q=0.05)
    found = search("flip-shuffler-fakes", request)
    tried = [(fakes.scale, protocol) for protocol in ledgers if (fakes := protocol.shuffler_fakes)]
    assert len(tried) == len(ledgers) > 1  # the first trial is not accepted
    low, high = 0.0, float("inf")
    for scale, protocol in tried:
        assert low < scale < high
        epsilon, delta = found.guarantee.epsilon, budget.delta
        tried_plan = hb.plan_from(request.schema, 2, protocol, epsilon=epsilon, rounds=365, total_delta=delta)
        spent = tried_plan.total.epsilon
        low, high = (low, scale) if spent <= budget.epsilon else (scale, high)
    assert found.protocol.shuffler_fakes is not None
    assert found.protocol.shuffler_fakes.scale == high


def test_plans_carry_the_attack(ledgers: list[Protocol]) -> None:
    """Trials are certified without an attack, which only the plan needs."""
    found = search("flip", Request.of(Schema.one_hot(4), 20_000, hb.Budget(1.0, 1e-6), rounds=4))
    whole = hb.account(found.protocol, found.schema, found.n, epsilon=found.guarantee.epsilon)
    assert found.guarantee == whole
    assert 0 < whole.lower_bound < whole.delta


def test_flips_that_suffice_keep_the_family(ledgers: list[Protocol]) -> None:
    """Required flips alone meet this budget; an ε of one round that needs no shuffler must not discard the plan."""
    request = Request.of(Schema.bits(5), 10**5, hb.Budget(1.0, 1e-6), rounds=12, min_q=0.05)
    found = search("flip-shuffler-fakes", request)
    assert found.guarantee.assumptions.shuffler
    assert found.stderr < 76.65


@pytest.mark.parametrize(("epsilon", "most", "stderr"), [(3.0, 3, 4.38), (5.0, 2, 3.63), (8.0, 5, 2.97)])
def test_totals_that_barely_react_or_end_at_a_local_guarantee(
    ledgers: list[Protocol], epsilon: float, most: int, stderr: float
) -> None:
    """Six ledgers once crept to a total above ε = 3; above 5, an ε of one round without the shuffler ended the search.

    The errors were 52.2 (with flips that need no shuffler), 3.96 and 4.00.
    """
    budget = hb.Budget(epsilon, 1e-6)
    found = search("flip", Request.of(Schema.bits(1), 1000, budget, rounds=5))
    assert found.total is not None
    assert 0.94 * epsilon < found.total.epsilon <= epsilon
    assert found.stderr < stderr
    assert len(ledgers) <= most
