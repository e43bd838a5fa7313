"""Plans of surveys in words: error, layout, messages and noise of every question, on screens and pages."""

import json
import re
from html import unescape

import pytest
from tests.report.structure import check_page

import hubbub as hb
from hubbub.cli import screen
from hubbub.model.protocol import Noise
from hubbub.planner import Goal, remarks
from hubbub.report import explanation, render, words
from hubbub.report.plan_report import Background, plan_report
from hubbub.report.sentences import batch_fakes, described_layout, described_protocol
from hubbub.report.words import described_questions

SURVEY = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "<blue>"]),
        "dark mode": hb.Flag(missing=True),
        "load time": hb.Scale(0, 4096, buckets=256, unit="ms", levels=[16, 1]),
        "memory": hb.Number(0, 65_536, unit="MB", digits=[4, 4], variance=True),
        "both": hb.Cross("colour", "dark mode"),
    },
    derived=["colour"],
)
FLAGS = hb.Schema.survey({"a": hb.Flag(), "b": hb.Flag()})
SCALES = (8.0, 8.5, 7.5, 100.0, 40.0, 100.0, 40.0, 6.5)
LAPLACE = [hb.Fakes.laplace(b, int(16 * b)) for b in SCALES]
PLANS = {
    "shuffler's fakes": hb.plan_from(SURVEY, 10_000, hb.Protocol.survey([Noise(m=one) for one in LAPLACE]), delta=1e-6),
    "users' fakes": hb.plan_from(
        FLAGS, 1000, hb.Protocol.survey([Noise(m=hb.Fakes.binomial(4, 0.25))] * 2), delta=1e-6
    ),
    "split": hb.plan_from(FLAGS, 1000, hb.Protocol.survey([Noise(0.05), Noise(0.125)]), delta=1e-6),
    "response": hb.plan_from(FLAGS, 1000, hb.Protocol.survey([Noise(0.25)] * 2, "category"), delta=1e-6),
    "mixed": hb.plan_from(
        FLAGS, 1000, hb.Protocol.survey([Noise(0.25), Noise(m=hb.Fakes.gaussian(14.0, 90))]), delta=1e-6
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_print_shows_every_question_with_its_error(name: str) -> None:
    """Regression: printing the plan of a survey failed, because it has no single flip probability."""
    plan = PLANS[name]
    text = str(plan)
    for one in hb.question_errors(plan):
        unit = f" {one.unit}" if one.unit else ""
        assert f"{one.question}: {one.stderr:,.4g}{unit} (standard error of {one.measures})" in text
    assert plan.id in text
    assert "nan" not in text
    assert repr(plan).startswith(f"Plan({plan.id[:8]}…: Schema.survey(")


@pytest.mark.parametrize(
    ("name", "words_of"),
    [
        (
            "shuffler's fakes",
            "8 answers in the clear: Laplace fakes of scale 6.5 to 100 in every category, drawn by the shuffler",
        ),
        ("users' fakes", "2 answers in the clear: Binomial fakes of the users, 1 each on average"),
        ("split", "2 answers by split bits: q = 0.05 to 0.125"),
        ("response", "2 answers by randomized response: q = 0.25"),
        (
            "mixed",
            "1 by split bits: q = 0.25; 1 in the clear: Gaussian fakes of scale 14 in every category, drawn by the "
            "shuffler",
        ),
    ],
)
def test_protocols_in_words(name: str, words_of: str) -> None:
    assert described_protocol(PLANS[name].protocol) == words_of


def test_layouts_in_words() -> None:
    plan = PLANS["shuffler's fakes"]
    assert {one.name: one.layout for one in described_questions(plan)} == {
        "colour": "3 labels, from the cross-table 'both'",
        "dark mode": "yes or no, or no answer",
        "load time": "256 buckets in levels of 16 and 1",
        "memory": "16 levels in 2 digits of base 4, also of the square",
        "both": "9 cells, colour × dark mode",
    }
    noise = {one.name: one.noise for one in described_questions(plan)}
    assert noise["load time"] == "Laplace(8.5) + 136, Laplace(7.5) + 120 fakes per category"
    assert noise["colour"] == ""
    assert [one.messages for one in described_questions(plan)] == [0, 1, 2, 4, 1]


def test_a_layout_that_is_not_chosen_is_one_level() -> None:
    questions = hb.Schema.survey({"a": hb.Scale(edges=[0, 1, 10, 100])}).questions
    assert described_layout("a", questions) == "3 buckets"


def test_fakes_of_a_batch_add_up() -> None:
    plan = PLANS["shuffler's fakes"]
    sizes = [one.size for one in plan.schema.attributes]
    expected = sum(size * fakes.mean for size, fakes in zip(sizes, LAPLACE, strict=True))
    assert batch_fakes(plan) == pytest.approx(expected)
    assert f"fakes        {expected:,.0f} in a batch, drawn by the shuffler" in str(plan)
    assert batch_fakes(PLANS["users' fakes"]) == pytest.approx(2 * 1000 * 1.0)
    assert batch_fakes(PLANS["split"]) == 0
    assert "fakes  " not in str(PLANS["split"])


def test_a_goal_says_how_many_people_it_needs() -> None:
    plan = PLANS["shuffler's fakes"]
    rows = dict(words.described_plan(plan, Goal(0.01, 0.05), 0.01))
    assert rows["goal"] == "±5% for 1% of the people: missed"
    assert rows["precision"].startswith("a label held by 1% of the people is measured within ±")
    assert re.match(
        r"[\d,]+ people measure a label held by 1% .*: \d\d\.\d% of the squared error is sampling", rows["needed"]
    )
    assert "needed" not in dict(words.described_plan(plan))


def test_the_json_record_has_the_questions() -> None:
    record = json.loads(json.dumps(screen.plan_record(PLANS["shuffler's fakes"])))
    assert "q" not in record["protocol"]
    assert [one["question"] for one in record["questions"]] == ["colour", "dark mode", "load time", "memory", "both"]
    found = record["questions"][3]
    assert (found["unit"], found["measures"], found["messages"]) == ("MB", "the mean", 4)
    assert record["fakes"] == pytest.approx(batch_fakes(PLANS["shuffler's fakes"]))


@pytest.mark.parametrize("name", PLANS)
def test_the_explanation_names_every_question(name: str) -> None:
    plan = PLANS[name]
    parts = dict(explanation.explain(plan))
    asked, precise = " ".join(parts["What is asked"]), " ".join(parts["How precise the results are"])
    for question in plan.schema.questions.names:
        assert question in precise
        assert question in asked or question == "both"
    assert "separate messages, and nothing links them" in " ".join(parts["What leaves a device"])
    if name == "shuffler's fakes":
        assert "only which of 256 ranges it falls in is sent; numbers outside count in the first or last range" in asked
        assert "rounded at random to one of 16 evenly spaced values" in asked
    assert "for each bit" not in " ".join(parts["What must hold"])


def test_the_explanation_says_what_is_done_with_an_answer() -> None:
    told = {name: " ".join(explanation.leaves(plan)) for name, plan in PLANS.items()}
    assert "Every part is sent unchanged" in told["shuffler's fakes"]
    assert "The shuffler adds a random number of fakes for every category" in told["shuffler's fakes"]
    assert "It adds fakes, messages with a random category: 2 on average" in told["users' fakes"]
    assert "with a probability of 5 to 12\u00a0%, depending on the part" in told["split"]
    assert "With a probability of 25\u00a0%, the device replaces" in told["response"]
    assert "1 of the parts is sent unchanged" in told["mixed"]


def test_the_example_is_a_legal_answer() -> None:
    answer, sent = explanation.example(PLANS["shuffler's fakes"])
    assert answer == "colour: red; dark mode: yes; load time: 1024 ms; memory: 16384 MB"
    assert len(sent) == 8
    assert "load time: 1024 to 1280" in [what for what, _ in sent]


@pytest.mark.parametrize("name", PLANS)
def test_every_survey_has_a_page(name: str) -> None:
    page = render(plan_report(PLANS[name], Background(question="What <now>?", alternatives=[PLANS[name]], central=2.0)))
    check_page(page, 0)
    text = unescape(re.sub(r"<[^>]*>", " ", page))
    assert "<h2>How each question is collected</h2>" in page
    for one in described_questions(PLANS[name]):
        assert one.layout in text
        assert one.noise in text


def test_an_error_as_large_as_the_crowd_is_noticed() -> None:
    wide = hb.Protocol.survey([Noise(m=hb.Fakes.laplace(500.0, 8000)), Noise(m=hb.Fakes.laplace(8.0, 130))])
    (text,) = [one for one in remarks(hb.plan_from(FLAGS, 1000, wide, delta=1e-6)) if "crowd" in one]
    assert text.startswith("The error of 'a' is about as large as the crowd")
    assert not [one for one in remarks(PLANS["shuffler's fakes"]) if "crowd" in one]
