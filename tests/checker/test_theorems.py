"""Terms of the checker's bounds that only whole records in copies, or random numbers of fakes, have."""

from dataclasses import replace
from fractions import Fraction
from math import comb, exp

import pytest
from tests.checker.crude import chances
from tests.checker.enumeration import claim, truth

from hubbub.accountant.theorems.records import blanket
from hubbub.checker.bounds import Bound
from hubbub.checker.document import Claim, Fakes
from hubbub.checker.fixed import Masses, exp_bounds
from hubbub.checker.theorems import _Task, theorems
from hubbub.model.schema import Schema

SCALE = 1 << 200


def bounds(of: Claim) -> dict[str, Bound]:
    """Return the bounds by method."""
    return {bound.method.split(",")[0]: bound for theorem in theorems(of) for bound in theorem()}


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize(("kind", "width", "most", "flip"), [("bits", 2, 2, "3/10"), ("one_hot", 3, 1, "1/5")])
def test_copies_of_whole_records_cost_what_group_privacy_says(
    kind: str, width: int, most: int, flip: str, copies: int
) -> None:
    """δ(ε) ≤ Σ e^(iε/k)·δ₁(ε/k) with δ₁ of one message among all: not k times δ₁."""
    epsilon, users = Fraction(4, 5), 60
    goal = Fraction(1, 100)
    together = replace(claim(kind, width, most, users, flip, copies=copies), epsilon=epsilon, delta=goal)
    factor = sum(Fraction(exp_bounds(epsilon * i / copies, 200)[0], SCALE) for i in range(copies))
    single = replace(claim(kind, width, most, users * copies, flip), epsilon=epsilon / copies, delta=goal / factor)
    found, parts = bounds(together), bounds(single)
    methods = [method for method in found if "blanket" in method]
    assert methods
    for method in methods:
        exact = parts[method].upper * factor
        assert exact * (1 - Fraction(1, 10**9)) <= found[method].upper <= exact * Fraction(1000001, 1000000)


@pytest.mark.parametrize(("width", "method"), [(1, "all crowds"), (2, "composition")])
def test_too_few_fakes_cost_their_probability(width: int, method: str) -> None:
    """A number of fakes that is likely reached is used; that it is not reached counts in full, also in the goal."""
    users, drawn = 30, Fakes("binomial", Fraction(3, 10), 4)
    of = claim("bits", width, width, users, "1/10", fakes=drawn, release="bits", delta="1/1000")
    number, missed = _Task(of, Fraction(1, 2))._likely_fakes(drawn)
    trials, p = users * drawn.shift, drawn.scale
    fewer = sum(comb(trials, m) * p**m * (1 - p) ** (trials - m) for m in range(number))
    assert of.delta / 10**5 < fewer <= missed <= of.delta / 1000
    (whole,) = [bound for name, bound in bounds(of).items() if name.startswith(method)]
    (fixed,) = [
        bound
        for name, bound in bounds(replace(of, fakes=number, delta=of.delta - missed)).items()
        if name.startswith(method)
    ]
    assert whole.upper >= fixed.upper + fewer


@pytest.mark.parametrize("below", range(1, 5))
def test_numbers_of_fakes_that_are_not_listed_count_as_too_few(below: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All the mass outside of the list is that of fewer fakes than its first, and every entry lacks as much."""
    exact = chances(40, Fraction(3, 10))
    outside = sum(exact[:below])

    def listed(self: _Task, drawn: Fakes, share: Fraction, bits: int) -> Masses:
        slack = -int(-outside * 2**bits // 1)
        return Masses(below, [max(0, int(mass * 2**bits) - slack + 1) for mass in exact[below:]], slack, bits)

    monkeypatch.setattr(_Task, "_numbers", listed)
    for slope in (3, 100, 10_000):
        of = claim("bits", 1, 1, 10, "1/10", release="bits", delta=str(min(Fraction(1), outside * slope * 1024)))
        number, missed = _Task(of, Fraction(1, 2))._likely_fakes(Fakes("binomial", Fraction(3, 10), 4))
        assert sum(exact[:number]) <= missed


@pytest.mark.parametrize("epsilon", ["1", "2"])
def test_fakes_of_which_not_every_vector_is_legal_are_not_fair_bits(epsilon: str) -> None:
    """A bit of a fake with at most one of three labels is set with probability 1/4, and its bits depend on each other.

    Counted as fair bits, they would give bounds below the truth.
    """
    of = replace(claim("at_most", 3, 1, 1, "1/50", fakes=4, release="bits"), epsilon=Fraction(epsilon))
    exact = truth(of, Fraction(exp_bounds(Fraction(epsilon), 200)[1], SCALE))
    found = bounds(replace(of, delta=exact * 999 / 1000))
    assert any(name.startswith("composition") for name in found)
    assert all(bound.upper >= exact for bound in found.values())


@pytest.mark.parametrize(("schema", "flip", "users"), [(Schema.bits(2), 0.3, 60), (Schema.one_hot(3), 0.2, 80)])
def test_blankets_of_one_message_are_those_of_the_accountant(schema: Schema, flip: float, users: int) -> None:
    """Two implementations of the bound for all messages: with twice as many it would be far smaller."""
    of = claim(schema.form, schema.width, schema.max_set, users, str(Fraction(flip)), epsilon="2/5", delta="1/1000")
    found = min(bound.upper for bound in bounds(of).values())
    assert float(found) == pytest.approx(exp(blanket(schema, flip, users, 0.4)), rel=0.01)
