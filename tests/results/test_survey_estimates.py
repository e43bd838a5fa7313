"""Estimates of surveys: golden values, no bias, the variance that was promised, and results that can be read back."""

import json
import math

import numpy as np
import pytest
from tests.results.simulated import NOISE, estimate, levels, plausible, rounded, survey_plan

import hubbub as hb
from hubbub.errors import Infeasible, InvalidInput, WireError
from hubbub.mechanisms.noise import count_noise, fake_noise
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.numeric.effects import Factorial
from hubbub.numeric.population import CountNoise, population_interval
from hubbub.numeric.tails import ErrorSums
from hubbub.numeric.trees import Tree
from hubbub.results.figures import BOTH
from hubbub.results.frames import to_csv

pytestmark = pytest.mark.pipeline
LAPLACE = hb.Noise(m=hb.Fakes.laplace(4.0, 50))
SURVEY: dict[str, Question] = {
    "colour": Choice(["red", "green", "blue"]),
    "dark mode": Flag(),
    "load time": Scale(0, 4096, buckets=64, levels=[8, 1], unit="ms"),
    "memory": Number(0, 65_536, digits=[4, 4], unit="MB", variance=True, missing=True),
    "colour × dark mode": Cross("colour", "dark mode"),
}


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def answered(n: int = 1000, *, seed: int = 1, derived: tuple[str, ...] = (), batches: int = 1) -> hb.Result:
    """Return the estimate of a whole survey of simulated people."""
    random = rng(seed)
    plan = survey_plan(SURVEY, [LAPLACE] * (10 - len(derived)), derived)
    pairs = random.multinomial(n, [0.3, 0.2, 0.2, 0.1, 0.15, 0.05]).reshape(3, 2)
    memory = random.gamma(4, 5000, n)
    memory[: n // 10] = math.nan
    own = {"colour": [pairs.sum(axis=1)], "dark mode": [pairs.sum(axis=0)], "colour × dark mode": [pairs.ravel()]}
    time, number = plan.schema.questions["load time"], plan.schema.questions["memory"]
    assert isinstance(time, Scale)
    assert isinstance(number, Number)
    buckets = np.bincount(np.clip(random.lognormal(2.5, 0.6, n), 0, 63).astype(int), minlength=64)
    own |= {"load time": levels(buckets, time), "memory": rounded(memory, number, random)}
    truth = [counts for name in SURVEY if name not in derived for counts in own[name]]
    return estimate(plan, truth, random, batches)


def one(question: Question, noise: hb.Noise, truth: list[np.ndarray], seed: int = 1) -> hb.Result:
    return estimate(survey_plan({"x": question}, [noise] * len(truth)), truth, rng(seed))


# ---- golden values ----


def test_prefixes_of_a_tree_have_the_golden_deviations() -> None:
    question = Scale(0, 256, buckets=256, levels=[16, 1])
    found = one(question, LAPLACE, levels(np.full(256, 40), question))["x"]
    assert isinstance(found, hb.ScaleView)
    deviations = found.cdf()[2] * found.n
    golden = {8: 11.590394, 16: 5.299475, 100: 14.281569, 128: 10.946549}
    for right, sigma in golden.items():
        assert deviations[right - 1] == pytest.approx(sigma, abs=2e-6)
    assert math.sqrt(float((deviations**2).mean())) == pytest.approx(12.652324, abs=2e-6)
    assert float(deviations.max()) == pytest.approx(15.465633, abs=2e-6)


def test_the_sum_of_four_digits_has_the_golden_deviation() -> None:
    question = Number(0, 1, digits=[4, 4, 4, 4])
    noise = [hb.Noise(m=hb.Fakes.laplace(b, math.ceil(13 * b))) for b in (3.25, 8.2, 20.5, 52.0)[::-1]]
    found = estimate(survey_plan({"x": question}, noise), rounded(np.zeros(10), question, rng()), rng())["x"]
    assert isinstance(found, hb.NumberView)
    rounding = 10 / 4 / 255**2
    assert math.sqrt(found.sum.stderr**2 - rounding) == pytest.approx(3.270148, rel=1e-4)


def test_shares_of_the_population_have_the_golden_intervals() -> None:
    normal = CountNoise(variance=2.799178**2, gain=1e9)
    low, high = population_interval(np.array([1000.0]), 100_000, normal, 0.05)
    assert (low[0], high[0]) == pytest.approx((0.009399424396177152, 0.01063822045415423), rel=1e-7)
    schema, protocol = hb.Schema.one_hot(5), hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25))
    exact = count_noise(schema, protocol, 100_000, fake_noise(schema, protocol, 100_000, 0))
    low, high = population_interval(np.array([1000.0]), 100_000, exact, 0.05)
    assert (low[0], high[0]) == pytest.approx((0.009390152687929375, 0.010638584693922617), rel=1e-3)


@pytest.mark.parametrize(
    ("buckets", "widths", "people"),
    [(256, (16, 1), 1.94), (4096, (256, 16, 1), 2.88), (256, (64, 16, 4, 1), 3.31)],
)
def test_the_influence_of_a_malicious_client_is_bounded(buckets: int, widths: tuple[int, ...], people: float) -> None:
    tree = Tree(buckets, widths, (1.0,) * len(widths))
    assert tree.prefix_weights(np.arange(1, buckets)).influence().max() == pytest.approx(people, abs=0.005)


def test_a_malicious_client_moves_results_by_the_stated_bounds() -> None:
    question = Scale(0, 16, buckets=16, levels=[4, 1])
    blocks, leaves = np.full(4, 40), np.full(16, 10)
    found = one(question, LAPLACE, [blocks, leaves], seed=5)["x"]
    assert isinstance(found, hb.ScaleView)
    worst = 0.0
    for block in range(4):
        for leaf in range(16):
            sent = [blocks + np.eye(4, dtype=int)[block] - np.eye(4, dtype=int)[3]]
            sent.append(leaves + np.eye(16, dtype=int)[leaf] - np.eye(16, dtype=int)[15])
            other = one(question, LAPLACE, sent, seed=5)["x"]
            assert isinstance(other, hb.ScaleView)
            worst = max(worst, float(np.abs(np.cumsum(other.values) - np.cumsum(found.values))[:-1].max()))
    assert 1.0 < worst <= found.influence + 1e-9
    number = Number(10, 20, digits=[4, 4])
    low, high = (one(number, LAPLACE, rounded(np.full(50, x), number, rng()), seed=6)["x"] for x in (10.0, 10.0))
    assert isinstance(low, hb.NumberView)
    assert isinstance(high, hb.NumberView)
    moved = [counts.copy() for counts in rounded(np.full(50, 10.0), number, rng())]
    for counts in moved:
        counts[0] -= 1
        counts[-1] += 1
    high_ = one(number, LAPLACE, moved, seed=6)["x"]
    assert isinstance(high_, hb.NumberView)
    assert high_.sum.value - low.sum.value == pytest.approx(10.0)


# ---- no bias, and the promised variance ----


def repeated(question: Question, noise: str | hb.Noise, truth: list[np.ndarray], times: int) -> list[hb.Result]:
    random = rng(11)
    given = noise if isinstance(noise, str) else [noise] * len(truth)
    plan = survey_plan({"x": question}, given)
    return [estimate(plan, truth, random) for _ in range(times)]


def unbiased(values: np.ndarray, truth: float, sigma: float) -> bool:
    """Return True if mean and deviation of draws are those that are expected."""
    times = len(values)
    near = abs(values.mean() - truth) <= 4.5 * sigma / math.sqrt(times) + 1e-9
    return bool(near and abs(values.std() / sigma - 1) <= 4.5 * math.sqrt(1.25 / times))


@pytest.mark.parametrize("noise", NOISE)
def test_counts_are_unbiased(noise: str) -> None:
    found = [each["x"] for each in repeated(Choice(list("abcde")), noise, [np.array([300, 100, 50, 50, 0])], 300)]
    for place, truth in enumerate([300, 100, 50, 50, 0]):
        values = np.array([each.values[place] for each in found if isinstance(each, hb.LabelView)])
        sigma = np.mean([each.stderr[place] for each in found if isinstance(each, hb.LabelView)])
        assert unbiased(values, truth, float(sigma)), (noise, place)


@pytest.mark.parametrize("noise", ["Laplace fakes", "users' fakes", "flipped bits", "response"])
@pytest.mark.parametrize("place", [0, 9])
def test_prefixes_are_unbiased_for_constant_data(noise: str, place: int) -> None:
    """Randomized response among many categories has a variance that depends on where the people are."""
    question = Scale(0, 16, buckets=16, levels=[4, 1])
    found = repeated(question, noise, levels(500 * np.eye(16, dtype=np.int64)[place], question), 250)
    results = [each["x"] for each in found]
    curves = [each.cdf() for each in results if isinstance(each, hb.ScaleView)]
    shares, sigmas = (np.array([curve[part] for curve in curves]) for part in (1, 2))
    for edge in (0, 7, 14):
        assert unbiased(shares[:, edge], float(edge >= place), float(sigmas[:, edge].mean())), (noise, edge)


@pytest.mark.parametrize("noise", ["Laplace fakes", "response"])
def test_sum_mean_and_variance_are_unbiased(noise: str) -> None:
    question = Number(-3, 7, digits=[4, 4], variance=True, missing=True)
    random = rng(12)
    x = np.clip(random.normal(1, 2, 400), -3, 7)
    x[:80] = math.nan
    plan = survey_plan({"x": question}, noise)
    found = [estimate(plan, rounded(x, question, random), random)["x"] for _ in range(250)]
    numbers = [each for each in found if isinstance(each, hb.NumberView)]
    given = x[80:]
    for figure, truth in (("mean", given.mean()), ("sum", given.sum()), ("variance", given.var())):
        measures = [getattr(each, figure) for each in numbers]
        values, sigma = np.array([each.value for each in measures]), np.mean([each.stderr for each in measures])
        near = abs(values.mean() - truth) <= 4.5 * values.std() / math.sqrt(250) + 0.05 * sigma
        assert near, figure
        assert abs(values.std() / sigma - 1) <= 4.5 * math.sqrt(1.25 / 250), figure


def test_missing_answers_are_a_ratio() -> None:
    question = Scale(0, 8, buckets=8, levels=[4, 1], missing=True)
    truth = levels(np.array([40, 10, 10, 20, 5, 5, 5, 5, 100]), question)
    results = [each["x"] for each in repeated(question, "Laplace fakes", truth, 300)]
    found = [each for each in results if isinstance(each, hb.ScaleView)]
    curves = [each.cdf() for each in found]
    assert unbiased(np.array([one[1][3] for one in curves]), 0.8, float(np.mean([one[2][3] for one in curves])))
    answers = np.array([each.answered for each in found])
    assert abs(answers.mean() - 100) < 1


def test_combined_tables_have_the_variance_of_least_squares() -> None:
    model = Factorial({"a": 3, "b": 2}, {("a",): 0.3, ("b",): 0.2, ("a", "b"): 0.1})
    for table in (("a",), ("b",), ("a", "b")):
        weights = model.cell_weights(table)
        total = sum(each.weight**2 * each.copies / model.precisions[each.table] for each in weights)
        assert total == pytest.approx(model.cell_variance(table), rel=1e-12)
        for other in model.precisions:
            balance = [each.weight * each.copies for each in weights if each.table == other]
            assert sum(balance) == pytest.approx(0, abs=1e-12)


def test_combined_cells_by_response_have_the_variance_of_the_data() -> None:
    questions: dict[str, Question] = {"a": Choice(list("xyz")), "b": Flag(), "c": Cross("a", "b")}
    pairs = np.array([[900, 0], [50, 25], [0, 25]])
    truth = [pairs.sum(axis=1), pairs.sum(axis=0), pairs.ravel()]
    plan, random = survey_plan(questions, "response"), rng(13)
    found = [estimate(plan, truth, random) for _ in range(300)]
    cells = [each["c"] for each in found]
    values = np.array([each.values for each in cells if isinstance(each, hb.CrossView)])
    sigma = np.mean([each.stderr for each in cells if isinstance(each, hb.CrossView)], axis=0)
    for place in np.ndindex(3, 2):
        assert unbiased(values[(slice(None), *place)], float(pairs[place]), float(sigma[place])), place


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("buckets", "widths"), [(6, (1,)), (8, (4, 1)), (12, (4, 2, 1)), (10, (4, 1))])
def test_prefixes_by_response_have_the_variance_of_the_data(
    buckets: int, widths: tuple[int, ...], missing: bool
) -> None:
    """Against the covariance of the responses of every category, in dense matrices."""
    question = Scale(0, buckets, buckets=buckets, levels=[] if widths == (1,) else widths, missing=missing)
    people = np.zeros(question.padded + missing)
    people[:buckets] = 100.0 * rng().integers(1, 30, buckets)
    people[buckets // 2] = 0
    if missing:
        people[-1] = 4000
    n, q = int(people.sum()), NOISE["response"][0].q
    truth = [
        np.r_[people[: question.padded].reshape(-1, width).sum(axis=1), people[question.padded :]] for width in widths
    ]
    # The tally of the expected messages has the true counts as its estimate.
    plan = survey_plan({"x": question}, "response")
    expected = np.concatenate([n * q + (1 - q * count.size) * count for count in truth])
    counts = np.rint(expected).astype(np.int64)
    assert counts == pytest.approx(expected)
    counts.setflags(write=False)
    sent = n * len(widths)
    tally = hb.Tally(plan=plan.id, n=n, fakes=0, messages=sent, batches=1, smallest_batch=n, counts=counts)
    found = hb.estimate(tally, plan)["x"]
    assert isinstance(found, hb.ScaleView)
    covariance, rows, start = np.zeros((expected.size, expected.size)), [], 0
    for place, count in enumerate(truth):
        size = count.size
        chances = np.full((size, size), q) + np.eye(size) * (1 - q * size)
        spread = sum(c * (np.diag(row) - np.outer(row, row)) for c, row in zip(count, chances, strict=True))
        covariance[start : start + size, start : start + size] = spread / (1 - q * size) ** 2
        start += size
        for unit in np.eye(size):
            observed = [unit if i == place else np.zeros_like(one) for i, one in enumerate(truth)]
            leaves, absent = found.levels.leaves(observed, 0)
            rows.append(np.r_[np.cumsum(leaves)[: buckets - 1], -absent])
    share = np.cumsum(people)[: buckets - 1] / (n - people[-1] * missing)
    queries = np.array(rows)[:, :-1] - np.outer(np.array(rows)[:, -1], share)
    exact = np.einsum("ij,ik,kj->j", queries, covariance, queries)
    assert (found.cdf()[2] * found.answered) ** 2 == pytest.approx(exact, rel=1e-9)
    answered = np.array(rows)[:, -1]
    assert found.errors(np.ones(1), np.zeros(1)).variance == pytest.approx([answered @ covariance @ answered], rel=1e-9)


# ---- cross-tables ----


def test_a_cross_table_says_how_it_was_measured() -> None:
    combined, alone = answered(), answered(derived=("colour", "dark mode"))
    table, direct = combined["colour × dark mode"], alone["colour × dark mode"]
    assert isinstance(table, hb.CrossView)
    assert isinstance(direct, hb.CrossView)
    assert not table.direct
    assert "least squares" in table.remark
    assert direct.direct
    assert "one attribute of combinations" in direct.remark
    assert table.stderr.max() < direct.stderr.max()
    colour = alone["colour"]
    assert isinstance(colour, hb.LabelView)
    assert colour.remark == "unbiased, from 'colour × dark mode'"
    assert colour.values == pytest.approx(direct.values.sum(axis=1))
    assert direct["red", "yes"].value == direct.values[0, 1]
    with pytest.raises(InvalidInput, match="labels of the questions"):
        direct["red", "maybe"]


def test_a_question_outside_of_all_cross_tables_keeps_its_exact_noise() -> None:
    questions: dict[str, Question] = {"a": Flag(), "b": Flag(), "c": Choice(list("xyz")), "d": Cross("a", "b")}
    truth = [np.array([50, 50]), np.array([50, 50]), np.array([40, 30, 30]), np.array([25, 25, 25, 25])]
    found = estimate(survey_plan(questions, "Laplace fakes"), truth, rng())
    alone = one(questions["c"], NOISE["Laplace fakes"][0], truth[2:3])["x"]
    combined, single = found["a"], found["c"]
    assert isinstance(alone, hb.LabelView)
    assert isinstance(single, hb.LabelView)
    assert isinstance(combined, hb.LabelView)
    assert single.remark == "unbiased"
    assert combined.remark == "unbiased, combined with 'd'"
    assert single.noise.distribution is not None
    assert alone.noise.distribution is not None
    assert np.array_equal(single.noise.distribution.pmf, alone.noise.distribution.pmf)
    assert combined.noise.distribution is not None, "longer tails than a normal distribution"


# ---- the tails of the noise ----


def test_sums_of_laplace_errors_have_longer_tails_than_normal_ones() -> None:
    random = rng(14)
    weights = np.array([1.5, 0.5, 0.5, 0.1])
    draws = np.abs((random.laplace(0, 1, (400_000, 4)) * weights).sum(axis=1))
    sums = ErrorSums(2 * weights[None] ** 2, np.ones((1, 4)), np.full(4, 3.0))
    for miss in (0.5, 0.05, 0.001):
        beyond = (draws > sums.reach(miss)[0]).mean()
        assert abs(beyond - miss) < 4.5 * math.sqrt(miss / 400_000)
    normal = (draws > 1.959964 * math.sqrt(float(sums.variance[0]))).mean()
    assert normal > 0.055, "the control: normal intervals cover too little"


def test_many_sums_are_interpolated_outwards() -> None:
    question = Scale(0, 1024, buckets=1024, levels=[32, 1])
    found = one(question, LAPLACE, levels(np.ones(1024, np.int64), question))["x"]
    assert isinstance(found, hb.ScaleView)
    errors = found.errors(np.full(1023, 0.5))
    some = np.arange(5, 1023, 41)
    exact = errors.rows(some).reach(1e-4)
    assert errors.reach(1e-4)[some] == pytest.approx(exact, rel=0.02)
    assert (errors.reach(1e-4) >= 3.89 * np.sqrt(errors.variance)).all()


# ---- quantiles and bands ----


def test_bands_are_monotone_and_hold_the_estimate() -> None:
    found = answered()["load time"]
    assert isinstance(found, hb.ScaleView)
    for of in BOTH:
        low, high = found.band(of=of)
        assert (np.diff(low) >= 0).all()
        assert (np.diff(high) >= 0).all()
        assert ((low >= 0) & (high <= 1) & (low <= high)).all()
    inner, outer = found.band(), found.band(of="population")
    assert (outer[0] <= inner[0]).all()
    assert (outer[1] >= inner[1]).all()


def test_quantiles_are_between_the_ends_of_their_intervals() -> None:
    found = answered()["load time"]
    assert isinstance(found, hb.ScaleView)
    for p in (0.0, 0.05, 0.5, 0.95, 1.0):
        quantile = found.quantile(p)
        low, high = quantile.interval()
        first, last = quantile.interval(of="population")
        assert first <= low <= quantile.value <= high <= last
    assert str(found.median).startswith("median ")
    assert found.quantile(0.95).value > found.median.value


def test_a_batch_in_which_nobody_may_have_answered_says_nothing() -> None:
    scale, number = Scale(0, 8, buckets=8, missing=True), Number(0, 1, digits=[4], missing=True)
    found = one(scale, LAPLACE, levels(np.array([0] * 8 + [30]), scale))["x"]
    assert isinstance(found, hb.ScaleView)
    low, high = found.band(of="population")
    assert (low == 0).all()
    assert (high == 1).all()
    mean = one(number, LAPLACE, rounded(np.full(30, math.nan), number, rng()))["x"]
    assert isinstance(mean, hb.NumberView)
    assert mean.mean.interval() == (0.0, 1.0)


def test_figures_that_do_not_exist_are_refused() -> None:
    found = answered()
    memory = found["memory"]
    assert isinstance(memory, hb.NumberView)
    with pytest.raises(Infeasible, match="does not tell the sum of a population"):
        memory.sum.interval(of="population")
    plain = one(Number(0, 1, digits=[4]), LAPLACE, [np.array([5, 5, 0, 0])])["x"]
    assert isinstance(plain, hb.NumberView)
    with pytest.raises(Infeasible, match="was not asked for"):
        _ = plain.variance
    with pytest.raises(InvalidInput, match="the name of a question"):
        found["speed"]


# ---- tables and files ----


def test_results_are_read_back() -> None:
    found = answered(derived=("colour",), batches=2)
    object.__setattr__(found, "achieved", None)
    again = hb.Result.from_json(found.to_json(0.9))
    assert again.to_json(0.9) == found.to_json(0.9)
    assert [type(again[name]) for name in again] == [type(found[name]) for name in found]
    document = json.loads(found.to_json())
    assert document["format"] == "hubbub result 3"
    assert list(dict.fromkeys(document["table"]["question"])) == list(SURVEY)
    assert list(document["distributions"]) == ["load time"]
    changes: list[dict[str, object]] = [{"format": "x"}, {"people": -1}, {"counts": []}, {"schema": {}}]
    for change in changes:
        with pytest.raises(WireError):
            hb.Result.from_json(json.dumps({**document, **change}))


@pytest.mark.parametrize("noise", ["Laplace fakes", "flipped bits"])
def test_the_number_of_answers_is_a_figure_where_some_may_be_missing(noise: str) -> None:
    """Regression: only pages and JSON told it."""
    random, scale, number = rng(9), Scale(0, 8, buckets=8, levels=[4, 1], missing=True), Number(0, 1, missing=True)
    plan = survey_plan({"x": scale, "y": number}, noise)
    values = random.random(500)
    values[:200] = math.nan
    truth = [*levels(np.array([40, 60, 50, 50, 30, 30, 20, 20, 200]), scale), *rounded(values, number, random)]
    held: dict[str, list[bool]] = {"x": [], "y": []}
    for _ in range(100):
        found = estimate(plan, truth, random)
        for name, covered in held.items():
            result = found[name]
            assert isinstance(result, hb.ScaleView | hb.NumberView)
            answers = result.figures()[-1]
            assert (answers.name, answers.unit, answers.value) == ("answered", "people", result.answered)
            low, high = answers.interval()
            covered.append(low <= 300 <= high)
            first, last = answers.interval(of="population")
            assert first < low or low < 0
            assert high < last
    assert all(plausible(covered) for covered in held.values())
    columns = found.columns()
    assert [item for item in columns["item"] if item == "answered"] == ["answered"] * 2
    assert json.loads(found.to_json())["table"]["item"].count("answered") == 2


def test_population_intervals_of_cells_are_numbers_of_people_in_every_table() -> None:
    """Regression: they were shares in the table of one question, and people in that of the whole survey."""
    found = answered()
    for name in ("colour", "dark mode"):
        one = found[name]
        assert isinstance(one, hb.LabelView)
        first, last = one.interval(of="population")
        mine = [place for place, each in enumerate(found.columns()["question"]) if each == name]
        table = json.loads(found.to_json())["table"]
        text = to_csv(one.columns()).splitlines()
        place = text[0].split(",").index("population_low")
        exports = [
            np.array(one.columns()["population_low"]),
            one.to_arrow()["population_low"].to_numpy(),
            one.to_pandas()["population_low"].to_numpy(),
            one.to_polars()["population_low"].to_numpy(),
            np.array(table["population_low"])[mine],
            np.array([float(line.split(",")[place]) for line in text[1:]]),
            np.array(found.columns()["population_low"])[mine],
            found.to_arrow()["population_low"].to_numpy()[mine],
            found.to_pandas()["population_low"].to_numpy()[mine],
            found.to_polars()["population_low"].to_numpy()[mine],
        ]
        for each in exports:
            assert each == pytest.approx(first, rel=1e-6)
        assert (first <= np.clip(one.values, 0, one.n)).all()
        assert (last > 1).all(), "people, not shares"
    whole, cross = found.columns(), found["colour × dark mode"]
    rows = [place for place, name in enumerate(whole["question"]) if name == "colour × dark mode"]
    document = json.loads(found.to_json())["table"]
    for key in ("population_low", "population_high"):
        expected = np.array(whole[key])[rows]
        assert np.array(cross.columns()[key]) == pytest.approx(expected)
        assert np.array(document[key])[rows] == pytest.approx(expected)


def test_columns_have_a_row_for_each_figure() -> None:
    found = answered()
    columns = found.columns()
    assert list(columns) == [
        "question", "item", "people", "share", "unit", "value", "stderr", "low", "high", "population_low",
        "population_high", "note", "n", "plan_id", "released",
    ]  # fmt: skip
    assert len({len(column) for column in columns.values()}) == 1
    assert len(columns["item"]) == 3 + 2 + 5 + 4 + 6
    table = found.to_arrow()
    assert table.num_rows == 20
    for name in found:
        assert found[name].to_arrow().num_rows == len(next(iter(found[name].columns().values())))
    value, low, high = (np.array(columns[key]) for key in ("value", "low", "high"))
    assert ((low <= value) & (value <= high)).all()
