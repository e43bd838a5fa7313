"""Count the forks: places that decide by the kind of a question, of a mechanism, of a column or of a result.

    python -m tools.forks               # src/hubbub
    python -m tools.forks src/hubbub/io

What differs by kind belongs to the kind: a method of the question, or a function that is registered for the mechanism.
Every other place that asks has to be found when a kind is added. A fork is the condition of an ``if``, a ``while``, a
conditional expression or a comprehension, or a ``case`` with its guard, that looks at an attribute of
:data:`ATTRIBUTES`, at a class of :data:`CLASSES` or compares with a value of :data:`VALUES`. A condition that asks two
different things counts twice. Assertions and dispatch tables are no forks.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

__all__ = ["forks", "main", "questions_asked"]


def _by_name(groups: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {name: group for group, names in groups.items() for name in names}


ATTRIBUTES = _by_name(
    {
        "schema": ("dense", "exclusive", "form", "named", "questions"),
        "rule": ("at_most", "rule"),
        "release": (
            *("is_index", "is_string", "release", "sends_bits", "sends_category", "sends_records", "sends_rows"),
            "sends_strings",
        ),
        "mechanism": (
            *("clear", "fixed_fakes", "has_shuffler_fakes", "mechanism", "mechanisms"),
            *("shuffler_fakes", "user_fakes"),
        ),
    }
)
"""Attributes that tell the kind, and what they tell."""
CLASSES = _by_name(
    {
        "question": ("Choice", "Cross", "Flag", "Number", "Scale", "Several", "Text"),
        "mechanism": (
            *("Fakes", "FixedFakes", "Flip", "Noise", "Response", "ShufflerFakes", "Threshold"),
            "UserFakes",
        ),
        "record": ("Bodies", "Packed", "SetBits"),
        "result": (
            *("AnswerCounts", "Comparison", "CrossView", "LabelComparison", "LabelView", "NumberComparison"),
            *("NumberView", "ScaleComparison", "ScaleView", "StringView"),
        ),
    }
)
"""Classes of which there is one for each kind."""
VALUES = _by_name(
    {
        "schema": ("one_hot", "survey"),
        "rule": ("any", "at_most", "one", "text"),
        "release": ("bits", "category", "records", "strings"),
        "mechanism": ("binomial", "gaussian", "laplace", "poisson", "shuffler", "users"),
    }
)
"""Strings that name a kind."""


def questions_asked(condition: ast.AST) -> set[str]:
    """Return what a condition, or a pattern of a ``case``, asks about kinds.

    >>> sorted(questions_asked(ast.parse("isinstance(one, Scale | Number) and plan.protocol.sends_bits")))
    ['question', 'release']
    >>> questions_asked(ast.parse("len(labels) > 2"))
    set()
    """
    return set(_asked(condition))


def _asked(condition: ast.AST) -> Iterator[str]:
    for node in ast.walk(condition):
        match node:
            case ast.Attribute(attr=name) if name in ATTRIBUTES:
                yield ATTRIBUTES[name]
            case ast.Attribute(attr="text", value=ast.Name(id="schema") | ast.Attribute(attr="schema")):
                yield "schema"
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                yield from _classes(classes)
            case ast.Compare(left=left, comparators=others):
                for side in (left, *others):
                    yield from _classes(side) if isinstance(side, ast.Name | ast.Tuple) else ()
                    yield from _values(side)
            case ast.MatchClass(cls=cls):
                yield from _classes(cls)
            case ast.MatchValue(value=value):
                yield from _values(value)


def _classes(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        name = one.id if isinstance(one, ast.Name) else one.attr if isinstance(one, ast.Attribute) else ""
        if name in CLASSES:
            yield CLASSES[name]


def _values(node: ast.AST) -> Iterator[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else [node]
    for one in parts:
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value in VALUES:
            yield VALUES[one.value]


def _conditions(tree: ast.AST) -> Iterator[tuple[ast.AST, ...]]:
    """Return every condition of a module, as the parts of which it consists."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield (test,)
            case ast.comprehension(ifs=tests):
                yield from ((test,) for test in tests)
            case ast.Match(subject=subject, cases=cases):
                for case in cases:
                    default = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
                    if not default or case.guard:
                        yield (subject, case.pattern, *([case.guard] if case.guard else []))


def forks(folder: Path) -> dict[Path, Counter[str]]:
    """Return how often each file below a folder asks each question; files without forks are left out."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        conditions = _conditions(ast.parse(path.read_text(encoding="utf-8")))
        counted = Counter(
            asked for parts in conditions for asked in set().union(*(questions_asked(part) for part in parts))
        )
        if counted:
            found[path.relative_to(folder)] = counted
    return found


def main(folder: Path) -> None:
    """Print the number of forks below a folder: of all files, of its packages, and of the files with most."""
    files = forks(folder)
    packages: dict[str, Counter[str]] = {}
    for path, counted in files.items():
        packages.setdefault(path.parts[0], Counter()).update(counted)
    whole: Counter[str] = Counter()
    for counted in files.values():
        whole.update(counted)
    print(f"{whole.total()} forks in {len(files)} files: {_described(whole)}")
    for title, rows in (("packages", packages), ("files", files)):
        print(f"\n{title}")
        for name, counted in sorted(rows.items(), key=lambda row: -row[1].total())[:30]:
            print(f"{counted.total():5}  {name}: {_described(counted)}")


def _described(counted: Counter[str]) -> str:
    return ", ".join(f"{what} {number}" for what, number in counted.most_common())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/hubbub"))
