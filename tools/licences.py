"""Write the table of licences of a CycloneDX inventory, and fail on a licence outside the allow-list.

python -m tools.licences build/sbom.cdx.json build/licences.md
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ALLOWED", "EXCEPTIONS", "Component", "read_components", "refused", "table"]

ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "HPND",
        "ISC",
        "License :: OSI Approved :: BSD License",  # which of the BSD licences, old metadata does not say
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    }
)
"""Licences that any dependency may have: SPDX identifiers, and classifiers where the metadata has no identifier."""

_OPTIONAL = "by exception: an optional extra, imported unmodified and not redistributed"
EXCEPTIONS: Mapping[str, tuple[str, str]] = {
    "psycopg": ("LGPL-3.0-only", _OPTIONAL),
    "psycopg-binary": ("LGPL-3.0-only", _OPTIONAL),
}
"""Packages that are allowed another licence: the licence as the inventory states it, and why."""


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """One installed package and its licences as its metadata states them."""

    name: str
    version: str
    licences: tuple[str, ...]


def read_components(document: Mapping[str, Any]) -> list[Component]:
    """Return the components of a CycloneDX document, sorted by name.

    >>> entry = {"name": "click", "version": "8", "licenses": [{"expression": "BSD-3-Clause"}]}
    >>> read_components({"components": [entry]})
    [Component(name='click', version='8', licences=('BSD-3-Clause',))]
    """
    return sorted(
        Component(entry["name"], entry.get("version", ""), tuple(_licences(entry.get("licenses", ()))))
        for entry in document.get("components", ())
    )


def _licences(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    found: dict[str, None] = {}
    for entry in entries:
        stated = entry.get("license", {})
        text = entry.get("expression") or stated.get("id") or stated.get("name") or ""
        if text:
            found[text] = None
    return list(found)


def refused(component: Component) -> bool:
    """Return True if a component has no licence, or none that is allowed.

    All parts of a conjunction must be allowed, and one part of a disjunction.

    >>> refused(Component("a", "1", ("MIT AND (Apache-2.0 OR GPL-2.0-only)",)))
    False
    >>> refused(Component("a", "1", ("MIT AND GPL-2.0-only",))), refused(Component("a", "1", ()))
    (True, True)
    """
    if component.name in EXCEPTIONS:
        return EXCEPTIONS[component.name][0] not in component.licences
    # A classifier says less than the identifier beside it.
    stated = [licence for licence in component.licences if not licence.startswith("License :: ")]
    return not component.licences or not all(map(_allowed, stated or component.licences))


def _allowed(expression: str) -> bool:
    """Return True if an SPDX expression can be met by allowed licences alone; ``AND`` binds closer than ``OR``."""
    if expression in ALLOWED:
        return True
    for operator, combine in ((" OR ", any), (" AND ", all)):
        parts = _split(expression, operator)
        if len(parts) > 1:
            return combine(map(_allowed, parts))
    return expression.startswith("(") and expression.endswith(")") and _allowed(expression[1:-1])


def _split(expression: str, operator: str) -> list[str]:
    """Split an expression at an operator outside parentheses.

    >>> _split("MIT AND (ISC OR 0BSD)", " AND ")
    ['MIT', '(ISC OR 0BSD)']
    """
    parts = [""]
    for piece in re.split(f"({operator})", expression):
        balanced = parts[-1].count("(") == parts[-1].count(")")
        if piece == operator and balanced:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def table(components: Iterable[Component]) -> str:
    """Return the components as a Markdown table."""
    rows = [
        f"| {one.name} | {one.version} | {'; '.join(one.licences) or 'not stated'} "
        f"| {'no' if refused(one) else EXCEPTIONS.get(one.name, ('', 'yes'))[1]} |"
        for one in components
    ]
    head = ["# Licences", "", "| package | version | licence | allowed |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


if __name__ == "__main__":
    found = read_components(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    Path(sys.argv[2]).write_text(table(found), "utf-8")
    bad = [one for one in found if refused(one)]
    for one in bad:
        print(
            f"{one.name} {one.version} has a licence outside the allow-list: {', '.join(one.licences) or 'none stated'}"
        )
    print(f"{len(found)} packages, {len(bad)} refused; see {sys.argv[2]}")
    sys.exit(1 if bad or not found else 0)
