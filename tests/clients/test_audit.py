"""``hubbub audit`` passes the JavaScript client at every protocol point, and fails clients with a defect."""

import shutil
from pathlib import Path

import pytest

import hubbub as hb
from hubbub.lab.audit.commands import ClientCommand
from hubbub.lab.audit.trial import audit
from hubbub.plans import Plan

CLIENT = Path(__file__).parents[2] / "clients" / "js"
NODE = shutil.which("node")
pytestmark = pytest.mark.usefixtures("node")
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
