"""The reference of all settings, and the commented settings file that ``hubbub serve init`` writes.

Both are generated from the fields of the configuration classes, so they name every entry with its current default.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from hubbub.errors import InvalidInput
from hubbub.service.runtime.settings import AnalyzerConfig, Common, Config, RelayConfig, ShufflerConfig

_TYPES: dict[Any, str] = {
    Path: "path",
    Path | None: "path",
    tuple[Path, ...]: "list of paths",
    tuple[str, ...]: "list of texts",
    float: "number",
    int: "whole number",
    bool: "true or false",
    str: "text",
}
CONFIGS: dict[str, type[Config]] = {
    "shuffler": ShufflerConfig,
    "analyzer": AnalyzerConfig,
    "relay": RelayConfig,
}
"""The configuration class of each role."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a settings file."""

    name: str
    type: str
    default: str
    """The default in TOML."""
    text: str
    """The sentence that describes the entry."""


def entries(kind: type[Config] | type[Common]) -> list[Entry]:
    """Return the entries that a configuration class defines, without those of ``common``."""
    types = get_type_hints(kind)
    return [
        Entry(one.name, _TYPES[types[one.name]], to_toml(one.default), one.metadata["text"])
        for one in dataclasses.fields(kind)
        if one.name != "common"
    ]


def to_toml(value: object) -> str:
    """Return a value of a setting in TOML.

    >>> to_toml(Path("link.pem")), to_toml(None), to_toml(("a", "b")), to_toml(False), to_toml(2_000_000)
    ('"link.pem"', '""', '["a", "b"]', 'false', '2_000_000')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:_}"
    # For texts and truth values, JSON is also TOML.
    return json.dumps("" if value is None else str(value) if isinstance(value, Path) else value)


def settings_file(role: str, given: Mapping[str, object]) -> str:
    """Return a settings file with every entry: those given are set, all others are comments with their defaults."""
    known = [*entries(CONFIGS[role]), *entries(Common)]
    unknown = sorted(set(given) - {one.name for one in known})
    if unknown:
        raise InvalidInput(f"the {role} has no settings {', '.join(unknown)}")
    lines = [
        f"# Settings of the {role}. A line that begins with '#' and a name shows a default.",
        "# Paths are relative to the folder of this file.",
    ]
    for one in known:
        setting = f"{one.name} = {to_toml(given[one.name])}" if one.name in given else f"# {one.name} = {one.default}"
        lines += ["", f"# {one.text}", setting]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Return the tables of all entries in Markdown."""
    parts = []
    kinds = (("All roles", Common), ("Shuffler", ShufflerConfig), ("Analyzer", AnalyzerConfig), ("Relay", RelayConfig))
    for title, kind in kinds:
        rows = [f"| `{one.name}` | {one.type} | `{one.default}` | {one.text} |" for one in entries(kind)]
        parts += [f"## {title}", "", "| entry | type | default | |", "|---|---|---|---|", *rows, ""]
    return "\n".join(parts)
