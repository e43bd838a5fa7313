"""``hubbub serve``: setting up services, agreeing on a contract, and errors."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import click
from tests.cli.conftest import Call

from hubbub.cli import main
from hubbub.service.task.contract import load_contract
from hubbub.service.task.identity import Identity


def test_every_command_is_explained() -> None:
    group = main.get_command(click.Context(main), "serve")
    assert isinstance(group, click.Group)
    assert set(group.commands) == {
        "init",
        "certify",
        "contract",
        "sign",
        "shuffler",
        "analyzer",
        "all",
        "ticket",
        "key",
        "issuer",
        "relay",
        "evaluation-key",
        "status",
        "admin",
    }
    admin = group.commands["admin"]
    assert isinstance(admin, click.Group)
    for command in (*group.commands.values(), *admin.commands.values()):
        assert command.help
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


def test_two_operators_agree_on_a_contract(folder: Path, run: Call) -> None:
    told, fingerprints = {}, []
    for role in ("analyzer", "shuffler"):
        result = run("serve", "init", role, "--role", role, "--host", "analyzer.example", "--json")
        assert result.exit_code == 0, result.stderr
        told[role] = json.loads(result.stdout)["identity"]
        fingerprints += [one] if (one := json.loads(result.stdout).get("fingerprint")) else []
        assert stat.S_IMODE((folder / role / "identity").stat().st_mode) == 0o600
    assert 'analyzer = "https://analyzer.example:8500"' in (folder / "shuffler" / "settings.toml").read_text()
    # Each private key stays where it was made.
    assert {path.name for path in (folder / "shuffler").iterdir()} == {
        "identity",
        "link.csr",
        "link.key",
        "settings.toml",
        "tickets",
    }
    certified = run("serve", "certify", "analyzer", "shuffler/link.csr", "--json")
    assert certified.exit_code == 0, certified.stderr
    assert json.loads(certified.stdout)["fingerprint"] == fingerprints[0]
    passed = folder / "analyzer" / "for-shuffler"
    assert {path.name for path in passed.iterdir()} == {"authority.pem", "link.pem"}
    assert not [path for path in passed.iterdir() if b"PRIVATE" in path.read_bytes()]
    options = ("--analyzer", told["analyzer"], "--shuffler", told["shuffler"], "--days", "2", "-o", "contract.json")
    drafted = run("serve", "contract", "--plan", "plan.json", *options)
    assert drafted.exit_code == 0
    for role in ("shuffler", "analyzer"):
        path = f"{role}/identity"
        result = run("serve", "sign", "contract.json", "--identity", path, "-o", "contract.json")
        assert result.exit_code == 0, result.stderr
    assert "signed by analyzer and shuffler" in result.stderr
    assert "admission: ticket of shuffler; a release every 3,600 s, from " in result.stderr
    text = (folder / "contract.json").read_bytes()
    contract = load_contract(text).contract
    # What a batch needs, and where a bucket closes, at drafting and at signing.
    figures = f"closes at {contract.min_batch_size:,} people, its guarantee needs {contract.needed:,}"
    assert figures in drafted.stderr
    assert figures in result.stderr
    assert contract.analyzer.hex() == told["analyzer"]
    assert contract.task_end - contract.task_start == 49
    shown = run("inspect", "contract.json")
    assert shown.exit_code == 0, shown.stderr
    for words in (
        contract.id,
        contract.task.hex(),
        contract.plan.id,
        "by ticket, issued by shuffler",
        f"of whom the guarantee needs {contract.needed:,}",
        "signature verif",
    ):
        assert words in shown.stdout
    record = json.loads(run("inspect", "contract.json", "--json").stdout)
    assert (record["min_batch_size"], record["needed"]) == (contract.min_batch_size, contract.needed)
    assert (record["operators"], sorted(record["signed"])) == (told, ["analyzer", "shuffler"])
    page = run("report", "plan.json", "--contract", "contract.json", "-o", "report.html")
    assert page.exit_code == 0, page.stderr
    assert "shuffler (signature verified)" in (folder / "report.html").read_text()
    forged = json.loads(text)
    forged["signatures"]["shuffler"] = forged["signatures"]["analyzer"]
    (folder / "forged.json").write_text(json.dumps(forged))
    assert run("inspect", "forged.json").exit_code == 4
    assert run("report", "plan.json", "--contract", "forged.json", "-o", "out.html").exit_code == 4
    assert not (folder / "out.html").exists()


def test_invalid_requests_are_rejected(folder: Path, run: Call) -> None:
    assert run("serve", "init", "new", "--role", "both").exit_code == 2
    assert run("serve", "init", "new", "--role", "analyzer", "--plan", "plan.json").exit_code == 2
    assert run("serve", "all", "new").exit_code == 2
    draw = ("serve", "contract", "--plan", "plan.json", "-o", "c.json")
    assert run(*draw, "--analyzer", "zz", "--shuffler", "00" * 32).exit_code == 2
    assert "different operators" in run(*draw, "--analyzer", "00" * 32, "--shuffler", "00" * 32).stderr
    Identity.generate().save(folder / "stranger")
    assert run(*draw, "--analyzer", "00" * 32, "--shuffler", "11" * 32).exit_code == 0
    refused = run("serve", "sign", "c.json", "--identity", "stranger")
    assert refused.exit_code == 2
    assert "the signing --identity must be one of the contract's operators\n" in refused.stderr
    shown = run("inspect", "c.json")
    assert shown.exit_code == 0
    assert f"shuffler     {'11' * 32}, not signed" in shown.stdout
    drawn = run(*draw, "--analyzer", "00" * 32, "--shuffler", "11" * 32, "--epoch", "604800", "--rounds", "2")
    # Weeks are counted from a Thursday.
    assert "note: round 1 ends at " in drawn.stderr
    assert " 00:00:00 UTC" in drawn.stderr
    assert run("serve", "init", "a", "--role", "analyzer").exit_code == 0
    for words, code, message in (
        (("a", "missing.csr"), 5, "missing.csr: no such file"),
        (("a", "plan.json"), 4, "plan.json: the request must be a certificate signing request"),
        (("a", "a/link.pem"), 4, "the request must be a certificate signing request"),
        (("nowhere",), 5, "no such file"),
        (("a", "--days", "0"), 2, "--days"),
    ):
        refused = run("serve", "certify", *words)
        assert (refused.exit_code, message in refused.stderr) == (code, True), refused.stderr
    (folder / "settings.toml").write_text("listen = 3\n")
    for role in ("shuffler", "analyzer"):
        assert run("serve", role, "settings.toml").exit_code == 2
    (folder / "plain.sock").touch()
    failed = run("serve", "admin", "plain.sock", "status")
    assert failed.exit_code == 5
    assert "no service is listening at plain.sock" in failed.stderr
    assert run("serve", "admin", "plain.sock", "close").exit_code == 2
    assert run("serve", "admin", "plain.sock", "status", "more").exit_code == 2
    assert run("serve", "admin", "plain.sock", "explode").exit_code == 2
    assert run("serve", "admin", "missing.sock", "status").exit_code == 2
    assert run("serve", "admin", "settings.toml", "status").exit_code == 5


def test_a_folder_is_never_overwritten(folder: Path, run: Call) -> None:
    assert run("serve", "init", "here", "--plan", "plan.json").exit_code == 0
    before = (folder / "here" / "analyzer" / "identity").read_bytes()
    assert run("serve", "init", "here", "--plan", "plan.json").exit_code == 2
    assert (folder / "here" / "analyzer" / "identity").read_bytes() == before


def test_a_missing_extra_is_named() -> None:
    script = "import sys; sys.modules['httpx'] = None; from hubbub.cli import main; main(['serve', 'init', 'here'])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "error: This command needs the extra 'serve': pip install 'hubbub[serve]'\n"
