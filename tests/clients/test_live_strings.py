"""The JavaScript client sends strings through a relay to running services, together with Python's uploader."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.service.live import wait_until
from tests.service.string_deaths import StringLive

from hubbub.service.journal import Journal
from hubbub.service.transport import HttpTransport
from hubbub.service.uploader import Uploader

CLIENT = Path(__file__).parents[2] / "clients" / "js"
pytestmark = [pytest.mark.long]


def speak(
    node: str, folder: Path, live: StringLive, values: Sequence[str | None], **options: Any
) -> list[dict[str, Any]]:
    """Let one person for each value send it by JavaScript; return the states."""
    names = [f"js {options.get('first', 0) + number}" for number in range(len(values))]
    admissions = live.admissions(names)
    people = [
        {"name": name.replace(" ", "-"), "value": value, "admission": admission.hex()}
        for name, value, admission in zip(names, values, admissions, strict=True)
    ]
    operators = {role: identity.public.hex() for role, identity in live.identities.items()}
    given = json.dumps({"relay": live.relay, "operators": operators, "people": people, **options})
    done = subprocess.run(
        [node, str(CLIENT / "test" / "live_strings.js"), str(folder), given],
        input=live.paths[0].read_bytes(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_strings_of_both_clients_are_counted_together(node: str, tmp_path: Path) -> None:
    if not (CLIENT / "node_modules" / "@noble" / "curves").exists():
        pytest.skip("needs @noble/curves: npm install in clients/js")
    live = StringLive(tmp_path / "live", min_batch_size=60)
    with live.running():
        live.keys()
        wait_until(lambda: live.ready("relay"), "the relay")
        forged = speak(node, tmp_path / "forged", live, ["köln"], forge=True, first=1000)
        assert forged == [{"name": "js-1000", "state": "FalseClaim", "journal": "waiting"}]
        values = ["köln"] * 10 + ["out of memory"] * 4 + [None]
        states = speak(node, tmp_path / "people", live, values)
        assert {one["state"] for one in states} == {"stored"}
        # The same people again: nobody is counted twice.
        assert {one["state"] for one in speak(node, tmp_path / "people", live, values)} == {"stored"}
        journal = Journal(tmp_path / "sent.journal", live.contract)
        transport = HttpTransport(live.relay)
        sender = Uploader(live.contract, transport, journal)
        others = ["köln"] * 30 + ["out of memory"] * 26
        sender.prepare(others, live.admissions([f"py {number}" for number in range(len(others))]))
        assert sender.send().stored == len(others)
        journal.close()
        transport.close()
        wait_until(lambda: len(live.results()) > 0, "the result")
        (result,) = live.results()
        numbers = {one["string"]: one["number"] + 1 for one in result["estimate"]["counts"]}
        assert numbers == {"köln": 40, "out of memory": 30}
        assert result["rejected"] == {}
        assert result["people"] == len(values) + len(others)
