"""The planning commands print what the library computes."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.io.documents import read_plan
from hubbub.model.privacy import TRUST_MODELS
from hubbub.vectors import wire_vectors

TRUST = list(TRUST_MODELS)
REQUEST = ("--one-hot", "12", "-n", "10000", "--epsilon", "1", "--delta", "1e-6")


def test_account_prints_the_library_s_guarantee(run: Call) -> None:
    words = ("account", "--bits", "1", "-n", "1000", "--q", "0.1", "--delta", "1e-6")
    guarantee = hb.account(hb.Protocol(0.1), hb.Schema.bits(1), 1000, delta=1e-6)
    record = json.loads(run(*words, "--json").stdout)
    assert (record["epsilon"], record["lower_bound"], record["basis"]) == (
        guarantee.epsilon,
        guarantee.lower_bound,
        "exact",
    )
    assert "best attack" in run(*words).stdout


@pytest.mark.parametrize(
    ("fakes", "m"),
    [
        ("500", 500),
        ("binomial:2:0.25", hb.Fakes.binomial(2, 0.25)),
        ("poisson:1.5", hb.Fakes.poisson(1.5)),
        ("laplace:2:25", hb.Fakes.laplace(2.0, 25)),
    ],
)
def test_distributions_of_fakes(fakes: str, m: int | hb.Fakes, folder: Path, run: Call) -> None:
    result = run("account", "--one-hot", "3", "-n", "1000", "--m", fakes, "--epsilon", "2", "-o", "own.json")
    assert result.exit_code == 0, result.stderr
    assert read_plan(str(folder / "own.json")).protocol == hb.Protocol(0.0, m=m)


def test_calibrate_solves_for_noise_fakes_or_people(folder: Path, run: Call) -> None:
    budget = ("--epsilon", "1", "--delta", "1e-6")
    by_noise = json.loads(run("calibrate", "--bits", "1", "-n", "1000", *budget, "--json").stdout)
    assert by_noise["protocol"]["noise"][0]["flip"] / 2**48 == pytest.approx(0.031, abs=1e-3)
    by_fakes = json.loads(run("calibrate", "--one-hot", "10", "-n", "1000", "--q", "0", *budget, "--json").stdout)
    assert by_fakes["protocol"]["noise"][0]["m"] == 422
    by_people = json.loads(run("calibrate", "--bits", "1", "--q", "0.1", *budget, "--json").stdout)
    assert by_people["n"] < 1000
    assert run("calibrate", "--bits", "1", "--q", "0.1", *budget, "-o", "own.json").exit_code == 0
    assert read_plan(str(folder / "own.json")).n == by_people["n"]


@pytest.mark.long
def test_schemas(folder: Path, run: Call) -> None:
    (folder / "labels.txt").write_text("red\ngreen\nblue\n")
    (folder / "schema.json").write_text('{"kind": "at_most", "labels": ["a", "b", "c"], "max_set": 2}')
    rest = ("-n", "1000", "--q", "0.1", "--delta", "1e-6", "-o", "own.json")
    for words, schema in (
        (("--one-hot", "labels.txt"), hb.Schema.one_hot(["red", "green", "blue"])),
        (("--bits", "a,b"), hb.Schema.bits(["a", "b"])),
        (("--at-most", "2", "5"), hb.Schema.at_most(2, 5)),
        (("--schema", "schema.json"), hb.Schema.at_most(2, ["a", "b", "c"])),
    ):
        assert run("account", *words, *rest).exit_code == 0
        assert read_plan(str(folder / "own.json")).schema == schema


def test_frontier_and_plan_agree(folder: Path, run: Call) -> None:
    result = run("frontier", *REQUEST, "--json", "--plot", "out.svg", "-o", "best.json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert [row["trust"] for row in record["plans"]] == sorted(
        (row["trust"] for row in record["plans"]), key=TRUST.index
    )
    assert all(row["guarantee"]["epsilon"] <= 1 for row in record["plans"])
    for trust in TRUST:
        rows = [row for row in record["plans"] if row["trust"] == trust and (trust != "shuffling" or not row["clear"])]
        best = min(rows, key=lambda row: row["stderr"])
        assert json.loads(run("plan", *REQUEST, "--trust", trust, "--json").stdout)["id"] == best["id"]
        if trust == "shuffling":
            assert read_plan(str(folder / "best.json")).id == best["id"]
            assert json.loads(run("plan", *REQUEST, "--json").stdout)["id"] == best["id"]
    chart = (folder / "out.svg").read_text()
    assert all(word in chart for word in ("split bits", "local", "nobody", "a server that sees every record"))


def test_plan_solves_for_batch_size_or_epsilon(run: Call) -> None:
    words = ("plan", "--one-hot", "4", "--delta", "1e-6", "--json", "--trust", "shuffler-noise")
    smallest = json.loads(run(*words, "--epsilon", "1", "--precision", "0.1%").stdout)
    assert smallest["stderr"] <= 0.001 * smallest["n"]
    private = json.loads(run(*words, "-n", "20000", "--stderr", "2.8").stdout)
    assert private["stderr"] <= 2.8
    assert private["guarantee"]["epsilon"] <= 1.01


def test_frontier_as_text(folder: Path, run: Call) -> None:
    text = run("frontier", *REQUEST).stdout
    named = ("protocol", "collusion ε", "∞ (no protection)", "split bits", "central mechanism")
    titles = ("trust: nobody", "trust: shuffling (default)", "trust: shuffling --allow-clear", "trust: shuffler-noise")
    assert all(word in text for word in (*named, *titles))
    assert [text.index(title) for title in titles] == sorted(text.index(title) for title in titles)
    assert run("frontier", *REQUEST, "--choose", "split", "-o", "split.json").exit_code == 0
    assert read_plan(str(folder / "split.json")).protocol.release == "bits"


def test_constraints_are_passed_on(run: Call) -> None:
    record = json.loads(
        run(
            "frontier",
            *REQUEST,
            "--trust",
            "shuffling",
            "--allow-clear",
            "--joint",
            "--max-messages",
            "1.5",
            "--honest",
            "90%",
            "--json",
        ).stdout
    )
    assert record["plans"]
    assert "raise max_messages" in record["infeasible"]["clear-user-fakes"]
    for row in record["plans"]:
        assert row["protocol"]["release"] == "records"
        assert row["messages"] == 1
        assert row["bytes"] == 158
        assert row["payload_bytes"] == 2
        fakes = row["protocol"]["noise"][0]["m"]
        assert not isinstance(fakes, dict) or fakes["distribution"] in (
            "binomial",
            "poisson",
        )
        assert row["guarantee"]["assumptions"]["honest"] in (1, 9000)


def test_dishonest_users(run: Call) -> None:
    words = ("frontier", "--bits", "1", "-n", "1000", "--epsilon", "1", "--delta", "1e-6", "--dishonest", "0.5")
    rows = {row["family"]: row for row in json.loads(run(*words, "--json").stdout)["plans"]}
    assert rows["flip"]["under_attack"]["epsilon"] > 1.2
    assert rows["local-flip"]["under_attack"]["epsilon"] <= 1
    assert "50% dishonest" in run(*words).stdout


def test_inspect(folder: Path, run: Call) -> None:
    record = json.loads(run("inspect", "plan.json", "--json").stdout)
    assert record["file"] == "plan"
    assert record["id"] == read_plan(str(folder / "plan.json")).id
    assert "all claims recomputed" in run("inspect", "plan.json").stdout
    assert json.loads(run("inspect", "mixed.hub", "--json").stdout)["plan"] == record["id"]
    assert "give --plan" in run("inspect", "mixed.hub").stdout


def test_vectors(folder: Path, run: Call) -> None:
    assert json.loads(run("vectors").stdout) == wire_vectors()
    assert run("vectors", "-o", "vectors.json").exit_code == 0
    assert json.loads(run("vectors", "--check", "vectors.json", "--json").stdout)["agree"] == 377
    document = wire_vectors()
    good, bad = document["good"][0], document["bad"][1]
    message = good["messages"][0][0]
    for part, name, value in (
        (good, "messages", [[message[:-1] + "f"], *good["messages"][1:]]),
        (good, "batch", good["batch"][:-2]),
        (good, "values", good["values"][::-1]),
        (bad, "data", message),
        (bad, "error", "PlanMismatch"),
        (bad, "plan", "nonesuch"),
    ):
        kept, part[name] = part[name], value
        (folder / "changed.json").write_text(json.dumps(document))
        assert run("vectors", "--check", "changed.json").exit_code == 4
        part[name] = kept


def test_review_numbers_as_people_write_them(run: Call) -> None:
    words = ("account", "--bits", "1", "--q", "0.1", "--delta", "1e-6", "--json")
    for text in ("1000000", "1e6", "1,000,000", "1_000_000", "1.0e6"):
        assert json.loads(run(*words, "-n", text).stdout)["n"] == 10**6
    for text in ("1.5", "1e-3", "10,00", "1e6.5", "", "--5"):
        assert run(*words, "-n", text).exit_code == 2


@pytest.mark.long
def test_review_one_label_and_commas(folder: Path, run: Call) -> None:
    rest = ("-n", "1000", "--q", "0.1", "--delta", "1e-6", "-o", "own.json")
    long = "x" * 300
    for text, labels in (
        ("crashed", ["crashed"]),
        (f"{long},b", [long, "b"]),
        (long, [long]),
    ):
        result = run("account", "--bits", text, *rest)
        assert result.exit_code == 0, result.stderr
        assert read_plan(str(folder / "own.json")).schema == hb.Schema.bits(labels)
    for text in ("crashed,", "a,b,", "a,,b"):
        refused = run("account", "--bits", text, *rest)
        assert refused.exit_code == 2
        assert "labels must not be empty; remove the comma at the end, or between two commas" in refused.stderr
    assert "no such file" in run("account", "--bits", "labels.txt", *rest).stderr
    assert "bits, 1 label, at most 1 set" in run("plan", "--bits", "crashed", "-n", "1000", *BUDGET).stdout


BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def test_review_the_default_plan_is_not_clear(run: Call) -> None:
    words = ("plan", "--bits", "crashed", "-n", "1e4", *BUDGET)
    record = json.loads(run(*words, "--json").stdout)
    assert record["protocol"]["noise"][0]["flip"] > 0
    assert not record["guarantee"]["assumptions"]["fakes"]
    text = run(*words).stdout
    assert "trust        shuffling: the shuffler must mix honestly" in text
    drawn = run(*words, "--trust", "shuffler-noise")
    assert "collusion ε  ∞ (no protection)" in drawn.stdout
    assert "draws its fakes as planned and keeps their number secret" in drawn.stdout
    assert "warning: Everything rests on the shuffler" in drawn.stderr
    local = run(*words, "--trust", "nobody").stdout
    assert "trust        nobody:" in local
    asked = json.loads(run(*words, "--max-collusion-epsilon", "3", "--json").stdout)
    assert asked["guarantee"]["assumptions"]["collusion_epsilon"] <= 3


@pytest.mark.long
def test_review_a_share_within_an_error(run: Call) -> None:
    words = ("plan", "--bits", "crashed", "--delta", "1e-6", "--share", "0.1%", "--within", "0.1")
    people = json.loads(run(*words, "--epsilon", "1", "--json").stdout)
    assert 384_000 < people["n"] < 450_000
    met = run(*words, "--epsilon", "1", "-n", str(people["n"]))
    assert "a label held by 0.1% of the people is measured within ±10% at the 95% level" in met.stdout
    assert "±10% for 0.1% of the people: reached" in met.stdout
    assert "warning" not in met.stderr
    missed = run(*words, "--epsilon", "1", "-n", "27143")
    assert ": missed" in missed.stdout
    assert "warning: The plan does not measure a label held by 0.1% of the people within ±10%" in missed.stderr
    private = json.loads(run(*words, "-n", "500,000", "--json").stdout)
    assert private["guarantee"]["epsilon"] < 0.7
    told = run(*words, "-n", "27143").stderr
    assert "the sampling error alone is ±39%" in told
    assert "measured within" in run("plan", "--bits", "1", "-n", "1e5", *BUDGET, "--share", "10%").stdout


def test_review_useless_plans_are_warned_about(folder: Path, run: Call) -> None:
    useless = ("plan", "--bits", "1", "-n", "1000", "--epsilon", "1e-4", "--delta", "1e-9", "-o", "own.json")
    assert "warning: The error exceeds the crowd" in run(*useless).stderr
    assert "warning: The error exceeds the crowd" in run("inspect", "own.json").stderr
    assert json.loads(run("inspect", "own.json", "--json").stdout)["warnings"][0].startswith("The error exceeds")
    weak = run("plan", "--bits", "1", "-n", "1e6", "--epsilon", "6", "--delta", "1e-3").stderr
    assert "is not below 1/n" in weak
    assert "ε = 6 protects little" in weak


def test_review_names_and_reasons_of_the_frontier(folder: Path, run: Call) -> None:
    words = ("frontier", "--bits", "1", "-n", "1000", *BUDGET)
    record = json.loads(run(*words, "--share", "10%", "--json").stdout)
    for row in record["plans"]:
        assert run(*words, "--choose", row["family"], "-o", "own.json").exit_code == 0
        again = json.loads(run("inspect", "own.json", "--json").stdout)
        assert (again["name"], again["family"], again["trust"]) == (row["name"], row["family"], row["trust"])
        assert f"{row['name']} ({row['family']})" in run("inspect", "own.json").stdout
        assert row["relative_error"]["share"] == 0.1
    told = run(*words, "--trust", "nobody", "--choose", "flip").stderr
    assert "needs the trust 'shuffling', and 'nobody' is requested" in told
    rounds = json.loads(run(*words, "--rounds", "4", "--json").stdout)
    assert rounds["central_stderr"] > 1.9 * record["central_stderr"]


def test_account_says_which_trust_a_protocol_needs(run: Call) -> None:
    words = ("account", "--one-hot", "3", "-n", "1000", "--delta", "1e-6")
    for more, trust in (
        (("--q", "0.1"), "shuffling"),
        (("--q", "0", "--m", "laplace:2:25"), "shuffler-noise"),
        (("--q", "0.1", "--trust", "nobody"), "nobody"),
    ):
        assert json.loads(run(*words, *more, "--json").stdout)["trust"] == trust
        assert f"trust        {trust}: " in run(*words, *more).stdout


def test_piped_text_is_not_filled_with_spaces(run: Call) -> None:
    text = run("plan", "--one-hot", "3", "-n", "1000", "--epsilon", "1", "--delta", "1e-6").stdout
    assert "differential privacy" in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
