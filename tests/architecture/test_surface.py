"""The public surface: exported names, the README's code, the imports of `import hubbub`."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import hubbub
from hubbub.cli import main

ROOT = Path(__file__).parents[2]
MODULES = ["hubbub", *(m.name for m in pkgutil.walk_packages(hubbub.__path__, "hubbub."))]


def test_top_level_names_are_documented() -> None:
    assert all(getattr(hubbub, name).__doc__ for name in hubbub.__all__)
    public = {n for n in vars(hubbub) if not n.startswith("_")} - {m.split(".")[1] for m in MODULES if "." in m}
    assert public == set(hubbub.__all__)


def test_readme_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    claimed = re.findall(r"^print\(.*\)  # (.*), …$", "\n".join(blocks), re.MULTILINE)
    assert claimed, "a comment that ends with … quotes what is printed"
    printed = capsys.readouterr().out
    assert [text for text in claimed if f"\n{text}" not in f"\n{printed}"] == []


def test_the_table_of_the_readme_is_what_the_command_prints() -> None:
    shown = re.search(
        r"^    hubbub (frontier .*)\n\n((?:    .*\n|\n)*)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert shown
    result = CliRunner().invoke(main, shown[1].split())
    assert result.exit_code == 0, result.output
    printed = [" ".join(line.split()) for line in result.stdout.splitlines()]
    rows = [" ".join(line.split()) for line in shown[2].splitlines() if line.strip()]
    assert len(rows) > 10
    assert [row for row in rows if row not in printed] == []


@pytest.mark.parametrize("module", ["numpy", "scipy", "matplotlib", "cryptography", "rich", "hubbub.lab"])
def test_import_loads_no_heavy_module(module: str) -> None:
    script = f"import hubbub, sys; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_no_machine_paths() -> None:
    """Files contain no absolute paths of a developer's machine, and lock files no package hosts."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for name in filter(None, tracked.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".in", ".cff"} and path.exists():
            assert not re.search(r"(^|[\s\"'(=])/(home|root|work)/", path.read_text()), name
    assert not (ROOT / "uv.lock").exists()
