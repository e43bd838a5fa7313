"""Calibration lands where the budget holds, next to the boundary."""

import math

import pytest

from hubbub.accountant import account, calibrate
from hubbub.accountant.theorems import split
from hubbub.errors import Infeasible, InvalidInput
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.questions import Choice, Flag
from hubbub.model.schema import Schema

BUDGET = Budget(1.0, 1e-6)

FLIPS = [
    (Schema.bits(1), 1000, {}),
    (Schema.bits(1), 10**8, {"k": 5}),
    (Schema.bits(5), 5000, {}),
    (Schema.bits(13), 10**6, {"k": 4}),
    (Schema.one_hot(3), 10**4, {}),
    (Schema.one_hot(100), 10**5, {"k": 2}),
    (Schema.at_most(2, 50), 10**5, {}),
    (Schema.one_hot(100), 10**5, {"release": "bits"}),
    (Schema.bits(8), 10**3, {"release": "bits", "k": 2}),
    (Schema.one_hot(100), 10**5, {"release": "category"}),
    (Schema.one_hot(100), 10**4, {"m": 2000}),
    (Schema.one_hot(20), 10**4, {"m": Fakes.poisson(0.05)}),
    (Schema.bits(5), 1000, {"trust": "nobody"}),
    (Schema.one_hot(20), 10**4, {"honest_fraction": 0.5}),
]


@pytest.mark.parametrize(("schema", "n", "options"), FLIPS)
def test_smallest_flip_probability(schema: Schema, n: int, options: dict[str, object]) -> None:
    found = calibrate(schema, n, BUDGET, **options)  # type: ignore[arg-type]
    assert found.guarantee.meets(BUDGET)
    protocol = found.protocol
    less = Protocol(0.99 * protocol.q, protocol.k, protocol.m, protocol.release)
    context = {name: options[name] for name in ("trust", "honest_fraction") if name in options}
    assert not account(less, schema, n, epsilon=1.0, **context).meets(BUDGET)  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [2, 10, 100])
def test_smallest_number_of_fakes(d: int) -> None:
    found = calibrate(Schema.one_hot(d), 50, BUDGET, q=0, m=None)
    m = found.protocol.m
    assert isinstance(m, int)
    fewer = account(Protocol(0, m=m - 1), Schema.one_hot(d), 50, epsilon=1.0)
    assert fewer.lower_bound > 1e-6  # exact, so the attack attains it
    assert {2: 80, 10: 422, 100: 4261}[d] == m


def test_smallest_shift() -> None:
    found = calibrate(Schema.one_hot(100), 10, Budget(0.5, 1e-6), q=0, m=Fakes.laplace(4.0, 0))
    assert found.protocol.m == Fakes.laplace(4.0, 47)
    with pytest.raises(Infeasible, match="try a larger scale"):
        calibrate(Schema.one_hot(100), 10, Budget(0.5, 1e-6), q=0, m=Fakes.laplace(1.0, 0))


@pytest.mark.parametrize(("schema", "protocol"), [
    (Schema.bits(1), Protocol(0.1)),
    (Schema.bits(1), Protocol(0.01)),
    (Schema.one_hot(9), Protocol(0.01)),
    (Schema.one_hot(9), Protocol(0.001, release="bits")),
])  # fmt: skip
def test_smallest_collection(schema: Schema, protocol: Protocol) -> None:
    found = calibrate(schema, None, BUDGET, q=protocol.q, release=protocol.release)
    assert found.guarantee.meets(BUDGET)
    fewer = math.floor(0.99 * found.n)
    assert not account(protocol, schema, fewer, epsilon=1.0).meets(BUDGET)


def test_gain_of_copies_for_one_bit_is_bounded() -> None:
    """[002 §5] claims a gain of √k for single bits; with exact calibration it is at most 20 %."""
    budget, n = Budget(math.log(2), 1e-6), 1000
    errors = []
    for k in (1, 2, 4, 16):
        q = calibrate(Schema.bits(1), n, budget, k=k).protocol.q
        errors.append(math.sqrt(n * q * (1 - q) / k) / (1 - 2 * q))
    assert errors == pytest.approx([7.438, 6.655, 6.289, 6.026], rel=2e-3)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "q"),
    [
        (1000, 1.0, 1e-3, 0.012372),
        (1000, 1.0, 1e-6, 0.0307406),
        (1000, math.log(2), 1e-6, 0.0475573),
        (1000, 2.0, 1e-6, 0.015718),
        (2000, 1.0, 1e-6, 0.016172),
        (10000, 1.0, 1e-9, 0.005642),
        (100, 1.0, 1e-3, 0.0917343),
    ],
)
def test_exact_smallest_flip_probabilities_of_single_bits(n: int, epsilon: float, delta: float, q: float) -> None:
    assert calibrate(Schema.bits(1), n, Budget(epsilon, delta)).protocol.q == pytest.approx(q, rel=1e-3)


def test_pure_budgets_take_the_local_bound() -> None:
    found = calibrate(Schema.bits(2), 100, Budget(1.0, 0.0))
    assert found.protocol.q == pytest.approx(1 / (1 + math.exp(0.5)), rel=1e-3)
    assert found.guarantee.delta == 0.0


class TestInfeasible:
    def test_a_cap_on_q_names_the_best_epsilon(self) -> None:
        with pytest.raises(
            Infeasible, match=r"needs a flip probability above 0\.1 at n = 100; with q = 0\.1 the best ε"
        ):
            calibrate(Schema.bits(5), 100, BUDGET, max_q=0.1)

    def test_more_people_do_not_replace_fakes(self) -> None:
        with pytest.raises(Infeasible, match="the best ε is"):
            calibrate(Schema.one_hot(100), None, BUDGET, q=0, m=100)

    def test_too_many_records_for_fakes(self) -> None:
        with pytest.raises(Infeasible, match="no number of fakes"):
            calibrate(Schema.bits(60), 100, BUDGET, q=0, m=None)


@pytest.mark.parametrize("options", [
    {"q": 0.1},
    {"m": None},
    {"q": None, "m": None},
    {"max_q": 0.0},
    {"max_q": 0.7},
    {"honest_fraction": 2.0},
    {"k": 0},
    {"release": "rows"},
])  # fmt: skip
def test_bad_input(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=r"\w+ must \w+"):
        calibrate(Schema.bits(2), 100, BUDGET, **options)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "n", "q", "budget"),
    [
        (Schema.one_hot(100), None, 0.001, BUDGET),
        (Schema.bits(40), 396, None, Budget(2.8023765847271345, 9.906108185307266e-11)),  # certificates jump here
    ],
)
def test_split_bits_take_few_certificates(schema: Schema, n: int | None, q: float | None, budget: Budget) -> None:
    """Estimates guide the search: it took eight certificates of up to half a second each."""
    split.cover.cache_clear()
    found = calibrate(schema, n, budget, q=q, release="bits")
    assert split.cover.cache_info().misses <= 5
    smaller = found.protocol.changed(q=found.protocol.q * (0.999 if q is None else 1.0))
    less = account(smaller, schema, found.n if q is None else math.floor(0.999 * found.n), epsilon=budget.epsilon)
    assert found.guarantee.delta <= budget.delta < less.delta


def test_surveys_are_planned_and_not_calibrated() -> None:
    survey = Schema.survey({"colour": Choice(["red", "blue"]), "dark": Flag()})
    with pytest.raises(InvalidInput, match=r"hubbub\.plan finds that of every question of a survey"):
        calibrate(survey, 1000, Budget(1.0, 1e-6), release="bits")
