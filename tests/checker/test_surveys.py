"""The checker confirms the accountant's surveys, encloses the truth of tiny ones, and refuses forged ones."""

import functools
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.crude import chances, crude
from tests.checker.enumeration import Histogram, claim, convolve, hockey_stick, mixture
from tests.checker.plans import forged, scaled

import hubbub as hb
from hubbub.checker import State, WireError, surveys, verify
from hubbub.checker import document as read
from hubbub.checker.bounds import exceeds_pure
from hubbub.checker.fixed import Masses, exp_bounds, log_bounds
from hubbub.checker.losses import Loss
from hubbub.checker.questions import sizes
from hubbub.checker.surveys import _Grid, _Survey
from hubbub.checker.theorems import theorems
from hubbub.model.protocol import Noise

CONFIRMED, NOT_CONFIRMED, FALSE = State.CONFIRMED, State.NOT_CONFIRMED, State.FALSE
Setting = tuple[str, hb.Schema, list[Noise], str, dict[str, Any]]


def choices(number: int, answers: int = 2) -> hb.Schema:
    """A survey of equal questions."""
    labels = [str(i) for i in range(answers)]
    return hb.Schema.survey({f"question {i}": hb.Choice(labels) for i in range(number)})


def laplace(scale: float, shift: int) -> Noise:
    return Noise(m=hb.Fakes.laplace(scale, shift))


def gaussian(scale: float, shift: int) -> Noise:
    return Noise(m=hb.Fakes.gaussian(scale, shift))


def poisson(rate: float) -> Noise:
    return Noise(m=hb.Fakes.poisson(rate))


DIGITS = hb.Schema.survey({"memory": hb.Number(0, 65_536, digits=[4, 4, 4, 4])})
BASE_4 = [laplace(scale, math.ceil(13 * scale)) for scale in (52.0, 20.5, 8.2, 3.25)]
BINARY = hb.Schema.survey({"memory": hb.Number(0, 255, digits=[2] * 8)})
HALVING = [gaussian(95.6 / 2 ** (j / 2), int(6 * 95.6 / 2 ** (j / 2))) for j in range(8)]
EVERYTHING = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue"], missing=True),
        "dark mode": hb.Flag(),
        "load time": hb.Scale(0, 4096, buckets=64, levels=[8, 1]),
        "size": hb.Scale(1, 1000, buckets=9, log=True),
        "memory": hb.Number(0, 65_536, digits=[4, 4], missing=True, variance=True),
        "colour × dark mode": hb.Cross("colour", "dark mode"),
    },
    derived=["dark mode"],
)
SETTINGS: list[Setting] = [
    ("Laplace", choices(2), [laplace(4.0, 54)] * 2, "bits", {"epsilon": 1.0}),
    ("Laplace, two scales", choices(2), [laplace(4.0, 54), laplace(6.0, 80)], "bits", {"delta": 1e-6}),
    ("Laplace, below all losses", choices(2), [laplace(4.0, 54), laplace(6.0, 80)], "bits", {"epsilon": 0.7}),
    ("digits of base 4", DIGITS, BASE_4, "bits", {"epsilon": 1.0}),
    ("Gaussian", choices(10, 5), [gaussian(19.0, 110)] * 10, "bits", {"delta": 1e-6}),
    ("mixed", choices(3), [laplace(5.0, 80), gaussian(14.0, 90), gaussian(14.0, 90)], "bits", {"delta": 1e-6}),
    ("every question", EVERYTHING, [gaussian(20.0, 130)] * len(EVERYTHING.attributes), "bits", {"delta": 1e-6}),
    ("users' fakes", choices(10, 5), [Noise(m=hb.Fakes.binomial(2, 0.9))] * 10, "bits", {"delta": 1e-6}),
    ("Poisson fakes", choices(2), [poisson(0.3), poisson(0.8)], "bits", {"delta": 1e-6}),
    ("both kinds of fakes", choices(2), [poisson(0.3), laplace(8.0, 110)], "bits", {"delta": 1e-6}),
    ("flips", choices(3), [Noise(0.1)] * 3, "bits", {"delta": 1e-6, "n": 400}),
    ("responses", choices(3), [Noise(0.1)] * 3, "category", {"delta": 1e-6, "n": 400}),
    ("half honest", choices(2), [poisson(0.6)] * 2, "bits", {"delta": 1e-6, "honest_fraction": 0.5}),
    ("local", choices(3), [Noise(0.2), Noise(0.3), Noise(0.3)], "bits", {"delta": 1e-3, "trust": "nobody"}),
    ("local responses", choices(2, 5), [Noise(0.1), Noise(0.05)], "category", {"delta": 1e-3, "trust": "nobody"}),
    ("pure", choices(3), [Noise(0.2), Noise(0.3), Noise(0.3)], "bits", {"delta": 0.0}),
    ("one attribute", choices(1), [laplace(2.0, 25)], "bits", {"epsilon": 1.0}),
]  # fmt: skip
LONG: list[Setting] = [
    ("flips and fakes", choices(2), [Noise(0.1), laplace(8.0, 110)], "bits", {"delta": 1e-6}),
    ("digits of base 2", BINARY, HALVING, "bits", {"delta": 1e-6}),
    ("two flips", choices(2), [Noise(0.1), Noise(0.2)], "bits", {"delta": 1e-6}),
    ("forty Gaussian flags", choices(40), [gaussian(38.0, 225)] * 40, "bits", {"delta": 1e-6}),
    ("forty flags", choices(40), [Noise(0.0072)] * 40, "category", {"delta": 1e-6, "n": 10**5}),
    ("ten split", choices(10, 5), [Noise(0.0038)] * 10, "bits", {"delta": 1e-6, "n": 10**5}),
]


def make(setting: Setting) -> hb.Plan:
    _, schema, noise, release, options = setting
    rest = dict(options)
    protocol = hb.Protocol.survey(noise, release)  # type: ignore[arg-type]
    return hb.plan_from(schema, rest.pop("n", 100), protocol, **rest)


def check(setting: Setting) -> None:
    plan = make(setting)
    verdict = verify(plan.to_json())
    assert verdict.state is CONFIRMED, verdict.parts
    assert verdict.bound is not None
    assert verdict.bound <= plan.guarantee.delta
    assert verdict.honest <= plan.guarantee.assumptions.honest
    assert (verdict.shuffler, verdict.fakes) <= (plan.guarantee.assumptions.shuffler, plan.guarantee.assumptions.fakes)
    assert verify(scaled(plan, 0.98)).state is not CONFIRMED


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting[0])
def test_both_implementations_agree(setting: Setting) -> None:
    check(setting)


@pytest.mark.slow
@pytest.mark.parametrize("setting", LONG, ids=lambda setting: setting[0])
def test_both_implementations_agree_on_large_surveys(setting: Setting) -> None:
    check(setting)


GOLDEN = [
    (choices(2), [laplace(4.0, 54)] * 2, 3.409659e-7),
    (choices(5), [laplace(10.0, 165)] * 5, 1.704980e-8),
    (choices(5), [gaussian(13.4, 76)] * 5, 9.554044e-7),
    (choices(10), [gaussian(19.0, 110)] * 10, 9.008982e-7),
    pytest.param(choices(40), [gaussian(38.0, 225)] * 40, 9.002801e-7, marks=pytest.mark.slow),
    (DIGITS, BASE_4, 4.805486e-7),
]
"""Surveys, and δ(1) of an integer lattice, or of the closed form, by another program."""


@pytest.mark.parametrize(("schema", "noise", "delta"), GOLDEN)
def test_bounds_are_the_exact_values(schema: hb.Schema, noise: list[Noise], delta: float) -> None:
    text = forged(
        hb.plan_from(schema, 400, hb.Protocol.survey(noise), epsilon=1.0),
        lambda one: (one["guarantee"].update(delta=delta * 1.00001), one.update(curve=[[0, 1]])),
    )
    assert verify(text).bound == pytest.approx(delta, rel=1e-6)
    lower = forged(
        hb.plan_from(schema, 400, hb.Protocol.survey(noise), epsilon=1.0),
        lambda one: one["guarantee"].update(delta=delta * 0.99999),
    )
    assert verify(lower).state is FALSE


def test_responses_among_many_answers_are_named() -> None:
    plan = make(("", choices(3, 3), [Noise(0.1)] * 3, "category", {"delta": 1e-6}))
    verdict = verify(plan.to_json())
    assert verdict.state is NOT_CONFIRMED
    assert "randomized response between two answers only" in verdict.parts[0].reason


NAMED = {setting[0]: setting for setting in SETTINGS}
MIXED = make(NAMED["mixed"])
USERS = make(NAMED["Poisson fakes"])
CLOSED = make(NAMED["digits of base 4"])
FLIPS = make(NAMED["flips"])
SCALE = hb.Schema.survey({"load time": hb.Scale(0, 64, buckets=64, levels=[8, 1]), "dark mode": hb.Flag()})
WHOLE = make(NAMED["every question"])
LAYOUT = hb.plan_from(SCALE, 1000, hb.Protocol.survey([poisson(rate) for rate in (0.6, 4.0, 0.2)]), delta=1e-6)


def _noise(place: int, key: str, factor: float) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        fakes = document["protocol"]["noise"][place]["m"]
        fakes[key] = int(fakes[key] * factor) if key == "shift" else fakes[key] * factor

    return change


def _flip(document: Any) -> None:
    document["protocol"]["noise"][1]["flip"] = int(document["protocol"]["noise"][1]["flip"] * 0.95)


def _more_answers(document: Any) -> None:
    document["schema"]["questions"][1]["labels"].append("more")


def _finer(document: Any) -> None:
    document["schema"]["questions"][0].update(levels=[4, 1])


def _exposed(document: Any) -> None:
    document["guarantee"]["assumptions"].update(fakes=False)


ONE_FLAG = hb.plan_from(choices(1), 400, hb.Protocol.survey([Noise(0.1)]), delta=1e-6)
MIXED_FAKES = json.loads(MIXED.to_json())["protocol"]["noise"][0]["m"]
PLANS = {
    "one flag": ONE_FLAG,
    "mixed": MIXED,
    "users": USERS,
    "closed": CLOSED,
    "flips": FLIPS,
    "layout": LAYOUT,
    "whole": WHOLE,
}
FORGED: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("smaller epsilon", "mixed", lambda one: one["guarantee"].update(epsilon=one["guarantee"]["epsilon"] * 0.99)),
    ("smaller delta", "mixed", lambda one: one["guarantee"].update(delta=one["guarantee"]["delta"] * 0.9)),
    (
        "smaller delta, closed form",
        "closed",
        lambda one: one["guarantee"].update(delta=one["guarantee"]["delta"] * 0.99),
    ),
    ("smaller scale", "mixed", _noise(1, "scale", 0.98)),
    ("smaller scale, closed form", "closed", _noise(3, "scale", 0.97)),
    ("smaller shift", "mixed", _noise(2, "shift", 0.6)),
    ("smaller shift, closed form", "closed", _noise(0, "shift", 0.97)),
    ("fewer users' fakes", "users", _noise(0, "scale", 0.95)),
    ("fewer flips", "flips", _flip),
    ("fakes not assumed", "mixed", _exposed),
    ("one honest user", "users", lambda one: one["guarantee"]["assumptions"].update(honest=1)),
    ("more categories among as many fakes", "users", _more_answers),
    ("finer blocks among as many fakes", "layout", _finer),
    ("no collusion", "flips", lambda one: one["guarantee"]["assumptions"].update(collusion_epsilon=10.0)),
]


@functools.cache
def untouched(plan: str) -> State:
    return verify(PLANS[plan].to_json()).state


@pytest.mark.long
@pytest.mark.parametrize(("plan", "change"), [one[1:] for one in FORGED], ids=[one[0] for one in FORGED])
def test_forged_claims_are_not_confirmed(plan: str, change: Callable[[Any], Any]) -> None:
    assert untouched(plan) is CONFIRMED
    assert verify(forged(PLANS[plan], change)).state is not CONFIRMED


def _dropped(document: Any) -> None:
    del document["protocol"]["noise"][0]


def _fewer_questions(document: Any) -> None:
    del document["schema"]["questions"][0]


def _question(place: int, **values: Any) -> Callable[[Any], None]:
    return lambda document: document["schema"]["questions"][place].update(values)


def _first_noise(**values: Any) -> Callable[[Any], None]:
    return lambda document: document["protocol"]["noise"][0].update(values)


def _again(document: Any) -> None:
    """Repeat the last cross-table with its questions in another order."""
    table = document["schema"]["questions"][5]
    document["schema"]["questions"].append({**table, "name": "again", "names": table["names"][::-1]})
    document["protocol"]["noise"].append(document["protocol"]["noise"][-1])


REFUSED: list[tuple[str, str, Callable[[Any], Any], str]] = [
    ("dropped noise", "mixed", _dropped, "one for each attribute"),
    ("dropped question", "mixed", _fewer_questions, "one for each attribute"),
    ("other layout", "whole", _question(2, levels=[16, 4, 1]), "one for each attribute"),
    ("fewer digits", "whole", _question(4, digits=[4]), "one for each attribute"),
    ("underived question", "whole", lambda one: one["schema"].update(derived=[]), "one for each attribute"),
    ("unordered levels", "whole", _question(2, levels=[1, 8]), "levels"),
    ("levels wider than all buckets", "whole", _question(2, levels=[64, 1]), "levels"),
    ("no levels in a list", "whole", _question(2, levels=8), "levels"),
    ("edges of equal buckets", "whole", _question(2, edges=[0, 1, 2], low=0, high=0, buckets=0), "left out"),
    ("edges that fall", "whole", _question(3, edges=[1, 3, 2]), "ascend"),
    ("edges that are no list", "whole", _question(3, edges=7), "edges"),
    ("edges of text", "whole", _question(3, edges=["1", 2, 3]), "bound"),
    ("narrow buckets", "whole", _question(2, low=1e15, high=1e15 + 1), "rounding"),
    ("no range", "whole", _question(4, low=65_536), "range"),
    ("radix 1", "whole", _question(4, digits=[1, 4]), "digits"),
    ("too many levels", "whole", _question(4, digits=[1024] * 5), "digits"),
    ("long unit", "whole", _question(4, unit="m" * 21), "unit"),
    ("equal labels", "whole", _question(0, labels=["red", "red"]), "labels"),
    ("labels of numbers", "whole", _question(0, labels=[1, 2]), "labels"),
    ("unknown kind", "whole", _question(0, kind="essay"), "kind"),
    ("empty name", "whole", _question(0, name=" "), "name"),
    ("equal names", "whole", _question(2, name="colour"), "distinct names"),
    ("cross-table of a number", "whole", _question(5, names=["colour", "memory"]), "derived|cross-table"),
    ("cross-table of one question", "whole", _question(5, names=["colour"]), "cross-table"),
    ("cross-table twice", "whole", _again, "same questions"),
    ("derived from nothing", "whole", lambda one: one["schema"].update(derived=["colour", "memory"]), "derived"),
    ("derived twice", "whole", lambda one: one["schema"].update(derived=["colour", "colour"]), "derived"),
    ("derived by number", "whole", lambda one: one["schema"].update(derived=[1]), "derived"),
    ("no questions", "whole", lambda one: one["schema"].update(questions=[]), "questions"),
    ("copies of one attribute", "one flag", lambda one: one["protocol"].update(k=2), "sent once"),
    ("records of one attribute", "one flag", lambda one: one["protocol"].update(release="records"), "sent once"),
    ("fixed fakes of one attribute", "one flag", _first_noise(flip=0, m=50), "random number"),
    ("flips among fakes of one attribute", "one flag", _first_noise(m=MIXED_FAKES), "random number"),
    ("flips among fixed fakes of one attribute", "one flag", _first_noise(m=50), "random number"),
    ("copies", "flips", lambda one: one["protocol"].update(k=2), "'k'|sent once"),
    ("records", "flips", lambda one: one["protocol"].update(release="records"), "sent once"),
    ("fixed fakes", "mixed", lambda one: one["protocol"]["noise"][0].update(m=50), "random number"),
    ("flips among fakes", "mixed", lambda one: one["protocol"]["noise"][0].update(flip=2**40), "random number"),
    ("category in the clear", "mixed", lambda one: one["protocol"].update(release="category"), "category"),
    ("no noise", "mixed", lambda one: one["protocol"]["noise"][0].update(m=0), "clear records"),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "change", "reason"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_both_readers_refuse(plan: str, change: Callable[[Any], Any], reason: str) -> None:
    text = forged(PLANS[plan], change)
    with pytest.raises(hb.WireError):
        hb.Plan.from_json(text)
    with pytest.raises(WireError, match=reason):
        verify(text)


def test_attributes_are_those_of_the_library() -> None:
    assert sizes(json.loads(WHOLE.to_json())["schema"]) == [one.size for one in EVERYTHING.attributes]
    assert sizes(hb.Schema.survey({"memory": hb.Number(0, 1)}).to_document()) == [4, 4, 4, 4]


def test_an_attack_is_not_claimed_where_no_two_records_differ_everywhere() -> None:
    """A number and its square depend on each other, so that the composition over both may exceed the truth."""
    assert verify(scaled(WHOLE, 0.9)).state is NOT_CONFIRMED
    assert verify(scaled(make(NAMED["Gaussian"]), 0.9)).state is FALSE


# Enumeration of tiny surveys.

THIN = read.Fakes("binomial", Fraction(3, 10), 2)
TINY = [
    ("users' fakes", [(2, read.Noise(Fraction(0), THIN)), (3, read.Noise(Fraction(0), THIN))], "bits", 2),
    ("users' fakes, alone", [(3, read.Noise(Fraction(0), THIN))] * 2, "bits", 1),
    ("flips", [(2, read.Noise(Fraction(1, 5), 0)), (2, read.Noise(Fraction(1, 10), 0))], "bits", 2),
    ("equal flips", [(2, read.Noise(Fraction(1, 5), 0))] * 2, "bits", 2),
    ("responses", [(2, read.Noise(Fraction(1, 5), 0))] * 3, "category", 3),
    ("flips and fakes", [(2, read.Noise(Fraction(1, 5), 0)), (2, read.Noise(Fraction(0), THIN))], "bits", 2),
]


def _messages(noise: read.Noise, size: int, category: int, release: str) -> Histogram:
    """The histogram of one user's messages for one attribute."""
    own = tuple(int(i == category) for i in range(size))
    q = noise.flip
    if release == "category":
        cells = {c: 1 - (size - 1) * q if c == category else q for c in range(size)}
        return {tuple(int(i == c) for i in range(size)): p for c, p in cells.items()}
    if q:
        found: Histogram = {}
        for flips in itertools.product((0, 1), repeat=size):
            sent = tuple(a ^ b for a, b in zip(own, flips, strict=True))
            found[sent] = q ** sum(flips) * (1 - q) ** (size - sum(flips))
        return found
    assert isinstance(noise.fakes, read.Fakes)
    one = {tuple(int(i == c) for i in range(size)): Fraction(1, size) for c in range(size)}
    trials, p = noise.fakes.shift, noise.fakes.scale
    return mixture(
        (math.comb(trials, m) * p**m * (1 - p) ** (trials - m), convolve([{own: Fraction(1)}] + [one] * m))
        for m in range(trials + 1)
    )


def _truth(attributes: list[tuple[int, read.Noise]], release: str, n: int, x: Fraction) -> Fraction:
    """The largest Σ (P − xQ)⁺ over all collections, all pairs of tuples, and both orders."""
    tuples = list(itertools.product(*(range(size) for size, _ in attributes)))
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(tuples, n - 1):
        counts = {}
        for own in tuples:
            joint: Histogram = {(): Fraction(1)}
            for j, (size, noise) in enumerate(attributes):
                part = convolve([_messages(noise, size, one[j], release) for one in (own, *others)])
                joint = {a + b: p * q for (a, p), (b, q) in itertools.product(joint.items(), part.items())}
            counts[own] = joint
        worst = max([worst, *(hockey_stick(counts[a], counts[b], x) for a, b in itertools.permutations(tuples, 2))])
    return worst


@pytest.mark.parametrize("epsilon", ["1/5", pytest.param("3/2", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("attributes", "release", "n"), [one[1:] for one in TINY], ids=[one[0] for one in TINY])
def test_bounds_enclose_the_truth(attributes: list[tuple[int, read.Noise]], release: str, n: int, epsilon: str) -> None:
    _, high = exp_bounds(Fraction(epsilon), 160)
    exact = _truth(attributes, release, n, Fraction(high, 1 << 160))
    answers = tuple(
        read.Answers(size, noise, attributes.count((size, noise))) for size, noise in dict.fromkeys(attributes)
    )
    base = claim("survey", sum(size for size, _ in attributes), len(attributes), n, "0", release=release)
    survey = replace(base, answers=answers, flip=min(noise.flip for _, noise in attributes), epsilon=Fraction(epsilon))
    for delta in (exact * 1001 / 1000, exact / 10**9):
        bounds = [bound for theorem in theorems(replace(survey, delta=delta)) for bound in theorem()]
        assert bounds
        for bound in bounds:
            assert bound.upper >= exact, bound
            assert bound.lower <= exact, bound
        if not any(noise.flip for _, noise in attributes):
            assert min(bound.upper for bound in bounds) <= exact * Fraction(1001, 1000)


@given(st.fractions(1, 10**9, max_denominator=10**9))
def test_logarithms_are_enclosed(x: Fraction) -> None:
    low, high = log_bounds(x, 90)
    assert exp_bounds(Fraction(low, 2**90), 80)[0] <= x * 2**80 <= exp_bounds(Fraction(high, 2**90), 80)[1]
    assert high - low <= 64


def test_pure_losses_of_attributes_add_up() -> None:
    odds = [(Fraction(3), 2), (Fraction(7, 2), 1)]  # ln(31.5) = 3.44998…
    assert exceeds_pure(Fraction("3.4500"), odds)
    assert not exceeds_pure(Fraction("3.4499"), odds)
    assert exceeds_pure(Fraction(0), [(Fraction(1), 5)])


def survey(users: int, fakes: read.Fakes, size: int) -> _Survey:
    """Return the task of a survey of one attribute."""
    one = read.Answers(size, read.Noise(Fraction(0), fakes), 1)
    return _Survey(replace(claim("one_hot", size, 1, users, "0", delta="1/1000"), answers=(one,)), Fraction(1, 2))


def covered(loss: Loss, points: list[Fraction], x: Fraction) -> Fraction:
    """Return μ[x] of a cover on these points."""
    terms = (Fraction(mass) * max(Fraction(0), 1 - x / at) for at, mass in zip(points, loss.masses, strict=True))
    return (sum(terms, Fraction(0)) + loss.infinite) / (1 << loss.bits)


@pytest.mark.parametrize("slacks", [(2**-3, 0.0), (0.0, 2**-3), (2**-5, 2**-5), (2**-9, 2**-7)])
def test_numbers_of_fakes_that_err_by_their_slack_are_covered(
    slacks: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = survey(9, read.Fakes("binomial", Fraction(1), 1), 4)

    def sent(*_: object) -> Masses:
        return crude(chances(9, Fraction(1, 2)), int(slacks[0] * 2**task.bits), task.bits)

    def halves(n: int, chance: Fraction, bits: int) -> Masses:
        return crude(chances(n, chance), int(slacks[1] * 2**bits), bits)

    monkeypatch.setattr(surveys, "fakes_sent", sent)
    monkeypatch.setattr(surveys, "binomial", halves)
    grid = _Grid.create(Fraction(1, 2), Fraction(5), task.bits)
    loss = task._users_fakes(grid, read.Fakes("binomial", Fraction(1), 1), 4)
    ratio = Fraction(grid.ratio, 1 << task.bits)
    points = [ratio ** (loss.first + i) for i in range(len(loss.masses))]
    for x in (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(5), Fraction(50)):
        exact = Fraction(0)
        for n, weight in enumerate(chances(9, Fraction(1, 2))):
            fair = [*chances(n, Fraction(1, 2)), Fraction(0)]
            exact += weight * sum(max(Fraction(0), fair[a - 1] - x * fair[a]) for a in range(1, n + 2))
        assert exact <= covered(loss, points, x) * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("bits", [10, 14, 20])
def test_points_of_a_lattice_are_rounded_up(bits: int) -> None:
    task = survey(9, read.Fakes("laplace", Fraction(7, 3), 5), 4)
    task.bits, task.negligible = bits, 0
    grid = _Grid.create(Fraction(1, 5), Fraction(12), bits)
    ratio = Fraction(grid.ratio, 1 << bits)
    for first in (-20, 0, 1):
        for place in range(0, 20, 3):
            u = Fraction(3, 7)
            lattice = Loss(first, [0] * place + [1 << bits], 0, bits)
            loss = task._from_lattice(grid, lattice, u)
            points = [ratio ** (loss.first + i) for i in range(len(loss.masses))]
            for x in (Fraction(1, 100), Fraction(1), Fraction(7)):
                at = Fraction(exp_bounds(u * (first + place), 200)[0], 1 << 200)
                assert max(Fraction(0), 1 - x / at) <= covered(loss, points, x)
