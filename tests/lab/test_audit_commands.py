"""Audited programs: their input, their output, and their failures."""

import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import hubbub as hb
from hubbub.io.values import read_values
from hubbub.lab.audit.commands import (
    AttributeAnswers,
    ClientCommand,
    ShufflerCommand,
    UnreachableCategory,
    read_output,
    spell_values,
)
from hubbub.lab.audit.results import Effort
from hubbub.lab.audit.statistics import binomial_p, epsilon_bound, largest_rejected, shortfall
from hubbub.lab.audit.trial import audit
from hubbub.model.questions import Question, Questions
from hubbub.numeric.binomial import clopper_pearson
from hubbub.wire import batches, messages

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plan() -> hb.Plan:
    return hb.plan_from(hb.Schema.one_hot(["red", "green", "blue"]), 50, hb.Protocol(0.1), delta=1e-6, trust="nobody")


def people(plan: hb.Plan, n: int = 20) -> hb.Collection:
    return hb.Collection.from_values(np.arange(n) % plan.schema.width, plan.schema)


def script(tmp_path: Path, text: str) -> ClientCommand:
    path = tmp_path / "client.py"
    path.write_text(text)
    return ClientCommand((sys.executable, str(path)), 20.0)


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (
            hb.Schema.one_hot(["red", "", "a,b", 'say "x"', "a;b", "value"]),
            ["", "a;b", "a,b", 'say "x"', "red", "value"],
        ),
        (hb.Schema.bits(["a", "b"]), [[], ["a"], ["a", "b"], []]),
        (hb.Schema.at_most(2, ["a;b", "c", "d"]), [[], ["a;b", "c"], ["d"]]),
        (hb.Schema.bits(["", "x"]), [[""], [], ["x"]]),
    ],
)
def test_values_round_trip(schema: hb.Schema, values: list[str], tmp_path: Path) -> None:
    collection = hb.Collection.from_values(values, schema)
    path = tmp_path / "values.csv"
    path.write_bytes(spell_values(collection))
    (back,) = read_values(str(path), schema)
    assert (back.rows(0, len(back)) == collection.rows(0, len(collection))).all()


def test_both_forms_are_read(plan: hb.Plan) -> None:
    reports = hb.randomize(people(plan), plan)
    singles = b"".join(messages.encode(row.tobytes(), plan) for row in reports.messages)
    for data in (batches.encode(reports), singles):
        assert (read_output(data, plan, 20).messages == reports.messages).all()


def test_illegal_output(plan: hb.Plan) -> None:
    good = messages.encode(bytes([1]), plan)
    other = hb.plan_from(plan.schema, 51, plan.protocol, delta=1e-6, trust="nobody")
    bad = {
        b"hello": hb.ProgramFailure,
        good[:-1]: hb.WireError,
        good[:-1] + b"\x09": hb.WireError,
        good + b"HBM\x03" + good[4:]: hb.WireError,
        good + messages.encode(bytes([1]), other): hb.PlanMismatch,
        good + good[:-1] + b"\x81": hb.WireError,
        batches.encode(hb.randomize(people(plan, 5), plan)): hb.WireError,
    }
    for data, error in bad.items():
        with pytest.raises(error):
            read_output(data, plan, 20)
    assert len(read_output(b"", plan, 0)) == 0


def test_program_that_crashes(plan: hb.Plan, tmp_path: Path) -> None:
    with pytest.raises(hb.ProgramFailure, match="exited with code 1: ZeroDivisionError"):
        script(tmp_path, "1 / 0")(people(plan), plan)


def test_missing_program(plan: hb.Plan) -> None:
    with pytest.raises(hb.ProgramFailure, match="could not be started: no such file"):
        ClientCommand(("/nowhere/client",))(people(plan), plan)


def test_program_that_hangs_is_killed_with_its_children(plan: hb.Plan, tmp_path: Path) -> None:
    note = tmp_path / "child"
    path = tmp_path / "hang.py"
    path.write_text(
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    seconds = 2.0
    while not note.exists():  # a busy machine may take longer to start the program
        with pytest.raises(hb.ProgramFailure, match=f"took more than {seconds:.0f} seconds"):
            ClientCommand((sys.executable, str(path)), seconds)(people(plan), plan)
        seconds *= 2
        assert seconds < 1000
    state = Path(f"/proc/{note.read_text()}/stat")
    for _ in range(6000):
        try:
            if state.read_text().split()[2] == "Z":
                return
        except OSError:
            return
        time.sleep(0.1)
    pytest.fail("the child is still running")


def test_program_with_endless_output(plan: hb.Plan, tmp_path: Path) -> None:
    endless = script(tmp_path, "import sys\nwhile True: sys.stdout.buffer.write(bytes(1 << 16))")
    with pytest.raises(hb.ProgramFailure, match="wrote more than"):
        endless(people(plan), plan)


def test_program_without_output(plan: hb.Plan) -> None:
    found = audit(plan, ClientCommand((sys.executable, "-c", "pass")), None, runs=100)
    assert "must send" in found.sentence()
    assert found.sentence().startswith("FAIL")


def example() -> str:
    """Return the client of docs/audit.md."""
    (text,) = re.findall(r"```python program\n(.*?)```", (ROOT / "docs" / "audit.md").read_text(), re.DOTALL)
    return str(text)


@pytest.mark.parametrize("schema", [hb.Schema.one_hot(["red", "green", "blue"]), hb.Schema.at_most(2, ["a", "b", "c"])])
def test_documented_client_passes(schema: hb.Schema, tmp_path: Path) -> None:
    plan = hb.plan_from(schema, 50, hb.Protocol(0.1), delta=1e-6, trust="nobody")
    (tmp_path / "plan.json").write_text(plan.to_json())
    client = script(tmp_path, example())
    good = ClientCommand((*client.words, str(tmp_path / "plan.json")))
    found = audit(plan, good, None, runs=3000, seed_runs=10, confidence=0.9999)
    assert found.passed, found.sentence()
    assert any("started thousands of times" in note for note in found.notes)


def test_documented_client_with_a_fault(plan: hb.Plan, tmp_path: Path) -> None:
    """One value is sent without flips."""
    (tmp_path / "plan.json").write_text(plan.to_json())
    wrong = example().replace("secrets.randbits(48) < flip", "secrets.randbits(48) < (flip if record != 2 else 0)")
    client = script(tmp_path, wrong)
    found = audit(plan, ClientCommand((*client.words, str(tmp_path / "plan.json"))), None, runs=600, seed_runs=5)
    assert "value: only green" in found.sentence()


def test_shuffler_program(tmp_path: Path) -> None:
    plan = hb.plan_from(hb.Schema.bits(12), 600, hb.Protocol(0.25), delta=1e-6, trust="nobody")
    text = (
        "import sys, hashlib, secrets\n"
        "data = sys.stdin.buffer.read()\n"
        "rows = [data[i:i + 2] for i in range(72, len(data) - 32, 2)]\n"
        "SHUFFLE\n"
        "body = data[:6] + b'\\1' + data[7:72] + b''.join(rows)\n"
        "sys.stdout.buffer.write(body + hashlib.sha256(body).digest())\n"
    )
    path = tmp_path / "shuffler.py"
    shuffler = ShufflerCommand((sys.executable, str(path)))
    path.write_text(text.replace("SHUFFLE", "secrets.SystemRandom().shuffle(rows)"))
    few = Effort(values=1, runs=1, shuffles=8, pipeline=0)
    assert audit(plan, None, shuffler, tried=few, confidence=0.9999).passed
    path.write_text(text.replace("SHUFFLE", "rows.sort(key=lambda row: secrets.randbits(4))"))
    found = audit(plan, None, shuffler, tried=few)
    assert "ascents" in {one.name for one in found.violations}
    assert "as after sorting by short keys" in found.sentence()


def test_intervals_cover() -> None:
    """Against scipy.stats, and by enumeration: each bound fails with probability at most the level."""
    low, high = clopper_pearson(7, 40, 0.025)
    exact = stats.binomtest(7, 40).proportion_ci(0.95, method="exact")
    assert np.allclose([low, high], [exact.low, exact.high])
    for chance in (0.01, 0.2, 0.5, 0.97):
        counts = np.arange(31)
        low, high = clopper_pearson(counts, 30, 0.01)
        distribution = stats.binom.pmf(counts, 30, chance)
        assert distribution[low > chance].sum() <= 0.01
        assert distribution[high < chance].sum() <= 0.01


def test_bounds_on_epsilon_are_lower_bounds() -> None:
    """By enumeration over both counts: the bound exceeds the truth with probability at most the level."""
    p, q, n = 0.7, 0.3, 25
    counts = np.arange(n + 1)
    bounds = epsilon_bound(counts[:, None], counts[None, :], (n, n), 0.0, 0.05)
    distribution = stats.binom.pmf(counts, n, p)[:, None] * stats.binom.pmf(counts, n, q)[None, :]
    assert distribution[bounds > np.log(p / q)].sum() <= 0.05
    assert distribution[bounds > 0.3 * np.log(p / q)].sum() > 0.05


def test_p_values_and_power_by_enumeration() -> None:
    counts = np.arange(61)
    distribution = stats.binom.pmf(counts, 60, 0.3)
    p = binomial_p(counts, 60, 0.3)
    for level in (0.001, 0.05, 0.3):
        assert distribution[p <= level].sum() <= level
    assert (p <= 0.05)[: largest_rejected(60, 0.3, 0.05) + 1].all()
    assert p[largest_rejected(60, 0.3, 0.05) + 1] > 0.05
    share = shortfall(60, 0.3, 0.05, 0.9)
    assert np.isclose(stats.binom.cdf(largest_rejected(60, 0.3, 0.05), 60, 0.3 * (1 - share)), 0.9)


QUESTIONS: dict[str, Question] = {
    'a "colour", or: none': hb.Choice(["red", "a,b", 'say "x"', "1;2"], missing=True),
    "dark mode": hb.Flag(missing=True),
    "age": hb.Scale(0, 100, buckets=10, levels=[4, 2, 1], missing=True),
    "delay": hb.Scale(edges=[-5, 0, 0.1, 2, 100]),
    "income": hb.Number(0.1, 1000.7, digits=[4, 3, 5], variance=True, missing=True),
    "share": hb.Number(-1.5, 2.5),
    "table": hb.Cross("dark mode", "age", 'a "colour", or: none'),
}
SCHEMA = hb.Schema.survey(QUESTIONS, derived=["dark mode"])


@pytest.mark.parametrize("place", range(len(SCHEMA.attributes)))
def test_every_category_that_an_answer_can_have(place: int, tmp_path: Path) -> None:
    attribute, answers = SCHEMA.attributes[place], AttributeAnswers(SCHEMA.questions, place)
    reached: list[int] = []
    for category in range(attribute.size):
        try:
            answers.spell([category])
        except UnreachableCategory:
            continue
        reached.append(category)
    # Ten buckets in blocks of 4 leave one block of 2 and two buckets unused.
    scale = {4: 0, 7: 1, 13: 2}[attribute.size] if attribute.question == "age" else 0
    unused = 3 * 2 * 5 if attribute.question == "table" else scale
    assert len(reached) == attribute.size - unused
    wanted = reached * 3
    path = tmp_path / "answers.csv"
    path.write_bytes(answers.spell(wanted))
    (back,) = read_values(str(path), SCHEMA)
    rows = back.ones(0, len(back))[0].astype(np.int64).reshape(len(back), -1)
    assert (rows[:, place] - attribute.start == np.array(wanted)).all()
    if len(reached) > 4:
        assert len({tuple(row) for row in np.delete(rows, place, axis=1).tolist()}) > 2


def test_a_single_missing_answer_is_not_an_empty_line() -> None:
    answers = AttributeAnswers(Questions.create({"a": hb.Flag(missing=True)}), 0)
    assert answers.spell([2, 1]) == b'a\n""\n1\n'
