"""The setup of ``deploy/README.md``, command by command: two operators with separate folders, processes and files."""

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.service.live import wait_until

from hubbub.io.documents import write_plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.provision import free_port

README = Path(__file__).parents[2] / "deploy" / "README.md"
PROGRAM = [sys.executable, "-c", "from hubbub.cli import main; main(prog_name='hubbub')"]
PEOPLE = 240
EPOCH = ("--epoch", "2")
"""The test does not wait for an hour."""


def documented() -> list[list[str]]:
    """Return the commands of the setup, in their order."""
    text = README.read_text().partition("## Setup")[2].partition("\n## ")[0]
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    return [shlex.split(span)[1:] for span in spans if span.startswith("hubbub serve ")]


class Operator:
    """An operator, whose machine is a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def words(self, words: list[str]) -> list[str]:
        """Return a documented command with the names of this test."""
        names = {"analyzer.example": "localhost"}
        return [*PROGRAM, *(names.get(word, word.replace("/var/lib/", "")) for word in words)]

    def run(self, words: list[str], *more: str) -> str:
        """Run a command on this machine and return its output."""
        command = [*self.words(words), *more]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def send(self, other: "Operator", source: str, target: str) -> None:
        """Send a file to the other operator."""
        shutil.copy(self.folder / source, other.folder / target)

    @contextmanager
    def service(self, words: list[str], role: str) -> Iterator[dict[str, str]]:
        """Run a service and return its addresses."""
        with subprocess.Popen(self.words(words), cwd=self.folder) as process:
            path = self.folder / f"hubbub-{role}" / "addresses.json"
            try:
                wait_until(lambda: path.exists() or process.poll() is not None, f"the {role}")
                yield json.loads(path.read_text())
            finally:
                process.terminate()


@pytest.mark.slow
def test_two_operators_follow_the_readme(tmp_path: Path) -> None:
    commands = documented()
    verbs = [" ".join(words[1:2] if words[1] != "admin" else (words[1], words[3])) for words in commands]
    assert verbs == [
        *("init", "init", "certify", "contract", "sign", "sign", "analyzer", "shuffler"),
        *("admin add", "admin add", "status", "ticket", "admin token"),
    ]
    analyzer, shuffler = Operator(tmp_path / "one"), Operator(tmp_path / "two")
    told = {
        "analyzer": json.loads(analyzer.run(commands[0], "--json")),
        "shuffler": json.loads(shuffler.run(commands[1], "--json")),
    }
    shuffler.send(analyzer, "hubbub-shuffler/link.csr", "link.csr")
    certified = json.loads(analyzer.run(commands[2], "--json"))
    assert certified["fingerprint"] == told["shuffler"]["fingerprint"]
    for name in ("link.pem", "authority.pem"):
        analyzer.send(shuffler, f"hubbub-analyzer/for-shuffler/{name}", f"hubbub-shuffler/{name}")
    write_plan(plan_from(Schema.one_hot(3), 200, Protocol(0.2), delta=1e-6), str(analyzer.folder / "plan.json"))
    identities = iter([told["analyzer"]["identity"], told["shuffler"]["identity"]])
    draft = [next(identities) if word == "HEX" else word for word in commands[3]]
    analyzer.run(draft, *EPOCH)
    analyzer.run(commands[4])
    analyzer.send(shuffler, "contract.json", "contract.json")
    shuffler.run(commands[5])
    shuffler.send(analyzer, "contract.json", "contract.json")
    _use_free_ports(analyzer, shuffler)
    with ExitStack() as stack:
        results = stack.enter_context(analyzer.service(commands[6], "analyzer"))["results"]
        uploads = stack.enter_context(shuffler.service(commands[7], "shuffler"))["uploads"]
        analyzer.run(commands[8])
        shuffler.run(commands[9])
        assert told["shuffler"]["role"] in shuffler.run(commands[10])
        (shuffler.folder / "accounts.txt").write_text("".join(f"account {i}\n" for i in range(PEOPLE)))
        shuffler.run(commands[11])
        token = json.loads(analyzer.run(commands[12], "--json"))["token"]
        (shuffler.folder / "values.csv").write_text("value\n" + "1\n" * PEOPLE)
        upload = ["send", "values.csv", "--contract", "contract.json", "--to", uploads, "--journal", "sent"]
        shuffler.run([*upload, "--tickets", "tickets.txt"])
        (tmp_path / "token").write_text(token)
        read = ["results", results, "--token", str(tmp_path / "token"), "--format", "csv"]
        wait_until(lambda: "committed" in analyzer.run(read), "a result")
        rows = list(csv.DictReader(io.StringIO(analyzer.run(read))))
    assert max(rows, key=lambda row: float(row["value"]))["label"] == "1"


def _use_free_ports(analyzer: Operator, shuffler: Operator) -> None:
    """Change the ports in the settings: others may use the default ones of this machine."""
    link = free_port()
    for operator, role, entries in (
        (analyzer, "analyzer", ("read", "operations")),
        (shuffler, "shuffler", ("listen", "operations")),
    ):
        path = operator.folder / f"hubbub-{role}" / "settings.toml"
        text = path.read_text()
        assert text.count(":8500") == 1
        for entry in entries:
            text = re.sub(rf"^# {entry} = .*$", f'{entry} = "127.0.0.1:0"', text, flags=re.MULTILINE)
        path.write_text(text.replace(":8500", f":{link}"))
