"""The release tools reject wrong wheels and licences, and the demonstration a port that is taken."""

import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.check_wheel import ALONE, CHECKER, check_contents
from tools.demo_studio import check_port
from tools.licences import Component, read_components, refused, table

import hubbub as hb

ROOT = Path(__file__).parents[2]
GOOD = {
    "hubbub/__init__.py": "a = 1\nb = 2\n",
    "hubbub/py.typed": "",
    "hubbub-1.dist-info/METADATA": "",
    "hubbub-1.dist-info/licenses/LICENSE": "",
}


def wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "hubbub-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def verifier(folder: Path, *, change: str = "", needs: str = "") -> Path:
    path = folder / "hubbub_verify-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for source in CHECKER.glob("*.py"):
            archive.writestr(f"hubbub_verify/{source.name}", source.read_text() + change)
        archive.writestr("hubbub_verify/py.typed", "")
        archive.writestr("hubbub_verify-1.dist-info/METADATA", needs)
        archive.writestr("hubbub_verify-1.dist-info/licenses/LICENSE", "")
    return path


def test_the_verifier_is_the_checker_and_needs_nothing(tmp_path: Path) -> None:
    assert check_contents(verifier(tmp_path))[0] == len(list(CHECKER.glob("*.py")))
    with pytest.raises(ValueError, match="unchanged"):
        check_contents(verifier(tmp_path, change="# changed\n"))
    with pytest.raises(ValueError, match="not depend"):
        check_contents(verifier(tmp_path, needs="Requires-Dist: numpy\n"))


def test_the_verifier_is_built_offline_and_runs_alone(tmp_path: Path) -> None:
    """The wheel is built without isolation, as by ``make build``, and run from the archive itself."""
    tool = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    subprocess.run([*tool, str(ROOT / "packages" / "verify")], check=True, capture_output=True, timeout=600)
    (built,) = tmp_path.glob("*.whl")
    assert built.name.startswith(f"hubbub_verify-{hb.__version__}-")
    check_contents(built)
    plan = tmp_path / "plan.json"
    plan.write_text(hb.plan_from(hb.Schema.bits(1), 100, hb.Protocol(0.1), delta=1e-6).to_json())
    script = f"import sys; sys.path.insert(0, {str(built)!r}); from hubbub_verify.__main__ import main; {ALONE}; main()"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(plan)], check=True, capture_output=True, text=True, timeout=600
    )
    assert "verdict            confirmed\n" in found.stdout


def test_a_good_wheel_is_counted(tmp_path: Path) -> None:
    assert check_contents(wheel(tmp_path, GOOD)) == (1, 2)


@pytest.mark.parametrize(
    ("extra", "missing"),
    [
        ("tests/test_one.py", ""),
        ("research/notes/one.py", ""),
        ("hubbub/examples/one.py", ""),
        ("", "hubbub/py.typed"),
        ("", "hubbub-1.dist-info/licenses/LICENSE"),
    ],
)
def test_a_wrong_wheel_is_refused(extra: str, missing: str, tmp_path: Path) -> None:
    files = {name: text for name, text in GOOD.items() if name != missing} | ({extra: ""} if extra else {})
    with pytest.raises(ValueError, match="must"):
        check_contents(wheel(tmp_path, files))


@pytest.mark.parametrize(
    ("licences", "bad"),
    [
        (("MIT",), False),
        (("Apache-2.0 OR GPL-3.0-only",), False),
        (("MIT AND GPL-3.0-only",), True),
        (("MIT AND (GPL-3.0-only OR ISC)",), False),
        (("(MIT OR ISC) AND (GPL-3.0-only OR LGPL-3.0-only)",), True),
        (("Apache-2.0 WITH LLVM-exception",), False),
        (("Apache-2.0 WITH Other-exception",), True),
        (("License :: OSI Approved :: BSD License",), False),
        (("License :: OSI Approved :: GNU General Public License v3 (GPLv3)",), True),
        (("MIT", "GPL-3.0-only"), True),
        (("MIT", "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"), False),
        (("Proprietary",), True),
        ((), True),
    ],
)
def test_licences_outside_the_list_are_refused(licences: tuple[str, ...], bad: bool) -> None:
    assert refused(Component("a", "1", licences)) is bad


def test_an_exception_is_for_one_licence() -> None:
    assert not refused(Component("psycopg", "3", ("LGPL-3.0-only",)))
    assert refused(Component("psycopg", "3", ("GPL-3.0-only",)))


def test_the_table_has_every_component() -> None:
    entries = [
        {"name": "b", "version": "2", "licenses": [{"license": {"name": "Odd"}}]},
        {"name": "a", "version": "1", "licenses": [{"license": {"id": "MIT"}}, {"license": {"id": "MIT"}}]},
        {"name": "c"},
    ]
    text = table(read_components({"components": entries}))
    assert text.splitlines()[4:] == ["| a | 1 | MIT | yes |", "| b | 2 | Odd | no |", "| c |  | not stated | no |"]


def test_the_demonstration_names_a_port_that_is_taken() -> None:
    """Regression: `make studio` ended with a traceback, after both services had been started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=rf"127\.0\.0\.1:{port}: address already in use\nhint: .*--port 0"):
            check_port(port)
    with pytest.raises(SystemExit, match="port must be"):
        check_port(70_000)
    check_port(0)
