"""Comparisons and pools of surveys: false positives, coverage of differences, and sums of rounds."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.unchanged import PROTOCOLS, SIZES, figures, names, pair_of_labels, pair_of_surveys, surveyed
from benchmarks.unchanged import survey_plan as unchanged_plan
from tests.results.simulated import estimate, levels, plausible, rounded, survey_plan
from tests.results.test_survey_estimates import SURVEY, answered

import hubbub as hb
from hubbub.errors import Infeasible, InvalidInput
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.results.compare import recovered

pytestmark = pytest.mark.pipeline
SCALE = Scale(0, 16, buckets=16, levels=[4, 1], unit="ms")
NUMBER = Number(0, 100, digits=[4, 4], unit="MB")
SHARES = np.arange(1, 17) ** -0.5 / np.sum(np.arange(1, 17) ** -0.5)


def scales(rng: np.random.Generator, noise: str, n: int, shares: np.ndarray = SHARES) -> hb.ScaleView:
    found = estimate(survey_plan({"x": SCALE}, noise), levels(rng.multinomial(n, shares), SCALE), rng)["x"]
    assert isinstance(found, hb.ScaleView)
    return found


def numbers(rng: np.random.Generator, noise: str, n: int, mean: float = 0.3) -> hb.NumberView:
    x = 100 * rng.beta(4 * mean, 4 * (1 - mean), n)
    found = estimate(survey_plan({"x": NUMBER}, noise), rounded(x, NUMBER, rng), rng)["x"]
    assert isinstance(found, hb.NumberView)
    return found


@pytest.mark.parametrize(("noise", "sizes"), [("Laplace fakes", (400, 700)), ("response", (300, 300))])
def test_false_positives_of_scales_and_numbers_are_rare(noise: str, sizes: tuple[int, int]) -> None:
    rng, times = np.random.default_rng(31), 60
    same = [hb.compare(scales(rng, noise, sizes[0]), scales(rng, noise, sizes[1])) for _ in range(times)]
    assert plausible([not one.significant for one in same])
    means = [hb.compare(numbers(rng, noise, sizes[0]), numbers(rng, noise, sizes[1])) for _ in range(times)]
    assert plausible([not one.significant for one in means])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "sizes"),
    [
        ("Laplace fakes", (12, 40)),
        ("few Laplace fakes", (1000, 1500)),
        ("Gaussian fakes", (12, 40)),
        ("flipped bits", (1000, 1500)),
        ("response", (12, 40)),
    ],
)
def test_false_positives_are_at_most_6_percent(noise: str, sizes: tuple[int, int]) -> None:
    rng, times = np.random.default_rng(32), 5000
    same = [hb.compare(scales(rng, noise, sizes[0]), scales(rng, noise, sizes[1])).significant for _ in range(times)]
    assert np.mean(same) <= 0.06
    means = [hb.compare(numbers(rng, noise, sizes[0]), numbers(rng, noise, sizes[1])).significant for _ in range(times)]
    assert np.mean(means) <= 0.06


@pytest.mark.parametrize("noise", ["Laplace fakes", "flipped bits"])
def test_differences_are_found_and_covered(noise: str) -> None:
    rng, times = np.random.default_rng(33), 100
    pairs = [(numbers(rng, noise, 600), numbers(rng, noise, 900, 0.5)) for _ in range(times)]
    found = [hb.compare(a, b).mean for a, b in pairs]
    ends = [one.interval() for one in found]
    assert plausible([low <= 20 <= high for low, high in ends])
    assert np.mean([low > 0 for low, _ in ends]) > 0.9
    values = np.array([one.difference for one in found])
    assert abs(values.mean() - 20) < 4.5 * values.std() / math.sqrt(times)
    other = SHARES[::-1]
    curves = [hb.compare(scales(rng, noise, 600), scales(rng, noise, 900, other)) for _ in range(times // 2)]
    truth = np.cumsum(other)[:-1] - np.cumsum(SHARES)[:-1]
    bands = [one.band() for one in curves]
    assert plausible([bool(((low <= truth) & (truth <= high)).all()) for low, high in bands])
    assert all(one.significant for one in curves)
    centre = [int(np.searchsorted(np.cumsum(shares), 0.5)) for shares in (SHARES, other)]
    medians = [one.median.interval() for one in curves]
    apart = centre[1] - centre[0]
    assert plausible([low <= apart + 1 and apart - 1 <= high for low, high in medians])
    assert np.mean([low > 0 for low, _ in medians]) > 0.9


def test_differences_of_the_people_are_covered() -> None:
    """Intervals of the collections leave out sampling error, which the noise of one batch does not have."""
    rng, question = np.random.default_rng(34), Number(0, 1, digits=[4, 4])
    plan, x, y = survey_plan({"x": question}, "Laplace fakes"), rng.random(200), rng.random(300)
    held, outer = [], []
    for _ in range(100):
        a, b = (estimate(plan, rounded(each, question, rng), rng)["x"] for each in (x, y))
        assert isinstance(a, hb.NumberView)
        assert isinstance(b, hb.NumberView)
        found = hb.compare(a, b).mean
        low, high = found.interval(of="people")
        held.append(low <= y.mean() - x.mean() <= high)
        first, last = found.interval()
        outer.append(last - first > high - low)
    assert plausible(held)
    assert all(outer)


def test_p_values_agree_with_the_intervals() -> None:
    rng = np.random.default_rng(35)
    found = hb.compare(numbers(rng, "Laplace fakes", 300), numbers(rng, "Laplace fakes", 300, 0.36))
    p = found.mean.p_value
    assert 1e-6 <= p < 1
    for level, excludes in ((1 - 1.05 * p, True), (1 - p / 1.1, False)):
        low, high = found.mean.interval(level)
        assert (low > 0 or high < 0) == excludes
    curve = hb.compare(scales(rng, "Laplace fakes", 800), scales(rng, "Laplace fakes", 800, SHARES[::-1]))
    assert curve.p_value == pytest.approx(1e-6)


@pytest.mark.parametrize("noise", ["Laplace fakes", "flipped bits"])
@pytest.mark.parametrize("people", [60, 250, 4000])
def test_the_row_of_the_whole_distribution_decides(noise: str, people: int) -> None:
    """Regression: tables had rows of quantiles only, none of which need be significant where the question is."""
    rng = np.random.default_rng(people)
    tilted = SHARES * np.linspace(0.5, 1.5, 16)
    for _ in range(4):
        other = scales(rng, noise, people, tilted / tilted.sum())
        found = hb.compare(scales(rng, noise, people), other)
        whole = found.whole
        assert found.differences()[0].name == whole.name
        assert whole.name.startswith("whole distribution, below ")
        assert whole.name.endswith(" ms")
        assert whole.p_value == pytest.approx(found.p_value)
        low, high = whole.interval(found.level)
        assert (low > 0 or high < 0) == found.significant
        assert whole.to_document()["difference"] == pytest.approx(whole.difference)


def test_a_whole_survey_is_compared_question_by_question() -> None:
    a, b = answered(seed=1), answered(700, seed=2)
    found = hb.compare(a, b)
    assert list(found) == list(SURVEY)
    kinds = [hb.LabelComparison, hb.LabelComparison, hb.ScaleComparison, hb.NumberComparison, hb.LabelComparison]
    assert [type(found[name]) for name in found] == kinds
    columns = found.columns()
    assert len(columns["item"]) == 3 + 2 + 6 + 3 + 6
    document = json.loads(found.to_json())
    assert document["format"] == "hubbub comparison 2"
    assert [one["name"] for one in document["questions"]] == list(SURVEY)
    memory = found["memory"]
    assert isinstance(memory, hb.NumberComparison)
    with pytest.raises(Infeasible, match="samples do not tell the sum"):
        memory.sum.interval()
    assert memory.sum.interval(of="people")[0] < memory.sum.difference
    with pytest.raises(InvalidInput, match="the name of a question"):
        found["speed"]


def test_unchanged_populations_are_rarely_called_different() -> None:
    """Few pairs of what ``python -m benchmarks.unchanged`` compares; without a correction all are different."""
    seeds, kinds = range(12), ["fakes", "flips", "flips"] * 4
    named = [bool(pair_of_surveys(noise, seed)) for noise, seed in zip(kinds, seeds, strict=True)]
    assert plausible([not one for one in named])
    rng = np.random.default_rng(7)
    one, two = (surveyed(unchanged_plan("flips"), n, rng) for n in SIZES)
    loose = hb.compare(one, two, correction="none")
    assert sum(bool(np.any(each.significant)) for _, each in loose.questions) > 1, "the control"
    assert not names(hb.compare(one, two))
    assert not loose.significant, "the sentence about questions is corrected all the same"
    labels = [pair_of_labels(name, seed) for name in PROTOCOLS for seed in range(4)]
    assert plausible([not one for one in labels])


def test_a_change_is_found_in_one_question_of_many() -> None:
    named = [pair_of_surveys("flips", seed, 0.24) for seed in range(8)]
    assert sum("dark mode" in one for one in named) > 5
    assert sum(bool(one - {"dark mode"}) for one in named) <= 3


def test_numbers_and_scales_of_a_survey_are_corrected_like_its_labels() -> None:
    """Regression: the row of one of 20 unchanged numbers was called different more often than not."""
    rng = np.random.default_rng(3)
    questions: dict[str, Question] = {**{f"x{place}": NUMBER for place in range(20)}, "y": SCALE}
    plan = survey_plan(questions, "Laplace fakes")

    def people() -> list[np.ndarray]:
        given = [each for _ in range(20) for each in rounded(100 * rng.beta(1, 2, 400), NUMBER, rng)]
        return given + levels(rng.multinomial(400, SHARES), SCALE)

    for _ in range(2):
        a, b = estimate(plan, people(), rng), estimate(plan, people(), rng)
        found = hb.compare(a, b)
        assert [name for name, one in found.questions if np.any(one.significant)] == [*found.significant]
        columns = found.columns()
        decides = [item == "mean" or str(item).startswith("whole") for item in columns["item"]]
        assert np.asarray(columns["p_value"])[decides].tolist() == found.p_value.tolist()
        assert found["x3"].columns()["p_value"][0] == found.p_value[3]
        assert found["y"].p_value == found.p_value[20]


@pytest.mark.slow
def test_anything_is_named_in_at_most_six_percent_of_2000_unchanged_pairs() -> None:
    found = figures(2000, 2)
    assert found["named_survey"] <= 0.062
    assert found["named_labels"] <= 0.062
    assert found["found_survey"] > 0.8


def test_the_rows_and_the_questions_agree() -> None:
    """A label that is called different after correction makes its question different."""
    for seed in range(3):
        rng, plan = np.random.default_rng(seed), unchanged_plan("flips")
        found = hb.compare(surveyed(plan, 3000, rng), surveyed(plan, 3000, rng, 0.3))
        rows = {name for name, one in found.questions if isinstance(one, hb.LabelComparison) and one.significant.any()}
        assert rows <= set(found.significant)
        for name, one in found.questions:
            if not isinstance(one, hb.LabelComparison):
                assert one.significant == (name in found.significant)
        assert "dark mode" in rows
        document = json.loads(found.to_json())
        named = [one["name"] for one in document["questions"] if one["p_value"] <= 0.05]
        assert named == [*found.significant] == [one["name"] for one in document["questions"] if one["significant"]]


def test_the_rounds_of_a_year_are_added() -> None:
    rng = np.random.default_rng(36)
    weeks = [answered(200, seed=int(seed)) for seed in rng.integers(1000, 9999, 52)]
    year = hb.pool(weeks)
    assert year.n == 52 * 200
    for name in ("colour", "colour × dark mode"):
        parts = [week[name] for week in weeks]
        total = sum(part.values for part in parts if isinstance(part, hb.LabelView | hb.CrossView))
        pooled = year[name]
        assert isinstance(pooled, hb.LabelView | hb.CrossView)
        assert pooled.values == pytest.approx(total)
        one = parts[0]
        assert isinstance(one, hb.LabelView | hb.CrossView)
        assert pooled.stderr == pytest.approx(one.stderr * math.sqrt(52))
    time, single = year["load time"], weeks[0]["load time"]
    assert isinstance(time, hb.ScaleView)
    assert isinstance(single, hb.ScaleView)
    assert time.cdf()[2] == pytest.approx(single.cdf()[2] / math.sqrt(52), rel=1e-9)
    assert time.attributes[0].excess == pytest.approx(single.attributes[0].excess / 52)
    alone = hb.pool([week["memory"] for week in weeks if isinstance(week["memory"], hb.NumberView)])
    memory = year["memory"]
    assert isinstance(memory, hb.NumberView)
    assert alone.mean.value == pytest.approx(memory.mean.value)
    assert alone.mean.interval() == pytest.approx(memory.mean.interval())
    assert memory.mean.stderr < 0.2 * weeks[0]["memory"].mean.stderr


def test_batches_without_noise_are_pooled_and_compared() -> None:
    """Regression: users who drew no fakes at all leave no variance, which was divided by."""
    rng, noise = np.random.default_rng(41), [hb.Noise(m=hb.Fakes.poisson(1e-9))] * 2
    plan = survey_plan({"x": SCALE}, noise)
    parts = [estimate(plan, levels(rng.multinomial(20, SHARES), SCALE), rng)["x"] for _ in range(2)]
    a, b = (part for part in parts if isinstance(part, hb.ScaleView))
    low, high = hb.pool([a, b]).band()
    assert (high - low).max() <= 1 / 40 + 1e-9
    assert not hb.compare(a, b).significant


def test_pooled_intervals_cover() -> None:
    rng, held, means = np.random.default_rng(37), [], []
    for _ in range(100):
        people = [rng.multinomial(60, SHARES) for _ in range(3)]
        plan = survey_plan({"x": SCALE}, "Laplace fakes")
        parts = [estimate(plan, levels(one, SCALE), rng)["x"] for one in people]
        whole = hb.pool([part for part in parts if isinstance(part, hb.ScaleView)])
        truth = np.cumsum(sum(people))[:-1] / 180
        low, high = whole.band()
        held.append(bool(((low <= truth) & (truth <= high)).all()))
        x = rng.random((3, 60)) * 100
        numbers_ = [
            estimate(survey_plan({"x": NUMBER}, "Laplace fakes"), rounded(one, NUMBER, rng), rng)["x"] for one in x
        ]
        mean = hb.pool([one for one in numbers_ if isinstance(one, hb.NumberView)]).mean
        ends = mean.interval()
        means.append(ends[0] <= x.mean() <= ends[1])
    assert plausible(held)
    assert plausible(means)


def test_other_questions_are_refused() -> None:
    a, rng = answered(300), np.random.default_rng(38)
    other: dict[str, Question] = {"a": Flag(), "b": Choice(list("xy")), "c": Cross("a", "b")}
    truth = [np.array([5, 5]), np.array([5, 5]), np.array([5, 0, 0, 5])]
    b = estimate(survey_plan(other, "Laplace fakes"), truth, rng)
    with pytest.raises(InvalidInput, match="a and b must be results of the same questions"):
        hb.compare(a, b)
    with pytest.raises(InvalidInput, match="same questions and layout, as those of one plan are"):
        hb.pool([a, b])
    one, two = scales(rng, "Laplace fakes", 100), numbers(rng, "Laplace fakes", 100)
    with pytest.raises(InvalidInput, match="b must be of type ScaleView"):
        hb.compare(one, two)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="every one of results must be of type ScaleView"):
        hb.pool([one, two])  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match="of different people, but they are the same"):
        hb.compare(one, one)
    with pytest.raises(InvalidInput, match="given twice"):
        hb.pool([two, two])
    wider = replace(two, question=Number(0, 200, digits=[4, 4], unit="MB"))
    with pytest.raises(InvalidInput, match="the same bounds and unit"):
        hb.compare(two, wider)
    with pytest.raises(InvalidInput, match="one question with the same layout"):
        hb.pool([two, wider])
    table = a["colour × dark mode"]
    mine = b["c"]
    assert isinstance(table, hb.CrossView)
    assert isinstance(mine, hb.CrossView)
    with pytest.raises(InvalidInput, match="cross-tables of the same questions and labels"):
        hb.compare(table, mine)
    with pytest.raises(InvalidInput, match="cross-tables of the same questions and labels"):
        hb.pool([table, mine])


def test_layouts_may_differ_between_compared_batches() -> None:
    """Plans for batches of different sizes choose other levels and digits for the same question."""
    rng = np.random.default_rng(39)
    flat = Scale(0, 16, buckets=16, unit="ms")
    one = scales(rng, "Laplace fakes", 500)
    two = estimate(survey_plan({"x": flat}, "Laplace fakes"), levels(rng.multinomial(500, SHARES), flat), rng)["x"]
    assert isinstance(two, hb.ScaleView)
    assert not hb.compare(one, two).significant


def test_intervals_of_differences_recover_those_of_the_parts() -> None:
    zero, known = np.zeros(1), (np.zeros(1), np.zeros(1))
    low, high = recovered(zero, np.array([2.0]), known, (np.array([1.0]), np.array([4.0])))
    assert (low[0], high[0]) == (1.0, 4.0)
