"""Simulated collections: the truth is what was asked for, intervals cover it, and pasted answers stay out of errors."""

import numpy as np
import pytest
from tests.studio.conftest import INQUIRY, QUESTIONS

import hubbub as hb
from hubbub.studio.inquiry import Inquiry
from hubbub.studio.trials import trials, true_counts

PLAN = hb.plan(hb.Schema.one_hot(4), 1000, epsilon=1.0, delta=1e-6, trust="shuffler-noise")
SURVEY = hb.plan(
    Inquiry.from_document({**INQUIRY, "kind": "survey", "questions": QUESTIONS}).schema,
    3000,
    epsilon=2.0,
    delta=1e-6,
    trust="shuffler-noise",
    family="clear-shuffler-fakes",
)
ROWS = "colour, dark mode, age, load time\nred, yes, 20, 8\nred, no, 40, 8\ngreen, yes, 60, 56\n"


@pytest.mark.parametrize("shares", [[1, 1, 1, 1], [0.1, 0.2, 0.3, 0.4], [0, 0, 0, 5], [1e-9, 1, 2, 3]])
def test_counts_add_up(shares: list[float]) -> None:
    counts = true_counts(PLAN, shares)
    assert counts.sum() == 1000
    assert np.abs(counts - 1000 * np.array(shares) / sum(shares)).max() < 1


def test_a_few_answers_stay_within_their_number() -> None:
    plan = hb.plan(hb.Schema.at_most(2, 5), 1000, epsilon=1.0, delta=1e-6, trust="nobody")
    assert true_counts(plan, [0.9] * 5).sum() <= 2000
    assert true_counts(plan, [0.9, 0.1, 0, 0, 0]).tolist() == [900, 100, 0, 0, 0]


@pytest.mark.parametrize("shares", [[1, 2, 3], [1, 1, 1, -1], [0, 0, 0, 0], [float("nan"), 1, 1, 1]])
def test_bad_shares(shares: list[float]) -> None:
    with pytest.raises(hb.InvalidInput, match="shares must"):
        true_counts(PLAN, shares)


@pytest.mark.parametrize("shape", ["even", "few", "rare"])
def test_intervals_cover_the_truth(shape: str) -> None:
    rows = [row for _ in range(60) for row in trials(PLAN, shape, [], "")[0]["rows"]]
    covered = np.mean([row["low"] <= row["truth"] <= row["high"] for row in rows])
    assert covered > 0.88
    assert np.mean([row["low"] <= row["truth"] + 40 <= row["high"] for row in rows]) < 0.5, "the control"


STRINGS = hb.plan(hb.Schema.strings(64), 100_000, epsilon=1.0, delta=1e-8, trust="shuffler-noise")


@pytest.mark.parametrize("shape", ["even", "few", "rare"])
def test_strings_are_shown_with_their_intervals(shape: str) -> None:
    (panel,) = trials(STRINGS, shape, [], "")
    frequent = [row for row in panel["rows"] if row["truth"] > 100]
    assert len(frequent) >= 10
    assert 16 <= panel["shown"] <= panel["held"]
    assert sum(row["low"] <= row["truth"] <= row["high"] for row in frequent) >= len(frequent) - 5
    assert all(len(row["others"]) == 24 for row in frequent)
    assert all(abs(other - row["truth"]) < 60 for row in frequent for other in row["others"])


def test_pasted_strings() -> None:
    (panel,) = trials(STRINGS, "few", [90_000, 9_990, 10], "")
    assert [row["truth"] for row in panel["rows"]] == [90_000, 9_990], "ten holders are not shown"
    assert (panel["shown"], panel["held"]) == (2, 3)
    for bad in ([0.0, 0.0], [1.0, -1.0], [float("nan")]):
        with pytest.raises(hb.InvalidInput, match="shares must"):
            trials(STRINGS, "few", bad, "")


def test_surveys() -> None:
    panels = {one["name"]: one for one in trials(SURVEY, "few", [], "")}
    assert list(panels) == ["colour", "dark mode", "age", "load time"]
    assert sum(row["truth"] for row in panels["colour"]["rows"]) == pytest.approx(3000)
    assert [row["label"] for row in panels["load time"]["rows"]][2] == "50 % are below"
    for panel in panels.values():
        for row in panel["rows"]:
            assert all(np.isfinite([row["truth"], row["estimate"], row["low"], row["high"], *row["others"]]))


def test_pasted_answers() -> None:
    panels = {one["name"]: one for one in trials(SURVEY, "few", [], ROWS)}
    assert [(row["label"], round(row["truth"])) for row in panels["colour"]["rows"]][:2] == [
        ("red", 2000),
        ("green", 1000),
    ]
    (mean,) = panels["age"]["rows"]
    assert mean["truth"] == pytest.approx(40, abs=2)
    assert mean["low"] - 2 <= 40 <= mean["high"] + 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("colour\nred", "the first pasted line must name the questions"),
        ("colour,dark mode,age,load time", "the number of pasted lines must"),
        (f"{ROWS}secret,yes,1,1", "record 4 .*label that is not in the schema"),
        (f"{ROWS}red,secret,1,1", "record 4 must answer yes or no"),
        (f"{ROWS}red,yes,secret,1", "record 4 must answer with a number"),
        (f"{ROWS}red,yes,nan,1", "record 4 must answer with a number"),
        (f"{ROWS}red,secret", "record 4 must have 4 cells"),
        (f'{ROWS}"{"secret" * 30_000}', "the pasted lines must be a header and lines of answers"),
        (" ", "the pasted lines must be a header and lines of answers"),
    ],
)
def test_bad_answers(rows: str, message: str) -> None:
    with pytest.raises(hb.InvalidInput, match=message) as caught:
        trials(SURVEY, "few", [], rows)
    assert "secret" not in str(caught.value)
