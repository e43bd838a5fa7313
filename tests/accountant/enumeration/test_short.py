"""Every schema, release and kind of fakes once, against the reference distributions; and a short fuzz."""

import math
import random

import pytest
from tests.accountant.enumeration import fuzz
from tests.accountant.enumeration.checks import Findings, Violation, check
from tests.accountant.enumeration.reference import Model, compare, fewest_fakes, legal_records, number_of_fakes
from tests.accountant.enumeration.settings import DELTAS, Setting, settings

from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema


def test_reference_of_one_flipped_bit_alone() -> None:
    """δ = p − e^ε q."""
    model = Model(Protocol(0.25), Schema.bits(1), 1, 0)
    assert compare(model, 0.5, 0.0, above=True).truth == pytest.approx(0.75 - 0.25 * math.exp(0.5), rel=1e-14)
    assert compare(model, math.log(3.0) * (1 + 1e-15), 0.0, above=True).holds


def test_reference_of_two_people_with_one_bit() -> None:
    """All others hold a 1: 0 ones has p·q against q², 1 one p² + q² against 2pq, 2 ones p·q against p²; by hand."""
    p, q, growth = 0.75, 0.25, math.exp(0.2)
    ones = (
        max(0, p * p - growth * p * q) + max(0, 2 * p * q - growth * (p * p + q * q)) + max(0, q * q - growth * p * q)
    )
    zeros = max(0, p * q - growth * q * q) + max(0, p * p + q * q - growth * 2 * p * q) + max(0, q * p - growth * p * p)
    model = Model(Protocol(0.25), Schema.bits(1), 2, 0)
    assert compare(model, 0.2, 0.0, above=True).truth == pytest.approx(max(ones, zeros), rel=1e-14)


def test_reference_of_clear_records_among_fakes() -> None:
    """Two labels and one fake: δ = 1/2·(1 − 0) for the histogram (2, 0), none for (1, 1)."""
    assert compare(Model(Protocol(0, 1, 1), Schema.one_hot(2), 1, 1), 0.3, 0.0, above=True).truth == pytest.approx(0.5)


def test_reference_decides_both_comparisons() -> None:
    model = Model(Protocol(0.1), Schema.one_hot(3), 3, 0)
    truth = compare(model, 0.5, 0.0, above=True).truth
    for share, holds in ((1 + 1e-11, True), (1 - 1e-11, False)):
        assert compare(model, 0.5, truth * share, above=True).holds is holds
        assert compare(model, 0.5, truth * share, above=False).holds is not holds


def test_reference_does_not_depend_on_floating_point() -> None:
    """The balls of the worst crowd contain the floating-point value."""
    for protocol, schema in (
        (Protocol(0.1, 2), Schema.bits(2)),
        (Protocol(0.2, 1, Fakes.binomial(2, 0.25), "bits"), Schema.at_most(1, 3)),
        (Protocol(0.1, 1, Fakes.laplace(0.125, 1), "bits"), Schema.bits(2)),
        (Protocol(0.1, release="category"), Schema.one_hot(4)),
    ):
        for pair, delta, error in Model(protocol, schema, 3, 0).evaluate(0.4):
            worst = int(delta.argmax())
            low, high = pair.ball(0.4, worst)
            assert float(low) - 1e-15 <= delta[worst] <= float(high) + 1e-15
            assert error[worst] <= 1e-12


def test_numbers_of_fakes() -> None:
    for fakes, mean in ((Fakes.poisson(0.5), 1.5), (Fakes.binomial(4, 0.125), 1.5)):
        masses = number_of_fakes(fakes, 3)[0]
        assert float(sum(i * mass for i, mass in enumerate(masses))) == pytest.approx(mean)
    for fakes in (Fakes.laplace(0.5, 3), Fakes.gaussian(2.0, 9)):
        masses = [float(mass) for mass in number_of_fakes(fakes, 1)[0]]
        assert masses[:20] == pytest.approx(fakes.pmf[:20].tolist())
        assert sum(masses) == pytest.approx(1.0)
    shares = [fewest_fakes(300, 3, 1), fewest_fakes(7, 4, 2), fewest_fakes(7, 4, 4), fewest_fakes(3, 8, 6)]
    assert shares == [100, 2, 7, 0]


def test_legal_records() -> None:
    for schema in (Schema.bits(3), Schema.one_hot(5), Schema.at_most(2, 4)):
        assert len(legal_records(schema)) == schema.size


def test_violations_are_found() -> None:
    """A claim that is 1 % too small, or an attack that is 1 % too strong, does not pass."""
    found = Findings()
    model = Model(Protocol(0.1), Schema.bits(1), 5, 0)
    truth = compare(model, 0.5, 0.0, above=True).truth
    found.hold(model, "too small", 0.5, truth * 0.99, above=True)
    found.hold(model, "too strong", 0.5, truth * 1.01, above=False)
    assert [type(one) for one in found.violations] == [Violation, Violation]
    assert "2 violations in 2 comparisons" in found.report()


def test_every_small_setting() -> None:
    """Certified values are at or above the truth, and lower bounds at or below it."""
    found, rng = Findings(), random.Random(1)
    for setting in settings(1, 108, 2e5):
        epsilons = setting.epsilons
        check(found, setting, rng.sample(epsilons, min(5, len(epsilons))), rng.sample(DELTAS, 1))
    assert found.settings >= 800
    assert not found.violations, found.report()


def test_worst_corners() -> None:
    """The pure ε, ε = 0 and the uniform point, for every schema."""
    found = Findings()
    for schema in (Schema.bits(1), Schema.bits(2), Schema.one_hot(3), Schema.at_most(1, 2)):
        for q in (1e-6, 0.3, 0.5 - 1e-9):
            setting = Setting(Protocol(q), schema, 3)
            check(found, setting, [0.0, setting.pure * (1 - 1e-9), setting.pure, setting.pure * 1.1], [0.0])
    assert not found.violations, found.report()


@pytest.mark.long
def test_fuzz() -> None:
    """Slow calls are reported, and do not fail."""
    found = Findings()
    fuzz.run(found, 1, 150)
    print(found.report())
    assert not found.violations, found.report()
