"""Plans, schemas and lists of labels in files."""

from pathlib import Path

from hubbub.canonical import Json, as_text, as_whole, fields, parse
from hubbub.errors import InvalidInput, WireError, reject
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
    """A schema from JSON as it stands in plans: ``{"kind": "one_hot", "labels": ["red", "blue"], "max_set": 1}``."""
    read = fields(
        parse(read_text(path), "a schema"), "a schema", {"kind": as_text, "labels": _labels, "max_set": as_whole}
    )
    kind, labels, max_set = read["kind"], read["labels"], read["max_set"]
    assert isinstance(labels, list)
    assert isinstance(max_set, int)
    try:
        if kind == "at_most":
            return Schema.at_most(max_set, labels)
        if kind == "bits" and max_set == len(labels):
            return Schema.bits(labels)
        if kind == "one_hot" and max_set == 1:
            return Schema.one_hot(labels)
    except InvalidInput as error:
        raise WireError(f"a schema must be legal: {error}") from None
    raise WireError("a schema must be of kind bits, one_hot or at_most with its max_set, got another")


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


def _labels(value: Json) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [as_text(label) for label in value]
