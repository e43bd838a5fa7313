"""``hubbub audit`` passes the JavaScript client at every protocol point, and fails clients with a defect."""

import shutil
from pathlib import Path

import pytest

import hubbub as hb
from hubbub.lab.audit.commands import ClientCommand
from hubbub.lab.audit.trial import audit
from hubbub.model.plans import Plan
from hubbub.model.protocol import Noise

CLIENT = Path(__file__).parents[2] / "clients" / "js"
NODE = shutil.which("node")
pytestmark = [pytest.mark.usefixtures("node"), pytest.mark.long]
POINTS: dict[str, tuple[hb.Schema, hb.Protocol]] = {
    "flip": (hb.Schema.one_hot(["red", "green", "blue"]), hb.Protocol(0.1)),
    "copies": (hb.Schema.bits(5), hb.Protocol(0.25, 3)),
    "split": (hb.Schema.one_hot(10), hb.Protocol(0.05, release="bits")),
    "category": (hb.Schema.one_hot(5), hb.Protocol(0.1, release="category")),
    "fakes of users": (hb.Schema.one_hot(4), hb.Protocol(0.1, m=hb.Fakes.poisson(0.5))),
    "clear among fakes": (hb.Schema.one_hot(4), hb.Protocol(0.0, m=hb.Fakes.binomial(4, 0.5))),
    "fixed fakes": (hb.Schema.at_most(2, 6), hb.Protocol(0.2, m=200)),
    "fakes of the shuffler": (hb.Schema.one_hot(4), hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25))),
}
SEED_RUNS = 20
"""Short runs, enough for a fixed seed; each starts Node."""


def plan_of(name: str, folder: Path) -> tuple[Plan, str]:
    schema, protocol = POINTS[name]
    plan = hb.plan_from(schema, 100, protocol, epsilon=3.0)
    path = folder / "plan.json"
    path.write_text(plan.to_json(), encoding="utf-8")
    return plan, str(path)


@pytest.mark.parametrize(
    "name", ["flip", *(pytest.param(one, marks=pytest.mark.slow) for one in POINTS if one != "flip")]
)
def test_the_client_passes(name: str, tmp_path: Path) -> None:
    plan, path = plan_of(name, tmp_path)
    found = audit(
        plan, ClientCommand((str(NODE), str(CLIENT / "bin" / "randomize.js"), path)), None, seed_runs=SEED_RUNS
    )
    assert found.passed, found.sentence()


@pytest.mark.parametrize(
    ("defect", "words"),
    [("unflipped", "never flipped"), ("weaker", "less often than planned"), ("seeded", "previous run")],
)
def test_a_defect_is_found(defect: str, words: str, tmp_path: Path) -> None:
    plan, path = plan_of("flip", tmp_path)
    broken = ClientCommand((str(NODE), str(CLIENT / "test" / "broken.js"), defect, path))
    found = audit(plan, broken, None, seed_runs=SEED_RUNS)
    assert not found.private
    assert words in " ".join(one.text for one in found.diagnoses)


SURVEY = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue"], missing=True),
        "dark mode": hb.Flag(),
        "age": hb.Scale(0, 100, buckets=5, levels=[2, 1]),
        "memory": hb.Number(0, 15, digits=[4, 2], variance=True),
        "table": hb.Cross("colour", "dark mode"),
    }
)
COUNT = len(SURVEY.attributes)
SURVEYS = {
    "flips": hb.Protocol.survey([Noise(0.1)] * COUNT, "bits"),
    "responses": hb.Protocol.survey([Noise(0.05)] * COUNT, "category"),
    "fakes of users": hb.Protocol.survey([Noise(m=hb.Fakes.poisson(1.0))] * COUNT, "bits"),
    "fakes of the shuffler": hb.Protocol.survey([Noise(m=hb.Fakes.laplace(6.0, 72))] * COUNT, "bits"),
}
RUNS = 1000


SMALL = hb.Schema.survey({"colour": hb.Choice(["red", "blue"]), "memory": hb.Number(0, 3, digits=[4])})
"""Few categories, because Node starts several times for each."""


def survey_plan(name: str, folder: Path) -> tuple[Plan, str]:
    if name == "small":
        plan = hb.plan_from(SMALL, 400, hb.Protocol.survey([Noise(0.1), Noise(0.2)], "bits"), delta=1e-4)
    else:
        plan = hb.plan_from(SURVEY, 400, SURVEYS[name], delta=1e-4)
    path = folder / "plan.json"
    path.write_text(plan.to_json(), encoding="utf-8")
    return plan, str(path)


def test_the_client_passes_with_a_survey(tmp_path: Path) -> None:
    plan, path = survey_plan("small", tmp_path)
    client = ClientCommand((str(NODE), str(CLIENT / "bin" / "randomize.js"), path))
    found = audit(plan, client, None, runs=RUNS, seed_runs=0)
    assert found.passed, found.sentence()
    assert {one.where.partition(": ")[0] for one in found.findings} == {"colour", "memory"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SURVEYS)
def test_the_client_passes_with_every_question(name: str, tmp_path: Path) -> None:
    plan, path = survey_plan(name, tmp_path)
    client = ClientCommand((str(NODE), str(CLIENT / "bin" / "randomize.js"), path))
    found = audit(plan, client, None, runs=RUNS, seed_runs=SEED_RUNS)
    assert found.passed, found.sentence()
    assert {one.where.partition(":")[0].partition(",")[0] for one in found.findings} >= {
        *("colour", "dark mode", "age", "memory", "table")
    }
    assert any("unused" in one for one in found.notes)


def test_an_attribute_without_flips_is_found(tmp_path: Path) -> None:
    plan, path = survey_plan("small", tmp_path)
    broken = ClientCommand((str(NODE), str(CLIENT / "test" / "broken.js"), "attribute", path))
    found = audit(plan, broken, None, runs=RUNS, seed_runs=0)
    assert not found.private
    assert {one.where.partition(": ")[0] for one in found.violations} == {"memory"}
