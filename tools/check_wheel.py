"""Check a built wheel: it contains the package and nothing else, and it works where it is installed.

    python -m tools.check_wheel contents dist/hubbub-0.1.0-py3-none-any.whl
    python tools/check_wheel.py smoke build/clean/bin

``contents`` runs in the development environment, ``smoke`` drives the commands of a clean one through subprocesses, so
that nothing of the repository can be imported by accident.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

__all__ = ["check_contents", "smoke"]

FORBIDDEN = ("tests", "research", "examples", "benchmarks", "docs", "fuzz", "tools", "clients")
"""Folders of the repository that a wheel does not contain."""

PUBLIC = ("Budget", "Collection", "Estimate", "Guarantee", "Plan", "Reports", "Schema", "estimate", "plan", "randomize")
"""Names that ``import hubbub`` must offer in an environment without extras."""


def check_contents(wheel: Path) -> tuple[int, int]:
    """Return the modules and the lines of Python in a wheel; raise if it contains anything but the package."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        top = {name.split("/")[0] for name in names}
        extra = {name for name in top if name != "hubbub" and not name.endswith(".dist-info")}
        if extra:
            raise ValueError(f"{wheel.name} must contain only hubbub and its metadata, got also {sorted(extra)}")
        misplaced = sorted(name for name in names if set(name.split("/")[:-1]) & set(FORBIDDEN))
        if misplaced:
            raise ValueError(f"{wheel.name} must not contain {', '.join(FORBIDDEN)}, got {misplaced[:5]}")
        if not any(name.endswith("/licenses/LICENSE") for name in names):
            raise ValueError(f"{wheel.name} must contain its licence")
        if "hubbub/py.typed" not in names:
            raise ValueError(f"{wheel.name} must contain hubbub/py.typed, because the package is typed")
        modules = [name for name in names if name.endswith(".py")]
        lines = sum(archive.read(name).count(b"\n") for name in modules)
    return len(modules), lines


def smoke(commands: Path) -> None:
    """Run a small collection through the commands installed in ``commands``, in an empty folder."""
    hubbub, python = str(commands.resolve() / "hubbub"), str(commands.resolve() / "python")
    script = f"import hubbub; assert set({PUBLIC!r}) <= set(dir(hubbub)); print(hubbub.__version__, hubbub.__file__)"
    schema = ("--one-hot", "red,green,blue", "-n", "1000", "--epsilon", "1", "--delta", "1e-6")
    steps = (
        (python, "-I", "-c", script),
        (hubbub, "--version"),
        (hubbub, "--help"),
        (hubbub, "plan", *schema, "-o", "plan.json"),
        (hubbub, "inspect", "plan.json"),
        (hubbub, "randomize", "values.csv", "--plan", "plan.json", "-o", "reports.hub"),
        (hubbub, "shuffle", "reports.hub", "--plan", "plan.json", "-o", "shuffled.hub"),
        (hubbub, "estimate", "shuffled.hub", "--plan", "plan.json"),
    )
    with tempfile.TemporaryDirectory() as folder:
        values = "".join(f"{colour}\n" for colour in ("red", "green", "blue") for _ in range(400))
        Path(folder, "values.csv").write_text("colour\n" + values)
        for step in steps:
            print("$", Path(step[0]).name, *step[1:], flush=True)
            subprocess.run(step, cwd=folder, check=True, timeout=120)


if __name__ == "__main__":
    action, place = sys.argv[1], Path(sys.argv[2])
    if action == "contents":
        count, lines = check_contents(place)
        print(f"{place.name}: {count} modules, {lines} lines of Python, {place.stat().st_size} bytes")
    else:
        smoke(place)
