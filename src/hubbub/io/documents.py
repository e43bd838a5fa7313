"""Plans, schemas and lists of labels in files."""

from pathlib import Path

from hubbub.canonical import parse
from hubbub.errors import reject
from hubbub.io.files import PIPE, read_text, write_text
from hubbub.planner import load_plan
from hubbub.plans import Plan
from hubbub.schema import Schema


def read_plan(path: str) -> Plan:
    """A plan from its JSON, with everything that it claims recomputed."""
    return load_plan(read_text(path))


def write_plan(plan: Plan, path: str) -> None:
    """The canonical JSON of a plan, on one line."""
    write_text(path, plan.to_json() + "\n")


def read_schema(path: str) -> Schema:
    """Read a schema from a JSON file, in the form it has in plans."""
    return Schema.from_document(parse(read_text(path), "the schema"))


def read_labels(text: str) -> list[str] | int:
    """Labels as one word of a command line: how many, or a file with one a line, or the labels between commas.

    >>> read_labels("12"), read_labels("red,green")
    (12, ['red', 'green'])
    """
    if text.isdecimal():
        return int(text)
    if "," in text and not Path(text).exists():
        return text.split(",")
    if text == PIPE:
        reject("labels", "be a number, a file, or labels between commas", "a pipe")
    try:
        lines = read_text(text).decode().splitlines()
    except UnicodeDecodeError:
        reject("a file of labels", "be UTF-8 text", "other bytes")
    if not all(lines):
        reject("a file of labels", "have a label on every line", "an empty line")
    return lines
