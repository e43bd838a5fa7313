"""Run the examples of the book: execute all code and commands of a page, and compare their output.

The fences of a page run in order, in one namespace and one empty folder:

- ``python``: executed, except ``python program``, which has a test of its own; ``python needs NAME`` only if the
  package of this name is installed;
- ``pycon``: a session, compared by :mod:`doctest`;
- ``toml NAME``: written to the file of this name;
- ``console``: commands after ``$``, each followed by its expected output. ``…`` matches anything, and eight hexadecimal
  digits before it any digest. In ``console varies`` numbers, bars and the order of lines may differ, because the
  randomness is real.

Fences of any other language are not run.
"""

import contextlib
import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

__all__ = ["Example", "examples", "run"]

FENCE = re.compile(r"^[ ]*```(\w+)([^\n`]*)\n(.*?)^[ ]*```[ \t]*$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"[|<>;&$`*]")
SILENT = " > /dev/null"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COLUMNS = "88"


@dataclass(frozen=True, slots=True)
class Example:
    """One fence: language, the words after it, text and line."""

    language: str
    mode: str
    text: str
    line: int

    @property
    def needs(self) -> str:
        """The package that the example needs, or an empty string."""
        return self.mode.removeprefix("needs ") if self.mode.startswith("needs ") else ""


def examples(page: Path) -> list[Example]:
    """Return the fences of a page that can be run."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        runs = match[1] in ("python", "pycon", "console") or (match[1] == "toml" and match[2].strip())
        if runs and match[2].strip() != "program":
            line = text.count("\n", 0, match.start()) + 2
            found.append(Example(match[1], match[2].strip(), textwrap.dedent(match[3]), line))
    return found


def run(page: Path, folder: Path, only: str = "") -> dict[str, object]:
    """Run the examples of a page in this folder, and return their names; AssertionError names the first that differs.

    ``only`` leaves out the examples that need another package than this one.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(folder), _environment(COLUMNS=COLUMNS, TERM="dumb", LC_ALL="C.UTF-8", PYTHONWARNINGS="error"):
        for example in examples(page):
            place = f"{page.name}:{example.line}"
            package = example.needs
            if package and (importlib.util.find_spec(package) is None or only not in ("", package)):
                continue
            if example.language == "toml":
                Path(example.mode).write_text(example.text, encoding="utf-8")
            elif example.language == "python":
                exec(compile(example.text, place, "exec"), namespace)
            elif example.language == "pycon":
                _session(example, namespace, place)
            else:
                for command, expected in _commands(example.text):
                    shown = _execute(command)
                    assert _agree(expected, shown, example.mode == "varies"), (
                        f"{place}: $ {command}\nexpected:\n{expected}\ngot:\n{shown}"
                    )
    return namespace


def _session(example: Example, namespace: dict[str, object], place: str) -> None:
    test = doctest.DocTestParser().get_doctest(example.text, namespace, place, place, example.line)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append, clear_globs=False)
    assert not told, "".join(told)
    namespace.update(test.globs)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        size = 1
        while lines[size - 1].endswith("\\"):
            size += 1
        yield "\n".join(lines[:size]), "\n".join(lines[size:]).strip("\n")


def _execute(command: str) -> str:
    """Return the output of a command; plain calls of hubbub run in this process, all others in a shell."""
    plain = command.replace("\\\n", " ").removesuffix(SILENT)
    words = shlex.split(plain)
    if words[0] == "hubbub" and not SHELL.search(plain):
        from hubbub.cli import main  # noqa: PLC0415 (only pages with commands need it)

        done = CliRunner().invoke(main, words[1:], prog_name="hubbub")
        return done.stderr if command.endswith(SILENT) else done.output
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    return told.stdout


def _agree(expected: str, shown: str, varies: bool) -> bool:
    want, got = _plain(expected, varies), _plain(shown, varies)
    if varies:
        return want == got
    pattern = ".*?".join(re.escape(piece) for piece in re.split("…", want))
    return re.fullmatch(pattern, got, re.DOTALL) is not None


def _plain(text: str, varies: bool) -> str:
    lines = [line.rstrip() for line in text.split("\n")]
    text = re.sub(r"\b[0-9a-f]{8}(?:[0-9a-f]{56}\b|…)", "#", "\n".join(lines).strip("\n"))
    if varies:
        text = re.sub(r"[\u2580-\u259f]+", "", text)
        text = re.sub(r"[-−+]?\d[\d,.]*(e[-+]?\d+)?", "#", text)
        text = "\n".join(sorted(" ".join(line.split()) for line in text.replace("─", "").split("\n")))
    return text.strip("\n")


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            run(Path(name).resolve(), Path(scratch))
            print(f"{name}: {len(examples(Path(name)))} examples run")
