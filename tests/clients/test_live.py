"""The JavaScript client in Node against real services: tickets, suite 2, split bits, kills and rotations."""

import contextlib
import json
import random
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.service.admissions import TICKET_KEY, TOKEN_KEY
from tests.service.live import LiveSystem, wait_until
from tests.service.proxy import Deceiver, lying_server
from tests.service.test_issuer import running, write_codes

import hubbub as hb
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract

NODE = shutil.which("node")
PROGRAM = Path(__file__).parents[2] / "clients" / "js" / "test" / "live.js"
pytestmark = [pytest.mark.usefixtures("node"), pytest.mark.long]
PEOPLE = 50


def start(system: LiveSystem, folder: Path, people: list[dict[str, Any]], **options: Any) -> "subprocess.Popen[str]":
    """Let people answer in a process of Node."""
    terms = json.dumps({"shuffler": system.url, "people": people, **options})
    words = [str(NODE), str(PROGRAM), str(folder), terms]
    with system.paths[0].open() as contract:
        return subprocess.Popen(words, stdin=contract, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def states(process: "subprocess.Popen[str]") -> Counter[str]:
    """Wait for a process, and return the number of answers in each state."""
    output, errors = process.communicate(timeout=600)
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


@pytest.mark.parametrize("kind", ["open", "ticket"])
def test_a_false_proxy_makes_nobody_count_twice(tmp_path: Path, kind: str) -> None:
    """It stores everything, and says of each bundle that it did not; between the runs, the shuffler changes its key."""
    count = 6
    entries: Any = {"shuffler": {"key_grace": 0.5}}
    terms: Any = {"admission": Admission()} if kind == "open" else {}
    system = LiveSystem(tmp_path / "services", width=count, min_batch_size=count, entries=entries, **terms)
    people = with_tickets(system.contract, [str(i) for i in range(count)])
    if kind == "open":
        people = [{name: value for name, value in one.items() if name != "ticket"} for one in people]
    with system.running():
        system.keys()
        # The last of them waits, so that the bucket is open until the end.
        for act, refusal in (("store", "outdated-keys"), ("lose", None), ("repeat", "closed-task")):
            with lying_server(system.url, Deceiver(act, refusal)) as url:
                options = {"shuffler": url, "attempts": 2}
                assert "stored" not in states(start(system, tmp_path / "people", people[:-1], **options))
            system.command("shuffler", "rotate")
            time.sleep(1.0)
        assert states(start(system, tmp_path / "people", people)) == {"stored": count}
        wait_until(lambda: sum(system.counted().values()) >= count, "all reports to be counted")
        assert system.counted() == dict.fromkeys(range(count), 1)


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_tokens(tmp_path: Path) -> None:
    """The issuer of the library signs blindly, and answers a client that died with the same token."""
    terms = Admission("token", "issuer.example", TOKEN_KEY.public)
    system = LiveSystem(tmp_path / "services", width=10, min_batch_size=10, admission=terms)
    codes = [f"code-of-person-{i:06}" for i in range(11)]
    folder = tmp_path / "issuer"
    (folder / "token-keys").mkdir(parents=True)
    TOKEN_KEY.save(folder / "token-keys" / "00.pem")
    write_codes(folder / "codes", codes)
    settings = f'contracts = ["{system.paths[0]}"]\ncodes = "codes"\nlisten = "127.0.0.1:0"\nunsafe_test = true\n'
    (folder / "settings.toml").write_text(settings)
    people = [{"name": f"person-{i}", "value": str(i), "code": codes[i]} for i in range(10)]
    with system.running(), running(folder) as (_, url):
        system.keys()
        process = start(system, tmp_path / "people", people, issuer=url)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.kill()
        process.communicate()
        assert states(start(system, tmp_path / "people", people, issuer=url)) == {"stored": 10}
        stranger = [{"name": "stranger", "value": "1", "code": "an-unknown-code-here"}]
        assert states(start(system, tmp_path / "people", stranger, issuer=url)) == {"unauthorized": 1}
        again = [{**people[0], "name": "second device"}]
        assert states(start(system, tmp_path / "people", again, issuer=url)) == {"already-issued": 1}
        wait_until(lambda: sum(system.counted().values()) >= 10, "all reports to be counted")
        assert system.counted() == dict.fromkeys(range(10), 1)


@pytest.mark.slow
def test_rounds(tmp_path: Path) -> None:
    """Tickets and bundles of a series are bound to their round."""
    series: Any = {"rounds": 3, "round_epochs": 100_000, "days": None}
    system = LiveSystem(tmp_path / "services", width=10, min_batch_size=10, **series)
    with system.running():
        system.keys()
        people = with_tickets(system.contract, [str(i) for i in range(10)])
        assert states(start(system, tmp_path / "people", people)) == {"stored": 10}
        wrong = [{**one, "name": "other", "round": 1} for one in with_tickets(system.contract, ["1"], 2)]
        assert states(start(system, tmp_path / "people", wrong)) == {"bad-token": 1}
        wait_until(lambda: sum(system.counted().values()) >= 10, "all reports to be counted")
        assert system.counted() == dict.fromkeys(range(10), 1)
