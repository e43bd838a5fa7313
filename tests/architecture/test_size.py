"""Modules stay small, imports have no cycles, and type-ignores stay rare."""

import ast
import re
import statistics
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [folder for folder in (ROOT / "src" / "hubbub", ROOT / "research") if folder.is_dir()]
LONGEST = 800
MEDIAN = 250
TYPE_IGNORES = 3


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_no_module_is_too_long(folder: Path) -> None:
    long = {str(path.relative_to(ROOT)): lines(path) for path in sources(folder) if lines(path) > LONGEST}
    assert long == {}, f"modules have at most {LONGEST} lines: split these by what they describe"


def test_the_median_module_is_short() -> None:
    assert statistics.median(map(lines, sources(ROOT / "src"))) < MEDIAN


def test_type_ignores_are_rare() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources(ROOT / "src")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"#\s*type:\s*ignore", line)
    ]
    assert len(found) <= TYPE_IGNORES, found


def imported(body: list[ast.stmt], modules: set[str], package: str) -> Iterator[str]:
    """Return the modules that the statements import at run time: not inside functions, not for type checkers."""
    for node in body:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=module, level=level):
                above = package.rsplit(".", level - 1)[0] if level else ""
                name = ".".join(filter(None, (above, module)))
                inner = {f"{name}.{alias.name}" for alias in node.names}
                yield from inner & modules
                if not inner <= modules:
                    yield name
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from imported(node.orelse, modules, package)
            case ast.If() | ast.With() | ast.ClassDef() | ast.Try() | ast.For() | ast.While():
                for field in ("body", "orelse", "finalbody"):
                    yield from imported(getattr(node, field, []), modules, package)
                for handler in getattr(node, "handlers", []):
                    yield from imported(handler.body, modules, package)


def import_graph(package: Path) -> dict[str, set[str]]:
    """Return the modules of a package that each of its modules imports when it is loaded."""
    names = {}
    for path in sources(package):
        parts = path.relative_to(package.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    modules = set(names)
    graph = {}
    for name, path in names.items():
        parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
        graph[name] = (set(imported(ast.parse(path.read_text()).body, modules, parent)) & modules) - {name}
    return graph


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return a cycle of the graph, or an empty list."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for other in sorted(graph[name]):
                if found := visit(other, [*path, name]):
                    return found
            done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_imports_have_no_cycle(folder: Path) -> None:
    graph = import_graph(folder)
    assert graph
    assert cycle(graph) == []


def test_a_cycle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    files = {
        "__init__": "",
        "first": "from . import second",
        "second": "try:\n    from .third import name\nexcept ImportError:\n    pass",
        "third": "import package.first\nname = 1",
        "lazy": "def load():\n    from package import eager",
        "eager": "from package import lazy",
        "typed": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import package.user",
        "user": "import package.typed",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text) + "\n")
    graph = import_graph(package)
    assert cycle(graph) == ["package.first", "package.second", "package.third", "package.first"]
    assert cycle({name: others for name, others in graph.items() if name.split(".")[-1] in ("lazy", "eager")}) == []
    assert graph["package.typed"] == set()
