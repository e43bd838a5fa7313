"""The ledger of a device: never below the exact composition, and close to it, without numpy."""

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import hubbub as hb
from hubbub.accountant import curve, sampling
from hubbub.accountant.composition import Loss
from hubbub.accountant.device_ledger import Cover, DeviceLedger, convolve
from hubbub.numeric.divergences import gaussian_delta

SETTINGS: list[tuple[hb.Schema, int, hb.Protocol, dict[str, Any]]] = [
    (hb.Schema.bits(1), 10_000, hb.Protocol(0.1), {"delta": 1e-8}),
    (hb.Schema.bits(1), 20, hb.Protocol(0.2), {"delta": 1e-4}),
    (hb.Schema.bits(1), 1000, hb.Protocol(0.45), {"delta": 1e-8, "trust": "nobody"}),
    (hb.Schema.bits(8), 1000, hb.Protocol(0.25), {"delta": 0.0, "trust": "nobody"}),
    (hb.Schema.one_hot(9), 100, hb.Protocol(0, m=hb.Fakes.gaussian(20.0, 140)), {"delta": 1e-7}),
    (hb.Schema.one_hot(9), 100, hb.Protocol(0, m=hb.Fakes.laplace(4.0, 60)), {"delta": 1e-6}),
    (hb.Schema.one_hot(9), 100, hb.Protocol(0, m=300), {"delta": 1e-6}),
    (hb.Schema.one_hot(100), 10**5, hb.Protocol(0.05, release="bits"), {"delta": 1e-9}),
]


@pytest.fixture(scope="module")
def collections() -> list[tuple[hb.Plan, Loss]]:
    """Return plans, each with a cover of its curve at 300 points instead of the few that the plan carries."""
    found = []
    for schema, n, protocol, given in SETTINGS:
        plan = hb.plan_from(schema, n, protocol, **given)
        analysis = curve(protocol, schema, n, trust=plan.guarantee.assumptions.trust)
        step = sampling._reach(analysis) / 300
        deltas = [analysis.delta(step * i) for i in range(301)]
        found.append((plan, Loss.from_envelope(np.minimum(deltas, 1.0), step)))
    return found


def histories(count: int, seed: int) -> list[list[tuple[int, int]]]:
    """Return random lists of collections and their rounds, single rounds and whole years among them."""
    draw = random.Random(seed)
    return [
        [(draw.randrange(len(SETTINGS)), draw.choice([1, 1, 2, 7, 52, 365])) for _ in range(draw.choice([1, 1, 2, 3]))]
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_random_histories_are_close_to_the_exact_composition(
    collections: list[tuple[hb.Plan, Loss]], seed: int
) -> None:
    """Fifty histories: at most 3 % above a composition of fine covers, which is itself above the truth, never below."""
    finite = 0
    for history in histories(50, seed):
        losses = sorted((collections[i][1].power(rounds) for i, rounds in history), key=lambda loss: loss.step)
        whole = losses[0]
        for loss in losses[1:]:
            whole = whole.compose(loss)
        ledger = DeviceLedger(hb.Budget(1e9, 1e-6))
        for place, (i, rounds) in enumerate(history):
            charge = hb.Charge(name=str(place), rounds=rounds, curve=collections[i][0].curve)
            ledger = DeviceLedger(ledger.budget, (*ledger.charges, charge))
        for delta in (1e-4, 1e-6):
            exact, found = whole.epsilon(delta), ledger.total(delta).epsilon
            if exact < 500:  # losses beyond 600 count as infinite
                finite += 1
                assert exact * 0.999 <= found <= 1.03 * exact, (history, delta)
    assert finite > 60


def test_a_device_is_never_below_a_gaussian_mechanism() -> None:
    """A curve whose composition is known exactly: R rounds of signal μ are one of signal μ·√R."""
    points = tuple((0.05 * i, gaussian_delta(0.3, 0.05 * i)) for i in range(50))
    cover = Cover.of(hb.PrivacyCurve(points))
    for rounds in (1, 2, 9, 100, 365):
        power = cover.power(rounds)
        for epsilon in (0.1, 0.5, 2.0, 10.0):
            exact = gaussian_delta(0.3 * rounds**0.5, epsilon)
            assert exact <= power.delta(epsilon) <= 1.3 * exact + 1e-12 * rounds


def test_infinite_losses_add_up() -> None:
    """δ never falls below the probability that some round reveals the record."""
    revealing = hb.PrivacyCurve(((0.0, 0.1), (0.5, 1e-3)))
    for rounds in (1, 3, 100):
        infinite = 1 - (1 - 1e-3) ** rounds
        assert infinite <= Cover.of(revealing).power(rounds).delta(100.0) <= 1.0001 * infinite


def test_convolutions_are_exact() -> None:
    a, b = [3, 0, 1 << 90, 7], [5, 1 << 79, 0]
    assert convolve(a, b) == [sum(a[i] * b[k - i] for i in range(4) if 0 <= k - i < 3) for k in range(6)]


def test_an_answer_beyond_the_budget_is_refused() -> None:
    plan = hb.plan_from(hb.Schema.bits(1), 10_000, hb.Protocol(0.1), delta=1e-8)
    ledger = DeviceLedger(hb.Budget(0.2, 1e-6))
    weeks = 0
    with pytest.raises(hb.BudgetExceeded):
        for weeks in range(52):
            ledger = ledger.charge(plan, collection=f"week {weeks}")
    assert weeks == hb.Ledger(budget=ledger.budget).remaining(plan)
    with pytest.raises(hb.AlreadyCharged):
        ledger.charge(plan, collection="week 0")
    assert ledger.forecast(plan).epsilon > 0.2 >= ledger.total().epsilon


def test_devices_need_no_numpy() -> None:
    script = """
import sys
class Refuse:
    def find_spec(self, name, *rest):
        if name.partition('.')[0] in ('numpy', 'scipy'):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import hubbub.pipeline.device, hubbub.accountant.device_ledger, hubbub.io.ledgers
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
plan = Plan.from_json(sys.stdin.read())
print(hubbub.accountant.device_ledger.DeviceLedger(Budget(1.0, 1e-6)).charge(plan, collection='week 1').total().epsilon)
"""
    plan = hb.plan_from(hb.Schema.bits(1), 10_000, hb.Protocol(0.1), delta=1e-8)
    run = subprocess.run(
        [sys.executable, "-c", script], input=plan.to_json(), capture_output=True, text=True, check=True
    )
    assert 0.9 * plan.guarantee.epsilon > float(run.stdout) > 0.5 * plan.guarantee.epsilon
