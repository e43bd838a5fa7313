"""``hubbub serve all``: a service that dies is started again, and both end with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hubbub.io.documents import write_plan
from hubbub.planner import plan_from
from hubbub.protocol import Protocol
from hubbub.schema import Schema


def children(pid: int) -> dict[str, int]:
    """The services among the children of a process, by role."""
    found = {}
    for name in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        found.update({role: int(name) for role in ("shuffler", "analyzer") if role.encode() in words})
    return found


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_dead_service_is_started_again_and_none_is_left_behind(tmp_path: Path) -> None:
    write_plan(plan_from(Schema.one_hot(3), 200, Protocol(0.2), delta=1e-6), str(tmp_path / "plan.json"))
    words = ["serve", "all", "here", "--plan", "plan.json", "--epoch", "5", "--json"]
    script = "from hubbub.cli import main; main(prog_name='hubbub')"
    with (
        (tmp_path / "told.json").open("w") as told,
        subprocess.Popen([sys.executable, "-c", script, *words], cwd=tmp_path, stdout=told) as whole,
    ):
        until(lambda: (tmp_path / "told.json").stat().st_size > 0)
        assert "uploads" in json.loads((tmp_path / "told.json").read_text())
        first = children(whole.pid)
        os.kill(first["shuffler"], signal.SIGKILL)
        until(lambda: children(whole.pid).get("shuffler", first["shuffler"]) != first["shuffler"])
        second = children(whole.pid)
        assert second["analyzer"] == first["analyzer"]
        until(lambda: (tmp_path / "here/shuffler/addresses.json").exists() or whole.poll() is not None)
        whole.send_signal(signal.SIGTERM)
        assert whole.wait(30) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in second.values())
