"""Bad invocations: one line, a hint, the documented exit code, and nothing half-written."""

import functools
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.cli import COMMANDS, collect, main
from hubbub.io.documents import read_plan
from hubbub.io.reports import read_reports
from hubbub.model.plans import Plan
from hubbub.service.provision import draft_contract
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.identity import Identity

USAGE, INFEASIBLE, CORRUPT, IO = 2, 3, 4, 5
BUDGET = "--epsilon 1 --delta 1e-6"
PLAN = "--plan plan.json"
OPERATORS = f"--analyzer {'11' * 32} --shuffler {'22' * 32}"
SEND = "--to http://127.0.0.1:1 --journal sent"
SIGNED = f"send answers.csv --contract signed.json {SEND}"
DRAFT = f"serve contract --plan plan.json {OPERATORS} -o out"


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
    (folder / "hopeless.csv").write_text("colour\nmauve\n")
    (folder / "cells.csv").write_text("red,green,blue\n0,1,0\n")
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"colour\n" + b"red\n" * 1000)[:-9])
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
    counts = hb.estimate(hb.tally(read_reports("mixed.hub", read_plan("plan.json"))), read_plan("plan.json")).to_json()
    (folder / "counts.json").write_text(counts)
    (folder / "later.json").write_text(counts)
    (folder / "other-labels.json").write_text(counts.replace('"red"', '"mauve"'))
    (folder / "signed.json").write_bytes(signed_contract(plan))
    (folder / "questions.json").write_text(survey_plan())
    (folder / "survey.toml").write_text('[questions.a]\nkind = "flag"\n')
    (folder / "wrong.toml").write_text('[questions.a]\nkind = "flag"\nlow = 3\n')
    (folder / "token").write_text("secret\n")
    (folder / "token.key").write_text("secret\n")
    (folder / "token.key").chmod(0o600)
    (folder / "vectors.json").write_text('{"format": "hubbub wire vectors 1", "good": [{}], "bad": []}')


@pytest.fixture(scope="module")
def prepared(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the invalid files, which every test copies."""
    place = tmp_path_factory.mktemp("failures") / "work"
    shutil.copytree(original, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        prepare(place)
    return place


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test."""
    place = tmp_path / "work"
    shutil.copytree(prepared, place)
    monkeypatch.chdir(place)
    return place


@functools.cache
def survey_plan() -> str:
    """Return a plan for a survey of two questions."""
    schema = hb.Schema.survey({"a": hb.Flag(), "b": hb.Flag()})
    noise = [hb.Noise(m=hb.Fakes.laplace(4.0, 60))] * 2
    return hb.plan_from(schema, 10, hb.Protocol.survey(noise), delta=1e-6).to_json()


@functools.cache
def signed_contract(plan: bytes) -> bytes:
    """Return a contract for a plan, which admits by ticket, signed by both operators."""
    analyzer, shuffler = Identity.generate(), Identity.generate()
    contract = draft_contract(Plan.from_json(plan), analyzer=analyzer.public, shuffler=shuffler.public)
    return SignedContract.sign(contract, analyzer, shuffler).to_json()


def understate(text: str) -> str:
    """Return the plan with a smaller ε than its parameters give, under a matching id."""
    plan = Plan.from_json(text)
    guarantee = plan.guarantee
    object.__setattr__(guarantee, "epsilon", 0.001)
    return Plan(schema=plan.schema, n=plan.n, protocol=plan.protocol, guarantee=guarantee, stderr=plan.stderr).to_json()


BAD = [
    (f"plan --survey missing.toml -n 1000 {BUDGET} -o out", IO),
    (f"plan --survey wrong.toml -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --survey questions.json -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --survey survey.toml --one-hot 3 -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --survey survey.toml -n 1000 {BUDGET} --within 5% -o out", USAGE),
    (f"frontier --survey wrong.toml -n 1000 {BUDGET} -o out", USAGE),
    (f"frontier --survey survey.toml -n 1000 {BUDGET} --share 200% -o out", USAGE),
    ("survey missing.toml", IO),
    ("survey wrong.toml", USAGE),
    ("survey survey.toml -o out", USAGE),
    ("survey --json", USAGE),
    ("survey -o missing/survey.toml", IO),
    ("estimate mixed.hub --plan plan.json --question a", USAGE),
    ("estimate mixed.hub --plan questions.json --question c -o out.csv", USAGE),
    ("estimate mixed.hub --plan questions.json --question a -o out.json", USAGE),
    ("estimate mixed.hub --plan questions.json --question a --json", USAGE),
    ("estimate mixed.hub --plan questions.json --plot out.svg", USAGE),
    ("estimate mixed.hub --plan questions.json --consistent -o out.csv", USAGE),
    ("estimate mixed.hub --plan questions.json -o out.csv", CORRUPT),
    ("compare counts.json later.json --question a", USAGE),
    ("joint mixed.hub --plan questions.json --labels a,b -o out.csv", USAGE),
    ("randomize answers.csv --plan questions.json -o out", USAGE),
    ("randomize answers.csv --plan questions.json --missing a -o out", USAGE),
    ("randomize answers.csv --plan questions.json --other a -o out", USAGE),
    ("randomize answers.csv --plan questions.json --column colour -o out", USAGE),
    ("nonesuch", USAGE),
    ("studio --no-open --port 70000", USAGE),
    ("studio --no-open --token-file token", USAGE),
    ("studio --no-open --live missing", USAGE),
    ("studio --no-open --live http://127.0.0.1:1", USAGE),
    ("studio --no-open --live http:// --token-file token", USAGE),
    ("studio --no-open --live http://127.0.0.1:1 --token-file missing.txt", IO),
    ("studio --no-open --live http://127.0.0.1:1 --token-file empty.hub", CORRUPT),
    ("studio --no-open --live http://127.0.0.1:1 --token-file noise.hub", CORRUPT),
    ("studio --no-open --live http://127.0.0.1:1 --token-file token --authority noise.hub", CORRUPT),
    ("studio --no-open --live http://127.0.0.1:1 --token-file token --authority missing.pem", IO),
    ("studio --no-open --live http://127.0.0.1:1 --token-file token --contract contract.json", CORRUPT),
    ("studio --no-open --live http://127.0.0.1:1 --token-file token --contract missing.json", IO),
    ("studio --no-open --live http://127.0.0.1:1 --token-file token --analyzer-operations 9464", USAGE),
    ("studio --no-open --live http://127.0.0.1:1 --token-file token --shuffler-operations http://a@b:1", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --trust everybody -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --max-collusion-epsilon 0 -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --max-client-weight 0 -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --max-client-weight 1 -o out", INFEASIBLE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --max-collusion-epsilon 1e-15 -o out", INFEASIBLE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --share 0% -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --share few -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --within 10% -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --share 1% --within 0% -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --share 1% --within 5% --level 100% -o out", USAGE),
    ("plan --one-hot 3 --share 1% --within 5% --delta 1e-6 -o out", USAGE),
    ("plan --one-hot 3 --epsilon 1 --share 1% --within 5% --precision 1% --delta 1e-6 -o out", USAGE),
    ("plan --bits 1 -n 1000 --share 0.1% --within 10% --delta 1e-6 -o out", INFEASIBLE),
    (f"plan --one-hot 3 -n 1.5 {BUDGET} -o out", USAGE),
    (f"plan --one-hot 3 -n 1,00 {BUDGET} -o out", USAGE),
    (f"plan --bits a,,b -n 1000 {BUDGET} -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --trust everybody -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --max-collusion-epsilon nan -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --max-client-weight nan -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --share 200% -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --trust nobody --choose split -o out", INFEASIBLE),
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
    (f"plan --bits crashed, -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --one-hot red,,blue -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --at-most x 3 -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --schema schema.json -n 1000 {BUDGET} -o out", CORRUPT),
    (f"plan --schema missing.json -n 1000 {BUDGET} -o out", IO),
    (f"plan --bits 2 -n 100 {BUDGET} --max-bytes 20 -o out", USAGE),
    ("plan --bits 9 -n 100 --epsilon 1 --delta 0 --max-bytes 157 -o out", INFEASIBLE),
    (f"frontier --bits 2 -n 100 {BUDGET} --choose nonesuch -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --choose response -o out", INFEASIBLE),
    (f"frontier --bits 2 -n 100 {BUDGET} --plot out.bmp -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --deadline 0 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --deadline 1e-9 -o out", INFEASIBLE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --choose nonesuch -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --choose clear-user-fakes -o out", INFEASIBLE),
    ("plan --one-hot 3 -n 1000 --delta 1e-6 --stderr 5 --choose split -o out", USAGE),
    ("calibrate --bits 1 -n 10 --epsilon 0.01 --delta 1e-9 --max-q 0.1 -o out", INFEASIBLE),
    ("account --bits 3 -n 100 --q 0.7 --delta 1e-6 -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 -o out", USAGE),
    ("account --bits 3 -n 100 --m cauchy:1 --delta 1e-6 -o out", USAGE),
    (f"ledger create new.ledger {BUDGET.replace('1e-6', '2')}", USAGE),
    ("ledger create new.ledger --epsilon -1 --delta 1e-6", USAGE),
    (f"ledger create missing/new.ledger {BUDGET}", IO),
    (f"ledger create new.ledger {BUDGET} --anchor missing/anchor", IO),
    ("ledger show missing.ledger", IO),
    ("ledger show wrong.csv", CORRUPT),
    ("ledger show wrong.csv --anchor vectors.json", CORRUPT),
    (f"ledger charge missing.ledger {PLAN} --collection x", IO),
    ("ledger charge wrong.csv --plan missing.json --collection x", IO),
    (f"ledger charge wrong.csv {PLAN} --collection {'x' * 257}", USAGE),
    (f"ledger charge wrong.csv {PLAN} --collection x --rounds 0", USAGE),
    (f"ledger charge wrong.csv {PLAN} --collection x --again --anchor missing", CORRUPT),
    (f"ledger forecast missing.ledger {PLAN}", IO),
    (f"ledger forecast wrong.csv {PLAN} --anchor missing", CORRUPT),
    (f"ledger forecast wrong.csv {PLAN} --rounds 0", CORRUPT),
    ("ledger recover wrong.csv --anchor missing/anchor", CORRUPT),
    ("ledger recover wrong.csv --lost missing.json", USAGE),
    ("ledger recover wrong.csv --lost missing.json --rounds 0", USAGE),
    ("ledger recover wrong.csv --lost missing.json --rounds 1", IO),
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
    (f"randomize answers.csv {PLAN} --engine hadoop -o out", USAGE),
    (f"randomize answers.csv {PLAN} --master local[2] -o out", USAGE),
    (f"randomize answers.csv {PLAN} --set spark.x=1 -o out", USAGE),
    (f"randomize answers.csv {PLAN} --key token -o out", USAGE),
    (f"shuffle reports.hub {PLAN} --engine hadoop -o out", USAGE),
    (f"shuffle reports.hub {PLAN} --master local[2] -o out", USAGE),
    (f"shuffle reports.hub {PLAN} --set spark.x=1 -o out", USAGE),
    (f"shuffle reports.hub {PLAN} --key token -o out", USAGE),
    (f"estimate mixed.hub {PLAN} --engine hadoop", USAGE),
    (f"estimate mixed.hub {PLAN} --master local[2]", USAGE),
    (f"estimate mixed.hub {PLAN} --set spark.x=1", USAGE),
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
    (f"estimate cut.parquet {PLAN} -o out.json", CORRUPT),
    (f"estimate mixed.hub {PLAN} --level 2 -o out.json", USAGE),
    (f"estimate mixed.hub {PLAN} --plot out.bmp -o out.json", USAGE),
    (f"estimate mixed.hub missing.hub {PLAN} -o out.json", IO),
    (f"estimate mixed.hub {PLAN} -o out", USAGE),
    (f"estimate mixed.hub {PLAN} -o out.xlsx", USAGE),
    (f"estimate mixed.hub {PLAN} -o missing/out.csv", IO),
    (f"estimate mixed.hub {PLAN} --consistent --shrunk", USAGE),
    (f"joint mixed.hub {PLAN} --labels red,mauve", USAGE),
    (f"joint mixed.hub {PLAN} --labels red,blue -o out.txt", USAGE),
    (f"joint mixed.hub {PLAN} --labels red,blue --level 1", USAGE),
    (f"joint mixed.hub {PLAN} --labels red,blue --top 0", USAGE),
    (f"joint mixed.hub {PLAN} --labels red --plot out.svg", USAGE),
    ("compare counts.json counts.json", USAGE),
    ("compare counts.json plan.json", CORRUPT),
    ("compare counts.json missing.json", IO),
    ("compare missing.json counts.json", IO),
    ("compare counts.json other-labels.json", USAGE),
    ("compare counts.json later.json --level 2", USAGE),
    ("compare counts.json later.json --top 0", USAGE),
    ("compare counts.json later.json -o out.txt", USAGE),
    ("compare counts.json later.json --plot out.bmp", USAGE),
    (f"joint mixed.hub {PLAN} --labels red,blue --given red", USAGE),
    ("joint mixed.hub --plan split.json --labels a,b", USAGE),
    ("inspect missing.json", IO),
    ("inspect flipped.hub", CORRUPT),
    ("inspect answers.csv", CORRUPT),
    ("inspect contract.json", CORRUPT),
    ("inspect keys.json", CORRUPT),
    ("report missing.json -o out", IO),
    ("report answers.csv -o out", CORRUPT),
    ("report plan.json mixed.hub --question Why? --statement Thus. -o out", CORRUPT),
    ("report plan.json --contract contract.json -o out", CORRUPT),
    ("report plan.json -o missing/out", IO),
    ("vectors --check vectors.json", CORRUPT),
    ("vectors --check plan.json", CORRUPT),
    ("demo --people 3 -o out", USAGE),
    (f"plan --one-hot twice.txt -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --one-hot noise.hub -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --bits 0 -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --bits . -n 1000 {BUDGET} -o out", IO),
    (f"plan --at-most 9 3 -n 1000 {BUDGET} -o out", USAGE),
    (f"plan --strings 5000 -n 1000 {BUDGET} -o out", USAGE),
    (f"frontier --strings 0 -n 1000 {BUDGET} -o out", USAGE),
    (f"calibrate --strings 0 -n 1000 {BUDGET} -o out", USAGE),
    ("account --strings 0 -n 100 --q 0.1 --delta 1e-6 -o out", USAGE),
    ("account --cut --bits 3 -n 100 --q 0.1 --delta 1e-6 -o out", USAGE),
    ("study --strings 0 -o out", USAGE),
    ("plan --one-hot 3 -n 1000 --stderr 0 --delta 1e-6 -o out", USAGE),
    ("plan --one-hot 3 --epsilon 1 --precision 7 --delta 1e-6 -o out", USAGE),
    ("plan --one-hot 3 --epsilon 1 --points 7 --delta 1e-6 -o out", USAGE),
    ("plan --one-hot 3 -n 1000 --margin 0 --delta 1e-6 -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --honest 2 -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --max-messages 0 -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --min-q 0.5 -o out", USAGE),
    (f"plan --one-hot 3 -n 1000 {BUDGET} --rounds 0 -o out", USAGE),
    (f"frontier --at-most 0 3 -n 100 {BUDGET} -o out", USAGE),
    (f"frontier --schema plan.json -n 100 {BUDGET} -o out", CORRUPT),
    ("frontier --bits 2 -n 100 --epsilon nan --delta 1e-6 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --honest 0 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --error 0 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --dishonest 1 -o out", USAGE),
    ("account --one-hot 1 -n 100 --q 0.1 --delta 1e-6 -o out", USAGE),
    ("account --at-most 2 missing.txt -n 100 --q 0.1 --delta 1e-6 -o out", IO),
    ("account --schema noise.hub -n 100 --q 0.1 --delta 1e-6 -o out", CORRUPT),
    ("account --bits 3 -n 100 --q 0.1 --delta 1e-6 --trust everybody -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 --epsilon -1 -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 --k 0 --delta 1e-6 -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 --release category --delta 1e-6 -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 --honest nan --delta 1e-6 -o out", USAGE),
    ("account --bits 3 -n 100 --q 0.1 --m poisson:-1 --delta 1e-6 -o out", USAGE),
    ("account --bits 3 -n 0 --q 0.1 --delta 1e-6 -o out", USAGE),
    (f"calibrate --bits 1 -n 10 {BUDGET} --q 0.6 -o out", USAGE),
    (f"calibrate --bits 1 -n 10 {BUDGET} --k 0 -o out", USAGE),
    (f"calibrate --bits 1 {BUDGET} -o out", USAGE),
    (f"calibrate --bits 1 -n 10 {BUDGET} --max-q 0.7 -o out", USAGE),
    (f"calibrate --bits 1 -n 10 {BUDGET} --trust everybody -o out", USAGE),
    (f"calibrate --one-hot red,red -n 10 {BUDGET} -o out", USAGE),
    (f"randomize answers.csv {PLAN} --format parquet -o out", CORRUPT),
    (f"randomize answers.csv {PLAN} --format jsonl -o out", USAGE),
    (f"randomize answers.csv {PLAN} --fakes 3 -o out", USAGE),
    (f"randomize answers.csv {PLAN} --format tsv --column age -o out", USAGE),
    (f"randomize answers.csv {PLAN} --missing mauve -o out", USAGE),
    (f"randomize answers.csv {PLAN} --other mauve -o out", USAGE),
    (f"randomize wrong.csv {PLAN} --on-error fail -o out", USAGE),
    (f"randomize wrong.csv {PLAN} --missing red -o out", USAGE),
    (f"randomize hopeless.csv {PLAN} --on-error skip -o out", USAGE),
    (f"randomize cells.csv {PLAN} --other red -o out", USAGE),
    (f"randomize cut.csv.gz {PLAN} -o out", CORRUPT),
    (f"randomize answers.csv {PLAN} --rejects missing/list.csv -o out", IO),
    (f"randomize answers.csv {PLAN} --rejects - -o out", USAGE),
    (f"randomize answers.csv {PLAN} --rejects answers.csv -o out", USAGE),
    (f"randomize answers.csv {PLAN} --rejects out -o out", USAGE),
    (f"randomize answers.csv {PLAN} --rejects /dev/null -o out", USAGE),
    (f"randomize . {PLAN} --format csv -o out", IO),
    (f"randomize noise.hub {PLAN} --format csv -o out", USAGE),
    ("randomize answers.csv --plan . -o out", IO),
    ("randomize answers.csv --plan empty.hub -o out", CORRUPT),
    (f"shuffle . {PLAN} -o out", CORRUPT),
    (f"shuffle missing/ {PLAN} -o out", IO),
    (f"shuffle reports.hub {PLAN} -o . --rows", IO),
    (f"shuffle reports.hub {PLAN} -o out --rows", USAGE),
    (f"shuffle reports.hub {PLAN} -o missing/out/", IO),
    ("shuffle reports.hub --plan missing.json -o out", IO),
    ("shuffle reports.hub --plan noise.hub -o out", CORRUPT),
    (f"estimate mixed.hub {PLAN} --top 0", USAGE),
    ("estimate mixed.hub --plan other.json", CORRUPT),
    (f"estimate noise.hub {PLAN}", CORRUPT),
    (f"estimate . {PLAN}", CORRUPT),
    ("joint mixed.hub --plan other.json --labels red", CORRUPT),
    (f"joint empty.hub {PLAN} --labels red", CORRUPT),
    (f"joint mixed.hub {PLAN} --labels red,blue --given green=1", USAGE),
    ("inspect reports.hub --plan other.json", CORRUPT),
    ("inspect reports.hub --plan answers.csv", CORRUPT),
    ("inspect .", CORRUPT),
    ("inspect empty.hub", CORRUPT),
    (f"inspect cut.hub {PLAN}", CORRUPT),
    ("verify missing.json", IO),
    ("verify .", IO),
    ("verify cut.json", CORRUPT),
    ("verify edited.json", CORRUPT),
    ("verify contract.json", CORRUPT),
    ("verify noise.hub", CORRUPT),
    ("vectors -o missing/out", IO),
    ("vectors --check .", IO),
    ("vectors --check noise.hub", CORRUPT),
    ("demo --epsilon -1 -o out", USAGE),
    ("demo --delta 2 -o out", USAGE),
    ("demo --seed -1 -o out", USAGE),
    ("demo --people 100 -o missing/out", IO),
    ("study --one-hot 1 -o out", USAGE),
    ("study --bits 0 -o out", USAGE),
    ("study --at-most 9 3 -o out", USAGE),
    ("study --schema missing.json -o out", IO),
    ("study --one-hot 3 -n 0 -o out", USAGE),
    ("study --one-hot 3 -n 100 --epsilon -1 -o out", USAGE),
    ("study --one-hot 3 -n 100 --delta 2 -o out", USAGE),
    ("study --plan cut.json -o out", CORRUPT),
    ("study --one-hot 3 -n 100 --population mars -o out", USAGE),
    ("study --one-hot 3 -n 100 --population zipf:x -o out", USAGE),
    ("study --one-hot red,green,blue --values wrong.csv -o out", USAGE),
    ("study --one-hot red,green,blue --values answers.csv --format parquet -o out", CORRUPT),
    ("study --one-hot red,green,blue --values answers.csv --column age -o out", USAGE),
    ("study --one-hot 3 -n 100 --repetitions 0 -o out", USAGE),
    ("study --one-hot 3 -n 100 --level high -o out", USAGE),
    ("study --one-hot 3 -n 100 --seed -1 -o out", USAGE),
    ("study --one-hot 3 -n 100 --jobs 0 -o out", USAGE),
    ("study --one-hot 3 -n 100 --results - -o out", USAGE),
    ("study --one-hot 3 -n 100 -o .", IO),
    ("audit --plan missing.json", IO),
    ("audit --plan cut.json", CORRUPT),
    (f"audit {PLAN} --shuffler nonesuch --runs 100", IO),
    (f"audit {PLAN} --runs 5", USAGE),
    (f"audit {PLAN} --seed-runs -1", USAGE),
    (f"audit {PLAN} --confidence 2", USAGE),
    (f"audit {PLAN} --runs 100 --seconds -1 -- false", USAGE),
    (f"audit {PLAN} --runs 100 -- nonesuch", IO),
    (f"audit {PLAN} --runs 100 -o missing/out", IO),
    ("attacks --only nothing", USAGE),
    ("attacks --trials 3", USAGE),
    ("attacks --seed -1", USAGE),
    ("attacks --only batches --trials 100 -o missing/out", IO),
    ("frontier --one-hot 3 -n 100 --epsilon 1 --delta 1 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --max-messages nan -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --max-bytes 0 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --min-q 1 -o out", USAGE),
    (f"frontier --bits 2 -n 100 {BUDGET} --rounds -1 -o out", USAGE),
    (f"calibrate --at-most 4 3 -n 10 {BUDGET} -o out", USAGE),
    (f"calibrate --schema cut.json -n 10 {BUDGET} -o out", CORRUPT),
    (f"calibrate --bits 1 -n 10 {BUDGET} --m gaussian:0:1 -o out", USAGE),
    (f"calibrate --bits 1 -n 10 {BUDGET} --release everything -o out", USAGE),
    (f"calibrate --bits 1 -n 10 {BUDGET} --honest 0 -o out", USAGE),
    ("results http://127.0.0.1:1 -o out", USAGE),
    ("results http://127.0.0.1:1 --token missing.txt -o out", IO),
    ("results http://127.0.0.1:1 --token noise.hub -o out", USAGE),
    ("results http://127.0.0.1:1 --token empty.hub -o out", USAGE),
    ("results http://127.0.0.1:1 --token token -o out", IO),
    ("results https://127.0.0.1:1 --token token --authority missing.pem -o out", IO),
    ("results https://127.0.0.1:1 --token token --authority noise.hub -o out", CORRUPT),
    ("results 127.0.0.1:8501 --token token -o out", USAGE),
    ("results http:// --token token -o out", USAGE),
    ("results http://127.0.0.1:1 --token token --task abc -o out", USAGE),
    ("results http://127.0.0.1:1 --token token --format parquet", USAGE),
    ("results http://127.0.0.1:1 --token token --format xml -o out", USAGE),
    ("results http://127.0.0.1:1 --token token --top 0 -o out", USAGE),
    ("results http://127.0.0.1:1 --token token -o missing/out.csv", IO),
    (f"send answers.csv --contract missing.json {SEND}", IO),
    (f"send answers.csv --contract contract.json {SEND}", CORRUPT),
    (f"send missing.csv --contract signed.json {SEND}", IO),
    (f"send wrong.csv --contract signed.json {SEND}", USAGE),
    ("send answers.csv --contract signed.json --to 127.0.0.1:1 --journal sent", USAGE),
    ("send answers.csv --contract signed.json --to http://127.0.0.1:1 --journal missing/sent", IO),
    ("send answers.csv --contract signed.json --to http://127.0.0.1:1 --journal plan.json", CORRUPT),
    (f"send --contract signed.json {SEND}", USAGE),
    (SIGNED, USAGE),
    (f"{SIGNED} --format parquet", CORRUPT),
    (f"{SIGNED} --column age", USAGE),
    (f"{SIGNED} --tickets missing.txt", IO),
    (f"{SIGNED} --tickets answers.txt", CORRUPT),
    (f"{SIGNED} --tickets answers.txt --ticket-key token.key", USAGE),
    (f"{SIGNED} --ticket-key missing.key", IO),
    (f"{SIGNED} --ticket-key token.key", CORRUPT),
    (f"{SIGNED} --issuer 127.0.0.1:1", USAGE),
    (f"{SIGNED} --codes answers.txt", USAGE),
    (f"{SIGNED} --issuer http://127.0.0.1:1 --codes answers.txt", USAGE),
    (f"{SIGNED} --per-request 0", USAGE),
    (f"{SIGNED} --missing mauve", USAGE),
    (f"{SIGNED} --other mauve", USAGE),
    (f"{SIGNED} --on-error skip --tickets answers.txt", USAGE),
    (f"{SIGNED} --rejects contract/list.csv", IO),
    (f"{SIGNED} --rejects signed.json", USAGE),
    ("serve init new --role both", USAGE),
    ("serve init new --plan plan.json --admission nobody", USAGE),
    ("serve init new --plan plan.json --admission open", INFEASIBLE),
    ("serve init new --role everybody", USAGE),
    ("serve init new --plan missing.json", IO),
    ("serve init new --plan cut.json", CORRUPT),
    ("serve init new --role analyzer --plan plan.json", USAGE),
    ("serve init new --role analyzer --host é", USAGE),
    ("serve certify new missing.csr", IO),
    ("serve certify new noise.hub", CORRUPT),
    ("serve certify new --days 0", USAGE),
    (f"serve contract --plan missing.json {OPERATORS} -o out", IO),
    (f"serve contract --plan plan.json --analyzer zz --shuffler {'11' * 32} -o out", USAGE),
    (f"serve contract --plan plan.json --analyzer {'11' * 32} --shuffler 00 -o out", USAGE),
    (f"serve contract --plan plan.json {OPERATORS} -o missing/out", IO),
    (f"{DRAFT} --admission invitation", USAGE),
    (f"{DRAFT} --issuer é", USAGE),
    *(
        (f"{start} {option}", USAGE)
        for start in ("serve init new --plan plan.json", "serve all new --plan plan.json", DRAFT)
        for option in ("--relay relay.example", "--evaluations 10", "--per-client x")
    ),
    (f"{DRAFT} --token-key missing.key", IO),
    (f"{DRAFT} --token-key token.key", CORRUPT),
    ("serve ticket missing.txt --contract signed.json --key token.key -o out", IO),
    ("serve ticket answers.txt --contract contract.json --key token.key -o out", CORRUPT),
    ("serve ticket answers.txt --contract signed.json --key token.key -o out", CORRUPT),
    ("serve ticket twice.txt --contract signed.json --key token.key -o out", USAGE),
    ("serve ticket answers.txt --contract missing.json --key token -o missing/out", IO),
    ("serve key plan.json -o out", USAGE),
    ("serve issuer missing.toml", USAGE),
    ("serve issuer noise.hub", CORRUPT),
    ("serve evaluation-key --key missing.key -o out", IO),
    ("serve evaluation-key --key token.key -o out", CORRUPT),
    ("serve relay missing.toml", USAGE),
    ("serve relay noise.hub", CORRUPT),
    ("serve sign missing.json --identity token -o out", IO),
    ("serve sign contract.json --identity token -o out", CORRUPT),
    ("serve shuffler missing.toml", USAGE),
    ("serve shuffler noise.hub", CORRUPT),
    ("serve shuffler answers.csv --role everything", USAGE),
    ("serve analyzer missing.toml", USAGE),
    ("serve analyzer answers.csv --unsafe-test", CORRUPT),
    ("serve all new", USAGE),
    ("serve all new --plan missing.json", IO),
    ("serve all new --plan plan.json --admission open", INFEASIBLE),
    ("serve status missing.sock", USAGE),
    ("serve status noise.hub", IO),
    ("serve admin missing.sock status", USAGE),
    ("serve admin noise.hub status", IO),
    ("serve admin noise.hub nonesuch", USAGE),
    *(
        (f"{start} {terms}", USAGE)
        for start in ("serve init new --plan plan.json", "serve all new --plan plan.json", DRAFT)
        for terms in ("--epoch 0", "--days nan", "--days -1", "--min-batch-size 10", "--slots 0", "--suite 3")
    ),
    *(
        (f"{start} {terms}", USAGE)
        for start in ("serve init new --plan plan.json", "serve all new --plan plan.json", DRAFT)
        for terms in (
            "--rounds 0",
            "--rounds 10001",
            "--rounds 5 --days 3",
            "--rounds 5 --round-epochs 0",
            "--round-epochs 5",
            "--rounds 5 --total-epsilon -1",
            "--rounds 5 --total-epsilon nan",
            "--total-epsilon 1",
            "--rounds 5 --total-delta 1",
            "--total-delta 0.1",
        )
    ),
    (f"{DRAFT} --rounds 5 --total-epsilon 0.001", INFEASIBLE),
    ("serve init new --plan plan.json --admission token", USAGE),
    ("serve all new --plan plan.json --admission everyone", USAGE),
    (f"{DRAFT} --admission token", USAGE),
    (f"{DRAFT} --issuer Accounts", USAGE),
    (f"{DRAFT} --token-key missing.key", IO),
    (f"{DRAFT} --token-key answers.csv", CORRUPT),
    ("serve shuffler noise.hub --role everything", USAGE),
    ("serve ticket answers.csv --contract missing.json --key token -o out", IO),
    ("serve ticket answers.csv --contract contract.json --key token -o out", CORRUPT),
    ("serve ticket answers.csv --contract contract.json --key token --round 0 -o out", USAGE),
    ("serve key new -o plan.json", USAGE),
    ("serve key new -o missing/out", IO),
    ("serve issuer missing.toml", USAGE),
    ("serve issuer noise.hub", CORRUPT),
    ("serve evaluation-key --key missing.key -o out", IO),
    ("serve evaluation-key --key token.key -o out", CORRUPT),
    ("serve relay missing.toml", USAGE),
    ("serve relay noise.hub", CORRUPT),
]


def commands() -> dict[str, click.Command]:
    """All commands, with the subcommands of groups."""
    found: dict[str, click.Command] = {}
    for name in sorted(COMMANDS):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {sub}": one for sub, one in command.commands.items()}
        else:
            found[name] = command
    return found


def nonsense() -> Iterator[str]:
    """Every option with a value that its type does not allow, and every flag with a value."""
    for name, command in commands().items():
        yield f"{name} --nonesuch"
        for option in command.params:
            if isinstance(option, click.Option) and option.is_flag:
                yield f"{name} {option.opts[0]}=yes"
            elif isinstance(option, click.Option) and option.type is not click.STRING and option.nargs == 1:
                yield f"{name} {option.opts[0]} nonsense"


def test_every_option_has_a_case() -> None:
    given = {
        name: {word for line, _ in BAD if line.startswith(f"{name} ") for word in line.split()} for name in commands()
    }
    for name, command in commands().items():
        values = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag]
        assert not [option.opts for option in values if not given[name] & set(option.opts)], name
        for argument in [one for one in command.params if isinstance(one, click.Argument)]:
            files = [line for line, _ in BAD if line.startswith(f"{name} ") and not line.split()[1].startswith("-")]
            assert files or name == "audit", argument.name


@pytest.mark.parametrize("line", list(nonsense()))
def test_nonsense(line: str, run: Call) -> None:
    result = run(*line.split())
    error, hint = result.stderr.splitlines()
    assert result.exit_code == USAGE
    assert re.findall(r" (-[-\w]+)", line)[0] in error
    assert re.search("no such option|does not take a value|is not a valid|is not one of", error)
    assert hint.startswith("hint: see `hubbub ")
    assert not result.stdout


EXPECTATIONS = (
    r"\bmust\b|\bneeds\b|give |missing option|no such|is a directory|file exists|is a file|not in the schema|"
    r"is not one of|is not a valid|not in the range|no protocol|claims|damaged|no space left|would overwrite|"
    r"could not be started|did not answer|does not exist|no service is listening"
)
INTERNALS = r"Traceback|<class|object at 0x|NoneType|np\.|internal error"


def names_a_file(error: str, line: str) -> bool:
    """True if the error names a file of the command line, or says what of the batch or of the program is wrong."""
    words = [word for word in line.split() if "." in word or "/" in word]
    return any(word in error for word in words) or bool(re.search("the (client|shuffler|reports)", error))


@pytest.mark.parametrize(("line", "code"), BAD)
def test_bad_invocation(line: str, code: int, folder: Path, run: Call) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run(*line.split())
    error, *hints = result.stderr.splitlines()
    assert result.exit_code == code, result.stderr
    assert error.startswith("error: ")
    assert code == INFEASIBLE or re.search(r"--\w|-[no]\b|'nonesuch'", error) or names_a_file(error, line), error
    assert re.search(EXPECTATIONS, error), error
    assert not re.search(INTERNALS, result.stderr)
    assert [hint[:6] for hint in hints] == ["hint: "]
    assert not result.stdout
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_errors_do_not_quote_the_data(folder: Path, run: Call) -> None:
    result = run("randomize", "wrong.csv", "--plan", "plan.json", "-o", "out")
    assert "record 2 has a label that is not in the schema (3 labels: red, green, …)" in result.stderr
    assert "mauve" not in result.stderr


def test_inspect_names_the_format_of_other_documents(folder: Path, run: Call) -> None:
    assert "its format is 'hubbub key list 2'" in run("inspect", "keys.json").stderr


def test_too_few_people(folder: Path, run: Call) -> None:
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
    (folder / "out").write_text("old")
    assert run("shuffle", "flipped.hub", "--plan", "plan.json", "-o", "out").exit_code == CORRUPT
    assert (folder / "out").read_text() == "old"


@pytest.mark.long
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
