"""``hubbub serve all``: the whole system as one command, restarts of a service that dies, and every way to end it."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import call
from tests.service.live import wait_until

from hubbub.io.documents import write_plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.task.contract import load_contract

# A shell without job control starts background jobs with SIGINT ignored, and children inherit that.
SCRIPT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from hubbub.cli import main; main(prog_name='hubbub')"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(plan_from(Schema.one_hot(3), 200, Protocol(0.2), delta=1e-6), str(tmp_path / "plan.json"))
    return tmp_path


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, Any]]]:
    """Run the command and return its process and its output."""
    output = folder / "output.json"
    command = [sys.executable, "-c", SCRIPT, "serve", "all", "here", *words, "--epoch", "5", "--json"]
    with output.open("w") as file, subprocess.Popen(command, cwd=folder, stdout=file) as process:
        try:
            wait_until(lambda: output.stat().st_size > 0 or process.poll() is not None, "the services to start")
            yield process, json.loads(output.read_text())
        finally:
            process.kill()


def services(pid: int) -> dict[str, int]:
    """Return the services among the children of a process, by role."""
    found = {}
    for name in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        found.update({role: int(name) for role in ("shuffler", "analyzer") if role.encode() in words})
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_whole_system_and_its_admin_commands(folder: Path) -> None:
    with serving(folder, "--plan", "plan.json") as (process, system):
        assert set(system) == {"task", "contract", "uploads", "results", "token", "ticket_key"}
        here = folder / "here"
        for target in (here / "shuffler", here / "shuffler" / "settings.toml", here / "shuffler" / "admin.sock"):
            status = call("serve", "admin", str(target), "status", "--json")
            assert json.loads(status.stdout)["tasks"][system["task"]]["accepted"] == 0
        (folder / "three.csv").write_text("choice\n0\n1\n0\n")
        words = (
            "--contract",
            str(folder / system["contract"]),
            "--to",
            system["uploads"],
            "--journal",
            str(folder / "journal"),
        )
        sent = call(
            "send", str(folder / "three.csv"), *words, "--ticket-key", str(folder / system["ticket_key"]), "--json"
        )
        assert json.loads(sent.stdout) == {"stored": 3, "waiting": 0, "refused": {}, "uncertain": 0}, sent.stderr
        assert call("serve", "admin", str(here / "analyzer"), "rotate").stderr == "note: done\n"
        assert "good" in call("serve", "admin", str(here / "analyzer"), "check").stdout
        refused = call("serve", "admin", str(here / "analyzer"), "close", system["task"])
        assert refused.exit_code != 0
        assert "'close' is a command of the shuffler; this is the analyzer" in refused.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
    assert not list(here.glob("*/addresses.json"))


@pytest.mark.long
def test_restarts_and_every_way_to_end(folder: Path) -> None:
    """A service that dies is restarted; none outlives the command, however it ends; the next run reuses the token."""
    with serving(folder, "--plan", "plan.json") as (process, system):
        first = services(process.pid)
        os.kill(first["shuffler"], signal.SIGKILL)
        wait_until(lambda: services(process.pid).get("shuffler", first["shuffler"]) != first["shuffler"], "a restart")
        second = services(process.pid)
        assert second["analyzer"] == first["analyzer"]
        wait_until((folder / "here/shuffler/addresses.json").exists, "the shuffler")
        process.kill()
    wait_until(lambda: not any(map(alive, second.values())), "the services to stop")
    with serving(folder) as (process, again):
        assert again == system
        third = services(process.pid)
        assert len(third) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0
    assert not any(map(alive, third.values()))


def descendants(pid: int) -> set[int]:
    """Return the ids of all processes that a process has started, directly or not."""
    try:
        children = {int(name) for name in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
    return children | {one for child in children for one in descendants(child)}


@pytest.mark.long
def test_no_orphans_after_sigkill_and_the_next_start_works(folder: Path) -> None:
    """Services whose command was killed stop and release their folders, even with a request in progress."""
    with serving(folder, "--plan", "plan.json") as (process, system):
        family = descendants(process.pid)
        assert len(family) >= 4  # two services, each with workers
        host, port = system["uploads"].removeprefix("http://").split(":")
        half = socket.create_connection((host, int(port)))
        # A request in progress, for which the shuffler waits while it stops.
        head = f"POST /v1/tasks/{system['task']}/bundles HTTP/1.1\r\nHost: x\r\n"
        size = load_contract((folder / "here" / "contract.json").read_bytes()).contract.bundle_size
        half.sendall(f"{head}Content-Type: application/hubbub-bundle\r\nContent-Length: {size}\r\n\r\n".encode())
        process.kill()
        process.wait()
        with half, serving(folder) as (second, again):
            assert again["task"] == system["task"]
            assert not any(map(alive, family))
            family = descendants(second.pid)
    wait_until(lambda: not any(map(alive, family)), "all processes to stop", 30)


def test_no_orphans_if_it_is_killed_while_the_services_start(folder: Path) -> None:
    assert call("serve", "init", str(folder / "here"), "--plan", str(folder / "plan.json")).exit_code == 0
    command = [sys.executable, "-c", SCRIPT, "serve", "all", "here"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: bool(descendants(process.pid)), "a service")
        family = descendants(process.pid)
        process.kill()
    wait_until(lambda: not any(map(alive, family)), "all processes to stop", 30)
