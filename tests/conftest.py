"""Hypothesis profiles, reproducible and without deadlines because CI machines are shared; markers by area."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
"""Options of Chromium."""
AREAS = (
    "accountant",
    "bits",
    "checker",
    "cli",
    "docs",
    "io",
    "lab",
    "mechanisms",
    "model",
    "notes",
    "numeric",
    "pipeline",
    "planner",
    "report",
    "results",
    "service",
    "spark",
    "studio",
    "wire",
)
"""Folders of ``tests``, and packages of ``hubbub`` for doctests, that give their tests a marker of the same name."""


def missing(what: str) -> NoReturn:
    """Skip a test visibly for want of a program, or fail it in CI, which must install everything."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let the pages of a browser wait as long as a busy machine may need, unless a test says otherwise."""

    def made(**options: Any) -> Any:
        context = make(**options)
        context.set_default_timeout(600_000)
        return context

    return made


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; without it the tests are skipped, but in continuous integration they fail."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        missing("Chromium (apt-get install -y --no-install-recommends chromium, or set CHROMIUM)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=FLAGS)
        opened.new_context = _patient(opened.new_context)  # type: ignore[method-assign]
        yield opened
        opened.close()


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
