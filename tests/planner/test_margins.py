"""Margins of plans: the share of all collections in which a count is that precise, by tables of probabilities that are
computed here, and by collections."""

import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, poisson

import hubbub as hb
from hubbub import Fakes, Plan, Protocol, Schema
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import Infeasible, InvalidInput
from hubbub.lab.simulation import tallies_by_counts
from hubbub.mechanisms.errors import question_errors
from hubbub.model.privacy import Budget, TrustModel
from hubbub.model.protocol import Noise
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.planner import Constraints, Request, central_margin, inverse, margin, plan_from, question_margins
from hubbub.planner.inverse import Target, least_epsilon
from hubbub.planner.margins import laplace_factor
from hubbub.planner.remarks import weaknesses

Array = NDArray[np.float64]
TIE = 1e-9  # the last digits of an estimate
FAKES = "clear-shuffler-fakes"
EPSILONS = (0.3, 1.0, 2.0, 4.6, 6.0, 9.0)


def shuffler_coverage(plan: Plan, half: float) -> float:
    """Return the probability that a number that the shuffler draws is within a distance of its mean."""
    drawn = plan.protocol.shuffler_fakes
    assert drawn is not None
    number = np.arange(drawn.shift + math.ceil(60 * drawn.scale) + 2)
    away = np.abs(number - drawn.shift) / drawn.scale
    weights = np.exp(-away if drawn.distribution == "laplace" else -away * away / 2)
    pmf = weights / weights.sum()
    return float(pmf[np.abs(number - number @ pmf) <= half + TIE].sum())


def trials(count: int, chance: float) -> Array:
    return np.asarray(binom.pmf(np.arange(count + 1), count, chance))


def flip_coverage(plan: Plan, half: float, crowds: Iterable[int]) -> float:
    """Return the smallest probability, over numbers of people with a label, that its count is within a distance."""
    q, k, n, fixed = plan.protocol.q, plan.protocol.k, plan.n, plan.protocol.fixed_fakes
    one_of = plan.protocol.sends_category
    p, gain = (1 - (plan.schema.width - 1) * q, 1 - plan.schema.width * q) if one_of else (1 - q, k * (1 - 2 * q))
    shows = q + (1 - 2 * q) * plan.schema.density
    worst = 1.0
    for held in crowds:
        pmf = np.convolve(trials(k * held, p), trials(k * (n - held), q))
        pmf, mean = np.convolve(pmf, trials(fixed, shows)), k * (held * p + (n - held) * q) + fixed * shows
        worst = min(worst, float(pmf[np.abs(np.arange(pmf.size) - mean) / gain <= half + TIE].sum()))
    return worst


def total_errors(plan: Plan, held: int) -> tuple[Array, Array]:
    """Return the errors of the count of a label that ``held`` people have, if all counts add up to n, and their odds.

    d·k(1 − 2q) times the error is (d − 1)·S − R and a constant, for S messages with the label and R with others. Its
    characteristic function is a product over people and fakes, and its mean that of every record.
    """
    schema, protocol, n = plan.schema, plan.protocol, plan.n
    d, q, k, users, drawn = schema.width, protocol.q, protocol.k, protocol.user_fakes, protocol.shuffler_fakes
    deviation = d * k * (1 - 2 * q) * plan.stderr
    size = 2 ** math.ceil(math.log2(40 * deviation + 64 * d))
    theta = 2 * np.pi * np.fft.fftfreq(size)
    z = np.exp(1j * theta)

    def records(q: float) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return a flipped record with the label, and one with another label."""
        rest = 1 - q + q / z
        return (q + (1 - q) * z ** (d - 1)) * rest ** (d - 1), (1 - q + q * z ** (d - 1)) * (
            q + (1 - q) / z
        ) * rest ** (d - 2)

    own, other = records(q)
    total = own ** (k * held) * other ** (k * (n - held))
    mean = k * (1 - 2 * q) * (d * held - n)  # those without the label have another
    if drawn is not None:
        own, other = records(q if protocol.sends_records else 0.0)
        total = total * np.polyval(drawn.pmf[::-1], own) * np.polyval(drawn.pmf[::-1], other) ** (d - 1)
    else:
        fake = own / d + other * (1 - 1 / d)
        if users is None:
            total = total * fake**protocol.fixed_fakes
        elif users.distribution == "binomial":
            total = total * (1 + users.scale * (fake - 1)) ** (n * users.shift)
        else:
            total = total * np.exp(n * users.scale * (fake - 1))
    pmf = np.fft.fftshift(np.fft.fft(total * np.exp(-1j * theta * round(mean))).real) / size
    assert pmf.sum() == pytest.approx(1)
    return (np.arange(size) - size // 2 + round(mean) - mean) / (d * k * (1 - 2 * q)), pmf


def total_coverage(plan: Plan, half: float, crowds: Iterable[int]) -> float:
    """Return the smallest probability, over numbers of people with a label, that one of a known total is so near."""
    worst = 1.0
    for held in crowds:
        errors, pmf = total_errors(plan, held)
        worst = min(worst, float(pmf[np.abs(errors) <= half + TIE].sum()))
    return worst


def users_coverage(plan: Plan, half: float) -> float:
    """Return the probability that the fakes of users move a count of clear records no farther; their number is seen."""
    users = plan.protocol.user_fakes
    assert users is not None
    found = 0.0
    for total in range(plan.n * users.shift + 1):
        weight = float(binom.pmf(total, plan.n * users.shift, users.scale))
        if weight > 1e-9:
            number = np.arange(total + 1)
            inside = np.abs(number - total * plan.schema.density) <= half + TIE
            found += weight * float(trials(total, plan.schema.density)[inside].sum())
    return found


@pytest.mark.parametrize("n", [10, 100_000])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_shufflers_fakes_are_exact(epsilon: float, n: int) -> None:
    """At least 95 of 100 counts are within the margin, and fewer within any smaller one."""
    for schema, family in ((Schema.one_hot(12), FAKES), (Schema.bits(3), FAKES), (Schema.strings(16), "strings")):
        for rounds in (1, 40):  # Laplace, and Gaussian
            asked = Budget(epsilon, 1e-6)
            own = hb.plan(schema, n, asked, trust="shuffler-noise", rounds=rounds, family=family)
            half = margin(own)
            if schema.exclusive:
                assert total_coverage(own, half, [n // 3]) >= 0.95
                less = 1e-6 if own.stderr < 50 else 1  # the mean of the others of much noise is close to normal
                assert half == 0 or total_coverage(own, half - less, [n // 3]) < 0.95
                continue
            assert shuffler_coverage(own, half) >= 0.95
            assert half == 0 or shuffler_coverage(own, half - 1e-6) < 0.95


def test_standard_errors_are_no_margins() -> None:
    """1.96 standard errors, of Laplace noise, cover too little, and of whole numbers far too little."""
    shares = []
    for epsilon in (0.3, 1.0, 2.0, 4.6, 6.0):
        own = hb.plan(Schema.at_most(1, 12), 100_000, epsilon=epsilon, delta=1e-6, trust="shuffler-noise")
        shares.append(shuffler_coverage(own, 1.96 * own.stderr))
    assert [round(share, 3) for share in shares] == [0.938, 0.938, 0.927, 0.818, 0.905]


@pytest.mark.parametrize("q", [1e-4, 0.003, 0.03, 0.1, 0.25, 0.4, 0.499])
@pytest.mark.parametrize("n", [10, 60])
def test_flips_of_few_people_are_exact(n: int, q: float) -> None:
    some = [
        plan_from(Schema.bits(1), n, Protocol(q), epsilon=1.0),
        plan_from(Schema.bits(2), n, Protocol(q, 3), epsilon=1.0),
        plan_from(Schema.bits(2), n, Protocol(q, m=7), epsilon=1.0),
        *(
            plan_from(Schema.one_hot(d), n, Protocol(q, release="category"), epsilon=1.0)
            for d in (2, 3, 7)
            if q * d < 0.99
        ),
    ]
    for own in some:
        half = margin(own)
        assert flip_coverage(own, half, range(n + 1)) >= 0.95
        assert flip_coverage(own, half - 1e-6, range(n + 1)) < 0.95


@pytest.mark.parametrize("q", [1e-4, 0.003, 0.01, 0.03, 0.1, 0.25, 0.4, 0.499])
@pytest.mark.parametrize("n", [10, 60])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_flips_of_few_people_of_a_known_total_are_exact(d: int, n: int, q: float) -> None:
    """Of the distribution for labels that nobody has, 8 labels of 10 people once had 87 of 100 within the margin."""
    for protocol in (Protocol(q), Protocol(q, 3), Protocol(q, m=7), Protocol(q, m=Fakes.poisson(0.3), release="bits")):
        own = plan_from(Schema.one_hot(d), n, protocol, epsilon=1.0)
        half, found = margin(own), [total_errors(own, held) for held in range(0, n + 1, n // 10)]
        for errors, pmf in found:
            assert math.sqrt(pmf @ errors**2) == pytest.approx(own.stderr)
            assert abs(pmf @ errors) < 1e-6 * own.stderr
        assert min(pmf[np.abs(errors) <= half + TIE].sum() for errors, pmf in found) >= 0.95
        if own.stderr * own.protocol.k * (1 - 2 * q) < 8:
            assert total_coverage(own, half - 1e-6, range(n + 1)) < 0.95


@pytest.mark.parametrize("n", [150, 700])
@pytest.mark.parametrize(("d", "q"), [(2, 0.002), (2, 0.3), (3, 0.01), (3, 0.4), (8, 0.003), (8, 0.2), (40, 0.02)])
def test_flips_of_more_people_of_a_known_total(d: int, q: float, n: int) -> None:
    own = plan_from(Schema.one_hot(d), n, Protocol(q), epsilon=1.0)
    crowds = np.unique(np.r_[np.random.default_rng(n).integers(0, n + 1, 20), 0, 1, n - 1, n]).tolist()
    for level in (0.5, 0.95, 0.99):
        assert total_coverage(own, margin(own, level), crowds) >= level - 1e-4
    assert margin(own) <= 1.96 * own.stderr + 1.5 / (1 - 2 * q), "hardly more than the normal distribution"


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(0, m=Fakes.gaussian(0.6, 4), release="bits"),
        Protocol(0, m=Fakes.laplace(0.435, 9)),
        Protocol(0, m=Fakes.poisson(10.0), release="bits"),
        Protocol(0.01),
        Protocol(0.01, m=200),
        Protocol(0.002, m=Fakes.laplace(0.4, 6)),
    ],
    ids=str,
)
def test_many_labels_of_a_known_total(protocol: Protocol) -> None:
    """The mean of many other labels is close to normal: margins are at most a message larger than exact ones."""
    own = plan_from(Schema.one_hot(300), 20, protocol, epsilon=1.0)
    for level in (0.5, 0.95, 0.99):
        half = margin(own, level)
        assert total_coverage(own, half, range(0, 21, 5)) >= level
        assert half < 1 or total_coverage(own, half - 1, range(0, 21, 5)) < level


@pytest.mark.parametrize("messages", [0.2, 1.0, 4.0, 30.0, 140.0, 150.0, 300.0])
@pytest.mark.parametrize("n", [150, 700])
def test_flips_of_more_people(n: int, messages: float) -> None:
    """Some numbers of people with a label are tried, and from 12 messages on the normal distribution serves."""
    rng = np.random.default_rng(round(messages * n))
    crowds = np.unique(np.r_[rng.integers(0, n + 1, 40), 0, 1, n - 1, n]).tolist()
    q = (1 - math.sqrt(max(0.0, 1 - 4 * min(messages / n, 0.249)))) / 2
    for own in (
        plan_from(Schema.bits(1), n, Protocol(q), epsilon=1.0),
        plan_from(Schema.one_hot(3), n, Protocol(q / 2, release="category"), epsilon=1.0),
    ):
        half = margin(own)
        assert flip_coverage(own, half, crowds) >= 0.9499
        gain = 1 - (own.schema.width if own.protocol.sends_category else 2) * own.protocol.q
        assert half <= 1.96 * own.stderr + 1.5 / gain, "hardly more than the normal distribution and half a message"


@pytest.mark.parametrize(("n", "mean"), [(10, 4.0), (10, 40.0), (200, 0.2), (200, 0.9), (200, 30.0)])
@pytest.mark.parametrize("schema", [Schema.one_hot(5), Schema.bits(1)], ids=str)
def test_users_fakes(schema: Schema, n: int, mean: float) -> None:
    shift = math.ceil(2 * mean)
    own = plan_from(schema, n, Protocol(0.0, m=Fakes.binomial(shift, mean / shift)), epsilon=1.0)
    half = margin(own)
    assert users_coverage(own, half) >= 0.9499
    assert users_coverage(own, half - 0.51) < 0.95


def counted(plan: Plan, values: list[object], truth: Array, runs: int) -> float:
    """Return the share of all counts of simulated collections that are within the margin."""
    people, half = hb.Collection.from_values(values, plan.schema), margin(plan)
    hits = 0.0
    for seed in range(runs):
        entropy = SeededStreamNotForPeople(seed)
        found = hb.estimate(
            hb.tally(hb.shuffle(hb.randomize(people, plan, entropy=entropy), entropy=entropy)), plan
        ).question
        hits += float((np.abs(found.unbiased - truth) <= half + TIE).mean()) / runs
    return hits


SIMULATED: dict[str, tuple[Schema, Callable[[], Protocol]]] = {
    "laplace": (Schema.one_hot(40), lambda: Protocol(0, m=Fakes.laplace(2.0, 35))),
    "small laplace": (Schema.one_hot(40), lambda: Protocol(0, m=Fakes.laplace(0.435, 9))),
    "gaussian": (Schema.bits(40), lambda: Protocol(0, m=Fakes.gaussian(3.0, 30), release="bits")),
    "laplace and flips": (Schema.bits(3), lambda: Protocol(0.1, m=Fakes.laplace(3.0, 40))),
    "flips": (Schema.bits(40), lambda: Protocol(0.2)),
    "copies": (Schema.bits(40), lambda: Protocol(0.3, 4)),
    "split": (Schema.bits(40), lambda: Protocol(0.05, release="bits")),
    "response": (Schema.one_hot(40), lambda: Protocol(0.02, release="category")),
    "fixed fakes": (Schema.one_hot(40), lambda: Protocol(0.0, m=400)),
    "users' fakes": (Schema.one_hot(40), lambda: Protocol(0.0, m=Fakes.binomial(80, 0.5))),
    "users' fakes as bits": (Schema.one_hot(40), lambda: Protocol(0.0, m=Fakes.poisson(40.0), release="bits")),
    "users' fakes and flips": (Schema.one_hot(40), lambda: Protocol(0.05, m=Fakes.binomial(80, 0.5))),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SIMULATED)
def test_collections_are_as_precise_as_their_plans_say(name: str) -> None:
    """Five standard errors of the 12,000 counts are 1 %; those of one collection may depend on each other."""
    schema, protocol = SIMULATED[name]
    own = plan_from(schema, 10, protocol(), epsilon=1.0)
    first, width = schema.labels[0], schema.width
    values: list[object] = [first if schema.exclusive else [first]] * 10
    truth = np.zeros(width)
    truth[0] = 10
    assert counted(own, values, truth, math.ceil(12_000 / width)) > 0.94


def test_strings_that_are_shown() -> None:
    """Given that a text is shown, its count is within the margin, if it is shown in half of all cases or more."""
    for epsilon in EPSILONS:
        own = hb.plan(Schema.strings(16), 10**6, epsilon=epsilon, delta=1e-8, trust="shuffler-noise")
        half, drawn = margin(own), own.protocol.shuffler_fakes
        assert drawn is not None
        pmf = drawn.pmf
        number = np.arange(pmf.size)
        for count in range(hb.count_shown(own), drawn.shift + 40):
            given = pmf[number < count]
            near = np.abs(number[number < count] - drawn.mean) <= half + TIE
            assert given[near].sum() >= 0.95 * given.sum()


def test_wide_laplace() -> None:
    """Tables of the shuffler's fakes end at a scale of about 800; beyond it the distribution is nearly continuous."""
    for scale in (200, 1000, 4000):
        protocol = Protocol(0, m=Fakes.laplace(scale, 20 * scale))
        own = plan_from(Schema.at_most(1, 3), 10**6, protocol, epsilon=1.0)
        assert margin(own) == pytest.approx(math.log(20) * scale, rel=0.005)
        assert shuffler_coverage(own, margin(own)) >= 0.95
        known = plan_from(Schema.one_hot(3), 10**6, protocol, epsilon=1.0)
        draws = np.random.default_rng(scale).laplace(0, scale, (3, 200_000))
        inside = (np.abs(draws[0] - draws.mean(0)) <= margin(known)).mean()
        assert 0.948 <= inside < 0.96
    assert laplace_factor() * math.sqrt(2) == pytest.approx(math.log(20))


def test_a_trusted_server() -> None:
    for epsilon in EPSILONS:
        own = hb.plan(Schema.one_hot(3), 1000, epsilon=epsilon, delta=1e-9, trust="shuffler-noise", family=FAKES)
        assert central_margin(own.schema, Budget(epsilon, 1e-9)) == pytest.approx(margin(own), abs=1e-3)
    assert central_margin(Schema.bits(400), Budget(1.0, 1e-6)) == pytest.approx(1.96 * 84.47, rel=0.01)


def epsilon_for(schema: Schema, n: int, people: float, lowest: float = 0.0) -> float:
    """Return the ε that the studio offers for a margin."""
    request = Request.of(schema, n, Budget(0.0, 1e-6), trust="shuffler-noise")
    return least_epsilon(request, Target.of("margin", people), lowest)[0]


@pytest.mark.parametrize("people", [0.5, 3.0, 6.0, 20.0, 77.7])
def test_epsilon_for_a_margin(people: float) -> None:
    found = epsilon_for(Schema.one_hot(12), 100_000, people)
    assert found == float(f"{found:.3g}")
    own, less = (
        hb.plan(Schema.one_hot(12), 100_000, epsilon=epsilon, delta=1e-6, trust="shuffler-noise")
        for epsilon in (found, 0.98 * found)
    )
    assert margin(own) <= people + 1e-3 < margin(less)
    assert hb.solve(Schema.one_hot(12), 100_000, delta=1e-6, margin=people, trust="shuffler-noise") == own


def test_people_for_percentage_points() -> None:
    terms = Constraints(trust="shuffler-noise")
    own = hb.solve(Schema.one_hot(12), epsilon=1.0, delta=1e-6, points=0.005, **terms)
    assert margin(own) <= 0.005 * own.n
    fewer = hb.plan(Schema.one_hot(12), round(own.n / 1.02), epsilon=1.0, delta=1e-6, **terms)
    assert margin(fewer) > 0.005 * fewer.n
    same = hb.solve(Schema.one_hot(12), own.n, delta=1e-6, points=0.005, **terms)
    assert same.guarantee.epsilon <= 1.002
    assert margin(same) <= 0.005 * own.n


def test_no_epsilon_for_a_margin() -> None:
    with pytest.raises(Infeasible, match=r"within ±0\.001 people for .* at n = 2,000; at ε = 30 it is within ±"):
        hb.solve(Schema.bits(1), 2000, delta=1e-6, margin=1e-3, trust="nobody", rounds=100)


def test_an_epsilon_that_cannot_be_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Margins over several rounds jump: if no rounded ε near the one found will do, the result is that one."""

    def jumping(plan: Plan, level: float) -> float:
        epsilon = plan.guarantee.epsilon
        return 6 / epsilon if epsilon != float(f"{epsilon:.3g}") or epsilon in allowed else 100.0

    monkeypatch.setattr(inverse, "overall_margin", jumping)
    allowed: list[float] = []
    found = epsilon_for(Schema.bits(1), 1000, 7)
    assert found == pytest.approx(6 / 7, rel=0.003)
    assert found != float(f"{found:.3g}")
    allowed.append(math.ceil(1000 * found) / 1000)
    assert epsilon_for(Schema.bits(1), 1000, 7) == allowed[0]


def test_no_epsilon_below_the_lowest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []

    def noted(plan: Plan, level: float) -> float:
        tried.append(plan.guarantee.epsilon)
        return 10.0 if plan.guarantee.epsilon < 0.5 else 1.0

    monkeypatch.setattr(inverse, "overall_margin", noted)
    monkeypatch.setattr(inverse._Line, "expected", lambda self, value: math.inf)
    found = epsilon_for(Schema.bits(1), 1000, 5, lowest=0.6)
    assert 0.6 <= found < 0.61
    assert min(tried) > 0.599


def test_other_levels() -> None:
    own = plan_from(Schema.at_most(1, 4), 1000, Protocol(0, m=Fakes.laplace(2.0, 35)), epsilon=1.0)
    halves = [round(margin(own, level), 6) for level in (0.5, 0.9, 0.95, 0.99, 0.999)]
    assert halves == [1, 5, 6, 9, 14]
    for level in (0.0, 1.0, "much"):
        with pytest.raises(InvalidInput, match="level"):
            margin(own, level)  # type: ignore[arg-type]


SURVEY: dict[str, Question] = {
    "colour": Choice(["red", "green", "blue", "white", "black"]),
    "dark": Flag(),
    "age": Scale(0, 16, buckets=16),
    "load": Number(0, 10),
}


def survey_coverage(plan: Plan, runs: int) -> dict[str, float]:
    """Return the share of the figures of each question that are within its margin."""
    rng, n = np.random.default_rng(5), plan.n
    rows = {
        "colour": rng.choice(["red", "green", "blue"], n).tolist(),
        "dark": (rng.random(n) < 0.3).tolist(),
        "age": (16 * rng.random(n) ** 2).tolist(),
        "load": (10 * rng.random(n)).tolist(),
    }
    asked = [name for name, _ in plan.schema.questions.asked]
    people = hb.Collection.from_values([{name: rows[name][place] for name in asked} for place in range(n)], plan.schema)
    below = np.array([np.sum(np.array(rows["age"]) < edge) for edge in range(1, 16)])
    half, hits = question_margins(plan), dict.fromkeys([*asked], 0.0)
    for seed in range(runs):
        entropy = SeededStreamNotForPeople(seed)
        tally = hb.tally(hb.shuffle(hb.randomize(people, plan, entropy=entropy), entropy=entropy))
        found = hb.estimate(tally, plan)
        for name in asked:
            result = found[name]
            if name == "age":
                errors = np.cumsum(result.values)[:-1] - below
            elif name == "load":
                errors = np.array([result.mean.value - np.mean(rows["load"])])
            else:
                truth = {str(label).lower(): 0 for label in result.labels}
                for value in rows[name]:
                    truth[{True: "yes", False: "no"}.get(value, value)] += 1
                errors = result.values - np.array(list(truth.values()))
            hits[name] += float((np.abs(errors) <= half[name] + TIE).mean()) / runs
    return hits


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("trust", ["nobody", "shuffling", "shuffler-noise"])
@pytest.mark.parametrize("names", [["colour", "dark"], ["age"], ["load"]], ids=["counts", "scale", "number"])
def test_surveys(names: list[str], trust: TrustModel, epsilon: float) -> None:
    """Of 600 collections of 10 people each, 95 of 100 figures are within the margin; 2.3 % are 2.6 standard errors."""
    schema = Schema.survey({name: SURVEY[name] for name in names})
    own = hb.plan(schema, 10, epsilon=epsilon, delta=1e-6, trust=trust)
    for share in survey_coverage(own, 600).values():
        assert share > 0.927


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_flags_of_a_survey_are_exact(epsilon: float) -> None:
    """The error is half the difference of two draws."""
    own = hb.plan(Schema.survey({"a": Flag()}), 1000, epsilon=epsilon, delta=1e-6, trust="shuffler-noise")
    drawn = own.protocol.noise[0].shuffler_fakes
    assert drawn is not None
    both = np.convolve(drawn.pmf, drawn.pmf[::-1])
    error = np.abs(np.arange(both.size) - (drawn.pmf.size - 1)) / 2
    half = question_margins(own)["a"]
    assert both[error <= half + TIE].sum() >= 0.95
    assert half == 0 or both[error <= half - 1e-6].sum() < 0.95


def test_margins_of_combined_tables_are_those_of_laplace_noise() -> None:
    tables: dict[str, Question] = {"a": Flag(), "b": Choice(["x", "y", "z"]), "both": Cross("a", "b")}
    noise = [Noise(m=Fakes.laplace(6.0, 90))] * 3
    own = plan_from(Schema.survey(tables), 1000, Protocol.survey(noise), epsilon=1.0)
    half = question_margins(own)
    assert {one.question: laplace_factor() * one.stderr + 0.5 for one in question_errors(own)} == pytest.approx(half)


def test_surveys_have_margins_of_their_own() -> None:
    own = plan_from(Schema.survey({"a": Flag()}), 1000, Protocol.survey([Noise(0.1)]), epsilon=1.0)
    with pytest.raises(InvalidInput, match="question_margins"):
        margin(own)
    plain = plan_from(Schema.bits(1), 1000, Protocol(0.1), epsilon=1.0)
    with pytest.raises(InvalidInput, match="survey"):
        question_margins(plain)


def drawn_coverage(plan: Plan, half: float, crowds: Iterable[int]) -> float:
    """Return the smallest probability that a count of flipped records among the shuffler's fakes is within a distance.

    Each of the schema's records has a number of fakes of its own; they are flipped like people.
    """
    drawn, q, n = plan.protocol.shuffler_fakes, plan.protocol.q, plan.n
    assert drawn is not None
    with_bit = plan.schema.records_with_bit
    fakes, mean = np.ones(1), 0.0
    for records, chance in ((with_bit, 1 - q), (plan.schema.size - with_bit, q)):
        one = np.zeros(drawn.pmf.size)
        for number, weight in enumerate(drawn.pmf):
            one[: number + 1] += weight * trials(number, chance)
        for _ in range(records):
            fakes = np.convolve(fakes, one)
        mean += records * chance * float(np.arange(drawn.pmf.size) @ drawn.pmf)
    worst = 1.0
    for held in crowds:
        pmf = np.convolve(np.convolve(trials(held, 1 - q), trials(n - held, q)), fakes)
        centre = mean + held * (1 - q) + (n - held) * q
        worst = min(worst, float(pmf[np.abs(np.arange(pmf.size) - centre) / (1 - 2 * q) <= half + TIE].sum()))
    return worst


@pytest.mark.parametrize(
    ("schema", "n", "protocol"),
    [
        (Schema.one_hot(60), 30, Protocol(0.0003323801215948663, m=Fakes.gaussian(0.6426954481632224, 5))),
        (Schema.one_hot(8), 30, Protocol(0.002, m=Fakes.laplace(0.7, 12))),
        (Schema.bits(4), 20, Protocol(0.03, m=Fakes.laplace(0.4, 6))),
        (Schema.at_most(2, 5), 12, Protocol(0.01, m=Fakes.gaussian(0.5, 4))),
        (Schema.bits(8), 20, Protocol(1e-4, m=Fakes.laplace(0.1, 3))),
    ],
)
def test_fakes_that_are_flipped_into_a_label(schema: Schema, n: int, protocol: Protocol) -> None:
    """Their mean is no whole number, and they are not symmetric."""
    own = plan_from(schema, n, protocol, epsilon=1.0)
    covered = total_coverage if schema.exclusive else drawn_coverage
    for level in (0.5, 0.95, 0.99):
        half = margin(own, level)
        assert covered(own, half, range(n + 1)) >= level
        assert covered(own, half - 1e-6, range(n + 1)) < level


def test_flips_among_laplace_fakes_that_zero_cuts() -> None:
    """A large δ leaves the fakes so few that they are not symmetric: 94.7 of 100 counts were once within the margin."""
    protocol = Protocol(0.001, m=Fakes.laplace(25.0, 112))
    own = plan_from(Schema.at_most(1, 2), 10, protocol, epsilon=0.08)
    assert 0.95 <= drawn_coverage(own, margin(own), [5]) < 0.955
    known = plan_from(Schema.one_hot(3), 10, protocol, epsilon=0.08)
    assert 0.95 <= total_coverage(known, margin(known), [0, 5, 10]) < 0.955


def test_many_numbers_of_users_fakes_are_told_apart() -> None:
    own = plan_from(Schema.at_most(2, 4), 1, Protocol(0.0, m=Fakes.binomial(1000, 0.5)), epsilon=1.0)
    for level in (0.5, 0.95):
        assert users_coverage(own, margin(own, level)) >= level


def test_crowds_between_those_that_are_tried() -> None:
    own = plan_from(Schema.one_hot(6), 416, Protocol(0.000366197173, release="category"), epsilon=1.0)
    assert flip_coverage(own, margin(own), range(417)) >= 0.95


@pytest.mark.parametrize(("n", "q", "mean"), [(134, 0.023, 1e-5), (1000, 0.05, 1e-3)])
def test_a_random_number_of_fakes_with_few_values(n: int, q: float, mean: float) -> None:
    """Fakes of one bit move the mean by halves: nine numbers of people once stood for all, and the first had 91.9 %."""
    own = plan_from(Schema.bits(1), n, Protocol(q, m=Fakes.poisson(mean)), epsilon=1.0)
    half, numbers = margin(own), np.arange(60)
    weights = poisson.pmf(numbers, n * mean)
    for held in (78, *range(0, n + 1, n // 20)):
        flips = np.convolve(trials(held, 1 - q), trials(n - held, q))
        inside = 0.0
        for number in numbers[weights > 1e-7]:
            pmf = np.convolve(flips, trials(number, 0.5))
            centre = held * (1 - q) + (n - held) * q + number / 2
            near = np.abs(np.arange(pmf.size) - centre) / (1 - 2 * q) <= half + TIE
            inside += float(weights[number]) * float(pmf[near].sum())
        assert inside >= 0.95 - 1e-6


@pytest.mark.parametrize(("n", "q", "size"), [(100, 0.0006400677900893794, 2), (3, 0.01, 3), (60, 0.02, 5)])
def test_survey_counts_by_response_are_those_of_a_single_question(n: int, q: float, size: int) -> None:
    asked: dict[str, Question] = {"x": Choice([f"label {place}" for place in range(size)])}
    own = plan_from(Schema.survey(asked), n, Protocol.survey([Noise(q)], "category"), epsilon=1.0)
    alone = plan_from(Schema.one_hot(size), n, Protocol(q, release="category"), epsilon=1.0)
    for level in (0.5, 0.95, 0.99):
        assert question_margins(own, level)["x"] == margin(alone, level)


def test_sums_at_low_levels() -> None:
    """A sum of Laplace variables is flatter in the middle than one of them."""
    numbers = plan_from(
        Schema.survey({"a": Flag()}), 1000, Protocol.survey([Noise(m=Fakes.laplace(1000.0, 20_000))]), epsilon=1.0
    )
    draws = np.random.default_rng(3).laplace(0, 1000, (2, 200_000))
    errors = np.abs(draws[0] - draws[1]) / 2
    for level in (0.1, 0.5, 0.8, 0.95):
        assert (errors <= question_margins(numbers, level)["a"]).mean() >= level - 2e-3


@pytest.mark.parametrize("answer", [0.3, 5.0, 9.7])
def test_numbers_that_may_be_missing(answer: float) -> None:
    """The error of the number of answers counts most for a mean at the upper end, of which once 89 % were within."""
    schema = Schema.survey({"x": Number(0, 10, missing=True)})
    own = hb.plan(schema, 1000, epsilon=1.0, delta=1e-5, trust="shuffler-noise")
    counts = hb.Collection.from_values([{"x": answer}] * 1000, own.schema).counts()
    tallies = tallies_by_counts(counts, 1000, own, 800, entropy=SeededStreamNotForPeople(1))
    means = [hb.estimate(one, own)["x"].mean.value for one in tallies]
    assert np.mean(np.abs(np.array(means) - answer) <= question_margins(own)["x"]) >= 0.935  # 2 % are 2.6 deviations


def test_warnings_follow_margins() -> None:
    """8 people are half of 16: 1.96 standard errors are fewer."""
    own = plan_from(Schema.survey({"a": Flag()}), 16, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))]), epsilon=1.0)
    assert question_margins(own)["a"] == 8
    assert 1.96 * own.stderr < 8
    assert "as large as the crowd" in weaknesses(own)[0]
