"""Hypothesis profiles, reproducible and without deadlines because CI machines are shared; markers by area."""

import os
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

AREAS = (
    "accountant",
    "bits",
    "checker",
    "cli",
    "docs",
    "io",
    "lab",
    "notes",
    "numeric",
    "pages",
    "pipeline",
    "planner",
    "service",
)
"""Folders of ``tests``, and packages of ``hubbub`` for doctests, that give their tests a marker of the same name."""


def missing(what: str) -> NoReturn:
    """Skip a test visibly for want of a program, or fail it in CI, which must install everything."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by its area, and by the server or browser that it needs."""
    for item in items:
        folders = Path(item.path).parent.parts
        for area in AREAS:
            if area in folders:
                item.add_marker(area)
        needed = {*getattr(item, "fixturenames", ()), *map(str, _parameters(item))}
        if {"postgres", "postgres_url", "postgres_server"} & needed:
            item.add_marker("postgres")
        if {"browser", "chromium"} & needed:
            item.add_marker("browser")


def _parameters(item: pytest.Item) -> list[object]:
    specification = getattr(item, "callspec", None)
    return list(specification.params.values()) if specification else []
