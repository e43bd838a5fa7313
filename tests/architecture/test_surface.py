"""What a user sees: public names, the README's code, the cost of an import."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hubbub

ROOT = Path(__file__).parents[2]
MODULES = ["hubbub", *(m.name for m in pkgutil.walk_packages(hubbub.__path__, "hubbub."))]


def defined_names(module: ModuleType) -> set[str]:
    """Public functions and classes that the module's own source defines."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")}


@pytest.mark.parametrize("name", [m for m in MODULES if not m.startswith("hubbub.cli")])
def test_public_names_equal_all(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert len(exported) == len(set(exported))
    assert all(hasattr(module, public) for public in exported)
    assert defined_names(module) <= set(exported)


def test_top_level_names_are_documented() -> None:
    assert all(getattr(hubbub, name).__doc__ for name in hubbub.__all__)
    public = {n for n in vars(hubbub) if not n.startswith("_")} - {m.split(".")[1] for m in MODULES if "." in m}
    assert public == set(hubbub.__all__)


def test_readme_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


def test_import_is_cheap() -> None:
    script = (
        "import time; start = time.process_time(); import hubbub; spent = time.process_time() - start;"
        "import sys; assert 'scipy.stats' not in sys.modules; print(spent)"
    )
    spent = [
        float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(spent) < 0.5


def test_nothing_of_the_workplace() -> None:
    """No absolute paths of a developer's machine and no lock file that names package hosts."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for name in filter(None, tracked.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".in", ".cff"} and path.exists():
            assert not re.search(r"(^|[\s\"'(=])/(home|root|work)/", path.read_text()), name
    assert not (ROOT / "uv.lock").exists()
