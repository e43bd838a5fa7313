"""All neighbouring collections of a few people, enumerated with exact fractions, against the certificate."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import pytest

import hubbub as hb
from hubbub.accountant.theorems.fakes import swap_delta
from hubbub.lab.attacks.compromised import counts_delta, values_delta

Outcome = tuple[tuple[str, int], ...]
Release = dict[Outcome, Fraction]
HALF = [Fraction(1, 2) ** abs(z - 3) for z in range(7)]
SMALL = [one / sum(HALF) for one in HALF]
"""P(z) ∝ 2^−|z − 3| on 0 … 6: a distribution whose probabilities are exact fractions."""


def exact(drawn: hb.Fakes) -> list[Fraction]:
    return [Fraction(one) for one in drawn.pmf.tolist()]


def shown(count: int, pmf: Sequence[Fraction]) -> dict[int, Fraction]:
    """The distribution of max(0, count − Z); what is missing to 1 counts as nothing shown."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    for number, probability in enumerate(pmf[:count]):
        found[count - number] += probability
    found[0] += 1 - sum(found.values())
    return found


def added(count: int, pmf: Sequence[Fraction]) -> dict[int, Fraction]:
    return {count + number: probability for number, probability in enumerate(pmf)}


def release(people: Iterable[str | None], pmf: Sequence[Fraction]) -> Release:
    """The distribution of all that leaves the shuffler: strings that are shown, with their numbers."""
    total: Release = {(): Fraction(1)}
    for string, count in sorted(Counter(one for one in people if one is not None).items()):
        total = extended(total, string, shown(count, pmf))
    return total


def with_fillers(people: Iterable[str | None], pmf: Sequence[Fraction]) -> Release:
    """The same in the services, where a person without a string has a slot of her own, which opens to nothing."""
    given = list(people)
    total: Release = defaultdict(Fraction)
    fillers = given.count(None)
    for key, p in release(given, pmf).items():
        for seen in range(fillers + 1):
            ways = math.comb(fillers, seen) * pmf[0] ** seen * (1 - pmf[0]) ** (fillers - seen)
            total[(*key, ("", seen))] += p * ways
    return total


def extended(total: Release, string: str, numbers: Mapping[int, Fraction]) -> Release:
    found: Release = defaultdict(Fraction)
    for key, p in total.items():
        for number, q in numbers.items():
            found[(*key, (string, number)) if number else key] += p * q
    return found


def delta(first: Release, second: Release, factor: Fraction) -> Fraction:
    return sum(
        (
            max(Fraction(0), first.get(key, Fraction(0)) - factor * second.get(key, Fraction(0)))
            for key in {*first, *second}
        ),
        Fraction(0),
    )


def worst(
    n: int,
    strings: str,
    pmf: Sequence[Fraction],
    factor: Fraction,
    made: Callable[[Iterable[str | None], Sequence[Fraction]], Release] = release,
) -> Fraction:
    """The largest δ over all collections of n people, all replacements of one answer, in both orders."""
    answers: list[str | None] = [None, *strings]
    largest = Fraction(0)
    for others in itertools.combinations_with_replacement(range(len(answers)), n - 1):
        releases = [made([answers[i] for i in (*others, own)], pmf) for own in range(len(answers))]
        for one, two in itertools.permutations(releases, 2):
            largest = max(largest, delta(one, two, factor))
    return largest


def mirrored(pmf: Sequence[Fraction], factor: Fraction) -> Fraction:
    """δ of one count that falls and one that rises among added fakes: the theorem's bound."""
    first = extended(extended({(): Fraction(1)}, "a", added(2, pmf)), "b", added(1, pmf))
    second = extended(extended({(): Fraction(1)}, "a", added(1, pmf)), "b", added(2, pmf))
    return max(delta(first, second, factor), delta(second, first, factor))


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(3, 2), Fraction(3)])
@pytest.mark.parametrize(("n", "strings"), [(1, "xyz"), (2, "wxyz"), (3, "wxyz"), (4, "xyz"), (4, "wxyz")])
def test_no_neighbours_exceed_the_mirrored_bound(n: int, strings: str, factor: Fraction) -> None:
    assert 0 < worst(n, strings, SMALL, factor) <= mirrored(SMALL, factor)


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(3, 2), Fraction(3)])
@pytest.mark.parametrize(("n", "strings"), [(1, "xyz"), (2, "xyz"), (3, "xyz"), (4, "xyz")])
def test_no_neighbours_exceed_the_bound_in_the_services(n: int, strings: str, factor: Fraction) -> None:
    """A filler that is passed on is seen by the analyzer, who counts it."""
    found = worst(n, strings, SMALL, factor, with_fillers)
    assert SMALL[0] <= found <= mirrored(SMALL, factor)
    if n == 1:
        # Nobody else hides her: the slot of a single person, with a string or without, is shown with probability P(0).
        assert found == SMALL[0]


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(3, 2), Fraction(3)])
def test_the_bound_is_attained_once_counts_exceed_what_is_subtracted(factor: Fraction) -> None:
    first = extended(extended({(): Fraction(1)}, "x", shown(9, SMALL)), "y", shown(8, SMALL))
    second = extended(extended({(): Fraction(1)}, "x", shown(8, SMALL)), "y", shown(9, SMALL))
    assert delta(first, second, factor) == mirrored(SMALL, factor)


@pytest.mark.parametrize("drawn", [hb.Fakes.laplace(0.5, 2), hb.Fakes.laplace(2.0, 3), hb.Fakes.gaussian(1.0, 2)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_no_neighbours_exceed_the_certificate(drawn: hb.Fakes, epsilon: float) -> None:
    certified = swap_delta(drawn, epsilon)
    found = worst(4, "wxyz", exact(drawn), Fraction(math.exp(epsilon)))
    assert 0 < float(found) <= certified * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_the_certificate_is_attained_by_many_holders(epsilon: float) -> None:
    drawn = hb.Fakes.laplace(0.5, 2)
    pmf = exact(drawn)
    one, two = len(pmf) + 1, len(pmf) + 2
    first = extended(extended({(): Fraction(1)}, "x", shown(two, pmf)), "y", shown(one, pmf))
    second = extended(extended({(): Fraction(1)}, "x", shown(one, pmf)), "y", shown(two, pmf))
    assert float(delta(first, second, Fraction(math.exp(epsilon)))) == pytest.approx(
        swap_delta(drawn, epsilon), rel=1e-9
    )


def test_a_certificate_that_is_too_low_is_caught() -> None:
    """The control: with less noise than certified, an enumeration finds a larger δ."""
    claimed = swap_delta(hb.Fakes.laplace(2.0, 9), 1.0)
    assert float(worst(3, "xyz", exact(hb.Fakes.laplace(2.0, 6)), Fraction(math.exp(1.0)))) > claimed


def test_the_attack_of_a_small_batch_is_the_one_that_is_enumerated() -> None:
    """The lower bound that ``account`` states for n people is attained by collections of n people."""
    drawn = hb.Fakes.laplace(2.0, 3)
    protocol = hb.Protocol(0, m=drawn, release="strings")
    for n in (1, 2, 3, 4):
        stated = hb.account(protocol, hb.Schema.strings(), n, epsilon=0.5)
        found = float(worst(n, "wxyz", exact(drawn), Fraction(math.exp(0.5))))
        assert 0 < stated.lower_bound <= found * (1 + 1e-9)
        assert found <= stated.delta
        assert stated.basis is hb.Basis.PROVEN


PLAN = hb.plan(hb.Schema.strings(), 10**6, epsilon=1.0, delta=1e-8, trust="shuffler-noise")


@pytest.mark.parametrize(("compromised", "control"), [(36, 0.05), (100, 0.6), (1000, 0.9)])
def test_compromised_users_learn_nothing_from_numbers_and_much_from_sealed_values(
    compromised: int, control: float
) -> None:
    assert counts_delta(PLAN, compromised, 1.0) <= PLAN.guarantee.delta
    assert values_delta(PLAN, compromised, 1.0) >= control
    assert counts_delta(PLAN, 0, 1.0) <= PLAN.guarantee.delta
