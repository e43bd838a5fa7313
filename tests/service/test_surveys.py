"""Surveys through both services: fixed bundles, the shuffler's fakes for each attribute, results for each question."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.analyzer_system import spoil
from tests.service.samples import claimed, contract
from tests.service.system import EPOCH, START, System

import hubbub as hb
from hubbub.accountant.overflow import check_slots, log_tail, max_messages, min_messages, min_slots, overflow
from hubbub.cli.results import _print
from hubbub.errors import Infeasible, InvalidInput
from hubbub.model.privacy import Budget
from hubbub.model.questions import Question
from hubbub.service.reader import COLUMNS, TaskResults, to_csv, to_parquet
from hubbub.service.task.contract import Contract, Series

N = 40
QUESTIONS: dict[str, Question] = {
    "colour": hb.Choice(["red", "green", "blue"]),
    "dark mode": hb.Flag(missing=True),
    "load time": hb.Scale(0, 80, buckets=8, unit="ms", levels=[4, 1]),
    "memory": hb.Number(0, 15, unit="MB", digits=[4, 4]),
    "colour × dark mode": hb.Cross("colour", "dark mode"),
}
SCHEMA = hb.Schema.survey(QUESTIONS)
SIZES = [one.size for one in SCHEMA.attributes]
J = len(SIZES)
PEOPLE: list[dict[str, Any]] = [
    {
        "colour": ("red", "green", "blue")[i % 3],
        "dark mode": (True, False, None, True)[i % 4],
        "load time": 2.0 * i,
        "memory": i % 16,
    }
    for i in range(N)
]
LOUD = 2.0**-30
"""A flip probability that changes nobody's answer."""


def survey(noise: hb.Noise, release: str = "bits") -> hb.Protocol:
    return hb.Protocol.survey([noise] * J, release)  # type: ignore[arg-type]


def plan_of(protocol: hb.Protocol, **target: Any) -> hb.Plan:
    return hb.plan_from(SCHEMA, N, protocol, **target)


SHUFFLER = plan_of(survey(hb.Noise(m=hb.Fakes.laplace(0.25, 6))), epsilon=60.0)
RESPONSE = plan_of(survey(hb.Noise(LOUD), "category"), epsilon=160.0)
FAKES = claimed(SCHEMA, survey(hb.Noise(m=hb.Fakes.binomial(20, 0.05))), n=N)
SPLIT = claimed(SCHEMA, survey(hb.Noise(0.1)), n=N)
MIXED = claimed(
    SCHEMA,
    hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(2.0, 25)), *[hb.Noise(m=hb.Fakes.poisson(0.5))] * (J - 1)]),
    n=N,
)
PLANS = {
    "shuffler's fakes": SHUFFLER,
    "randomized response": RESPONSE,
    "users' fakes": FAKES,
    "split": SPLIT,
    "mixed": MIXED,
    "always the same fakes": claimed(SCHEMA, survey(hb.Noise(m=hb.Fakes.binomial(3, 1.0))), n=N),
}


def collected(folder: Path, plan: hb.Plan, people: list[dict[str, Any]] = PEOPLE, **options: Any) -> System:
    """Return a system in which everyone has answered and one batch is counted."""
    system = System(folder, plan=plan, min_batch_size=N, **options)
    client = system.client
    system.upload(*(client.seal(one) for one in people))
    system.next_epoch()
    system.deliver()
    return system


def figures(result: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (question, item): value
        for question, item, value in zip(
            *(result["table"][name] for name in ("question", "item", "value")), strict=True
        )
    }


@pytest.mark.parametrize("name", ["shuffler's fakes", "randomized response"])
def test_answers_of_a_survey_are_counted(tmp_path: Path, name: str) -> None:
    system = collected(tmp_path, PLANS[name])
    assert system.contract.slots == J
    (result,) = system.results()
    assert (result["state"], result["people"], result["rejected"]) == ("committed", N, {})
    found = figures(result)
    assert found["colour", "red"] == pytest.approx(14, abs=6)
    assert found["dark mode", "no answer"] == pytest.approx(10, abs=6)
    assert found["colour × dark mode", "red × yes"] == pytest.approx(7, abs=6)
    assert found["memory", "mean"] == pytest.approx(sum(i % 16 for i in range(N)) / N, abs=4)
    assert set(result["table"]["unit"]) == {"people", "ms", "MB"}
    estimate = hb.Result.from_json(json.dumps(result))
    assert list(estimate) == list(QUESTIONS)
    assert estimate.guarantee is not None
    assert estimate.guarantee.to_document() == result["guarantee"]
    assert estimate["load time"].median.value == pytest.approx(40, abs=25)
    system.shut()


def test_the_shuffler_draws_fakes_for_every_attribute(tmp_path: Path) -> None:
    system = collected(tmp_path, SHUFFLER)
    (result,) = system.results()
    fakes = result["messages"] - J * N
    assert fakes == pytest.approx(6 * sum(SIZES), abs=0.3 * 6 * sum(SIZES))
    counts = system.counts()
    assert (counts.accepted, counts.committed) == (N, N)
    system.shut()


def test_users_fakes_leave_fillers_that_are_not_counted(tmp_path: Path) -> None:
    plan = plan_of(survey(hb.Noise(m=hb.Fakes.binomial(20, 0.05))), delta=0.9)
    system = collected(tmp_path, plan)
    (result,) = system.results()
    assert (result["state"], result["people"], result["rejected"]) == ("committed", N, {})
    assert J * N < result["messages"] < system.contract.slots * N
    assert hb.Guarantee.from_document(result["guarantee"]).delta >= plan.guarantee.delta
    system.shut()


def test_a_client_without_all_answers_is_charged(tmp_path: Path) -> None:
    system = System(tmp_path, plan=RESPONSE, min_batch_size=N)
    client = system.client
    bundles = [client.seal(one) for one in PEOPLE]
    bundles.append(client.bundle(client.slots([b"\x00", b"\x01"])))  # two messages and fillers
    bundles.append(client.bundle([spoil(slot) for slot in client.slots([b"\x00"] * J)]))
    system.upload(*bundles)
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert result["rejected"] == {"cannot_open": J, "missing_report": J - 2}
    assert (result["state"], result["charged"], result["people"]) == ("committed", 2, N)
    assert result["messages"] == J * N
    system.shut()


def test_weekly_rounds_of_a_survey(tmp_path: Path) -> None:
    series = Series(2, 1, Budget(2 * 161.0, 0.0))
    first = START // EPOCH
    system = System(tmp_path, plan=RESPONSE, min_batch_size=N, series=series, task_end=first + series.epochs)
    for _ in range(2):
        client = system.client
        system.upload(*(client.seal(one) for one in PEOPLE))
        system.next_epoch()
        system.deliver()
    results = system.results()
    assert [one["round"] for one in results] == [1, 2]
    assert results[1]["spent"]["epsilon"] > results[0]["spent"]["epsilon"]
    system.shut()


def test_results_of_surveys_as_tables(tmp_path: Path) -> None:
    system = collected(tmp_path, RESPONSE)
    results = TaskResults.ordered(system.contract.id, system.results(), [])
    rows = list(results.rows())
    assert list(rows[0]) == list(COLUMNS)
    read = list(csv.DictReader(io.StringIO(to_csv(rows).decode())))
    mean = next(row for row in read if (row["question"], row["item"]) == ("memory", "mean"))
    assert (mean["unit"], float(mean["low"]) <= float(mean["value"]) <= float(mean["high"])) == ("MB", True)
    assert to_parquet(rows)[:4] == b"PAR1"
    path = tmp_path / "table.txt"
    _print([results], 2, str(path))
    text = path.read_text()
    assert "2 figures of each question" in text
    assert "dark mode" in text
    assert "MB" in text
    system.shut()


def test_results_with_too_few_questions_are_refused() -> None:
    result = {"table": {"item": ["a", "b"], "value": [1, 2], "low": [0, 1], "high": [2, 3], "question": ["q"]}}
    with pytest.raises(InvalidInput, match="must have the same length"):
        list(TaskResults("t", [result], []).rows())


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("shuffler's fakes", J, J),
        ("randomized response", J, J),
        ("users' fakes", J, 21 * J),
        ("split", 0, sum(SIZES)),
        ("mixed", J, None),
        ("always the same fakes", 4 * J, 4 * J),
    ],
)
def test_messages_of_a_client(name: str, low: int, high: int | None) -> None:
    plan = PLANS[name]
    assert (min_messages(plan), max_messages(plan)) == (low, high)
    slots = min_slots(plan)
    check_slots(plan, slots)
    assert hb.cost(plan).messages == slots
    assert low <= slots
    assert high is None or slots <= high
    if low != high:
        with pytest.raises(InvalidInput, match="slots"):
            check_slots(plan, low)


@pytest.mark.parametrize("name", ["users' fakes", "split", "mixed"])
def test_the_bound_on_overflow_covers_the_exact_tail(name: str) -> None:
    """The distribution of a client's messages is a convolution over its attributes; the bound is above its tail."""
    plan = PLANS[name]
    whole = np.array([1.0])
    for one, noise in zip(SCHEMA.attributes, plan.protocol.noise, strict=True):
        whole = np.convolve(whole, messages_of(noise, one.size))
    for slots in (J, J + 2, J + 5, J + 9):
        tail = whole[slots + 1 :].sum()
        assert tail <= np.exp(log_tail(plan, slots)) * (1 + 1e-9)
        assert overflow(plan, slots) > 0
    assert np.exp(log_tail(plan, J + 9)) < 30 * whole[J + 10 :].sum()


def messages_of(noise: hb.Noise, size: int) -> Any:
    """Return the probabilities of 0, 1, 2, … messages for one attribute."""
    fakes = noise.user_fakes
    if fakes is not None and fakes.distribution == "binomial":
        return np.concatenate([[0.0], binomial(fakes.shift, fakes.scale)])
    if fakes is not None:
        rate, term, found = fakes.scale, np.exp(-fakes.scale), [0.0]
        for k in range(60):
            found.append(term)
            term *= rate / (k + 1)
        return np.array(found)
    if noise.clear:
        return np.array([0.0, 1.0])
    return np.convolve([noise.q, 1 - noise.q], binomial(size - 1, noise.q))


def binomial(trials: int, chance: float) -> Any:
    found = np.array([1.0])
    for _ in range(trials):
        found = np.convolve(found, [1 - chance, chance])
    return found


def test_fillers_of_a_survey_reveal_no_sum() -> None:
    """With the shuffler's fakes bits of free records are refused; a survey sends one message for each of them."""
    flags = hb.Schema.bits(3)
    with pytest.raises(Infeasible, match="filler slots"):
        min_slots(claimed(flags, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25), release="bits"), n=N))
    assert isinstance(contract(MIXED), Contract)


def test_surveys_of_one_question_have_surveys_protocols_only(tmp_path: Path) -> None:
    one = hb.Schema.survey({"colour": hb.Choice(["red", "green", "blue"])})
    for protocol in (
        hb.Protocol(0.1, k=2, release="bits"),
        hb.Protocol(0.0, m=300, release="bits"),
        hb.Protocol(0.1, m=hb.Fakes.poisson(1.0), release="bits"),
        hb.Protocol(0.1),
    ):
        with pytest.raises(InvalidInput):
            hb.plan_from(one, N, protocol, epsilon=9.0)
    plan = hb.plan_from(one, N, hb.Protocol(2.0**-30, release="category"), epsilon=48.0)
    system = collected(tmp_path, plan, [{"colour": answer["colour"]} for answer in PEOPLE])
    (result,) = system.results()
    assert figures(result)["colour", "red"] == pytest.approx(14, abs=1e-3)
    system.shut()
