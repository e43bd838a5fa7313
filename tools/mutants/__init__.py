"""Small faults, planted one at a time, that the tests must find.

Each TOML file of this folder lists the mutants of one area: ``file`` below ``src/hubbub``, the fragment ``old`` that
occurs exactly once in it, its replacement ``new``, a ``kind``, and the ``tests`` that should fail first. Four kinds::

    material    a certified, statistical, secret or exactly-once property changes: a fast test must fail
    allowance   a rounding term, a margin or a cut tail is dropped, whose effect is tiny
    sharpness   the value stays true but is less sharp, or only an attack is weaker
    equivalent  nothing can change, for the ``reason`` given
"""

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = Path("src/hubbub")
KINDS = ("material", "allowance", "sharpness", "equivalent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault."""

    area: str
    """The tests that run if those named below do not fail."""
    file: str
    old: str
    new: str
    kind: str
    tests: tuple[str, ...]
    reason: str = ""

    @property
    def path(self) -> Path:
        """The mutated file, below the root of the repository."""
        return SOURCES / self.file

    def name(self, root: Path = ROOT) -> str:
        """Return the file and the line of the fault."""
        before, found, _ = (root / self.path).read_text().partition(self.old)
        return f"{self.file}:{before.count(chr(10)) + 1 if found else '?'}"

    def mutated(self, root: Path = ROOT) -> str:
        """Return the text of the file with the fault; raise ``LookupError`` unless its place is unique."""
        text = (root / self.path).read_text()
        if (count := text.count(self.old)) != 1:
            raise LookupError(
                f"{self.path} has {count} times, not once, what a mutant in tools/mutants/{Path(self.area).name}.toml "
                f"replaces:\n    {self.old}\nIf you changed this line, give the mutant the new text in `old` and the "
                "same fault in `new`, and see a test fail with `python -m tools.mutants --only "
                f"{self.file}`; if the line is gone, remove the mutant."
            )
        return text.replace(self.old, self.new)


def load(folder: Path = HERE) -> list[Mutant]:
    """Return all mutants; raise ``ValueError`` for one that is listed wrongly."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            mutant = Mutant(area=f"tests/{path.stem}", **{**entry, "tests": tuple(entry["tests"])})
            if mutant.kind not in KINDS or (mutant.kind == "equivalent") != bool(mutant.reason):
                raise ValueError(f"{path.name}: {mutant.file}: kind is one of {KINDS}; a reason belongs to equivalent")
            if mutant.old == mutant.new or not mutant.tests:
                raise ValueError(f"{path.name}: {mutant.file}: a mutant changes its line and names tests")
            found.append(mutant)
    doubled = [key for key, count in Counter((m.file, m.old, m.new) for m in found).items() if count > 1]
    if doubled:
        raise ValueError(f"listed twice: {doubled[0]}")
    return found
