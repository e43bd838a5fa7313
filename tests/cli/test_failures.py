"""Bad invocations: one line, a hint, the documented exit code, and nothing half-written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from hubbub.cli import collect
from hubbub.plans import Plan

USAGE, INFEASIBLE, CORRUPT, IO = 2, 3, 4, 5
BUDGET = "--epsilon 1 --delta 1e-6"
PLAN = "--plan plan.json"


def prepare(folder: Path) -> None:
    """Write invalid files, each with a different defect."""
    reports, mixed, plan = ((folder / name).read_bytes() for name in ("reports.hub", "mixed.hub", "plan.json"))
    (folder / "cut.hub").write_bytes(reports[:-40])
    (folder / "copy.hub").write_bytes(reports)
    (folder / "long.hub").write_bytes(reports + b"\0")
    (folder / "flipped.hub").write_bytes(reports[:200] + bytes([reports[200] ^ 1]) + reports[201:])
    (folder / "header.hub").write_bytes(reports[:56] + b"\xff" + reports[57:])
    (folder / "empty.hub").write_bytes(b"")
    (folder / "noise.hub").write_bytes(bytes(range(256)) * 4)
    (folder / "cut.parquet").write_bytes(b"PAR1" + mixed[:100])
    (folder / "cut.json").write_bytes(plan[:-20])
    (folder / "false.json").write_text(understate(plan.decode()))
    (folder / "edited.json").write_bytes(plan.replace(b'"n":1000', b'"n":9000'))
    (folder / "wrong.csv").write_text("colour\nred\nmauve\n")
    (folder / "few.csv").write_text("colour\nred\n")
    (folder / "none.csv").write_text("colour\n")
    (folder / "headless.csv").write_text("red\n" * 1000)
    (folder / "void.csv").write_text("")
    (folder / "ragged.csv").write_text("colour,age\nred,1\nred\n")
    (folder / "latin.csv").write_bytes("colour\nröd\n".encode("latin-1"))
    (folder / "wrong.jsonl").write_text('"red"\n{red}\n')
    (folder / "lists.jsonl").write_text('["red"]\n')
    (folder / "answers.txt").write_text("red\n")
    (folder / "twice.txt").write_text("red\nred\n")
    (folder / "schema.json").write_text('{"kind": "one_hot", "labels": ["a"], "max_set": 1}')
    (folder / "contract.json").write_text('{"contract": {"format": "hubbub contract 2"}, "signatures": {}}')
    (folder / "keys.json").write_text('{"body": {"format": "hubbub key list 2"}, "signature": ""}')
    (folder / "vectors.json").write_text('{"format": "hubbub wire vectors 1", "good": [{}], "bad": []}')


def understate(text: str) -> str:
    """Return the plan with a smaller ε than its parameters give, under a matching id."""
    plan = Plan.from_json(text)
    guarantee = plan.guarantee
    object.__setattr__(guarantee, "epsilon", 0.001)
    return Plan(schema=plan.schema, n=plan.n, protocol=plan.protocol, guarantee=guarantee, stderr=plan.stderr).to_json()


BAD = [
    ("nonesuch", USAGE),
    ("plan --one-hot 3 -n 1000", USAGE),
    (f"plan --one-hot 3 -n 1000 --precision 0.1 {BUDGET} -o out", USAGE),
    ("plan --one-hot 3 -n 1000 --delta 1e-6 -o out", USAGE),
    (f"plan -n 1000 {BUDGET}", USAGE),
    (f"plan --one-hot 3 --bits 3 -n 1000 {BUDGET}", USAGE),
    ("plan --one-hot 3 -n many --epsilon 1 --delta 1e-6", USAGE),
    (f"plan --one-hot 3 -n 0 {BUDGET} -o out", USAGE),
    ("plan --one-hot 3 -n 1000 --epsilon -1 --delta 1e-6 -o out", USAGE),
    ("plan --one-hot 3 -n 1000 --epsilon 1 --delta 2 -o out", USAGE),
    (f"plan --one-hot twice.txt -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --one-hot missing.txt -n 1000 {BUDGET} -o out", IO),
    (f"plan --at-most x 3 -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --schema schema.json -n 1000 {BUDGET} -o out", CORRUPT),
    (f"plan --schema missing.json -n 1000 {BUDGET} -o out", IO),
    (f"plan --bits 2 -n 100 {BUDGET} --max-bytes 20 -o out", USAGE),
    ("plan --bits 9 -n 100 --epsilon 1 --delta 0 --max-bytes 157 -o out", INFEASIBLE),
    (f"frontier --bits 2 -n 100 {BUDGET} --choose nonesuch -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --choose response -o out", INFEASIBLE),
    (f"frontier --bits 2 -n 100 {BUDGET} --plot out.bmp -o out", USAGE),
    ("calibrate --bits 1 -n 10 --epsilon 0.01 --delta 1e-9 --max-q 0.1 -o out", INFEASIBLE),
    ("account --bits 3 -n 100 --q 0.7 --delta 1e-6 -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 -o out", USAGE),
    ("account --bits 3 -n 100 --m cauchy:1 --delta 1e-6 -o out", USAGE),
    (f"randomize missing.csv {PLAN} -o out", IO),
    (f"randomize wrong.csv {PLAN} -o out", USAGE),
    (f"randomize none.csv {PLAN} -o out", USAGE),
    (f"randomize void.csv {PLAN} -o out", USAGE),
    (f"randomize headless.csv {PLAN} -o out", USAGE),
    (f"randomize ragged.csv {PLAN} -o out", USAGE),
    (f"randomize latin.csv {PLAN} -o out", USAGE),
    (f"randomize wrong.jsonl {PLAN} -o out", USAGE),
    (f"randomize lists.jsonl {PLAN} -o out", USAGE),
    (f"randomize answers.txt {PLAN} -o out", USAGE),
    (f"randomize answers.csv --column age {PLAN} -o out", USAGE),
    ("randomize answers.csv --plan split.json -o out", USAGE),
    ("randomize answers.csv --plan cut.json -o out", CORRUPT),
    ("randomize answers.csv --plan edited.json -o out", CORRUPT),
    ("randomize answers.csv --plan false.json -o out", CORRUPT),
    ("randomize answers.csv --plan reports.hub -o out", CORRUPT),
    (f"randomize answers.csv {PLAN} -o /dev/full", IO),
    (f"randomize answers.csv {PLAN} -o missing/out", IO),
    (f"randomize answers.csv {PLAN} -o .", IO),
    (f"randomize answers.csv {PLAN} --seed 7 -o out", USAGE),
    (f"randomize answers.csv {PLAN} -o plan.json", USAGE),
    (f"randomize answers.csv {PLAN} -o answers.csv", USAGE),
    (f"shuffle reports.hub reports.hub {PLAN} -o out", USAGE),
    (f"shuffle reports.hub copy.hub {PLAN} -o out", USAGE),
    (f"shuffle reports.hub {PLAN} -o reports.hub", USAGE),
    (f"estimate mixed.hub ./mixed.hub {PLAN}", USAGE),
    ("frontier --one-hot 3 -n 100 --epsilon 0 --delta 0 --json", INFEASIBLE),
    (f"shuffle cut.hub {PLAN} -o out", CORRUPT),
    (f"shuffle long.hub {PLAN} -o out", CORRUPT),
    (f"shuffle flipped.hub {PLAN} -o out", CORRUPT),
    (f"shuffle header.hub {PLAN} -o out", CORRUPT),
    (f"shuffle empty.hub {PLAN} -o out", CORRUPT),
    (f"shuffle noise.hub {PLAN} -o out", CORRUPT),
    ("shuffle reports.hub --plan other.json -o out", CORRUPT),
    (f"shuffle mixed.hub {PLAN} -o out", USAGE),
    (f"shuffle reports.hub {PLAN} --memory 0 -o out", USAGE),
    (f"estimate cut.parquet {PLAN} -o out", CORRUPT),
    (f"estimate mixed.hub {PLAN} --level 2 -o out", USAGE),
    (f"estimate mixed.hub {PLAN} --plot out.bmp -o out", USAGE),
    (f"estimate mixed.hub missing.hub {PLAN} -o out", IO),
    (f"joint mixed.hub {PLAN} --labels red,mauve", USAGE),
    (f"joint mixed.hub {PLAN} --labels red,blue --given red", USAGE),
    ("joint mixed.hub --plan split.json --labels a,b", USAGE),
    ("inspect missing.json", IO),
    ("inspect flipped.hub", CORRUPT),
    ("inspect answers.csv", CORRUPT),
    ("inspect contract.json", CORRUPT),
    ("inspect keys.json", CORRUPT),
    ("vectors --check vectors.json", CORRUPT),
    ("vectors --check plan.json", CORRUPT),
    ("demo --people 3 -o out", USAGE),
]


@pytest.mark.parametrize(("line", "code"), BAD)
def test_bad_invocation(line: str, code: int, folder: Path, run: Call) -> None:
    prepare(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run(*line.split())
    error, *hints = result.stderr.splitlines()
    assert result.exit_code == code, result.stderr
    assert error.startswith("error: ")
    assert [hint[:6] for hint in hints] == ["hint: "]
    assert not result.stdout
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_errors_do_not_quote_the_data(folder: Path, run: Call) -> None:
    prepare(folder)
    result = run("randomize", "wrong.csv", "--plan", "plan.json", "-o", "out")
    assert "record 2 has a label that is not in the schema (3 labels: red, green, …)" in result.stderr
    assert "mauve" not in result.stderr


def test_inspect_names_the_format_of_other_documents(folder: Path, run: Call) -> None:
    prepare(folder)
    assert "a document of the format 'hubbub contract 2'" in run("inspect", "contract.json").stderr
    assert "a document of the format 'hubbub key list 2'" in run("inspect", "keys.json").stderr


def test_too_few_people(folder: Path, run: Call) -> None:
    prepare(folder)
    assert run("randomize", "few.csv", "--plan", "plan.json", "-o", "few.hub").exit_code == 0
    result = run("shuffle", "few.hub", "--plan", "plan.json", "-o", "out")
    assert result.exit_code == INFEASIBLE
    assert "at least 1,000 people, got 1" in result.stderr
    assert not (folder / "out").exists()


def test_truncated_pipe(folder: Path, run: Call) -> None:
    whole = (folder / "reports.hub").read_bytes()
    for size in (0, 50, 300, len(whole) - 1):
        result = run("shuffle", "-", "--plan", "plan.json", "-o", "out", input=whole[:size])
        assert result.exit_code == CORRUPT
        assert not (folder / "out").exists()


def test_an_old_output_survives_a_failure(folder: Path, run: Call) -> None:
    prepare(folder)
    (folder / "out").write_text("old")
    assert run("shuffle", "flipped.hub", "--plan", "plan.json", "-o", "out").exit_code == CORRUPT
    assert (folder / "out").read_text() == "old"


def test_full_standard_output(folder: Path) -> None:
    for words in ("shuffle reports.hub --plan plan.json", "inspect plan.json", "inspect plan.json --json"):
        script = f"import sys; from hubbub.cli import main; main({words.split()!r}, prog_name='hubbub')"
        with Path("/dev/full").open("wb") as full:
            result = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, check=False)
        assert result.returncode == IO
        assert result.stderr.decode().splitlines()[0].startswith("error: no space left")
        assert b"Traceback" not in result.stderr


def test_a_closed_output_pipe_is_an_io_error(folder: Path) -> None:
    script = "from hubbub.cli import main; main(['vectors'], prog_name='hubbub')"
    program = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    text = program.stderr.read().decode()
    program.stderr.close()
    assert program.wait() == IO
    assert text.startswith("error: broken pipe")
    assert "Traceback" not in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder(folder: Path, run: Call) -> None:
    (folder / "locked").mkdir(mode=0o500)
    result = run("shuffle", "reports.hub", "--plan", "plan.json", "-o", "locked/out")
    assert result.exit_code == IO


def test_an_unforeseen_error_hides_its_message(folder: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a person's answer")

    monkeypatch.setattr(collect, "read_plan", broken)
    result = run("shuffle", "reports.hub", "--plan", "plan.json", "-o", "out")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "error: internal error: KeyError"


def test_an_interrupt_leaves_no_file(folder: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = set(folder.iterdir())
    monkeypatch.setattr("hubbub.wire.batches.payload_blocks", interrupted)
    result = run("shuffle", "reports.hub", "--plan", "plan.json", "-o", "out")
    assert result.exit_code == 130
    assert set(folder.iterdir()) == before
