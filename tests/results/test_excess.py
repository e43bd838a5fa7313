"""Counts above the number of people: no data cause them, and every result says so."""

from typing import Any

import numpy as np
import pytest

import hubbub as hb
from hubbub.report import html_table, result_page

N = 500
PLAN = hb.plan_from(hb.Schema.one_hot(["red", "green", "blue"]), N, hb.Protocol(0.05, release="bits"), epsilon=1.0)
SURVEY = hb.Schema.survey({"colour": hb.Choice(["red", "green", "blue"]), "dark": hb.Flag()})
ANSWERS = hb.plan_from(SURVEY, N, hb.Protocol.survey([hb.Noise(0.05)] * 2), epsilon=1.0)
WORDS = "ore than the number of people: "


def counted(plan: hb.Plan, *numbers: int) -> hb.Tally:
    counts = np.array(numbers, np.int64)
    sizes: dict[str, Any] = {"n": N, "batches": 1, "smallest_batch": N, "fakes": 0, "messages": int(counts.sum())}
    return hb.Tally(plan=plan.id, counts=counts, **sizes)


def test_counts_above_the_people_are_named() -> None:
    """Regression: 4,081 of 1,260 people were "green", without a remark."""
    found = hb.estimate(counted(PLAN, 30, 1600, 30), PLAN)
    assert found.excess == ("green",)
    for text in (result_page(found), html_table(found)):
        assert f"{WORDS}green; some devices counted more than once" in text
    assert hb.Result.from_json(found.to_json()).excess == ("green",)
    survey = hb.estimate(counted(ANSWERS, 30, 1600, 30, 260, 260), ANSWERS)
    assert survey.excess == ("colour, green",)
    assert f"{WORDS}colour, green; " in result_page(survey)


@pytest.mark.parametrize("plan", [PLAN, ANSWERS], ids=["labels", "survey"])
def test_noise_is_not_blamed_on_devices(plan: hb.Plan) -> None:
    """Everybody has one label: its estimate is above the number of people half of the time, and named by chance."""
    value = {"colour": "red", "dark": True} if plan is ANSWERS else "red"
    people = hb.Collection.from_values([value] * N, plan.schema)
    above = named = 0
    for _ in range(60):
        tally = hb.tally(hb.shuffle(hb.randomize(people, plan)))
        found = hb.estimate(tally, plan)
        counts = found.counts[0].values
        above += bool(counts[0] > N)
        named += bool(found.excess)
    assert above > 10
    assert named <= 12  # of 60 with a chance of 2.5 % for each of two questions: less than 10⁻⁴
