"""A survey through running services: ``hubbub send`` from a file with a column per question, ``hubbub results``."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Call
from tests.service.admissions import new_ticket
from tests.service.live import LiveSystem, wait_until

import hubbub as hb
from hubbub.service.provision import CONTRACT

PEOPLE = 220
SCHEMA = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue"]),
        "dark mode": hb.Flag(missing=True),
        "load time": hb.Scale(0, 4096, buckets=16, unit="ms", levels=[4, 1]),
        "memory": hb.Number(0, 1000, unit="MB", digits=[4, 4]),
    }
)
ROWS = [
    f"{('red', 'green', 'blue')[i % 3]},{('true', 'false', '')[i % 3]},{20 * i},{i % 100 * 12}" for i in range(PEOPLE)
]


@pytest.mark.parametrize("noise", ["shuffler", "users"])
def test_answers_of_a_file_become_results_by_question(tmp_path: Path, run: Call, noise: str) -> None:
    count = len(SCHEMA.attributes)
    protocol = (
        hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(0.5, 15))] * count)
        if noise == "shuffler"
        else hb.Protocol.survey([hb.Noise(2**-20)] * count, "category")
    )
    plan = hb.plan_from(SCHEMA, 200, protocol, epsilon=100.0)
    values, tickets, token = tmp_path / "answers.csv", tmp_path / "tickets.txt", tmp_path / "token"
    values.write_text("colour,dark mode,load time,memory\n" + "".join(f"{row}\n" for row in ROWS))
    with LiveSystem(tmp_path / "here", plan=plan, min_batch_size=200).running() as live:
        assert live.contract.slots == count
        tickets.write_text("".join(f"{new_ticket(live.contract.task).hex()}\n" for _ in range(PEOPLE)))
        words = ["send", str(values), "--contract", str(tmp_path / "here" / CONTRACT), "--to", live.url]
        words += ["--journal", str(tmp_path / "journal"), "--tickets", str(tickets), "--json"]
        sent = run(*words)
        assert sent.exit_code == 0, sent.stderr
        assert json.loads(sent.stdout)["stored"] == PEOPLE
        wait_until(lambda: bool(live.results()), "the batch")
        wait_until(lambda: live.counts()["committed"] >= 200, "the receipt of the batch")
        token.write_text(live._token)
        read = ["results", live.address("analyzer", "results"), "--token", str(token)]
        shown, table = run(*read), run(*read, "--format", "csv")
        stored = run(*read, "--format", "json")
        assert run(*read, "-o", str(tmp_path / "results.parquet")).exit_code == 0
    assert shown.exit_code == table.exit_code == stored.exit_code == 0, (shown.stderr, table.stderr)
    for text in ("question", "dark mode", "no answer", "median", "mean", "MB", "ms"):
        assert text in shown.stdout, text
    rows = {(row["question"], row["item"]): row for row in csv.DictReader(io.StringIO(table.stdout))}
    people = int(rows["colour", "red"]["n"])
    assert float(rows["colour", "red"]["value"]) == pytest.approx(people / 3, abs=20)
    assert float(rows["dark mode", "no answer"]["value"]) == pytest.approx(people / 3, abs=20)
    assert rows["memory", "mean"]["unit"] == "MB"
    assert pq.read_table(tmp_path / "results.parquet").num_rows == len(rows)
    (result,) = json.loads(stored.stdout)["tasks"][0]["results"]
    assert hb.Result.from_json(json.dumps(result)).n == people
