"""Results as Python users expect them: rows, frames, JSON, notebooks, charts, the guarantee, post-processing."""

import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.pipeline.sampled import draw

import hubbub as hb
from hubbub.errors import MissingExtra
from hubbub.numeric.estimation import shrunk_counts
from hubbub.service.runtime.database import Postgres

COLOURS = ["red", "green", "blue", "grey"]
PROTOCOLS = [
    hb.Protocol(0.1),
    hb.Protocol(0.1, k=2),
    hb.Protocol(0.1, release="category"),
    hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25)),
    hb.Protocol(0.01, m=50),
]
ANSWERS = ["red"] * 60 + ["green"] * 30 + ["blue"] * 10


def collect(protocol: hb.Protocol = PROTOCOLS[0], n: int = 100) -> tuple[hb.Plan, hb.Tally]:
    plan = hb.plan_from(hb.Schema.one_hot(COLOURS), n, protocol, delta=1e-6)
    return plan, hb.tally(hb.shuffle(hb.randomize(hb.Collection.from_values(ANSWERS, plan.schema), plan)))


def whole(protocol: hb.Protocol = PROTOCOLS[0], n: int = 100) -> hb.Result:
    plan, tally = collect(protocol, n)
    return hb.estimate(tally, plan)


def found(protocol: hb.Protocol = PROTOCOLS[0], n: int = 100) -> hb.LabelView:
    view = whole(protocol, n).question
    assert isinstance(view, hb.LabelView)
    return view


def joint() -> hb.Joint:
    plan = hb.plan_from(hb.Schema.bits(["a", "b", "c"]), 100, hb.Protocol(0.01), delta=1e-6)
    people = hb.Collection.from_values([["a", "b"]] * 70 + [["c"]] * 30, plan.schema)
    return hb.joint(hb.shuffle(hb.randomize(people, plan)), plan, ["a", "b", "c"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_label_has_the_figures_of_all(protocol: hb.Protocol) -> None:
    estimate = found(protocol)
    low, high = estimate.interval(0.9)
    first, last = estimate.population(0.9)
    assert len(estimate) == 4
    assert [row.name for row in estimate] == COLOURS
    for i, row in enumerate(estimate):
        one = estimate[row.name]
        assert (one.value, one.stderr) == (row.value, row.stderr) == (estimate.values[i], estimate.stderr[i])
        assert row.interval(0.9) == one.interval(0.9) == (low[i], high[i])
        assert row.interval(0.9, of="population") == pytest.approx((100 * first[i], 100 * last[i]), abs=0.2)
        assert row.share == row.value / 100
        assert row.detectable == bool(estimate.detectable[i])
    assert "red" in estimate
    assert "mauve" not in estimate
    with pytest.raises(hb.InvalidInput, match="label must be a label of the question \\(4 labels: red, green, …\\)"):
        estimate["mauve"]


def test_intervals_are_clipped_even_if_nothing_was_adjusted() -> None:
    """A projection that changes no value is one all the same, after a round trip through JSON too."""
    result, estimate = whole(PROTOCOLS[0]), found(PROTOCOLS[0])
    possible = np.array([40.0, 30.0, 29.0, 1.0])
    projected = replace(estimate, values=possible, unbiased=possible).consistent()
    assert np.array_equal(projected.values, possible)
    for one in (projected, hb.Result.from_json(replace(result, counts=(projected,)).to_json()).question):
        assert one.interval()[0].min() == 0
        low, high = one.interval()
        assert one["grey"].interval() == (low[3], high[3])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("way", ["unbiased", "consistent", "shrunk", "pooled"])
def test_json_keeps_everything(protocol: hb.Protocol, way: str) -> None:
    result = replace(whole(protocol), released=1_900_000_000)
    if way == "pooled":
        result = hb.pool([result, whole(protocol)])
    elif way != "unbiased":
        result = getattr(result, way)()
    restored = hb.Result.from_json(result.to_json())
    assert (restored.plan, restored.n, restored.released) == (result.plan, result.n, 1_900_000_000)
    assert restored.schema == result.schema
    again, estimate = restored.question, result.question
    assert again.labels == estimate.labels
    assert (again.n, again.one_choice, again.remark) == (100 + 100 * (way == "pooled"), True, estimate.remark)
    for name in ("values", "unbiased", "stderr", "detectable", "detection_limit"):
        assert np.array_equal(getattr(again, name), getattr(estimate, name)), name
    for simultaneous in (False, True):
        for of in ("people", "population"):
            one = again.interval(0.9, simultaneous=simultaneous, of=of)
            assert np.array_equal(one, estimate.interval(0.9, simultaneous=simultaneous, of=of))
    assert restored.guarantee == result.guarantee
    assert restored.to_json() == result.to_json()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"plan": "', '"plan": 3, "other": "'),
        ('"one_choice": true', '"one_choice": 1'),
        ('"labels": ["red"', '"labels": [3'),
        ('"counts": [', '"counts": [{}, '),
        ('"released": null', '"released": "now"'),
        ('"format": "hubbub result 3"', '"format": "hubbub result 2"'),
        ('"stderr": ', '"stderr": "many", "x": '),
        ('"variance": ', '"variance": -'),
        ('"pmf": [', '"pmf": [2.0, '),
        ('"pmf": [', '"pmf": ["a", '),
        ('"centre": ', '"centre": 1e400, "x": '),
        ('"epsilon": ', '"epsilon": -'),
    ],
)
def test_damaged_json_is_rejected(old: str, new: str) -> None:
    text = whole(PROTOCOLS[3]).to_json()
    assert old in text
    with pytest.raises(hb.WireError):
        hb.Result.from_json(text.replace(old, new, 1))


def test_the_achieved_guarantee_is_attached() -> None:
    for protocol in PROTOCOLS:
        plan, tally = collect(protocol, 80)
        estimate = hb.estimate(tally, plan)
        assert callable(estimate.achieved), "computed on first use"
        assert estimate.guarantee == hb.achieved_guarantee(tally, plan)
        assert estimate.guarantee is estimate.guarantee
        assert estimate.plan == plan.id
    assert whole(n=100).guarantee == collect(n=100)[0].guarantee


def test_the_guarantee_is_not_computed_unless_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def account(*_: object, **__: object) -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr("hubbub.results.estimate.account", account)
    estimate = whole(n=80)
    estimate.question.interval()
    estimate.question.population()
    estimate.consistent()
    with pytest.raises(AssertionError, match="nobody asked"):
        _ = estimate.guarantee


def test_results_can_be_pickled() -> None:
    estimate = whole(PROTOCOLS[3], 80)
    for value in (estimate, hb.pool([estimate, whole(PROTOCOLS[3])]), hb.compare(estimate, whole()), joint()):
        again = pickle.loads(pickle.dumps(value))
        assert repr(again) == repr(value)
    again = pickle.loads(pickle.dumps(estimate))
    assert np.array_equal(again.question.interval(), estimate.question.interval())
    assert again.guarantee == estimate.guarantee


def test_a_pool_has_the_weakest_guarantee() -> None:
    large, small = whole(n=50), whole(n=100)
    assert large.guarantee is not None
    assert small.guarantee is not None
    pooled = hb.pool([large, replace(small, achieved=replace(small.guarantee, epsilon=9.0))])
    assert pooled.guarantee is not None
    assert pooled.guarantee.epsilon == 9.0
    assert hb.pool([large, replace(small, achieved=None)]).guarantee is None
    mixed = replace(small, achieved=replace(small.guarantee, epsilon=9.0, delta=0.0))
    assert hb.pool([large, mixed]).guarantee is None, "neither has both the larger epsilon and the larger delta"
    assert hb.pool([large, small]).plan is None
    one, two = whole(), whole()
    assert hb.pool([one, two]).plan == one.plan


def test_a_pool_of_one_plan_is_the_estimate_of_its_tallies() -> None:
    for protocol in PROTOCOLS[:4]:
        (plan, one), (_, two) = collect(protocol), collect(protocol)
        whole, pooled = (
            hb.estimate(one + two, plan).question,
            hb.pool([hb.estimate(one, plan).question, hb.estimate(two, plan).question]),
        )
        assert np.allclose(whole.values, pooled.values)
        tolerance = 0.05 if protocol.sends_category else 1e-9  # its variance is clipped at each batch
        assert np.allclose(whole.stderr, pooled.stderr, rtol=tolerance)
        assert np.allclose(whole.interval(), pooled.interval(), rtol=tolerance)
        assert np.allclose(whole.population(), pooled.population(), rtol=tolerance, atol=2e-3)


def test_frames() -> None:
    names = ["label", "value", "stderr", "low", "high", "population_low", "population_high", "detectable"]
    estimate = found()
    low, _ = estimate.interval(0.8)
    for frame in (estimate.to_arrow(0.8).to_pandas(), estimate.to_pandas(0.8), estimate.to_polars(0.8).to_pandas()):
        assert list(frame.columns) == names
        assert list(frame["label"]) == COLOURS
        assert np.allclose(frame["low"], low)
        assert frame["detectable"].dtype == bool
    comparison = hb.compare(estimate, found())
    for frame in (comparison.to_arrow().to_pandas(), comparison.to_pandas(), comparison.to_polars().to_pandas()):
        assert list(frame["label"]) == COLOURS
        assert np.allclose(frame["difference"], comparison.difference)
    table = joint()
    for frame in (table.to_arrow().to_pandas(), table.to_pandas(), table.to_polars().to_pandas()):
        assert list(frame["has_b"]) == [False, False, True, True, False, False, True, True]
        assert frame["combination"][3] == "a + b"
        assert np.allclose(frame["value"], table.values)


@pytest.mark.parametrize(
    ("missing", "method", "message"),
    [
        ("pyarrow", "to_arrow", "An Arrow table needs the extra 'frames': pip install 'hubbub\\[frames\\]'"),
        ("narwhals", "to_pandas", "A data frame needs the extra 'frames': pip install 'hubbub\\[frames\\]'"),
        ("pandas", "to_pandas", "A data frame of pandas needs a package: pip install pandas"),
        ("polars", "to_polars", "A data frame of polars needs a package: pip install polars"),
    ],
)
def test_missing_packages_are_named(missing: str, method: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str, package: str | None = None) -> ModuleType:
        if name.split(".", maxsplit=1)[0] == missing:
            raise ImportError
        return import_module(name, package)

    estimate = found()
    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(MissingExtra, match=f"^{message}$"):
        getattr(estimate, method)()


@pytest.mark.parametrize(
    ("missing", "feature", "extra", "use"),
    [
        ("psycopg", "A PostgreSQL store", "postgres", lambda: Postgres("postgresql://nowhere")),
    ],
)
def test_missing_extras_have_one_wording(
    missing: str, feature: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: each extra was reported in words of its own, or not at all."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=rf"^{feature} needs the extra '{extra}': pip install 'hubbub\[{extra}\]'$"):
        use()


def test_notebooks() -> None:
    estimate = whole()
    assert estimate.guarantee is not None
    page = estimate._repr_html_()
    assert all(word in page for word in ("red", "100 people", "95% interval", "share of the population", "unbiased"))
    assert f"({estimate.guarantee.epsilon:.4g}, 1e-06)-differentially private" in page
    assert "<script" not in replace(found(), labels=("<script>", "b", "c", "d"))._repr_html_()
    table = joint()._repr_html_()
    assert all(word in table for word in ("a + b", "not a", "95% interval", "total"))
    comparison = hb.compare(estimate, whole())._repr_html_()
    assert all(word in comparison for word in ("share in A", "100 people in A", "blue"))
    plan = collect()[0]._repr_html_()
    assert all(word in plan for word in ("best attack", "at least 100 in a batch", "assumptions"))


def test_charts() -> None:
    comparison = hb.compare(found(), found())
    drawn = comparison.plot(top=2).standalone()
    assert "difference of the shares" in drawn
    cells = joint().plot().standalone()
    assert all(word in cells for word in ("not c", "a, not b"))
    with pytest.raises(hb.InvalidInput, match="the number of labels must be from 2 to 6 for a heat map, got 1"):
        joint().marginal(["a"]).plot()


def test_cells_of_a_joint_table() -> None:
    table = joint()
    cells = list(table)
    assert len(cells) == len(table) == 8
    assert table["a", "b"].index == 0b011
    assert table["b", "a"].value == table.values[0b011]
    assert table[()].present == ()
    assert table["c"].present == ("c",)
    assert table["c"].absent == ("a", "b")
    assert [cell.value for cell in cells] == table.values.tolist()
    low, high = table.interval(0.9)
    assert table["c"].interval(0.9) == (low[4], high[4])
    with pytest.raises(hb.InvalidInput, match="distinct labels of the table"):
        table["d"]


@pytest.mark.parametrize("times", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_intervals_of_conditional_tables_cover(times: int) -> None:
    rng, q, n = np.random.default_rng(61), 0.05, 20_000
    truth = np.array([9000, 3000, 6000, 2000])
    flips = np.array([[(1 - q) ** 2, q * (1 - q), q * (1 - q), q * q]])
    kernel = np.array([[flips[0][x ^ y] for y in range(4)] for x in range(4)])
    held = 0
    for _ in range(times):
        counts = np.sum([rng.multinomial(truth[x], kernel[x]) for x in range(4)], axis=0)
        table = hb.Joint(
            labels=("a", "b"), counts=counts.astype(np.int64), n=n, q=q, k=1, fakes=np.zeros(4), spread=None
        )
        low, high = table.conditional({"a": True}).interval(0.95)
        held += bool(low[1] <= 0.4 <= high[1])
    assert held / times >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / times)


def test_shrinking_reduces_the_total_error_and_keeps_the_coverage() -> None:
    """Labels of similar size: the total squared error falls by much; intervals are those of the unbiased values."""
    rng, truth, sigma, times = np.random.default_rng(62), np.linspace(90, 110, 30), 20.0, 2000
    values = truth + sigma * rng.standard_normal((times, truth.size))
    shrunk = np.array([shrunk_counts(row, sigma**2) for row in values])
    before, after = (float(((one - truth) ** 2).sum(axis=1).mean()) for one in (values, shrunk))
    assert after < 0.3 * before
    far = 1000 * np.arange(30.0)
    moved = np.array([shrunk_counts(far + sigma * rng.standard_normal(30), sigma**2) for _ in range(times)])
    assert float(((moved - far) ** 2).sum(axis=1).mean()) < 1.01 * 30 * sigma**2, "never much worse"
    estimate, _ = draw("flips", 2000, 0.1, 40, rng)
    less = estimate.shrunk()
    assert np.ptp(less.values) < np.ptp(estimate.values)
    assert np.array_equal(less.population(), estimate.population())
    assert np.array_equal(less.interval(), np.clip(estimate.interval(), 0, 2000))
    assert less.stderr is estimate.stderr
    assert "biases single values" in less.remark
    assert np.array_equal(shrunk_counts([1.0, 2.0, 9.0], 100.0), [1.0, 2.0, 9.0]), "three values are left alone"


def test_plans_print_as_the_command_line_shows_them() -> None:
    plan = collect()[0]
    lines = str(plan).splitlines()
    assert lines[0] == f"plan         {plan.id}"
    assert lines[1] == "schema       one_hot, 4 labels, exactly 1 set"
    assert lines[2] == "people       at least 100 in a batch"
    assert any(line.startswith("best attack  ") for line in lines)
    assert repr(plan).startswith(f"Plan({plan.id[:8]}…: ")


def test_plans_print_without_numpy() -> None:
    script = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "scipy"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from hubbub.model.plans import Plan
print(Plan.from_json({collect()[0].to_json()!r}))
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Plan(")


def test_many_labels() -> None:
    """Intervals of many labels are computed from few distinct counts, not label by label."""
    width = 20_000
    plan = hb.plan_from(hb.Schema.one_hot(width), 1000, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25)), delta=1e-6)
    counts = np.random.default_rng(63).integers(20, 60, width)
    counts.setflags(write=False)
    total = int(counts.sum())
    tally = hb.Tally(plan=plan.id, n=1000, fakes=0, messages=total, batches=1, smallest_batch=1000, counts=counts)
    result = hb.estimate(tally, plan)
    estimate = result.question
    low, high = estimate.population(0.95, simultaneous=True)
    assert low.size == high.size == width
    assert len(json.loads(result.to_json())["table"]["item"]) == width
    assert estimate["77"].value == estimate.values[77]


def test_levels_of_any_real_type_are_written() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(["red", "blue"]), 3, hb.Protocol(0.1), delta=1e-6)
    counts = hb.tally(hb.randomize(hb.Collection.from_values(["red", "blue", "red"], plan.schema), plan))
    found = hb.estimate(counts, plan)
    half: list[Any] = [np.float32(0.5), Fraction(1, 2)]
    assert [found.to_json(level) for level in half] == [found.to_json(0.5)] * 2
    single: Any = found
    with pytest.raises(hb.InvalidInput, match="a list of results, not a single one"):
        hb.pool(single)


def test_only_shares_of_labels_have_a_power() -> None:
    strings = hb.plan_from(
        hb.Schema.strings(), 1000, hb.Protocol(0, m=hb.Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0
    )
    with pytest.raises(hb.InvalidInput, match="be one of labels without named questions"):
        hb.compare_power(strings, 0.2, 0.3)
