"""Surveys on the command line: from a survey file and columns of answers to a table for every question."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Call, call
from tests.report.structure import check_page

import hubbub as hb
from hubbub.errors import InvalidInput, PlanMismatch
from hubbub.io.documents import read_result, write_plan
from hubbub.io.surveys import read_survey
from hubbub.model.protocol import Noise

SURVEY = """
[questions.colour]
kind = "choice"
labels = ["red", "green", "blue"]

[questions."dark mode"]
kind = "flag"
missing = true
weight = 3

[questions."load time"]
kind = "scale"
low = 0
high = 100
buckets = 16
unit = "ms"
levels = [4, 1]

[questions.memory]
kind = "number"
low = 0
high = 1000
unit = "MB"
digits = [4, 4, 4]

[questions.both]
kind = "cross"
names = ["colour", "dark mode"]
"""
PEOPLE = 2000


def rows() -> list[tuple[str, str, str, str]]:
    """Answers with known figures: a median of 50 ms, a mean of 400 MB."""
    colours, modes = ("red", "red", "green", "blue"), ("1", "0", "", "true", "1")
    return [(colours[i % 4], modes[i % 5], str((i % 100) + 0.5), str(200 + i % 401)) for i in range(PEOPLE)]


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a survey file, its plan, the answers and the shuffled reports."""
    folder = tmp_path_factory.mktemp("survey")
    (folder / "survey.toml").write_text(SURVEY)
    schema = hb.Survey.from_toml(SURVEY).schema
    noise = [Noise(m=hb.Fakes.laplace(5.0, 90))] * len(schema.attributes)
    write_plan(hb.plan_from(schema, 1000, hb.Protocol.survey(noise), delta=1e-6), str(folder / "plan.json"))
    lines = [("colour", "dark mode", "load time", "memory"), *rows()]
    (folder / "answers.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (
            ("randomize", "answers.csv", "--plan", "plan.json", "-o", "reports.hub"),
            ("shuffle", "reports.hub", "--plan", "plan.json", "-o", "mixed.hub"),
        ):
            done = call(*words)
            assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def survey(collected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test."""
    place = tmp_path / "work"
    shutil.copytree(collected, place)
    monkeypatch.chdir(place)
    return place


def test_a_survey_file_becomes_a_plan(survey: Path, run: Call) -> None:
    (survey / "two.toml").write_text(
        '[questions.a]\nkind = "flag"\nweight = 4\n[questions.b]\nkind = "scale"\nlow = 0\nhigh = 8\nbuckets = 2'
    )
    words = [
        "plan",
        "--survey",
        "two.toml",
        "-n",
        "1000",
        "--epsilon",
        "8",
        "--delta",
        "1e-6",
        "--trust",
        "nobody",
        "-o",
        "own.json",
    ]
    done = run(*words)
    assert done.exit_code == 0, done.output
    plan = hb.load_plan((survey / "own.json").read_text())
    assert plan.schema == read_survey("two.toml").schema
    assert "survey of 2 questions, 4 categories in all" in done.stdout
    assert "b: " in done.stdout
    assert json.loads(run(*words[:-2], "--json").stdout)["id"] == plan.id
    told = run(*words[:-2], "--explain").stdout
    assert "Every person answers 2 questions." in told


def test_the_frontier_of_a_survey(survey: Path, run: Call) -> None:
    (survey / "one.toml").write_text('[questions.a]\nkind = "flag"\n[questions.b]\nkind = "flag"\n')
    words = ["frontier", "--survey", "one.toml", "-n", "1000", "--epsilon", "4", "--delta", "1e-6", "--trust", "nobody"]
    done = run(*words, "-o", "own.json")
    assert done.exit_code == 0, done.output
    assert "local randomized response" in done.stdout
    assert "root mean square over all questions" in " ".join(done.stdout.split())
    assert "central mechanism" not in done.stdout
    record = json.loads(run(*words, "--json").stdout)
    assert record["central_stderr"] is None
    assert record["plans"][0]["id"] == hb.load_plan((survey / "own.json").read_text()).id


def test_the_weights_of_the_file_are_used(survey: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def search(request: hb.planner.Request, **rest: object) -> hb.planner.Search:
        seen.update(weights=request.weights, schema=request.schema)
        raise hb.Infeasible("stop here")

    monkeypatch.setattr("hubbub.planner.Search.of", search)
    done = run(*["plan", "--survey", "survey.toml", "-n", "1000", "--epsilon", "1", "--delta", "1e-6"])
    assert done.exit_code == 3
    assert seen["weights"] == {"dark mode": 3.0}
    assert seen["schema"] == read_survey("survey.toml").schema


def test_inspect_describes_every_question(survey: Path, run: Call) -> None:
    told = run("inspect", "plan.json").stdout
    for text in ("16 buckets in levels of 4 and 1", "64 levels in 3 digits of base 4", "9 cells, colour × dark mode"):
        assert text in told
    assert "all claims recomputed" in told
    record = json.loads(run("inspect", "plan.json", "--json").stdout)
    assert [one["messages"] for one in record["questions"]] == [1, 1, 2, 3, 1]


def test_a_table_for_every_question(survey: Path, run: Call) -> None:
    done = run("estimate", "mixed.hub", "--plan", "plan.json")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    names = ["colour", "dark mode", "load time", "memory", "both"]
    assert [line.strip() for line in lines if line.strip() in names] == names
    for text in ("red", "no answer", "median", "95% quantile", "mean", "sum", "colour × dark mode", "total"):
        assert text in done.stdout
    assert f"{PEOPLE:,} people; this batch is (" in done.stdout


def test_estimates_are_right(survey: Path, run: Call) -> None:
    run("estimate", "mixed.hub", "--plan", "plan.json", "-o", "estimate.json")
    found = read_result("estimate.json")
    assert isinstance(found, hb.Result)
    red, time, memory = found["colour"], found["load time"], found["memory"]
    assert isinstance(red, hb.LabelView)
    assert isinstance(time, hb.ScaleView)
    assert isinstance(memory, hb.NumberView)
    truth = sum(row[0] == "red" for row in rows())
    assert abs(red["red"].value - truth) < 6 * red["red"].stderr
    low, high = time.median.interval(0.9999)
    assert low <= 50 <= high
    mean = sum(float(row[3]) for row in rows()) / PEOPLE
    assert abs(memory.mean.value - mean) < 6 * memory.mean.stderr


def test_results_as_files(survey: Path, run: Call) -> None:
    for name in ("all.csv", "all.parquet", "all.json", "all.html"):
        assert run("estimate", "mixed.hub", "--plan", "plan.json", "-o", name).exit_code == 0
    with open("all.csv", newline="") as file:  # noqa: PTH123
        found = list(csv.DictReader(file))
    assert {row["question"] for row in found} == {"colour", "dark mode", "load time", "memory", "both"}
    assert {row["unit"] for row in found if row["question"] == "load time"} == {"ms"}
    check_page((survey / "all.html").read_text(), 5)
    assert json.loads((survey / "all.json").read_text())["people"] == PEOPLE
    told = run("estimate", "mixed.hub", "--plan", "plan.json", "--json").stdout
    assert json.loads(told)["format"] == "hubbub result 3"
    assert json.loads(run("estimate", "mixed.hub", "--plan", "plan.json", "-o", "-").stdout)["people"] == PEOPLE


def test_one_question_in_detail(survey: Path, run: Call) -> None:
    done = run(
        *["estimate", "mixed.hub", "--plan", "plan.json", "--question"], "load time", "-o", "one.csv", "--plot", "a.svg"
    )
    assert done.exit_code == 0, done.output
    assert "memory" not in done.stdout
    with open("one.csv", newline="") as file:  # noqa: PTH123
        edges = [float(row["edge"]) for row in csv.DictReader(file)]
    assert edges == [6.25 * i for i in range(1, 16)]
    assert "<svg" in (survey / "a.svg").read_text()


def test_a_page_about_plan_and_results(survey: Path, run: Call) -> None:
    run("estimate", "mixed.hub", "--plan", "plan.json", "-o", "week.json")
    done = run("report", "plan.json", "week.json", "-o", "page.html")
    assert done.exit_code == 0, done.output
    page = (survey / "page.html").read_text()
    check_page(page, 5)
    assert "Results: week, load time" in page
    assert "How each question is collected" in page
    (survey / "other.json").write_text((survey / "week.json").read_text().replace('"MB"', '"GB"'))
    assert run("report", "plan.json", "other.json", "-o", "page.html").exit_code == 4


def test_two_weeks_are_compared(survey: Path, run: Call) -> None:
    run("estimate", "mixed.hub", "--plan", "plan.json", "-o", "one.json")
    lines = [("colour", "dark mode", "load time", "memory"), *(("blue", *row[1:2], "20", row[3]) for row in rows())]
    (survey / "later.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    run("randomize", "later.csv", "--plan", "plan.json", "-o", "later.hub")
    run("shuffle", "later.hub", "--plan", "plan.json", "-o", "later-mixed.hub")
    run("estimate", "later-mixed.hub", "--plan", "plan.json", "-o", "two.json")
    done = run("compare", "one.json", "two.json", "-o", "changes.csv")
    assert done.exit_code == 0, done.output
    assert "questions that differ" in done.stdout
    one, two = (hb.Result.from_json((survey / f"{name}.json").read_text()) for name in ("one", "two"))
    found = hb.compare(one, two)
    assert {"colour", "load time"} <= set(found.significant)
    assert "memory" not in found.significant
    with open("changes.csv", newline="") as file:  # noqa: PTH123
        medians = [row for row in csv.DictReader(file) if row["item"] == "median"]
    assert [row["question"] for row in medians] == ["load time"]
    assert -40 < float(medians[0]["difference"]) < -20
    shown = run("compare", "one.json", "two.json", "--question", "load time", "--plot", "change.svg")
    assert shown.exit_code == 0, shown.output
    assert "colour" not in shown.stdout.split("people in A")[0]
    assert json.loads(run("compare", "one.json", "two.json", "--json").stdout)["people_a"] == PEOPLE


def test_surveys_are_compared_with_surveys(survey: Path, run: Call) -> None:
    run("estimate", "mixed.hub", "--plan", "plan.json", "-o", "one.json")
    noise = [Noise(m=hb.Fakes.laplace(5.0, 90))]
    flag = hb.Schema.survey({"a": hb.Flag()})
    plan = hb.plan_from(flag, 2, hb.Protocol.survey(noise), delta=1e-6)
    people = hb.Collection.from_values({"a": [True, False]}, flag)
    tally = hb.tally(hb.shuffle(hb.randomize(people, plan), plan))
    (survey / "flag.json").write_text(hb.estimate(tally, plan).to_json())
    labels = hb.Schema.one_hot(["x", "y"])
    other = hb.plan_from(labels, 2, hb.Protocol(0.1), delta=1e-6)
    counted = hb.tally(hb.shuffle(hb.randomize(hb.Collection.from_values(["x", "y"], labels), other), other))
    (survey / "labels.json").write_text(hb.estimate(counted, other).to_json())
    assert "must both be of surveys" in run("compare", "one.json", "labels.json").stderr
    assert "must be results of the same questions" in run("compare", "one.json", "flag.json").stderr
    for words in (("--question", "none"), ("--plot", "a.svg")):
        done = run("compare", "one.json", "flag.json", *words)
        assert done.exit_code == 2
        assert "--question" in done.stderr


def test_clipped_answers_are_told(survey: Path, run: Call) -> None:
    (survey / "far.csv").write_text("colour,dark mode,load time,memory\nred,1,-1,2000\nred,1,5,5\n")
    done = run("randomize", "far.csv", "--plan", "plan.json", "-o", "far.hub", "--json")
    assert "note: 2 records read; 2 numbers outside a question's bounds are clipped\n" in done.stderr
    assert "do not pass them on" in done.stderr


def test_invalid_answers_stop_everything(survey: Path, run: Call) -> None:
    (survey / "bad.csv").write_text("colour,dark mode,load time,memory\nred,1,5,5\nmauve,1,5,5\nred,1,,5\n")
    done = run("randomize", "bad.csv", "--plan", "plan.json", "-o", "bad.hub")
    assert done.exit_code == 2
    assert "bad.csv: record 2 (column 'colour') has a label that is not in the schema" in done.stderr
    assert "1 more record is invalid" in done.stderr
    assert "hint: correct the record, or use --on-error skip and --rejects;" in done.stderr
    assert "mauve" not in done.stderr
    assert not (survey / "bad.hub").exists()


@pytest.mark.parametrize("words", [("survey",), ("plan", "-n", "9", "--epsilon", "1", "--delta", "1e-6", "--survey")])
def test_errors_of_survey_files_point_to_the_keys(survey: Path, run: Call, words: tuple[str, ...]) -> None:
    (survey / "wrong.toml").write_text("[questions.a]\nkind = 'flag'\nbukets = 4\n")
    done = run(*words, "wrong.toml")
    assert done.exit_code == 2
    assert "hint: the keys are listed in docs/howto/surveys.md; `hubbub survey` prints an example\n" in done.stderr


def test_numbers_cannot_be_in_cross_tables(survey: Path, run: Call) -> None:
    number = "[questions.m]\nkind = 'number'\nlow = 0\nhigh = 1\n"
    text = f"{number}[questions.a]\nkind = 'flag'\n[questions.x]\nkind = 'cross'\nnames = ['a', 'm']\n"
    (survey / "wrong.toml").write_text(text)
    assert "'m' is a number, which cannot be in a cross-table" in run("survey", "wrong.toml").stderr
    with pytest.raises(InvalidInput, match=r"'m'.*a Number cannot be in a cross-table"):
        hb.Schema.survey({"m": hb.Number(0, 1), "a": hb.Flag(), "x": hb.Cross("a", "m")})


def test_errors_of_plans_for_surveys_name_the_cause() -> None:
    schema = hb.Schema.survey({"a": hb.Flag(), "t": hb.Scale(0, 64, buckets=64)})
    with pytest.raises(InvalidInput, match="weights must name questions of the survey, but 'zz' is none"):
        hb.plan(schema, 100, hb.Budget(1.0, 1e-6), weights={"zz": 2})
    chosen = hb.Schema.survey({"a": hb.Flag(), "t": hb.Scale(0, 64, buckets=64, levels=[8, 1])})
    plan = hb.plan_from(chosen, 2, hb.Protocol.survey([Noise(m=hb.Fakes.laplace(5.0, 90))] * 3), delta=1e-6)
    people = hb.Collection.from_values({"a": [True], "t": [5]}, schema)
    with pytest.raises(PlanMismatch, match=r"encode with plan\.schema, whose layout the planner chose"):
        hb.randomize(people, plan)
    shown = str(plan)
    assert "the number of messages for each category" in shown
    assert "for each bit" not in shown


def test_the_survey_file_to_begin_with_is_valid(survey: Path, run: Call) -> None:
    assert run("survey", "-o", "new.toml").exit_code == 0
    told = run("survey", "new.toml")
    assert told.exit_code == 0
    for text in ("Choice(4 labels, missing=True)", "Scale(0 to 4096 ms, 256 buckets)", "Cross('colour', 'dark mode')"):
        assert text in told.stdout
    assert json.loads(run("survey", "new.toml", "--json").stdout)["weights"] == {"load time": 2.0}
    assert run("survey").stdout.endswith("]\n")
    assert run("survey").stdout == (survey / "new.toml").read_text()
