"""Plans, results, schemas and lists of labels in files."""

import os
from pathlib import Path

from hubbub.documents import parse
from hubbub.errors import reject
from hubbub.io.files import PIPE, naming, read_text, write_text
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.planner import load_plan
from hubbub.results.result import Result


def read_plan(path: str) -> Plan:
    """Read a plan from a JSON file, and recompute its guarantee and standard error."""
    with naming(path):
        return load_plan(read_text(path))


def write_plan(plan: Plan, path: str) -> None:
    """Write the canonical JSON of a plan, on one line."""
    write_text(path, plan.to_json() + "\n")


def read_result(path: str) -> Result:
    """Read a result from a JSON file that ``hubbub estimate -o`` wrote, or that a service returned."""
    with naming(path):
        return Result.from_json(read_text(path))


def read_schema(path: str) -> Schema:
    """Read a schema from a JSON file, in the form it has in plans."""
    with naming(path):
        return Schema.from_document(parse(read_text(path), "the schema"))


_SUFFIXES = {".txt", ".csv", ".tsv", ".json", ".jsonl", ".lst", ".list", ".labels", ".dat", ".md"}
"""Suffixes of names that are taken for files even if the file does not exist."""


def read_labels(text: str) -> list[str] | int:
    """Parse labels from one command-line argument: their number, a file with one per line, or a comma-separated list.

    >>> read_labels("12"), read_labels("red,green"), read_labels("crashed")
    (12, ['red', 'green'], ['crashed'])
    """
    if text.isdecimal():
        return int(text)
    if not names_file(text):
        labels = text.split(",")
        if not all(labels):
            reject("labels", "not be empty; remove the comma at the end, or between two commas")
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


def names_file(text: str) -> bool:
    """Return True if labels on the command line are the name of a file, rather than the labels themselves.

    A text without commas also names a file, possibly one that does not exist, if it looks like a path.

    >>> names_file("labels.txt"), names_file("crashed"), names_file("red,green.txt")
    (True, False, False)
    """
    if text == PIPE or os.path.exists(text):  # noqa: PTH110 (Path.exists raises for long names)
        return True
    return "," not in text and (os.sep in text or Path(text).suffix.lower() in _SUFFIXES)
