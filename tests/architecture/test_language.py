"""The project speaks the vocabulary of the field: retired words appear in no identifier, key, file name or sentence."""

import io
import json
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN_VOCABULARY = ("research/", "docs/errata", "tests/architecture/test_language.py", "CHANGELOG.md")
"""Files that quote the research notes, or list the words themselves."""

IDENTIFIER_PARTS = frozenset(
    {"street", "streets", "room", "rooms", "floors", "house", "lie", "lies", "lied", "liar", "liars", "law", "laws"}
    | {"owned", "alarm", "alarms", "town", "towns", "skin", "vault", "founding", "noting", "yardstick", "yardsticks"}
    | {"trusts", "realized", "adopt", "adopted"}
)
IDENTIFIERS = frozenset(
    {"having", "least_crowd", "Trust", "Refusal", "Shape", "Lost", "mixing", "commanding", "tallying"}
)
KEYS = frozenset({"lie", "law", "least", "opens", "closes", "trusts", "lower", "collusion", "count_leak", "realized"})
PHRASES = [
    r"\bstreets?\b",
    r"\blie probabilit",
    r"\bliars?\b",
    r"\bthe mix\b",
    r"\bskin\b",
    r"\btowns?\b",
    r"\bfounding\b",
    r"\bvaults?\b",
    r"\bnoting\b",
    r"\bowned users?\b",
    r"\byardsticks?\b",
    r"\b(true|false) alarms?\b",
    r"\bleast crowd\b",
    r"\bcrowd floor\b",
    r"\brooms? of the house\b",
    r"\bhouse rules?\b",
    r"got ('(others?|another|something else|more|none|nothing|fewer)'|others?|another|something else|nothing)(?![\w ])",
    r"\bonce more is no error\b",
    r"\bgive the connection back\b",
    r"\bwhoever asked has hung up\b",
    r"\bwhat one person may lose\b",
    r"\bthe chance that it is more\b",
]


def tracked(*suffixes: str) -> list[Path]:
    """Files of the repository with one of the suffixes, without those that quote the notes."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    names = [name for name in listed.split("\0") if name.endswith(suffixes) and not name.startswith(OWN_VOCABULARY)]
    return [ROOT / name for name in names if (ROOT / name).exists()]


def parts(name: str) -> set[str]:
    """Words of an identifier in snake_case or CamelCase."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def retired_names(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            if parts(token.string) & IDENTIFIER_PARTS or token.string in IDENTIFIERS:
                yield f"line {token.start[0]}: {token.string}"
        elif token.type == tokenize.STRING and token.string.strip("\"'") in KEYS:
            yield f"line {token.start[0]}: {token.string}"


@pytest.mark.parametrize("source", ["lie = 1", "class TownHall: pass", 'x = {"least": 1}', "def check_lie(): ..."])
def test_the_check_of_names_rejects(source: str) -> None:
    assert list(retired_names(source))


def test_no_retired_name_in_code() -> None:
    found = {str(path.relative_to(ROOT)): list(retired_names(path.read_text())) for path in tracked(".py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_no_retired_word_in_file_names() -> None:
    names = [path.relative_to(ROOT) for path in tracked("")]
    assert [name for name in names if any(parts(Path(part).stem) & IDENTIFIER_PARTS for part in name.parts)] == []


def test_no_retired_key_in_json() -> None:
    def keys(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)

    for path in tracked(".json"):
        assert not KEYS & set(keys(json.loads(path.read_text()))), path


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_retired_phrase(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    files = tracked(".py", ".md", ".toml", ".html", ".css", ".js", "Makefile", ".cfg", ".service")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_docstring_begins_as_a_question() -> None:
    """``What …``, ``How …`` and ``Whether …`` describe a question; a docstring says what the thing is or does."""
    pattern = re.compile(r'^\s*[rf]?"""(What|How|Whether|Who|Where)\b', re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in tracked(".py")
        for match in pattern.finditer(path.read_text())
    ]
    assert found == []
