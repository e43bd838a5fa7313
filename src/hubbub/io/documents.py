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

    A word without a dot or a slash that is no file is a single label, and so is one with a comma at its end.

    >>> read_labels("12"), read_labels("red,green"), read_labels("crashed"), read_labels("version 1.2,")
    (12, ['red', 'green'], ['crashed'], ['version 1.2'])
    """
    if text.isdecimal():
        return int(text)
    listed = "," in text or (text != PIPE and not any(mark in text for mark in "./\\"))
    if listed and not _exists(text):
        labels = text.removesuffix(",").split(",")
        if not all(labels):
            reject("labels", f"not be empty; label {labels.index('') + 1:,} of the list is")
        return labels
    if text == PIPE:
        reject("labels", "be a number, a file, or a comma-separated list; standard input is not supported", text)
    try:
        lines = read_text(text).decode().splitlines()
    except UnicodeDecodeError:
        reject(f"the file of labels {text}", "be UTF-8 text")
    if not all(lines):
        reject(f"the file of labels {text}", f"have a label on every line; line {lines.index('') + 1:,} is empty")
    return lines


def _exists(name: str) -> bool:
    """Return True if a file has this name; a list of labels may be too long to be one."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False
