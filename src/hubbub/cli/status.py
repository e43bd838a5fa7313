"""The answers of services as printed on the terminal: warnings, facts, and tables of tasks, keys and tokens."""

import time
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from hubbub.cli import screen

TIMES = {"created", "expires", "key_due"}
"""Entries that are times in seconds since 1970."""
DAY = 86_400
SOON = 30 * DAY
"""Time before the expiry of a certificate at which a warning is shown."""


def described(answer: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield what to print for the answer of a service: warnings first, then facts, then tables."""
    now = time.time()
    for text in warnings(answer, now):
        yield f"[red]{screen.plain(text)}[/]"
    plain = {name: value for name, value in answer.items() if not isinstance(value, dict | list)}
    if plain:
        yield screen.facts((name.replace("_", " "), _text(name, value, now)) for name, value in plain.items())
    for name, value in answer.items():
        if isinstance(value, dict):
            yield _table(name, [{name.rstrip("s"): key, **_entries(row)} for key, row in sorted(value.items())], now)
        elif isinstance(value, list):
            yield _table(name, [_entries(row) for row in value], now)


def warnings(answer: dict[str, Any], now: float) -> list[str]:
    """Return sentences about what an operator must do.

    >>> warnings({"good": False, "certificates": [{"file": "link_certificate", "expires": 1000}]}, now=2000.0)
    ['A bundle is lost or counted twice: stop the service and see the run book.', 'The link certificate has expired.']
    """
    found = []
    if answer.get("good") is False:
        found.append("A bundle is lost or counted twice: stop the service and see the run book.")
    for one in answer.get("certificates") or ():
        name, left = str(one["file"]).replace("_", " "), one["expires"] - now
        if left <= 0:
            found.append(f"The {name} has expired.")
        elif left < SOON:
            found.append(f"The {name} expires in {left / DAY:.0f} days: renew it.")
    if isinstance(answer.get("key_due"), int) and now - answer["key_due"] > DAY:
        found.append("The encryption key should have been replaced more than a day ago.")
    return found


def _entries(row: object) -> dict[str, Any]:
    return row if isinstance(row, dict) else {"": row}


def _table(name: str, rows: list[dict[str, Any]], now: float) -> RenderableType:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_text(column, row.get(column, ""), now) for column in columns] for row in rows]
    return screen.grid(name, columns, cells) if rows else f"{name}: none"


def _text(name: str, value: object, now: float) -> str:
    if name in TIMES and isinstance(value, int):
        return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(value))} UTC ({round((value - now) / DAY):+d} days)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
