"""Check built wheels: each contains its package and nothing else, and works where it is installed.

    python -m tools.check_wheel contents dist/*.whl
    python tools/check_wheel.py smoke build/clean/bin build/verify/bin

``contents`` runs in the development environment, ``smoke`` drives the commands of clean ones through subprocesses, so
that nothing of the repository can be imported by accident: hubbub in the first, hubbub-verify in the second.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

__all__ = ["check_contents", "smoke"]

CHECKER = Path(__file__).parents[1] / "src" / "hubbub" / "checker"

FORBIDDEN = ("tests", "research", "examples", "benchmarks", "docs", "fuzz", "tools", "clients")
"""Folders of the repository that a wheel does not contain."""

PUBLIC = ("Budget", "Collection", "Guarantee", "Plan", "Reports", "Result", "Schema", "estimate", "plan", "randomize")
"""Names that ``import hubbub`` must offer in an environment without extras."""

ALONE = "import hubbub_verify, sys; assert not [name for name in sys.modules if name.split('.')[0] == 'hubbub']"
"""A script that fails if the verifier loads anything of hubbub."""


def check_contents(wheel: Path) -> tuple[int, int]:
    """Return the modules and the lines of Python in a wheel; raise if it contains anything but its package."""
    package = wheel.name.split("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        top = {name.split("/")[0] for name in names}
        extra = {name for name in top if name != package and not name.endswith(".dist-info")}
        if extra:
            raise ValueError(f"{wheel.name} must contain only {package} and its metadata, got also {sorted(extra)}")
        misplaced = sorted(name for name in names if set(name.split("/")[:-1]) & set(FORBIDDEN))
        if misplaced:
            raise ValueError(f"{wheel.name} must not contain {', '.join(FORBIDDEN)}, got {misplaced[:5]}")
        if not any(name.endswith("/licenses/LICENSE") for name in names):
            raise ValueError(f"{wheel.name} must contain its licence")
        if f"{package}/py.typed" not in names:
            raise ValueError(f"{wheel.name} must contain {package}/py.typed, because the package is typed")
        modules = [name for name in names if name.endswith(".py")]
        if package == "hubbub_verify":
            _check_verifier(archive, modules)
        lines = sum(archive.read(name).count(b"\n") for name in modules)
    return len(modules), lines


def _check_verifier(archive: zipfile.ZipFile, modules: list[str]) -> None:
    """Raise unless the wheel of the verifier is the checker's source, with no dependency."""
    packed = {Path(name).name: archive.read(name) for name in modules}
    if packed != {path.name: path.read_bytes() for path in CHECKER.glob("*.py")}:
        raise ValueError("the wheel of hubbub-verify must contain the modules of hubbub.checker, unchanged")
    metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    if b"Requires-Dist" in archive.read(metadata):
        raise ValueError("the wheel of hubbub-verify must not depend on anything")


def smoke(commands: Path, verifier: Path) -> None:
    """Run a small collection through the commands installed in ``commands``, and its plan through the ``verifier``."""
    verify, alone = str(verifier.resolve() / "hubbub-verify"), str(verifier.resolve() / "python")
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
        (verify, "plan.json"),
        (alone, "-I", "-m", "hubbub_verify", "plan.json", "--json"),
        (alone, "-I", "-c", ALONE),
    )
    with tempfile.TemporaryDirectory() as folder:
        values = "".join(f"{colour}\n" for colour in ("red", "green", "blue") for _ in range(400))
        Path(folder, "values.csv").write_text("colour\n" + values)
        for step in steps:
            print("$", Path(step[0]).name, *step[1:], flush=True)
            subprocess.run(step, cwd=folder, check=True, timeout=120)


if __name__ == "__main__":
    action, *places = sys.argv[1:]
    if action == "contents":
        for place in map(Path, places):
            count, lines = check_contents(place)
            print(f"{place.name}: {count} modules, {lines} lines of Python, {place.stat().st_size} bytes")
    else:
        smoke(*map(Path, places))
