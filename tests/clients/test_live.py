"""The JavaScript client in Node against real services: tickets, suite 2, split bits, kills and rotations."""

import json
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.service.admissions import TICKET_KEY
from tests.service.live import LiveSystem, wait_until

import hubbub as hb
from hubbub.service.task.contract import Contract

NODE = shutil.which("node")
PROGRAM = Path(__file__).parents[2] / "clients" / "js" / "test" / "live.js"
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")
PEOPLE = 50


def start(system: LiveSystem, folder: Path, people: list[dict[str, Any]], **options: Any) -> "subprocess.Popen[str]":
    """Let people answer in a process of Node."""
    terms = json.dumps({"shuffler": system.url, "people": people, **options})
    words = [str(NODE), str(PROGRAM), str(folder), terms]
    with system.paths[0].open() as contract:
        return subprocess.Popen(words, stdin=contract, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def states(process: "subprocess.Popen[str]") -> Counter[str]:
    """Wait for a process, and return the number of answers in each state."""
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return Counter(json.loads(line)["state"] for line in output.splitlines())


def with_tickets(contract: Contract, values: list[Any], round: int = 1) -> list[dict[str, Any]]:
    context = contract.context_of(round)
    return [
        {"name": f"person-{i}", "value": value, "ticket": TICKET_KEY.mint(context, f"person {i}").hex(), "round": round}
        for i, value in enumerate(values)
    ]


def test_people_are_counted_once_although_processes_are_killed(tmp_path: Path) -> None:
    entries: Any = {"shuffler": {"key_grace": 1.0}, "analyzer": {"key_grace": 1.0}}
    system = LiveSystem(tmp_path / "services", width=PEOPLE, min_batch_size=PEOPLE, entries=entries)
    choice = random.Random(5)
    with system.running():
        system.keys()
        people = with_tickets(system.contract, [str(i) for i in range(PEOPLE)])
        for turn in range(6):
            process = start(system, tmp_path / "people", people)
            try:
                process.wait(choice.uniform(0.3, 1.5))
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
            if turn % 3 == 1:
                system.command("shuffler" if turn == 1 else "analyzer", "rotate")
        assert states(start(system, tmp_path / "people", people)) == {"stored": PEOPLE}
        wait_until(lambda: sum(system.counted().values()) >= PEOPLE, "all reports to be counted")
        assert system.counted() == dict.fromkeys(range(PEOPLE), 1)
        # A second device of the same account is refused, and the first answer stands.
        assert states(start(system, tmp_path / "others", people[:2])) == {"token-spent": 2}


def test_suite_2(tmp_path: Path) -> None:
    pytest.importorskip("cryptography.hazmat.primitives.asymmetric.mlkem")
    if not (PROGRAM.parents[1] / "node_modules" / "@noble" / "post-quantum").exists():
        pytest.skip("needs @noble/post-quantum: npm install in clients/js")
    entries: Any = {"shuffler": {"suite": 2}, "analyzer": {"suite": 2}}
    system = LiveSystem(tmp_path / "services", width=10, min_batch_size=10, suite=2, entries=entries)
    with system.running():
        system.keys()
        people = with_tickets(system.contract, [str(i) for i in range(10)])
        assert states(start(system, tmp_path / "people", people, suite=2)) == {"stored": 10}
        wait_until(lambda: sum(system.counted().values()) >= 10, "all reports to be counted")
        assert system.counted() == dict.fromkeys(range(10), 1)


def test_a_plan_of_the_library(tmp_path: Path) -> None:
    """Split bits: several messages and fillers in a bundle; the analyzer accepts every slot."""
    plan = hb.plan_from(hb.Schema.one_hot(6), 60, hb.Protocol(0.1, release="bits"), epsilon=4.0)
    system = LiveSystem(tmp_path / "services", plan=plan, min_batch_size=60)
    with system.running():
        system.keys()
        people = with_tickets(system.contract, [str(i % 6) for i in range(60)])
        assert states(start(system, tmp_path / "people", people)) == {"stored": 60}
        wait_until(lambda: bool(system.results()), "a result")
        (result,) = system.results()
        assert result["state"] == "committed"
        assert all(abs(value - 10) < 6 * plan.stderr for value in result["values"])
