"""Plans, estimates, schemas and lists of labels in files."""

from pathlib import Path

from hubbub.canonical import parse
from hubbub.errors import reject
from hubbub.estimates import Estimate
from hubbub.io.files import PIPE, naming, read_text, write_text
from hubbub.planner import load_plan
from hubbub.plans import Plan
from hubbub.schema import Schema


def read_plan(path: str) -> Plan:
    """Read a plan from a JSON file, and recompute its guarantee and standard error."""
    with naming(path):
        return load_plan(read_text(path))


def write_plan(plan: Plan, path: str) -> None:
    """Write the canonical JSON of a plan, on one line."""
    write_text(path, plan.to_json() + "\n")


def read_estimate(path: str) -> Estimate:
    """Read an estimate from a JSON file that ``hubbub estimate -o`` wrote."""
    with naming(path):
        return Estimate.from_json(read_text(path))


def read_schema(path: str) -> Schema:
    """Read a schema from a JSON file, in the form it has in plans."""
    with naming(path):
        return Schema.from_document(parse(read_text(path), "the schema"))


def read_labels(text: str) -> list[str] | int:
    """Parse labels from one command-line argument: their number, a file with one per line, or a comma-separated list.

    >>> read_labels("12"), read_labels("red,green")
    (12, ['red', 'green'])
    """
    if text.isdecimal():
        return int(text)
    if "," in text and not Path(text).exists():
        return text.split(",")
    if text == PIPE:
        reject("labels", "be a number, a file, or a comma-separated list; standard input is not supported", text)
    try:
        lines = read_text(text).decode().splitlines()
    except UnicodeDecodeError:
        reject(f"the file of labels {text}", "be UTF-8 text")
    if not all(lines):
        reject(f"the file of labels {text}", f"have a label on every line; line {lines.index('') + 1:,} is empty")
    return lines
